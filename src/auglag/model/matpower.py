"""MATPOWER case files (.m): the tables of a network, read without MATLAB.

The format is that of the MATPOWER manual (Zimmerman and Murillo-Sanchez, appendix B): assignments `mpc.name = ...;` of
numbers and matrices, comments after %.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Vector
from auglag.errors import InputError

Table = NDArray[np.float64]

_ASSIGNMENT = re.compile(r"mpc\.(\w+)\s*=\s*(\[[^\]]*\]|[^;\[\{'\n]+)\s*;")
#: Tables that change the problem and that no function here knows.
_UNKNOWN = ("dcline", "storage", "switch")
#: Table -> the fewest columns it must have.
_COLUMNS = {"bus": 13, "gen": 10, "branch": 13, "gencost": 5}


@final
@dataclass(frozen=True)
class Network:
    """Buses, generators and branches in service, in per unit and radians; positions instead of bus numbers."""

    name: str
    base: float  #: MVA
    numbers: NDArray[np.intp]  #: bus numbers of the file
    load: NDArray[np.complex128]
    shunt: NDArray[np.complex128]  #: conductance + j susceptance
    voltage: tuple[Vector, Vector]  #: least and largest magnitudes
    reference: NDArray[np.intp]  #: buses whose angle is 0
    generators: NDArray[np.intp]  #: the bus of each generator
    active: tuple[Vector, Vector]
    reactive: tuple[Vector, Vector]
    cost: Table  #: one row per generator: model, number of coefficients or points, and those, in the file's units
    origin: NDArray[np.intp]  #: of each branch
    target: NDArray[np.intp]
    admittance: NDArray[np.complex128]  #: of the series element
    charging: Vector
    tap: NDArray[np.complex128]
    rate: Vector  #: largest apparent power, infinite where there is no limit
    angle: tuple[Vector, Vector]  #: least and largest difference of angles, infinite where there is no limit


def tables(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Name -> number or matrix, for every numeric assignment of the file."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"path must be a readable MATPOWER file, got {os.fspath(path)!r}: {error.strerror}") from None
    text = re.sub(r"%[^\n]*", "", text).replace("...\n", " ")
    found: dict[str, Any] = {}
    for name, value in _ASSIGNMENT.findall(text):
        try:
            found[name] = _matrix(value[1:-1]) if value.startswith("[") else float(value)
        except ValueError:
            if name in _COLUMNS or name == "baseMVA":
                raise InputError(f"mpc.{name} in {os.fspath(path)!r} must hold numbers in rows of one length") from None
    for name, columns in _COLUMNS.items():
        if name not in found or found[name].ndim != 2 or found[name].shape[1] < columns:
            shape = "nothing" if name not in found else f"shape {found[name].shape}"
            raise InputError(f"{os.fspath(path)!r} must have a matrix mpc.{name} of {columns} columns, got {shape}")
    if not isinstance(found.get("baseMVA"), float):
        raise InputError(f"{os.fspath(path)!r} must have a number mpc.baseMVA, got {found.get('baseMVA')!r}")
    for name in _UNKNOWN:
        if name in found and np.size(found[name]):
            raise InputError(f"{os.fspath(path)!r} has a table mpc.{name}, which power_flow does not know")
    return found


def _matrix(body: str) -> Table:
    rows = [row.replace(",", " ").split() for row in re.split(r"[;\n]", body)]
    width = max((len(row) for row in rows), default=0)
    kept = [row + ["0"] * (width - len(row)) for row in rows if row]  # gencost may have rows of several lengths
    return np.array(kept, dtype=np.float64).reshape(len(kept), width)


def read(path: str | os.PathLike[str]) -> Network:
    """The network of a MATPOWER file: without isolated buses and what is out of service."""
    found = tables(path)
    base, bus, gen, cost, branch = (found[name] for name in ("baseMVA", "bus", "gen", "gencost", "branch"))
    bus = bus[bus[:, 1] != 4]
    position = {int(number): i for i, number in enumerate(bus[:, 0])}

    def known(numbers: Vector) -> NDArray[np.bool_]:
        return np.array([int(number) in position for number in numbers], dtype=bool)

    def at(numbers: Vector) -> NDArray[np.intp]:
        return np.array([position[int(number)] for number in numbers], dtype=np.intp)

    on = (gen[:, 7] > 0) & known(gen[:, 0])
    gen, cost = gen[on], cost[: on.size][on]
    branch = branch[(branch[:, 10] > 0) & known(branch[:, 0]) & known(branch[:, 1])]
    ratio = np.where(branch[:, 8] == 0.0, 1.0, branch[:, 8])
    low, high = branch[:, 11], branch[:, 12]
    free = (low == 0.0) & (high == 0.0)
    return Network(
        name=Path(path).stem,
        base=base,
        numbers=bus[:, 0].astype(np.intp),
        load=(bus[:, 2] + 1j * bus[:, 3]) / base,
        shunt=(bus[:, 4] + 1j * bus[:, 5]) / base,
        voltage=(bus[:, 12], bus[:, 11]),
        reference=np.flatnonzero(bus[:, 1] == 3),
        generators=at(gen[:, 0]),
        active=(gen[:, 9] / base, gen[:, 8] / base),
        reactive=(gen[:, 4] / base, gen[:, 3] / base),
        cost=np.column_stack([cost[:, 0], cost[:, 3:]]),
        origin=at(branch[:, 0]),
        target=at(branch[:, 1]),
        admittance=1.0 / (branch[:, 2] + 1j * branch[:, 3]),
        charging=branch[:, 4],
        tap=ratio * np.exp(1j * np.deg2rad(branch[:, 9])),
        rate=np.where(branch[:, 5] > 0.0, branch[:, 5] / base, np.inf),
        angle=(
            np.where(free | (low <= -360.0), -np.inf, np.deg2rad(low)),
            np.where(free | (high >= 360.0), np.inf, np.deg2rad(high)),
        ),
    )
