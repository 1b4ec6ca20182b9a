"""The two written forms of a `.nl` file, text and binary, as one stream of segments, numbers and tokens.

Nothing here trusts the file: every number is checked, sizes are compared with the length of the file, and what is wrong
is an `NlError` that says where.
"""

from __future__ import annotations

import math
import re
import struct
from abc import ABC, abstractmethod
from typing import NoReturn, final

from auglag.errors import InputError

#: The largest integer the format can hold.
LARGEST = 2**31 - 1
_INTEGER = re.compile(rb"[+-]?\d{1,12}\Z")
_REAL = re.compile(rb"[+-]?(\d+\.?\d*([eEdD][+-]?\d+)?|\.\d+([eEdD][+-]?\d+)?|inf|infinity)\Z", re.IGNORECASE)


class NlError(InputError):
    """A `.nl` file that cannot be read: malformed, truncated, or with something in it that is not supported."""


class NlInfeasible(NlError):
    """A `.nl` file in which the two sides of a bound or a constraint exclude each other."""


class Source(ABC):
    """A `.nl` file after its header, read from front to back."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    @abstractmethod
    def where(self) -> str:
        """The place in the file, for messages."""

    @final
    def fail(self, demand: str, got: object = "") -> NoReturn:
        """Raise an `NlError` that names the file, the place, the demand and the value."""
        value = f", got {got!r:.60}" if got != "" else ""
        raise NlError(f"{self.name}, {self.where()}: {demand}{value}")

    @abstractmethod
    def segment(self) -> str:
        """The letter of the next segment; "" at the end of the file."""

    @abstractmethod
    def integers(self, count: int, what: str) -> list[int]:
        """The integers that follow a segment's letter."""

    @abstractmethod
    def integer(self, what: str) -> int:
        """A line with one integer."""

    @abstractmethod
    def entry(self, what: str, *, whole: bool = False) -> tuple[int, float]:
        """A line with an index and a number; `whole` if the number is written as an integer."""

    @abstractmethod
    def bound(self, what: str) -> tuple[int, list[float], list[int]]:
        """A line of segment r or b: its kind 0 to 5, its numbers, and (kind 5) its integers."""

    @abstractmethod
    def token(self) -> tuple[str, int | float]:
        """The next token of an expression: ("o", operator), ("v", variable), ("n", number) or ("f", function)."""

    @abstractmethod
    def text(self, what: str) -> str:
        """The name that ends the line of a segment F or S."""

    @final
    def index(self, value: int, size: int, what: str) -> int:
        """`value`, if it is an index below `size`."""
        if not 0 <= value < size:
            self.fail(f"{what} must be at least 0 and below {size}", value)
        return value

    @final
    def number(self, value: float, what: str) -> float:
        """`value`, if it is finite."""
        if not math.isfinite(value):
            self.fail(f"{what} must be finite", value)
        return value


#: How many numbers follow each kind of bound.
BOUND_NUMBERS = {0: 2, 1: 1, 2: 1, 3: 0, 4: 1, 5: 0}


