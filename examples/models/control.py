"""Optimal control by the trapezoidal rule: six problems, after the COPS report.

E. D. Dolan, J. J. More and T. S. Munson, "Benchmarking optimization software with COPS 3.0", Argonne National
Laboratory, 2004, states the mathematics; the pendulum is a standard exercise. Every family makes a model
with n intervals.

    python examples/models/control.py rocket 400
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from auglag.model import Model


def dynamics(m: Model, rate: Callable[..., Any], states: Any, controls: Any, horizon: Any) -> None:
    """x' = rate(x, u) over n intervals; `horizon` is a variable or a number."""
    states, controls = np.stack(states), np.stack(controls)
    count, points = states.shape
    free = isinstance(horizon, np.ndarray)

    def defect(x: Any, p: Any) -> Any:
        """x+ - x - h/2 (rate + rate+)."""
        now, then = x[:count], x[count : 2 * count]
        u, v = x[2 * count : 2 * count + len(controls)], x[2 * count + len(controls) : 2 * (count + len(controls))]
        h = p[0] * x[-1] if free else p[0]
        slopes = zip(rate(now, u), rate(then, v), strict=True)
        return tuple(b - a - h / 2 * (s + t) for a, b, (s, t) in zip(now, then, slopes, strict=True))

    index = [*states[:, :-1], *states[:, 1:], *controls[:, :-1], *controls[:, 1:]]
    if free:
        m.constraint(defect, *index, horizon, par=(1.0 / (points - 1),), name="dynamics")
    else:
        m.constraint(defect, *index, par=(horizon / (points - 1),), name="dynamics")


def fixed(
    n: int, first: float | None, last: float | None, low: float = -np.inf, high: float = np.inf
) -> dict[str, Any]:
    """Bounds of a trajectory of n + 1 points with given ends."""
    lb, ub = np.full(n + 1, low), np.full(n + 1, high)
    for place, value in ((0, first), (n, last)):
        if value is not None:
            lb[place] = ub[place] = value
    return {"lb": lb, "ub": ub}


def pendulum(n: int) -> Model:
    """Swing up in four seconds with little torque."""
    m = Model("pendulum")
    th = m.var(n + 1, name="angle", **fixed(n, 0.0, np.pi), start=np.linspace(0.0, np.pi, n + 1))
    om = m.var(n + 1, name="speed", **fixed(n, 0.0, 0.0))
    u = m.var(n + 1, name="torque", lb=-6.0, ub=6.0)
    dynamics(m, lambda x, u: (x[1], u[0] - 9.81 * jnp.sin(x[0])), (th, om), (u,), 4.0)
    m.objective(lambda x, p: p[0] * x[0] ** 2, u, par=(4.0 / n,))
    return m


def particle(n: int) -> Model:
    """Steer a particle of constant thrust to a height and a horizontal speed in the shortest time."""
    m, t = Model("particle"), np.linspace(0.0, 1.0, n + 1)
    tf = m.var(name="time", lb=0.0, start=1.0)
    x = m.var(n + 1, name="x", **fixed(n, 0.0, None))
    y = m.var(n + 1, name="y", **fixed(n, 0.0, 5.0), start=5.0 * t)
    vx = m.var(n + 1, name="vx", **fixed(n, 0.0, 45.0), start=45.0 * t)
    vy = m.var(n + 1, name="vy", **fixed(n, 0.0, 0.0))
    u = m.var(n + 1, name="angle", lb=-np.pi / 2, ub=np.pi / 2)
    dynamics(m, lambda s, u: (s[2], s[3], 100 * jnp.cos(u[0]), 100 * jnp.sin(u[0])), (x, y, vx, vy), (u,), tf)
    m.objective(lambda x: x[0], tf)
    return m


def rocket(n: int) -> Model:
    """Goddard's rocket: the greatest height from a given amount of fuel."""
    m, t = Model("rocket"), np.linspace(0.0, 1.0, n + 1)
    drag, c = 0.5 * 620.0, 0.5
    tf = m.var(name="time", lb=0.0, start=1.0)
    h = m.var(n + 1, name="height", **fixed(n, 1.0, None, low=1.0), start=1.0)
    v = m.var(n + 1, name="speed", **fixed(n, 0.0, None, low=0.0), start=t * (1.0 - t))
    mass = m.var(n + 1, name="mass", **fixed(n, 1.0, 0.6, low=0.6, high=1.0), start=1.0 - 0.4 * t)
    u = m.var(n + 1, name="thrust", lb=0.0, ub=3.5, start=1.75)

    def rate(x: Any, u: Any) -> Any:
        h, v, mass = x
        return v, (u[0] - drag * v**2 * jnp.exp(-500.0 * (h - 1.0))) / mass - 1.0 / h**2, -u[0] / c

    dynamics(m, rate, (h, v, mass), (u,), tf)
    m.objective(lambda x: -x[0], h[-1])
    return m


