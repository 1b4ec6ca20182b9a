"""Spambase of the UCI Machine Learning Repository (Hopkins, Reeber, Forman, Suermondt 1999), CC BY 4.0.

4601 e-mails, 57 features (frequencies of words and characters, lengths of runs of capitals), 1 = spam. The attribution
lies beside the data, in ATTRIBUTION.md.
"""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from importlib import resources
from typing import final

import numpy as np
from numpy.typing import NDArray

from auglag._typing import Matrix


@final
@dataclass(frozen=True, slots=True)
class Dataset:
    """Features, labels and their names."""

    X: Matrix  #: shape (rows, features)
    y: NDArray[np.int64]  #: 0 or 1
    feature_names: tuple[str, ...]
    attribution: str  #: source and licence


def load_spambase() -> Dataset:
    """The 4601 x 57 features and the labels (1 = spam).

    Examples
    --------
    >>> from auglag.datasets import load_spambase
    >>> data = load_spambase()
    >>> data.X.shape, data.y.shape
    ((4601, 57), (4601,))
    """
    folder = resources.files(__name__.rpartition(".")[0])
    text = gzip.decompress((folder / "spambase.csv.gz").read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(text)))
    table = np.array(rows[1:], dtype=np.float64)
    attribution = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    return Dataset(table[:, :-1], table[:, -1].astype(np.int64), tuple(rows[0][:-1]), attribution)
