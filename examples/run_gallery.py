"""Run every example of the gallery; leave its picture and what it printed (`make gallery`).

The site shows both, so run this after a change that shows in them. Of every picture one panel is cut out, in thumbs/.
`--collage FILE` puts four panels into one picture, which the README shows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

#: In the README's picture.
SHOWN = ("circle_packing", "soap_film", "swing_up", "power_flow")
#: The panel of a picture that says most: its left and right, top and bottom sides, as parts of the whole.
PANELS = {
    "circle_packing": (0.0, 0.515, 0.0, 1.0),
    "denoising": (0.0, 0.72, 0.31, 0.635),
    "equal_odds": (0.0, 0.42, 0.0, 1.0),
    "fair_classifier": (0.35, 0.675, 0.0, 1.0),
    "fine_tuning": (0.0, 0.66, 0.0, 1.0),
    "hanging_chain": (0.48, 0.91, 0.0, 1.0),
    "heat_network": (0.0, 0.5, 0.0, 1.0),
    "infeasible": (0.0, 0.46, 0.0, 1.0),
    "lipschitz": (0.0, 0.66, 0.0, 1.0),
    "neyman_pearson": (0.5, 1.0, 0.0, 1.0),
    "portfolio": (0.425, 1.0, 0.0, 1.0),
    "predictive_control": (0.0, 0.48, 0.0, 1.0),
    "rare_classes": (0.0, 0.66, 0.0, 1.0),
    "soap_film": (0.0, 0.5, 0.0, 1.0),
    "sparse_pca": (0.54, 1.0, 0.0, 1.0),
    "swing_up": (0.675, 1.0, 0.0, 1.0),
}


def panel(folder: Path, name: str) -> np.ndarray:
    """One panel of an example's picture; the whole, if it has only one."""
    import matplotlib.pyplot as plt

    picture = plt.imread(folder / f"{name}.png")
    left, right, top, bottom = PANELS.get(name, (0.0, 1.0, 0.0, 1.0))
    height, width = picture.shape[:2]
    return picture[round(top * height) : round(bottom * height), round(left * width) : round(right * width)]


def thumbnail(folder: Path, name: str) -> None:
    """thumbs/NAME.png: the panel in the middle of a white picture of 480 x 360."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(4.8, 3.6))
    axis = figure.add_axes((0.02, 0.02, 0.96, 0.96))
    axis.imshow(panel(folder, name), interpolation="lanczos")
    axis.set_axis_off()
    (folder / "thumbs").mkdir(exist_ok=True)
    figure.savefig(folder / "thumbs" / f"{name}.png", dpi=100)
    plt.close(figure)


def collage(folder: Path, path: Path) -> None:
    import matplotlib.pyplot as plt

    panels = [panel(folder, name) for name in SHOWN]
    widths = [picture.shape[1] / picture.shape[0] for picture in panels]
    figure, axes = plt.subplots(1, 4, figsize=(16, 16 / sum(widths)), layout="constrained", width_ratios=widths)
    for axis, picture in zip(axes.flat, panels, strict=True):
        axis.imshow(picture, interpolation="lanczos")
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
            thumbnail(options.output, name)
            print(f"{name}: {ran.stdout.strip().splitlines()[-1]}", flush=True)
    if options.collage is not None:
        collage(options.output, options.collage)


if __name__ == "__main__":
    main()
