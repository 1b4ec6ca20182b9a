"""The stochastic proximal methods M for Algorithm 2, by name. One more is one file and one line here."""

from __future__ import annotations

from auglag.stochastic.method import Method
from auglag.stochastic.pstorm import PStorm
from auglag.stochastic.sgd import SGD
from auglag.stochastic.svrg import SVRG

METHODS: dict[str, Method] = {method.name: method for method in (SGD(), PStorm(), SVRG())}

__all__ = ["METHODS", "SGD", "SVRG", "Method", "PStorm"]
