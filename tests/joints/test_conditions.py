"""Closed forms of joints are the derivatives that a joint of one's own inherits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.extend import BodyPose
from lie_jax.mechanics.joints.composed import AbstractComposedJoint
from lie_jax.systems.system import accelerations_and_multipliers
from tests.joints.kinds import KINDS, joint_of

# Rounding of products of a few numbers of the order one.
ROUNDING = 1e-14
VELOCITY_JOINTS = (
    lie_jax.RollingDisc("a", "b", 0.3, (0.6, 0.0, 0.8), (0.0, 0.6, 0.8), (0.1, 0.2, 0.3)),
    lie_jax.GearJoint("a", "b", (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), 2.0),
)


def _pose(rng):
    return BodyPose(
        lie_jax.groups.so3.exp(jnp.asarray(rng.normal(size=3))), jnp.asarray(rng.normal(size=3))
    )


@pytest.mark.full
def test_reaction_and_stiffness_are_the_inherited_derivatives():
    """Of all joints, far from where their constraints hold."""
    rng, t = np.random.default_rng(11), jnp.asarray(0.3)
    joints = [joint_of(kind, "a", "b", rng) for kind in KINDS]
    rows = [joint.rows for joint in joints]
    assert rows == list(KINDS.values())
    cases = [
        (joint, _pose(rng), _pose(rng), jnp.asarray(rng.normal(size=joint.rows)))
        for joint in joints
    ]

    def pair(joint, *instant):
        inherited = lie_jax.extend.AbstractJoint
        closed = joint.stiffness(t, *instant)
        return (
            (joint.reaction(t, *instant), inherited.reaction(joint, t, *instant)),
            (
                [jnp.zeros((6, 6)) if block is None else block for block in closed],
                list(inherited.stiffness(joint, t, *instant)),
            ),
        )

    evaluated = jax.jit(lambda cases: [pair(*case) for case in cases])(cases)
    for joint, pairs in zip(joints, evaluated, strict=True):
        for closed, derived in pairs:
            for a, b in zip(jax.tree.leaves(closed), jax.tree.leaves(derived), strict=True):
                assert_allclose(a, b, atol=ROUNDING, err_msg=type(joint).__name__)


@pytest.mark.parametrize("joint", VELOCITY_JOINTS, ids=lambda joint: type(joint).__name__)
def test_reactions_of_velocity_constraints_are_inherited_too(joint):
    """A disc that touches its plane in one point, and gears."""
    rng, t = np.random.default_rng(12), jnp.asarray(0.0)
    multipliers = jnp.asarray(rng.normal(size=joint.rows + joint.velocity_rows))
    instant = _pose(rng), _pose(rng), multipliers
    inherited = lie_jax.extend.AbstractJoint.reaction
    closed, derived = jax.jit(
        lambda joint, *instant: (joint.reaction(t, *instant), inherited(joint, t, *instant))
    )(joint, *instant)
    for a, b in zip(jax.tree.leaves(closed), jax.tree.leaves(derived), strict=True):
        assert_allclose(a, b, atol=ROUNDING)


class _OwnHinge(lie_jax.extend.AbstractJoint):
    """A hinge from `rows` and `constraint` alone, about an axis across two directions."""

    rows = 5
    across: jax.Array
    axis: jax.Array

    def constraint(self, t, parent, child):
        """Vector between the origins, and the child's axis across the parent's."""
        axis = parent.rotation.T @ (child.rotation @ self.axis)
        return jnp.concatenate([child.position - parent.position, self.across @ axis])


def _own_and_built_in_hinges(formulation):
    """A swinging body on either of them: systems and states."""
    axis, across = jnp.asarray([0.0, 0.0, 1.0]), jnp.eye(3)[:2]
    body = lie_jax.Body(
        "b", 1.0, np.diag([1.0, 1.2, 1.4]), center_of_mass=(0.3, 0.1, 0.0),
        omega_body=(0.0, 0.0, 1.0),
    )  # fmt: skip
    for joint in (
        _OwnHinge("ground", "b", across, axis),
        lie_jax.RevoluteJoint("ground", "b", axis),
    ):
        mechanism = lie_jax.Mechanism([body], [joint], gravity=(0.0, -9.81, 0.0))
        yield lie_jax.assemble(mechanism, formulation)


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.SE3(), lie_jax.EulerParameters()], ids=str)
def test_a_joint_of_ones_own_moves_as_a_built_in_one(formulation):
    """Generalized-α steps with its inherited reaction and stiffness; fewer members suffice."""
    ends = []
    for system, state in _own_and_built_in_hinges(formulation):
        run = lie_jax.simulate(
            system, lie_jax.GeneralizedAlpha(jacobian="analytic"), state, dt=1e-2, steps=5
        )
        ends.append(run.q[-1])
    # Newton's method stops at some 1e-10 of the motion.
    assert_allclose(*ends, atol=1e-9)


# `make test` has accelerations with joints of one's own in the tests of their motions.
@pytest.mark.full
def test_a_joint_of_ones_own_has_the_equations_of_a_built_in_one():
    """Accelerations, multipliers, and K of a step's matrix under other multipliers."""
    given = jnp.asarray([3.0, -2.0, 1.5, 0.7, -0.4])

    @jax.jit
    def equations(system, state):
        q, v = state.q, state.v
        linear = system.linearization(0.0, q, v, v, given, None).dense()
        return accelerations_and_multipliers(system, 0.0, q, v), linear.stiffness

    results = [equations(*assembled) for assembled in _own_and_built_in_hinges(lie_jax.SE3())]
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        assert_allclose(a, b, atol=1e3 * ROUNDING)


def test_composed_joints_are_their_conditions():
    """Rows of the conditions add up to those of the joint; nothing is compiled for it."""
    rng, t = np.random.default_rng(11), jnp.asarray(0.3)
    joints = [joint_of(kind, "a", "b", rng) for kind in KINDS]
    composed = [joint for joint in joints if isinstance(joint, AbstractComposedJoint)]
    assert len(composed) == 9
    for joint in composed:
        conditions = jax.eval_shape(lambda joint: joint.conditions(t), joint)
        assert joint.rows == sum(condition.rows for condition in conditions)
