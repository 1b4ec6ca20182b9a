"""`auglag doctor`."""

from __future__ import annotations

from auglag.cli.base import app


@app.command()
def doctor() -> None:
    """What is installed, which extras work, and how CUTEst problems are evaluated here."""
    from auglag.commands import actions

    actions.doctor()
