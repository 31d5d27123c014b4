"""Frames, keyframes, servos, carried weights and the table of an imported file."""

import re

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import lie_jax
from lie_jax import io

# Closed kinematics and one solve with a mass matrix of condition 1e2.
CLOSE = 1e-12
MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <site name="mark" pos="1 2 3" quat="0.5 0.5 0.5 0.5"/>
    <body name="post" pos="0 0 1" quat="0.9 0.1 0 0.2"><site name="lamp" pos="0.1 0 0"/></body>
    <body name="base" pos="0.3 0 1" quat="0.9 0.1 -0.3 0.2">
      <freejoint name="free"/>
      <inertial pos="0.1 0 0.05" mass="3" diaginertia="0.1 0.15 0.2"/>
      <site name="base"/>
      <body name="arm" pos="0.2 0.1 0" quat="0.8 0.2 0.1 -0.3" gravcomp="0.5">
        <joint name="ball" type="ball" pos="0 0 0.1" range="0 1"/>
        <inertial pos="0 0 -0.2" mass="1" diaginertia="0.02 0.03 0.04"/>
        <body name="hand" pos="0 0.1 -0.5" quat="0.7 0 0.1 -0.3" gravcomp="2">
          <inertial pos="0.1 0 0" mass="0.2" diaginertia="0.001 0.002 0.0015"/>
          <site name="tip" pos="0 0 0.1" quat="0.6 0 0.3 -0.3"/>
          <body name="finger" pos="0 0 0.1">
            <joint name="hinge" axis="0 1 1" ref="0.4" range="-1 9" stiffness="3" springref="5"/>
            <joint name="slide" type="slide" axis="0 1 0" ref="0.1"/>
            <inertial pos="0.01 0 0" mass="0.2" diaginertia="0.001 0.002 0.0015"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="turn" joint="hinge" kp="30" kv="2" gear="-3" ctrlrange="-1 2"/>
    <velocity name="shift" joint="slide" kv="4" gear="0.5"/>
    <general name="bent" joint="slide" gainprm="7" biastype="affine" biasprm="0.3 -5 -0.2"/>
    <general name="slow" joint="slide" dyntype="filter" dynprm="0.1"/>
  </actuator>
  <sensor><gyro site="tip"/><jointpos name="angle" joint="hinge"/></sensor>
  <keyframe>
    <key name="up" qpos="1 2 3 0.8 0.6 0 0 0.6 0 0.8 0 7.5 0.2" qvel="1 2 3 4 5 6 7 8 9 1 2"/>
    <key qpos="0 0 0 1 0 0 0 1 0 0 0 0 0"/>
  </keyframe>
</mujoco>
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "robot.xml"
    path.write_text(MJCF)
    with pytest.warns(UserWarning, match="import_model leaves out") as warned:
        model = io.import_model(path)
    assert "sensors" not in str(warned[0].message)
    assert model.ignored["sensors"] == ("sensor 0", "angle")
    return model


@pytest.fixture(scope="module")
def assembled(imported):
    return lie_jax.assemble(imported.mechanism, lie_jax.Minimal())[0]


@pytest.mark.full
def test_frames_move_as_in_mujoco(imported, assembled):
    model = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_kinematics(model, data)
    rotations, positions = jax.jit(lambda q: assembled.poses(q))(
        jnp.asarray(imported.keyframes["up"].q)
    )
    poses = dict(zip(imported.mechanism.names, zip(rotations, positions, strict=True), strict=True))
    poses["ground"] = np.eye(3), np.zeros(3)
    theirs = {}
    for name in ("mark", "lamp", "tip", "base"):
        site = data.site(name)
        theirs["base site" if name == "base" else name] = site.xpos, site.xmat
    for name in ("post", "base", "arm", "hand", "finger"):
        theirs[name] = data.body(name).xpos, data.body(name).xmat
    assert set(imported.frames) == set(theirs)
    for name, (position, rotation) in theirs.items():
        frame = imported.frames[name]
        turn, origin = poses[frame.body]
        own = np.zeros(9)
        mujoco.mju_quat2Mat(own, frame.orientation)
        np.testing.assert_allclose(origin + turn @ frame.position, position, atol=CLOSE)
        np.testing.assert_allclose(turn @ own.reshape(3, 3), rotation.reshape(3, 3), atol=CLOSE)
    assert imported.frames["hand"].body == "arm"
    assert imported.frames["lamp"].body == "ground"


