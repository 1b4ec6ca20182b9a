"""Functions that are no means over the rows of a batch are noticed; what is one, or is random, is not."""

import warnings

import numpy as np
import pytest

import auglag
from auglag.errors import InputError
from auglag.stochastic import SGD, StochasticProblem, minimize
from auglag.stochastic.means import gaps

RNG = np.random.default_rng(0)
ROWS = 60_000
DATA = np.hstack([RNG.standard_normal((ROWS, 40)), (RNG.random((ROWS, 1)) < 0.3)])  # several chunks of 8 MB
N = 40


def _objective(x, batch):
    return 0.5 * np.mean((batch[:, :N] @ x - batch[:, N]) ** 2)


def _gradient(x, batch):
    return batch[:, :N].T @ (batch[:, :N] @ x - batch[:, N]) / len(batch)


def _problem(constraints, jacobian, upper=0.1, objective=_objective, gradient=_gradient, **rows):
    given = rows or {"data": DATA}
    return StochasticProblem.from_functions(
        N, objective, gradient, constraints=constraints, jacobian=jacobian, lower=[-np.inf], upper=[upper],
        names=["rate"], **given,
    )  # fmt: skip


def _sum(x, batch):
    return [np.sum(batch[:, 0] * x[0] + batch[:, 1] ** 2 * x[1])]


def _sum_jac(x, batch):
    row = np.zeros((1, N))
    row[0, :2] = np.sum(batch[:, 0]), np.sum(batch[:, 1] ** 2)
    return row


def _ratio(x, batch):
    weight = batch[:, N]
    return [np.sum(weight * (batch[:, 0] * x[0] + x[1])) / np.sum(weight)]


def _ratio_jac(x, batch):
    row = np.zeros((1, N))
    row[0, :2] = np.sum(batch[:, N] * batch[:, 0]) / np.sum(batch[:, N]), 1.0
    return row


def _mean(x, batch):
    return [np.mean(batch[:, N] * (batch[:, 0] * x[0] + x[1]))]


def _mean_jac(x, batch):
    row = np.zeros((1, N))
    row[0, :2] = np.mean(batch[:, N] * batch[:, 0]), np.mean(batch[:, N])
    return row


def test_sum_as_constraint_is_an_error():
    with pytest.raises(InputError, match=r"constraint 'rate' must be a mean .* It adds up rows: divide by the number"):
        minimize(_problem(_sum, _sum_jac))


def test_sum_as_objective_is_an_error():
    def objective(x, batch):
        return len(batch) * _objective(x, batch)

    def gradient(x, batch):
        return len(batch) * _gradient(x, batch)

    with pytest.raises(InputError, match="objective must be a mean over the rows"):
        minimize(_problem(_mean, _mean_jac, objective=objective, gradient=gradient))


def test_ratio_is_an_error_although_it_is_the_same_on_all_rows_at_the_start():
    with pytest.raises(InputError, match=r"constraint 'rate' must be a mean .* write the mean of a - r b <= 0"):
        minimize(_problem(_ratio, _ratio_jac))


def test_ratio_can_be_meant():
    result = minimize(_problem(_ratio, _ratio_jac), check_means=False, max_epochs=60)
    assert result.success


