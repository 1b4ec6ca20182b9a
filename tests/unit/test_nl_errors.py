"""Malformed, truncated, hostile and unsupported `.nl` files: one sentence that says where and why."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from auglag.errors import InputError
from auglag.problems.nl import NlError, NlInfeasible, NlProblem, load
from auglag.problems.nl.reader import parse
from helpers.nl import binary, nl_text
from helpers.nl_fuzz import MODEL, evaluated, gently, mutate


def replaced(old: str, new: str) -> bytes:
    assert old.encode() in MODEL
    return MODEL.replace(old.encode(), new.encode(), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", r"line 1: a \.nl file must start with g \(text\) or b \(binary\), got b''"),
        (b"x" + MODEL[1:], r"must start with g"),
        (MODEL[:40], r"the header must have 10 lines, but the file ends"),
        (replaced(" 4 3 1", " 4 x 1"), r"line 2: the header must consist of nonnegative integers, got 'x'"),
        (replaced(" 4 3 1", " 4 -3 1"), r"line 2: .* nonnegative integers, got '-3'"),
        (replaced(" 4 3 1", " 2000000000 3 1"), r"must not declare more than the file can hold .*2000000000 variables"),
        (replaced(" 4 3 1", " 0 3 1"), r"at least one variable, got 0"),
        (replaced(" 4 3 1 0 0", " 4 3 1 0 0 2"), r"logical constraints are not supported, got 2"),
        (replaced("g3 1 1 0", "g12 1 1 0"), r"line 1: AMPL's options must be a count up to 9"),
        (replaced("v4\no43", "v4\no99"), r"line \d+: an operator must be one of AMPL's, o0 to o82, got 'o99'"),
        (replaced("v4\no43", "v4\no74"), r"line \d+: operator o74 \(alldiff\) is not supported"),
        (replaced("v4\no43", "v4\nf0 1"), r"line \d+: imported functions are not supported, got 'f0'"),
        (replaced("v4\no43", "v4\nh3:abc"), r"line \d+: strings are not supported in an expression, got 'h3:abc'"),
        (replaced("v4\no43", "v4\n?"), r"line \d+: lines o, n, s, l, v or f expected in an expression, got '\?'"),
        (replaced("n2.5", "nan"), r"a constant must be a number, got 'an'"),
        (replaced("n2.5", "n1_0"), r"a constant must be a number, got '1_0'"),
        (replaced("v4\no44", "v6\no44"), r"a variable must be at least 0 and below 6, got 6"),
        (replaced("-1.0\no2\nv0", "-1.0\no2\nv5"), r"must be defined before it is used, got 'v5'"),
        (replaced("V4 2 0", "V4 9 0"), r"segment V must have between 0 and 4 entries, got 9"),
        (replaced("V4 2 0", "V3 2 0"), r"a defined variable must have an index from 4 to 5, got 3"),
        (replaced("o54\n3", "o54\n-3"), r"the number of arguments must be at least 1 and within the file, got -3"),
        (replaced("o54\n3", "o54\n2000000000"), r"the number of arguments must be .* within the file, got 2000000000"),
        (replaced("O0 0", "O0 3"), r"the sense of an objective must be 0 \(minimise\) or 1 \(maximise\), got 3"),
        (replaced("C1", "C0"), r"a segment must occur once, got 'C0'"),
        (replaced("C1", "C7"), r"a constraint must be at least 0 and below 3, got 7"),
        (replaced("C1", "Q1"), r"a segment must be one of C, O, V.*got 'Q'"),
        (replaced("J1 1\n1 2.0", "J1 1\n1 inf"), r"a coefficient must be finite, got inf"),
        (replaced("J1 1\n1 2.0", "J1 1\n9 2.0"), r"a variable must be at least 0 and below 4, got 9"),
        (replaced("J1 1\n1 2.0", "J1 1\n1"), r"an entry of segment J must be an index and a number, got '1'"),
        (replaced("4 3\n0 -1 5", "7 3\n0 -1 5"), r"a line of segment r must start with a digit from 0 to 5, got '7 3'"),
        (replaced("4 3\n0 -1 5", "5 1 2\n0 -1 5"), r"complementarity constraints are not supported, got 'row 0'"),
        (replaced("0 -1 5", "0 -1"), r"a line of segment r of kind 0 must have 2 numbers, got 1"),
        (replaced("S0 2 priority", "F0 1 2 myfunc"), r"imported functions are not supported, got 'myfunc'"),
        (replaced("S0 2 priority", "S9 2 priority"), r"the kind of a suffix must be from 0 to 7, got 9"),
        (replaced("S0 2 priority", "L0"), r"logical constraints \(segment L\) are not supported"),
        (MODEL[: MODEL.index(b"\nb\n") + 1], r"segment b \(bounds\) expected, but the file ends"),
        (MODEL[: MODEL.index(b"\nr\n") + 1], r"segment b \(bounds\) expected, but the file ends"),
        (MODEL[: MODEL.index(b"o12")], r"line \d+: an expression expected, but the file ends"),
        (
            nl_text(1, objective=["o64", "2", "n1", "n2", "v0", "v0"]),
            r"slopes and breakpoints .* must be finite numbers",
        ),
        (nl_text(1, objective=["o64", "3", "n1", "n2", "n3", "n1", "n4", "v0"]), r"breakpoints .* must increase"),
        (nl_text(1, objective=["o64", "1", "n1", "n2"]), r"a piecewise-linear term \(o64\) must end with a variable"),
        (nl_text(1, objective=["o57", "v0", "v0"]), r"the number of digits to round to must be a constant"),
    ],
)
def test_what_is_wrong_with_a_text_file_is_said(text, message):
    with pytest.raises(NlError, match=message) as raised:
        NlProblem(parse(text, "bad.nl"))
    assert "bad.nl" in str(raised.value)


def test_what_is_wrong_with_a_binary_file_is_said():
    data = binary(MODEL)
    NlProblem(parse(data))
    with pytest.raises(NlError, match=r"bad\.nl, byte \d+: .* expected, but the file ends"):
        parse(data[:-3], "bad.nl")
    with pytest.raises(NlError, match=r"line 6: the arithmetic of a binary file must be 1 or 2 .*, got 0"):
        parse(b"b" + MODEL[1:], "bad.nl")
    with pytest.raises(NlError, match=r"byte \d+: a segment must be one of"):
        parse(data + b"?", "bad.nl")
    with pytest.raises(NlError, match=r"the length of the name of a suffix must be at least 0 and within the file"):
        parse(data.replace(b"\x08\x00\x00\x00priority", b"\xff\xff\xff\x7fpriority"), "bad.nl")


def test_sides_that_exclude_each_other_are_an_infeasible_problem():
    with pytest.raises(NlInfeasible, match=r"the lower side of variable 0 must not exceed the upper, got 9.0 > 0.0"):
        NlProblem(parse(replaced("0 0 9", "0 9 0")))
    with pytest.raises(NlInfeasible, match=r"the lower side of constraint 1 must not exceed"):
        NlProblem(parse(replaced("0 -1 5", "0 6 5")))
    with pytest.raises(NlError, match=r"must be reachable"):
        parse(replaced("0 0 9", "0 inf inf"))


def test_a_file_that_is_not_there_and_an_objective_that_is_not_there(tmp_path):
    with pytest.raises(NlError, match=r"must be readable, got .*missing\.nl' \(No such file or directory\)"):
        load(tmp_path / "missing.nl")
    (tmp_path / "model.nl").write_bytes(MODEL)
    with pytest.raises(InputError, match=r"objective must be None or from 0 to 0, got 1"):
        load(tmp_path / "model.nl", objective=1)


def test_gradients_that_would_fill_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr("auglag.problems.nl.gradients.LARGEST_FILL", 1000)
    n = 100
    chain = [([], ["o2", "v0", "v1"])] + [([], ["o2", f"v{n + k - 1}", f"v{k + 1}"]) for k in range(1, n - 1)]
    rows = [["o41", f"v{n + k}"] for k in range(n - 1)]
    with pytest.raises(NlError, match=r"defined variables must not be shared so widely"):
        NlProblem(parse(nl_text(n, rows=rows, defined=chain)), name="wide")
    with pytest.raises(NlError, match=r"wide: "):
        NlProblem(parse(nl_text(n, rows=rows, defined=chain)), name="wide")


@pytest.mark.parametrize("form", ["text", "little", "big"])
def test_no_change_of_a_file_does_worse_than_an_error(form):
    data = MODEL if form == "text" else binary(MODEL, "<" if form == "little" else ">")
    assert evaluated(data)
    rng = random.Random(form)
    tracemalloc.start()
    read = sum(evaluated(mutate(data, rng)) for _ in range(1000))
    for _ in range(200):
        text = gently(MODEL, rng)
        read += evaluated(text if form == "text" else binary(text, "<" if form == "little" else ">"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 200 < read < 1150  # both ends are seen
    assert peak < 50_000_000
