"""A massless body may stand between joints in joint coordinates, and nowhere else."""

import equinox as eqx
import jax.numpy as jnp
import pytest

import lie_jax


def _gimbal(**middle):
    none = jnp.zeros((3, 3))
    inner = lie_jax.Body("inner", **{"mass": 0.0, "inertia": none, **middle})
    rotor = lie_jax.Body("rotor", 1.0, jnp.diag(jnp.asarray([1.0, 2.0, 1.5])))
    hinge = lie_jax.RevoluteJoint("ground", "inner", (1.0, 0.0, 0.0))
    second = lie_jax.RevoluteJoint("inner", "rotor", (0.0, 1.0, 0.0))
    return lie_jax.Mechanism([inner, rotor], [hinge, second])


def test_a_massless_body_stands_between_joints_in_joint_coordinates():
    lie_jax.assemble(_gimbal(), lie_jax.Minimal())
    with pytest.raises(ValueError, match=r"Body\('inner'\) has no mass"):
        lie_jax.assemble(_gimbal(), lie_jax.SE3())
    with pytest.raises(ValueError, match=r"inner.*mass is 0"):
        _gimbal(inertia=jnp.eye(3))
    with pytest.raises(ValueError, match="principal moments"):
        _gimbal(mass=1.0)
    alone = lie_jax.Mechanism(_gimbal().bodies[:1], _gimbal().joints[:1])
    with pytest.raises(ValueError, match="carries no body"):
        lie_jax.assemble(alone, lie_jax.Minimal())
    floating = lie_jax.Mechanism(_gimbal().bodies, _gimbal().joints[1:])
    with pytest.raises(ValueError, match="no joint holds it"):
        lie_jax.assemble(floating, lie_jax.Minimal())


@pytest.mark.full
@pytest.mark.parametrize("part", ["body", "joint"])
def test_a_run_that_meets_a_singular_block_names_it(part):
    """A body that has lost its mass after `assemble`; a joint whose constraints vanish."""

    class Idle(lie_jax.extend.AbstractJoint):
        rows = 1

        def constraint(self, t, parent, child):
            return 0.0 * child.position[:1]

    bodies = [lie_jax.Body(name, 1.0, jnp.eye(3)) for name in "ab"]
    joints = [lie_jax.SphericalJoint("ground", "a"), lie_jax.SphericalJoint("a", "b")]
    if part == "joint":
        joints[1] = Idle("a", "b")
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints), lie_jax.R3SO3())
    expected = r"Constraints of Idle\('a', 'b'\) depend on each other.*other axes"
    if part == "body":
        lost = (system.bodies.mass * jnp.asarray([1.0, 0.0]), system.bodies.inertia.at[1].set(0.0))
        system = eqx.tree_at(lambda s: (s.bodies.mass, s.bodies.inertia), system, lost)
        expected = r"Body 'b' has no mass or no inertia.*Minimal\(\)"
    with pytest.raises(lie_jax.SimulationError, match=expected):
        lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.8), state, dt=1e-3, steps=1)