@pytest.mark.parametrize("method", ["auto", SGD()])
def test_mean_is_not_flagged(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        minimize(_problem(_mean, _mean_jac), method=method, max_epochs=3)


def test_all_rows_in_one_chunk_are_right_with_full_batches_and_a_warning_with_samples():
    few = {"data": DATA[:500]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = minimize(_problem(_ratio, _ratio_jac, upper=-0.1, **few), method="lbfgs", tol=1e-4)
    assert result.success
    weight = few["data"][:, N]
    assert weight @ (few["data"][:, 0] * result.x[0] + result.x[1]) / weight.sum() <= -0.1 + 1e-4
    with pytest.warns(UserWarning, match="Tests see all rows at once and are right"):
        minimize(_problem(_ratio, _ratio_jac, **few), method=SGD(), max_epochs=3)


def test_sampler_of_batches_is_looked_at():
    def sampler(rng, size):
        return np.hstack([rng.standard_normal((size, N)), rng.random((size, 1)) < 0.3])

    with pytest.raises(InputError, match="adds up rows"):
        minimize(_problem(_sum, _sum_jac, sampler=sampler))


def test_iterator_keeps_its_batches():
    taken = []

    def batches():
        rng = np.random.default_rng(1)
        while True:
            taken.append(rng.integers(0, ROWS, 64))
            yield DATA[taken[-1]]

    problem = _problem(_mean, _mean_jac, batches=batches())
    first = minimize(problem, max_epochs=0.2, test_rows=1000, check_derivatives=False).x
    again = _problem(_mean, _mean_jac, batches=batches())
    other = minimize(again, max_epochs=0.2, test_rows=1000, check_derivatives=False, check_means=False).x
    assert np.array_equal(first, other)


def test_constraint_of_x_alone_is_a_mean():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = _problem(lambda x, batch: [x @ x], lambda x, batch: 2.0 * x[None], upper=0.01)
        assert minimize(problem).success


def _looked(function, rows=256, eps=1e-16, seed=0):
    data = np.random.default_rng(seed).standard_normal((rows, 3))
    return gaps(lambda i: np.array([0.0, function(data[i])]), rows, ["c"], np.random.default_rng(1), eps)


def test_rounding_is_no_gap():
    assert not _looked(lambda d: float(np.mean((1e7 * d).astype(np.float32), dtype=np.float32).sum()))


def test_noise_is_no_gap():
    rng = np.random.default_rng(3)
    for seed in range(50):
        assert not _looked(lambda d: np.mean(d) + 0.1 * rng.standard_normal(), seed=seed)


def test_augmented_rows_are_no_gap():
    rng = np.random.default_rng(3)
    for seed in range(50):
        assert not _looked(lambda d: np.mean((d + rng.standard_normal(d.shape)) ** 2), seed=seed)


def test_noisy_sum_is_a_gap():
    rng = np.random.default_rng(3)
    assert _looked(lambda d: np.sum(d**2) + rng.standard_normal())


def test_class_that_is_rare_shows():
    def precision(d):
        return d[d[:, 0] > 2.0, 1].sum() / max((d[:, 0] > 2.0).sum(), 1)

    assert all(_looked(precision, seed=seed) for seed in range(20))


def test_value_undefined_on_a_part_is_a_gap():
    def mean_of_one_row(d):
        chosen = np.isin(d[:, 0], np.random.default_rng(0).standard_normal((256, 3))[:1, 0])
        return d[chosen, 1].sum() / chosen.sum() if chosen.any() else np.nan

    (gap,) = _looked(mean_of_one_row)
    assert np.isnan(gap.mean)


def test_variance_is_a_gap_and_its_parts_are_named():
    (gap,) = _looked(lambda d: float(np.var(d)))
    assert gap.rows == (95, 161)
    assert gap.parts[0] != gap.parts[1]


def test_warning_of_an_objective_that_compares_rows():
    def objective(x, batch):
        return float(np.var(batch[:, :N] @ x) + x @ x - x[0])

    def gradient(x, batch):
        rows = batch[:, :N] - batch[:, :N].mean(axis=0)
        return 2.0 * rows.T @ (rows @ x) / len(batch) + 2.0 * x - np.eye(N)[0]

    with pytest.warns(UserWarning, match="objective must be a mean over the rows"):
        minimize(_problem(_mean, _mean_jac, objective=objective, gradient=gradient), max_epochs=30)


def test_failing_functions_say_what_they_said_before():
    def objective(x, batch):
        raise RuntimeError("no such column")

    with pytest.raises(RuntimeError, match="no such column"):
        minimize(_problem(_mean, _mean_jac, objective=objective))
    assert issubclass(InputError, auglag.AuglagError)
