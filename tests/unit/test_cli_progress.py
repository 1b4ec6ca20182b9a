"""The steps of `auglag paper all`, and the time left."""

from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
from typer.testing import CliRunner

from auglag.cli import app, paper
from auglag.cli.progress import Counted, Course
from auglag.log.schema import clock


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (65.2, "1:05"), (3784, "1:03:04")])
def test_the_clock(seconds, text):
    assert clock(seconds) == text


def test_the_time_for_later_steps_follows_the_speed_of_this_one():
    course = Course(each=0.5, later=100.0)
    assert course.left(0, 3.0) == 0.0
    assert course.left(10, 5.0) == pytest.approx(100.0)  # 5 CPU seconds took 5 seconds
    assert course.left(10, 2.5) == pytest.approx(50.0)  # two workers


def test_progress_in_a_file_ends_with_a_line_that_says_what_was_done(capfd):
    with Counted(course=Course(1.0, 0.0)) as show:
        for done in range(4):
            show(done, 3)
    assert "3 of 3 runs, 0:00 left" in capfd.readouterr().err


def test_all_of_the_paper_is_made_step_by_step_and_ends_by_saying_where_it_is(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(paper, "_left", lambda quick, output: dict.fromkeys(paper.SECONDS, 10))
    monkeypatch.setattr(paper, "_deterministic", lambda what, *rest: made.append((what, rest[-1])))
    monkeypatch.setattr(paper, "_stochastic", lambda figures, *rest: made.append(("stochastic", rest[-1])))
    for name in ("pstorm", "complexity", "table1"):
        monkeypatch.setattr(paper, f"_{name}", lambda *rest, name=name: made.append((name, rest[-1])))
    done = CliRunner().invoke(app, ["paper", "all", "--quick", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert [name for name, _ in made] == ["fig1", "table2", "variants", "stochastic", "pstorm", "complexity", "table1"]
    later = [course.later for _, course in made if isinstance(course, Course)]
    assert later == sorted(later, reverse=True)
    assert later[-1] == 0.0
    assert str(Path(tmp_path) / "stochastic/stochastic.md") in done.output
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_an_interrupted_step_ends_with_its_own_status_and_keeps_what_is_done(tmp_path, monkeypatch):
    from auglag.paper import complexity

    def made(job):
        levels = complexity.WAYS[job.name].levels
        return {
            "key": job.key,
            "eps": list(levels),
            **{k: [int(100 / e**2) for e in levels] for k in ("steps", "full")},
        }

    def interrupted(job):
        if job.trial:
            raise KeyboardInterrupt
        return made(job)

    monkeypatch.setattr(complexity, "measure", interrupted)
    done = CliRunner().invoke(app, ["paper", "complexity", "--quick", "-o", str(tmp_path), "--workers", "1"])
    assert done.exit_code == 130
    before = complexity.remaining(tmp_path / "complexity", quick=True)
    assert before == len(complexity._jobs(True)) - 1
    monkeypatch.setattr(complexity, "measure", made)
    done = CliRunner().invoke(app, ["paper", "complexity", "--quick", "-o", str(tmp_path), "--workers", "1"])
    assert done.exit_code == 0
    assert complexity.remaining(tmp_path / "complexity", quick=True) == 0
    assert complexity.remaining(tmp_path / "complexity") > 40  # quick runs have a smaller limit: they do not count