def robot(n: int) -> Model:
    """The shortest time in which a robot arm swings from one place to another."""
    m, t, length = Model("robot"), np.linspace(0.0, 1.0, n + 1), 5.0
    tf = m.var(name="time", lb=0.0, start=1.0)
    rho = m.var(n + 1, name="rho", **fixed(n, 4.5, 4.5, 0.0, length), start=4.5)
    theta = m.var(n + 1, name="theta", **fixed(n, 0.0, 2 * np.pi / 3, -np.pi, np.pi), start=2 * np.pi / 3 * t**2)
    phi = m.var(n + 1, name="phi", **fixed(n, np.pi / 4, np.pi / 4, 0.0, np.pi), start=np.pi / 4)
    speeds = [m.var(n + 1, name=f"{name} speed", **fixed(n, 0.0, 0.0)) for name in ("rho", "theta", "phi")]
    forces = [m.var(n + 1, name=f"{name} force", lb=-1.0, ub=1.0) for name in ("rho", "theta", "phi")]

    def rate(x: Any, u: Any) -> Any:
        inertia = ((length - x[0]) ** 3 + x[0] ** 3) / 3.0
        return x[3], x[4], x[5], u[0] / length, u[1] / (inertia * jnp.sin(x[2]) ** 2), u[2] / inertia

    dynamics(m, rate, (rho, theta, phi, *speeds), forces, tf)
    m.objective(lambda x: x[0], tf)
    return m


def catalyst(n: int) -> Model:
    """The mixture of two catalysts along a reactor that yields most."""
    m = Model("catalyst")
    a = m.var(n + 1, name="a", **fixed(n, 1.0, None), start=1.0)
    b = m.var(n + 1, name="b", **fixed(n, 0.0, None))
    u = m.var(n + 1, name="mixture", lb=0.0, ub=1.0)

    def rate(x: Any, u: Any) -> Any:
        flow = u[0] * (10.0 * x[1] - x[0])
        return flow, -flow - (1.0 - u[0]) * x[1]

    dynamics(m, rate, (a, b), (u,), 1.0)
    m.objective(lambda x: x[0] + x[1] - 1.0, a[-1], b[-1])
    return m


def glider(n: int) -> Model:
    """The greatest range of a hang glider that meets an updraft."""
    m, t = Model("glider"), np.linspace(0.0, 1.0, n + 1)
    mass, area, density, gravity = 100.0, 14.0, 1.13, 9.80665
    tf = m.var(name="time", lb=0.0, start=100.0)
    x = m.var(n + 1, name="x", **fixed(n, 0.0, None, low=0.0), start=1300.0 * t)
    y = m.var(n + 1, name="y", **fixed(n, 1000.0, 900.0), start=1000.0 - 100.0 * t)
    vx = m.var(n + 1, name="vx", **fixed(n, 13.23, 13.23, low=0.0), start=13.23)
    vy = m.var(n + 1, name="vy", **fixed(n, -1.288, -1.288), start=-1.288)
    lift = m.var(n + 1, name="lift", lb=0.0, ub=1.4, start=0.7)

    def rate(s: Any, u: Any) -> Any:
        x, _, vx, vy = s
        r = (x / 100.0 - 2.5) ** 2
        w = vy - 2.5 * (1.0 - r) * jnp.exp(-r)
        v = jnp.sqrt(vx**2 + w**2)
        push = 0.5 * density * area * v / mass
        d, up = push * (0.034 + 0.069662 * u[0] ** 2), push * u[0]
        return vx, vy, -up * w - d * vx, up * vx - d * w - gravity

    dynamics(m, rate, (x, y, vx, vy), (lift,), tf)
    m.objective(lambda x: -x[0], x[-1])
    return m


FAMILIES = {family.__name__: family for family in (pendulum, particle, rocket, robot, catalyst, glider)}

if __name__ == "__main__":
    solution = FAMILIES[sys.argv[1]](int(sys.argv[2])).solve()
    print(solution.status.name, solution.fun, f"{solution.seconds:.2f} s", solution.certificate)
