"""The stochastic lemmas of the paper, as `auglag.theory` states them: by hand, by enumeration and by frequency."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import beta as beta_distribution

from auglag import InputError, theory
from auglag._typing import Matrix, Vector
from auglag.theory import Constants, Evaluations, Run, StochasticConstants

CONSTANTS = Constants(2.0, 3.0, 0.5, 4.0, 1.0, 2.0, 3.0)
ORACLE = StochasticConstants(sigma_f=2.0, sigma_c=0.5, lipschitz_f=1.0, lipschitz_jacobian=2.0)
RUN = Run(eps=0.5, beta_1=1.0, violation_1=4.0, merit_1=3.0, gamma=2.0, tau=0.5, n_eps=1, eta_min=0.25)
MARKOV = 108.0 + 72.0 * math.sqrt(2.0)  # 72 (1 + 1/sqrt 2)^2 = 72 (3/2 + sqrt 2)

# ------------------------------------------------------------ by hand


def test_the_two_sample_gradient_by_hand() -> None:
    """ybar = 4, beta = 3: 16 + 9 = 25."""
    assert theory.sigma(CONSTANTS, ORACLE, 3.0) == pytest.approx(math.sqrt(3 * 4 + 3 * 25 / 4))
    assert theory.mean_square_lipschitz(CONSTANTS, ORACLE, 3.0) == pytest.approx(math.sqrt(3 + 3 * 4 * 25))
    deterministic = replace(ORACLE, sigma_c=0.0)
    assert theory.sigma(CONSTANTS, deterministic, 3.0) == theory.sigma(CONSTANTS, deterministic, 300.0)


def test_the_failure_probability_by_hand() -> None:
    """L = 2, Omega = 2, T = 32: 2 L Omega / T = 1/4, its root 1/2."""
    assert theory.failure_probability(2.0, 2.0, 0.1, eta=10.0, steps=32) == pytest.approx(MARKOV / 400)
    assert theory.failure_probability(2.0, 2.0, 3.0, eta=10.0, steps=32) == pytest.approx(MARKOV * 1.5 / 100)
    assert theory.alpha(2.0, 2.0, 0.1, 25) == 0.25  # sqrt(2 / (2 * .01 * 25)) = 2
    assert theory.alpha(2.0, 2.0, 4.0, 25) == pytest.approx(0.05)  # sqrt(2 / (2 * 16 * 25))
    assert theory.alpha(2.0, 2.0, 0.0, 25) == 0.25
    assert theory.c_k(2.0, 2.0, 0.1) == pytest.approx(8 * MARKOV)
    assert theory.c_k(2.0, 2.0, 3.0) == pytest.approx(3 * math.sqrt(8) * MARKOV)


def test_the_counts_by_hand() -> None:
    """C / (eta^2 delta) = 2 / (1/4 * 1/2) = 16: T = 256 iterations are enough; from T_1 = 4, r = 2, that is p* = 6."""
    counts = theory.spg_evaluations(2.0, eta=0.5, delta=0.5, r=2.0, T_1=4)
    assert counts == Evaluations(stochastic=4 * 256 - 4, full=7, paper_full=6)
    assert sum(4 * 2**p for p in range(7)) <= counts.stochastic  # 4 + 8 + ... + 256
    one = theory.spg_evaluations(2.0, eta=0.5, delta=0.5, r=2.0, T_1=2000)
    assert one == Evaluations(stochastic=2000, full=1, paper_full=1)
    # A sigma L / (eta^3 delta^(3/2)) = 16 / (1/8 * 1/8) = 1024, p* = 8 from T_1 = 4
    pstorm = theory.pstorm_evaluations(8.0, 0.5, 4.0, eta=0.5, delta=0.25, r=2.0, T_1=4)
    assert pstorm == Evaluations(stochastic=4 * 1024 - 4, full=9, paper_full=8)
    assert theory.pstorm_failure_probability(8.0, 0.5, 4.0, eta=0.5, steps=1024) == pytest.approx(0.25)
    assert theory.pstorm_failure_probability(8.0, 0.5, 4.0, eta=0.5, steps=128) == pytest.approx(1.0)


def test_a_k_by_hand() -> None:
    assert theory.a_k(0.0) == theory.a_k(1.0)
    assert theory.a_k(3.0) == 3 * theory.a_k(1.0)
    assert theory.a_k(1.0) ** 2 == pytest.approx(1920**3 * 27 * 57.6)
    assert theory.a_k(1.0) == pytest.approx(3317760.0)  # 5760 * 576: 1920 * 3 = 5760 and 24^2 * 5760 / 10 = 576^2


def test_the_theorem_is_the_sum_of_its_parts() -> None:
    """pull = 14, so that c_big = 30 at beta_1 = 1; 1/2 nu beta^2 ... = 0 has the root beta_upper."""
    upper = theory.beta_upper(CONSTANTS, 0.5)
    assert upper == pytest.approx(29 + math.sqrt(845))
    beta = 2 * upper
    calls = 7 * 7  # ceil(log2 58.1) = 6 increases, runs of ceil(log2 120) = 7
    assert RUN.calls(CONSTANTS) == calls
    assert RUN.beta_max(CONSTANTS) == beta
    assert RUN.eta(CONSTANTS) == 1 / beta
    omega = 3 + 8 + 7 * (8 + 30) * 15 / (2 * 0.25 * 0.5)  # merit_1 + ybar^2 / 2 + N (4 nu ybar + gamma P) P / ...
    assert RUN.omega(CONSTANTS) == pytest.approx(omega)
    L = 1 + 8 + beta * 2 * 30 + beta * 9
    deviation = math.sqrt(3 * (4 + 0.25 * (16 + beta**2)))
    constant = MARKOV * max(2 * L * omega, deviation * math.sqrt(2 * L * omega))
    enough = (constant * beta**2 * calls / 0.1) ** 2
    total = theory.spg_complexity(CONSTANTS, ORACLE, RUN, delta=0.1)
    assert total.stochastic == pytest.approx(calls * (4 * enough - 1), rel=1e-9)
    assert total.paper_full == calls * math.ceil(math.log2(enough))
    assert total.full == total.paper_full + calls
    enough = 3317760.0 * omega * deviation * math.sqrt(3 + 12 * (16 + beta**2)) * beta**3 * (calls / 0.1) ** 1.5
    total = theory.pstorm_complexity(CONSTANTS, ORACLE, RUN, delta=0.1)
    assert total.stochastic == pytest.approx(calls * (4 * enough - 1), rel=1e-9)
    assert total.full == calls * (math.ceil(math.log2(enough)) + 1)


# ------------------------------------------------------------ rates and monotonicity

COMPLEXITY: dict[str, Callable[..., Evaluations]] = {"spg": theory.spg_complexity, "pstorm": theory.pstorm_complexity}


@pytest.mark.parametrize("method", COMPLEXITY)
@pytest.mark.parametrize("noisy", [False, True], ids=["deterministic c", "stochastic c"])
def test_the_counts_grow_with_the_exponents_of_the_theorem(method: str, noisy: bool) -> None:
    """Local slopes for eps and delta -> 0; the logarithms, j_max^3 Omega^2 for one, are still .25 at eps = 1e-30."""
    oracle = ORACLE if noisy else replace(ORACLE, sigma_c=0.0)
    of_delta, of_eps = theory.exponents(method, stochastic_constraints=noisy)

    def stochastic(eps: float, delta: float) -> float:
        run = replace(RUN, eps=eps, eta_min=eps / 2)
        return math.log10(COMPLEXITY[method](CONSTANTS, oracle, run, delta=delta).stochastic)

    assert of_eps <= (stochastic(1e-30, 0.1) - stochastic(1e-20, 0.1)) / 10 <= of_eps + 0.25
    assert stochastic(1e-3, 1e-8) - stochastic(1e-3, 1e-7) == pytest.approx(of_delta, abs=1e-6)


def test_the_printed_exponents() -> None:
    assert theory.exponents("spg", stochastic_constraints=False) == (2.0, 6.0)
    assert theory.exponents("spg", stochastic_constraints=True) == (2.0, 7.0)
    assert theory.exponents("pstorm", stochastic_constraints=False) == (1.5, 4.0)
    assert theory.exponents("pstorm", stochastic_constraints=True) == (1.5, 5.0)
    assert theory.exponents("pg", stochastic_constraints=False) == (0.0, 3.0)


POSITIVE = st.floats(1e-3, 1e3)


@given(L=POSITIVE, omega=POSITIVE, sigma=POSITIVE, eta=POSITIVE, steps=st.integers(1, 10**6), factor=st.floats(1, 10))
def test_monotone_in_their_arguments(
    L: float, omega: float, sigma: float, eta: float, steps: int, factor: float
) -> None:
    def probability(**changed: float) -> float:
        values: dict[str, float] = {"L": L, "omega": omega, "sigma": sigma, "eta": eta, "steps": steps, **changed}
        return theory.failure_probability(
            values["L"], values["omega"], values["sigma"], eta=values["eta"], steps=values["steps"]
        )

    bound, slack = probability(), 1 + 1e-12
    assert bound <= theory.c_k(L, omega, sigma) / (eta**2 * math.sqrt(steps)) * slack  # equation "failureprob"
    assert bound <= probability(L=factor * L) * slack
    assert bound <= probability(omega=factor * omega) * slack
    assert bound <= probability(sigma=factor * sigma) * slack
    assert bound * slack >= probability(eta=factor * eta)
    assert bound * slack >= probability(steps=factor * steps)
    assert theory.alpha(L, omega, sigma, steps) <= 0.5 / L
    assert theory.alpha(L, omega, sigma, factor * steps) <= theory.alpha(L, omega, sigma, steps)


@given(c_k=POSITIVE, eta=st.floats(0.01, 1), delta=st.floats(0.01, 0.9), r=st.floats(1.1, 10), T_1=st.integers(1, 1000))
def test_the_counts_are_those_of_the_calls(c_k: float, eta: float, delta: float, r: float, T_1: int) -> None:
    """T_1, r T_1, ... up to the first length whose failure probability is at most delta: p* + 1 calls."""
    counts = theory.spg_evaluations(c_k, eta=eta, delta=delta, r=r, T_1=T_1)
    lengths = [T_1 * r**p for p in range(counts.full)]
    assert c_k / (eta**2 * math.sqrt(lengths[-1])) <= delta * (1 + 1e-9)
    assert all(c_k / (eta**2 * math.sqrt(length)) > delta * (1 - 1e-9) for length in lengths[:-1])
    assert sum(lengths) <= counts.stochastic * (1 + 1e-9)
    assert counts.paper_full == max(counts.full - 1, 1)
    tighter = theory.spg_evaluations(c_k, eta=eta, delta=delta / 2, r=r, T_1=T_1)
    assert tighter.stochastic >= counts.stochastic
    assert tighter.full >= counts.full


# ------------------------------------------------------------ Lemma 5.7 by enumeration


@pytest.mark.parametrize("beta", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("y", [-1.5, 0.0, 2.0])
def test_variance_and_mean_square_smoothness_of_the_two_sample_gradient(beta: float, y: float) -> None:
    """f = (1 + u) x^2/2, c = (1 + w) sin x - b, u and w = +-s with probability 1/2 each: expectations are sums.

    |x| <= 2: sigma_f = 2 s. J = (1 + w) cos x: E |J - EJ|^2 <= s^2; J(xi1) c(xi2) has the derivative
    (1 + w1) ((1 + w2) cos 2x + b sin x), the mean square of which is at most (1 + s^2) ((1 + b)^2 + s^2), as its own.
    """
    s, b, bound = 0.4, 0.5, 2.0
    constants = Constants(gradient=bound, jacobian=1.0, nu=1.0, ybar_max=abs(y))
    most = math.sqrt((1 + s**2) * ((1 + b) ** 2 + s**2))
    oracle = StochasticConstants(
        sigma_f=s * bound, sigma_c=most, lipschitz_f=math.sqrt(1 + s**2), lipschitz_jacobian=most
    )
    samples = list(itertools.product([-s, s], repeat=3))

    def delta(x: float, u: float, w1: float, w2: float) -> float:
        return (1 + u) * x + (1 + w1) * math.cos(x) * (y + beta * ((1 + w2) * math.sin(x) - b))

    sigma = theory.sigma(constants, oracle, beta)
    L = theory.mean_square_lipschitz(constants, oracle, beta)
    rng = np.random.default_rng(0)
    for x, v in rng.uniform(-bound, bound, (200, 2)):
        exact = x + math.cos(x) * (y + beta * (math.sin(x) - b))
        assert np.mean([delta(x, *z) for z in samples]) == pytest.approx(exact, abs=1e-12)  # unbiased
        assert np.mean([(delta(x, *z) - exact) ** 2 for z in samples]) <= sigma**2
        assert np.mean([(delta(x, *z) - delta(v, *z)) ** 2 for z in samples]) <= (L * (x - v)) ** 2


# ------------------------------------------------------------ Lemmas 5.8 and 5.9 by frequency


@dataclass(frozen=True)
class Toy:
    """f = sum_i w_i sqrt(1 + x_i^2), c = a'x - 1, |x_i| <= box; Gaussian noise on grad f and on c, many runs at once.

    J is exact, so that sigma_c is the deviation of J'c, ||a|| times that of c. L_k holds everywhere.
    """

    noise_f: float
    noise_c: float
    box: float = math.inf
    beta: float = 1.0
    y: float = 0.5
    w: tuple[float, float] = (0.3, 0.6)
    a: tuple[float, float] = (0.6, 0.3)
    x_k: tuple[float, float] = (-2.0, 2.0)

    @property
    def lipschitz(self) -> float:
        size = float(np.linalg.norm(self.a))
        constants = Constants(float(np.linalg.norm(self.w)), size, size, self.y, max(self.w), 0.0, size)
        return theory.lipschitz(constants, self.beta, 0.0)

    @property
    def sigma(self) -> float:
        size = float(np.linalg.norm(self.a))
        oracle = StochasticConstants(self.noise_f, self.noise_c * size)
        return theory.sigma(Constants(1.0, size, size, self.y), oracle, self.beta)

    def value(self, x: Matrix) -> Vector:
        c = x @ np.array(self.a) - 1
        return np.asarray(np.sqrt(1 + x**2) @ np.array(self.w) + self.y * c + self.beta / 2 * c**2)

    def gradient(self, x: Matrix) -> Matrix:
        c = x @ np.array(self.a) - 1
        return np.asarray(
            np.array(self.w) * x / np.sqrt(1 + x**2) + (self.y + self.beta * c)[:, None] * np.array(self.a)
        )

    @property
    def omega(self) -> float:
        """Omega_k; phi is convex."""
        limits = [(-self.box, self.box)] * 2
        found = minimize(lambda x: float(self.value(x[None])[0]), self.x_k, bounds=limits, tol=1e-12)
        return float(self.value(np.array([self.x_k]))[0]) - float(found.fun)

    def prox_step(self, x: Matrix) -> Matrix:
        """psi_{1/L}(x)."""
        return np.clip(x - self.gradient(x) / self.lipschitz, -self.box, self.box)

    def mapping(self, x: Matrix) -> Vector:
        """||G_{1/L}(x)||."""
        return np.asarray(self.lipschitz * np.linalg.norm(x - self.prox_step(x), axis=1))

    def dist(self, x: Matrix) -> Vector:
        """dist(-grad phi, dg) for the box."""
        g = self.gradient(x)
        free = np.where(x >= self.box, np.maximum(g, 0), np.where(x <= -self.box, np.minimum(g, 0), g))
        return np.asarray(np.linalg.norm(free, axis=1))

    def noise(self, runs: int, rng: np.random.Generator) -> Matrix:
        """Delta less its mean."""
        of_f = rng.standard_normal((runs, 2)) * self.noise_f / math.sqrt(2)
        return np.asarray(of_f + self.beta * self.noise_c * rng.standard_normal((runs, 1)) * np.array(self.a))

    def outputs(self, steps: int, runs: int, rng: np.random.Generator) -> Matrix:
        """x_{t*} of stochastic proximal gradient with the lemma's stepsize, t* uniform on 1, ..., T."""
        size = theory.alpha(self.lipschitz, self.omega, self.sigma, steps)
        chosen = rng.integers(0, steps, runs)
        x = np.tile(np.array(self.x_k), (runs, 1))
        kept = x.copy()
        for t in range(steps):
            kept[chosen == t] = x[chosen == t]
            x = np.clip(x - size * (self.gradient(x) + self.noise(runs, rng)), -self.box, self.box)
        return kept


