"""Solvers and runs of a comparison: read from options, made with progress, kept when interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from auglag.cli.base import err
from auglag.cli.progress import Course, Records, kept
from auglag.errors import InputError

if TYPE_CHECKING:
    from auglag.bench.record import Record
    from auglag.bench.spec import Limits, Run
    from auglag.bench.store import Store


def solver(text: str) -> tuple[str, dict[str, Any], str]:
    """(name, options, label) from NAME or NAME:OPTION=VALUE,..."""
    from auglag.bench import baselines

    name, colon, rest = text.rpartition(":") if "=" in text else (text, "", "")
    if colon and not name:
        raise InputError(f"--solver must be NAME or NAME:OPTION=VALUE,..., got {text!r}")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"--solver {name}: options must be OPTION=VALUE, got {part!r}")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    baselines.get(name).check(baselines.complete(name, options))
    return name, options, text


def installed(choices: Sequence[tuple[str, dict[str, Any], str]]) -> list[tuple[str, dict[str, Any], str]]:
    """The solvers that can run here; the others are skipped with the reason, but not all of them."""
    from auglag.bench import baselines

    found = []
    for choice in choices:
        reason = baselines.get(choice[0]).unavailable()
        if reason:
            err.print(f"skipped: {reason}", markup=False)
        else:
            found.append(choice)
    if not found:
        raise InputError("none of the solvers asked for can run here")
    return found


def runs_of(
    names: Sequence[str], source: str, choices: Sequence[tuple[str, dict[str, Any], str]], limits: Limits
) -> list[Run]:
    """Every solver on every problem: names of CUTEst, .nl files, file.py:object; checked before anything runs."""
    from auglag.bench.spec import Run
    from auglag.problems.cutest.catalogue import problem_file
    from auglag.problems.named import fingerprint, is_file

    able = installed(choices)
    found = []
    for name in dict.fromkeys(names):
        origin = source
        if is_file(name):
            origin = f"file {fingerprint(name)}"  # a file that was changed is another problem
        elif source == "s2mpj":
            name = problem_file(name).stem
        found += [Run(name, chosen, options, limits, source=origin, label=label) for chosen, options, label in able]
    return found


def run(
    runs: Sequence[Run], store: Store, workers: int, cluster: str, redo: bool = False, course: Course | None = None
) -> list[Record]:
    """Run them here or there, with progress; records of other versions are named, or done again."""
    from auglag.bench.cluster import run_on_cluster
    from auglag.bench.runner import outdated, run_all, stored, unfinished

    old = outdated(stored(runs, store))
    if old and redo:
        store.remove(record.run.key for record in old)
    elif old:
        err.print(
            f"{len(old)} records in the store were made by another version of their solver; --redo does them again"
        )
    count = len(unfinished(runs, store))
    before = len({run.key for run in runs}) - count

    def finished() -> str:
        left = len(unfinished(runs, store))
        return f"{count + before - left} finished runs are kept in {store.path}, {left} are left"

    with kept(finished), Records(count, before=before, course=course) as show:
        if cluster:
            return run_on_cluster(runs, store, address=cluster, watch=show)
        return run_all(runs, store, workers=workers or os.cpu_count() or 1, watch=show)
