# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""`fit(method="single-loop")` and `SingleLoop` in a loop of one's own."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

from torch.utils.data import DataLoader, TensorDataset

import auglag.torch as at
from auglag import CheckpointError, InputError, JsonLog
from auglag.torch import SingleLoop, SingleLoopMethod, at_most, between, equal, fit
from auglag.torch.single_loop import Core
from auglag.torch.single_loop_run import Sampled
from helpers.torch_problems import NeymanPearson, Vector, linear, network, rows

X, T = rows(2000)
NP = NeymanPearson(T)
ALARMS = {"false alarms": at_most(0.6, NP.false_alarms)}
POINTS = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 2.0


def projection(model: Any, batch: Any) -> Any:
    """mean ||x - a||^2 / 2 over the rows a, whose mean is about (2, 2)."""
    return 0.5 * ((model.x - batch) ** 2).sum(1).mean()


def test_a_few_passes_come_close_and_full_batches_reach_tol() -> None:
    few = fit(linear(), NP.objective, ALARMS, (X, T), method="single-loop", max_epochs=3)
    assert few.certificate.residual < 0.1
    assert few.certificate.violation < 0.05
    assert "nan" not in few.explain()
    model = linear()
    result = fit(model, NP.objective, ALARMS, (X, T), method="single-loop", tol=1e-6)
    assert result.success
    assert result.method == "single-loop"
    assert result.multipliers["false alarms"] > 0.1
    assert result.constraints["false alarms"] == pytest.approx(0.6, abs=1e-6)
    double = fit(linear(), NP.objective, ALARMS, (X, T), method="lbfgs", tol=1e-6)
    assert torch.allclose(result.x, double.x, atol=1e-4)
    assert result.nit == len(result.history) >= 20  # one virtual outer iteration per pass, then subproblems
    assert "single-loop" in result.explain()


@pytest.mark.parametrize("spoilt", [1e4, -1e4])
def test_full_batches_recover_from_multipliers_and_penalties_that_ran_away(
    monkeypatch: pytest.MonkeyPatch, spoilt: float
) -> None:
    monkeypatch.setattr(Sampled, "penalties", lambda self: (np.array([spoilt]), np.array([1e7])))
    monkeypatch.setattr(Core, "fitted", lambda self, gradient, y, c: y)
    result = fit(linear(), NP.objective, ALARMS, (X, T), method="single-loop", tol=1e-5, max_epochs=200)
    assert result.success
    assert result.penalty <= 100.0
    first = next(row for row in result.trace if row["accepted"])
    assert abs(first["multipliers"][0]) < 10.0


def test_full_batches_begin_where_the_multipliers_of_the_steps_make_r_smallest() -> None:
    seen: list[dict[str, Any]] = []
    result = fit(
        linear(), NP.objective, ALARMS, (X, T), method="single-loop", tol=1e-6, max_epochs=200, callback=seen.append
    )
    start = next(row for row in seen if row["k"] == 0)
    assert start["multipliers"][0] == pytest.approx(result.multipliers["false alarms"], rel=0.3)
    assert result.success
    assert result.penalty < 1e3


def test_equalities_and_exact_constraints_have_the_known_multipliers() -> None:
    # min ||x - mean||^2 / 2 s.t. x1 + x2 = 1 and x1 <= 0.2: x = (0.2, 0.8)
    model, mean = Vector([0.0, 0.0]), POINTS.mean(0)
    rules = {
        "sum": equal(1.0, lambda m, b: m.x.sum(), exact=True),
        "first": at_most(0.2, lambda m, b: m.x[0], exact=True),
    }
    result = fit(model, projection, rules, POINTS, method="single-loop", tol=1e-7)
    assert result.success
    assert model.x.detach().tolist() == pytest.approx([0.2, 0.8], abs=1e-6)
    assert result.multipliers["sum"] == pytest.approx(float(mean[1]) - 0.8, abs=1e-5)
    assert result.multipliers["first"] == pytest.approx(float(mean[0] - mean[1]) + 0.6, abs=1e-5)
    few = fit(
        Vector([0.0, 0.0]), projection, rules, POINTS, method=SingleLoopMethod(full=False, batch=25), max_epochs=10
    )
    assert few.certificate.violation < 1e-2
    assert few.certificate.residual < 0.05


