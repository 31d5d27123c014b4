"""Inertias of links that are fixed to each other, and of links that no body can be."""

import dataclasses

import mujoco
import numpy as np
import pytest

from lie_jax import io

# Sums of a few numbers.
CLOSE = 1e-12


def _link(name, mass=None, moments=(0.1, 0.1, 0.1), xyz="0 0 0", xy=0.0):
    if mass is None:
        return f'<link name="{name}"/>'
    xx, yy, zz = moments
    return (
        f'<link name="{name}"><inertial><origin xyz="{xyz}"/><mass value="{mass}"/>'
        f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="{xy}" ixz="0" iyz="0"/>'
        "</inertial></link>"
    )


def _joint(parent, child, kind="revolute", xyz="0 0 0"):
    return (
        f'<joint name="{parent}-{child}" type="{kind}"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="{xyz}"/><axis xyz="0 0 1"/>'
        '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
    )


def _import(tmp_path, *parts, **options):
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r">{"".join(parts)}</robot>')
    return io.import_model(path, **options)


@pytest.mark.filterwarnings("ignore:import_model leaves out")
def test_links_that_are_fixed_to_each_other_are_judged_as_one(tmp_path):
    # Neither the dummy nor the sensor is a body; both together with the arm are one.
    parts = [
        _link("base", 1e-6, (1e-6, 1e-6, 1e-6), xy=1e-6),
        _link("arm", 2.0, (0.1, 0.2, 0.15), "0.1 0 0"),
        _link("dummy", 1e-6, (1e-6, 1e-6, 1e-6), xy=1e-6),
        _link("sensor", 0.5, (0.01, 0.01, 0.03), "0 0 0.1"),
        _joint("base", "arm"),
        _joint("arm", "dummy", "fixed"),
        _joint("dummy", "sensor", "fixed", "0 0.4 0"),
    ]
    (arm,) = _import(tmp_path, *parts).mechanism.bodies
    assert arm.mass == pytest.approx(2.5 + 1e-6, abs=CLOSE)
    centers = np.asarray([[0.1, 0, 0], [0, 0, 0], [0, 0.4, 0.1]])
    masses = np.asarray([2.0, 1e-6, 0.5])
    center = masses @ centers / masses.sum()
    dummy = 1e-6 * np.asarray([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    own = np.diag([0.1, 0.2, 0.15]) + np.diag([0.01, 0.01, 0.03]) + dummy
    arms = centers - center
    steiner = (masses * np.sum(arms**2, axis=1)).sum() * np.eye(3) - (masses * arms.T) @ arms
    np.testing.assert_allclose(arm.center_of_mass, center, atol=CLOSE)
    np.testing.assert_allclose(arm.inertia, own + steiner, atol=CLOSE)


IMPROPER = [
    _link("base", 1.0),
    _link("flat", 1.0, (0.1, 0.1, 0.3)),
    _link("negative", 1.0, (0.1, 0.1, 0.1), xy=0.2),
    _link("empty"),
    _link("carrier"),
    _link("last", 1.0),
    _joint("base", "flat"),
    _joint("flat", "negative"),
    _joint("negative", "empty"),
    _joint("flat", "carrier", xyz="1 0 0"),
    _joint("carrier", "last", xyz="1 0 0"),
]


def test_bodies_that_cannot_be_are_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="links with inertias that no body has") as error:
        _import(tmp_path, *IMPROPER)
    message = str(error.value)
    for part in (
        "'flat' has the principal moments 0.1, 0.1, 0.3 kg m², of which the smaller two must add",
        "'negative' has the principal moments -0.1, 0.1, 0.3 kg m², which must be positive",
        "'empty' has the mass 0 kg, which must be positive",
        "inertia='balance'",
    ):
        assert part in message
    assert "carrier" not in message
    with pytest.raises(ValueError, match=r"import_model\(inertia=\) is 'loose'"):
        _import(tmp_path, *IMPROPER, inertia="loose")
    (tmp_path / "robot.xml").write_text("<mujoco/>")
    with pytest.raises(ValueError, match=r"inertia='balance'\), but .* is an MJCF file"):
        io.import_model(tmp_path / "robot.xml", inertia="balance")


def test_balance_gives_them_the_nearest_inertias(tmp_path):
    kind = "inertias of a body, where the file has others"
    with pytest.warns(UserWarning, match=kind) as warned:
        imported = _import(tmp_path, *IMPROPER, inertia="balance")
    (message,) = [str(warning.message) for warning in warned]
    bodies = {body.name: body for body in imported.mechanism.bodies}
    changed = next(names for kind_, names in imported.ignored.items() if kind_.startswith(kind))
    assert set(changed) == {"flat", "negative", "empty"}
    assert all(name in message for name in changed)
    assert bodies["carrier"].is_massless and not bodies["last"].is_massless
    np.testing.assert_allclose(bodies["last"].inertia, 0.1 * np.eye(3), atol=CLOSE)
    # Second moments of mass along the axes: (0.15, 0.15, -0.05) before, none negative after.
    least = 1e-6
    expected = np.diag([0.15 + least, 0.15 + least, 0.3])
    np.testing.assert_allclose(bodies["flat"].inertia, expected, atol=CLOSE)
    assert (bodies["flat"].mass, bodies["empty"].mass) == (1.0, 1e-3)
    for body in imported.mechanism.bodies:
        if not body.is_massless:
            moments = np.linalg.eigvalsh(body.inertia)
            assert 0.0 < moments[2] <= moments[0] + moments[1] + CLOSE


def test_products_keep_all_digits(tmp_path):
    """MuJoCo drops products below a millionth of the moments."""
    for size in (1e-3, 1e-6, 4.9e-7, 1e-12):
        parts = _link("base"), _link("arm", 1.0, (2.0, 1.5, 1.0), xy=size), _joint("base", "arm")
        (arm,) = _import(tmp_path, *parts).mechanism.bodies
        assert arm.inertia[0, 1] == arm.inertia[1, 0] == size
        full = f"2 1.5 1 {size} 0 {-size}"
        text = (
            f'<body name="a"><joint/><inertial pos="0 0 0" mass="1" fullinertia="{full}"/></body>'
        )
        path = tmp_path / "robot.xml"
        path.write_text(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
        (arm,) = io.import_model(path).mechanism.bodies
        expected = np.asarray([[2.0, size, 0.0], [size, 1.5, -size], [0.0, -size, 1.0]])
        np.testing.assert_allclose(arm.inertia, expected, rtol=0, atol=4e-15)
    # And they are written to files.
    mechanism = _import(tmp_path, *parts).mechanism
    io.write_inertias(tmp_path / "robot.urdf", mechanism, tmp_path / "new.urdf")
    (arm,) = io.import_model(tmp_path / "new.urdf").mechanism.bodies
    assert arm.inertia[0, 1] == size


@pytest.mark.parametrize("mass", [1e-6, 1e-9, 1e-15, 1e-30, 0.0, -1.0])
@pytest.mark.parametrize("moment", [0.0, 1e-40, 1.0])
@pytest.mark.filterwarnings("ignore:import_model leaves out")
def test_balance_loads_whatever_it_is_advised_for(tmp_path, mass, moment):
    def read(**options):
        moments = moment, moment, 3.0 * moment
        parts = _link("base"), _link("arm", mass, moments), _joint("base", "arm")
        return _import(tmp_path, *parts, **options).mechanism.bodies[0]

    with pytest.raises(ValueError, match="inertia='balance'"):
        read()
    body = read(inertia="balance")
    assert body.mass == (mass if mass > 0.0 else 1e-3)
    assert np.linalg.eigvalsh(body.inertia)[0] > 0.0


def test_light_bodies_are_bodies(tmp_path):
    """Masses and moments below those that MuJoCo accepts."""
    parts = _link("base"), _link("arm", 1e-16, (1e-20,) * 3), _joint("base", "arm")
    (arm,) = _import(tmp_path, *parts).mechanism.bodies
    assert arm.mass == 1e-16
    np.testing.assert_array_equal(arm.inertia, 1e-20 * np.eye(3))


SHAPES = (
    '<collision><origin xyz="0.3 0 0.1" rpy="0.1 0.2 0.3"/><geometry><box size="0.2 0.3 0.4"/>'
    '</geometry></collision><collision><geometry><sphere radius="0.1"/></geometry></collision>'
    '<visual><geometry><box size="9 9 9"/></geometry></visual>'
)


@pytest.mark.filterwarnings("ignore:import_model leaves out")
def test_links_without_inertial_have_the_mass_of_their_shapes(tmp_path):
    bare = f'<link name="arm">{SHAPES}</link><link name="tool">{SHAPES}</link>'
    parts = [_link("base"), bare, _link("tip", 1.0), _joint("base", "arm")]
    parts += [_joint("arm", "tool", "fixed", "0 0.4 0"), _joint("tool", "tip")]
    imported = _import(tmp_path, *parts, inertia="geometry").mechanism.bodies
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.urdf"))
    for body in imported:
        theirs = model.body(body.name)
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, theirs.iquat)
        axes = axes.reshape(3, 3)
        np.testing.assert_allclose(body.mass, theirs.mass, rtol=CLOSE)
        np.testing.assert_allclose(body.center_of_mass, theirs.ipos, atol=CLOSE)
        # MuJoCo drops small products.
        inertia = axes @ np.diag(theirs.inertia) @ axes.T
        np.testing.assert_allclose(body.inertia, inertia, atol=1e-5 * inertia.max())
    # At 1000 kg/m³.
    volume = 0.2 * 0.3 * 0.4 + 4.0 / 3.0 * np.pi * 0.1**3
    assert imported[0].mass == pytest.approx(2.0 * 1000.0 * volume, rel=CLOSE)
    parts = [_link("base"), bare, _joint("base", "arm"), _joint("arm", "tool", "fixed")]
    with pytest.raises(ValueError, match=r"'arm' has the mass 0 kg.*inertia='geometry'\), which"):
        _import(tmp_path, *parts)


def test_compiler_settings_of_the_file_apply(tmp_path):
    def bodies(settings):
        parts = [_link("base"), _link("a", 1.0, (0.1, 0.1, 0.4)), _link("b", 0.1, (0.01,) * 3)]
        joints = [_joint("base", "a"), _joint("a", "b")]
        head = f"<mujoco><compiler {settings}/></mujoco>"
        return _import(tmp_path, head, *parts, *joints).mechanism.bodies

    with pytest.raises(ValueError, match="'a' has the principal moments"):
        bodies("")
    # MuJoCo takes the mean of the moments.
    a, b = bodies('balanceinertia="true" boundmass="0.5" boundinertia="0.02"')
    assert (a.mass, b.mass) == (1.0, 0.5)
    np.testing.assert_allclose(a.inertia, 0.2 * np.eye(3), rtol=CLOSE)
    np.testing.assert_allclose(b.inertia, 0.02 * np.eye(3), rtol=CLOSE)
    a, b = bodies('balanceinertia="true" settotalmass="2.2"')
    np.testing.assert_allclose((a.mass, b.mass), (2.0, 0.2), rtol=CLOSE)
    np.testing.assert_allclose(b.inertia, 0.02 * np.eye(3), rtol=CLOSE)
    # They change nothing that is written.
    source, written = tmp_path / "robot.urdf", tmp_path / "new.urdf"
    mechanism = io.import_model(source).mechanism
    heavier = [dataclasses.replace(body, mass=3.0 * body.mass) for body in mechanism.bodies]
    io.write_inertias(source, dataclasses.replace(mechanism, bodies=heavier), written)
    a, b = io.import_model(written).mechanism.bodies
    np.testing.assert_allclose((a.mass, b.mass), (6.0, 0.6), rtol=CLOSE)
