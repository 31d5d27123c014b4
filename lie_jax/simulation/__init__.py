"""Runs: the time loops, their checks, limits and trajectories."""
