"""Data sets that come with the package."""

from auglag.datasets.spambase import Dataset, load_spambase

__all__ = ["Dataset", "load_spambase"]
