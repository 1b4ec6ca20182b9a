"""Gaps between many groups: rows by level are the same set as pairs, and their multipliers price pairs."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'auglag[sklearn]'")

from auglag.sklearn import FairLogisticRegression
from auglag.sklearn.gaps import Gaps, best_level

L2 = 1e-2


def crowd(groups, rows=2400, features=3, seed=0):
    """Features whose means differ from group to group, labels that follow them."""
    rng = np.random.default_rng(seed)
    s = np.arange(rows) % groups
    X = rng.standard_normal((rows, features)) + 0.5 * rng.standard_normal((groups, features))[s]
    y = X @ np.linspace(1.0, -0.5, features) + rng.logistic(size=rows) > 0.2
    return X, y.astype(int), s


class Pairwise:
    """The same fit stated by pairs, in the user's variables (coefficients, intercept)."""

    def __init__(self, X, y, s, inside=None):
        self.A, self.t = np.hstack([X, np.ones((len(X), 1))]), 2.0 * y - 1.0
        inside = np.ones(len(y), dtype=bool) if inside is None else inside
        self.members = [inside & (s == g) for g in np.unique(s)]
        self.first, self.second = np.array(list(itertools.combinations(range(len(self.members)), 2))).T

    def loss(self, x):
        return np.mean(np.logaddexp(0.0, -self.t * (self.A @ x))) + 0.5 * L2 * x[:-1] @ x[:-1]

    def slope(self, x):
        q = 1.0 / (1.0 + np.exp(self.t * (self.A @ x)))
        return -(self.t * q) @ self.A / len(self.A) + L2 * np.append(x[:-1], 0.0)

    def gaps(self, x):
        p = 1.0 / (1.0 + np.exp(-self.A @ x))
        rates = np.array([p[rows].mean() for rows in self.members])
        return rates[self.first] - rates[self.second]

    def jacobian(self, x):
        p = 1.0 / (1.0 + np.exp(-self.A @ x))
        slopes = np.array([(p * (1.0 - p))[rows] @ self.A[rows] / rows.sum() for rows in self.members])
        return slopes[self.first] - slopes[self.second]


def fitted(groups, bound, **settings):
    X, y, s = crowd(groups)
    model = FairLogisticRegression(bound, l2=L2, standardize=False, **settings).fit(X, y, sensitive_features=s)
    return model, np.append(model.coef_[0], model.intercept_), Pairwise(X, y, s)


@pytest.mark.parametrize("bound", [0.06, 0.0])
@pytest.mark.parametrize("groups", [2, 3, 24, 60])
def test_a_fit_is_a_kkt_point_of_the_problem_stated_by_pairs(groups, bound):
    model, x, pairs = fitted(groups, bound, tol=1e-7)
    gaps, y = pairs.gaps(x), model.multipliers_
    assert model.certificate_.residual <= 1e-7
    assert model.n_iter_ < 100
    assert list(model.gaps_.values()) == pytest.approx(gaps, abs=1e-9)
    assert np.abs(gaps).max() == pytest.approx(bound, abs=1e-6)
    assert np.abs(pairs.slope(x) + y @ pairs.jacobian(x)).max() < 1e-6
    assert np.abs(y).sum() > 0.1
    priced = np.abs(y) > 1e-6
    assert (gaps * np.sign(y))[priced] == pytest.approx(bound, abs=1e-6)


@pytest.mark.parametrize("groups", [3, 24])
def test_slsqp_on_the_pairs_finds_no_better_point(groups):
    _, x, pairs = fitted(groups, 0.06, tol=1e-7)
    band = {
        "type": "ineq",
        "fun": lambda x: 0.06 - np.concatenate([pairs.gaps(x), -pairs.gaps(x)]),
        "jac": lambda x: -np.vstack([pairs.jacobian(x), -pairs.jacobian(x)]),
    }
    options = {"ftol": 1e-12, "maxiter": 300}
    found = scipy_minimize(pairs.loss, np.zeros(4), jac=pairs.slope, constraints=band, method="SLSQP", options=options)
    assert np.abs(pairs.gaps(found.x)).max() <= 0.06 + 1e-8
    assert pairs.loss(x) <= found.fun + 1e-6


def test_multipliers_are_the_price_of_the_bound():
    price = np.abs(fitted(24, 0.06, tol=1e-8)[0].multipliers_).sum()
    losses = [pairs.loss(x) for _, x, pairs in (fitted(24, bound, tol=1e-8) for bound in (0.0599, 0.0601))]
    assert price == pytest.approx((losses[0] - losses[1]) / 2e-4, rel=1e-2)


@pytest.mark.parametrize(("solver", "groups", "tol"), [("single-loop", 24, 1e-5), ("stochastic", 4, 1e-2)])
def test_solvers_that_sample_take_more_than_two_groups(solver, groups, tol):
    model, x, pairs = fitted(groups, 0.06, solver=solver, tol=tol, random_state=0)
    assert model.certificate_.residual <= tol
    assert np.abs(pairs.gaps(x)).max() <= 0.06 + 2.0 * tol


def test_rates_of_both_classes_are_kept_in_every_group():
    X, y, s = crowd(24)
    model = FairLogisticRegression(0.06, constraint="equalized_odds").fit(X, y, sensitive_features=s)
    x = np.append(model.coef_[0], model.intercept_)
    largest = [np.abs(Pairwise(X, y, s, inside=y == label).gaps(x)).max() for label in (0, 1)]
    assert max(largest) == pytest.approx(0.06, abs=1e-4)
    assert len(model.gaps_) == len(model.multipliers_) == 2 * 276
    assert list(model.gaps_)[-1] == "22 - 23 of class 1"


