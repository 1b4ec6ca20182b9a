"""Many nonlinear programs at once: `auglag.jax.solve_batch` beside IPOPT, one script, one run.

    python benchmarks/batched.py --cpu --quick          # under a minute; ends with the line `ratio N`
    python benchmarks/batched.py --cpu --output DIR     # all of it on the CPU
    python benchmarks/batched.py --gpu --output DIR     # all of it on a GPU: needs jax[cuda12], numpy and scipy only

Families: HS71 with right-hand sides +-20 % (n = 4, m = 2); swinging up a pendulum from random states, ten steps of a
discretised optimal control problem with nonlinear dynamics and bounds (n = 30, m = 20); portfolios with a linear
objective, a cap on the variance, a budget and bounds (n = 20, m = 2); chains of springs of growing length. IPOPT is
`ipyopt` with exact first and second derivatives, asked for 1e-9 because its own test is a weaker one.
Every solution of every solver is judged by the same certificate (R <= 1e-6 in 64 bits), which the compiled program
computes; those of HS71 are judged once more in NumPy with derivatives written by hand. What a solver compiles is
compiled before the clock runs, and the best of several runs counts. Parameters are on the device before the clock
starts and results stay there: transfers are not in the times. What is not installed is skipped with a reason.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
if "--cpu" in sys.argv:  # one core for everybody: numbers are per core
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

from auglag.jax import solve, solve_batch  # noqa: E402

TOL = 1e-6
#: What IPOPT is asked for, so that nearly all of its solutions meet the same certificate.
IPOPT_TOL = 1e-9
#: The H200's peaks, for the floor: bytes per second, 64-bit operations per second without tensor cores.
H200 = {"bytes": 4.8e12, "flops": 34e12}


# ----------------------------------------------------------------------------------------------------------- families


def hs71_objective(x, p):
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def hs71_rows(x, p):
    return jnp.stack([jnp.prod(x) - p[0], x @ x - p[1]])


HS71 = {
    "fun": hs71_objective,
    "constraints": [(hs71_rows, np.zeros(2), np.array([np.inf, 0.0]))],
    "bounds": [(1.0, 5.0)] * 4,
}
HS71_X0 = np.array([1.0, 5.0, 5.0, 1.0])


def hs71_parameters(count, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([25.0, 40.0]) * (1.0 + 0.2 * rng.uniform(-1.0, 1.0, (count, 2)))


STEPS, DT = 10, 0.2


def pendulum_objective(x, start):
    angle, speed = x["state"][:, 0], x["state"][:, 1]
    return jnp.sum((1.0 + jnp.cos(angle)) + 0.1 * speed**2) + 0.05 * jnp.sum(x["control"] ** 2)


def pendulum_dynamics(x, start):
    """Midpoint rule for angle'' = -9.81 sin(angle) / 2 - 0.1 speed + control; angle pi is upright."""
    before = jnp.concatenate([start[None], x["state"][:-1]])
    middle = 0.5 * (before + x["state"])
    slope = jnp.stack([middle[:, 1], -4.905 * jnp.sin(middle[:, 0]) - 0.1 * middle[:, 1] + x["control"]], axis=1)
    return x["state"] - before - DT * slope


PENDULUM = {
    "fun": pendulum_objective,
    "constraints": [(pendulum_dynamics, 0.0, 0.0)],
    "bounds": ({"state": -8.0, "control": -6.0}, {"state": 8.0, "control": 6.0}),
}
PENDULUM_X0 = {"state": np.zeros((STEPS, 2)), "control": np.zeros(STEPS)}


def pendulum_parameters(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.0, 1.0, (count, 2)) * np.array([1.0, 1.0])


def chain_objective(x, load):
    """Potential energy of a chain whose links are springs of cubic stiffness, under random loads."""
    stretch = jnp.diff(jnp.concatenate([jnp.zeros(1), x, jnp.zeros(1)]))
    return jnp.sum(stretch**2 + stretch**4) - load @ x


def chain_length(x, load):
    return x @ x - 0.1 * x.shape[0]


ASSETS, FACTORS = 20, 5


def portfolio_parameters(count, seed=0, spread=(0.5, 1.5)):
    """Returns, five factors, specific risks, and a cap on the variance in units of the equal portfolio's."""
    rng = np.random.default_rng(seed)
    mean, loads = rng.normal(0.08, 0.05, (count, ASSETS)), rng.normal(0.0, 0.2, (count, FACTORS, ASSETS))
    own = rng.uniform(0.05, 0.3, (count, ASSETS))
    equal = (loads.mean(axis=2) ** 2).sum(axis=1) + (own**2).sum(axis=1) / ASSETS**2
    cap = equal * rng.uniform(*spread, count)
    return np.concatenate([mean, loads.reshape(count, -1), own, cap[:, None]], axis=1)


