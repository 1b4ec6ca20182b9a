"""FairLogisticRegression: gaps that are kept, multipliers that price them, groups from anywhere."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'auglag[sklearn]'")

from sklearn.linear_model import LogisticRegression

from auglag.errors import InputError
from auglag.sklearn import FairLogisticRegression, demographic_parity_gap, equal_opportunity_gap, equalized_odds_gap


def people(n=1500, groups=2, seed=0):
    """Features and labels that lean on the group."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, groups, n)
    X = rng.standard_normal((n, 4))
    X[:, 0] += 0.8 * s
    X[:, 1] -= 0.4 * s
    y = X @ [1.2, -0.8, 0.6, 0.0] + 0.3 * s + rng.logistic(size=n) > 0.5
    return X, y.astype(int), s


def mean_gap(model, X, rows, s):
    """The largest difference of mean probabilities between two groups, over the rows."""
    p = model.predict_proba(X)[:, 1]
    means = [np.mean(p[rows & (s == k)]) for k in np.unique(s)]
    return max(means) - min(means)


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("bound", [0.1, 0.0])
def test_demographic_parity_is_kept_and_was_not_before(groups, bound):
    X, y, s = people(groups=groups)
    every = np.ones(len(y), dtype=bool)
    model = FairLogisticRegression(bound, tol=1e-6).fit(X, y, sensitive_features=s)
    assert mean_gap(LogisticRegression().fit(X, y), X, every, s) > 0.15
    assert mean_gap(model, X, every, s) == pytest.approx(bound, abs=1e-5)
    assert model.certificate_.residual <= 1e-6
    assert max(abs(gap) for gap in model.gaps_.values()) <= bound + 1e-5


@pytest.mark.parametrize(("constraint", "classes"), [("equal_opportunity", [1]), ("equalized_odds", [0, 1])])
def test_gaps_within_classes_are_kept(constraint, classes):
    X, y, s = people(groups=3, seed=1)
    model = FairLogisticRegression(0.05, constraint=constraint).fit(X, y, sensitive_features=s)
    gaps = [mean_gap(model, X, y == label, s) for label in classes]
    assert max(gaps) == pytest.approx(0.05, abs=1e-4)
    assert len(model.gaps_) == len(model.multipliers_) == 3 * len(classes)
    with pytest.warns(UserWarning, match="no groups"):
        free = FairLogisticRegression().fit(X, y)
    assert max(mean_gap(free, X, y == label, s) for label in classes) > 0.1