@pytest.mark.full
def test_forces_of_servos_springs_and_carried_weights(imported, assembled):
    """Beyond half a turn, with zeros off zero and gears."""
    assert [a.name for a in imported.actuators] == ["turn", "shift", "bent", "slow"]
    turn, shift, bent, slow = imported.actuators
    assert turn[2:6] == (-90.0, (-180.0, 90.0), 270.0, 18.0)
    assert shift[2:6] == (2.0, (-np.inf, np.inf), 0.0, 1.0)
    assert bent[2:6] == (7.0, (-np.inf, np.inf), 5.0, 0.2)
    assert slow[4:6] == (0.0, 0.0)
    assert imported.ignored["control laws of the actuators"] == ("slow",)
    model = mujoco.MjModel.from_xml_string(MJCF)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    data.qvel[:6] = 0.0
    data.ctrl[:] = 0.3, -0.2, 0.7, 0.0
    mujoco.mj_forward(model, data)
    start = imported.keyframes["up"]
    q, v = jnp.asarray(start.q), jnp.asarray(start.v).at[:6].set(0.0)
    u = jnp.asarray([a.gain * x for a, x in zip(imported.actuators, data.ctrl, strict=True)])
    acceleration = jax.jit(lambda *args: assembled.acceleration(0.0, *args))(q, v, u)
    turned = np.zeros(9)
    mujoco.mju_quat2Mat(turned, data.qpos[3:7])
    own = np.concatenate([turned.reshape(3, 3).T @ data.qacc[:3], data.qacc[3:]])
    np.testing.assert_allclose(acceleration, own, rtol=CLOSE, atol=CLOSE * np.abs(own).max())


def test_a_table_counts_everything(imported):
    model = mujoco.MjModel.from_xml_string(MJCF)
    rows = re.findall(r"^  (.*?) +(\d+)  ", str(imported), re.MULTILINE)
    counts = {kind: int(number) for kind, number in rows}
    moving = int(np.count_nonzero(model.body_jntnum))
    # A massless body stands between hinge and slide.
    assert counts["bodies"] == moving + 1
    assert counts["joints"] == model.njnt - 1
    assert counts["actuators"] == model.nu
    assert counts["frames"] == model.nbody - 1 + model.nsite
    assert counts["keyframes"] == model.nkey
    assert "couplings" not in counts and model.neq == 0
    assert counts["sensors"] == model.nsensor
    assert counts["limits, which `stops` adds, of"] + counts["limits of"] == model.jnt_limited.sum()
    assert "0, up" not in str(imported) and "up, key 1" in str(imported)
    left = imported._replace(ignored={})
    assert "left out" in str(imported) and "left out" not in str(left)


def test_names_that_the_file_does_not_have_are_refused_with_those_that_it_has(imported):
    with pytest.raises(KeyError, match=r"'lmap'.*no frame of the file; perhaps 'lamp' .*'finger'"):
        imported.frames["lmap"]
    with pytest.raises(KeyError, match=r"no keyframe of the file; the names are 'up', "):
        imported.keyframes["bottom"]
    assert imported.frames.get("lmap") is None
    # A pytree as a dict is, with the same leaves.
    leaves, structure = jax.tree.flatten(imported.frames)
    assert len(leaves) == len(jax.tree.leaves(dict(imported.frames)))
    again = jax.tree.unflatten(structure, leaves)
    assert again.keys() == imported.frames.keys() and again.kind == "frame"
