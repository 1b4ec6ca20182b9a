"""Nested states (numbers, strings, lists, dictionaries, tensors, arrays) in one `.npz` file: JSON inside, no pickle."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from auglag.errors import CheckpointError
from auglag.strategy.old_checkpoint import opened, write

FORMAT = "auglag-torch-1"


def save(path: str | os.PathLike[str], state: Any) -> None:
    """Write atomically: a process killed at any moment leaves the old file or the new one."""
    arrays: dict[str, Any] = {}
    write(path, {"format": FORMAT, "state": _pack(state, arrays)}, arrays)


def load(path: str | os.PathLike[str], device: Any) -> Any:
    """Read a state, its tensors on `device`, or say what is wrong with the file."""
    with opened(path, FORMAT) as (meta, data):
        return _unpack(meta["state"], data, device)


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
