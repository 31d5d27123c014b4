"""Recursions along a tree: articulated bodies, Newton-Euler and composite bodies.

Twists (v, ω), their rates and wrenches (force, torque) have inertial components. They refer to one
fixed point: where the origin of the tree's base, or its joint on the ground, is at the instant.
Sums over bodies then need no transformation, and lose no digits far from the world's origin. Arrays
have bases and links on their last axis, in the order of `Tree`, as far as all are treated at once;
recursions take them one by one from the first axis.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lie_jax.mechanics.body import MassProperties
from lie_jax.multibody.minimal.kinematics import Kinematics, SpatialVectors, join, rotate
from lie_jax.multibody.minimal.tree import Tree
from lie_jax.numerics import rules, small
from lie_jax.numerics.forest import scan_down, scan_up, total, totals

# Inertia matrices of all frames, and inertias added to coordinates.
SpatialInertias = Float[Array, "6 6 frames"]
JointInertias = Float[Array, "nv links"]


def inertias(bodies: MassProperties, motion: Kinematics) -> SpatialInertias:
    """Inertia matrices of bases and links for their twists."""
    rotation, mass = motion.rotation, bodies.mass
    center = motion.arm + small.matvec(rotation, bodies.center_of_mass.T)
    turned = small.matmul(
        small.matmul(rotation, jnp.moveaxis(bodies.inertia, 0, -1)), rotation.swapaxes(0, 1)
    )
    lever, identity = small.hat(center), jnp.eye(3, dtype=mass.dtype)[:, :, None]
    moment = mass[None, None] * lever
    return small.block_2x2(
        mass[None, None] * identity, -moment, moment, turned - small.matmul(moment, lever)
    )


def bias(motion: Kinematics, inertia: SpatialInertias) -> SpatialVectors:
    """Wrenches that keep all joint velocities and the bases' twists constant. [S1] (34)"""
    momentum, (v, omega) = small.matvec(inertia, motion.twist), motion.twist.reshape(2, 3, -1)
    linear, angular = momentum.reshape(2, 3, -1)
    turning = small.cross(omega, angular) + small.cross(v, linear)
    gyroscopic = jnp.concatenate([small.cross(omega, linear), turning])
    return gyroscopic + small.matvec(inertia, motion.drift)


class Accelerations(NamedTuple):
    """Rates of the bases' body-fixed twists (bases, 6) and of joint velocities (links, nv)."""

    bases: Float[Array, "bases 6"]
    rates: Float[Array, "links nv"]


class Articulated(NamedTuple):
    """Factors of the mass matrix: the inertia I that each base and link shows with free joints.

    `rows` (links, nv, 6): Sᵀ I / (Sᵀ I S + a) for each column S and inertia a of a joint;
    `inverses` (links, nv): 1 / (Sᵀ I S + a); `bases`: I⁻¹.
    """

    rows: Float[Array, "links nv 6"]
    inverses: Float[Array, "links nv"]
    bases: Float[Array, "6 6 bases"]


def forward_dynamics(
    tree: Tree,
    motion: Kinematics,
    joint_inertia: JointInertias,
    inertia: SpatialInertias,
    bias: SpatialVectors,
) -> Accelerations:
    """Accelerations by the articulated-body algorithm (Featherstone), with free joints.

    `bias` is the wrench that zero accelerations need, minus the applied wrench. Derivatives are
    those of the solution of `inverse_dynamics` = 0.
    """
    terms = motion, joint_inertia, inertia, bias
    accelerations, factors = articulated_bodies(tree, *rules.stop_gradient(terms))

    # Newton's and Euler's equations are cheaper to differentiate than their solution.
    def change(accelerations, parameters, changes):
        (motion, joint_inertia, inertia, bias), factors = parameters
        changes, _ = changes

        def forces(motion, joint_inertia, inertia, bias):
            return inverse_dynamics(tree, motion, joint_inertia, inertia, bias, accelerations)

        def product(accelerations):
            none = jnp.zeros_like(bias)
            return Accelerations(
                *inverse_dynamics(tree, motion, joint_inertia, inertia, none, accelerations)
            )

        def solve(_, forces):
            return free_accelerations(tree, motion, factors, forces)

        _, rates = eqx.filter_jvp(forces, parameters[0], changes)
        # None stands for no change; reverse mode needs both parts to be tangents.
        pairs, moved = zip(accelerations, rates, strict=True), jax.tree.leaves(rates)
        needed = Accelerations(
            *(rules.zeros_along(x, moved) if dx is None else -dx for x, dx in pairs)
        )
        return lax.custom_linear_solve(product, needed, solve, symmetric=True)

    return rules.value_with_rule(accelerations, change, (terms, factors))


