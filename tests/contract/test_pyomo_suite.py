"""Pyomo's own tests of solvers behind its new interface, those that it runs with IPOPT, on auglag in its place."""

from __future__ import annotations

import importlib
import sys
import unittest

import pytest

pytest.importorskip("pyomo.environ", reason="needs Pyomo: pip install 'auglag[pyomo]'")
pytest.importorskip("parameterized", reason="Pyomo's tests need the package parameterized")
pytest.importorskip("pyomo.contrib.solver.tests", reason="this Pyomo came without its tests")

import auglag.pyomo

MODULE = "pyomo.contrib.solver.tests.solvers.test_solvers"


def their_tests() -> dict[str, unittest.TestCase]:
    """By name, made with auglag where the module asks for IPOPT."""
    from pyomo.contrib.solver.solvers import ipopt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ipopt, "Ipopt", auglag.pyomo.Auglag)
        sys.modules.pop(MODULE, None)
        module = importlib.import_module(MODULE)
    sys.modules.pop(MODULE)  # the next one to import it gets theirs
    case = module.TestSolvers
    names = [name for name in unittest.TestLoader().getTestCaseNames(case) if "_ipopt" in name]
    return {name: case(name) for name in names}


TESTS = their_tests()


def test_there_are_as_many_as_there_were():
    assert len(TESTS) >= 60


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TESTS)
def test_pyomos_own_test(name):
    result = unittest.TestResult()
    TESTS[name].run(result)
    for _, text in [*result.errors, *result.failures]:
        pytest.fail(text, pytrace=False)
    for _, reason in result.skipped:
        pytest.skip(reason)
