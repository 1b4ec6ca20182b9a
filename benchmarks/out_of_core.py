"""10 million rows x 100 features on disk (float32, 4 GB, generated once), streamed: passes, seconds, peak memory, R.

python benchmarks/out_of_core.py [--rows 10000000] [--folder FOLDER] [--tol 1e-2]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from auglag.stochastic import LinearBlock, StochasticProblem, minimize

FEATURES = 100


def generate(path: Path, rows: int, seed: int, sign: float, centre: np.ndarray) -> np.memmap:
    """Gaussian features of scales k^-0.75 around sign * centre, and an intercept; written chunk by chunk."""
    shape = (rows, FEATURES)
    if not path.exists() or path.stat().st_size != 4 * rows * FEATURES:
        rng = np.random.default_rng(seed)
        scale = (np.arange(1, FEATURES) ** -0.75).astype(np.float32)
        with path.open("wb") as file:
            for start in range(0, rows, 100_000):
                count = min(100_000, rows - start)
                part = np.ones((count, FEATURES), dtype=np.float32)
                part[:, :-1] = (rng.standard_normal((count, FEATURES - 1), dtype=np.float32) + sign * centre) * scale
                part.tofile(file)
    return np.memmap(path, dtype=np.float32, mode="r", shape=shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "auglag-out-of-core")
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--chat", type=float, default=0.3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    centre = (0.1 * np.random.default_rng(0).standard_normal(FEATURES - 1)).astype(np.float32)
    positives = round(0.4 * options.rows)
    began = time.perf_counter()
    negatives, folder = options.rows - positives, options.folder
    plus = generate(folder / f"plus-{positives}.bin", positives, 1, 1.0, centre)
    minus = generate(folder / f"minus-{negatives}.bin", negatives, 2, -1.0, centre)
    size = (plus.nbytes + minus.nbytes) / 1e9
    print(f"data: {options.rows} x {FEATURES}, {size:.1f} GB, {time.perf_counter() - began:.0f} s")
    began = time.perf_counter()
    blocks = [LinearBlock(plus, 1.0, objective=1.0, constraints=[0.0]), LinearBlock(minus, -1.0, constraints=[1.0])]
    problem = StochasticProblem(blocks, lower=[-np.inf], upper=[options.chat])
    print(f"checked for NaN in {time.perf_counter() - began:.0f} s")
    result = minimize(problem, tol=options.tol, max_epochs=100, progress=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"R {result.certificate.residual:.2e}, multiplier {result.multipliers[0]:.3f}, {result.epochs:.2f} passes")
    print(f"{result.seconds:.1f} s, peak memory {peak:.2f} GB")


if __name__ == "__main__":
    main()