@final
class TextSource(Source):
    """The text form: one item a line, comments after `#`."""

    def __init__(self, name: str, lines: list[bytes], first: int, size: int) -> None:
        super().__init__(name, size)
        self._lines, self._at = lines, first  # _at: lines read so far, which is the number of the last one
        self._rest: list[bytes] = []

    def where(self) -> str:
        return f"line {min(self._at, len(self._lines))}"

    def _line(self, what: str) -> bytes:
        if self._at >= len(self._lines):
            self.fail(f"{what} expected, but the file ends")
        line = self._lines[self._at]
        self._at += 1
        return line.partition(b"#")[0].strip()

    def segment(self) -> str:
        """The letter of the next line that is not empty."""
        while self._at < len(self._lines):
            line = self._line("a segment")
            if line:
                self._rest = line[1:].split()
                return chr(line[0])
        return ""

    def integers(self, count: int, what: str) -> list[int]:
        if len(self._rest) < count:
            self.fail(f"{what} must be {count} integers", b" ".join(self._rest).decode("latin-1"))
        values = [self._integer(word, what) for word in self._rest[:count]]
        self._rest = self._rest[count:]
        return values

    def text(self, what: str) -> str:
        """The last word of the segment's line."""
        return self._rest[-1].decode("latin-1") if self._rest else ""

    def _integer(self, word: bytes, what: str) -> int:
        if not _INTEGER.match(word):
            self.fail(f"{what} must be an integer", word.decode("latin-1"))
        value = int(word)
        if abs(value) > LARGEST:
            self.fail(f"{what} must fit into 32 bits", value)
        return value

    def _real(self, word: bytes, what: str) -> float:
        if not _REAL.match(word):
            self.fail(f"{what} must be a number", word.decode("latin-1"))
        return float(word.lower().replace(b"d", b"e"))

    def integer(self, what: str) -> int:
        return self._integer(self._line(what), what)

    def entry(self, what: str, *, whole: bool = False) -> tuple[int, float]:
        words = self._line(what).split()
        if len(words) != 2:
            self.fail(f"{what} must be an index and a number", b" ".join(words).decode("latin-1"))
        return self._integer(words[0], what), self._real(words[1], what)

    def bound(self, what: str) -> tuple[int, list[float], list[int]]:
        words = self._line(what).split()
        if not words or words[0] not in (b"0", b"1", b"2", b"3", b"4", b"5"):
            self.fail(f"{what} must start with a digit from 0 to 5", b" ".join(words).decode("latin-1"))
        kind = int(words[0])
        if kind == 5:
            return kind, [], [self._integer(word, what) for word in words[1:3]]
        if len(words) - 1 != BOUND_NUMBERS[kind]:
            self.fail(f"{what} of kind {kind} must have {BOUND_NUMBERS[kind]} numbers", len(words) - 1)
        return kind, [self._real(word, what) for word in words[1:]], []

    def token(self) -> tuple[str, int | float]:
        line = self._line("an expression")
        letter, rest = line[:1], line[1:]
        if letter == b"n":
            return "n", self._real(rest, "a constant")
        if letter in (b"o", b"v"):
            return letter.decode(), self._integer(rest, "an operator" if letter == b"o" else "a variable")
        if letter in (b"s", b"l"):
            return "n", float(self._integer(rest, "a constant"))
        if letter == b"f" and rest.split():
            return "f", self._integer(rest.split()[0], "a function")
        demand = "strings are not supported in" if letter == b"h" else "lines o, n, s, l, v or f expected in"
        return self.fail(f"{demand} an expression", line.decode("latin-1"))


@final
class BinarySource(Source):
    """The binary form: bytes for letters, 4-byte integers, 8-byte numbers, in the byte order of the writer."""

    def __init__(self, name: str, data: bytes, first: int, order: str) -> None:
        super().__init__(name, len(data))
        self._data, self._at = data, first
        self._int, self._real, self._short = (struct.Struct(order + kind) for kind in "idh")

    def where(self) -> str:
        return f"byte {self._at}"

    def _unpack(self, form: struct.Struct, what: str) -> int | float:
        if self._at + form.size > len(self._data):
            self.fail(f"{what} expected, but the file ends")
        value: int | float = form.unpack_from(self._data, self._at)[0]
        self._at += form.size
        return value

    def _number(self, what: str) -> float:
        value = float(self._unpack(self._real, what))
        if math.isnan(value):
            self.fail(f"{what} must be a number", value)
        return value

    def _letter(self, what: str) -> str:
        if self._at >= len(self._data):
            self.fail(f"{what} expected, but the file ends")
        self._at += 1
        return chr(self._data[self._at - 1])

    def segment(self) -> str:
        return self._letter("a segment") if self._at < len(self._data) else ""

    def integers(self, count: int, what: str) -> list[int]:
        return [self.integer(what) for _ in range(count)]

    def integer(self, what: str) -> int:
        return int(self._unpack(self._int, what))

    def entry(self, what: str, *, whole: bool = False) -> tuple[int, float]:
        return self.integer(what), float(self.integer(what)) if whole else self._number(what)

    def bound(self, what: str) -> tuple[int, list[float], list[int]]:
        letter = self._letter(what)
        if letter not in "012345":
            self.fail(f"{what} must start with a digit from 0 to 5", letter)
        kind = int(letter)
        if kind == 5:
            return kind, [], self.integers(2, what)
        return kind, [self._number(what) for _ in range(BOUND_NUMBERS[kind])], []

    def token(self) -> tuple[str, int | float]:
        letter = self._letter("an expression")
        if letter == "n":
            return "n", self._number("a constant")
        if letter in "ov":
            return letter, self.integer("an operator" if letter == "o" else "a variable")
        if letter == "s":
            return "n", float(self._unpack(self._short, "a constant"))
        if letter == "l":
            return "n", float(self.integer("a constant"))
        if letter == "f":
            return "f", self.integers(2, "a function")[0]
        demand = "strings are not supported in" if letter == "h" else "items o, n, s, l, v or f expected in"
        return self.fail(f"{demand} an expression", letter)

    def text(self, what: str) -> str:
        """A length and so many bytes."""
        length = self.integer(what)
        if not 0 <= length <= len(self._data) - self._at:
            self.fail(f"the length of {what} must be at least 0 and within the file", length)
        self._at += length
        return self._data[self._at - length : self._at].decode("latin-1")
