"""A bar of 1 m that hangs on a hinge at one end: as a flexible body from a mesh, and as a beam.

It starts level and at rest, 20 mm wide and 10 mm high. The shear coefficient of the beam is
that of a rectangle, 5/6.
"""

import numpy as np
import skfem
from jaxtyping import ArrayLike

import lie_jax
from lie_jax import beams

LENGTH, WIDTH, HEIGHT = 1.0, 0.02, 0.01
YOUNG, POISSON, DENSITY = 2.1e10, 0.3, 1000.0
AXIS = (0.0, 1.0, 0.0)


def body(modes: int = 10, *, young: float = YOUNG, elements: int = 8) -> lie_jax.FlexibleBody:
    """The bar with the interfaces `"hinge"` and `"tip"`."""
    along = np.linspace(0.0, LENGTH, elements + 1)
    across = (0.5 * side * np.array([-1.0, 1.0]) for side in (WIDTH, HEIGHT))
    return lie_jax.FlexibleBody.from_mesh(
        "bar",
        skfem.MeshHex.init_tensor(along, *across),
        density=DENSITY,
        young=young,
        poisson=POISSON,
        interfaces={
            "hinge": lambda x: x[:, 0] < 1e-9,
            "tip": lambda x: x[:, 0] > LENGTH - 1e-9,
        },
        modes=modes,
    )


def hung(
    bar: lie_jax.FlexibleBody,
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    loads: tuple = (),
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The pendulum of this bar."""
    hinge = lie_jax.RevoluteJoint("ground", "bar.hinge", axis=AXIS)
    mechanism = lie_jax.Mechanism([bar], [hinge], loads)
    return lie_jax.assemble(mechanism, formulation or lie_jax.R3SO3())


def as_beam(
    elements: int = 16, *, young: ArrayLike = YOUNG
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The same bar as a line of beam elements, whose nodes are bodies "bar 0", ..."""
    shear = young / (2 * (1 + POISSON))
    section = beams.rectangle(WIDTH, HEIGHT, young, shear, DENSITY)
    line = beams.line("bar", section, LENGTH, elements)
    hinge = lie_jax.RevoluteJoint("ground", "bar 0", axis=AXIS)
    mechanism = lie_jax.Mechanism(line.nodes, [hinge], line.elements)
    return lie_jax.assemble(mechanism, lie_jax.SE3())
