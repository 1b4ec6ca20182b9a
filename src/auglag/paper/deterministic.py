"""The runs of the paper's deterministic section: four variants, four settings, the constrained problems of CUTEst.

The paper leaves open eta'_k, its failure limits and the starting slacks. We take eta'_k = 1/k, the limits of `LIMITS`,
and slacks that are the constraint values clipped to their intervals. beta_1 = 1e-3 is what its table of penalties
implies. The cost of a run is the number of gradients of augmented Lagrangians that the inner solver asked for: SciPy's
`njev`, summed over the subproblems. (The problem's functions are evaluated at fewer points: a subproblem starts where
the last one ended, and slacks may move alone.) A run succeeds if it meets line 4 of Algorithm 1, and the certificate of
the returned point, R in the units of the problem, agrees. `READINGS` are other ways to read what is left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from auglag.bench.export import export
from auglag.bench.profiles import residual_below
from auglag.bench.record import Record
from auglag.bench.setting import PAPER_SETTINGS, VARIANTS, Setting
from auglag.bench.spec import Limits, Run
from auglag.bench.tables import PAPER_ROWS
from auglag.problems import cutest

#: Our failure limits: gradients of augmented Lagrangians (the largest number that the paper prints is 2503) and CPU
#: seconds of one run.
LIMITS = Limits(gradients=3_000, seconds=20.0, wall=600.0)
QUICK_LIMITS = Limits(gradients=1_000, seconds=3.0, wall=300.0)
#: SciPy's default `ftol` of L-BFGS-B.
SCIPY_FTOL = 2.220446049250313e-09


TABLE = PAPER_SETTINGS[1]  #: the setting of the table of penalties
FULL = ("adaptive-full", "always-full")


#: Words of titles in the mathematics of TeX.
_TEX = {
    "eta'_k = 1/k^2": r"$\eta'_k = 1/k^2$",
    "eta'_k = 1/sqrt(k)": r"$\eta'_k = 1/\sqrt{k}$",
    "eta'_k = 0.5^k": r"$\eta'_k = 0.5^k$",
    "gtol = eta_k": r"gtol = $\eta_k$",
    "beta_1": r"$\beta_1$",
    "beta grows": r"$\beta$ grows",
    "eps = 1e-6": r"$\varepsilon = 10^{-6}$",
}


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read what the paper does not print: options of the runs, only those that differ from the preset's."""

    title: str
    changes: tuple[tuple[str, Any], ...] = ()
    eps: float = TABLE.eps

    @property
    def options(self) -> dict[str, Any]:
        """Only what differs from the preset, so that equal runs have equal keys."""
        return dict(self.changes)

    @property
    def tex(self) -> str:
        """The title in the mathematics of TeX and matplotlib."""
        title = self.title
        for plain, letters in _TEX.items():
            title = title.replace(plain, letters)
        return title

    def made(self, run: Run) -> bool:
        """Whether the run was made with this reading."""
        changed = {name: value for name, value in run.options.items() if name in _VARIED}
        return changed == self.options and run.options.get("tol") == self.eps


def _reading(title: str, eps: float = TABLE.eps, **changes: Any) -> Reading:
    return Reading(title, tuple(sorted(changes.items())), eps)


