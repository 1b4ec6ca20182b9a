"""`NeymanPearsonClassifier`: few false negatives, subject to a bound on false positives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Matrix
from auglag.errors import InputError, require_positive
from auglag.sklearn.arguments import share_or_count
from auglag.sklearn.base import ConstrainedLinearClassifier
from auglag.sklearn.calibration import Calibration, calibrate, negatives_needed
from auglag.sklearn.design import Design
from auglag.sklearn.streaming import Chunk, OnlyIf
from auglag.sklearn.training import Start, Training
from auglag.stochastic import LinearBlock, StochasticProblem
from auglag.stochastic.neyman_pearson import require_attainable

#: chat where neither chat nor max_fpr is given; a score of 0 everywhere has the loss log 2 = 0.69.
CHAT = 0.3
#: What the constraint is called.
NAME = "false positives"
# The search for chat:
SEARCH_RUNS = 10  #: at most so many runs
SEARCH_TOL = 1e-3  #: each until R is at most this
NEAR = 0.05  #: a rate whose relative difference from max_fpr is at most this ends the search
WIDEN = 3.0  #: as long as no chat is known to be too large, the next one is so many times the last


def _calibrated(classifier: Any) -> str:
    """Why rows may not come in parts, or nothing."""
    if classifier.max_fpr is None:
        return ""
    return (
        f"partial_fit needs max_fpr=None, got {classifier.max_fpr!r}: the promised rate needs rows that no step "
        "has used; take fit, or bound the loss by chat="
    )


@final
class NeymanPearsonClassifier(ConstrainedLinearClassifier):
    """Minimise the loss of the positives subject to a bound on that of the negatives.

        min mean log(1 + exp(-x'a+)) + l1 ||w||_1 + l2/2 ||w||^2   subject to   mean log(1 + exp(x'a-)) <= chat

    The positive class is the larger label, `classes_[1]`. Say either how large the surrogate may be (`chat`), or which
    false-positive rate must not be exceeded on new data (`max_fpr`): then a part of the negatives is held out of
    training and the threshold is set by their scores, so that P(false-positive rate > max_fpr) <= 1 - confidence. That
    holds for every number of rows and every distribution, as long as the rows are independent draws from it.

    Parameters
    ----------
    chat : float or None
        The bound on the mean loss of the negatives. None: 0.3; or, with `max_fpr`, the value at which the model has
        about that false-positive rate on the negatives it is trained on.
    max_fpr : float or None
        The false-positive rate not to be exceeded; None for no calibration (threshold 0).
    confidence : float
        The probability, over the draw of the held-out negatives, that `max_fpr` is kept to.
    calibration_size : float or int
        The share, or the number, of the negatives held out if `max_fpr` is given.
    l1, l2 : float
        Weights of the penalties on the coefficients, not on the intercept; of standardised features, if `standardize`.
    fit_intercept, standardize : bool
        Whether there is an intercept; whether features are standardised for training. `coef_` is in the units of X.
    solver : {"deterministic", "single-loop", "stochastic"}
        Gauss-Newton or L-BFGS on all rows; the same after some hundred sampled steps in which the multipliers move too,
        which saves passes; or variance-reduced stochastic gradients under Algorithm 2.
    tol : float or None
        The run ends when the KKT residual on all training rows (`certificate_.residual`) is at most tol. None: 1e-5,
        for the stochastic solver 1e-2.
    max_iter : int
        The most passes over the training rows; with a ConvergenceWarning, should they not suffice.
    warm_start : bool
        Start the next fit from the last coefficients and multipliers.
    random_state : int, RandomState or None
        For the choice of held-out negatives, and for solvers that sample.
    verbose : int
        Print the course of the run.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_
        As in scikit-learn's linear models; the threshold is part of the intercept.
    threshold_ : float
        What was taken off the intercept by calibration, 0 without.
    calibration_ : Calibration or None
        What the threshold promises: held-out negatives, rank, exact probability of failure.
    chat_ : float
        The bound that was trained with.
    multipliers_ : array of shape (1,)
        The price of chat: the objective falls by about multipliers_[0] per unit of it.
    n_iter_ : int
        Passes over the training rows, the search for chat included.
    certificate_, result_
        The KKT residuals in the standardised variables, and everything else about the run.
    """

    def __init__(
        self,
        chat: float | None = None,
        *,
        max_fpr: float | None = None,
        confidence: float = 0.95,
        calibration_size: float | int = 0.3,
        l1: float = 0.0,
        l2: float = 1e-4,
        fit_intercept: bool = True,
        standardize: bool = True,
        solver: str = "deterministic",
        tol: float | None = None,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.chat, self.max_fpr, self.confidence = chat, max_fpr, confidence
        self.calibration_size, self.l1, self.l2 = calibration_size, l1, l2
        self.fit_intercept, self.standardize, self.solver = fit_intercept, standardize, solver
        self.tol, self.max_iter, self.warm_start = tol, max_iter, warm_start
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X: Any, y: Any) -> NeymanPearsonClassifier:
        """Train, and calibrate if `max_fpr` is given."""
        with self._kept_on_error():
            training = self._training()
            if self.chat is not None:
                require_positive(self.chat, "chat")
            X, positive = self._binary(X, y)
            seed = self._seed()
            held = self._held_out(positive, seed)
            kept = ~held
            used = np.ones(X.shape[1], dtype=bool)
            design = Design.of(
                X[kept] if held.any() else X, standardize=self.standardize, intercept=self.fit_intercept, used=used
            )
            rows = _Rows(design.rows(X[kept & positive]), design.rows(X[kept & ~positive]))
            found = _Found(CHAT if self.chat is None else float(self.chat), self._earlier(design))
            if self.chat is None and self.max_fpr is not None:
                found = _search(training, design, rows, float(self.max_fpr), found.start, seed)
            problem = _problem(training, design, rows, found.chat)
            if not self.fit_intercept:  # an intercept attains any
                require_attainable(problem, found.chat)
            result = training.solve(problem, found.start, seed)
            self._accept(result, design, found.passes + result.epochs)
            self.chat_ = found.chat
            self._set_threshold(X[held])
        return self

    @OnlyIf(_calibrated)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> NeymanPearsonClassifier:
        """Learn from more rows, each once; `classes`, the two labels, on the first call.

        Rows of a call may come in any order, calls must be samples of all that is to come (or drift slowly). Steps are
        those of the single loop; `tracked_` has the loss of the negatives. There is no certificate: no call
        sees all rows. Not with `max_fpr`, whose promise needs rows that are held out.
        """
        with self._kept_on_error():
            self._training()
            chat = CHAT if self.chat is None else float(require_positive(self.chat, "chat"))
            X, positive, stream = self._stream_rows(X, y, classes)
            design = stream.look(
                X, np.ones(X.shape[1], dtype=bool), standardize=self.standardize, intercept=self.fit_intercept
            )
            pieces = [(X[positive], 1.0, 1.0, [0.0]), (X[~positive], -1.0, 0.0, [1.0])]
            blocks = [
                LinearBlock(design.rows(rows), sign, objective=f, constraints=c, check=False) if len(rows) else None
                for rows, sign, f, c in pieces
            ]
            sides = np.array([-math.inf]), np.array([chat])
            chunk = Chunk(blocks, np.array([[0.0, 1.0]]), len(X), *sides, names=[NAME])
            self._learn(stream, chunk, self._last(design))
            self.chat_ = chat
            self._set_threshold(X[:0])
        return self

    def _held_out(self, positive: NDArray[np.bool_], seed: int) -> NDArray[np.bool_]:
        """Negatives for calibration, drawn at random; none without `max_fpr`."""
        held = np.zeros(len(positive), dtype=bool)
        if self.max_fpr is None:
            return held
        need = negatives_needed(self.max_fpr, self.confidence)
        negatives = np.flatnonzero(~positive)
        size, total = self.calibration_size, len(negatives)
        count = share_or_count(size, total, "calibration_size")
        if count < need:
            raise InputError(
                f"max_fpr = {self.max_fpr:g} with confidence = {self.confidence:g} needs at least {need} held-out "
                f"negatives; calibration_size = {size} of {total} negatives gives {count}"
                + (f". calibration_size = {need} would do" if need < total else "")
            )
        held[np.random.default_rng(seed).permutation(negatives)[:count]] = True
        return held

    def _set_threshold(self, negatives: Matrix) -> None:
        self.threshold_: float = 0.0
        self.calibration_: Calibration | None = None
        if self.max_fpr is None:
            return
        scores = negatives @ self.coef_[0] + self.intercept_[0]
        size = np.abs(negatives) @ np.abs(self.coef_[0]) + abs(self.intercept_[0])
        rounding = 4.0 * (negatives.shape[1] + 4) * np.finfo(np.float64).eps * float(np.max(size))
        self.calibration_ = calibrate(scores, float(self.max_fpr), self.confidence, rounding)
        self.threshold_ = self.calibration_.threshold
        self.intercept_ = self.intercept_ - self.threshold_

    def _shift(self) -> float:
        return float(self.threshold_)


@final
@dataclass(frozen=True, slots=True)
class _Rows:
    positives: Matrix
    negatives: Matrix


def _problem(training: Training, design: Design, rows: _Rows, chat: float) -> StochasticProblem:
    blocks = [
        LinearBlock(rows.positives, 1.0, objective=1.0, constraints=[0.0], check=False),
        LinearBlock(rows.negatives, -1.0, constraints=[1.0], check=False),
    ]
    return training.problem(blocks, design.features, [-math.inf], [chat], [NAME])


@final
@dataclass(frozen=True, slots=True)
class _Found:
    """What a search for chat leaves: the bound, where to go on from, and the passes it took."""

    chat: float
    start: Start
    passes: float = 0.0


def _search(training: Training, design: Design, rows: _Rows, max_fpr: float, start: Start, seed: int) -> _Found:
    """The chat at which about `max_fpr` of the negatives in training have a positive score, by bisection.

    A negative with a positive score has a loss above log 2, so no smaller chat than max_fpr log 2 can be the one. The
    model then is trained for the place where its threshold is going to be.
    """
    low, high, passes = max_fpr * math.log(2.0), math.inf, 0.0
    best, distance, chat = _Found(low, start), math.inf, low
    for _ in range(SEARCH_RUNS):
        result = training.solve(_problem(training, design, rows, chat), start, seed, SEARCH_TOL)
        passes += result.epochs
        attained = result.certificate.violation <= 10.0 * result.tol
        rate = float(np.mean(rows.negatives @ result.x > 0.0)) if attained else 0.0
        if attained:
            start = Start(result.x, result.multipliers)
            if abs(rate - max_fpr) < distance:
                best, distance = _Found(chat, start), abs(rate - max_fpr)
        if distance <= NEAR * max_fpr:
            break
        low, high = (chat, high) if rate <= max_fpr else (low, chat)
        chat = math.sqrt(low * high) if high < math.inf else WIDEN * low
    return replace(best, passes=passes)
