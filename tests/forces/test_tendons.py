"""Forces along combinations of joint coordinates, and along lines through points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.messages import check_message

# Rounding of a few operations.
CLOSE = 1e-12
# Two ways to integrate 0.1 s by a method of fourth order, with errors below 1e-9.
SAME = 1e-8
INERTIA = np.diag([0.02, 0.03, 0.025])
BODIES = [
    lie_jax.Body("a", 1.0, INERTIA, center_of_mass=(0.0, 0.1, -0.2)),
    lie_jax.Body("b", 0.7, INERTIA, center_of_mass=(0.1, 0, -0.2), position=(0, 0, -0.5)),
    lie_jax.Body("c", 0.5, INERTIA, position=(0, 0, -1.0)),
]
JOINTS = [
    lie_jax.RevoluteJoint("ground", "a", (0, 1, 0)),
    lie_jax.RevoluteJoint("a", "b", (1, 1, 0), (0, 0, -0.5)),
    lie_jax.PrismaticJoint("b", "c", (0, 0, 1), (0, 0, -0.5)),
]
WEIGHTS = np.asarray([1.0, -0.5, 2.0])
LINE = [("ground", (0.3, 0.1, 0)), ("a", (0.1, 0, -0.1)), ("a", (0.1, 0.2, -0.3)), ("c", (0, 1, 0))]


def _mechanism(*forces, gravity=(0.0, 0.0, -9.81)):
    return lie_jax.Mechanism(BODIES, JOINTS, list(forces), gravity)


@pytest.mark.full
def test_forces_in_joint_coordinates_and_their_energy():
    """Also beyond half a turn; against closed forms and differences of the energy."""
    band = lie_jax.CouplingForce(JOINTS, WEIGHTS, stiffness=3.0, damping=0.2, relaxed=(0.5, 0.9))
    drive = lie_jax.CouplingForce(JOINTS[1:2], [1.0], stiffness=2.0, input=0, limits=(-5.0, 4.0))
    cable = lie_jax.PathForce(LINE, stiffness=10.0, relaxed=(0.5, 0.6))
    none = (0.0, 0.0, 0.0)
    system, _ = lie_jax.assemble(_mechanism(band, drive, gravity=none), lie_jax.Minimal())
    spanned, _ = lie_jax.assemble(_mechanism(cable, gravity=none), lie_jax.Minimal())

    @jax.jit
    def computed(q, v, u):
        return (
            system.force(0.0, q, v, u) - system.force(0.0, q, v, 0.0 * u + 1e9),
            system.force(0.0, q, 0.0 * v, u),
            system.potential_energy(q),
            spanned.force(0.0, q, 0.0 * v),
            jax.grad(spanned.potential_energy)(q),
            jax.grad(system.potential_energy)(q),
        )

    for q in ([5.0, -4.0, 0.3], [0.6, 0.2, 0.1], [-7.0, 1.0, 0.2]):
        q, u = np.asarray(q), 0.7
        length = WEIGHTS @ q
        stretch = max(length - 0.9, 0.0) + min(length - 0.5, 0.0)
        pull = np.clip(u - 2.0 * q[1], -5.0, 4.0)
        still = jnp.zeros(3)
        difference, force, energy, along, slope, of_band = computed(q, still, jnp.asarray([u]))
        expected = -3.0 * stretch * WEIGHTS + [0.0, pull, 0.0]
        assert_allclose(force, expected, atol=CLOSE * 100)
        assert_allclose(difference, [0.0, pull - 4.0, 0.0], atol=CLOSE * 100)
        assert_allclose(energy, 1.5 * stretch**2, atol=CLOSE * 100)
        assert_allclose(of_band, 3.0 * stretch * WEIGHTS, atol=CLOSE * 100)
        assert_allclose(along, -slope, atol=CLOSE * 100)
        assert np.abs(slope).max() > 0.1


@pytest.mark.full
def test_absolute_coordinates_move_as_joint_coordinates():
    """A hinge passes half a turn, and a servo leaves its limits."""
    forces = (
        lie_jax.CouplingForce(JOINTS, WEIGHTS, stiffness=1.0, damping=0.1, relaxed=(0.5, 0.9)),
        lie_jax.CouplingForce(
            JOINTS[1:2], [1.0], stiffness=2.0, damping=0.1, input=0, limits=(-3.0, 3.0)
        ),
        lie_jax.PathForce(LINE, stiffness=10.0, damping=0.3, relaxed=(0.5, 0.6)),
    )
    angles = {("ground", "a"): 3.0, ("a", "b"): -0.7, ("b", "c"): 0.1}
    ends, steps = [], 100
    for formulation in (lie_jax.Minimal(), lie_jax.R3SO3()):
        mechanism = lie_jax.place(_mechanism(*forces), angles)
        system, state = lie_jax.assemble(mechanism, formulation)
        start = lie_jax.assemble(mechanism, lie_jax.Minimal())
        rates = jnp.asarray([6.0, 1.0, -0.3])
        twists = start[0].twists(start[1].q, rates).reshape(-1, 6)
        if formulation == lie_jax.Minimal():
            state = lie_jax.State(state.q, rates)
        else:
            rotations, _ = system.poses(state.q)
            linear = jax.vmap(jnp.matmul)(rotations, twists[:, :3])
            state = lie_jax.State(state.q, jnp.concatenate([linear, twists[:, 3:]], 1).reshape(-1))
        inputs = jnp.full((steps, 1), 2.5)
        run = lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), state, dt=1e-3, steps=steps, inputs=inputs
        )
        ends.append(system.joint_coordinates(run.q, run.v, run.t))
    for label, values in ends[0].items():
        assert_allclose(ends[1][label], values, atol=SAME)
    assert ends[0]["ground", "a"][-1] > np.pi


BAD = {
    "joints": lambda: lie_jax.CouplingForce([], []),
    "coefficients": lambda: lie_jax.CouplingForce(JOINTS, [1.0, 2.0]),
    "limits": lambda: lie_jax.CouplingForce(JOINTS[:1], [1.0], limits=(2.0, 1.0)),
    "relaxed": lambda: lie_jax.PathForce(LINE, relaxed=0.3),
    "points": lambda: lie_jax.PathForce(LINE[:1]),
    "the point of 'a'": lambda: lie_jax.PathForce([LINE[0], ("a", (0.0, 1.0))]),
    "input": lambda: lie_jax.PathForce(LINE, input=-1),
    "stiffness": lambda: lie_jax.PathForce(LINE, stiffness=-1.0),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_named(name):
    check_message(BAD[name], name, "must")
