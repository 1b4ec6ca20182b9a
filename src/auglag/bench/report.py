"""An experiment as one HTML file that needs nothing else: profiles, tables, and every run to look into.

The file asks for no network and no other file: style, script and data are inside. Its data come from `embedded`, its
page from `assets`. The same records give the same file.
"""

from __future__ import annotations

import html as markup
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from auglag.bench.embedded import POINTS, Strings, section_data
from auglag.bench.profiles import Cost, Solved, gradients, instance, judged, residual_below
from auglag.bench.record import TOLERANCES, Record
from auglag.bench.rendering import Table
from auglag.bench.setting import PAPER_SETTINGS
from auglag.bench.style import looks
from auglag.bench.tables import failures, pairs, solved_at
from auglag.errors import InputError
from auglag.persist.files import replacing
from auglag.report.pages import filled


@final
@dataclass(frozen=True, slots=True)
class Section:
    """One experiment of a report: runs with one set of options, and what counts as solved in it."""

    title: str
    records: Sequence[Record]
    solved: Solved = field(default_factory=lambda: judged(1e-6))
    test: str = "the judge accepts the point at 1e-6"  #: what `solved` asks for, in words
    cost: Cost = gradients  #: a count of gradients: `gradients` or `subproblem_gradients`
    claims_at: float | None = 1e-6  #: the tolerance at which claims of success are checked, as in `solved_at`


def paper_sections(records: Iterable[Record], *, cost: Cost = gradients) -> list[Section]:
    """One section for each of the paper's settings that has records; solved means what it does in Figure 1."""
    held = list(records)
    found = [(setting, setting.select(held)) for setting in PAPER_SETTINGS]
    return [
        Section(
            title=setting.title,
            records=chosen,
            solved=residual_below(setting.eps),
            test=f"R <= {setting.eps:g} with the solver's own multipliers, within the limit on gradients",
            cost=cost,
            claims_at=min((t for t in TOLERANCES if t >= setting.eps), default=None),
        )
        for setting, chosen in found
        if chosen
    ]


def html(sections: Sequence[Section], *, title: str, tables: Sequence[Table] = (), notes: Sequence[str] = ()) -> str:
    """The page. `tables` (Table 2, say) come after the profiles; `notes` (the command, limits, versions) on top."""
    if not sections or not all(section.records for section in sections):
        raise InputError("sections must be at least one, each with records")
    parts = {
        "title": markup.escape(title),
        "notes": "".join(f"<p>{markup.escape(note)}</p>\n" for note in [*_summary(sections), *notes]),
        "tables": "\n".join(table.html() for table in tables),
        "solved": "\n".join(_solved(s) for s in sections),
        "pairs": "\n".join(pairs(s.records, cost=s.cost, solved=s.solved, title=s.title).html() for s in sections),
        "failures": _folded(sections),
    }
    return filled("auglag.bench", "report", data(sections), parts)


def write(
    path: str | Path,
    sections: Sequence[Section],
    *,
    title: str,
    tables: Sequence[Table] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write the page; a file that is there is replaced at once or not at all."""
    target = Path(path)
    text = html(sections, title=title, tables=tables, notes=notes)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.write(text.encode())
    return target


def data(sections: Sequence[Section]) -> dict[str, Any]:
    """What the page's script reads."""
    solvers = list(dict.fromkeys(record.title for section in sections for record in section.records))
    look = looks(solvers)
    strings = Strings()
    content = [
        {"title": s.title, "test": s.test} | section_data(s.records, s.solved, s.cost, solvers, strings)
        for s in sections
    ]
    return {
        "solvers": [{"name": s, "colour": look[s].colour, "dashes": list(look[s].dashes)} for s in solvers],
        "sections": content,
        "strings": list(strings.texts),
        "points": POINTS,
    }


def _summary(sections: Sequence[Section]) -> list[str]:
    runs = sum(len(section.records) for section in sections)
    problems = {instance(record) for section in sections for record in section.records}
    solvers = {record.title for section in sections for record in section.records}
    many = f"{len(sections)} settings, " if len(sections) > 1 else ""
    return [f"{runs} runs: {many}{len(problems)} problems, {len(solvers)} solvers."]


def _solved(section: Section) -> str:
    return solved_at(section.records, title=section.title, cost=section.cost, claims_at=section.claims_at).html()


def _folded(sections: Sequence[Section]) -> str:
    """Failures by reason, one part to unfold for each section, the first unfolded."""
    parts = []
    for i, section in enumerate(sections):
        table = failures(section.records, solved=section.solved, title="").html()
        head = f"<details{'' if i else ' open'}><summary>{markup.escape(section.title)}</summary>"
        note = f"<p class=note>Runs that are not solved. Solved is: {markup.escape(section.test)}.</p>"
        parts.append("\n".join((head, note, table, "</details>")))
    return "\n".join(parts)