def at_least(hits: int, runs: int) -> float:
    """The lower end of the one-sided 99.9 % Clopper-Pearson interval of a probability."""
    return float(beta_distribution.ppf(1e-3, hits, runs - hits + 1)) if hits else 0.0


EXAMPLES = {
    "deterministic c": Toy(noise_f=0.02, noise_c=0.0),
    "stochastic c": Toy(noise_f=0.01, noise_c=0.02),
    "bounds": Toy(noise_f=0.01, noise_c=0.02, box=2.5),
    "active bounds": Toy(noise_f=0.02, noise_c=0.01, box=0.6, x_k=(-0.6, 0.6)),
    "large beta": Toy(noise_f=0.02, noise_c=0.02, beta=5.0),
}


@pytest.mark.parametrize("toy", EXAMPLES.values(), ids=EXAMPLES)
def test_failures_are_no_more_frequent_than_the_lemma_allows(toy: Toy) -> None:
    """300 runs of 4096 steps, for two eta that x_k does not meet, and that the lemma promises in many runs at least.

    Without bounds at x_{t*}, with bounds at psi(x_{t*}). The lemma is generous: no run fails.
    """
    runs, steps = 300, 4096
    found = toy.outputs(steps, runs, np.random.default_rng(0))
    after = found if toy.box == math.inf else toy.prox_step(found)
    rises = toy.value(after) > toy.value(np.array([toy.x_k]))
    start = float(toy.dist(np.array([toy.x_k]))[0])
    for eta in (0.75 * start, 0.95 * start):
        promised = theory.failure_probability(toy.lipschitz, toy.omega, toy.sigma, eta=eta, steps=steps)
        assert promised < 0.95
        failures = (toy.dist(after) > eta) | rises
        assert at_least(int(failures.sum()), runs) <= promised


@pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("toy", EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("steps", [1, 16, 512])
def test_the_mean_square_of_the_gradient_mapping_is_within_its_bound(toy: Toy, noise: float, steps: int) -> None:
    """E ||G_{1/L}(x_{t*})||^2, before Markov's inequality, with 12 in place of 18 (1 + 1/sqrt 2)^2."""
    noisy = replace(toy, noise_f=noise, noise_c=noise if toy.noise_c else 0.0)
    found = noisy.outputs(steps, 400, np.random.default_rng(steps))
    bound = theory.failure_probability(noisy.lipschitz, noisy.omega, noisy.sigma, eta=2.0, steps=steps)
    assert np.mean(noisy.mapping(found) ** 2) <= bound * 12 / 18 / (1 + 1 / math.sqrt(2)) ** 2


@given(h=st.floats(-1, 1), weight=st.floats(0, 10), x=st.floats(-10, 10), L=st.floats(0.1, 10), slope=st.floats(-5, 5))
def test_the_gradient_mapping_is_at_most_three_halves_of_the_gradient_of_the_envelope(
    h: float, weight: float, x: float, L: float, slope: float
) -> None:
    """phi = h L x^2/2 + slope x + weight |x|, not convex for h < 0."""

    def soft(u: float, by: float) -> float:
        return math.copysign(max(abs(u) - by, 0.0), u)

    psi = soft(x - h * x - slope / L, weight / L)
    nearest = soft(2 * L * x - slope, weight) / (2 * L + h * L)  # the minimiser of phi + L (. - x)^2
    assert L * abs(x - psi) <= 1.5 * 2 * L * abs(x - nearest) + 1e-9 * (1 + L)


@pytest.mark.parametrize("name", ["deterministic c", "stochastic c"])
def test_pstorm_fails_no_more_often_than_its_lemma_allows(name: str) -> None:
    """300 runs of 2000 steps with the decreasing schedule of PStorm's own paper (ours prints none) and little noise."""
    runs, steps, noise = 300, 2000, 4e-5
    toy = replace(EXAMPLES[name], noise_f=noise, noise_c=noise if EXAMPLES[name].noise_c else 0.0)
    square = float(np.linalg.norm(toy.a)) ** 2  # J'c = a (a'x - 1) + noise: L_J; J itself is constant
    oracle = StochasticConstants(toy.noise_f, toy.noise_c * math.sqrt(square), max(toy.w), square)
    L = theory.mean_square_lipschitz(Constants(1.0, 1.0, 1.0, toy.y), oracle, toy.beta)
    start = np.array([toy.x_k])
    eta = 0.9 * float(toy.dist(start)[0])
    promised = theory.pstorm_failure_probability(theory.a_k(toy.omega), toy.sigma, L, eta=eta, steps=steps)
    assert promised < 0.95
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, steps, runs)
    x = np.tile(start, (runs, 1))
    kept, sizes = x.copy(), 4 ** (1 / 3) / (8 * L) / np.arange(4, steps + 5) ** (1 / 3)
    d = toy.gradient(x) + toy.noise(runs, rng)
    for t in range(steps):
        kept[chosen == t] = x[chosen == t]
        after = x - sizes[t] * d
        scaled = (sizes[t] * L) ** 2
        b = (1 + 24 * scaled - sizes[t + 1] / sizes[t]) / (1 + 4 * scaled)
        sample = toy.noise(runs, rng)  # the same at both points
        d = toy.gradient(after) + sample + (1 - b) * (d - toy.gradient(x) - sample)
        x = after
    failures = (toy.dist(kept) > eta) | (toy.value(kept) > toy.value(start))
    assert at_least(int(failures.sum()), runs) <= promised