def test_a_bound_that_does_not_bind_leaves_logistic_regression():
    X, y, s = people()
    C = 1.0 / (1e-2 * len(y))  # scikit-learn sums where we average
    plain = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
    model = FairLogisticRegression(1.0, l2=1e-2, standardize=False, tol=1e-8).fit(X, y, sensitive_features=s)
    assert model.coef_ == pytest.approx(plain.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(plain.intercept_, abs=1e-5)
    assert model.multipliers_ == pytest.approx([0.0], abs=1e-8)


def test_slsqp_finds_no_better_point_and_the_multiplier_is_the_price():
    X, y, s = people(500, seed=2)
    A, t = np.hstack([X, np.ones((500, 1))]), 2.0 * y - 1.0
    objective = lambda x: np.mean(np.logaddexp(0.0, -t * (A @ x)))  # noqa: E731
    gap = lambda x: np.diff([np.mean(1.0 / (1.0 + np.exp(-A[s == k] @ x))) for k in (0, 1)])[0]  # noqa: E731
    values = {}
    for bound in (0.049, 0.05, 0.051):
        model = FairLogisticRegression(bound, l2=0.0, tol=1e-8).fit(X, y, sensitive_features=s)
        x = np.append(model.coef_[0], model.intercept_)
        values[bound] = objective(x)
        if bound == 0.05:
            price, here = abs(model.multipliers_[0]), x
    band = {"type": "ineq", "fun": lambda x: 0.05 - np.array([gap(x), -gap(x)])}
    found = scipy_minimize(objective, np.zeros(5), constraints=band, method="SLSQP", options={"ftol": 1e-12})
    assert gap(here) == pytest.approx(0.05, abs=1e-7)
    assert values[0.05] <= found.fun + 1e-7
    assert price == pytest.approx((values[0.049] - values[0.051]) / 0.002, rel=1e-3)


def test_a_sharper_surrogate_comes_closer_to_the_decisions():
    X, y, s = people(3000, seed=3)
    gaps = []
    for sharpness in (1.0, 5.0):
        model = FairLogisticRegression(0.05, sharpness=sharpness, tol=1e-4).fit(X, y, sensitive_features=s)
        gaps.append(abs(demographic_parity_gap(model.predict(X), sensitive_features=s) - 0.05))
    assert gaps[1] < 0.02 < gaps[0]


@pytest.mark.parametrize(("solver", "tol"), [("stochastic", 1e-2), ("single-loop", 1e-5)])
def test_l1_and_solvers_that_sample_keep_the_bound(solver, tol):
    X, y, s = people(2000, seed=4)
    sparse = FairLogisticRegression(0.05, l1=0.03).fit(X, y, sensitive_features=s)
    assert sparse.coef_[0, 3] == 0.0
    assert sparse.certificate_.residual <= 1e-5
    sampled = FairLogisticRegression(0.05, solver=solver, random_state=0).fit(X, y, sensitive_features=s)
    assert sampled.certificate_.residual <= tol
    assert mean_gap(sampled, X, np.ones(len(y), dtype=bool), s) <= 0.06


def test_a_warm_start_at_the_solution_takes_fewer_passes():
    X, y, s = people(seed=5)
    model = FairLogisticRegression(0.05, warm_start=True).fit(X, y, sensitive_features=s)
    first = model.n_iter_
    assert model.fit(X, y, sensitive_features=s).n_iter_ <= first / 3


def test_groups_in_a_column_of_numbers_or_of_a_frame_are_the_same():
    pandas = pytest.importorskip("pandas")
    X, y, s = people(seed=6)
    array = FairLogisticRegression(0.05).fit(X, y, sensitive_features=s)
    numbers = FairLogisticRegression(0.05, group=2).fit(np.insert(X, 2, s, axis=1), y)
    assert np.delete(numbers.coef_[0], 2) == pytest.approx(array.coef_[0])
    assert numbers.coef_[0, 2] == 0.0
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame.insert(1, "sex", np.where(s == 1, "m", "f"))
    before = frame.copy()
    named = FairLogisticRegression(0.05, group="sex").fit(frame, y)
    assert named.groups_ == ["f", "m"]
    assert list(named.gaps_) == ["f - m"]
    assert named.feature_names_in_.tolist() == ["a", "sex", "b", "c", "d"]
    assert np.delete(named.coef_[0], 1) == pytest.approx(array.coef_[0])
    assert np.array_equal(named.predict(frame), array.predict(X))
    assert frame.equals(before)
    same = FairLogisticRegression(0.05, group=1).fit(frame, y)
    assert np.array_equal(same.coef_, named.coef_)


def test_the_column_of_the_group_may_be_a_feature():
    X, y, s = people(seed=7)
    table = np.insert(X, 0, s, axis=1)
    model = FairLogisticRegression(0.05, group=0, use_group=True).fit(table, y)
    assert model.coef_[0, 0] < -0.1  # what the other features know of the group is taken back
    assert mean_gap(model, table, np.ones(len(y), dtype=bool), s) == pytest.approx(0.05, abs=1e-4)


def test_metrics_by_hand():
    y, p = [1, 1, 0, 0, 1, 1, 0, 0], [1, 1, 1, 0, 1, 0, 0, 0]
    s = ["a"] * 4 + ["b"] * 4
    assert demographic_parity_gap(p, sensitive_features=s) == 0.5
    assert equal_opportunity_gap(y, p, sensitive_features=s) == 0.5
    assert equalized_odds_gap(y, [1, 1, 1, 1, 1, 0, 0, 0], sensitive_features=s) == 1.0
    assert demographic_parity_gap(["x", "z"] * 4, sensitive_features=s, pos_label="z") == 0.0
    with pytest.raises(InputError, match="every group must have rows of the class in question, got none for group 'b'"):
        equal_opportunity_gap([1, 1, 0, 0, 0, 0, 0, 0], p, sensitive_features=s)


@pytest.mark.parametrize(
    ("arguments", "labels", "message"),
    [
        ({"bound": -0.1}, None, r"bound must lie in \[0, 1\], got -0.1"),
        ({"bound": np.nan}, None, r"bound must lie in \[0, 1\], got nan"),
        ({"constraint": "parity"}, None, "constraint must be one of .*'demographic_parity'.*, got 'parity'"),
        ({"sharpness": 0.0}, None, "sharpness must be positive and finite, got 0.0"),
        ({"group": 0}, "array", "group and sensitive_features must not both be given"),
        ({"group": 9}, None, r"group = 9 must be a column of X, got X of shape \(90, 4\)"),
        ({"group": "sex"}, None, "group = 'sex' names a column, so X must be a data frame, got ndarray"),
        ({"group": 1.5}, None, "group must be the number or the name of a column, or None, got 1.5"),
        ({"group": 0}, None, "column 0 must have two rows a group in the mean, got 90 different values in 90 rows"),
        ({}, np.zeros(90), r"sensitive_features must have at least two groups, got 1: \[0.0\]"),
        ({}, np.arange(90.0) // 1.9, r"sensitive_features must have two rows a group .*, got 47 different values"),
        ({}, np.where(np.arange(90) > 3, 1.0, np.nan), "sensitive_features must not have missing values, got 4"),
        ({}, ["a", None] * 45, "sensitive_features must not have missing values, got 45"),
        ({}, np.array(["a", 1] * 45, dtype=object), "must have labels of one type, got int, str"),
        ({}, np.zeros((90, 2)), r"must be one label per row, got shape \(90, 2\)"),
        ({"constraint": "equalized_odds"}, "like y", "needs rows of class 0 in every group, got none in group 1"),
    ],
)
def test_bad_input_is_named(arguments, labels, message):
    X, y, s = people(90, seed=8)
    labels = {"array": s, "like y": y}.get(labels, labels) if isinstance(labels, str) else labels
    with pytest.raises(InputError, match=message):
        FairLogisticRegression(**arguments).fit(X, y, sensitive_features=labels)


def test_groups_of_another_length_are_refused():
    X, y, s = people(90, seed=9)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        FairLogisticRegression().fit(X, y, sensitive_features=s[:-1])


def test_a_positive_label_that_is_none_of_the_labels_is_named():
    s = [0, 0, 1, 1]
    with pytest.raises(InputError, match=r"pos_label must be one of the labels, \['no', 'yes'\], got 1"):
        demographic_parity_gap(["yes", "no", "no", "no"], sensitive_features=s)
    with pytest.raises(InputError, match="pos_label must be one of the labels"):
        demographic_parity_gap(["no"] * 4, sensitive_features=s)
    assert demographic_parity_gap([0] * 4, sensitive_features=s) == 0.0  # nobody is positive
    assert demographic_parity_gap([False, True, True, True], sensitive_features=s) == 0.5


def test_missing_groups_of_every_kind_are_named():
    pandas = pytest.importorskip("pandas")
    X, y, s = people(n=60)
    text = pandas.Series(np.where(s == 1, "a", "b"), dtype="string")
    text[3] = pandas.NA
    dates = pandas.Series(pandas.to_datetime(np.where(s == 1, "2020-01-01", "2021-01-01")))
    dates[3] = pandas.NaT
    for labels in (text, dates, dates.astype(object), [None, *s[1:].tolist()]):
        with pytest.raises(InputError, match="must not have missing values, got 1 of them"):
            FairLogisticRegression().fit(X, y, sensitive_features=labels)
