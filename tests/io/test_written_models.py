"""Models written back to files, and motions as MuJoCo has them."""

import dataclasses

import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax

# Numbers of files are written to the last digit; a change of the frame rounds.
CLOSE = 1e-13
MJCF = """
<mujoco>
  <option gravity="0 0 -9.81"><flag energy="enable"/></option>
  <compiler inertiafromgeom="true"/>
  <worldbody>
    <body name="base" pos="0.3 0 1" quat="0.9 0.1 -0.3 0.2">
      <freejoint name="free"/>
      <geom size="0.2 0.1 0.3" type="box"/>
      <body name="arm" pos="0.2 0.1 0" quat="0.8 0.2 0.1 -0.3">
        <joint name="ball" type="ball" pos="0 0 0.1"/>
        <geom size="0.1 0.2" type="cylinder" pos="0 0 0.2"/>
        <body name="hand" pos="0 0.1 -0.5" quat="0.7 0 0.1 -0.3">
          <geom size="0.1"/>
          <body name="finger" pos="0 0 0.1">
            <joint name="hinge" axis="0 1 1" ref="0.4"/>
            <geom size="0.05 0.1" type="capsule" pos="0.1 0 0"/>
          </body>
        </body>
      </body>
    </body>
    <body name="cart"><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1"/></body>
  </worldbody>
  <keyframe>
    <key name="up" qpos="1 2 3 0.8 0.6 0 0 0.6 0 0.8 0 1.5 0.2" qvel="1 2 3 4 5 6 7 8 9 1 2"/>
  </keyframe>
</mujoco>
"""
URDF = """
<robot name="arm">
  <!-- A link without inertia, and a tool that is part of the arm. -->
  <link name="table"/>
  <link name="arm"><inertial><origin xyz="0 0 0.2" rpy="1 2 3"/><mass value="2.0"/>
    <inertia ixx="0.03" iyy="0.03" izz="0.02" ixy="0.001" ixz="0" iyz="0"/></inertial></link>
  <link name="tool"><inertial><mass value="0.3"/>
    <inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="flange" type="fixed"><parent link="arm"/><child link="tool"/>
    <origin xyz="0 0.1 0.3"/></joint>
  <joint name="hinge" type="continuous"><parent link="table"/><child link="arm"/></joint>
</robot>
"""


def _identified(mechanism):
    """A mechanism with other inertias."""
    bodies = [
        dataclasses.replace(
            body,
            mass=1.1 * body.mass,
            inertia=1.2 * body.inertia,
            center_of_mass=body.center_of_mass + 0.01 * np.arange(3),
        )
        for body in mechanism.bodies
    ]
    return dataclasses.replace(mechanism, bodies=bodies)


@pytest.fixture
def robot(tmp_path):
    (tmp_path / "robot.xml").write_text(MJCF)
    return lie_jax.io.import_model(tmp_path / "robot.xml")


@pytest.mark.full
def test_inertias_are_written_to_mjcf(robot, tmp_path):
    mechanism = _identified(robot.mechanism)
    lie_jax.io.write_inertias(tmp_path / "robot.xml", mechanism, tmp_path / "new.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    state = robot.keyframes["up"]
    energies = system.potential_energy(state.q), system.kinetic_energy(state.q, state.v)
    assert_allclose(energies, data.energy, rtol=CLOSE)


def test_inertias_are_written_to_urdf(tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF)
    arm = lie_jax.io.import_model(tmp_path / "arm.urdf")
    mechanism = _identified(arm.mechanism)
    lie_jax.io.write_inertias(tmp_path / "arm.urdf", mechanism, tmp_path / "new.urdf")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "new.urdf"))
    (body,) = mechanism.bodies
    assert_allclose(model.body_mass[1], body.mass, rtol=CLOSE)
    assert_allclose(model.body_ipos[1], body.center_of_mass, rtol=CLOSE)
    axes = np.zeros(9)
    mujoco.mju_quat2Mat(axes, model.body_iquat[1])
    axes = axes.reshape(3, 3)
    inertia = axes @ np.diag(model.body_inertia[1]) @ axes.T
    assert_allclose(inertia, body.inertia, atol=CLOSE)


