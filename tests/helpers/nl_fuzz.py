"""Random changes of `.nl` files, and what must hold whatever they are."""

from __future__ import annotations

import random

import numpy as np

from auglag.problems.nl import NlError, NlProblem
from auglag.problems.nl.reader import parse
from helpers.nl import nl_text

#: A small model with every kind of segment.
MODEL = nl_text(
    4,
    objective=["o0", "o2", "v0", "v4", "o44", "o3", "v1", "n2.5"],
    gradient=[(2, 1.0), (3, -0.5)],
    rows=[["o54", "3", "v4", "o5", "v2", "n3", "o15", "v3"], ["o12", "3", "v0", "v1", "o41", "v5"], ["n0"]],
    jacobian=[[(0, 1.0), (2, 0.0)], [(1, 2.0)], [(3, 1.0), (0, -1e-3)]],
    defined=[([(1, 2.0), (3, -1.0)], ["o2", "v0", "v1"]), ([], ["o35", "o22", "v4", "n0", "v4", "o43", "v4"])],
    sides=["4 3", "0 -1 5", "1 10"],
    bounds=["0 0 9", "2 -3", "3", "1 4"],
    x0=[1.0, 2.0, 3.0, 0.5],
    extra=["S0 2 priority", "0 1", "3 2", "S4 1 weight", "1 0.5", "k3", "2", "4", "5", "d1", "0 0.5"],
)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to four random changes: bits, bytes, words, lines, truncation, and sizes that lie."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        kind, at = rng.randrange(9), rng.randrange(len(data) or 1)
        if kind == 0:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            data = data[:at] + data[at + rng.randrange(1, 20) :]
        elif kind == 3:
            data = data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
        elif kind == 4:
            stop = min(at + rng.randrange(1, 60), len(data))
            data = data[:stop] + data[at:stop] + data[stop:]
        elif kind == 5 and data:
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif kind == 6:
            words = data.split(b" ")
            words[rng.randrange(len(words))] = rng.choice((b"2147483647", b"-1", b"1e308", b"nan", b"99999999999", b""))
            data = b" ".join(words)
        elif kind == 7:
            lines = data.split(b"\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i] = rng.choice(
                (lines[j], b"o%d" % rng.randrange(84), b"v%d" % rng.randrange(9), b"n1e999", b"o54\n7")
            )
            data = b"\n".join(lines)
        else:
            data = data[:at] + rng.choice((b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", bytes(8))) + data[at + 4 :]
    return data


#: Operators of one and of two arguments.
_UNARY = (13, 14, 15, 16, 34, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 49, 50, 51, 52, 53, 77)
_BINARY = (0, 1, 2, 3, 4, 5, 6, 20, 21, 22, 23, 24, 28, 29, 30, 48, 55, 57, 58, 73, 76, 78)
_NUMBERS = (b"0", b"-0", b"1", b"-1", b"2", b"1e308", b"-1e308", b"1e-320", b"inf", b"0.5", b"1e20", b"-3.7")


def gently(text: bytes, rng: random.Random) -> bytes:
    """Other operators, variables and numbers in a text file that stays well formed: hard on what evaluates it."""
    lines = text.split(b"\n")
    places = [i for i, line in enumerate(lines) if i > 9 and line[:1] in (b"o", b"n", b"v")]
    variables = int(lines[1].split()[0])
    for i in rng.sample(places, min(len(places), rng.choice((1, 2, 5, 20)))):
        code = lines[i].partition(b"#")[0].strip()[1:]
        if lines[i][:1] == b"n":
            lines[i] = b"n" + rng.choice(_NUMBERS)
        elif lines[i][:1] == b"v":
            lines[i] = rng.choice(
                (b"v%d" % rng.randrange(variables), b"n" + rng.choice(_NUMBERS), lines[rng.choice(places)])
            )
            if lines[i][:1] == b"o":
                lines[i] = b"v0"
        elif int(code) in _UNARY:
            lines[i] = b"o%d" % rng.choice(_UNARY)
        elif int(code) in _BINARY:
            lines[i] = b"o%d" % rng.choice(_BINARY)
    return b"\n".join(lines)


def evaluated(data: bytes) -> bool:
    """Whether a file can be read; what can be read can be evaluated, everything else is an `NlError`."""
    try:
        given = NlProblem(parse(data, "fuzz.nl"), name="fuzz")
    except NlError:
        return False
    x, y = np.clip(given.x0, given.lower, given.upper), np.ones(given.m)
    assert isinstance(given.f(x), float)
    assert given.c(x).shape == (given.m,)
    assert given.grad(x).shape == (given.n,)
    assert given.jac(x).shape == (given.m, given.n)
    if given.has_hessp:
        assert given.hessp(x, y, x).shape == (given.n,)
        assert not given.has_hess or given.hess(x, y).shape == (given.n, given.n)
    return True
