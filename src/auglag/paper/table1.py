"""Table 1 of the paper, its methods and its rivals, with work to the same R that was measured here beside it.

Deterministic methods: gradients of f until R <= 1e-3 on every third Hock-Schittkowski problem of the package, and until
R <= 1e-1, 1e-2 and 1e-3 on the full-batch form of the problem of `auglag.paper.complexity`. Stochastic ones: stochastic
gradients on that problem, and passes over the data on Neyman-Pearson classification; both are read from the runs of
`auglag paper complexity` and `auglag paper stochastic`, and left out where those were not made. Stoc-iALM's runs on the
problem of complexity are made here.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from auglag.bench.rendering import Cell, Table
from auglag.bench.summary import write_tables
from auglag.paper import complexity, neyman_pearson
from auglag.paper.jobs import Record, Watch, complete, load, publish, unfinished
from auglag.paper.neyman_pearson import CHATS, Config, beyond
from auglag.paper.neyman_pearson import Job as NeymanPearson
from auglag.paper.table1_runs import (
    DETERMINISTIC,
    FULL_EPS,
    HS_EPS,
    HS_EVERY,
    HS_GRADIENTS,
    PASSES_EPS,
    SAMPLED_EPS,
    FullBatch,
    Known,
    StocIALM,
    all_jobs,
)


@final
@dataclass(frozen=True, slots=True)
class Printed:
    """A row of the paper's Table 1, and how it is run here."""

    method: str
    objective: str
    constraint: str
    assumptions: str
    complexity: str
    deterministic: tuple[str, ...] = ()  #: keys of `DETERMINISTIC`
    sampled: str = ""  #: a name of `complexity.WAYS`, or "Stoc-iALM"
    data: tuple[Config, ...] = ()  #: curves of Neyman-Pearson classification


_SGD, _PSTORM = (Config(method, "adaptive-full", "adaptive") for method in ("sgd", "pstorm"))
_STOC = tuple(Config("pstorm", "always-short", name) for name in neyman_pearson.RIVALS)
_D, _S = "deterministic", "stochastic"
TABLE1 = (
    Printed("iALM (Sahin et al. 2019)", _D, _D, "1, 2", "eps^-4", ("iALM",)),
    Printed("iPPM (Li et al. 2021)", _D, _D, "1, 2", "eps^-3", ("iPPM",)),
    Printed("ALGENCAN (Birgin and Martinez 2020)", _D, _D, "1, 2", "outer loop: log(1/eps)", ("ALGENCAN",)),
    Printed("Stoc-iALM (Li et al. 2023)", _S, _S, "1 to 5", "eps^-5", (), "Stoc-iALM", _STOC),
    Printed("proposed, proximal gradient", _D, _D, "1, 2", "eps^-3",
            ("proposed, proximal gradient", "proposed, L-BFGS-B")),
    Printed("proposed, SGD", _S, _D, "1 to 4", "eps^-6", (), "SGD, deterministic c"),
    Printed("proposed, SGD", _S, _S, "1 to 4", "eps^-7", (), "SGD, stochastic c", (_SGD,)),
    Printed("proposed, PStorm", _S, _D, "1 to 5", "eps^-4", (), "PStorm, deterministic c"),
    Printed("proposed, PStorm", _S, _S, "1 to 5", "eps^-5", (), "PStorm, stochastic c", (_PSTORM,)),
)  # fmt: skip
#: What stands beside the rows on Neyman-Pearson classification.
BESIDE = (
    *(Config(method, "adaptive-full", "fixed") for method in ("sgd", "pstorm")),
    *(Config(method, "adaptive-full", "default") for method in ("sgd", "pstorm", "svrg")),
)


# ----------------------------------------------------------------------------------------------------------- the runs


