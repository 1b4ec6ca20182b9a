"""Nested states (numbers, strings, lists, dictionaries, tensors, arrays) in one `.npz` file: JSON inside, no pickle."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from auglag.errors import CheckpointError

FORMAT = "auglag-torch-1"


def save(path: str | os.PathLike[str], state: Any) -> None:
    """Write atomically: a process killed at any moment leaves the old file or the new one."""
    target = Path(path)
    arrays: dict[str, Any] = {}
    meta = json.dumps({"format": FORMAT, "state": _pack(state, arrays)})
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, meta=np.array(meta), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str], device: Any) -> Any:
    """Read a state, its tensors on `device`, or say what is wrong with the file."""
    target = Path(path)
    if not target.exists():
        raise CheckpointError(f"resume must name an existing checkpoint, got {str(target)!r}, which does not exist")
    try:
        with open(target, "rb") as file, np.load(file, allow_pickle=False) as data:
            meta = json.loads(str(data["meta"]))
            if meta.get("format") != FORMAT:
                raise CheckpointError(f"{target} must have checkpoint format {FORMAT}, got {meta.get('format')!r}")
            return _unpack(meta["state"], data, device)
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError, EOFError, OSError) as error:
        reason = "not a file written by auglag" if "pickle" in str(error) else f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{target} is not a usable checkpoint ({reason})") from None


def _pack(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        key = f"t{len(arrays)}"
        raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8) if value.numel() else torch.zeros(0)
        arrays[key] = raw.numpy()
        return {"tensor": key, "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    if isinstance(value, np.ndarray):
        key = f"a{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if isinstance(value, dict):
        return {"dict": [[_pack(k, arrays), _pack(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {"tuple" if isinstance(value, tuple) else "list": [_pack(v, arrays) for v in value]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CheckpointError(f"a checkpoint holds numbers, strings, tensors and nests of them, got {type(value).__name__}")


def _unpack(value: Any, data: Any, device: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        dtype, shape = getattr(torch, value["dtype"]), value["shape"]
        raw = data[value["tensor"]]
        if raw.size == 0:
            return torch.zeros(shape, dtype=dtype, device=device)
        return torch.from_numpy(raw.copy()).view(dtype).reshape(shape).to(device)
    if "array" in value:
        return data[value["array"]]
    if "dict" in value:
        return {_unpack(k, data, device): _unpack(v, data, device) for k, v in value["dict"]}
    if "tuple" in value:
        return tuple(_unpack(v, data, device) for v in value["tuple"])
    return [_unpack(v, data, device) for v in value["list"]]
