"""Where records are kept: one SQLite file in WAL mode, which survives a kill at any moment.

A record is written in one transaction under the key of its run, and a key is written once: a run that was finished is
not lost, and none is there twice, however many processes write to the file.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import final

from auglag.bench.record import Record
from auglag.errors import AuglagError

#: SQLite's application_id of our files: "algb".
APPLICATION = 0x616C6762
VERSION = 1
_TABLES = """
CREATE TABLE records (
    key TEXT PRIMARY KEY, problem TEXT NOT NULL, solver TEXT NOT NULL, label TEXT NOT NULL, written REAL NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX by_label ON records (label, problem);
"""


class StoreError(AuglagError):
    """A file is no store, or a damaged one. It is left as it is."""


@final
class Store:
    """Records by the key of their run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise StoreError(f"store must lie in an existing folder, got {str(self.path)!r}")
        if self.path.is_dir():
            raise StoreError(f"store must be a file, got the folder {str(self.path)!r}")
        if self.path.exists() and self.path.stat().st_size > 0:
            _examine(self.path)
        self._connection = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._create()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise StoreError(f"{self.path} cannot be used as a store ({error}); it was left as it is") from None

    def _create(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")  # two processes may open a new file at once
        known = self._connection.execute("SELECT name FROM sqlite_master WHERE name = 'records'").fetchone()
        if known is None:
            for statement in filter(str.strip, _TABLES.split(";")):
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id={APPLICATION}")
            self._connection.execute(f"PRAGMA user_version={VERSION}")
        self._connection.execute("COMMIT")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def add(self, record: Record, written: float = 0.0) -> bool:
        """Keep the record; False if there is one of the same run already, which stays."""
        data = zlib.compress(json.dumps(record.as_dict()).encode(), 6)
        run = record.run
        done = self._connection.execute(
            "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?)",
            (run.key, run.problem, run.solver, run.title, written, data),
        )
        return done.rowcount == 1

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM records").fetchone()[0])

    def keys(self) -> set[str]:
        """The keys of all finished runs."""
        return {row[0] for row in self._connection.execute("SELECT key FROM records")}

    def records(self, keys: Iterable[str] | None = None) -> Iterator[Record]:
        """All records, or those of these runs, ordered by label, problem and time."""
        wanted = None if keys is None else set(keys)
        query = "SELECT key, data FROM records ORDER BY label, problem, written, key"
        for key, data in self._connection.execute(query):
            if wanted is None or key in wanted:
                try:
                    record = Record.from_dict(json.loads(zlib.decompress(data)))
                except (zlib.error, ValueError, KeyError, TypeError) as error:
                    raise StoreError(
                        f"{self.path} is damaged: the record {key} cannot be read ({error}); it was left as it is"
                    ) from None
                yield record

    def remove(self, keys: Iterable[str]) -> int:
        """Forget these runs, to do them again; how many there were."""
        done = self._connection.executemany("DELETE FROM records WHERE key = ?", ((key,) for key in keys))
        return max(done.rowcount, 0)


def _examine(path: Path) -> None:
    """Raise unless the file is one of ours and whole; opened for reading only, so that nothing is written to it."""
    left = "it was left as it is: give another file, or move it away"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=60.0)) as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            state = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError as error:  # locked, or not readable
        raise StoreError(f"{path} cannot be opened ({error}); it was left as it is") from None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} is not a store of benchmark records ({error}); {left}") from None
    if application != APPLICATION and tables:
        raise StoreError(f"{path} is an SQLite file, but not a store of benchmark records; {left}")
    if state != "ok":
        raise StoreError(f"{path} is damaged ({state}); {left}")
    if version > VERSION:
        raise StoreError(f"{path} was written by a newer auglag (version {version} of the format); {left}")
