"""The site builds without a warning, has every page, and asks for nothing outside itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the group 'docs' of pyproject.toml is not installed")
pytest.importorskip("mkdocstrings")
pytest.importorskip("latex2mathml")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_every_page_and_every_example_is_there(site):
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    pages = [page.with_name("index.html") if page.name == "README.html" else page for page in pages]
    pages += [Path("gallery", path.stem + ".html") for path in (ROOT / "examples" / "gallery").glob("[a-z]*.py")]
    assert [str(page) for page in pages if not (site / page).is_file()] == []


def test_every_page_of_docs_is_in_the_navigation():
    written = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page not in written] == []


def test_no_page_loads_anything_from_elsewhere(site):
    loads = re.compile(r"<(?:script|img|link rel=\"stylesheet\")[^>]+(?:src|href)=\"(https?:[^\"]+)")
    found = {url for page in site.rglob("*.html") for url in loads.findall(page.read_text(encoding="utf-8"))}
    assert found == set()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("reference/index.html", 'id="auglag.minimize.minimize"'),
        ("reference/stochastic.html", 'id="auglag.stochastic.minimize.minimize"'),
        ("reference/prox.html", "TotalVariation1D"),
        ("gallery/power_flow.html", "17551.89"),
        ("results/solvers/index.html", "solved-at.png"),
        ("results/batches.html", 'benchmarks/results/batched_cpu.html"'),
    ],
)
def test_what_is_generated_is_where_it_belongs(site, page, text):
    assert text in (site / page).read_text(encoding="utf-8")