#: What is varied, one thing at a time, and the combinations that a plain script would have. The first one is that of
#: Figure 1 and Table 2: eta'_k = 1/k, L-BFGS-B ended by line 3 alone (ftol = 0) with 10 pairs, beta_1 = 1e-3, explicit
#: slacks, the dual step in every iteration.
READINGS = (
    _reading("as in Figure 1"),
    _reading("eta'_k = 1/sqrt(k)", eta_power=0.5),
    _reading("eta'_k = 1/k^2", eta_power=2.0),
    _reading("eta'_k = 0.5^k", eta_ratio=0.5),
    _reading("ftol of SciPy", ftol=SCIPY_FTOL),
    _reading("ftol of SciPy, eta'_k = 1/k^2", ftol=SCIPY_FTOL, eta_power=2.0),
    _reading("gtol = eta_k (max norm)", max_norm=True),
    _reading("gtol = eta_k, ftol of SciPy", ftol=SCIPY_FTOL, max_norm=True),
    _reading("gtol = eta_k, ftol of SciPy, eta'_k = 0.5^k", ftol=SCIPY_FTOL, max_norm=True, eta_ratio=0.5),
    _reading("L-BFGS-B begun again where it fails", plain=False),
    _reading("beta_1 = 0.1", beta=0.1),
    _reading("beta_1 = 10", beta=10.0),
    _reading("5 pairs", memory=5),
    _reading("20 pairs", memory=20),
    _reading("slacks minimised out", slacks="closed"),
    _reading("dual step only where beta grows", dual_waits=True),
    _reading("eps = 1e-6", eps=1e-6),
    _reading("eps = 1e-6, L-BFGS-B begun again", eps=1e-6, plain=False),
)
_VARIED = {name for reading in READINGS for name in reading.options}


def problems(*, quick: bool = False, what: str = "fig1", every: int = 0) -> list[str]:
    """The paper's filter: constrained, with an objective, n + m < 1000; for `quick` every eleventh by size.

    With `every` it is every so many-th instead. The readings are compared on every eighth by size, for `quick` on every
    fortieth. Table 2 and the readings have the ten problems of the paper's table as well (the collection lacks one).
    """
    names = cutest.select(constrained=True, objective=True, max_size=1000)
    usual = 11 if quick and what != "variants" else 40 if quick else 8 if what == "variants" else 1
    every, table = every or usual, cutest.table()
    by_size = sorted(names, key=lambda name: (table[name].n + table[name].m, name))
    printed = {row.problem for row in PAPER_ROWS} & set(names) if what != "fig1" else set()
    return sorted({*by_size[every // 2 :: every], *printed})


def run_of(problem: str, variant: str, setting: Setting, limits: Limits, reading: Reading = READINGS[0]) -> Run:
    """One run. Always-variants have no tau, so settings that differ in it share their runs; nor do they wait."""
    options: dict[str, Any] = {"preset": "paper", "derivatives": 1, "variant": variant}
    options |= {"tol": setting.eps, "gamma": setting.gamma, **reading.options}
    if variant.startswith("adaptive"):
        options["tau"] = setting.tau
    return Run(problem, "auglag", options, limits, label=VARIANTS[variant])


def figure_runs(names: Sequence[str], limits: Limits) -> dict[Setting, list[Run]]:
    """Panel -> its runs."""
    return {
        setting: [run_of(name, variant, setting, limits) for name in names for variant in VARIANTS]
        for setting in PAPER_SETTINGS
    }


def variant_runs(names: Sequence[str], limits: Limits) -> dict[Reading, list[Run]]:
    """Reading -> runs of the two Full variants at the table's setting (with the reading's eps)."""
    return {
        reading: [
            run_of(name, variant, replace(TABLE, eps=reading.eps), limits, reading)
            for name in names
            for variant in FULL
        ]
        for reading in READINGS
    }


def succeeded(record: Record) -> bool:
    """Line 4 of Algorithm 1 and the certificate meet the tolerance of the run, within the limit on gradients."""
    return residual_below(record.run.options["tol"])(record)


def certified(record: Record) -> bool:
    """The whole certificate: R and the scale-free test, which the paper does not have."""
    return record.claims_success is True


def publish(records: Iterable[Record], path: Path) -> Path:
    """One row for each run, with what counts as success: every count of the tables can be made from the file."""
    return export(records, path, {"succeeded": succeeded})


def all_runs(groups: Iterable[Sequence[Run]]) -> list[Run]:
    """Every run once."""
    return list({run.key: run for group in groups for run in group}.values())