def portfolio_risk(x, p):
    loads, own = p[ASSETS : ASSETS * (FACTORS + 1)].reshape(FACTORS, ASSETS), p[ASSETS * (FACTORS + 1) : -1]
    return jnp.sum((loads @ x) ** 2) + jnp.sum((own * x) ** 2) - p[-1]


PORTFOLIO = {
    "fun": lambda x, p: -p[:ASSETS] @ x,
    "constraints": [(portfolio_risk, -np.inf, 0.0), (lambda x, p: jnp.sum(x) - 1.0, 0.0, 0.0)],
    "bounds": [(0.0, 0.3)] * ASSETS,
}
PORTFOLIO_X0 = np.full(ASSETS, 1.0 / ASSETS)


# ------------------------------------------------------------------------------------------------------------- timing


def measured(run, repeats=3):
    """(seconds of the first call, least seconds of the others, process seconds of that one, last result)."""
    t = time.perf_counter()
    result = jax.block_until_ready(run())
    first = time.perf_counter() - t
    best, cpu = math.inf, math.inf
    for _ in range(repeats):
        t, c = time.perf_counter(), time.process_time()
        result = jax.block_until_ready(run())
        wall = time.perf_counter() - t
        if wall < best:
            best, cpu = wall, time.process_time() - c
    return first, best, cpu, result


def family_row(name, statement, x0, parameters, repeats=3, **options):
    """One line of the tables: throughput and certificates of a batch."""
    p = jax.block_until_ready(jax.device_put(parameters))
    axes = {"in_axes": (None, 0)}
    run = lambda: solve_batch(statement["fun"], x0, (p,), constraints=statement["constraints"],  # noqa: E731
                              bounds=statement["bounds"], tol=TOL, **axes, **options)  # fmt: skip
    first, wall, cpu, found = measured(run, repeats)
    residual = np.asarray(found.residual)
    steps = np.asarray(found.steps)
    row = {
        "family": name,
        "batch": len(parameters),
        "seconds": wall,
        "per_second": len(parameters) / wall,
        "per_core_second": len(parameters) / max(cpu, 1e-9),
        "first_call_seconds": first,
        "certified": float(np.mean(residual <= TOL)),
        "uncertified": int(np.sum(~(residual <= TOL))),
        "largest_residual": float(np.max(residual)),
        "steps_mean": float(steps.mean()),
        "steps_max": int(steps.max()),
    }
    if statement is HS71:
        row["certified_by_hand"] = float(np.mean(hs71_residuals(found, parameters) <= TOL))
    say(row)
    return row, found


def hs71_residuals(found, parameters):
    """R of every instance of HS71 in NumPy, nothing of it from the package; bounds hold only where x is on them."""
    x, y = np.asarray(found.x), np.asarray(found.multipliers[0])
    a, b, c, d = x.T
    gradient = np.stack([d * (2 * a + b + c), a * d, a * d + 1, a * (a + b + c)], axis=1)
    gradient += y[:, :1] * np.stack([b * c * d, a * c * d, a * b * d, a * b * c], axis=1) + y[:, 1:] * 2 * x
    volume, sphere = a * b * c * d - parameters[:, 0], (x**2).sum(axis=1) - parameters[:, 1]
    held = ((x <= 1.0) & (gradient > 0.0)) | ((x >= 5.0) & (gradient < 0.0))
    stationarity = np.linalg.norm(np.where(held, 0.0, gradient), axis=1)
    outside = np.maximum(np.maximum(1.0 - x, x - 5.0), 0.0)
    violation = np.sqrt(np.minimum(volume, 0.0) ** 2 + sphere**2 + (outside**2).sum(axis=1))
    size = np.abs(y[:, 0])  # the volume's multiplier may only be negative, and only where the volume is at its side
    complementarity = np.where(y[:, 0] < 0.0, np.minimum(np.maximum(volume, 0.0), size), size)
    return stationarity + np.hypot(violation, complementarity)


def say(row):
    text = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    print(text, flush=True)


