"""`.nl` files for tests: written as text, and turned into the binary form."""

from __future__ import annotations

import struct
from collections.abc import Sequence

#: (index, coefficient) pairs of a row.
Entries = Sequence[tuple[int, float]]


def nl_text(
    n: int,
    *,
    objective: Sequence[str] = ("n0",),
    gradient: Entries = (),
    sense: int = 0,
    rows: Sequence[Sequence[str]] = (),
    jacobian: Sequence[Entries] | None = None,
    defined: Sequence[tuple[Entries, Sequence[str]]] = (),
    sides: Sequence[str] | None = None,
    bounds: Sequence[str] | None = None,
    x0: Sequence[float] | None = None,
    extra: Sequence[str] = (),
    options: str = "3 1 1 0",
    integer: int = 0,
) -> bytes:
    """The text form of a model: expressions as lists of lines, sides and bounds as lines of segments r and b."""
    m = len(rows)
    jacobian = jacobian if jacobian is not None else [[] for _ in rows]
    lines = [
        f"g{options}",
        f" {n} {m} 1 0 0",
        f" {m} 1",
        " 0 0",
        f" {n} {n} {n}",
        " 0 0 0 1",
        f" 0 {integer} 0 0 0",
        f" {sum(map(len, jacobian))} {len(gradient)}",
        " 0 0",
        f" {len(defined)} 0 0 0 0",
        *extra,
    ]
    for k, (linear, expression) in enumerate(defined):
        lines += [f"V{n + k} {len(linear)} 0", *[f"{j} {a!r}" for j, a in linear], *expression]
    for i, row in enumerate(rows):
        lines += [f"C{i}", *row]
    lines += [f"O0 {sense}", *objective]
    if x0 is not None:
        lines += [f"x{n}", *[f"{j} {value!r}" for j, value in enumerate(x0)]]
    if m:
        lines += ["r", *(sides if sides is not None else ["3"] * m)]
    lines += ["b", *(bounds if bounds is not None else ["3"] * n)]
    for i, entries in enumerate(jacobian):
        if entries:
            lines += [f"J{i} {len(entries)}", *[f"{j} {a!r}" for j, a in entries]]
    if gradient:
        lines += [f"G0 {len(gradient)}", *[f"{j} {a!r}" for j, a in gradient]]
    return ("\n".join(lines) + "\n").encode()


def binary(text: bytes, order: str = "<") -> bytes:
    """The binary form of a text file, in the byte order "<" or ">"."""
    lines = [line.partition(b"#")[0].rstrip() for line in text.splitlines()]
    n, m = (int(word) for word in lines[1].split()[:2])
    arithmetic = lines[5].split()
    arithmetic[2:3] = [b"1" if order == "<" else b"2"]
    lines[5] = b" " + b" ".join(arithmetic)
    out = [b"b" + lines[0][1:] + b"\n", *[line + b"\n" for line in lines[1:10]]]
    at = 10

    def ints(*values: bytes | int) -> None:
        out.append(struct.pack(f"{order}{len(values)}i", *map(int, values)))

    def reals(*values: bytes) -> None:
        out.append(struct.pack(f"{order}{len(values)}d", *map(float, values)))

    while at < len(lines):
        letter, words = lines[at][:1], lines[at][1:].split()
        at += 1
        if letter in (b"o", b"v"):
            out.append(letter)
            ints(words[0])
            if letter == b"o" and words[0] in (b"11", b"12", b"54", b"64", b"70", b"71", b"59"):
                ints(lines[at])
                at += 1
            continue
        if letter == b"n":
            out.append(letter)
            reals(words[0])
            continue
        if letter == b"s":
            out.append(letter + struct.pack(f"{order}h", int(words[0])))
            continue
        out.append(letter)
        if letter in (b"r", b"b"):
            for _ in range(m if letter == b"r" else n):
                kind, *numbers = lines[at].split()
                out.append(kind)
                reals(*numbers)
                at += 1
            continue
        if letter == b"S":
            kind, count, name = words
            ints(kind, count, len(name))
            out.append(name)
        else:
            ints(*words)
        if letter in (b"C", b"O"):
            continue
        count = int(words[1] if letter in (b"V", b"J", b"G", b"S") else words[0])
        for line in lines[at : at + count]:
            index, *value = line.split()
            ints(index)
            if letter == b"S" and not int(words[0]) & 4:
                ints(*value)
            else:
                reals(*value)
        at += count
    return b"".join(out)
