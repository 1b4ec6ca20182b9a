"""Saving the state of a run and going on from it bit for bit: one `.npz` file with JSON inside, no pickle.

A state is a dataclass. It is saved field by field, whatever its fields hold: numbers, strings, enumerations, arrays,
sparse arrays, PyTorch tensors, other dataclasses, and lists, tuples and dictionaries of these. A field that need not be
saved says so: `field(metadata={"saved": False})`, and has a default. Only classes that the reader names are made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tokenize
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.errors import CheckpointError, InputError
from auglag.persist.files import replacing

#: To be increased when files of the version before can no longer be read.
FORMAT = 7
#: What reading a file that was damaged, or that something else wrote, may raise.
DAMAGE = (
    zipfile.BadZipFile,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    EOFError,
    OSError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
    SyntaxError,
)


def save(path: str | os.PathLike[str], kind: str, fingerprint: Mapping[str, Any], state: Any) -> None:
    """Write a state in place of the one before; a process killed at any moment leaves the old file or the new one.

    `kind` is the function that was called ("minimize", ...), `fingerprint` what must be the same for a state to fit.
    """
    arrays: dict[str, Any] = {}
    meta = {"format": FORMAT, "kind": kind, "fingerprint": fingerprint, "state": _pack(state, arrays)}
    with replacing(Path(path)) as file:
        np.savez(file, meta=np.array(json.dumps(meta)), **arrays)


def load(
    path: str | os.PathLike[str],
    kind: str,
    fingerprint: Mapping[str, Any],
    classes: Iterable[type] = (),
    *,
    device: Any = None,
) -> Any:
    """The state that was saved by a run of this kind and fingerprint; tensors on `device`."""
    target = Path(path)
    if not target.exists():
        raise CheckpointError(f"resume must name an existing checkpoint, got {str(target)!r}, which does not exist")
    try:
        with open(target, "rb") as file, np.load(file, allow_pickle=False) as data:
            meta = json.loads(str(data["meta"]))
            for name, demand in (("format", FORMAT), ("kind", kind)):
                if meta.get(name) != demand:
                    raise CheckpointError(f"{target} must have checkpoint {name} {demand}, got {meta.get(name)!r}")
            require_same(dict(meta["fingerprint"]), json.loads(json.dumps(fingerprint)), path)
            return _unpack(meta["state"], data, {cls.__name__: cls for cls in classes}, device)
    except DAMAGE as error:
        reason = "not a file written by auglag" if "pickle" in str(error) else f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{target} is not a usable checkpoint ({reason})") from None


def require_same(saved: Mapping[str, Any], now: Mapping[str, Any], path: object) -> None:
    """Raise unless the saved run is this run."""
    for key, value in now.items():
        if saved.get(key) != value:
            raise CheckpointError(
                f"{path} belongs to another run: {key} must be {saved.get(key)!r:.120} as saved, got {value!r:.120}"
            )


# ---------------------------------------------------------------------------------------------------- for fingerprints


def digest(*arrays: Vector) -> str:
    """The bits of arrays in sixteen letters."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]


def described(settings: object) -> str:
    """The repr of settings without memory addresses: the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(settings))


def usable_path(path: Any, name: str) -> Path | None:
    """A path whose folder exists, so that a run does not fail at its first save."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"{name} must be a path, got {path!r:.80}")
    target = Path(path)
    if target.is_dir() and name == "checkpoint":
        raise InputError(f"{name} must name a file, got the folder {str(target)!r}")
    if not target.parent.is_dir():
        raise InputError(f"{name} must lie in an existing folder, got {str(target)!r}")
    return target


# ----------------------------------------------------------------------------------------------------- values and JSON


def _pack(value: Any, arrays: dict[str, Any]) -> Any:
    """The value as JSON, arrays put aside: anything but numbers, strings and None becomes {kind: content}."""
    if isinstance(value, Enum):
        return {"enum": [type(value).__name__, value.name]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": _aside(value, arrays)}
    if sparse.issparse(value):
        rows = sparse.csr_array(value)
        parts = [_aside(part, arrays) for part in (rows.data, rows.indices, rows.indptr)]
        return {"sparse": [*parts, list(rows.shape)]}
    if is_dataclass(value) and not isinstance(value, type):
        kept = {f.name: _pack(getattr(value, f.name), arrays) for f in fields(value) if f.metadata.get("saved", True)}
        return {"class": [type(value).__name__, kept]}
    if isinstance(value, Mapping):
        return {"dict": [[_pack(k, arrays), _pack(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {"tuple" if isinstance(value, tuple) else "list": [_pack(v, arrays) for v in value]}
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return {"tensor": [*_tensor_aside(value, arrays), list(value.shape)]}
    raise CheckpointError(f"a checkpoint holds numbers, strings, arrays and nests of them, got {type(value).__name__}")


def _aside(array: Any, arrays: dict[str, Any]) -> str:
    key = f"a{len(arrays)}"
    arrays[key] = array
    return key


def _tensor_aside(tensor: Any, arrays: dict[str, Any]) -> tuple[str, str]:
    import torch

    raw = tensor.detach().cpu().contiguous().reshape(-1)
    raw = raw.view(torch.uint8) if tensor.numel() else torch.zeros(0)
    return _aside(raw.numpy(), arrays), str(tensor.dtype).removeprefix("torch.")


def _unpack(value: Any, data: Any, classes: Mapping[str, type], device: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "list":
        return [_unpack(v, data, classes, device) for v in content]
    if kind == "tuple":
        return tuple(_unpack(v, data, classes, device) for v in content)
    if kind == "dict":
        return {_unpack(k, data, classes, device): _unpack(v, data, classes, device) for k, v in content}
    if kind == "array":
        return np.array(data[content])
    if kind == "class":
        name, kept = content
        return classes[name](**{key: _unpack(v, data, classes, device) for key, v in kept.items()})
    if kind == "enum":
        name, member = content
        family: Any = classes[name]
        return family[member]
    if kind == "sparse":
        *parts, shape = content
        return sparse.csr_array(tuple(np.array(data[part]) for part in parts), shape=tuple(shape))
    if kind == "tensor":
        key, dtype, shape = content
        return _tensor(key, dtype, shape, data, device)
    raise ValueError(f"unknown kind of value {kind!r}")


def _tensor(key: str, dtype: str, shape: list[int], data: Any, device: Any) -> Any:
    import torch

    kind, raw = getattr(torch, dtype), data[key]
    if raw.size == 0:
        return torch.zeros(shape, dtype=kind, device=device)
    return torch.from_numpy(raw.copy()).view(kind).reshape(shape).to(device)