def run(output: Path, *, quick: bool = False, workers: int = 2, watch: Watch | None = None) -> Path:
    """Make the runs that `output`/table1/runs.jsonl does not have and write `table1.md` beside it."""
    folder = Path(output) / "table1"
    folder.mkdir(parents=True, exist_ok=True)
    records = complete(all_jobs(quick), folder / "runs.jsonl", workers, watch)
    columns = ("part", "method", "case", "eps", "limit", "gradients", "residual")
    publish(columns, _rows(records, quick), folder / "table1-runs.csv.gz")
    found = tables(records, Path(output), quick=quick)
    write_tables(folder / "table1.md", "Table 1 of the paper, with what was measured", found, _TEXT)
    return folder / "table1.md"


def _rows(records: Mapping[str, Record], quick: bool) -> Iterator[tuple[Any, ...]]:
    """Every run made here: the gradients until success at `eps`, nothing where there was none; R on the HS problems."""
    for job in all_jobs(quick):
        record = records[job.key]
        match job:
            case Known():
                yield "HS", job.way, job.problem, HS_EPS, HS_GRADIENTS, record["gradients"], record["residual"]
            case FullBatch():
                yield "full batch", job.way, job.trial, job.eps, job.limit, record["gradients"], None
            case StocIALM():
                for eps, gradients in zip(record["eps"], record["gradients"], strict=True):
                    yield "sampled", "Stoc-iALM", job.trial, eps, job.limit, gradients, None


def remaining(output: Path, *, quick: bool = False) -> int:
    """How many runs `run` has still to make."""
    return len(unfinished(all_jobs(quick), load(Path(output) / "table1" / "runs.jsonl")))


# --------------------------------------------------------------------------------------------------------- the tables

_TEXT = """    auglag paper stochastic
    auglag paper complexity
    auglag paper table1

The paper's assumptions: 1, f, c and the Jacobian of c are Lipschitz and bounded; 2, a constraint qualification (no
violated iterate is a stationary point of the violation); 3, there is a stochastic oracle; 4, it is unbiased and its
variance bounded; 5, it is Lipschitz in mean square. Complexities are up to logarithms. R is the paper's residual.
A dash: not a method for this problem, or runs that were not made.

On the Hock-Schittkowski problems and in full batch a run counts, and is called solved, if it is certified: R <= eps and
the scale-free test of `auglag`, both at the point that is returned. The pages of the deterministic experiments count
R <= eps alone; the table of the Hock-Schittkowski problems has that number, too. On sampled problems it is R alone.

Every run made for this page: [table1-runs.csv.gz](table1-runs.csv.gz), whose column `gradients` is what the medians
are of. The other sampled runs are in [complexity-runs.csv.gz](stochastic/complexity-runs.csv.gz) and
[records.jsonl.gz](stochastic/records.jsonl.gz).
"""


def tables(records: Mapping[str, Record], output: Path, *, quick: bool = False) -> list[Table]:
    """Table 1 with one measured column for each kind of problem, and what is behind each column."""
    sampled = _sampled_work(records, output, quick)
    small = _small_residuals(records, quick)
    traces = _traces(output, quick)
    data, limit = _passes(traces), beyond(neyman_pearson.size(quick)[2], itertools.chain(*traces.values()))
    solved = _known(records, quick)
    return [_main(solved, _full(records, quick), sampled, data), _hs(solved, small), _full_table(records, quick),
            _sampled_table(sampled, quick), _passes_table(data, limit)]  # fmt: skip


Solved = Mapping[str, Mapping[str, int]]
Reached = Mapping[str, Sequence[tuple[float, int, int]]]  #: median work, runs that got there, runs; one for each eps


