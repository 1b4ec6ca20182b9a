"""Solve a handful of real problems with the four variants of the method; leave a page with all of the demo's pictures.

The last step of `make demo`. Every number it prints is measured in this run. The page, index.html, shows the same
numbers, and the pictures that the other steps have left beside it.
"""

from __future__ import annotations

import argparse
import html
import time
from pathlib import Path

import numpy as np
from notebooks import EXAMPLES, described
from scipy.optimize import NonlinearConstraint

import auglag
from auglag.problems import hock_schittkowski as hs


def welded_beam() -> auglag.Problem:
    """Cheapest welded beam under limits on shear, bending stress, buckling load and deflection (Ragsdell, Phillips)."""
    load, length, young, shear_modulus = 6000.0, 14.0, 30e6, 12e6

    def cost(x):
        h, l, t, b = x
        return 1.10471 * h**2 * l + 0.04811 * t * b * (14.0 + l)

    def ratios(x):
        """Each quantity divided by its limit: at most 1."""
        h, l, t, b = x
        direct = load / (np.sqrt(2) * h * l)
        moment, radius = load * (length + l / 2), np.sqrt(l**2 / 4 + ((h + t) / 2) ** 2)
        polar = 2 * np.sqrt(2) * h * l * (l**2 / 12 + ((h + t) / 2) ** 2)
        torsion = moment * radius / polar
        shear = np.sqrt(direct**2 + direct * torsion * l / radius + torsion**2)
        bending = 6 * load * length / (b * t**2)
        deflection = 4 * load * length**3 / (young * t**3 * b)
        buckling = (
            4.013 * young * t * b**3 / (6 * length**2) * (1 - t / (2 * length) * np.sqrt(young / shear_modulus) / 2)
        )
        return np.array([shear / 13600.0, bending / 30000.0, h / b, deflection / 0.25, load / buckling])

    limits = NonlinearConstraint(ratios, -np.inf, 1.0)
    bounds = [(0.125, 5.0), (0.1, 10.0), (0.1, 10.0), (0.1, 5.0)]
    return auglag.Problem(cost, [0.4, 6.0, 9.0, 0.5], bounds=bounds, constraints=limits, name="welded beam")


def sparse_direction(n: int = 30) -> auglag.Problem:
    """Sparse principal direction: maximise x'Sx - 0.3 ||x||_1 on the unit sphere; L1 and a nonlinear equality."""
    rng = np.random.default_rng(7)
    truth = np.zeros(n)
    truth[:5] = [0.6, -0.5, 0.4, 0.35, -0.32]
    data = rng.standard_normal((200, n)) * 0.6 + 2.0 * rng.standard_normal((200, 1)) * truth
    covariance = data.T @ data / 200
    sphere = NonlinearConstraint(lambda x: x @ x, 1.0, 1.0, jac=lambda x: 2 * x)
    return auglag.Problem(
        lambda x: -x @ covariance @ x,
        np.full(n, n**-0.5),
        jac=lambda x: -2 * covariance @ x,
        constraints=sphere,
        g=auglag.prox.L1(0.3),
        name="sparse PCA (L1)",
    )


def thomson(electrons: int = 8) -> auglag.Problem:
    """Electrons on a sphere with the least Coulomb energy (the Thomson problem): nonconvex, one equality each."""
    rng = np.random.default_rng(1)
    i, j = np.triu_indices(electrons, 1)

    def energy(x):
        p = x.reshape(electrons, 3)
        gaps = p[i] - p[j]
        inverse = 1.0 / np.linalg.norm(gaps, axis=1)
        force = np.zeros_like(p)
        np.add.at(force, i, -gaps * inverse[:, None] ** 3)
        np.add.at(force, j, gaps * inverse[:, None] ** 3)
        return float(inverse.sum()), force.ravel()

    def radii(x):
        return (x.reshape(electrons, 3) ** 2).sum(axis=1)

    def jacobian(x):
        jac = np.zeros((electrons, 3 * electrons))
        for k in range(electrons):
            jac[k, 3 * k : 3 * k + 3] = 2 * x[3 * k : 3 * k + 3]
        return jac

    start = rng.standard_normal((electrons, 3))
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    sphere = NonlinearConstraint(radii, 1.0, 1.0, jac=jacobian)
    return auglag.Problem(energy, start.ravel(), jac=True, constraints=sphere, name=f"Thomson, {electrons} electrons")


PROBLEMS = (
    lambda: hs.get("HS71").problem(hessians=False),
    lambda: hs.get("HS43").problem(hessians=False),
    lambda: hs.get("HS100").problem(hessians=False),
    welded_beam,
    thomson,
    sparse_direction,
)


