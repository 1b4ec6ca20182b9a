# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""`auglag.torch.fit`: solutions with known multipliers, every method, every kind of data, resuming, bad input."""

from __future__ import annotations

import copy
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

import auglag.torch as at
from auglag import CheckpointError, InputError, Status
from auglag.stochastic import LinearBlock, StochasticProblem, minimize
from auglag.torch import at_least, at_most, between, equal, fit
from helpers.torch_problems import NeymanPearson, Vector, linear, network, rows

X, T = rows()
NP = NeymanPearson(T)
ALARMS = {"false alarms": at_most(0.6, NP.false_alarms)}


def projection(model: Any, batch: Any) -> Any:
    """mean ||x - a||^2 / 2 over the rows a."""
    return 0.5 * ((model.x - batch) ** 2).sum(1).mean()


POINTS = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)  # mean (2, 2)


def test_equality_and_inequality_constraints_by_name_have_the_known_multipliers() -> None:
    # min ||x - (2, 2)||^2 / 2 s.t. x1 + x2 = 1 and x1 <= 0.2: x = (0.2, 0.8)
    model = Vector([0.0, 0.0])
    result = fit(
        model,
        projection,
        {"sum": equal(1.0, lambda m, b: m.x.sum()), "first": at_most(0.2, lambda m, b: m.x[0])},
        POINTS,
        tol=1e-8,
    )
    assert result.success
    assert result.status is Status.SOLVED
    assert model.x.detach().tolist() == pytest.approx([0.2, 0.8], abs=1e-7)
    assert result.multipliers["sum"] == pytest.approx(1.2, abs=1e-6)  # x2: 0.8 - 2 + y = 0
    assert result.multipliers["first"] == pytest.approx(0.6, abs=1e-6)  # x1: 0.2 - 2 + 1.2 + z = 0
    assert result.constraints["sum"] == pytest.approx(1.0, abs=1e-7)
    assert result.x.tolist() == model.x.detach().tolist()


def test_what_steps_told_of_the_curvature_outlives_a_larger_penalty() -> None:
    rng = np.random.default_rng(5)
    t = torch.tensor(rng.standard_normal((40, 12)) * np.logspace(0, 2, 12))
    rules = {"sum": equal(1.0, lambda m, b: m.x.sum()), "product": equal(0.0, lambda m, b: m.x[0] * m.x[1])}

    def passes(carry: bool) -> float:
        model = Vector([0.1] * 12)
        result = fit(
            model, lambda m, b: 0.5 * ((b @ m.x - 1.0) ** 2).mean(), rules, t, method=at.LBFGS(carry=carry), tol=1e-8
        )
        assert result.success
        assert len({row["beta"] for row in result.trace}) > 2
        return float(result.epochs)

    assert passes(carry=True) < 0.8 * passes(carry=False)


def test_multipliers_that_lead_away_raise_the_penalty_instead() -> None:
    # min -cos(x) s.t. x = 0.1 from x = 0.11: with y = -2 the subproblem of beta = 0.1 is lowest far away.
    model = Vector([0.11])
    result = fit(
        model,
        lambda m, b: -torch.cos(m.x).sum() + 0.0 * b.sum(),
        {"x": equal(0.1, lambda m, b: m.x.sum())},
        torch.zeros(4, 1, dtype=torch.float64),
        method="lbfgs",
        y0={"x": -2.0},
        penalty=at.settings.Adaptive(initial=0.1, gamma=3.0, tau=0.5),
        tol=1e-8,
    )
    assert result.success
    assert model.x.item() == pytest.approx(0.1, abs=1e-7)
    statuses = [row["inner_status"] for row in result.history]
    assert statuses[0] == "WORSE"
    assert statuses.count("WORSE") <= 3


