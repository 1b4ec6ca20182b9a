"""Nonlinear predictive control with CasADi: re-solves from multipliers, beside IPOPT's warm start.

    python examples/moving_horizon.py

A pendulum hangs from a cart and is to be swung to a rest at another place, with limited force. At every step the plan
of 20 steps is made again for the state that is measured, which differs a little from the predicted one. Both solvers
start from the shifted plan and multipliers; auglag also from what the sensitivities of the last plan predict for the
measured state (see docs/sensitivity.md). Counted are iterations of Newton's method and CPU time, after the first plan.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import casadi
import numpy as np

import auglag.casadi

HORIZON, DT, LIMIT = 20, 0.1, 6.0
START, GOAL = np.array([0.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])  # place, speed, angle, turning


def dynamics() -> casadi.Function:
    """One step of Runge-Kutta 4 of a cart of 1 kg with a pendulum of 0.3 kg and 0.5 m; the force is constant."""
    x, u = casadi.SX.sym("x", 4), casadi.SX.sym("u")
    m, length, g = 0.3, 0.5, 9.81

    def slope(x: casadi.SX) -> casadi.SX:
        sin, cos = casadi.sin(x[2]), casadi.cos(x[2])
        a = (u + m * sin * (length * x[3] ** 2 + g * cos)) / (1 + m * sin**2)
        return casadi.vertcat(x[1], a, x[3], -(a * cos + g * sin) / length)

    k1 = slope(x)
    k2 = slope(x + DT / 2 * k1)
    k3 = slope(x + DT / 2 * k2)
    k4 = slope(x + DT * k3)
    return casadi.Function("step", [x, u], [x + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])


def plan(step: casadi.Function) -> dict[str, casadi.SX]:
    """States after each step, and forces, as variables; the measured state is the parameter."""
    p, w, rows, cost, last = casadi.SX.sym("p", 4), [], [], 0, None
    for k in range(HORIZON):
        u, x = casadi.SX.sym(f"u{k}"), casadi.SX.sym(f"x{k}", 4)
        rows.append(x - step(p if last is None else last, u))
        cost += casadi.dot(casadi.DM([5, 0.5, 2, 0.2]), (x - GOAL) ** 2) + 0.02 * u**2
        w += [u, x]
        last = x
    return {"x": casadi.vertcat(*w), "p": p, "f": cost, "g": casadi.vertcat(*rows)}


BOUNDS = {
    "lbx": np.tile([-LIMIT, -np.inf, -1.2, -np.inf, -np.inf], HORIZON),
    "ubx": np.tile([LIMIT, np.inf, 1.2, np.inf, np.inf], HORIZON),
    "lbg": 0.0,
    "ubg": 0.0,
}


def shifted(values: np.ndarray, block: int) -> np.ndarray:
    """One step later; the last block twice."""
    return np.concatenate([values[block:], values[-block:]])


def run(
    solver: Callable[..., dict[str, casadi.DM]], stats: Callable[[], dict], steps: int, *, predicting: bool = False
) -> tuple[list[int], list[float], np.ndarray]:
    """Iterations and CPU seconds of every plan after the first, and the states."""
    step, rng, state = dynamics(), np.random.default_rng(0), START.copy()
    found = solver(x0=0.0, p=state, **BOUNDS)
    iterations, seconds, states = [], [], [state]
    for _ in range(steps):
        x, y, z = (found[name].full().ravel() for name in ("x", "lam_g", "lam_x"))
        expected = step(state, x[0]).full().ravel()
        state = expected + rng.normal(scale=[2e-3, 1e-2, 2e-3, 1e-2])
        start = {"x0": shifted(x, 5), "lam_g0": shifted(y, 4), "lam_x0": shifted(z, 5)}
        if predicting:  # first the plan for the expected state, before the measurement; then its correction
            solver(**start, p=expected, **BOUNDS)
            sensitivity = solver.sensitivity()
            begin = time.process_time()
            x, y = sensitivity.predict(state)
            start = {"x0": x, "lam_g0": y}
        else:
            begin = time.process_time()
        found = solver(**start, p=state, **BOUNDS)
        seconds.append(time.process_time() - begin)
        assert stats()["success"], stats()
        iterations.append(stats()["iter_count"])
        states.append(state)
    return iterations, seconds, np.array(states)


def ipopt(nlp: dict[str, casadi.SX], tol: float) -> casadi.Function:
    warm = {"warm_start_init_point": "yes", "mu_init": 1e-5, "tol": tol, "print_level": 0, "sb": "yes"}
    pushes = ("bound_push", "mult_bound_push", "bound_frac", "slack_bound_push", "slack_bound_frac")
    warm |= {f"warm_start_{name}": 1e-8 for name in pushes}
    return casadi.nlpsol("ipopt", "ipopt", nlp, {"ipopt": warm, "print_time": False})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    steps, nlp = parser.parse_args().steps, plan(dynamics())
    print(f"{steps} plans of {HORIZON} steps ({nlp['x'].numel()} variables, {nlp['g'].numel()} rows), tol 1e-6")
    print("| solver | iterations: mean | most | plans of at most 3 | CPU ms a plan, median |")
    print("|---|---|---|---|---|")
    ours = auglag.casadi.nlpsol("auglag", nlp, tol=1e-6)
    theirs = ipopt(nlp, 1e-6)
    ends = []
    for name, solver, predicting in (
        ("auglag, shifted plan", ours, False),
        ("auglag, prediction", ours, True),
        ("IPOPT, shifted plan", theirs, False),
    ):
        iterations, seconds, states = run(solver, solver.stats, steps, predicting=predicting)
        few = sum(count <= 3 for count in iterations)
        print(
            f"| {name} | {np.mean(iterations):.1f} | {max(iterations)} | {few} of {steps} "
            f"| {1e3 * np.median(seconds):.1f} |"
        )
        ends.append(states[-1])
    print(f"The states at the end differ by {max(np.abs(end - ends[0]).max() for end in ends):.0e}.")


if __name__ == "__main__":
    main()
