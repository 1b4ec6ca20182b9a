"""What `solve` draws and logs, `compare` and `report`: commands run in this process, which starts no interpreter."""

import json
import shutil

import pytest

pytest.importorskip("typer")
pytest.importorskip("psutil")
from auglag.bench.gathering import gather
from auglag.errors import InputError
from helpers.commands import auglag

__all__ = ["auglag"]


def test_solve_draws_and_logs_what_it_does(auglag, tmp_path):
    for name, head in {"a.png": b"\x89PNG", "a.svg": b"<?xml", "a.pdf": b"%PDF"}.items():
        file = tmp_path / name
        done = auglag(
            "solve", "HS71", "--variant", "adaptive-full", "-q", "--plot", file, "--log", tmp_path / "run.jsonl"
        )
        assert f"Plot: {file}" in done.stdout
        assert file.read_bytes().startswith(head)
    events = [json.loads(line)["event"] for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert (events[0], events[-1]) == ("start", "end")
    assert "--plot must end in .png, .svg or .pdf" in auglag("solve", "HS71", "--plot", "a.gif", code=2).stderr
    assert "existing folder" in auglag("solve", "HS71", "--log", "no/such/run.jsonl", code=2).stderr


def test_solve_says_its_message_once_and_the_table_has_both_halves_of_the_residual(auglag):
    lines = auglag("solve", "HS71", "--variant", "adaptive-full").stdout.splitlines()
    head = lines[1].split()
    assert head[-8:] == ["residual", "violation", "stationary", "penalty", "|y|", "inner", "grads", "status"]
    for row in (line.split() for line in lines[2:] if line.endswith("converged")):
        assert float(row[2]) == pytest.approx(float(row[3]) + float(row[4]), rel=0.02)
    assert sum(line.startswith("Solved:") for line in lines) == 1


def test_infeasible_and_unbounded_problems_have_codes_of_their_own(auglag, tmp_path):
    (tmp_path / "bad.py").write_text(
        "import auglag\n"
        "rows = [{'type': 'ineq', 'fun': lambda x: x[0] - 1}, {'type': 'ineq', 'fun': lambda x: -1 - x[0]}]\n"
        "none = auglag.Problem(lambda x: x @ x, [3.0], constraints=rows)\n"
        "row = {'type': 'eq', 'fun': lambda x: x[0] - x[1]}\n"
        "down = auglag.Problem(lambda x: -x[0] - x[1], [1.0, 1.0], constraints=row)\n"
    )
    auglag("solve", f"{tmp_path}/bad.py:none", "-q", code=3)
    auglag("solve", f"{tmp_path}/bad.py:down", "-q", code=4)


def test_compare_runs_solvers_on_problems_and_files_and_goes_on_from_its_store(auglag, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import auglag\n"
        "row = {'type': 'eq', 'fun': lambda x: x[0] + x[1] - 2, 'jac': lambda x: [[1.0, 1.0]]}\n"
        "mine = auglag.Problem(lambda x: x @ x, [3.0, 0.0], jac=lambda x: 2 * x, constraints=row)\n"
    )
    name, out = f"{tmp_path / 'mine.py'}:mine", tmp_path / "out"
    arguments = [
        "compare",
        "HS6",
        name,
        "-s",
        "auglag",
        "-s",
        "auglag:variant=always-full",
        "-o",
        out,
        "--workers",
        "1",
    ]
    done = auglag(*arguments)
    assert "Solvers in pairs" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("HS6 ")]
    assert (out / "problems.md").read_text().count("\n| ") >= 3
    assert (out / "profile.png").exists()
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + "\n# changed\n")
    second = auglag(*arguments).stderr
    assert "2 runs are in the store already, 2 to do" in second  # a file that was changed is another problem
    assert "2 of 2 runs" in second
    (tmp_path / "other").mkdir()
    shutil.copy(out / "records.sqlite", tmp_path / "other")
    again = auglag("compare", "--store", out, "--store", tmp_path / "other", "HS6", "-o", tmp_path / "two")
    assert "auglag:variant=always-full (other)" in again.stdout
    assert "auglag (out)" in again.stdout
    chosen = gather([out], labels=["auglag"], problems=["HS6"])
    assert [(record.title, record.run.problem) for record in chosen] == [("auglag", "HS6")]
    with pytest.raises(InputError, match="must be one of those in the store, got 'augla'; did you mean 'auglag'"):
        gather([out], labels=["augla"])
    with pytest.raises(InputError, match="stores must be different ones"):
        gather([out, out / "records.sqlite"])
    assert "Report: " in auglag("report", out).stdout
    assert "HS6" in (out / "records.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "HS6", "-s", "auglag"], "--solver must be given at least twice, got auglag"),
        (["compare", "-s", "auglag", "-s", "ipopt"], "name the problems to compare on"),
        (["compare", "--store", "no.sqlite"], "there is no store 'no.sqlite'"),
        (["compare", "HS6", "-s", "auglag", "-s", "ipop"], "solver must be one of the known names, got 'ipop'"),
        (["compare", "--label", "a", "HS6"], "which is missing"),
        (["compare", "HS6", "--store", "a", "-s", "auglag"], "give either"),
        (["report", "no.sqlite"], "there is no 'no.sqlite'"),
        (["report", "."], "a folder must hold one store"),
    ],
)
def test_mistakes_of_compare_and_report_are_one_sentence(auglag, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = auglag(*arguments, code=2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())  # no empty folder is left


@pytest.mark.parametrize("name", ["run.jsonl", "run.log"])
def test_a_report_of_a_log_is_one_page(auglag, tmp_path, name):
    auglag("solve", "HS71", "-q", "--log", tmp_path / name)
    assert f"Report: {tmp_path / 'run.html'}" in auglag("report", tmp_path / name).stdout
    text = (tmp_path / "run.html").read_text()
    assert '"problem":"HS71"' in text
    assert "</html>" in text
