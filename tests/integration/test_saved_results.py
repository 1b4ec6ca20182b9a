"""Results as files and as dictionaries: everything comes back, and a file that is no result is an error with a name."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest

import auglag
from auglag import Status, minimize
from auglag.persist.results import from_dict
from auglag.result import SCHEMA
from helpers.hs14 import EQ, INEQ, START, fun


def same(one, two) -> bool:
    """Whether two results are the same, types and bits."""
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, name), getattr(two, name)) for name in one.__dataclass_fields__)
    return one == two or (isinstance(one, float) and math.isnan(one) and math.isnan(two))


RUNS = {
    "solved": lambda: minimize(fun, START, constraints=[EQ, INEQ]),
    "with several starts": lambda: minimize(fun, START, constraints=[EQ, INEQ], starts=3),
    "without constraints": lambda: minimize(fun, START),
    "infeasible": lambda: minimize(fun, START, constraints=[EQ, {**EQ, "fun": lambda x: x[0] - 2 * x[1] + 5}]),
    "with NaN everywhere": lambda: minimize(lambda x: math.nan, START),
    "with rows": lambda: minimize(fun, START, constraints={"type": "ineq", "fun": lambda x: 1 - x**2, "name": "box"}),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_saved_result_comes_back_as_it_was(run, tmp_path):
    result = run()
    result.save(tmp_path / "result.json")
    again = auglag.load_result(tmp_path / "result.json")
    assert isinstance(again, auglag.Result)
    for name in SCHEMA:
        assert same(result[name], again[name]), name
    assert again.status is result.status
    assert again.explain() == result.explain()
    assert repr(again) == repr(result)


def test_a_saved_result_warm_starts_a_run(tmp_path):
    minimize(fun, START, constraints=[EQ, INEQ]).save(tmp_path / "result.json")
    again = minimize(fun, warm_start=auglag.load_result(tmp_path / "result.json"), constraints=[EQ, INEQ])
    assert again.success
    assert again.nit == 0


def test_the_dictionary_of_a_result_is_plain_json():
    values = minimize(lambda x: math.nan, START).to_dict()
    assert values["status"] == "NON_FINITE"
    assert values["fun"] == "nan"
    text = json.dumps(values, allow_nan=False)
    assert from_dict(json.loads(text)).status is Status.NON_FINITE


def broken(change):
    def write(path):
        minimize(fun, START, constraints=[EQ, INEQ]).save(path)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return write


FILES = {
    "empty": (lambda path: path.write_bytes(b""), "not a usable result"),
    "binary": (lambda path: path.write_bytes(bytes(range(256))), "not a usable result"),
    "nested too deep": (lambda path: path.write_text("[" * 100_000), "not a usable result"),
    "other JSON": (lambda path: path.write_text('{"x": [1]}'), "does not say 'auglag-result'"),
    "a list": (lambda path: path.write_text("[1]"), "does not say 'auglag-result'"),
    "another version": (broken(lambda c: c.update(version=99)), "version 99 of the format"),
    "without a field": (broken(lambda c: c["result"].pop("x")), r"missing \['x'\]"),
    "with another field": (broken(lambda c: c["result"].update(y=1)), "has no field 'y'"),
    "an unknown status": (broken(lambda c: c["result"].update(status="FINE")), "'FINE'"),
    "a vector of words": (broken(lambda c: c["result"].update(x=["a"])), "an entry of a vector must be of type float"),
    "a count that is none": (broken(lambda c: c["result"].update(nit=1.5)), "nit must be of type int"),
    "a certificate that is none": (broken(lambda c: c["result"].update(certificate={"x": 1})), "Certificate.x must be"),
    "cut off": (lambda path: (broken(lambda c: None)(path), path.write_text(path.read_text()[:-50])), "not a usable"),
}


@pytest.mark.parametrize(("write", "words"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_result_is_an_error_with_a_name(write, words, tmp_path):
    write(tmp_path / "bad.json")
    with pytest.raises(auglag.CheckpointError, match=words):
        auglag.load_result(tmp_path / "bad.json")


def test_files_that_are_not_there_and_folders_are_named(tmp_path):
    with pytest.raises(auglag.CheckpointError, match="which does not exist"):
        auglag.load_result(tmp_path / "none.json")
    with pytest.raises(auglag.CheckpointError, match="not a usable result"):
        auglag.load_result(tmp_path)
    result = minimize(fun, START)
    with pytest.raises(auglag.InputError, match="path must name a file in an existing folder"):
        result.save(tmp_path / "none" / "result.json")
    with pytest.raises(auglag.InputError, match="path must be a path, got 3"):
        result.save(3)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")
def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(auglag.CheckpointError, match="not a regular file"):
        auglag.load_result(tmp_path / "pipe")
