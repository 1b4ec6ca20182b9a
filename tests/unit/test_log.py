"""The log of a run: what its lines hold, and what a reader makes of files in every state."""

import json
import math
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import auglag
from auglag import Budget, InputError, JsonLog
from auglag.log import FIELDS, VERSION, LogError, LogReader, writer
from auglag.log.schema import duration, plain

CIRCLE = [
    {"type": "eq", "fun": lambda x: x @ x - 2.0, "name": "circle"},
    {"type": "ineq", "fun": lambda x: x[0] + 10.0, "name": "side"},
]


def rosenbrock(x):
    return 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2


def solve(path, fun=rosenbrock, *, log=None, **options):
    settings = {"variant": "adaptive-full", **options}
    return auglag.minimize(fun, [-1.2, 1.0], constraints=CIRCLE, callback=log or JsonLog(path, steps=False), **settings)


def lines(path):
    """The lines of a file as strict JSON: NaN and Infinity are no JSON."""
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


def read(path):
    reader = LogReader(path)
    reader.poll()
    return reader


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


# -------------------------------------------------------------------------------------------------------------- writing


def test_a_log_has_a_start_a_line_per_outer_iteration_and_the_result(path):
    result = solve(path)
    start, *rows, end = lines(path)
    assert start["event"] == "start"
    assert (start["format"], start["version"]) == ("auglag-log", VERSION)
    assert (start["n"], start["m"], start["rows"]) == (2, 2, ["circle", "side"])
    assert start["options"]["acceleration"] is False
    assert start["versions"]["auglag"] == auglag.__version__
    assert [row["residual"] for row in rows] == [row["residual"] for row in result.history]
    assert [row["violation"] for row in rows] == [row["user_violation"] for row in result.history]
    assert [row["k"] for row in rows] == list(range(1, result.nit + 1))
    assert rows[-1]["work"]["nfev"] <= result.nfev
    assert np.linalg.norm(rows[-1]["multipliers"]) == pytest.approx(rows[-1]["multiplier_norm"])
    assert end["status"] == "SOLVED"
    assert end["x"] == result.x.tolist()
    assert end["multipliers"] == result.y.tolist()
    assert end["residual"] == result.certificate.residual


def test_every_line_has_exactly_the_documented_fields(path):
    solve(path)
    for line in lines(path):
        assert list(line) == list(FIELDS[line["event"]])


def test_lines_are_in_the_file_when_the_iteration_is_over_and_the_callback_is_called_too(path):
    seen = []

    def look(intermediate_result):
        if intermediate_result.kind == "outer":
            seen.append((intermediate_result.nit, len(lines(path))))

    result = solve(path, log=JsonLog(path, callback=look, steps=False))
    assert seen == [(k, k + 1) for k in range(1, result.nit + 1)]


@pytest.mark.parametrize("variant", [None, "adaptive-full"])
def test_every_step_is_logged_before_the_outer_iteration_that_it_is_a_part_of(path, variant):
    result = solve(path, log=JsonLog(path), variant=variant)
    rows = lines(path)[1:-1]
    assert [row["residual"] for row in rows if row["event"] == "iteration"] == [r["residual"] for r in result.history]
    steps = [row for row in rows if row["event"] == "step"]
    assert [row["step"] for row in steps] == list(range(1, len(steps) + 1))
    assert [(s["kind"], s["k"]) for s in steps] == [(s.kind, s.k) for s in result.steps if s.kind != "outer"]
    assert {"newton", "inner"} >= {row["kind"] for row in steps} >= {"inner"}
    for step in steps:
        following = next(row for row in rows[rows.index(step) :] if row["event"] == "iteration")
        assert following["k"] == step["k"]
        assert following["seconds"] >= step["seconds"]
    reader = read(path)
    assert len(reader.run.course) == len(rows)
    assert len(reader.run.iterations) == result.nit


