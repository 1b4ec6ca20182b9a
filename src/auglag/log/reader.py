"""Reading a log: all of it, or what is new since the last look, while another process writes it."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from auglag.log.schema import FORMAT, VERSION, LogError
from auglag.persist.files import is_alive

#: Bytes of the longest line that is read; a longer one counts as damaged.
LONGEST_LINE = 4 << 20
#: Bytes that are read at once.
CHUNK = 1 << 20
Row = dict[str, Any]


@final
@dataclass(slots=True)
class LoggedRun:
    """One run, as far as it is known."""

    start: Row
    iterations: list[Row] = field(default_factory=list)
    tests: list[Row] = field(default_factory=list)
    course: list[Row] = field(default_factory=list)  #: steps and outer iterations, in their order
    end: Row | None = None

    @property
    def name(self) -> str:
        """The problem's name, or a word for it."""
        return str(self.start.get("problem") or "a problem without a name")

    def shown(self, *, outer: bool) -> list[Row]:
        """Steps and outer iterations, or these alone."""
        return self.iterations if outer else self.course

    @property
    def rows(self) -> list[Row]:
        """What is drawn: the tests of a run on sampled data, otherwise steps and outer iterations."""
        return self.tests or self.course

    @property
    def seconds(self) -> float:
        """Seconds that the run had taken when it wrote its last line."""
        last = self.end or (self.rows[-1] if self.rows else {})
        value = last.get("seconds")
        return float(value) if isinstance(value, int | float) else 0.0

    def add(self, row: Row) -> bool:
        """Take one more line; whether it took the place of others.

        A run that is resumed may do its last iteration, or its last tests, again: then the later rows count.
        """
        if row["event"] == "iteration":
            place = _place(row)
            again = _replace(self.iterations, row, lambda known: _place(known) >= place)
            return _replace(self.course, row, lambda known: _later(known, row)) or again
        if row["event"] == "step":
            int(row["k"]), str(row["kind"])
            return _replace(self.course, row, lambda known: _later(known, row))
        if row["event"] == "test":
            epochs = _epochs(row)
            return _replace(self.tests, row, lambda known: _epochs(known) > epochs)
        if row["event"] == "end":
            self.end = row
        return False


@final
class LogReader:
    """A log that may not be there yet, may grow, may be cut off in the middle of a line, or be replaced by another.

    `poll` reads what is new. `run` is the last run in the file, None as long as there is none; `generation` changes
    whenever `run` is another one or its rows are no longer those of before; `bad` counts lines that are not JSON.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.run: LoggedRun | None = None
        self.generation = self.bad = 0
        self.changed = 0.0  #: when the file last grew, by its own clock
        self._offset, self._identity = 0, (-1, -1)
        self._rest, self._skipping = b"", False  #: the line that has no end yet; it is too long to be kept

    def poll(self) -> bool:
        """Read on; whether anything came. Raises `LogError` if the file is not a log."""
        try:
            with open(self.path, "rb") as file:
                facts = os.fstat(file.fileno())
                identity = (facts.st_dev, facts.st_ino)
                if identity != self._identity or facts.st_size < self._offset:
                    self._forget(identity)
                file.seek(self._offset)
                came = False
                while new := file.read(CHUNK):
                    self._offset, self.changed = self._offset + len(new), facts.st_mtime
                    came |= self._split(new)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise LogError(f"{self.path} cannot be read ({error.strerror})") from None
        return came

    def _split(self, new: bytes) -> bool:
        """Take the lines that end here; whether there were any. Of a line that is too long nothing is kept."""
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            if self._skipping:
                self._skipping = False
                self.bad += 1
            elif line.strip():
                self._take(line)
        if len(self._rest) > LONGEST_LINE or self._skipping:
            if self.run is None:
                raise LogError(f"{self.path} is not a log of auglag: its first line has no end")
            self._rest, self._skipping = b"", True
        return bool(lines)

    @property
    def state(self) -> str:
        """ "waiting" for a first line, "running", "finished", or "gone": the process is not there, and wrote no end."""
        if self.run is None:
            return "waiting"
        if self.run.end is not None:
            return "finished"
        return "running" if _alive(self.run.start) else "gone"

    def silent(self) -> float:
        """Seconds since the file last grew."""
        return max(time.time() - self.changed, 0.0)

    def _forget(self, identity: tuple[int, int]) -> None:
        """Another file, or the same one written anew."""
        if self.run is not None:
            self.generation += 1
        self.run, self._offset, self._rest, self.bad, self._identity = None, 0, b"", 0, identity
        self._skipping = False

    def _take(self, line: bytes) -> None:
        try:
            row = _printable(json.loads(line))
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not isinstance(row.get("event"), str):
            if self.run is None:
                raise LogError(f"{self.path} is not a log of auglag: its first line is {line[:60]!r}")
            self.bad += 1
        elif row["event"] == "start":
            self._begin(row)
        elif self.run is None:
            raise LogError(f"{self.path} is not a log of auglag: it must begin with a start, got {row['event']!r:.40}")
        else:
            try:
                self.generation += self.run.add(row)
            except (KeyError, TypeError, ValueError, OverflowError):
                self.bad += 1

    def _begin(self, row: Row) -> None:
        version = row.get("version")
        if row.get("format") != FORMAT or not isinstance(version, int):
            raise LogError(f"{self.path} is not a log of auglag: its first line does not say {FORMAT!r}")
        if version > VERSION:
            raise LogError(f"{self.path} was written by a newer auglag (version {version} of the format)")
        self.generation += self.run is not None
        if row.get("resumed") and self.run is not None:
            self.run = LoggedRun(row, self.run.iterations, self.run.tests, self.run.course)
        else:
            self.run = LoggedRun(row)


def _printable(value: Any) -> Any:
    """The same with a question mark for every control character: a terminal would obey them."""
    if isinstance(value, str):
        return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in value)
    if isinstance(value, dict):
        return {_printable(key): _printable(inside) for key, inside in value.items()}
    return [_printable(inside) for inside in value] if isinstance(value, list) else value


def _replace(rows: list[Row], row: Row, superseded: Callable[[Row], bool]) -> bool:
    """Append the row, after taking off the end what it makes obsolete."""
    before = len(rows)
    while rows and superseded(rows[-1]):
        rows.pop()
    rows.append(row)
    return len(rows) <= before


def _later(known: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a known row belongs to what a resumed run goes through once more."""
    if known["event"] == row["event"] == "iteration" and _place(known) >= _place(row):
        return True
    then, now = known.get("seconds"), row.get("seconds")
    return isinstance(then, int | float) and isinstance(now, int | float) and then > now


def _epochs(row: Mapping[str, Any]) -> float:
    return float(row["work"]["epochs"])


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return int(row.get("attempt") or 0), int(row["k"])


def _alive(start: Mapping[str, Any]) -> bool:
    """Whether the process may still run: false only if it is of this machine and not there."""
    pid = start.get("pid")
    if start.get("host") != platform.node() or not isinstance(pid, int) or pid <= 0:
        return True
    return is_alive(pid)
