"""A four-bar linkage with one axis turned out of its parallel direction, and bars that bend.

Bars of 0.12, 0.24 and 0.12 m between A, B, C and D stand at right angles at first; the first two
are 16 mm square, the last one 8 mm, all of steel. The axes at A, B and D are normal to the plane,
that at C is turned by 5° about the coupler. Rigid bars would lock. The crank turns with 0.6 rad/s,
after a start of half a second. After Bauchau and others, "Validation of flexible multibody dynamics
formulations using benchmark problems" (2016), with a start at rest and a density of 7800 kg/m³.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from lie_jax import beams
from models import driven

SHORT, LONG = 0.12, 0.24
THICK, THIN = 0.016, 0.008
YOUNG, POISSON, DENSITY = 207e9, 0.3, 7800.0
DEFECT = np.radians(5.0)
SPEED, START = 0.6, 0.5


def angle(t: Array) -> Array:
    """Angle of the crank, rad."""
    return driven.started(t, SPEED, START)


def build(
    elements: int = 4,
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    damping_time: float = 1e-5,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """Bars of so many elements at rest, with a damping of `damping_time` (s) times K."""

    def bar(name, side, length, position, turn):
        section = beams.rectangle(
            *(side, side, YOUNG, 0.5 * YOUNG / (1.0 + POISSON), DENSITY), damping_time=damping_time
        )
        orientation = (np.cos(0.5 * turn), 0.0, 0.0, np.sin(0.5 * turn))
        return beams.line(
            name, section, length, elements, position=position, orientation=orientation
        )

    up = 0.5 * np.pi
    crank = bar("crank", THICK, SHORT, (0.0, 0.0, 0.0), up)
    coupler = bar("coupler", THICK, LONG, (0.0, SHORT, 0.0), 0.0)
    rocker = bar("rocker", THIN, SHORT, (LONG, 0.0, 0.0), up)
    z = (0.0, 0.0, 1.0)
    # The coupler lies along x: its last node's axis leans towards y.
    turned = (0.0, np.sin(DEFECT), np.cos(DEFECT))
    ends = [(line.nodes[0].name, line.nodes[-1].name) for line in (crank, coupler, rocker)]
    upright = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
    pivot = lie_jax.RevoluteJoint("ground", ends[0][0], z, orientation=upright)
    joints = [
        pivot,
        lie_jax.JointDriver(pivot, value=angle),
        lie_jax.RevoluteJoint(
            *(ends[0][1], ends[1][0], z), orientation=(upright[0], 0.0, 0.0, -upright[3])
        ),
        lie_jax.RevoluteJoint(ends[1][1], ends[2][1], turned, orientation=upright),
        lie_jax.RevoluteJoint(
            *("ground", ends[2][0], z), parent_point=(LONG, 0.0, 0.0), orientation=upright
        ),
    ]
    mechanism = lie_jax.Mechanism(
        [*crank.nodes, *coupler.nodes, *rocker.nodes],
        joints,
        [*crank.elements, *coupler.elements, *rocker.elements],
        gravity=(0.0, 0.0, 0.0),
    )
    return lie_jax.assemble(mechanism, lie_jax.SE3() if formulation is None else formulation)


def turned_out_of_plane(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "2"]:
    """Sines of the angles by which the ends of crank and rocker lean out of the plane."""
    rotations, names = system.poses(q)[0], system.names
    last = [max(k for k, name in enumerate(names) if name.startswith(bar)) for bar in BARS]
    return jnp.stack([rotations[k][2, 0] for k in last])


BARS = "crank", "rocker"
