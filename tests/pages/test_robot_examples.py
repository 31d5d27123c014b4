"""Parts of the examples with robots that need no folder of files."""

import importlib
from typing import Any

import numpy as np
import pytest

import lie_jax
from experiments._command import robot_examples
from experiments._robot_examples import parts, x2

mujoco: Any = importlib.import_module("mujoco")

pytestmark = pytest.mark.full

# Rounding of forces of some newtons.
TOLERANCE = 1e-12
DRONE = """
<mujoco>
  <default><default class="lift"><motor ctrlrange="0 5"/></default></default>
  <worldbody>
    <body name="drone" pos="0 0 1">
      <freejoint/>
      <inertial pos="0.01 -0.02 0.03" mass="1.2" diaginertia="0.02 0.03 0.04"/>
      <site name="left" pos="0.1 0.2 0.05" euler="10 -20 30"/>
      <site name="right" pos="0.1 -0.2 0.02"/>
    </body>
  </worldbody>
  <actuator>
    <motor class="lift" name="left" site="left" gear="0 0 1 0 0 -0.02"/>
    <motor class="lift" name="right" site="right" gear="0 0.1 2 0 0 0.03"/>
  </actuator>
  <keyframe><key name="hover" ctrl="1 2"/></keyframe>
</mujoco>
"""


def test_propellers_at_sites_are_those_of_mujoco(tmp_path):
    path = tmp_path / "drone.xml"
    path.write_text(DRONE)
    model = parts.imported(path)
    system, start = lie_jax.assemble(model.mechanism, lie_jax.Minimal())
    thrusts = np.asarray([1.5, 0.7])
    theirs = mujoco.MjModel.from_xml_string(DRONE)
    data = mujoco.MjData(theirs)
    data.ctrl[:] = thrusts
    mujoco.mj_forward(theirs, data)
    ours = system.acceleration(0.0, start.q, start.v, model.inputs({"left": 1.5, "right": 0.7}))
    np.testing.assert_allclose(ours, data.qacc, rtol=TOLERANCE, atol=TOLERANCE)

    # About the centre of mass instead of the body's origin.
    force, torque = np.split(data.qfrc_actuator, 2)
    torque = torque - np.cross([0.01, -0.02, 0.03], force)
    expected = [*torque, force[2]]
    np.testing.assert_allclose(
        x2.mixer(model, system) @ thrusts, expected, rtol=TOLERANCE, atol=TOLERANCE
    )
    assert model.actuators[0].limits == (0.0, 5.0)


def test_folders_without_the_robots_are_named(tmp_path, capsys):
    with pytest.raises(SystemExit, match="No folder has a robot"):
        robot_examples.examples([tmp_path], tmp_path)
    said = capsys.readouterr().out
    for name, example in robot_examples.EXAMPLES.items():
        assert f"{name}: left out, no folder has {example.FILE}" in said
    with pytest.raises(SystemExit, match="is no folder"):
        robot_examples.examples([tmp_path / "none"], tmp_path)
