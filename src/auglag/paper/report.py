"""Every figure and table of the paper, redone, beside what the paper says and our verdict: one HTML and one PDF file.

Both are made from what the experiments left in the output folder; sections whose experiment was not run say so. Figures
are drawn again from the records, so that the PDF has them as vectors.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from auglag.bench import plots
from auglag.bench.record import Record
from auglag.paper import (
    complexity,
    complexity_report,
    deterministic,
    figure1,
    neyman_pearson,
    readings,
    stochastic_report,
)
from auglag.paper.claims import Claim, claims, markdown
from auglag.paper.jobs import load
from auglag.paper.written import Block, Grid, Heading, Words, blocks
from auglag.persist.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "An adaptive augmented Lagrangian method: the paper, redone"
#: What the verdicts are of, for readers of a report with other runs.
PUBLISHED = (
    "The verdicts, and the numbers in them, are those of the published runs (docs/results). "
    "Figures and tables below are of the runs in this folder."
)


@final
@dataclass(frozen=True, slots=True)
class Part:
    """Where a section's tables are: a file of the output folder, a heading in it, at most so many tables."""

    path: str
    heading: str = ""
    grids: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Section:
    """One figure or table of the paper."""

    title: str
    claims: tuple[str, ...]  #: `Claim.where` of what is said about it
    figures: tuple[str, ...] = ()  #: names of `FIGURES`
    parts: tuple[Part, ...] = ()


SECTIONS = (
    Section("Table 1: methods and rivals", ("Table 1",), (), (Part("table1/table1.md"),)),
    Section("Figure 1: performance profiles", ("Figure 1",), ("figure1",), (Part("figure1.md", grids=2),)),
    Section("Table 2: where Always-Full fails", ("Table 2",), (), (Part("table2.md"),)),
    Section("Always-Full against Adaptive-Full: readings of the paper", ("Readings",), ("variants",),
            (Part("variants.md", grids=2),)),
    *(
        Section(f"Figure {i}: {what}", (f"Figure {i}", "Figures 4, 5")[: 1 + (i > 3)], (f"fig{i}",),
                (Part("stochastic/stochastic.md", f"fig{i}"),))
        for i, what in enumerate(("SGD, four variants", "SGD, Algorithm 2 and fixed epochs", "PStorm, four variants",
                                  "PStorm, Algorithm 2 and fixed epochs"), 2)
    ),
    Section("Which PStorm?", (), (), (Part("stochastic/pstorm.md"),)),
    Section("Stoc-iALM", (), ("rivals",), (Part("stochastic/stochastic.md", "rivals"),)),
    Section("How long the inner solves are", ("Figure 3, epochs",), ("lengths",),
            (Part("stochastic/stochastic.md", "lengths"),)),
    Section("Our own settings", (), ("more",), (Part("stochastic/stochastic.md", "more"),)),
    Section("Complexity, measured", ("Theorem complexity_inner_deter", "Theorem overall-epochs",
                                     "Corollary pstorm_Overall"), ("complexity",), (Part("complexity/complexity.md"),)),
    Section("Bounds and lemmas", ("Outer bounds", "Lemma 5.8", "Lemma pstorm_inner_stochastic")),
)  # fmt: skip


def write(output: Path, *, quick: bool = False) -> tuple[Path, Path]:
    """`report.html` and `report.pdf` in `output`, and `verdicts.md`, the table of docs/results/index.md."""
    from auglag.paper import report_pdf

    output = Path(output)
    drawn = {name: _drawn(name, output, quick) for section in SECTIONS for name in section.figures}
    (output / "verdicts.md").write_text(markdown(claims()), encoding="utf-8")
    page, paper = output / "report.html", output / "report.pdf"
    with replacing(page) as file:
        file.write(_html(output, drawn).encode())
    with replacing(paper) as file:
        report_pdf.write(file, TITLE, PUBLISHED, SECTIONS, said, lambda section: found(section, output), drawn)
    return page, paper


def said(section: Section) -> list[Claim]:
    """What the paper says about a section."""
    return [claim for claim in claims() if claim.where in section.claims]


def found(section: Section, output: Path) -> list[Block]:
    """The tables of a section, or a sentence for each that is missing."""
    held: list[Block] = []
    for part in section.parts:
        path = output / part.path
        read = blocks(path, part.heading, grids=part.grids) if path.exists() else []
        held += read or [Words(f"Not run: there is nothing of it in {part.path}.")]
    return held


# ------------------------------------------------------------------------------------------------------------- figures


def _records(what: str, output: Path, quick: bool) -> list[Record] | None:
    """The runs of a deterministic experiment, or None if not all of them were made."""
    from auglag.bench.store import Store

    path = output / "deterministic.sqlite"
    if not path.exists():
        return None
    limits = deterministic.QUICK_LIMITS if quick else deterministic.LIMITS
    runs = figure1.RUNS[what](deterministic.problems(quick=quick, what=what), limits)
    with Store(path) as store:
        records = list(store.records([run.key for run in runs]))
    return records if len(records) == len(runs) else None