def test_steps_wait_for_each_other_but_not_longer_than_a_moment(path, monkeypatch):
    counts = []

    def look(intermediate_result):
        counts.append(len(lines(path)))

    solve(path, log=JsonLog(path, callback=look), budget=Budget(outer=1))
    assert len(set(counts)) < len(counts)
    counts.clear()
    monkeypatch.setattr(writer, "PAUSE", 0.0)
    solve(path, log=JsonLog(path, callback=look), budget=Budget(outer=1))
    assert counts == list(range(2, len(counts) + 2))


def test_the_accelerated_default_and_problems_without_constraints_are_logged_too(path):
    result = solve(path, variant=None)
    assert len(lines(path)) == result.nit + 2
    auglag.minimize(rosenbrock, [0.0, 0.0], callback=JsonLog(path))
    assert lines(path)[0]["m"] == 0
    assert lines(path)[-1]["success"]


def test_an_exception_of_the_users_function_is_the_last_line_and_is_raised(path):
    calls = []

    def fails(x):
        calls.append(1)
        if len(calls) > 30:
            raise ZeroDivisionError("in the model")
        return rosenbrock(x)

    with pytest.raises(ZeroDivisionError):
        solve(path, fails)
    assert lines(path)[-1]["status"] == "EXCEPTION"
    assert lines(path)[-1]["message"] == "ZeroDivisionError: in the model"


def test_numbers_that_are_none_are_null():
    assert plain({"a": math.nan, "b": [math.inf, 1.0], "c": np.array([1, 2]), "d": np.float64(2.0)}) == {
        "a": None,
        "b": [None, 1.0],
        "c": [1, 2],
        "d": 2.0,
    }


def test_many_multipliers_are_left_out_but_not_their_norm(path):
    solve(path, log=JsonLog(path, multipliers=1, steps=False))
    start, first = lines(path)[:2]
    assert start["rows"] == []
    assert first["multipliers"] is None
    assert first["multiplier_norm"] > 0


def test_a_resumed_run_goes_on_in_the_same_log_as_if_it_had_never_stopped(path, tmp_path):
    whole = solve(tmp_path / "whole.jsonl")
    state = tmp_path / "state.npz"
    solve(path, checkpoint=state, budget=Budget(evaluations=90))
    with path.open("a") as file:
        file.write('{"event":"iter')  # killed while it wrote
    solve(path, log=JsonLog(path, append=True, steps=False), resume=state)
    reader = read(path)
    assert reader.bad == 1
    assert reader.run.start["resumed"]
    assert [row["k"] for row in reader.run.iterations] == list(range(1, whole.nit + 1))
    assert [row["residual"] for row in reader.run.iterations] == [row["residual"] for row in whole.history]
    assert reader.state == "finished"


def test_a_loop_of_ones_own_writes_the_same_format(path):
    log = JsonLog(path)
    log.start(n=3, m=1, tol=1e-3, problem="mine", rows=["fairness"], options={"lr": 0.1})
    for k in range(1, 4):
        log.iteration(
            k, seconds=0.1 * k, objective=1.0 / k, residual=0.1**k, violation=0.0, beta=2.0, multipliers=[0.5]
        )
    log.end(status="SOLVED", success=True, message="done", seconds=0.3)
    run = read(path).run
    assert run.name == "mine"
    assert [row["stationarity"] for row in run.iterations] == pytest.approx([0.1, 0.01, 0.001])
    assert run.end["success"]
    assert all(list(line) == list(FIELDS[line["event"]]) for line in lines(path))


def test_a_stochastic_run_logs_tests_and_outer_iterations(path):
    rng = np.random.default_rng(0)
    features = np.vstack([rng.normal(1.0, 1.0, (60, 3)), rng.normal(-1.0, 1.0, (80, 3))])
    problem = auglag.stochastic.neyman_pearson(features, np.repeat([1, 0], [60, 80]), chat=0.5)
    result = auglag.stochastic.minimize(problem, method="sgd", max_epochs=20, callback=JsonLog(path))
    run = read(path).run
    assert [row["residual"] for row in run.tests] == [row["residual"] for row in result.trace]
    assert [row["beta"] for row in run.iterations] == [row["beta"] for row in result.history]
    assert run.rows is run.tests
    assert run.end["work"]["epochs"] == result.epochs
    for line in lines(path):
        assert list(line) == list(FIELDS[line["event"]])


