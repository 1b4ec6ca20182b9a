import csv
import gzip
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from auglag.bench import baselines
from auglag.bench.export import export
from auglag.bench.isolated import RunError, Worker
from auglag.bench.record import Ending
from auglag.bench.runner import outdated, run_all
from auglag.bench.spec import Limits, Run
from auglag.bench.store import Store
from auglag.errors import InputError, OptionError

pytest.importorskip("psutil")
HERE = Path(__file__).parents[2] / "helpers" / "solvers.py"


def own(name):
    return f"{HERE}:{name}"


@pytest.fixture(scope="module")
def worker():
    with Worker() as process:
        yield process


def run(solver, **limits):
    return Run("HS71", own(solver), limits=Limits(**limits))


def test_a_run_is_solved_judged_and_counted_by_the_harness(worker):
    record = worker.run(Run("HS71", "auglag", {"tol": 1e-8}))
    assert record.ending == Ending.RETURNED
    assert record.claims_success
    assert all(record.solved(eps) for eps in (1e-3, 1e-6, 1e-8))
    assert record.objective == pytest.approx(17.0140173, rel=1e-8)
    assert record.residual <= 1e-8
    assert 0 < record.gradients <= record.values
    assert (record.n, record.m) == (4, 2)
    assert len(record.x) == 4
    assert record.history[-1]["beta"] == record.extra["beta"]
    assert {"auglag", "numpy", "python", "machine", "solver"} <= set(record.environment)


def test_a_hang_is_killed_at_the_wall_clock_limit(worker):
    record = worker.run(run("Hangs", wall=0.6))
    assert record.ending == Ending.TIMEOUT
    assert "0.6 s" in record.message
    assert not record.solved(1e-3)


def test_memory_is_limited(worker):
    record = worker.run(run("Grows", memory=400))
    assert record.ending == Ending.MEMORY
    assert "of 400" in record.message


@pytest.mark.parametrize(("solver", "code"), [("Crashes", "-11"), ("Exits", "3")])
def test_a_crash_costs_one_record(worker, solver, code):
    record = worker.run(run(solver))
    assert record.ending == Ending.CRASH
    assert f"exit status {code}" in record.message
    assert worker.run(run("Still")).ending == Ending.RETURNED


def test_an_exception_costs_one_record_and_the_last_point_is_judged(worker):
    record = worker.run(run("Raises"))
    assert record.ending == Ending.EXCEPTION
    assert record.message.startswith("RuntimeError: roundoff-limited (solvers.py:")
    assert record.x == (2.0, 6.0, 6.0, 2.0)


def test_what_a_solver_prints_does_not_disturb(worker):
    assert worker.run(run("Talks")).message == "did not move"


def test_a_claim_is_not_a_solution(worker):
    for solver in ("Lies", "Nans"):
        record = worker.run(run(solver))
        assert record.claims_success
        assert not record.solved(1e-3)


def test_an_unusable_answer_costs_one_record(worker):
    record = worker.run(run("Nonsense"))
    assert record.ending == Ending.EXCEPTION
    assert record.message.startswith("unusable answer: ValueError")


def test_the_gradient_limit_ends_a_solver_that_does_not_listen(worker):
    record = worker.run(run("Greedy", gradients=50))
    assert record.ending == Ending.LIMIT
    assert record.gradients <= 50


def test_auglag_ended_by_a_limit_still_hands_back_its_best_point(worker):
    record = worker.run(Run("HS71", "auglag", {"preset": "paper", "tol": 1e-8}, Limits(gradients=60)))
    assert record.ending == Ending.LIMIT
    assert record.extra["status"] == "EVALUATION_LIMIT"
    assert record.history


def test_runs_that_cannot_be_set_up_raise(worker):
    with pytest.raises(RunError, match=r"HS7l.*did you mean"):
        worker.run(Run("HS7l", "auglag"))


def test_a_second_call_finds_everything_done_and_takes_new_labels(tmp_path):
    runs = [Run(name, own("Still"), label="a") for name in ("HS6", "HS7", "HS71")]
    seen = []
    with Store(tmp_path / "s.sqlite") as store:
        first = run_all([*runs, runs[0]], store, workers=2, watch=seen.append)
        assert [p.done for p in seen] == [1, 2, 3]
        assert (seen[0].total, seen[0].before, seen[-1].left) == (3, 0, 0.0)
        seen.clear()
        renamed = [Run(r.problem, r.solver, label="b") for r in runs]
        again = run_all(renamed, store, workers=2, watch=seen.append)
    assert not seen
    assert [r.title for r in first] == ["a"] * 4
    assert [(r.run.problem, r.title) for r in again] == [("HS6", "b"), ("HS7", "b"), ("HS71", "b")]


