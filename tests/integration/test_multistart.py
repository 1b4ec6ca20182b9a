"""Several starts: all solutions of small problems, the same ones however they are run, and nothing lost on the way."""

import json
import math
import os
import signal
import threading
import unittest.mock

import numpy as np
import pytest
from scipy.optimize import Bounds, rosen

import auglag
from auglag import Budget, CheckpointError, InputError, JsonLog, OptionError, Status, minimize, multistart
from auglag.errors import EvaluationError
from auglag.multistart import Found, distinct, places

BOX = [(-5.0, 5.0), (-5.0, 5.0)]


def waves(x):
    """Five minima inside the box and one at a bound."""
    return math.sin(3 * x[0]) + 0.1 * x[0] ** 2 + (x[1] - 1) ** 2


def corners(x):
    return float(-(x @ x))


def alike(one, other):
    assert one.fun == other.fun
    assert one.status == other.status
    assert one.message == other.message
    np.testing.assert_array_equal(one.x, other.x)
    assert [found.count for found in one.starts] == [found.count for found in other.starts]
    for mine, theirs in zip(one.starts, other.starts, strict=True):
        np.testing.assert_array_equal(mine.x, theirs.x)


# -------------------------------------------------------------------------------------------------------- what is found


def test_the_lowest_minimum_is_returned_and_the_others_are_listed_once_each():
    result = minimize(waves, [4.5, 0.0], bounds=BOX, starts=20)
    assert result.success
    assert result.x == pytest.approx([-0.5122, 1.0], abs=1e-3)
    values = [found.fun for found in result.starts]
    assert values == sorted(values)
    assert len(values) == 6
    assert values[0] == result.fun
    assert sum(found.count for found in result.starts) == 20
    assert all(found.success and found.residual <= 1e-6 for found in result.starts)
    assert "The best of 20 starts: 20 certified, 6 different." in result.message


def test_a_single_start_has_no_list():
    assert minimize(waves, [4.5, 0.0], bounds=BOX).starts == ()


def test_all_corners_of_a_box_are_told_apart_though_their_values_are_equal():
    result = multistart(corners, [0.3, 0.2], bounds=BOX, starts=40)
    found = {tuple(np.round(one.x)) for one in result.starts if one.fun < -49}
    assert found == {(5, 5), (5, -5), (-5, 5), (-5, -5)}


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_what_counts_as_different_does_not_depend_on_units(unit):
    found = multistart(waves, [4.5, 0.0], bounds=BOX, starts=30).starts
    other = [Found(one.x * unit, one.fun / unit, one.status, one.residual, one.start) for one in found]
    again = [Found(one.x + 1e-6 * unit, one.fun, one.status, one.residual, one.start + 100) for one in other]
    assert [one.count for one in distinct(other + again, 1e-4, np.full(2, 10.0 * unit))] == [2] * len(found)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_one_minimum_whose_value_is_0_is_one_point(unit, size):
    bounds = [(-6.0 * unit, 6.0 * unit)] * 2
    fun = lambda x: size * ((x[0] / unit - 1) ** 2 + (x[1] / unit) ** 2)  # noqa: E731
    result = multistart(fun, [5.0 * unit, 0.0], starts=6, bounds=bounds)
    assert "6 certified, 1 different." in result.message


def test_two_minima_whose_values_are_0_are_two_points():
    result = multistart(lambda x: (x[0] ** 2 - 1) ** 2 + x[1] ** 2, [3.0, 1.0], starts=8, bounds=BOX)
    assert sorted(round(one.x[0]) for one in result.starts) == [-1, 1]
    assert sum(one.count for one in result.starts) == 8


