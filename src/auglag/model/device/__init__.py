"""Solving a model with all vectors on one device, a GPU or the CPU."""
