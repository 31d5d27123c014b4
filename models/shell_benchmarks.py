"""Plates and shells with published deflections and frequencies, between planes of symmetry.

Numbers of Sze, Liu, Lo, "Popular benchmark problems for geometric nonlinear analysis of shells"
(2004), by elements S4R of Abaqus, for the cantilever, the hemisphere and the open cylinder; of
MacNeal and Harder, "A proposed standard set of problems to test finite element accuracy" (1985),
for small loads, the twisted strip and, as printed by many, the pinched cylinder; of Leissa,
"Vibration of plates" (1969), for frequencies. `models.slit_annulus` is another one of Sze's.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

import lie_jax
from lie_jax import shells

# Loads at which deflections are those of linear equations, to 1e-6.
SMALL = 1e-4
# Shortening and height of the cantilever under 4.
CANTILEVER = (3.286, 6.698)
# Outwards and inwards, at P = 400, of the hemisphere; under small loads for each 2 of P.
HEMISPHERE, HEMISPHERE_SMALL = (4.067, 8.178), 0.093
# The pull, the way of the point of the pull, and inwards at a quarter turn in the middle and at the
# end, of the open cylinder at 40000, and at a quarter of that.
PULL, PULL_OUT, PULL_OUT_QUARTER = 40000.0, (2.768, 4.551, 3.269), (2.180, 3.087, 3.310)
PINCHED = 1.8248e-5
# Along the load across the faces, and in the plane of the root.
TWISTED = (5.424e-3, 1.754e-3)
# √(ρ h / D) L² ω of a free square plate after the rigid motions, and of one clamped at one edge.
FREE_PLATE, CLAMPED_PLATE = (13.468, 19.596, 24.270), (3.492, 8.525, 21.43)

_WORDS = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")
# What a plane of symmetry across an axis holds.
_ACROSS = {
    "x": {"x", "rotation_y", "rotation_z"},
    "y": {"y", "rotation_x", "rotation_z"},
    "z": {"z", "rotation_x", "rotation_y"},
}


class Benchmark(NamedTuple):
    """A system at rest, and `places`: body, axis and sign of the deflections that are published."""

    system: Any
    state: lie_jax.State
    places: tuple[tuple[int, int, float], ...]

    def deflections(self, q: Float[Array, " nq"]) -> Float[Array, " k"]:
        """Published deflections (m) at a configuration."""
        ways = self.system.poses(q)[1] - self.system.poses(self.state.q)[1]
        return jnp.stack([sign * ways[body, axis] for body, axis, sign in self.places])


def grid(first: int, second: int) -> np.ndarray:
    """Numbers of nodes i (second + 1) + j of the quadrilaterals of a map of i and j."""
    row = second + 1
    start = np.asarray([i * row + j for i in range(first) for j in range(second)])
    return np.stack([start, start + row, start + row + 1, start + 1], axis=1)


def strip(length: float, width: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mesh of a flat strip of so many elements along x."""
    nodes = [[length * i / count, j * width, 0.0] for i in range(count + 1) for j in range(2)]
    return np.asarray(nodes), grid(count, 1)


def assemble(
    surface: shells.Surface, forces: Iterable[Any] = (), joints: Iterable[Any] = ()
) -> tuple[Any, lie_jax.State]:
    """System without gravity, and its state."""
    mechanism = lie_jax.Mechanism(
        surface.nodes, list(joints), forces=[*surface.elements, *forces], gravity=(0, 0, 0)
    )
    return lie_jax.assemble(mechanism, lie_jax.SE3())


def cantilever(load: ArrayLike = 4.0, count: int = 16, thickness: ArrayLike = 0.1) -> Benchmark:
    """A strip of 10 × 1, clamped at one end, under a force across the other one."""
    surface = shells.surface(
        "s", strip(10.0, 1.0, count), thickness, 1.2e6, 0.0, 1.0, clamped=[0, 1]
    )
    up = jnp.asarray([0.0, 0.0, 0.5]) * load
    tips = [lie_jax.PointForce(node.name, up) for node in surface.nodes[-2:]]
    last = len(surface.nodes) - 1
    return Benchmark(*assemble(surface, tips), ((last, 0, -1.0), (last, 2, 1.0)))


def square_plate(count: int, clamped: bool = False) -> Benchmark:
    """A square plate of 1 m, thickness 0.01, free or clamped at the edge x = 0."""
    along = np.linspace(0.0, 1.0, count + 1)
    nodes = np.asarray([[x, y, 0.0] for x in along for y in along])
    held = np.arange(count + 1) if clamped else ()
    surface = shells.surface("s", (nodes, grid(count, count)), 0.01, 1e9, 0.3, 1000.0, clamped=held)
    return Benchmark(*assemble(surface), ())