def test_vector_constraints_and_two_sides() -> None:
    model = Vector([0.5, 0.5])
    result = fit(model, projection, {"x": between([-1.0, 0.0], [1.0, 5.0], lambda m, b: m.x)}, POINTS, tol=1e-8)
    assert model.x.detach().tolist() == pytest.approx([1.0, 2.0], abs=1e-7)
    assert result.multipliers["x"] == pytest.approx([1.0, 0.0], abs=1e-6)
    lower = fit(Vector([0.0, 0.0]), projection, {"x": at_least(3.0, lambda m, b: m.x[0])}, POINTS, tol=1e-8)
    assert lower.multipliers["x"] == pytest.approx(-1.0, abs=1e-6)


def test_without_constraints_it_minimises() -> None:
    model = Vector([0.0, 0.0])
    result = fit(model, projection, {}, POINTS, tol=1e-8)
    assert result.success
    assert model.x.detach().tolist() == pytest.approx([2.0, 2.0])


def test_it_finds_what_the_stochastic_half_finds() -> None:
    A = np.hstack([X.numpy(), np.ones((len(X), 1))])
    t = T.numpy() == 1
    blocks = [
        LinearBlock(A[t], np.ones(t.sum()), loss="logistic", objective=1.0, constraints=[0.0]),
        LinearBlock(A[~t], -np.ones((~t).sum()), loss="logistic", objective=0.0, constraints=[1.0]),
    ]
    reference = minimize(StochasticProblem(blocks, lower=[-np.inf], upper=[0.6]), tol=1e-9)
    model = linear()
    result = fit(model, NP.objective, ALARMS, (X, T), tol=1e-7)
    assert result.success
    assert result.fun == pytest.approx(reference.fun, abs=1e-6)
    assert result.multipliers["false alarms"] == pytest.approx(reference.multipliers[0], abs=1e-5)
    found = torch.cat([model.weight.detach().reshape(-1), model.bias.detach()]).numpy()
    assert found == pytest.approx(reference.x, abs=1e-4)


@pytest.mark.parametrize(
    ("method", "tol"),
    [
        ("lbfgs", 1e-6),
        ("svrg", 1e-3),
        ("sgd", 0.1),
        ("pstorm", 0.1),
        ("adam", 0.1),
        (lambda params: torch.optim.SGD(params, lr=0.3, momentum=0.5), 0.1),
        (lambda params: torch.optim.AdamW(params, lr=0.03), 0.1),
    ],
)
def test_every_method_solves(method: Any, tol: float) -> None:
    model = linear(seed=1)
    result = fit(model, NP.objective, ALARMS, (X, T), method=method, tol=tol, max_epochs=600, seed=3)
    assert result.success, result.message
    assert result.certificate.residual <= tol
    if method != "lbfgs":
        assert result.gradients > 0
    assert result.trace[-1]["residual"] <= tol
    # What is claimed is so, by the model as it was left.
    with torch.no_grad():
        f, c = float(NP.objective(model, (X, T))), float(NP.false_alarms(model, (X, T)))
    assert f == pytest.approx(result.fun)
    assert c <= 0.6 + tol


def test_a_network_in_single_precision_and_an_objective_that_returns_both() -> None:
    data = tuple(t.float() for t in (X, T))
    model = network(dtype=torch.float32)
    result = fit(model, NP.both, {"false alarms": at_most(0.5)}, data, tol=2e-3, max_epochs=600)
    assert result.success, result.message
    assert result.x.dtype is torch.float32


def test_chunks_datasets_and_loaders_give_the_same_walk_as_tensors() -> None:
    def run(data: Any, **options: Any) -> Any:
        return fit(linear(), NP.objective, ALARMS, data, tol=1e-6, **options)

    whole = run((X, T))
    dataset = torch.utils.data.TensorDataset(X, T)
    others = [
        run((X, T), chunk=64),
        run(dataset, chunk=150),
        run(torch.utils.data.DataLoader(dataset, batch_size=100, shuffle=True)),
        run([(X[:250], T[:250]), (X[250:], T[250:])], method="lbfgs"),
    ]
    for other in others:
        assert other.x.tolist() == pytest.approx(whole.x.tolist(), abs=1e-5)
        assert other.epochs > whole.epochs  # values and gradients are two passes, and both are counted
    assert whole.tests <= whole.epochs