# -------------------------------------------------------------------------------------------------------------- rivals


def ipopt_rate(statement, x0, parameters, repeats=3):
    """(solves per core second, certified fraction) of IPOPT with exact derivatives, one instance after the other.

    The first instance is solved once before the clock runs, which compiles the callbacks; the best of `repeats` counts.
    """
    import ipyopt

    from auglag.jax.certificate import residuals
    from auglag.jax.statement import state

    one = jax.ShapeDtypeStruct(parameters.shape[1:], np.float64)
    s = state(statement["fun"], x0, (one,), statement["constraints"], statement["bounds"], np.dtype(float))
    f, n, m = s.functions, s.functions.n, s.functions.m
    lower_triangle = np.tril_indices(n)
    jitted = {
        "f": jax.jit(lambda x, p: f.objective(x, (p,))),
        "g": jax.jit(lambda x, p: jax.grad(f.objective)(x, (p,))),
        "c": jax.jit(lambda x, p: f.rows(x, (p,))),
        "j": jax.jit(lambda x, p: jax.jacfwd(f.rows)(x, (p,)).ravel()),
        "h": jax.jit(lambda x, p, s, y: f.hessian(x, (p,), s, y)[lower_triangle]),
    }
    by_hand = HS71_BY_HAND if statement is HS71 else None
    finite = lambda a: np.where(np.isfinite(a), a, np.sign(a) * 2e19)  # noqa: E731
    start = np.asarray(s.x.flat(x0, float))
    structure_j = (np.repeat(np.arange(m), n), np.tile(np.arange(n), m))
    structure_h = lower_triangle

    def solve_all(some):
        points, spent = [], 0.0
        for p in some:
            calls = by_hand(p) if by_hand else _compiled_calls(jitted, p)
            t = time.process_time()
            problem = ipyopt.Problem(n, finite(s.lower), finite(s.upper), m, finite(s.cl), finite(s.cu), structure_j,
                                     structure_h, *calls)  # fmt: skip
            problem.set(print_level=0, sb="yes", tol=IPOPT_TOL)
            y, zl, zu = np.zeros(m), np.zeros(n), np.zeros(n)
            x, _, _ = problem.solve(start.copy(), mult_g=y, mult_x_L=zl, mult_x_U=zu)
            spent += time.process_time() - t
            points.append((x.copy(), y.copy()))
        return points, spent

    solve_all(parameters[:1])
    points, spent = min((solve_all(parameters) for _ in range(repeats)), key=lambda run: run[1])
    judge = jax.jit(lambda x, y, p: residuals(f, x, y, (p,), s.lower, s.upper, s.cl, s.cu).residual)
    certified = np.mean([float(judge(x, y, p)) <= TOL for (x, y), p in zip(points, parameters, strict=True)])
    return len(parameters) / spent, float(certified)


def _compiled_calls(jitted, p):
    p = jnp.asarray(p)

    def into(name):
        def call(x, out):
            out[()] = jitted[name](x, p)
            return out

        return call

    def hessian(x, y, factor, out):
        out[()] = jitted["h"](x, p, factor, y)
        return out

    return (lambda x: float(jitted["f"](x, p))), into("g"), into("c"), into("j"), hessian


def HS71_BY_HAND(p):
    """The functions of HS71 as a user of IPOPT would write them."""

    def f(x):
        return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]

    def g(x, out):
        a, b, c, d = x
        out[0], out[1], out[2], out[3] = d * (2 * a + b + c), a * d, a * d + 1, a * (a + b + c)
        return out

    def c(x, out):
        a, b, c, d = x
        out[0], out[1] = a * b * c * d - p[0], a * a + b * b + c * c + d * d - p[1]
        return out

    def j(x, out):
        a, b, c, d = x
        out[0], out[1], out[2], out[3] = b * c * d, a * c * d, a * b * d, a * b * c
        out[4], out[5], out[6], out[7] = 2 * a, 2 * b, 2 * c, 2 * d
        return out

    def h(x, y, s, out):
        a, b, c, d = x
        u, v = y[0], 2 * y[1]
        out[0], out[1], out[2] = s * 2 * d + v, s * d + u * c * d, v
        out[3], out[4], out[5] = s * d + u * b * d, u * a * d, v
        out[6], out[7], out[8], out[9] = s * (2 * a + b + c) + u * b * c, s * a + u * a * c, s * a + u * a * b, v
        return out

    return f, g, c, j, h


