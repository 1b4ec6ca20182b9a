# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""`fit`: objectives and constraints that are no means over the rows of a batch are noticed, and nothing else is."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from auglag import InputError
from auglag.torch import at_least, at_most, fit

torch.manual_seed(0)
X = torch.randn(1000, 5)
Y = (X[:, 0] + 0.5 * torch.randn(1000) > 0.5).float()
SHORT: dict[str, Any] = {"max_epochs": 3, "chunk": 200}


def line(zero: bool = True) -> Any:
    model = torch.nn.Linear(5, 1)
    if zero:
        for p in model.parameters():
            torch.nn.init.zeros_(p)
    return model


def loss(model: Any, batch: Any) -> Any:
    return F.binary_cross_entropy_with_logits(model(batch[0])[:, 0], batch[1])


def caught(model: Any, batch: Any) -> Any:
    """Expected number of positives that are found."""
    return (torch.sigmoid(model(batch[0])[:, 0]) * batch[1]).sum()


def precision(model: Any, batch: Any) -> Any:
    found = torch.sigmoid(model(batch[0])[:, 0])
    return (found * batch[1]).sum() / found.sum()


def f1(model: Any, batch: Any) -> Any:
    found = torch.sigmoid(model(batch[0])[:, 0])
    return 2 * (found * batch[1]).sum() / (found.sum() + batch[1].sum())


def recall(model: Any, batch: Any) -> Any:
    return (torch.sigmoid(model(batch[0])[:, 0]) * batch[1]).sum() / batch[1].sum()


def parity(model: Any, batch: Any) -> Any:
    p, group = torch.sigmoid(model(batch[0])[:, 0]), batch[0][:, 1] > 0
    return p[group].mean() - p[~group].mean()


def spread(model: Any, batch: Any) -> Any:
    return model(batch[0])[:, 0].var()


@pytest.mark.parametrize("function", [precision, f1, recall, parity, spread])
@pytest.mark.parametrize("method", ["single-loop", "lbfgs", "adam"])
def test_ratios_are_errors_where_tests_take_several_chunks(function: Any, method: str) -> None:
    with pytest.raises(InputError, match=r"constraint 'it' must be a mean over the rows .*chunk=1000 makes tests see"):
        fit(line(), loss, {"it": at_least(0.8, function)}, (X, Y), method=method, **SHORT)


@pytest.mark.parametrize("data", [(X, Y), TensorDataset(X, Y), DataLoader(TensorDataset(X, Y), batch_size=64)])
def test_sums_are_errors(data: Any) -> None:
    with pytest.raises(InputError, match="It adds up rows: divide by the number of rows of the batch"):
        fit(line(), loss, {"caught": at_least(100.0, caught)}, data, max_epochs=3, chunk=200)
    with pytest.raises(InputError, match="objective must be a mean over the rows"):
        fit(line(), lambda m, b: len(b[1]) * loss(m, b), {}, data, max_epochs=3, chunk=200)


def test_list_of_batches_is_looked_at() -> None:
    batches = list(zip(X.split(100), Y.split(100), strict=True))
    with pytest.raises(InputError, match="adds up rows"):
        fit(line(), loss, {"caught": at_least(100.0, caught)}, batches, max_epochs=3)
    fit(line(), loss, {"caught": at_least(100.0, caught)}, [(X, Y)], max_epochs=3)  # one batch: all rows at once


def test_all_rows_at_once_are_right_and_only_samples_are_warned_of() -> None:
    data = (X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = line()
        result = fit(model, loss, {"precision": at_least(0.8, precision)}, data, method="lbfgs", chunk=1000)
        assert result.success
        assert precision(model, data).item() >= 0.799
    with pytest.warns(UserWarning, match="Tests see all rows at once and are right"):
        fit(line(), loss, {"precision": at_least(0.8, precision)}, data, max_epochs=3, chunk=1000)


def test_mean_over_chunks_can_be_meant() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(line(), loss, {"it": at_least(0.8, precision)}, (X, Y), check_means=False, **SHORT)


def test_loss_that_compares_rows_is_a_warning() -> None:
    def contrast(model: Any, batch: Any) -> Any:
        z = model(batch[0])
        return -torch.log_softmax(z @ z.T, dim=1).diag().mean() + model.weight.square().sum()

    def weighted(model: Any, batch: Any) -> Any:
        both = torch.cat([model(batch[0]), -model(batch[0])], dim=1)
        return F.cross_entropy(both, batch[1].long(), weight=torch.tensor([1.0, 3.0]))

    for objective in (contrast, weighted):
        with pytest.warns(UserWarning, match=r"objective must be a mean .* its mean over batches of 200 rows"):
            fit(line(), objective, {}, (X, Y), **SHORT)


def test_constraints_on_layers_that_compare_rows_are_a_warning() -> None:
    def model() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4, track_running_stats=False),
                                   torch.nn.Linear(4, 1))  # fmt: skip

    positive = at_most(0.5, lambda m, b: torch.sigmoid(m(b[0])).mean())
    with pytest.warns(UserWarning, match="must be a mean"):
        fit(model(), loss, {"positive": positive}, (X, Y), **SHORT)


