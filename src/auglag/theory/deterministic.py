"""Algorithm 1: bounds of violation, penalties and iterations from the constants of Assumptions 1 and 2."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import final

from auglag.errors import InputError, require_positive
from auglag.theory.arguments import require_above_one, require_nonnegative


@final
@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of Assumptions 1 and 2 for one problem."""

    gradient: float  #: lambda_f', bounds ||grad f||
    jacobian: float  #: lambda_J', bounds ||J||
    nu: float  #: regularity
    ybar_max: float  #: bounds ||y_k||
    lipschitz_f: float = 0.0  #: L_f, of grad f
    lipschitz_jacobian: float = 0.0  #: L_J, of J
    lipschitz_c: float = 0.0  #: L_c, of c

    def __post_init__(self) -> None:
        for field in fields(self):
            require_nonnegative(f"Constants.{field.name}", getattr(self, field.name))
        if not self.nu > 0.0:
            raise InputError(f"Constants.nu must be positive, got {self.nu}")

    @property
    def pull(self) -> float:
        """lambda_f' + lambda_J' ybar_max: how hard objective and multipliers can pull away from c = 0."""
        return self.gradient + self.jacobian * self.ybar_max


def violation_bound(constants: Constants, beta: float) -> float:
    """Lemma "grad_upperbound" (i): ||c(x_{k+1})|| <= (lambda_f' + lambda_J' ybar_max + 1/beta_k) / (nu beta_k)."""
    require_positive(beta, "beta")
    return (constants.pull + 1.0 / beta) / (constants.nu * beta)


def c_big(constants: Constants, beta_1: float, violation_1: float) -> float:
    """Lemma "grad_upperbound" (ii): a bound of ||c(x_k)|| over all k, with violation_1 = ||c(x_1)||."""
    return max(violation_1, violation_bound(constants, beta_1))


def beta_upper(constants: Constants, eps: float) -> float:
    """Lemma "beta_upperbound": a beta_k at least this large ends Algorithm 1 in iteration k.

    The positive root of eps nu beta^2 - (nu + pull) beta - 1 = 0.
    """
    require_positive(eps, "eps")
    b = constants.nu + constants.pull
    return (b + math.sqrt(4.0 * eps * constants.nu + b * b)) / (2.0 * eps * constants.nu)


def consecutive_bound(eps: float, n_eps: int, big: float, tau: float) -> int:
    """Theorem "Outer-loop Complexity" (i): so many successes of the penalty test in a row end the run.

    ceil(max(N(eps), log(2 c_big / eps) / |log tau|)), N(eps) the first k from which eta_k <= eps / 2.
    """
    require_positive(eps, "eps")
    if not 0.0 < tau < 1.0:
        raise InputError(f"tau must lie in (0, 1), got {tau}")
    return math.ceil(max(float(n_eps), math.log(max(2.0 * big / eps, 1.0)) / abs(math.log(tau))))


def outer_bound(constants: Constants, *, eps: float, beta_1: float, violation_1: float, gamma: float, tau: float,
                n_eps: int) -> int:  # fmt: skip
    """Theorem "Outer-loop Complexity": iterations until R <= eps.

    The proof's count: at most ceil(log(beta_upper / beta_1) / log gamma) increases of beta, before, between and after
    which at most `consecutive_bound` - 1 successes of the test can stand; one more iteration ends the run. (The paper's
    product counts the successes only; the increases themselves are added here, so that the number is a bound.)
    """
    require_positive(beta_1, "beta_1")
    require_above_one("gamma", gamma)
    run = consecutive_bound(eps, n_eps, c_big(constants, beta_1, violation_1), tau)
    raises = max(0, math.ceil(math.log(beta_upper(constants, eps) / beta_1) / math.log(gamma)))
    return (raises + 1) * run


def paper_outer_bound(constants: Constants, *, eps: float, beta_1: float, violation_1: float, gamma: float, tau: float,
                      n_eps: int) -> int:  # fmt: skip
    """Theorem "Outer-loop Complexity" (ii) as printed: successes in a row, less one, times increases of beta."""
    require_above_one("gamma", gamma)
    run = consecutive_bound(eps, n_eps, c_big(constants, beta_1, violation_1), tau) - 1
    return run * max(0, math.ceil(math.log(beta_upper(constants, eps) / beta_1) / math.log(gamma)))


def lipschitz(constants: Constants, beta: float, big: float) -> float:
    """Lemma "Lipschitz": L_k = L_f + ybar_max L_J + beta_k L_J c_big + beta_k lambda_J' L_c, of grad L_beta(., y)."""
    require_positive(beta, "beta")
    return (
        constants.lipschitz_f
        + constants.ybar_max * constants.lipschitz_jacobian
        + beta * constants.lipschitz_jacobian * big
        + beta * constants.jacobian * constants.lipschitz_c
    )


def gradient_mapping_bound(mapping_norm: float, step: float, lipschitz_constant: float) -> float:
    """Lemma "proximal_grad" (iii): dist(-grad phi(psi), dg(psi)) <= (1 + L step) ||G_step(x)||, psi the prox step.

    2 ||G|| for step = 1/L.
    """
    return (1.0 + lipschitz_constant * step) * mapping_norm


def subproblem_lower_bound(f_min: float, g_min: float, constants: Constants, beta_1: float) -> float:
    """Lemma "Llowerbound": inf L_beta_k(x, y_k) + g(x) >= f_min + g_min - ybar_max^2 / (2 beta_1)."""
    require_positive(beta_1, "beta_1")
    return f_min + g_min - constants.ybar_max**2 / (2.0 * beta_1)


def merit_growth(constants: Constants, beta_1: float, gamma: float) -> float:
    """Lemma "Lupperbound": the constant C_L in L_beta_k(x_k, y_k) + g <= L_beta_1(x_1, y_1) + g + C_L N.

    N is how long beta can stay the same, `consecutive_bound` (the lemma prints one less, but beta_k itself counts too).
    """
    require_positive(beta_1, "beta_1")
    require_above_one("gamma", gamma)
    pull = constants.pull + 1.0 / beta_1
    top = (4.0 * constants.nu * constants.ybar_max + gamma * pull) * pull
    return top / (2.0 * beta_1 * constants.nu**2 * (1.0 - 1.0 / gamma))


def inner_bound(lipschitz_constant: float, gap: float, eta: float) -> int:
    """Proof of Theorem "Overall Complexity": proximal gradient steps of length 1/L until dist <= eta.

    T >= 8 L gap / eta^2, with gap >= phi(start) - inf phi.
    """
    require_positive(eta, "eta")
    return math.ceil(8.0 * lipschitz_constant * gap / eta**2)


def n_of_eps(eta: list[float], eps: float) -> int:
    """N(eps) of a measured sequence eta_1, eta_2, ...: the first k from which eta_k <= eps / 2 throughout."""
    late = [k for k, value in enumerate(eta, start=1) if value > eps / 2.0]
    return (late[-1] if late else 0) + 1
