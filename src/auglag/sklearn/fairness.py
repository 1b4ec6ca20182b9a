"""`FairLogisticRegression`: logistic regression under a bound on the gap between groups."""

from __future__ import annotations

import warnings
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from auglag._typing import Matrix, Vector
from auglag.errors import InputError, require_positive
from auglag.sklearn.arguments import require_nonnegative
from auglag.sklearn.base import ConstrainedLinearClassifier
from auglag.sklearn.design import Design
from auglag.sklearn.gaps import Gaps
from auglag.sklearn.groups import MOST_GROUPS, encode, find, require_classes, require_few, split_column
from auglag.sklearn.streaming import Chunk
from auglag.sklearn.training import Training
from auglag.stochastic import LinearBlock, StochasticProblem

#: Constraint -> the classes within which groups are compared (None: all rows).
CONSTRAINTS: dict[str, tuple[bool | None, ...]] = {
    "demographic_parity": (None,),
    "equal_opportunity": (True,),
    "equalized_odds": (False, True),
}


@final
class FairLogisticRegression(ConstrainedLinearClassifier):
    """Logistic regression whose mean predicted probability differs by no more than `bound` between any two groups.

        min mean log(1 + exp(-t x'a)) + l1 ||w||_1 + l2/2 ||w||^2
        subject to   | mean_i sigmoid(s x'a_i) - mean_j sigmoid(s x'a_j) | <= bound,    rows i, j of any two groups

    over all rows ("demographic_parity"), over the positives ("equal_opportunity"), or over the positives and over the
    negatives ("equalized_odds"). s is `sharpness`: 1 bounds predicted probabilities, larger values come closer to the
    decisions, which the method has no derivatives of. The constraints are nonconvex: a fit is a KKT point.

    For more than two groups what is solved has one more variable per class, a level, and says that the rate of every
    group is within bound / 2 of it: the same set, by as many constraints as there are groups (up to 200).
    In `partial_fit` the level is no variable: every step has the best one for the rates of the moment.

    Groups come with `fit(X, y, sensitive_features=...)`, one label per row, and then are not needed by `predict`; or
    they are a column of X, `group`. Under scikit-learn's metadata routing ask for them with
    `set_fit_request(sensitive_features=True)`. Without any groups there is nothing to bound: a warning says so.

    Parameters
    ----------
    bound : float
        The largest gap allowed, in [0, 1]; 0 asks for equality.
    constraint : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Which gap.
    group : int, str or None
        The number or the name of the column of X that holds the groups.
    use_group : bool
        Whether that column is a feature as well, and then it has to be numeric; if not, its coefficient is 0.
    sharpness : float
        The slope of the surrogate of decisions.
    l1, l2, fit_intercept, standardize, solver, tol, max_iter, warm_start, random_state, verbose
        As in `NeymanPearsonClassifier`.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_
        As in scikit-learn's linear models.
    groups_ : list
        The labels of the groups, in order.
    gaps_ : dict
        Name of a pair of groups -> its gap on the training rows.
    multipliers_ : array, one entry per pair
        In the order of `gaps_`; the sum of their absolute values is the price of `bound`. Where several groups are at
        the top or the bottom of a rate, pairs can share the price in many ways: here in proportion to the product of
        what their two groups have.
    n_iter_, certificate_, result_
        As in `NeymanPearsonClassifier`; the last two are of the problem with levels.
    """

    def __init__(
        self,
        bound: float = 0.05,
        *,
        constraint: str = "demographic_parity",
        group: int | str | None = None,
        use_group: bool = False,
        sharpness: float = 1.0,
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
        self.bound, self.constraint, self.group, self.use_group = bound, constraint, group, use_group
        self.sharpness, self.l1, self.l2 = sharpness, l1, l2
        self.fit_intercept, self.standardize, self.solver = fit_intercept, standardize, solver
        self.tol, self.max_iter, self.warm_start = tol, max_iter, warm_start
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X: Any, y: Any, sensitive_features: Any = None) -> FairLogisticRegression:
        """Train under the bound; `sensitive_features` has the group of every row."""
        with self._kept_on_error():
            training = self._training()
            self._check()
            X, labels, position = self._labelled(X, sensitive_features)
            X, positive = self._binary(X, y)
            used = self._used(X, position)
            parts = self._parts(labels, positive)
            gaps = self._gaps(levels=True)
            design = Design.of(
                X, standardize=self.standardize, intercept=self.fit_intercept, used=used, levels=gaps.levels
            )
            if not design.model:
                raise InputError("a model must have a feature or an intercept, got X with the group's column only")
            problem = self._problem(training, design, X, positive, parts, gaps)
            result = training.solve(problem, self._earlier(design), self._seed())
            self._accept(result, design, result.epochs)
            self.gaps_ = gaps.between(problem.evaluate(result.x).c)
            self.multipliers_ = gaps.to_pairs(self.multipliers_)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sensitive_features: Any = None, groups: Any = None
    ) -> FairLogisticRegression:
        """Learn from more rows, each once, by steps of the single loop.

        The first call needs `classes`, the two labels, and `groups`, all labels of groups, unless its rows have all of
        them. Rows of a call may come in any order, calls must be samples of all that is to come (or drift slowly).
        `gaps_` has the tracked gaps. There is no certificate: no call sees all rows.
        """
        with self._kept_on_error():
            self._training()
            self._check()
            X, labels, position = self._labelled(X, sensitive_features)
            X, positive, stream = self._stream_rows(X, y, classes)
            used = self._used(X, position)
            if not stream.chunks:
                self._name_groups(labels, groups)
            parts = [] if not self.groups_ else self._within(positive, find(labels, self.groups_, self._what()))
            gaps = self._gaps(levels=False)
            design = stream.look(X, used, standardize=self.standardize, intercept=self.fit_intercept)
            blocks, factors = self._blocks(design, X, positive, parts, gaps)
            sides = np.full(len(factors), gaps.width)
            chunk = Chunk(blocks, factors, len(X), -sides, sides, gaps.names, len(self.groups_) if gaps.free else 0)
            self._learn(stream, chunk, self._last(design))
            self.gaps_ = gaps.between(stream.values)
            self.tracked_, self.multipliers_ = dict(self.gaps_), gaps.to_pairs(self.multipliers_)
        return self

    def _labelled(self, X: Any, sensitive_features: Any) -> tuple[Any, Any, int | None]:
        """(X without a column that is no feature, the groups' labels, the number of their column)."""
        if self.group is None:
            return X, sensitive_features, None
        if sensitive_features is not None:
            raise InputError("group and sensitive_features must not both be given, got both")
        blank, labels, position = split_column(X, self.group)
        return X if self.use_group else blank, labels, position

    def _used(self, X: Matrix, position: int | None) -> NDArray[np.bool_]:
        used = np.ones(X.shape[1], dtype=bool)
        if position is not None and not self.use_group:
            used[position] = False
        return used

    def _what(self) -> str:
        return "sensitive_features" if self.group is None else f"column {self.group!r}"

    def _rows(self, X: Any) -> Matrix:
        if self.group is not None and not self.use_group:
            X = split_column(X, self.group)[0]
        return super()._rows(X)

    def _check(self) -> None:
        require_nonnegative(self.bound, "bound", 1.0)
        if self.constraint not in CONSTRAINTS:
            raise InputError(f"constraint must be one of {sorted(CONSTRAINTS)}, got {self.constraint!r:.80}")
        require_positive(self.sharpness, "sharpness")

    def _name_groups(self, labels: Any, groups: Any = None) -> None:
        """Set `groups_`: those given, else those of the rows; none without labels, which a warning says."""
        self.groups_: list[Any] = []
        if labels is not None:
            what = self._what() if groups is None else "groups"
            self.groups_ = encode(labels if groups is None else groups, what)[0]
            require_few(self.groups_, MOST_GROUPS, what)
            return
        warnings.warn(
            "no groups were given, so nothing is bounded: pass sensitive_features to fit, or name a column by "
            "group=...",
            UserWarning,
            stacklevel=4,
        )

    def _parts(self, labels: Any, positive: NDArray[np.bool_]) -> list[dict[Any, NDArray[np.bool_]]]:
        """For every class within which groups are compared: group -> its rows, of which there must be some."""
        self._name_groups(labels)
        if labels is None:
            return []
        require_classes(self.groups_, len(positive), self._what())
        parts = self._within(positive, find(labels, self.groups_, self._what()))
        for wanted, part in zip(CONSTRAINTS[self.constraint], parts, strict=True):
            for group, rows in part.items():
                if not rows.any():
                    label = self.classes_.tolist()[bool(wanted)]
                    raise InputError(
                        f"constraint = {self.constraint!r} needs rows of class {label!r} in every group, got none in "
                        f"group {group!r}"
                    )
        return parts

    def _within(self, positive: NDArray[np.bool_], code: NDArray[np.intp]) -> list[dict[Any, NDArray[np.bool_]]]:
        """For every class within which groups are compared: group -> its rows."""
        check_consistent_length(positive, code)
        insides = [np.full(len(code), True) if c is None else positive == c for c in CONSTRAINTS[self.constraint]]
        return [{group: inside & (code == k) for k, group in enumerate(self.groups_)} for inside in insides]

    def _gaps(self, *, levels: bool) -> Gaps:
        classes = [self.classes_[int(bool(wanted))] for wanted in CONSTRAINTS[self.constraint]]
        return Gaps.of(self.groups_, classes, float(self.bound), levels=levels)

    def _row_multipliers(self, design: Design) -> Vector | None:
        return self._gaps(levels=design.levels > 0).from_pairs(self.multipliers_)

    def _blocks(
        self,
        design: Design,
        X: Matrix,
        positive: NDArray[np.bool_],
        parts: list[dict[Any, NDArray[np.bool_]]],
        gaps: Gaps,
    ) -> tuple[list[LinearBlock | None], Matrix]:
        """(blocks, the factors of their means (columns) in the constraints (rows)).

        The loss of all rows, then the surrogate of decisions of every group, None for a group without rows, then the
        levels: sigmoids of a variable, so that they lie between 0 and 1 and need steps of the size that the rates need.
        """
        A, factors = design.rows(X), gaps.factors
        target = np.where(positive, 1.0, -1.0)
        every = [rows for part in parts for rows in part.values()]
        sharp = [A[rows] * float(self.sharpness) for rows in every]
        sharp += [unit[None, :] for unit in np.eye(gaps.levels, design.n, design.model)]
        blocks: list[LinearBlock | None] = [
            LinearBlock(A, target, objective=1.0, constraints=np.zeros(len(factors)), check=False)
        ]
        for rows, column in zip(sharp, factors.T, strict=True):
            some = LinearBlock(rows, -1.0, loss="sigmoid", constraints=column, check=False) if len(rows) else None
            blocks.append(some)
        return blocks, np.hstack([np.zeros((len(factors), 1)), factors])

    def _problem(
        self,
        training: Training,
        design: Design,
        X: Matrix,
        positive: NDArray[np.bool_],
        parts: list[dict[Any, NDArray[np.bool_]]],
        gaps: Gaps,
    ) -> StochasticProblem:
        blocks = [block for block in self._blocks(design, X, positive, parts, gaps)[0] if block is not None]
        sides = np.full(len(gaps.names), gaps.width)
        return training.problem(blocks, design.features, -sides, sides, gaps.names)
