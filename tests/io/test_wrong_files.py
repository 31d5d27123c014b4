"""Files that are no robots, and names that bodies cannot have."""

import sys

import pytest

from lie_jax import io

_BODY = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
BAD = {
    "robot.urdf.xacro": ("<robot/>", r"run `xacro robot.urdf.xacro > robot.urdf` first"),
    "world.sdf": ("<sdf><world/></sdf>", "root <sdf>; it must be <robot> .* export the model as"),
    "part.xml": ("<mujocoinclude/>", "root <mujocoinclude>.* import the file that includes it"),
    "page.xml": ("<html/>", "root <html>; it must be <robot>.* give the file of a robot"),
    "arm.urdf": (
        '<robot><joint name="a"><mimic joint="b"/></joint></robot>',
        "joint 'a' mimics 'b', which is no joint of the file",
    ),
    "own.urdf": (
        '<robot><joint name="a"><mimic joint="a"/></joint></robot>',
        "joint 'a' mimics itself",
    ),
    "empty.xml": (
        '<mujoco><worldbody><body name="tip"><joint/></body></worldbody></mujoco>',
        r"'tip'.* Give the body an <inertial>, or a geom with a mass\.",
    ),
    "plugin.xml": (
        '<mujoco><extension><plugin plugin="my.plugin"/></extension></mujoco>',
        r"plugin my\.plugin not found .* Delete <plugin>",
    ),
    "axis.xml": (
        f'<mujoco><worldbody><body><joint axis="0 0 0"/>{_BODY}</body></worldbody></mujoco>',
        r"Correct the <axis> of the joint \(in MJCF axis=\), which is zero\.",
    ),
    "mesh.stl": ("solid", "is not an XML file"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_of_other_kinds(tmp_path, name):
    text, message = BAD[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        io.import_model(tmp_path / name)


def test_text_of_a_model_is_no_path():
    with pytest.raises(ValueError, match=r"begins with '<robot name=.*write the text"):
        io.import_model('<robot name="arm"/>')


def test_folders(tmp_path):
    with pytest.raises(ValueError, match="is a folder: name a URDF or MJCF file"):
        io.import_model(tmp_path)
    (tmp_path / "arm.urdf").write_text("<robot/>")
    with pytest.raises(ValueError, match=r"is a folder: name a file in it, such as 'arm.urdf'"):
        io.import_model(tmp_path)


def test_unexpanded_macros(tmp_path):
    text = '<robot xmlns:xacro="http://ros.org/wiki/xacro"><xacro:arm/></robot>'
    (tmp_path / "arm.urdf").write_text(text)
    with pytest.raises(ValueError, match=r"has macros of xacro .* run `xacro"):
        io.import_model(tmp_path / "arm.urdf")


OLD = {
    '<option apirate="500"/>': r"attribute 'apirate' of <option> in line 1, .* Delete the attr",
    '<option collision="all"/>': r"'collision' of <option>.* an older MuJoCo.* Delete the attr",
    '<worldbody><composite type="cable"/></worldbody>': r"element <composite>.* Delete the element",
    '<compiler coordinate="global"/>': r"Convert the file with MuJoCo 2\.3\.3",
}


@pytest.mark.parametrize("text", OLD)
def test_files_of_an_older_mujoco_are_answered_by_what_to_delete(tmp_path, text):
    (tmp_path / "old.xml").write_text(f"<mujoco>{text}</mujoco>")
    with pytest.raises(ValueError, match=f"old.xml' cannot be compiled: .*{OLD[text]}"):
        io.import_model(tmp_path / "old.xml")


def test_every_error_names_the_file(tmp_path, monkeypatch):
    def broken(*_):
        raise KeyError("x")

    (tmp_path / "arm.urdf").write_text("<robot/>")
    monkeypatch.setattr("lie_jax.io.urdf.specification", broken)
    with pytest.raises(KeyError) as error:
        io.import_model(tmp_path / "arm.urdf")
    assert "arm.urdf' was being read" in error.value.__notes__[0]


def test_names_that_others_have(tmp_path):
    names = "", "", ' name="body 2"', ' name="ground"'
    bodies = "".join(f"<body{name}><joint/>{_BODY}</body>" for name in names)
    path = tmp_path / "robot.xml"
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    imported = io.import_model(path)
    assert imported.mechanism.names == ("body 1", "body 2 (unnamed)", "body 2", "ground body")
    assert [joint.name for joint in imported.joints] == [f"joint {i}" for i in range(4)]
    assert set(imported.frames) == set(imported.mechanism.names)


@pytest.mark.full
def test_chains_that_are_too_long(tmp_path):
    inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    link = '<link name="{}"><inertial><mass value="1"/>' + inertia + "</inertial></link>"
    joint = '<joint name="{}" type="fixed"><parent link="{}"/><child link="{}"/></joint>'
    count = sys.getrecursionlimit() + 100
    links = [link.format(k) for k in range(count)]
    joints = [joint.format(k, k - 1, k) for k in range(1, count)]
    (tmp_path / "chain.urdf").write_text(f'<robot name="r">{"".join(links + joints)}</robot>')
    with pytest.raises(ValueError, match=r"chain\.urdf' has bodies in a chain of hundreds"):
        io.import_model(tmp_path / "chain.urdf")
