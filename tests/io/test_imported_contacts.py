"""Shapes, limits and dry friction of an imported file, as forces: against MuJoCo and the laws."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import contact, io

# m; MuJoCo's narrow phase computes an ellipsoid's place by iterations.
ROUNDING, ITERATED = 1e-14, 1e-6
LAW = lie_jax.contact.HuntCrossley(200.0)

# A leg on a slider and a hinge, both off zero, with a foot fixed to it, and a tilted ground.
MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <default><geom margin="5" mass="0"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" pos="0.1 0 -0.2" quat="0.98 0.1 0.15 0.05"/>
    <geom name="seen" type="plane" size="5 5 1" contype="0" conaffinity="0"/>
    <body name="torso" pos="0 0 1" quat="0.9 0.1 -0.3 0.2">
      <joint name="slide" type="slide" axis="1 2 0" pos="0.1 0 0" ref="0.1" range="-0.2 0.4"
        frictionloss="3"/>
      <inertial pos="0.1 0 0.05" mass="3" diaginertia="0.1 0.15 0.2"/>
      <geom name="ball" type="sphere" size="0.1" pos="0.1 0.2 0"/>
      <body name="leg" pos="-0.2 0.1 0" quat="0.8 -0.2 0.1 0.3">
        <joint name="hinge" axis="0 1 1" pos="0 0.1 0" ref="0.4" range="-1 1.5"
          frictionloss="0.7"/>
        <inertial pos="0 0 -0.3" mass="1.2" diaginertia="0.02 0.03 0.04"/>
        <geom name="shank" type="capsule" size="0.03 0.2" pos="0 0 -0.3" quat="0.9 0.3 0 0.1"/>
        <body name="foot" pos="0 0 -0.5" quat="0.7 0.1 -0.5 0.2">
          <geom name="sole" type="box" size="0.1 0.05 0.02" pos="0.02 0 0" quat="0.9 0 0.2 0.1"/>
          <geom name="heel" type="ellipsoid" size="0.05 0.03 0.02" pos="0 0.03 0.1"
            quat="0.9 0.2 0.2 0.1"/>
          <geom name="pin" type="cylinder" size="0.05 0.03"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
SHAPES = {
    "floor": contact.Plane,
    "ball": contact.Sphere,
    "shank": contact.Capsule,
    "sole": contact.Box,
    "heel": contact.Ellipsoid,
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "leg.xml"
    path.write_text(MJCF)
    with pytest.warns(UserWarning, match="shapes of other kinds pin") as warned:
        model = io.import_model(path)
    message = str(warned[0].message)
    assert "contacts, which `contacts` adds, of floor, ball, shank, sole, heel;" in message
    assert "friction" not in message
    assert model.ignored["dry friction, which `dry_friction` adds, of"] == ("slide", "hinge")
    return model


def test_gaps_are_those_of_mujoco(imported):
    assert {name: type(shape) for name, shape in imported.shapes.items()} == SHAPES
    contacts = imported.contacts(LAW)
    assert [c.parent for c in contacts] == ["torso", "leg", "leg", "leg"]
    mechanism = dataclasses.replace(imported.mechanism, forces=contacts)
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    model = mujoco.MjModel.from_xml_string(MJCF)
    data, rng = mujoco.MjData(model), np.random.default_rng(2)
    gaps = jax.jit(lambda q: system.contacts(0.0, q, state.v).gap)
    for _ in range(5):
        q = rng.normal(size=2)
        data.qpos[:] = q + model.qpos0
        mujoco.mj_forward(model, data)
        places = np.split(gaps(jnp.asarray(q)), np.cumsum([1, 2, 8]))
        for name, gap in zip(("ball", "shank", "sole", "heel"), places, strict=True):
            pair = {model.geom("floor").id, model.geom(name).id}
            theirs = [c.dist for c in data.contact if set(c.geom.tolist()) == pair]
            close = ITERATED if name == "heel" else ROUNDING
            assert_allclose(np.min(gap), min(theirs), rtol=0, atol=close)


def test_stops_and_dry_friction_act_on_the_coordinates_of_the_file(imported):
    assert [joint.dry_friction for joint in imported.joints] == [3.0, 0.7]
    added = [*imported.stops(LAW), *imported.dry_friction(hinges=0.5, sliders=0.2)]
    kinds = [lie_jax.JointStop] * 2 + [lie_jax.JointFriction] * 2
    assert [type(force) for force in added] == kinds

    def forces(mechanism):
        system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
        none = jnp.zeros(0)
        return jax.jit(jax.vmap(lambda q, v: system.force(0.0, q, v, none)))

    # Coordinates of the file, within the limits, above and below them.
    file = np.asarray([[0.3, 1.2], [0.45, 1.7], [-0.23, -1.4]])
    rates = np.asarray([[0.0, 0.0], [0.6, -1.5], [-0.1, 2.0]])
    given = jnp.asarray(file - np.asarray([0.1, 0.4])), jnp.asarray(rates)
    bare = dataclasses.replace(imported.mechanism, forces=())
    change = forces(dataclasses.replace(bare, forces=added))(*given) - forces(bare)(*given)
    beyond = np.asarray([[0.0, 0.0], [0.05, 0.2], [-0.03, -0.4]])
    smooth, limit = np.asarray([0.2, 0.5]), np.asarray([3.0, 0.7])
    expected = -200.0 * beyond * np.abs(beyond) - limit * rates / np.hypot(rates, smooth)
    assert_allclose(change, expected, atol=1e-12)


def test_a_ground_is_given_where_the_file_has_none(imported):
    floating = imported._replace(
        shapes={name: shape for name, shape in imported.shapes.items() if name != "floor"}
    )
    with pytest.raises(ValueError, match=r"4 shapes of moving bodies and 0 of the ground.*Plane"):
        floating.contacts(LAW)
    ground = contact.Plane("ground")
    assert len(floating.contacts(LAW, lie_jax.contact.Coulomb(0.5), ground)) == 4
