"""Every example of the gallery runs as a notebook, ends with what its text says, and leaves its picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from notebooks import EXAMPLES, extras, notebook

import auglag

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

ROOT = Path(__file__).parents[2]
#: Results that are meant to end otherwise than solved, by example and place.
MEANT = {("infeasible", 0): auglag.Status.INFEASIBLE}


def cells(path: Path) -> list[str]:
    """The code of the notebook that the site offers for an example."""
    made = notebook(path)
    assert (made["nbformat"], made["cells"][0]["cell_type"]) == (4, "markdown")
    return [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_certified_and_leaves_its_picture(path, tmp_path, capsys, monkeypatch):
    for name in extras(path):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    module = ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)  # where dataclasses look up the names of their annotations
    for source in cells(path):
        exec(compile(source, path.stem, "exec", dont_inherit=True), module.__dict__)
    plt.close("all")
    assert module.results
    for place, result in enumerate(module.results):
        meant = MEANT.get((path.stem, place), auglag.Status.SOLVED)
        assert np.all(np.asarray(result.status) == meant), result
        if meant is auglag.Status.SOLVED:
            residual = result.certificate.residual if hasattr(result, "certificate") else result.residual
            tol = getattr(result, "tol", 1e-6)
            assert np.all(residual <= tol)
    assert (tmp_path / f"{path.stem}.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_has_the_format_of_jupyter(path):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(notebook(path))


def test_the_gallery_has_at_least_a_dozen_and_the_site_a_picture_of_each():
    assert len(EXAMPLES) >= 12
    kept = ROOT / "docs" / "gallery"
    shown = [(f"{path.stem}.png", f"{path.stem}.txt", f"thumbs/{path.stem}.png") for path in EXAMPLES]
    assert [name for names in shown for name in names if not (kept / name).exists()] == []


def test_the_command_runs_one_by_name_and_keeps_what_it_printed(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "run_gallery.py"), "physics_fit", "--output", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "physics_fit.png").exists()
    assert (tmp_path / "thumbs" / "physics_fit.png").exists()
    assert "true 4.0" in (tmp_path / "physics_fit.txt").read_text(encoding="utf-8")
