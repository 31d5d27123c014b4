"""The Princeton beam: a thin strip under a dead force at its tip, across it at any angle.

Experiment of Dowell and Traybar (1975), with the numbers of later calculations: length 0.508 m,
12.3777 mm × 3.2024 mm, E = 71.7 GPa, ν = 0.31, the torsion constant 0.198 of the polar moment, no
shear factors. The strip lies along x, its height along y; the force is (0, -cos β, sin β).
"""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from lie_jax import beams

LENGTH, HEIGHT, WIDTH = 0.508, 12.3777e-3, 3.2024e-3
YOUNG, POISSON, DENSITY = 71.7e9, 0.31, 2700.0
# Of the polar moment of area.
TORSION = 0.198

# Displacement of the tip (m) under 13.345 N at 45 degrees, by shooting as for the curved beam.
REFERENCE = (-0.030452934696, -0.015621149906, 0.156774617721)


def section() -> beams.Section:
    """The strip's section."""
    flat, steep = HEIGHT * WIDTH**3 / 12.0, WIDTH * HEIGHT**3 / 12.0
    return beams.of_material(
        area=HEIGHT * WIDTH,
        moments=(flat, steep),
        torsion=TORSION * (flat + steep),
        young=YOUNG,
        shear=0.5 * YOUNG / (1.0 + POISSON),
        density=DENSITY,
    )


def build(
    elements: int = 16,
    force: ArrayLike = 13.345,
    angle_degrees: ArrayLike = 45.0,
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    cross_section: beams.Section | None = None,
    interpolation: str = "constant",
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The straight strip, clamped to the ground at the origin, under the force (N) at its tip."""
    chosen = section() if cross_section is None else cross_section
    strip = beams.line(
        "strip", chosen, LENGTH, elements, start="ground", interpolation=interpolation
    )
    angle = jnp.radians(jnp.asarray(angle_degrees, float))
    across = jnp.stack([0.0 * angle, -jnp.cos(angle), jnp.sin(angle)])
    load = lie_jax.PointForce(strip.nodes[-1].name, jnp.asarray(force, float) * across)
    mechanism = lie_jax.Mechanism(strip.nodes, forces=[*strip.elements, load], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3() if formulation is None else formulation)


def tip_displacement(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "3"]:
    """Displacement of the tip, m."""
    return system.poses(q)[1][-1] - jnp.asarray([LENGTH, 0.0, 0.0])
