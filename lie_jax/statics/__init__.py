"""Equilibria of systems, linearised motions about them and their modes."""
