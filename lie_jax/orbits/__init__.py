"""Periodic motions: Newton's method on the return map, stability, derivatives."""
