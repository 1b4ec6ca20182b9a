"""Checkpoints on disks that are full, in folders that go away, of sizes that lie, and what killed runs leave behind."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import textwrap
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from auglag import Adaptive, CheckpointError, Status, minimize, stochastic
from auglag.persist import checkpoint, files
from auglag.persist.files import replacing
from helpers.line_problem import refused, solve
from helpers.runs import slowly

posix = pytest.mark.skipif(os.name != "posix", reason="links, FIFOs and limits of POSIX")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.npz"
    solve(checkpoint=path)
    return path


# ---------------------------------------------------------------------------------------------- that cannot be written


def long_run(**options):
    return minimize(**slowly("HS71"), penalty=Adaptive(initial=0.1), **options)


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_one_warning_and_the_run_goes_on(tmp_path, monkeypatch):
    whole = long_run()
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.warns(UserWarning, match="run.npz could not be written, and the run goes on: No space left") as seen:
        res = long_run(checkpoint=tmp_path / "run.npz")
    assert len(seen) == 1
    assert res.nit == whole.nit > 1
    np.testing.assert_array_equal(res.x, whole.x)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_goes_away_is_one_warning_and_the_run_goes_on(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()

    def callback(xk):
        (folder / "run.npz").unlink(missing_ok=True)
        if folder.exists():
            folder.rmdir()

    with pytest.warns(UserWarning, match="could not be written, and the run goes on: No such file") as seen:
        assert long_run(checkpoint=folder / "run.npz", callback=callback).success
    assert len(seen) == 1


def test_a_stochastic_run_goes_on_as_well(tmp_path, monkeypatch):
    A = np.random.default_rng(0).standard_normal((60, 3))
    problem = stochastic.StochasticProblem(
        [stochastic.LinearBlock(A, A @ [1.0, 2.0, 0.0], loss="squared", objective=1.0, constraints=[1.0])],
        lower=[-np.inf],
        upper=[100.0],
    )
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.warns(UserWarning, match="could not be written, and the run goes on") as seen:
        res = stochastic.minimize(problem, np.zeros(3), tol=1e-4, seed=0, checkpoint=tmp_path / "run.npz")
    assert res.success, res.message
    assert len(seen) == 1


@posix
def test_a_limit_of_file_sizes_is_one_warning_and_nothing_is_left(tmp_path):
    code = """
        import resource, sys, warnings
        import numpy as np, auglag
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
        seen = []
        warnings.showwarning = lambda message, *_: seen.append(str(message))
        res = auglag.minimize(lambda x: (x**4).sum(), np.ones(3), checkpoint=sys.argv[1], penalty=auglag.Adaptive(0.1),
                              constraints={"type": "eq", "fun": lambda x: x.sum() - 1}, acceleration=False)
        print(res.success, res.nit > 1, len(seen), seen)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "run.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("True True 1 "), done.stdout + done.stderr
    assert "File too large" in done.stdout
    assert done.stderr == ""
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------------------------------- what killed runs leave


def left_behind(folder, pid, name="run.npz"):
    path = folder / f".{name}.{files._machine()}-{pid}-0123abcd.part"
    path.write_bytes(b"half")
    return path


def gone_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@posix
def test_what_killed_runs_left_of_the_same_target_is_swept_at_the_next_save(tmp_path):
    dead = left_behind(tmp_path, gone_pid())
    alive = left_behind(tmp_path, os.getppid())
    another = left_behind(tmp_path, gone_pid(), "other.npz")
    elsewhere, old = tmp_path / ".run.npz.ffffff-1-0123abcd.part", tmp_path / ".run.npz.01234567.part"
    elsewhere.write_bytes(b"half")
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * files.ABANDONED,) * 2)
    solve(checkpoint=tmp_path / "run.npz")
    assert not dead.exists()
    assert not old.exists()
    assert alive.exists()
    assert another.exists()
    assert elsewhere.exists()


# ------------------------------------------------------------------------------------------------------ links and FIFOs


@posix
def test_a_symbolic_link_is_replaced_and_what_it_points_to_stays(tmp_path):
    precious, link = tmp_path / "precious", tmp_path / "run.npz"
    precious.write_text("mine")
    link.symlink_to(precious)
    solve(checkpoint=link)
    assert precious.read_text() == "mine"
    assert not link.is_symlink()
    assert solve(resume=link).success


@posix
def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    refused(r"is not a usable checkpoint \(.*not a regular file", error=CheckpointError, resume=path)


