"""Element and group functions of S2MPJ, brought by `ast` into the small language of `language`.

The linear map U_ to internal variables is folded: gradient and Hessian come out with respect to the element's own
variables. `self.extfunc`, which a few problems call, is inlined; global parameters become constants.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import math
import textwrap
from typing import Any

import numpy as np

from auglag._typing import Matrix
from auglag.problems.cutest.language import (
    ARITHMETIC,
    COMPARISONS,
    KNOWN,
    Function,
    Untranslatable,
    assignment,
    combination,
    item,
    name_,
    number,
    outer_derivatives,
    zeros,
)


def translate(raw: Any, name: str, inputs: int) -> Function:
    """The method `name` of the S2MPJ object as a `Function`; `inputs` = 0 says that it is a group function."""
    return _Translation(raw, name, inputs).function


def _definition(raw: Any, name: str) -> ast.FunctionDef:
    """The method as it is written; `inspect.getsource` would go through the tokens of a long file to its end."""
    lines, first = inspect.findsource(getattr(raw, name))
    while lines[first].lstrip().startswith("@"):
        first += 1
    depth, block = _indentation(lines[first]), [lines[first]]
    for line in lines[first + 1 :]:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if _indentation(line) <= depth:
            break
        block.append(line)
    try:
        node = ast.parse(textwrap.dedent("".join(block))).body[0]
    except SyntaxError as error:
        raise Untranslatable(f"{name}: {error}") from None
    assert isinstance(node, ast.FunctionDef)
    return node


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _text(node: ast.expr) -> str:
    """The source of a name, an entry, a call or what else is looked for by its text; "" of arithmetic, which is not."""
    if isinstance(node, ast.Name):
        return node.id
    return "" if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Constant) else ast.unparse(node)


class _Translation:
    u: Matrix | None = None  # the map to internal variables

    def __init__(self, raw: Any, name: str, inputs: int) -> None:
        self.raw, self.group = raw, inputs == 0
        self.function = Function(name, inputs)
        self.shapes: dict[str, tuple[int, ...]] = {"EV_": (inputs, 1)}
        self.known: dict[str, Any] = {}  # names with a value at translation time: dim, n
        self.alias: dict[str, str] = {}
        self.indices = {"iel_", "igr_"}  # names of the element's or group's number
        self.function.body = self.block(_definition(raw, name).body)
        if self.u is not None:
            self.function.body += outer_derivatives(self.function, self.u)

    # statements

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [done for statement in statements for done in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Return() | ast.Expr(ast.Constant()):
                return []
            case ast.Try():  # dim = len(IV_), or len(EV_) where there is no IV_
                self.known["dim"] = self.function.inputs if self.u is None else self.u.shape[0]
                return []
            case ast.Break():
                return [node]
            case ast.If():
                return self.condition(node)
            case ast.For():
                return [self.loop(node)]
            case ast.AugAssign():
                left = copy.deepcopy(node.target)
                left.ctx = ast.Load()
                return self.assign(node.target, ast.BinOp(left, node.op, node.value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call() as call):
                return self.inline(targets, call)
            case ast.Assign(targets=[target]):
                return self.assign(target, node.value)
        raise Untranslatable(ast.unparse(node))

    def condition(self, node: ast.If) -> list[ast.stmt]:
        if isinstance(node.body[0], ast.Return) or "isinstance" in ast.unparse(node.test):
            return []  # what to return, and guards against arrays of one entry
        return [ast.If(self.expression(node.test), self.block(node.body), self.block(node.orelse))]

    def loop(self, node: ast.For) -> ast.stmt:
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and ast.unparse(call.func) in ("range", "np.arange")
            and isinstance(node.target, ast.Name)
            and not node.orelse
        ):
            raise Untranslatable(ast.unparse(node.iter))
        bounds = [self.expression(bound) for bound in call.args]
        first, last = (number(0.0), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        step = int(ast.literal_eval(call.args[2])) if len(bounds) == 3 else 1
        variable = self.local(node.target.id)
        self.function.loops.add(variable)
        return ast.For(
            name_(variable), ast.Call(name_("range"), [first, last, ast.Constant(step)], []), self.block(node.body), []
        )

    def assign(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Name):
            return self.assign_name(target.id, value, _text(value))
        if not isinstance(target, ast.Subscript):
            raise Untranslatable(ast.unparse(target))
        base = _text(target.value)
        if base == "U_":
            exec(f"{ast.unparse(target)} = {ast.unparse(value)}", {"U_": self.u, "np": np})
            return []
        if base == "IV_" and "U_[" in (text := ast.unparse(value)):
            return [self.internal_variable(target, text)]
        return [assignment(self.expression(target), self.expression(value))]

    def assign_name(self, name: str, value: ast.expr, text: str) -> list[ast.stmt]:
        if text == "args[0]":
            self.alias[name] = "GVAR_" if self.group else "EV_"
        elif text == "args[1]":
            self.indices.add(name)
        elif name == "U_":
            self.u = np.zeros(self.static(value.args[0] if isinstance(value, ast.Call) else value))
        elif name in ("g_", "H_") and "U_" in text:
            pass  # back to the element's variables: done at the end, by outer_derivatives
        elif text.startswith("len("):
            self.known[name] = self.static(value)
        elif text.startswith("np.zeros("):
            assert isinstance(value, ast.Call)
            if self.group and name in ("g_", "H_"):
                return []
            return [self.array(name, self.static(value.args[0]))]
        elif text.startswith("np.array("):
            assert isinstance(value, ast.Call)
            table = np.asarray(self.static(value.args[0]), dtype=float)
            made = self.array(name, table.shape)
            target = self.local(name)
            return [made, *(assignment(item(target, i), number(v)) for i, v in enumerate(table.ravel()))]
        else:
            if name not in ("f_", "g_", "H_"):
                self.function.scalars.add(self.local(name))
            elif name != "f_" and not self.group:
                raise Untranslatable(f"{name} = {text}")
            return [assignment(name_(self.local(name)), self.expression(value))]
        return []

    def array(self, name: str, shape: Any) -> ast.stmt:
        name = self.local(name)
        self.shapes[name] = tuple(int(k) for k in np.atleast_1d(shape))
        size = int(np.prod(self.shapes[name]))
        if self.function.arrays.setdefault(name, size) != size:
            raise Untranslatable(f"{name} has two sizes")
        return zeros(name, size)

    def internal_variable(self, target: ast.Subscript, text: str) -> ast.stmt:
        """IV_[i] = U_[k:k+1, :].dot(EV_)"""
        if self.u is None:
            raise Untranslatable(text)
        row = int(self.static(ast.parse(text.split("U_[")[1].split(":")[0], mode="eval").body))
        place = int(self.static(target.slice))
        return assignment(item("IV_", place), combination(self.u[row], "EV_", list(range(self.u.shape[1]))))

    def inline(self, targets: list[ast.expr], call: ast.Call) -> list[ast.stmt]:
        """`a, b = self.extfunc(self, ...)`: the body of extfunc, its names made distinct."""
        if ast.unparse(call.func) != "self.extfunc":
            raise Untranslatable(ast.unparse(call))
        node = _definition(self.raw, "extfunc")
        results = node.body[-1]
        if not (isinstance(results, ast.Return) and isinstance(results.value, ast.Tuple)):
            raise Untranslatable("extfunc does not end in a tuple")
        names = {ast.unparse(r): ast.unparse(t) for r, t in zip(results.value.elts, targets, strict=True)}
        before: list[ast.stmt] = []
        for argument, value in zip(node.args.args[1:], call.args[1:], strict=True):
            if ast.unparse(value) == "EV_":
                names[argument.arg] = "EV_"
            else:
                before += self.assign(name_(f"inner_{argument.arg}"), value)
        keep = {"np", "self", "range", "len", "int", *KNOWN}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id not in keep:
                inner.id = names.get(inner.id, f"inner_{inner.id}")
        return before + self.block(node.body[:-1])

    # expressions

    def local(self, name: str) -> str:
        name = self.alias.get(name, name)
        return name if name in ("EV_", "IV_", "GVAR_", "f_", "g_", "H_") else f"v_{name}"

    def static(self, node: ast.expr) -> Any:
        """The value of an expression that only uses what is known at translation time."""
        if isinstance(node, ast.Constant):
            return node.value
        sized = {name: [0.0] * shape[0] for name, shape in self.shapes.items()}
        sized |= {name: sized[known] for name, known in self.alias.items() if known in sized}
        try:
            return eval(ast.unparse(node), {"np": np, "len": len}, {**sized, **self.known})
        except Exception as error:
            raise Untranslatable(f"{ast.unparse(node)}: {error}") from None

    def expression(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Constant(value=int() | float() as value):
                return number(value)
            case ast.Name():
                return self.variable(node.id)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()):
                return ast.UnaryOp(node.op, self.expression(node.operand))
            case ast.BinOp(op=op) if isinstance(op, ARITHMETIC):
                return ast.BinOp(self.expression(node.left), op, self.expression(node.right))
            case ast.Compare(ops=[op], comparators=[right]) if isinstance(op, COMPARISONS):
                return ast.Compare(self.expression(node.left), [op], [self.expression(right)])
            case ast.BoolOp():
                return ast.BoolOp(node.op, [self.expression(value) for value in node.values])
            case ast.IfExp():
                return ast.IfExp(*(self.expression(part) for part in (node.test, node.body, node.orelse)))
            case ast.Call():
                return self.call(node)
            case ast.Subscript():
                return self.subscript(node)
        raise Untranslatable(ast.unparse(node))

    def variable(self, name: str) -> ast.expr:
        if name == "nargout":
            return name_("nargout")
        if name in self.known:
            return number(self.known[name])
        local = self.local(name)
        if local == "EV_":
            return item("EV_", 0)
        if local in (*self.function.scalars, *self.function.loops, "f_", "GVAR_") or (
            self.group and local in ("g_", "H_")
        ):
            return name_(local)
        raise Untranslatable(f"the name {name}")

    def call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
            return self.expression(node.func.value)
        text = _text(node.func)
        if text == "len":
            return number(self.static(node))
        if text not in KNOWN or node.keywords:
            raise Untranslatable(text)
        arguments = [self.expression(argument) for argument in node.args]
        return ast.Call(name_(KNOWN[text]), arguments, []) if KNOWN[text] else arguments[0]

    def subscript(self, node: ast.Subscript) -> ast.expr:
        text = _text(node.value)
        own = [f"self.{table}[{index}]" for table in ("elpar", "grpar") for index in self.indices]
        if text in own:
            return ast.Subscript(name_("P_"), self.index([node.slice], (1,)), ast.Load())
        if text in ("self.efpar", "self.gfpar"):
            return number(float(np.asarray(eval(ast.unparse(node), {"self": self.raw})).item()))
        if self.group and text in ("g_", "H_"):
            return name_(text)
        array = self.local(text)
        if array == "IV_" and self.u is not None:
            self.shapes["IV_"] = (self.u.shape[0],)
        if array not in self.shapes:
            raise Untranslatable(ast.unparse(node))
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return ast.Subscript(name_(array), self.index(indices, self.shapes[array]), ast.Load())

    def index(self, indices: list[ast.expr], shape: tuple[int, ...]) -> ast.expr:
        """The place in the flat array; left-out indices are 0, and S2MPJ may give one 0 too many."""
        indices = indices[: len(shape)]
        strides = [math.prod(shape[k + 1 :]) for k in range(len(indices))]
        try:
            return ast.Constant(int(sum(self.static(i) * s for i, s in zip(indices, strides, strict=True))))
        except Untranslatable:
            pass
        terms = [ast.BinOp(self.expression(i), ast.Mult(), number(s)) for i, s in zip(indices, strides, strict=True)]
        return functools.reduce(lambda total, term: ast.BinOp(total, ast.Add(), term), terms)
