"""The farthest flight of a hang glider through an updraft: one optimal control problem with 400 intervals.

The glider begins 1,000 m high and lands 900 m high, at the same speed; the lift coefficient is what the pilot chooses.
Around 250 m there is rising air. `auglag.model` is given the dynamics of one interval and where it applies; the library
knows the sparsity of the 2,006 variables and 1,600 rows from that. The model is `examples/models/control.py`'s.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np


def families() -> Any:
    """The module with the models of optimal control, from the folder beside this one."""
    path = Path(__file__).parents[1] / "models" / "control.py"
    spec = importlib.util.spec_from_file_location("control", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FAMILIES


def draw(flight: Any, path: Path) -> None:
    x, y, lift = flight["x"], flight["y"], flight["lift"]
    place = jnp.linspace(0.0, float(x[-1]), 400)
    r = (place / 100.0 - 2.5) ** 2
    air = np.asarray(2.5 * (1.0 - r) * jnp.exp(-r))
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
    flight = families()["glider"](400).solve(device=args.device)
    print(
        f"{float(flight['x'][-1]):.1f} m in {float(flight['time']):.1f} s, height {flight['y'].min():.0f} to "
        f"{flight['y'].max():.0f} m; {flight.iterations} steps, R = {flight.certificate.residual:.0e}"
    )
    draw(flight, args.output / "glider.png")
    return [flight]


if __name__ == "__main__":
    main()
