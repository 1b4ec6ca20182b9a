"""The adapter to pycutest, against a small imitation of its interface (pycutest itself is not run here)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import auglag
from auglag.problems import cutest


class Imitation:
    """min x0^2 + x1 x2, x0 + x1 = 1, x1 x2 <= 3, x2 fixed; signatures and conventions of pycutest.CUTEstProblem."""

    name, n, m = "TOY", 3, 2
    x0 = np.array([1.0, 2.0, 3.0])
    bl, bu = np.array([-1e20, 0.0, 3.0]), np.array([1e20, 1e20, 3.0])
    cl, cu = np.array([1.0, -1e20]), np.array([1.0, 3.0])
    is_eq_cons, is_linear_cons = np.array([True, False]), np.array([True, False])

    def obj(self, x: Any, gradient: bool = False) -> Any:
        f = x[0] ** 2 + x[1] * x[2]
        return (f, np.array([2 * x[0], x[2], x[1]])) if gradient else f

    def cons(self, x: Any, index: int | None = None, gradient: bool = False) -> Any:
        assert index is None
        c = np.array([x[0] + x[1], x[1] * x[2]])
        return (c, self._jac(x)) if gradient else c

    def scons(self, x: Any, index: int | None = None, gradient: bool = False) -> Any:
        c, jac = self.cons(x, index, gradient=True)
        return (c, sparse.coo_matrix(jac)) if gradient else c

    def hprod(self, p: Any, x: Any | None = None, v: Any | None = None) -> Any:
        return self._hess(v) @ p

    def sphess(self, x: Any, v: Any | None = None) -> Any:
        return sparse.coo_matrix(self._hess(v))

    def _jac(self, x: Any) -> Any:
        return np.array([[1.0, 1.0, 0.0], [0.0, x[2], x[1]]])

    def _hess(self, v: Any) -> Any:
        assert v is not None, "pycutest wants multipliers where there are constraints"
        return np.array([[2.0, 0, 0], [0, 0, 1.0], [0, 1.0, 0]]) + v[1] * np.array(
            [[0, 0, 0], [0, 0, 1.0], [0, 1.0, 0]]
        )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    module = ModuleType("pycutest")

    def import_problem(
        problemName: str,
        destination: str | None = None,
        sifParams: dict[str, Any] | None = None,
        sifOptions: list[str] | None = None,
        efirst: bool = False,
        lfirst: bool = False,
        nvfirst: bool = False,
        quiet: bool = True,
        drop_fixed_variables: bool = True,
    ) -> Imitation:
        seen.append({"name": problemName, "sifParams": sifParams, "drop_fixed_variables": drop_fixed_variables})
        return Imitation()

    module.import_problem = import_problem  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pycutest", module)
    return seen


def test_values_and_derivatives_pass_through(calls: list[dict[str, Any]]) -> None:
    toy = cutest.load("TOY", source="pycutest")
    x, y, v = np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0]), np.array([1.0, -1.0, 2.0])
    assert calls == [{"name": "TOY", "sifParams": None, "drop_fixed_variables": False}]
    assert toy.backend == "pycutest"
    assert toy.f(x) == 7.0
    assert np.array_equal(toy.grad(x), [2.0, 3.0, 2.0])
    assert np.array_equal(toy.c(x), [3.0, 6.0])
    assert np.array_equal(toy.jac(x).toarray(), [[1.0, 1.0, 0.0], [0.0, 3.0, 2.0]])
    assert np.array_equal(toy.at(x).vjp(y), [0.5, 6.5, 4.0])
    assert np.array_equal(toy.hessp(x, y, v), [2.0, 6.0, -3.0])
    assert np.array_equal(toy.hess(x, y) @ v, [2.0, 6.0, -3.0])


def test_infinities_and_fixed_variables_are_as_for_s2mpj(calls: list[dict[str, Any]]) -> None:
    toy = cutest.load("TOY", source="pycutest")
    assert np.array_equal(toy.lower, [-np.inf, 0.0, 3.0])
    assert np.array_equal(toy.upper, [np.inf, np.inf, 3.0])
    assert np.array_equal(toy.cl, [1.0, -np.inf])
    assert np.array_equal(toy.cu, [1.0, 3.0])
    assert toy.linear_rows.tolist() == [True, False]


def test_linear_rows_are_known_without_a_call_that_counts(
    calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = cutest.load("TOY", source="pycutest")
    found = toy.linear()
    assert found is not None
    assert (found.rows.tolist(), found.matrix.toarray().tolist(), found.constant.tolist()) == ([0], [[1, 1, 0]], [0])
    assert toy.counts.constr_nfev == toy.counts.constr_njev == 0

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("not defined at 0")

    monkeypatch.setattr(toy.raw, "scons", refuse, raising=False)
    assert toy.linear() is None


def test_everything_at_once_is_what_the_parts_are(calls: list[dict[str, Any]]) -> None:
    toy = cutest.load("TOY", source="pycutest")
    x = np.array([0.5, 1.5, 3.0])
    whole = toy.evaluate(x)
    assert (whole.f, whole.grad.tolist(), whole.c.tolist()) == (toy.f(x), toy.grad(x).tolist(), toy.c(x).tolist())
    assert (whole.jac.toarray() == toy.jac(x).toarray()).all()


def test_parameters_are_sif_parameters_by_name(calls: list[dict[str, Any]]) -> None:
    cutest.load("TOY", source="pycutest", params={"N": 5})
    assert calls[-1]["sifParams"] == {"N": 5}
    with pytest.raises(auglag.InputError, match="params of pycutest must be a mapping"):
        cutest.load("TOY", source="pycutest", params=[5])


def test_without_pycutest_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycutest", None)
    with pytest.raises(cutest.MissingExtra, match=r'needs pycutest and CUTEst .*source="s2mpj" needs neither'):
        cutest.load("TOY", source="pycutest")
