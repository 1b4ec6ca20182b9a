"""Files that are there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

#: Seconds after which an unfinished file belongs to a process that was killed, wherever that ran.
ABANDONED = 3600.0


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `target` at the end.

    A process killed at any moment leaves the old file or the new one, never a broken one; so does an exception, which
    passes through. A symbolic link at `target` is replaced itself: the file that it points to is not written to. What
    a killed process left behind of the same target is removed.
    """
    _sweep(target)
    scratch = target.with_name(f".{target.name}.{_machine()}-{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with open(scratch, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(target)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise


def regular(path: Path) -> IO[bytes]:
    """The file, opened; anything else that has a name is refused, without waiting for it."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    return os.fdopen(descriptor, "rb")


def is_alive(pid: int) -> bool:
    """Whether a process of this machine may still run."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:6]


def _sweep(target: Path) -> None:
    """Remove unfinished files of this target whose process is gone."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.(?:([0-9a-f]{{6}})-([0-9]+)-)?[0-9a-f]{{8}}\.part")
    with suppress(OSError):
        for left in target.parent.iterdir():
            found = ours.fullmatch(left.name)
            if found is None:
                continue
            with suppress(OSError):  # another process may be faster
                gone = found[1] == _machine() and not is_alive(int(found[2]))
                if gone or time.time() - left.lstat().st_mtime > ABANDONED:
                    left.unlink()
