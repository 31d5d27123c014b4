"""Optimal control: iLQR, and direct shooting with one segment or several."""

from lie_jax.control.ilqr import ilqr as ilqr
from lie_jax.control.shooting import shoot as shoot
from lie_jax.control.shooting import spline_basis as spline_basis
from lie_jax.control.solution import History as History
from lie_jax.control.solution import Solution as Solution
