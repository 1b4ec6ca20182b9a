"""Model predictive control around obstacles, warm-started.

A cart in the plane has to get to the origin past two discs, with limited acceleration. At every step it plans 15
steps ahead, does the first, and plans again: a sequence of nonconvex problems that differ little from each other.
Each plan starts from the shifted plan and multipliers of the last one, which saves about half of the gradients where
the discs are in the way.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import NonlinearConstraint

import auglag

HORIZON, STEPS, DT, LIMIT = 15, 40, 0.25, 1.0
DISCS = ((np.array([-2.2, 1.3]), 0.75), (np.array([-3.6, 3.6]), 0.8))
START = np.array([-5.0, 4.0, 0.0, 0.0])  # position, velocity
#: Positions after 1, 2, ... steps are linear in the accelerations: p = p0 + k DT v0 + sum over j < k of GAIN[k, j] u_j.
GAIN = DT**2 * np.tril(np.subtract.outer(np.arange(HORIZON), np.arange(HORIZON)) + 0.5)
AHEAD = DT * np.arange(1, HORIZON + 1)


def plan(state: np.ndarray, warm: tuple[np.ndarray, np.ndarray] | None) -> auglag.Result:
    def positions(u: np.ndarray) -> np.ndarray:
        return state[:2] + AHEAD[:, None] * state[2:] + GAIN @ u.reshape(HORIZON, 2)

    def cost(u: np.ndarray) -> tuple[float, np.ndarray]:
        p = positions(u)
        return 0.5 * np.sum(p**2) + 0.5 * u @ u, (GAIN.T @ p).ravel() + u

    def clearances(u: np.ndarray) -> np.ndarray:
        p = positions(u)
        return np.concatenate([np.sum((p - centre) ** 2, axis=1) - radius**2 for centre, radius in DISCS])

    def slopes(u: np.ndarray) -> np.ndarray:
        p = positions(u)
        away = [2 * (p - centre)[:, None, :] * GAIN[:, :, None] for centre, _ in DISCS]
        return np.concatenate(away).reshape(2 * HORIZON, 2 * HORIZON)

    def curvature(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.kron(GAIN.T @ (2 * v.reshape(2, HORIZON).sum(axis=0)[:, None] * GAIN), np.eye(2))

    rows = NonlinearConstraint(clearances, 0.0, np.inf, jac=slopes, hess=curvature)
    hessian = np.kron(GAIN.T @ GAIN, np.eye(2)) + np.eye(2 * HORIZON)
    bounds = [(-LIMIT, LIMIT)] * (2 * HORIZON)
    start = {"warm_start": warm} if warm is not None else {"x0": np.full(2 * HORIZON, 0.01)}
    return auglag.minimize(cost, jac=True, hess=lambda u: hessian, bounds=bounds, constraints=rows, tol=1e-5, **start)


def shifted(result: auglag.Result) -> tuple[np.ndarray, np.ndarray]:
    """The plan and its multipliers, one step later."""
    u = np.vstack([result.x.reshape(HORIZON, 2)[1:], np.zeros((1, 2))]).ravel()
    y = result.multipliers[0].reshape(2, HORIZON)
    return u, np.hstack([y[:, 1:], np.zeros((2, 1))]).ravel()


def drive(warm: bool) -> tuple[np.ndarray, list[auglag.Result]]:
    state, plans, states = START.copy(), [], [START]
    for _ in range(STEPS):
        plans.append(plan(state, shifted(plans[-1]) if warm and plans else None))
        u = plans[-1].x[:2]
        state = np.concatenate([state[:2] + DT * state[2:] + 0.5 * DT**2 * u, state[2:] + DT * u])
        states.append(state)
    return np.array(states), plans


def draw(states: np.ndarray, runs: dict[str, list[auglag.Result]], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", width_ratios=(1.3, 1))
    for centre, radius in DISCS:
        axes[0].add_patch(plt.Circle(centre, radius, color="0.8"))
    for k in range(0, STEPS, 4):
        p, v = states[k, :2], states[k, 2:]
        ahead = p + AHEAD[:, None] * v + GAIN @ runs["warm"][k].x.reshape(HORIZON, 2)
        axes[0].plot(*ahead.T, "-", lw=1, color="#56B4E9", label="plans" if not k else None)
    axes[0].plot(*states[:, :2].T, "o-", ms=4, color="#0072B2", label="way taken")
    axes[0].plot(0, 0, "*", ms=15, color="#D55E00", label="goal")
    axes[0].set(aspect="equal", xlabel="x", ylabel="y")
    axes[0].legend(frameon=False)
    for (name, plans), colour, style in zip(runs.items(), ("#0072B2", "#D55E00"), ("o-", "s--"), strict=True):
        axes[1].plot([run.njev for run in plans], style, ms=4, color=colour, label=f"{name} start")
    axes[1].set(xlabel="step", ylabel="gradients to solve the plan", ylim=(0, None))
    axes[1].legend(frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    states, warm = drive(warm=True)
    _, cold = drive(warm=False)
    work = {name: sum(run.njev for run in plans) for name, plans in (("warm", warm), ("cold", cold))}
    clearance = min(np.linalg.norm(states[:, :2] - centre, axis=1).min() - radius for centre, radius in DISCS)
    certified = sum(run.success for run in warm)
    print(f"{certified} of {STEPS} plans certified; gradients {work['warm']} warm, {work['cold']} cold")
    print(f"ends {np.linalg.norm(states[-1, :2]):.3f} from the goal; least clearance {clearance:.1e}")
    draw(states, {"warm": warm, "cold": cold}, output / "predictive_control.png")
    return warm


if __name__ == "__main__":
    main()
