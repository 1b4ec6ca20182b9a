"""Pages that are one file and ask for nothing from outside: templates filled in, data inside, a script that draws.

A page is `NAME.html` among the assets of its package, with @@style@@ (`NAME.css`), @@script@@ (`drawing.js` of this
one, then `NAME.js`), @@data@@ (JSON) and whatever else its package fills in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any


def filled(package: str, name: str, data: Any, parts: Mapping[str, str]) -> str:
    """The page of that name in a package's assets; `parts` are markup."""
    everything = {
        "style": _asset(package, f"{name}.css"),
        "script": _asset("auglag.report.pages", "drawing.js") + _asset(package, f"{name}.js"),
        "data": embeddable(data),
        **parts,
    }
    return re.sub(r"@@(\w+)@@", lambda match: everything[match.group(1)], _asset(package, f"{name}.html"))


def embeddable(content: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or start another."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for special in "<>&\u2028\u2029":
        text = text.replace(special, f"\\u{ord(special):04x}")
    return text


def _asset(package: str, name: str) -> str:
    return (resources.files(package) / "assets" / name).read_text(encoding="utf-8")