def test_jax_functions_are_logged_like_others(path):
    jax = pytest.importorskip("jax")
    import auglag.jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        result = auglag.jax.minimize(rosenbrock, np.array([-1.2, 1.0]), callback=JsonLog(path), tol=1e-3)
    finally:
        jax.config.update("jax_enable_x64", before)
    assert read(path).run.end["objective"] == result.fun


def test_training_in_pytorch_is_logged_too(path):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    from auglag.torch import equal, fit

    points = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    model = torch.nn.Linear(2, 1, bias=False, dtype=torch.float64)
    whole = {"weights": equal([0.2, 0.8], lambda m, b: m.weight[0])}
    result = fit(model, lambda m, b: (m(b) ** 2).mean(), whole, points, tol=1e-6, callback=JsonLog(path))
    run = read(path).run
    assert run.start["rows"] == ["weights[0]", "weights[1]"]
    assert [row["residual"] for row in run.tests] == [row["residual"] for row in result.trace]
    assert len(run.iterations) == result.nit
    assert run.end["x"] == pytest.approx([0.2, 0.8], abs=1e-5)
    for line in lines(path):
        assert list(line) == list(FIELDS[line["event"]])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_log_with_a_warning_and_not_the_run():
    with pytest.warns(UserWarning, match="the log /dev/full ends here: No space left"):
        assert solve(Path("/dev/full")).success


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3,), "JsonLog.path must be a path, got 3"),
        (("/no/such/folder/run.jsonl",), "JsonLog.path must name a file in an existing folder"),
        (("/",), "JsonLog.path must name a file"),
    ],
)
def test_a_wrong_path_is_refused_at_once(arguments, words):
    with pytest.raises(InputError, match=words):
        JsonLog(*arguments)


# -------------------------------------------------------------------------------------------------------------- reading


def test_a_file_that_grows_byte_by_byte_is_read_as_it_grows(path, tmp_path):
    solve(tmp_path / "whole.jsonl")
    content = (tmp_path / "whole.jsonl").read_bytes()
    reader, states, counts = LogReader(path), [], []
    assert not reader.poll()
    assert reader.state == "waiting"
    cuts = range(0, len(content) + 1, 37)
    for cut in [*cuts, len(content)]:
        path.write_bytes(content[:cut])  # the same file: its number stays
        reader.poll()
        states.append(reader.state)
        counts.append(len(reader.run.iterations) if reader.run else 0)
    assert counts == sorted(counts)
    assert counts[-1] == len(lines(path)) - 2
    assert states[0] == "waiting"
    assert states[-1] == "finished"
    assert set(states) == {"waiting", "running", "finished"}
    assert (reader.bad, reader.generation) == (0, 0)


def test_a_log_that_is_written_anew_starts_anew(path):
    solve(path)
    reader = read(path)
    first = reader.generation
    solve(path, tol=1e-2)
    assert reader.poll()
    assert reader.generation > first
    assert reader.run.start["tol"] == 1e-2
    assert len(reader.run.iterations) == len(lines(path)) - 2


def test_a_second_run_in_one_file_takes_the_place_of_the_first(path):
    log = JsonLog(path, append=True)
    solve(path, log=log)
    solve(path, log=log, tol=1e-2)
    reader = read(path)
    assert reader.run.start["tol"] == 1e-2
    assert reader.run.iterations[0]["k"] == 1
    assert reader.state == "finished"


