"""scikit-learn's own checks of estimators, and its ways of putting them together."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'auglag[sklearn]'")

import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from auglag.sklearn import FairLogisticRegression, NeymanPearsonClassifier

SAMPLING = ("single-loop", "stochastic")
NO_GROUPS = "ignore:no groups were given:UserWarning"


class SplitAtMedian(FairLogisticRegression):
    """Groups from the first feature: the checks give none, and what they should see is the fit under constraints."""

    def fit(self, X, y):
        table, groups = np.asarray(X), None
        if table.ndim == 2 and table.size and table.dtype.kind in "fiu":
            groups = table[:, 0] > np.median(table[:, 0])
        return super().fit(X, y, sensitive_features=groups)


@pytest.mark.filterwarnings(NO_GROUPS, "ignore:.*array_api")
@parametrize_with_checks(
    [
        NeymanPearsonClassifier(),
        NeymanPearsonClassifier(l1=1e-3, fit_intercept=False, standardize=False, chat=0.68),
        NeymanPearsonClassifier(max_fpr=0.25, confidence=0.5, calibration_size=0.7),
        FairLogisticRegression(),
        SplitAtMedian(bound=0.3),
    ]
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings(NO_GROUPS, "ignore:.*array_api")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # tiny data: passes are few steps
@parametrize_with_checks(
    [kind(solver=solver) for kind in (NeymanPearsonClassifier, FairLogisticRegression) for solver in SAMPLING]
)
def test_scikit_learns_checks_pass_with_solvers_that_sample(estimator, check):
    check(estimator)


def data(n=400, seed=0):
    X, y = make_classification(n, 6, n_informative=4, class_sep=1.0, random_state=seed)
    groups = np.where(y + np.random.default_rng(seed).standard_normal(n) > 0.5, "a", "b")
    return X * [1.0, 10.0, 0.1, 1.0, 1e3, 1.0], y, groups


def gap(probability, groups):
    return abs(np.mean(probability[groups == "a"]) - np.mean(probability[groups == "b"]))


def negative_gap(y_true, probability, sensitive_features):
    return -gap(probability, sensitive_features)


def test_in_a_pipeline_and_a_grid_search_with_groups():
    X, y, groups = data()
    pipe = make_pipeline(StandardScaler(), FairLogisticRegression(0.05))
    pipe.fit(X, y, fairlogisticregression__sensitive_features=groups)
    assert gap(pipe.predict_proba(X)[:, 1], groups) == pytest.approx(0.05, abs=1e-4)
    with pytest.warns(UserWarning, match="no groups were given"):
        pipe.fit(X, y)
    assert gap(pipe.predict_proba(X)[:, 1], groups) > 0.09
    search = GridSearchCV(FairLogisticRegression(0.05), {"l2": [1e-4, 1.0]}, cv=3, error_score="raise")
    search.fit(X, y, sensitive_features=groups)
    assert search.best_params_["l2"] == 1e-4
    assert search.best_estimator_.groups_ == ["a", "b"]


def test_metadata_routing_brings_the_groups_to_fit_and_to_a_scorer():
    X, y, groups = data()

    with sklearn.config_context(enable_metadata_routing=True):
        classifier = FairLogisticRegression(0.02).set_fit_request(sensitive_features=True)
        scorer = make_scorer(negative_gap, response_method="predict_proba").set_score_request(sensitive_features=True)
        bounded = cross_val_score(classifier, X, y, scoring=scorer, cv=3, params={"sensitive_features": groups})
        wide = classifier.set_params(bound=1.0)
        free = cross_val_score(wide, X, y, scoring=scorer, cv=3, params={"sensitive_features": groups})
    assert np.mean(bounded) > np.mean(free) + 0.05


@pytest.mark.parametrize("classifier", [NeymanPearsonClassifier(0.2), FairLogisticRegression(0.1, group=0)])
def test_a_fitted_classifier_survives_pickle_and_clone_forgets(classifier):
    X, y, _ = data()
    X[:, 0] = X[:, 0] > 0.0
    fitted = clone(classifier).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.certificate_.residual == fitted.certificate_.residual
    assert again.result_.status.name == "SOLVED"
    assert not hasattr(clone(fitted), "coef_")
    assert clone(fitted).get_params() == classifier.get_params()


@pytest.mark.parametrize(
    "classifier", [NeymanPearsonClassifier(0.2, max_iter=3), NeymanPearsonClassifier(0.2, max_iter=3, l1=1e-3)]
)
def test_a_run_that_does_not_reach_tol_warns_and_says_what_to_try(classifier):
    X, y, _ = data()
    with pytest.warns(ConvergenceWarning, match=r"did not reach tol.*Residual .* > tol 1e-05.*larger max_iter"):
        classifier.fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"max_iter = 3 passes over the data") as caught:
        classifier.fit(X, y)
    assert "max_epochs" not in str(caught[0].message)  # an argument that the classifier does not have
    assert not classifier.result_.success
    assert classifier.coef_.shape == (1, 6)


def test_a_missing_class_and_a_third_one_are_refused():
    X, y, _ = data()
    with pytest.raises(ValueError, match=r"y must have two classes, got 1 class: \[0.0\]"):
        NeymanPearsonClassifier().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        NeymanPearsonClassifier().fit(X, np.arange(len(y)) % 3)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        NeymanPearsonClassifier().fit(X, y)


@pytest.mark.parametrize("classifier", [NeymanPearsonClassifier(), FairLogisticRegression(1.0, group=0)])
@pytest.mark.parametrize("spoil", ["one class", "NaN", "three classes", "parameter"])
def test_a_fit_that_fails_leaves_the_classifier_as_it_was(classifier, spoil):
    X, y, _ = data()
    X[:, 0] = X[:, 0] > 0.0
    model = clone(classifier).fit(X, y)
    before, scores = dict(vars(model)), model.decision_function(X)
    narrow, labels = X[:, :4].copy(), y.copy()
    if spoil == "parameter":
        model.max_iter = 0
        before["max_iter"] = 0
    elif spoil == "NaN":
        narrow[0, 1] = np.nan
    else:
        labels = np.zeros(len(y)) if spoil == "one class" else np.arange(len(y)) % 3
    with pytest.raises(ValueError, match=r"class|NaN|max_iter"):
        model.fit(narrow, labels)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
    assert np.array_equal(model.decision_function(X), scores)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"solver": "newton"}, r"solver must be one of \['deterministic', 'single-loop', 'stochastic'\], got 'newton'"),
        ({"l1": -1.0}, "l1 must be nonnegative and finite, got -1.0"),
        ({"l2": np.nan}, "l2 must be nonnegative and finite, got nan"),
        ({"tol": 0.0}, "tol must be positive and finite, got 0.0"),
        ({"max_iter": 0}, "max_iter must be a positive integer, got 0"),
    ],
)
@pytest.mark.parametrize("kind", [NeymanPearsonClassifier, FairLogisticRegression])
def test_bad_arguments_are_named_by_fit(kind, arguments, message):
    X, y, _ = data(60)
    with pytest.raises(ValueError, match=message):
        kind(**arguments).fit(X, y)


def test_without_scikit_learn_the_message_says_what_to_install():
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "try:\n    import auglag.sklearn\n"
        "except ImportError as error:\n    print(error)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pip install 'auglag[sklearn]'" in out
