"""Other ways to train under constraints, each as one class: the weights of the constraints, and what moves afterwards.

Runs of many settings and seeds go side by side: every tensor has a leading axis of runs, so that a step of 100 small
models costs little more than one of ten. Two-sided constraints are two inequalities; equalities have multipliers of any
sign. All rates fall linearly to zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from trainings.tasks import Task

#: Primal optimisers of the grids.
PRIMAL = [("SGD", 0.3), ("SGD", 1.0), ("Adam", 0.003), ("Adam", 0.01), ("Adam", 0.03)]
BATCHES = (16, 64, 256)
Settings = dict[str, Any]


class Sides:
    """h <= 0 (or = 0) for every finite side; values have their constraints in the last axis."""

    def __init__(self, task: Task) -> None:
        same = task.lower == task.upper
        self.up = torch.as_tensor(np.flatnonzero(np.isfinite(task.upper)))
        self.low = torch.as_tensor(np.flatnonzero(np.isfinite(task.lower) & ~same))
        self.upper = torch.as_tensor(task.upper[self.up.numpy()], dtype=torch.float32)
        self.lower = torch.as_tensor(task.lower[self.low.numpy()], dtype=torch.float32)
        self.equal = torch.cat([torch.as_tensor(same[self.up.numpy()]), torch.zeros(len(self.low), dtype=torch.bool)])
        self.m, self.n = task.m, len(self.equal)

    def of(self, c: Any) -> Any:
        return torch.cat([c[..., self.up] - self.upper, self.lower - c[..., self.low]], -1)

    def positive(self, y: Any) -> Any:
        """The projection of multipliers (or of h, for penalties)."""
        return torch.where(self.equal, y, y.clamp_min(0.0))

    def multipliers(self, y: Any) -> Any:
        """In the sign L = f + y'c, one per constraint."""
        found = y.new_zeros(*y.shape[:-1], self.m).index_add(-1, self.up, y[..., : len(self.up)])
        return found.index_add(-1, self.low, -y[..., len(self.up) :])


class Rival:
    """Steps along grad f + J'(weights of h); `after` moves the multipliers. Settings are columns, one row per run."""

    evaluations: ClassVar[int] = 1  #: of every row of a batch; 2: recursive momentum
    keep: ClassVar[float] = 0.0  #: of d in d <- grad(x; xi) + keep (d - grad(x before; xi))
    longest: ClassVar[float] = math.inf  #: d is clipped to this norm
    restart: ClassVar[int] = 0  #: d and estimates start again after so many steps; 0: never

    def __init__(self, sides: Sides, settings: Sequence[Settings]) -> None:
        self.sides = sides
        names = [name for name in settings[0] if name not in ("primal", "batch")]
        self.s = {name: torch.tensor([[float(s[name])] for s in settings]) for name in names}
        self.rate = torch.tensor([[s["primal"][1]] for s in settings])
        self.y = torch.zeros(len(settings), sides.n)

    def weights(self, h: Any) -> Any:
        raise NotImplementedError

    def pull(self, x: Any) -> Any:
        """What else is added to the gradient."""
        return 0.0

    def after(self, h: Any, x: Any, fall: float) -> None:
        """The multipliers after the step to x; h from before it."""

    def again(self) -> None:
        """Estimates start again."""


class Lagrangian(Rival):
    """Simultaneous descent and ascent on f + y'h (Cooper's Lagrangian)."""

    def weights(self, h: Any) -> Any:
        return self.y

    def after(self, h: Any, x: Any, fall: float) -> None:
        self.y = self.sides.positive(self.y + self.s["dual"] * fall * h)


class Augmented(Lagrangian):
    """The same with rho/2 ||h_+||^2 (Cooper's augmented Lagrangian)."""

    def weights(self, h: Any) -> Any:
        return self.y + self.s["penalty"] * self.sides.positive(h)


class NuPI(Lagrangian):
    """nuPI (Sohrabi et al., ICML 2024): integral steps and proportional ones on a moving average of h, nu = 0.9."""

    xi: Any = None

    def after(self, h: Any, x: Any, fall: float) -> None:
        new = h if self.xi is None else 0.9 * self.xi + 0.1 * h
        change = h + self.s["kp"] * (new - (h if self.xi is None else self.xi))
        self.y, self.xi = self.sides.positive(self.y + self.s["dual"] * fall * change), new


