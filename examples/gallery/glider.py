"""The farthest flight of a hang glider through an updraft: one optimal control problem with 400 intervals.

The glider begins 1,000 m high and lands 900 m high, at the same speed; the lift coefficient is what the pilot chooses.
Around 250 m there is rising air. `auglag.model` is given the dynamics of one interval and where it applies; the library
knows the sparsity of the 2,006 variables and 1,600 rows from that.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from auglag.model import Model


def rising(x: Any) -> Any:
    """The speed of the air upwards, m/s."""
    r = (x / 100.0 - 2.5) ** 2
    return 2.5 * (1.0 - r) * jnp.exp(-r)


def rate(state: Any, lift: Any) -> Any:
    """The changes of (x, y, vx, vy) in a second."""
    x, _, vx, vy = state
    w = vy - rising(x)
    push = 0.5 * 1.13 * 14.0 * jnp.sqrt(vx**2 + w**2) / 100.0  # density of the air, area of the wing, mass
    drag, up = push * (0.034 + 0.069662 * lift**2), push * lift
    return vx, vy, -up * w - drag * vx, up * vx - drag * w - 9.80665


def defect(v: Any, p: Any) -> Any:
    """The trapezoidal rule over one interval: now, then, lift at both ends, the time of the flight."""
    now, then, h = v[:4], v[4:8], p[0] * v[10]
    slopes = zip(rate(now, v[8]), rate(then, v[9]), strict=True)
    return tuple(b - a - h / 2 * (s + t) for a, b, (s, t) in zip(now, then, slopes, strict=True))


def ends(n: int, first: float, last: float | None = None, low: float = -np.inf) -> dict[str, Any]:
    """Bounds of n + 1 values with given ends."""
    lb, ub = np.full(n + 1, low), np.full(n + 1, np.inf)
    lb[0] = ub[0] = first
    if last is not None:
        lb[n] = ub[n] = last
    return {"lb": lb, "ub": ub}


def model(n: int) -> Model:
    """The flight in n intervals."""
    m, t, k = Model("glider"), np.linspace(0.0, 1.0, n + 1), np.arange(n)
    time = m.var(name="time", lb=0.0, start=100.0)
    x = m.var(n + 1, name="x", **ends(n, 0.0, low=0.0), start=1300.0 * t)
    y = m.var(n + 1, name="y", **ends(n, 1000.0, 900.0), start=1000.0 - 100.0 * t)
    vx = m.var(n + 1, name="vx", **ends(n, 13.23, 13.23, low=0.0), start=13.23)
    vy = m.var(n + 1, name="vy", **ends(n, -1.288, -1.288), start=-1.288)
    lift = m.var(n + 1, name="lift", lb=0.0, ub=1.4, start=0.7)
    states = (x, y, vx, vy)
    index = [*(s[k] for s in states), *(s[k + 1] for s in states), lift[k], lift[k + 1], time]
    m.constraint(defect, *index, par=(1.0 / n,), name="dynamics")
    m.objective(lambda v: -v[0], x[-1])
    return m


def draw(flight: Any, path: Path) -> None:
    x, y, lift = flight["x"], flight["y"], flight["lift"]
    place = jnp.linspace(0.0, float(x[-1]), 400)
    air = np.asarray(rising(place))
    figure, axes = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained", height_ratios=(2, 1))
    shade = axes[0].imshow(
        air[None], extent=(0, float(x[-1]), 880, 1010), aspect="auto", cmap="RdBu_r", vmin=-2.5, vmax=2.5, alpha=0.5
    )
    figure.colorbar(shade, ax=axes[0], label="rising air, m/s")
    points = axes[0].scatter(x, y, c=flight["vx"], s=9, cmap="viridis")
    figure.colorbar(points, ax=axes[0], label="horizontal speed, m/s")
    axes[0].set(ylabel="height, m", title=f"{float(x[-1]):.1f} m in {float(flight['time']):.1f} s")
    axes[1].plot(x, lift, color="#0072B2")
    axes[1].axhline(1.4, color="k", lw=0.8, ls=":")
    axes[1].set(xlabel="distance, m", ylabel="lift coefficient", ylim=(0, 1.5))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[Any]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    parser.add_argument("--device", default="cpu", help="cpu or gpu")
    args = parser.parse_args(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    flight = model(400).solve(device=args.device)
    print(
        f"{float(flight['x'][-1]):.1f} m in {float(flight['time']):.1f} s, height {flight['y'].min():.0f} to "
        f"{flight['y'].max():.0f} m; {flight.iterations} steps, R = {flight.certificate.residual:.0e}"
    )
    draw(flight, args.output / "glider.png")
    return [flight]


if __name__ == "__main__":
    main()