def test_a_warm_start_keeps_levels_and_multipliers():
    X, y, s = crowd(24)
    model = FairLogisticRegression(0.06, warm_start=True).fit(X, y, sensitive_features=s)
    first = model.n_iter_
    assert model.fit(X, y, sensitive_features=s).n_iter_ <= first / 3
    fewer = s % 3  # other constraints: their multipliers begin at 0
    assert model.fit(X, y, sensitive_features=fewer).certificate_.residual <= 1e-5


def test_a_group_of_one_row_counts_like_any_other():
    X, y, s = crowd(3)
    s = s.copy()
    s[7] = 3
    for solver in ("deterministic", "single-loop"):
        model = FairLogisticRegression(0.06, l2=L2, solver=solver, random_state=0).fit(X, y, sensitive_features=s)
        p = model.predict_proba(X)[:, 1]
        rates = [p[s == g].mean() for g in range(4)]
        assert max(rates) - min(rates) == pytest.approx(0.06, abs=1e-4)
        assert model.certificate_.residual <= 1e-5


def test_a_group_that_no_row_has_is_none_of_a_fit_and_has_no_price_in_a_stream():
    pandas = pytest.importorskip("pandas")
    X, y, s = crowd(3)
    labels = pandas.Series(pandas.Categorical(s, categories=range(5)))
    assert FairLogisticRegression().fit(X, y, sensitive_features=labels).groups_ == [0, 1, 2]
    model = FairLogisticRegression(0.06, random_state=0)
    for part in np.array_split(np.arange(len(y)), 8):
        model.partial_fit(X[part], y[part], [0, 1], sensitive_features=s[part], groups=range(4))
    priced = dict(zip(model.gaps_, model.multipliers_, strict=True))
    assert [priced[f"{g} - 3"] for g in range(3)] == [0.0, 0.0, 0.0]
    assert np.isfinite(model.coef_).all()


def test_rows_and_pairs_of_three_groups_by_hand():
    gaps = Gaps.of(["a", "b", "c"], [None], 0.1)
    assert (gaps.names, gaps.width, gaps.levels) == (["a", "b", "c"], 0.05, 1)
    assert gaps.factors.tolist() == [[1, 0, 0, -1], [0, 1, 0, -1], [0, 0, 1, -1]]
    assert gaps.between(np.array([0.3, 0.1, 0.6])) == pytest.approx({"a - b": 0.2, "a - c": -0.3, "b - c": -0.5})
    y = np.array([3.0, 1.0, -4.0])
    assert gaps.to_pairs(y).tolist() == [0.0, 3.0, 1.0]
    assert gaps.from_pairs(gaps.to_pairs(y)).tolist() == y.tolist()
    assert gaps.from_pairs(np.zeros(2)) is None
    assert gaps.to_pairs(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_two_groups_are_one_row_without_a_level():
    gaps = Gaps.of(["f", "m"], [0, 1], 0.1)
    assert (gaps.names, gaps.width, gaps.levels) == (["f - m of class 0", "f - m of class 1"], 0.1, 0)
    assert gaps.factors.tolist() == [[1, -1, 0, 0], [0, 0, 1, -1]]
    assert Gaps.of([], [None], 0.1).factors.shape == (0, 0)


def test_the_rates_of_three_groups_are_the_rows_of_a_stream():
    gaps = Gaps.of(["a", "b", "c"], [None], 0.1, levels=False)
    assert (gaps.names, gaps.width, gaps.levels, gaps.free) == (["a", "b", "c"], 0.05, 0, True)
    assert gaps.factors.tolist() == np.eye(3).tolist()
    assert gaps.between(np.array([0.3, 0.1, 0.6])) == pytest.approx({"a - b": 0.2, "a - c": -0.3, "b - c": -0.5})
    assert not Gaps.of(["f", "m"], [None], 0.1, levels=False).by_group


@pytest.mark.parametrize("seed", range(5))
def test_the_best_level_is_that_of_a_search(seed):
    rng = np.random.default_rng(seed)
    rates, weights, half = rng.random(7), rng.random(7) + 0.01, 0.1
    levels = np.linspace(-0.5, 1.5, 200_001)
    off = np.maximum(np.abs(rates[:, None] - levels) - half, 0.0)
    assert best_level(rates, weights, half) == pytest.approx(levels[np.argmin(weights @ off**2)], abs=2e-5)
    assert best_level(0.1 * rates, weights, half) == pytest.approx(0.05 * (rates.min() + rates.max()))  # all fit


def test_a_stream_keeps_the_gaps_of_many_groups():
    X, y, s = crowd(30, rows=60_000, features=6)
    free, fair = (FairLogisticRegression(bound, random_state=0) for bound in (1.0, 0.06))
    for part in np.array_split(np.arange(len(y)), 10):
        for model in (free, fair):
            model.partial_fit(X[part], y[part], [0, 1], sensitive_features=s[part])

    def widest(model):
        p = model.predict_proba(X)[:, 1]
        rates = [p[s == g].mean() for g in range(30)]
        return max(rates) - min(rates)

    assert widest(free) > 0.3
    assert widest(fair) < 0.1
    assert len(fair.multipliers_) == len(fair.gaps_) == 30 * 29 / 2


def test_too_many_groups_are_named_where_they_are_too_many():
    X, y, s = crowd(201)
    with pytest.raises(ValueError, match="sensitive_features must have at most 200 groups, got 201"):
        FairLogisticRegression().partial_fit(X, y, [0, 1], sensitive_features=s)
    with pytest.raises(ValueError, match="sensitive_features must have at most 200 groups, got 201"):
        FairLogisticRegression().fit(X, y, sensitive_features=s)
