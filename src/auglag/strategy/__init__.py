"""How a run combines the ways to a solution: what is tried next, by whom, and when a run ends."""
