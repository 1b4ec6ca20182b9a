"""The logger `auglag` of Python's `logging`: what `progress=True` prints, at INFO, and remarks that matter, at WARNING.

It is silent until a program sets it up: `logging.basicConfig(level=logging.INFO)`.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterable
from typing import TextIO, cast, final

LOGGER = logging.getLogger("auglag")
LOGGER.addHandler(logging.NullHandler())  # without a handler, Python prints warnings to stderr


def output(progress: bool | str) -> TextIO | None:
    """Where the rows of a run go: to the screen, to the logger, to both; None where nobody wants them."""
    if LOGGER.isEnabledFor(logging.INFO):
        return cast(TextIO, _Lines(sys.stdout if progress else None))
    return sys.stdout if progress else None


def failed(name: str, message: str, advice: Iterable[str] = ()) -> None:
    """A run ended without success."""
    if LOGGER.isEnabledFor(logging.WARNING):
        LOGGER.warning("%s", " ".join([f"{name}: {message}", *(f"Try: {text}" for text in advice)]))


def warn(text: str) -> None:
    """Something went wrong that does not end the run: a warning of Python's, and one of the logger."""
    LOGGER.warning("%s", text)
    warnings.warn(text, stacklevel=3)


@final
class _Lines(io.TextIOBase):
    """A stream whose lines go to the logger, and to another stream as they are."""

    def __init__(self, screen: TextIO | None) -> None:
        self.screen, self.rest = screen, ""

    def write(self, text: str) -> int:
        if self.screen is not None:
            self.screen.write(text)
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            LOGGER.info("%s", line)
        return len(text)

    def flush(self) -> None:
        if self.screen is not None:
            self.screen.flush()