def _figure1(output: Path, quick: bool) -> Figure | None:
    records = _records("fig1", output, quick)
    return None if records is None else plots.figure1(figure1.panels(records))


def _variants(output: Path, quick: bool) -> Figure | None:
    records = _records("variants", output, quick)
    return None if records is None else plots.panels(readings.profiles(records))


def _stochastic(name: str) -> Callable[[Path, bool], Figure | None]:
    def draw(output: Path, quick: bool) -> Figure | None:
        records = load(output / "stochastic" / "runs.jsonl")
        if neyman_pearson.remaining(output / "stochastic", quick=quick, figures=(name,)):
            return None
        study = stochastic_report.Study(records, *neyman_pearson.size(quick), "epochs", 0.0)
        return stochastic_report.figure(study, name, neyman_pearson.FIGURES[name])

    return draw


def _complexity(output: Path, quick: bool) -> Figure | None:
    if complexity.remaining(output / "complexity", quick=quick):
        return None
    return complexity_report.figure(complexity.fits(load(output / "complexity" / "complexity.jsonl"), quick=quick))


FIGURES: dict[str, Callable[[Path, bool], Figure | None]] = {
    "figure1": _figure1,
    "variants": _variants,
    "complexity": _complexity,
    **{name: _stochastic(name) for name in neyman_pearson.FIGURES},
}


def _drawn(name: str, output: Path, quick: bool) -> Figure | None:
    """The figure, or None if not all of its runs were made."""
    return FIGURES[name](output, quick)


# ---------------------------------------------------------------------------------------------------------------- HTML

_FOLDERS = ("", "stochastic", "complexity")

_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; color: #1b1d21; background: #fff;
  font: 15px/1.5 "STIX Two Text", "Times New Roman", serif; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.25rem; margin-top: 2.4rem; padding-top: .6rem; border-top: 1px solid #dfe2e7; }
nav a { margin-right: .9rem; } img { max-width: 100%; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; margin: .7rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .55rem; text-align: left; border-bottom: 1px solid #dfe2e7; vertical-align: top; }
th { border-bottom-width: 2px; }
.verdict { white-space: nowrap; font-weight: 600; }
.confirmed { color: #00694c; } .not { color: #a03c00; } .depends { color: #004f80; }
pre { background: #f5f6f8; padding: .5rem .8rem; overflow-x: auto; }
"""


def _html(output: Path, drawn: dict[str, Figure | None]) -> str:
    links = " ".join(f'<a href="#s{i}">{html.escape(s.title.partition(":")[0])}</a>' for i, s in enumerate(SECTIONS))
    body = [_section(i, section, output, drawn) for i, section in enumerate(SECTIONS)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(TITLE)}</title><style>{_STYLE}</style></head>\n<body><h1>{html.escape(TITLE)}</h1>\n"
        f"<nav>{links}</nav>\n<h2>Verdicts</h2>\n<p>{html.escape(PUBLISHED)}</p>\n{_verdicts(claims())}\n"
        + "\n".join(body)
        + "</body></html>\n"
    )


def _section(i: int, section: Section, output: Path, drawn: dict[str, Figure | None]) -> str:
    parts = [f'<section id="s{i}"><h2>{html.escape(section.title)}</h2>']
    if section.claims:
        parts.append(_verdicts(said(section)))
    for name in section.figures:
        figure = drawn[name]
        parts.append(
            f"<p>{name}: not all of its runs were made.</p>" if figure is None else _image(name, figure, output)
        )
    parts += [_block(block) for block in found(section, output)]
    return "\n".join([*parts, "</section>"])


def _verdicts(shown: Sequence[Claim]) -> str:
    rows = []
    for claim in shown:
        kind = claim.verdict.split()[0]
        cells = [claim.where, claim.statement, claim.verdict, claim.why, claim.command]
        tags = ["<td>", "<td>", f'<td class="verdict {kind}">', "<td>", "<td><code>"]
        rows.append(
            "<tr>" + "".join(f"{tag}{html.escape(cell)}" for tag, cell in zip(tags, cells, strict=True)) + "</tr>"
        )
    head = "".join(f"<th>{name}</th>" for name in ("where", "the paper says", "verdict", "what was found", "redo"))
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _image(name: str, figure: Figure, output: Path) -> str:
    """The picture that the experiment left beside its tables, or one drawn now."""
    held = next((path for path in (output / folder / f"{name}.png" for folder in _FOLDERS) if path.exists()), None)
    if held is None:
        drawn = io.BytesIO()
        with plots.styled():
            figure.savefig(drawn, format="png", metadata={"Software": None})
        content = drawn.getvalue()
    else:
        content = held.read_bytes()
    return f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(content).decode()}">'


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h3>{html.escape(block.text)}</h3>"
    if isinstance(block, Grid):
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in block.head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in block.rows
        )
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    tag = "pre" if block.code else "p"
    return f"<{tag}>{html.escape(block.text)}</{tag}>"
