"""`Model`: a problem stated by small functions and index arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np

from auglag._names import nearest, suggesting
from auglag._typing import Vector
from auglag.errors import InputError, OptionError
from auglag.minimize import minimize
from auglag.model import terms
from auglag.model.batch import Batches, BatchSolution
from auglag.model.batch import solve as batch_solve
from auglag.model.device.solve import Prepared
from auglag.model.device.solve import solve as on_device
from auglag.model.given import batch_of, by_name, require_ordered, shape_of, spread, values_of
from auglag.model.handles import Handle, Parameter, Rows, Variables, require_own
from auglag.model.local import output_shape
from auglag.model.precision import double, in_double
from auglag.model.problem import ModelProblem
from auglag.model.solution import Solution, begun_from
from auglag.model.structure import Structure

#: Tells models apart; a copy of a model takes the variables of its original.
_OWNERS = itertools.count()


@final
class Model:
    """min f(x) subject to lb <= x <= ub and sides on rows c(x), where f and every row are sums of small functions.

    A function takes `x`, its local variables, and `p`, its local parameters (it may leave out `p` if there are none),
    and returns a number, or several as an array or tuple. It is written once and runs over index arrays of any shape,
    which broadcast: element e takes entry e of each of them. Functions are made of operations of JAX.

        m = auglag.model.Model()
        x = m.var(10, lb=0.0, start=1.0, name="x")
        m.objective(lambda x: (x[0] - 1.0) ** 2, x)
        m.constraint(lambda x: x[0] * x[1], x[:-1], x[1:], lb=0.1)
        solution = m.solve()
        solution["x"]
    """

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self.n = self.m = self._numbers = 0
        self._handles: dict[str, Handle] = {}
        self._parameters: dict[str, Parameter] = {}
        self._terms: list[terms.Term] = []
        self._lb, self._ub, self._start, self._cl, self._cu, self._par = ([np.zeros(0)] for _ in range(6))
        self._structure: Structure | None = None
        self._prepared: Prepared | None = None
        self._batches = Batches()
        self._owner = next(_OWNERS)

    def __repr__(self) -> str:
        return f"Model({self.name!r}: {self.n} variables, {self.m} rows, {len(self._terms)} terms)"

    # ------------------------------------------------------------------------------------------------ what there is

    @suggesting
    def var(
        self, shape: Any = (), *, name: str | None = None, lb: Any = -np.inf, ub: Any = np.inf, start: Any = 0.0
    ) -> Variables:
        """New variables; `lb`, `ub` (None: no bound) and `start` are numbers or arrays that broadcast to the shape."""
        sizes = shape_of(shape)
        name = self._new_name(name, "x", f"variables of shape {sizes}")
        made = Variables.make(self.n, sizes, name, self._owner)
        lower = spread(-np.inf if lb is None else lb, sizes, f"lb of {name!r}")
        upper = spread(np.inf if ub is None else ub, sizes, f"ub of {name!r}")
        require_ordered(lower, upper, f"of {name!r}")
        values = spread(start, sizes, f"start of {name!r}", finite=True)
        for store, value in ((self._lb, lower), (self._ub, upper), (self._start, values)):
            _append(store, value.ravel())
        self.n += made.size
        self._handles[name] = made
        self._structure = None
        return made

    @suggesting
    def parameter(self, value: Any, *, name: str | None = None) -> Parameter:
        """Numbers that functions take in `par=(...)`, and that may change from solve to solve, or over a batch."""
        name = self._new_name(name, "p", "parameter")
        numbers = spread(value, None, f"value of parameter {name!r}", finite=True)
        index = np.arange(self._numbers, self._numbers + numbers.size, dtype=np.intp).reshape(numbers.shape)
        made = Parameter(name, index, self._owner)
        _append(self._par, numbers.ravel())
        self._numbers += made.size
        self._parameters[name] = made
        self._structure = None
        return made

    @suggesting
    def objective(self, fn: Callable[..., Any], *index: Any, par: Any = (), name: str | None = None) -> None:
        """Add the sum of fn over all elements to the objective."""
        what = f"objective {name or len(self._terms)!r}"
        _, output, placed = self._placed(what, fn, index, par)
        if output not in ((), (1,)):
            raise InputError(f"the function of {what} must return a number, got shape {output}")
        self._add(what, fn, placed, None, 1)

    @suggesting
    def constraint(
        self,
        fn: Callable[..., Any],
        *index: Any,
        par: Any = (),
        lb: Any = None,
        ub: Any = None,
        eq: Any = None,
        name: str | None = None,
    ) -> Rows:
        """New rows lb <= fn <= ub, or fn = eq (0 if nothing is said), one per element and output of fn.

        The rows have the shape of the index arrays, with one more axis if fn has several outputs, and sides are numbers
        or arrays that broadcast to it. More terms go to them by `add`.
        """
        name = self._new_name(name, "c", "constraint")
        what = f"constraint {name!r}"
        shape, output, placed = self._placed(what, fn, index, par)
        if eq is not None and (lb is not None or ub is not None):
            raise InputError(f"{what} takes either eq or lb and ub, got both")
        if lb is None and ub is None:
            lb = ub = 0.0 if eq is None else eq
        wide = shape + output
        lower = spread(-np.inf if lb is None else lb, wide, f"lb of {what}")
        upper = spread(np.inf if ub is None else ub, wide, f"ub of {what}")
        require_ordered(lower, upper, f"of {what}")
        made = Rows.make(self.m, wide, name, self._owner)
        outputs = int(np.prod(output))
        rows = np.ascontiguousarray(np.asarray(made).reshape(int(np.prod(shape)), outputs).T)
        self._add(what, fn, placed, rows, outputs)
        _append(self._cl, lower.ravel())
        _append(self._cu, upper.ravel())
        self.m += made.size
        self._handles[name] = made
        return made

    @suggesting
    def add(self, rows: Any, fn: Callable[..., Any], *index: Any, par: Any = (), name: str | None = None) -> None:
        """Add fn to rows that exist, element by element; one row may get any number of elements.

        `rows` has the shape of the index arrays, with one more axis if fn has several outputs.
        """
        what = f"term {name or len(self._terms)!r}"
        require_own(f"rows of {what}", rows, self._owner)
        shape, output, placed = self._placed(what, fn, index, par)
        places = terms.placed_rows(what, rows, shape, output, self.m)
        self._add(what, fn, placed, places, int(np.prod(output)))

    @suggesting
    def set(self, what: Any, value: Any = None, *, start: Any = None, lb: Any = None, ub: Any = None) -> None:
        """Change a parameter's value, the start or bounds of variables, or the sides of rows, before the next solve.

        `what` is a name or what `parameter`, `var` and `constraint` returned, or a part of it. The value of a parameter
        has its shape, or is one number for all entries; start, bounds and sides are numbers or arrays that broadcast.
        Nothing is compiled again.
        """
        if isinstance(what, str):
            if what not in self._parameters and what not in self._handles:
                known = ", ".join([*self._parameters, *self._handles])
                raise InputError(f"the model has no {what!r}; it has {known}")
            what = self._parameters[what] if what in self._parameters else self._handles[what]
        require_own("what is set", what, self._owner)
        if isinstance(what, Parameter):
            if value is None or not (start is None and lb is None and ub is None):
                raise InputError(f"a parameter takes a value and nothing else, for {what.name!r}")
            values = values_of(value, what.shape, f"value of parameter {what.name!r}")
            self._put(self._par, what.index, values, f"value of parameter {what.name!r}", finite=True)
            return
        rows = isinstance(what, Rows)
        if not isinstance(what, Variables | Rows) or value is not None or (rows and start is not None):
            raise InputError(
                f"set takes a parameter and its value, or variables with start, lb or ub, or rows with lb or ub, "
                f"got {what!r:.60}"
            )
        index, label = np.asarray(what), what.name or ("rows" if rows else "variables")
        low, high = (self._cl, self._cu) if rows else (self._lb, self._ub)
        before = _joined(low)[index], _joined(high)[index]
        lower = before[0] if lb is None else spread(lb, index.shape, f"lb of {label!r}")
        upper = before[1] if ub is None else spread(ub, index.shape, f"ub of {label!r}")
        require_ordered(lower, upper, f"of {label!r}")
        self._put(low, index, lower, "lb")
        self._put(high, index, upper, "ub")
        if start is not None:
            self._put(self._start, index, start, f"start of {label!r}", finite=True)

    def __getitem__(self, name: str) -> Handle | Parameter:
        """Variables, rows or a parameter by name."""
        if name not in self._handles and name not in self._parameters:
            known = ", ".join([*self._parameters, *self._handles])
            raise InputError(f"the model has no {name!r}; it has {known}")
        return self._handles[name] if name in self._handles else self._parameters[name]

    # ------------------------------------------------------------------------------------------------- what is done

    def structure(self) -> Structure:
        """The compiled form, made when it is first needed and kept until variables or terms are added."""
        if self._structure is None:
            with double():
                self._structure = Structure(self._terms, self.n, self.m, self._numbers)
        return self._structure

    def problem(self) -> ModelProblem:
        """The model as it is now, as a problem for `auglag.minimize`, `auglag.certify` and everything else."""
        if not self.n:
            raise InputError("a model needs variables before it can be solved")
        bounds = _joined(self._lb).copy(), _joined(self._ub).copy()
        sides = _joined(self._cl).copy(), _joined(self._cu).copy()
        par, start = _joined(self._par).copy(), _joined(self._start)
        return ModelProblem(self.structure(), par, start, bounds, sides, self._handles, self.name)

    def solve(
        self, *, device: str | None = None, par: Mapping[str, Any] | None = None, warm_start: Any = None, **options: Any
    ) -> Solution:
        """Solve the model.

        Parameters
        ----------
        device : str
            None: `auglag.minimize` on the CPU, which takes the options. "gpu": interior points with all vectors on the
            GPU and cuDSS for linear systems (extra `gpu`). "cpu": the same on the CPU, with qdldl where it is
            installed. The two take the options `tol` and `budget` of `minimize` (steps are inner iterations), and
            `scaled_tol` (the error as IPOPT measures it, 1e-8), `linear_solver` ("cudss", "qdldl", "superlu"),
            `deterministic` (bit-equal repeats on a GPU, at some cost) and `watch(step, facts)`, which may return True
            to stop.
        par : mapping
            Values of parameters by name, for this solve alone: what `set` says holds before and after it.
        warm_start : Solution
            Start from an earlier solution and its multipliers.
        """
        problem = self._problem_for(par)
        if device is not None:
            return self._solve_on(device, problem, warm_start, options)
        if isinstance(warm_start, Solution):
            warm_start = warm_start.result if warm_start.result is not None else (warm_start.x, warm_start.y)
        return Solution.of_result(minimize(problem, warm_start=warm_start, **options), dict(self._handles))

    @suggesting
    def solve_batch(
        self,
        *,
        par: Mapping[str, Any],
        device: str = "cpu",
        warm_start: Solution | None = None,
        tol: Any = 1e-6,
        scaled_tol: float = 1e-8,
        slots: int | None = None,
        linear_solver: str | None = None,
        deterministic: bool = False,
    ) -> BatchSolution:
        """Solve the model for many parameter sets at once.

        `par` has new values by name: (batch, *shape of the parameter), and nothing is broadcast; other parameters keep
        their values. All
        start from the model's start values, or from `warm_start` and its multipliers. `slots` are solved at a time; one
        that has ended takes on the next. Those that do not end in the batch are solved one by one. Everything else is
        as in `solve` on a device.
        """
        problem = self.problem()
        rows = batch_of(par, self._parameters, problem.par)
        found, self._prepared = batch_solve(
            problem,
            rows,
            dict(self._handles),
            self._prepared,
            self._batches,
            device=device,
            start=begun_from(warm_start, problem),
            tol=tol,
            scaled_tol=scaled_tol,
            slots=slots,
            linear_solver=linear_solver,
            deterministic=deterministic,
        )
        return found

    def _solve_on(self, device: str, problem: ModelProblem, warm_start: Any, options: dict[str, Any]) -> Solution:
        known = ("tol", "scaled_tol", "budget", "linear_solver", "deterministic", "watch")
        for name in options:
            if name not in known:
                hint = nearest(name, (*known, "device", "par", "warm_start"))
                raise OptionError(f"solve() on a device has no argument {name!r}{hint}")
        before = begun_from(warm_start, problem)
        found, self._prepared = on_device(problem, self._prepared, device=device, warm_start=before, **options)
        return Solution.of_device(found, dict(self._handles))

    def _problem_for(self, par: Mapping[str, Any] | None) -> ModelProblem:
        """The problem with other values of some parameters; the model keeps its own."""
        kept = _joined(self._par).copy()
        try:
            for name, value in by_name(par).items():
                self.set(name, value)
            return self.problem()
        finally:
            self._par[:] = [kept]

    # ----------------------------------------------------------------------------------------------------- details

    def _new_name(self, name: str | None, letter: str, what: str) -> str:
        taken = self._handles.keys() | self._parameters.keys()
        if name is None:
            return next(free for k in range(len(taken) + 1) if (free := f"{letter}{len(taken) + k}") not in taken)
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of {what} must be a string that is not empty, got {name!r}")
        if name in taken:
            raise InputError(f"names must differ, and {name!r} is taken")
        return name

    @in_double
    def _placed(self, what: str, fn: Callable[..., Any], index: Any, par: Any) -> tuple[Any, Any, Any]:
        if not callable(fn):
            raise InputError(f"the function of {what} must be callable, got {fn!r:.60}")
        if not isinstance(par, tuple | list):
            par = (par,)
        for kind, parts in (("index array", index), ("par", par)):
            for i, part in enumerate(parts):
                require_own(f"{kind} {i} of {what}", part, self._owner)
        shape, *placed = terms.place(what, index, tuple(par), self.n)
        return shape, output_shape(fn, what, len(index), len(par)), tuple(placed)

    @in_double
    def _add(self, what: str, fn: Any, placed: Any, rows: Any, outputs: int) -> None:
        self._terms.append(terms.make(what, fn, placed, rows, outputs))
        self._structure = None

    def _put(self, store: list[Vector], index: Any, value: Any, what: str, *, finite: bool = False) -> None:
        whole = _joined(store)
        whole[index] = spread(value, index.shape, what, finite=finite)


def _joined(store: list[Vector]) -> Vector:
    """All parts as one array, which replaces them."""
    if len(store) != 1:
        store[:] = [np.concatenate(store)]
    return store[0]


def _append(store: list[Vector], part: Vector) -> None:
    store.append(part.copy())