def slsqp_rate(parameters):
    """`slsqp-jax` vmapped over the pendulum family: solves per second and the certified part of a sample."""
    import optimistix
    import slsqp_jax

    import auglag
    from auglag.jax import JaxProblem
    from auglag.jax.statement import state

    s = state(
        PENDULUM["fun"], PENDULUM_X0, (parameters[0],), PENDULUM["constraints"], PENDULUM["bounds"], np.dtype(float)
    )
    f, m = s.functions, s.functions.m
    solver = slsqp_jax.SLSQP(
        eq_constraint_fn=lambda x, p: f.rows(x, (p,)),
        n_eq_constraints=m,
        bounds=jnp.stack([jnp.asarray(s.lower), jnp.asarray(s.upper)], axis=1),
        config=slsqp_jax.SLSQPConfig(tolerance=slsqp_jax.ToleranceConfig(rtol=TOL, atol=TOL)),
    )
    start = jnp.asarray(s.x.flat(PENDULUM_X0, float))

    def one(p):
        objective = lambda x, args: (f.objective(x, (p,)), None)  # noqa: E731
        return optimistix.minimise(objective, solver, start, p, has_aux=True, max_steps=200, throw=False).value

    p = jnp.asarray(parameters)
    together = jax.jit(jax.vmap(one))
    first, wall, cpu, found = measured(lambda: together(p), 1)
    checks = [
        auglag.certify(JaxProblem(PENDULUM["fun"], PENDULUM_X0, (q,), constraints=PENDULUM["constraints"],
                                  bounds=PENDULUM["bounds"]), np.asarray(x)).meets(TOL)
        for x, q in zip(found[:20], parameters[:20], strict=True)
    ]  # fmt: skip
    return {"family": "pendulum", "solver": "slsqp-jax", "batch": len(parameters), "per_second": len(parameters) / wall,
            "per_core_second": len(parameters) / cpu, "first_call_seconds": first,
            "certified_of_20": int(np.sum(checks))}  # fmt: skip


def against_slsqp(parameters):
    try:
        row = slsqp_rate(parameters)
    except ImportError as error:
        row = {"family": "pendulum", "solver": "slsqp-jax", "skipped": f"not installed ({error})"}
    except Exception as error:  # another version's arguments, or its own failure: said, not hidden
        row = {"family": "pendulum", "solver": "slsqp-jax", "skipped": f"{type(error).__name__}: {error}"[:300]}
    say(row)
    return row


def against_ipopt(name, statement, x0, parameters, repeats=3):
    try:
        rate, certified = ipopt_rate(statement, x0, parameters, repeats)
    except ImportError as error:
        print(f"IPOPT skipped: {error} (pip install ipyopt)", flush=True)
        return {"family": name, "skipped": f"ipyopt is not installed ({error})"}
    row = {
        "family": name,
        "solver": "IPOPT",
        "instances": len(parameters),
        "per_core_second": rate,
        "certified": certified,
    }
    say(row)
    return row


# ------------------------------------------------------------------------------------------------------------ sections


def growth_in_batch(sizes):
    return [family_row("hs71", HS71, HS71_X0, hs71_parameters(size), repeats=2)[0] for size in sizes]


def growth_in_n(sizes, batch):
    rows = []
    for n in sizes:
        rng = np.random.default_rng(n)
        statement = {"fun": chain_objective, "constraints": [(chain_length, -np.inf, 0.0)], "bounds": (-1.0, 1.0)}
        row, _ = family_row(f"chain, n={n}", statement, np.zeros(n), rng.uniform(-1.0, 3.0, (batch, n)), repeats=2)
        rows.append({**row, "n": n})
    return rows


def first_solves():
    """Seconds of the first call of `solve` for one instance of each family, compilation included."""
    families = {
        "hs71": (HS71, HS71_X0, hs71_parameters(1)),
        "pendulum": (PENDULUM, PENDULUM_X0, pendulum_parameters(1)),
        "portfolio": (PORTFOLIO, PORTFOLIO_X0, portfolio_parameters(1)),
    }
    row = {}
    for name, (statement, x0, p) in families.items():
        t = time.perf_counter()
        jax.block_until_ready(
            solve(statement["fun"], x0, (p[0],), constraints=statement["constraints"], bounds=statement["bounds"])
        )
        row[name] = time.perf_counter() - t
    say(row)
    return row


