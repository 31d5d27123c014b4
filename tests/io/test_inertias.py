"""Inertias of links that are fixed to each other, and of links that no body can be."""

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