def test_auto_says_what_it_did() -> None:
    many, t = rows(2000)
    problem = NeymanPearson(t)
    constraints = {"false alarms": at_most(0.6, problem.false_alarms)}
    result = fit(network(), problem.objective, constraints, (many, t), tol=1e-3)
    assert result.success
    assert result.method == "adam, then lbfgs"
    assert result.gradients > 0
    assert fit(linear(), NP.objective, ALARMS, (X, T)).method == "lbfgs"  # few rows


def test_auto_takes_the_single_loop_where_passes_are_dear_and_algorithm_1_where_its_parts_are_asked_for() -> None:
    def method(**options: Any) -> str:
        return fit(linear(), NP.objective, ALARMS, (X, T), **{"tol": 10.0} | options).method

    pruned = [("weight", at.L1(0.1))]
    assert method() == method(max_epochs=201) == method(max_epochs=None) == "lbfgs"
    assert method(max_epochs=200) == method(batch=16) == method(max_epochs=5, prox=pruned) == "single-loop"
    assert method(max_epochs=5, penalty=at.settings.Adaptive()) == "lbfgs"
    assert method(epochs=at.FixedEpochs(1)) == "adam"
    assert method(epochs=at.FixedEpochs(1), prox=pruned) == "sgd"
    few = X[:100], T[:100]
    assert fit(linear(), NeymanPearson(T[:100]).objective, {}, few, tol=10.0, max_epochs=5).method == "lbfgs"


def test_a_run_that_goes_on_keeps_its_method_whatever_its_new_budget(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    for first, then, method in ((30, 300, "single-loop"), (300, 30, "lbfgs")):
        options: dict[str, Any] = {"tol": 1e-3, "seed": 5}

        def stop(row: dict[str, Any]) -> bool:
            return bool(row["epochs"] > 10)

        cut = fit(network(), NP.objective, ALARMS, (X, T), **options, max_epochs=first, checkpoint=path, callback=stop)
        assert not cut.success
        assert fit(network(), NP.objective, ALARMS, (X, T), **options, max_epochs=then, resume=path).method == method


def test_dictionaries_of_tensors_are_batches_too() -> None:
    result = fit(
        linear(),
        lambda m, b: NP.objective(m, (b["X"], b["t"])),
        {"false alarms": at_most(0.6, lambda m, b: NP.false_alarms(m, (b["X"], b["t"])))},
        {"X": X, "t": T},
        method="sgd",
        max_epochs=20,
        tol=1e-6,
    )
    assert result.status is Status.EVALUATION_LIMIT
    assert 15 < result.epochs <= 26  # a test and the certificate may come on top


def test_loaders_and_tensors_draw_the_same_samples() -> None:
    dataset = torch.utils.data.TensorDataset(X, T)
    a = fit(linear(), NP.objective, ALARMS, (X, T), method="sgd", max_epochs=30, tol=1e-6, chunk=400)
    b = fit(linear(), NP.objective, ALARMS, dataset, method="sgd", max_epochs=30, tol=1e-6, chunk=400)
    assert torch.equal(a.x, b.x)


def test_frozen_parameters_stay_and_the_model_keeps_its_mode_and_gradients() -> None:
    model = network()
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.detach().clone()
    model.train()
    model[2].weight.grad = torch.ones_like(model[2].weight)
    result = fit(model, NP.objective, ALARMS, (X, T), tol=1e-2, method="adam", max_epochs=50)
    assert torch.equal(model[0].weight, frozen)
    assert result.x.numel() == sum(p.numel() for p in model.parameters()) - frozen.numel()
    assert model.training
    assert bool((model[2].weight.grad == 1).all())
    assert model[0].bias.grad is None


def test_dropout_is_for_steps_not_for_tests_and_changes_no_generator() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
    model.double()
    state = torch.get_rng_state()
    runs = [fit(copy.deepcopy(model), NP.objective, ALARMS, (X, T), max_epochs=60, tol=1e-4) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), state)
    assert runs[0].method == "single-loop"
    assert runs[0].gradients > 0
    assert torch.equal(runs[0].x, runs[1].x)
    assert runs[0].trace[-1]["residual"] == runs[1].trace[-1]["residual"]


