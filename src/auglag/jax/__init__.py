"""auglag in JAX: compiled, batched, differentiable."""

from auglag.jax.batch import solve_batch
from auglag.jax.solve import solve

__all__ = ["solve", "solve_batch"]
