"""Optimal control: interior points on phases, iLQR, and direct shooting."""

from lie_jax.control.controller import Controller as Controller
from lie_jax.control.controller import Plan as Plan
from lie_jax.control.guess import Guess as Guess
from lie_jax.control.guess import Multipliers as Multipliers
from lie_jax.control.ilqr import ilqr as ilqr
from lie_jax.control.mpc import mpc as mpc
from lie_jax.control.phase import Phase as Phase
from lie_jax.control.shooting import shoot as shoot
from lie_jax.control.shooting import spline_basis as spline_basis
from lie_jax.control.solution import History as History
from lie_jax.control.solution import Solution as Solution
from lie_jax.control.solve import Optimum as Optimum
from lie_jax.control.solve import solve as solve