class Fixed(Rival):
    """f + rho/2 ||h_+||^2 with one rho."""

    def weights(self, h: Any) -> Any:
        self.y = self.s["penalty"] * self.sides.positive(h)
        return self.y


class Smoothed(Rival):
    """SSL-ALM (Huang, Zhang and Alacaoglu 2025): a linearised augmented Lagrangian, smoothed by mu/2 |x - z|^2."""

    z: Any = None

    def weights(self, h: Any) -> Any:
        return self.sides.positive(self.y + self.s["penalty"] * h)

    def pull(self, x: Any) -> Any:
        self.z = x.clone() if self.z is None else self.z
        return self.s["mu"] * (x - self.z)

    def after(self, h: Any, x: Any, fall: float) -> None:
        self.y = self.y + self.s["dual"] * fall / self.s["penalty"] * (self.weights(h) - self.y)
        self.z = self.z + 0.5 * self.rate.clamp_max(1.0) * (x - self.z)


class Momentum(Rival):
    """MLALM (Shi, Wang and Wang 2022): the linearised augmented Lagrangian with recursive momentum, y + theta h."""

    evaluations, keep = 2, 0.9

    def weights(self, h: Any) -> Any:
        return self.sides.positive(self.y + self.s["penalty"] * h)

    def after(self, h: Any, x: Any, fall: float) -> None:
        self.y = self.sides.positive(self.y + self.s["dual"] * fall * h)


class Spider(Rival):
    """A SPIDER-type penalty method (after Liu and Xu 2025): an exact penalty rho h_+, with h tracked over 32 steps."""

    evaluations, keep, restart = 2, 1.0, 32
    u: Any = None

    def weights(self, h: Any) -> Any:
        u = h if self.u is None else self.u
        self.y = self.s["penalty"] * torch.where(self.sides.equal, u.sign(), (u > 0).float())
        return self.y

    def after(self, h: Any, x: Any, fall: float) -> None:
        self.u = h if self.u is None else self.u + 0.1 * (h - self.u)

    def again(self) -> None:
        self.u = None


class Adaptive(Rival):
    """After AdaSSP (adaptive single-loop stochastic penalty, 2025): recursive momentum, clipped, and rho that grows.

    Its abstract is what we know: rho grows by half after every 50 steps in which the mean violation did not halve.
    """

    evaluations, keep, longest = 2, 0.9, 10.0

    def __init__(self, sides: Sides, settings: Sequence[Settings]) -> None:
        super().__init__(sides, settings)
        self.rho, self.seen, self.total, self.last = self.s["penalty"], 0, 0.0, torch.tensor(math.inf)

    def weights(self, h: Any) -> Any:
        self.y = self.rho * self.sides.positive(h)
        return self.y

    def after(self, h: Any, x: Any, fall: float) -> None:
        self.seen, self.total = self.seen + 1, self.total + self.sides.positive(h).norm(dim=-1, keepdim=True)
        if self.seen == 50:
            self.rho = torch.where(self.total > 0.5 * self.last, 1.5 * self.rho, self.rho)
            self.seen, self.total, self.last = 0, 0.0, self.total


def grid(**options: Any) -> list[Settings]:
    """All combinations."""
    options = {"primal": PRIMAL, "batch": BATCHES, **options}
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


#: Name -> (class, grid). One line adds another.
RIVALS: dict[str, tuple[type[Rival], list[Settings]]] = {
    "Lagrangian (Cooper)": (Lagrangian, grid(dual=(0.01, 0.1, 0.5))),
    "augmented Lagrangian (Cooper)": (Augmented, grid(dual=(0.01, 0.1), penalty=(1.0, 10.0))),
    "nuPI (Cooper)": (NuPI, grid(dual=(0.01, 0.1), kp=(1.0, 10.0))),
    "fixed penalty": (Fixed, grid(penalty=(1.0, 10.0, 100.0))),
    "SSL-ALM": (Smoothed, grid(dual=(0.01, 0.1), penalty=(1.0, 10.0), mu=(0.1,))),
    "MLALM": (Momentum, grid(dual=(0.01, 0.1), penalty=(1.0, 10.0))),
    "SPIDER penalty": (Spider, grid(penalty=(1.0, 3.0))),
    "AdaSSP": (Adaptive, grid(penalty=(1.0, 10.0))),
}

