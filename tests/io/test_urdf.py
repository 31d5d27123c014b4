"""URDF files are read as their authors mean them, also where MuJoCo alone refuses or mixes them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from lie_jax import contact, io

# Products of a few rotations.
CLOSE = 1e-14
INERTIAL = (
    '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    "</inertial>"
)


def _link(name, inside=""):
    return f'<link name="{name}">{INERTIAL}{inside}</link>'


def _joint(parent, child, kind="continuous", inside=""):
    return (
        f'<joint name="{parent}-{child}" type="{kind}"><parent link="{parent}"/>'
        f'<child link="{child}"/>{inside}</joint>'
    )


def _collision(geometry, name=""):
    named = f' name="{name}"' if name else ""
    return f"<collision{named}><geometry>{geometry}</geometry></collision>"


def _read(folder, *parts, head="", **options):
    path = folder / "robot.urdf"
    path.write_text(f'{head}<robot name="r">{"".join(parts)}</robot>')
    return io.import_model(path, **options)


BALL = '<sphere radius="0.1"/>'
NOTHING = ('<sphere radius="0"/>', '<box size="0.1 0 0.2"/>', '<cylinder radius="0" length="1"/>')


def test_shapes_without_a_size_are_left_out_by_name(tmp_path):
    empty = [_collision(geometry, f"empty {i}") for i, geometry in enumerate(NOTHING)]
    plane = _collision('<plane normal="0 0 1"/>')
    foot = _link("foot", "".join([*empty, plane, _collision(BALL)]))
    imported = _read(tmp_path, _link("base"), foot, _joint("base", "foot"))
    assert list(imported.shapes) == ["foot"]
    assert imported.ignored["shapes without a size, of"] == ("empty 0", "empty 1", "empty 2")
    assert imported.ignored["shapes that MuJoCo does not read from URDF, of"] == ("foot",)


def test_shapes_have_the_names_of_their_links(tmp_path):
    parts = [
        _link("trunk", _collision(BALL) + _collision('<box size="1 1 1"/>')),
        _link("leg", _collision(BALL, "shank") + _collision(BALL, "shank")),
        _link("FR_foot", _collision(BALL) + _collision('<cylinder radius="1" length="1"/>')),
        _joint("trunk", "leg"),
        _joint("leg", "FR_foot", "fixed"),
    ]
    imported = _read(tmp_path, *parts)
    assert list(imported.shapes) == ["trunk", "trunk 2", "shank", "leg", "FR_foot"]
    assert imported.shapes["FR_foot"].body == "leg"
    assert imported.ignored["shapes of other kinds"] == ("FR_foot 2",)
    # So have those of MJCF files, with those that touch before pictures.
    geoms = '<geom size="1" contype="0" conaffinity="0"/><geom size="1"/><geom size="2"/>'
    (tmp_path / "robot.xml").write_text(
        f'<mujoco><worldbody><geom type="box" size="1 1 1" pos="0 0 -9"/><body name="ball">'
        f"<freejoint/>{geoms}</body></worldbody></mujoco>"
    )
    with pytest.warns(
        UserWarning, match="contacts, which `contacts` adds, of ground, ball, ball 2"
    ):
        mjcf = io.import_model(tmp_path / "robot.xml")
    assert list(mjcf.shapes) == ["ground", "ball", "ball 2"]


PLACE, TURN = "0.1 0.2 0.3", "0.3 -0.4 0.5"
ORIGIN = f'<origin xyz="{PLACE}" rpy="{TURN}"/>'


@pytest.mark.parametrize("kind", ["fixed", "continuous"])
def test_floating_joints_below_others_make_free_bodies(tmp_path, kind):
    parts = [
        _link("base"),
        _link("arm"),
        _link("ball"),
        _link("tip"),
        _joint("base", "arm", kind, ORIGIN + '<axis xyz="0 0 1"/>'),
        _joint("arm", "ball", "floating", ORIGIN),
        _joint("ball", "tip", "continuous", ORIGIN),
    ]
    imported = _read(tmp_path, *parts)
    bodies = {body.name: body for body in imported.mechanism.bodies}
    names = {"ball", "tip"} | ({"arm"} if kind == "continuous" else set())
    assert set(bodies) == names
    assert "ball" not in [joint.child for joint in imported.joints]
    turn = Rotation.from_euler("xyz", np.fromstring(TURN, sep=" "))
    place = np.fromstring(PLACE, sep=" ")
    assert_allclose(bodies["ball"].position, place + turn.apply(place), atol=CLOSE)
    both = (turn * turn).as_quat(scalar_first=True)
    orientation = np.asarray(bodies["ball"].orientation)
    assert_allclose(orientation * np.sign(orientation[0]), both * np.sign(both[0]), atol=CLOSE)


def test_free_roots_get_one_joint_and_held_ones_are_refused(tmp_path):
    parts = [_link("base"), _link("ball"), _joint("base", "ball", "floating")]
    imported = _read(tmp_path, *parts, floating_base=True)
    assert set(imported.mechanism.names) == {"base", "ball"} and not imported.joints
    parts = ['<link name="world"/>', _link("arm"), _joint("world", "arm")]
    with pytest.raises(
        ValueError, match=r"robot.urdf' has no root .* 'arm' has a joint to the wor"
    ):
        _read(tmp_path, *parts, floating_base=True)


def test_the_world_needs_no_declaration(tmp_path):
    imported = _read(tmp_path, _link("arm"), _joint("world", "arm"))
    assert [(joint.parent, joint.child) for joint in imported.joints] == [("ground", "arm")]
    for wrong in (_joint("none", "arm"), _joint("arm", "none")):
        with pytest.raises(ValueError, match=r"robot.urdf' cannot.*'none', which is no link"):
            _read(tmp_path, _link("arm"), wrong)


def test_loops_are_refused_with_their_links_and_joints(tmp_path):
    links = _link("a"), _link("b"), _link("c")
    chain = _joint("a", "b"), _joint("b", "c")
    for last, words in (
        (_joint("c", "a"), "cycle through the links b, a, c"),
        (_joint("a", "c"), "link 'c' is the child of two joints, 'b-c' and 'a-c', .* Take one of"),
        # Alone it would free the link.
        (_joint("a", "c", "floating"), "link 'c' is the child of two joints"),
    ):
        with pytest.raises(ValueError, match=rf"robot.urdf' cannot be compiled.* {words}"):
            _read(tmp_path, *links, *chain, last)


MESHES = ("package://parts/a/foot.obj", "FOLDER/b/foot.obj", "file://FOLDER/c%20d/foot.obj")
MESHES += ("e/foot.obj", "model://parts/a/foot.obj", "file://localhostFOLDER/b/foot.obj")


def test_meshes_are_found_and_not_mixed(tmp_path):
    """MuJoCo takes files of one name in different folders for one."""
    folder = tmp_path / "parts"
    for i, name in enumerate("abce"):
        (folder / name.replace("c", "c d")).mkdir(parents=True)
        corners = (1.0 + i) * np.vstack([np.zeros(3), np.eye(3)])
        text = "".join(f"v {x} {y} {z}\n" for x, y, z in corners)
        text += "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
        (folder / name.replace("c", "c d") / "foot.obj").write_text(text)
    shapes = "".join(
        _collision(f'<mesh filename="{address.replace("FOLDER", str(folder))}"/>', f"mesh {i}")
        for i, address in enumerate(MESHES)
    )
    imported = _read(folder, _link("base"), _link("leg", shapes), _joint("base", "leg"))
    assert list(imported.shapes) == [f"mesh {i}" for i in range(6)]
    for shape, size in zip(imported.shapes.values(), (1, 2, 3, 4, 1, 2), strict=True):
        assert isinstance(shape, contact.Points)
        # Files are in single precision.
        assert_allclose(np.max(shape.points), size, rtol=1e-6)


def test_paths_of_missing_meshes_are_named(tmp_path):
    files = "package://robot/foot.stl", "file:///no/foot.stl", "foot.stl"
    shapes = "".join(_collision(f'<mesh filename="{file}"/>') for file in files)
    parts = _link("base"), _link("leg", shapes), _joint("base", "leg")
    with pytest.warns(UserWarning, match=f"missing, of leg, leg 2, leg 3; .* {tmp_path}/robot/foo"):
        imported = _read(tmp_path, *parts)
    paths = f"{tmp_path}/robot/foot.stl", "/no/foot.stl", f"{tmp_path}/foot.stl"
    assert imported.ignored["files of meshes that are missing"] == paths


@pytest.mark.parametrize("text", ["$(optenv X 0) 0 0", "$(arg x) 0 0", "${x} 0 0", "$(find x) 0 0"])
def test_substitutions_of_xacro_are_known(tmp_path, text):
    parts = _link("base"), _link("leg"), _joint("base", "leg", inside=f'<origin xyz="{text}"/>')
    with pytest.raises(ValueError, match=r"has macros of xacro .*pip install xacrodoc"):
        _read(tmp_path, *parts)
    shape = _collision(f'<mesh filename="{text.split(" 0")[0]}/foot.stl"/>')
    with pytest.warns(UserWarning, match="missing, of base"):
        _read(tmp_path, _link("base", shape), _link("leg"), _joint("base", "leg"))


def test_small_errors_of_the_text_are_no_obstacle(tmp_path):
    head = '\n <?xml version="1.0"?>'
    picture = '<visual><material name="x"/><material name="x"/></visual>'
    parts = _link("base", picture), _link("leg"), _joint("base", "leg"), "<drake:acceleration/>"
    with pytest.warns(UserWarning, match="without them: <drake:acceleration> of r. All names"):
        imported = _read(tmp_path, *parts, head=head)
    assert imported.ignored == {"<drake:acceleration> of": ("r",)}
    path = tmp_path / "robot.urdf"
    path.write_bytes(path.read_bytes() + b"\r\n\0")
    with pytest.warns(UserWarning, match="acceleration"):
        assert io.import_model(path).mechanism.names == ("leg",)


def test_ball_joints_and_types_of_other_dialects(tmp_path):
    limit = '<limit lower="-1" upper="1"/>'
    with pytest.warns(UserWarning, match="limits of base-ball"):
        ball = _read(
            tmp_path, _link("base"), _link("ball"), _joint("base", "ball", "spherical", limit)
        )
    assert ball.joints[0].limits == (-np.inf, np.inf)
    with pytest.raises(ValueError, match=r"'base-ball' has the type 'screw', which is none of rev"):
        _read(tmp_path, _link("base"), _link("ball"), _joint("base", "ball", "screw"))


def test_errors_have_the_lines_of_the_file(tmp_path):
    leg = _joint("base", "leg", inside='\n<origin\nxyz="a b c"/>')
    with pytest.raises(ValueError, match=r"robot.urdf' cannot be compiled: .*'origin', line 4\."):
        _read(tmp_path, _link("base", "\n<visual\n/>"), _link("leg"), leg)
    materials = '<visual><material name="a"/><material name="b"/><geometry/></visual>'
    wanted = '<mujoco><compiler discardvisual="false"/></mujoco>'
    assert _read(
        tmp_path, wanted, _link("base", materials), _link("leg"), _joint("base", "leg")
    ).mechanism.names == ("leg",)
