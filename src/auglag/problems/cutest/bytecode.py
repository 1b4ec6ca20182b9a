"""The bytecode of S2MPJ's files, kept in the cache of compiled libraries: making it takes as long as a small solve.

An entry holds the SHA-256 of its bytes before them: what is damaged is made again, and so is what another version of
Python made, since the name of an entry is a hash of both. It is only read where nobody else may write (`compilation`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
from types import CodeType

from auglag.persist.files import replacing
from auglag.problems.cutest import compilation

_DIGEST = hashlib.sha256().digest_size


def compiled(source: str, path: str) -> CodeType:
    """`compile(source, path, "exec")`, or what it returned last time."""
    name = hashlib.sha256(b"\0".join((importlib.util.MAGIC_NUMBER, path.encode(), source.encode()))).hexdigest()[:32]
    entry = compilation.cache_folder() / f"{name}.code"
    try:
        if compilation.private(entry.parent) and compilation.private(entry):
            kept = entry.read_bytes()
            if hashlib.sha256(kept[_DIGEST:]).digest() == kept[:_DIGEST]:
                code: CodeType = marshal.loads(kept[_DIGEST:])
                return code
    except OSError:
        pass
    code = compile(source, path, "exec")
    try:
        compilation.own_folder(entry.parent)
        with replacing(entry) as file:
            payload = marshal.dumps(code)
            file.write(hashlib.sha256(payload).digest() + payload)
    except OSError:  # it is made again next time
        pass
    return code
