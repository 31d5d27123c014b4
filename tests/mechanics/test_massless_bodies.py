"""A massless body may stand between joints in joint coordinates, and nowhere else."""

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