def solve_all(tol: float) -> list[auglag.Result]:
    print(
        f"{'problem':<22} {'variant':<15} {'status':<10} {'f + g':>13} {'residual':>9} {'outer':>5} "
        f"{'grads':>7} {'beta':>8}"
    )
    runs = []
    for build in PROBLEMS:
        for variant in auglag.VARIANTS:
            problem = build()
            result = auglag.minimize(problem, variant=variant, tol=tol)
            gradients = sum(row["evaluations"] for row in result.history)
            runs.append((problem.name, variant, result, gradients))
            print(
                f"{problem.name:<22} {variant:<15} {result.status.name.lower():<10} {result.fun:>13.7g} "
                f"{result.certificate.residual:>9.1e} {result.nit:>5} {gradients:>7} {result.penalty:>8.1e}"
            )
    return runs


#: The pictures of `auglag paper`, and what they show.
FIGURES = {
    "paper/figure1.png": (
        "Figure 1 of the paper, on a sample of its problems",
        "The fraction of problems that each variant solves within a multiple of the fewest gradients. "
        '<a href="paper/figure1.html">Every run is in the report</a>.',
    ),
    "paper/stochastic/fig2.png": (
        "Figure 2 of the paper, with fewer trials",
        "The stochastic methods on a classifier with a bound on one kind of error.",
    ),
}
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>auglag demo</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
img {{ width: 100%; }} figure {{ margin: 2.5rem 0; }} table {{ border-collapse: collapse; font-size: .85rem; }}
td, th {{ padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: right; }}
td:first-child, th:first-child, td:nth-child(2), th:nth-child(2) {{ text-align: left; }}
</style>
<h1>auglag demo</h1>
<p>Everything on this page was computed by <code>make demo</code> on this machine.</p>
{figures}
<h2>Six problems, four variants</h2>
<p>A run is certified if R = dist(-grad L, dg) + ||c|| is at most {tol:g} in the units of the problem.</p>
<figure><img src="convergence.png" alt="convergence of the four variants"></figure>
<table>{table}</table>
</html>
"""


def write_page(runs, folder: Path, tol: float) -> None:
    """index.html: the pictures that are there, and the table of the runs."""
    pictures = {f"gallery/{path.stem}.png": tuple(map(html.escape, described(path))) for path in EXAMPLES} | FIGURES
    figures = [
        f'<figure><h2>{title}</h2><img src="{name}" alt="{title}"><figcaption>{text}</figcaption></figure>'
        for name, (title, text) in pictures.items()
        if (folder / name).exists()
    ]
    rows = [("problem", "variant", "status", "f + g", "R", "outer", "gradients", "last beta")]
    rows += [
        (
            name,
            variant,
            result.status.name.lower(),
            f"{result.fun:.7g}",
            f"{result.certificate.residual:.1e}",
            str(result.nit),
            str(gradients),
            f"{result.penalty:.1e}",
        )
        for name, variant, result, gradients in runs
    ]
    table = "\n".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows)
    page = PAGE.format(figures="\n".join(figures), table=table.replace("<td>", "<th>", len(rows[0])), tol=tol)
    (folder / "index.html").write_text(page, encoding="utf-8")


def plot(runs, path: Path, tol: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {
        "adaptive-full": "#0072B2",
        "always-full": "#D55E00",
        "adaptive-short": "#009E73",
        "always-short": "#CC79A7",
    }
    styles = {"adaptive-full": "-", "always-full": "--", "adaptive-short": "-.", "always-short": ":"}
    names = list(dict.fromkeys(name for name, *_ in runs))
    figure, axes = plt.subplots(2, 3, figsize=(12, 7), sharey=True, constrained_layout=True)
    for axis, title in zip(axes.flat, names, strict=True):
        for name, variant, result, _ in runs:
            if name == title:
                work = np.cumsum([row["evaluations"] for row in result.history])
                best = np.minimum.accumulate([row["residual"] for row in result.history])
                look = {"color": colours[variant], "label": variant}
                axis.semilogy(work, best, styles[variant], marker="o", ms=3, **look)
                axis.semilogy(work[-1], result.certificate.residual, "*", ms=11, color=colours[variant])
        axis.axhline(tol, color="0.6", lw=0.8)
        axis.set_title(title, fontsize=10)
        axis.set_xlim(left=0)
        axis.grid(True, which="major", color="0.9")
    for axis in axes[-1]:
        axis.set_xlabel("gradient evaluations")
    for axis in axes[:, 0]:
        axis.set_ylabel("residual R")
    axes.flat[0].legend(fontsize=8, frameon=False)
    figure.suptitle(
        "The four variants (Adaptive-Full is the paper's Algorithm 1): best residual so far, and the certified end"
    )
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--tol", type=float, default=1e-6)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    runs = solve_all(options.tol)
    plot(runs, options.output / "convergence.png", options.tol)
    write_page(runs, options.output, options.tol)
    solved = sum(result.success for _, _, result, _ in runs)
    print(f"\n{solved} of {len(runs)} runs certified at R <= {options.tol:g} in {time.perf_counter() - started:.1f} s.")
    example = next(result for name, variant, result, _ in runs if name == "HS71" and variant == "adaptive-full")
    print("\nWhat a result says of itself (HS71):\n" + example.explain())
    print(f"\nOpen {options.output / 'index.html'}: the pictures, the table, and where every run is listed.")


if __name__ == "__main__":
    main()
