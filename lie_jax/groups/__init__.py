"""Lie groups as modules of pure functions on arrays."""
