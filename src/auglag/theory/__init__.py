"""The paper's bounds as functions of the constants in its assumptions, to be checked against measured runs.

Assumption 1 gives, on dom g, the Lipschitz constants L_f of grad f, L_J of J, L_c of c and the bounds lambda_f' of
||grad f||, lambda_J' of ||J||; Assumption 2 the regularity constant nu of

    nu ||c(x_{k+1})|| <= dist(-J(x_{k+1})'c(x_{k+1}), dg(x_{k+1}) / beta_k);

ybar_max bounds ||y_k|| (2-norm) over all iterations: sqrt(m) * y_max for the box projection.

The stochastic half adds what Assumptions 4 and 5 say of the samples (`StochasticConstants`). Its estimator of
grad L_beta(x, y) takes two independent samples zeta = (xi1, xi2),

    Delta_beta(x, y, zeta) = grad f(x, xi1) + J(x, xi1)'y + beta J(x, xi1)'c(x, xi2).

Where a statement of the paper does not hold as printed, the function gives the printed number and says so; the list is
under "Theory" in docs/algorithm.md.
"""

from __future__ import annotations

from auglag.theory.deterministic import (
    Constants,
    beta_upper,
    c_big,
    consecutive_bound,
    gradient_mapping_bound,
    inner_bound,
    lipschitz,
    merit_growth,
    n_of_eps,
    outer_bound,
    paper_outer_bound,
    subproblem_lower_bound,
    violation_bound,
)
from auglag.theory.stochastic import (
    Evaluations,
    Run,
    StochasticConstants,
    a_k,
    alpha,
    c_k,
    exponents,
    failure_probability,
    mean_square_lipschitz,
    omega_upper,
    pstorm_complexity,
    pstorm_evaluations,
    pstorm_failure_probability,
    sigma,
    spg_complexity,
    spg_evaluations,
)

__all__ = [
    "Constants",
    "Evaluations",
    "Run",
    "StochasticConstants",
    "a_k",
    "alpha",
    "beta_upper",
    "c_big",
    "c_k",
    "consecutive_bound",
    "exponents",
    "failure_probability",
    "gradient_mapping_bound",
    "inner_bound",
    "lipschitz",
    "mean_square_lipschitz",
    "merit_growth",
    "n_of_eps",
    "omega_upper",
    "outer_bound",
    "paper_outer_bound",
    "pstorm_complexity",
    "pstorm_evaluations",
    "pstorm_failure_probability",
    "sigma",
    "spg_complexity",
    "spg_evaluations",
    "subproblem_lower_bound",
    "violation_bound",
]
