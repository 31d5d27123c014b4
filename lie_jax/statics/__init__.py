"""Equilibria of systems."""
