"""What the classifiers have in common: input in scikit-learn's manner, a linear score, a certified result."""

from __future__ import annotations

import math
import warnings
from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from auglag._typing import Matrix, Vector
from auglag.sklearn.design import Design, FeatureMoments
from auglag.sklearn.streaming import Chunk, Stream
from auglag.sklearn.training import Start, Training
from auglag.stochastic import StochasticResult
from auglag.stochastic.losses import sigmoid


class ConstrainedLinearClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A binary classifier with the score x'coef_ + intercept_, trained under constraints."""

    solver: str
    l1: float
    l2: float
    tol: float | None
    max_iter: int
    verbose: int
    warm_start: bool
    random_state: Any
    multipliers_: Vector
    _levels: Vector  #: variables of the last fit that are no part of the model

    def decision_function(self, X: Any) -> Vector:
        """The score of every row: positive for `classes_[1]`."""
        check_is_fitted(self)
        rows = self._rows(X)
        score: Vector = rows @ self.coef_[0] + self.intercept_[0]
        return score

    def predict(self, X: Any) -> Any:
        """The class of every row."""
        positive = self.decision_function(X) > 0.0
        return self.classes_[positive.astype(np.intp)]

    def predict_proba(self, X: Any) -> Matrix:
        """1 / (1 + exp(-score)) for `classes_[1]`, and the rest for `classes_[0]`.

        A probability of the model; the constraint moves it away from frequencies, which it does not estimate.
        """
        score = self.decision_function(X)
        return np.column_stack([sigmoid(-score), sigmoid(score)])

    def __sklearn_tags__(self) -> Any:
        """Two classes, dense and finite features."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    # ---------------------------------------------------------------------------------------------- for the subclasses

    @contextmanager
    def _kept_on_error(self) -> Iterator[None]:
        """A fit that fails leaves the classifier as it was: scikit-learn's checks set attributes as they go."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _rows(self, X: Any) -> Matrix:
        """X as `predict` has to take it."""
        rows: Matrix = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def _binary(self, X: Any, y: Any) -> tuple[Matrix, NDArray[np.bool_]]:
        """(features, whether a row is of the second class), checked; sets `classes_` and what scikit-learn asks for."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        self.classes_, code = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have two classes, got 1 class: {self.classes_.tolist()} (there is nothing to tell it from)"
            )
        return X, code == 1

    def _stream_rows(self, X: Any, y: Any, classes: Any) -> tuple[Matrix, NDArray[np.bool_], Stream]:
        """(features, whether a row is of the second class, the stream so far), for one call of `partial_fit`.

        The stream is a copy: a call that fails leaves the one before.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if classes is not None:
            given = np.unique(np.asarray(classes))
            if len(given) != 2:
                raise ValueError(f"classes must be two labels, got {len(given)}: {given.tolist()[:5]}")
            if not first and not np.array_equal(given, self.classes_):
                raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}, got {given}")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(y)
        if first:
            self.classes_ = given
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"y must have the labels {self.classes_.tolist()}, got {unknown.tolist()[:5]}")
        known = getattr(self, "_stream", None)
        stream = Stream(self._seed(), FeatureMoments()) if known is None else deepcopy(known)
        return X, y == self.classes_[1], stream

    def _learn(self, stream: Stream, chunk: Chunk, start: Start) -> None:
        """Take the steps that the rows of a chunk allow, and set the attributes."""
        x, self.multipliers_ = stream.learn(chunk, self._training(), start)
        assert stream.design is not None
        coef, intercept = stream.design.to_user(x)
        self.coef_, self.intercept_ = coef[None, :], np.array([intercept])
        self._levels = x[stream.design.model :]
        self.n_iter_, self.t_, self._stream = 1, stream.rows, stream
        self.tracked_ = dict(zip(chunk.names, stream.values.tolist(), strict=True))
        self._forget("result_", "certificate_")  # of another point

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

    def _training(self) -> Training:
        return Training(self.solver, self.l1, self.l2, self.tol, self.max_iter, self.verbose)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _earlier(self, design: Design) -> Start:
        """The end of the last fit, where a warm start is wanted."""
        return self._last(design) if self.warm_start else Start()

    def _last(self, design: Design) -> Start:
        """Coefficients and multipliers as they are, in the variables of a design."""
        if not hasattr(self, "coef_") or self.coef_.shape[1] != design.used.size:
            return Start()
        x = design.from_user(self.coef_[0], float(self.intercept_[0]) + self._shift(), self._levels)
        return Start(x, self._row_multipliers(design))

    def _row_multipliers(self, design: Design) -> Vector | None:
        """Those of the last fit by rows of the problem; None where the problem has other rows."""
        return self.multipliers_

    def _shift(self) -> float:
        """What was taken off the intercept after training."""
        return 0.0

    def _accept(self, result: StochasticResult, design: Design, passes: float) -> None:
        """Set the fitted attributes; say so if the run did not reach `tol`."""
        self._forget("_stream", "t_", "tracked_")
        coef, intercept = design.to_user(result.x)
        self.coef_, self.intercept_, self._levels = coef[None, :], np.array([intercept]), result.x[design.model :]
        self.result_, self.certificate_ = result, result.certificate
        self.multipliers_ = np.asarray(result.multipliers, dtype=np.float64)
        self.n_iter_ = max(1, math.ceil(passes))
        if not result.success:
            said = result.message.replace("max_epochs", "max_iter")  # as the estimator calls it
            warnings.warn(
                f"{type(self).__name__} did not reach tol: {said} Try a larger max_iter or tol"
                + (", or solver='deterministic'." if self.solver == "stochastic" else ", or a larger l2."),
                ConvergenceWarning,
                stacklevel=3,
            )
