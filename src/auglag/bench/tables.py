"""The tables of an experiment: solved at a tolerance, failures by reason, solvers in pairs, and the paper's Table 2.

As in `profiles`, a solver without a record on a problem has failed there, and the tables say how often that happened.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from auglag.bench.comparison import pairwise
from auglag.bench.profiles import Cost, Profile, Solved, axes, gradients, grid, instance, judged
from auglag.bench.record import TOLERANCES, Ending, Record
from auglag.bench.rendering import Cell, Table

#: Endings in the order in which tables show them.
ENDINGS = (Ending.RETURNED, Ending.LIMIT, Ending.EXCEPTION, Ending.TIMEOUT, Ending.MEMORY, Ending.CRASH)


class PaperRow(NamedTuple):
    """A row of Table 2 as it is printed."""

    problem: str
    always_gradients: int
    always_beta: float
    adaptive_gradients: int
    adaptive_beta: float
    ratio: float


#: The ten printed rows: T. Liu and M. J. O'Neill, "An Adaptive Augmented Lagrangian Method for Deterministic and
#: Stochastic Nonconvex Optimization", table "tbl:final_beta" (tolerance 1e-3, tau = 0.8, gamma = 1.5).
PAPER_ROWS = (
    PaperRow("ALLINITC", 1703, 3.41376e22, 541, 83966.6, 4.06562e17),
    PaperRow("BROWNALE", 1340, 2.75095e11, 242, 191.751, 1.43465e9),
    PaperRow("BT4", 1287, 4.49548e21, 275, 127.834, 3.51665e19),
    PaperRow("BT6", 1265, 2.67046e17, 379, 55977.7, 4.77058e12),
    PaperRow("BT7", 2503, 3.36344e25, 762, 7371.55, 4.56273e21),
    PaperRow("BYRDSPHR", 1320, 2.99699e21, 148, 16.8341, 1.78031e20),
    PaperRow("CB2", 872, 2.95282e24, 361, 1456.11, 2.02788e21),
    PaperRow("CB3", 881, 4.42922e24, 273, 287.627, 1.53992e22),
    PaperRow("CHACONN1", 852, 2.55411e26, 219, 191.751, 1.33199e24),
    PaperRow("CHACONN2", 884, 3.36344e25, 244, 127.834, 2.63110e23),
)


# ------------------------------------------------------------------------------------------------------------ solved at


def solved_at(
    records: Iterable[Record], *, title: str = "Solved at", cost: Cost = gradients, claims_at: float | None = 1e-6
) -> Table:
    """Problems that the judge accepts at 1e-3, 1e-6 and 1e-8, the median cost, CPU time, endings and false claims.

    "common" is the median over the problems that all solvers of the table solve at 1e-6. A false claim is a run that
    calls itself a success and is not accepted at `claims_at`, one of `TOLERANCES`: give the tolerance that the solvers
    were asked for, or None to leave the column out where they were asked for less than any of these.
    """
    table = grid(records)
    names, rows = axes(table, None, None)
    middle, claim = judged(1e-6), judged(claims_at) if claims_at is not None else None
    found = {name: list(table[name].values()) for name in names}
    solved = {name: {instance(r) for r in found[name] if middle(r)} for name in names}
    common = set.intersection(*solved.values())
    missing = {name: len(rows) - len(found[name]) for name in names}
    present = [e for e in ENDINGS if any(r.ending == e for rs in found.values() for r in rs)]
    second = [kind for kind in ("hessians", "products") if any(getattr(r, kind) for rs in found.values() for r in rs)]
    lines = []
    for name in names:
        line: list[Cell] = [name, *(sum(r.solved(t) for r in found[name]) for t in TOLERANCES)]
        good = [r for r in found[name] if instance(r) in solved[name]]
        line += [_median(map(cost, good)), _median(cost(r) for r in good if instance(r) in common)]
        line += [_median(float(getattr(r, kind)) for r in good) for kind in second]
        line.append(round(sum(r.cpu for r in found[name]), 1))
        line += [sum(r.ending == ending for r in found[name]) for ending in present]
        if claim is not None:
            line.append(sum(r.claims_success is True and not claim(r) for r in found[name]))
        lines.append((*line, *([missing[name]] if any(missing.values()) else [])))
    columns = ["Solver", *map(_power, TOLERANCES)]
    columns += ["median gradients", "common", *(f"median {kind}" for kind in second), "CPU s", *present]
    notes = [
        f"{len(rows)} problems; medians over those solved at 1e-6, 'common' over the {len(common)} that all "
        f"{len(names)} solvers solve."
    ]
    if claims_at is not None:
        columns.append("false claims")
        notes.append(f"A false claim: the solver reports success, the judge rejects the point at {_power(claims_at)}.")
    if any(missing.values()):
        columns.append("no record")
        notes.append("A problem without a record counts as a failure.")
    versions = [f"{name}: {_version(found[name])}" for name in names if _version(found[name])]
    notes += ["Versions: " + "; ".join(versions) + "."] if versions else []
    return Table(title, tuple(columns), tuple(lines), tuple(notes))


def _version(records: Iterable[Record]) -> str:
    """What the records say of the solver's version; a killed run may not know it."""
    return ", ".join(sorted({r.environment["solver"] for r in records if r.environment.get("solver")}))


