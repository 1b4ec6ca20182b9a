"""What the site has beyond the pages of this folder: the gallery, and the benchmark results that pages link to.

Pages are written so that their links work in the repository. Here links that leave this folder are led to the copies
that the site has. One more example is one more file in examples/gallery, with its picture and what it printed here.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("[a-z]*.py"))
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)")


def on_config(config: Any) -> Any:
    """The gallery's pages, in the place of its one line in the navigation."""
    pages = [{_title(path): f"gallery/{path.stem}.md"} for path in EXAMPLES]
    config.nav = [
        {"Gallery": ["gallery/index.md", *pages]} if "Gallery" in entry else entry for entry in config.nav or []
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add one page per example, the cards that lead to them, and benchmarks/results."""
    for path in EXAMPLES:
        files.append(File.generated(config, f"gallery/{path.stem}.md", content=_page(path)))
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


def _title(path: Path) -> str:
    return _docstring(path).splitlines()[0].rstrip(".")


def _docstring(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, f"{path.name} has no docstring"
    return text


def _page(path: Path) -> str:
    first, _, rest = _docstring(path).partition("\n")
    name, source = path.stem, path.read_text(encoding="utf-8")
    body = source[source.index('"""', source.index('"""') + 3) + 3 :].strip()
    printed = (ROOT / "docs" / "gallery" / f"{name}.txt").read_text(encoding="utf-8").rstrip()
    return (
        f"# {first.rstrip('.')}\n\n{rest.strip()}\n\n![{first}]({name}.png)\n\n"
        f"It prints\n\n```text\n{printed}\n```\n\n"
        f"`python examples/gallery/{name}.py --output DIR` runs it and writes the picture.\n\n"
        f"```python\n{body}\n```\n"
    )


def _cards() -> str:
    cards = [
        f"- [![]({path.stem}.png)]({path.stem}.md)\n\n    **[{_title(path)}]({path.stem}.md)**" for path in EXAMPLES
    ]
    return '<div class="grid cards" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>"