def test_algorithm_2_ends_within_the_counts_as_often_as_promised() -> None:
    """Calls of T_1, r T_1, ... steps from x_k until both tests hold, in 200 runs, against the counts for 1 - delta."""
    toy, runs, eta, rng = Toy(noise_f=0.1, noise_c=0.3), 200, 0.15, np.random.default_rng(0)
    start = float(toy.value(np.array([toy.x_k]))[0])
    open_, spent, tests, steps = np.ones(runs, bool), np.zeros(runs), np.zeros(runs), 1
    while open_.any():
        found = toy.outputs(steps, runs, rng)
        spent[open_] += steps
        tests[open_] += 1
        open_ &= (toy.dist(found) > eta) | (toy.value(found) > start)
        steps *= 2
        assert steps <= 2**13
    assert tests.max() > 3  # the first calls are too short
    constant = theory.c_k(toy.lipschitz, toy.omega, toy.sigma)
    for delta in (0.05, 0.5, 0.9):
        allowed = theory.spg_evaluations(constant, eta=eta, delta=delta, r=2.0, T_1=1)
        assert at_least(int((spent > allowed.stochastic).sum()), runs) <= delta
        assert at_least(int((tests > allowed.full).sum()), runs) <= delta


# ------------------------------------------------------------ where the printed lemmas do not hold


