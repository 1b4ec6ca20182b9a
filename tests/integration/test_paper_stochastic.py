"""The stochastic experiments in small: records that resume, figures, tables."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from auglag.paper import complexity, neyman_pearson
from auglag.paper.jobs import load, unfinished
from auglag.paper.neyman_pearson import FIGURES, Config, Job, complete
from auglag.paper.stochastic_report import Study
from auglag.stochastic import minimize


def test_figures_two_to_five_have_the_curves_of_the_paper() -> None:
    variants = ["adaptive-full", "always-full", "adaptive-short", "always-short"]
    assert [config.variant for config in FIGURES["fig2"]] == variants
    assert {(c.variant, c.inner) for c in FIGURES["fig5"]} == {
        (variant, inner) for variant in ("adaptive-full", "always-full") for inner in ("adaptive", "fixed")
    }
    assert all(config.method == "pstorm" for config in FIGURES["fig4"])


def test_a_figure_is_drawn_from_records_that_survive_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neyman_pearson, "CHATS", (0.7,))
    table = neyman_pearson.run(tmp_path, quick=True, workers=1, figures=("fig3",))
    text = table.read_text()
    assert "Adaptive-Full, fixed" in text
    assert "| mean c(x, s) | c(x, s) | mean (c - chat)_+ | (c - chat)_+ |" in text
    assert "| 0.7 | sgd/always-full/fixed |" in text
    assert (tmp_path / "fig3.pdf").stat().st_size > 5000
    assert (tmp_path / "fig3.png").exists()
    with gzip.open(tmp_path / "records.jsonl.gz", "rt") as file:
        assert len(file.readlines()) == 3 + 4 * 3
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    (tmp_path / "runs.jsonl").write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    again = neyman_pearson.run(tmp_path, quick=True, workers=1, figures=("fig3",))
    assert again.read_text() == text


def test_a_finished_run_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(Config("sgd", "adaptive-full", "adaptive"), 0.7, 0, 20.0)
    path = tmp_path / "runs.jsonl"
    first = complete([job], path, 1)
    monkeypatch.setattr(neyman_pearson, "solve", lambda job: pytest.fail("made again"))
    assert complete([job], path, 1) == first
    assert json.loads(path.read_text())["key"] == job.key


def test_the_violation_is_the_second_term_of_r_with_the_slack_of_the_run() -> None:
    job = Job(Config("sgd", "adaptive-full", "adaptive"), 0.7, 0, 40.0)
    result = minimize(
        neyman_pearson.problem_of(0.7, 0), neyman_pearson.start(), method="sgd", preset="paper", seed=0,
        variant="adaptive-full", tol=1e-12, max_epochs=40.0,
    )  # fmt: skip
    trace = job.run()["trace"]
    assert trace["c_norm"] == pytest.approx([row["residual"] - row["dist"] for row in result.trace], rel=1e-5, abs=1e-9)
    # |c - chat + s| >= (c - chat)_+ for every s >= 0, and the slack, a variable here, is hardly ever the best one.
    assert all(norm >= violation - 1e-6 for norm, violation in zip(trace["c_norm"], trace["violation"], strict=True))
    assert any(norm > 0.0 == violation for norm, violation in zip(trace["c_norm"], trace["violation"], strict=True))


def test_x_k_with_the_multipliers_of_a_subproblem_not_begun_is_no_iterate() -> None:
    trace = Job(Config("sgd", "adaptive-full", "fixed"), 0.7, 0, 205.0).run()["trace"]
    work = trace["gradients"]
    repeated = [i for i in range(1, len(work)) if work[i] == work[i - 1]]
    assert repeated == [len(work) - 1]  # the limit ended the run between two subproblems
    assert trace["iterate"][-2:] == [1, 0]


def test_a_record_without_a_column_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(Config("sgd", "adaptive-full", "adaptive"), 0.7, 0, 20.0)
    path = tmp_path / "runs.jsonl"
    record = complete([job], path, 1)[job.key]
    old = {**record, "trace": {name: column for name, column in record["trace"].items() if name != "c_norm"}}
    path.write_text(json.dumps(old) + "\n")
    assert unfinished([job], load(path)) == [job]
    assert complete([job], path, 1)[job.key]["trace"]["c_norm"] == record["trace"]["c_norm"]
    monkeypatch.setattr(neyman_pearson, "solve", lambda job: pytest.fail("made again"))
    assert complete([job], path, 1)[job.key]["trace"]["c_norm"] == record["trace"]["c_norm"]


def test_slopes_of_complexity_are_fitted_and_those_above_the_bound_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(job: complexity.Job) -> dict[str, object]:
        levels = complexity.WAYS[job.name].levels
        power = 4.5 if job.name == "PStorm, deterministic c" else 2.5
        steps = [None if eps < 0.05 and "SGD" in job.name else round(100 * eps**-power) for eps in levels]
        return {"key": job.key, "eps": list(levels), "steps": steps, "full": steps}

    monkeypatch.setattr(complexity, "measure", fake)
    text = " ".join(complexity.run(tmp_path, quick=True, workers=1).read_text().split())
    assert "| proximal gradient | eps^-3 | 2.50 | [2.50, 2.50] |" in text
    assert "| SGD, stochastic c | eps^-7 | 2.50 | [2.50, 2.50] | 1.78 to 0.0563 | 1.50 |" in text
    whole = text.partition("Over the whole range slopes are above the bound here: ")[2].partition(" Over the last")[0]
    assert whole == "PStorm, deterministic c from eps = 1.78 to 0.0317 (4.51 against 4, [4.51, 4.51])."
    assert "PStorm, deterministic c from eps = 0.563 to 0.178 (4.50 against 4, [4.50, 4.50])" in text
    assert "limit" in text
    assert all((tmp_path / f"complexity.{kind}").exists() for kind in ("png", "pdf", "svg"))


def test_levels_without_work_are_shown_and_take_no_part_in_slopes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(job: complexity.Job) -> dict[str, object]:
        levels = complexity.WAYS[job.name].levels
        at_once = job.trial < 2  # two trials of three begin with R <= 0.6
        steps = [0 if at_once and eps > 0.6 else 1 if eps > 0.6 else round(10_000 * eps**-2) for eps in levels]
        return {"key": job.key, "eps": list(levels), "steps": steps, "full": steps}

    monkeypatch.setattr(complexity, "measure", fake)
    text = " ".join(complexity.run(tmp_path, quick=True, workers=1).read_text().split())
    assert "| proximal gradient | 1.78 | 3/3 | 0 | [0, 1] | 0 |" in text
    assert (
        "| proximal gradient | eps^-3 | 2.00 | [2.00, 2.00] | 0.563 to 0.00563 | 2.00 | 2.00 | [2.00, 2.00] |" in text
    )
    with gzip.open(tmp_path / "complexity-runs.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * sum(len(way.levels) for way in complexity.WAYS.values())
    assert [row["work"] for row in rows if row["eps"] == "1.78"][:3] == ["0", "0", "1"]


def test_oscillation_is_the_sum_of_rises_between_iterates() -> None:
    config = neyman_pearson.Config("sgd", "adaptive-full", "adaptive")
    trace = {"residual": [1.0, 0.1, 50.0, 1.0, 0.01, 0.1], "iterate": [True, True, False, True, True, True]}
    records = {neyman_pearson.Job(config, 0.6, 0, 10.0).key: {"trace": trace}}
    assert Study(records, (0.6,), 1, 10.0, "epochs", 0.0).rises(config, 0.6) == pytest.approx([2.0])


def test_eps_of_complexity_spans_at_least_a_decade_and_a_half() -> None:
    for way in complexity.WAYS.values():
        assert way.levels[0] / way.levels[-1] >= 10**1.5 * 0.99
        assert list(way.levels) == sorted(way.levels, reverse=True)


def test_quantiles_are_ordinary_medians_in_which_trials_without_an_end_take_part() -> None:
    values = np.array([[4.0, 1.0, 1.0], [1.0, np.inf, np.inf], [2.0, 2.0, np.inf], [3.0, np.inf, np.inf]])
    np.testing.assert_array_equal(complexity.quantile(values, 0.5), [2.5, np.inf, np.inf])
    np.testing.assert_array_equal(complexity.quantile(values[:3], 0.5), [2.0, 2.0, np.inf])
    assert complexity.quantile(values[:, 0], 0.25) == 1.5


def test_what_so_many_passes_means_is_said() -> None:
    traces = [{"epochs": [1.0, 2001.5]}, {"epochs": [1.0, 1999.0]}]
    assert neyman_pearson.beyond(2000.0, traces).endswith("2001.50 passes in all at most")


@pytest.mark.parametrize("name", complexity.WAYS)
def test_work_to_a_smaller_eps_is_never_less(name: str) -> None:
    record = complexity.measure(complexity.Job(name, 0, 20_000))
    steps = [s for s in record["steps"] if s is not None]
    assert len(steps) >= 3
    assert steps == sorted(steps)
    assert record["full"][: len(steps)] == sorted(record["full"][: len(steps)])
    assert record["steps"][len(steps) :] == [None] * (len(record["steps"]) - len(steps))


def test_the_two_problems_of_complexity_are_one_in_the_mean() -> None:
    x = np.linspace(-1.0, 1.0, complexity.N)
    exact, noisy = (complexity.problem_of(0, noisy_constraint=noisy).evaluate(x) for noisy in (False, True))
    assert exact.f == noisy.f
    np.testing.assert_allclose(exact.c, noisy.c, rtol=1e-12)