def gradient_section(count):
    """The gradient of a solution map: error against central differences, cost against one solve."""

    def solution(p):
        return solve(HS71["fun"], HS71_X0, (p,), constraints=HS71["constraints"], bounds=HS71["bounds"], tol=1e-10).x

    def loss(p):
        return jnp.sum(jnp.sin(solution(p)))

    p = jnp.asarray(hs71_parameters(count, seed=1))
    forward, gradient = jax.jit(jax.vmap(loss)), jax.jit(jax.vmap(jax.grad(loss)))
    _, t_forward, _, _ = measured(lambda: forward(p))
    _, t_gradient, _, found = measured(lambda: gradient(p))
    h = 1e-5
    differences = np.stack(
        [(forward(p.at[:, i].add(h)) - forward(p.at[:, i].add(-h))) / (2 * h) for i in range(2)], axis=1
    )
    error = np.abs(np.asarray(found) - differences)
    row = {"batch": count, "error_median": float(np.median(error)), "error_99_percent": float(np.quantile(error, 0.99)),
           "cost_in_solves": (t_gradient / t_forward)}  # fmt: skip
    say(row)
    return row


def floor_section(batch):
    """Bytes and operations that the compiled program says it needs, beside the time it takes."""
    from auglag.jax import batch as batches
    from auglag.jax.method import PROGRAMS

    tiles = [t for t in PROGRAMS._kept.values() if isinstance(t, batches.Tiles) and t.program.functions.n == 4]
    if not tiles:
        return {"skipped": "no compiled program"}
    tile = tiles[-1]
    x = jnp.asarray(np.tile(HS71_X0[:, None], (1, batch)))
    p = (jnp.asarray(hs71_parameters(batch).T),)
    state = jax.jit(lambda x, p: tile.program.begin(x, jnp.zeros((2, batch)), None, p, tile.sides))(x, p)
    one = jax.jit(lambda s, p: tile.program._lockstep(p, tile.sides, batch).step(s))
    compiled = one.lower(state, p).compile()
    _, wall, _, _ = measured(lambda: compiled(state, p))
    cost = compiled.cost_analysis() or {}
    cost = cost[0] if isinstance(cost, list) else cost
    held = sum(leaf.nbytes for leaf in jax.tree_util.tree_leaves(state))
    row = {
        "batch": batch,
        "step_seconds": wall,
        "bytes_accessed_per_instance_step": cost.get("bytes accessed", math.nan) / batch,
        "flops_per_instance_step": cost.get("flops", math.nan) / batch,
        "state_bytes_per_instance": held / batch,
        "kernels_in_step": compiled.as_text().count(" fusion("),
    }
    memory = compiled.memory_analysis()
    if memory is not None:
        row["working_bytes_per_instance"] = (memory.temp_size_in_bytes + memory.argument_size_in_bytes) / batch
    if jax.devices()[0].platform == "gpu":
        row["floor_seconds_memory"] = 2 * held / H200["bytes"]
        row["floor_seconds_bytes_accessed"] = cost.get("bytes accessed", math.nan) / H200["bytes"]
        row["floor_seconds_flops"] = cost.get("flops", math.nan) / H200["flops"]
    say(row)
    return row


def plot(results, folder):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        return f"no plot: {error}"
    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    rows = results["growth_in_batch"]
    axes[0].loglog([r["batch"] for r in rows], [r["per_second"] for r in rows], "o-")
    axes[0].set(xlabel="batch", ylabel="solves per second", title="HS71 family")
    rows = results["growth_in_n"]
    axes[1].loglog([r["n"] for r in rows], [r["per_second"] for r in rows], "o-")
    axes[1].set(xlabel="n", ylabel="solves per second", title=f"chains, batch {rows[0]['batch']}")
    for axis in axes:
        axis.grid(True, which="both", alpha=0.3)
    figure.tight_layout()
    figure.savefig(folder / "batched.png", dpi=120)
    return "batched.png"


def markdown(results):
    lines = [f"# Batched solves on {results['device']}", "", f"JAX {results['jax']}, 64 bits, R <= {TOL:g}.", ""]
    columns = [
        "family",
        "batch",
        "per_second",
        "certified",
        "certified_by_hand",
        "uncertified",
        "largest_residual",
        "steps_mean",
        "steps_max",
    ]
    columns += ["seconds", "first_call_seconds"]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in [*results["families"], *results["growth_in_batch"], *results["growth_in_n"]]:
        known = [row.get(c, "") for c in columns]
        cells = [cell if isinstance(cell, str | int) else f"{cell:.4g}" for cell in known]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    for name in ("ipopt", "slsqp", "gradient", "floor", "first_solves"):
        lines += ["", f"## {name}", "", "```", json.dumps(results.get(name), indent=1), "```"]
    return "\n".join(lines) + "\n"


