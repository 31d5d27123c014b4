"""Mechanisms with their parameters, initial states and reference values, one a file."""
