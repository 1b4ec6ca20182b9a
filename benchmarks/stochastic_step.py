"""What one step on the Neyman-Pearson problem costs: kernels, NumPy, JAX, and the floor of gathering the rows.

    python benchmarks/stochastic_step.py

57 features, 128 + 128 rows and 128 more for the second sample of the constraint; then batches of 16 to 256, and rows
that fit into no cache. All in one run, on one core, CPU time of the fastest of several repetitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from auglag.datasets import load_spambase
from auglag.stochastic import SGD, SVRG, ConstantStep, Method, PStorm, StochasticProblem, neyman_pearson
from auglag.stochastic.full_batch import FullBatch
from auglag.stochastic.fused import Backend
from auglag.stochastic.lagrangian import Geometry, StochasticLagrangian
from auglag.stochastic.limits import Ledger, Limits, Meter
from auglag.stochastic.sampling import SampledLagrangian, Sampling

STEPS, REPEATS, BATCH = 1024, 30, 128
MANY = 400_000  #: rows that no cache holds
METHODS = {  # with the gradients of a step
    "SGD": (SGD(step=ConstantStep(0.01)), 1),
    "PStorm": (PStorm(step=ConstantStep(0.01), momentum=0.5), 2),
    "SVRG, between snapshots": (SVRG(step=ConstantStep(0.01), batch=BATCH, period=10**6), 1),
}


def fastest(function: Callable[[], object], repeats: int = REPEATS, steps: int = STEPS) -> float:
    """Microseconds per step."""
    function()
    best = np.inf
    for _ in range(repeats):
        began = time.process_time()
        function()
        best = min(best, time.process_time() - began)
    return 1e6 * best / steps


def oracle_of(problem: StochasticProblem, batch: int = BATCH) -> tuple[SampledLagrangian, np.ndarray]:
    full = FullBatch(problem, Ledger())
    exact = StochasticLagrangian(Geometry(problem, "explicit"), full, np.array([0.1]), 1.0)
    v = exact.geometry.start(np.zeros(problem.n), np.array([0.7]))
    return SampledLagrangian(exact, Sampling(problem.blocks, batch), Meter(Limits(), full.ledger)), v


def method_cost(
    problem: StochasticProblem, method: Method, backend: str, repeats: int = REPEATS, batch: int = BATCH
) -> float:
    oracle, v = oracle_of(problem, batch)
    engine, rng = Backend(backend, problem), np.random.default_rng(0)
    return fastest(lambda: method.run(oracle, v, STEPS, rng, engine), repeats)


def plain_numpy(plus: np.ndarray, minus: np.ndarray, chat: float) -> float:
    """The loop anybody would write: no library, no classes."""
    rng = np.random.default_rng(0)
    y, beta, alpha = 0.1, 1.0, 0.01

    def run() -> None:
        x, s = np.zeros(plus.shape[1]), chat
        for _ in range(STEPS):
            a = plus[rng.integers(0, len(plus), BATCH)]
            b = minus[rng.integers(0, len(minus), BATCH)]
            c = minus[rng.integers(0, len(minus), BATCH)]
            w = y + beta * (np.mean(np.logaddexp(0.0, c @ x)) - s)
            grad = -(1.0 / (1.0 + np.exp(a @ x))) @ a / BATCH + w * ((1.0 / (1.0 + np.exp(-(b @ x)))) @ b) / BATCH
            x = x - alpha * grad
            s = min(s + alpha * w, chat)

    return fastest(run, 5)


def gather_floor(blocks: tuple, oracle: SampledLagrangian) -> float:
    """Drawing the indices and copying the rows they name, compiled: no step can do without."""
    from numba import njit

    @njit(fastmath=True, error_model="numpy")
    def all_rows(matrices, indices, steps, buffer):
        for step in range(steps):
            for b in range(3):
                A, index = matrices[b], indices[b]
                for e in range(index.shape[1]):
                    i = index[step, e]
                    for j in range(buffer.shape[1]):
                        buffer[e, j] = A[i, j]

    plus, minus = (np.ascontiguousarray(block.A) for block in blocks)
    buffer, rng = np.empty((max(oracle.sampling.sizes), plus.shape[1]), plus.dtype), np.random.default_rng(0)

    def run() -> None:
        for draw in oracle.sampling.draws(rng, STEPS):
            all_rows((plus, minus, minus), (draw.first[0], draw.first[1], draw.second[1]), draw.steps, buffer)

    return fastest(run)


def parts_of_a_step(problem: StochasticProblem, floor: float) -> list[str]:
    """What no step of a kind can do without, added up: times in units of the floor."""
    from numba import njit

    from auglag.stochastic import compiled
    from auglag.stochastic.fused import Model

    model, oracle = Model.of(problem.linear, problem.m), oracle_of(problem)[0]
    assert model is not None
    wide, kind = model.As[0].shape[1], model.As[0].dtype
    (g, x, o), (z, zo, out, _), work = compiled.room(kind, max(oracle.sampling.sizes), wide)
    plus, minus = model.As
    t_plus, t_minus = model.ts

    @njit(fastmath=True, error_model="numpy")
    def some(plus, minus, a, b, c, steps, points, losses, sums, x, o, z, zo, out, g, work):
        total = 0.0
        for step in range(steps):
            for part in range(3):
                A = plus if part == 0 else minus
                t = t_plus if part == 0 else t_minus
                index = a[step] if part == 0 else (b[step] if part == 1 else c[step])
                if points == 1:
                    compiled.margins(A, index, x, z)
                elif points == 2:
                    compiled.two_margins(A, index, x, o, z, zo)
                for point in range(points if losses else 0):
                    if part == 2:
                        total += compiled.loss(0, z if point == 0 else zo, index, t, work)
                    else:
                        compiled.slopes(0, z if point == 0 else zo, index, t, out, work)
                if sums and part < 2:
                    compiled.accumulate(A, index, out, g)
        return total

    def cost(points: int, losses: bool, sums: bool) -> float:
        rng = np.random.default_rng(0)

        def run() -> None:
            for draw in oracle.sampling.draws(rng, STEPS):
                rows = draw.first[0], draw.first[1], draw.second[1]
                some(plus, minus, *rows, draw.steps, points, losses, sums, x, o, z, zo, out, g, work)

        return fastest(run) / floor

    return [
        f"{cost(*stages):.2f}"
        for stages in ((0, False, False), (1, False, False), (1, True, False), (1, True, True), (2, False, False),
                       (2, True, False), (2, True, True))
    ]  # fmt: skip


def main() -> None:
    data = load_spambase()
    double = neyman_pearson(data.X, data.y, chat=0.6, seed=0)
    single = neyman_pearson(data.X, data.y, chat=0.6, seed=0, dtype=np.float32)
    plus, minus = (block.A for block in double.linear)
    rows = []
    base = plain_numpy(plus, minus, 0.6)
    floors = {
        "float64": gather_floor(double.linear, oracle_of(double)[0]),
        "float32": gather_floor(single.linear, oracle_of(single)[0]),
    }
    rows.append(("plain NumPy loop, float64", base, 1, floors["float64"]))
    for kind, problem in (("float64", double), ("float32", single)):
        for name, (method, gradients) in METHODS.items():
            rows.append((f"{name}, numba {kind}", method_cost(problem, method, "numba"), gradients, floors[kind]))
    rows.append(("SGD, auglag with NumPy", method_cost(double, METHODS["SGD"][0], "numpy", 3), 1, floors["float64"]))
    rows += jax_rows(plus, minus, METHODS["SGD"][0], floors["float64"])
    print("floor (drawing and copying 384 rows):", ", ".join(f"{us:.1f} us in {kind}" for kind, us in floors.items()))
    print("| | us per step | gradients per step | times the floor | plain NumPy / this |")
    print("|---|---|---|---|---|")
    for name, cost, gradients, floor in rows:
        print(f"| {name} | {cost:.1f} | {gradients} | {cost / floor:.2f} | {base / cost:.1f} |")
    print(
        "\nWhat a step is made of, in units of the floor: drawing the rows, their products with x, losses and slopes,"
    )
    print(
        "the weighted sum of the first 256 rows; and the same where rows are multiplied with two points, as PStorm's:\n"
    )
    print(
        "| | draws | + products | + losses | + sums (least of SGD, SVRG) | two products | + losses | + sums (PStorm) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for kind, problem in (("float64", double), ("float32", single)):
        print(f"| {kind} | {' | '.join(parts_of_a_step(problem, floors[kind]))} |", flush=True)
    print(f"\nTimes the floor, by rows of a batch; {MANY:,} random rows beside Spambase's 3,681:\n")
    print("| | floor, us | " + " | ".join(METHODS) + " |\n|---|---|" + "---|" * len(METHODS))
    for kind in ("float64", "float32"):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((MANY, 57), dtype=np.float32), rng.random(MANY) < 0.4
        many = neyman_pearson(X + y[:, None], y, chat=0.6, seed=0, dtype=kind)
        few = neyman_pearson(data.X, data.y, chat=0.6, seed=0, dtype=kind)
        for name, problem in (("Spambase", few), ("many rows", many)):
            for batch in (16, 64, 256):
                floor = gather_floor(problem.linear, oracle_of(problem, batch)[0])
                costs = [method_cost(problem, method, "numba", 10, batch) for method, _ in METHODS.values()]
                ratios = " | ".join(f"{cost / floor:.2f}" for cost in costs)
                print(f"| {name}, {kind}, batches of {batch} | {floor:.1f} | {ratios} |", flush=True)


def jax_rows(plus: np.ndarray, minus: np.ndarray, method: Method, floor: float) -> list[tuple[str, float, int, float]]:
    try:
        import jax
    except ImportError:
        return []
    from auglag.stochastic import JaxBlock

    jnp = jax.numpy
    with jax.enable_x64(True):
        blocks = [
            JaxBlock(57, 1, objective=lambda x, a: jnp.mean(jnp.logaddexp(0.0, -(a @ x))), data=plus),
            JaxBlock(57, 1, constraints=lambda x, a: jnp.array([jnp.mean(jnp.logaddexp(0.0, a @ x))]), data=minus),
        ]
        problem = StochasticProblem(blocks, lower=[-np.inf], upper=[0.6])
        return [("SGD, JAX functions, one scan", method_cost(problem, method, "jax", 8), 1, floor)]


if __name__ == "__main__":
    main()
