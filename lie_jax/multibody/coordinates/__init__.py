"""Formulations: coordinates and velocities of one body."""
