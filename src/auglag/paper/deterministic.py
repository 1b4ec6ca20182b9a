"""The runs of the paper's deterministic section: four variants, four settings, the constrained problems of CUTEst.

The paper leaves open eta'_k, its failure limits and the starting slacks. We take eta'_k = 1/k, the limits of `LIMITS`,
and slacks that are the constraint values clipped to their intervals. beta_1 = 1e-3 is what its table of penalties
implies. The cost of a run is the number of gradients of augmented Lagrangians that the inner solver asked for, which is
what the paper counts: with it our BT4 takes 273 where the paper prints 275. (The problem's functions are evaluated at
fewer points: a subproblem starts where the last one ended, and slacks may move alone.) A run succeeds if the
certificate of the returned point, R in the units of the problem, meets the tolerance after at most as many gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

from auglag.bench.profiles import residual_below
from auglag.bench.record import Record
from auglag.bench.setting import PAPER_SETTINGS, VARIANTS, Setting
from auglag.bench.spec import Limits, Run
from auglag.problems import cutest

#: Our failure limits: gradients and CPU seconds of one run.
LIMITS = Limits(gradients=10_000, seconds=20.0, wall=600.0)
QUICK_LIMITS = Limits(gradients=3_000, seconds=3.0, wall=300.0)
#: SciPy's default `ftol` of L-BFGS-B.
SCIPY_FTOL = 2.220446049250313e-09


TABLE = PAPER_SETTINGS[1]  #: the setting of the table of penalties


@final
@dataclass(frozen=True, slots=True)
class Inner:
    """What the paper does not say of the inner solves: eta'_k = 1/k^power, and whether SciPy's own test is on."""

    power: float = 1.0
    ftol: float | None = None

    @property
    def title(self) -> str:
        """In words."""
        return f"eta'_k = 1/k^{self.power:g}, " + ("ftol = 0" if self.ftol is None else f"ftol = {self.ftol:.2g}")

    def options(self) -> dict[str, Any]:
        """Only what differs from the preset, so that equal runs have equal keys."""
        found: dict[str, Any] = {} if self.power == 1.0 else {"eta_power": self.power}
        return found if self.ftol is None else {**found, "ftol": self.ftol}

    def made(self, run: Run) -> bool:
        """Whether the run was made with this reading."""
        return {name: run.options[name] for name in ("eta_power", "ftol") if name in run.options} == self.options()


#: The readings compared by the ablation; the first is the one used for the figure and the table.
READINGS = (Inner(), Inner(power=2.0), Inner(ftol=SCIPY_FTOL), Inner(power=2.0, ftol=SCIPY_FTOL))


def problems(*, quick: bool = False) -> list[str]:
    """The paper's filter: constrained, with an objective, n + m < 1000; for `quick` every eleventh by size."""
    names = cutest.select(constrained=True, objective=True, max_size=1000)
    if not quick:
        return list(names)
    table = cutest.table()
    by_size = sorted(names, key=lambda name: (table[name].n + table[name].m, name))
    return sorted(by_size[5::11])


def run_of(problem: str, variant: str, setting: Setting, limits: Limits, inner: Inner = READINGS[0]) -> Run:
    """One run. Always-variants have no tau, so settings that differ in it share their runs."""
    options: dict[str, Any] = {"preset": "paper", "derivatives": 1, "variant": variant}
    options |= {"tol": setting.eps, "gamma": setting.gamma, **inner.options()}
    if variant.startswith("adaptive"):
        options["tau"] = setting.tau
    return Run(problem, "auglag", options, limits, label=VARIANTS[variant])


def figure_runs(names: Sequence[str], limits: Limits) -> dict[Setting, list[Run]]:
    """Panel -> its runs."""
    return {
        setting: [run_of(name, variant, setting, limits) for name in names for variant in VARIANTS]
        for setting in PAPER_SETTINGS
    }


def ablation_runs(names: Sequence[str], limits: Limits) -> dict[Inner, list[Run]]:
    """Reading -> runs of the two Full variants at the table's setting."""
    variants = ("adaptive-full", "always-full")
    return {
        inner: [run_of(name, variant, TABLE, limits, inner) for name in names for variant in variants]
        for inner in READINGS
    }


def succeeded(record: Record) -> bool:
    """The certificate meets the tolerance of the run, within the limit on gradients as they are counted here."""
    return residual_below(record.run.options["tol"])(record)


def all_runs(groups: Iterable[Sequence[Run]]) -> list[Run]:
    """Every run once."""
    return list({run.key: run for group in groups for run in group}.values())
