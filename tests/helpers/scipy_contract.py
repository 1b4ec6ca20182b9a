"""A plugin of pytest for SciPy's own tests: their calls of `minimize` with a constrained method go to auglag.

`pytest -p helpers.scipy_contract --pyargs scipy.optimize.tests.test_slsqp`. Options that only SciPy's methods know are
left out; `maxiter` counts other iterations there, and is left out as well. The status of trust-constr is translated.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import scipy.optimize

import auglag

REPLACED = ("slsqp", "trust-constr")
OWN = ("disp", "maxfev")
#: trust-constr calls 0 what is a limit, and 1 and 2 tests of its own; any other number is a success to its tests.
SOLVED = 4
_outcomes: dict[str, str] = {}
_redirected: set[str] = set()


def minimize(fun: Any, x0: Any, args: Any = (), method: Any = None, **given: Any) -> Any:
    chosen = str(method).lower() if method is not None else "slsqp" if given.get("constraints") else ""
    if chosen not in REPLACED:
        return scipy.optimize.minimize(fun, x0, args, method, **given)
    _redirected.add(os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0].rpartition("/")[2])
    options = {name: value for name, value in (given.pop("options", None) or {}).items() if name in OWN}
    result = scipy.optimize.minimize(fun, x0, args, auglag.scipy_method, options=options, **given)
    if chosen == "trust-constr" and result.success:
        result.status = SOLVED
    return result


class _Optimize:
    """`scipy.optimize` with that `minimize`."""

    minimize = staticmethod(minimize)

    def __getattr__(self, name: str) -> Any:
        return getattr(scipy.optimize, name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for module in {item.module for item in items}:  # type: ignore[attr-defined]
        if hasattr(module, "minimize"):
            module.minimize = minimize
        if hasattr(module, "optimize"):
            module.optimize = _Optimize()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.failed:
        _outcomes[report.nodeid.rpartition("/")[2]] = report.outcome


def pytest_sessionfinish() -> None:
    if "SCIPY_CONTRACT" in os.environ:
        with open(os.environ["SCIPY_CONTRACT"], "w", encoding="utf-8") as file:
            json.dump({name: outcome for name, outcome in _outcomes.items() if name in _redirected}, file)
