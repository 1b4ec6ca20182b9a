"""The small language that element and group functions are brought into, before they are printed as C or Python.

A function is a list of `ast` statements: assignments to scalars and to entries of flat arrays, `name = zeros(size)`,
`if`, `for ... in range(first, last, step)`, `break`; its expressions are arithmetic, comparisons and calls of the
functions in `KNOWN`. Inputs are EV_ (the element's variables) or GVAR_ (the group's argument) and P_ (its parameters);
`nargout` (1, 2 or 3) says how many of f_, g_ and H_ are wanted.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from auglag._typing import Matrix

#: S2MPJ's spelling -> ours. The empty name is the identity.
KNOWN = {
    **{f"np.{f}": f for f in ("sin", "cos", "tan", "exp", "log", "log10", "sqrt", "sinh", "cosh", "tanh", "floor")},
    **{"np.arcsin": "asin", "np.arccos": "acos", "np.arctan": "atan", "np.arctan2": "atan2", "np.power": "pow"},
    **{"np.absolute": "fabs", "np.abs": "fabs", "abs": "fabs", "np.sign": "sign", "int": "trunc"},
    **{"min": "fmin", "max": "fmax", "np.minimum": "fmin", "np.maximum": "fmax"},
    **{"np.mod": "mod", "special.erf": "erf", "math.erf": "erf", "to_scalar": "", "float": ""},
}
#: Operators and comparisons both printers know.
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class Untranslatable(Exception):
    """The function uses something outside the small language; it stays in Python."""


@dataclass(slots=True)
class Function:
    """One function in the small language. `inputs` is the number of variables, 0 for a group function."""

    name: str
    inputs: int
    body: list[ast.stmt] = field(default_factory=list)
    arrays: dict[str, int] = field(default_factory=dict)  #: local arrays and their lengths
    scalars: set[str] = field(default_factory=set)
    loops: set[str] = field(default_factory=set)  #: loop variables
    gradient: str = "g_"  #: the array that holds the gradient at the end
    hessian: str = "H_"  #: the same for the Hessian, row by row


def number(value: float) -> ast.expr:
    """A constant, always a float."""
    return ast.Constant(float(value))


def name_(name: str) -> ast.Name:
    """A variable."""
    return ast.Name(name, ast.Load())


def item(array: str, index: int) -> ast.Subscript:
    """array[index]"""
    return ast.Subscript(name_(array), ast.Constant(index), ast.Load())


def assignment(target: ast.expr, value: ast.expr) -> ast.stmt:
    """target = value"""
    if not isinstance(target, ast.Name | ast.Subscript):
        raise Untranslatable(f"assignment to {ast.unparse(target)}")
    target.ctx = ast.Store()
    return ast.Assign([target], value, lineno=0)


def zeros(name: str, size: int) -> ast.stmt:
    """name = zeros(size)"""
    return assignment(name_(name), ast.Call(name_("zeros"), [ast.Constant(size)], []))


def wanted(level: int, body: list[ast.stmt]) -> ast.stmt:
    """if nargout > level: body"""
    return ast.If(ast.Compare(name_("nargout"), [ast.Gt()], [number(level)]), body, [])


def combination(coefficients: Any, array: str, places: list[int]) -> ast.expr:
    """The sum of coefficient * array[place] over the coefficients that are not zero."""
    total: ast.expr | None = None
    for coefficient, place in zip(coefficients, places, strict=True):
        if coefficient != 0.0:
            entry: ast.expr = item(array, place)
            term = entry if coefficient == 1.0 else ast.BinOp(number(coefficient), ast.Mult(), entry)
            total = term if total is None else ast.BinOp(total, ast.Add(), term)
    return total if total is not None else number(0.0)


def outer_derivatives(function: Function, u: Matrix) -> list[ast.stmt]:
    """G = U'g and K = U'HU as explicit sums: from internal variables U x back to the element's own."""
    inner, outer = u.shape
    function.gradient, function.hessian = "G_", "K_"
    function.arrays |= {"G_": outer, "K_": outer * outer, "T_": inner * outer}
    function.arrays.setdefault("g_", inner)
    function.arrays.setdefault("H_", inner * inner)
    gradient = [zeros("G_", outer)]
    for j in range(outer):
        gradient.append(assignment(item("G_", j), combination(u[:, j], "g_", list(range(inner)))))
    hessian = [zeros("T_", inner * outer), zeros("K_", outer * outer)]
    used = [j for j in range(outer) if u[:, j].any()]
    for i in range(inner):
        places = [i * inner + k for k in range(inner)]
        for j in used:
            hessian.append(assignment(item("T_", i * outer + j), combination(u[:, j], "H_", places)))
    for i in used:
        for j in used:
            places = [k * outer + j for k in range(inner)]
            hessian.append(assignment(item("K_", i * outer + j), combination(u[:, i], "T_", places)))
    return [wanted(1, gradient), wanted(2, hessian)]
