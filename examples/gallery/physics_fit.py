"""A physics-informed fit: few noisy data, and the law they obey.

The data are twenty noisy angles of a swinging pendulum from its first four seconds. A polynomial fitted to them alone
is useless after these seconds. The same polynomial, made to obey angle'' = -a sin(angle) - b angle' as a constraint at
36 times over ten seconds, with a and b unknown, finds both numbers and predicts the rest. A penalty on the law would
need a weight; a constraint does not.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.polynomial import chebyshev
from scipy.integrate import solve_ivp
from scipy.optimize import NonlinearConstraint

import auglag

TRUE_A, TRUE_B, START, END, NOISE = 4.0, 0.25, 2.2, 10.0, 0.15
DEGREE = (
    36  #: the second derivative is a sum of so many Chebyshev polynomials, which keeps the problem well conditioned
)


def basis(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matrices that take the coefficients (those of angle'', then two constants) to angle, angle', angle'' at t."""
    s, scale = 2 * t / END - 1, END / 2
    first, second, none = np.zeros((3, t.size, DEGREE + 2))
    for k in range(DEGREE):
        unit = np.eye(DEGREE)[k]
        none[:, k] = chebyshev.chebval(s, unit)
        first[:, k] = scale * chebyshev.chebval(s, chebyshev.chebint(unit, lbnd=-1))
        second[:, k] = scale**2 * chebyshev.chebval(s, chebyshev.chebint(unit, 2, lbnd=-1))
    second[:, -2], second[:, -1], first[:, -1] = 1.0, t, 1.0
    return second, first, none


def truth(t: np.ndarray) -> np.ndarray:
    def law(_: float, y: np.ndarray) -> list[float]:
        return [y[1], -TRUE_A * np.sin(y[0]) - TRUE_B * y[1]]

    return solve_ivp(law, (0, END), [START, 0.0], t_eval=t, rtol=1e-9, atol=1e-9).y[0]


def solve(times: np.ndarray, angles: np.ndarray) -> auglag.Result:
    """Variables: the coefficients, then a and b."""
    seen = basis(times)[0]
    nodes = END * (1 - np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE)) / 2
    angle, speed, acceleration = basis(nodes)

    def misfit(z: np.ndarray) -> tuple[float, np.ndarray]:
        r = seen @ z[:-2] - angles
        return 0.5 * np.mean(r**2), np.append(seen.T @ r / r.size, [0.0, 0.0])

    def law(z: np.ndarray) -> np.ndarray:
        q, a, b = z[:-2], z[-2], z[-1]
        return acceleration @ q + a * np.sin(angle @ q) + b * speed @ q

    def slopes(z: np.ndarray) -> np.ndarray:
        q, a, b = z[:-2], z[-2], z[-1]
        in_q = acceleration + a * np.cos(angle @ q)[:, None] * angle + b * speed
        return np.column_stack([in_q, np.sin(angle @ q), speed @ q])

    start = np.zeros(DEGREE + 4)
    start[-4], start[-2:] = angles[0], [1.0, 0.1]
    bounds = [(None, None)] * (DEGREE + 2) + [(0.0, None)] * 2
    rows = NonlinearConstraint(law, 0.0, 0.0, jac=slopes)
    return auglag.minimize(misfit, start, jac=True, bounds=bounds, constraints=rows)


def draw(times: np.ndarray, angles: np.ndarray, result: auglag.Result, path: Path) -> None:
    t = np.linspace(0, END, 400)
    plain = chebyshev.Chebyshev.fit(times, angles, 7)
    figure, axis = plt.subplots(figsize=(9, 4.6), layout="constrained")
    axis.axvspan(0, times[-1], color="0.93", lw=0)
    axis.plot(t, truth(t), color="0.5", lw=4, alpha=0.5, label="truth")
    axis.plot(t, basis(t)[0] @ result.x[:-2], color="#0072B2", lw=2, label="fit that obeys the law")
    axis.plot(t, plain(t), "--", color="#D55E00", label="polynomial of degree 7, no law")
    axis.plot(times, angles, "o", color="k", ms=5, label="data")
    axis.set(xlabel="time, s", ylabel="angle", ylim=(-3.5, 3.5), xlim=(0, END))
    axis.set_title(f"found a = {result.x[-2]:.2f}, b = {result.x[-1]:.2f}; true a = {TRUE_A:.2f}, b = {TRUE_B:.2f}")
    axis.legend(frameon=False, loc="upper right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    times = np.linspace(0, 4, 20)
    angles = truth(times) + NOISE * np.random.default_rng(2).standard_normal(times.size)
    result = solve(times, angles)
    t = np.linspace(4, END, 200)
    error = np.sqrt(np.mean((basis(t)[0] @ result.x[:-2] - truth(t)) ** 2))
    print(result.message)
    print(f"a = {result.x[-2]:.3f} (true {TRUE_A}), b = {result.x[-1]:.3f} (true {TRUE_B})")
    print(f"error of the prediction after 4 s: {error:.3f}; noise in the data: {NOISE}")
    draw(times, angles, result, output / "physics_fit.png")
    return [result]


if __name__ == "__main__":
    main()
