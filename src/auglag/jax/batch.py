"""`solve_batch`: many instances at once, finished ones leaving the batch, in chunks and over several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from auglag.algorithm.status import Status
from auglag.errors import InputError, integer_or_none
from auglag.jax.certificate import Residuals
from auglag.jax.compiler import quick_options
from auglag.jax.method import PROGRAMS, key_of, method, program, sides_of
from auglag.jax.program import Program
from auglag.jax.solution import Solution
from auglag.jax.state import RUNNING, Sides, State
from auglag.jax.statement import Statement, state
from auglag.jax.structure import Shape, refuse_unknown, require_dtype, require_tol
from auglag.jax.tuning import TUNING
from auglag.jax.vectors import Array
from auglag.report import logger


def solve_batch(
    fun: Callable[..., Any] | None,
    x0: Any,
    args: Any = (),
    *,
    constraints: Any = (),
    bounds: Any = None,
    in_axes: Any = None,
    tol: float | None = None,
    variant: str | None = None,
    penalty: Any = None,
    dual: Any = None,
    tolerance: Any = None,
    inner: str = "auto",
    accelerate: bool = True,
    scaling: bool = True,
    max_outer: int = 100,
    max_steps: int | None = None,
    dtype: Any = None,
    chunk: int | None = None,
    devices: Sequence[Any] | None = None,
    **unknown: Any,
) -> Solution:
    """Solve one problem for many parameters and starting points; every instance has its own penalty and status.

    The parameters that are not listed are those of `auglag.jax.solve`.

    Returns a `Solution` with the batch as the first axis of every array. Call it with the same function objects again
    and nothing is compiled anew. It schedules the batch from outside of JAX, so that it cannot be differentiated or be
    part of a compiled function; `jax.vmap` of `solve` can.

    Parameters
    ----------
    in_axes : (axes of x0, axes of args)
        As in `jax.vmap`, with 0 for "the first axis is the batch" and None for "shared by all". By default x0 and every
        argument are batched, as with (0, 0), and an x0 with one axis, which is then of problems in one variable, gives
        a warning; `(None, 0)` starts all instances from one x0. The second entry may be a tuple with one axis per
        argument.
    chunk : int
        Instances worked on at a time; by default what suits the device's memory.
    devices : sequence of jax.Device
        Devices to spread the batch over; by default the one JAX uses.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> import auglag.jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> disc = (lambda x, r: x @ x - r**2, -jnp.inf, 0.0)
    >>> radii = jnp.linspace(0.5, 2.0, 4)
    >>> objective = lambda x, r: jnp.sum((x - 3) ** 2)
    >>> batch = auglag.jax.solve_batch(objective, jnp.zeros(2), (radii,), constraints=disc, in_axes=(None, 0))
    >>> [f"{x:.4f}" for x in batch.x[:, 0]]
    ['0.3536', '0.7071', '1.0607', '1.4142']
    """
    refuse_unknown(solve_batch, unknown)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves((x0, args))):
        raise InputError(
            "solve_batch runs outside jit, vmap and grad: x0 and args must be arrays, got traced values; "
            "jax.vmap of auglag.jax.solve can be compiled and differentiated"
        )
    wanted = require_dtype(dtype)
    tol = require_tol(tol, wanted)
    x0, args = _plain(x0), tuple(_plain(part) for part in (args if isinstance(args, tuple) else (args,)))
    x_axes, arg_axes, batch = _axes(x0, args, in_axes if in_axes is not None else (0, 0))
    if in_axes is None:
        _name_scalars(x0)
    one_x, one_p = (_instance(tree, axes) for tree, axes in ((x0, x_axes), (args, arg_axes)))
    statement = state(fun, one_x, one_p, constraints, bounds, wanted)
    sides = sides_of(statement)
    if any(isinstance(side, jax.core.Tracer) for side in sides):
        raise InputError(
            "solve_batch runs outside jit: bounds and sides must be plain numbers; use jax.vmap of solve there"
        )
    chosen = method(
        statement, tol=tol, variant=variant, penalty=penalty, dual=dual, tolerance=tolerance, inner=inner,
        accelerate=accelerate, scaling=scaling, max_outer=max_outer, max_steps=max_steps, record=0,
    )  # fmt: skip
    leaves, tree = jax.tree_util.tree_flatten(one_p)
    flat_axes = tuple(jax.tree_util.tree_leaves(arg_axes))
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    key = (key_of(fun, statement, (tree, shapes), flat_axes, chosen), tuple(side.tobytes() for side in sides))
    tiles: Tiles = PROGRAMS.get(key, lambda: Tiles(program(statement, one_p, arg_axes, chosen), sides))
    x = _flat(x0, x_axes, statement.x, wanted)
    p = jax.tree_util.tree_map(lambda leaf, mapped: _last(leaf) if mapped else jnp.asarray(leaf), args, arg_axes)
    used = list(devices) if devices is not None else []
    size = chunk_size(statement, batch, chunk, used)
    found = tiles.solve(x, p, batch, size, used)
    return _solution(statement, found)


# ------------------------------------------------------------------------------------------------------------ arguments


def _axes(x0: Any, args: tuple[Any, ...], in_axes: Any) -> tuple[Any, Any, int]:
    """Whether each leaf of x0 and args is batched, and the size of the batch."""
    if not (isinstance(in_axes, tuple | list) and len(in_axes) == 2):
        raise InputError(f"in_axes must be a pair (axes of x0, axes of args), got {in_axes!r}")
    per_arg = in_axes[1] if isinstance(in_axes[1], tuple | list) else [in_axes[1]] * len(args)
    if len(per_arg) != len(args):
        raise InputError(f"in_axes[1] must have one entry per argument, {len(args)}, got {len(per_arg)}")
    trees = []
    for tree, axis in ((x0, in_axes[0]), *zip(args, per_arg, strict=True)):
        if axis not in (0, None):
            raise InputError(f"in_axes must hold 0 (batched) or None (shared), got {axis!r}")
        trees.append(jax.tree_util.tree_map(lambda _, axis=axis: axis == 0, tree))
    sizes: dict[int, str] = {}
    for name, tree, axes in (
        ("x0", x0, trees[0]),
        *[(f"args[{i}]", a, t) for i, (a, t) in enumerate(zip(args, trees[1:], strict=True))],
    ):
        for leaf, mapped in zip(jax.tree_util.tree_leaves(tree), jax.tree_util.tree_leaves(axes), strict=True):
            if mapped:
                if np.ndim(leaf) == 0:
                    raise InputError(f"{name} must have the batch as its first axis, got a number; in_axes shares it")
                sizes.setdefault(np.shape(leaf)[0], name)
    if not sizes:
        raise InputError("in_axes must mark something as batched: with everything shared, call solve")
    if len(sizes) > 1:
        said = " and ".join(f"{size} in {name}" for size, name in sizes.items())
        raise InputError(f"the batch must have one size, got {said}")
    batch = next(iter(sizes))
    if batch == 0:
        raise InputError("the batch must have at least one instance, got 0")
    return trees[0], tuple(trees[1:]), batch


def _name_scalars(x0: Any) -> None:
    """One start for all may have as many entries as there are instances; it looks like one number for each."""
    if len(jax.tree_util.tree_leaves(x0)) == 1 and np.ndim(x0) == 1:
        logger.warn(
            f"x0 of shape {np.shape(x0)} was taken for {len(x0)} instances with one variable each: its first axis is "
            f"the batch. If that is meant, say in_axes=(0, 0); if it is one start of {len(x0)} variables for all "
            "instances, in_axes=(None, 0)"
        )


def _plain(tree: Any) -> Any:
    """A list of numbers, or of lists of numbers, is an array."""
    if isinstance(tree, list):
        try:
            return np.asarray(tree, float)
        except (TypeError, ValueError):
            return tree
    return tree


def _instance(tree: Any, axes: Any) -> Any:
    def one(leaf: Any, mapped: bool) -> Any:
        return jax.ShapeDtypeStruct(np.shape(leaf)[1:] if mapped else np.shape(leaf), jnp.result_type(leaf))

    return jax.tree_util.tree_map(one, tree, axes)


def _last(leaf: Any) -> Array:
    return jnp.moveaxis(jnp.asarray(leaf), 0, -1)


def _flat(x0: Any, axes: Any, shape: Shape, dtype: Any) -> Array:
    """x0 as (n, batch), or (n, 1) where it is shared."""
    leaves = jax.tree_util.tree_leaves(x0)
    flags = jax.tree_util.tree_leaves(axes)
    rows = []
    for leaf, mapped, size in zip(leaves, flags, shape.sizes, strict=True):
        array = jnp.asarray(leaf, dtype)
        rows.append(array.reshape(array.shape[0], size).T if mapped else array.reshape(size, 1))
    widest = max(row.shape[1] for row in rows)
    return (
        jnp.concatenate([jnp.broadcast_to(row, (row.shape[0], widest)) for row in rows]) if len(rows) > 1 else rows[0]
    )


def chunk_size(statement: Statement, batch: int, chunk: int | None, devices: Sequence[Any]) -> int:
    """Instances per chunk and device, so that the chunks are of one size and little is wasted."""
    chunk = integer_or_none(chunk, "chunk")
    each = max(len(devices), 1)
    if chunk is None:
        n, m = statement.functions.n, statement.functions.m
        platform = (devices[0] if devices else jax.devices()[0]).platform
        numbers = 4 * n * n + 3 * n * m + 40 * (n + m)
        chunk = max((TUNING.cpu_numbers if platform == "cpu" else TUNING.gpu_numbers) // numbers, 1)
    share = -(-batch // each)
    tiles = -(-share // int(chunk))
    return -(-share // tiles)


# ---------------------------------------------------------------------------------------------------------------- tiles


@final
class Tiles:
    """One compiled program for chunks of one size."""

    def __init__(self, own: Program, sides: Sides) -> None:
        self.program, self.sides = own, sides
        self.compiled: dict[Any, Any] = {}

    def solve(self, x: Array, p: Any, batch: int, size: int, devices: Sequence[Any]) -> tuple[Any, ...]:
        """All instances, chunk by chunk; nothing waits for the device until the results are asked for."""
        across = max(len(devices), 1)
        run = self._runner(size, devices, TUNING.thinnings if batch >= TUNING.thinned_batch else 0)
        if len(devices) == 1:
            x, p = jax.device_put((x, p), devices[0])
        parts = []
        for start in range(0, batch, size * across):
            parts.append(run(self._cut(x, start, size * across, batch), self._cut_all(p, start, size * across, batch)))
        if len(parts) == 1:
            whole = jax.tree_util.tree_map(lambda a: a[..., :batch] if a.shape[-1] != batch else a, parts[0])
        else:
            whole = jax.tree_util.tree_map(lambda *a: jnp.concatenate(a, axis=-1)[..., :batch], *parts)
        return tuple(whole)

    def _cut(self, a: Array, start: int, width: int, batch: int) -> Array:
        """Instances start ... start + width, the last one repeated beyond the end."""
        if a.shape[-1] == 1 != batch:
            return jnp.broadcast_to(a, (*a.shape[:-1], width))
        if start + width <= batch:
            return a if width == batch else a[..., start : start + width]
        return jnp.pad(a[..., start:], [(0, 0)] * (a.ndim - 1) + [(0, start + width - batch)], mode="edge")

    def _cut_all(self, p: Any, start: int, width: int, batch: int) -> Any:
        cut = lambda leaf, mapped: self._cut(leaf, start, width, batch) if mapped else leaf  # noqa: E731
        return jax.tree_util.tree_map(cut, p, self.program.axes)

    def _runner(self, size: int, devices: Sequence[Any], thinnings: int) -> Any:
        key = (size, tuple(devices), thinnings)
        if key not in self.compiled:
            tile = partial(self._tile, thinnings=thinnings)
            platform = (devices[0] if devices else jax.devices()[0]).platform
            quick = platform == "cpu" and not self.program.unrolled  # which is one long expression: XLA has to fuse it
            jit = partial(jax.jit, compiler_options=quick_options(1) if quick else None)
            self.compiled[key] = jit(tile) if len(devices) < 2 else jit(self._sharded(tile, devices))
        return self.compiled[key]

    def _sharded(self, tile: Any, devices: Sequence[Any]) -> Any:
        """The same chunk program on every device, each on its own columns: no device waits for another."""
        mesh = jax.sharding.Mesh(np.asarray(devices), ("batch",))
        spec = jax.sharding.PartitionSpec

        def columns(leaf: Any) -> Any:
            return spec(*([None] * (leaf.ndim - 1)), "batch")

        def run(x: Array, p: Any) -> Any:
            shared = jax.tree_util.tree_map(
                lambda leaf, mapped: columns(leaf) if mapped else spec(), p, self.program.axes
            )
            shape = jax.eval_shape(tile, x, p)
            out = jax.tree_util.tree_map(columns, shape)
            return _shard_map(tile, mesh, (columns(x), shared), out)(x, p)

        return run

    def _tile(self, x: Array, p: Any, thinnings: int) -> tuple[Array, Array, Residuals, Array, Array, Array, Array]:
        """One chunk from start to certificate."""
        own, sides = self.program, self.sides
        batch = x.shape[-1]
        y = jnp.zeros((own.functions.m, batch), own.dtype)
        s = self._thinned(own.begin(x, y, None, p, sides), p, thinnings)
        found, multipliers = own.solution(s)
        check = own.certify(found, multipliers, p, sides)
        return found, multipliers, check, judged(s.status, check.residual, own.options.tol), s.k, s.steps, s.beta

    def _thinned(self, s: State, p: Any, times: int) -> State:
        """Run; when few are left, let them go on by themselves and put them back in their places."""
        batch = s.beta.shape[-1]
        few = batch // TUNING.thinning
        limit = self.program.options.max_steps
        if few < TUNING.thinned or not times:
            return self.program.run(s, p, self.sides, limit, 0)
        s = self.program.run(s, p, self.sides, limit, few)
        places = jnp.nonzero(s.status == RUNNING, size=few, fill_value=batch)[0]
        inside = jnp.minimum(places, batch - 1)
        rest = jax.tree_util.tree_map(lambda a: a[..., inside], s)
        rest = rest._replace(status=jnp.where(places < batch, rest.status, int(Status.ITERATION_LIMIT)))
        p_rest = jax.tree_util.tree_map(lambda a, mapped: a[..., inside] if mapped else a, p, self.program.axes)
        rest = self._thinned(rest, p_rest, times - 1)
        back: State = jax.tree_util.tree_map(lambda a, b: a.at[..., places].set(b, mode="drop"), s, rest)
        return back


def _shard_map(function: Any, mesh: Any, in_specs: Any, out_specs: Any) -> Any:
    """`jax.shard_map`, by the name and with the switch that this version of JAX has for it."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
    from jax.experimental.shard_map import shard_map  # older versions

    return shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False)


def judged(status: Array, residual: Array, tol: float) -> Array:
    """The certificate decides: success without it is not success, with it a failure is none."""
    met = residual <= tol
    claimed = status == int(Status.SOLVED)
    return jnp.where(met, int(Status.SOLVED), jnp.where(claimed, int(Status.UNCERTIFIED), status))


def _solution(statement: Statement, found: tuple[Any, ...]) -> Solution:
    x, y, check, status, k, steps, beta = found
    return Solution(
        x=_batch_first(statement.x.tree_of(x)),
        fun=check.objective,
        multipliers=[_batch_first(part) for part in statement.multipliers(y)],
        bound_multipliers=_batch_first(statement.x.tree_of(check.bound_multipliers)),
        status=status,
        residual=check.residual,
        stationarity=check.stationarity,
        violation=check.violation,
        complementarity=check.complementarity,
        outer=k,
        steps=steps,
        penalty=beta,
    )


def _batch_first(tree: Any) -> Any:
    return jax.tree_util.tree_map(lambda a: jnp.moveaxis(a, -1, 0), tree)
