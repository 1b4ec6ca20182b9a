"""Models written in Pyomo, as a user would write them, and IPOPT's answer to each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo

INF = float("inf")


@dataclass(frozen=True)
class Model:
    build: Callable[[], pyo.ConcreteModel]
    ends: str = "optimal"  #: Pyomo's termination condition
    duals: bool = True  #: False where they are not unique


def _start(values: list[float], bounds: Any = None) -> pyo.ConcreteModel:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(1, len(values) + 1), initialize=dict(enumerate(values, start=1)), bounds=bounds)
    m.c = pyo.ConstraintList()
    return m


def hs5() -> pyo.ConcreteModel:
    m = _start([0, 0], lambda m, i: (-1.5, 4) if i == 1 else (-3, 3))
    a, b = m.x[1], m.x[2]
    m.f = pyo.Objective(expr=pyo.sin(a + b) + (a - b) ** 2 - 1.5 * a + 2.5 * b + 1)
    return m


def hs6() -> pyo.ConcreteModel:
    m = _start([-1.2, 1])
    m.f = pyo.Objective(expr=(1 - m.x[1]) ** 2)
    m.c.add(10 * (m.x[2] - m.x[1] ** 2) == 0)
    return m


def hs7() -> pyo.ConcreteModel:
    m = _start([2, 2])
    m.f = pyo.Objective(expr=pyo.log(1 + m.x[1] ** 2) - m.x[2])
    m.c.add((1 + m.x[1] ** 2) ** 2 + m.x[2] ** 2 == 4)
    return m


def hs10() -> pyo.ConcreteModel:
    m = _start([-10, 10])
    m.f = pyo.Objective(expr=m.x[1] - m.x[2])
    m.c.add(-3 * m.x[1] ** 2 + 2 * m.x[1] * m.x[2] - m.x[2] ** 2 + 1 >= 0)
    return m


def hs12() -> pyo.ConcreteModel:
    m = _start([0, 0])
    a, b = m.x[1], m.x[2]
    m.f = pyo.Objective(expr=a**2 / 2 + b**2 - a * b - 7 * a - 7 * b)
    m.c.add(25 - 4 * a**2 - b**2 >= 0)
    return m


def hs14() -> pyo.ConcreteModel:
    m = _start([2, 2])
    m.f = pyo.Objective(expr=(m.x[1] - 2) ** 2 + (m.x[2] - 1) ** 2)
    m.c.add(m.x[1] ** 2 / 4 + m.x[2] ** 2 <= 1)
    m.c.add(m.x[1] - 2 * m.x[2] == -1)
    return m


def hs26() -> pyo.ConcreteModel:
    m = _start([-2.6, 2, 2])
    a, b, c = (m.x[i] for i in (1, 2, 3))
    m.f = pyo.Objective(expr=(a - b) ** 2 + (b - c) ** 4)
    m.c.add((1 + b**2) * a + c**4 - 3 == 0)
    return m


def hs28() -> pyo.ConcreteModel:
    m = _start([-4, 1, 1])
    a, b, c = (m.x[i] for i in (1, 2, 3))
    m.f = pyo.Objective(expr=(a + b) ** 2 + (b + c) ** 2)
    m.c.add(a + 2 * b + 3 * c == 1)
    return m


def hs35() -> pyo.ConcreteModel:
    m = _start([0.5, 0.5, 0.5], (0, None))
    a, b, c = (m.x[i] for i in (1, 2, 3))
    m.f = pyo.Objective(expr=9 - 8 * a - 6 * b - 4 * c + 2 * a**2 + 2 * b**2 + c**2 + 2 * a * b + 2 * a * c)
    m.c.add(a + b + 2 * c <= 3)
    return m


def hs39() -> pyo.ConcreteModel:
    m = _start([2, 2, 2, 2])
    m.f = pyo.Objective(expr=-m.x[1])
    m.c.add(m.x[2] - m.x[1] ** 3 - m.x[3] ** 2 == 0)
    m.c.add(m.x[1] ** 2 - m.x[2] - m.x[4] ** 2 == 0)
    return m


def hs43_as_a_maximum() -> pyo.ConcreteModel:
    m = _start([0, 0, 0, 0])
    a, b, c, d = (m.x[i] for i in (1, 2, 3, 4))
    m.f = pyo.Objective(expr=-(a**2) - b**2 - 2 * c**2 - d**2 + 5 * a + 5 * b + 21 * c - 7 * d, sense=pyo.maximize)
    m.c.add(a**2 + b**2 + c**2 + d**2 + a - b + c - d <= 8)
    m.c.add(a**2 + 2 * b**2 + c**2 + 2 * d**2 - a - d <= 10)
    m.c.add(2 * a**2 + b**2 + c**2 + 2 * a - b - d <= 5)
    return m


def hs48() -> pyo.ConcreteModel:
    m = _start([3, 5, -3, 2, -2])
    x = m.x
    m.f = pyo.Objective(expr=(x[1] - 1) ** 2 + (x[2] - x[3]) ** 2 + (x[4] - x[5]) ** 2)
    m.c.add(sum(x[i] for i in range(1, 6)) == 5)
    m.c.add(x[3] - 2 * (x[4] + x[5]) == -3)
    return m


def hs65() -> pyo.ConcreteModel:
    m = _start([-4.5, 4.5, 0], lambda m, i: (-5, 5) if i == 3 else (-4.5, 4.5))
    a, b, c = (m.x[i] for i in (1, 2, 3))
    m.f = pyo.Objective(expr=(a - b) ** 2 + (a + b - 10) ** 2 / 9 + (c - 5) ** 2)
    m.c.add(48 - a**2 - b**2 - c**2 >= 0)
    return m


def hs71() -> pyo.ConcreteModel:
    m = _start([1, 5, 5, 1], (1, 5))
    x = m.x
    m.f = pyo.Objective(expr=x[1] * x[4] * (x[1] + x[2] + x[3]) + x[3])
    m.c.add(x[1] * x[2] * x[3] * x[4] >= 25)
    m.c.add(sum(x[i] ** 2 for i in x) == 40)
    return m


def hs77() -> pyo.ConcreteModel:
    m = _start([2] * 5)
    x = m.x
    m.f = pyo.Objective(expr=(x[1] - 1) ** 2 + (x[1] - x[2]) ** 2 + (x[3] - 1) ** 2 + (x[4] - 1) ** 4 + (x[5] - 1) ** 6)
    m.c.add(x[1] ** 2 * x[4] + pyo.sin(x[4] - x[5]) == 2 * 2**0.5)
    m.c.add(x[2] + x[3] ** 4 * x[4] ** 2 == 8 + 2**0.5)
    return m


def hs100() -> pyo.ConcreteModel:
    m = _start([1, 2, 0, 4, 0, 1, 1])
    x = m.x
    m.f = pyo.Objective(
        expr=(x[1] - 10) ** 2
        + 5 * (x[2] - 12) ** 2
        + x[3] ** 4
        + 3 * (x[4] - 11) ** 2
        + 10 * x[5] ** 6
        + 7 * x[6] ** 2
        + x[7] ** 4
        - 4 * x[6] * x[7]
        - 10 * x[6]
        - 8 * x[7]
    )
    m.c.add(127 - 2 * x[1] ** 2 - 3 * x[2] ** 4 - x[3] - 4 * x[4] ** 2 - 5 * x[5] >= 0)
    m.c.add(282 - 7 * x[1] - 3 * x[2] - 10 * x[3] ** 2 - x[4] + x[5] >= 0)
    m.c.add(196 - 23 * x[1] - x[2] ** 2 - 6 * x[6] ** 2 + 8 * x[7] >= 0)
    m.c.add(-4 * x[1] ** 2 - x[2] ** 2 + 3 * x[1] * x[2] - 2 * x[3] ** 2 - 5 * x[6] + 11 * x[7] >= 0)
    return m


def chemical_equilibrium() -> pyo.ConcreteModel:
    """HS112, with logarithms of shares."""
    cost = [-6.089, -17.164, -34.054, -5.914, -24.721, -14.986, -24.1, -10.708, -26.662, -22.179]
    m = _start([0.1] * 10, (1e-6, None))
    x = m.x
    m.total = pyo.Expression(expr=sum(x[i] for i in x))
    m.f = pyo.Objective(expr=sum(x[i] * (cost[i - 1] + pyo.log(x[i] / m.total)) for i in x))
    m.c.add(x[1] + 2 * x[2] + 2 * x[3] + x[6] + x[10] == 2)
    m.c.add(x[4] + 2 * x[5] + x[6] + x[7] == 1)
    m.c.add(x[3] + x[7] + x[8] + 2 * x[9] + x[10] == 1)
    return m


def control(steps: int = 40) -> pyo.ConcreteModel:
    """The van der Pol oscillator steered to rest, implicit midpoint rule."""
    m = pyo.ConcreteModel()
    h = 5.0 / steps
    m.t, m.s = pyo.RangeSet(0, steps), pyo.RangeSet(0, steps - 1)
    m.a, m.b = pyo.Var(m.t, initialize=0.0), pyo.Var(m.t, initialize=0.0)
    m.u = pyo.Var(m.s, bounds=(-0.75, 1), initialize=0.0)
    m.a[0].fix(0.0)
    m.b[0].fix(1.0)

    def middle(v: Any, k: int) -> Any:
        return (v[k] + v[k + 1]) / 2

    def first(m: Any, k: int) -> Any:
        a, b = middle(m.a, k), middle(m.b, k)
        return m.a[k + 1] == m.a[k] + h * ((1 - b**2) * a - b + m.u[k])

    m.first = pyo.Constraint(m.s, rule=first)
    m.second = pyo.Constraint(m.s, rule=lambda m, k: m.b[k + 1] == m.b[k] + h * middle(m.a, k))
    m.f = pyo.Objective(expr=h * sum(middle(m.a, k) ** 2 + middle(m.b, k) ** 2 + m.u[k] ** 2 for k in range(steps)))
    return m


def infeasible() -> pyo.ConcreteModel:
    m = _start([1, 1])
    m.f = pyo.Objective(expr=m.x[1] + m.x[2] ** 2)
    m.c.add(m.x[1] ** 2 + m.x[2] ** 2 <= 1)
    m.c.add(m.x[1] + m.x[2] >= 3)
    return m


def unbounded() -> pyo.ConcreteModel:
    m = _start([1, 1], (0, None))
    m.f = pyo.Objective(expr=-m.x[1] - m.x[2] ** 2)
    m.c.add(m.x[1] - m.x[2] <= 2)
    return m


def unbounded_maximum() -> pyo.ConcreteModel:
    m = _start([1, 1])
    m.f = pyo.Objective(expr=m.x[1] + m.x[2], sense=pyo.maximize)
    m.c.add(m.x[1] - m.x[2] == 1)
    return m


def linear_maximum() -> pyo.ConcreteModel:
    m = _start([0, 0], (0, None))
    m.f = pyo.Objective(expr=3 * m.x[1] + 2 * m.x[2], sense=pyo.maximize)
    m.c.add(m.x[1] + m.x[2] <= 4)
    m.c.add(m.x[1] + 3 * m.x[2] <= 9)
    m.c.add(m.x[1] <= 3)
    return m


def fixed_variables() -> pyo.ConcreteModel:
    m = _start([1, 2, 3, 4])
    x = m.x
    x[2].fix(0.5)
    x[4].setlb(1.25)
    x[4].setub(1.25)
    m.f = pyo.Objective(expr=(x[1] - x[2]) ** 2 + x[3] ** 2 * x[4] + pyo.exp(x[1] * x[4]))
    m.c.add(x[1] + x[2] * x[3] == 1)
    return m


def ranges() -> pyo.ConcreteModel:
    m = _start([1, 1, 1])
    x = m.x
    m.f = pyo.Objective(expr=(x[1] - 4) ** 2 + (x[2] + 3) ** 2 + x[3] ** 2 - x[1] * x[3])
    m.r = pyo.Constraint(expr=pyo.inequality(1, x[1] ** 2 + x[2] ** 2, 4))
    m.q = pyo.Constraint(expr=pyo.inequality(-1, x[2] + x[3], 1))
    return m


def named_expressions() -> pyo.ConcreteModel:
    m = _start([0.5, 0.5, 0.5], (0, 4))
    x = m.x
    m.area = pyo.Expression(expr=2 * (x[1] * x[2] + x[2] * x[3] + x[1] * x[3]))
    m.volume = pyo.Expression(expr=x[1] * x[2] * x[3])
    m.ratio = pyo.Expression(expr=m.volume / (1 + m.area))
    m.f = pyo.Objective(expr=m.area + m.ratio**2)
    m.c.add(m.volume >= 2)
    m.c.add(m.area - 3 * m.ratio <= 12)
    m.c.add(x[1] <= 0.8 * x[2])
    return m


def square_system() -> pyo.ConcreteModel:
    m = _start([0.5, 0.5, 0.5])
    a, b, c = (m.x[i] for i in (1, 2, 3))
    m.c.add(3 * a - pyo.cos(b * c) == 0.5)
    m.c.add(a**2 - 81 * (b + 0.1) ** 2 + pyo.sin(c) + 1.06 == 0)
    m.c.add(pyo.exp(-a * b) + 20 * c + (10 * np.pi - 3) / 3 == 0)
    return m


def portfolio() -> pyo.ConcreteModel:
    rng = np.random.default_rng(3)
    root, gain = rng.standard_normal((8, 8)), rng.uniform(0.02, 0.15, 8)
    covariance = root @ root.T / 8 + 0.05 * np.eye(8)
    m = _start([1 / 8] * 8, (0, 0.4))
    x = m.x
    m.risk = pyo.Expression(expr=sum(float(covariance[i - 1, j - 1]) * x[i] * x[j] for i in x for j in x))
    m.f = pyo.Objective(expr=sum(float(gain[i - 1]) * x[i] for i in x) - 0.1 * m.risk, sense=pyo.maximize)
    m.c.add(sum(x[i] for i in x) == 1)
    m.c.add(m.risk <= 0.3)
    return m


def chain(n: int = 30) -> pyo.ConcreteModel:
    """The hanging chain: a curve of given length with the lowest centre of mass."""
    m = _start([1 + (k / n) for k in range(n + 1)])
    x, h = m.x, 1.0 / n
    x[1].fix(1.0)
    x[n + 1].fix(2.0)
    m.piece = pyo.Expression(range(1, n + 1), rule=lambda m, k: pyo.sqrt(1 + ((x[k + 1] - x[k]) / h) ** 2))
    m.f = pyo.Objective(expr=sum(h * (x[k] + x[k + 1]) / 2 * m.piece[k] for k in range(1, n + 1)))
    m.c.add(sum(h * m.piece[k] for k in range(1, n + 1)) == 2)
    return m


def packing() -> pyo.ConcreteModel:
    """Three discs of one radius, as large as possible, in a rectangle."""
    m = pyo.ConcreteModel()
    m.k = pyo.RangeSet(1, 3)
    m.x = pyo.Var(m.k, initialize={1: 0.4, 2: 1.0, 3: 1.7})
    m.y = pyo.Var(m.k, initialize={1: 0.3, 2: 0.7, 3: 0.35})
    m.r = pyo.Var(initialize=0.1, bounds=(0, None))
    m.c = pyo.ConstraintList()
    for i in m.k:
        for v, size in ((m.x[i], 2.0), (m.y[i], 1.0)):
            m.c.add(v - m.r >= 0)
            m.c.add(v + m.r <= size)
        for j in range(i + 1, 4):
            m.c.add((m.x[i] - m.x[j]) ** 2 + (m.y[i] - m.y[j]) ** 2 >= 4 * m.r**2)
    m.f = pyo.Objective(expr=m.r, sense=pyo.maximize)
    return m


def fit() -> pyo.ConcreteModel:
    """Least squares of a decaying exponential with a bound on its rate."""
    rng = np.random.default_rng(5)
    t = np.linspace(0, 3, 25)
    data = 2.0 * np.exp(-1.3 * t) + 0.5 + 0.02 * rng.standard_normal(25)
    m = _start([1, 1, 0], (0, 5))
    x = m.x
    m.f = pyo.Objective(
        expr=sum((x[1] * pyo.exp(-x[2] * float(s)) + x[3] - float(d)) ** 2 for s, d in zip(t, data, strict=True))
    )
    m.c.add(x[1] * x[2] <= 2.4)
    return m


MODELS: dict[str, Model] = {
    "hs5": Model(hs5),
    "hs6": Model(hs6),
    "hs7": Model(hs7),
    "hs10": Model(hs10),
    "hs12": Model(hs12),
    "hs14": Model(hs14),
    "hs26": Model(hs26),
    "hs28": Model(hs28),
    "hs35": Model(hs35),
    "hs39": Model(hs39),
    "hs43_as_a_maximum": Model(hs43_as_a_maximum),
    "hs48": Model(hs48),
    "hs65": Model(hs65),
    "hs71": Model(hs71),
    "hs77": Model(hs77),
    "hs100": Model(hs100),
    "chemical_equilibrium": Model(chemical_equilibrium),
    "control": Model(control),
    "chain": Model(chain),
    "packing": Model(packing, duals=False),
    "portfolio": Model(portfolio),
    "fit": Model(fit),
    "linear_maximum": Model(linear_maximum),
    "fixed_variables": Model(fixed_variables),
    "ranges": Model(ranges),
    "named_expressions": Model(named_expressions),
    "square_system": Model(square_system),
    "infeasible": Model(infeasible, "infeasible"),
    "unbounded": Model(unbounded, "unbounded"),
    "unbounded_maximum": Model(unbounded_maximum, "unbounded"),
}


@dataclass(frozen=True)
class Reference:
    """IPOPT's answer to a `.nl` file, read and differentiated by CasADi."""

    status: str
    objective: float
    duals: list[float]  #: AMPL's sign
    seconds: float  #: CPU time
    iterations: int


def ipopt(path: Path, *, maximise: bool, tol: float = 1e-9) -> Reference:
    """Solve the file with the IPOPT of the CasADi wheel."""
    import casadi

    builder = casadi.NlpBuilder()
    builder.import_nl(str(path), {"verbose": False})
    # Of a file that maximises, CasADi makes f the negative.
    nlp = {"x": casadi.vertcat(*builder.x), "f": builder.f, "g": casadi.vertcat(*builder.g)}
    options = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False, "ipopt.tol": tol, "error_on_fail": False}
    solver = casadi.nlpsol("solver", "ipopt", nlp, options)
    started = time.process_time()
    found = solver(x0=builder.x_init, lbx=builder.x_lb, ubx=builder.x_ub, lbg=builder.g_lb, ubg=builder.g_ub)
    seconds = time.process_time() - started
    sign = -1.0 if maximise else 1.0
    return Reference(
        solver.stats()["return_status"],
        sign * float(found["f"]),
        (-sign * found["lam_g"]).full().ravel().tolist(),
        seconds,
        int(solver.stats()["iter_count"]),
    )
