"""The settings (eps, tau, gamma) of the paper's Figure 1, and which records belong to one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from auglag.bench.profiles import instance
from auglag.bench.record import Record

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@final
@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """One panel: the stopping tolerance, and tau and gamma of the penalty rule."""

    eps: float
    tau: float
    gamma: float

    @property
    def title(self) -> str:
        """In plain characters."""
        digits, power = _scientific(self.eps)
        power = "10" + power.translate(_SUPERSCRIPTS)
        return f"ε = {power if digits == '1' else f'{digits}·{power}'}, τ = {self.tau:g}, γ = {self.gamma:g}"

    @property
    def tex(self) -> str:
        """In the mathematics of TeX and matplotlib."""
        digits, power = _scientific(self.eps)
        eps = ("" if digits == "1" else rf"{digits} \cdot ") + f"10^{{{power}}}"
        return rf"$\varepsilon = {eps}$, $\tau = {self.tau:g}$, $\gamma = {self.gamma:g}$"

    def select(self, records: Iterable[Record]) -> list[Record]:
        """The records of runs with these options `tol`, `tau` and `gamma`.

        The Always variants know no tau: where one has no run with this tau, its run with another (or none) is taken.
        """
        exact: list[Record] = []
        spare: dict[tuple[str, str], Record] = {}
        for record in records:
            options = record.run.options
            if (options.get("tol"), options.get("gamma")) != (self.eps, self.gamma):
                continue
            if options.get("tau") == self.tau:
                exact.append(record)
            elif str(options.get("variant", "")).startswith("always"):
                spare.setdefault((record.title, instance(record)), record)
        for record in exact:
            spare.pop((record.title, instance(record)), None)
        return exact + list(spare.values())


def _scientific(value: float) -> tuple[str, str]:
    """Mantissa and exponent, as text."""
    mantissa, exponent = f"{value:.6e}".split("e")
    return f"{float(mantissa):g}", str(int(exponent))


#: The panels of Figure 1, in its order.
PAPER_SETTINGS = (Setting(1e-2, 0.8, 1.5), Setting(1e-3, 0.8, 1.5), Setting(1e-3, 0.5, 1.5), Setting(1e-3, 0.8, 2.0))

#: The four variants as options call them, and as the paper does.
VARIANTS = {name: name.title() for name in ("adaptive-full", "always-full", "adaptive-short", "always-short")}
