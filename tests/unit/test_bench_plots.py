"""Plots: what is drawn, that labels keep apart and inside the page, and that files come out the same."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auglag import InputError
from auglag.bench import plots
from auglag.bench.labels import spread
from auglag.bench.profiles import Profile, data_profile, performance_profile, residual_below
from auglag.bench.record import Record
from auglag.bench.setting import PAPER_SETTINGS
from auglag.bench.style import COLOURS, DASHES, looks
from helpers.records import experiment, paper_profile, record

matplotlib = pytest.importorskip("matplotlib")

RECORDS = experiment(25)
PANEL = PAPER_SETTINGS[1].select(RECORDS)


def crowd(number: int) -> list[Record]:
    """So many solvers, all of them solving the same two of three problems."""
    return [
        record(f"P{p}", f"solver number {s} with a long name", 10 * s + p + 1, solved=p < 2)
        for s in range(number)
        for p in range(3)
    ]


def _texts(figure: matplotlib.figure.Figure) -> list[list[matplotlib.text.Text]]:
    """The labels of each axes, found by the place right of it."""
    return [[t for t in axes.texts if t.get_position()[0] > 1.0] for axes in figure.axes]


def _check_labels(figure: matplotlib.figure.Figure, number: int) -> None:
    figure.canvas.draw()
    page = figure.bbox
    for labels in _texts(figure):
        assert len(labels) == number
        boxes = [label.get_window_extent() for label in labels]
        for one, other in itertools.combinations(boxes, 2):
            assert min(one.y1, other.y1) - max(one.y0, other.y0) <= 0.25 * one.height
        for box in boxes:
            assert page.x0 <= box.x0
            assert box.x1 <= page.x1 + 1
            assert page.y0 <= box.y0
            assert box.y1 <= page.y1 + 1


@pytest.mark.parametrize("number", [1, 2, 4, 9, 16, 30])
def test_labels_keep_apart_and_on_the_page_even_if_all_curves_end_together(number: int) -> None:
    _check_labels(plots.profile_plot(performance_profile(crowd(number))), number)
    _check_labels(plots.data_profile_plot(data_profile(crowd(number))), number)


def test_figure_1_has_four_panels_with_the_papers_titles_and_axis() -> None:
    panels = {s: paper_profile(s.select(RECORDS), eps=s.eps) for s in PAPER_SETTINGS}
    figure = plots.figure1(panels)
    assert [axes.get_title() for axes in figure.axes] == [
        rf"({letter})  $\varepsilon = {eps}$, $\tau = {tau}$, $\gamma = {gamma}$"
        for letter, eps, tau, gamma in (
            ("a", "10^{-2}", 0.8, 1.5),
            ("b", "10^{-3}", 0.8, 1.5),
            ("c", "10^{-3}", 0.5, 1.5),
            ("d", "10^{-3}", 0.8, 2),
        )
    ]
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
        assert axes.get_xlim() == (1.0, 100.0)
    _check_labels(figure, 4)
    with pytest.raises(InputError, match="panels must hold at least one setting"):
        plots.figure1({})


def _curve(profile: Profile, figure: matplotlib.figure.Figure, solver: str) -> None:
    drawn = figure.axes[0].get_lines()[profile.solvers.index(solver)]
    x, y = drawn.get_data()
    at, values = profile.curve(solver)
    np.testing.assert_array_equal(x[: len(at)], at)
    np.testing.assert_array_equal(y[: len(at)], values)
    assert drawn.get_drawstyle() == "steps-post"
    assert y[-1] == values[-1]


def test_the_line_drawn_is_the_curve_of_the_profile() -> None:
    profile = performance_profile(PANEL, solved=residual_below(1e-3))
    figure = plots.profile_plot(profile, title="all")
    for solver in profile.solvers:
        _curve(profile, figure, solver)


def test_the_solved_at_plot_shows_every_solver_best_on_top() -> None:
    records = [record("P", "A", 1, solved=False), record("P", "B", 1), record("Q", "A", 1), record("Q", "B", 1)]
    axes = plots.solved_at_plot(records).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["A", "B"]
    assert list(axes.get_lines()[-1].get_xdata()) == [1, 2]


def test_saving_writes_three_files_that_are_the_same_every_time(tmp_path: Path) -> None:
    def draw(name: str) -> list[bytes]:
        profile = paper_profile(PANEL, eps=1e-3)
        written = plots.save(plots.profile_plot(profile), tmp_path / name / "figure.v1")
        assert [path.name for path in written] == ["figure.v1.pdf", "figure.v1.svg", "figure.v1.png"]
        return [path.read_bytes() for path in written]

    first, second = draw("a"), draw("b")
    assert first == second
    assert b"CreationDate" not in first[0]
    assert b"<dc:date>" not in first[1]
    assert first[2].startswith(b"\x89PNG")


def test_names_are_no_mathematics() -> None:
    figure = plots.profile_plot(performance_profile([record("P", "costs $5 or $6_", 1)]))
    _check_labels(figure, 1)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'auglag\[plot\]'"):
        plots.profile_plot(performance_profile(PANEL, solved=residual_below(1e-3)))


def test_importing_the_plots_imports_no_matplotlib() -> None:
    code = "import sys, auglag.bench.plots, auglag.bench.tables; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_looks_are_all_different_and_the_papers_variants_fixed() -> None:
    names = [f"s{i}" for i in range(len(COLOURS) * len(DASHES) - 1)] + ["Always-Full"]
    found = looks(names)
    assert len({(look.colour, look.dashes) for look in found.values()}) == len(names)
    assert found["Always-Full"] == looks(["Always-Full"])["Always-Full"]
    assert len(looks([f"s{i}" for i in range(100)])) == 100


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.2))
def test_spread_keeps_the_order_the_gap_and_the_bounds(wanted: list[float], gap: float) -> None:
    placed = spread(wanted, gap, 0.0, 1.0)
    fits = min(gap, 1.0 / max(len(wanted) - 1, 1))
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for low, high in itertools.pairwise(order):
        assert placed[high] - placed[low] >= fits - 1e-9
    assert all(-1e-9 <= y <= 1 + 1e-9 for y in placed)


def test_spread_moves_nothing_that_has_room_and_centres_a_crowd() -> None:
    assert spread([0.9, 0.1, 0.5], 0.1, 0, 1) == pytest.approx([0.9, 0.1, 0.5])
    assert spread([0.5, 0.5, 0.5], 0.1, 0, 1) == pytest.approx([0.4, 0.5, 0.6])
    assert spread([1.0, 1.0], 0.1, 0, 1) == pytest.approx([0.9, 1.0])
    assert spread([], 0.1, 0, 1) == []