def test_a_kink_is_missed_by_x_t_star_but_not_by_the_step_from_it() -> None:
    """phi = L x^2/2 + |x| with noise +-2: the residual at x_{t*} stays 1 in most runs, at psi(x_{t*}) it is 0."""
    L, sigma, x_k, runs, steps = 1e-6, 2.0, 0.01, 400, 400
    omega = L * x_k**2 / 2 + x_k
    bound = theory.failure_probability(L, omega, sigma, eta=0.9, steps=steps)
    assert bound < 0.01
    size, rng = theory.alpha(L, omega, sigma, steps), np.random.default_rng(0)
    chosen = rng.integers(0, steps, runs)
    x = np.full(runs, x_k)
    kept = x.copy()
    for t in range(steps):
        kept = np.where(chosen == t, x, kept)
        moved = x - size * (L * x + rng.choice([-2.0, 2.0], runs))
        x = np.sign(moved) * np.maximum(np.abs(moved) - size, 0)

    def dist(x: Vector) -> Vector:
        return np.where(x == 0, 0.0, np.abs(L * x + np.sign(x)))

    psi = np.zeros(runs)  # the prox of |.| / L at x - L x / L = 0
    assert np.mean(dist(kept) > 0.9) > 0.5 > bound
    assert np.all(dist(psi) <= 0.9)


