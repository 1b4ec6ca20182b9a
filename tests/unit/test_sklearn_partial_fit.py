"""`partial_fit`: rows that come in parts, and a state that goes on bit for bit."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'auglag[sklearn]'")

from sklearn.base import clone

from auglag.errors import InputError
from auglag.sklearn import FairLogisticRegression, NeymanPearsonClassifier


def rows(n=20_000, seed=0, shift=0.0):
    """(X, y, groups): features of different units, labels that lean on the group."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 3, n)
    X = rng.standard_normal((n, 4))
    X[:, 0] += 0.8 * s + shift
    y = X @ [1.2, -0.8, 0.6, 0.0] + rng.logistic(size=n) > 0.5
    return X * [1.0, 100.0, 0.01, 1.0] + [0.0, 500.0, 0.0, 3.0], y.astype(int), s


def streamed(model, X, y, s=None, chunk=500, **first):
    for i in range(0, len(y), chunk):
        part = slice(i, i + chunk)
        more = {} if s is None else {"sensitive_features": s[part]}
        model.partial_fit(X[part], y[part], **(first if not i else {}), **more)
    return model


def losses(model, X, y):
    score = model.decision_function(X)
    return np.mean(np.logaddexp(0.0, -score[y == 1])), np.mean(np.logaddexp(0.0, score[y == 0]))


def largest_gap(model, X, s):
    means = [np.mean(model.predict_proba(X)[s == k, 1]) for k in np.unique(s)]
    return max(means) - min(means)


@pytest.mark.parametrize("chunk", [100, 1000])
def test_one_pass_comes_close_to_the_fit_on_all_rows(chunk):
    X, y, _ = rows()
    whole = NeymanPearsonClassifier(0.3).fit(X, y)
    model = streamed(NeymanPearsonClassifier(0.3, random_state=0), X, y, chunk=chunk, classes=[0, 1])
    assert losses(model, X, y) == pytest.approx(losses(whole, X, y), abs=0.03)
    assert model.tracked_["false positives"] == pytest.approx(0.3, abs=0.02)
    assert model.multipliers_ == pytest.approx(whole.multipliers_, rel=0.15)
    assert model.t_ == len(y)
    assert not hasattr(model, "certificate_")


@pytest.mark.parametrize("constraint", ["demographic_parity", "equalized_odds"])
def test_gaps_of_three_groups_are_kept_although_parts_lack_some(constraint):
    X, y, s = rows(seed=1)
    fair = FairLogisticRegression(0.05, constraint=constraint, random_state=0)
    first = {"classes": [0, 1], "groups": [0, 1, 2]}
    fair.partial_fit(X[s == 0][:50], y[s == 0][:50], sensitive_features=np.zeros(50, int), **first)
    streamed(fair, X, y, s, chunk=300)
    free = streamed(FairLogisticRegression(1.0, random_state=0), X, y, s, **first)
    inside = np.ones(len(y), bool) if constraint == "demographic_parity" else y == 1
    assert largest_gap(free, X[inside], s[inside]) > 0.12
    assert largest_gap(fair, X[inside], s[inside]) < 0.065
    assert fair.gaps_.keys() == fair.tracked_.keys()


def test_l1_leaves_a_feature_without_use_at_zero():
    X, y, _ = rows(seed=2)
    model = streamed(NeymanPearsonClassifier(0.4, l1=0.05, random_state=0), X, y, classes=[0, 1])
    assert model.coef_[0, 3] == 0.0
    assert np.count_nonzero(model.coef_) >= 2


def test_a_model_on_disk_goes_on_bit_for_bit():
    X, y, s = rows(3000)
    fair, classes = FairLogisticRegression(0.05, random_state=3), {"classes": [0, 1]}
    whole = streamed(clone(fair), X, y, s, **classes)
    half = streamed(clone(fair), X[:1500], y[:1500], s[:1500], **classes)
    resumed = streamed(pickle.loads(pickle.dumps(half)), X[1500:], y[1500:], s[1500:])
    assert np.array_equal(resumed.coef_, whole.coef_)
    assert np.array_equal(resumed.multipliers_, whole.multipliers_)


def test_it_follows_a_drift():
    model, loss = NeymanPearsonClassifier(0.3, random_state=0), []
    now = rows(20_000, seed=200, shift=2.0)[:2]
    for number, shift in enumerate(np.r_[np.zeros(10), np.linspace(0.0, 2.0, 20), np.full(30, 2.0)]):
        X, y, _ = rows(1000, seed=100 + number, shift=shift)
        model.partial_fit(X, y, classes=[0, 1])
        loss.append(losses(model, *now)[1])
    assert loss[9] > 0.7
    assert loss[-1] == pytest.approx(0.3, abs=0.05)


def test_it_goes_on_from_a_fit_and_fit_begins_anew():
    X, y, _ = rows(4000)
    model = NeymanPearsonClassifier(0.3, random_state=0).fit(X, y)
    coef = model.coef_.copy()
    model.partial_fit(X[:200], y[:200])
    assert not np.array_equal(model.coef_, coef)
    assert losses(model, X, y)[1] == pytest.approx(0.3, abs=0.1)
    assert not hasattr(model, "certificate_")
    assert model.fit(X, y).coef_ == pytest.approx(coef, rel=1e-6)
    assert not hasattr(model, "tracked_")


def test_a_promised_rate_needs_fit():
    model = NeymanPearsonClassifier(max_fpr=0.1)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"partial_fit needs max_fpr=None, got 0\.1.*take fit"):
        model.partial_fit([[0.0]], [0])
    assert callable(NeymanPearsonClassifier.partial_fit)


def spoilt(X, y, s, how):
    """Rows that must be refused, with what the message has to say."""
    X, y, s = X.copy(), y.copy(), s.copy()
    if how == "NaN":
        X[3, 1] = np.nan
    elif how == "label":
        y[5] = 7
    elif how == "group":
        s[5] = 9
    return X[:, :3] if how == "features" else X, y, s


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("NaN", "Input X contains NaN"),
        ("label", r"y must have the labels \[0, 1\], got \[7\]"),
        ("group", r"sensitive_features must have the groups \[0, 1, 2\], got .*9"),
        ("features", "X has 3 features, but FairLogisticRegression is expecting 4"),
    ],
)
def test_a_bad_part_is_named_and_the_model_stays_as_it_was(how, message):
    X, y, s = rows(600)
    model = FairLogisticRegression(0.05, random_state=0).partial_fit(X, y, [0, 1], sensitive_features=s)
    before = pickle.dumps(model)
    bad = spoilt(X, y, s, how)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(bad[0], bad[1], sensitive_features=bad[2])
    assert pickle.dumps(model) == before


def test_the_first_call_says_what_it_needs():
    X, y, s = rows(100)
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        NeymanPearsonClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"classes must be two labels, got 3"):
        NeymanPearsonClassifier().partial_fit(X, y, classes=[0, 1, 2])
    model = FairLogisticRegression().partial_fit(X, y, [0, 1], sensitive_features=s)
    with pytest.raises(ValueError, match=r"classes must be those of the first call, \[0, 1\], got \[0 2\]"):
        model.partial_fit(X, y, [0, 2], sensitive_features=s)
    with pytest.raises(InputError, match="sensitive_features must be given: the rows before had groups"):
        model.partial_fit(X, y)