def test_constraints_may_be_parameters_themselves() -> None:
    model = Vector([0.0, 0.0])
    result = fit(model, projection, {"x": equal([0.2, 0.8], lambda m, b: m.x)}, POINTS, method="single-loop", tol=1e-6)
    assert result.success
    assert model.x.tolist() == pytest.approx([0.2, 0.8], abs=1e-5)


def test_without_constraints_it_minimises() -> None:
    model = Vector([0.0, 0.0])
    assert fit(model, projection, {}, POINTS, method="single-loop", tol=1e-6).success
    assert torch.allclose(model.x, POINTS.mean(0), atol=1e-5)


def test_more_constraints_than_rows_of_a_jacobian_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 96
    monkeypatch.setattr(at.single_loop, "TUNING", dataclasses.replace(at.single_loop.TUNING, jacobian_numbers=32 * n))
    model = Vector([0.0] * n)
    data = torch.randn(600, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 1.0
    result = fit(
        model, projection, {"x": at_most(0.5, lambda m, b: m.x + 0.1 * (b - 1.0).mean(0))}, data,
        method=SingleLoopMethod(full=False), max_epochs=30, tol=0.2,
    )  # fmt: skip
    assert result.certificate.violation < 0.1
    assert np.abs(result.multipliers["x"]).max() < 1.5


def test_constraints_on_rare_rows_are_not_called_constant() -> None:
    # 40 groups of 10 rows, batches of 4: most of them have no row of a group when it is its Jacobian's turn.
    group = torch.arange(400) % 40

    def shares(model: Any, batch: Any) -> Any:
        return model.x.sum() * torch.nn.functional.one_hot(batch[1], 40).double().mean(0)

    def objective(model: Any, batch: Any) -> Any:
        return projection(model, batch[0])

    options: dict[str, Any] = {"method": SingleLoopMethod(batch=4), "max_epochs": 1.8}
    fit(Vector([0.1, 0.1]), objective, {"c": at_most(1.0, shares)}, (POINTS[:400], group), **options)
    # 200 groups of two rows: the last batches, over which values are averaged, lack many of them.
    group = torch.arange(400) % 200
    rare = {"c": at_most(1.0, lambda m, b: m.x.sum() * torch.nn.functional.one_hot(b[1], 200).double().mean(0))}
    fit(Vector([0.1, 0.1]), objective, rare, (POINTS[:400], group), **options)
    # A limit of less than a pass: many groups have not been seen.
    few = options | {"max_epochs": 0.5}
    fit(Vector([0.1, 0.1]), objective, rare, (POINTS[:400], group), **few)
    frozen = {"c": at_most(1.0, lambda m, b: torch.cat([m.x, 0.0 * m.x[:1] + 0.5]))}
    with pytest.raises(InputError, match=r"'c\[2\]' must change with the parameters"):
        fit(Vector([0.1, 0.1]), objective, frozen, (POINTS[:400], group), **options)


def test_boxes_and_norms_are_prox_terms_of_it() -> None:
    boxed = linear()
    result = fit(
        boxed, NP.objective, ALARMS, (X, T), method="single-loop", prox=[("weight", at.Box(-0.5, 0.5))], tol=1e-4,
        max_epochs=300,
    )  # fmt: skip
    assert result.success
    assert float(boxed.weight.detach().abs().max()) <= 0.5
    sparse = linear(8)
    Z, t = rows(2000, 8)
    Z[:, 4:] *= 0.01
    np_ = NeymanPearson(t)
    few = fit(
        sparse, np_.objective, {"c": at_most(0.6, np_.false_alarms)}, (Z, t), method=SingleLoopMethod(full=False),
        prox=[("weight", at.L1(0.05))], max_epochs=20,
    )  # fmt: skip
    assert (sparse.weight.detach()[0, 4:] == 0.0).all()
    assert few.certificate.residual < 0.1


def test_dropout_and_batch_norm_leave_it_to_sampled_rounds_that_grow() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1)
    ).double()
    result = fit(model, NP.objective, ALARMS, (X, T), method="single-loop", max_epochs=70, tol=1e-6)
    ends = [row["epochs"] for row in result.trace if row["steps"]]
    assert ends[0] == pytest.approx(21, abs=0.5)
    assert len(ends) >= 2
    assert result.certificate.violation < 0.1


# ------------------------------------------------------------------------------------------------------ save and resume


