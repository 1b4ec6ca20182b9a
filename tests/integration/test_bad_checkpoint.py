"""Checkpoints that are damaged, foreign or of another run are refused by name."""

from __future__ import annotations

import json

import numpy as np
import pytest

from auglag import CheckpointError, minimize
from auglag.persist.checkpoint import FORMAT, require_same
from helpers.line_problem import LINE, on_line, refused, solve, square


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.npz"
    solve(checkpoint=path)
    return path


def test_a_checkpoint_that_does_not_exist_is_named(tmp_path):
    refused(
        r"resume must name an existing checkpoint, got '.*missing.npz', which does not exist",
        error=CheckpointError,
        resume=tmp_path / "missing.npz",
    )


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_a_truncated_checkpoint_is_refused(saved, part):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(part * len(data))])
    refused(r"run.npz is not a usable checkpoint \(", error=CheckpointError, resume=saved)


def test_a_checkpoint_with_a_flipped_byte_is_refused(saved):
    data = bytearray(saved.read_bytes())
    data[len(data) // 2] ^= 0xFF
    saved.write_bytes(bytes(data))
    refused(r"run.npz is not a usable checkpoint \(", error=CheckpointError, resume=saved)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x80\x04K\x03.", b"\x00" * 1000])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    refused(r"other.bin is not a usable checkpoint \(", error=CheckpointError, resume=path)


def test_a_folder_a_bare_array_and_a_foreign_npz_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "foreign.npz", x=np.zeros(2))
    for name in ("", "array.npy", "foreign.npz"):
        refused(r"is not a usable checkpoint \(", error=CheckpointError, resume=tmp_path / name)


def rewritten(path, change):
    with np.load(path, allow_pickle=False) as data:
        arrays = dict(data)
    meta = json.loads(str(arrays.pop("meta")))
    change(meta, arrays)
    np.savez(path, meta=np.array(json.dumps(meta)), **arrays)


def fields(meta, *path):
    """The fields of a dataclass inside the saved state, reached by the names of those around it."""
    found = meta["state"]["class"][1]
    for name in path:
        found = (found[name]["list"][0] if "list" in found[name] else found[name])["class"][1]
    return found


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda meta, arrays: meta.update(format=99), rf"must have checkpoint format {FORMAT}, got 99"),
        (lambda meta, arrays: meta.pop("format"), rf"must have checkpoint format {FORMAT}, got None"),
        (lambda meta, arrays: meta.update(kind="torch"), r"must have checkpoint kind minimize, got 'torch'"),
        (lambda meta, arrays: fields(meta).pop("history"), r"is not a usable checkpoint"),
        (lambda meta, arrays: fields(meta, "history", "iterations").pop("beta"), r"is not a usable checkpoint"),
        (lambda meta, arrays: fields(meta, "history", "iterations").update(colour="red"), r"is not a usable"),
        (lambda meta, arrays: fields(meta, "counts").update(zebra=2), r"is not a usable checkpoint"),
        (lambda meta, arrays: arrays.pop(fields(meta)["x"]["array"]), r"is not a usable checkpoint"),
        (lambda meta, arrays: arrays.update({fields(meta)["x"]["array"]: np.zeros(7)}), r"is not a usable checkpoint"),
        (lambda meta, arrays: arrays.update({fields(meta, "best")["x"]["array"]: np.zeros(7)}), r"is not a usable"),
        (lambda meta, arrays: arrays.update({fields(meta)["start_x"]["array"]: np.zeros(7)}), r"is not a usable"),
    ],
)
def test_a_checkpoint_with_parts_missing_or_strange_is_refused(saved, change, match):
    rewritten(saved, change)
    refused(match, error=CheckpointError, resume=saved)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"x0": [0.5, 0.3]}, r"belongs to another run: x0 must be \[0.5, 0.2\] as saved, got \[0.5, 0.3\]"),
        ({"tol": 1e-8}, r"belongs to another run: tol must be 1e-06 as saved, got 1e-08"),
        ({"variant": "always-short"}, r"belongs to another run: settings must be "),
        ({"constraints": [LINE, LINE]}, r"belongs to another run: m must be 1 as saved, got 2"),
        ({"constraints": ()}, r"belongs to another run: m must be 1 as saved, got 0"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_the_difference_named(saved, kwargs, match):
    refused(match, error=CheckpointError, resume=saved, **kwargs)


def test_a_difference_far_behind_in_long_settings_is_shown():
    long = ", ".join(f"part{i}=1.0" for i in range(40))
    with pytest.raises(CheckpointError, match=r"settings must be gamma=3.* as saved, got gamma=5"):
        require_same({"settings": f"{long}, gamma=3"}, {"settings": f"{long}, gamma=5"}, "run.npz")


def test_a_checkpoint_of_a_problem_of_another_size_is_refused(saved):
    with pytest.raises(CheckpointError, match=r"belongs to another run: n must be 2 as saved, got 3"):
        minimize(square, [1.0, 2.0, 3.0], constraints={"type": "eq", "fun": on_line}, resume=saved)


def test_a_checkpoint_holds_no_pickle(saved):
    with np.load(saved, allow_pickle=False) as data:
        assert all(data[name].dtype.kind in "fiU" for name in data.files)
