"""What a result shows: printed, in a notebook, as a figure."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import auglag
from auglag import minimize
from auglag.algorithm.trail import Step
from auglag.log import figure
from auglag.report.notebook import convergence
from helpers.hs14 import EQ, INEQ, START, fun

NAMED = [{**EQ, "name": "line <1>"}, {**INEQ, "name": "ellipse"}]


def test_a_printed_result_names_its_status_and_fits_a_screen():
    text = str(minimize(fun, START, constraints=NAMED))
    assert "status: SOLVED (0)" in text
    assert "line <1>" in text
    assert len(text.splitlines()) <= 16


def test_a_printed_result_stays_short_however_large_the_problem():
    many = [{"type": "ineq", "fun": lambda x, i=i: x[i] + 1, "name": f"row {i}"} for i in range(40)]
    text = str(minimize(lambda x: x @ x, np.ones(300), jac=lambda x: 2 * x, constraints=many))
    assert len(text) < 2500
    assert "(300 entries)" in text
    assert "(40 constraints)" in text


def test_a_failure_prints_its_status_and_what_to_try():
    text = str(minimize(fun, START, constraints=[EQ, {**EQ, "fun": lambda x: x[0] - 2 * x[1] + 5}]))
    assert "status: INFEASIBLE (1)" in text
    assert "advice: check the named constraints" in text


def test_multipliers_have_the_names_of_their_constraints():
    result = minimize(fun, START, constraints=NAMED)
    assert list(result.multipliers_by_name) == ["line <1>", "ellipse"]
    assert result.multipliers_by_name["ellipse"] == result.multipliers[1]


def test_a_notebook_shows_status_certificate_multipliers_and_a_plot():
    page = minimize(fun, START, constraints=NAMED)._repr_html_()
    parsed = ElementTree.fromstring(page)  # well formed, and names are text, not markup
    text = " ".join(parsed.itertext())
    for words in ("SOLVED", "residual R", "line <1>", "ellipse", "tol"):
        assert words in text
    svg = parsed.find("{http://www.w3.org/2000/svg}svg")
    assert svg is not None
    assert len(svg.findall(".//{http://www.w3.org/2000/svg}circle")) > 2


def test_a_notebook_shows_a_run_of_which_nothing_is_known():
    page = minimize(lambda x: math.nan, START)._repr_html_()
    assert "NON_FINITE" in "".join(ElementTree.fromstring(page).itertext())
    assert "<svg" not in page


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [math.nan, 1e-9], [1e300, 1e-300], [math.inf, 1.0]])
def test_the_plot_takes_any_numbers(values):
    svg = convergence([Step("inner", 0, 1, value) for value in values], 1e-6)
    assert not svg or ElementTree.fromstring(svg) is not None
    assert "nan" not in svg
    assert "inf" not in svg


def test_a_long_run_makes_no_long_page():
    svg = convergence([Step("inner", 0, 1 + i // 100, 1.0 / (1 + i)) for i in range(20_000)], 1e-6)
    assert len(svg) < 60_000


def test_a_result_draws_itself(tmp_path):
    pytest.importorskip("matplotlib")
    result = minimize(fun, START, constraints=NAMED)
    drawn = result.plot(tmp_path / "run.svg")
    assert (tmp_path / "run.svg").stat().st_size > 1000
    assert len(drawn.axes) == 4
    with pytest.raises(auglag.InputError, match=r"path must end in \.png, \.svg or \.pdf"):
        result.plot(tmp_path / "run.txt")
    result["history"] = []  # steps alone, as where no outer iteration was needed
    (axes,) = result.plot().axes
    assert axes.lines


def test_a_figure_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setattr(figure.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(auglag.AuglagError, match=r"pip install 'auglag\[plot\]'"):
        minimize(fun, START).plot()
