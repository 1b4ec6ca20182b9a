"""Which module imports which: no cycles, no optional package on the way to the core, few modules at the top level."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import auglag

SOURCE = Path(auglag.__file__).parent
#: Packages that only the front doors of other ecosystems, the plots and the benchmarks may import.
OPTIONAL = {
    "jax",
    "torch",
    "matplotlib",
    "pandas",
    "sklearn",
    "pycutest",
    "cyipopt",
    "casadi",
    "pyomo",
    "openmdao",
    "cvxpy",
    "typer",
    "rich",
}
#: Public modules directly in src/auglag, so that its listing can be read at a glance.
MOST_PUBLIC = 16


def modules() -> dict[str, Path]:
    """Module name -> file, of the whole package."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = ("auglag", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def executed_on_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements outside functions and classes, with those under `if` (`if TYPE_CHECKING` too) and `try`."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statement, ast.If | ast.Try | ast.With):
                yield from executed_on_import(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from executed_on_import(handler.body)


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a module imports when it is itself imported or type-checked.

    Left out is only what a module cannot avoid: the import of the packages that it is in.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for statement in executed_on_import(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
            origin = ".".join([*above, *([statement.module] if statement.module else [])])
            found |= {origin, *(f"{origin}.{alias.name}" for alias in statement.names)}  # a name may be a module
    return {other for other in found & set(known) if other != name and not name.startswith(f"{other}.")}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in graph[module]:
            if other not in number:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            place = stack.index(module)
            component = stack[place:]
            del stack[place:]
            if len(component) > 1:
                found.append(sorted(component))

    for module in graph:
        if module not in number:
            visit(module)
    return found


def described(component: list[str], graph: dict[str, set[str]]) -> str:
    return "\n".join(f"  {name} imports {', '.join(sorted(graph[name] & set(component)))}" for name in component)


def test_cycles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(cycles(graph)) == [["a", "b", "c"], ["d", "e"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_import_each_other_in_a_circle():
    known = modules()
    graph = {name: imported(name, path, known) for name, path in known.items()}
    assert sum(map(len, graph.values())) > len(graph) / 2, "the premise: imports are found"
    found = cycles(graph)
    assert not found, "\n\n".join(described(component, graph) for component in found)


def test_the_top_level_has_few_public_modules():
    public = sorted(path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("_"))
    assert len(public) <= MOST_PUBLIC, public


def test_importing_auglag_imports_no_optional_package_prints_nothing_and_warns_of_nothing():
    code = f"import sys, auglag; sys.exit(str({OPTIONAL!r} & set(sys.modules) or '') or 0)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def imported_by(code: str) -> set[str]:
    """The modules that are there after `code` in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_auglag_imports_neither_numpy_nor_scipy_nor_any_part_of_the_package():
    found = imported_by("import auglag")
    assert not {"numpy", "scipy"} & found
    assert {name for name in found if name.startswith("auglag")} == {"auglag", "auglag._version"}


def test_a_solve_imports_neither_the_stochastic_methods_nor_data_nor_the_paper_nor_scipy_stats():
    found = imported_by("import auglag; auglag.minimize(lambda x: x @ x, [1.0])")
    assert "auglag.minimize" in found, "the premise"
    parts = ("stochastic", "datasets", "theory", "paper", "bench", "cli")
    assert not {f"auglag.{part}" for part in parts} & found
    assert "scipy.stats" not in found


def test_names_are_bound_to_the_same_modules_for_type_checkers_and_at_run_time():
    body = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8")).body
    (block,) = [part for part in body if isinstance(part, ast.If)]
    stated = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            stated[alias.name] = statement.module
    modules_of = {name: home for name, home in stated.items() if home != "auglag"}
    assert modules_of == auglag._HOME
    assert {*stated, "__version__"} == set(auglag.__all__)
    assert set(auglag.__all__) <= set(dir(auglag))


def test_the_names_of_the_package_are_its_own():
    code = """
import auglag
auglag.errors
inside = [name for name in dir(auglag) if not name.startswith("__")]
assert "errors" in inside
assert set(inside) - set(auglag.__all__) <= {name.split(".")[1] for name in sys.modules if name.startswith("auglag.")}
assert not [name for name in inside if name.startswith("_")], inside
"""
    subprocess.run([sys.executable, "-c", f"import sys{code}"], check=True)


def test_minimize_is_the_function_whichever_module_is_imported_first():
    code = "import auglag.minimize, auglag.multistart, auglag; assert callable(auglag.minimize), auglag.minimize"
    assert "auglag.minimize" in imported_by(f"{code}\nassert callable(auglag.multistart)")


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'auglag' has no attribute 'minimise'"):
        _ = auglag.minimise