def plate_frequencies(count: int, clamped: bool = False) -> np.ndarray:
    """Three frequencies √(ρ h / D) L² ω of a plate with lumped masses."""
    plate, rigid = square_plate(count, clamped), 0 if clamped else 6
    modes = lie_jax.modes(plate.system, plate.state, number=3 + rigid)
    # √(D / ρ h) with a side of 1 m.
    unit = np.sqrt(1e9 * 0.01**2 / 12.0 / (1.0 - 0.3**2) / 1000.0)
    return np.asarray(modes.frequencies)[rigid:] / unit


def hemisphere(count: int, load: float) -> Benchmark:
    """A quarter of a hemisphere with a hole of 18 degrees, pulled and pushed at its equator."""
    around, up = np.linspace(0, np.pi / 2, count + 1), np.linspace(0, np.radians(72), count + 1)
    nodes = np.asarray(
        [[np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)] for a in around for b in up]
    )
    surface = shells.surface(
        "s", (10.0 * nodes, grid(count, count)), 0.04, 6.825e7, 0.3, 1.0, normals=nodes
    )
    last = count * (count + 1)
    held = {k: _ACROSS["y"] for k in range(count + 1)}
    held |= {last + k: _ACROSS["x"] for k in range(count + 1)}
    held[0] = held[0] | {"z"}
    forces = {0: (0.5 * load, 0.0, 0.0), last: (0.0, -0.5 * load, 0.0)}
    return Benchmark(*_symmetric(surface, held, forces), ((0, 0, 1.0), (last, 1, -1.0)))


def open_cylinder(around: int, along: int, load: float) -> Benchmark:
    """An eighth of an open cylinder, pulled out by two forces in its middle."""
    numbers = (4.953, 10.35, 0.094, 10.5e6, 0.3125)
    return _cylinder(around, along, numbers, load, is_open=True)


def pinched_cylinder(count: int) -> Benchmark:
    """An eighth of a cylinder with diaphragms at its ends, pinched by two forces of one."""
    return _cylinder(count, count, (300.0, 600.0, 3.0, 3e6, 0.3), -1.0, is_open=False)


def twisted_strip(count: int, across: int, load: Any) -> Benchmark:
    """A strip of 12 × 1.1, twisted by a quarter turn, under a force (3,) on its tip."""
    length, width = 12.0, 1.1
    along = np.linspace(0, length, count + 1)
    places = np.linspace(-width / 2, width / 2, across + 1)
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
    middle = len(surface.nodes) - 1 - across // 2
    axis = int(np.argmax(np.abs(load)))
    return Benchmark(*assemble(surface, loads), ((middle, axis, 1.0),))


def _symmetric(
    surface: shells.Surface, held: Mapping[int, set[str]], forces: Mapping[int, Any]
) -> tuple[Any, lie_jax.State]:
    """System with planes of symmetry; `held` and `forces` by numbers of nodes."""
    joints = [
        lie_jax.GenericJoint(
            "ground",
            f"s {node}",
            tuple(word for word in _WORDS if word in words),
            parent_point=surface.nodes[node].position,
        )
        for node, words in held.items()
    ]
    loads = [lie_jax.PointForce(f"s {node}", force) for node, force in forces.items()]
    return assemble(surface, loads, joints)


def _cylinder(
    around: int, along: int, numbers: tuple[float, ...], load: float, is_open: bool
) -> Benchmark:
    """An eighth of a cylinder; deflections of the point of the force, outwards, and inwards at a
    quarter turn in the middle and at the end.
    """
    radius, length, thickness, young, poisson = numbers
    angles, places = np.linspace(0, np.pi / 2, around + 1), np.linspace(0, length / 2, along + 1)
    normals = np.asarray([[np.cos(a), np.sin(a), 0.0] for a in angles for _ in places])
    nodes = radius * normals
    nodes[:, 2] = np.tile(places, around + 1)
    # Around × along is outwards, so (around, along) is counter-clockwise from outside.
    surface = shells.surface(
        "s", (nodes, grid(around, along)), thickness, young, poisson, 1.0, normals=normals
    )
    row, held = along + 1, {}
    for k in range(row):
        held[k] = set(_ACROSS["y"])
        held[around * row + k] = set(_ACROSS["x"])
    for i in range(around + 1):
        held[i * row] = held.get(i * row, set()) | _ACROSS["z"]
        if not is_open:
            end = i * row + along
            held[end] = held.get(end, set()) | {"x", "y", "rotation_z"}
    places = ((0, 0, 1.0), (around * row, 1, -1.0), (around * row + along, 1, -1.0))
    forces = {0: (0.25 * load, 0.0, 0.0)}
    return Benchmark(*_symmetric(surface, held, forces), places)
