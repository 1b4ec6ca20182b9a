"""Several starts: where they begin, their runs, and the different points among what they found."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from auglag._typing import Vector
from auglag.algorithm.status import Status
from auglag.errors import CheckpointError, InputError
from auglag.parallel import spread
from auglag.persist.files import replacing
from auglag.problems.arguments import check_x0
from auglag.report import logger
from auglag.result import Result
from auglag.strategy.hooks import interruptions

#: Without two finite bounds, starts are spread around x0 with this standard deviation, in units of max(1, |x0|): ten
#: times that of the widest restart of a single run (`strategy.tuning.STARTS`), which has looked nearby already.
SPREAD = 3.0
FORMAT = 1
_ENDED_EARLY = (Status.INTERRUPTED, Status.STOPPED)


@final
@dataclass(frozen=True, slots=True)
class Found:
    """One of the different points that several starts found."""

    x: Vector
    fun: float
    status: Status
    residual: float  #: of the certificate
    start: int  #: the start that led to it; of several, the one with the lowest value
    count: int = 1  #: how many starts did

    @property
    def success(self) -> bool:
        """Whether the point is certified."""
        return self.status is Status.SOLVED

    @property
    def rank(self) -> tuple[bool, float]:
        """The smaller the better: certified points by their value, then the others by their residual."""
        size = self.fun if self.success else self.residual
        return not self.success, math.inf if math.isnan(size) else size


def places(starts: Any, x0: Vector | None, lower: Vector, upper: Vector, seed: int) -> NDArray[np.float64]:
    """The starting points, one a row.

    A number k: x0 and k - 1 points of a Latin hypercube, between the bounds of a variable where both are finite, else
    around x0 (`SPREAD`; reflected at a single bound). Anything else is an array or an iterable of points.
    """
    if not isinstance(starts, int | np.integer) or isinstance(starts, bool):
        if not isinstance(starts, Iterable) or isinstance(starts, str):
            raise InputError(f"starts must be a number, an array or an iterable of points, got {starts!r:.80}")
        points = [check_x0(start, f"starts[{k}]") for k, start in enumerate(starts)]
        if not points:
            raise InputError("starts must hold at least one point, got none")
        for k, start in enumerate(points):
            if start.size != lower.size:
                raise InputError(f"starts[{k}] must have {lower.size} entries, got {start.size}")
        return np.clip(points, lower, upper)
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number, 0 or more, got {seed!r:.80}")
    if starts < 1:
        raise InputError(f"starts must be at least 1, got {starts}")
    assert x0 is not None
    x0 = np.clip(x0, lower, upper)
    if starts == 1:
        return x0[None]
    from scipy.stats import qmc  # here, because it takes longer to import than all of auglag

    u = qmc.LatinHypercube(x0.size, rng=np.random.default_rng(seed)).random(int(starts) - 1)
    boxed = np.isfinite(lower) & np.isfinite(upper)
    with np.errstate(invalid="ignore"):
        between = lower + u * (upper - lower)
        away = x0 + SPREAD * np.maximum(1.0, np.abs(x0)) * ndtri(u)
        away = np.where(away < lower, 2 * lower - away, np.where(away > upper, 2 * upper - away, away))
    return np.concatenate([x0[None], np.clip(np.where(boxed, between, away), lower, upper)])


def distinct(found: Iterable[Found], closeness: float, scale: Vector) -> list[Found]:
    """The different points, best first. Both must be alike: x to closeness * scale, f to closeness * its largest size.

    Certified points and others are kept apart. `scale` is the size of each variable: how far apart the starts are, or
    the points themselves if that is more.
    """
    ranked = sorted(found, key=lambda one: (one.rank, one.start))
    if not ranked:
        return []
    width = np.maximum(
        scale, np.max([np.abs(one.x) for one in ranked if np.isfinite(one.x).all()], axis=0, initial=0.0)
    )
    certified = [abs(one.fun) for one in ranked if one.success] or [abs(one.fun) for one in ranked]
    height = max((size for size in certified if math.isfinite(size)), default=0.0)
    kept: list[Found] = []
    for one in ranked:
        for k, other in enumerate(kept):
            near = bool(np.all(np.abs(one.x - other.x) <= closeness * width))
            if one.success is other.success and near and abs(one.fun - other.fun) <= closeness * height:
                kept[k] = replace(other, count=other.count + 1)
                break
        else:
            kept.append(one)
    return kept


def solve_all(
    solve: Callable[..., Result],
    points: NDArray[np.float64],
    *,
    workers: int,
    engine: str,
    store: Path | None,
    closeness: float,
    key: Sequence[Any],
    say: Callable[[str], None] | None,
) -> Result:
    """The best result of solve(x0=point) over all points, with the different ones as `starts`.

    Ctrl-C, or a callback that stops a run, ends it with what there is; an exception carries that as `best`.
    """
    kept = _Kept(store, points, key)
    results: dict[int, Result] = {}
    done = dict(kept.found)
    ended = len(done) == len(points)
    before = interruptions()
    pending = {str(k): point for k, point in enumerate(points) if k not in done}
    try:
        for name, result in spread(partial(_from, solve), pending, workers=workers, engine=engine):
            k = int(name)
            results[k], done[k] = result, _found(result, k)
            if result.status in _ENDED_EARLY:
                break
            kept.add(k, done[k])
            if interruptions() != before:
                break
            if say is not None:
                say(_line(k, result, done, len(points), closeness, np.ptp(points, axis=0)))
        else:
            ended = True
    except KeyboardInterrupt:
        if not done:
            raise
    except Exception as error:
        if results:
            with contextlib.suppress(Exception):
                error.best = _best(results, distinct(done.values(), closeness, np.ptp(points, axis=0)), "")  # type: ignore[attr-defined]
        raise
    different = distinct(done.values(), closeness, np.ptp(points, axis=0))
    best = different[0].start
    if best not in results:  # from the store, or lost: the same start gives the same result
        results[best] = _from(solve, points[best])
    made = f"{len(done)} starts" if ended else f"{len(done)} of {len(points)} starts, ended early"
    return _best(results, different, made)


def _best(results: Mapping[int, Result], different: Sequence[Found], made: str) -> Result:
    best = next(one.start for one in different if one.start in results)
    result = results[best]
    result.starts = tuple(different)
    if made:
        solved = [one for one in different if one.success]
        hits = sum(one.count for one in solved)
        result.message += f" The best of {made}: {hits} certified, {len(solved)} different."
    return result


def _from(solve: Callable[..., Result], start: Vector) -> Result:
    return solve(x0=start)


def _found(result: Result, k: int) -> Found:
    return Found(np.asarray(result.x), float(result.fun), result.status, float(result.certificate.residual), k)


def _line(k: int, result: Result, done: Mapping[int, Found], total: int, closeness: float, scale: Vector) -> str:
    different = [one for one in distinct(done.values(), closeness, scale) if one.success]
    best = f", lowest f + g {different[0].fun:.9g}" if different else ""
    return (
        f"{len(done):>4} of {total}  start {k}: {result.status.name}, f + g {result.fun:.9g}, residual "
        f"{result.certificate.residual:.2e}; {len(different)} different certified points{best}"
    )


def require_picklable(arguments: Mapping[str, Any]) -> None:
    """Raise, naming the argument, if one of them cannot be sent to another process."""
    for name, value in arguments.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            raise InputError(
                f"{name} cannot be sent to another process ({error}): engine='processes' needs functions defined at "
                "the top level of a module, no lambdas or inner functions; engine='threads' and a Dask cluster take any"
            ) from None


@final
class _Kept:
    """The finished starts in a file, written again as a whole after each; nothing where `path` is None."""

    def __init__(self, path: Path | None, points: NDArray[np.float64], key: Sequence[Any]) -> None:
        self.path = path
        self.key = hashlib.sha256(points.tobytes() + repr(tuple(key)).encode()).hexdigest()
        self.found: dict[int, Found] = {}
        self.failed = False
        if path is None or not path.exists():
            return
        if not path.is_file():
            raise CheckpointError(f"store={str(path)!r} must be a file")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            mine = content["format"] == FORMAT and content["key"] == self.key
            rows = [(int(k), row) for k, row in content["found"].items()] if mine else []
            for k, row in rows:
                row |= {"x": np.array(row["x"], dtype=float), "status": Status[row["status"]]}
                self.found[k] = Found(**row)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"store={str(path)!r} is damaged, or no file of multistart ({error})") from None
        if not mine or any(not 0 <= k < len(points) or one.x.shape != points[k].shape for k, one in self.found.items()):
            raise CheckpointError(
                f"store={str(path)!r} has the results of other starts or of another problem; give another file"
            )

    def add(self, k: int, one: Found) -> None:
        """Keep one more. Where the file cannot be written the starts go on, with one warning."""
        self.found[k] = one
        if self.path is None:
            return
        plain = {k: asdict(one) | {"x": one.x.tolist(), "status": one.status.name} for k, one in self.found.items()}
        try:
            with replacing(self.path) as file:
                file.write(json.dumps({"format": FORMAT, "key": self.key, "found": plain}).encode())
        except OSError as error:
            if not self.failed:
                self.failed = True
                logger.warn(f"{self.path} could not be written, and the starts go on: {error.strerror}")
