"""What the two loops of a user's own share: functions that are made at first use, and a state that is saved and read.

`AugmentedLagrangian` and `SingleLoop` differ in what they do with a batch, not in this.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from auglag.errors import CheckpointError, InputError
from auglag.stochastic.limits import Ledger
from auglag.torch.attached import Attached
from auglag.torch.constraints import Constraint, Layout
from auglag.torch.data import as_source
from auglag.torch.distributed import Team
from auglag.torch.fit import unwrapped
from auglag.torch.full_batch import FullBatch
from auglag.torch.functions import Functions
from auglag.torch.steps_seen import StepsSeen
from auglag.torch.variables import Variables

Tensor = Any


class OwnLoop(ABC):
    """A loop that belongs to the user; what it is told of batches lies between `loss` and `step`."""

    #: Of the dictionary that `state_dict` returns.
    format: int

    def __init__(self, model: Any, constraints: Mapping[str, Constraint], optimizer: Any) -> None:
        self.model, self.optimizer = unwrapped(model), optimizer
        self.constraints = Layout(constraints).constraints
        self._seen = StepsSeen(optimizer, self._before_step)
        self._attached = Attached()
        self._functions: Functions | None = None

    @property
    @abstractmethod
    def waiting(self) -> bool:
        """Whether `loss` was called since the last step."""

    @abstractmethod
    def _before_step(self) -> None:
        """Before a step of the optimiser."""

    def _ready(self) -> Functions:
        """Parameters are looked up at first use: until then a model may move to its device."""
        if self._functions is None:
            variables = Variables(self.model.named_parameters())
            bare = {name: Constraint(con.lower, con.upper, None, con.exact) for name, con in self.constraints.items()}
            self._functions = Functions(self.model, _none, bare, variables)
        return self._functions

    def _full(self, evaluate: Callable[[Any, Any], Any], data: Any) -> FullBatch:
        """All rows, streamed."""
        functions = self._ready()
        functions.objective, functions.together = evaluate, bool(self.constraints)
        team = Team(functions.variables.device)
        return FullBatch(functions.variables, functions, as_source(data, team, None), team, Ledger())

    # ---------------------------------------------------------------------------------------------------- save, resume

    def attach(self, **things: Any) -> None:
        """Let things go along in `state_dict`: models, optimisers, schedulers, scalers, `Batches`, generators."""
        self._attached.add(things)

    def state_dict(self) -> dict[str, Any]:
        """All that evolves, with what was attached and the states of PyTorch's own generators; between two steps."""
        if self.waiting:
            raise InputError("state_dict() must be called between al.step() and the next al.loss(...)")
        layout = None if self._functions is None else self._functions.layout
        return {
            "format": self.format,
            "names": list(self.constraints),
            "sizes": None if layout is None else layout.sizes,
            "scalar": {} if layout is None else layout.scalar,
            **self._state_now(),
            **self._attached.save(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, bit for bit. One that cannot be read changes nothing."""
        what = type(self).__name__
        if state.get("format") != self.format:
            raise CheckpointError(
                f"the state must be that of {'an' if what[0] in 'AEIOU' else 'a'} {what}, format {self.format}, "
                f"got format {state.get('format')!r}"
            )
        try:
            if state["names"] != list(self.constraints):
                raise CheckpointError(
                    f"the state belongs to constraints {state['names']}, got {list(self.constraints)}"
                )
            self._attached.check(state)
            layout = copy.copy(self._ready().layout)
            if state["sizes"] is not None:
                layout.scalar = dict(state["scalar"])
                layout.settle(dict(state["sizes"]))
            take_up = self._read(state, layout)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise CheckpointError(
                f"the state of {what} is damaged or incomplete, so that nothing was changed: {error!r}"
            ) from error
        self._attached.restore(state)
        self._ready().layout = layout
        self._seen.again()
        take_up()

    @abstractmethod
    def _state_now(self) -> dict[str, Any]:
        """What evolves beside what was attached."""

    @abstractmethod
    def _read(self, state: dict[str, Any], layout: Layout) -> Callable[[], None]:
        """What evolves, built from a saved state without a change to the loop; what comes back takes it up."""


def _none(model: Any, batch: Any) -> Any:
    raise InputError("no evaluate function was given yet: test and certificate take one")
