"""C sources as loaded libraries: compiled once, kept in a cache on disk that processes may share.

An entry of the cache is a folder named by a hash of the source, the compiler, its flags and the machine; it holds the
library and the SHA-256 of its bytes. It is built in a temporary folder beside its place and renamed into it, so
that a reader sees a whole entry or none, and of several writers one wins. The bytes are compared with the hash before
they are loaded: a damaged entry (a full disk, a copy cut short) is moved away and built again. Where the cache cannot
be written, the library is built in a temporary folder that lives as long as the process; so it is where the cache or
the entry is not the user's own, or others may write to it: what they put there would be run.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

_FLAGS = ("-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off")
_LIBRARY, _DIGEST = "problem.so", "problem.sha256"
#: Seconds after which an unfinished folder belongs to a compilation that was killed.
ABANDONED = 3600.0
_loaded: dict[str, ctypes.CDLL] = {}
_lock = threading.Lock()


class NoCompiler(Exception):
    """There is no C compiler, it is not to be used, or it failed; the message says which."""


def cache_folder() -> Path:
    """Where libraries are kept: AUGLAG_CACHE_DIR, else the user's cache folder of this platform."""
    if given := os.environ.get("AUGLAG_CACHE_DIR"):
        return Path(given)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "auglag" / "cutest"


def compiler() -> str:
    """The path of the C compiler: CC, else cc, gcc or clang. AUGLAG_NO_COMPILER=1 says to do without."""
    if os.environ.get("AUGLAG_NO_COMPILER", "0") not in ("", "0"):
        raise NoCompiler("AUGLAG_NO_COMPILER is set")
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise NoCompiler("no C compiler (CC, cc, gcc, clang) was found")


def load(source: str) -> ctypes.CDLL:
    """The library compiled from `source`; raises `NoCompiler`."""
    command = compiler()
    machine = (sys.platform, platform.machine(), command, *_FLAGS)
    key = hashlib.sha256("\0".join((*machine, source)).encode()).hexdigest()[:32]
    with _lock:
        if key not in _loaded:
            _loaded[key] = _load(key, source, command)
        return _loaded[key]


def _load(key: str, source: str, command: str) -> ctypes.CDLL:
    entry = cache_folder() / key
    if private(entry.parent) and private(entry) and _sound(entry):
        try:
            return ctypes.CDLL(str(entry / _LIBRARY))
        except OSError:  # whole, but not for this system: a newer libc, a file system without execution
            pass
    try:
        own_folder(entry.parent)
        _sweep(entry.parent)
        built = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=entry.parent))
    except OSError:
        built = Path(tempfile.mkdtemp(prefix="auglag-cutest-"))
        atexit.register(shutil.rmtree, built, ignore_errors=True)
        _build(built, source, command)
        return _open(built)
    try:
        _build(built, source, command)
        library = _open(built)  # what is built is loaded before it moves, whoever wins the race for the place
        _place(built, entry)
    finally:
        shutil.rmtree(built, ignore_errors=True)
    return library


def own_folder(folder: Path) -> None:
    """Make the folder, for this user alone; raises `PermissionError` if it is there and others may write to it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if not private(folder):
        text = f"{folder} must belong to you, and nobody else may write to it; nothing is kept there (chmod go-w)"
        warnings.warn(text, stacklevel=2)
        raise PermissionError(text)


def private(folder: Path) -> bool:
    """Whether the folder is this user's, and nobody else may write to it."""
    if os.name != "posix":
        return True
    try:
        facts = folder.stat()
    except OSError:
        return False
    return facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _sweep(folder: Path) -> None:
    """Remove what compilations that were killed left behind: unfinished folders that are an hour old."""
    for left in folder.glob(".*-*"):
        try:
            if left.is_dir() and time.time() - left.stat().st_mtime > ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue  # another process was faster


def _open(folder: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(folder / _LIBRARY))
    except OSError as error:
        raise NoCompiler(f"the compiled library cannot be loaded ({error})") from None


def _sound(entry: Path) -> bool:
    """Whether the entry is there and its library has the bytes that were written."""
    try:
        digest = (entry / _DIGEST).read_text(encoding="ascii", errors="replace").strip()
        return hashlib.sha256((entry / _LIBRARY).read_bytes()).hexdigest() == digest
    except OSError:
        return False


def _build(folder: Path, source: str, command: str) -> None:
    code = folder / "problem.c"
    library = folder / _LIBRARY
    try:
        code.write_text(source, encoding="utf-8")
        line = [command, *_FLAGS, "-o", str(library), str(code), "-lm"]
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False, timeout=300)
        if done.returncode != 0:
            raise NoCompiler(f"{command} failed: {done.stderr.strip()[:500]}")
        digest = hashlib.sha256(library.read_bytes()).hexdigest()
        (folder / _DIGEST).write_text(digest, encoding="ascii")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCompiler(f"{command} failed: {error}") from None


def _place(built: Path, entry: Path) -> None:
    """Rename the new entry to its place; what is damaged there is moved away first, what is sound stays."""
    for _ in range(3):
        try:
            built.rename(entry)
            return
        except OSError:
            if _sound(entry):
                return  # another process was first
        away = Path(tempfile.mkdtemp(prefix=".damaged-", dir=entry.parent))
        try:
            entry.rename(away / entry.name)
        except OSError:
            pass  # somebody else moved it
        finally:
            shutil.rmtree(away, ignore_errors=True)
