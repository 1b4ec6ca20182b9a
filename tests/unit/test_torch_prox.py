# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""Prox terms for parameters: p = prox(t, step) exactly when (t - p) / step is in dg(p); as in `auglag.prox`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

import auglag.prox
from auglag import InputError
from auglag.torch import L1, SVRG, Box, GroupL2, NuclearNorm, at_most, fit
from helpers.torch_problems import NeymanPearson, network, rows

TERMS: list[tuple[Any, Any]] = [
    (L1(0.7), auglag.prox.L1(0.7)),
    (GroupL2(0.9), auglag.prox.GroupL2(np.arange(12).reshape(4, 3), 0.9)),
    (GroupL2(0.9, dim=1), auglag.prox.GroupL2(np.arange(12).reshape(4, 3).T, 0.9)),
    (NuclearNorm(0.8), auglag.prox.NuclearNorm((4, 3), 0.8)),
    (Box(-0.3, 0.5), auglag.prox.Box(np.full(12, -0.3), np.full(12, 0.5))),
]


@pytest.mark.parametrize(("term", "reference"), TERMS)
@pytest.mark.parametrize("seed", range(4))
def test_prox_value_and_excess_are_those_of_the_numpy_terms(term: Any, reference: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t, v, step = torch.tensor(rng.standard_normal((4, 3))), torch.tensor(rng.standard_normal((4, 3))), 0.6
    p = term.prox(t, step)
    assert p.numpy().reshape(-1) == pytest.approx(reference.prox(t.numpy().reshape(-1), step), abs=1e-12)
    assert float(term.value(p)) == pytest.approx(reference.value(p.numpy().reshape(-1)))
    assert float(torch.linalg.vector_norm(term.excess(p, (t - p) / step))) <= 1e-9
    distance = reference.subdiff_distance(p.numpy().reshape(-1), v.numpy().reshape(-1))
    assert float(torch.linalg.vector_norm(term.excess(p, v))) == pytest.approx(distance, abs=1e-9)


def test_a_box_is_infinite_outside_and_shapes_are_checked() -> None:
    assert float(Box(0.0, 1.0).value(torch.tensor([0.5, 2.0]))) == np.inf
    with pytest.raises(InputError, match=r"NuclearNorm needs a matrix, got 'b' with 1 dimension"):
        NuclearNorm(1.0).check("b", torch.zeros(3))
    with pytest.raises(InputError, match=r"GroupL2\.dim must be a dimension of 'w', which has 2, got 2"):
        GroupL2(1.0, dim=2).check("w", torch.zeros(3, 3))
    with pytest.raises(InputError, match=r"Box\.lower must not exceed upper"):
        Box(1.0, 0.0)


@pytest.mark.parametrize("method", ["lbfgs", SVRG()])
def test_pruning_under_constraints(method: Any) -> None:
    X, T = rows(300, 8)
    problem = NeymanPearson(T)
    model = network(8)
    groups = [("0.weight", GroupL2(0.05)), ([model[2].weight], Box(-1.0, 1.0))]
    tol = 1e-5 if method == "lbfgs" else 2e-2
    result = fit(
        model, problem.objective, {"false alarms": at_most(0.75, problem.false_alarms)}, (X, T), prox=groups,
        method=method, tol=tol, max_epochs=1500,
    )  # fmt: skip
    assert result.success, result.message
    norms = torch.linalg.vector_norm(model[0].weight.detach(), dim=1)
    assert int((norms == 0).sum()) >= 3  # whole neurons are gone
    assert float(norms.max()) > 0.1
    assert float(model[2].weight.detach().abs().max()) <= 1.0
    assert result.fun > float(problem.objective(model, (X, T)).detach())  # g is part of it