def test_values_near_each_other_are_told_apart_by_the_change_of_f_though_one_start_is_huge():
    def found(k, fun, size):
        return Found(np.array([1.0 + 1e-6 * k]), fun, Status.SOLVED, 1e-9, k, size=size)

    same = [found(0, 1e-17, 1.0), found(1, 3e-17, 2.0), found(2, 2e-17, 1e40)]
    assert [one.count for one in distinct(same, 1e-4, np.ones(1))] == [3]
    other = [*same, found(3, 0.1, 1.0)]
    assert [one.count for one in distinct(other, 1e-4, np.ones(1))] == [3, 1]


def test_constraints_and_options_go_to_every_start():
    circle = {"type": "eq", "fun": lambda x: x @ x - 4}
    result = multistart(lambda x: x[0] * x[1], [1.0, 0.5], constraints=circle, starts=12, tol=1e-8)
    assert result.tol == 1e-8
    assert result.fun == pytest.approx(-2.0)
    lowest = [one for one in result.starts if one.fun < -1.99]
    assert len(lowest) == 2
    assert np.allclose(lowest[0].x, -lowest[1].x, atol=1e-6)


def test_where_nothing_is_certified_the_smallest_residual_is_best():
    rows = [{"type": "eq", "fun": lambda x: x[0] ** 2 + 1}]
    result = multistart(lambda x: x[0] ** 2, [3.0], constraints=rows, starts=3)
    assert not result.success
    assert result.certificate.residual == min(one.residual for one in result.starts)
    assert "0 certified, 0 different" in result.message


def test_of_points_as_good_as_the_functions_allow_the_lowest_is_best():
    single = np.float32

    def coarse(x):
        a, b = single(x[0]), single(x[1])
        return float(np.sin(single(3) * a) + single(0.1) * a**2 + (b - single(1)) ** 2)

    result = multistart(coarse, [4.5, 0.0], bounds=BOX, starts=12)
    assert result.status is Status.PRECISION_LIMIT
    assert result.fun == pytest.approx(-0.97318, abs=1e-4)
    assert result.fun == min(one.fun for one in result.starts)


def test_what_such_a_point_violates_has_its_price_and_others_come_after_it():
    lower = Found(np.zeros(1), 1.0, Status.PRECISION_LIMIT, 1e-4, 0, price=3.0)
    higher = Found(np.ones(1), 2.0, Status.PRECISION_LIMIT, 1e-3, 1, price=0.1)
    stuck = Found(np.full(1, 2.0), -5.0, Status.STUCK, 1e-5, 2)
    solved = Found(np.full(1, 3.0), 9.0, Status.SOLVED, 1e-7, 3)
    assert [one.start for one in distinct([stuck, lower, solved, higher], 1e-4, np.ones(1))] == [3, 1, 0, 2]


def test_a_problem_object_and_a_feasibility_problem_are_taken():
    problem = auglag.Problem(waves, [4.5, 0.0], bounds=BOX)
    alike(multistart(problem, starts=8), multistart(waves, [4.5, 0.0], bounds=BOX, starts=8))
    rows = {"type": "eq", "fun": lambda x: x[0] ** 2 - 1}
    assert multistart(None, [3.0], constraints=rows, starts=4).success


def test_certified_points_and_others_are_kept_apart():
    one = Found(np.array([1.0]), 2.0, Status.SOLVED, 1e-9, 0)
    other = Found(np.array([1.0]), 2.0, Status.STUCK, 1e-3, 1)
    nan = Found(np.array([np.nan]), math.nan, Status.NON_FINITE, math.nan, 2)
    assert [found.status for found in distinct([nan, other, one], 1e-4, np.ones(1))] == [
        Status.SOLVED,
        Status.STUCK,
        Status.NON_FINITE,
    ]


# ---------------------------------------------------------------------------------------------------------- the starts


