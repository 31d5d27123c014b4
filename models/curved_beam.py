"""The 45° bend of Bathe and Bolourchi: an arc clamped at one end, loaded across its plane.

Numbers of Simo and Vu-Quoc (1986): radius 100, section 1 × 1, E = 10⁷, G = E/2, shear areas of the
whole section, the torsion constant its polar moment. x points along the first radius to the
centre, y along the first tangent; the tip is at (29.2893, 70.7107, 0) without load.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from lie_jax import beams

RADIUS, ANGLE = 100.0, np.pi / 4
YOUNG, SHEAR, DENSITY = 1e7, 5e6, 1.0
AREA, MOMENT = 1.0, 1.0 / 12.0

# The tip (m) under 600 N by shooting: an initial value problem of the beam's equations at 3e-14,
# and Newton's method for the moment at the root; all digits are safe.
REFERENCE = (15.6848005340, 47.1504385736, 53.4748587918)


def section() -> beams.Section:
    """Square of side 1 without Poisson's effect."""
    return beams.of_material(
        area=AREA,
        moments=(MOMENT, MOMENT),
        torsion=2.0 * MOMENT,
        young=YOUNG,
        shear=SHEAR,
        density=DENSITY,
    )


def build(
    elements: int = 8,
    force: ArrayLike = 600.0,
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    cross_section: beams.Section | None = None,
    interpolation: str = "constant",
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The unloaded arc under a dead force along z at its tip, in N with lengths in m."""
    # The beam's x axis lies along y, and its y axis towards the centre, along x.
    half = np.sqrt(0.5)
    arc = beams.line(
        "arc",
        section() if cross_section is None else cross_section,
        RADIUS * ANGLE,
        elements,
        orientation=(0.0, half, half, 0.0),
        rest_strain=(1.0, 0.0, 0.0, 0.0, 0.0, 1.0 / RADIUS),
        start="ground",
        interpolation=interpolation,
    )
    across = jnp.stack([0.0 * jnp.asarray(force, float)] * 2 + [jnp.asarray(force, float)])
    load = lie_jax.PointForce(arc.nodes[-1].name, across)
    mechanism = lie_jax.Mechanism(arc.nodes, forces=[*arc.elements, load], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3() if formulation is None else formulation)


def tip(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "3"]:
    """Position of the tip, m."""
    return system.poses(q)[1][-1]
