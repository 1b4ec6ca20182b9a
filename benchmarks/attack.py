"""Attack `auglag.minimize` with problems whose truth is known, and judge every claim in 80-bit arithmetic.

    python benchmarks/attack.py                                   # all, 22,300 problems
    python benchmarks/attack.py --every 20                        # every 20th of each family
    python benchmarks/attack.py --families units noise --count 50 # the first 50 of two families
    python benchmarks/attack.py --ipopt --every 4 --write         # IPOPT instead, for its false "infeasible"
    python benchmarks/attack.py --show units 17                   # one problem, with all that is known of it

Problem number i of a family is made from the seed i and the family's name. Results are lines of JSON in `--out`
(`results/attack.jsonl`, not kept in the repository); a run that was interrupted goes on where it was, so remove the
file after a change of the library. `--write` puts the table into `results/attack.md`, and every false or unpleasant end
into `results/attack.csv`.

A claimed success is false if the residual R of the point, with exact functions and the best multipliers, is above
twice `tol` (ten times for differences and for functions that are not exact) and rounding does not explain it, nor the
error of the values where that was stated; in the
families with other units also if R in the natural units of the problem is above 1e-3. INFEASIBLE is false if a feasible
point is known, UNBOUNDED if the objective is known to be bounded on the feasible set.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import collections
import contextlib
import csv
import json
import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np
from attacks.families import FAMILIES, case_of
from attacks.judge import judge
from attacks.models import Case
from scipy import sparse

import auglag
from auglag.bench import baselines
from auglag.bench.counted import CountedProblem, LimitReached
from auglag.bench.spec import Limits
from auglag.problems.base import AbstractProblem

RESULTS = Path(__file__).parent / "results"
#: What IPOPT said of the same problems: by family, which ones were tried, and the seeds it falsely calls infeasible.
IPOPT = RESULTS / "attack_ipopt.json"
TOL = 1e-6
SECONDS = 20.0
#: Outcome -> column.
COLUMNS = {
    "success": "success",
    "right verdict": "right verdict",
    "failure": "honest failure",
    "false success": "**false success**",
    "false infeasible": "**false INFEASIBLE**",
    "false unbounded": "**false UNBOUNDED**",
    "false accusation": "**false WRONG_DERIVATIVES**",
    "exception": "exceptions",
    "late": "over 20 s",
}


class Late(BaseException):
    """The CPU seconds of one problem are used up."""


def _late(*_: Any) -> None:
    raise Late


def attack(case: Case) -> dict[str, Any]:
    """Solve, and say what became of it."""
    signal.signal(signal.SIGVTALRM, _late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = auglag.minimize(**case.with_options(), tol=TOL)
    except Late:
        return {"outcome": "late"}
    except Exception as error:
        if isinstance(error, auglag.DerivativeError) and case.refusal:
            return {"outcome": "right verdict", "status": "DerivativeError"}
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return {"outcome": "exception", "status": text[:300]}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    facts = {"status": result.status.name, "claimed": result.certificate.residual, "calls": result.nfev}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if result.success:
            facts |= judge(case, result.x, result.y, TOL)
            return facts | {"outcome": "false success" if facts.pop("false") else "success"}
    if result.status is auglag.Status.INFEASIBLE:
        return facts | {"outcome": "false infeasible" if case.feasible else "right verdict"}
    if result.status is auglag.Status.UNBOUNDED:
        return facts | {"outcome": "false unbounded" if case.bounded else "right verdict"}
    if facts["status"] == "WRONG_DERIVATIVES":
        return facts | {"outcome": "right verdict" if case.refusal else "false accusation"}
    if facts["status"] == "PRECISION_LIMIT" and case.coarse:
        return facts | {"outcome": "right verdict"}
    return facts | {"outcome": "failure"}


class Filled(AbstractProblem):
    """The same problem with every entry of its matrices stored: IPOPT fixes their structure at the start."""

    def __init__(self, inner: AbstractProblem) -> None:
        super().__init__(inner.x0, lower=inner.lower, upper=inner.upper, cl=inner.cl, cu=inner.cu)
        self.inner = inner

    def f(self, x: Any) -> float:
        return self.inner.f(x)

    def grad(self, x: Any) -> Any:
        return self.inner.grad(x)

    def c(self, x: Any) -> Any:
        return self.inner.c(x)

    def jac(self, x: Any) -> Any:
        return full(self.inner.jac(x))

    @property
    def has_hess(self) -> bool:
        return self.inner.has_hess

    def hess(self, x: Any, y: Any) -> Any:
        return full(self.inner.hess(x, y))


def full(matrix: Any) -> Any:
    """A sparse matrix that stores its zeros, too."""
    dense = np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=float)
    rows, columns = np.indices(dense.shape)
    return sparse.csr_array((dense.ravel(), (rows.ravel(), columns.ravel())), shape=dense.shape)


def ipopt(case: Case) -> str:
    """What IPOPT says of the same problem, with the same functions and differences."""
    name = "ipopt" if case.order == 2 else "ipopt-lm"
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            inner = Filled(auglag.Problem(**case.arguments()))
            problem = CountedProblem(inner, Limits(seconds=2.0, gradients=1000))
            return baselines.get(name).solve(problem, baselines.complete(name, {}), 0).message
    except LimitReached:
        return "limit"
    except Exception as error:
        return type(error).__name__


def work(job: tuple[str, int, bool]) -> dict[str, Any]:
    """One line of the record."""
    family, seed, by_ipopt = job
    case, began = case_of(family, seed), time.process_time()
    if by_ipopt:
        says = ipopt(case)
        facts = {"says": says, "false": case.feasible and says == "Infeasible_Problem_Detected"}
    else:
        facts = attack(case)
    return {"family": family, "seed": seed, **facts, "cpu": round(time.process_time() - began, 3)}


def _asked(beside: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether IPOPT has tried this problem."""
    known = beside.get(row["family"])
    return known is not None and row["seed"] % known["every"] == 0 and row["seed"] < known["count"]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One line per family."""
    beside = json.loads(IPOPT.read_text()) if IPOPT.exists() else {}
    titles = ["family", "problems", *COLUMNS.values(), "IPOPT: false infeasible", "saddles", "worse", "CPU s"]
    lines = ["| " + " | ".join(titles) + " |", "|---" + "|--:" * (len(titles) - 1) + "|"]
    for family in (*FAMILIES, "all"):
        own = [row for row in rows if family in (row["family"], "all")]
        if not own:
            continue
        count = collections.Counter(row["outcome"] for row in own)
        cells = [family, len(own), *(count[name] for name in COLUMNS)]
        asked = [row for row in own if _asked(beside, row)]
        wrong = sum(row["seed"] in beside[row["family"]]["false"] for row in asked)
        mine = sum(row["outcome"] == "false infeasible" for row in asked)
        part = f"{wrong} of {len(asked)} (auglag: {mine})" if asked else "not asked"
        cells.append(f"{wrong}" if len(asked) == len(own) else part)
        cells += [sum(bool(row.get(name)) for row in own) for name in ("saddle", "worse")]
        cells.append(f"{sum(row['cpu'] for row in own):.0f}")
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return lines


NOTES = """\
"success": claimed, and R holds in 80-bit arithmetic. "right verdict": INFEASIBLE or UNBOUNDED where that is so,
PRECISION_LIMIT where functions are coarse, wrong derivatives refused or found. "saddles": successes with negative
curvature on the tangent space of everything active; "worse": successes whose objective is above the least value there
is, where that is known (both are stationary points and no false success). The families are described in
`benchmarks/attacks/families.py`, the judge in `benchmarks/attack.py`, with which all can be done again."""


def show(family: str, seed: int) -> None:
    """One problem in full."""
    case = case_of(family, seed)
    print(case)
    try:
        result = auglag.minimize(**case.with_options(), tol=TOL)
        print(result, result.explain(), judge(case, result.x, result.y, TOL), sep="\n\n")
    except Exception:
        traceback.print_exc()
    print("\nIPOPT:", ipopt(case))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--every", type=int, default=1, help="only every N-th problem")
    parser.add_argument("--count", type=int, help="only the first so many of each family")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--ipopt", action="store_true", help="solve each problem by IPOPT, too")
    parser.add_argument("--out", type=Path, help="results/attack.jsonl, or attack-ipopt.jsonl")
    parser.add_argument("--write", action="store_true", help="write results/attack.md and .csv")
    parser.add_argument("--show", nargs=2, metavar=("FAMILY", "SEED"))
    arguments = parser.parse_args()
    arguments.out = arguments.out or RESULTS / f"attack{'-ipopt' * arguments.ipopt}.jsonl"
    if arguments.show:
        show(arguments.show[0], int(arguments.show[1]))
        return
    count = {name: arguments.count or FAMILIES[name][1] for name in arguments.families}
    jobs = [(name, seed, arguments.ipopt) for name in count for seed in range(0, count[name], arguments.every)]
    rows = carry_out(jobs, arguments.out, arguments.processes)
    if arguments.ipopt:
        known = json.loads(IPOPT.read_text()) if IPOPT.exists() else {}
        for name in count:
            false = [row["seed"] for row in rows if row["family"] == name and row["false"]]
            known[name] = {"count": count[name], "every": arguments.every, "false": false}
            print(name, "false infeasible:", len(false))
        if arguments.write:
            IPOPT.write_text(json.dumps(known) + "\n")
        return
    text = table(rows)
    print("\n".join(text))
    if arguments.write:
        write(rows, text)


def carry_out(jobs: list[tuple[str, int, bool]], out: Path, processes: int) -> list[dict[str, Any]]:
    """The records of all jobs; those that the file has are not done again."""
    lines = out.read_text().splitlines() if out.exists() else []
    done = {(row["family"], row["seed"]): row for row in map(json.loads, lines)}
    missing = [job for job in jobs if job[:2] not in done]
    with out.open("a") as file, contextlib.ExitStack() as stack:
        pool = stack.enter_context(multiprocessing.Pool(processes)) if processes > 1 else None
        for row in map(work, missing) if pool is None else pool.imap_unordered(work, missing):
            done[row["family"], row["seed"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
    return [done[job[:2]] for job in jobs]


def write(rows: list[dict[str, Any]], text: list[str]) -> None:
    """The table, and every false or unpleasant end."""
    whole = sum(count for _, count in FAMILIES.values())
    part = "" if len(rows) == whole else f"\n{len(rows):,} problems of the {whole:,} of a full run.\n"
    (RESULTS / "attack.md").write_text("\n".join(["# Attack", part, *text, "", NOTES, ""]))
    with (RESULTS / "attack.csv").open("w", newline="") as out:
        bad = [row for row in rows if row["outcome"] not in ("success", "right verdict", "failure")]
        names = ("family", "seed", "outcome", "status", "R", "relative")
        writer = csv.DictWriter(out, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(bad)


if __name__ == "__main__":
    main()