def test_starts_fill_the_bounds_and_never_leave_them():
    lower, upper = np.array([-1.0, 0.0, -np.inf, -np.inf]), np.array([3.0, np.inf, 2.0, np.inf])
    x0 = np.array([0.0, 1.0, 0.0, 100.0])
    points = places(40, x0, lower, upper, 0)
    assert points.shape == (40, 4)
    np.testing.assert_array_equal(points[0], x0)
    assert (points >= lower).all()
    assert (points <= upper).all()
    assert np.unique(np.floor((points[1:, 0] + 1) / 4 * 39)).size == 39  # a Latin hypercube: one in each slice
    assert np.std(points[:, 3]) == pytest.approx(300, rel=0.3)
    np.testing.assert_array_equal(places(40, x0, lower, upper, 0), points)
    assert not np.array_equal(places(40, x0, lower, upper, 1), points)


def test_own_starts_come_as_an_array_or_from_a_generator_and_need_no_x0():
    mine = np.array([[-4.0, 0.0], [4.0, 0.0]])
    result = multistart(waves, bounds=BOX, starts=mine)
    assert sum(one.count for one in result.starts) == 2
    alike(multistart(waves, bounds=BOX, starts=(row for row in mine)), result)
    alike(minimize(waves, bounds=Bounds([-5, -5], [5, 5]), starts=mine.tolist()), result)


def test_starts_where_a_function_is_not_defined_do_no_harm():
    def root(x):
        if x[0] < 0:
            raise EvaluationError
        return math.sqrt(x[0]) + (x[0] - 2) ** 2

    assert multistart(root, [3.0], bounds=[(-5, 5)], starts=10).success


# ------------------------------------------------------------------------------------------------------------ parallel


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_many_at_once_give_what_one_after_the_other_gives(engine):
    kwargs = {"bounds": [(-2, 2)] * 2, "starts": 6}
    alike(multistart(rosen, [1.5, -1.0], workers=3, engine=engine, **kwargs), multistart(rosen, [1.5, -1.0], **kwargs))


def test_a_dask_cluster_gives_the_same_and_takes_lambdas():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None, silence_logs=50) as cluster:
        there = multistart(lambda x: waves(x), [4.5, 0.0], bounds=BOX, starts=5, engine=cluster.scheduler_address)
    alike(there, multistart(waves, [4.5, 0.0], bounds=BOX, starts=5))


def test_a_function_that_cannot_be_sent_is_named():
    with pytest.raises(InputError, match=r"fun cannot be sent to another process.*engine='threads'"):
        multistart(lambda x: x @ x, [1.0], engine="processes")
    rows = {"type": "eq", "fun": lambda x: x[0]}
    with pytest.raises(InputError, match="constraints cannot be sent to another process"):
        multistart(rosen, [1.0, 2.0], constraints=rows, engine="processes")


# ---------------------------------------------------------------------------------------------- interrupted and resumed


def test_an_interrupted_call_goes_on_where_it_was(tmp_path):
    file, calls = tmp_path / "starts.json", []

    def counted(x):
        calls.append(x)
        return waves(x)

    whole = multistart(counted, [4.5, 0.0], bounds=BOX, starts=8)
    needed = len(calls)

    def interrupting(x):
        if len(calls) > 1.5 * needed:
            os.kill(os.getpid(), signal.SIGINT)
        return counted(x)

    part = multistart(interrupting, [4.5, 0.0], bounds=BOX, starts=8, store=file)
    assert "of 8 starts, ended early" in part.message
    assert part.success
    kept = len(json.loads(file.read_text())["found"])
    assert 1 <= kept < 8
    calls.clear()
    alike(multistart(counted, [4.5, 0.0], bounds=BOX, starts=8, store=file), whole)
    assert len(calls) < needed
    calls.clear()
    alike(multistart(counted, [4.5, 0.0], bounds=BOX, starts=8, store=file), whole)
    assert len(calls) < 0.3 * needed  # only the best start is run again


