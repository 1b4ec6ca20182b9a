"""auglag in JAX: compiled, batched, differentiable.

`solve` runs Algorithm 1 inside one compiled program, under `jit`, `vmap` and `grad`; `solve_batch` runs it for a
hundred thousand instances at once; `minimize` is `auglag.minimize` for JAX functions, and `JaxProblem` goes to
`auglag.minimize` itself. Needs the extra `jax`.
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("auglag.jax needs JAX: pip install 'auglag[jax]' (on an NVIDIA GPU: 'jax[cuda13]')") from error

from auglag.jax.batch import solve_batch
from auglag.jax.host import minimize
from auglag.jax.problem import JaxProblem
from auglag.jax.solution import Solution
from auglag.jax.solve import solve

__all__ = ["JaxProblem", "Solution", "minimize", "solve", "solve_batch"]
