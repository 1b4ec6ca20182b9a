"""Saving a run after every outer iteration, and going on from there bit for bit. `.npz` with JSON inside, no pickle."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.algorithm.rules import History, Iteration
from auglag.errors import CheckpointError, InputError
from auglag.persist.files import replacing
from auglag.problems.base import Counts

FORMAT = 6
ARRAYS = ("x", "y", "best_x", "best_y", "sc", "start_x", "diverged", "least", "origin")


@final
@dataclass(frozen=True, slots=True)
class State:
    """All that evolves in a run: the iterate, the multipliers, the history, the best point, and what was spent."""

    fingerprint: dict[str, Any]  #: of problem and settings; a state only fits the run it came from
    x: Vector
    y: Vector
    history: History
    best_x: Vector
    best_y: Vector
    best_residual: float
    sf: float
    sc: Vector
    start_x: Vector  #: x_1, from which scaling was taken
    diverged: Vector  #: where the last subproblem fell below every bound; empty if it did not
    counts: dict[str, int]
    seconds: float
    restorations: int
    level: int  #: accuracy of finite differences
    unbounded: float  #: relative depth at which a subproblem counts as unbounded
    memory: dict[str, Any]  #: of solvers by models, see `auglag.kkt.Memory.arrays`
    finishes: int  #: accelerations that met the tolerance but not their aim, in vain
    finish_error: float  #: the smallest error of those
    noted: float  #: the error of the last point that an acceleration kept far from the tolerance
    inside: bool  #: interior points were tried in this attempt
    origin: Vector  #: where this attempt's acceleration began; empty before
    attempt: int  #: 0, or which restart this is
    first: str | None  #: the status that the first attempt ended with; None while it lasts
    earlier: list[Iteration]  #: the rows of the attempts before
    least: Vector  #: the least violated point, where infeasibility was shown; else empty
    finding: float  #: its violation
    refined_now: bool  #: it was raised at x, whose derivatives are not known at that level yet


def save(path: str | os.PathLike[str], state: State) -> None:
    """Write a state in place of the one before."""
    meta = {
        "format": FORMAT,
        "fingerprint": state.fingerprint,
        "objective": state.history.objective,
        "violation": state.history.violation,
        "negligible": state.history.negligible,
        "iterations": [asdict(it) for it in state.history.iterations],
        "best_residual": state.best_residual,
        "sf": state.sf,
        "counts": state.counts,
        "seconds": state.seconds,
        "restorations": state.restorations,
        "level": state.level,
        "refined_now": state.refined_now,
        "unbounded": state.unbounded,
        "finishes": state.finishes,
        "finish_error": state.finish_error,
        "noted": state.noted,
        "inside": state.inside,
        "attempt": state.attempt,
        "first": state.first,
        "earlier": [asdict(it) for it in state.earlier],
        "finding": state.finding,
    }
    kept = {f"memory_{name}": np.asarray(a, dtype=np.float64) for name, a in state.memory.items()}
    write(path, meta, {name: getattr(state, name) for name in ARRAYS} | kept)


def load(path: str | os.PathLike[str]) -> State:
    """Read a state, or say what is wrong with the file."""
    with opened(path, FORMAT) as (meta, data):
        arrays = {name: np.array(data[name], dtype=np.float64) for name in ARRAYS}
        kept = [name for name in data.files if name.startswith("memory_")]
        memory = {name.removeprefix("memory_"): np.array(data[name], dtype=np.float64) for name in kept}
        iterations = [Iteration(**it) for it in meta["iterations"]]
        return State(
            fingerprint=dict(meta["fingerprint"]),
            history=History(meta["objective"], meta["violation"], meta["negligible"], iterations),
            best_residual=float(meta["best_residual"]),
            sf=float(meta["sf"]),
            counts=Counts(**meta["counts"]).as_dict(),
            seconds=float(meta["seconds"]),
            restorations=int(meta["restorations"]),
            level=int(meta["level"]),
            refined_now=bool(meta["refined_now"]),
            unbounded=float(meta["unbounded"]),
            finishes=int(meta["finishes"]),
            finish_error=float(meta["finish_error"]),
            noted=float(meta["noted"]),
            inside=bool(meta["inside"]),
            attempt=int(meta["attempt"]),
            first=None if meta["first"] is None else str(meta["first"]),
            earlier=[Iteration(**it) for it in meta["earlier"]],
            finding=float(meta["finding"]),
            memory=memory,
            **arrays,
        )


def write(path: str | os.PathLike[str], meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """JSON and arrays in one `.npz`, atomically: a process killed at any moment leaves the old file or the new one."""
    named: dict[str, Any] = {"meta": np.array(json.dumps(meta)), **arrays}
    with replacing(Path(path)) as file:
        np.savez(file, **named)


@contextmanager
def opened(path: str | os.PathLike[str], form: int | str) -> Iterator[tuple[dict[str, Any], Any]]:
    """(meta, arrays) of a checkpoint of this format; whatever goes wrong while they are read says what is wrong."""
    target = Path(path)
    if not target.exists():
        raise CheckpointError(f"resume must name an existing checkpoint, got {str(target)!r}, which does not exist")
    try:
        with open(target, "rb") as file, np.load(file, allow_pickle=False) as data:
            meta = json.loads(str(data["meta"]))
            if meta.get("format") != form:
                raise CheckpointError(f"{target} must have checkpoint format {form}, got {meta.get('format')!r}")
            yield meta, data
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError, EOFError, OSError) as error:
        reason = "not a file written by auglag" if "pickle" in str(error) else f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{target} is not a usable checkpoint ({reason})") from None


def require_same(saved: Mapping[str, Any], now: Mapping[str, Any], path: object) -> None:
    """Raise unless the saved run is this run."""
    for key, value in now.items():
        if saved.get(key) != value:
            raise CheckpointError(
                f"{path} belongs to another run: {key} must be {saved.get(key)!r:.120} as saved, got {value!r:.120}"
            )


def usable_path(path: Any, name: str) -> Path | None:
    """A path whose folder exists, so that a run does not fail at its first save."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"{name} must be a path, got {path!r:.80}")
    target = Path(path)
    if target.is_dir() and name == "checkpoint":
        raise InputError(f"{name} must name a file, got the folder {str(target)!r}")
    if not target.parent.is_dir():
        raise InputError(f"{name} must lie in an existing folder, got {str(target)!r}")
    return target
