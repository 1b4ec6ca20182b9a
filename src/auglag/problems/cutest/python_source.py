"""Functions of the small language as Python: for one element, or for all elements of a type at once.

In the second form each variable is an array over the elements, and an `if` on data becomes a choice by mask: both
branches are computed, and an assignment keeps the old value where the branch is not taken.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from auglag.problems.cutest.language import Function, Untranslatable

#: Called as kernel(nargout, EV_ or GVAR_, P_); returns (f,), (f, g) or (f, g, H), with g and H flat lists.
Kernel = Callable[[int, Any, Any], tuple[Any, ...]]


def _sign(a: float) -> float:
    return float((a > 0.0) - (a < 0.0))


_FUNCTIONS = ("sin", "cos", "tan", "exp", "log", "log10", "sqrt", "sinh", "cosh", "tanh", "floor", "trunc", "fabs")
_SCALAR: dict[str, Any] = {
    **{name: getattr(math, name) for name in (*_FUNCTIONS, "asin", "acos", "atan", "atan2", "erf", "pow")},
    **{"sign": _sign, "fmin": min, "fmax": max, "mod": operator.mod},
}
_VECTOR: dict[str, Any] = {
    **{name: getattr(np, name) for name in (*_FUNCTIONS, "fmin", "fmax", "sign", "where")},
    **{"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "pow": np.power, "mod": np.mod},
    **{"erf": special.erf, "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_not": np.logical_not},
}


def scalar_kernel(function: Function) -> Kernel:
    """The function for one element, on Python floats; raises ArithmeticError or ValueError where NumPy gives NaN."""
    return _compiled(function, _Scalar(function).block(function.body), _SCALAR)


def vector_kernel(function: Function) -> Kernel:
    """The function for all elements at once."""
    printer = _Vector(function)
    body = printer.block(function.body)
    start = [f"{name} = nan" for name in sorted(printer.chosen)]
    return _compiled(function, start + body, _VECTOR)


def _compiled(function: Function, body: list[str], namespace: dict[str, Any]) -> Kernel:
    argument, g, h = ("EV_", function.gradient, function.hessian) if function.inputs else ("GVAR_", "g_", "H_")
    lines = [f"def kernel(nargout, {argument}, P_):"]
    if "IV_" in function.arrays:
        lines.append(f"    IV_ = [0.0] * {function.arrays['IV_']}")
    lines += [f"    {line}" for line in body]
    lines += ["    if nargout == 1:", "        return (f_,)", "    if nargout == 2:", f"        return f_, {g}"]
    lines.append(f"    return f_, {g}, {h}")
    scope: dict[str, Any] = {**namespace, "nan": math.nan, "inf": math.inf}
    exec(compile("\n".join(lines), f"<{function.name}>", "exec"), scope)
    kernel: Kernel = scope["kernel"]
    return kernel


class _Scalar:
    """Prints statements as lines of Python."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def block(self, body: list[ast.stmt]) -> list[str]:
        return [line for node in body for line in self.statement(node)] or ["pass"]

    def statement(self, node: ast.stmt) -> list[str]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="zeros"), args=[size])):
                return [f"{name} = [0.0] * {ast.unparse(size)}"]
            case ast.Assign(targets=[target]):
                return [self.assignment(self.expression(target), self.expression(node.value))]
            case ast.If():
                return self.condition(node)
            case ast.For(target=ast.Name(id=i), iter=ast.Call(args=[first, last, ast.Constant(value=int(step))])):
                head = f"for {i} in range({self.index(first)}, {self.index(last)}, {step}):"
                return [head, *_indented(self.block(node.body))]
            case ast.Break():
                return ["break"]
        raise Untranslatable(ast.unparse(node))

    def assignment(self, target: str, value: str) -> str:
        return f"{target} = {value}"

    def condition(self, node: ast.If) -> list[str]:
        lines = [f"if {self.expression(node.test)}:", *_indented(self.block(node.body))]
        return [*lines, "else:", *_indented(self.block(node.orelse))] if node.orelse else lines

    def index(self, node: ast.expr) -> str:
        """An expression as an integer: of constants and loop variables as it stands, else rounded down."""
        if not _static(node, self.function):
            return f"int({self.expression(node)})"
        node = ast.parse(ast.unparse(node), mode="eval").body
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, int | float):
                part.value = int(part.value)
        return ast.unparse(node)

    def expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int() | float() as value):
                return f"({float(value)!r})"
            case ast.Name(id=name):
                return name
            case ast.Subscript(value=ast.Name(id=name)):
                return f"{name}[{self.index(node.slice)}]"
            case ast.UnaryOp(op=ast.Not()):
                return self.negation(self.expression(node.operand))
            case ast.UnaryOp():
                return f"({'-' if isinstance(node.op, ast.USub) else '+'}{self.expression(node.operand)})"
            case ast.BinOp(op=ast.Pow()):
                return self.power(node)
            case ast.BinOp():
                sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(node.op)]
                return f"({self.expression(node.left)} {sign} {self.expression(node.right)})"
            case ast.Compare(ops=[op], comparators=[right]):
                sign = ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[1:-1]
                return f"({self.expression(node.left)} {sign} {self.expression(right)})"
            case ast.BoolOp():
                return self.junction(isinstance(node.op, ast.And), [self.expression(v) for v in node.values])
            case ast.IfExp():
                return self.choice(*(self.expression(part) for part in (node.test, node.body, node.orelse)))
            case ast.Call(func=ast.Name(id=name)):
                return f"{name}({', '.join(self.expression(argument) for argument in node.args)})"
        raise Untranslatable(ast.unparse(node))

    def power(self, node: ast.BinOp) -> str:
        base = self.expression(node.left)
        match node.right:
            case ast.Constant(value=float(power)) if power in (2.0, 3.0, 4.0):
                if isinstance(node.left, ast.Name | ast.Subscript):
                    return "(" + "*".join([base] * int(power)) + ")"
                return f"({base}**{int(power)})"
        return f"({base}**{self.expression(node.right)})"

    def negation(self, operand: str) -> str:
        return f"(not {operand})"

    def junction(self, conjunction: bool, parts: list[str]) -> str:
        return "(" + (" and " if conjunction else " or ").join(parts) + ")"

    def choice(self, test: str, then: str, otherwise: str) -> str:
        return f"({then} if {test} else {otherwise})"


