"""Commands of the command line, run in the process of the tests."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


@pytest.fixture
def auglag(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run a command; what it printed, after a check of its exit status."""
    from auglag.cli import main

    def run(*arguments: object, code: int = 0) -> Done:
        monkeypatch.setattr(sys, "argv", ["auglag", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, (printed.out, printed.err)
        return Done(printed.out, printed.err)

    return run
