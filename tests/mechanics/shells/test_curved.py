"""Curved and twisted shells against published deflections, by parts between planes of symmetry."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import shells

pytestmark = pytest.mark.full

# Loads at which deflections are those of linear equations, to 1e-6.
SMALL = 1e-4
WORDS = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")
# What a plane of symmetry across an axis holds.
ACROSS = {
    "x": {"x", "rotation_y", "rotation_z"},
    "y": {"y", "rotation_x", "rotation_z"},
    "z": {"z", "rotation_x", "rotation_y"},
}


def deflections(surface, held, forces):
    """Displacements (n, 3) of the bodies; `held` and `forces` by numbers of nodes."""
    joints = [
        lie_jax.GenericJoint(
            "ground",
            f"s {node}",
            tuple(word for word in WORDS if word in words),
            parent_point=surface.nodes[node].position,
        )
        for node, words in held.items()
    ]
    loads = [lie_jax.PointForce(f"s {node}", force) for node, force in forces.items()]
    mechanism = lie_jax.Mechanism(
        surface.nodes, joints, [*surface.elements, *loads], gravity=(0, 0, 0)
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    moved = system.poses(lie_jax.equilibrium(system, state).q)[1]
    return np.asarray(moved) - np.asarray([body.position for body in surface.nodes])


def grid(first, second):
    """Numbers of nodes i (second + 1) + j of the quadrilaterals of a map of i and j."""
    row = second + 1
    start = np.asarray([i * row + j for i in range(first) for j in range(second)])
    return np.stack([start, start + row, start + row + 1, start + 1], axis=1)


def hemisphere(count, load):
    """A quarter of a hemisphere with a hole of 18 degrees, pulled and pushed at its equator."""
    around, up = np.linspace(0, np.pi / 2, count + 1), np.linspace(0, np.radians(72), count + 1)
    nodes = np.asarray(
        [[np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)] for a in around for b in up]
    )
    surface = shells.surface(
        "s", (10.0 * nodes, grid(count, count)), 0.04, 6.825e7, 0.3, 1.0, normals=nodes
    )
    last = count * (count + 1)
    held = {k: ACROSS["y"] for k in range(count + 1)}
    held |= {last + k: ACROSS["x"] for k in range(count + 1)}
    held[0] = held[0] | {"z"}
    forces = {0: (0.5 * load, 0.0, 0.0), last: (0.0, -0.5 * load, 0.0)}
    moved = deflections(surface, held, forces)
    return moved[0, 0], -moved[last, 1]


@pytest.mark.parametrize("count, error", [(8, 0.015), (16, 0.006)])
def test_a_hemisphere_with_a_hole_under_small_loads(count, error):
    # MacNeal and Harder (1985) print 0.094, Simo, Fox and Rifai (1989) 0.093.
    out, inwards = hemisphere(count, 2.0 * SMALL)
    assert_allclose((out / SMALL, inwards / SMALL), 0.093, rtol=error)


@pytest.mark.parametrize("count, error", [(8, 0.06), (16, 0.015)])
def test_a_hemisphere_with_a_hole_under_large_loads(count, error):
    # Sze, Liu, Lo (2004), 16 × 16 elements, at P = 400; here a half of each force acts.
    inwards, out = 8.178, 4.067
    assert_allclose(hemisphere(count, 400.0), (out, inwards), rtol=error)


def cylinder(around, along, numbers, load, is_open):
    """An eighth of a cylinder, pulled or pushed in its middle; displacements, and numbers of nodes
    in the middle at a quarter turn, and at its end.
    """
    radius, length, thickness, young, poisson = numbers
    angles, places = np.linspace(0, np.pi / 2, around + 1), np.linspace(0, length / 2, along + 1)
    normals = np.asarray([[np.cos(a), np.sin(a), 0.0] for a in angles for _ in places])
    nodes = radius * normals
    nodes[:, 2] = np.tile(places, around + 1)
    # z × radius goes around, so (around, z) is counter-clockwise from outside.
    surface = shells.surface(
        "s", (nodes, grid(around, along)), thickness, young, poisson, 1.0, normals=normals
    )
    row, held = along + 1, {}
    for k in range(row):
        held[k] = set(ACROSS["y"])
        held[around * row + k] = set(ACROSS["x"])
    for i in range(around + 1):
        held[i * row] = held.get(i * row, set()) | ACROSS["z"]
        if not is_open:
            end = i * row + along
            held[end] = held.get(end, set()) | {"x", "y", "rotation_z"}
    moved = deflections(surface, held, {0: (0.25 * load, 0.0, 0.0)})
    return moved, around * row, around * row + along


@pytest.mark.parametrize("count, error", [(8, 0.25), (16, 0.075)])
def test_a_pinched_cylinder_with_diaphragms(count, error):
    moved, *_ = cylinder(count, count, (300.0, 600.0, 3.0, 3e6, 0.3), -1.0, is_open=False)
    # A sharp load, for which four-node elements are too stiff from above alone.
    ratio = -moved[0, 0] / 1.8248e-5
    assert 1.0 - error < ratio < 1.0


def test_the_pull_out_of_an_open_cylinder():
    numbers = (4.953, 10.35, 0.094, 10.5e6, 0.3125)
    moved, middle, end = cylinder(24, 16, numbers, 0.25 * 40000.0, is_open=True)
    found = moved[0, 0], -moved[middle, 1], -moved[end, 1]
    # Sze, Liu, Lo (2004), 24 × 36 elements, at a quarter of the load.
    assert_allclose(found, (2.180, 3.087, 3.310), rtol=0.01)


def twisted(count, across, load):
    """Displacement of the tip's middle of a strip twisted by a quarter turn, by a load there."""
    length, width = 12.0, 1.1
    along, places = (
        np.linspace(0, length, count + 1),
        np.linspace(-width / 2, width / 2, across + 1),
    )
    nodes, normals, rate = [], [], 0.5 * np.pi / length
    for x in along:
        c, s = np.cos(rate * x), np.sin(rate * x)
        for y in places:
            nodes.append([x, y * c, y * s])
            normals.append(np.cross([1.0, -y * rate * s, y * rate * c], [0.0, c, s]))
    surface = shells.surface(
        "s",
        (np.asarray(nodes), grid(count, across)),
        0.32,
        29e6,
        0.22,
        1.0,
        normals=np.asarray(normals),
        clamped=range(across + 1),
    )
    tip = [node.name for node in surface.nodes[-across - 1 :]]
    shares = np.full(across + 1, 1.0 / across)
    shares[[0, -1]] *= 0.5
    loads = [
        lie_jax.PointForce(name, share * np.asarray(load))
        for name, share in zip(tip, shares, strict=True)
    ]
    mechanism = lie_jax.Mechanism(
        surface.nodes, forces=[*surface.elements, *loads], gravity=(0, 0, 0)
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    moved = system.poses(lie_jax.equilibrium(system, state).q)[1] - system.poses(state.q)[1]
    return moved[-across // 2 - 1]


@pytest.mark.parametrize("count, across, error", [(12, 2, 0.01), (24, 4, 0.005)])
def test_a_twisted_beam(count, across, error):
    # MacNeal and Harder (1985).
    along = [twisted(count, across, load)[axis] / SMALL for axis, load in LOADS]
    assert_allclose(along, (5.424e-3, 1.754e-3), rtol=error)


LOADS = ((2, (0.0, 0.0, SMALL)), (1, (0.0, SMALL, 0.0)))