class _Augmented(Dataset[Any]):
    """Rows with fresh noise every time."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> Any:
        return X[i] + 0.1 * torch.randn(5), Y[i]


def _named(rows: Any) -> Any:
    """A batch with something beside tensors."""
    x, y = zip(*rows, strict=True)
    return {"x": torch.stack(x), "y": torch.stack(y), "names": [f"row {i}" for i in range(len(rows))]}


def _deep() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
    )


def _noisy(model: Any, batch: Any) -> Any:
    return loss(model, (batch[0] + 0.3 * torch.randn_like(batch[0]), batch[1]))


RIGHT: dict[str, tuple[Any, Any, Any, Any]] = {
    "batch norm and dropout": (_deep, loss, lambda m, b: torch.sigmoid(m(b[0])).mean(), (X, Y)),
    "augmented rows": (line, loss, lambda m, b: torch.sigmoid(m(b[0])).mean(), _Augmented()),
    "noise in the functions": (line, _noisy, lambda m, b: torch.sigmoid(m(b[0])).mean(), (X, Y)),
    "a constraint of the parameters": (line, loss, lambda m, b: m.weight.square().sum(), (X, Y)),
    "a constraint that is nearly constant": (line, loss, lambda m, b: 1e-9 * m.weight.sum() + 0.3, (X, Y)),
    "shares of all rows": (line, loss, lambda m, b: torch.sigmoid(m(b[0])[:, 0])[b[1] > 0].sum() / len(b[1]), (X, Y)),
    "weighted rows": (line, lambda m, b: (b[2] * m(b[0])[:, 0]).square().mean(), lambda m, b: m(b[0]).mean(),
                      (X, Y, torch.rand(1000))),
    "uneven last batch": (line, loss, lambda m, b: torch.sigmoid(m(b[0])).mean(), (X[:901], Y[:901])),
    "sorted rows": (line, loss, lambda m, b: torch.sigmoid(m(b[0])).mean(), (X[Y.argsort()], Y.sort().values)),
    "two rows": (line, loss, lambda m, b: torch.sigmoid(m(b[0])).mean(), (X[:2], Y[:2])),
    "large values that cancel": (line, loss, lambda m, b: (1e6 * m(b[0]) + 1e6 * b[0][:, :1]).mean(), (X, Y)),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("method", ["single-loop", "lbfgs"])
def test_right_uses_are_not_flagged(name: str, method: str) -> None:
    model, objective, function, data = RIGHT[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(model(), objective, {"c": at_most(0.5, function)}, data, method=method, max_epochs=2, chunk=97)


def test_batches_with_more_than_tensors_are_drawn_again() -> None:
    loader = DataLoader(TensorDataset(X, Y), batch_size=100, collate_fn=_named)

    def positives(model: Any, batch: Any) -> Any:
        return torch.sigmoid(model(batch["x"])).mean()

    def objective(model: Any, batch: Any) -> Any:
        return loss(model, (batch["x"], batch["y"]))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(line(), objective, {"c": at_most(0.5, positives)}, loader, max_epochs=2)
    with pytest.raises(InputError, match="adds up rows"):
        fit(
            line(),
            objective,
            {"c": at_most(0.5, lambda m, b: 100 * positives(m, b) * len(b["y"]))},
            loader,
            max_epochs=2,
        )


def test_half_precision_is_no_gap() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = (X.bfloat16(), Y.bfloat16())
        half = line().bfloat16()
        fit(half, loss, {"c": at_most(0.5, lambda m, b: torch.sigmoid(m(b[0])).mean())}, rows, **SHORT)


def test_looking_leaves_model_and_random_numbers_alone() -> None:
    found = []
    for check in (True, False):
        torch.manual_seed(3)
        model = _deep()
        fit(model, loss, {"c": at_most(0.5, lambda m, b: torch.sigmoid(m(b[0])).mean())}, (X, Y),
            method="lbfgs", max_epochs=30, chunk=97, check_means=check)  # fmt: skip
        found.append(torch.cat([p.detach().reshape(-1) for p in model.parameters()]))
        found.append(torch.rand(3))
    assert torch.equal(found[1], found[3])


def test_a_missing_squeeze_is_thought_of() -> None:
    def crossed(model: Any, batch: Any) -> Any:
        return ((model(batch[0]) - batch[1]) ** 2).mean()  # (N, 1) and (N,) make (N, N)

    with pytest.warns(UserWarning, match=r"\(N, 1\) and labels of shape \(N,\) make an \(N, N\) .*: squeeze"):
        fit(line(zero=False), crossed, {}, (X, Y), **SHORT)