@pytest.mark.parametrize("kill_at", [7, 25])
def test_it_resumes_bit_for_bit(kill_at: int, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    options: dict[str, Any] = {"method": "single-loop", "tol": 1e-7, "max_epochs": 40, "seed": 5}
    whole = fit(network(), NP.objective, ALARMS, (X, T), **options)
    seen = 0

    class Killed(Exception):
        pass

    def dying(model: Any, batch: Any) -> Any:
        nonlocal seen
        seen += len(batch[0])
        if seen > kill_at * len(X):
            raise Killed
        return NP.objective(model, batch)

    model = network()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(Killed):
        fit(model, dying, ALARMS, (X, T), **options, checkpoint=path)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    resumed = fit(network(seed=9), NP.objective, ALARMS, (X, T), **options, resume=path)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.epochs == whole.epochs
    assert resumed.history == whole.history or str(resumed.history) == str(whole.history)


def test_loaders_datasets_and_tensors_walk_alike() -> None:
    data = torch.utils.data.TensorDataset(X, T)
    options: dict[str, Any] = {"method": "single-loop", "max_epochs": 2.0, "seed": 3}
    runs = [
        fit(linear(), NP.objective, ALARMS, given, **options)
        for given in ((X, T), data, torch.utils.data.DataLoader(data, batch_size=100))
    ]
    assert torch.allclose(runs[0].x, runs[1].x, atol=1e-12)
    assert torch.allclose(runs[0].x, runs[2].x, atol=1e-12)
    stream = [(X[i : i + 50], T[i : i + 50]) for i in range(0, 2000, 50)]
    assert fit(linear(), NP.objective, ALARMS, stream, **options | {"max_epochs": 10}).certificate.residual < 0.1


def test_a_log_has_the_tests_and_a_progress_table_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    log = tmp_path / "run.jsonl"
    fit(linear(), NP.objective, ALARMS, (X, T), method="single-loop", tol=1e-4, callback=JsonLog(log), progress=True)
    assert '"event":"test"' in log.read_text()
    assert "e-0" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------------------ bad input


def broken(model: Any, batch: Any) -> Any:
    """NaN on the batch that has row 7."""
    value = NP.objective(model, batch)
    return value * torch.where((batch[0] == X[7]).all(1).any(), torch.nan, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": broken}, "objective .* must be finite on every batch, got NaN or inf at step"),
        ({"constraints": {"c": at_most(0.6, lambda m, b: (m.weight * 0.0).sum() + b[0].mean())}}, "'c' must change"),
        ({"constraints": {"c": at_most(0.6, lambda m, b: b[0].mean())}}, "operations with derivatives"),
        ({"epochs": 3}, "epochs is for methods under Algorithm 2, got method='single-loop'"),
    ],
)
def test_bad_input_is_named_and_the_model_left_as_it_was(change: dict[str, Any], message: str) -> None:
    model = linear()
    before = copy.deepcopy(model.state_dict())
    given: dict[str, Any] = {"objective": NP.objective, "constraints": ALARMS, "data": (X, T), "method": "single-loop"}
    with pytest.raises((InputError, TypeError), match=message):
        fit(model, **given | change)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_methods_are_checked() -> None:
    with pytest.raises(InputError, match=r"SingleLoopMethod.rate must be positive"):
        SingleLoopMethod(rate=0.0)
    with pytest.raises(InputError, match=r"SingleLoopMethod.batch must be a positive integer"):
        SingleLoopMethod(batch=0)


# ------------------------------------------------------------------------------------------------------- one's own loop


def loader(shuffle: bool = True, batch: int = 50) -> Any:
    data = torch.utils.data.TensorDataset(X, T)
    generator = torch.Generator().manual_seed(4)
    return torch.utils.data.DataLoader(data, batch_size=batch, shuffle=shuffle, generator=generator)


def trained(model: Any, optimizer: Any, passes: int = 8, **options: Any) -> SingleLoop:
    batches = loader()
    al = SingleLoop(model, {"false alarms": at_most(0.6)}, optimizer=optimizer, data=batches, steps=passes * 40)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, al.annealing)
    for _ in range(passes):
        for batch in batches:
            optimizer.zero_grad()
            al.loss(*NP.both(model, batch)).backward()
            optimizer.step()
            al.step()
            schedule.step()
    al.settle()
    return al


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adam(p, lr=0.03, betas=(0.9, 0.99)),
        lambda p: torch.optim.AdamW(p, lr=0.03, weight_decay=1e-5),
        lambda p: torch.optim.SGD(p, lr=0.5),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.RMSprop(p, lr=0.01),
        lambda p: torch.optim.Adagrad(p, lr=0.3),
        lambda p: torch.optim.NAdam(p, lr=0.03),
    ],
    ids=["adam", "adamw", "sgd", "momentum", "rmsprop", "adagrad", "nadam"],
)
def test_four_lines_more_keep_the_constraint_with_the_users_optimiser(make: Any) -> None:
    model = linear()
    al = trained(model, make(model.parameters()))
    check = al.certificate(NP.both, (X, T))
    assert check.violation < 0.02
    assert check.residual < 0.06
    assert al.multipliers[0] > 0.1
    assert {"violation", "beta", "multiplier/false alarms"} <= al.scalars().keys()
    assert len(al.history.iterations) == 8


