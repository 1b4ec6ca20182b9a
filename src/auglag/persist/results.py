"""Results as JSON: `Result.to_dict`, `Result.save` and `auglag.load_result`. No pickle.

Numbers that JSON does not know are strings ("nan", "inf", "-inf"), a status is its name, a vector a list. A structure
of arrays, as `auglag.jax.minimize` returns it, is {"tuple": [...]}, {"list": [...]} or {"dict": {...}}, and an array
that is no vector {"array": [...], "shape": [...]}. JAX arrays come back as NumPy arrays, everything else as it was.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from auglag._version import __version__
from auglag.algorithm.history import Iteration
from auglag.algorithm.status import Status
from auglag.algorithm.trail import Step
from auglag.certificate import Certificate
from auglag.errors import CheckpointError, InputError
from auglag.multistart import Found
from auglag.persist.checkpoint import fits
from auglag.persist.files import regular, replacing
from auglag.result import SCHEMA, Result

FORMAT = "auglag-result"
#: To be increased when files of the version before can no longer be read.
VERSION = 1
#: Fields -> what they hold; the others are vectors, or structures of vectors.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("nit", "nit_inner", "nfev", "njev", "nhev", "constr_nfev", "constr_njev", "constr_nhev"), int),
    **dict.fromkeys(("fun", "maxcv", "penalty", "seconds", "tol"), float),
    **dict.fromkeys(("message", "second_order", "inner", "variant"), str),
    "success": bool,
}


def to_dict(result: Result) -> dict[str, Any]:
    """The fields of a result as JSON takes them."""
    return {name: _plain(result[name], name) for name in SCHEMA}


def save_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a result to a file, in place of what was there."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be a path, got {path!r:.80}")
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"path must name a file in an existing folder, got {str(target)!r}")
    content = {"format": FORMAT, "version": VERSION, "auglag": __version__, "result": to_dict(result)}
    text = json.dumps(content, indent=1, allow_nan=False)
    with replacing(target) as file:
        file.write(text.encode())


def load_result(path: str | os.PathLike[str]) -> Result:
    """The result that `Result.save` wrote to a file; raises `CheckpointError` if the file holds none.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Result
        With everything that was saved, bit for bit.

    Examples
    --------
    >>> import auglag, tempfile
    >>> result = auglag.minimize(lambda x: (x[0] - 3) ** 2, [0.0])
    >>> path = tempfile.mkdtemp() + "/result.json"
    >>> result.save(path)
    >>> auglag.load_result(path).x == result.x
    array([ True])
    """
    target = Path(path)
    try:
        with regular(target) as file:
            content = json.loads(file.read().decode())
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"it does not say {FORMAT!r}")
        if content["version"] != VERSION:
            raise ValueError(f"it has version {content['version']!r} of the format, not {VERSION}")
        return from_dict(content["result"])
    except FileNotFoundError:
        raise CheckpointError(f"path must name an existing result, got {str(target)!r}, which does not exist") from None
    except Exception as error:  # whatever a damaged file may lead to
        raise CheckpointError(f"{target} is not a usable result ({type(error).__name__}: {error})") from None


def from_dict(values: Mapping[str, Any]) -> Result:
    """The result from what `to_dict` returned, which may have been sent as JSON."""
    made: dict[str, Any] = {name: _read(name, values[name]) for name in SCHEMA if name in values}
    unknown = values.keys() - made.keys()
    if unknown:
        raise InputError(f"a result has no field {sorted(unknown)[0]!r}")
    return Result(**made)


# -------------------------------------------------------------------------------------------------------------- writing


def _plain(value: Any, name: str) -> Any:
    if name == "status":
        return value.name
    if name == "certificate":
        return _fields(value)
    if name == "history":
        return [{key: _number(entry) for key, entry in row.items()} for row in value]
    if name == "starts":
        return [_fields(found) for found in value]
    if name == "steps":
        return [[_number(entry) for entry in step] for step in value]
    if name == "row_violations":
        return {key: _number(entry) for key, entry in value.items()}
    if name in ("advice", "names"):
        return list(value)
    if name == "multipliers" and isinstance(value, list):
        return [_tree(entry) for entry in value]
    return _tree(value)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name), field.name) for field in fields(value)}


def _tree(value: Any) -> Any:
    """A number, a string, an array, or a structure of these."""
    if isinstance(value, dict):
        return {"dict": {str(key): _tree(entry) for key, entry in value.items()}}
    if isinstance(value, list | tuple):
        return {"tuple" if isinstance(value, tuple) else "list": [_tree(entry) for entry in value]}
    if hasattr(value, "shape") and np.ndim(value):
        array = np.asarray(value)
        flat = [_number(entry) for entry in array.ravel().tolist()]
        return flat if array.ndim == 1 else {"array": flat, "shape": list(array.shape)}
    return _number(value.item() if hasattr(value, "item") else value)


def _number(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# -------------------------------------------------------------------------------------------------------------- reading


def _read(name: str, value: Any) -> Any:
    if name == "status":
        return Status[value]
    if name == "certificate":
        return _dataclass(Certificate, value)
    if name == "history":
        hints = get_type_hints(Iteration)
        return [{key: _scalar(entry, hints[key], f"history: {key}") for key, entry in row.items()} for row in value]
    if name == "starts":
        return tuple(_dataclass(Found, found) for found in value)
    if name == "steps":
        kinds = get_type_hints(Step).values()
        return tuple(Step(*(_scalar(e, k, "steps") for e, k in zip(step, kinds, strict=True))) for step in value)
    if name in ("advice", "names"):
        return tuple(_scalar(entry, str, name) for entry in value)
    if name in _KINDS:
        return _scalar(value, _KINDS[name], name)
    if name == "multipliers" and isinstance(value, list):
        return [_grown(entry) for entry in value]
    return _grown(value)


def _dataclass(cls: type, values: Mapping[str, Any]) -> Any:
    """A certificate or a start, each field what its annotation says."""
    hints = get_type_hints(cls)
    made: dict[str, Any] = {}
    for name, value in values.items():
        hint = hints[name]
        if hint is Status:
            made[name] = Status[value]
        elif hint in (int, float, bool, str):
            made[name] = _scalar(value, hint, f"{cls.__name__}.{name}")
        elif name == "row_violations":
            made[name] = {str(key): _scalar(entry, float, name) for key, entry in value.items()}
        else:
            made[name] = _grown(value)
        if not fits(made[name], hint):
            raise TypeError(f"{cls.__name__}.{name} must be {hint}, got {value!r:.60}")
    return cls(**made)


def _scalar(value: Any, kind: type, name: str) -> Any:
    """A number of this kind, or a string; of other types an error."""
    if kind is float and (type(value) in (int, float) or value in ("nan", "inf", "-inf")):
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{name} must be of type {kind.__name__}, got {value!r:.60}")
    return value


def _grown(value: Any) -> Any:
    """The inverse of `_tree`."""
    if isinstance(value, list):
        return np.array([_scalar(entry, float, "an entry of a vector") for entry in value], dtype=float)
    if not isinstance(value, dict):
        return _scalar(value, float, "a number")
    if value.keys() == {"array", "shape"}:
        return _grown(value["array"]).reshape(value["shape"])
    ((kind, content),) = value.items()
    if kind == "dict":
        return {key: _grown(entry) for key, entry in content.items()}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(_grown(entry) for entry in content)
    raise ValueError(f"unknown kind of value {kind!r}")
