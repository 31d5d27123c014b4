"""Implicit Runge-Kutta methods in the local coordinates of a step."""
