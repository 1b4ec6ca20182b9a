"""Random numbers that are the same in every run. Making a generator costs more than a step of a small problem."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from auglag._typing import Vector

#: Vectors up to this length are kept: 1 MB in all.
LONGEST = 1000


def normal(seed: int, size: int) -> Vector:
    """`default_rng(seed).standard_normal(size)`; not to be written to."""
    return _kept_normal(seed, size) if size <= LONGEST else np.random.default_rng(seed).standard_normal(size)


def uniform(seed: int, *shape: int) -> Vector:
    """`default_rng(seed).random(shape)`; not to be written to."""
    return _kept_uniform(seed, shape) if math.prod(shape) <= LONGEST else np.random.default_rng(seed).random(shape)


@lru_cache(maxsize=64)
def _kept_normal(seed: int, size: int) -> Vector:
    found = np.random.default_rng(seed).standard_normal(size)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def _kept_uniform(seed: int, shape: tuple[int, ...]) -> Vector:
    found = np.random.default_rng(seed).random(shape)
    found.flags.writeable = False
    return found
