"""The page on the command line: its code runs, its lists are complete."""

import re
from pathlib import Path

import pytest

from auglag.log import FIELDS

pytest.importorskip("typer")
PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def test_the_code_runs_and_leaves_logs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space = {}
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)):
        exec(compile(block, f"docs/cli.md block {i + 1}", "exec"), space)
    assert space["result"].success
    assert (tmp_path / "run.jsonl").exists()
    assert capsys.readouterr().out == "finished [0.1, 0.01, 0.001]\n"


def test_every_field_of_the_log_is_on_the_page():
    for event, fields in FIELDS.items():
        part = PAGE.partition(f"**`{event}`**")[2]
        for name, words in fields.items():
            assert f"| `{name}` | {words} |" in part


def test_every_command_and_its_exit_codes_are_on_the_page():
    from auglag.cli.base import BAD_USAGE, EXIT_CODES, FAILED, app, paper

    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert [name for name in names if f"`auglag {name}" not in PAGE] == []
    experiments = [command.name or command.callback.__name__ for command in paper.registered_commands]
    section = PAGE.partition("## paper")[2]
    assert [name for name in experiments if name not in section] == []
    for code in {*EXIT_CODES.values(), BAD_USAGE, FAILED}:
        assert f"| {code} | " in PAGE


def test_the_pictures_are_there():
    for name in re.findall(r"\]\((images/[\w.-]+)\)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / name).stat().st_size > 1000
