"""Terms of the equations of motion of a mechanism by name.

M(q) v̇ + C(q, v) v + g(q) = τ, the generalised forces τ of everything but gravity. M is
`system.mass_matrix(q)`. Forces and velocities are those of the system's formulation: in
`lie_jax.Minimal()` joint torques (N m), joint forces (N), and wrenches on floating bases.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.numerics import dense, small
from lie_jax.robotics.arguments import of_an_instant
from lie_jax.robotics.frames import Frame
from lie_jax.spaces.base import AbstractSpace
from lie_jax.systems.system import AbstractSystem, Configuration, Inputs, Time, Velocity

Square = Float[Array, "nv nv"]


@of_an_instant
def inverse_dynamics(
    system: AbstractSystem,
    q: Configuration,
    v: Velocity,
    acceleration: Velocity,
    *,
    t: Time = 0.0,
    inputs: Inputs = None,
) -> Velocity:
    """Generalised forces (nv,) that a motion needs beyond the forces of the mechanism.

    M v̇ - f with the `acceleration` v̇ (nv,), in `lie_jax.Minimal()` by the recursive Newton-Euler
    algorithm. f has gravity and all
    forces of the mechanism, those of motors for `inputs` (nu,) at the time `t` (s). Where every
    joint has a motor and `inputs` is zero, these are the inputs of the motion (N for distances, N m
    for angles). Raises `ValueError` for other sizes and for systems with constraints, whose
    reactions it does not have.
    """
    if system.nc:
        raise ValueError(
            f"inverse_dynamics(system=) has {system.nc} constraints, whose reactions share the "
            "forces with the drives; it must have none: assemble a mechanism without loops in "
            "lie_jax.Minimal(). With loops, system.residual(t, q, v, acceleration, multipliers, "
            "inputs) has the forces for multipliers (nc,) of your choice."
        )
    if inputs is None and system.nu:
        raise ValueError(
            f"inverse_dynamics(inputs=) is None, and the motors of the mechanism read {system.nu} "
            f"inputs; it must have shape ({system.nu},): for the forces of the motion without "
            f"motors give jnp.zeros({system.nu})."
        )
    return system.residual(t, q, v, acceleration, jnp.zeros(0, q.dtype), inputs)


@of_an_instant
def bias_force(system: AbstractMultibodySystem, q: Configuration, v: Velocity) -> Velocity:
    """Forces C v + g (nv,) that keep all velocities constant under gravity alone.

    In the order of the velocities: N for distances, N m for angles. Springs, dampers and motors of
    the mechanism have no part in them. Raises `ValueError` for `q` and `v` of other sizes than
    (nq,) and (nv,).
    """
    return _force_under_gravity(system, q, v, jnp.zeros_like(v))


@of_an_instant
def gravity_force(system: AbstractMultibodySystem, q: Configuration) -> Velocity:
    """Forces g (nv,) that hold the bodies at rest under gravity alone.

    N for distances, N m for angles. Raises `ValueError` for `q` of another size than (nq,).
    """
    still = jnp.zeros(system.nv, q.dtype)
    return _force_under_gravity(system, q, still, still)


@of_an_instant
def coriolis_matrix(system: AbstractMultibodySystem, q: Configuration, v: Velocity) -> Square:
    """C (nv, nv), with Ṁ = C + Cᵀ: Ṁ - 2 C is skew.

    Of all such matrices the one without torsion: for joint angles and distances that of
    Christoffel's symbols. For body-fixed velocities their brackets are added,
    C w = 1/2 ∂(C v)/∂v w + 1/2 M [v, w]. Raises `ValueError` for `q` and `v` of other sizes than
    (nq,) and (nv,).
    """
    weightless = dataclasses.replace(system, gravity=jnp.zeros_like(system.gravity))
    still = jnp.zeros_like(v)
    curved = jax.jacfwd(lambda v: _force_under_gravity(weightless, q, v, still))(v)
    return 0.5 * (curved + dense.product(system.mass_matrix(q), _bracket(system.space, v)))


def _force_under_gravity(
    system: AbstractMultibodySystem, q: Configuration, v: Velocity, acceleration: Velocity
) -> Velocity:
    """Forces of a motion, with gravity as the only one of the mechanism."""
    bare = dataclasses.replace(system, forces=())
    return bare.residual(0.0, q, v, acceleration, jnp.zeros(system.nc, q.dtype), None)


def _bracket(space: AbstractSpace, v: Velocity) -> Square:
    """Matrix of w ↦ [v, w]: the curl of T(x) dx at zero, by Maurer's and Cartan's equation."""
    zero = jnp.zeros_like(v)

    def curl(dx):
        def along(first, second):
            return jax.jvp(lambda x: space.tangent_operator(x, second), (zero,), (first,))[1]

        return along(dx, rate) - along(rate, dx)

    rate = space.rate_at_zero(v)
    units = jnp.eye(space.nv, dtype=v.dtype)
    return jax.vmap(lambda unit: curl(space.rate_at_zero(unit)), out_axes=1)(units)


@of_an_instant
def operational_inertia(
    system: AbstractMultibodySystem, q: Configuration, frame: Frame
) -> Float[Array, "6 6"]:
    """Inertia (6, 6) that a frame shows: wrench for a unit rate of its twist, free joints at rest.

    (J M⁻¹ Jᵀ)⁻¹, in the frame's axes and about its origin, with the constraints of the system in
    M⁻¹: kg, kg m and kg m², translation first. Raises `ValueError` where the frame cannot move in
    all six directions; NaN under JAX transformations.
    """
    jacobian = frame.jacobian(system, q)
    if system.nc:
        matrix, none = system.algebra.saddle(0.0, q), jnp.zeros(system.nc, q.dtype)
        solve = jax.vmap(lambda row: matrix.solve_constrained(jnp.concatenate([row, none])))
        moved = solve(jacobian)[:, : system.nv].T
    else:
        moved = dense.solve(system.mass_matrix(q), jacobian.T)
    mobility = dense.product(jacobian, moved)
    inertia = small.inverse(mobility)
    # Condition number with lengths and angles scaled to a diagonal of ones.
    scale = jnp.sqrt(jnp.diagonal(mobility))
    scales = scale[:, None] * scale[None]
    condition = jnp.sum(jnp.abs(mobility / scales)) * jnp.sum(jnp.abs(inertia * scales))
    regular = condition < jnp.finfo(q.dtype).eps ** -0.75
    if not checks.has_tracers(regular) and not bool(regular):
        raise ValueError(
            f"operational_inertia(frame=) is {frame.title}, which cannot move in all six "
            "directions here; its inertia is infinite along the others: take another "
            "configuration, or invert part of J M⁻¹ Jᵀ."
        )
    return jnp.where(regular, inertia, jnp.nan)
