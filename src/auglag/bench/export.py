"""Records as tables for other programs: CSV (optionally gzipped) and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from auglag.bench.record import Record, flat
from auglag.errors import InputError, MissingExtra
from auglag.persist.files import replacing


def export(
    records: Iterable[Record], path: str | os.PathLike[str], more: Mapping[str, Callable[[Record], Any]] | None = None
) -> Path:
    """Write one row per record to `path`, whose ending says how: .csv, .csv.gz or .parquet.

    `more`: further columns, by name, from each record.
    """
    target = Path(path)
    rows = [flat(record) | {name: of(record) for name, of in (more or {}).items()} for record in records]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not target.name.endswith((".parquet", ".csv", ".csv.gz")):
        raise InputError(f"export: path must end in .csv, .csv.gz or .parquet, got {str(target)!r}")
    with replacing(target) as file:
        if target.suffix == ".parquet":
            _parquet(rows, columns, file)
        else:
            content = _csv(rows, columns)
            file.write(gzip.compress(content, mtime=0) if target.suffix == ".gz" else content)
    return target


def _csv(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: list[dict[str, Any]], columns: list[str], file: IO[bytes]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("export to Parquet needs pyarrow: pip install 'auglag[bench]'; .csv needs nothing") from None
    arrays = {}
    for name in columns:
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float, bool}:
            values = [None if value is None else str(value) for value in values]
        elif kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        arrays[name] = pa.array(values)
    pq.write_table(pa.table(arrays), file, compression="zstd")
