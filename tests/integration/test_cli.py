"""The command line as a user meets it: what commands print, what they leave, how they end.

Starting a process takes a second, so that only what depends on one (signals, workers, the exit status that a shell
sees) has one; the rest calls the same entry point in the process of the tests.
"""

import csv
import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from auglag.bench.store import Store
from helpers.commands import auglag

pytest.importorskip("typer")
pytest.importorskip("psutil")
STILL = f"{Path(__file__).parents[1] / 'helpers' / 'solvers.py'}:Still"
__all__ = ["auglag"]  # a fixture
COMMAND = [sys.executable, "-m", "auglag.cli"]


def in_a_process(*arguments, code=0, **changes):
    """Run a command; its output, after a check of its exit status."""
    options = {"capture_output": True, "text": True, "check": False, "env": {**os.environ, "COLUMNS": "200"}, **changes}
    done = subprocess.run([*COMMAND, *map(str, arguments)], **options)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def test_solve_shows_the_iterations_and_what_came_of_them():
    done = in_a_process("solve", "HS71")
    assert "HS71: 4 variables, 2 constraint rows" in done.stdout
    assert "residual" in done.stdout
    assert "17.014017" in done.stdout
    assert done.stderr == ""


def test_a_model_without_a_command_is_told_which_there_are(auglag, tmp_path):
    done = auglag(tmp_path / "model.nl", code=2)
    assert f"`auglag solve {tmp_path}/model.nl` solves it" in done.stderr
    assert f"`auglag {tmp_path}/model -AMPL` writes {tmp_path}/model.sol" in done.stderr


def test_interrupted_solve_says_what_was_kept_and_how_to_go_on(tmp_path):
    model = tmp_path / "slow.py"
    model.write_text("""
import os, signal
import auglag

signal.signal(signal.SIGINT, signal.default_int_handler)
calls = 0

def fun(x):
    global calls
    calls += 1
    if calls == 40:
        os.kill(os.getpid(), signal.SIGINT)
    return (x[0] - 3) ** 4 + x[1] ** 2

circle = {"type": "eq", "fun": lambda x: x[0] ** 2 + x[1] ** 2 - 1}
problem = auglag.Problem(fun, [2.0, 2.0], constraints=[circle])
""")
    state = tmp_path / "state.npz"
    done = in_a_process("solve", f"{model}:problem", "--save", state, "--inner", "lbfgsb", code=130)
    assert f"the state is kept in {state}; to go on, give the same options and --resume {state}" in done.stderr
    assert state.exists()
    assert "nothing was saved" in in_a_process("solve", f"{model}:problem", "--inner", "lbfgsb", code=130).stderr


def test_solve_as_json_is_json_and_nothing_else(auglag):
    found = json.loads(auglag("solve", "HS71", "--json", "--tol", "1e-5", "--variant", "always-full").stdout)
    assert found["success"]
    assert found["status"] == "SOLVED"
    assert found["objective"] == pytest.approx(17.0140173, rel=1e-4)
    assert found["residual"] <= 1e-5
    assert len(found["x"]) == 4


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["HS7l"], 2, "did you mean"),
        (["HS71", "--variant", "adaptive"], 2, "variant must be one of the known names, got 'adaptive'"),
        (["HS71", "--tol", "-1"], 2, "tol must be positive and finite, got -1"),
        (["HS71", "--param", "x"], 2, "--param must be a number or NAME=NUMBER, got 'x'"),
        (["HS71", "--log", "no such folder/run.jsonl"], 2, "--log must lie in an existing folder, got 'no such"),
        (["HS71", "--evaluations", "3", "--quiet"], 5, ""),
        (["HS71", "--nonsense"], 2, "No such option"),
    ],
)
def test_exit_codes_and_messages(auglag, arguments, code, words):
    done = auglag("solve", *arguments, code=code)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_problem_of_ones_own_and_a_check_of_its_solution(auglag, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import auglag\n"
        "def build():\n"
        "    row = {'type': 'eq', 'fun': lambda x: x[0] + x[1] - 2}\n"
        "    return auglag.Problem(lambda x: x @ x, [3.0, 0.0], constraints=row, name='mine')\n"
        "number = 3\n"
    )
    name = f"{tmp_path / 'mine.py'}:build"
    found = auglag("solve", name, "--json").stdout
    assert json.loads(found)["objective"] == pytest.approx(2.0)
    (tmp_path / "good.json").write_text(found)
    assert "residual" in auglag("certify", name, tmp_path / "good.json").stdout
    (tmp_path / "bad.json").write_text('{"x": [2.0, 0.0]}')
    auglag("certify", name, tmp_path / "bad.json", code=6)
    (tmp_path / "worse.json").write_text("[1, 2]")
    assert "must be a JSON object with an entry 'x'" in auglag("certify", name, tmp_path / "worse.json", code=2).stderr
    assert "there is no file" in auglag("solve", f"{tmp_path}/no.py:build", code=2).stderr
    assert "did you mean 'build'" in auglag("solve", f"{name}s", code=2).stderr
    assert f"as in {tmp_path}/mine.py:problem" in auglag("solve", tmp_path / "mine.py", code=2).stderr
    assert "must be an auglag.Problem" in auglag("solve", f"{tmp_path / 'mine.py'}:number", code=2).stderr


