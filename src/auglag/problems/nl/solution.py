"""The `.sol` file with which a solver answers AMPL and Pyomo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from auglag._typing import Vector
from auglag.problems.nl.header import Header

#: Kind of a suffix on variables whose values are real numbers.
REAL_ON_VARIABLES = 4


@final
@dataclass(frozen=True, slots=True)
class Solution:
    """What goes into the file: duals in AMPL's sign, suffixes on variables by name."""

    message: str
    x: Vector
    duals: Vector
    code: int  #: solve_result_num
    objective: int  #: which objective was solved, from 0; -1 for none
    suffixes: Mapping[str, Vector] = field(default_factory=dict)


def write(path: Path, header: Header, solution: Solution) -> None:
    """Write the text form. All duals and primals are written, so that every reader agrees on the counts."""
    path.write_text(text(header, solution), encoding="utf-8")


def text(header: Header, solution: Solution) -> str:
    """The file's content."""
    lines = [line for line in solution.message.splitlines() if line.strip()]
    lines += ["", "Options"]
    extra = 2 if header.vbtol is not None else 0  # says that vbtol follows the counts
    lines += [str(value) for value in (len(header.options) + extra, *header.options)]
    m, n = solution.duals.size, solution.x.size
    lines += [str(value) for value in (m, m, n, n)]
    if header.vbtol is not None:
        lines.append(repr(header.vbtol))
    lines += [repr(value) for value in solution.duals.tolist()]
    lines += [repr(value) for value in solution.x.tolist()]
    lines.append(f"objno {solution.objective} {solution.code}")
    for name, values in solution.suffixes.items():
        lines.append(f"suffix {REAL_ON_VARIABLES} {values.size} {len(name) + 1} 0 0")
        lines.append(name)
        lines += [f"{j} {value!r}" for j, value in enumerate(values.tolist())]
    return "\n".join(lines) + "\n"
