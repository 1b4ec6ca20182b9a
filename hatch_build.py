"""The readme as the package index shows it: links and pictures of the repository with their full addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A link or a picture (with the exclamation mark) whose address begins in the repository.
RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")


def absolute(text: str, source: str, version: str) -> str:
    """Links to the files of this version, and pictures from there."""

    def full(found: re.Match[str]) -> str:
        kind = "raw" if found[1] else "blob"
        return f"{found[1]}[{found[2]}]({source}/{kind}/v{version}/{found[3]})"

    return RELATIVE.sub(full, text)


class Readme(MetadataHookInterface):
    """Gives the metadata their readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = absolute(text, metadata["urls"]["Source"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
