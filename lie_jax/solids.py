"""Inertias of solids of constant density, for `Body(inertia=)`."""

from lie_jax.mechanics.solids import box, cylinder, sphere

__all__ = ["box", "cylinder", "sphere"]