@pytest.mark.parametrize("method", ["lbfgs", "svrg", "adam", "pstorm"])
def test_it_resumes_bit_for_bit(method: str, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    options: dict[str, Any] = {"method": method, "tol": 1e-5, "max_epochs": 60, "seed": 5}
    whole = fit(network(), NP.objective, ALARMS, (X, T), **options)

    class Killed(Exception):
        pass

    def kill(row: dict[str, Any]) -> None:
        if row["epochs"] > 30:
            raise Killed

    model = network()
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(Killed):
        fit(model, NP.objective, ALARMS, (X, T), **options, checkpoint=path, callback=kill)
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    resumed = fit(network(seed=9), NP.objective, ALARMS, (X, T), **options, resume=path)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.epochs == whole.epochs
    timeless = [[{k: v for k, v in row.items() if k != "seconds"} for row in r.trace] for r in (resumed, whole)]
    assert timeless[0] == timeless[1]


def test_a_limit_before_the_first_test_leaves_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    few = fit(linear(), NP.objective, ALARMS, (X, T), tol=0.05, method="sgd", max_epochs=2, checkpoint=path)
    assert few.status is Status.EVALUATION_LIMIT
    assert str(path) in few.advice[0]
    more = fit(linear(), NP.objective, ALARMS, (X, T), tol=0.05, method="sgd", resume=path)
    whole = fit(linear(), NP.objective, ALARMS, (X, T), tol=0.05, method="sgd")
    assert more.success
    assert more.multipliers == whole.multipliers


def test_a_data_frame_is_named() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    with pytest.raises(InputError, match=r"got a DataFrame: torch\.as_tensor"):
        fit(linear(), NP.objective, ALARMS, (pandas.DataFrame(X.numpy()), T))


def test_the_number_comes_before_the_function() -> None:
    for make in (at_most, at.at_least, at.equal):
        with pytest.raises(InputError, match=r"take the numbers first, as in at_most\(0\.5, function\)"):
            make(NP.false_alarms, 0.5)  # type: ignore[arg-type]


def test_a_bound_that_is_no_number_is_named() -> None:
    with pytest.raises(InputError, match=r"Constraint\.upper must not be NaN, got nan"):
        at_most(float("nan"))


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    fit(linear(), NP.objective, ALARMS, (X, T), tol=1e-3, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"tol must be 0\.001 as saved, got 0\.01"):
        fit(linear(), NP.objective, ALARMS, (X, T), tol=1e-2, resume=path)
    path.write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="not a usable checkpoint"):
        fit(linear(), NP.objective, ALARMS, (X, T), tol=1e-3, resume=path)


def test_callbacks_see_every_test_and_can_stop() -> None:
    seen: list[dict[str, Any]] = []
    result = fit(
        linear(), NP.objective, ALARMS, (X, T), tol=1e-6, callback=lambda row: seen.append(row) or len(seen) >= 7
    )
    assert result.status is Status.STOPPED
    assert [row["residual"] for row in seen] == [row["residual"] for row in result.trace]
    assert result.certificate.residual <= min(row["residual"] for row in seen) + 1e-12
    assert {"residual", "violation", "beta", "multipliers", "steps"} <= seen[0].keys()


