"""The examples of the gallery as notebooks: their text, their code cell by cell, and a last cell that runs them.

    python examples/notebooks.py --output DIR

The site offers each for download, and the tests run the cells in the place of the scripts.
"""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path
from typing import Any

GALLERY = Path(__file__).parent / "gallery"
EXAMPLES = sorted(GALLERY.glob("[a-z]*.py"))
#: Packages that an example may import, each an extra of the same name.
EXTRAS = ("jax", "torch", "sklearn")
RUN = """results = main(["--output", "."])"""
SHOW = """plt.figure(figsize=(13, 6))
plt.imshow(plt.imread("{name}.png"))
plt.axis("off");"""


def described(path: Path) -> tuple[str, str]:
    """The title and the text of an example: its docstring."""
    first, _, rest = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")
    if not first:
        raise ValueError(f"{path.name} has no docstring")
    return first.rstrip("."), rest.strip()


def body(path: Path) -> str:
    """The code below the docstring."""
    source = path.read_text(encoding="utf-8")
    first = ast.parse(source).body[0]
    return "\n".join(source.splitlines()[first.end_lineno or 0 :]).strip()


def extras(path: Path) -> list[str]:
    """What an example needs beyond matplotlib."""
    return [name for name in EXTRAS if f"import {name}" in body(path) or f"from {name}" in body(path)]


def code(path: Path) -> list[str]:
    """Cells: imports and constants, each function or class, a call of `main`, its picture.

    Two empty lines, which the formatter puts around definitions, are where cells end.
    """
    whole = body(path).replace("from __future__ import annotations\n\n", "").partition("\n\n\nif __name__ ==")[0]
    return [*whole.split("\n\n\n"), RUN, SHOW.format(name=path.stem)]


def notebook(path: Path) -> dict[str, Any]:
    """A notebook, in the format of Jupyter (version 4.5), of an example."""
    title, text = described(path)
    needs = f"It needs `pip install 'auglag[{','.join(['plot', *extras(path)])}]'`."
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": f"# {title}\n\n{text}\n\n{needs}"}
    ]
    for source in code(path):
        cells.append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source})
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("notebooks"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for path in EXAMPLES:
        (options.output / f"{path.stem}.ipynb").write_text(json.dumps(notebook(path), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
