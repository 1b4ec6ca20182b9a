"""The parts of `benchmarks/attack.py`: functions with exact derivatives, families of problems, and the judge."""
