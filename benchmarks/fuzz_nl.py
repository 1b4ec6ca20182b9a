"""Random changes of `.nl` files, text and binary: each must be read and evaluated, or be an `NlError`.

    python benchmarks/fuzz_nl.py --inputs 100000 --seed 1

Seeds are a small model with every kind of segment and files that Pyomo wrote. Memory is limited to --memory MiB, an
input that takes more than --seconds counts as a hang, and one in twenty of those that can be read is solved. What
is neither an answer nor an error is printed with the number that reproduces it, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from auglag import ampl
from helpers.nl import binary
from helpers.nl_fuzz import MODEL, evaluated, gently, mutate
from helpers.pyomo_models import MODELS

WRITTEN = ("hs71", "hs100", "ranges", "named_expressions", "chain", "control", "chemical_equilibrium", "packing")


def seeds(folder: Path) -> list[bytes]:
    texts = [MODEL]
    for name in WRITTEN:
        MODELS[name].build().write(str(folder / "seed.nl"))
        texts.append((folder / "seed.nl").read_bytes())
    return [form for text in texts for form in (text, binary(text, "<"), binary(text, ">"))]


def solved(data: bytes, folder: Path) -> None:
    (folder / "fuzz.nl").write_bytes(data)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = ampl.main([str(folder / "fuzz"), "-AMPL", "max_evaluations=200", "max_iter=10", "max_seconds=2"])
    assert code in (0, 1)
    assert code == 1 or (folder / "fuzz.sol").exists()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--memory", type=int, default=2048)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (given.memory << 20, given.memory << 20))

    def hang(*_: object) -> None:
        raise TimeoutError(f"more than {given.seconds} s")

    signal.signal(signal.SIGALRM, hang)
    read = tried = bad = runs = 0
    slowest = 0.0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = seeds(folder)
        for k in range(given.inputs):
            rng = random.Random(f"{given.seed}-{k}")
            data = rng.choice(files)
            if data[:1] == b"g" and rng.random() < 0.7:
                data = gently(data, rng)
            if data[:1] == b"b" or rng.random() < 0.3:
                data = mutate(data, rng)
            begun = time.monotonic()
            signal.alarm(given.seconds)
            try:
                tried += 1
                if evaluated(data):
                    read += 1
                    if read % 20 == 0:
                        runs += 1
                        solved(data, folder)
            except Exception:
                bad += 1
                print(f"--seed {given.seed}, input {k}:\n{traceback.format_exc(limit=-4)}", flush=True)
            finally:
                signal.alarm(0)
            slowest = max(slowest, time.monotonic() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{tried} inputs from {len(files)} files: {read} read and evaluated ({runs} of them solved), "
        f"{tried - read - bad} errors, {bad} crashes or hangs; slowest {slowest:.2f} s, peak {peak:.0f} MiB, "
        f"{time.monotonic() - started:.0f} s"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
