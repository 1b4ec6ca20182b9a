# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""`AugmentedLagrangian` in a loop of one's own: it solves, saves, and gets on with what PyTorch users do."""

from __future__ import annotations

import copy
import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

from auglag import CheckpointError, InputError
from auglag.torch import L1, AdaptiveEpochs, AugmentedLagrangian, Batches, Box, SingleLoop, at_most, equal, fit
from helpers.torch_problems import NeymanPearson, Vector, linear, network, rows

X, T = rows()
NP = NeymanPearson(T)
LIMIT = {"false alarms": at_most(0.6)}


def train(model: Any, al: AugmentedLagrangian, optimizer: Any, batches: Any, steps: int) -> None:
    """The loop of the documentation."""
    pairs = iter(batches)
    while not al.done and al.steps < steps:
        first, second = next(pairs)
        optimizer.zero_grad()
        loss, values = NP.both(model, first)
        with torch.no_grad():
            other = NP.both(model, second)[1]
        al.loss(loss, values, other).backward()
        optimizer.step()
        al.step()
        if al.due:
            al.test(NP.both, (X, T))


def test_five_lines_more_solve_the_problem() -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    al = AugmentedLagrangian(model, LIMIT, optimizer=optimizer, tol=0.05)  # 1
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, T), batch_size=100, shuffle=True)
    for _ in range(250):
        if al.done:
            break
        for batch in loader:
            loss, values = NP.both(model, batch)
            optimizer.zero_grad()
            al.loss(loss, values).backward()  # 2
            optimizer.step()
            al.step()  # 3
            if al.due:  # 4
                al.test(NP.both, loader)  # 5
    assert al.done, al.trace[-1]
    check = al.certificate(NP.both, loader)
    assert check.residual <= al.tol  # with the multipliers of the test that said so
    reference = fit(linear(), NP.objective, {"false alarms": at_most(0.6, NP.false_alarms)}, (X, T), tol=1e-6)
    assert check.multipliers[0] == pytest.approx(reference.multipliers["false alarms"], abs=0.1)
    assert check.objective == pytest.approx(reference.fun, abs=0.05)
    assert all(row["c_norm"] == pytest.approx(row["residual"] - row["dist"], abs=1e-12) for row in al.trace)
    assert any(row["accepted"] for row in al.trace)


def test_the_gradient_is_the_papers_estimator() -> None:
    model = Vector([1.0, 2.0])
    al = AugmentedLagrangian(model, {"sum": equal(1.0)}, y0=[0.5])
    c = model.x.sum()
    al.loss((model.x**2).sum(), c, second=torch.tensor(4.0, dtype=torch.float64)).backward()
    w = 0.5 + 0.1 * (4.0 - 1.0)  # y + beta r, beta_1 = 0.1
    assert model.x.grad.tolist() == pytest.approx([2.0 + w, 4.0 + w])
    value = al.loss((model.x**2).sum(), model.x.sum(), second=torch.tensor(4.0, dtype=torch.float64))
    assert value.item() == pytest.approx(5.0 + w * 3.0)


def test_without_a_second_batch_the_weights_come_from_the_step_before() -> None:
    model = Vector([1.0, 2.0])
    al = AugmentedLagrangian(model, {"sum": equal(0.0)})
    al.loss((model.x**2).sum(), 0 * model.x.sum() + 7.0)
    al.step()
    model.x.grad = None
    al.loss(0 * model.x.sum(), model.x.sum()).backward()
    assert model.x.grad.tolist() == pytest.approx([0.7, 0.7])  # beta_1 * 7, not beta_1 * 3


