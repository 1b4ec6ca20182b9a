"""The single loop in R^m: tracked values, penalties, the paper's rule, multipliers, rounds; with NumPy and PyTorch."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from auglag import Always
from auglag.single_loop import Engine, batch_rows, first_round, next_round, raising
from auglag.single_loop import engine as engine_module
from auglag.single_loop.limit import strain
from auglag.single_loop.multipliers import fitted, fitted_to
from auglag.single_loop.schedule import round_of
from auglag.single_loop.steps import ScaledSteps, newest_share
from auglag.single_loop.tuning import TUNING


def engine(m: int, pass_steps: int, **options: Any) -> Engine:
    """Equalities c = 0."""
    return Engine(np, np.zeros(m), np.zeros(m), np.zeros(m), pass_steps=pass_steps, **options)


def calibrate(e: Engine, gram: Any) -> None:
    """Penalties from a Gram matrix."""
    e.calibrate(gram.diagonal(), lambda u: gram @ u)


@pytest.mark.parametrize("passes", [3, 6])
def test_with_a_fixed_jacobian_the_tracked_value_is_exact_after_a_pass_however_x_moves(passes: int) -> None:
    rng = np.random.default_rng(0)
    J, noise = rng.standard_normal((3, 5)), rng.standard_normal((20, 3))
    noise -= noise.mean(0)  # of the rows of a pass
    e, x = engine(3, 20), np.zeros(5)
    for _ in range(passes):
        for row in rng.permutation(20):
            e.track(J @ x + noise[row])
            move = rng.standard_normal(5)
            x = x + move
            e.moved(J @ move, 1.0)
    assert np.abs(e.tracked - J @ x).max() < 1e-12


def test_before_that_its_error_is_the_mean_of_the_noise_in_the_window_and_has_no_drift() -> None:
    rng = np.random.default_rng(1)
    J, noise = rng.standard_normal((2, 4)), rng.standard_normal((60, 2))
    e, x = engine(2, 1000), np.zeros(4)
    for t in range(60):
        e.track(J @ x + noise[t])
        length = min(t + 1, max(TUNING.least_window, math.ceil(TUNING.window * (t + 1))))
        window = noise[t + 1 - length : t + 1]
        assert e.tracked - J @ x == pytest.approx(window.mean(0), abs=1e-12)
        move = rng.standard_normal(4)
        x = x + move
        e.moved(J @ move, 1.0)


def test_windows_of_more_steps_than_slots_keep_means() -> None:
    steps = 3 * TUNING.slots
    e = engine(1, steps)
    values = np.random.default_rng(2).standard_normal(3 * steps)
    for v in values:
        e.track(np.array([v]))
        e.moved(np.zeros(1), 1.0)
    assert e.state.ring.shape[0] <= TUNING.slots + 1
    length = math.ceil(TUNING.window * 3 * steps) // 3 * 3
    assert e.tracked[0] == pytest.approx(values[-length:].mean(), abs=1e-12)


@pytest.mark.parametrize("slope", [0.0, 0.01])
def test_on_a_stream_values_that_drift_are_followed_and_noise_is_not(slope: float) -> None:
    rng, errors = np.random.default_rng(0), []
    e = Engine(np, np.array([-math.inf]), np.array([0.0]), np.zeros(1), pass_steps=None)
    for t in range(6000):
        e.track(slope * t + 0.3 * rng.standard_normal(1))
        e.moved(np.zeros(1), 1.0)
        if t >= 4 * TUNING.stream_window:
            errors.append(float(e.tracked[0]) - slope * t)
    noise = 0.3 / math.sqrt(TUNING.stream_window)
    assert abs(np.mean(errors)) < 0.1 * slope * TUNING.stream_window / 2 + noise
    assert np.std(errors) < (1.6 if slope == 0.0 else 3.0) * noise


def test_values_that_do_not_depend_on_the_batch_are_taken_as_they_are() -> None:
    e = engine(2, 10, exact=np.array([True, False]))
    for v in (1.0, 2.0, 4.0):
        e.track(np.array([v, v]))
    assert e.tracked.tolist() == [4.0, pytest.approx(7 / 3)]


def test_a_value_that_is_not_finite_is_left_out() -> None:
    e = engine(1, 10)
    for v in (1.0, math.nan, 3.0, math.inf):
        e.track(np.array([v]))
    assert 1.0 <= e.tracked[0] <= 3.0


def test_a_step_removes_a_share_of_the_error_and_the_loop_contracts_as_its_matrix_says() -> None:
    # c = J x, no objective: x <- x - A J'w, so that (c, z), z = J A J' y, follow a matrix of kappa and theta alone.
    kappa, follow = TUNING.kappa, TUNING.kappa * TUNING.theta
    loop = np.array([[1.0 - kappa, -1.0], [follow * kappa * (1.0 - kappa), 1.0 - follow * kappa]])
    J, A = np.array([[2.0, 1.0, 0.0]]), np.array([0.1, 3.0, 1.0])
    gram = (J * A) @ J.T
    e, x = engine(1, 1000), np.ones(3)
    expected = np.array([float((J @ x)[0]), 0.0])
    for t in range(40):
        e.track(J @ x)
        if t == 0:
            calibrate(e, gram)
        move = -A * (e.weights() @ J)
        x = x + move
        e.moved(J @ move, 1.0)
        expected = np.array([loop[0] @ expected, expected[1]])
        expected[1] += follow * kappa * expected[0]
        assert [float((J @ x)[0]), float(gram[0, 0] * e.state.y[0])] == pytest.approx(expected, abs=1e-9)
    assert np.abs(expected).max() < 0.05


def test_the_loop_of_values_momentum_and_multipliers_is_stable_at_any_penalty() -> None:
    # (c, z, d): d the momentum's average of z + kappa boost (c - coast d), z = J A J' y; no objective damps anything
    follow = TUNING.theta * TUNING.kappa

    def slowest(mu: float, ahead: float) -> float:
        sizes = []
        for boost in (0.25, 1.0, 3.0):
            k = TUNING.kappa * boost
            new = np.array([(1 - mu) * k, 1 - mu, mu - (1 - mu) * k * ahead])
            loop = np.array([np.array([1.0, 0.0, 0.0]) - new, [follow * k, 1.0, 0.0], new])
            sizes.append(np.abs(np.linalg.eigvals(loop)).max())
        return max(sizes)

    mu = TUNING.momentum
    steps = ScaledSteps(np, np.zeros(2), 0.03)
    assert slowest(mu, steps.coast()) < 0.95
    assert slowest(0.9, 0.9 / 0.1) < 0.98  # optimisers of a user
    assert slowest(0.9, 9.0) < slowest(0.9, 0.0)
    assert follow == pytest.approx((1.0 - mu) / 6.0, rel=0.02)


def test_weights_look_ahead_to_where_momentum_takes_the_values() -> None:
    e = engine(1, 10)
    e.track(np.array([1.0]))
    calibrate(e, np.eye(1))
    e.moved(np.array([-0.2]), 1.0, 3.0)
    at_rest = engine(1, 10)
    at_rest.track(np.array([1.0]))
    calibrate(at_rest, np.eye(1))
    at_rest.moved(np.array([-0.2]), 1.0)
    ahead = (e.weights() - e.state.y) / (at_rest.weights() - at_rest.state.y)
    assert e.tracked[0] == pytest.approx(0.8)
    assert ahead[0] == pytest.approx((0.8 - 3.0 * 0.2) / 0.8)


def test_values_without_noise_are_acted_on_whatever_the_noise_of_others() -> None:
    e = Engine(np, np.zeros(2), np.zeros(2), np.zeros(2), pass_steps=100, exact=np.array([True, False]))
    for v in (9.0, -9.0, 9.0, -1.0):  # 2 in the mean, of which most may be noise
        e.track(np.array([1.0, v]))
    calibrate(e, np.eye(2))
    assert e.weights()[0] == pytest.approx(float((e.state.beta * e.tracked)[0]))
    assert 0.0 < e.weights()[1] < 0.2 * float((e.state.beta * e.tracked)[1])


@pytest.mark.parametrize("kappa", [0.2, 0.5, 0.9, 1.6])
def test_the_loop_is_stable_up_to_a_known_theta_and_not_beyond(kappa: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # Jury's conditions for the matrix above: 0 < kappa < 2 and theta < 2 (2 - kappa) / kappa^2.
    border, last = 2.0 * (2.0 - kappa) / kappa**2, []
    for theta in (0.95 * border, 1.05 * border):
        monkeypatch.setattr(engine_module, "TUNING", dataclasses.replace(TUNING, kappa=kappa, theta=theta))
        e, x = engine(1, 1000), np.ones(1)
        for t in range(400):
            e.track(x)
            if t == 0:
                calibrate(e, np.eye(1))
            move = -e.weights()
            x = x + move
            e.moved(move, 1.0)
        last.append(abs(float(x[0])))
    assert last[0] < 0.05
    assert last[1] > 20.0
    assert TUNING.theta < 2.0 * (2.0 - TUNING.kappa) / TUNING.kappa**2


def test_penalties_do_not_depend_on_units_and_share_what_one_step_can_do() -> None:
    rng = np.random.default_rng(3)
    J, A = rng.standard_normal((4, 6)), rng.random(6)
    G = (J * A) @ J.T
    units = np.array([1.0, 10.0, 0.1, 1000.0])
    plain, scaled = engine(4, 10), engine(4, 10)
    for _ in range(30):
        calibrate(plain, G)
        calibrate(scaled, units[:, None] * G * units)
    assert scaled.state.beta * units**2 == pytest.approx(plain.state.beta, rel=1e-6)
    root = np.sqrt(plain.state.beta)
    assert np.linalg.eigvalsh(root[:, None] * G * root)[-1] == pytest.approx(TUNING.kappa, rel=0.02)


def test_a_constraint_without_a_gradient_has_no_weight() -> None:
    e = engine(2, 10)
    e.track(np.array([1.0, 1.0]))
    calibrate(e, np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert e.weights()[0] > 0.1
    assert abs(e.weights()[1]) < 1e-20


@pytest.mark.parametrize("noisy", [True, False])
def test_weights_of_errors_are_held_where_their_gradients_would_be_too_large_for_the_steps(noisy: bool) -> None:
    # m constraints with gradients of length 1, A = 1: J'e has the length of e, all of it noise or none
    share = float(strain(np.float64(noisy), np.float64(not noisy), 1000))
    most = TUNING.noise if noisy else TUNING.signal
    for m in (1, 4):
        for power in (1e-4, 1e6):
            e = engine(m, 10)
            for _ in range(3):
                e.track(np.full(m, 100.0))
                calibrate(e, np.eye(m))
                e.limit(np.float64(power), lambda w: share * (w @ w))
            free = np.sqrt(m) * 100.0 * TUNING.kappa
            assert np.linalg.norm(e.weights()) == pytest.approx(min(free, most * math.sqrt(power)), rel=1e-6)


def test_weights_cannot_feed_on_the_noise_that_they_make() -> None:
    # Scaled steps on f = x_0 with constraints whose Jacobians are noise of mean almost 0: weights make gradients,
    # gradients the scale, the scale penalties, and these weights.
    rng, n, m = np.random.default_rng(0), 50, 8
    mean = 0.02 * rng.standard_normal((m, n))
    e, steps, x = engine(m, 100), ScaledSteps(np, np.zeros(n), 0.03, adapt=False), np.zeros(n)
    J, before, largest = mean.copy(), mean, []
    for t in range(600):
        found = mean + rng.standard_normal((m, n))
        g = e.weights() @ found
        g[0] += 1.0
        after = steps.take(x, g)
        J = J + max(TUNING.jacobian_share, 1.0 / (t + 1)) * (found - J)
        matrix = steps.matrix()
        calibrate(e, (J * matrix) @ J.T)
        noise, before = found - before, found

        def strained(w: Any, noise: Any = noise, matrix: Any = matrix, J: Any = J) -> Any:
            return strain(matrix @ (w @ noise) ** 2 / 2.0, matrix @ (w @ J) ** 2, e.state.steps)

        e.limit(np.sum(0.03**2 / matrix), strained)
        e.track(0.5 + mean @ x + 0.1 * rng.standard_normal(m))
        e.moved(J @ (after - x), 1.0)
        x = after
        largest.append(float(np.sqrt(steps.state.squares).mean()))
    assert max(largest) < 10.0  # in units of grad f; without the limit 1e5 and more


def test_errors_of_c_that_may_be_noise_have_little_weight() -> None:
    rng = np.random.default_rng(7)
    weights = []
    for level, exact in ((0.0, None), (2.0, None), (2.0, np.array([True]))):
        e = engine(1, 10_000, exact=exact)
        calibrate(e, np.eye(1))
        for _ in range(30):
            e.track(0.5 + level * rng.standard_normal(1))
            e.moved(np.zeros(1), 0.0)
        weights.append(float(e.weights()[0] / (TUNING.kappa * e.tracked[0])))
    assert weights[0] == pytest.approx(1.0)
    assert weights[1] < 0.6
    assert weights[2] == pytest.approx(1.0)  # what does not depend on the batch has no noise


def test_a_whole_pass_has_less_noise_than_as_many_independent_rows() -> None:
    ends = []
    for pass_steps in (30, 3000):
        e = engine(1, pass_steps)
        calibrate(e, np.eye(1))
        for t in range(100):
            e.track(np.array([0.1 + (-1.0) ** t]))
            e.moved(np.zeros(1), 0.0)
        ends.append(float(e.weights()[0] / (TUNING.kappa * e.tracked[0])))
    assert ends[0] > ends[1]


def test_the_papers_rule_raises_the_factor_unless_the_violation_fell_and_never_beyond_the_fall() -> None:
    e = engine(1, 1)
    factors = []
    for c, fall in ((1.0, 1.0), (0.79, 1.0), (0.79, 0.5), (0.79, 0.5), (0.79, 0.5), (0.1, 0.1)):
        e.state.drift, e.state.kept, e.state.total = np.array([c]), 1, np.zeros(1)
        calibrate(e, np.array([[1.0]]))
        e.outer(fall)
        factors.append(e.state.factor)
    assert factors == [1.0, 1.0, 1.5, 2.0, 2.0, 2.0]  # inf -> 1, 1 -> 0.79 <= 0.8, no, no (1 / fall), no, yes
    e.again()
    assert e.state.factor == 1.0
    always = engine(1, 1, penalty=Always(initial=1.0, gamma=2.0))
    calibrate(always, np.array([[1.0]]))
    always.outer(0.25)
    assert always.state.factor == 2.0


def test_inequalities_have_weights_of_the_right_sign_only() -> None:
    low, up = np.array([-math.inf, 0.0, -1.0]), np.array([0.0, math.inf, 1.0])
    e = Engine(np, low, up, np.zeros(3), pass_steps=10)
    calibrate(e, np.eye(3))
    e.track(np.array([-5.0, 5.0, 0.5]))
    assert e.weights().tolist() == [0.0, 0.0, 0.0]
    for _ in range(4):
        e.track(np.array([5.0, -5.0, -20.0]))
    assert (np.sign(e.weights()) == [1.0, -1.0, -1.0]).all()


def test_tensors_and_arrays_walk_alike() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")
    rng = np.random.default_rng(4)
    ends = []
    inputs = [(rng.standard_normal(3), rng.standard_normal((3, 5)), rng.standard_normal(3)) for _ in range(25)]
    for xp, of in ((np, np.asarray), (torch, torch.as_tensor)):
        e = Engine(xp, of(np.full(3, -0.1)), of(np.full(3, 0.1)), of(np.zeros(3)), pass_steps=7)
        for c, J, change in inputs:
            calibrate(e, of(J @ J.T))
            e.track(of(c))
            e.moved(of(0.1 * change), 0.5)
            if e.pass_ended:
                e.outer(0.5)
        ends.append([*e.weights().tolist(), *e.state.beta.tolist(), e.state.factor])
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)


def test_scaled_steps_are_the_same_in_any_units_of_f() -> None:
    rng = np.random.default_rng(5)
    gradients = rng.standard_normal((30, 4))
    paths = []
    for unit in (1.0, 1e-6, 1e9):
        steps, x = ScaledSteps(np, np.zeros(4), 0.1), np.zeros(4)
        for g in gradients:
            x = steps.take(x, unit * g)
        paths.append(x)
    assert paths[1] == pytest.approx(paths[0], rel=1e-9)
    assert paths[2] == pytest.approx(paths[0], rel=1e-9)


def test_the_rate_follows_the_angles_between_gradients_within_limits() -> None:
    ends = []
    for sign in (1.0, -1.0):  # the same direction again and again, or back and forth
        steps, g = ScaledSteps(np, np.zeros(3), 0.1), np.array([1.0, -2.0, 0.5])
        for t in range(200):
            steps.take(np.zeros(3), g if t == 0 or sign > 0 else g * (-1.0) ** t)
        ends.append(float(steps.state.rate[0]))
    assert ends[0] == pytest.approx(0.1 * TUNING.rate_range)
    assert ends[1] == pytest.approx(0.1 / TUNING.rate_range)
    fixed = ScaledSteps(np, np.zeros(3), 0.1, adapt=False)
    for _ in range(5):
        fixed.take(np.zeros(3), np.ones(3))
    assert fixed.state.rate.tolist() == [0.1]


def test_shared_parts_have_one_scale() -> None:
    steps = ScaledSteps(np, np.zeros(4), 0.1, [slice(1, 4)])
    steps.take(np.zeros(4), np.array([1.0, 1.0, 2.0, 3.0]))
    a = steps.matrix()
    assert a[1] == a[2] == a[3] != a[0]


def test_the_average_is_over_about_the_last_fifth() -> None:
    average = 0.0
    for count in range(1, 1001):
        average += newest_share(count) * (float(count > 800) - average)
    assert 0.6 < average < 0.7  # 1 - 0.8^5
    average = 0.0
    for count in range(1, 200_001):  # without an end: what lies further back than a few windows has gone
        average += newest_share(count, endless=True) * (float(count > 199_000) - average)
    assert average > 0.95


# ------------------------------------------------------------------------------------------------------------- schedule


@pytest.mark.parametrize(
    ("rows", "passes", "batch"),
    [(3681, 1, 16), (3681, 4, 32), (3681, 100, 128), (1440, 1, 8), (100, 1, 8), (6, 5, 6), (10**6, 1, 128)],
)
def test_batches_make_250_steps_in_a_pass_and_grow_with_the_square_root_of_passes(
    rows: int, passes: float, batch: int
) -> None:
    assert batch_rows(rows, passes) == batch


def test_rounds_end_where_full_batches_begin_or_with_the_budget() -> None:
    assert first_round(5.0, full=True) == 5.0
    assert first_round(20.0, full=True) == pytest.approx(14.0)
    assert first_round(math.inf, full=True) == 20.0
    assert first_round(39.0, full=False) == 39.0
    assert first_round(100.0, full=False) == 20.0
    assert next_round(20.0, 80.0) == 40.0
    assert next_round(20.0, 79.0) == 79.0
    this = round_of(2.0, 100, 10)
    assert (this.steps, this.pass_steps) == (20, 10)
    assert [this.fall(t) for t in (0, 10, 20)] == [1.0, 0.5, TUNING.least_fall]


def test_fitted_multipliers_are_those_of_a_known_point() -> None:
    # grad f = -(1, 2, 0), rows (1, 0, 0) <= and (0, 1, 0) =, and a row with room whose multiplier is 0
    J = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    f, y = -np.array([1.0, 2.0, 0.0]), np.array([0.3, 0.3, 0.3])
    g = f + y @ J
    lower, upper = np.array([-math.inf, 0.0, -math.inf]), np.array([0.0, 0.0, 5.0])
    found = fitted(J @ J.T, J @ g, y, np.array([0.0, 0.0, 1.0]), lower, upper)
    assert found == pytest.approx([1.0, -2.0, 0.0], abs=1e-8)
    wrong = fitted(J @ J.T, J @ (-f + y @ J), y, np.array([0.0, 0.0, 1.0]), lower, upper)
    assert wrong[0] >= 0.0  # an upper side never pulls


def test_constraints_without_sides_have_no_multipliers() -> None:
    free = np.full(2, math.inf)
    assert (fitted(np.eye(2), np.ones(2), np.zeros(2), np.zeros(2), -free, free) == 0.0).all()


def test_of_very_many_constraints_those_with_a_multiplier_are_fitted() -> None:
    m = TUNING.most_fitted + 1
    J, y, c = np.ones((m, 1)), np.zeros(m), np.full(m, -1.0)
    y[7], c[7] = 0.5, 0.0
    found = fitted_to(J, np.array([-2.0]) + y @ J, y, c, np.full(m, -math.inf), np.zeros(m))
    assert found[7] == pytest.approx(2.0)
    assert not np.delete(found, 7).any()
    everywhere = np.full(m, 0.5)
    assert np.array_equal(fitted_to(J, np.ones(1), everywhere, c, np.full(m, -math.inf), np.zeros(m)), everywhere)


def boosts(
    errors: list[float], *, noise: float = 0.0, power: float | None = None, fall: float = 1.0, swing: float = 1.0
) -> list[float]:
    """What penalties were raised by, with these errors of c at one calibration after the other.

    `fall` is the rate of the steps in between; errors are multiplied by `swing` from each of them to the next.
    """
    rng, e, found = np.random.default_rng(0), engine(1, 10_000), []
    for error in errors:
        for k in range(TUNING.every):
            e.moved(error * swing ** (TUNING.every - 1 - k) - e.state.drift, fall)
            e.track(e.state.drift + noise * rng.standard_normal(1))
        calibrate(e, np.eye(1))
        if power is not None:
            e.limit(np.float64(power), lambda w: w @ w)
        found.append(float(e.state.boost[0]))
    return found


def test_penalties_grow_while_an_error_stays_and_come_down_where_it_turns_round() -> None:
    found = boosts([1.0] * 7 + [-1.0, 1.0])
    gamma = TUNING.growth_between
    assert found[1:] == pytest.approx([1.0, gamma, gamma**2, gamma**3, gamma**4, gamma**5, gamma**4, gamma**3])
    assert max(boosts([1.0] * 40)) == TUNING.most_boost


def test_penalties_do_not_grow_where_steps_are_too_short_to_change_an_error() -> None:
    least = -math.log(TUNING.tau) / (TUNING.every * TUNING.kappa)
    assert set(boosts([1.0] * 9, fall=0.99 * least)) == {1.0}
    assert max(boosts([1.0] * 9, fall=1.01 * least)) > 1.0


def test_penalties_come_down_where_errors_swing_from_step_to_step_though_they_look_the_same_in_between() -> None:
    assert max(boosts([1.0] * 9, swing=-1.0)) == 1.0
    high = boosts([1.0] * 9 + [1.0, -1.0] * 9, swing=-1.0)
    assert high[-1] == 1.0


def test_penalties_do_not_grow_where_errors_fall_or_may_be_noise() -> None:
    assert set(boosts([0.5**k for k in range(8)])) == {1.0}
    assert max(boosts([0.0] * 20, noise=1.0)) <= TUNING.growth_between


def test_penalties_of_certain_errors_grow_until_no_more_than_a_share_of_the_weights_is_left() -> None:
    power = 1.01 * (TUNING.kappa / TUNING.noise) ** 2  # enough for the first penalties
    most = TUNING.growth_between / TUNING.least_held
    assert max(boosts([1.0] * 30, power=power)) == pytest.approx(most)


@pytest.mark.parametrize("certain", [True, False])
def test_only_certain_errors_count_beyond_the_limit_of_weights(certain: bool) -> None:
    now, held = np.ones(1), np.full(1, 0.8 * TUNING.least_held)
    noise = (1.0 if certain else 100.0) * 0.99 * TUNING.doubt / TUNING.certain**2 * now
    assert raising.certain(now, noise) == certain
    share = raising.followed(np, held, raising.certain(now, noise))
    assert share == pytest.approx(0.8 if certain else held)
    for left, grows in ((1.0, noise < now), (1.1 * TUNING.least_held, certain), (held, False)):
        found = raising.boosted(np, now, now > 0.0, now < 0.0, now, noise, left * now)
        assert found == pytest.approx(TUNING.growth_between if grows else 1.0)
