"""Full-batch values and gradients, streamed in chunks on the parameters' device, shared out over the processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from auglag._typing import Vector
from auglag.errors import InputError
from auglag.stochastic.limits import Ledger
from auglag.torch.data import Source, rows_of
from auglag.torch.distributed import Team
from auglag.torch.functions import Functions
from auglag.torch.tuning import TUNING
from auglag.torch.variables import Variables

Tensor = Any


@final
@dataclass(frozen=True, slots=True)
class Values:
    """f and c over all rows at the point x."""

    x: Tensor
    f: float
    c: Vector

    @property
    def finite(self) -> bool:
        """Whether all numbers are finite, and small enough for squares."""
        return bool(abs(self.f) + float(np.max(np.abs(self.c), initial=0.0)) < 1e150)


@final
@dataclass(frozen=True, slots=True)
class Gradients:
    """What one pass over all rows has found at a point."""

    values: Values
    of: list[Tensor]  #: grad f + J'w, one for each of the weights asked for
    jacobian: Tensor | None  #: J, where it was asked for


@final
class FullBatch:
    """f, c and grad f + J'w over all rows. Every row of every pass is counted, with or without gradients."""

    def __init__(self, variables: Variables, functions: Functions, source: Source, team: Team, ledger: Ledger) -> None:
        self.variables, self.functions, self.source = variables, functions, source
        self.team, self.ledger = team, ledger
        self.rows = source.rows
        self._known: dict[int, Values] = {}
        self.free: set[int] = set()  #: points whose next gradient was paid for before a resume
        self.keep = False  #: keep the graph of the last point where one holds all rows: other weights are no evaluation
        self._graph: tuple[Tensor, int, Tensor, Tensor | None] | None = None

    def values(self, x: Tensor) -> Values:
        """f and c at x: one pass without gradients, or from memory."""
        found = self._known.get(id(x))
        if found is None:
            with self.functions.testing(), torch.no_grad():
                self._place(x)
                sums = None
                for batch in self.source.chunks():
                    rows = rows_of(batch)
                    part = self._stack(rows, *self.functions.both(batch))
                    sums = part if sums is None else sums + part
            found = self._remember(x, self._means(sums))
        return found

    def at(self, x: Tensor, weights: Callable[[Vector], Vector]) -> tuple[Values, Tensor]:
        """Values at x, and grad f + J'w there with w = weights(c).

        Where all rows are in one graph this is one pass; else one for the values and one for the gradient.
        """
        if self._graph is not None and self._graph[0] is x and id(x) in self._known:
            values, (_, rows, f, c) = self._known[id(x)], self._graph
            return values, self.team.sum_(self._backward(rows, f, c, weights(values.c), keep=True))
        known = id(x) in self._known
        if not self.source.single or (known and not (self.keep and id(x) in self.free)):
            values = self.values(x)
            return values, self._gradient(x, weights(values.c))
        with self.functions.testing():
            self._place(x)
            batch = next(iter(self.source.chunks()))
            rows = rows_of(batch)
            f, c = self.functions.both(batch)
            if known:
                values = self._known[id(x)]  # paid for before a resume
            else:
                stacked = self._stack(rows, f.detach(), None if c is None else c.detach())
                values = self._remember(x, self._means(stacked))
            gradient = self._backward(rows, f, c, weights(values.c), keep=self.keep)
            self._graph = (x, rows, f, c) if self.keep else None
        return values, self.team.sum_(gradient)

    def together(self, x: Tensor, weights: Sequence[Vector], *, jacobian: bool = False) -> Gradients:
        """Values at x, grad f + J'w for each of these weights, and J if it is wanted: one pass, whatever their number.

        Weights that are known beforehand need no values first, so that each chunk has one graph for all of them.
        """
        sums, found, kept = None, None, self._graph
        if kept is not None and kept[0] is x and id(x) in self._known:
            _, rows, f, c = kept
            gradients = self._all(rows, f, c, weights, jacobian)
            return self._sorted(self._known[id(x)], gradients, len(weights))
        if self.rows is None:  # shares of chunks are not known yet
            self.values(x)
        with self.functions.testing():
            self._place(x)
            for batch in self.source.chunks():
                rows = rows_of(batch)
                f, c = self.functions.both(batch)
                part = self._stack(rows, f.detach(), None if c is None else c.detach())
                sums = part if sums is None else sums + part
                keep = self.keep and self.source.single
                gradients = self._all(rows, f, c, weights, jacobian)
                found = gradients if found is None else [a + b for a, b in zip(found, gradients, strict=True)]
                self._graph = (x, rows, f, c) if keep else None
        values = self._remember(x, self._means(sums))
        return self._sorted(values, found or [], len(weights))

    def _all(self, rows: int, f: Tensor, c: Tensor | None, weights: Sequence[Vector], jacobian: bool) -> list[Tensor]:
        """This chunk's share of the gradients, the Jacobian's rows behind them."""
        found = [self._backward(rows, f, c, w, keep=True) for w in weights]
        if jacobian and c is not None:
            none, zero = torch.zeros((), dtype=c.dtype, device=c.device), torch.zeros_like(found[0])
            for unit in np.eye(c.numel()):  # every process has as many rows, be they zeros
                found.append(self._backward(rows, none, c, unit, keep=True) if c.requires_grad else zero)
        return found

    def _sorted(self, values: Values, found: Sequence[Tensor], count: int) -> Gradients:
        summed = [self.team.sum_(g) for g in found]
        return Gradients(values, summed[:count], torch.stack(summed[count:]) if summed[count:] else None)

    def stuck(self, x: Tensor) -> str:
        """A constraint that is violated on the first chunk and has a gradient of zeros there, or nothing."""
        layout, params = self.functions.layout, self.variables.params
        with self.functions.testing(), torch.enable_grad():
            if self._graph is not None and self._graph[0] is x:
                c = self._graph[3]
            else:
                self._place(x)
                batch = next(iter(self.source.chunks()))
                rows = torch.tensor(float(rows_of(batch)), device=x.device)
                self.ledger.rows += round(float(self.team.sum_(rows)))  # what is used is the same in every process
                _, c = self.functions.both(batch)
            if c is None or not c.requires_grad:
                return ""
            numbers = c.detach().double().cpu().numpy()
            off = np.maximum(layout.lower - numbers, numbers - layout.upper)
            for i in map(int, np.argsort(-off)[: TUNING.looked_at]):
                gradients = torch.autograd.grad(c[i], params, retain_graph=True, allow_unused=True)
                if off[i] > 0.0 and not any(bool(g.any()) for g in gradients if g is not None):
                    return layout.names()[i]
        return ""

    def _gradient(self, x: Tensor, w: Vector) -> Tensor:
        total = torch.zeros(self.variables.n, dtype=self.variables.dtype, device=self.variables.device)
        with self.functions.testing():
            self._place(x)
            for batch in self.source.chunks():
                total += self._backward(rows_of(batch), *self.functions.both(batch), w)
        if id(x) in self.free:
            self.free.discard(id(x))
        else:
            self.ledger.rows += self.rows or 0
        return self.team.sum_(total)

    def _place(self, x: Tensor) -> None:
        """Put the model at x; every process tests one model, so running means of a batch norm are those of rank 0."""
        self._graph = None  # its weights are written over
        self.variables.write(x)
        if not self.team.alone:
            for buffer in self.functions.model.buffers():
                if buffer.is_floating_point():
                    buffer.copy_(self.team.from_first_(buffer.detach().clone()))

    def _backward(self, rows: int, f: Tensor, c: Tensor | None, w: Vector, keep: bool = False) -> Tensor:
        """This chunk's share of grad f + J'w; `keep` the graph for other weights."""
        if c is not None:
            f = f + (torch.as_tensor(w, dtype=c.dtype, device=c.device) * c).sum()
        return self.variables.flatten(self.variables.gradients(f * (rows / (self.rows or rows)), keep=keep))

    def _stack(self, rows: int, f: Tensor, c: Tensor | None) -> Tensor:
        """(rows, rows f, rows c): sums of these over chunks and processes make means."""
        wide = self.variables.wide
        parts = [torch.ones(1, dtype=wide, device=f.device), f.reshape(1).to(wide)]
        if c is not None:
            parts.append(c.to(wide))
        return rows * torch.cat(parts)

    def _means(self, sums: Tensor | None) -> list[float]:
        if sums is None:
            raise InputError("data must yield at least one batch, got none")
        numbers = self.team.agree(self.team.sum_(sums).tolist())
        rows = round(numbers[0])
        if self.rows is None:
            self.rows = rows
        elif rows != self.rows:
            raise InputError(f"data must yield the same rows in every pass, {self.rows}, got {rows}")
        return [number / rows for number in numbers[1:]]

    def _remember(self, x: Tensor, means: list[float]) -> Values:
        self.ledger.rows += self.rows or 0
        self.ledger.tests += 1
        values = Values(x, means[0], np.array(means[1:]))
        while len(self._known) >= TUNING.cached_points:
            del self._known[next(iter(self._known))]
        self._known[id(x)] = values
        return values

    def known(self, x: Tensor) -> Values | None:
        """The values at x, if they are still in memory."""
        return self._known.get(id(x))

    def remember(self, values: Values) -> None:
        """Keep values that were paid for before (a run that is resumed)."""
        self._known[id(values.x)] = values
