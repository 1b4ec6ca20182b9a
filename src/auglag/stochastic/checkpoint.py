"""Saving a stochastic run after every test or outer iteration, and going on bit for bit: `.npz` and JSON, no pickle."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, field
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import History, Iteration
from auglag.stochastic.data import leaves
from auglag.stochastic.linear import LinearBlock
from auglag.stochastic.problem import StochasticProblem
from auglag.strategy.old_checkpoint import opened, write

FORMAT = "auglag-stochastic-3"
ARRAYS = ("v", "y", "best_v", "best_y")
#: Rows of every block by which data are known again.
DIGEST_ROWS = 64


@final
@dataclass(slots=True)
class State:
    """All that evolves in a run."""

    fingerprint: dict[str, Any]
    v: Vector  #: x_k with its slacks
    y: Vector
    history: History
    trace: list[dict[str, Any]]
    best_v: Vector
    best_y: Vector
    best_residual: float
    ledger: dict[str, int]
    seconds: float
    numbers: dict[str, Any] = field(default_factory=dict)  #: of the inner loop: calls, T, damping, ...
    arrays: dict[str, Any] = field(default_factory=dict)  #: of the inner loop: point, curvature, ...


def save(path: str | os.PathLike[str], state: State) -> None:
    """Write a state in place of the one before."""
    meta = {
        "format": FORMAT,
        "fingerprint": state.fingerprint,
        "objective": state.history.objective,
        "violation": state.history.violation,
        "negligible": state.history.negligible,
        "iterations": [asdict(it) for it in state.history.iterations],
        "trace": state.trace,
        "best_residual": state.best_residual,
        "ledger": state.ledger,
        "seconds": state.seconds,
        "numbers": state.numbers,
    }
    inner = {f"inner_{name}": value for name, value in state.arrays.items()}
    write(path, meta, {name: getattr(state, name) for name in ARRAYS} | inner)


def load(path: str | os.PathLike[str]) -> State:
    """Read a state, or say what is wrong with the file."""
    with opened(path, FORMAT) as (meta, data):
        main = {name: np.array(data[name], dtype=np.float64) for name in ARRAYS}
        arrays = {name[6:]: np.array(data[name]) for name in data.files if name.startswith("inner_")}
        iterations = [Iteration(**it) for it in meta["iterations"]]
        return State(
            fingerprint=dict(meta["fingerprint"]),
            history=History(meta["objective"], meta["violation"], meta["negligible"], iterations),
            trace=list(meta["trace"]),
            best_residual=float(meta["best_residual"]),
            ledger=dict(meta["ledger"]),
            seconds=float(meta["seconds"]),
            numbers=dict(meta["numbers"]),
            arrays=arrays,
            **main,
        )


def digest(problem: StochasticProblem) -> str:
    """What tells the data of one problem from those of another: sizes, factors, and some rows of every block."""
    found = hashlib.sha256()
    for block in problem.blocks:
        found.update(f"{type(block).__name__} {block.n} {block.m} {block.rows} {block.exact};".encode())
        if isinstance(block, LinearBlock):
            found.update(f"{block.loss.name} {block.A.dtype} {block.factor} {block.factors.tolist()};".encode())
        if block.rows is None or block.exact:
            continue
        index = np.unique(np.linspace(0, block.rows - 1, DIGEST_ROWS).astype(np.int64))
        for leaf in leaves(block.take(index)):
            found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()[:16]
