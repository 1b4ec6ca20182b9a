"""Optimal control: swinging up a pendulum with a weak motor.

The motor's torque is at most 40 % of what holds the pendulum level, so it has to be pumped up. Direct collocation
turns the control problem into a nonlinear program: angles, speeds and torques at 61 times are variables, the
trapezoidal rule for the equations of motion gives 120 equalities, limits and end points are bounds. Jacobian and
Hessian are sparse and exact. The multipliers of the second equation approximate the costate of the speed, and the
torque follows it wherever the limit allows: that is Pontryagin's principle, found by the solver.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, NonlinearConstraint

import auglag

STEPS, TIME, DAMPING, LIMIT = 60, 12.0, 0.05, 0.4
H = TIME / STEPS
NODES = STEPS + 1
FIRST = sparse.eye_array(STEPS, NODES, format="csr")  # picks the values at the beginning of every step
LAST = sparse.eye_array(STEPS, NODES, k=1, format="csr")  # and at its end
MEAN, CHANGE = 0.5 * H * (FIRST + LAST), LAST - FIRST
WEIGHT = np.full(NODES, H) - 0.5 * H * np.isin(np.arange(NODES), (0, STEPS))  # of the trapezoidal rule


def split(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(angle, speed, torque); angle 0 hangs down."""
    angle, speed, torque = z.reshape(3, NODES)
    return angle, speed, torque


def defects(z: np.ndarray) -> np.ndarray:
    """angle' = speed, speed' = -sin(angle) - damping speed + torque."""
    angle, speed, torque = split(z)
    force = -np.sin(angle) - DAMPING * speed + torque
    return np.concatenate([CHANGE @ angle - MEAN @ speed, CHANGE @ speed - MEAN @ force])


def jacobian(z: np.ndarray) -> sparse.csr_array:
    gravity = sparse.diags_array(np.cos(split(z)[0]))
    second = [MEAN @ gravity, CHANGE + DAMPING * MEAN, -MEAN]
    return sparse.csr_array(sparse.block_array([[CHANGE, -MEAN, None], second]))


def curvature(z: np.ndarray, v: np.ndarray) -> sparse.csr_array:
    """The Hessian of v'defects: only sin(angle) is curved."""
    diagonal = np.zeros(3 * NODES)
    diagonal[:NODES] = -(MEAN.T @ v[STEPS:]) * np.sin(split(z)[0])
    return sparse.csr_array(sparse.diags_array(diagonal))


def solve() -> auglag.Result:
    """The least integral of torque^2 / 2."""
    cost = np.concatenate([np.zeros(2 * NODES), WEIGHT])
    lower = np.concatenate([np.full(2 * NODES, -np.inf), np.full(NODES, -LIMIT)])
    upper = -lower
    for node, angle in ((0, 0.0), (STEPS, np.pi)):  # hanging at rest, then upright at rest
        lower[node] = upper[node] = angle
        lower[NODES + node] = upper[NODES + node] = 0.0
    start = np.concatenate([np.linspace(0, np.pi, NODES), np.full(NODES, np.pi / TIME), np.zeros(NODES)])
    motion = NonlinearConstraint(defects, 0.0, 0.0, jac=jacobian, hess=curvature)
    return auglag.minimize(
        lambda z: 0.5 * cost @ z**2,
        start,
        jac=lambda z: cost * z,
        hess=lambda z: sparse.csr_array(sparse.diags_array(cost)),
        bounds=Bounds(lower, upper),
        constraints=motion,
    )


def draw(result: auglag.Result, path: Path) -> None:
    angle, speed, torque = split(result.x)
    t = np.linspace(0, TIME, NODES)
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.3), layout="constrained")
    axes[0].plot(t, angle, color="#0072B2", label="angle")
    axes[0].plot(t, speed, "--", color="#009E73", label="speed")
    axes[0].axhline(np.pi, color="0.7", lw=0.8)
    axes[0].set(xlabel="time", title="the motion (upright: pi)")
    axes[0].legend(frameon=False)
    costate = result.multipliers[0][STEPS:]
    axes[1].step(t, torque, where="mid", color="#D55E00", label="torque")
    axes[1].plot((t[1:] + t[:-1]) / 2, costate, ":", lw=2, color="k", label="multiplier")
    for side in (-LIMIT, LIMIT):
        axes[1].axhline(side, color="0.7", lw=0.8)
    axes[1].set(xlabel="time", title="torque = multiplier, cut off at the limits")
    axes[1].legend(frameon=False)
    shades = plt.cm.viridis(np.linspace(0, 1, NODES))
    for a, shade in zip(angle, shades, strict=True):
        axes[2].plot([0, np.sin(a)], [0, -np.cos(a)], "-o", color=shade, ms=4, lw=1, markevery=[1])
    axes[2].set(aspect="equal", xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), title="from hanging (dark) to upright (light)")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    result = solve()
    torque = split(result.x)[2]
    print(result.message)
    print(
        f"cost {result.fun:.6f}, {np.count_nonzero(np.abs(torque) > LIMIT - 1e-6)} of {NODES} torques at the limit, "
        f"{result.nit_inner} inner steps, {result.njev} gradients"
    )
    draw(result, output / "swing_up.png")
    return [result]


if __name__ == "__main__":
    main()
