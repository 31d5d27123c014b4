"""Meshes of a file as the vertices of their convex hulls, and what is named if there are none."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax import contact, io

# Of coordinates in files of meshes, m.
SINGLE = 3e-8
LAW = lie_jax.contact.HuntCrossley(1e7, dissipation=0.5)
SIZE = np.asarray([0.2, 0.1, 0.04])
PLACE, TURN = np.asarray([0.02, -0.01, -0.1]), Rotation.from_rotvec([0.3, -0.5, 0.2])

URDF = """
<robot name="r">
  <link name="trunk">
    <inertial><mass value="2"/>
      <inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="package://parts/meshes/seen.stl"/></geometry></visual>
    <collision name="foot"><origin xyz="0.02 -0.01 -0.1" rpy="0.1 0.2 0.3"/>
      <geometry><mesh filename="package://parts/meshes/box.stl" scale="1 2 -1"/></geometry>
    </collision>
    OTHERS
  </link>
</robot>
"""
MJCF = """
<mujoco>
  <compiler meshdir="meshes"/>
  <asset><mesh name="box" file="box.stl" scale="1 2 -1"/>MESHES</asset>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" margin="5"/>
    <body name="trunk" pos="0 0 1"><freejoint/>
      INERTIAL
      <geom name="foot" type="mesh" mesh="box" pos="0.02 -0.01 -0.1" euler="20 -10 5" margin="5"/>
      OTHERS
    </body>
  </worldbody>
</mujoco>
"""
INERTIAL = '<inertial pos="0 0 0.1" mass="2" diaginertia="0.01 0.02 0.02"/>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Meshes of a box in many triangles, of a ball, of an unknown kind, and of nothing."""
    root = tmp_path_factory.mktemp("parts")
    folder = root / "parts"
    meshes = folder / "meshes"
    meshes.mkdir(parents=True)
    box = trimesh.creation.box(SIZE).subdivide().subdivide()
    box.apply_transform(trimesh.transformations.translation_matrix([0.01, 0.02, 0.03]))
    box.export(meshes / "box.stl")
    trimesh.creation.icosphere(subdivisions=3, radius=0.1).export(meshes / "ball.obj")
    (meshes / "part.dae").write_text("<COLLADA/>")
    (meshes / "broken.stl").write_text("no mesh")
    return folder


def _read(path, text):
    path.write_text(text)
    with pytest.warns(UserWarning, match="import_model leaves out"):
        return io.import_model(path)


def test_a_hull_touches_as_the_mesh_of_mujoco(folder):
    text = MJCF.replace("MESHES", "").replace("OTHERS", "").replace("INERTIAL", INERTIAL)
    imported = _read(folder / "foot.xml", text)
    assert imported.shapes["foot"].points.shape == (8, 3)
    model = mujoco.MjModel.from_xml_path(str(folder / "foot.xml"))
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    mechanism = dataclasses.replace(imported.mechanism, forces=imported.contacts(LAW))
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    gap = jax.jit(lambda q: system.contacts(0.0, q, state.v).gap)
    for _ in range(10):
        q = np.concatenate([rng.normal(size=3), Rotation.random(rng=rng).as_quat()])
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        assert_allclose(
            gap(jnp.asarray(q)).min(), min(c.dist for c in data.contact), atol=10 * SINGLE
        )


@pytest.mark.full
def test_a_hull_of_a_box_is_the_box(folder):
    """Scaled, mirrored, in a package: gaps, forces and the depth at which a run ends."""
    (folder / "robot.urdf").write_text(URDF.replace("OTHERS", ""))
    imported = io.import_model(folder / "robot.urdf", floating_base=True)
    hull = imported.shapes["foot"]
    turn = Rotation.from_euler("xyz", [0.1, 0.2, 0.3])
    scale = np.asarray([1.0, 2.0, -1.0])
    middle = PLACE + turn.apply(scale * [0.01, 0.02, 0.03])
    box = contact.Box("trunk", np.abs(scale) * SIZE, middle, turn.as_quat(scalar_first=True))

    def sides(points):
        rounded = np.round(np.asarray(points), 6)
        return points[np.lexsort(rounded.T)]

    assert_allclose(sides(np.asarray(hull.points)), sides(np.asarray(box.balls()[0])), atol=SINGLE)
    for direction in jnp.asarray(Rotation.random(5, rng=2).as_matrix()[:, 2]):
        assert_allclose(hull.depth(direction), box.depth(direction), atol=SINGLE)

    def end(shape):
        trunk = imported.mechanism.bodies[0]
        lifted = dataclasses.replace(trunk, position=jnp.asarray([0.0, 0.0, 0.3]))
        hit = lie_jax.contact.Contact(
            shape, contact.Plane("ground"), LAW, lie_jax.contact.Coulomb(0.5)
        )
        mechanism = lie_jax.Mechanism([lifted], forces=[hit])
        system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
        run = lie_jax.simulate(system, lie_jax.ConvexContact(), state, dt=1e-3, steps=1000)
        return run.q[-1]

    assert_allclose(end(hull), end(box), atol=1e-5)


def test_meshes_without_a_shape_are_named_with_the_reason(folder):
    parts = {"ball": "ball.obj", "gone": "gone.stl", "other": "part.dae", "broken": "broken.stl"}
    reasons = {
        "meshes, flat or with more than 64 vertices of the hull, of": ("ball",),
        "meshes whose files are missing, of": ("gone",),
        "meshes that are no STL or OBJ files, of": ("other",),
        "meshes that MuJoCo cannot read, of": ("broken",),
    }
    collisions = "".join(
        f'<collision name="{name}"><geometry><mesh filename="meshes/{file}"/></geometry>'
        "</collision>"
        for name, file in parts.items()
    )
    (folder / "robot.urdf").write_text(URDF.replace("OTHERS", collisions))
    with pytest.warns(UserWarning, match=f"missing, of gone; .*missing {folder}/meshes/gone"):
        urdf = io.import_model(folder / "robot.urdf", floating_base=True)
    meshes = "".join(f'<mesh name="{name}" file="{file}"/>' for name, file in parts.items())
    geoms = "".join(f'<geom name="{name}" type="mesh" mesh="{name}"/>' for name in parts)
    pictures = '<geom type="mesh" mesh="gone" contype="0" conaffinity="0"/>'
    text = MJCF.replace("MESHES", meshes).replace("OTHERS", geoms + pictures)
    mjcf = _read(folder / "many.xml", text.replace("INERTIAL", INERTIAL))
    for imported in (urdf, mjcf):
        ignored = {reason: imported.ignored.get(reason) for reason in reasons}
        assert ignored == reasons
        assert isinstance(imported.shapes["foot"], contact.Points)
    # The inertia of the body would be another one.
    (folder / "many.xml").write_text(text.replace("INERTIAL", ""))
    with pytest.raises(ValueError, match="cannot be compiled"):
        io.import_model(folder / "many.xml")


@pytest.mark.parametrize("host", ["", "localhost"])
def test_addresses_of_mjcf_are_read(folder, host):
    text = MJCF.replace("MESHES", "").replace("OTHERS", "").replace("INERTIAL", INERTIAL)
    text = text.replace('file="box.stl"', f'file="file://{host}{folder}/meshes/box.stl"')
    imported = _read(folder / "addressed.xml", text)
    assert imported.shapes["foot"].points.shape == (8, 3)
    assert "files of meshes that are missing" not in imported.ignored
