"""Surfaces of imported files in pictures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax

# Round surfaces have flat facets inside them.
FACETS = 0.03
FILE = """
<mujoco>
  <asset><material name="red" rgba="1 0 0 0.5"/></asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="arm" pos="0 0 1">
      <joint axis="0 1 0"/>
      <geom name="{kind}" type="{kind}" size="{size}" pos="0.1 0.2 0.3" euler="90 0 0"
        material="red" contype="0" conaffinity="0" group="1"/>
      <geom name="hull" type="sphere" size="0.5"/>
      <body pos="0 0 0.4"><geom type="box" size="0.1 0.1 0.1" rgba="0 1 0 1"/></body>
    </body>
  </worldbody>
</mujoco>
"""
VOLUMES = {
    "box": ("0.1 0.2 0.3", 8.0 * 0.1 * 0.2 * 0.3),
    "sphere": ("0.2", 4.0 / 3.0 * np.pi * 0.2**3),
    "ellipsoid": ("0.1 0.2 0.3", 4.0 / 3.0 * np.pi * 0.1 * 0.2 * 0.3),
    "cylinder": ("0.2 0.3", np.pi * 0.2**2 * 0.6),
    "capsule": ("0.2 0.3", np.pi * 0.2**2 * 0.6 + 4.0 / 3.0 * np.pi * 0.2**3),
}


@pytest.mark.parametrize("kind", VOLUMES)
def test_surfaces_enclose_their_solids_and_stand_on_their_bodies(kind, tmp_path):
    size, volume = VOLUMES[kind]
    (tmp_path / "arm.xml").write_text(FILE.format(kind=kind, size=size))
    with pytest.warns(UserWarning):
        model = lie_jax.io.import_model(tmp_path / "arm.xml")
    # The ball that touches is not seen beside a picture, a part of the arm is.
    mesh, box = model.visuals
    assert (mesh.body, box.body) == ("arm", "arm")
    assert_allclose(mesh.color, (1.0, 0.0, 0.0, 0.5))
    assert_allclose(box.color, (0.0, 1.0, 0.0, 1.0))
    corners = mesh.vertices[mesh.faces]
    enclosed = np.linalg.det(corners).sum() / 6.0
    assert_allclose(enclosed, volume, rtol=FACETS)
    assert_allclose(0.5 * (mesh.vertices.min(0) + mesh.vertices.max(0)), [0.1, 0.2, 0.3], atol=1e-9)
    assert_allclose(0.5 * (box.vertices.min(0) + box.vertices.max(0)), [0.0, 0.0, 0.4], atol=1e-9)
    # Long sides along z in the file are turned by a right angle about x.
    extent = np.ptp(mesh.vertices, axis=0)
    assert kind == "sphere" or extent[1] > extent[2]
