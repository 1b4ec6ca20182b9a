"""Several starts: where they begin, their runs, and the different points among what they found."""

from __future__ import annotations

import contextlib
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
from auglag.errors import CheckpointError, InputError, require_integer
from auglag.parallel import spread
from auglag.persist.checkpoint import digest
from auglag.persist.files import replacing
from auglag.problems.arguments import check_x0
from auglag.problems.base import AbstractProblem, Point
from auglag.report import logger
from auglag.result import Result
from auglag.strategy.hooks import interruptions

#: Without two finite bounds, starts are spread around x0 with this standard deviation, in units of max(1, |x0|): ten
#: times that of the widest restart of a single run (`strategy.tuning.STARTS`), which has looked nearby already.
SPREAD = 3.0
FORMAT = 2  #: of the files of `Kept`
#: Functions are told from others by their values at so many starts, a few calls beside those of the runs; at one start
#: alone different functions may well agree, at 0 for example.
WITNESSES = 3
#: Of more rows than this, sums are kept: the file is written again after every start.
SUMS = 100
#: Values are the same up to half of the digits: another machine, or another order of sums, changes no more.
ROUNDING = math.sqrt(np.finfo(np.float64).eps)
#: Of functions with random errors, up to this multiple of the largest difference of two calls at those starts: even one
#: of a hundred rows with normal errors rarely differs by more.
REPEATS = 30.0
_ENDED_EARLY = (Status.INTERRUPTED, Status.STOPPED)
_TIERS = {Status.SOLVED: 0, Status.PRECISION_LIMIT: 1}


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
    size: float = 0.0  #: of f around it and on the way from the start, as its certificate knows it
    price: float = 0.0  #: what its violation is worth in f: the norm of the multipliers times it

    @property
    def success(self) -> bool:
        """Whether the point is certified."""
        return self.status is Status.SOLVED

    @property
    def rank(self) -> tuple[int, float]:
        """The smaller the better: certified points, then those as good as the functions allow, then the others.

        Residuals that consist of the errors of the functions say nothing about which point is better. So the first two
        kinds are ranked by their values, in the second with the price of what they violate; others by their residual.
        """
        value = {Status.SOLVED: self.fun, Status.PRECISION_LIMIT: self.fun + self.price}.get(self.status, self.residual)
        return _TIERS.get(self.status, len(_TIERS)), math.inf if math.isnan(value) else value


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
    require_integer(seed, "seed", 0)
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
    the points themselves if that is more. The size of f is that of its values or, if that is more, of its changes
    around the points and from the starts (the median of them, as f may be huge at a start): values alone say nothing
    where all of them should be 0. Points of the best kind that was found count.
    """
    ranked = sorted(found, key=lambda one: (one.rank, one.start))
    if not ranked:
        return []
    width = np.maximum(
        scale, np.max([np.abs(one.x) for one in ranked if np.isfinite(one.x).all()], axis=0, initial=0.0)
    )
    best = [one for one in ranked if one.rank[0] == ranked[0].rank[0]]
    changes = [one.size for one in best if math.isfinite(one.size)] or [0.0]
    height = max([float(np.median(changes)), *(abs(one.fun) for one in best if math.isfinite(one.fun))])
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
    done: dict[int, Found],
    workers: int,
    engine: str,
    store: Kept | None,
    closeness: float,
    say: Callable[[str], None] | None,
) -> Result:
    """The best result of solve(x0=point) over all points, with the different ones as `starts`.

    `done` is empty, and filled with what the starts find. Ctrl-C, or a callback that stops a run, ends it with what
    there is; an exception carries that as `best`.
    """
    results: dict[int, Result] = {}
    widths, before = np.ptp(points, axis=0), interruptions()

    def best(*, ended: bool) -> Result:
        different = distinct(done.values(), closeness, widths)
        first = different[0].start
        if first not in results:  # from the store, or lost: the same start gives the same result
            results[first] = _from(solve, points[first])
        made = f"{len(done)} starts" if ended else f"{len(done)} of {len(points)} starts, ended early"
        return _best(results, different, made)

    try:
        done |= store.found if store is not None else {}
        pending = {str(k): point for k, point in enumerate(points) if k not in done}
        for name, result in spread(partial(_from, solve), pending, workers=workers, engine=engine):
            k = int(name)
            results[k], done[k] = result, _found(result, k)
            if result.status in _ENDED_EARLY:
                return best(ended=False)
            if store is not None:
                store.add(k, done[k])
            if interruptions() != before:
                return best(ended=False)
            if say is not None:
                say(_line(k, result, done, len(points), closeness, widths))
        return best(ended=True)
    except KeyboardInterrupt:
        if not done:
            raise
        return best(ended=False)
    except Exception as error:
        if results:
            with contextlib.suppress(Exception):
                error.best = _best(results, distinct(done.values(), closeness, widths), "")  # type: ignore[attr-defined]
        raise


def _best(results: Mapping[int, Result], different: Sequence[Found], made: str) -> Result:
    """A copy of the best of the results that are there, which lists the different points."""
    result = Result(**results[next(one.start for one in different if one.start in results)])
    result.starts = tuple(different)
    if made:
        solved = [one for one in different if one.success]
        hits = sum(one.count for one in solved)
        result.message += f" The best of {made}: {hits} certified, {len(solved)} different."
    return result


def _from(solve: Callable[..., Result], start: Vector) -> Result:
    return solve(x0=start)


def _found(result: Result, k: int) -> Found:
    check = result.certificate
    price = float(np.linalg.norm(check.multipliers)) * check.violation
    x, value, size = np.asarray(result.x), float(result.fun), check.objective_size
    return Found(x, value, result.status, check.residual, k, size=size, price=price)


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
class Kept:
    """The finished starts in a file, written again as a whole after each.

    The file knows its starts and its problem: what can be compared exactly by a key, the functions by their values at
    the first few starts.
    """

    def __init__(self, path: Path, points: NDArray[np.float64], problem: AbstractProblem, tol: Any) -> None:
        self.path = path
        sides = (problem.lower, problem.upper, problem.cl, problem.cu)
        self.key = digest(points, *sides) + repr((points.shape, problem.m, tol))
        self.values = seen = _seen(problem, points)
        self.found: dict[int, Found] = {}
        self.failed = False
        if not path.exists():
            return
        if not path.is_file():
            raise CheckpointError(f"store={str(path)!r} must be a file")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            mine = content["format"] == FORMAT and content["key"] == self.key
            saved = np.array(content["values"], dtype=float) if mine else seen
            rows = [(int(k), row) for k, row in content["found"].items()] if mine else []
            for k, row in rows:
                row |= {"x": np.array(row["x"], dtype=float), "status": Status[row["status"]]}
                self.found[k] = Found(**row)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"store={str(path)!r} is damaged, or no file of multistart ({error})") from None
        mine = mine and all(0 <= k < len(points) and row.x.shape == points[k].shape for k, row in self.found.items())
        if not mine or (why := _another(saved, seen, lambda: _seen(problem, points))):
            reason = f" ({why})" if mine else ""
            raise CheckpointError(
                f"store={str(path)!r} has the results of other starts or of another problem{reason}; give another file"
            )
        self.values = saved

    def add(self, k: int, one: Found) -> None:
        """Keep one more. Where the file cannot be written the starts go on, with one warning."""
        self.found[k] = one
        plain = {k: asdict(one) | {"x": one.x.tolist(), "status": one.status.name} for k, one in self.found.items()}
        content = {"format": FORMAT, "key": self.key, "values": self.values.tolist(), "found": plain}
        try:
            with replacing(self.path) as file:
                file.write(json.dumps(content).encode())
        except OSError as error:
            if not self.failed:
                self.failed = True
                logger.warn(f"{self.path} could not be written, and the starts go on: {error.strerror}")


def _seen(problem: AbstractProblem, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """f + g and c, evaluated afresh at the first few starts, one a row; of many rows of c, sums of some each."""
    rows = []
    with problem.running():
        for x in points[:WITNESSES]:
            point = Point(problem, x)
            value = point.f + (problem.g.value(x) if problem.g is not None else 0.0)
            rows.append([value, *np.bincount(np.arange(problem.m) % SUMS, point.c)])
    return np.array(rows, dtype=float)


def _another(saved: NDArray[np.float64], now: NDArray[np.float64], again: Callable[[], NDArray[np.float64]]) -> str:
    """Why these are values of other functions; "" if they are the same up to rounding, or to what two calls make."""
    if saved.shape != now.shape:
        return f"{saved.shape} values are kept of it, not {now.shape}"
    with np.errstate(invalid="ignore", over="ignore"):
        gap, sizes = np.abs(saved - now), np.where(np.isfinite(now), np.abs(now), 0.0).max(axis=0)
        alike = (saved == now) | (np.isnan(saved) & np.isnan(now)) | (gap <= ROUNDING * sizes)
        if not alike.all():  # unless the functions do not give the same values twice
            alike |= gap <= REPEATS * np.nan_to_num(np.abs(again() - now)).max(axis=0)
    if alike.all():
        return ""
    k, j = (int(i) for i in np.argwhere(~alike)[0])
    return f"{'c' if j else 'f + g'} at start {k} was {saved[k, j]:.9g} and is {now[k, j]:.9g}"