def test_bfloat16_autocast_is_for_sampled_steps_only() -> None:
    model = network(dtype=torch.float32)
    data = tuple(t.float() for t in (X, T))
    seen = set()

    def objective(m: Any, b: Any) -> Any:
        out = m(b[0])
        seen.add((out.dtype, torch.is_grad_enabled() and m.training))
        return (torch.nn.functional.softplus(-out.float().squeeze(-1)) * b[1]).mean() / NP.share

    model.train()
    fit(model, objective, {}, data, method="adam", autocast=torch.bfloat16, max_epochs=20, tol=1e-6)
    assert (torch.bfloat16, True) in seen
    assert (torch.float32, False) in seen


def test_a_compiled_model_works() -> None:
    model = linear()
    compiled = torch.compile(model, backend="eager")
    result = fit(compiled, NP.objective, ALARMS, (X, T), tol=1e-5)
    assert result.success
    assert torch.equal(model.weight.detach().reshape(-1), result.x[:5])


def test_no_graph_is_kept_between_steps() -> None:
    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())

    counts: list[int] = []
    seen = 0

    def look(row: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1
        if seen in (5, 25):
            counts.append(tensors())

    fit(
        network(), NP.objective, ALARMS, (X, T), method="sgd", epochs=at.FixedEpochs(10, unit="iterations"), tol=1e-9,
        max_outer=30, callback=look,
    )  # fmt: skip
    assert len(counts) == 2
    assert counts[1] - counts[0] <= 12  # 200 steps later: a graph per step would add hundreds


# ------------------------------------------------------------------------------------------------------------ bad input


def nan_loss(model: Any, batch: Any) -> Any:
    return NP.objective(model, batch) * float("nan")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": nan_loss}, "objective must be finite at the start, over all rows, got nan"),
        ({"objective": lambda m, b: m(b[0])}, r"objective must return a number.*got shape \(400, 1\)"),
        ({"objective": lambda m, b: 3.0}, "objective must return a tensor, got float"),
        (
            {"objective": lambda m, b: torch.zeros(()), "constraints": {}},
            "must depend on the model's trainable parameters",
        ),
        (
            {"constraints": {"gap": at_most(0.1, lambda m, b: m(b[0]))}},
            r"constraint 'gap' must return a number or a vector.*got shape \(400, 1\)",
        ),
        (
            {"constraints": {"gap": at_most(0.1, lambda m, b: NP.false_alarms(m, b) * torch.inf)}},
            "constraints must be finite at the start",
        ),
        (
            {"constraints": {**ALARMS, "gap": at_most(0.1, lambda m, b: (m(b[0]) > 0).float().mean())}},
            "constraint 'gap' must depend on the parameters by operations with derivatives",
        ),
        ({"constraints": {"gap": at_most([0.1, 0.2], NP.false_alarms)}}, "'gap' must have one number per side"),
        ({"constraints": {"gap": NP.false_alarms}}, r"constraint 'gap' must be at_most\(bound, function\)"),
        ({"constraints": [at_most(0.1)]}, "constraints must be a dictionary"),
        ({"constraints": {"gap": at_most(0.1)}}, r"objective must return \(loss, values of the constraints\)"),
        ({"data": []}, "data must yield at least one batch, got none"),
        ({"data": torch.utils.data.TensorDataset(X[:0], T[:0])}, "got an empty dataset"),
        ({"data": (X[:0], T[:0])}, "at least one row"),
        ({"data": (X, T[:10])}, r"share their first axis, got lengths \[10, 400\]"),
        ({"data": (X.numpy(), T.numpy())}, "got NumPy arrays: torch.as_tensor makes tensors of them"),
        ({"data": {"X": X, "t": T.numpy()}}, "got NumPy arrays"),
        ({"data": X.numpy()}, "got NumPy arrays"),
        ({"data": [X, T]}, r"data must be a tuple of tensors, \(X, y\), or a list of batches that are alike"),
        (
            {"objective": lambda m, b: NP.objective(m, b).detach()},
            "objective must depend on the parameters by operations with derivatives, got a value without any",
        ),
        ({"callback": 3}, "callback must be callable, got 3"),
        ({"prox": at.L1(0.1)}, r"prox must be a list of pairs \(parameters, term\), got L1"),
        ({"checkpoint": "no such folder/run.npz"}, "checkpoint must lie in an existing folder, got 'no such folder"),
        ({"data": iter([(X, T)])}, "iterated over again and again, got an iterator"),
        ({"methd": "adam"}, r"fit\(\) has no argument 'methd'; did you mean 'method'\?"),
        ({"method": "newton"}, "method must be one of .* got 'newton'"),
        ({"method": torch.optim.LBFGS}, "cannot step without a closure"),
        ({"method": lambda params: None}, "must return a torch.optim optimiser, got NoneType"),
        ({"tol": -1.0}, "tol must be positive"),
        ({"batch": 0}, "batch must be a positive integer or None, got 0"),
        ({"batch": len(X) + 1}, f"batch must be at most the number of rows, {len(X)}, got {len(X) + 1}"),
        (
            {"epochs": 3},
            r"FixedEpochs\(n\), the length of each subproblem \(passes of the whole run are max_epochs=\), got 3",
        ),
        ({"n_epochs": 3}, r"fit\(\) has no argument 'n_epochs'; did you mean 'max_epochs'\?"),
        ({"num_epochs": 3}, r"fit\(\) has no argument 'num_epochs'; did you mean 'max_epochs'\?"),
        ({"max_epochs": "3"}, "max_epochs must be positive and finite, got '3'"),
        ({"max_outer": 0.5}, "max_outer must be a positive integer or None, got 0.5"),
        ({"autocast": torch.float16}, "float16 needs a GradScaler"),
        ({"prox": [("nothing", at.L1(0.1))]}, "prox must name trainable parameters"),
        ({"prox": [("weight", at.L1(0.1))], "method": "adam"}, "prox terms other than boxes need steps along"),
        ({"y0": [1.0, 2.0]}, "y0 must be 1 finite numbers"),
    ],
)
def test_bad_input_is_named_and_the_model_left_as_it_was(change: dict[str, Any], message: str) -> None:
    model = linear()
    before = copy.deepcopy(model.state_dict())
    arguments: dict[str, Any] = {"objective": NP.objective, "constraints": ALARMS, "data": (X, T)} | change
    with pytest.raises((InputError, TypeError), match=message):
        fit(model, arguments.pop("objective"), arguments.pop("constraints"), arguments.pop("data"), **arguments)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_a_constraint_may_have_no_graph_in_some_chunks() -> None:
    order = torch.argsort(T)
    rows = X[order], T[order]  # the first chunks have no positives

    def positives_only(model: Any, batch: Any) -> Any:
        X, t = batch
        return (model(X).squeeze(-1) * t).mean() if t.any() else torch.zeros(())

    assert fit(linear(), NP.objective, {"mean": at_most(0.5, positives_only)}, rows, chunk=50, tol=1e-2).success