def test_full_steps_converge_to_the_known_multiplier() -> None:
    # min (x1^2 + x2^2) / 2 s.t. x1 + x2 = 1: x = (1/2, 1/2), y = -1/2.
    model = Vector([3.0, -1.0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    al = AugmentedLagrangian(model, {"sum": equal(1.0)}, optimizer=optimizer, tol=1e-6, epochs=AdaptiveEpochs(8))
    for _ in range(2000):
        optimizer.zero_grad()
        al.loss(0.5 * (model.x**2).sum(), model.x.sum(), model.x.sum()).backward()
        optimizer.step()
        al.step()
        if al.due:
            al.test(lambda m, b: (0.5 * (m.x**2).sum(), m.x.sum()), torch.zeros(1, 1))
    assert al.done
    assert al.trace[-1]["multipliers"] == pytest.approx([-0.5], abs=1e-5)
    assert model.x.detach().tolist() == pytest.approx([0.5, 0.5], abs=1e-5)
    assert al.scalars()["multiplier/sum"] == pytest.approx(-0.5, abs=1e-5)
    assert al.scalars().keys() == {"residual", "violation", "objective", "beta", "T", "multiplier/sum"}


def test_it_resumes_bit_for_bit_with_samplers_and_generators() -> None:
    def make() -> tuple[Any, ...]:
        torch.manual_seed(4)
        model = torch.nn.Sequential(
            torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
        ).double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        al = AugmentedLagrangian(model, LIMIT, optimizer=optimizer, tol=1e-6, epochs=AdaptiveEpochs(16))
        batches = Batches((X, T), 32, seed=1)
        generator = torch.Generator().manual_seed(3)
        al.attach(model=model, optimizer=optimizer, batches=batches, generator=generator)
        return model, al, optimizer, batches, generator

    whole = make()
    train(*whole[:4], steps=700)
    half = make()
    train(*half[:4], steps=307)  # in the middle of a block of batches, between two tests
    torch.rand(5, generator=half[4])
    saved = copy.deepcopy(half[1].state_dict())
    expected = torch.rand(3, generator=half[4])
    torch.manual_seed(99)
    again = make()
    torch.rand(10)
    again[1].load_state_dict(saved)
    assert torch.equal(torch.rand(3, generator=again[4]), expected)
    train(*again[:4], steps=700)
    for p, q in zip(whole[0].parameters(), again[0].parameters(), strict=True):
        assert torch.equal(p, q)
    assert whole[1].trace == again[1].trace
    assert np.array_equal(whole[1].multipliers, again[1].multipliers)


def test_a_state_of_something_else_is_refused() -> None:
    al = AugmentedLagrangian(linear(), LIMIT)
    other = AugmentedLagrangian(linear(), {"other": at_most(0.6)})
    with pytest.raises(CheckpointError, match="belongs to constraints"):
        other.load_state_dict(al.state_dict())
    al.attach(model=al.model)
    with pytest.raises(CheckpointError, match=r"different: \['model'\]"):
        AugmentedLagrangian(linear(), LIMIT).load_state_dict(al.state_dict())
    with pytest.raises(InputError, match=r"attach\(x=...\) takes a Generator"):
        al.attach(x=3)


def test_accumulated_gradients_are_those_of_the_whole_batch() -> None:
    grads = []
    for parts in (1, 4):
        model = linear()
        al = AugmentedLagrangian(model, LIMIT)
        second = torch.tensor(0.9, dtype=torch.float64)
        for piece in range(parts):
            batch = X[piece::parts], T[piece::parts]
            (al.loss(*NP.both(model, batch), second) / parts).backward()
        al.step()
        grads.append([p.grad.clone() for p in model.parameters()])
        assert al.steps == 1
        assert float(al._state.c[0]) == pytest.approx(0.9)
    for a, b in zip(*grads, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_amp_with_a_grad_scaler_and_a_compiled_model() -> None:
    model = torch.compile(linear(dtype=torch.float32), backend="eager")
    data = X.float(), T.float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    al = AugmentedLagrangian(model, LIMIT, optimizer=optimizer, tol=1e-3)
    al.attach(scaler=scaler)
    for _ in range(70):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = al.loss(*NP.both(model, data))
        assert loss.dtype is torch.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        al.step()
        if al.due:
            al.test(NP.both, data)
    assert al.trace[-1]["residual"] < al.trace[0]["residual"]


def test_prox_terms_belong_to_parameter_groups() -> None:
    model = network()
    optimizer = torch.optim.SGD(
        [
            {"params": [model[0].weight], "prox": L1(0.05)},
            {"params": [model[2].weight], "prox": Box(-0.1, 0.1)},
            {"params": [model[0].bias, model[2].bias]},
        ],
        lr=0.5,
    )
    al = AugmentedLagrangian(model, {"false alarms": at_most(1.0)}, optimizer=optimizer, tol=1e-9)
    for _ in range(600):
        optimizer.zero_grad()
        al.loss(*NP.both(model, (X, T))).backward()
        optimizer.step()
        al.step()
        if al.due:
            al.test(NP.both, (X, T))
    zeros = int((model[0].weight == 0).sum())
    assert zeros >= 10
    assert float(model[2].weight.detach().abs().max()) <= 0.1
    assert al.trace[-1]["residual"] < 0.1 * al.trace[0]["residual"]  # dist(-grad, dg), not the gradient's length
    adam = torch.optim.Adam([{"params": [model[0].weight], "prox": L1(0.05)}])
    wrong = AugmentedLagrangian(model, LIMIT, optimizer=adam)
    with pytest.raises(InputError, match="prox terms other than boxes need steps along the gradient"):
        wrong.step()


def test_no_graph_outlives_its_step() -> None:
    model = network()
    al = AugmentedLagrangian(model, LIMIT)
    refs = []
    for _ in range(5):
        loss, values = NP.both(model, (X, T))
        total = al.loss(loss, values)
        total.backward()
        refs += [weakref.ref(loss), weakref.ref(total), weakref.ref(values["false alarms"])]
        al.step()
    al.test(NP.both, (X, T))
    del loss, values, total
    gc.collect()
    assert not any(ref() is not None for ref in refs)
    kept = [t for t in (al._state.c, al._state.s, al._y, al._state.total) if t is not None]
    assert not any(t.requires_grad for t in kept)


def test_a_step_without_a_loss_of_constraints_and_values_without_a_graph_are_named() -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = AugmentedLagrangian(model, LIMIT, optimizer=optimizer)
    loss, values = NP.both(model, (X, T))
    with pytest.raises(InputError, match="constraints must depend on the parameters by operations with derivatives"):
        al.loss(loss, {name: value.detach() for name, value in values.items()})
    loss.backward()
    optimizer.step()
    with pytest.raises(InputError, match=r"al.step\(\) must follow a step on al.loss\(...\), got one without"):
        al.step()
    assert al.steps == 0
    with pytest.raises(InputError, match="constraints must be a dictionary"):
        AugmentedLagrangian(model, [at_most(0.6)])  # type: ignore[arg-type]
    single = SingleLoop(model, LIMIT, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(InputError, match=r"al.step\(\) must follow a step on al.loss"):
        single.step()
    with pytest.raises(CheckpointError, match="must be that of a SingleLoop, format"):
        single.load_state_dict(al.state_dict())


def test_bad_values_are_named() -> None:
    model = linear()
    al = AugmentedLagrangian(model, LIMIT)
    f = NP.objective(model, (X, T))
    with pytest.raises(InputError, match=r"'false alarms' must return a number or a vector.*shape \(400, 1\)"):
        al.loss(f, model(X))
    with pytest.raises(InputError, match=r"missing \['false alarms'\], unknown \['x'\]"):
        al.loss(f, {"x": f})
    with pytest.raises(InputError, match="objective must return a number"):
        al.loss(model(X), f)
    with pytest.raises(InputError, match="must be finite over all rows"):
        al.test(lambda m, b: (NP.objective(m, b) * float("nan"), NP.false_alarms(m, b)), (X, T))
    with pytest.raises(InputError, match="got none"):
        al.test(NP.both, [])
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module, got list"):
        AugmentedLagrangian([], LIMIT)


def test_batches_are_pairs_that_go_on_where_they_were() -> None:
    batches = Batches((X, T), 16, seed=2)
    first = [pair for _, pair in zip(range(300), batches, strict=False)]
    assert not torch.equal(first[0][0][0], first[0][1][0])
    again = Batches((X, T), 16, seed=2)
    again.load_state_dict({**batches.state_dict(), "taken": 290})
    following = next(iter(again))
    assert torch.equal(following[0][0], first[290][0][0])
    with pytest.raises(CheckpointError, match=r"Batches.seed must be 2 as saved, got 3"):
        Batches((X, T), 16, seed=3).load_state_dict(batches.state_dict())


@pytest.mark.parametrize("when", [0, 5])
def test_a_batch_that_overflows_spoils_no_later_one(when: int) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = AugmentedLagrangian(model, {"false alarms": at_most(0.6)}, optimizer=optimizer)
    skipped = []
    for step in range(10):
        optimizer.zero_grad()
        loss, values = NP.both(model, (X, T))
        if step == when:
            values = {"false alarms": values["false alarms"] * float("nan")}
        al.loss(loss, values).backward()
        if all(bool(p.grad.isfinite().all()) for p in model.parameters()):  # as a GradScaler does
            optimizer.step()
        else:
            skipped.append(step)
        al.step()
    assert skipped == [when]


@pytest.mark.parametrize(("bad", "what"), [(0, "constraint 'false alarms'"), (1, "objective")])
def test_a_step_with_nan_is_refused_and_the_model_left_as_it_was(bad: int, what: str) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = AugmentedLagrangian(model, {"false alarms": at_most(0.6)}, optimizer=optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    loss, values = NP.both(model, (X, T))
    factors = [1.0, math.nan] if bad == 0 else [math.nan, 1.0]
    al.loss(loss * factors[0], {"false alarms": values["false alarms"] * factors[1]}).backward()
    with pytest.raises(InputError, match=rf"^{what} must be finite on every batch, got NaN or inf in step 1;"):
        optimizer.step()
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    optimizer.zero_grad()
    al.loss(*NP.both(model, (X, T))).backward()
    optimizer.step()
    al.step()
    assert al.steps == 1


def test_a_constraint_without_a_graph_is_named_at_the_test() -> None:
    al = AugmentedLagrangian(linear(), {"false alarms": at_most(0.6)})

    def evaluate(model: Any, batch: Any) -> Any:
        return NP.objective(model, batch), {"false alarms": NP.false_alarms(model, batch).detach()}

    with pytest.raises(InputError, match="constraint 'false alarms' must depend on the parameters"):
        al.test(evaluate, (X, T))


def test_the_certificate_after_a_test_is_that_of_the_test() -> None:
    model = Vector([0.0, 0.0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = AugmentedLagrangian(model, {"sum": equal(1.0)}, optimizer=optimizer, tol=1e-2)

    def evaluate(model: Any, batch: Any) -> Any:
        return 0.5 * ((model.x - batch) ** 2).sum(1).mean(), {"sum": model.x.sum()}

    points = torch.tensor([[2.0, 2.0]], dtype=torch.float64)
    while not al.done and al.steps < 5000:
        optimizer.zero_grad()
        al.loss(*evaluate(model, points)).backward()
        optimizer.step()
        al.step()
        if al.due:
            row = al.test(evaluate, points)
            assert al.certificate(evaluate, points).residual == pytest.approx(row["residual"])
    assert al.done


def test_momentum_beside_a_norm_is_refused() -> None:
    model = linear()
    optimizer = torch.optim.SGD([{"params": [model.weight], "prox": L1(0.05)}], lr=0.1, momentum=0.9)
    with pytest.raises(InputError, match=r"take torch.optim.SGD without momentum"):
        AugmentedLagrangian(model, LIMIT, optimizer=optimizer).step()


def a_loop(kind: str, model: Any, optimizer: Any, **options: Any) -> Any:
    if kind == "double":
        return AugmentedLagrangian(model, LIMIT, optimizer=optimizer, **options)
    return SingleLoop(model, LIMIT, optimizer=optimizer, per_pass=4, **options)


def one_step(model: Any, al: Any, optimizer: Any) -> None:
    optimizer.zero_grad()
    al.loss(*NP.both(model, (X, T))).backward()
    optimizer.step()
    al.step()


def steps_of(model: Any, al: Any, optimizer: Any, count: int) -> None:
    for _ in range(count):
        one_step(model, al, optimizer)


@pytest.mark.parametrize("kind", ["double", "single"])
def test_the_own_loss_differentiated_instead_of_that_of_the_loop_is_named(kind: str) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = a_loop(kind, model, optimizer)
    one_step(model, al, optimizer)
    loss, values = NP.both(model, (X, T))
    optimizer.zero_grad()
    al.loss(loss, values)
    loss.backward()
    optimizer.step()
    with pytest.raises(InputError, match=r"al\.loss\(\.\.\.\) must be what is differentiated"):
        al.step()


@pytest.mark.parametrize("kind", ["double", "single"])
def test_other_ways_to_a_gradient_of_the_loss_are_not_taken_for_a_mistake(kind: str) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = a_loop(kind, model, optimizer)
    halves = [(X[:100], T[:100]), (X[100:200], T[100:200])]
    for accumulated in (True, False):
        optimizer.zero_grad()
        total = sum(al.loss(*NP.both(model, half)) / 2 for half in halves)
        if accumulated:
            total.backward()
        else:
            for p, g in zip(model.parameters(), torch.autograd.grad(total, list(model.parameters())), strict=True):
                p.grad = g
        optimizer.step()
        al.step()
    assert al.steps == 2


@pytest.mark.parametrize("kind", ["double", "single"])
def test_a_damaged_state_changes_nothing(kind: str) -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = a_loop(kind, model, optimizer)
    al.attach(model=model, optimizer=optimizer)
    one_step(model, al, optimizer)
    state = copy.deepcopy(al.state_dict())
    one_step(model, al, optimizer)
    now, steps = [p.detach().clone() for p in model.parameters()], al.steps
    inner, part = ("state", "history") if kind == "double" else ("core", "engine")
    damaged = [{k: v for k, v in state.items() if k != lost} for lost in state if lost != "format"]
    damaged += [state | {inner: {k: v for k, v in state[inner].items() if k != part}}]
    damaged += [state | {inner: 3}, state | {"sizes": {"another": 1}}]
    for broken in damaged:
        with pytest.raises(CheckpointError):
            al.load_state_dict(broken)
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), now, strict=True))
        assert al.steps == steps
    optimizer.param_groups[0]["lr"] = 0.5
    al.load_state_dict(state)
    assert al.steps == 1
    after = []
    for _ in range(2):
        one_step(model, al, optimizer)
        after.append([p.detach().clone() for p in model.parameters()])
        al.load_state_dict(state)
    assert all(torch.equal(p, q) for p, q in zip(*after, strict=True))


@pytest.mark.parametrize("kind", ["double", "single"])
def test_a_state_between_loss_and_step_is_refused(kind: str) -> None:
    model = linear()
    al = a_loop(kind, model, torch.optim.SGD(model.parameters(), lr=0.1))
    al.loss(*NP.both(model, (X, T)))
    with pytest.raises(InputError, match=r"between al\.step"):
        al.state_dict()


def test_a_rate_that_was_restored_is_seen_again() -> None:
    model = linear()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    al = SingleLoop(model, LIMIT, optimizer=optimizer, per_pass=4)
    al.attach(model=model, optimizer=optimizer)
    one_step(model, al, optimizer)
    al.load_state_dict(copy.deepcopy(al.state_dict()))
    optimizer.param_groups[0]["lr"] = 0.025
    assert al._metric.fall() == pytest.approx(0.25)


def test_a_loop_without_tests_is_told_of_it_once() -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = a_loop("double", model, optimizer, epochs=AdaptiveEpochs(initial=2))
    with pytest.warns(UserWarning, match="20 steps were made without a call of al.test") as said:
        steps_of(model, al, optimizer, 45)
    assert len(said) == 1


def test_more_steps_than_the_training_was_said_to_have_are_named_once() -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    al = a_loop("single", model, optimizer, steps=3)
    for _ in range(3):
        one_step(model, al, optimizer)
    with pytest.warns(UserWarning, match=r"steps=3 is the number of the optimiser's steps.*not of epochs") as said:
        steps_of(model, al, optimizer, 4)
    assert len(said) == 1
