"""The adaptive single loop: multipliers and penalties that move with every step on a batch, for NumPy and PyTorch.

`engine.py` has the method as far as it concerns the m constraints; who moves x (`auglag.stochastic.single_loop`,
`auglag.torch.single_loop`) keeps the Jacobian and the moments of gradients.
"""

from auglag.single_loop.engine import Engine, EngineState
from auglag.single_loop.schedule import Round, batch_rows, first_round, next_round

__all__ = ["Engine", "EngineState", "Round", "batch_rows", "first_round", "next_round"]