# ------------------------------------------------------------------------------------------------- sizes that are lies


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def header(shape, dtype="<f8"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def rewrite(path, parts, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def test_a_small_file_that_would_grow_is_refused_before_it_does(saved):
    parts = members(saved)
    parts["a0.npy"] = header((10_000_000,)) + bytes(80_000_000)
    rewrite(saved, parts, compression=zipfile.ZIP_DEFLATED)
    del parts
    assert saved.stat().st_size < 1_000_000
    tracemalloc.start()
    refused(r"is not a usable checkpoint \(.*must not be compressed", error=CheckpointError, resume=saved)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


@pytest.mark.parametrize("shape", [(2**50,), (2**31, 2**31), (-1,), (-2, -1), (3,)])
def test_a_shape_that_its_bytes_do_not_fill_is_refused(saved, shape):
    parts = members(saved)
    parts["a0.npy"] = header(shape) + bytes(16)
    rewrite(saved, parts)
    refused(r"is not a usable checkpoint \(", error=CheckpointError, resume=saved)


@pytest.mark.parametrize("text", ["{'shape': (" * 40, "{" * 5000, "not a header", "(" * 5000 + ")" * 5000])
def test_headers_that_are_no_headers_are_refused(saved, text):
    parts = members(saved)
    parts["a0.npy"] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    rewrite(saved, parts)
    refused(r"is not a usable checkpoint \(", error=CheckpointError, resume=saved)


def with_state(path, state):
    parts = members(path)
    meta = json.loads(str(np.load(io.BytesIO(parts["meta.npy"]))))
    text = json.dumps({**meta, "state": "HERE"}).replace('"HERE"', state)
    stream = io.BytesIO()
    np.save(stream, np.array(text))
    rewrite(path, {**parts, "meta.npy": stream.getvalue()})


@pytest.mark.parametrize(
    "state",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"list": [' * 5000 + "]}" * 5000,
        "7",
        '{"list": []}',
        '{"class": ["Counts", {}]}',
        '{"list": [{"array": "a0"}, {"array": "a0"}]}',
        '{"tensor": ["a0", "float64", [1125899906842624]]}',
        "9" * 10_000,
    ],
)
def test_states_that_are_no_states_are_refused(saved, state):
    with_state(saved, state)
    refused(r"is not a usable checkpoint \(", error=CheckpointError, resume=saved)


def test_an_array_is_read_once_however_often_it_is_named(tmp_path):
    path = tmp_path / "a.npz"
    checkpoint.save(path, "test", {}, [np.zeros(4), np.ones(4)])
    with_state(path, '{"list": [{"array": "a0"}, {"array": "a0"}]}')
    with pytest.raises(CheckpointError, match="is not a usable checkpoint"):
        checkpoint.load(path, "test", {})


def test_indices_of_a_sparse_array_that_lie_outside_are_refused(tmp_path):
    from scipy import sparse

    path = tmp_path / "a.npz"
    checkpoint.save(path, "test", {}, sparse.csr_array(np.eye(3)))
    assert (checkpoint.load(path, "test", {}).toarray() == np.eye(3)).all()
    parts = members(path)
    stream = io.BytesIO()
    np.save(stream, np.array([0, 10**6, 2], dtype=np.int32))
    rewrite(path, {**parts, "a1.npy": stream.getvalue()})
    with pytest.raises(CheckpointError, match="is not a usable checkpoint"):
        checkpoint.load(path, "test", {})


# ------------------------------------------------------------------------------------------------ every field, changed

JUNK = [
    *(None, True, -1, 0, 7, 2**70, 1e300, float("nan"), float("inf"), "a", "", [], {}, {"list": []}, {"array": "a0"}),
    *({"tuple": [1]}, {"enum": ["Status", "SOLVED"]}, {"class": ["State", {}]}),
]


def places(value, at=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        yield (*at, key)
        yield from places(inside, (*at, key))


def test_a_state_with_any_part_changed_is_refused_or_solved_from(saved):
    original = members(saved)
    meta = json.loads(str(np.load(io.BytesIO(original["meta.npy"]))))
    spots, rng = list(places(meta["state"])), np.random.default_rng(0)
    refusals = 0
    for _ in range(150):
        rewrite(saved, original)
        state = json.loads(json.dumps(meta["state"]))
        *way, last = spots[rng.integers(len(spots))]
        holder = state
        for key in way:
            holder = holder[key]
        holder[last] = JUNK[rng.integers(len(JUNK))]
        with_state(saved, json.dumps(state))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numbers that overflow
            try:
                assert solve(resume=saved).status in Status
            except CheckpointError:
                refusals += 1
    assert refusals > 50


def test_a_file_that_is_replaced_has_no_trace_of_the_writer(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.bin") as file:
        file.write(b"new")
        (scratch,) = os.listdir(tmp_path)
        assert f"-{os.getpid()}-" in scratch
    assert os.listdir(tmp_path) == ["a.bin"]
