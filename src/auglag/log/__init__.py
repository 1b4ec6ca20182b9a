"""The log of a run: one JSON object a line, written as the run goes, read while it goes or after it.

`JsonLog(path)` is a `callback=` of `auglag.minimize`, `auglag.stochastic.minimize` and `auglag.jax.minimize`, and has
methods for loops of one's own; `LogReader` reads such files, `auglag watch` shows them. `schema.FIELDS` is the format.
"""

from auglag.log.reader import LoggedRun, LogReader
from auglag.log.schema import FIELDS, VERSION, LogError
from auglag.log.writer import JsonLog

__all__ = ["FIELDS", "VERSION", "JsonLog", "LogError", "LogReader", "LoggedRun"]