def _main(solved: Solved, full: Reached, sampled: Reached, data: Reached) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in TABLE1:
        hs = [f"{_median(solved[w].values())} ({len(solved[w])} solved)" for w in row.deterministic if w in solved]
        full_work = [_one(full[w][1]) for w in row.deterministic if w in full]
        steps = _one(sampled[row.sampled][1]) if row.sampled in sampled else None
        passes = [_one(data[config.key][1]) for config in row.data if config.key in data]
        lines.append(
            (
                row.method,
                row.objective,
                row.constraint,
                row.assumptions,
                row.complexity,
                " / ".join(hs) or None,
                " / ".join(full_work) or None,
                steps,
                " / ".join(passes) or None,
            )
        )
    columns = ("method", "objective", "constraints", "assumptions", "complexity", f"HS, gradients to {HS_EPS:g}",
               f"full batch, gradients to {FULL_EPS[1]:g}", f"sampled, gradients to {SAMPLED_EPS[1]:.2g}",
               f"Neyman-Pearson, passes to {PASSES_EPS[1]:g}")  # fmt: skip
    notes = (
        "Medians over the runs that got there; in brackets how many did. Two numbers in a cell: the proposed method "
        "with proximal gradient / with L-BFGS-B; Stoc-iALM with the stepsize of the paper's fixed strategy / of its "
        "own theory.",
    )
    return Table("Table 1", columns, tuple(lines), notes)


def _known(records: Mapping[str, Record], quick: bool) -> Solved:
    found: dict[str, dict[str, int]] = {way: {} for way in DETERMINISTIC}
    for job in all_jobs(quick):
        if isinstance(job, Known) and records[job.key]["gradients"] is not None:
            found[job.way][job.problem] = records[job.key]["gradients"]
    return found


def _small_residuals(records: Mapping[str, Record], quick: bool) -> Counter[str]:
    """For every method, on how many Hock-Schittkowski problems R <= eps, whatever the rest of the certificate says."""
    jobs = [job for job in all_jobs(quick) if isinstance(job, Known)]
    return Counter(job.way for job in jobs if records[job.key]["residual"] <= HS_EPS)


def _common(solved: Solved) -> list[str]:
    return sorted(set.intersection(*(set(found) for found in solved.values())))


def _hs(solved: Solved, small: Mapping[str, int]) -> Table:
    from auglag.problems.hock_schittkowski import PROBLEMS

    common, names = _common(solved), list(PROBLEMS)[::HS_EVERY]
    lines = [
        (way, len(found), small[way], _median(found.values()), _median([found[name] for name in common]))
        for way, found in solved.items()
    ]
    columns = (
        "method",
        "certified",
        f"R <= {HS_EPS:g}",
        "median gradients, certified",
        f"on the {len(common)} that all solve",
    )
    note = (
        f"Every {HS_EVERY}rd of the {len(PROBLEMS)} problems of the package, {len(names)} in all; at most "
        f"{HS_GRADIENTS:,} gradients of augmented Lagrangians each."
    )
    return Table("Hock-Schittkowski problems", columns, tuple(lines), (note,))


def _full(records: Mapping[str, Record], quick: bool) -> Reached:
    jobs = [job for job in all_jobs(quick) if isinstance(job, FullBatch)]
    return {
        way: [_reached([records[j.key]["gradients"] for j in jobs if (j.way, j.eps) == (way, eps)]) for eps in FULL_EPS]
        for way in DETERMINISTIC
    }


def _full_table(records: Mapping[str, Record], quick: bool) -> Table:
    found = _full(records, quick)
    lines = [(way, *(_one(cell) for cell in cells)) for way, cells in found.items()]
    limit = max(job.limit for job in all_jobs(quick) if isinstance(job, FullBatch))
    notes = (
        f"At most {limit:,} gradients of augmented Lagrangians each. A gradient is a pass over all rows, which gives "
        "values and derivatives at once; the certificate's is counted.",
        "The default looks for lower points along directions without curvature at every solution it finds. Curvature "
        "up to tol counts as none, so that with a loose tol it tries more of them; values would do there, but a pass "
        "is a pass. The last row is the same without (`restarts=0`).",
    )
    return Table("The problem of complexity, full batch: gradients", ("method", *_to(FULL_EPS)), tuple(lines), notes)


