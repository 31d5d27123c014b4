"""Lines of order 4: mass along elements, with linear strains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams
from lie_jax.groups import quaternion, se3, so3
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from lie_jax.systems.system import AbstractSystem

# Of two ways to the same numbers, relative to the largest of these.
ROUNDING = 1e-12
GRAVITY = (0.3, 1.0, -9.81)


def build(formulation, elements=2, order=4, start=None):
    section = beams.Section(
        jnp.asarray([1e2, 8e1, 9e1, 50.0, 60.0, 70.0]), 1.0, (10.0, 7.0, 5.0), (0.1,) * 6
    )
    line = beams.line(
        "beam",
        section,
        4.0,
        elements,
        orientation=(0.8, 0.0, 0.0, 0.6),
        rest_strain=(1.0, 0.0, 0.0, 0.05, 0.1, 0.2),
        start=start,
        order=order,
    )
    bodies = [*line.nodes] if start is None or start == "ground" else [start, *line.nodes]
    mechanism = lie_jax.Mechanism(
        bodies, forces=line.elements, gravity=GRAVITY, inertias=line.inertias
    )
    return lie_jax.assemble(mechanism, formulation)


def moving(system, state):
    rng = np.random.default_rng(5)
    q = system.space.retract(state.q, jnp.asarray(0.2 * rng.normal(size=system.nv)))
    return q, *(jnp.asarray(rng.normal(size=system.nv)) for _ in range(2))


def close(one, other):
    assert_allclose(one, other, atol=ROUNDING * float(jnp.max(jnp.abs(other))))


def energy_of_sections(element, poses, velocities):
    """Kinetic energy of sections at both nodes and in the middle of the screw between them, by
    exponential and logarithm; velocities are derivatives.
    """
    rates = [
        BodyPose(pose.rotation @ so3.hat(velocity.omega_body), velocity.linear)
        for pose, velocity in zip(poses, velocities, strict=True)
    ]

    def sections(poses):
        points = element.parent_point, element.child_point
        turns = element.parent_orientation, element.child_orientation
        start, end = (
            se3.pose(
                pose.rotation @ quaternion.to_matrix(turn), pose.rotation @ point + pose.position
            )
            for pose, point, turn in zip(poses, points, turns, strict=True)
        )
        middle = start @ se3.exp(0.5 * se3.log(se3.inverse(start) @ end))
        return jnp.stack([start, end, middle])

    frames, changes = jax.jvp(sections, (list(poses),), (rates,))
    energies = []
    for frame, change in zip(frames, changes, strict=True):
        speed, spin = change[:3, 3], so3.vee(frame[:3, :3].T @ change[:3, :3])
        energies.append(0.5 * (element.mass * speed @ speed + spin @ element.inertia @ spin))
    return element.length * (energies[0] + energies[1] + 4.0 * energies[2]) / 6.0


def random_element(seed=3):
    """An element between two bodies at random, its middle far from the middle of its nodes."""
    rng = np.random.default_rng(seed)

    def array(*shape):
        return jnp.asarray(rng.normal(size=shape))

    def turn():
        return np.asarray(array(4) / jnp.linalg.norm(array(4)))

    element = beams.BeamInertia(
        "a", "b", 0.7, 2.0, np.diag([3.0, 2.0, 1.0]) + 0.1,
        parent_point=array(3), child_point=array(3),
    )  # fmt: skip
    poses = tuple(BodyPose(so3.exp(0.8 * array(3)), array(3)) for _ in range(2))
    motions = [tuple(BodyVelocity(array(3), array(3)) for _ in range(2)) for _ in range(2)]
    return element, poses, *motions, array(3)


def test_wrenches_are_lagrange_s_of_the_sections_energy():
    element, poses, velocities, accelerations, gravity = random_element()

    @jax.jit
    def check(*motion):
        energies = element.kinetic_energy(*motion[:2]), energy_of_sections(element, *motion[:2])
        acting = element.wrenches(*motion, gravity)
        derived = lie_jax.extend.AbstractInertia.wrenches(element, *motion, gravity)
        return energies, tuple(jnp.stack(jax.tree.leaves(x)) for x in (acting, derived))

    for pair in check(poses, velocities, accelerations):
        close(*pair)


def test_single_precision_stays_single():
    element, *motion = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), random_element())

    def all_of(poses, velocities, accelerations, gravity):
        changes = jnp.ones((2, 18, 1), jnp.float32)
        at = poses, velocities, accelerations, gravity
        return (
            element.wrenches(*at),
            element.derivatives(*at, changes),
            element.momentum(poses, velocities),
            element.mass_moment(poses),
        )

    for value in jax.tree.leaves(jax.eval_shape(all_of, *motion)):
        assert value.dtype == jnp.float32


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.SE3(), lie_jax.R3SO3()])
def test_blocks_are_derivatives_and_laws_of_balance_hold(formulation):
    system, state = build(formulation)

    @jax.jit
    def check(q, v, acceleration):
        none = jnp.zeros(0)
        at = 0.0, q, v, acceleration, none, None
        written = system.linearization(*at).dense()
        derived = AbstractSystem.linearization(system, *at)
        unit, zero = jnp.eye(system.nv), jnp.zeros(system.nv)
        pushes = (
            lambda d: derived.push(system.space.lift(q, d), zero, zero),
            lambda d: derived.push(0.0 * q, d, zero),
            lambda d: derived.push(0.0 * q, zero, d),
        )
        columns = [jax.vmap(push, out_axes=1)(unit) for push in pushes]
        motion = system.acceleration(0.0, q, v)
        rates = system.space.lift(q, v), motion

        def readings(q, v):
            energy = system.kinetic_energy(q, v) + system.potential_energy(q)
            return energy, *system.momentum(q, v)

        _, changes = jax.jvp(readings, (q, v), rates)
        energy = system.kinetic_energy(q, v), 0.5 * v @ system.mass_matrix(q) @ v
        blocks = written.stiffness, written.damping, written.mass
        powers = system.powers(0.0, q, v, none).forces
        left = system.residual(0.0, q, v, motion, none, None)
        return energy, blocks, columns, left, changes, powers

    energy, blocks, columns, left, changes, powers = check(*moving(system, state))
    close(*energy)
    for one, other in zip(blocks, columns, strict=True):
        close(one, other)
    assert_allclose(left, 0.0, atol=1e-9)
    # Damping takes what the energy loses; 4 kg fall.
    assert_allclose(changes[0], jnp.sum(powers), rtol=1e-9)
    assert_allclose(changes[1], 4.0 * np.asarray(GRAVITY), atol=1e-9)


# Flap frequencies ω √(ρAL⁴/EI) of a cantilever that turns at Ω √(ρAL⁴/EI) = 6, by shooting.
FLAP = (7.3603730193100, 26.809081678498, 66.683914381505)


def flap_frequencies(elements):
    section = beams.Section((3e7, 3e7, 3e7, 1.0, 1.0, 1.0), 1.0, (2e-8, 1e-8, 1e-8))
    hub = lie_jax.Body("hub", 1.0, np.eye(3))
    line = beams.line("blade", section, 1.0, elements, start=hub, order=4)
    hinge = lie_jax.RevoluteJoint("ground", "hub", (0.0, 0.0, 1.0))
    joints = [hinge, lie_jax.JointDriver(hinge, value=lambda t: 6.0 * t)]
    mechanism = lie_jax.Mechanism(
        [hub, *line.nodes], joints, line.elements, gravity=(0, 0, 0), inertias=line.inertias
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    state = lie_jax.equilibrium(system, state, rate=(0.0, 0.0, 6.0))
    result = lie_jax.modes(system, state, number=6)
    shapes = np.abs(result.shapes.reshape(6, -1, 6)).max(axis=1)
    return np.asarray(result.frequencies)[shapes[:, 2] > shapes[:, 1]]


@pytest.mark.full
def test_flap_frequencies_are_of_the_fourth_order():
    coarse, middle, fine = (flap_frequencies(elements) / FLAP - 1.0 for elements in (8, 16, 64))
    assert_allclose(np.log2(np.abs(coarse / middle)), [4.0] * 3, atol=0.3)
    # Shear, extension and rotary inertia take some 2e-7, 8e-7 and 2e-6 from them.
    assert np.all(np.abs(fine[:2]) < 1e-6)


def test_joint_coordinates_refuse_mass_between_bodies():
    with pytest.raises(ValueError, match=r"inertias=.*lie_jax.SE3\(\).*order=2"):
        build(lie_jax.Minimal(), start="ground")


def test_nodes_have_no_mass_of_their_own_and_need_their_inertias():
    section = beams.circle(0.01, young=2e11, shear=8e10, density=7850.0)
    line = beams.line("beam", section, 1.0, 3, order=4)
    assert all(node.is_massless for node in line.nodes)
    with pytest.raises(ValueError, match=r"line\(order=\) is 3"):
        beams.line("beam", section, 1.0, 3, order=3)
    with pytest.raises(ValueError, match=r"Body\('beam 0'\) has no mass.*inertias"):
        lie_jax.assemble(lie_jax.Mechanism(line.nodes, forces=line.elements), lie_jax.SE3())
    with pytest.raises(ValueError, match="inertias"):
        lie_jax.Mechanism(line.nodes, forces=line.inertias)
