"""Computation of mechanisms: coordinates, systems, readings."""
