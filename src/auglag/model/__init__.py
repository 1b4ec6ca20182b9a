"""Models as patterns: large sparse problems from small functions and the index arrays they run over.

`Model` states a problem; `power_flow` reads one from a MATPOWER file. Derivatives are exact and sparse, compiled by
JAX. Needs the extra `jax`.
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError("auglag.model needs JAX: pip install 'auglag[jax]' (on an NVIDIA GPU: 'auglag[gpu]')") from error

from auglag.model.batch import BatchSolution
from auglag.model.handles import Parameter, Rows, Variables
from auglag.model.model import Model
from auglag.model.power_flow import power_flow
from auglag.model.solution import Solution

__all__ = ["BatchSolution", "Model", "Parameter", "Rows", "Solution", "Variables", "power_flow"]
