"""Actuators at sites and on tendons, springs of tendons, limits of force: against MuJoCo."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import io

# Of the largest entry; one solve with a mass matrix of condition 1e2.
CLOSE = 1e-12
# Zeros off zero, several actuators of one joint, ranges where springs are relaxed, limits of force.
MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <option gravity="0.3 -0.2 -9.7"/>
  <worldbody>
    <site name="hook" pos="0.4 0.1 1.8"/>
    <body name="drone" pos="0 0 1" quat="0.9 0.1 -0.3 0.2">
      <freejoint/>
      <inertial pos="0.1 0 0.05" mass="3" diaginertia="0.1 0.15 0.2"/>
      <site name="rotor" pos="0.2 0.1 0" quat="0.8 0.2 0.1 -0.3"/>
      <site name="eyelet" pos="0.1 0.2 0.3"/>
      <body name="arm" pos="0.2 0.1 0" quat="0.8 0.2 0.1 -0.3">
        <joint name="hinge" axis="0 1 1" ref="0.4"/>
        <inertial pos="0 0 -0.2" mass="1" diaginertia="0.02 0.03 0.04"/>
        <body name="plate" pos="0 0 -0.1"><site name="pulley" pos="0 0.1 -0.1"/>
          <site name="other" pos="0.1 0.1 -0.1"/></body>
        <body name="hand" pos="0 0.1 -0.5">
          <joint name="slide" type="slide" axis="1 2 0" ref="0.1"/>
          <joint name="turn" axis="1 0 0"/>
          <inertial pos="0.1 0 0" mass="0.6" diaginertia="0.01 0.02 0.015"/>
          <site name="tip" pos="0 0 -0.1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="band" stiffness="7" damping="0.3" springlength="0.1 0.5">
      <joint joint="hinge" coef="1"/><joint joint="slide" coef="-2"/><joint joint="turn" coef="3"/>
    </fixed>
    <fixed name="belt" actuatorfrclimited="true" actuatorfrcrange="-1 1.5">
      <joint joint="slide" coef="0.5"/><joint joint="turn" coef="-1"/>
    </fixed>
    <spatial name="rope" stiffness="20" damping="0.5" springlength="0.2 0.4">
      <site site="hook"/><site site="eyelet"/><site site="pulley"/><site site="other"/>
      <site site="tip"/>
    </spatial>
    <spatial name="rod" stiffness="30" limited="true" range="0 9">
      <site site="rotor"/><site site="tip"/>
    </spatial>
  </tendon>
  <actuator>
    <motor name="thrust" site="rotor" gear="0 0.5 2 0.1 0 -0.3" ctrlrange="-4 4"/>
    <position name="pose" joint="hinge" kp="3" kv="0.2" gear="1.5" forcerange="-3 4"/>
    <position name="grip" tendon="belt" kp="0.5" kv="0.07" gear="-2"/>
    <motor name="winch" tendon="rope" gear="0.7"/>
    <velocity name="reel" tendon="rod" kv="1" forcerange="-2 1"/>
    <motor name="push" joint="slide"/>
    <velocity name="brake" site="rotor" kv="2"/>
  </actuator>
  <keyframe><key name="up" ctrl="1 2 3 4 5 6 7"/></keyframe>
</mujoco>
"""
NAMES = ("thrust", "pose", "grip", "winch", "reel", "push", "brake")
STATES = 12


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "robot.xml"
    path.write_text(MJCF)
    with pytest.warns(UserWarning, match="control laws of the actuators brake"):
        return io.import_model(path)


