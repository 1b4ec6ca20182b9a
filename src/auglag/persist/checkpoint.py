"""Saving the state of a run and going on from it bit for bit: one `.npz` file with JSON inside, no pickle.

A state is a dataclass. It is saved field by field, whatever its fields hold: numbers, strings, enumerations, arrays,
sparse arrays, PyTorch tensors, other dataclasses, and lists, tuples and dictionaries of these. A field that need not be
saved says so: `field(metadata={"saved": False})`, and has a default.

A file that is read may be damaged, or made by somebody else: only classes that the reader names are made, fields must
hold what their annotations say, and arrays take no more memory than the file has bytes. Every fault is a
`CheckpointError`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import types
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import IO, Any, Union, final, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from auglag._typing import Vector
from auglag.errors import CheckpointError, InputError
from auglag.persist.files import regular, replacing

#: To be increased when files of the version before can no longer be read.
FORMAT = 9
#: Kinds of NumPy's types that a state may have: no objects, which would be pickled.
KINDS = "biufcU"
#: Characters of a value that a message shows.
SHOWN = 120


def save(path: str | os.PathLike[str], kind: str, fingerprint: Mapping[str, Any], state: Any) -> None:
    """Write a state in place of the one before; a process killed at any moment leaves the old file or the new one.

    `kind` is the function that was called ("minimize", ...), `fingerprint` what must be the same for a state to fit.
    """
    arrays: dict[str, Any] = {}
    meta = {"format": FORMAT, "kind": kind, "fingerprint": fingerprint, "state": _pack(state, arrays)}
    with replacing(Path(path)) as file:
        _write(file, {"meta": np.array(json.dumps(meta)), **arrays})


class _Archive(zipfile.ZipFile):
    """An archive that is not written to when it is collected, long after an error closed the file."""

    def __del__(self) -> None:
        pass


def _write(file: IO[bytes], arrays: Mapping[str, Any]) -> None:
    """As `np.savez`."""
    archive = _Archive(file, "w")
    for name, array in arrays.items():
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    archive.close()


def load(
    path: str | os.PathLike[str],
    kind: str,
    fingerprint: Mapping[str, Any],
    classes: Iterable[type] = (),
    *,
    state: type = object,
    device: Any = None,
) -> Any:
    """What was saved by a run of this kind and fingerprint, which must be a `state`; tensors on `device`."""
    target = Path(path)
    try:
        with regular(target) as file, zipfile.ZipFile(file) as archive:
            data = _Members(archive, os.fstat(file.fileno()).st_size)
            meta = json.loads(str(data["meta"]))
            for name, demand in (("format", FORMAT), ("kind", kind)):
                if meta.get(name) != demand:
                    raise CheckpointError(f"{target} must have checkpoint {name} {demand}, got {meta.get(name)!r}")
            require_same(dict(meta["fingerprint"]), json.loads(json.dumps(fingerprint)), path)
            found = _unpack(meta["state"], data, {cls.__name__: cls for cls in classes}, device)
            if not isinstance(found, state):
                raise TypeError(f"it must hold a state, got {found!r:.60}")
            return found
    except CheckpointError:
        raise
    except FileNotFoundError:
        text = f"resume must name an existing checkpoint, got {str(target)!r}, which does not exist"
        raise CheckpointError(text) from None
    except Exception as error:  # whatever a damaged file may lead to
        raise CheckpointError(f"{target} is not a usable checkpoint ({type(error).__name__}: {error})") from None


def saved(path: str | os.PathLike[str], key: str) -> Any:
    """What the fingerprint of a file says; None where it says nothing or cannot be read (then `load` says why)."""
    try:
        with regular(Path(path)) as file, zipfile.ZipFile(file) as archive:
            meta = json.loads(str(_Members(archive, os.fstat(file.fileno()).st_size)["meta"]))
            return meta["fingerprint"].get(key)
    except Exception:  # whatever a damaged file may lead to
        return None


@final
class _Members:
    """The arrays of a file. Sizes are checked before anything is read, and each array can be had once.

    The file is not compressed, so that all arrays together have fewer bytes than it has.
    """

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        infos = archive.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos) or sum(i.file_size for i in infos) > size:
            raise ValueError("its arrays must not be compressed")
        self._archive, self._left = archive, {info.filename: info for info in infos}

    def __getitem__(self, name: str) -> Any:
        info = self._left.pop(f"{name}.npy")
        form = np.lib.format
        with self._archive.open(info) as member:
            version = form.read_magic(member)
            header = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
            shape, _, dtype = header(member)
            if dtype.kind not in KINDS or math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
                raise ValueError(f"array {name} must have numbers, as many as its shape says, got {dtype} {shape}")
        with self._archive.open(info) as member:
            return form.read_array(member, allow_pickle=False)


def require_same(saved: Mapping[str, Any], now: Mapping[str, Any], path: object) -> None:
    """Raise unless the saved run is this run."""
    for key, value in now.items():
        if saved.get(key) != value:
            was, found = repr(saved.get(key)), repr(value)
            start = 0
            if max(len(was), len(found)) > SHOWN:  # settings, for example: what differs may stand far behind
                alike = next((i for i, (a, b) in enumerate(zip(was, found, strict=False)) if a != b), 0)
                start = 1 + was.rfind(" ", 0, alike)
            raise CheckpointError(
                f"{path} belongs to another run: {key} must be {was[start : start + SHOWN]} as saved, got "
                f"{found[start : start + SHOWN]}"
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
        return data[content]
    if kind == "class":
        name, kept = content
        values = {key: _unpack(v, data, classes, device) for key, v in kept.items()}
        for key, hint in _hints(classes[name]).items():
            if key in values and not fits(values[key], hint):
                raise TypeError(f"{name}.{key} must be {hint}, got {values[key]!r:.60}")
        return classes[name](**values)
    if kind == "enum":
        name, member = content
        family: Any = classes[name]
        return family[member]
    if kind == "sparse":
        *parts, shape = content
        rows = sparse.csr_array(tuple(data[part] for part in parts), shape=tuple(shape))
        rows.check_format(full_check=True)
        return rows
    if kind == "tensor":
        key, dtype, shape = content
        return _tensor(key, dtype, shape, data, device)
    raise ValueError(f"unknown kind of value {kind!r}")


def _tensor(key: str, dtype: str, shape: list[int], data: Any, device: Any) -> Any:
    import torch

    kind, raw = getattr(torch, dtype), data[key]
    if not isinstance(kind, torch.dtype) or math.prod(shape) * kind.itemsize != raw.nbytes:
        raise ValueError(f"a tensor must have a type and as many numbers as its shape says, got {dtype} {shape}")
    if raw.size == 0:
        return torch.zeros(shape, dtype=kind, device=device)
    return torch.from_numpy(raw.copy()).view(kind).reshape(shape).to(device)


# ---------------------------------------------------------------------------------------------- values and their types


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _expanded(hint: Any) -> Any:
    """What an alias stands for: since NumPy 2.5 `NDArray` is one of those that keep their name."""
    parts, alias = get_args(hint), get_origin(hint) or hint
    value = getattr(alias, "__value__", None)
    return hint if value is None else value[parts] if parts else value


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that was read is what the annotation of its field says; a whole number is a float, too."""
    hint = _expanded(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == np.dtype(get_args(parts[1])[0])
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is tuple and parts and parts[-1] is not Ellipsis:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(fits, value, parts))
    if origin in (list, tuple):
        return isinstance(value, origin) and all(fits(entry, parts[0]) for entry in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if hint in (int, float):
        return type(value) is int or (hint is float and type(value) is float)
    if hint is None:
        return value is None
    expected = origin if isinstance(origin, type) else hint
    return not isinstance(expected, type) or isinstance(value, expected)
