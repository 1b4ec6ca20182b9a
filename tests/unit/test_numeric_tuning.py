"""The numbers that steer the numerical rooms: all of them are used, and replacing them has an effect."""

import ast
import dataclasses
import re
from pathlib import Path
from typing import final

import numpy as np
import pytest

import auglag
from auglag._constants import Constants
from auglag.kkt import Hessian, Model, Sets, solve
from auglag.kkt import tuning as kkt

ROOMS = sorted(path.parent for path in Path(auglag.__file__).parent.rglob("tuning.py"))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_number_is_read_and_explained(room):
    rooms = (room, room.parent / "report")  # messages are handed the numbers of a run
    code = "\n".join(path.read_text() for place in rooms for path in place.rglob("*.py"))
    text = (room / "tuning.py").read_text()
    (found,) = [n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == "Tuning"]
    lines = text.splitlines()
    explained = False  # a comment above explains all fields up to the next blank line or comment
    for field in [n for n in found.body if isinstance(n, ast.AnnAssign)]:
        name = field.target.id
        before = lines[field.lineno - 2].strip()
        explained = before.startswith("#") or (explained and before != "")
        assert re.search(rf"\.{name}\b", code), f"{room.name}/tuning.py: {name} is not used"
        inside = any("#:" in line for line in lines[field.lineno - 1 : field.end_lineno])
        assert inside or explained, f"{room.name}/tuning.py: {name} has no sentence"


def test_an_ablation_replaces_a_number_for_code_that_runs_afterwards(monkeypatch):
    n = 2
    h = Hessian(np.diag([-1.0, 1.0]))
    box, none = np.ones(n), np.zeros(0)
    model = Model(h, box, np.zeros((0, n)), none, 1.0, none, none, -box, box, np.zeros(0, bool))
    assert solve(model, Sets.none(n, 0)).shift == 0.0
    monkeypatch.setattr(kkt, "TUNING", dataclasses.replace(kkt.TUNING, eigenvalues_dense=0))
    assert solve(model, Sets.none(n, 0)).shift >= 1.0


@final
@dataclasses.dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Pair(Constants):
    one: float = 1.0
    two: float = 2.0


def test_constants_have_their_defaults_and_the_values_given_and_no_others():
    changed = dataclasses.replace(Pair(), two=5.0)
    assert (Pair().one, Pair().two, changed.one, changed.two) == (1.0, 2.0, 1.0, 5.0)
    with pytest.raises(TypeError, match="Pair has no constant 'three'"):
        Pair(three=3.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        changed.one = 0.0


def test_a_constant_without_a_value_is_named():
    @final
    @dataclasses.dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
    class Open(Constants):
        one: float

    with pytest.raises(TypeError, match="needs a value for one"):
        Open()
    assert Open(one=1.0).one == 1.0