class _Vector(_Scalar):
    """Prints statements for arrays over all elements of a type."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.masks: list[str] = []
        self.made = 0
        self.chosen: set[str] = set()  # scalars assigned under a mask, which need a value before

    def assignment(self, target: str, value: str) -> str:
        if not self.masks:
            return f"{target} = {value}"
        if target.isidentifier():
            self.chosen.add(target)
        return f"{target} = where({self.masks[-1]}, {value}, {target})"

    def statement(self, node: ast.stmt) -> list[str]:
        if isinstance(node, ast.Break) or (self.masks and isinstance(node, ast.Assign) and _zeros(node)):
            raise Untranslatable("a break, or a new array, under a condition on data")
        return super().statement(node)

    def condition(self, node: ast.If) -> list[str]:
        if _static(node.test, self.function):
            return super().condition(node)
        self.made += 1
        number, outer = self.made, f"{self.masks[-1]} & " if self.masks else ""
        lines = [f"test_{number} = {self.expression(node.test)}"]
        for name, test, body in (("yes", "", node.body), ("no", "logical_not", node.orelse)):
            if body:
                self.masks.append(f"{name}_{number}")
                lines.append(f"{name}_{number} = {outer}{test}(test_{number})")
                lines += self.block(body)
                self.masks.pop()
        return lines

    def negation(self, operand: str) -> str:
        return f"logical_not({operand})"

    def junction(self, conjunction: bool, parts: list[str]) -> str:
        name, text = "logical_and" if conjunction else "logical_or", parts[0]
        for part in parts[1:]:
            text = f"{name}({text}, {part})"
        return text

    def choice(self, test: str, then: str, otherwise: str) -> str:
        return f"where({test}, {then}, {otherwise})"

    def power(self, node: ast.BinOp) -> str:
        right = node.right
        if isinstance(right, ast.Constant) and right.value in (3.0, 4.0):  # NumPy's own are slow
            base = self.expression(node.left)
            return f"(({base})**2 * ({base}))" if right.value == 3.0 else f"((({base})**2)**2)"
        return super().power(node)


def _zeros(node: ast.Assign) -> bool:
    return isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "zeros"


def _static(node: ast.expr, function: Function) -> bool:
    """Whether an expression depends on nargout and loop variables only."""
    known = {"nargout", *(function.loops - function.scalars)}
    return all(part.id in known for part in ast.walk(node) if isinstance(part, ast.Name))


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
