"""Names for the array types that appear in signatures."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
#: What a Jacobian may be: a dense array, any SciPy sparse matrix or array, or a LinearOperator.
Jacobian: TypeAlias = NDArray[np.float64] | sparse.sparray | sparse.spmatrix | LinearOperator
