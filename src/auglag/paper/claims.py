"""A claim of the paper and our verdict: the one place from which the report and the page of results take them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from auglag.errors import InputError

CONFIRMED, NOT_CONFIRMED, DEPENDS = "confirmed", "not confirmed", "depends"
VERDICTS = (CONFIRMED, NOT_CONFIRMED, DEPENDS)


@final
@dataclass(frozen=True, slots=True)
class Claim:
    """What the paper says, in our words, and what came of it."""

    where: str  #: the figure, table or theorem; LaTeX labels for theorems
    statement: str
    verdict: str  #: one of `VERDICTS`
    why: str  #: what it depends on, or what was measured
    page: str  #: relative to docs/results
    command: str  #: which redoes it

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise InputError(f"Claim.verdict must be one of {VERDICTS}, got {self.verdict!r}")


def claims() -> tuple[Claim, ...]:
    """All of them: experiments in the paper's order, then theory and Table 1."""
    from auglag.paper.claims_deterministic import DETERMINISTIC
    from auglag.paper.claims_stochastic import STOCHASTIC

    return DETERMINISTIC + STOCHASTIC


def markdown(found: Iterable[Claim]) -> str:
    """The table of docs/results/index.md."""
    lines = ["| where | the paper says | verdict | what was found | redo |", "|---|---|---|---|---|"]
    for claim in found:
        verdict = f"**[{claim.verdict}]({claim.page})**"
        lines.append(f"| {claim.where} | {claim.statement} | {verdict} | {claim.why} | `{claim.command}` |")
    return "\n".join(lines) + "\n"