def test_a_good_start_is_left_upwards_in_half_of_the_runs() -> None:
    """phi = x^2/2 from x_k = 1e-3: the lemma promises that phi rises in at most 2 % of the runs."""
    x_k, sigma, runs, steps = 1e-3, 1.0, 1000, 100
    omega = x_k**2 / 2
    bound = theory.failure_probability(1.0, omega, sigma, eta=1.1, steps=steps)
    assert bound < 0.02
    size, rng = theory.alpha(1.0, omega, sigma, steps), np.random.default_rng(0)
    chosen = rng.integers(0, steps, runs)
    x = np.full(runs, x_k)
    kept = x.copy()
    for t in range(steps):
        kept = np.where(chosen == t, x, kept)
        x = x - size * (x + sigma * rng.standard_normal(runs))
    assert np.all(np.abs(kept) <= 1.1)  # the first half of F never happens
    assert 0.4 <= np.mean(np.abs(kept) > x_k) <= 0.6


def test_pstorm_without_noise_would_need_no_steps() -> None:
    """phi = x^2/200, L = 1, x_k = 100: a step of at most 1/L leaves dist above .9, whatever sigma is."""
    promised = theory.pstorm_failure_probability(theory.a_k(50.0), 1e-14, 1.0, eta=0.9, steps=1)
    assert promised < 1e-3
    x_1 = 100.0 - 100.0 / 100
    assert x_1 / 100 > 0.9