def test_it_goes_on_bit_for_bit_in_a_loop_of_ones_own() -> None:
    def start(seed: int) -> tuple[Any, Any, Any, Any]:
        model = network(seed=seed)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        batches = at.Batches((X, T), 50, seed=1)
        al = SingleLoop(model, {"false alarms": at_most(0.6)}, optimizer=optimizer, per_pass=40)
        al.attach(model=model, optimizer=optimizer, batches=batches)
        return model, optimizer, batches, al

    def walk(model: Any, optimizer: Any, batches: Any, al: Any, steps: int) -> None:
        for _, (batch, _) in zip(range(steps), batches, strict=False):
            optimizer.zero_grad()
            al.loss(*NP.both(model, batch)).backward()
            optimizer.step()
            al.step()

    whole = start(0)
    walk(*whole, 130)
    part = start(0)
    walk(*part, 67)
    saved = copy.deepcopy(part[3].state_dict())
    later = start(7)
    later[3].load_state_dict(saved)
    walk(*later, 63)
    assert all(torch.equal(a, b) for a, b in zip(whole[0].parameters(), later[0].parameters(), strict=True))
    assert whole[3].multipliers.tolist() == later[3].multipliers.tolist()
    other = SingleLoop(linear(), {"c": at_most(0.6)}, optimizer=part[1], metric=object())  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="belongs to constraints"):
        other.load_state_dict(saved)


def test_accumulated_batches_are_one_step() -> None:
    models = []
    for pieces in (1, 2):
        model = linear()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        al = SingleLoop(model, {"false alarms": at_most(0.6)}, optimizer=optimizer, per_pass=40)
        for i in range(60):
            k = 50 * (i % 40)
            optimizer.zero_grad()
            for piece in range(pieces):
                part = slice(k + 50 // pieces * piece, k + 50 // pieces * (piece + 1))
                (al.loss(*NP.both(model, (X[part], T[part]))) / pieces).backward()
            optimizer.step()
            al.step()
        models.append(model)
    assert torch.allclose(models[0].weight, models[1].weight, atol=1e-9)


def test_a_grad_scaler_a_compiled_model_and_autocast_do_not_disturb_it() -> None:
    model = linear(dtype=torch.float32)
    data = X.float(), T.float()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    scaler = torch.amp.GradScaler("cpu")
    al = SingleLoop(compiled, {"false alarms": at_most(0.6)}, optimizer=optimizer, per_pass=40)
    for i in range(120):
        part = slice(50 * (i % 40), 50 * (i % 40) + 50)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss, values = NP.both(compiled, (data[0][part], data[1][part]))
        if i == 30:
            values = {"false alarms": values["false alarms"] * torch.inf}
        scaler.scale(al.loss(loss, values)).backward()
        scaler.step(optimizer)
        scaler.update()
        al.step()
    assert al.certificate(NP.both, data).violation < 0.05


def test_a_bound_that_no_step_can_reach_does_not_drive_plain_sgd_away() -> None:
    generator = torch.Generator().manual_seed(1)
    pictures, labels = torch.randn(512, 256, generator=generator), torch.randint(10, (512,), generator=generator)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(256, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    al = SingleLoop(model, {"loss": at_most(0.5)}, optimizer=optimizer, per_pass=8)
    losses = []
    for i in range(160):
        part = slice(64 * (i % 8), 64 * (i % 8) + 64)
        loss = torch.nn.functional.cross_entropy(model(pictures[part]), labels[part])
        optimizer.zero_grad()
        al.loss(loss, {"loss": loss}).backward()
        optimizer.step()
        al.step()
        losses.append(loss.item())
    assert max(losses) < 4.0  # 2.3 at the start
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("bad", "what"), [(0, "constraint 'false alarms'"), (1, "objective")])
def test_a_batch_with_nan_is_named_before_it_reaches_the_model_and_can_be_left_out(bad: int, what: str) -> None:
    model = linear()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    al = SingleLoop(model, {"false alarms": at_most(0.6)}, optimizer=optimizer, per_pass=40)

    def step(i: int, factor: float) -> None:
        loss, values = NP.both(model, (X[50 * i : 50 * i + 50], T[50 * i : 50 * i + 50]))
        optimizer.zero_grad()
        value = values["false alarms"]
        al.loss(loss * (factor if bad else 1.0), value if bad else value * factor).backward()
        optimizer.step()
        al.step()

    for i in range(12):
        step(i, 1.0)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(InputError, match=rf"^{what} must be finite on every batch, got NaN or inf in step 13"):
        step(12, math.nan)
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    step(13, 1.0)
    assert al.steps == 13
    assert np.isfinite(al.tracked).all()
    assert float(al.certificate(NP.both, (X, T)).violation) < 1.0


def test_a_gradient_with_nan_is_named_and_the_model_is_put_where_it_was_before() -> None:
    model = linear()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    al = SingleLoop(model, {"false alarms": at_most(0.6)}, optimizer=optimizer, per_pass=40)
    for i in range(13):
        loss, values = NP.both(model, (X[50 * i : 50 * i + 50], T[50 * i : 50 * i + 50]))
        optimizer.zero_grad()
        al.loss(loss, values).backward()
        if i == 12:
            next(model.parameters()).grad.fill_(math.nan)
            optimizer.step()
            with pytest.raises(InputError, match=r"the objective, or its gradient, must be finite .* after step 13"):
                al.step()
        else:
            optimizer.step()
            al.step()
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())
    assert float(al.certificate(NP.both, (X, T)).violation) < 1.0


