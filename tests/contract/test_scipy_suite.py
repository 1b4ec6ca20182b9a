"""SciPy's own tests of constrained minimisation, with auglag instead of SLSQP and trust-constr.

What does not pass is listed with its reason. `helpers.scipy_contract` says how the calls are redirected.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

#: Module -> which of its tests are about constrained methods, as pytest's -k takes it.
SUITES = {
    "test_slsqp": "test_",
    "test_minimize_constrained": "not NelderMead",
    "test_optimize": "slsqp or trust-constr or multiple_constraints or eb_constraints",
}
#: What a test's name matches -> why it does not pass.
REASONS = {
    r"TestSLSQP::test_callback": "asks for as many calls as nit; here nit counts outer iterations",
    r"TestTrustRegionConstr::test_list_of_problems.*prob4\]": "the Jacobian of this problem is twice the "
    "right one, which is found at x0 and refused",
    r"TestTrustRegionConstr::test_args": "the same problem",
    r"TestTrustRegionConstr::test_raise_exception": "asks for the words of SciPy's message",
    r"TestTrustRegionConstr::test_issue_9044": "asks for nit = 1 at a start that is solved, and for niter as well",
    r"test_gh20665_too_many_constraints": "more equations than variables are an error there; here they are solved",
    r"TestSLSQP::test_parameters_stay_within_bounds": "older SciPy asks for a warning of points outside of the bounds; "
    "there are none",
    r"test_gh24424": "its objective raises where a row is violated; keep_feasible is refused for rows",
    r"test_issue_18882": "asks for a failure after two iterations; maxiter counts outer iterations here",
    r"TestOptimizeSimple::test_no_increase": "its gradient is wrong on purpose, which is found at x0 and refused",
    r"TestOptimizeSimple::test_respect_maxiter": "asks for a certain nit; here nit counts outer iterations",
    r"TestOptimizeSimple::test_duplicate_evaluations": "success is claimed only for values that were computed twice",
    r"TestOptimizeSimple::test_callback_stopiteration": "asks for the words of SciPy's message",
    r"TestOptimizeSimple::test_minimize_invalid_bounds": "asks for the words of SciPy's message",
    r"test_equal_bounds": "jac of a fixed variable is NaN there where anything is differenced; here it is known",
    r"test_all_bounds_equal": "asks for one evaluation; here f and c are evaluated again before success is claimed",
}


@pytest.mark.parametrize("module", SUITES)
def test_scipys_tests_pass_or_have_a_reason(module, tmp_path):
    if importlib.util.find_spec(f"scipy.optimize.tests.{module}") is None:
        pytest.skip("this SciPy came without its tests")
    helpers = str(Path(__file__).parents[1])
    paths = os.pathsep.join(filter(None, [helpers, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "SCIPY_CONTRACT": str(tmp_path / "outcomes.json")}
    words = ["-p", "no:cacheprovider", "-p", "helpers.scipy_contract", "-q", "-W", "ignore", "-k", SUITES[module]]
    command = [sys.executable, "-m", "pytest", *words, "--pyargs", f"scipy.optimize.tests.{module}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert (tmp_path / "outcomes.json").exists(), done.stdout + done.stderr
    outcomes = json.loads((tmp_path / "outcomes.json").read_text())
    failed = [name.partition("::")[2] for name, outcome in outcomes.items() if outcome == "failed"]
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    assert passed > 20, done.stdout[-2000:]
    assert [name for name in failed if not any(re.match(pattern, name) for pattern in REASONS)] == []