def test_folders_that_are_missing_are_named(robot, tmp_path):
    source, mechanism = tmp_path / "robot.xml", robot.mechanism
    with pytest.raises(FileNotFoundError, match=r"path=.*does not exist; make it first"):
        lie_jax.io.write_inertias(source, mechanism, tmp_path / "none" / "new.xml")
    with pytest.raises(FileNotFoundError, match=r"source=.*is not a file"):
        lie_jax.io.write_inertias(tmp_path / "none.xml", mechanism, tmp_path / "new.xml")
    with pytest.raises(ValueError, match="is a folder"):
        lie_jax.io.write_inertias(source, mechanism, tmp_path)


def test_a_file_of_another_mechanism_is_refused(robot, tmp_path):
    (tmp_path / "arm.urdf").write_text(URDF)
    with pytest.raises(ValueError, match="no bodies with the names base, cart, finger"):
        lie_jax.io.write_inertias(tmp_path / "arm.urdf", robot.mechanism, tmp_path / "new.urdf")
    system, state = lie_jax.assemble(
        lie_jax.Mechanism([lie_jax.Body("other", 1.0, np.eye(3))]), lie_jax.SE3()
    )
    with pytest.raises(ValueError, match="bodies other; it must have those of the imported model"):
        lie_jax.io.mujoco_states(robot, system, state.q[None], state.v[None])


def test_motions_are_those_of_mujocos_keyframe(robot):
    key = robot.keyframes["up"]
    system, _ = lie_jax.assemble(robot.mechanism, lie_jax.Minimal())
    positions, velocities = lie_jax.io.mujoco_states(robot, system, key.q[None], key.v[None])
    expected = "1 2 3 0.8 0.6 0 0 0.6 0 0.8 0 1.5 0.2"
    assert_allclose(positions[0], np.fromstring(expected, sep=" "), atol=CLOSE)
    assert_allclose(velocities[0], np.asarray([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]), atol=CLOSE)
    # Poses in absolute coordinates have the same file's coordinates.
    other, state = lie_jax.assemble(robot.mechanism, lie_jax.R3SO3())
    tree, start = lie_jax.assemble(robot.mechanism, lie_jax.Minimal())
    pairs = [
        lie_jax.io.mujoco_states(robot, s, at.q[None], at.v[None])
        for s, at in ((other, state), (tree, start))
    ]
    for one, two in zip(*pairs, strict=True):
        assert_allclose(one, two, atol=CLOSE)


def test_states_by_name_are_those_of_the_file(robot):
    """The quaternion of a ball joint counts from the pose of its body in the file."""
    system, start = lie_jax.assemble(robot.mechanism, lie_jax.Minimal())
    turn = np.asarray([0.6, 0.0, 0.8, 0.0])
    state = robot.state(system, start, {"ball": turn, "hinge": 1.5}, {"ball": np.arange(3.0)})
    assert_allclose(state.q[7:12], robot.keyframes["up"].q[7:12], atol=CLOSE)
    assert_allclose(state.v[6:9], np.arange(3.0))


def test_a_total_mass_in_the_file_does_not_rescale_what_is_written(tmp_path):
    text = MJCF.replace('inertiafromgeom="true"', 'inertiafromgeom="true" settotalmass="10"')
    (tmp_path / "robot.xml").write_text(text)
    with pytest.warns(UserWarning, match="'settotalmass' is deprecated"):
        robot = lie_jax.io.import_model(tmp_path / "robot.xml")
    mechanism = _identified(robot.mechanism)
    lie_jax.io.write_inertias(tmp_path / "robot.xml", mechanism, tmp_path / "new.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml"))
    assert_allclose(model.body_mass.sum(), 11.0, rtol=CLOSE)
