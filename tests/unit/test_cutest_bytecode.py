"""The bytecode of S2MPJ's files in the cache: the same code, whatever happened to the file."""

import os
from pathlib import Path

import pytest

from auglag.problems.cutest import bytecode

SOURCE = "answer = 42\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUGLAG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def answer(source: str = SOURCE) -> int:
    scope: dict[str, int] = {}
    exec(bytecode.compiled(source, "file.py"), scope)
    return scope["answer"]


def test_code_is_made_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer() == 42
    monkeypatch.setattr(bytecode, "compile", None, raising=False)  # not called again
    assert answer() == 42
    with pytest.raises(TypeError):
        answer("answer = 43\n")


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 100])
def test_a_damaged_entry_is_made_again(cache: Path, damage: bytes) -> None:
    answer()
    (entry,) = cache.iterdir()
    sound = entry.read_bytes()
    entry.write_bytes(damage)
    assert answer() == 42
    assert entry.read_bytes() == sound


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_nothing_is_run_that_others_may_have_written(cache: Path) -> None:
    answer()
    (entry,) = cache.iterdir()
    planted = bytecode.compiled("answer = 666\n", "file.py")
    other = next(path for path in cache.iterdir() if path != entry)
    entry.write_bytes(other.read_bytes())
    assert planted is not None
    assert answer() == 666  # one's own cache is trusted, ...
    cache.chmod(0o777)
    with pytest.warns(UserWarning, match="nobody else may write"):
        assert answer() == 42  # ... another's is not


def test_a_cache_that_cannot_be_written_does_no_harm(cache: Path) -> None:
    cache.write_text("a file in the place of the folder")
    assert answer() == 42
