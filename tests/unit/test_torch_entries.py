# ruff: noqa: E402 (without PyTorch the imports below fail: the line above them skips)
"""A sample of the parameters stands for all of them in inner products."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'auglag[torch]'")

from auglag.torch import SingleLoop, at_most, entries
from auglag.torch.entries import Entries
from auglag.torch.variables import Variables
from helpers.torch_problems import NeymanPearson, network, rows


def test_small_models_have_all_entries_and_no_weights() -> None:
    model = torch.nn.Linear(30, 20)
    of = Entries(Variables(model.named_parameters()))
    assert of.share is None
    assert torch.equal(of.here(), torch.cat([model.weight.detach().reshape(-1), model.bias.detach()]))


def test_inner_products_over_the_sample_are_those_over_all_entries() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 64))
    variables = Variables(model.named_parameters())
    of = Entries(variables)
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(variables.n, generator=generator)
    b = 0.5 * a + torch.randn(variables.n, generator=generator)
    first, second = of.take(variables.split(a)), of.take(variables.split(b))
    assert first.numel() < variables.n / 20
    assert float(first @ of.weighted(second)) == pytest.approx(float(a @ b), rel=0.15)
    assert float(of.weighted(torch.ones_like(first)).sum()) == pytest.approx(variables.n)
    pair = of.rows([torch.stack([s, t]) for s, t in zip(variables.split(a), variables.split(b), strict=True)], 2)
    assert torch.equal(pair, torch.stack([first, second]))


def test_the_single_loop_keeps_a_constraint_by_a_sample_of_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "TUNING", dataclasses.replace(entries.TUNING, least_entries=8))
    X, T = rows(2000)
    task, model = NeymanPearson(T), network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    al = SingleLoop(model, {"false alarms": at_most(0.6)}, optimizer=optimizer, per_pass=40, steps=320)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, al.annealing)
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        for part in torch.randperm(2000, generator=generator).split(50):
            optimizer.zero_grad()
            al.loss(*task.both(model, (X[part], T[part]))).backward()
            optimizer.step()
            al.step()
            schedule.step()
    al.settle()
    assert al._core is not None
    assert al._core.entries.share is not None
    assert al.certificate(task.both, (X, T)).violation < 0.05


def test_the_more_rows_there_are_the_fewer_entries_they_have() -> None:
    variables = Variables(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 64)).named_parameters())
    few, many = Entries(variables, 100), Entries(variables, 100_000)
    assert many.here().numel() < few.here().numel() <= entries.TUNING.kept_numbers / 100
    assert many.here().numel() == pytest.approx(entries.TUNING.least_entries, rel=0.1)
    assert float(many.weighted(torch.ones_like(many.here())).sum()) == pytest.approx(variables.n)


def test_parameters_that_are_put_elsewhere_are_still_those_that_are_read() -> None:
    model = torch.nn.Linear(30, 20)
    of = Entries(Variables(model.named_parameters()))
    first = of.here()
    model.weight.data = model.weight.data.clone() + 1.0
    model.bias.data += 1.0
    assert torch.equal(of.here(), first + 1.0)
    model.weight.data = model.weight.data.T.contiguous().T  # no view of it is a vector
    model.weight.data -= 1.0
    assert torch.equal(of.here()[:600], (first + 1.0)[:600] - 1.0)
