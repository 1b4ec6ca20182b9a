"""Small problems with known solutions, from the collection of Hock and Schittkowski.

W. Hock, K. Schittkowski, "Test Examples for Nonlinear Programming Codes", Lecture Notes in Economics and Mathematical
Systems 187, Springer, 1981. Numbers, starting points and solutions are theirs; derivatives are analytic, and solutions
and multipliers were polished to rounding error (see `auglag.problems.hs.solutions`)::

    from auglag.problems import hock_schittkowski as hs

    p = hs.get("HS71")
    p.fun(p.x0), p.rows[0].jac(p.x0), p.multipliers
    auglag.minimize(p.problem())

Constants of the book's constraints are moved into the row bounds (x1 x2 x3 x4 >= 25, not x1 x2 x3 x4 - 25 >= 0).
Left out on purpose: HS13, whose solution has no multipliers, and HS47, whose published solution (1, 1, 1, 1, 1) is
not a local minimum (f < 0 at feasible points arbitrarily near).
"""

from __future__ import annotations

from difflib import get_close_matches

from auglag.problems.hs import bounded, equality, inequality, larger, linear, mixed
from auglag.problems.hs.model import KnownProblem, Row

__all__ = ["PROBLEMS", "KnownProblem", "Row", "get"]

#: Every problem by name, in the order of the book.
PROBLEMS: dict[str, KnownProblem] = {
    p.name: p
    for p in sorted(
        (*bounded.TABLE, *linear.TABLE, *equality.TABLE, *inequality.TABLE, *larger.TABLE, *mixed.TABLE),
        key=lambda p: int(p.name.removeprefix("HS")),
    )
}


def get(name: str) -> KnownProblem:
    """The problem of that name, such as "HS71"; a `ValueError` that suggests near names if there is none.

    Parameters
    ----------
    name : str
        "HS" and the number of the book.

    Returns
    -------
    KnownProblem
        Functions, derivatives, bounds, rows, and the known solution with its multipliers.

    Examples
    --------
    >>> import auglag
    >>> from auglag.problems import hock_schittkowski
    >>> known = hock_schittkowski.get("HS71")
    >>> bool(abs(auglag.minimize(known.problem()).fun - known.f) < 1e-6)
    True
    """
    if name in PROBLEMS:
        return PROBLEMS[name]
    near = get_close_matches(name.upper(), PROBLEMS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else 'names look like "HS71"; PROBLEMS has them all'
    raise ValueError(f"hock_schittkowski.get: no problem is named {name!r}; {hint}")