# ------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: StochasticConstants(-1.0), r"StochasticConstants\.sigma_f must be nonnegative and finite, got -1\.0"),
        (lambda: StochasticConstants(1.0, math.nan), r"StochasticConstants\.sigma_c must be nonnegative and finite"),
        (lambda: theory.sigma(CONSTANTS, ORACLE, 0.0), r"beta must be positive and finite, got 0\.0"),
        (lambda: theory.mean_square_lipschitz(CONSTANTS, ORACLE, -1.0), "beta must be positive and finite"),
        (lambda: theory.alpha(0.0, 1.0, 1.0, 1), "lipschitz_constant must be positive and finite, got 0"),
        (lambda: theory.alpha(1.0, 1.0, 1.0, 0), "steps must be finite and at least 1, got 0"),
        (lambda: theory.c_k(1.0, 0.0, 1.0), "omega must be positive and finite, got 0"),
        (lambda: theory.c_k(1.0, 1.0, -1.0), "sigma must be nonnegative and finite, got -1"),
        (lambda: theory.failure_probability(1.0, 1.0, 1.0, eta=0.0, steps=1), "eta must be positive and finite, got 0"),
        (lambda: theory.spg_evaluations(1.0, eta=1.0, delta=1.0, r=2.0, T_1=1), r"delta must lie in \(0, 1\), got 1"),
        (lambda: theory.spg_evaluations(1.0, eta=1.0, delta=0.5, r=1.0, T_1=1), "r must be finite and greater than 1"),
        (lambda: theory.spg_evaluations(1.0, eta=1.0, delta=0.5, r=2.0, T_1=0), "T_1 must be finite and at least 1"),
        (lambda: theory.spg_evaluations(0.0, eta=1.0, delta=0.5, r=2.0, T_1=1), "c_k must be positive and finite"),
        (lambda: theory.a_k(-1.0), "omega must be nonnegative and finite, got -1"),
        (lambda: theory.pstorm_failure_probability(1.0, 0.0, 1.0, eta=1.0, steps=1), "sigma must be positive"),
        (lambda: theory.pstorm_evaluations(0.0, 1.0, 1.0, eta=1.0, delta=0.5, r=2.0, T_1=1), "a_k must be positive"),
        (lambda: replace(RUN, gamma=1.0), r"Run\.gamma must be finite and greater than 1, got 1"),
        (lambda: replace(RUN, eta_min=0.0), r"Run\.eta_min must be positive and finite, got 0"),
        (lambda: replace(RUN, violation_1=-1.0), r"Run\.violation_1 must be nonnegative and finite, got -1"),
        (lambda: replace(RUN, merit_1=-9.0).omega(CONSTANTS), r"merit_1 must be finite and at least the lower bound"),
        (lambda: theory.spg_complexity(CONSTANTS, ORACLE, RUN, delta=0.0), r"delta must lie in \(0, 1\), got 0"),
        (lambda: theory.pstorm_complexity(CONSTANTS, ORACLE, RUN, delta=2.0), r"delta must lie in \(0, 1\), got 2"),
        (
            lambda: theory.exponents("svrg", stochastic_constraints=True),
            "method must be one of 'pg', 'spg', 'pstorm', got",
        ),
        (lambda: theory.exponents("pg", stochastic_constraints=True), "stochastic_constraints must be False for the"),
    ],
)
def test_bad_values_are_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        make()
