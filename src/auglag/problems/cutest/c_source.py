"""Functions of the small language as C, and the source of a problem's library."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from importlib.resources import files

from auglag.problems.cutest.language import Function, Untranslatable

_OPERATORS: dict[type, str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.USub: "-", ast.UAdd: "+", ast.Not: "!"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
    **{ast.And: " && ", ast.Or: " || "},
}
_POWERS = {2.0: "square", 3.0: "cube", 4.0: "fourth"}


def library_source(elements: Sequence[Function | None], groups: Sequence[Function | None]) -> str:
    """The C source of a problem; a None in place of a function leaves its values to the caller."""
    kernel = files("auglag.problems.cutest").joinpath("kernel.c").read_text(encoding="utf-8")
    own_elements = [(t, function) for t, function in enumerate(elements) if function is not None]
    own_groups = [(t, function) for t, function in enumerate(groups) if function is not None]
    parts = [kernel, *(_element(function, t) for t, function in own_elements)]
    parts += [_group(function, t) for t, function in own_groups]
    parts.append("void element_values(const Data *d, const double *x, int nargout) {")
    parts += [*(f"  element_{t}(d, x, nargout);" for t, _ in own_elements), "}"]
    parts.append("void group_values(const Data *d, int nargout) {")
    parts += [*(f"  group_{t}(d, nargout);" for t, _ in own_groups), "}"]
    parts.append(
        "void evaluate(const Data *d, const double *x, int nargout) {\n"
        "  element_values(d, x, nargout); gather(d, x, nargout); group_values(d, nargout); finish(d, x, nargout);\n}\n"
    )
    return "\n".join(parts)


def _declarations(function: Function) -> str:
    scalars = sorted(function.scalars | function.loops)
    lines = [f"    double {name} = NAN;" for name in scalars]  # used before it has a value: shows as NaN
    lines += [f"    double {name}[{max(size, 1)}];" for name, size in sorted(function.arrays.items())]
    return "\n".join(lines)


def _element(function: Function, t: int) -> str:
    n = function.inputs
    return f"""
/* {function.name} */
static void element_{t}(const Data *d, const double *x, int nargout) {{
  int value = 0, gradient = 0, hessian = 0;
  for (int t = 0; t < {t}; t++) {{
    value += d->count[t]; gradient += d->count[t] * d->size[t]; hessian += d->count[t] * d->size[t] * d->size[t];
  }}
  for (int e_ = 0; e_ < d->count[{t}]; e_++) {{
    const double *P_ = d->parameters[{t}] + e_ * d->width[{t}];
    const int *V_ = d->variables[{t}] + e_ * {n};
    double EV_[{n}], f_ = NAN;
    for (int j = 0; j < {n}; j++) EV_[j] = x[V_[j]];
{_declarations(function)}
{_block(function.body)}
    d->fe[value + e_] = f_;
    if (nargout > 1) memcpy(d->ge + gradient + e_ * {n}, {function.gradient}, sizeof(double) * {n});
    if (nargout > 2) memcpy(d->he + hessian + e_ * {n * n}, {function.hessian}, sizeof(double) * {n * n});
  }}
}}"""


def _group(function: Function, t: int) -> str:
    return f"""
/* {function.name} */
static void group_{t}(const Data *d, int nargout) {{
  for (int e_ = 0; e_ < d->group_count[{t}]; e_++) {{
    const double *P_ = d->group_parameters[{t}] + e_ * d->group_width[{t}];
    const int r_ = d->group_rows[{t}][e_];
    const double GVAR_ = d->inner[r_];
    double f_ = NAN, g_ = NAN, H_ = NAN;
{_declarations(function)}
{_block(function.body)}
    d->fa[r_] = f_;
    if (nargout > 1) d->ga[r_] = g_;
    if (nargout > 2) d->ha[r_] = H_;
  }}
}}"""


def _block(body: list[ast.stmt]) -> str:
    return "\n".join(map(_statement, body))


def _statement(node: ast.stmt) -> str:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="zeros"))):
            return f"memset({name}, 0, sizeof({name}));"
        case ast.Assign(targets=[target]):
            return f"{_expression(target)} = {_expression(node.value)};"
        case ast.If():
            text = f"if ({_expression(node.test)}) {{\n{_block(node.body)}\n}}"
            return text + (f" else {{\n{_block(node.orelse)}\n}}" if node.orelse else "")
        case ast.For(target=ast.Name(id=i), iter=ast.Call(args=[first, last, ast.Constant(value=int(step))])):
            test, stop = "<" if step > 0 else ">", f"(int)({_expression(last)})"
            head = f"for ({i} = (int)({_expression(first)}); {i} {test} {stop}; {i} += {step})"
            return f"{head} {{\n{_block(node.body)}\n}}"
        case ast.Break():
            return "break;"
    raise Untranslatable(ast.unparse(node))


def _expression(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=int() | float() as value):
            return _literal(float(value))
        case ast.Name(id=name):
            return name
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(index))):
            return f"{name}[{index}]"
        case ast.Subscript(value=ast.Name(id=name)):
            return f"{name}[(int)({_expression(node.slice)})]"
        case ast.UnaryOp():
            return f"({_OPERATORS[type(node.op)]}{_expression(node.operand)})"
        case ast.BinOp(op=ast.Pow()):
            base = _expression(node.left)
            match node.right:
                case ast.Constant(value=float(power)) if power in _POWERS:
                    return f"{_POWERS[power]}({base})"
            return f"pow({base}, {_expression(node.right)})"
        case ast.BinOp():
            return f"({_expression(node.left)} {_OPERATORS[type(node.op)]} {_expression(node.right)})"
        case ast.Compare(ops=[op], comparators=[right]):
            return f"({_expression(node.left)} {_OPERATORS[type(op)]} {_expression(right)})"
        case ast.BoolOp():
            return "(" + _OPERATORS[type(node.op)].join(_expression(value) for value in node.values) + ")"
        case ast.IfExp():
            return f"({_expression(node.test)} ? {_expression(node.body)} : {_expression(node.orelse)})"
        case ast.Call(func=ast.Name(id=name)):
            return f"{name}({', '.join(_expression(argument) for argument in node.args)})"
    raise Untranslatable(ast.unparse(node))


def _literal(value: float) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return repr(value) if value >= 0 else f"({value!r})"
