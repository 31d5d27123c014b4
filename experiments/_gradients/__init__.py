"""Derivatives of runs by every integrator and formulation, against differences."""
