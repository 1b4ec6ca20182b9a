"""What the site has beyond the pages of this folder: the gallery, and the benchmark results that pages link to.

Pages are written so that their links work in the repository. Here links that leave this folder are led to the copies
that the site has. One more example is one more file in examples/gallery, with its picture and what it printed here.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
from notebooks import EXAMPLES, body, described, notebook  # noqa: E402

LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[([](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: Any) -> Any:
    """The gallery's pages, in the place of its one line in the navigation."""
    pages = [{described(path)[0]: f"gallery/{path.stem}.md"} for path in EXAMPLES]
    config.nav = [
        {"Gallery": ["gallery/index.md", *pages]} if "Gallery" in entry else entry for entry in config.nav or []
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add one page per example, the cards that lead to them, and benchmarks/results."""
    for path in EXAMPLES:
        files.append(File.generated(config, f"gallery/{path.stem}.md", content=_page(path)))
        files.append(File.generated(config, f"gallery/{path.stem}.py", content=path.read_text(encoding="utf-8")))
        cells = json.dumps(notebook(path), indent=1)
        files.append(File.generated(config, f"gallery/{path.stem}.ipynb", content=cells))
    for path in sorted((ROOT / "benchmarks" / "results").iterdir()):
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links out of docs/ to what the site has in their place; the cards go where the gallery's index asks."""
    here = posixpath.dirname(page.file.src_uri)

    def lead(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", here, match[2]))
        if target.startswith("examples/gallery/"):
            target = f"gallery/{Path(target).stem}.md"
        elif not target.startswith("benchmarks/"):
            return match[0]
        return match[1] + posixpath.relpath(target, here or ".")

    return LINK.sub(lead, markdown).replace("<!-- cards -->", _cards())


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Formulas as MathML, which browsers set by themselves: the site loads no script for them."""

    def formula(match: re.Match[str]) -> str:
        return convert(html.unescape(match[2]), display="block" if match[1] == "div" else "inline")

    return FORMULA.sub(formula, content)


def _page(path: Path) -> str:
    title, text = described(path)
    name = path.stem
    printed = (ROOT / "docs" / "gallery" / f"{name}.txt").read_text(encoding="utf-8").rstrip()
    return (
        f"# {title}\n\n{text}\n\n"
        f"[Download the notebook]({name}.ipynb){{ .md-button .md-button--primary download }} "
        f"[Download the script]({name}.py){{ .md-button download }}\n\n![{title}]({name}.png)\n\n"
        f"It prints\n\n```text\n{printed}\n```\n\n"
        f"`python examples/gallery/{name}.py --output DIR` runs it and writes the picture.\n\n"
        f"```python\n{body(path)}\n```\n"
    )


def _cards() -> str:
    cards = [
        f"- [![](thumbs/{path.stem}.png)]({path.stem}.md)\n\n    **[{described(path)[0]}]({path.stem}.md)**"
        for path in EXAMPLES
    ]
    return '<div class="grid cards" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>"