def quick():
    """HS71 on one CPU core, ours and IPOPT's in turn so that both meet the same load."""
    count = 20_000
    family_row("hs71", HS71, HS71_X0, hs71_parameters(count), repeats=1)  # compiled here, not timed
    ours, theirs = [], []
    for round_ in range(3):
        row, _ = family_row("hs71", HS71, HS71_X0, hs71_parameters(count, seed=round_), repeats=1)
        rival = against_ipopt("hs71", HS71, HS71_X0, hs71_parameters(150, seed=round_), repeats=1)
        if "skipped" in rival or row["uncertified"]:
            print("ratio nan" if "skipped" in rival else f"uncertified: {row['uncertified']}\nratio 0")
            return
        ours.append(row["per_core_second"])
        theirs.append(rival["per_core_second"])
    print(f"ratio {np.median(ours) / np.median(theirs):.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--cpu", action="store_true")
    where.add_argument("--gpu", action="store_true")
    parser.add_argument("--quick", action="store_true", help="HS71 against IPOPT only")
    parser.add_argument("--output", type=Path, help="folder for batched.json, batched.md and batched.png")
    parser.add_argument("--sections", default="families,first,floor,ipopt,slsqp,batch,n,gradient")
    options = parser.parse_args()
    device = jax.devices()[0]
    if options.gpu and device.platform != "gpu":
        sys.exit(f"--gpu needs a GPU that JAX can use, this is {device.device_kind}")
    if options.quick:
        quick()
        return
    sections = options.sections.split(",")
    results: dict[str, Any] = {"device": device.device_kind, "jax": jax.__version__}
    results |= {"families": [], "growth_in_batch": [], "growth_in_n": []}
    gpu = options.gpu

    def part(name, key, make):
        if name not in sections:
            return
        print(f"--- {name}", flush=True)
        try:
            results[key] = make()
        except Exception as error:  # a part that fails must not lose the others
            results[key] = (
                [] if key.startswith(("growth", "families")) else {"skipped": f"{type(error).__name__}: {error}"}
            )
            print(f"{name} failed: {type(error).__name__}: {error}", flush=True)
        if options.output:
            options.output.mkdir(parents=True, exist_ok=True)
            (options.output / "batched.json").write_text(json.dumps(results, indent=1))
            (options.output / "batched.md").write_text(markdown(results))

    part("families", "families", lambda: [
        family_row("hs71", HS71, HS71_X0, hs71_parameters(size))[0]
        for size in ((100_000, 1_000_000, 4_000_000) if gpu else (100_000,))
    ] + [
        family_row("pendulum", PENDULUM, PENDULUM_X0, pendulum_parameters(10_000 if gpu else 1000))[0],
        family_row("portfolio", PORTFOLIO, PORTFOLIO_X0, portfolio_parameters(20_000 if gpu else 1000))[0],
    ])  # fmt: skip
    part("first", "first_solves", first_solves)
    part("floor", "floor", lambda: floor_section(1_000_000 if gpu else 4096))
    part("ipopt", "ipopt", lambda: [
        against_ipopt("hs71", HS71, HS71_X0, hs71_parameters(300)),
        against_ipopt("pendulum", PENDULUM, PENDULUM_X0, pendulum_parameters(50)),
    ])  # fmt: skip
    part("batch", "growth_in_batch", lambda: growth_in_batch([10**k for k in range(7 if gpu else 5)]))
    part("n", "growth_in_n", lambda: growth_in_n([4, 8, 16, 32, 64, 100], 10_000 if gpu else 500))
    part("gradient", "gradient", lambda: gradient_section(10_000 if gpu else 500))
    part("slsqp", "slsqp", lambda: against_slsqp(pendulum_parameters(10_000 if gpu else 100)))
    if options.output:
        results["plot"] = (
            plot(results, options.output) if results["growth_in_batch"] and results["growth_in_n"] else "none"
        )
        (options.output / "batched.json").write_text(json.dumps(results, indent=1))
        (options.output / "batched.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
