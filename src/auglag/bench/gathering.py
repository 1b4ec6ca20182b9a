"""Records of one or more stores for one comparison, under labels that tell apart what was run differently."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from auglag._names import nearest
from auglag.bench.record import Record
from auglag.bench.store import Store
from auglag.errors import InputError


def find_store(path: Path) -> Path:
    """The store that is meant: the file, or the only .sqlite file of a folder."""
    if path.is_dir():
        found = sorted(path.glob("*.sqlite"))
        if len(found) != 1:
            names = ", ".join(file.name for file in found) or "none"
            raise InputError(f"a folder must hold one store (.sqlite), {str(path)!r} holds {names}")
        return found[0]
    if not path.is_file():
        raise InputError(f"there is no store {str(path)!r}")
    return path


def gather(paths: Sequence[Path], *, labels: Sequence[str] = (), problems: Iterable[str] = ()) -> list[Record]:
    """The records of all stores, those with these labels and of these problems if any are named.

    One label for runs with different options or limits becomes several, named by what differs; one label in several
    stores becomes one for each, named by the store.
    """
    files = [find_store(path).resolve() for path in paths]
    if len(set(files)) < len(files):
        raise InputError(f"stores must be different ones, got {', '.join(map(str, paths))}")
    found: dict[str, list[Record]] = {}
    for name, file in zip(_short(files), files, strict=True):
        with Store(file) as store:
            found[name] = [record for group in _told_apart(latest(store.records())) for record in group]
    names = [{record.title for record in records} for records in found.values()]
    shared = {label for i, one in enumerate(names) for other in names[i + 1 :] for label in one & other}
    records = [
        _named(record, f"{record.title} ({name})" if record.title in shared else record.title)
        for name, group in found.items()
        for record in group
    ]
    known = sorted({record.title for record in records})
    for label in labels:
        if label not in known:
            raise InputError(f"--label must be one of those in the store, got {label!r}{nearest(label, known)}")
    wanted = set(problems)
    return [r for r in records if (not labels or r.title in labels) and (not wanted or r.run.problem in wanted)]


def latest(records: Iterable[Record]) -> list[Record]:
    """One record for each solver, its options and a problem that is a file: that of the file as it was last."""
    kept: dict[str, Record] = {}
    for record in records:  # in the order in which they were written
        run = record.run
        kept[replace(run, source="file").key if run.source.startswith("file ") else run.key] = record
    return list(kept.values())


def _short(files: Sequence[Path]) -> list[str]:
    """Names for the stores: as much of the end of their paths as tells them apart."""
    plain = [file.parent if file.name == "records.sqlite" else file.with_suffix("") for file in files]
    for parts in range(1, max(len(path.parts) for path in plain) + 1):
        names = ["/".join(path.parts[-parts:]) for path in plain]
        if len(set(names)) == len(names):
            return names
    return [str(file) for file in files]


def _told_apart(records: Iterable[Record]) -> list[list[Record]]:
    """Groups with one label each, and one set of options and limits in each."""
    groups: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        run = record.run
        how = {"solver": run.solver, "options": dict(run.options), "limits": run.as_dict()["limits"]}
        groups[record.title][json.dumps(how, sort_keys=True)].append(record)
    result = []
    for label, kinds in groups.items():
        settings = {key: _flat(json.loads(key)) for key in kinds}
        for key, group in kinds.items():
            name = label + _differences(settings[key], list(settings.values()))
            result.append([_named(record, name) for record in group])
    return result


def _differences(mine: dict[str, Any], all_of_them: list[dict[str, Any]]) -> str:
    names = sorted({name for one in all_of_them for name in one})
    differing = [name for name in names if len({json.dumps(one.get(name)) for one in all_of_them}) > 1]
    words = ", ".join(f"{name}={mine[name]}" for name in differing if name in mine)
    return f" [{words or 'defaults'}]" if differing else ""


def _flat(how: dict[str, Any]) -> dict[str, Any]:
    return {"solver": how["solver"], **how["options"], **{f"limit {k}": v for k, v in how["limits"].items()}}


def _named(record: Record, label: str) -> Record:
    return record if record.title == label else replace(record, run=replace(record.run, label=label))
