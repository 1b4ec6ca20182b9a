"""Any state of dataclasses goes into a file and comes back bit for bit; anything else is refused with a reason."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from auglag import CheckpointError, Status
from auglag.persist import checkpoint


@dataclass
class Inner:
    numbers: list[float]
    matrix: Any = None


@dataclass
class Outer:
    x: Any
    inner: Inner | None = None
    status: Status | None = None
    nested: Any = None
    scratch: list[int] = field(default_factory=list, metadata={"saved": False})


FINGERPRINT = {"n": 2, "sides": [1.0, math.inf]}


def there_and_back(path: Path, state: Any) -> Any:
    checkpoint.save(path, "test", FINGERPRINT, state)
    return checkpoint.load(path, "test", FINGERPRINT, (Inner, Outer, Status))


def test_every_kind_of_value_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    matrix = sparse.random_array((5, 4), density=0.4, rng=rng, format="csr")
    state = Outer(
        x=np.asfortranarray(rng.standard_normal((3, 2))),
        inner=Inner([math.nan, math.inf, 0.1, 5e-324], matrix),
        status=Status.STUCK,
        nested={"a": (1, None, True, np.float64(0.3)), 2: [np.int8([1, -1]), "text", {}]},
        scratch=[1, 2],
    )
    found = there_and_back(tmp_path / "state.npz", state)
    assert found.x.tobytes("A") == state.x.tobytes("A")
    assert found.x.flags.f_contiguous
    assert [float(v).hex() for v in found.inner.numbers] == [float(v).hex() for v in state.inner.numbers]
    assert (found.inner.matrix != matrix).nnz == 0
    assert found.inner.matrix.indices.dtype == matrix.indices.dtype
    assert found.status is Status.STUCK
    assert found.nested["a"] == (1, None, True, 0.3)
    assert found.nested[2][0].dtype == np.int8
    assert found.scratch == []


def test_a_state_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds numbers, strings, arrays and nests of them, got function"):
        there_and_back(tmp_path / "state.npz", Outer(x=lambda: None))
    assert not (tmp_path / "state.npz").exists()


def test_a_class_that_the_reader_does_not_name_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    checkpoint.save(path, "test", FINGERPRINT, Outer(1.0))
    with pytest.raises(CheckpointError, match="not a usable checkpoint"):
        checkpoint.load(path, "test", FINGERPRINT, (Inner,))


@pytest.mark.parametrize(
    ("kind", "fingerprint", "message"),
    [
        ("other", FINGERPRINT, "must have checkpoint kind other, got 'test'"),
        ("test", {"n": 3}, "belongs to another run: n must be 2 as saved, got 3"),
    ],
)
def test_a_state_of_another_run_is_refused(tmp_path: Path, kind: str, fingerprint: Any, message: str) -> None:
    path = tmp_path / "state.npz"
    checkpoint.save(path, "test", FINGERPRINT, Outer(1.0))
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(path, kind, fingerprint, (Outer,))


@pytest.mark.parametrize(
    "state",
    [{"class": ["Outer", {}]}, {"array": "a9"}, {"odd": 1}, {"list": 3}, {"a": 1, "b": 2}, {"enum": ["Status", "NO"]}],
)
def test_a_damaged_state_is_a_checkpoint_error(tmp_path: Path, state: Any) -> None:
    path = tmp_path / "state.npz"
    meta = {"format": checkpoint.FORMAT, "kind": "test", "fingerprint": FINGERPRINT, "state": state}
    np.savez(path, meta=np.array(json.dumps(meta)))
    with pytest.raises(CheckpointError, match="not a usable checkpoint"):
        checkpoint.load(path, "test", FINGERPRINT, (Outer, Status))


def test_a_file_of_an_earlier_format_says_so(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    np.savez(path, meta=np.array(json.dumps({"format": 6})))
    with pytest.raises(CheckpointError, match=f"must have checkpoint format {checkpoint.FORMAT}, got 6"):
        checkpoint.load(path, "test", {})


def test_settings_are_described_alike_in_every_process() -> None:
    assert checkpoint.described(object()) == checkpoint.described(object()) == "<object object>"
