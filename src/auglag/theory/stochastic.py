"""Algorithm 2: sizes of steps, probabilities of failure and evaluations from Assumptions 4 and 5."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import final

from auglag.errors import InputError, require_positive
from auglag.theory.arguments import require_above_one, require_at_least_one, require_nonnegative, require_probability
from auglag.theory.deterministic import (
    Constants,
    beta_upper,
    c_big,
    consecutive_bound,
    lipschitz,
    merit_growth,
    outer_bound,
    subproblem_lower_bound,
)

#: 72 (1 + 1/sqrt 2)^2: four times the constant of E ||G||^2, by Markov's inequality with ||G|| <= eta / 2.
_MARKOV = 72.0 * (1.0 + 1.0 / math.sqrt(2.0)) ** 2
_EXPONENTS = {"pg": (0.0, 3.0), "spg": (2.0, 6.0), "pstorm": (1.5, 4.0)}


@final
@dataclass(frozen=True, slots=True)
class StochasticConstants:
    """The constants of Assumptions 4 (variances) and 5 (smoothness in mean square) for one problem.

    The paper uses one sigma_c for J and for J'c, and one L_J for J and for J'c: take the larger of the two. It also
    uses the names L_f and L_J of Assumption 1 again; those in mean square are never smaller, and stand here.
    (Assumption 4 prints sigma_g where it means sigma_f.)
    """

    sigma_f: float  #: E ||grad f(x, xi) - grad f(x)||^2 <= sigma_f^2
    sigma_c: float = 0.0  #: E ||J(x, xi) - J(x)||^2 and E ||J(x, xi1)'c(x, xi2) - J(x)'c(x)||^2 <= sigma_c^2
    lipschitz_f: float = 0.0  #: L_f: E ||grad f(x, xi) - grad f(v, xi)||^2 <= L_f^2 ||x - v||^2
    lipschitz_jacobian: float = 0.0  #: L_J: the same of J(., xi), and of J(., xi1)'c(., xi2)

    def __post_init__(self) -> None:
        for field in fields(self):
            require_nonnegative(f"StochasticConstants.{field.name}", getattr(self, field.name))


@final
@dataclass(frozen=True, slots=True)
class Evaluations:
    """How many evaluations a lemma or theorem allows.

    `stochastic` counts values of Delta, each of which takes two samples (PStorm needs two values per iteration, at the
    same samples; its lemma counts iterations).
    """

    stochastic: int  #: stochastic oracle evaluations
    full: int  #: full oracle evaluations: one for each call of the method, p* + 1 in all
    paper_full: int  #: the same as printed: p*, one less than there are calls unless a single one suffices


def sigma(constants: Constants, oracle: StochasticConstants, beta: float) -> float:
    """Lemma "Lipschitz_stochastic5.7": sigma_{L_beta}, the standard deviation of Delta_beta.

    sigma_{L_beta} = sqrt(3 sigma_f^2 + 3 sigma_c^2 ybar_max^2 + 3 beta^2 sigma_c^2), and
    E ||Delta_beta(x, y, zeta) - grad L_beta(x, y)||^2 <= sigma_{L_beta}^2 wherever ||y|| <= ybar_max.
    """
    require_positive(beta, "beta")
    return math.sqrt(3.0 * (oracle.sigma_f**2 + oracle.sigma_c**2 * (constants.ybar_max**2 + beta**2)))


def mean_square_lipschitz(constants: Constants, oracle: StochasticConstants, beta: float) -> float:
    """Lemma "Lipschitz_stochastic5.7", second half: L_{L_beta} = sqrt(3 L_f^2 + 3 L_J^2 ybar_max^2 + 3 beta^2 L_J^2).

    E ||Delta_beta(x, y, zeta) - Delta_beta(v, y, zeta)||^2 <= L_{L_beta}^2 ||x - v||^2, with the L_f and L_J of
    Assumption 5, for all x and v in dom g (unlike L_k, which holds only where ||c|| <= c_big).
    """
    require_positive(beta, "beta")
    square = oracle.lipschitz_f**2 + oracle.lipschitz_jacobian**2 * (constants.ybar_max**2 + beta**2)
    return math.sqrt(3.0 * square)


def omega_upper(constants: Constants, *, merit_1: float, f_min: float, g_min: float, beta_1: float, gamma: float,
                run: int) -> float:  # fmt: skip
    """Lemmas "Lupperbound" and "Llowerbound": a bound of every Omega_k, merit_1 = L_beta_1(x_1, y_1) + g(x_1).

    Omega_k = L_beta_k(x_k, y_k) + g(x_k) - min (L_beta_k(., y_k) + g)
            <= merit_1 - f_min - g_min + C_L N + ybar_max^2 / (2 beta_1), N = `run` (see `merit_growth`).
    """
    lowest = subproblem_lower_bound(f_min, g_min, constants, beta_1)
    if not lowest <= merit_1 < math.inf:
        raise InputError(f"merit_1 must be finite and at least the lower bound {lowest}, got {merit_1}")
    return merit_1 - lowest + merit_growth(constants, beta_1, gamma) * run


def alpha(lipschitz_constant: float, omega: float, sigma: float, steps: float) -> float:
    """Lemma "aug_lag_grad_upperbound_stochastic5.8": alpha_{k,p} = min(1/(2 L_k), sqrt(Omega_k/(L_k sigma^2 T_p))).

    The stepsize of all T_p = `steps` iterations x_{t+1} = prox_{alpha g}(x_t - alpha Delta(x_t)), x_1 = x_k.
    """
    _subproblem(lipschitz_constant, omega, sigma)
    require_at_least_one("steps", steps)
    longest = 0.5 / lipschitz_constant
    if sigma == 0.0:
        return longest
    return min(longest, math.sqrt(omega / (lipschitz_constant * sigma**2 * steps)))


def failure_probability(lipschitz_constant: float, omega: float, sigma: float, *, eta: float, steps: float) -> float:
    """Lemma "aug_lag_grad_upperbound_stochastic5.8": the bound of P(F_{k,p}) for T_{k,p} = `steps`; it may exceed 1.

    72 (1 + 1/sqrt 2)^2 / eta_k^2 max{2 L_k Omega_k / T, sigma sqrt(2 L_k Omega_k / T)}, for the stepsize `alpha` and
    the output x_{t*}, t* uniform on 1, ..., T. F is the event that dist > eta_k or that L_beta + g rose above its
    value at x_k. What the proof shows is less:

    - E ||G_{1/L}(x_{t*})||^2 <= bound eta_k^2 / 4. (The factor (1 + 1/sqrt 2)^2 is not needed.) So
      P(dist > eta_k) <= bound after one more full proximal gradient step, psi_{1/L}(x_{t*}), of which Lemma
      "proximal_grad5.5" (iii) speaks, and at x_{t*} itself if g = 0. If g has kinks or bounds, dist at x_{t*} need not
      become small with any T.
    - L_beta + g may rise however small the bound: where x_k already meets the test (2 L_k Omega_k well below eta_k^2)
      the iterates walk at random, and in about half of the calls they end above the start.
    """
    _subproblem(lipschitz_constant, omega, sigma)
    require_positive(eta, "eta")
    require_at_least_one("steps", steps)
    rate = 2.0 * lipschitz_constant * omega / steps
    return _MARKOV / eta**2 * max(rate, sigma * math.sqrt(rate))


def c_k(lipschitz_constant: float, omega: float, sigma: float) -> float:
    """Lemma "complexity_inner_stochastic5.9": C_k = 72 (1 + 1/sqrt 2)^2 max{2 L_k Omega_k, sigma sqrt(2 L_k Omega_k)}.

    P(F_{k,p}) <= C_k / (eta_k^2 sqrt(T_{k,p})), equation "failureprob": `failure_probability` is at most that.
    """
    _subproblem(lipschitz_constant, omega, sigma)
    rate = 2.0 * lipschitz_constant * omega
    return _MARKOV * max(rate, sigma * math.sqrt(rate))


def spg_evaluations(c_k: float, *, eta: float, delta: float, r: float, T_1: int) -> Evaluations:
    """Lemma "complexity_inner_stochastic5.9": one call of Algorithm 2, with probability at least 1 - delta.

    stochastic: max{ceil((r^2 C_k^2 - T_1 eta_k^4 delta^2) / (eta_k^4 delta^2 (r - 1))), T_1}
    full:       p* = ceil(2 / log r log(C_k / (eta_k^2 delta sqrt(T_1)))), printed as max{p*, 1}

    The proof numbers the calls from 0, T_{k,p} = r^p T_1 (Algorithm 2 from 1), and the last is the p*-th: that makes
    p* + 1 tests on the full batch, `Evaluations.full`. No T_{k,p} is rounded.
    """
    require_positive(c_k, "c_k")
    _inner_arguments(eta, delta, r, T_1)
    return _evaluations((c_k / (eta**2 * delta)) ** 2, r, T_1)


def a_k(omega: float) -> float:
    """Lemma "pstorm_inner_stochastic": A_k = 1920^(3/2) 3^(3/2) (24^2/10)^(1/2) max{Omega_k, 1}, at least 3.3e6."""
    require_nonnegative("omega", omega)
    return math.sqrt(1920.0**3 * 3.0**3 * 24.0**2 / 10.0) * max(omega, 1.0)


def pstorm_failure_probability(a_k: float, sigma: float, lipschitz_constant: float, *, eta: float,
                               steps: float) -> float:  # fmt: skip
    """Proof of Lemma "pstorm_inner_stochastic": P(F_{k,p}) <= (A_k sigma L / (eta_k^3 T_{k,p}))^(2/3).

    L is L_{L_beta}, `mean_square_lipschitz`. The proof takes E dist^2 <= (A_k sigma L / T)^(2/3) from Lemma 3 of
    Li et al. (2023) for every T. That cannot be: for sigma -> 0 it would have one step reach a stationary point. A
    term of the order of L Omega_k / T is missing, or the demand that T exceed about L Omega_k / (3.3e6 sigma)^2. The
    second half of F is assumed away, and dist can only be that after a full proximal gradient step (Li et al. have a
    postprocessing step, Algorithm 2 has none) unless g = 0.
    """
    _pstorm(a_k, sigma, lipschitz_constant)
    require_positive(eta, "eta")
    require_at_least_one("steps", steps)
    return float((a_k * sigma * lipschitz_constant / (eta**3 * steps)) ** (2.0 / 3.0))


def pstorm_evaluations(a_k: float, sigma: float, lipschitz_constant: float, *, eta: float, delta: float, r: float,
                       T_1: int) -> Evaluations:  # fmt: skip
    """Lemma "pstorm_inner_stochastic": one call of Algorithm 2 with PStorm, with probability at least 1 - delta.

    stochastic: max{ceil((r^2 A_k sigma L - T_1 eta_k^3 delta^(3/2)) / (eta_k^3 delta^(3/2) (r - 1))), T_1}
    full:       p* = ceil(1 / log r log(A_k sigma L / (eta_k^3 delta^(3/2) T_1))), printed as max{p*, 1}

    L is L_{L_beta}, `mean_square_lipschitz`. As in `spg_evaluations` there are p* + 1 tests; what
    `pstorm_failure_probability` says of small sigma holds here, too.
    """
    _pstorm(a_k, sigma, lipschitz_constant)
    _inner_arguments(eta, delta, r, T_1)
    return _evaluations(a_k * sigma * lipschitz_constant / (eta**3 * delta**1.5), r, T_1)


@final
@dataclass(frozen=True, slots=True)
class Run:
    """What Theorem "overall-epochs" and Corollary "pstorm_Overall" need to know of a run of Algorithms 1 and 2."""

    eps: float
    beta_1: float
    violation_1: float  #: ||c(x_1)||
    merit_1: float  #: L_beta_1(x_1, y_1) + g(x_1)
    gamma: float
    tau: float
    n_eps: int  #: N(eps)
    eta_min: float  #: the least eta'_k of the run; the theorem has it of the order of eps
    r: float = 2.0
    T_1: int = 1
    f_min: float = 0.0
    g_min: float = 0.0

    def __post_init__(self) -> None:
        for name in ("eps", "beta_1", "eta_min"):
            require_positive(getattr(self, name), f"Run.{name}")
        require_nonnegative("Run.violation_1", self.violation_1)
        require_above_one("Run.gamma", self.gamma)
        require_above_one("Run.r", self.r)
        require_at_least_one("Run.T_1", self.T_1)

    def calls(self, constants: Constants) -> int:
        """j_max: how often Algorithm 1 calls the inner solver, `outer_bound`.

        The theorem's proof says O(log 1/eps); the text below Theorem "complexity_outer5.3" says O(log^2 1/eps), and
        that is what the theorem gives, if N(eps) is O(log 1/eps): with eta'_k = 1/k it is 2/eps.
        """
        return outer_bound(constants, eps=self.eps, beta_1=self.beta_1, violation_1=self.violation_1, gamma=self.gamma,
                           tau=self.tau, n_eps=self.n_eps)  # fmt: skip

    def beta_max(self, constants: Constants) -> float:
        """The largest beta_k with which a subproblem is solved is at most max{beta_1, gamma beta_upper}."""
        return max(self.beta_1, self.gamma * beta_upper(constants, self.eps))

    def eta(self, constants: Constants) -> float:
        """A lower bound of every eta_k = min(1/beta_k, eta'_k)."""
        return min(1.0 / self.beta_max(constants), self.eta_min)

    def omega(self, constants: Constants) -> float:
        """`omega_upper` of this run."""
        big = c_big(constants, self.beta_1, self.violation_1)
        run = consecutive_bound(self.eps, self.n_eps, big, self.tau)
        return omega_upper(constants, merit_1=self.merit_1, f_min=self.f_min, g_min=self.g_min, beta_1=self.beta_1,
                           gamma=self.gamma, run=run)  # fmt: skip


def spg_complexity(constants: Constants, oracle: StochasticConstants, run: Run, *, delta: float) -> Evaluations:
    """Theorem "overall-epochs": evaluations of a whole run with stochastic proximal gradient, probability 1 - delta.

    The proof's count with its constants: j_max times `spg_evaluations` with delta / j_max, at the largest beta_k and
    Omega_k and the least eta_k. Up to logarithms delta^-2 eps^-6 if c is deterministic, delta^-2 eps^-7 if not
    (`exponents`), as long as eta'_k stays of the order of eps: a geometric eta'_k over O(log^2 1/eps) iterations does
    not, and must be cut off there. Of full evaluations the theorem prints O(log(1/eps) log(1/(delta eps))); with the
    j_max of `Run.calls` it is one logarithm more.
    """
    require_probability("delta", delta)
    calls, beta = run.calls(constants), run.beta_max(constants)
    L = lipschitz(constants, beta, c_big(constants, run.beta_1, run.violation_1))
    constant = c_k(L, run.omega(constants), sigma(constants, oracle, beta))
    one = spg_evaluations(constant, eta=run.eta(constants), delta=delta / calls, r=run.r, T_1=run.T_1)
    return _times(calls, one)


def pstorm_complexity(constants: Constants, oracle: StochasticConstants, run: Run, *, delta: float) -> Evaluations:
    """Corollary "pstorm_Overall": evaluations of a whole run with PStorm, with probability 1 - delta.

    j_max times `pstorm_evaluations` with delta / j_max, at the largest beta_k and Omega_k and the least eta_k (the
    corollary has no proof of its own). Up to logarithms delta^(-3/2) eps^-4 if c is deterministic, delta^(-3/2) eps^-5
    if not; the remarks at `spg_complexity` apply.
    """
    require_probability("delta", delta)
    calls, beta = run.calls(constants), run.beta_max(constants)
    one = pstorm_evaluations(a_k(run.omega(constants)), sigma(constants, oracle, beta),
                             mean_square_lipschitz(constants, oracle, beta), eta=run.eta(constants),
                             delta=delta / calls, r=run.r, T_1=run.T_1)  # fmt: skip
    return _times(calls, one)


def exponents(method: str, *, stochastic_constraints: bool) -> tuple[float, float]:
    """(a, b) of the evaluations delta^-a eps^-b, up to logarithms, of `method` "pg", "spg" or "pstorm".

    Theorem "complexity_inner_deter", proximal gradient, nothing stochastic: (0, 3). Theorem "overall-epochs": (2, 6),
    and (2, 7) with stochastic constraints; Corollary "pstorm_Overall": (3/2, 4), and (3/2, 5).
    """
    if method not in _EXPONENTS:
        raise InputError(f"method must be one of {', '.join(map(repr, _EXPONENTS))}, got {method!r}")
    if method == "pg" and stochastic_constraints:
        raise InputError("stochastic_constraints must be False for the method 'pg', which samples nothing, got True")
    of_delta, of_eps = _EXPONENTS[method]
    return of_delta, of_eps + float(stochastic_constraints)


def _evaluations(enough: float, r: float, T_1: int) -> Evaluations:
    """A call of `enough` iterations fails with at most the probability asked for; the calls have T_1, r T_1, ..."""
    last = math.ceil(math.log(enough / T_1) / math.log(r))
    total = math.ceil((r**2 * enough - T_1) / (r - 1.0))
    return Evaluations(max(total, T_1), max(last, 0) + 1, max(last, 1))


def _times(calls: int, one: Evaluations) -> Evaluations:
    return Evaluations(calls * one.stochastic, calls * one.full, calls * one.paper_full)


def _subproblem(lipschitz_constant: float, omega: float, sigma: float) -> None:
    require_positive(lipschitz_constant, "lipschitz_constant")
    require_positive(omega, "omega")
    require_nonnegative("sigma", sigma)


def _pstorm(a_k: float, sigma: float, lipschitz_constant: float) -> None:
    require_positive(a_k, "a_k")
    require_positive(sigma, "sigma")
    require_positive(lipschitz_constant, "lipschitz_constant")


def _inner_arguments(eta: float, delta: float, r: float, T_1: int) -> None:
    require_positive(eta, "eta")
    require_probability("delta", delta)
    require_above_one("r", r)
    require_at_least_one("T_1", T_1)
