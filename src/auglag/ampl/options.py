"""The options of the AMPL protocol, auglag's own and IPOPT's: what is understood, what is passed over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from auglag._names import nearest
from auglag.budget import Budget
from auglag.errors import InputError, OptionError
from auglag.inner import SOLVERS
from auglag.kkt.linear import AUTO
from auglag.kkt.linear import SOLVERS as LINEAR_SOLVERS
from auglag.log import JsonLog
from auglag.strategy.settings import PRESETS, VARIANTS


@final
@dataclass(frozen=True, slots=True)
class Option:
    """One keyword of the protocol: how to read its value, and what it means."""

    read: Callable[[str, str], Any]
    meaning: str


def _real(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise InputError(f"{name} must be a positive number, got {value!r}")
    return number


def _whole(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 12:
        raise InputError(f"{name} must be an integer of at least 0, got {value!r}")
    return int(value)


def _flag(name: str, value: str) -> bool:
    words = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}
    if value.lower() not in words:
        raise InputError(f"{name} must be yes or no (or 1 or 0), got {value!r}")
    return words[value.lower()]


def _word(name: str, value: str) -> str:
    return value


OPTIONS: dict[str, Option] = {
    "tol": Option(_real, "success means a certified residual of at most this (1e-6)"),
    "max_iter": Option(_whole, "limit on outer iterations (200)"),
    "max_inner": Option(_whole, "limit on inner iterations of one subproblem (2000)"),
    "max_evaluations": Option(_whole, "limit on evaluations (none)"),
    "max_seconds": Option(_real, "limit on wall-clock time (none); also timelimit, max_wall_time, max_cpu_time"),
    "variant": Option(_word, ", ".join(VARIANTS)),
    "preset": Option(_word, ", ".join(PRESETS)),
    "inner": Option(_word, "inner solver: auto, " + ", ".join(SOLVERS)),
    "slacks": Option(_word, "closed, explicit"),
    "scaling": Option(_flag, "yes: scale f and c by their gradients at the start"),
    "presolve": Option(_flag, "yes: rows that are empty, bounds or multiples of others are taken off first"),
    "restoration": Option(_flag, "yes: check for infeasibility on suspicion"),
    "linear_solver": Option(_word, "what factorises sparse matrices: auto, qdldl, pardiso, superlu, full"),
    "warm_start": Option(_flag, "yes: start from the duals in the .nl file (no); also warm_start_init_point"),
    "objno": Option(_whole, "which objective, from 1; 0 for none (1)"),
    "outlev": Option(_whole, "1: a line for each outer iteration (0); also print_level"),
    "log": Option(_word, "a file for a line of JSON per outer iteration, which `auglag watch` shows (none)"),
    "wantsol": Option(_whole, "sum of 1: write STUB.sol without -AMPL, 2: print x, 4: print duals, 8: no message"),
}
ALIASES = {
    "timelimit": "max_seconds",
    "max_wall_time": "max_seconds",
    "max_cpu_time": "max_seconds",
    "maxit": "max_iter",
    "print_level": "outlev",
    "warm_start_init_point": "warm_start",
}
#: Options of IPOPT that steer its own method, its linear solvers or its output; families by how their names begin.
IPOPT = (
    *("accept_after_max_steps", "accept_every_trial_step", "check_derivatives_for_naninf", "compl_inf_tol"),
    *("constr_viol_tol", "corrector_type", "dependency_detector", "diverging_iterates_tol", "dual_inf_tol"),
    *("evaluate_orig_obj_at_resto_trial", "expect_infeasible_problem", "file_print_level"),
    *("fixed_variable_treatment", "grad_f_constant", "gradient_approximation", "halt_on_ampl_error"),
    *("hessian_approximation", "hessian_approximation_space", "hessian_constant", "honor_original_bounds"),
    *("hsllib", "inf_pr_output", "jac_c_constant", "jac_d_constant", "jacobian_approximation", "kappa_d"),
    *("kappa_sigma", "kappa_soc", "line_search_method", "max_hessian_perturbation", "max_refinement_steps"),
    *("max_resto_iter", "max_soc", "min_hessian_perturbation", "min_refinement_steps", "nlp_lower_bound_inf"),
    *("nlp_upper_bound_inf", "obj_max_inc", "obj_scaling_factor", "option_file_name", "output_file"),
    *("pardisolib", "recalc_y", "recalc_y_feas_tol", "required_infeasibility_reduction", "residual_ratio_max"),
    *("s_max", "sb", "skip_finalize_solution_call", "start_with_resto", "suppress_all_output", "tau_min"),
    *("theta_max_fact", "theta_min_fact", "timing_statistics", "tiny_step_tol", "tiny_step_y_tol"),
)
IPOPT_FAMILIES = (
    *("acceptable_", "adaptive_mu_", "alpha_", "barrier_tol_", "bound_", "constr_mult_", "derivative_test", "filter_"),
    *("first_hessian_", "jacobian_regularization_", "least_square_init_", "limited_memory_", "linear_scaling_"),
    *("linear_system_", "ma27_", "ma28_", "ma57_", "ma77_", "ma86_", "ma97_", "mehrotra_", "mu_", "mumps_"),
    *(
        "neg_curv_test_",
        "nlp_scaling_",
        "nu_",
        "num_linear_",
        "pardiso_",
        "pardisomkl_",
        "perturb_",
        "print_",
        "probing_",
    ),
    *("quality_function_", "resto_", "sigma_", "slack_", "soft_resto_", "spral_", "warm_start_", "watchdog_", "wsmp_"),
)


def passed_over(words: Sequence[str]) -> str:
    """One sentence on those options that are IPOPT's alone; empty if none is."""
    found = dict.fromkeys(word for word in words if of_ipopt_alone(word))
    return f"options of IPOPT without a meaning for auglag are passed over: {', '.join(found)}" if found else ""


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """Options written key=value, by auglag's names."""
    values: dict[str, Any] = {}
    for word in words:
        if of_ipopt_alone(word):
            continue
        key, equals, value = word.partition("=")
        name = ALIASES.get(key, key)
        if name not in OPTIONS:
            raise OptionError(f"there is no option {key!r}{nearest(key, OPTIONS)}")
        if not equals:
            raise InputError(f"an option must be written key=value, got {word!r}")
        values[name] = OPTIONS[name].read(key, value)
    return values


def keywords(options: Mapping[str, Any]) -> dict[str, Any]:
    """What `auglag.minimize` is to be told, beside the problem and the start."""
    limits = {"max_iter": "outer", "max_inner": "inner", "max_evaluations": "evaluations", "max_seconds": "seconds"}
    rules = ("tol", "variant", "preset", "inner", "slacks", "scaling", "presolve", "restoration", "linear_solver")
    return {
        "budget": Budget(**{limits[name]: value for name, value in options.items() if name in limits}),
        "progress": options.get("outlev", 0) > 0,
        "callback": JsonLog(options["log"]) if "log" in options else None,
        **{name: options[name] for name in rules if name in options},
    }


def of_ipopt_alone(word: str) -> bool:
    """Whether an option key=value is one of IPOPT's that means nothing here."""
    key, _, value = word.partition("=")
    if key in OPTIONS or key in ALIASES:
        return key == "linear_solver" and value not in (AUTO, *LINEAR_SOLVERS)
    return key in IPOPT or key.startswith(IPOPT_FAMILIES)
