"""Signatures as the reference shows them: without the `**unknown` that only serves to explain mistyped names."""

from __future__ import annotations

from typing import Any

import griffe


class ShownSignatures(griffe.Extension):
    """Leaves out parameters that nobody is meant to give."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        if "unknown" in func.parameters:
            del func.parameters["unknown"]