def _states(model):
    """Coordinates, velocities, controls and accelerations of MuJoCo without constraints."""
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    # Its law is left out.
    model.actuator_gainprm[6] = model.actuator_biasprm[6] = 0.0
    rng, data = np.random.default_rng(2), mujoco.MjData(model)
    for _ in range(STATES):
        qpos = model.qpos0.copy()
        mujoco.mj_integratePos(model, qpos, rng.normal(size=model.nv), 0.4)
        data.qpos[:], data.qvel[:] = qpos, rng.normal(size=model.nv)
        # The free body turns only: its acceleration is the same in body axes then.
        data.qvel[:3], data.ctrl[:] = 0.0, 0.4 * rng.normal(size=7)
        mujoco.mj_forward(model, data)
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, qpos[3:7])
        acceleration = data.qacc.copy()
        acceleration[:3] = turn.reshape(3, 3).T @ acceleration[:3]
        q = np.concatenate([qpos[:7], qpos[7:] - model.qpos0[7:]])
        yield q, data.qvel.copy(), data.ctrl.copy(), acceleration, data.actuator_force.copy()


@pytest.mark.full
def test_accelerations_are_those_of_mujoco(imported):
    assert tuple(actuator.name for actuator in imported.actuators) == NAMES
    system, _ = lie_jax.assemble(imported.mechanism, lie_jax.Minimal())
    q, v, control, expected, forces = map(
        np.stack, zip(*_states(mujoco.MjModel.from_xml_string(MJCF)), strict=True)
    )
    # Saturated in some states, and not in others: by their own limits, and by those of the tendon.
    for number, limits in ((1, (-3.0, 4.0)), (2, (-1.0, 1.5)), (4, (-2.0, 1.0))):
        at_limit = np.isclose(forces[:, number, None], limits).any(axis=1)
        assert 0 < at_limit.sum() < STATES, number
    gains = np.asarray([actuator.gain for actuator in imported.actuators])
    gains[-1] = 0.0
    computed = jax.jit(jax.vmap(lambda *args: system.acceleration(0.0, *args)))(
        *(jnp.asarray(x) for x in (q, v, gains * control))
    )
    assert_allclose(computed, expected, atol=CLOSE * np.abs(expected).max())


def test_inputs_of_keyframes(imported):
    """Zero for a law that is left out."""
    thrust, pose, grip, winch, reel, push, brake = imported.keyframe_inputs["up"]
    assert (thrust, winch, push, brake) == (1.0, 0.7 * 4.0, 6.0, 0.0)
    assert_allclose((pose, grip, reel), (1.5 * 3.0 * 2.0, -2.0 * 0.5 * 3.0, 5.0), rtol=CLOSE)
    text = str(imported)
    assert "force limits" in text and "input limits" in text


ARM = """
<mujoco>
  <worldbody>
    <geom name="peg" size="0.1"/><site name="top" pos="0 0 1"/>
    <body name="arm"><joint name="shoulder" axis="0 1 0" actuatorfrcrange="-2 3"/>
      <inertial pos="0 0 -0.2" mass="1" diaginertia="0.02 0.03 0.04"/><site name="end"/>
      <body name="hand" pos="0 0 -0.5"><joint name="wrist" axis="0 1 0" actuatorfrcrange="-1 1"/>
        <inertial pos="0 0 -0.2" mass="1" diaginertia="0.02 0.03 0.04"/></body></body>
  </worldbody>
  <tendon><spatial name="rope"><site site="top"/><geom geom="peg"/><site site="end"/></spatial>
    <fixed name="bar"><joint joint="wrist" coef="2"/></fixed></tendon>
  <actuator><position name="lift" joint="shoulder" kp="90" forcerange="-9 1"/>
    <position name="bend" joint="wrist" kp="3"/><motor name="twist" tendon="bar"/></actuator>
</mujoco>
"""


def test_limits_that_actuators_share_and_wrapped_tendons_are_named(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    with pytest.warns(UserWarning, match="tendons around geoms or over pulleys rope"):
        arm = io.import_model(path)
    assert arm.ignored["limits of the force of several actuators in"] == ("wrist",)
    lift, bend, _ = arm.actuators
    assert lift.force_limits == (-2.0, 1.0) and bend.force_limits == (-np.inf, np.inf)
    assert [joint.force_limits for joint in arm.joints] == [(-2.0, 3.0), (-1.0, 1.0)]