Job = tuple[str, Settings, int]  #: a rival, its settings, a seed


class Fleet:
    """Runs of one kind of task, batch size and number of evaluations, side by side."""

    def __init__(self, jobs: Sequence[Job], tasks: dict[int, Task]) -> None:
        self.order = sorted(range(len(jobs)), key=lambda i: jobs[i][0])  #: rivals of one name are neighbours
        jobs = [jobs[i] for i in self.order]
        seeds = list(dict.fromkeys(seed for _, _, seed in jobs))
        self.tasks, first = [tasks[seed] for seed in seeds], tasks[seeds[0]]
        self.rows, self.batch = first.rows, min(jobs[0][1]["batch"], first.rows)
        self.of_task = torch.tensor([seeds.index(seed) for _, _, seed in jobs])
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.data = [torch.stack(parts) for parts in zip(*(task.data for task in self.tasks), strict=True)]
        self._split(first)
        self.sides = Sides(first)
        groups = [(name, [s for _, s, _ in group]) for name, group in itertools.groupby(jobs, key=lambda job: job[0])]
        self.rivals = [RIVALS[name][0](self.sides, settings) for name, settings in groups]
        self.counts = [len(settings) for _, settings in groups]
        self.adam = torch.tensor([[s["primal"][0] == "Adam"] for _, s, _ in jobs])
        self.rate = torch.tensor([[s["primal"][1]] for _, s, _ in jobs])
        self.mean, self.squares = torch.zeros_like(self.x), torch.zeros_like(self.x)

    def _split(self, first: Task) -> None:
        """One row of parameters for every run, and the functions of all runs as one function of them."""
        model, both = first.model, first.both
        shapes = {name: p.shape for name, p in model.named_parameters()}
        start = [torch.cat([p.detach().reshape(-1) for p in task.model.parameters()]) for task in self.tasks]
        self.x = torch.stack(start)[self.of_task]
        each = [dict(task.model.named_buffers()) for task in self.tasks]
        buffers = {name: torch.stack([b[name] for b in each])[self.of_task] for name in each[0]}

        class Whole(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, batch: Any) -> Any:
                return both(self.model, batch)

        whole = Whole()

        def one(x: Any, extra: Any, batch: Any) -> Any:
            parts = dict(zip(shapes, x.split([s.numel() for s in shapes.values()]), strict=True))
            named = {f"model.{name}": parts[name].view(shape) for name, shape in shapes.items()}
            named |= {f"model.{name}": value for name, value in extra.items()}
            return torch.func.functional_call(whole, named, (batch,))

        side_by_side = torch.func.vmap(one, in_dims=(0, 0, None if len(self.tasks) == 1 else 0))
        self.functions = lambda x, batch: side_by_side(x, buffers, batch)

    def gradients(self, x: Any, batch: Any) -> tuple[Any, Any]:
        """grad f + J'w of every run, and h."""
        x = x.detach().requires_grad_(True)
        f, c = self.functions(x, batch)
        h = self.sides.of(c)
        parts = zip(self.rivals, h.detach().split(self.counts), x.detach().split(self.counts), strict=True)
        w, pull = zip(*((rival.weights(part), rival.pull(y)) for rival, part, y in parts), strict=True)
        (found,) = torch.autograd.grad((f, h), x, (torch.ones_like(f), torch.cat(w)))
        return torch.cat([g + p for g, p in zip(found.split(self.counts), pull, strict=True)]), h.detach()

    def run(self, passes: float) -> Any:
        """The parameters of every run after so many passes."""
        evaluations = self.rivals[0].evaluations
        steps = max(1, int(passes * self.rows / (self.batch * evaluations)))
        at_row = self.rows
        for t in range(steps):
            if at_row + self.batch > self.rows:
                rows, at_row = torch.stack([torch.randperm(self.rows, generator=g) for g in self.generators]), 0
            batch = self._batch(rows[:, at_row : at_row + self.batch])
            at_row += self.batch
            for rival in self.rivals:
                if rival.restart and t % rival.restart == 0:
                    rival.again()
            g, h = self.gradients(self.x, batch)
            fall = max(1.0 - t / steps, 1e-3)
            self._step(self._recursive(g, batch, t) if evaluations == 2 else g, t + 1, fall)
            for rival, part, x in zip(self.rivals, h.split(self.counts), self.x.split(self.counts), strict=True):
                rival.after(part, x, fall)
        return self.x

    def multipliers(self) -> list[np.ndarray]:
        """Of every run."""
        return list(self.sides.multipliers(torch.cat([rival.y for rival in self.rivals])).double().numpy())

    def _recursive(self, g: Any, batch: Any, t: int) -> Any:
        """d <- grad(x; xi) + keep (d - grad(x before; xi)), clipped."""
        keep, longest = self._column("keep"), self._column("longest")
        if t:
            old, _ = self.gradients(self.before, batch)
            restart = self._column("restart")
            goes_on = (restart == 0) | (t % restart.clamp_min(1.0) != 0)
            g = torch.where(goes_on, g + keep * (self.d - old), g)
        self.d, self.before = g, self.x
        return g * (longest / g.norm(dim=1, keepdim=True).clamp_min(1e-12)).clamp_max(1.0)

    def _column(self, name: str) -> Any:
        pairs = zip(self.rivals, self.counts, strict=True)
        return torch.cat([torch.full((n, 1), float(getattr(rival, name))) for rival, n in pairs])

    def _batch(self, index: Any) -> tuple[Any, ...]:
        if len(self.tasks) == 1:
            return tuple(t[0][index[0]] for t in self.data)
        batches = [t[torch.arange(len(self.tasks))[:, None], index] for t in self.data]
        return tuple(t[self.of_task] for t in batches)

    def _step(self, g: Any, t: int, fall: float) -> None:
        """SGD, or Adam with the constants of PyTorch."""
        self.mean = self.mean + 0.1 * (g - self.mean)
        self.squares = self.squares + 0.001 * (g * g - self.squares)
        scaled = (self.mean / (1.0 - 0.9**t)) / ((self.squares / (1.0 - 0.999**t)).sqrt() + 1e-8)
        self.x = self.x - self.rate * fall * torch.where(self.adam, scaled, g)


