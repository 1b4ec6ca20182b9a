"""The ten lines with which every `.nl` file starts, in both forms as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from auglag.problems.nl.source import BinarySource, NlError, Source, TextSource

#: Lines 2 to 10: the names of their numbers; those after the bar may be missing.
_LINES = (
    "variables constraints objectives | ranges equations logical",
    "nonlinear_constraints nonlinear_objectives | complementary_linear complementary_nonlinear",
    "| nonlinear_network linear_network",
    "nonlinear_in_constraints nonlinear_in_objectives | nonlinear_in_both",
    "| network_variables functions arithmetic flags",
    "| binary integer integer_in_both integer_in_constraints integer_in_objectives",
    "| jacobian_entries gradient_entries",
    "| row_name column_name",
    "| common_both common_constraints common_objectives common_one_constraint common_one_objective",
)
_BYTE_ORDERS = {1: "<", 2: ">"}


@final
@dataclass(frozen=True, slots=True)
class Header:
    """What the header declares, checked against the length of the file."""

    options: tuple[int, ...]  #: AMPL's options, to be given back in the `.sol` file
    vbtol: float | None  #: the number that follows them when the second option is 3
    counts: dict[str, int]
    variables: int
    constraints: int
    objectives: int

    @property
    def common(self) -> int:
        """Number of defined variables."""
        return sum(value for name, value in self.counts.items() if name.startswith("common_"))

    def integer_variables(self) -> list[int]:
        """The indices of binary and integer variables, which the order of the variables implies."""
        c = self.counts
        both = c["nonlinear_in_both"]
        in_constraints, in_objectives = c["nonlinear_in_constraints"], c["nonlinear_in_objectives"]
        # Nonlinear variables: in both, in constraints only, in objectives only; in each part integers come last.
        ends = [
            (both, c["integer_in_both"]),
            (in_constraints, c["integer_in_constraints"]),
            (max(in_constraints, in_objectives), c["integer_in_objectives"]),
            (self.variables, c["binary"] + c["integer"]),
        ]
        found = {j for end, count in ends for j in range(end - count, end) if 0 <= j < self.variables}
        return sorted(found)


def read_header(data: bytes, name: str) -> tuple[Header, Source]:
    """The header, and the rest of the file as a source."""
    if data[:1] not in (b"g", b"b"):
        raise NlError(f"{name}, line 1: a .nl file must start with g (text) or b (binary), got {data[:20]!r}")
    text = data[:1] == b"g"
    lines = data.split(b"\n") if text else data.split(b"\n", 10)
    if len(lines) < 11 and not (text and len(lines) == 10):
        raise NlError(f"{name}, line {len(lines)}: the header must have 10 lines, but the file ends")
    options, vbtol = _first_line(lines[0], name)
    counts: dict[str, int] = {}
    for number, (names, line) in enumerate(zip(_LINES, lines[1:10], strict=True), start=2):
        counts |= _numbers(names, line.partition(b"#")[0], f"{name}, line {number}")
    _check(counts, len(data), name)
    header = Header(options, vbtol, counts, *(counts[what] for what in ("variables", "constraints", "objectives")))
    if text:
        if not lines[-1].strip():
            lines.pop()
        return header, TextSource(name, lines, 10, len(data))
    order = counts["arithmetic"]
    if order not in _BYTE_ORDERS:
        raise NlError(f"{name}, line 6: the arithmetic of a binary file must be 1 or 2 (its byte order), got {order}")
    return header, BinarySource(name, data, sum(len(line) + 1 for line in lines[:10]), _BYTE_ORDERS[order])


def _first_line(line: bytes, name: str) -> tuple[tuple[int, ...], float | None]:
    words = line.partition(b"#")[0][1:].split()
    try:
        count = int(words[0]) if words else 0
        options = tuple(int(word) for word in words[1 : count + 1])
        vbtol = float(words[count + 1]) if len(options) > 1 and options[1] == 3 else None
    except (ValueError, IndexError):
        raise NlError(
            f"{name}, line 1: AMPL's options must be a count and so many integers, got {line!r:.80}"
        ) from None
    if not 0 <= count <= 9 or len(options) != count or any(abs(value) > 2**31 for value in options):
        raise NlError(f"{name}, line 1: AMPL's options must be a count up to 9 and so many integers, got {line!r:.80}")
    return options, vbtol


def _numbers(names: str, line: bytes, where: str) -> dict[str, int]:
    needed, _, optional = names.partition("|")
    words = line.split()
    keys = needed.split() + optional.split()
    values = []
    for word in words[: len(keys)]:
        if not word.isdigit() or len(word) > 10:
            raise NlError(
                f"{where}: the header must consist of nonnegative integers, got {word.decode('latin-1')!r:.60}"
            )
        values.append(int(word))
    if len(values) < len(needed.split()):
        raise NlError(f"{where}: the header must give {needed.strip()}, got {line.decode('latin-1')!r:.60}")
    values += [0] * (len(keys) - len(values))
    return dict(zip(keys, values, strict=True))


def _check(counts: dict[str, int], size: int, name: str) -> None:
    """Every declared item takes at least one byte, so that larger numbers are wrong and need no memory."""
    for what, value in counts.items():
        if value > size and what not in ("arithmetic", "flags"):
            raise NlError(
                f"{name}: the header must not declare more than the file can hold ({size} bytes), got {value} {what}"
            )
    if counts["variables"] < 1:
        raise NlError(f"{name}, line 2: there must be at least one variable, got {counts['variables']}")
    for what, meaning in (
        ("logical", "logical constraints"),
        ("complementary_linear", "complementarity constraints"),
        ("complementary_nonlinear", "complementarity constraints"),
    ):
        if counts[what]:
            raise NlError(f"{name}: {meaning} are not supported, got {counts[what]} of them")
