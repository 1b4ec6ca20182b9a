"""Options of XLA for the CPU that make compilation shorter."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax


@cache
def quick_options(level: int) -> dict[str, Any]:
    """Options that halve the time of compilation, of those that this version of XLA has.

    At level 1 programs of arrays are as fast as ever, but those written out number by number take half as long again.
    Level 0 makes all of them several times slower: it is for what runs shorter than optimising takes.
    """
    options: dict[str, Any] = {}
    for name, value in (("xla_backend_optimization_level", level), ("xla_cpu_use_fusion_emitters", False)):
        try:
            jax.jit(lambda x: x, compiler_options={name: value}).lower(0.0).compile()
        except Exception:  # its type changed with the versions
            continue
        options[name] = value
    return options
