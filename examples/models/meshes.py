"""Membranes, films and films of oil on a square mesh, a hanging chain, and charges on a sphere, after the COPS report.

E. D. Dolan, J. J. More and T. S. Munson, "Benchmarking optimization software with COPS 3.0", Argonne National
Laboratory, 2004, states the mathematics. Every family makes a model with n intervals on a side (n
charges).

    python examples/models/meshes.py surface 50
"""

from __future__ import annotations

import sys
from typing import Any

import jax.numpy as jnp
import numpy as np

from auglag.model import Model


def corners(v: Any) -> tuple[Any, ...]:
    """The lower left and the upper right triangle of every cell: a corner, its two neighbours."""
    first = (v[:-1, :-1], v[1:, :-1], v[:-1, 1:])
    return first, (v[1:, 1:], v[:-1, 1:], v[1:, :-1])


def torsion(n: int) -> Model:
    """A twisted bar of elastic and plastic material: energy under limits given by the distance to the boundary."""
    m, h = Model("torsion"), 1.0 / n
    t = np.linspace(0.0, 1.0, n + 1)
    x, y = np.meshgrid(t, t, indexing="ij")
    far = np.minimum(np.minimum(x, 1.0 - x), np.minimum(y, 1.0 - y))
    v = m.var((n + 1, n + 1), name="v", lb=-far, ub=far, start=far)
    for a, b, c in corners(v):
        m.objective(lambda x: ((x[1] - x[0]) ** 2 + (x[2] - x[0]) ** 2) / 4.0, a, b, c)
        m.objective(lambda x, p: p[0] * (x[0] + x[1] + x[2]), a, b, c, par=(-5.0 * h**2 / 6.0,))
    return m


def bearing(n: int) -> Model:
    """The pressure of a film of oil in a journal bearing."""
    m, eps, width = Model("bearing"), 0.1, 20.0
    hx, hy = 2 * np.pi / n, width / n
    xi = np.linspace(0.0, 2 * np.pi, n + 1)
    edge = np.ones((n + 1, n + 1), dtype=bool)
    edge[1:-1, 1:-1] = False
    start = np.where(edge, 0.0, np.maximum(np.sin(xi), 0.0)[:, None])
    v = m.var((n + 1, n + 1), name="v", lb=0.0, ub=np.where(edge, 0.0, np.inf), start=start)
    film = (1.0 + eps * np.cos(xi)) ** 3
    sides = ((film[:-1] * 2 + film[1:]) / 3.0, (film[:-1] + film[1:] * 2) / 3.0)
    for (a, b, c), weight in zip(corners(v), sides, strict=True):
        par = (weight[:, None] * hx * hy / 4.0, 1.0 / hx, 1.0 / hy)
        slopes = lambda x, p: p[0] * ((p[1] * (x[1] - x[0])) ** 2 + (p[2] * (x[2] - x[0])) ** 2)  # noqa: E731
        m.objective(slopes, a, b, c, par=par)
    m.objective(lambda x, p: p[0] * x[0], v, par=(-hx * hy * eps * np.sin(xi)[:, None],))
    return m


def surface(n: int) -> Model:
    """The surface of least area over an obstacle, between given curves."""
    m, h = Model("surface"), 1.0 / n
    t = np.linspace(0.0, 1.0, n + 1)
    x, y = np.meshgrid(t, t, indexing="ij")
    edge = np.ones((n + 1, n + 1), dtype=bool)
    edge[1:-1, 1:-1] = False
    curve = np.where((y == 0.0) | (y == 1.0), 1.0 - (2.0 * x - 1.0) ** 2, 0.0)
    obstacle = np.where((np.abs(x - 0.5) <= 0.25) & (np.abs(y - 0.5) <= 0.25), 1.0, 0.0)
    lb, ub = np.where(edge, curve, obstacle), np.where(edge, curve, np.inf)
    v = m.var((n + 1, n + 1), name="v", lb=lb, ub=ub, start=np.maximum(1.0 - (2.0 * x - 1.0) ** 2, lb))
    for a, b, c in corners(v):

        def area(x: Any, p: Any) -> Any:
            return p[0] / 2.0 * jnp.sqrt(1.0 + ((x[1] - x[0]) ** 2 + (x[2] - x[0]) ** 2) / p[0])

        m.objective(area, a, b, c, par=(h**2,))
    return m


def chain(n: int) -> Model:
    """A chain of given length between two points, of least potential energy."""
    m, a, b, length = Model("chain"), 1.0, 3.0, 4.0
    t, h = np.linspace(0.0, 1.0, n + 1), 1.0 / n
    low = 0.25 if b > a else 0.75
    slope = 4.0 * (b - a) * (t - low)
    lb, ub = np.full(n + 1, -np.inf), np.full(n + 1, np.inf)
    lb[[0, n]] = ub[[0, n]] = a, b
    x = m.var(n + 1, name="height", lb=lb, ub=ub, start=4.0 * (b - a) * t * (0.5 * t - low) + a)
    u = m.var(n + 1, name="slope", start=slope)
    m.constraint(lambda x, p: x[1] - x[0] - p[0] / 2 * (x[2] + x[3]), x[:-1], x[1:], u[:-1], u[1:], par=(h,))
    arc = lambda x: jnp.sqrt(1.0 + x**2)  # noqa: E731
    halves = np.full(n + 1, h)
    halves[[0, n]] = h / 2
    total = m.constraint(lambda x, p: p[0] * arc(x[0]) - p[1], u[0], par=(halves[0], length), name="length")
    m.add(np.full(n, total), lambda x, p: p[0] * arc(x[0]), u[1:], par=(halves[1:],))
    m.objective(lambda x, p: p[0] * x[0] * arc(x[1]), x, u, par=(halves,))
    return m


def electrons(n: int) -> Model:
    """Charges on a sphere that repel each other."""
    m, rng = Model("electrons"), np.random.default_rng(0)
    start = rng.normal(size=(3, n))
    start /= np.linalg.norm(start, axis=0)
    p = m.var((3, n), name="place", start=start)
    i, j = np.triu_indices(n, 1)
    repulsion = lambda x: ((x[0] - x[3]) ** 2 + (x[1] - x[4]) ** 2 + (x[2] - x[5]) ** 2) ** -0.5  # noqa: E731
    m.objective(repulsion, *p[:, i], *p[:, j])
    m.constraint(lambda x: x[0] ** 2 + x[1] ** 2 + x[2] ** 2, *p, eq=1.0, name="sphere")
    return m


FAMILIES = {family.__name__: family for family in (torsion, bearing, surface, chain, electrons)}

if __name__ == "__main__":
    solution = FAMILIES[sys.argv[1]](int(sys.argv[2])).solve()
    print(solution.status.name, solution.fun, f"{solution.seconds:.2f} s", solution.certificate)