def test_mixed_devices_are_named() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 2), torch.nn.Linear(2, 1, device="meta"))
    with pytest.raises(InputError, match=r"one device, got '0.weight' on cpu and '1.weight' on meta"):
        fit(model, NP.objective, {}, (X, T))
    with pytest.raises(InputError, match="on the parameters' device, cpu, got one on meta"):
        fit(linear(), lambda m, b: torch.zeros((), device="meta"), {}, (X, T))


def test_an_error_in_the_middle_leaves_the_model_as_it_was() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)).double()
    before = copy.deepcopy(model.state_dict())
    calls = 0

    def broken(m: Any, b: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 200:
            raise ZeroDivisionError("mine")
        return NP.objective(m, b)

    with pytest.raises(ZeroDivisionError, match="mine"):
        fit(model, broken, ALARMS, (X, T), tol=1e-9)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_batch_norm_is_left_as_it_was_at_the_best_point() -> None:
    torch.manual_seed(4)
    layers = torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    model = torch.nn.Sequential(*layers).double()
    result = fit(model, NP.objective, ALARMS, (X, T), method="adam", batch=32, tol=1e-6, max_epochs=40)
    best = min(result.trace, key=lambda row: row["residual"])
    assert best is not result.trace[-1]
    assert result.certificate.residual == pytest.approx(best["residual"])
    assert result.fun == pytest.approx(best["objective"])


def test_a_loader_gives_the_rows_of_its_sampler_and_no_others() -> None:
    half = torch.utils.data.SubsetRandomSampler(range(0, 400, 2))
    dataset = torch.utils.data.TensorDataset(X, T)
    loader = torch.utils.data.DataLoader(dataset, batch_size=50, sampler=half)
    found = fit(linear(), NP.objective, ALARMS, loader, method="lbfgs", tol=1e-6)
    alone = fit(linear(), NP.objective, ALARMS, (X[::2], T[::2]), method="lbfgs", tol=1e-6)
    assert found.x.tolist() == pytest.approx(alone.x.tolist(), abs=1e-9)
    weighted = torch.utils.data.WeightedRandomSampler(torch.rand(400).tolist(), 400)
    loader = torch.utils.data.DataLoader(dataset, batch_size=50, sampler=weighted)
    with pytest.raises(InputError, match="draws all rows of its dataset alike, got one with WeightedRandomSampler"):
        fit(linear(), NP.objective, ALARMS, loader)


def test_the_rows_of_a_stream_are_counted_as_they_come() -> None:
    seen = 0

    def both(model: Any, batch: Any) -> Any:
        nonlocal seen
        seen += len(batch[0])
        return NP.both(model, batch)

    stream = [(X[i : i + 30], T[i : i + 30]) for i in range(0, 400, 30)]
    result = fit(linear(), both, {"false alarms": at_most(0.6)}, stream, method="sgd", tol=1e-9, max_epochs=10)
    assert result.epochs == pytest.approx(seen / 400)


def test_momentum_is_refused_beside_norms() -> None:
    # With momentum mu a step is lr D / (1 - mu) in the long run: a prox of lr would weigh the norm 1 - mu times.
    def heavy(params: Any) -> Any:
        return torch.optim.SGD(params, lr=0.1, momentum=0.9)

    with pytest.raises(InputError, match=r"steps along the gradient, got SGD: take torch.optim.SGD without momentum"):
        fit(linear(), NP.objective, ALARMS, (X, T), method=heavy, prox=[("weight", at.L1(0.1))])
    fit(linear(), NP.objective, ALARMS, (X, T), method=heavy, prox=[("weight", at.Box(-1, 1))], max_epochs=3)


def test_the_result_is_the_model_in_half_precision_too() -> None:
    model = linear(dtype=torch.bfloat16)
    data = X.bfloat16(), T.bfloat16()
    result = fit(model, NP.objective, ALARMS, data, method="lbfgs", tol=0.1, max_epochs=60)
    assert result.x.tolist() == torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()


def test_dropout_inside_recurrent_layers_counts_for_auto() -> None:
    class Recurrent(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, dropout: float) -> None:
            super().__init__()
            self.cells = torch.nn.GRU(5, 3, num_layers=2, dropout=dropout, batch_first=True)
            self.last = torch.nn.Linear(3, 1)

        def forward(self, x: Any) -> Any:
            return self.last(self.cells(x[:, None])[0][:, -1])

    names = [fit(Recurrent(share).double(), NP.objective, ALARMS, (X, T), tol=10.0).method for share in (0.0, 0.5)]
    assert names == ["lbfgs", "single-loop"]  # full batches would not see the dropout


@pytest.mark.parametrize("data", [(X.numpy(), T.numpy()), {"X": X.numpy()}, X.numpy()])
def test_numpy_arrays_are_named(data: Any) -> None:
    with pytest.raises(InputError, match=r"got NumPy arrays: torch\.as_tensor makes tensors of them"):
        fit(linear(), NP.objective, ALARMS, data)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"method": "single-loop", "max_epochs": 4}, "max_epochs = 4 passes"),
        ({"method": "single-loop", "max_epochs": 25}, "max_epochs = 25 passes"),
        ({"method": "sgd", "max_gradients": 50}, "max_gradients = 50"),
        ({"max_outer": 1}, "max_outer = 1"),
        ({"max_seconds": 1e-6}, "max_seconds = 1e-06"),
    ],
)
def test_the_limit_that_ended_a_run_is_named_with_what_to_try(limits: dict[str, Any], message: str) -> None:
    result = fit(linear(), NP.objective, ALARMS, (X, T), tol=1e-12, **limits)
    assert not result.success
    assert f"limit reached before the tolerance: {message}" in result.message
    name = message.split(" ")[0]
    assert result.advice[0] == f"a larger {name}, with the model as it is now and y0=result.multipliers."
    assert f"Try: a larger {name}" in result.explain()


