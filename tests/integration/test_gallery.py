"""Every example of the gallery runs, ends with what its text says, and leaves its picture."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import auglag

pytest.importorskip("matplotlib").use("Agg")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("[a-z]*.py"))
#: Results that are meant to end otherwise than solved, by example and place.
MEANT = {("infeasible", 0): auglag.Status.INFEASIBLE}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gallery_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_certified_and_leaves_its_picture(path, tmp_path, capsys):
    if "import jax" in path.read_text(encoding="utf-8"):
        pytest.importorskip("jax")
    results = load(path).main(["--output", str(tmp_path)])
    assert results
    for place, result in enumerate(results):
        meant = MEANT.get((path.stem, place), auglag.Status.SOLVED)
        assert np.all(np.asarray(result.status) == meant), result
        if meant is auglag.Status.SOLVED:
            residual = result.certificate.residual if hasattr(result, "certificate") else result.residual
            tol = getattr(result, "tol", 1e-6)
            assert np.all(residual <= tol)
    assert (tmp_path / f"{path.stem}.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip()


def test_the_gallery_has_at_least_a_dozen_and_the_site_a_picture_of_each():
    assert len(EXAMPLES) >= 12
    kept = ROOT / "docs" / "gallery"
    missing = [path.stem for path in EXAMPLES for end in ("png", "txt") if not (kept / f"{path.stem}.{end}").exists()]
    assert missing == []


def test_the_command_runs_one_by_name_and_keeps_what_it_printed(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "run_gallery.py"), "physics_fit", "--output", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "physics_fit.png").exists()
    assert "true 4.0" in (tmp_path / "physics_fit.txt").read_text(encoding="utf-8")
