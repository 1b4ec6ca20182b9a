"""The numbers that steer the numerical rooms: all of them are used, and replacing them has an effect."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import auglag
from auglag.inner import tuning as inner
from auglag.interior import tuning as interior
from auglag.kkt import Hessian, Model, Sets, solve
from auglag.kkt import tuning as kkt

ROOMS = {"inner": inner, "interior": interior, "kkt": kkt}


@pytest.mark.parametrize("room", ROOMS)
def test_every_number_is_read_and_explained(room):
    folder = Path(auglag.__file__).parent / room
    code = "\n".join(path.read_text() for path in folder.rglob("*.py") if path.name != "tuning.py")
    explained = (folder / "tuning.py").read_text()
    for field in dataclasses.fields(ROOMS[room].Tuning):
        assert f".{field.name}" in code, f"{room}/tuning.py: {field.name} is not used"
        assert f"    {field.name}: " in explained
    assert "    #: " in explained


def test_an_ablation_replaces_a_number_for_code_that_runs_afterwards(monkeypatch):
    n = 2
    h = Hessian(np.diag([-1.0, 1.0]))
    box, none = np.ones(n), np.zeros(0)
    model = Model(h, box, np.zeros((0, n)), none, 1.0, none, none, -box, box, np.zeros(0, bool))
    assert solve(model, Sets.none(n, 0)).shift == 0.0
    monkeypatch.setattr(kkt, "TUNING", dataclasses.replace(kkt.TUNING, eigenvalues_dense=0))
    assert solve(model, Sets.none(n, 0)).shift >= 1.0