def test_ctrl_c_while_threads_work_returns_the_best_so_far():
    first = threading.Event()

    def slow(x):
        if threading.current_thread() is not threading.main_thread() and first.is_set():
            threading.Event().wait(0.002)
        return waves(x)

    def interrupt(text, **_):
        first.set()
        os.kill(os.getpid(), signal.SIGINT)

    with unittest.mock.patch("builtins.print", interrupt):
        result = multistart(slow, [4.5, 0.0], bounds=BOX, starts=12, workers=2, progress=True)
    assert result.success
    assert "ended early" in result.message


def test_an_exception_of_a_function_carries_the_best_so_far():
    calls = []

    def breaks(x):
        calls.append(x)
        if len(calls) > 100:
            raise ZeroDivisionError("no licence")
        return waves(x)

    with pytest.raises(ZeroDivisionError) as caught:
        multistart(breaks, [4.5, 0.0], bounds=BOX, starts=20)
    assert caught.value.best.success
    assert caught.value.best.starts


def test_a_callback_that_stops_ends_all_starts():
    rows = {"type": "eq", "fun": lambda x: x[0] * x[1] - 1}
    options = {"constraints": rows, "starts": 20, "variant": "adaptive-full", "callback": lambda xk: True}
    result = multistart(waves, [4.5, 0.0], **options)
    assert result.status is Status.STOPPED
    assert "1 of 20 starts, ended early" in result.message


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, '{"format": 1}', '{"format":1,"key":1,"found":3}'])
def test_a_damaged_store_is_said_to_be_one(tmp_path, content):
    file = tmp_path / "starts.json"
    file.write_text(content)
    with pytest.raises(CheckpointError, match=r"starts\.json"):
        multistart(waves, [4.5, 0.0], bounds=BOX, starts=3, store=file)
    assert file.read_text() == content


def test_a_store_that_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(CheckpointError, match="must be a file"):
            multistart(waves, [4.5, 0.0], bounds=BOX, starts=3, store=path)