def _power(tolerance: float) -> str:
    return f"{tolerance:.0e}".replace("e-0", "e-")


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return float(median(found)) if found else None


# ------------------------------------------------------------------------------------------------------------- failures


def reason(record: Record) -> str:
    """The class of the message: the status or the error's name where it has one, else its words without numbers."""
    status = record.extra.get("status")
    if isinstance(status, str) and status:
        return status
    message = " ".join(record.message.split())
    named = re.match(r"([A-Z][A-Z_]{2,}|[A-Za-z_.]*(?:Error|Exception|Interrupt|Reached|Warning))\b", message)
    if named:
        return named.group(1)
    words = re.sub(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", "#", message)
    words = re.split(r"[.;:](?:\s|$)", words, maxsplit=1)[0]
    return words if len(words) <= 60 else words[:57] + "..."


def failures(records: Iterable[Record], *, solved: Solved | None = None, title: str = "Failures by reason") -> Table:
    """For each solver, the runs that are not solved, by how they ended and what was said, most frequent first."""
    accepted = solved or judged(1e-6)
    table = grid(records)
    names, rows = axes(table, None, None)
    lines: list[tuple[Cell, ...]] = []
    for name in names:
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for problem in rows:
            record = table[name].get(problem)
            if record is None:
                groups["no record", ""].append(problem)
            elif not accepted(record):
                groups[record.ending, reason(record)].append(problem)
        for (ending, words), where in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
            more = ", ..." if len(where) > 3 else ""
            lines.append((name, ending, words, len(where), ", ".join(where[:3]) + more))
    columns = ("Solver", "ending", "reason", "problems", "for example")
    return Table(title, columns, tuple(lines), (f"{len(rows)} problems.",))


# ----------------------------------------------------------------------------------------- profiles and pairs as tables


def profile_values(profiles: Mapping[str, Profile], *, alphas: Sequence[float] = (1, 2, 5, 10, 99)) -> Table:
    """Each solver's profile at a few alphas, and the fraction it solves at any cost; a star marks a panel's best."""
    lines: list[tuple[Cell, ...]] = []
    for panel, profile in profiles.items():
        columns = [[profile.value(s, a) for s in profile.solvers] for a in alphas]
        columns.append([profile.solved_fraction(s) for s in profile.solvers])
        marked = [[f"{v:.3f}{'*' if v == max(column) > 0 else ' '}" for v in column] for column in columns]
        lines += [(panel, s, *cells) for s, *cells in zip(profile.solvers, *marked, strict=True)]
    heads = ("Panel", "Solver", *(f"rho({a:g})" for a in alphas), "solved")
    return Table("Profiles at alpha", heads, tuple(lines), ("* the best of its panel.",))


def pairs(
    records: Sequence[Record], *, cost: Cost = gradients, solved: Solved | None = None, title: str = "Solvers in pairs"
) -> Table:
    """Every two solvers: who solves what, the ratio of costs where both do, wins, and the sign test."""
    lines = tuple(
        (
            *(c.a, c.b, len(c.both), len(c.only_a), len(c.only_b), len(c.neither)),
            *(c.median_ratio, c.geometric_mean_ratio, c.wins_a, c.wins_b, c.ties, c.p_value),
        )
        for c in pairwise(records, cost=cost, solved=solved)
    )
    heads = (
        *("A", "B", "both", "only A", "only B", "neither"),
        *("median A/B", "geo. mean A/B", "A wins", "B wins", "ties", "p"),
    )
    notes = (
        "A/B: cost of A over cost of B where both solve. A win: the only one to solve, or both and cheaper.",
        "p: exact two-sided sign test on the wins.",
    )
    return Table(title, heads, lines, notes, digits=3)


def last_beta(record: Record | None) -> float | None:
    """The penalty of the last subproblem, where the solver gives it."""
    if record is None:
        return None
    value = record.extra.get("beta", record.history[-1].get("beta") if record.history else None)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


# -------------------------------------------------------------------------------------------------------------- table 2


_FULL = ("Always-Full", "Adaptive-Full")
_BETA_HEADS = tuple(f"{name} {what}" for name in _FULL for what in ("gradients", "last beta"))


def table2(
    records: Iterable[Record],
    *,
    solved: Solved | None = None,
    cost: Cost = gradients,
    title: str = "Table 2: the paper's ten rows, and ours",
) -> Table:
    """The paper's ten problems: gradients, last beta and their ratio as printed and here, and who failed here.

    `records` are those of one setting (the paper's: eps 1e-3, tau 0.8, gamma 1.5). For the paper's own stopping test
    give `solved=residual_below(1e-3)`; if not given it is the judge at 1e-3.
    """
    first, second, accepted = _two(records, solved)
    lines: list[tuple[Cell, ...]] = []
    for row in PAPER_ROWS:
        a, b = first.get(row.problem), second.get(row.problem)
        mine = _row(a, b, cost)
        theirs = (row.always_gradients, row.always_beta, row.adaptive_gradients, row.adaptive_beta, row.ratio)
        beside = [cell for pair in zip(mine, theirs, strict=True) for cell in pair]
        lines.append((row.problem, *beside, _failed(a, accepted), _failed(b, accepted)))
    columns = [text for head in (*_BETA_HEADS, "ratio of betas") for text in (head, "paper")]
    notes = ("'paper' is the printed value of the column before it; there Always-Full failed on all ten.",)
    last = ("Always-Full failed here too", "Adaptive-Full failed here")
    return Table(title, ("Problem", *columns, *last), tuple(lines), notes, digits=6)


def table2_here(
    records: Iterable[Record],
    *,
    solved: Solved | None = None,
    cost: Cost = gradients,
    title: str = "Table 2, made anew: Always-Full fails and Adaptive-Full succeeds",
) -> Table:
    """The paper's selection on our runs: the first ten problems on which only Adaptive-Full succeeds."""
    first, second, accepted = _two(records, solved)

    def ok(record: Record | None) -> bool:
        return record is not None and accepted(record)

    problems = sorted(first.keys() | second.keys())
    chosen = [p for p in problems if ok(second.get(p)) and not ok(first.get(p))]
    reverse = sum(ok(first.get(p)) and not ok(second.get(p)) for p in problems)
    lines = tuple((p, *_row(first.get(p), second.get(p), cost)) for p in chosen[:10])
    notes = (
        f"{len(lines)} of {len(chosen)} such problems, by name; on {reverse} it is the other way round "
        f"({len(problems)} problems).",
    )
    return Table(title, ("Problem", *_BETA_HEADS, "ratio of betas"), lines, notes, digits=6)


def _two(records: Iterable[Record], solved: Solved | None) -> tuple[dict[str, Record], dict[str, Record], Solved]:
    """Problem -> record of Always-Full, the same of Adaptive-Full, and what counts as solved."""
    table = grid(records)
    axes(table, _FULL, None)
    return table[_FULL[0]], table[_FULL[1]], solved or judged(1e-3)


def _row(always: Record | None, adaptive: Record | None, cost: Cost) -> tuple[Cell, ...]:
    """Gradients and last beta of both, and the ratio of the betas."""
    betas = last_beta(always), last_beta(adaptive)
    ratio = betas[0] / betas[1] if betas[0] is not None and betas[1] else None
    one, other = (None if record is None else round(cost(record)) for record in (always, adaptive))
    return one, betas[0], other, betas[1], ratio


def _failed(record: Record | None, accepted: Solved) -> str:
    return "no record" if record is None else "no" if accepted(record) else "yes"
