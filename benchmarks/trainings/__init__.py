"""Tasks and rivals of `benchmarks/training.py`."""
