"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `target` at the end.

    A process killed at any moment leaves the old file or the new one, never a broken one; so does an exception, which
    passes through.
    """
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(scratch, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
