"""Files are replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auglag.persist.files import replacing


def test_the_new_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with replacing(target) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    writing = replacing(target)
    writing.__enter__().write(b"half")
    assert not writing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.skipif(os.name == "nt", reason="file modes")
def test_others_may_read_it_as_far_as_the_umask_allows(tmp_path: Path) -> None:
    target, plain = tmp_path / "a.bin", tmp_path / "b.bin"
    plain.write_bytes(b"")
    with replacing(target) as file:
        file.write(b"new")
    assert target.stat().st_mode == plain.stat().st_mode
