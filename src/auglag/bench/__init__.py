"""The benchmark harness: runs in worker processes, one judge for all, a store, profiles and plots."""
