"""Parameters of a problem, as the command line takes them."""

from __future__ import annotations

from typing import Any

from auglag.errors import InputError


def numbers(values: list[str] | None) -> Any:
    """Parameters as numbers, in order, or by name where all are written NAME=NUMBER."""
    if not values:
        return None
    pairs = [value.rpartition("=") for value in values]
    try:
        given = [float(number) for _, _, number in pairs]
    except ValueError:
        raise InputError(f"--param must be a number or NAME=NUMBER, got {' '.join(values)!r}") from None
    whole = [int(number) if number.is_integer() else number for number in given]
    names = [name for name, equals, _ in pairs if equals]
    if names and len(names) < len(values):
        raise InputError(f"--param must be given by name for all or for none, got {' '.join(values)!r}")
    return dict(zip(names, whole, strict=True)) if names else whole
