"""The AMPL protocol: command lines, options, `.sol` files and codes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import auglag
from auglag import Status, ampl
from auglag.errors import InputError, OptionError
from auglag.log import LogReader
from helpers.nl import binary, nl_text

# min (x0 - 2)^2 + x1^2  subject to  x0 + x1 = 1,  x1 >= -0.25:  x = (1.25, -0.25), dual of the row -1.5, of the bound 1
MODEL = nl_text(
    2,
    objective=["o0", "o5", "o1", "v0", "n2", "n2", "o5", "v1", "n2"],
    rows=[["n0"]],
    jacobian=[[(0, 1.0), (1, 1.0)]],
    sides=["4 1"],
    bounds=["3", "2 -0.25"],
)


@pytest.fixture
def stub(tmp_path):
    (tmp_path / "model.nl").write_bytes(MODEL)
    return str(tmp_path / "model")


def solution(stub: str) -> list[str]:
    with open(stub + ".sol", encoding="utf-8") as file:
        return file.read().splitlines()


def test_the_sol_file_has_the_layout_that_ampl_reads(stub, capsys):
    assert ampl.main([stub, "-AMPL", "tol=1e-9"]) == 0
    lines = solution(stub)
    blank = lines.index("")
    assert lines[0].startswith(f"auglag {auglag.__version__}: Solved")
    assert "Objective 0.625" in lines[1]
    assert lines[blank + 1 : blank + 10] == ["Options", "3", "1", "1", "0", "1", "1", "2", "2"]
    numbers = [float(line) for line in lines[blank + 10 : blank + 13]]
    assert numbers == pytest.approx([-1.5, 1.25, -0.25], abs=1e-8)
    assert lines[blank + 13] == "objno 0 0"
    assert lines[blank + 14 : blank + 17] == ["suffix 4 2 14 0 0", "auglag_zL_out", "0 0.0"]
    index, value = lines[blank + 17].split()
    assert (index, float(value)) == ("1", pytest.approx(1.0, abs=1e-7))
    assert lines[blank + 18 : blank + 22] == ["suffix 4 2 14 0 0", "auglag_zU_out", "0 0.0", "1 0.0"]
    assert capsys.readouterr().out == f"auglag {auglag.__version__}: tol=1e-09\n"


def test_the_tolerance_for_basic_variables_is_given_back(tmp_path):
    (tmp_path / "m.nl").write_bytes(MODEL.replace(b"g3 1 1 0", b"g3 1 3 0 1e-7"))
    assert ampl.main([str(tmp_path / "m.nl"), "-AMPL"]) == 0
    lines = solution(str(tmp_path / "m"))
    at = lines.index("Options")
    assert lines[at + 1 : at + 10] == ["5", "1", "3", "0", "1", "1", "2", "2", "1e-07"]


@pytest.mark.parametrize("order", "<>")
def test_binary_files_give_the_same_answer(tmp_path, stub, order):
    (tmp_path / "b.nl").write_bytes(binary(MODEL, order))
    assert ampl.main([stub, "-AMPL"]) == ampl.main([str(tmp_path / "b"), "-AMPL"]) == 0
    assert solution(stub) == solution(str(tmp_path / "b"))


@pytest.mark.parametrize(
    ("changes", "words", "code"),
    [
        ((), (), 0),
        (((b"\n4 1\n", b"\n4 1\n"),), ("max_iter=1", "preset=paper"), 400),
        (((b"2 -0.25", b"0 2 3"), (b"3\n0 2 3", b"0 2 3\n0 2 3")), (), 200),
        (((b"2 -0.25", b"0 3 2"),), (), 201),
        (((b"o5\no1\nv0\nn2\nn2", b"o16\no5\nv0\nn2"), (b"o5\nv1\nn2\n", b"n0\n"), (b"2 -0.25", b"3")), (), 300),
        (((b"o5\nv1\nn2\n", b"o43\no1\nv1\nn1000\n"), (b"2 -0.25", b"0 0 1")), (), 500),
    ],
)
def test_ends_have_codes_in_ampls_ranges(tmp_path, changes, words, code):
    text = MODEL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "model.nl").write_bytes(text)
    assert ampl.main([str(tmp_path / "model"), "-AMPL", *words]) == 0
    assert f"objno 0 {code}" in solution(str(tmp_path / "model"))


def test_every_status_has_a_code_in_the_range_of_its_kind():
    assert set(ampl.CODES) == set(Status)
    assert [ampl.CODES[s] // 100 for s in (Status.SOLVED, Status.INFEASIBLE, Status.UNBOUNDED)] == [0, 2, 3]
    limits = (Status.ITERATION_LIMIT, Status.EVALUATION_LIMIT, Status.TIME_LIMIT)
    assert {ampl.CODES[s] // 100 for s in limits} == {4}


def test_options_come_from_the_environment_and_the_command_line_goes_first():
    environment = {"auglag_options": "tol=1e-3 max_iter=7 outlev=1"}
    call = ampl.understand(["m", "-AMPL", "tol=1e-4", "timelimit=5"], environment)
    assert call.options == {"tol": 1e-4, "max_iter": 7, "outlev": 1, "max_seconds": 5.0}
    assert str(call.stub) == "m.nl"
    assert call.writes
    assert ampl.understand(["m.nl", "-s"], {}).options == {"wantsol": 1}
    assert not ampl.understand(["m.nl"], {}).writes


def test_options_of_ipopt_are_translated_or_passed_over_with_one_warning(stub, capsys):
    words = ["max_cpu_time=5", "warm_start_init_point=yes", "print_level=0", "linear_solver=ma57", "mu_init=1e-6"]
    call = ampl.understand(["m", "-AMPL", *words, "acceptable_tol=1e-4"], {"auglag_options": "linear_solver=superlu"})
    assert call.options == {"max_seconds": 5.0, "warm_start": True, "outlev": 0, "linear_solver": "superlu"}
    assert call.warning.endswith("passed over: linear_solver=ma57, mu_init=1e-6, acceptable_tol=1e-4")
    assert ampl.main([stub, "-AMPL", *words]) == 0
    assert capsys.readouterr().err.count("passed over") == 1
    assert ampl.main([stub, "-AMPL", "linear_solver=superlu"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["m", "-AMPL", "tole=1"], OptionError, "there is no option 'tole'; did you mean 'tol'"),
        (["m", "-AMPL", "tol"], InputError, "an option must be written key=value, got 'tol'"),
        (["m", "-AMPL", "tol=-1"], InputError, "tol must be a positive number, got '-1'"),
        (["m", "-AMPL", "max_iter=x"], InputError, "max_iter must be an integer of at least 0, got 'x'"),
        (["m", "-AMPL", "scaling=maybe"], InputError, "scaling must be yes or no"),
        (["-AMPL"], InputError, "usage: auglag STUB -AMPL"),
    ],
)
def test_a_bad_command_line_is_explained(words, error, message):
    with pytest.raises(error, match=message):
        ampl.understand(words, {})


def test_a_bad_file_is_an_error_and_leaves_no_old_answer(tmp_path, capsys):
    (tmp_path / "m.nl").write_bytes(MODEL[:-30])
    (tmp_path / "m.sol").write_text("old")
    assert ampl.main([str(tmp_path / "m"), "-AMPL"]) == 1
    assert "m.nl, line" in capsys.readouterr().err
    assert not (tmp_path / "m.sol").exists()
    assert ampl.main([str(tmp_path / "n"), "-AMPL"]) == 1
    assert "must be readable" in capsys.readouterr().err


def test_without_ampl_the_answer_is_printed_and_written_only_on_demand(stub, capsys, tmp_path):
    assert ampl.main([stub, "wantsol=6"]) == 0
    out = capsys.readouterr().out
    assert "Solved" in out
    assert "x[0] = 1.2" in out
    assert "dual[0] = -1." in out
    assert not (tmp_path / "model.sol").exists()
    assert ampl.main([stub, "-s"]) == 0
    assert (tmp_path / "model.sol").exists()


def test_a_warm_start_takes_the_duals_of_the_file(tmp_path):
    start = b"d1\n0 -1.5\nx2\n0 1.25\n1 -0.25\n"
    (tmp_path / "m.nl").write_bytes(MODEL.replace(b"C0\n", start + b"C0\n"))
    assert ampl.main([str(tmp_path / "m"), "-AMPL", "warm_start=yes"]) == 0
    assert "The starting point already does." in solution(str(tmp_path / "m"))[0]


def test_what_looks_like_a_call_of_ampl():
    assert ampl.is_call(["-v"])
    assert ampl.is_call(["-="])
    assert ampl.is_call(["model", "-AMPL", "tol=1"])
    assert ampl.is_call(["model.nl", "-s"])
    assert not ampl.is_call([])
    assert not ampl.is_call(["bench", "-s", "auglag"])
    assert not ampl.is_call(["solve", "HS71", "--tol", "1e-3"])


def test_the_version_and_the_options_can_be_asked_for(capsys):
    assert ampl.main(["-v"]) == 0
    assert capsys.readouterr().out.startswith(f"auglag {auglag.__version__} (")
    assert ampl.main(["-="]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in f"\n{listed}" for name in ampl.OPTIONS)


def test_the_executable_and_the_module_answer_without_the_command_line_extra(stub):
    program = "import sys; sys.modules['typer'] = None; from auglag.__main__ import main; main()"
    subprocess.run([sys.executable, "-c", program, stub, "-AMPL"], check=True, capture_output=True)
    first = solution(stub)
    subprocess.run([sys.executable, "-m", "auglag.ampl", stub, "-AMPL"], check=True, capture_output=True)
    assert solution(stub) == first
    assert "objno 0 0" in first


def test_files_without_objective_ask_for_a_feasible_point(tmp_path):
    text = MODEL.replace(b" 2 1 1 0 0", b" 2 1 0 0 0")
    text = text[: text.index(b"O0")] + text[text.index(b"r\n4 1") :]
    (tmp_path / "m.nl").write_bytes(text)
    assert ampl.main([str(tmp_path / "m"), "-AMPL"]) == 0
    lines = solution(str(tmp_path / "m"))
    x = [float(line) for line in lines[lines.index("objno 0 0") - 2 : lines.index("objno 0 0")]]
    assert np.sum(x) == pytest.approx(1.0, abs=1e-6)


def test_a_log_can_be_asked_for_and_a_folder_that_is_not_there_is_an_error(stub, tmp_path, capsys):
    assert ampl.main([stub, "-AMPL", f"log={tmp_path / 'run.jsonl'}"]) == 0
    reader = LogReader(tmp_path / "run.jsonl")
    reader.poll()
    assert reader.state == "finished"
    assert reader.run.end["x"] == pytest.approx([1.25, -0.25])
    assert ampl.main([stub, "-AMPL", "log=/no/such/folder/run.jsonl"]) == 1
    assert "must name a file in an existing folder" in capsys.readouterr().err