def test_a_store_that_cannot_be_written_is_one_warning(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()

    def removes(x):
        if folder.exists():
            folder.rmdir()
        return waves(x)

    with pytest.warns(UserWarning, match="could not be written, and the starts go on") as seen:
        result = multistart(removes, [4.5, 0.0], bounds=BOX, starts=3, store=folder / "starts.json")
    assert len(seen) == 1
    alike(result, multistart(waves, [4.5, 0.0], bounds=BOX, starts=3))


def test_a_store_of_other_starts_is_refused(tmp_path):
    file = tmp_path / "starts.json"
    multistart(waves, [4.5, 0.0], bounds=BOX, starts=3, store=file)
    for other in ({"starts": 4}, {"seed": 1}, {"tol": 1e-5}):
        with pytest.raises(CheckpointError, match="of other starts or of another problem"):
            multistart(waves, [4.5, 0.0], bounds=BOX, **{"starts": 3, "store": file, **other})


DISC = {"type": "ineq", "fun": lambda x: 9 - x @ x}


@pytest.mark.parametrize(
    ("fun", "more", "text"),
    [
        (lambda x: waves(x) + 7, {"constraints": DISC}, r" \(f \+ g at start 0 was .* and is"),
        (lambda x: waves(x) + 1e-5 * x[1], {"constraints": DISC}, r" \(f \+ g at start"),  # the same at x0
        (
            waves,
            {"constraints": {"type": "ineq", "fun": lambda x: 8 - x @ x}},
            r" \(c at start 0 was -11\.25 and is -12\.25",
        ),
        (waves, {"constraints": {**DISC, "type": "eq"}}, ";"),
        (waves, {}, ";"),
        (waves, {"constraints": [DISC, {"type": "ineq", "fun": lambda x: x[0]}]}, ";"),
        (lambda x, a: a * waves(x), {"constraints": DISC, "args": (2.0,)}, r" \(f \+ g at start"),
        (waves, {"constraints": DISC, "g": auglag.prox.L1(0.1)}, r" \(f \+ g at start"),
    ],
)
def test_a_store_of_another_problem_is_refused(tmp_path, fun, more, text):
    file = tmp_path / "starts.json"
    multistart(waves, [4.5, 0.0], bounds=BOX, starts=3, store=file, constraints=DISC)
    content = file.read_text()
    with pytest.raises(CheckpointError, match=f"of other starts or of another problem{text}"):
        multistart(fun, [4.5, 0.0], bounds=BOX, starts=3, store=file, **more)
    assert file.read_text() == content


def test_a_store_of_functions_with_random_errors_is_taken_up_again_and_of_others_refused(tmp_path):
    file, rng = tmp_path / "starts.json", np.random.default_rng(0)
    noisy = lambda x: waves(x) + 1e-3 * rng.standard_normal()  # noqa: E731
    options = {"bounds": BOX, "starts": 2, "store": file, "budget": Budget(evaluations=60)}
    multistart(noisy, [4.5, 0.0], **options)
    for _ in range(5):
        assert len(multistart(noisy, [4.5, 0.0], **options).starts) >= 1
    with pytest.raises(CheckpointError, match="another problem"):
        multistart(lambda x: noisy(x) + 1, [4.5, 0.0], **options)


def test_a_store_where_a_function_is_not_defined_at_a_start_is_taken_up_again(tmp_path):
    def root(x):
        if x[0] < 0:
            raise EvaluationError
        return math.sqrt(x[0]) + (x[0] - 2) ** 2

    mine = {"bounds": [(-5, 5)], "starts": [[-4.0], [3.0]], "store": tmp_path / "starts.json"}
    alike(multistart(root, **mine), multistart(root, **mine))


def test_progress_is_a_line_for_each_start(capsys):
    multistart(waves, [4.5, 0.0], bounds=BOX, starts=3, progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("   1 of 3  start 0: SOLVED, f + g ")
    assert "different certified points, lowest f + g" in lines[2]


# ----------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"starts": 0}, "starts must be at least 1, got 0"),
        ({"starts": 2.5}, "starts must be a number, an array or an iterable of points, got 2.5"),
        ({"starts": "20"}, "starts must be a number, an array or an iterable of points, got '20'"),
        ({"starts": 3, "seed": "a"}, "seed must be a nonnegative integer, got 'a'"),
        ({"starts": True}, "starts must be a number, an array or an iterable of points, got True"),
        ({"starts": []}, "starts must hold at least one point, got none"),
        ({"starts": [[1.0, 2.0], [1.0]]}, r"starts\[1\] must have 2 entries, got 1"),
        ({"workers": 0}, "workers must be a positive integer, got 0"),
        ({"engine": "cloud"}, "engine must be 'threads', 'processes' or a Dask scheduler's address, got 'cloud'"),
        ({"distinct": -1.0}, "distinct must be positive and finite, got -1.0"),
        ({"store": "/nowhere/at/all.json"}, "store must lie in an existing folder"),
        ({"checkpoint": "c.npz"}, "checkpoint belongs to a single run"),
        ({"warm_start": {"x": [1.0, 2.0]}}, "warm_start belongs to a single run"),
    ],
)
def test_wrong_arguments_are_named(more, text):
    with pytest.raises(InputError, match=text):
        multistart(waves, [1.0, 2.0], **more)


def test_a_log_and_unknown_options_are_refused(tmp_path):
    with pytest.raises(InputError, match="JsonLog as callback belongs to a single run"):
        multistart(waves, [1.0, 2.0], callback=JsonLog(tmp_path / "log.jsonl"))
    with pytest.raises(OptionError, match=r"multistart\(\) has no argument 'worker'"):
        multistart(waves, [1.0, 2.0], worker=2)


def test_a_budget_is_that_of_each_start():
    result = multistart(waves, [4.5, 0.0], bounds=BOX, starts=4, budget=Budget(evaluations=5))
    assert result.status is Status.EVALUATION_LIMIT
    assert result.nfev <= 12
