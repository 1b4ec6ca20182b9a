"""NeymanPearsonClassifier: KKT points in the user's units, and thresholds that keep their promise."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from scipy.stats import binom, norm

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'auglag[sklearn]'")

from auglag.datasets import load_spambase
from auglag.errors import InputError
from auglag.sklearn import NeymanPearsonClassifier, negatives_needed
from auglag.sklearn.calibration import calibrate


def gaussians(n, seed, d=3, positives=None):
    """Negatives N(0, I), positives N(1, I): the false-positive rate of a linear score is known exactly."""
    rng = np.random.default_rng(seed)
    positives = n // 3 if positives is None else positives
    y = np.arange(n) < positives
    return rng.standard_normal((n, d)) + y[:, None], y.astype(int)


def softplus(z):
    return np.logaddexp(0.0, z)


def losses(model, X, y):
    score = X @ model.coef_[0] + model.intercept_[0]
    return np.mean(softplus(-score[y == 1])), np.mean(softplus(score[y == 0]))


def test_the_bound_holds_with_equality_and_slsqp_finds_no_better_point():
    X, y = gaussians(600, 0)
    model = NeymanPearsonClassifier(0.25, l2=0.0, tol=1e-7).fit(X, y)
    objective, bound = losses(model, X, y)
    assert bound == pytest.approx(0.25, abs=1e-6)
    A = np.hstack([X, np.ones((len(X), 1))])
    found = scipy_minimize(
        lambda x: np.mean(softplus(-A[y == 1] @ x)),
        np.zeros(4),
        constraints={"type": "ineq", "fun": lambda x: 0.25 - np.mean(softplus(A[y == 0] @ x))},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert objective == pytest.approx(found.fun, abs=1e-6)
    assert np.append(model.coef_[0], model.intercept_) == pytest.approx(found.x, abs=1e-3)


def test_the_multiplier_is_the_price_of_chat():
    X, y = gaussians(600, 1)
    values = {}
    for chat in (0.249, 0.25, 0.251):
        model = NeymanPearsonClassifier(chat, l2=0.0, tol=1e-8).fit(X, y)
        values[chat] = losses(model, X, y)[0]
        if chat == 0.25:
            price = model.multipliers_[0]
    assert price == pytest.approx((values[0.249] - values[0.251]) / 0.002, rel=1e-3)
    assert price > 0.0


def test_units_of_the_features_do_not_change_the_model():
    X, y = gaussians(400, 2)
    scale, shift = np.array([1e-3, 1.0, 1e4]), np.array([5.0, -100.0, 1e5])
    one = NeymanPearsonClassifier(0.2, l2=1e-3, tol=1e-7).fit(X, y)
    other = NeymanPearsonClassifier(0.2, l2=1e-3, tol=1e-7).fit(X * scale + shift, y)
    assert other.coef_[0] * scale == pytest.approx(one.coef_[0], abs=1e-5)
    assert other.decision_function(X * scale + shift) == pytest.approx(one.decision_function(X), abs=1e-4)


def test_without_standardisation_the_penalty_is_on_the_coefficients_as_reported():
    X, y = gaussians(400, 3)
    model = NeymanPearsonClassifier(0.3, l2=0.1, standardize=False, tol=1e-8).fit(X, y)
    score = X @ model.coef_[0] + model.intercept_[0]
    minus, plus = X[y == 0], X[y == 1]
    gradient = -(1.0 / (1.0 + np.exp(score[y == 1]))) @ plus / len(plus) + 0.1 * model.coef_[0]
    constraint = (1.0 / (1.0 + np.exp(-score[y == 0]))) @ minus / len(minus)
    assert gradient + model.multipliers_[0] * constraint == pytest.approx(np.zeros(3), abs=1e-7)


def test_l1_makes_coefficients_zero_and_the_certificate_counts_its_subdifferential():
    data = load_spambase()
    model = NeymanPearsonClassifier(0.3, l1=0.02).fit(data.X, data.y)
    assert model.certificate_.residual <= 1e-5
    assert 5 < np.count_nonzero(model.coef_) < 40
    assert np.count_nonzero(NeymanPearsonClassifier(0.3).fit(data.X, data.y).coef_) == 57


@pytest.mark.parametrize(("solver", "method", "tol"), [("stochastic", "svrg", 1e-2), ("single-loop",) * 2 + (1e-5,)])
def test_solvers_that_sample_come_to_the_same_model_and_random_state_makes_it_again(solver, method, tol):
    X, y = gaussians(3000, 4)
    exact = NeymanPearsonClassifier(0.25).fit(X, y)
    models = [NeymanPearsonClassifier(0.25, solver=solver, random_state=s).fit(X, y) for s in (0, 0, 1)]
    for model in models:
        assert model.certificate_.residual <= tol
        assert model.result_.method == method
        assert losses(model, X, y)[0] == pytest.approx(losses(exact, X, y)[0], abs=0.02)
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert not np.array_equal(models[0].coef_, models[2].coef_)


@pytest.mark.parametrize("max_fpr", [None, 0.1])
def test_a_warm_start_at_the_solution_takes_fewer_passes(max_fpr):
    X, y = gaussians(900, 5)
    model = NeymanPearsonClassifier(0.2, max_fpr=max_fpr, warm_start=True, random_state=0).fit(X, y)
    first, coef = model.n_iter_, model.coef_.copy()
    model.fit(X, y)
    assert model.n_iter_ <= first / 3
    assert model.coef_ == pytest.approx(coef, abs=1e-3)
    model.set_params(warm_start=False).fit(X, y)
    assert model.n_iter_ == first


def test_labels_and_feature_names_are_kept():
    pandas = pytest.importorskip("pandas")
    X, y = gaussians(300, 6)
    frame = pandas.DataFrame(X, columns=["age", "dose", "load"])
    model = NeymanPearsonClassifier(0.3).fit(frame, np.where(y == 1, "spam", "ham"))
    assert model.classes_.tolist() == ["ham", "spam"]
    assert model.feature_names_in_.tolist() == ["age", "dose", "load"]
    assert set(model.predict(frame)) == {"ham", "spam"}


# -------------------------------------------------------------------------------------------------------- calibration


@pytest.mark.parametrize(("max_fpr", "confidence"), [(0.05, 0.95), (0.1, 0.9), (0.01, 0.99), (0.5, 0.5)])
def test_the_fewest_negatives_are_just_enough(max_fpr, confidence):
    n = negatives_needed(max_fpr, confidence)
    assert (1.0 - max_fpr) ** n <= 1.0 - confidence < (1.0 - max_fpr) ** (n - 1)
    scores = np.arange(float(n))
    found = calibrate(scores, max_fpr, confidence)
    assert (found.rank, found.threshold, found.false_positives) == (n, n - 1.0, 0)
    with pytest.raises(InputError, match=f"needs at least {n} held-out negatives, got {n - 1}"):
        calibrate(scores[:-1], max_fpr, confidence)


def test_the_known_number_for_five_per_cent():
    assert negatives_needed(0.05, 0.95) == 59


def test_the_rank_is_the_smallest_that_keeps_the_promise():
    found = calibrate(np.random.default_rng(0).standard_normal(500), 0.1, 0.95)
    tail = lambda k: sum(binom.pmf(range(k, 501), 500, 0.9))  # noqa: E731
    assert found.failure_probability == pytest.approx(tail(found.rank), rel=1e-9)
    assert tail(found.rank) <= 0.05 < tail(found.rank - 1)


@pytest.mark.parametrize(("n", "max_fpr", "confidence"), [(59, 0.05, 0.95), (200, 0.1, 0.9), (40, 0.3, 0.6)])
def test_the_probability_of_failure_is_exact_for_continuous_scores(n, max_fpr, confidence):
    rng, draws = np.random.default_rng(1), 20_000
    promised = calibrate(rng.random(n), max_fpr, confidence)
    rates = 1.0 - np.sort(rng.random((draws, n)), axis=1)[:, promised.rank - 1]  # of uniform scores, exactly
    failed = np.mean(rates > max_fpr)
    spread = math.sqrt(promised.failure_probability / draws)
    assert failed == pytest.approx(promised.failure_probability, abs=4.0 * spread)


def test_the_classifier_keeps_the_rate_as_often_as_it_says():
    max_fpr, confidence, fits = 0.15, 0.8, 200
    failed, promised = 0, set()
    for seed in range(fits):
        X, y = gaussians(160, 100 + seed, d=2, positives=40)
        model = NeymanPearsonClassifier(0.3, max_fpr=max_fpr, confidence=confidence, tol=1e-3, random_state=seed)
        model.fit(X, y)
        rate = norm.cdf(model.intercept_[0] / np.linalg.norm(model.coef_))  # P(score > 0), negatives N(0, I)
        failed += rate > max_fpr
        promised.add(model.calibration_.failure_probability)
    (p,) = promised
    assert p <= 1.0 - confidence
    assert abs(failed - fits * p) <= 4.0 * math.sqrt(fits * p * (1.0 - p))


def test_ties_stay_negative_when_their_scores_are_computed_again():
    """Few distinct rows: a tie at the threshold that rounding turned positive would be a share of all negatives."""
    rng = np.random.default_rng(7)
    atoms = rng.standard_normal((6, 40)) * 10.0 ** rng.uniform(-3, 3, 40)
    for seed in range(20):
        draw = np.random.default_rng(seed)
        which, y = draw.integers(0, 6, 500), np.arange(500) < 150
        which[y] = draw.integers(2, 6, 150)
        X = atoms[which]
        model = NeymanPearsonClassifier(0.5, max_fpr=0.2, tol=1e-3, random_state=seed).fit(X, y)
        held = model.calibration_
        assert held.false_positives <= held.negatives - held.rank
        scores = [model.decision_function(row[None]).item() for row in atoms]  # one by one: other sums than at once
        rate = np.mean(np.array(scores) > 0.0)  # negatives have every atom with the same probability
        assert rate <= 0.2


def test_a_looser_rate_lets_more_positives_through():
    data = load_spambase()
    spam = data.y == 1
    caught, kept = [], []
    for max_fpr in (0.02, 0.05, 0.2):
        model = NeymanPearsonClassifier(max_fpr=max_fpr, random_state=0).fit(data.X, data.y)
        caught.append(np.mean(model.predict(data.X[spam])))
        kept.append(np.mean(model.predict(data.X[~spam])))
        assert model.calibration_.max_fpr == max_fpr
        assert model.calibration_.failure_probability <= 0.05
        assert model.certificate_.residual <= 1e-5
    assert caught[0] < caught[1] < caught[2]
    assert all(rate <= bound for rate, bound in zip(kept, (0.02, 0.05, 0.2), strict=True))


def test_held_out_negatives_are_not_trained_on():
    X, y = gaussians(600, 8)
    model = NeymanPearsonClassifier(0.3, max_fpr=0.1, calibration_size=0.5, random_state=3).fit(X, y)
    assert model.calibration_.negatives == 200
    negatives = model.result_.certificate  # the certificate is one of the rows in training
    assert negatives.violation <= 1e-5
    score = X @ model.coef_[0] + model.intercept_[0] + model.threshold_
    assert abs(np.mean(softplus(score[y == 0])) - 0.3) > 1e-4  # on all negatives the bound is not the one held


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chat": 0.0}, "chat must be positive and finite, got 0.0"),
        ({"max_fpr": 1.0}, r"max_fpr must lie in \(0, 1\), got 1.0"),
        ({"max_fpr": 0.1, "confidence": 1.5}, r"confidence must lie in \(0, 1\), got 1.5"),
        ({"max_fpr": 0.1, "calibration_size": 1.5}, r"calibration_size must lie in \(0, 1\), got 1.5"),
        ({"max_fpr": 0.1, "calibration_size": 80}, "calibration_size must lie between 1 and 79, one less .* got 80"),
        (
            {"max_fpr": 0.05},
            r"max_fpr = 0.05 with confidence = 0.95 needs at least 59 held-out negatives; calibration_size = 0.3 of 80 "
            r"negatives gives 24. calibration_size = 59 would do",
        ),
        ({"max_fpr": 0.01}, "needs at least 299 held-out negatives; .* gives 24$"),
        (
            {"chat": 0.01, "fit_intercept": False},
            r"chat = 0.01 is not attainable: the mean loss of the negatives cannot be brought below about 0\.\d+",
        ),
    ],
)
def test_what_cannot_be_promised_is_refused(arguments, message):
    X, y = gaussians(120, 9)
    with pytest.raises(InputError, match=message):
        NeymanPearsonClassifier(**arguments).fit(X, y)
