"""One second of motion of imported models: against MuJoCo's."""

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import lie_jax

# MuJoCo's method of fourth order: half the step changes its coordinates by 2e-11.
CLOSE = 1e-9
# Without an element coordinates change by more, the least by 0.19.
ACTS = 0.1
# A free body, a ball joint, springs relaxed off zero, dampers, rotors, a carried weight, servos.
MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <option gravity="0.3 -0.2 -9.7"/>
  <worldbody>
    <body name="torso" pos="0 0 1" quat="0.9 0.1 -0.3 0.2">
      <freejoint name="base"/>
      <inertial pos="0.1 0 0.05" quat="0.9 0.2 0.1 0" mass="3" diaginertia="0.1 0.15 0.2"/>
      <body name="arm" pos="0.2 0.1 0" quat="0.8 0.2 0.1 -0.3" gravcomp="0.7">
        <joint name="ball" type="ball" pos="0 0 0.1" damping="0.02" armature="0.03"/>
        <inertial pos="0 0 -0.2" mass="1" diaginertia="0.02 0.03 0.04"/>
      </body>
      <body name="leg" pos="-0.2 0.1 0" quat="0.8 -0.2 0.1 0.3">
        <joint name="slide" type="slide" axis="1 2 0" pos="0.1 0 0" ref="0.1" stiffness="20"
          springref="0.3" damping="2" armature="0.5"/>
        <joint name="hinge" axis="0 1 1" pos="0 0.1 0" ref="0.4" stiffness="3" springref="-0.2"
          damping="0.1" armature="0.01"/>
        <inertial pos="0 0 -0.3" mass="1.2" diaginertia="0.02 0.03 0.04"/>
        <body name="foot" pos="0 0 -0.5">
          <joint name="ankle" axis="1 0 0" stiffness="0.5"/>
          <inertial pos="0.1 0 0" mass="0.2" diaginertia="0.001 0.002 0.0015"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="drive" joint="hinge" gear="5"/>
    <position name="place" joint="slide" gear="-1.5" kp="30" kv="1.5"/>
    <velocity name="rate" joint="ankle" gear="2" kv="0.3"/>
  </actuator>
  <keyframe>
    <key name="start" qpos="0.1 0 1  0.9 0.1 -0.3 0.2  0.8 0.3 -0.1 0.4  0.2 0.5 -0.3"
      qvel="0.3 -0.2 0.1  0.8 -1 0.5  1 0.6 -0.9  0.2 -0.5 0.9"/>
  </keyframe>
</mujoco>
"""
CONTROLS = {"drive": 0.2, "place": -0.3, "rate": 0.8}


def _end(model: mujoco.MjModel, steps: int) -> np.ndarray:
    """Coordinates after a second of MuJoCo's RK4."""
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.timestep = 1.0 / steps
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for name, control in CONTROLS.items():
        data.actuator(name).ctrl = control
    mujoco.mj_step(model, data, steps)
    return data.qpos.copy()


@pytest.mark.full
def test_a_second_of_motion_is_that_of_mujoco(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(MJCF)
    imported = lie_jax.io.import_model(path)
    assert not imported.ignored
    model = mujoco.MjModel.from_xml_string(MJCF)
    expected = _end(model, 2000)
    system, _ = lie_jax.assemble(imported.mechanism, lie_jax.Minimal())
    inputs = imported.inputs({a.name: a.gain * CONTROLS[a.name] for a in imported.actuators})
    run = lie_jax.simulate(
        system,
        lie_jax.RKMK("rk67"),
        imported.keyframes["start"],
        dt=1e-3,
        steps=1000,
        inputs=jnp.tile(inputs, (1000, 1)),
        save=1000,
    )
    computed, _ = lie_jax.io.mujoco_states(imported, system, run.q, run.v)
    for turn in (slice(3, 7), slice(7, 11)):
        expected[turn] *= np.sign(expected[turn] @ np.asarray(computed[-1, turn]))
    np.testing.assert_allclose(computed[-1], expected, rtol=0.0, atol=CLOSE)


def test_each_element_of_the_model_moves_it():
    whole = _end(mujoco.MjModel.from_xml_string(MJCF), 500)
    for field in (
        "jnt_stiffness",
        "qpos_spring",
        "dof_damping",
        "dof_armature",
        "body_gravcomp",
        "actuator_gainprm",
        "actuator_biasprm",
    ):
        model = mujoco.MjModel.from_xml_string(MJCF)
        getattr(model, field)[:] = 0.0
        assert np.max(np.abs(_end(model, 500) - whole)) > ACTS, field


ZERO_GEAR = """
<mujoco><worldbody><body><freejoint/><geom size="0.1"/><site name="s"/></body></worldbody>
<actuator><motor site="s" gear="2 0 0 0 0 0"/><motor site="s" gear="0 0 0 0 0 0"/></actuator>
</mujoco>
"""


def test_actuators_without_effect_have_their_inputs(tmp_path):
    path = tmp_path / "zero.xml"
    path.write_text(ZERO_GEAR)
    imported = lie_jax.io.import_model(path)
    system, _ = lie_jax.assemble(imported.mechanism, lie_jax.R3SO3())
    assert system.nu == len(imported.actuators) == 2
