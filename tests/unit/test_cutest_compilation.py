"""The cache of compiled libraries: shared by processes, repaired when damaged, done without when it must be."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import auglag
from auglag.problems import cutest
from auglag.problems.cutest import compilation
from helpers.s2mpj import needs_compiler, needs_s2mpj

SOURCE = "int answer(void) { return 42; }\n"
LOAD = f"from auglag.problems.cutest import compilation; print(compilation.load({SOURCE!r}).answer())"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUGLAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("AUGLAG_NO_COMPILER", raising=False)
    monkeypatch.setattr(compilation, "_loaded", {})
    return tmp_path / "cache"


def started(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "AUGLAG_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", LOAD], env=environment, stdout=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.strip()


def entries(cache: Path) -> list[Path]:
    """What lies in the cache; nothing temporary may be left."""
    found = list(cache.iterdir())
    assert not [path for path in found if path.name.startswith(".")]
    return found


@needs_compiler
def test_processes_that_build_the_same_library_at_once_all_get_it(cache: Path) -> None:
    processes = [started(cache) for _ in range(3)]
    assert [answer(process) for process in processes] == ["42"] * 3
    (entry,) = entries(cache)
    assert compilation._sound(entry)


@needs_compiler
@pytest.mark.parametrize("damage", ["truncated", "empty", "changed", "no digest", "no library", "a file"])
def test_a_damaged_entry_is_built_again(cache: Path, damage: str) -> None:
    assert compilation.load(SOURCE).answer() == 42
    (entry,) = entries(cache)
    path, digest = entry / compilation._LIBRARY, entry / compilation._DIGEST
    whole = path.read_bytes()
    path.unlink()  # the library is loaded: its file must not be written to
    if damage in ("truncated", "empty", "changed"):
        path.write_bytes({"truncated": whole[:5000], "empty": b"", "changed": whole[:-1] + b"?"}[damage])
    elif damage == "no digest":
        path.write_bytes(whole)
        digest.unlink()
    elif damage == "a file":
        for rest in entry.iterdir():
            rest.unlink()
        entry.rmdir()
        entry.write_text("not a folder")
    assert answer(started(cache)) == "42"
    (entry,) = entries(cache)
    assert compilation._sound(entry)


@needs_compiler
def test_a_sound_entry_is_not_built_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilation.load(SOURCE)
    monkeypatch.setattr(compilation, "_loaded", {})
    monkeypatch.setattr(compilation, "_build", None)  # would fail
    assert compilation.load(SOURCE).answer() == 42


@needs_compiler
def test_a_whole_file_that_is_no_library_is_built_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilation.load(SOURCE)
    monkeypatch.setattr(compilation, "_loaded", {})
    (entry,) = entries(cache)
    (entry / compilation._LIBRARY).unlink()
    (entry / compilation._LIBRARY).write_bytes(b"for another machine")
    (entry / compilation._DIGEST).write_text(hashlib.sha256(b"for another machine").hexdigest())
    assert compilation.load(SOURCE).answer() == 42


@needs_compiler
def test_a_cache_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder can be made in a file")
    assert answer(started(tmp_path / "file" / "cache")) == "42"


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_is_done_without(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o500)
    assert answer(started(folder)) == "42"
    assert not list(folder.iterdir())


@needs_compiler
def test_a_cache_on_a_read_only_file_system_is_done_without(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tempfile.mkdtemp

    def mkdtemp(prefix: str, dir: Path | None = None) -> str:
        if dir is not None:
            raise OSError(errno.EROFS, "Read-only file system", str(dir))
        return made(prefix=prefix)

    monkeypatch.setattr(compilation.tempfile, "mkdtemp", mkdtemp)
    assert compilation.load(SOURCE).answer() == 42
    assert entries(cache) == []


def test_the_error_says_why_there_is_no_compiler(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUGLAG_NO_COMPILER", "1")
    with pytest.raises(compilation.NoCompiler, match="AUGLAG_NO_COMPILER is set"):
        compilation.load(SOURCE)
    monkeypatch.delenv("AUGLAG_NO_COMPILER")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(compilation.NoCompiler, match="no C compiler"):
        compilation.load(SOURCE)


@needs_compiler
def test_what_the_compiler_says_is_reported(cache: Path) -> None:
    with pytest.raises(compilation.NoCompiler, match=r"failed: .*error"):
        compilation.load("this is not C")
    assert entries(cache) == []


@needs_s2mpj
@pytest.mark.parametrize("how", ["forbidden", "failing"])
def test_a_problem_falls_back_to_numpy_and_says_why(cache: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "forbidden":
        monkeypatch.setenv("AUGLAG_NO_COMPILER", "1")
        reason = "AUGLAG_NO_COMPILER is set"
    else:
        monkeypatch.setenv("CC", "false")
        reason = "false failed"
    problem = cutest.load("HS71")
    assert problem.backend == "numpy"
    assert reason in problem.backend_reason
    assert problem.f(problem.x0) == pytest.approx(16.0)
    with pytest.raises(auglag.InputError, match=f"compiled=True needs a C compiler, but .*{reason}"):
        cutest.load("HS71", compiled=True)


@needs_s2mpj
@needs_compiler
def test_the_backend_in_use_is_told(cache: Path) -> None:
    assert (cutest.load("HS71").backend, cutest.load("HS71").backend_reason) == ("c", "compiled")
    problem = cutest.load("HS71", compiled=False)
    assert (problem.backend, problem.backend_reason) == ("numpy", "compiled=False was asked for")
    assert len(entries(cache)) == 1


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/auglag/cutest"),
        ("linux", {"HOME": "/h"}, "/h/.cache/auglag/cutest"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/auglag/cutest"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/auglag/cutest"),
        ("linux", {"AUGLAG_CACHE_DIR": "/own"}, "/own"),
    ],
)
def test_the_cache_lies_where_the_platform_wants_it(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "AUGLAG_CACHE_DIR", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(compilation.sys, "platform", platform)
    assert compilation.cache_folder() == Path(expected)


@needs_compiler
def test_what_a_killed_compilation_left_behind_is_removed_once_it_is_old(cache: Path) -> None:
    old, new = cache / ".0123-left", cache / ".4567-busy"
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    compilation.load("int answer(void) { return 42; }")
    assert not old.exists()
    assert new.exists()


@needs_compiler
@pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_may_write_to_is_neither_read_nor_written(cache: Path, mode: int) -> None:
    assert compilation.load(SOURCE).answer() == 42
    (entry,) = entries(cache)
    wrong = "int answer(void) { return 13; }\n"
    planted = tempfile.mkdtemp(dir=cache.parent)
    compilation._build(Path(planted), wrong, compilation.compiler())
    for name in (compilation._LIBRARY, compilation._DIGEST):
        (entry / name).unlink()
        (Path(planted) / name).rename(entry / name)
    cache.chmod(mode)
    compilation._loaded.clear()
    with pytest.warns(UserWarning, match="nobody else may write to it; nothing is kept there"):
        assert compilation.load(SOURCE).answer() == 42


@needs_compiler
@pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")
def test_an_entry_that_others_may_write_to_is_not_loaded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compilation.load(SOURCE).answer() == 42
    (entry,) = entries(cache)
    assert cache.stat().st_mode & 0o777 == 0o700
    entry.chmod(0o777)
    assert not compilation.private(entry)
    entry.chmod(0o700)
    assert compilation.private(entry)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not compilation.private(entry)
