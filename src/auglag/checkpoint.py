"""Saving a run after every outer iteration, and going on from there bit for bit. `.npz` with JSON inside, no pickle."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from auglag._typing import Vector
from auglag.errors import CheckpointError
from auglag.rules import History, Iteration

FORMAT = 1


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
    counts: dict[str, int]
    seconds: float
    restorations: int
    level: int  #: accuracy of finite differences


def save(path: str | os.PathLike[str], state: State) -> None:
    """Write atomically: a process killed at any moment leaves the old file or the new one, never a broken one."""
    target = Path(path)
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
    }
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(
                file,
                meta=np.array(json.dumps(meta)),
                x=state.x,
                y=state.y,
                best_x=state.best_x,
                best_y=state.best_y,
                sc=state.sc,
                start_x=state.start_x,
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> State:
    """Read a state, or say what is wrong with the file."""
    target = Path(path)
    if not target.exists():
        raise CheckpointError(f"resume must name an existing checkpoint, got {str(target)!r}, which does not exist")
    try:
        with np.load(target, allow_pickle=False) as data:
            meta = json.loads(str(data["meta"]))
            arrays = {name: data[name] for name in ("x", "y", "best_x", "best_y", "sc", "start_x")}
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
        raise CheckpointError(f"{target} is not a usable checkpoint ({error})") from None
    if not isinstance(meta, Mapping) or meta.get("format") != FORMAT:
        found = meta.get("format") if isinstance(meta, Mapping) else None
        raise CheckpointError(f"{target} must have checkpoint format {FORMAT}, got {found}")
    iterations = [Iteration(**it) for it in meta["iterations"]]
    history = History(meta["objective"], meta["violation"], meta["negligible"], iterations)
    return State(
        fingerprint=meta["fingerprint"],
        history=history,
        best_residual=meta["best_residual"],
        sf=meta["sf"],
        counts=meta["counts"],
        seconds=meta["seconds"],
        restorations=meta["restorations"],
        level=meta["level"],
        **arrays,
    )


def require_same(saved: Mapping[str, Any], now: Mapping[str, Any], path: object) -> None:
    """Raise unless the saved run is this run."""
    for key, value in now.items():
        if saved.get(key) != value:
            raise CheckpointError(
                f"{path} belongs to another run: {key} must be {saved.get(key)!r:.120} as saved, got {value!r:.120}"
            )