def test_bad_loops_are_named() -> None:
    model = linear()
    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(InputError, match="loader that shuffles"):
        SingleLoop(model, {"c": at_most(0.6)}, optimizer=optimizer, data=loader(shuffle=False))
    with pytest.raises(InputError, match="optimizer must be one of SGD, Adam"):
        SingleLoop(model, {"c": at_most(0.6)}, optimizer=torch.optim.Rprop(model.parameters()))
    with pytest.raises(InputError, match="all trainable parameters"):
        SingleLoop(model, {"c": at_most(0.6)}, optimizer=torch.optim.Adam([model.weight]))
    with pytest.raises(InputError, match="per_pass must be a positive integer"):
        SingleLoop(model, {"c": at_most(0.6)}, optimizer=optimizer, per_pass=0)
    with pytest.raises(InputError, match="annealing needs steps="):
        SingleLoop(model, {"c": at_most(0.6)}, optimizer=optimizer).annealing(3)
    al = SingleLoop(model, {"c": between(0.0, 0.6)}, optimizer=optimizer)
    with pytest.raises(InputError, match="operations with derivatives"):
        al.loss(NP.objective(model, (X, T)), torch.ones(()))
    for steps in ("3", 0, -3, 2.5, True):
        with pytest.raises(InputError, match="steps must be a positive integer or None"):
            SingleLoop(model, {"c": at_most(0.6)}, optimizer=optimizer, per_pass=3, steps=steps)
    with pytest.raises(InputError, match="got the rows themselves, a tuple"):
        SingleLoop(model, {"c": at_most(0.6)}, optimizer=optimizer, data=(torch.ones(5, 2), torch.ones(5)))


@pytest.mark.parametrize("loader", [False, True])
@pytest.mark.parametrize(("asked", "most"), [(1, 3.0), (3, 4.3), (5, 5.7), (10, 10.3), (20, 22.3)])
def test_a_short_budget_has_the_last_test_and_the_certificate_in_it(asked: int, most: float, loader: bool) -> None:
    data: Any = DataLoader(TensorDataset(X, T), batch_size=64, shuffle=True) if loader else (X, T)
    result = fit(linear(), NP.objective, ALARMS, data, method="single-loop", max_epochs=asked, tol=1e-12)
    assert min(asked, most - 2.3) <= result.epochs <= most
    assert result.certificate.residual == pytest.approx(min(row["residual"] for row in result.trace), rel=1e-3)


