"""A hanging chain of equal links, set in motion by turning each of them.

The links hang on ball joints, or on hinges whose axes are x and y in turn, so that the chain moves
in space. Body frames lie at the centres of mass, mid-link along z; all are parallel to the world's
at the start. The first joint is the world origin.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from lie_jax import checks
from lie_jax.numerics import small
from models import links
from models.fixed_point import Numbers

MASS = 1.0
INERTIA = (0.021, 0.022, 0.002)
LENGTH = 0.5
GRAVITY = (0.0, 0.0, -9.81)
JOINTS = ("spherical", "revolute")

# On ball joints, orientation of each of six links relative to the one above after 0.5 s, as unit
# quaternions: two other simulators with the joints' rotations as coordinates agree to 2e-11.
REFERENCE = {
    0.5: (
        (0.9950653148607044, 0.07054792579745361, 0.047355446452673096, 0.0512393502897166),
        (0.9996758502980804, 0.009997905314249432, 0.005187826494772823, 0.02283249168177182),
        (0.9999527628332909, 0.005785189650390561, 0.001805210232862285, -0.007599006434608843),
        (0.9993063859733433, 0.0032363399550823565, -0.0011174349000019211, -0.03708132138737248),
        (0.9977671172245289, 0.005134183046446998, -0.0009689938761282418, -0.06658439006829545),
        (0.9951304615924992, 0.012139338784728835, 0.0038022507126658674, -0.097742231169987),
    )
}


def relative_omega(n: int) -> np.ndarray:
    """Initial angular velocities (n, 3) of the links relative to the one above, rad/s."""
    return np.linspace(0.3, -0.4, 3 * n).reshape(n, 3)


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    n: int = 6,
    joint: str = "spherical",
    mass: Numbers = MASS,
    inertia: Numbers | None = None,
    length: Numbers = LENGTH,
    omega_relative: Numbers | None = None,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The chain as a system, with 3 n or 5 n constraints or in joint coordinates, and its initial
    state.

    **Arguments:** `formulation`: default `R3SO3()`; `n`: the number of links; `joint`:
    `"spherical"` or `"revolute"`, for hinges about x and y in turn; of each link, `mass` in kg,
    `inertia` (3, 3) about the centre of mass, kg m², and `length` in m; `omega_relative` (n, 3):
    initial angular velocities relative to the link above, rad/s, default `relative_omega(n)`, of
    which a hinge takes the part about its axis; `gravity` (3,), m/s². Raises `ValueError` for
    another kind of joint or no link.
    """
    checks.positive_integer("chain.build(n=)", n, "the number of links")
    checks.one_of("chain.build(joint=)", joint, JOINTS)
    relative = relative_omega(n) if omega_relative is None else omega_relative
    checks.shape("chain.build(omega_relative=)", relative, (n, 3), "rad/s, one row for each link")
    relative, axes = jnp.asarray(relative, float), None
    if joint == "revolute":
        axes = jnp.asarray(np.eye(3)[np.arange(n) % 2])
        relative = axes * relative
    inertia = jnp.diag(jnp.asarray(INERTIA)) if inertia is None else jnp.asarray(inertia, float)
    down = jnp.asarray((0.0, 0.0, -1.0)) * jnp.asarray(length, float)
    return links.build(
        formulation,
        mass=jnp.broadcast_to(jnp.asarray(mass, float), (n,)),
        inertia=jnp.broadcast_to(inertia, (n, 3, 3)),
        center_of_mass=jnp.broadcast_to(0.5 * down, (n, 3)),
        next_joint=jnp.broadcast_to(down, (n, 3)),
        orientation=jnp.broadcast_to(jnp.asarray((1.0, 0.0, 0.0, 0.0)), (n, 4)),
        omega_body=jnp.cumsum(relative, axis=0),
        gravity=jnp.asarray(gravity, float),
        axes=axes,
    )


def tip(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, "3"]:
    """World position (3,) of the free end of the last link, m."""
    rotation, position = system.poses(q)
    last = len(system.names) - 1
    joint_point = next(point for body, point in system.joint_points() if body == last)
    # The last link's own joint lies as far above its centre of mass as its end lies below.
    return position[-1] - small.matvec(rotation[-1], joint_point)