def _sampled_work(records: Mapping[str, Record], output: Path, quick: bool) -> Reached:
    """Stochastic gradients on the problem of complexity."""
    mine = [records[job.key]["gradients"] for job in all_jobs(quick) if isinstance(job, StocIALM)]
    found = {"Stoc-iALM": [_reached([row[i] for row in mine]) for i in range(len(SAMPLED_EPS))]}
    try:
        fits = complexity.fits(load(output / "complexity" / "complexity.jsonl"), quick=quick)
    except KeyError:  # those runs were not made, or not all
        return found
    for name, fit in fits.items():
        if fit.way.sampled:
            at = [list(fit.eps).index(eps) for eps in SAMPLED_EPS]
            found[name] = [_reached([s if np.isfinite(s) else None for s in fit.steps[:, i]]) for i in at]
    return found


def _sampled_table(found: Reached, quick: bool) -> Table:
    lines = [(name, *(_one(cell) for cell in cells)) for name, cells in found.items()]
    columns = ("method", *_to(SAMPLED_EPS))
    note = (
        "Stoc-iALM is measured at the ends of its subproblems, with stochastic constraints. At most "
        f"{complexity.QUICK_LIMIT if quick else complexity.LIMIT:,} stochastic gradients each."
    )
    return Table("The problem of complexity, sampled: stochastic gradients", columns, tuple(lines), (note,))


def _traces(output: Path, quick: bool) -> dict[str, list[Record]]:
    """The runs of Neyman-Pearson classification, of the curves that are whole."""
    records = load(output / "stochastic" / "runs.jsonl")
    chats, trials, passes = neyman_pearson.size(quick)
    found = {}
    for config in (*_STOC, _SGD, _PSTORM, *BESIDE):
        keys = [NeymanPearson(config, chat, trial, passes).key for chat in chats for trial in range(trials)]
        if all(key in records for key in keys):
            found[config.key] = [records[key]["trace"] for key in keys]
    return found


def _passes(traces: Mapping[str, list[Record]]) -> Reached:
    """Passes over the data until the first iterate with R <= eps, over all chats and trials."""
    return {key: [_reached([_first(t, eps) for t in found]) for eps in PASSES_EPS] for key, found in traces.items()}


def _first(trace: Record, eps: float) -> float | None:
    rows = zip(trace["epochs"], trace["residual"], trace["iterate"], strict=True)
    return next((epochs for epochs, residual, iterate in rows if iterate and residual <= eps), None)


def _passes_table(found: Reached, limit: str) -> Table:
    names = {config.key: _name(config) for config in (*_STOC, _SGD, _PSTORM, *BESIDE)}
    lines = [(names[key], *(_one(cell) for cell in cells)) for key, cells in found.items()]
    note = (
        f"chat = {', '.join(map(str, CHATS))}; {limit}. An iterate is measured when its subproblem ends: with a fixed "
        "number of epochs that is every 158 passes with SGD, every 315 with PStorm."
    )
    return Table(
        "Neyman-Pearson classification: passes over the data", ("method", *_to(PASSES_EPS)), tuple(lines), (note,)
    )


def _name(config: Config) -> str:
    method = {"sgd": "SGD", "pstorm": "PStorm", "svrg": "SVRG"}[config.method]
    if config.inner in neyman_pearson.RIVALS:
        return config.label
    what = {"adaptive": "Algorithm 2", "fixed": "fixed epochs", "default": "our settings"}[config.inner]
    return f"{method}, {what}"


def _reached(work: Sequence[float | None]) -> tuple[float, int, int]:
    there = [w for w in work if w is not None]
    return (statistics.median(there) if there else float("nan"), len(there), len(work))


def _one(cell: tuple[float, int, int]) -> str:
    middle, there, runs = cell
    return f"{middle:.0f} ({there}/{runs})" if there else f"none of {runs}"


def _median(values: Any) -> str:
    held = list(values)
    return f"{statistics.median(held):g}" if held else "-"


def _to(levels: Sequence[float]) -> tuple[str, ...]:
    return tuple(f"R <= {eps:.2g}" for eps in levels)