def race(jobs: Sequence[Job], task: str, passes: float, *, rough: bool = False) -> list[dict[str, float]]:
    """The numbers of runs (rival, settings, seed) after so many passes.

    `rough`: runs whose violation alone is 1.5 times the smallest R of their rival and seed have that for R.
    """
    tasks = {seed: Task(task, seed) for seed in dict.fromkeys(seed for _, _, seed in jobs)}
    kinds: dict[tuple[int, int], list[int]] = {}
    for i, (name, settings, _) in enumerate(jobs):
        kinds.setdefault((settings["batch"], RIVALS[name][0].evaluations), []).append(i)
    found: dict[int, dict[str, float]] = {}
    fleets = {kind: Fleet([jobs[i] for i in index], tasks) for kind, index in kinds.items()}  # all from the start
    for kind, fleet in fleets.items():
        xs, ys = fleet.run(passes), fleet.multipliers()
        ends = {kinds[kind][i]: (x, y) for i, x, y in zip(fleet.order, xs, ys, strict=True)}
        found |= _measured(jobs, ends, tasks, rough)
    return [found[i] for i in range(len(jobs))]


def _measured(jobs: Sequence[Job], ends: dict[int, Any], tasks: dict[int, Task], rough: bool) -> dict[int, Any]:
    """The numbers at the ends of runs; roughly: R where the violation allows it to be among the smallest."""

    def at(i: int, enough: float) -> dict[str, float]:
        task, (x, y) = tasks[jobs[i][2]], ends[i]
        torch.nn.utils.vector_to_parameters(x, task.model.parameters())
        return task.measure(y, enough)

    if not rough:
        return {i: at(i, math.inf) for i in ends}
    found = {i: at(i, 0.0) for i in ends}
    best: dict[tuple[str, int], float] = {}
    for i in sorted(ends, key=lambda i: found[i]["violation"]):
        name, _, seed = jobs[i]
        if found[i]["violation"] <= 1.5 * best.get((name, seed), math.inf):
            found[i] = at(i, math.inf)
            best[name, seed] = min(best.get((name, seed), math.inf), found[i]["residual"])
    return found