def test_multipliers_at_the_end_of_a_round_fit_the_jacobian_over_all_rows() -> None:
    model = linear()
    result = fit(model, NP.objective, ALARMS, (X, T), method=SingleLoopMethod(full=False), max_epochs=6)
    f, c = NP.objective(model, (X, T)), NP.false_alarms(model, (X, T))
    g, J = (torch.cat([t.reshape(-1) for t in torch.autograd.grad(v, list(model.parameters()))]) for v in (f, c))
    best = min(float((g + y * J).norm()) for y in torch.linspace(0.0, 4.0, 4001))
    assert result.certificate.stationarity <= 1.01 * best + 1e-3


def test_a_step_of_the_optimiser_that_was_forgotten_is_named() -> None:
    for kind in (SingleLoop, at.AugmentedLagrangian):
        model = linear()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        al = kind(model, {"false alarms": at_most(0.6)}, optimizer=optimizer)

        def batch(al: Any = al, model: Any = model) -> None:
            al.loss(NP.objective(model, (X, T)), NP.false_alarms(model, (X, T))).backward()

        batch()
        optimizer.step()
        al.step()
        batch()
        with pytest.raises(InputError, match=r"optimizer\.step\(\) must come before every al\.step\(\)"):
            al.step()
        for p in model.parameters():  # what a GradScaler skips
            p.grad.fill_(math.inf)
        al.step()
        optimizer.zero_grad()
        batch()
        with torch.no_grad():  # a step by hand
            for p in model.parameters():
                p -= 0.1 * p.grad
        al.step()


def test_steps_that_leave_the_domain_are_taken_back_with_a_smaller_rate() -> None:
    # exp(|x - p|^2) is not a number any more after the first step at a rate of 1000
    def steep(model: Any, batch: Any) -> Any:
        return torch.exp(((model.x - batch) ** 2).sum(1)).mean()

    model = Vector([0.1, 0.1])
    rules = {"sum": equal(0.4, lambda m, b: m.x.sum(), exact=True)}
    method = SingleLoopMethod(rate=1000.0, adapt=False, full=False, batch=50)
    result = fit(model, steep, rules, 0.1 * (POINTS - POINTS.mean(0)), method=method, max_epochs=10)
    assert torch.isfinite(model.x).all()
    assert result.certificate.violation < 0.5
    assert result.certificate.objective < 3.0  # 1.1 at the solution


def test_a_boundary_problem_is_not_fitted_at_the_cost_of_its_boundary() -> None:
    # u'' = 0 pointwise is met by any line at once; u(0) = 0, u(1) = 1/2 and a mean of 1 / 2 fight it
    torch.manual_seed(0)
    rows = torch.rand(400, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    model = torch.nn.Linear(4, 1, bias=True, dtype=torch.float64)  # u = a + b x + c x^2 + d x^3 + e x^4

    def u(model: Any, x: Any) -> Any:
        return model(torch.cat([x, x**2, x**3, x**4], 1))

    def both(model: Any, batch: Any) -> Any:
        x = batch[0]
        w = model.weight[0]
        bent = 2 * w[1] + 6 * w[2] * x + 12 * w[3] * x**2
        ends = u(model, x.new_tensor([[0.0], [1.0]])).reshape(-1)
        return (bent**2).mean(), {"ends": ends, "mean": u(model, x).mean()}

    rules = {"ends": equal([0.0, 0.5], exact=True), "mean": equal(0.5)}
    result = fit(model, both, rules, (rows,), method=SingleLoopMethod(full=False), max_epochs=20)
    assert result.certificate.violation < 0.05
    assert result.certificate.objective > 1.0  # it bends: the constraints won


@pytest.mark.parametrize("kind", [SingleLoop, at.AugmentedLagrangian])
def test_a_forgotten_step_is_named_and_accumulation_is_not_one(kind: Any) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = kind(model, {"c": at_most(0.5)}, optimizer=optimizer)

    def backward() -> None:
        al.loss(NP.objective(model, (X, T)), {"c": NP.false_alarms(model, (X, T))}).backward()

    NP.objective(model, (X, T)).backward()
    optimizer.step()  # on a loss of another kind
    for _ in range(300):  # one step of many pieces
        backward()
    optimizer.step()
    al.step()
    assert al.steps == 1
    backward()
    optimizer.step()
    with pytest.raises(InputError, match=r"Write al\.step\(\) on the line after optimizer\.step\(\)"):
        backward()
    backward()  # the loop is mended, and goes on
    optimizer.step()
    al.step()
    assert al.steps == 2
