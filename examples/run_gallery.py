"""Run every example of the gallery; leave its picture and what it printed (`make gallery`).

The site shows both, so run this after a change that shows in them. `--collage FILE` puts four of the pictures into one,
which the README shows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SHOWN = ("swing_up", "circle_packing", "soap_film", "power_flow")


def collage(folder: Path, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(13, 7), layout="constrained", height_ratios=(1, 1.15))
    for axis, name in zip(axes.flat, SHOWN, strict=True):
        axis.imshow(plt.imread(folder / f"{name}.png"), interpolation="lanczos")
        axis.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gallery-output"))
    parser.add_argument("--collage", type=Path)
    parser.add_argument("names", nargs="*", help="examples to run; all if none is named")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    scripts = {script.stem: script for script in sorted((Path(__file__).parent / "gallery").glob("[a-z]*.py"))}
    if unknown := set(options.names) - set(scripts):
        parser.error(f"no example is called {', '.join(sorted(unknown))}; there are {', '.join(scripts)}")

    def run(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(scripts[name]), "--output", str(options.output)]
        return subprocess.run(command, capture_output=True, text=True)

    names = options.names or list(scripts)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, ran in zip(names, pool.map(run, names), strict=True):
            if ran.returncode:
                sys.exit(f"{name} failed:\n{ran.stdout}{ran.stderr}")
            (options.output / f"{name}.txt").write_text(ran.stdout, encoding="utf-8")
            print(f"{name}: {ran.stdout.strip().splitlines()[-1]}", flush=True)
    if options.collage is not None:
        collage(options.output, options.collage)


if __name__ == "__main__":
    main()