def test_mistakes_are_found_before_anything_runs(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(OptionError, match=r"solver must be one of the known names, got 'ipoptt'"):
            run_all([Run("HS71", own("Still")), Run("HS71", "ipoptt")], store)
        with pytest.raises(InputError, match=r"solver 'auglag' has no option 'gama'; did you mean 'gamma'\?"):
            run_all([Run("HS71", "auglag", {"gama": 2})], store)
        with pytest.raises(InputError, match="workers must be at least 1, got 0"):
            run_all([], store, workers=0)
        assert len(store) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere.py:X", "there is no file"), ("no.such:X", "cannot be imported"), ("json:loads", "must be a class")],
)
def test_a_solver_of_ones_own_that_is_not_there(name, words):
    with pytest.raises(InputError, match=words):
        baselines.get(name)


def test_an_error_in_a_worker_reaches_the_caller_and_keeps_what_is_done(tmp_path):
    runs = [Run("HS6", own("Still")), Run("NOSUCH", own("Still"))]
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.raises(RunError, match="NOSUCH"):
            run_all(runs, store, workers=1)
        assert len(store) == 1


def test_records_of_another_version_are_told(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(HERE.read_text())
    runs = [Run("HS6", f"{mine}:Still"), Run("HS6", "auglag", {"tol": 1e-3})]
    with Store(tmp_path / "s.sqlite") as store:
        records = run_all(runs, store)
    assert not outdated(records)
    changed = [replace(r, environment={**r.environment, "solver": "other", "build": "other"}) for r in records]
    assert outdated(changed) == changed
    assert outdated([replace(r, environment={}) for r in records]) == []


def test_two_processes_may_fill_one_store(tmp_path):
    runs = [Run("HS6", own("Still"), seed=k) for k in range(3)]
    with Store(tmp_path / "s.sqlite") as one, Store(tmp_path / "s.sqlite") as other:
        seen = []

        def watch(progress):
            if not seen:
                run_all(runs, other)  # somebody else does them all meanwhile
            seen.append((progress.done, progress.left >= 0))

        assert len(run_all(runs, one, watch=watch)) == 3
        assert len(one) == 3
    assert seen == [(1, True), (2, True), (3, True)]


def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path):
    """kill -9 of the whole harness: nothing finished is lost, nothing is done twice, workers do not survive."""
    script = textwrap.dedent(f"""
        import sys
        from auglag.bench.runner import run_all
        from auglag.bench.spec import Run
        from auglag.bench.store import Store
        runs = [Run("HS71", {own("Still")!r}, {{"seconds": 0.1}}, seed=k) for k in range(20)]
        with Store(sys.argv[1]) as store:
            records = run_all(runs, store, workers=2, watch=lambda p: print(p.done, p.before, flush=True))
        print("all", len(records))
    """)
    command = [sys.executable, "-c", script, str(tmp_path / "s.sqlite")]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for _ in range(4):
        first.stdout.readline()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    with Store(tmp_path / "s.sqlite") as store:
        done = {record.run.seed: record.seconds for record in store.records()}
    assert 4 <= len(done) < 20
    second = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert second[0] == f"1 {len(done)}"
    assert second[-2] == "all 20"
    with Store(tmp_path / "s.sqlite") as store:
        records = list(store.records())
    assert sorted(record.run.seed for record in records) == list(range(20))
    assert all(record.seconds == done[record.run.seed] for record in records if record.run.seed in done)


def test_a_worker_ends_when_its_parent_is_killed():
    psutil = pytest.importorskip("psutil")
    script = textwrap.dedent(f"""
        from auglag.bench.isolated import Worker
        from auglag.bench.spec import Run
        worker = Worker()
        worker.run(Run("HS71", {own("Still")!r}))
        print(worker._process.pid, flush=True)
        worker.run(Run("HS71", {own("Hangs")!r}))
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_records_are_exported_as_tables(tmp_path):
    runs = [Run("HS71", "auglag", {"tol": 1e-3}), Run("HS71", own("Still"))]
    with Store(tmp_path / "s.sqlite") as store:
        records = run_all(runs, store)
    with gzip.open(export(records, tmp_path / "r.csv.gz"), "rt") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [record.title for record in records]
    assert rows[0]["option_tol"] == "0.001"
    assert rows[1]["option_tol"] == ""
    with pytest.raises(InputError, match=r"must end in \.csv, \.csv\.gz or \.parquet"):
        export(records, tmp_path / "r.xlsx")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(export(records, tmp_path / "r.parquet"))
    assert table.column("gradients").to_pylist() == [record.gradients for record in records]
