"""The package as users get it: built, installed into an empty environment, used from Python and the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the group 'dev' of pyproject.toml is not installed")
build = pytest.importorskip("build")

ROOT = Path(__file__).parents[2]
VERSION = re.findall(r'__version__ = "(.+)"', (ROOT / "src/auglag/_version.py").read_text(encoding="utf-8"))[0]
HS71 = """
import auglag
from auglag.problems import hock_schittkowski

result = auglag.minimize(hock_schittkowski.get("HS71").problem())
assert result.success, result.message
print(f"{result.fun:.6f}", auglag.__version__, auglag.__file__)
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    builder = build.ProjectBuilder(ROOT)
    return Path(builder.build("wheel", str(folder))), Path(builder.build("sdist", str(folder)))


def run(*command):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def empty(dist, tmp_path_factory):
    """An environment with NumPy, SciPy and the wheel in it, and nothing else."""
    if sys.platform == "win32":
        pytest.skip("links need a privilege on Windows; `make package` installs the wheel there")
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
    import numpy
    import scipy

    for module in (numpy, scipy):
        package = Path(module.__file__).parent
        for path in (package, *package.parent.glob(f"{package.name}[.-]*")):
            (site / path.name).symlink_to(path)
    install = ("-m", "pip", "--python", python, "install", "--no-index", "--quiet", "--disable-pip-version-check")
    run(sys.executable, *install, dist[0])
    return folder / "bin"


def test_the_wheel_solves_hs71_from_python(empty):
    value, version, path = run(empty / "python", "-c", HS71).split()
    assert (value, version) == ("17.014017", VERSION)
    assert path.startswith(str(empty.parent))


def test_the_wheel_solves_hs71_from_the_command_line(empty):
    assert "17.01401" in run(empty / "auglag", "solve", "HS71")


def test_the_wheel_is_pure_python_typed_and_has_no_tests(dist):
    with zipfile.ZipFile(dist[0]) as archive:
        names = archive.namelist()
    assert dist[0].name == f"auglag-{VERSION}-py3-none-any.whl"
    assert "auglag/py.typed" in names
    assert {name.partition("/")[0] for name in names} == {"auglag", f"auglag-{VERSION}.dist-info"}


def test_the_source_distribution_has_what_a_packager_needs(dist):
    top = f"auglag-{VERSION}"
    with tarfile.open(dist[1]) as archive:
        names = archive.getnames()
    wanted = ("LICENSE", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "hatch_build.py")
    read_by_tests = (
        "tests/conftest.py",
        "benchmarks/attack.py",
        "docs/index.md",
        "mkdocs.yml",
        "examples/run_gallery.py",
    )
    assert {f"{top}/{name}" for name in (*wanted, *read_by_tests)} <= set(names)


def test_the_page_of_the_package_index_has_no_dead_links(dist):
    with zipfile.ZipFile(dist[0]) as archive:
        page = archive.read(f"auglag-{VERSION}.dist-info/METADATA").decode()
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    here = f"{project()['urls']['Source']}/"
    assert f"{here}raw/v{VERSION}/docs/pictures/gallery.png" in links
    assert all(link.startswith(("https://", "#")) for link in links)
    files = [
        link.split("/", 7)[7].partition("#")[0] for link in links if link.startswith((f"{here}blob", f"{here}raw"))
    ]
    assert all((ROOT / file).exists() for file in files)


def test_both_pass_twine(dist):
    pytest.importorskip("twine")
    run(sys.executable, "-m", "twine", "check", "--strict", *dist)


# ------------------------------------------------------------------------------------- one version, one floor, one home


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_changelog_has_a_section_for_the_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == VERSION


def test_the_classifiers_name_the_pythons_that_are_tested():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    named = [line.rpartition(" ")[2] for line in project()["classifiers"] if ":: 3." in line]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == [named[0], named[-1]]
    assert project()["requires-python"] == f">={named[0]}"


def test_the_workflow_calls_targets_of_the_makefile():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    called = {word for line in re.findall(r"run: make (.*) PYTHON=python", workflow) for word in line.split()}
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"lint", "types", "unit", "oldest", "docs", "package", "demo"} <= called <= targets


def test_links_to_the_repository_agree():
    source = project()["urls"]["Source"]
    for name in ("CITATION.cff", "SECURITY.md"):
        assert source in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_citation_names_the_version_and_runs_of_tags_are_not_cut_off():
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == VERSION
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    assert workflow["concurrency"]["cancel-in-progress"] == "${{ github.event_name == 'pull_request' }}"


def test_every_extra_of_a_framework_is_in_the_doctors_list():
    from auglag.commands.actions import PACKAGES

    extras = set(project()["optional-dependencies"]) - {"all", "bench", "baselines"}
    named = set(re.findall(r"auglag\[(\w+)\]", " ".join(PACKAGES.values())))
    assert extras <= named
    everything = set(project()["optional-dependencies"]["all"][0].removeprefix("auglag[").removesuffix("]").split(","))
    assert extras - everything == {"torch", "gpu"}
