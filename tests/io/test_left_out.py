"""Nothing of a file is lost unnamed; the warning has what changes a motion."""

import mujoco
import numpy as np
import pytest

from lie_jax import io
from lie_jax.io import model_fields

# One hinge in double precision.
CLOSE = 1e-14
ARM = (
    '<body name="arm"><joint name="j" axis="0 1 0"/><geom size=".1" pos="0 0 -.5" mass="1"/></body>'
)
# A cloth whose edge is held, a block whose corners are its points, and a rigid one.
FLEX = """
<flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" pos="1 0 1" radius=".01"
  dim="2" mass="1"><edge equality="true"/><pin id="0 1"/></flexcomp>
<flexcomp name="block" type="grid" count="3 3 3" spacing=".1 .1 .1" pos="3 0 1" radius=".01"
  dim="3" dof="trilinear" mass="1"><elasticity young="1e4" poisson="0.1"/></flexcomp>
<flexcomp name="brick" type="grid" count="3 3 3" spacing=".1 .1 .1" pos="5 0 1" radius=".01"
  dim="3" rigid="true" mass="1"/>
"""


def _read(folder, world, rest="", match=None):
    path = folder / "robot.xml"
    path.write_text(f"<mujoco><worldbody>{world}</worldbody>{rest}</mujoco>")
    if match is None:
        return io.import_model(path)
    with pytest.warns(UserWarning, match=match):
        return io.import_model(path)


def test_deformable_bodies_are_left_out_and_the_others_move_as_before(tmp_path):
    key = '<keyframe><key name="k" qpos="{}"/></keyframe>'
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{ARM}{FLEX}</worldbody></mujoco>")
    at = model.joint("j").qposadr[0]
    qpos = np.zeros(model.nq)
    qpos[at] = 0.7
    rest = key.format(" ".join(map(str, qpos)))
    tip = '<connect name="tip" body1="arm" body2="cloth_8" anchor="0 0 0"/>'
    rest += f"<equality>{tip}</equality>"
    imported = _read(tmp_path, ARM + FLEX, rest, "flexible bodies cloth, block, brick")
    assert imported.ignored["flexible bodies"] == ("cloth", "block", "brick")
    # The edges of the cloth have no name in the file; a constraint of the user's own has.
    assert imported.ignored["equality constraints within the flexible bodies"] == ("cloth",)
    assert imported.ignored["equality constraints"] == ("tip",)
    assert imported.mechanism.names == ("arm",)
    assert imported.keyframes["k"].q == pytest.approx([0.7])
    assert not [name for name in imported.frames if name.startswith(("cloth", "block"))]
    with pytest.raises(
        ValueError, match=r"robot.xml' is a file in which nothing moves but deformab"
    ):
        _read(tmp_path, FLEX)


def test_plugins_are_named(tmp_path):
    plugin = '<extension><plugin plugin="mujoco.pid"><instance name="pid"/></plugin></extension>'
    motor = '<actuator><plugin name="m" plugin="mujoco.pid" instance="pid" joint="j"/></actuator>'
    imported = _read(tmp_path, ARM, plugin + motor, "control laws of the actuators m; plugins pid")
    assert imported.ignored["plugins"] == ("pid",)


def test_features_of_surfaces_and_of_sleep_are_named(tmp_path):
    belt = '<geom name="belt" type="plane" size="1 1 1" surfacevel="1 0 0 0 0 0"/>'
    sticky = '<geom name="sticky" type="box" size="1 1 1" adhesion="2"/>'
    asleep = '<body name="box" pos="9 9 9" sleep="init"><freejoint/><geom size="1"/></body>'
    rest = '<option><flag sleep="enable"/></option>'
    match = r"moving surfaces \(surfacevel\) of belt; adhesion of sticky; bodies that sleep at"
    imported = _read(tmp_path, ARM + belt + sticky + asleep, rest, match)
    assert imported.ignored["bodies that sleep at the start"] == ("box",)


