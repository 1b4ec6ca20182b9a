"""auglag as a solver of Pyomo, through files and another Python or directly in this one.

    import pyomo.environ as pyo
    import auglag.pyomo

    results = pyo.SolverFactory("auglag").solve(model, tee=True, options={"tol": 1e-7})  # as every AMPL solver
    results = auglag.pyomo.Auglag().solve(model, solver_options={"tol": 1e-7})  # in this Python, Pyomo's new interface
    results = pyo.SolverFactory("auglag_v2").solve(model)  # the same behind the old interface

Duals come through `model.dual = pyo.Suffix(direction=pyo.Suffix.IMPORT)` in Pyomo's sign, multipliers of bounds through
the suffixes auglag_zL_out and auglag_zU_out (or ipopt_zL_out and ipopt_zU_out). Without this module,
`SolverFactory("asl:auglag")` runs the `auglag` that is on the path.
"""

from __future__ import annotations

try:
    from auglag.pyomo.asl import AuglagSolver
    from auglag.pyomo.direct import Auglag
except ImportError as error:  # pragma: no cover - seen only without the extra
    if not (error.name or "").startswith("pyomo"):
        raise
    raise ImportError(f"auglag.pyomo needs {error.name}: pip install 'auglag[pyomo]'") from None

__all__ = ["Auglag", "AuglagSolver"]