def test_a_problem_of_ones_own_may_import_its_neighbours(auglag, tmp_path):
    (tmp_path / "neighbour.py").write_text("AIM = 3.0\n")
    (tmp_path / "mine.py").write_text(
        "import auglag\nfrom neighbour import AIM\nproblem = auglag.Problem(lambda x: (x[0] - AIM) ** 2, [0.0])\n"
    )
    found = auglag("solve", f"{tmp_path / 'mine.py'}:problem", "--json").stdout
    assert json.loads(found)["x"] == [pytest.approx(3.0)]


def test_a_run_can_be_saved_and_resumed(auglag, tmp_path):
    state = tmp_path / "state.npz"
    run = ["solve", "HS71", "--preset", "paper", "--tol", "1e-4"]
    auglag(*run, "--quiet", "--save", state, "--evaluations", "60", code=5)
    whole = json.loads(auglag(*run, "--json").stdout)
    again = json.loads(auglag(*run, "--json", "--resume", state).stdout)
    assert again["x"] == whole["x"]


def test_the_doctor_says_what_is_there(auglag):
    listing = auglag("doctor").stdout
    assert "numpy" in listing
    assert "auglag[torch]" in listing
    assert "auglag[sklearn]" in listing
    assert "CUTEst problems are" in listing
    assert "solver auglag" in listing


def test_parameters_of_a_problem_are_passed_on(auglag):
    assert '"n": 5' in auglag("solve", "LUKVLE1", "--param", "5", "--json").stdout


def test_bench_compares_solvers_and_a_second_call_finds_all_done(tmp_path):
    arguments = ["bench", "HS6", "HS71", "-s", "auglag", "-s", "auglag:preset=paper,tol=1e-3", "-o", tmp_path]
    first = in_a_process(*arguments, "--workers", "2")
    assert "auglag:preset=paper,tol=1e-3" in first.stdout
    assert "4 of 4 runs" in first.stderr
    second = in_a_process(*arguments)
    assert "4 runs are in the store already, 0 to do" in second.stderr
    assert second.stdout == first.stdout
    with gzip.open(tmp_path / "runs.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert {(row["problem"], row["label"]) for row in rows} >= {("HS6", "auglag"), ("HS71", "auglag")}
    for name in ("tables.md", "profile.pdf", "profile.svg", "profile.png", "solved-at.png"):
        assert (tmp_path / name).stat().st_size > 500


def test_bench_lists_solvers_with_versions_or_what_to_install(auglag):
    listing = auglag("bench", "--list").stdout
    assert "auglag" in listing
    for line in listing.splitlines():
        assert any(character.isdigit() for character in line) or "pip install" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "HS7l"], "did you mean"),
        (["bench", "HS71", "-s", "ipop"], "solver must be one of the known names, got 'ipop'"),
        (["bench", "HS71", "-s", "auglag:gama=2"], "no option 'gama'; did you mean 'gamma'"),
        (["bench", "HS71", "-s", "auglag:variant=foo"], "variant must be one of the known names, got 'foo'"),
        (["bench", "HS71", "-s", "auglag:tau=2"], "tau must lie in (0, 1), got 2"),
        (["bench", "HS71", "-s", "my.py"], "name the class, too, as in my.py:MySolver"),
        (["bench", "HS71", "--gradients", "0"], "Limits.gradients must be positive"),
        (["bench", "HS71", "--every", "0"], "--every must be at least 1"),
    ],
)
def test_mistakes_are_one_sentence(auglag, tmp_path, arguments, words):
    done = auglag(*arguments, "-o", tmp_path, code=2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_store_is_reported_and_left_untouched(auglag, tmp_path):
    (tmp_path / "records.sqlite").write_bytes(b"scrambled" * 1000)
    done = auglag("bench", "HS71", "-o", tmp_path, code=2)
    assert "is not a store of benchmark records" in done.stderr
    assert (tmp_path / "records.sqlite").read_bytes() == b"scrambled" * 1000


def test_interrupted_from_the_keyboard_it_keeps_what_is_done_and_goes_on(tmp_path):
    arguments = ["bench", *(f"HS{k}" for k in (6, 7, 8, 9, 10, 11, 12, 13, 14, 15)), "-s", f"{STILL}:seconds=0.2"]
    arguments += ["-o", str(tmp_path), "--workers", "1"]
    heard = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom auglag.cli import main\nmain()"
    )
    command = [sys.executable, "-c", heard, *arguments]  # a test run in the background ignores the signal
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    store = tmp_path / "records.sqlite"
    deadline = time.monotonic() + 60
    while not (store.exists() and _count(store) >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    done = _count(store)
    assert 2 <= done < 10
    kept = f"{done} finished runs are kept in {store}, {10 - done} are left"
    assert f"interrupted: {kept}; to go on: auglag {shlex.join(arguments)}" in errors
    assert f"{done} runs are in the store already, {10 - done} to do" in in_a_process(*arguments).stderr
    assert _count(store) == 10


def _count(path):
    with Store(path) as store:
        return len(store)