def test_a_limit_beside_a_checkpoint_says_how_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    result = fit(linear(), NP.objective, ALARMS, (X, T), tol=1e-12, max_outer=1, checkpoint=path)
    assert result.advice[0] == f"a larger max_outer, with resume={str(path)!r}."


@pytest.mark.parametrize("method", ["single-loop", "lbfgs"])
def test_a_bound_that_is_not_attained_is_asked_about_and_not_called_infeasible(method: str) -> None:
    result = fit(
        linear(), NP.objective, {"fa": at_most(-1.0, NP.false_alarms)}, (X, T), method=method, max_epochs=60
    )  # fmt: skip
    assert not result.success
    assert "nfeasible" not in result.explain()
    least = min(row["violation"] for row in result.trace)
    tip = next(tip for tip in result.advice if "whether the bounds can be attained, above all that of 'fa'" in tip)
    assert float(tip.rsplit(" ", 1)[1].rstrip(".")) == pytest.approx(least, rel=1e-2)


def test_bounds_are_asked_about_where_most_of_the_residual_is_something_else() -> None:
    never = {"fa": at_most(-0.1, NP.false_alarms)}  # a mean of positive numbers
    result = fit(network(), NP.objective, never, (X, T), method="single-loop", max_epochs=20)
    assert any("whether the bounds can be attained, above all that of 'fa'" in tip for tip in result.advice)


def test_a_solved_run_and_one_with_no_violation_ask_no_such_thing() -> None:
    assert fit(linear(), NP.objective, ALARMS, (X, T)).advice == ()
    free = fit(linear(), NP.objective, {"c": at_most(9.0, NP.false_alarms)}, (X, T), tol=1e-12, max_outer=1)
    assert not any("attained" in tip for tip in free.advice)


def test_a_violated_constraint_that_no_step_can_change_is_named() -> None:
    model = Vector([0.0, 0.0])
    flat = {"flat": at_most(0.4, lambda m, b: 0.0 * m.x.sum() + 0.7), "sum": at_most(5.0, lambda m, b: m.x.sum())}
    result = fit(model, projection, flat, POINTS, max_epochs=10)
    assert not result.success
    assert "'flat'" in result.advice[0]
    assert "its gradient is zero" in result.advice[0]


def test_rows_of_another_precision_than_the_model_are_named() -> None:
    rows = torch.ones(20, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="dtype") as caught:
        fit(torch.nn.Linear(3, 1), lambda m, b: m(b).mean(), {}, rows)
    assert (
        "the parameters are torch.float32, the rows torch.float64: give them .to(torch.float32)"
        in caught.value.__notes__
    )