def test_every_field_of_mujoco_is_known_and_others_are_named(tmp_path, monkeypatch):
    world = ARM.replace('name="j"', 'name="j" user="3"')
    rest = """<size nuser_jnt="1"/>
      <tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>
      <equality><joint joint1="j"/></equality><actuator><motor joint="j"/></actuator>"""
    assert not [kind for kind in _read(tmp_path, world, rest).ignored if "_" in kind]
    without = model_fields._HARMLESS["jnt"].replace(" user", "")
    monkeypatch.setitem(model_fields._HARMLESS, "jnt", without)
    imported = _read(tmp_path, world, rest, "jnt_user of j")
    assert imported.ignored["jnt_user of"] == ("j",)


def test_flags_switch_constraints_off(tmp_path):
    world = ARM.replace('name="j"', 'name="j" range="-1 1" limited="true" frictionloss="2"')
    rest = '<equality><joint joint1="j"/></equality>'
    imported = _read(tmp_path, world, rest)
    assert imported.joints[0].limits == pytest.approx(np.deg2rad([-1, 1]))
    assert imported.joints[0].dry_friction == 2.0 and imported.shapes and imported.couplings
    rest += '<option><flag constraint="disable"/></option>'
    off = "equality constraints that the file switches off"
    imported = _read(tmp_path, world, rest, off)
    assert imported.joints[0].limits == (-np.inf, np.inf)
    assert not imported.joints[0].dry_friction and not imported.shapes and not imported.couplings
    assert list(imported.ignored) == [off]


LINK = (
    '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"'
    ' iyz="0"/></inertial>{}</link>'
)
ROD = '<cylinder radius="1" length="1"/>'
ORDINARY = f"""
<robot name="r" xmlns:drake="http://drake.mit.edu">
  <material name="grey"><color rgba="1 1 1 1"/></material>
  {LINK.format("base", '<visual><geometry><mesh filename="no.dae"/></geometry></visual>')}
  {LINK.format("arm", f"<collision><geometry>{ROD}</geometry></collision>")}
  <joint name="j" type="revolute"><parent link="base"/><child link="arm"/>
    <origin xyz="0 0 1" rpy="0 0 0"/><axis xyz="0 1 0"/><dynamics damping="1" friction="1"OTHER/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/><safety_controller k_velocity="1"/>
    <calibration rising="0"/>
  </joint>
  <transmission name="t"><type>SimpleTransmission</type>
    <joint name="j"><hardwareInterface>EffortJointInterface</hardwareInterface></joint>
    <actuator name="m"><mechanicalReduction>1</mechanicalReduction>ROTOR</actuator>
  </transmission>
  <gazebo reference="arm"><mu1>0.2</mu1></gazebo>
</robot>"""


def test_ordinary_robots_raise_no_warning(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(ORDINARY.replace("OTHER", "").replace("ROTOR", ""))
    assert io.import_model(path).ignored == {
        "shapes of other kinds": ("arm",),
        "dry friction, which `dry_friction` adds, of": ("j",),
        "limits, which `stops` adds, of": ("j",),
        "<safety_controller> of": ("j",),
        "<mechanicalReduction> in <transmission> of": ("j",),
        "<gazebo> of": ("arm",),
    }


def test_tags_of_other_dialects_are_named(tmp_path):
    rotor = '<drake:rotor_inertia value="1e-4"/><drake:gear_ratio value="100"/>'
    path = tmp_path / "robot.urdf"
    path.write_text(ORDINARY.replace("OTHER", ' spring_stiffness="3"').replace("ROTOR", rotor))
    match = "'spring_stiffness' in <dynamics> of j; <drake:rotor_inertia> of j; <drake:gear_ratio>"
    with pytest.warns(UserWarning, match=match):
        io.import_model(path)


@pytest.mark.parametrize(("leader", "follower"), [("planar", "revolute"), ("fixed", "prismatic")])
def test_mimics_that_are_lost_are_named(tmp_path, leader, follower):
    inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    inertial = f'<inertial><mass value="1"/>{inertia}</inertial>'
    limit = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
    joints = (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{limit}{mimic}</joint>"
        for name, kind, parent, child, mimic in (
            ("first", leader, "base", "a", ""),
            ("second", follower, "a", "b", '<mimic joint="first"/>'),
        )
    )
    links = f'<link name="base"/><link name="a">{inertial}</link><link name="b">{inertial}</link>'
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r">{links}{"".join(joints)}</robot>')
    with pytest.warns(UserWarning, match="<mimic> with .*, of second"):
        imported = io.import_model(path)
    assert not imported.couplings
    assert ("second",) in imported.ignored.values()
