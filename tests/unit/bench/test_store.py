import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from auglag.bench.record import Ending, Record, flat
from auglag.bench.spec import Limits, Run
from auglag.bench.store import Store, StoreError


def record(problem="HS71", **changes):
    run = Run(problem, "auglag", {"tol": 1e-3, "variant": "adaptive-full"}, Limits(gradients=7), label="ours")
    fields = {"ending": Ending.RETURNED, "violation": 1e-9, "stationarity": (0.0, 1e-9, math.inf), "x": (1.0, math.nan)}
    return Record(run=run, **{**fields, "history": [{"k": 1.0, "beta": 2.5}], "extra": {"beta": 1e300}, **changes})


def same(one, other):
    """Equality that takes NaN for equal to NaN."""
    return repr(one) == repr(other)


def test_what_goes_in_comes_out(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        assert store.add(record())
        assert same(next(store.records()), record())
    with Store(tmp_path / "s.sqlite") as store:
        assert len(store) == 1
        assert store.keys() == {record().run.key}


def test_a_run_is_kept_once(tmp_path):
    with Store(tmp_path / "s.sqlite") as one, Store(tmp_path / "s.sqlite") as other:
        assert one.add(record(gradients=5))
        assert not other.add(record(gradients=99))
        assert [r.gradients for r in other.records()] == [5]


def test_the_key_depends_on_all_that_decides_a_run_and_not_on_its_label():
    base = Run("HS71", "auglag", {"tol": 1e-3})
    assert base.key == Run("HS71", "auglag", {"tol": 1e-3}, label="ours").key
    others = [
        Run("HS6", "auglag", {"tol": 1e-3}),
        Run("HS71", "slsqp", {"tol": 1e-3}),
        Run("HS71", "auglag", {"tol": 1e-4}),
        Run("HS71", "auglag", {"tol": 1e-3}, Limits(gradients=3)),
        Run("HS71", "auglag", {"tol": 1e-3}, source="pycutest"),
        Run("HS71", "auglag", {"tol": 1e-3}, params=[10]),
        Run("HS71", "auglag", {"tol": 1e-3}, seed=1),
    ]
    assert len({run.key for run in [base, *others]}) == 8
    assert all(same(Run.from_dict(run.as_dict()), run) for run in others)


def test_records_can_be_removed_to_be_done_again(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        for name in ("HS6", "HS7", "HS8"):
            store.add(record(name))
        assert store.remove([record("HS7").run.key]) == 1
        assert [r.run.problem for r in store.records()] == ["HS6", "HS8"]


def test_a_flat_row_has_options_limits_and_verdicts():
    row = flat(record())
    assert (row["problem"], row["label"], row["option_tol"], row["limit_gradients"]) == ("HS71", "ours", 1e-3, 7)
    assert (row["solved_1e-03"], row["solved_1e-06"], row["solved_1e-08"]) == (True, True, False)
    assert row["extra_beta"] == 1e300


@pytest.mark.parametrize(
    "content", [b"not a database at all, just some text\n" * 50, b"SQLite format 3\0" + b"\1" * 5000]
)
def test_a_file_that_is_no_store_is_reported_and_left_untouched(tmp_path, content):
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"s\.sqlite is not a store .* left as it is"):
        Store(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["s.sqlite"]


def test_somebody_elses_database_is_left_untouched(tmp_path):
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE precious (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a store of benchmark records"):
        Store(path)
    assert path.read_bytes() == before


def test_a_damaged_store_is_reported_and_left_untouched(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        for k in range(200):
            store.add(record(f"P{k}", message="x" * 500 + str(k)))
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = os.urandom(4096 * 3)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged|not a store"):
        Store(path)
    assert path.read_bytes() == bytes(content)


def test_a_damaged_record_is_reported(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.add(record())
        store._connection.execute("UPDATE records SET data = ?", (b"garbage",))
        with pytest.raises(StoreError, match=r"damaged: the record .* cannot be read"):
            list(store.records())


def test_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="newer auglag"):
        Store(path)


@pytest.mark.parametrize("where", ["missing/s.sqlite", "."])
def test_a_store_needs_a_folder_and_a_file_name(tmp_path, where):
    with pytest.raises(StoreError, match="store must"):
        Store(tmp_path / where)


def test_a_kill_at_any_moment_loses_no_record_that_was_reported(tmp_path):
    """A writer reports each key after it is stored; whatever it reported before it was killed is there."""
    script = textwrap.dedent("""
        import sys
        from auglag.bench.record import Record
        from auglag.bench.spec import Run
        from auglag.bench.store import Store
        store = Store(sys.argv[1])
        for k in range(10**6):
            store.add(Record(run=Run(f"P{k}", "auglag"), ending="returned", message="y" * 2000))
            print(k, flush=True)
    """)
    for attempt in range(3):
        path = tmp_path / f"{attempt}.sqlite"
        writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout.readline() == "0\n"
        time.sleep(0.05 + 0.1 * attempt)
        writer.send_signal(signal.SIGKILL)
        reported = 1 + len(writer.communicate()[0].split())
        shutil.copytree(tmp_path, tmp_path.parent / f"copy{attempt}")  # as a backup would find it
        with Store(path) as store:
            names = [r.run.problem for r in store.records()]
        assert reported <= len(names) <= reported + 1
        assert set(names) == {f"P{k}" for k in range(len(names))}