def test_a_killed_run_is_told_from_one_that_goes_on(path):
    program = (
        "import os, sys\nfrom auglag import JsonLog\nlog = JsonLog(sys.argv[1])\nlog.start(n=1, m=0, tol=1e-3)\n"
        "log.iteration(1, seconds=0.1, objective=1.0, residual=1.0, violation=0.0, beta=1.0)\nos._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert read(path).state == "gone"
    path.write_text(path.read_text().replace('"host":"', '"host":"another-'))
    assert read(path).state == "running"  # of a process on another machine nothing is known
    JsonLog(path).start(n=1, m=0, tol=1e-3)
    assert read(path).run.start["pid"] == os.getpid()
    assert read(path).state == "running"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"k,f,g\n1,2,3\n", "is not a log of auglag: its first line is"),
        (b'{"event":"iteration","k":1}\n', "it must begin with a start, got 'iteration'"),
        (b'{"event":"start","version":1}\n', "does not say 'auglag-log'"),
        (b'{"event":"start","format":"auglag-log","version":99}\n', r"by a newer auglag \(version 99"),
        (b"\xff\xfe\x00binary\n" * 3, "is not a log of auglag"),
        (b"[1, 2]\n", "is not a log of auglag"),
    ],
)
def test_what_is_no_log_is_refused(path, content, words):
    path.write_bytes(content)
    with pytest.raises(LogError, match=words):
        read(path)


def test_lines_that_are_no_rows_are_counted_and_passed_over(path):
    solve(path)
    good = path.read_text().splitlines()
    bad = ["{broken", "[]", "7", '{"event":"iteration"}', '{"event":"iteration","k":"x"}', '{"event":"test","k":1}']
    path.write_text("\n".join([good[0], *bad, '{"event":"from the future"}', *good[1:]]) + "\n")
    reader = read(path)
    assert reader.bad == len(bad)
    assert len(reader.run.iterations) == len(good) - 2


@pytest.mark.parametrize(("seconds", "text"), [(3.21, "3.2 s"), (245, "4:05"), (3723, "1:02:03")])
def test_durations(seconds, text):
    assert duration(seconds) == text


# ------------------------------------------------------------------------------------------ logs made by somebody else


def spoilt(path, line):
    """A log of a run with one line more before its end."""
    solve(path)
    *rest, end = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*rest, line, end, b""]))


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"event":' * 100_000, b'{"event":"iteration","k":Infinity}'])
def test_a_line_that_cannot_be_read_is_counted_and_passed_over(path, line):
    spoilt(path, line)
    reader = read(path)
    assert reader.bad == 1
    assert reader.state == "finished"


def test_a_line_without_measure_is_not_kept_in_memory(path):
    spoilt(path, b'{"event":"iteration","x":"' + b"x" * 30_000_000 + b'"}')
    tracemalloc.start()
    reader = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reader.bad == 1
    assert reader.state == "finished"
    assert peak < 20_000_000


def test_a_first_line_without_end_is_no_log(path):
    path.write_bytes(b"x" * 10_000_000)
    with pytest.raises(LogError, match="its first line has no end"):
        read(path)


def test_what_a_terminal_would_obey_is_taken_out(path):
    log = JsonLog(path)
    log.start(n=1, m=0, tol=1e-6, problem="\x1b]0;owned\x07 \x1b[2J \u202e")
    log.end(status="SOLVED", success=True, message="fine\x1b[31m\nand \x9b31m", advice=["\r\x08"])
    run = read(path).run
    assert run.name == "?]0;owned? ?[2J ?"
    assert run.end["message"] == "fine?[31m\nand ?31m"
    assert run.end["advice"] == ["??"]


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
@pytest.mark.parametrize("append", [False, True])
def test_a_log_does_not_follow_a_symbolic_link(tmp_path, path, append):
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    path.symlink_to(precious)
    with pytest.raises(InputError, match=r"JsonLog.path must be writable"):
        solve(path, log=JsonLog(path, append=append))
    assert precious.read_text() == "mine\n"


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_link_put_in_the_place_of_a_log_ends_the_log_and_not_the_run(tmp_path, path):
    precious = tmp_path / "precious"
    precious.write_text("mine\n")

    def swap(xk):
        path.unlink(missing_ok=True)
        path.symlink_to(precious)

    with pytest.warns(UserWarning, match="the log .* ends here"):
        assert solve(path, log=JsonLog(path, callback=swap)).success
    assert precious.read_text() == "mine\n"
