"""Dynamics of flexible bodies against sums over the nodes of a mesh, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lie_jax.groups import so3
from lie_jax.mechanics.flexible import deformation, interfaces
from lie_jax.mechanics.flexible.deformation import Deformation, Motion
from lie_jax.mechanics.flexible.interfaces import Interface
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench

# Sums over a mesh of unit size, and their derivatives.
TOLERANCE = 1e-12
NODES, MODES = 20, 3


class Mesh:
    """Nodes, modes and mass of no shape in particular, and a deformation with their integrals."""

    def __init__(self, seed, has_damping=True):
        draw = np.random.default_rng(seed)
        self.x, self.modes = draw.normal(size=(NODES, 3)), draw.normal(size=(NODES, 3, MODES))
        root = draw.normal(size=(NODES, NODES))
        self.mass = root @ root.T / NODES
        weighted = np.einsum("ij,jbk->ibk", self.mass, self.modes)
        stiffness, spin = draw.normal(size=(MODES, MODES)), draw.normal(size=(6, MODES, MODES))
        self.spin = spin + spin.swapaxes(1, 2)
        self.stiffness = stiffness @ stiffness.T
        self.damping = 0.1 * self.stiffness if has_damping else None
        arrays = {
            "first": weighted.sum(axis=0),
            "mixed": np.einsum("ia,ibk->abk", self.x, weighted),
            "second": np.einsum("iak,ibl->abkl", self.modes, weighted),
            "stiffness": self.stiffness,
            "points": draw.normal(size=(1, 3)),
            "shifts": draw.normal(size=(1, 3, MODES)),
            "turns": draw.normal(size=(1, 3, MODES)),
        }
        self.deformation = Deformation(
            **jax.tree.map(jnp.asarray, arrays),
            damping=None if self.damping is None else jnp.asarray(self.damping),
            spin=jnp.asarray(self.spin) if has_damping else None,
        )
        of = self.deformation
        self.interface = Interface(of.points[0], of.shifts[0], of.turns[0])
        rotation = so3.exp(jnp.asarray(draw.normal(size=3)))
        vectors = jnp.asarray(draw.normal(size=(3, 3)))
        self.motion = Motion(rotation, *vectors, *jnp.asarray(draw.normal(size=(3, MODES))))
        self.position, self.velocity = jnp.asarray(draw.normal(size=(2, 3)))


def _moved(motion, along, rates, growth):
    """The motion with its pose and amplitudes moved along hybrid velocities, and these changed."""
    return Motion(
        motion.rotation @ so3.exp(along[3:6]),
        motion.omega + rates[3:6],
        motion.acceleration + growth[:3],
        motion.angular + growth[3:6],
        motion.amplitudes + along[6:],
        motion.rates + rates[6:],
        motion.growth + growth[6:],
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_inertia_forces_are_sums_over_the_nodes(seed):
    mesh = Mesh(seed)
    rotation, omega, acceleration, angular, e, rates, growth = map(np.asarray, mesh.motion)
    own = rotation.T @ acceleration

    def forces(amplitudes, rates, growth):
        at, moving = mesh.x + mesh.modes @ amplitudes, mesh.modes @ rates
        centripetal = np.cross(omega, np.cross(omega, at)) + 2.0 * np.cross(omega, moving)
        total = own + np.cross(angular, at) + mesh.modes @ growth + centripetal
        return at, mesh.mass @ total

    zero = np.zeros(MODES)
    (at, whole), (x, rigid) = forces(e, rates, growth), forces(zero, zero, zero)
    products = omega[[0, 1, 2, 0, 1, 2]] * omega[[0, 1, 2, 1, 2, 0]]
    elastic = mesh.stiffness @ e + mesh.damping @ rates
    elastic += np.einsum("p,pkl,l->k", products, mesh.spin, e)
    force, torque, along = deformation.forces(mesh.deformation, mesh.motion)
    np.testing.assert_allclose(
        force, rotation @ (whole - rigid).sum(axis=0), rtol=0, atol=100 * TOLERANCE
    )
    np.testing.assert_allclose(
        torque,
        np.cross(at, whole).sum(axis=0) - np.cross(x, rigid).sum(axis=0),
        rtol=0,
        atol=1000 * TOLERANCE,
    )
    expected = np.einsum("iak,ia->k", mesh.modes, whole) + elastic
    np.testing.assert_allclose(along, expected, rtol=0, atol=1000 * TOLERANCE)


@pytest.mark.parametrize("has_damping", [True, False])
def test_matrices_are_derivatives(has_damping):
    mesh = Mesh(2, has_damping)
    none = jnp.zeros(6 + MODES)

    def forces(*moved):
        return jnp.concatenate(deformation.forces(mesh.deformation, _moved(mesh.motion, *moved)))

    stiffness, damping, mass = jax.jacfwd(forces, (0, 1, 2))(none, none, none)
    got = deformation.matrices(mesh.deformation, mesh.motion)
    for name, x, y in zip(got._fields, got, (mass, stiffness, damping), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e3 * TOLERANCE, err_msg=name)


def test_energies_and_momenta_are_sums_over_the_nodes():
    mesh = Mesh(3)
    rotation, omega, _, _, e, rates, _ = map(np.asarray, mesh.motion)
    position, velocity = np.asarray(mesh.position), np.asarray(mesh.velocity)

    def sums(amplitudes, rates):
        at, moving = mesh.x + mesh.modes @ amplitudes, mesh.modes @ rates
        rate = velocity + (np.cross(omega, at) + moving) @ rotation.T
        momentum = mesh.mass @ rate
        places = position + at @ rotation.T
        return (
            0.5 * np.sum(rate * momentum),
            momentum.sum(axis=0),
            np.cross(places, momentum).sum(axis=0),
        )

    zero = np.zeros(MODES)
    expected = [x - y for x, y in zip(sums(e, rates), sums(zero, zero), strict=True)]
    moving = mesh.velocity, mesh.motion.omega, mesh.motion.amplitudes, mesh.motion.rates
    of, turned = mesh.deformation, mesh.motion.rotation
    got = [
        deformation.kinetic_energy(of, turned, *moving),
        *deformation.momentum(of, turned, mesh.position, *moving),
    ]
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e3 * TOLERANCE)


def test_interfaces_move_and_pull_back_by_their_columns():
    mesh = Mesh(4)
    at, motion = mesh.interface, mesh.motion
    body, moving = (
        BodyPose(motion.rotation, mesh.position),
        BodyVelocity(mesh.velocity, motion.omega),
    )
    e, rates = motion.amplitudes, motion.rates
    none, along = jnp.zeros(6 + MODES), jnp.concatenate([*moving, rates])

    def moved(z):
        turned = BodyPose(body.rotation @ so3.exp(z[3:6]), body.position + z[:3])
        return turned, e + z[6:]

    # The velocity is the rate of the pose.
    pose, rate = jax.jvp(lambda z: interfaces.pose(at, *moved(z)), (none,), (along,))
    velocity = interfaces.velocity(at, body, moving, e, rates)
    omega = so3.vee(pose.rotation.T @ rate.rotation)
    np.testing.assert_allclose(velocity.linear, rate.position, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(velocity.omega_body, omega, rtol=0, atol=TOLERANCE)
    columns = interfaces.columns(at, body, e)
    np.testing.assert_allclose(columns @ along, jnp.concatenate(velocity), rtol=0, atol=TOLERANCE)
    changes = jax.jacfwd(
        lambda z: jnp.concatenate(interfaces.velocity(at, moved(z)[0], moving, moved(z)[1], rates))
    )(none)
    got = interfaces.change_of_velocity(at, body, moving, e, rates)
    np.testing.assert_allclose(got, changes, rtol=0, atol=10 * TOLERANCE)

    wrench = Wrench(motion.acceleration, motion.angular)

    def pulled(z):
        result = interfaces.pull_back(at, *moved(z), wrench)
        return jnp.concatenate([*result.wrench, result.along])

    np.testing.assert_allclose(
        pulled(none), columns.T @ jnp.concatenate(wrench), rtol=0, atol=TOLERANCE
    )
    got = interfaces.pull_back_change(at, body, e, wrench)
    np.testing.assert_allclose(got, jax.jacfwd(pulled)(none), rtol=0, atol=10 * TOLERANCE)
