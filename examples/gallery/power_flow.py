"""Optimal power flow on five buses, and what electricity costs where.

The cheapest generation that serves the load of a small network under the AC power-flow equations, with limits on
voltages, generators and one line: the PJM five-bus system (F. Li and R. Bo, "Small test systems for power system
economic studies", 2010; data as in MATPOWER's case5, whose optimal cost is 17551.89 $/h). Power balances are
nonconvex equalities; their multipliers are the prices of a megawatt-hour at each bus, which differ because one line
is full.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import NonlinearConstraint

import auglag

BASE = 100.0  # MVA; all powers below are per unit of it
LOAD = np.array([0, 300 + 98.61j, 300 + 98.61j, 400 + 131.47j, 0]) / BASE
#: bus, largest active power, largest reactive power (and smallest, negative), $/MWh
GENERATORS = np.array(
    [(0, 40, 30, 14), (0, 170, 127.5, 15), (2, 520, 390, 30), (3, 200, 150, 40), (4, 600, 450, 10)], dtype=float
)
#: from, to, resistance, reactance, charging, rating (MVA)
BRANCHES = (
    (0, 1, 0.00281, 0.0281, 0.00712, 400),
    (0, 3, 0.00304, 0.0304, 0.00658, np.inf),
    (0, 4, 0.00064, 0.0064, 0.03126, np.inf),
    (1, 2, 0.00108, 0.0108, 0.01852, np.inf),
    (2, 3, 0.00297, 0.0297, 0.00674, np.inf),
    (3, 4, 0.00297, 0.0297, 0.00674, 240),
)
AT = GENERATORS[:, 0].astype(int)
PLACES = np.array([(0.0, 0.0), (1.0, -0.6), (2.0, 0.0), (1.5, 1.0), (0.3, 1.0)])


def flows(voltage: np.ndarray) -> np.ndarray:
    """Complex power into every branch, at its beginning and at its end."""
    ends = []
    for i, j, r, x, b, _ in BRANCHES:
        series = (voltage[i] - voltage[j]) / (r + 1j * x)
        begin, end = series + 0.5j * b * voltage[i], -series + 0.5j * b * voltage[j]
        ends.append((voltage[i] * np.conj(begin), voltage[j] * np.conj(end)))
    return np.array(ends)


def parts(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(voltages at the buses, powers of the generators), both complex."""
    angle, size, p, q = np.split(z, 4)
    return size * np.exp(1j * angle), p + 1j * q


def balance(z: np.ndarray) -> np.ndarray:
    """What is generated less what is used and sent, active then reactive."""
    voltage, power = parts(z)
    left = -LOAD.copy()
    np.add.at(left, AT, power)
    for (i, j, *_), (begin, end) in zip(BRANCHES, flows(voltage), strict=True):
        left[i] -= begin
        left[j] -= end
    return np.concatenate([left.real, left.imag])


def loading(z: np.ndarray) -> np.ndarray:
    """Squares of the apparent powers over the ratings, of the lines that have one."""
    rated = np.array([np.isfinite(branch[-1]) for branch in BRANCHES])
    ratings = np.array([branch[-1] for branch in BRANCHES])[rated, None] / BASE
    return np.ravel(np.abs(flows(parts(z)[0]))[rated] ** 2 / ratings**2)


def solve() -> auglag.Result:
    """Cost in thousands of dollars an hour."""
    price = GENERATORS[:, 3] * BASE / 1000
    _, p_max, q_max, _ = GENERATORS.T / BASE
    lower = np.concatenate([[0.0], np.full(4, -1.0), np.full(5, 0.9), np.zeros(5), -q_max])
    upper = np.concatenate([[0.0], np.full(4, 1.0), np.full(5, 1.1), p_max, q_max])
    start = np.concatenate([np.zeros(5), np.ones(5), p_max / 2, np.zeros(5)])
    rows = [NonlinearConstraint(balance, 0.0, 0.0), NonlinearConstraint(loading, -np.inf, 1.0)]
    gradient = np.concatenate([np.zeros(10), price, np.zeros(5)])
    bounds = list(zip(lower, upper, strict=True))
    return auglag.minimize(lambda z: gradient @ z, start, jac=lambda z: gradient, bounds=bounds, constraints=rows)


def draw(result: auglag.Result, prices: np.ndarray, path: Path) -> None:
    voltage, power = parts(result.x)
    figure, axis = plt.subplots(figsize=(8.5, 5.6), layout="constrained")
    for (i, j, *_, rating), (begin, end) in zip(BRANCHES, flows(voltage), strict=True):
        if begin.real < 0:
            i, j = j, i
        a, b, full = PLACES[i], PLACES[j], max(abs(begin), abs(end)) * BASE > 0.999 * rating
        colour = "#D55E00" if full else "0.55"
        axis.annotate("", b, a, arrowprops={"arrowstyle": "-|>", "lw": 2 + abs(begin), "color": colour, "shrinkB": 22})
        text = f"{abs(begin.real) * BASE:.0f} MW" + (" (full)" if full else "")
        axis.text(*(0.5 * (a + b)), text, ha="center", va="center", bbox={"color": "w", "pad": 1}, color=colour)
    dots = axis.scatter(*PLACES.T, s=1500, c=prices, cmap="cividis", zorder=3, edgecolor="k")
    for bus, (x, y) in enumerate(PLACES):
        shade = "w" if prices[bus] < 25 else "k"
        axis.text(x, y, f"{prices[bus]:.1f}", ha="center", va="center", color=shade, zorder=4)
        made, used = power[bus == AT].sum().real * BASE, LOAD[bus].real * BASE
        text = f"bus {bus + 1}: +{made:.0f} -{used:.0f} MW"
        axis.text(x, y + (0.17 if y > 0 else -0.22), text, ha="center", fontsize=9)
    axis.set(xlim=(-0.4, 2.4), ylim=(-0.95, 1.35))
    axis.set_axis_off()
    figure.colorbar(dots, label="price, $/MWh (multiplier of the power balance)", shrink=0.8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[auglag.Result]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    output = parser.parse_args(argv).output
    output.mkdir(parents=True, exist_ok=True)
    result = solve()
    prices = -result.multipliers[0][:5] * 1000 / BASE  # a megawatt more of load is 1/BASE less in the balance
    losses = (parts(result.x)[1].sum() - LOAD.sum()).real * BASE
    print(result.message)
    print(f"cost {1000 * result.fun:.2f} $/h (MATPOWER: 17551.89), losses {losses:.2f} MW")
    print("prices, $/MWh:", ", ".join(f"bus {bus + 1} {price:.2f}" for bus, price in enumerate(prices)))
    draw(result, prices, output / "power_flow.png")
    return [result]


if __name__ == "__main__":
    main()
