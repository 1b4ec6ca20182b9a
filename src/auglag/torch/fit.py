"""The front door: `auglag.torch.fit`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from auglag._names import suggesting_for
from auglag.algorithm.rules import DualRule, PenaltyRule, ToleranceRule
from auglag.errors import InputError, integer_or_none, require_integer, require_positive
from auglag.log import JsonLog
from auglag.persist.checkpoint import saved, usable_path
from auglag.report import logger
from auglag.stochastic.limits import Limits
from auglag.stochastic.progress import Table
from auglag.stochastic.settings import controller_for, given_rules
from auglag.strategy.hooks import Hooks
from auglag.torch.constraints import Constraint
from auglag.torch.context import Context
from auglag.torch.data import as_source
from auglag.torch.distributed import Team
from auglag.torch.full_batch_methods import LBFGS
from auglag.torch.functions import Functions
from auglag.torch.methods import Method
from auglag.torch.prox import ProxMap, Term
from auglag.torch.result import TrainingResult
from auglag.torch.run import train
from auglag.torch.settings import by_name, choose, defaults
from auglag.torch.single_loop_run import SingleLoopMethod
from auglag.torch.tuning import TUNING
from auglag.torch.variables import Variables


@suggesting_for({"n_epochs": "max_epochs", "num_epochs": "max_epochs"})
def fit(
    model: Any,
    objective: Callable[[Any, Any], Any],
    constraints: Mapping[str, Constraint],
    data: Any,
    *,
    method: Any = "auto",
    tol: float = 1e-3,
    batch: int | None = None,
    epochs: Any = None,
    prox: Sequence[tuple[Any, Term]] = (),
    seed: int = 0,
    max_epochs: float | None = 1000.0,
    max_gradients: int | None = None,
    max_seconds: float | None = None,
    max_outer: int | None = 10_000,
    y0: Any = None,
    penalty: PenaltyRule | None = None,
    dual: DualRule | None = None,
    tolerance: ToleranceRule | None = None,
    chunk: int | None = None,
    autocast: Any = None,
    check_means: bool = True,
    callback: Callable[[dict[str, Any]], Any] | JsonLog | None = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> TrainingResult:
    """Train a model under constraints: Algorithm 1 outside, Algorithm 2 or full-batch L-BFGS inside; or a single loop.

    Parameters
    ----------
    model : torch.nn.Module
        Its parameters with `requires_grad` are the variables; it is left at the accepted point, or as it was if
        anything raises (an exception of your functions then has the result so far as `error.best`). A model
        wrapped in DistributedDataParallel is unwrapped; reductions are made here.
    objective : callable
        `objective(model, batch)` returns a scalar tensor, a mean over the rows of the batch.
    constraints : dict
        Name -> `at_most(bound, function)`, `at_least(...)`, `equal(...)`, `between(...)`; `function(model, batch)`
        returns a number or a vector, a mean over the batch. Without functions, `objective` returns (loss, values), so
        that one forward pass serves both.
    data : tensors, Dataset, DataLoader or re-iterable
        Tensors (a tuple or dictionary of them) share their first axis. Of a DataLoader the dataset, collation, workers
        and batch size are used: full-batch tests stream through it in chunks of that size.
    method : str, object or factory
        "auto": "single-loop" where `max_epochs` is at most 200, the model has 20,000 parameters or more, full batches
        are not affordable or the model has dropout or batch norm in training mode, or `batch` is given; else "lbfgs"
        (with many rows after a few passes of sampled Adam, and `result.method` says so). `epochs`, `penalty`, `dual`
        and `tolerance` ask for Algorithm 1, and "adam", "svrg" or "sgd" where "lbfgs" is not affordable. "single-loop"
        moves multipliers with every sampled step; full batches follow where 15 passes or more are allowed. "lbfgs"
        evaluates full batches and draws no samples; "svrg", "sgd", "pstorm" and "adam" are sampled. A factory such as
        `lambda params: torch.optim.AdamW(params, lr=1e-3)` makes any optimiser the method.
    tol : float
        Success means certificate.residual <= tol.
    batch : int
        Rows of a batch, in all processes together; two independent ones are drawn for every step.
    epochs : AdaptiveEpochs or FixedEpochs
        How long a sampled method runs on each subproblem: Algorithm 2, or so many epochs. (For the passes of the whole
        run see `max_epochs`.)
    prox : sequence of (parameters, term)
        Prox terms of `auglag.torch`: L1, GroupL2, NuclearNorm, Box. Parameters are given as such or by a pattern of
        their names such as "encoder.*.weight".
    seed : int
        All randomness of the run follows from it, dropout's included.
    max_epochs : float
        The most passes over the data; every row evaluation counts, those of tests and of the certificate too. The best
        point is returned, certified. (The single loop makes at least two thirds of a small budget steps: 3 end at 4.)
    max_gradients : int
        The most stochastic gradients.
    max_seconds : float
        The most seconds.
    max_outer : int
        The most outer iterations.
    y0 : dict or array_like
        Multipliers to start from (0).
    penalty : PenaltyRule
        How the penalty grows, as in `auglag.minimize`.
    dual : DualRule
        The step of the multipliers, as in `auglag.minimize`.
    tolerance : ToleranceRule
        How exactly subproblems are solved, as in `auglag.minimize`.
    chunk : int
        Rows per chunk of a full-batch pass; by default the loader's batch size, or 8 MB of rows.
    autocast : torch.dtype
        torch.bfloat16: sampled steps run under autocast. Tests never do.
    check_means : bool
        Compare `objective` and `constraints` on some rows near the start with the mean of their values on two parts of
        these rows. Sums, and constraints that are ratios of means, raise `InputError` unless a chunk holds all rows,
        for tests would measure another problem; what else depends on the batch is a warning.
    callback : callable
        Called on rank 0 with the row of the trace after every full-batch test; return True or raise StopIteration to
        stop. `auglag.torch.TensorBoard(writer)` is one, and so is `auglag.JsonLog(path)`, for `auglag watch`.
    progress : bool
        Print a line per full-batch test (rank 0).
    checkpoint : path
        A file to which the state is saved after every test of a sampled method, or every outer iteration.
    resume : path
        Go on from a saved state, bit for bit.

    Returns
    -------
    TrainingResult
        With `certificate`, `multipliers` by name, `trace`, `advice` and `explain()`.

    Examples
    --------
    A line through data, whose slope is at most 1:

    >>> import torch, auglag.torch
    >>> x = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> model = torch.nn.Linear(1, 1, dtype=torch.float64)
    >>> loss = lambda model, batch: ((model(batch[0]) - 2 * batch[0]) ** 2).mean()
    >>> slope = auglag.torch.at_most(1.0, lambda model, batch: model.weight[0, 0], exact=True)
    >>> result = auglag.torch.fit(model, loss, {"slope": slope}, (x,))
    >>> result.success, round(model.weight.item(), 2)
    (True, 1.0)
    """
    require_positive(tol, "tol")
    require_integer(seed, "seed", 0)
    integer_or_none(batch, "batch")
    integer_or_none(chunk, "chunk")
    limits = Limits.of(max_epochs=max_epochs, max_gradients=max_gradients, max_seconds=max_seconds, max_outer=max_outer)
    if autocast not in (None, torch.bfloat16):
        raise InputError(f"autocast must be None or torch.bfloat16, got {autocast!r}; float16 needs a GradScaler and "
                         "your own loop")  # fmt: skip
    model = unwrapped(model)
    variables = Variables(model.named_parameters())
    team = Team(variables.device, checkpoint)
    if team.rank == 0:  # the only one that saves
        usable_path(checkpoint, "checkpoint")
    functions = Functions(model, objective, constraints, variables, autocast)
    source = as_source(data, team, chunk)
    if batch is not None and source.rows is not None and batch > source.rows:
        raise InputError(f"batch must be at most the number of rows, {source.rows}, got {batch}")
    terms = ProxMap(variables, prox)
    if isinstance(method, str) and method == "auto":
        rules = any(rule is not None for rule in (penalty, dual, tolerance, epochs))
        sampled, short = batch is not None or epochs is not None, _short(max_epochs, resume)
        method = choose(functions, source, terms, team, sampled=sampled, algorithm1=rules, short=short)
    chosen = by_name(method, batch)
    if not isinstance(chosen, LBFGS) and chosen.batch is not None and chosen.batch < team.size:
        raise InputError(f"batch must be at least the number of processes, {team.size}, got {chosen.batch}")
    changes = given_rules(penalty, dual, tolerance)
    if epochs is not None and not isinstance(chosen, Method):
        raise InputError(f"epochs is for methods under Algorithm 2, got method={chosen.name!r}: it has max_epochs")
    base = defaults(chosen)
    controller = base.controller if epochs is None else controller_for(epochs)
    settings = replace(base, **changes, controller=controller)
    stream = logger.output(progress)
    table = None if stream is None else Table(stream)
    log, callback = (callback, callback.callback) if isinstance(callback, JsonLog) else (None, callback)
    if team.rank == 0:
        hooks = Hooks(callback, table, table.end if table is not None else None, checkpoint, resume, log)
    else:
        hooks = Hooks(callback, resume=resume)
    context = Context(
        functions=functions,
        source=source,
        prox=terms,
        settings=settings,
        team=team,
        tol=float(tol),
        seed=int(seed),
        limits=limits,
        hooks=hooks,
        y0=y0,
        check_means=bool(check_means),
    )
    return train(context) if log is None else log.around(lambda: train(context), None)


def _short(max_epochs: float | None, resume: str | os.PathLike[str] | None) -> bool:
    """Whether passes are few; a run that goes on keeps to what it was, whatever its new budget."""
    if resume is not None:
        return SingleLoopMethod.__name__ in str(saved(resume, "settings"))
    return max_epochs is not None and max_epochs <= TUNING.short_budget


def unwrapped(model: Any) -> Any:
    """The module, without a wrapper that would reduce gradients a second time."""
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    return model.module if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
