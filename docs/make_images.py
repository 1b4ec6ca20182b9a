"""The pictures of the command line in these pages, made anew: `python docs/make_images.py`.

Terminals are SVG (rich's), pages PNG from a headless Chromium, which has to be on the path; needs auglag[all], the dev
group and, for `bench`, auglag[baselines]. `--only solve watch` makes some of them.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, RenderableType
from rich.text import Text

from auglag.cli.live import view
from auglag.log import LogReader
from auglag.log.server import PageServer

IMAGES = Path(__file__).parent / "images"
#: rich's picture without the fonts it would fetch from elsewhere: every browser has a monospaced one.
SVG = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
WIDTH = 112


def terminal(name: str, title: str, content: list[RenderableType]) -> None:
    """A picture of a terminal with this in it."""
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for part in content:
        console.print(part, highlight=False)
    console.save_svg(str(IMAGES / f"{name}.svg"), title=title, code_format=SVG, unique_id=name)


def prompt(command: str) -> Text:
    """A command as it is typed."""
    return Text.assemble(("$ ", "bold green"), (command, "bold"))


def run(arguments: str, folder: Path) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "auglag.cli", *arguments.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": str(WIDTH)},
    )
    return done.stdout


def solve(folder: Path) -> None:
    """One problem, its table and its plot."""
    command = "solve HS71 --variant adaptive-full --plot hs71.png --log hs71.jsonl"
    printed = run(command, folder)
    shutil.copy(folder / "hs71.png", IMAGES / "solve-plot.png")
    terminal("solve", "auglag solve", [prompt(f"auglag {command}"), Text(printed.rstrip())])


def bench(folder: Path) -> None:
    """Three solvers on seven problems."""
    command = "bench HS6 HS7 HS26 HS39 HS71 HS77 HS100 -s auglag -s ipopt -s slsqp"
    printed = run(command, folder)
    shown = printed[: printed.index("Versions:")].rstrip() + "\n\n" + printed[printed.index("Tables:") :].rstrip()
    terminal("bench", "auglag bench", [prompt(f"auglag {command}"), Text(shown)])


def running(folder: Path) -> LogReader:
    """The log of a run of many iterations, as it was when two thirds of them were done."""
    whole, part = folder / "whole.jsonl", folder / "run.jsonl"
    run(f"solve HS77 --preset paper -q --log {whole}", folder)
    start, *rows = whole.read_text().splitlines()[:-1]
    start = re.sub(r'"pid":\d+', f'"pid":{os.getpid()}', start)
    part.write_text("\n".join([start, *rows[: 2 * len(rows) // 3]]) + "\n")
    reader = LogReader(part)
    reader.poll()
    return reader


def watch(folder: Path) -> None:
    """A running run in the terminal."""
    reader = running(folder)
    terminal("watch", "auglag watch", [prompt("auglag watch run.jsonl"), view(reader, width=WIDTH, height=42)])


def web(folder: Path) -> None:
    """The same run in a browser, on light and on dark paper."""
    reader = running(folder)
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with PageServer(reader) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for scheme, name in (("light", "watch-web"), ("dark", "watch-web-dark")):
            page = browser.new_page(viewport={"width": 1240, "height": 760}, color_scheme=scheme)
            page.goto(server.url)
            page.locator("#iterations tbody tr").first.wait_for()
            page.screenshot(path=str(IMAGES / f"{name}.png"))
        browser.close()
        server.shutdown()


PICTURES = {"solve": solve, "bench": bench, "watch": watch, "web": web}


def main() -> None:
    """Make the pictures asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=list(PICTURES))
    IMAGES.mkdir(exist_ok=True)
    for name in parser.parse_args().only:
        with tempfile.TemporaryDirectory() as folder:
            PICTURES[name](Path(folder))


if __name__ == "__main__":
    main()