def articulated_bodies(
    tree: Tree,
    motion: Kinematics,
    joint_inertia: JointInertias,
    inertia: SpatialInertias,
    bias: SpatialVectors,
) -> tuple[Accelerations, Articulated]:
    """Accelerations of free joints, and the factors of the mass matrix."""
    columns = jnp.moveaxis(motion.columns, -1, 0)
    count = columns.shape[1]

    # Passed inwards: inertia and bias wrench (6, 6 + 1) that a link shows to its parent. Those of
    # the link, with its children's added, are projected past the joint, velocity by velocity: a
    # velocity S that follows freely takes I S (Sᵀ I S)⁻¹ Sᵀ (I, p) away. Inwards, because a link's
    # articulated inertia has to be complete before its joint is eliminated.
    def eliminate(articulated, link):
        columns, joint_inertia = link
        rows, inverses = [], []
        for k in reversed(range(count)):
            row = jnp.sum(columns[k][:, None] * articulated, axis=0)
            push = row[:6]
            inverses.append(1.0 / (small.dot(columns[k], push) + joint_inertia[k]))
            rows.append(row * inverses[-1])
            articulated = articulated - push[:, None] * rows[-1][None]
        return articulated, (jnp.stack(rows[::-1]), jnp.stack(inverses[::-1]))

    whole, kept = scan_up(
        tree.forest,
        eliminate,
        _with_grounds(tree, jnp.moveaxis(jnp.concatenate([inertia, bias[:, None]], axis=1), -1, 0)),
        (columns, joint_inertia.T),
    )
    blank = jnp.zeros((0, count, 7), bias.dtype)
    rows, inverses = (blank, blank[..., 0]) if kept is None else kept
    articulated = jnp.moveaxis(whole[: tree.bases], 0, -1)
    factors = Articulated(rows[..., :6], inverses, small.inverse(articulated[:, :6]))
    bases = -small.matvec(factors.bases, articulated[:, 6])
    return _propagate_accelerations(tree, motion, factors.rows, -rows[..., 6], bases), factors


def _propagate_accelerations(
    tree: Tree,
    motion: Kinematics,
    rows: Float[Array, "links nv 6"],
    rates: Float[Array, "links nv"],
    bases: Float[Array, "6 bases"],
) -> Accelerations:
    """Accelerations of free joints from those of the bases, inertial components, and from the
    `rates` that joint velocities would have on nearer frames without acceleration.
    """
    columns = jnp.moveaxis(motion.columns, -1, 0)
    count = columns.shape[1]

    # Passed outwards: acceleration of a frame beyond its drift. Each velocity of the joint takes
    # the rate that balances its row for the acceleration of the frame before it, and adds S times
    # that rate. Outwards, because the nearer frame's acceleration has to be known.
    def follow(acceleration, link):
        columns, rows, rates = link
        balanced = []
        for k in range(count):
            balanced.append(rates[k] - small.dot(rows[k], acceleration))
            acceleration = total(acceleration, columns[k] * balanced[-1])
        return acceleration, jnp.stack(balanced)

    _, accelerations = scan_down(tree.forest, follow, _roots(tree, bases.T), (columns, rows, rates))
    back = small.transpose(motion.rotation[..., : tree.bases])
    return Accelerations(rotate(back, bases).T, rates if accelerations is None else accelerations)


def free_accelerations(
    tree: Tree, motion: Kinematics, factors: Articulated, forces: Accelerations
) -> Accelerations:
    """Accelerations that forces on bases and joints give to the tree at rest, from its factors."""
    count = motion.columns.shape[0]

    # Passed inwards: wrench that a link hands to its parent, as in `articulated_bodies`.
    def eliminate(wrench, link):
        columns, rows, inverses, forces = link
        rates = []
        for k in reversed(range(count)):
            push = forces[k] - small.dot(columns[k], wrench)
            rates.append(inverses[k] * push)
            wrench = total(wrench, rows[k] * push)
        return wrench, jnp.stack(rates[::-1])

    none = jnp.zeros((tree.forest.roots + len(tree.forest.parents), 6), forces.bases.dtype)
    columns = jnp.moveaxis(motion.columns, -1, 0)
    links = columns, factors.rows, factors.inverses, forces.rates
    whole, rates = scan_up(tree.forest, eliminate, none, links)
    pushes = rotate(motion.rotation[..., : tree.bases], forces.bases.T) - whole[: tree.bases].T
    bases = small.matvec(factors.bases, pushes)
    return _propagate_accelerations(
        tree, motion, factors.rows, forces.rates if rates is None else rates, bases
    )


