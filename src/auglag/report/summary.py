"""A result on one screen: what `print(result)` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from auglag.algorithm.status import Status

#: Entries of a vector, and named multipliers, that are shown; of longer ones the first and the last.
SHOWN = 8
#: Characters of the values of one field.
WIDTH = 100


def summary(result: Mapping[str, Any], multipliers: Mapping[str, Any]) -> str:
    """The fields that matter most, one a line, the status by its name; then the names of the others."""
    status, certificate = result["status"], result["certificate"]
    calls = {name: result[name] for name in ("nfev", "njev", "nhev", "constr_nfev", "constr_njev", "constr_nhev")}
    fields = {
        "status": f"{status.name} ({int(status)})" if isinstance(status, Status) else status,
        "success": result["success"],
        "message": result["message"],
        "fun": f"{result['fun']:.12g}",
        "x": brief(result["x"]),
        "multipliers": named(multipliers) if multipliers else "",
        "bounds": _held(result["bound_multipliers"]),
        "certificate": str(certificate),
        "second_order": result["second_order"],
        "nit": f"{result['nit']} outer, {result['nit_inner']} inner iterations in {result['seconds']:.3g} s",
        "calls": ", ".join(f"{name} {count}" for name, count in calls.items() if count),
        "advice": " ".join(result["advice"]),
        "starts": f"{len(result['starts'])} different points" if result["starts"] else "",
        "more": "history (a row per outer iteration), jac, maxcv, penalty, ...; explain(), plot(), save(path)",
    }
    return lines(fields)


def lines(fields: Mapping[str, Any]) -> str:
    """A line for each field that has something to say."""
    return "\n".join(f"{name:>12}: {value}" for name, value in fields.items() if value != "")


def brief(value: Any) -> str:
    """A number, a vector or a structure of vectors, in one line."""
    if isinstance(value, dict | list | tuple):
        return _cut(repr(value).replace("\n", " "))
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{float(array):.6g}"
    text = np.array2string(array, precision=6, threshold=SHOWN, edgeitems=SHOWN // 2, max_line_width=10 * WIDTH)
    return _cut(text.replace("\n", " ")) + (f" ({array.size} entries)" if array.size > SHOWN else "")


def named(values: Mapping[str, Any]) -> str:
    """Multipliers with their names."""
    shown = [f"{name} {brief(value)}" for name, value in list(values.items())[:SHOWN]]
    return ", ".join(shown) + (f", ... ({len(values)} constraints)" if len(values) > SHOWN else "")


def _held(z: Any) -> str:
    """How many variables are at a bound, from the multipliers of the bounds."""
    if isinstance(z, dict | list | tuple):
        return ""
    lower, upper = int(np.sum(np.asarray(z) < 0)), int(np.sum(np.asarray(z) > 0))
    return f"{lower} variables at the lower one, {upper} at the upper one" if lower + upper else ""


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[:WIDTH]} ..."
