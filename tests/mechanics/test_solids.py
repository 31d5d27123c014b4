"""Inertias of solids: against MuJoCo's compiler."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from numpy.testing import assert_allclose

from lie_jax import solids

# Relative; MuJoCo writes inertias as principal moments and a quaternion.
ROUNDING = 1e-14
AXIS = (1.0, -2.0, 0.5)
MODEL = """
<mujoco><worldbody>
  <body><freejoint/><geom type="box" size="0.1 0.2 0.4" mass="3"/></body>
  <body><freejoint/><geom type="sphere" size="0.3" mass="2"/></body>
  <body><freejoint/><geom type="cylinder" size="0.1" fromto="0 0 0 1 -2 0.5" mass="1.5"/></body>
  <body><freejoint/><geom type="cylinder" size="0.25 0.3" mass="0.7"/></body>
</worldbody></mujoco>
"""


def _inertias_of_mujoco():
    model = mujoco.MjModel.from_xml_string(MODEL)
    for moments, quaternion in zip(model.body_inertia[1:], model.body_iquat[1:], strict=True):
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, quaternion)
        yield axes.reshape(3, 3) @ np.diag(moments) @ axes.reshape(3, 3).T


def test_inertias_are_those_of_mujoco():
    length = float(np.linalg.norm(AXIS))
    ours = (
        solids.box(3.0, (0.2, 0.4, 0.8)),
        solids.sphere(2.0, 0.3),
        solids.cylinder(1.5, 0.1, length, AXIS),
        solids.cylinder(0.7, 0.25, 0.6),
    )
    for inertia, other in zip(ours, _inertias_of_mujoco(), strict=True):
        assert_allclose(inertia, other, rtol=0.0, atol=ROUNDING * np.abs(other).max())


def test_sizes_are_parameters():
    def moment(length):
        return solids.cylinder(12.0, 0.1, length)[0, 0]

    slopes = jax.jit(jax.vmap(jax.grad(moment)))(jnp.asarray([0.5, 2.0]))
    assert_allclose(slopes, [1.0, 4.0], rtol=ROUNDING)
    single = solids.box(jnp.float32(3.0), jnp.ones(3, jnp.float32))
    assert single.dtype == jnp.float32