def frame_accelerations(
    tree: Tree,
    motion: Kinematics,
    accelerations: Accelerations,
    beyond_joints: Float[Array, "6 links"] | None = None,
) -> SpatialVectors:
    """Accelerations of all frames beyond their drift; `beyond_joints` as in `kinematics`."""
    bases = rotate(motion.rotation[..., : tree.bases], accelerations.bases.T)
    grown = jnp.sum(motion.columns * accelerations.rates.T[:, None], axis=0).T
    if beyond_joints is not None:
        grown = grown + beyond_joints.T
    links, _ = scan_down(
        tree.forest,
        lambda nearer, grown: (total(nearer, grown), None),
        _roots(tree, bases.T),
        grown,
    )
    return join(bases, links.T)


def inverse_dynamics(
    tree: Tree,
    motion: Kinematics,
    joint_inertia: JointInertias,
    inertia: SpatialInertias,
    bias: SpatialVectors,
    accelerations: Accelerations | None,
) -> tuple[Float[Array, "bases 6"], Float[Array, "links nv"]]:
    """Wrenches on the bases, base's components, and joint forces that accelerations need.

    By the recursive Newton-Euler algorithm; None for no accelerations. `bias` is the wrench that
    keeps velocities constant, less that which acts on the body.
    """
    whole, rotation = (
        transmitted_wrenches(tree, motion, inertia, bias, accelerations),
        motion.rotation,
    )
    forces = jnp.sum(motion.columns * whole[None, :, tree.bases :], axis=1).T
    if accelerations is not None:
        forces = forces + joint_inertia.T * accelerations.rates
    back = small.transpose(rotation[..., : tree.bases])
    return rotate(back, whole[:, : tree.bases]).T, forces


def transmitted_wrenches(
    tree: Tree,
    motion: Kinematics,
    inertia: SpatialInertias,
    bias: SpatialVectors,
    accelerations: Accelerations | None,
) -> SpatialVectors:
    """Wrenches that each base and link, with everything beyond it, takes from the nearer side."""
    wrench = bias
    if accelerations is not None:
        beyond_drift = frame_accelerations(tree, motion, accelerations)
        wrench = wrench + small.matvec(inertia, beyond_drift)
    # Passed inwards: the wrench that a link and everything beyond it needs, of which each joint has
    # to supply the part along its columns.
    return _sums(tree, wrench)


Factor = tuple[Float[Array, "bases 6 6"], Float[Array, "links nv 6"]]


def mass_matrix_factors(
    tree: Tree, motion: Kinematics, inertia: SpatialInertias
) -> tuple[Factor, Factor]:
    """Twists for unit velocities, and momenta of everything that then moves as one body; each of
    bases (bases, 6, 6) and of links (links, nv, 6).

    By the composite-rigid-body algorithm. The products of twists and momenta are the mass matrix.
    """
    beyond, rotation = _sums(tree, inertia), motion.rotation[..., : tree.bases]
    none = jnp.zeros_like(rotation)
    frames = small.block_2x2(rotation, none, none, rotation)
    momenta = small.matmul(beyond[..., : tree.bases], frames)
    of_links = jnp.sum(beyond[None, ..., tree.bases :] * motion.columns[:, None], axis=2)
    return (
        (frames.T, jnp.moveaxis(motion.columns, -1, 0)),
        (momenta.T, jnp.moveaxis(of_links, -1, 0)),
    )


def sums_beyond(tree: Tree, values: Float[Array, "frames ..."]) -> Float[Array, "frames ..."]:
    """Sums of the values of each base and link and of everything beyond it."""
    whole = totals(tree.forest, _with_grounds(tree, values))
    grounds = tree.forest.roots - tree.bases
    if not grounds:
        return whole
    return jnp.concatenate([whole[: tree.bases], whole[tree.forest.roots :]])


def _sums(tree: Tree, values: Float[Array, "*size frames"]) -> Float[Array, "*size frames"]:
    return jnp.moveaxis(sums_beyond(tree, jnp.moveaxis(values, -1, 0)), 0, -1)


def _with_grounds(tree: Tree, values: Float[Array, "frames ..."]) -> Float[Array, "slots ..."]:
    grounds = jnp.zeros((tree.forest.roots - tree.bases, *values.shape[1:]), values.dtype)
    return jnp.concatenate([values[: tree.bases], grounds, values[tree.bases :]])


def _roots(tree: Tree, bases: Float[Array, "bases 6"]) -> Float[Array, "roots 6"]:
    grounds = jnp.zeros((tree.forest.roots - tree.bases, 6), bases.dtype)
    return jnp.concatenate([bases, grounds])
