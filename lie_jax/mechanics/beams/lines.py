"""Lines of beam elements with the bodies that are their nodes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.groups import quaternion, se3
from lie_jax.mechanics.beams.element import Beam
from lie_jax.mechanics.beams.inertia import BeamInertia
from lie_jax.mechanics.beams.loads import NodeLoad
from lie_jax.mechanics.beams.sections import Section
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.joints.base import GROUND
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float

# NumPy's arrays where values are known.
Numbers = Array | np.ndarray
STRAIGHT = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Line(NamedTuple):
    """`nodes` and `elements` of a beam: for `Mechanism(bodies=)` and `Mechanism(forces=)`; with
    `order=4` its `inertias`, too: for `Mechanism(inertias=)`.
    """

    nodes: tuple[Body, ...]
    elements: tuple[Beam, ...]
    inertias: tuple[BeamInertia, ...] = ()


def line(
    name: str,
    section: Section,
    length: ArrayLike,
    elements: int,
    *,
    position: ArrayLike | Sequence[ArrayLike] = (0.0, 0.0, 0.0),
    orientation: ArrayLike | Sequence[ArrayLike] = (1.0, 0.0, 0.0, 0.0),
    rest_strain: Any = STRAIGHT,
    start: Body | str | None = None,
    end: Body | str | None = None,
    interpolation: str = "constant",
    order: int = 2,
) -> Line:
    """A beam at rest as so many elements, from one end to the other.

    **Arguments:**

    - `name`: the nodes are bodies with the names "name 0", "name 1", ...
    - `section`: a `beams.Section`, such as `beams.rectangle(...)`; `length`: arc length, m;
      `elements`: their number.
    - `position` (3,), m, `orientation` (4,), a unit quaternion: frame of the first section in the
      inertial frame, x along the beam.
    - `rest_strain`: strain at rest, (6,), or (elements, 6) for each element; with curvatures or a
      twist the nodes lie on arcs and helices, see `lie_jax.beams.Beam`.
    - `start`, `end`: None for a free end; `"ground"` or a `Body` clamps it to that body as it
      stands, without a joint and without a node of its own.
    - `interpolation`: of strains along elements, see `lie_jax.beams.Beam`.
    - `order`: 2, or 4 for linear strains with the mass along elements: errors in bending of
      slender beams are of the fourth order in the length of elements, those in extension, torsion
      and rotary inertia of the second. Nodes then have no mass of their own: pass `line.inertias`
      to the mechanism. In absolute coordinates only.

    Nodes of order 2 carry half the inertia of the elements at them. At a clamped end there is no
    node: the half element there has no inertia, which a heavy body can be given in addition. Raises
    `ValueError` for values that break these rules.
    """
    checks.name("line(name=)", name)
    if not isinstance(section, Section):
        raise ValueError(
            f"line(section=) is {section!r}; it must be a section, such as "
            "lie_jax.beams.rectangle(width, height, young, shear, density)."
        )
    checks.positive("line(length=)", length, "m")
    checks.one_of("line(order=)", order, (2, 4))
    checks.positive_integer("line(elements=)", elements, "the number of elements")
    for where, value in (("start", start), ("end", end)):
        if not (value is None or value == GROUND or isinstance(value, Body)):
            raise ValueError(
                f"line({where}=) is {value!r}; it must be None, 'ground' or a lie_jax.Body."
            )
    place, turn = as_float(position), as_float(orientation)
    checks.shape("line(position=)", place, (3,), "m")
    checks.unit_quaternion("line(orientation=)", turn)
    strain = as_float(rest_strain)
    if np.shape(strain) != (6,):
        checks.shape("line(rest_strain=)", strain, (elements, 6), "of each element; or (6,) of all")
    strains = jnp.broadcast_to(strain, (elements, 6))
    element_length = as_float(length) / elements
    positions, orientations = _concrete(_nodes(place, turn, strains, element_length))
    strains = _concrete(strains)

    nodes, attached = [], []
    for k in range(elements + 1):
        holder = start if k == 0 else end if k == elements else None
        if holder is not None:
            attached.append((holder, _frame_in(holder, positions[k], orientations[k])))
            continue
        share = 0.0 if order == 4 else element_length * (1.0 if 0 < k < elements else 0.5)
        body = Body(
            f"{name} {k}",
            0.0 if order == 4 else share * section.mass,
            np.zeros((3, 3)) if order == 4 else share * section.inertia_matrix,
            position=positions[k],
            orientation=orientations[k],
            # A flat section obeys the triangle inequality with equality, up to rounding.
            check_inertia=False,
        )
        nodes.append(body)
        attached.append((body, None))

    made, inertias = [], []
    for k in range(elements):
        frames = {}
        for side, (_, frame) in zip(("parent", "child"), attached[k : k + 2], strict=True):
            if frame is not None:
                frames[f"{side}_point"], frames[f"{side}_orientation"] = frame
        made.append(
            Beam(
                _name(attached[k][0]),
                _name(attached[k + 1][0]),
                section.stiffness,
                element_length,
                section.damping,
                strains[k],
                interpolation="linear" if order == 4 else interpolation,
                **frames,
            )
        )
        if order == 4:
            a, b = made[-1].bodies
            mass, inertia = section.mass, section.inertia_matrix
            inertias.append(BeamInertia(a, b, element_length, mass, inertia, **frames))
    return Line(tuple(nodes), tuple(made), tuple(inertias))


def distributed(
    line: Line,
    force: Any = (0.0, 0.0, 0.0),
    moment: Any = (0.0, 0.0, 0.0),
    *,
    frame: str = "world",
) -> tuple[NodeLoad, ...]:
    """A load along the whole of a line, for `Mechanism(forces=)`.

    **Arguments:** `force` (3,), N/m, `moment` (3,), N m/m: constants, or functions of the time (s);
    `frame`: `"world"` for inertial components (a dead load), `"body"` for components along the
    section's axes (a follower load).

    Both halves of an element act at its nodes, an error of the second order in its length. At an
    end that is clamped to the ground the share does no work and is left out. Raises `ValueError`
    for values that break these rules.
    """
    if not isinstance(line, Line):
        raise ValueError(
            f"distributed(line=) is a {type(line).__name__}; it must be the result of "
            "lie_jax.beams.line(...)."
        )
    shares: dict[tuple, list] = {}
    for element in line.elements:
        for side in ("parent", "child"):
            body = getattr(element, side)
            if body == GROUND:
                continue
            frames = getattr(element, f"{side}_point"), getattr(element, f"{side}_orientation")
            # A node of two elements takes both halves; both ends may be clamped to one body.
            key = (body, side) if body not in {node.name for node in line.nodes} else (body,)
            shares.setdefault(key, [0.0, *frames])[0] += 0.5 * element.length
    return tuple(
        NodeLoad(key[0], force, moment, share, point, orientation, frame)
        for key, (share, point, orientation) in shares.items()
    )


def _name(holder: Body | str) -> str:
    return holder.name if isinstance(holder, Body) else holder


def _concrete(values: Any) -> Any:
    """NumPy's arrays in place of JAX's where they are known: many small pieces are cut of them."""
    return values if checks.has_tracers(values) else jax.tree.map(np.asarray, values)


def _frame_in(
    holder: Body | str, position: Numbers, orientation: Numbers
) -> tuple[Numbers, Numbers]:
    """Point (3,) and orientation (4,) of an inertial frame in that of a body."""
    if not isinstance(holder, Body):
        return position, orientation
    return _relative(holder.position, holder.orientation, position, orientation)


@jax.jit
def _relative(at: Any, turned: Any, position: Any, orientation: Any):
    rotation = quaternion.to_matrix(turned)
    point = small.matvec(rotation.T, jnp.asarray(position) - at)
    return point, quaternion.compose(quaternion.inverse(turned), jnp.asarray(orientation))


@jax.jit
def _nodes(
    position: Float[Array, "3"],
    orientation: Float[Array, "4"],
    strains: Float[Array, "elements 6"],
    length: Float[Array, ""],
) -> tuple[Float[Array, "nodes 3"], Float[Array, "nodes 4"]]:
    """Positions and orientations of nodes, each a screw away from the one before."""
    first = se3.pose(quaternion.to_matrix(orientation), position)

    def move(pose, strain):
        after = se3.compose(pose, se3.exp(length * strain))
        return after, after

    _, others = jax.lax.scan(move, first, strains)
    poses = jnp.concatenate([first[None], others])
    return poses[:, :3, 3], jax.vmap(quaternion.from_matrix)(poses[:, :3, :3])
