"""Strain energy of an element by the screws of its edges and diagonals.

With the screws h = (y, φ) from node to node, and those at rest, an element has

- for its membrane the squared lengths q = y₁² + y₂² of all six in the surface, which give the
  metric in the middle, and its changes along the element;
- for bending and shear y₃, φ₁ and φ₂ of the four edges, interpolated as natural strains across;
- against turns of the nodes about the normal y₁, y₂ and φ₃ of the edges.

Strains are linear in q and h, and the energy is a quadratic function of them. The first axis of
screws are edges and diagonals, the second one components; further axes are a batch.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float

# Nodes at both ends of the screws: edges along ξ, edges along η, diagonals.
FIRST, SECOND = np.asarray([0, 3, 0, 1, 0, 1]), np.asarray([1, 2, 3, 2, 2, 3])
# Of the shear stiffness of the membrane: stiffness against turns of the nodes about the normal,
# relative to the surface, and against differences of these turns between nodes.
_DRILLING, _SPIN = 1.0, 1e-4
_SHEAR_FACTOR = 5.0 / 6.0

_AT = 1.0 / np.sqrt(3.0)
_XI, _ETA = np.asarray([-_AT, -_AT, _AT, _AT]), np.asarray([-_AT, _AT, -_AT, _AT])
_NONE = np.zeros((4, 2))
# Shares (points, 2, 6) of the screws in covariant strains along ξ and η, and those in the middle.
_SHARES = 0.25 * np.stack(
    [
        np.column_stack([1.0 - _ETA, 1.0 + _ETA, _NONE, _NONE]),
        np.column_stack([_NONE, 1.0 - _XI, 1.0 + _XI, _NONE]),
    ],
    axis=1,
)
_IN_MIDDLE = np.mean(_SHARES, axis=0)
# a₁·a₁, a₂·a₂, a₁·a₂, a₁·h, a₂·h of a surface … + ξ a₁ + η a₂ + ξη h by squared lengths.
_METRIC = np.asarray(
    [
        [1.0, 1.0, -1.0, -1.0, 1.0, 1.0],
        [-1.0, -1.0, 1.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 0.0, 0.0, 1.0, -1.0],
        [-1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, -1.0, 1.0, 0.0, 0.0],
    ]
)
_METRIC /= 16.0
# Curvatures 11, 22 and twice 12 and shears 1, 2 by derivatives along 1 and 2 of q, y₃, φ₁, φ₂.
_PLATE = np.zeros((5, 4, 2))
_PLATE[0, 3, 0] = _PLATE[2, 3, 1] = _PLATE[3, 1, 0] = _PLATE[4, 1, 1] = 1.0
_PLATE[1, 2, 1] = _PLATE[2, 2, 0] = -1.0
# The edges among the screws.
_EDGES = np.asarray([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])

Screws = Float[Array, "6 6 ..."]
Section = Float[Array, "8 8 ..."]
# Changes of q, y₃, φ₁, φ₂ of the six screws, and the forces that do work on them.
Changes = Float[Array, "4 6 ..."]


def isotropic(thickness: ArrayLike, young: ArrayLike, poisson: ArrayLike) -> Float[Array, "8 8"]:
    """Section (8, 8) of a plate of one isotropic material, with the shear factor 5/6.

    **Arguments:** `thickness`, m; `young`, Pa; `poisson`, above -1 and at most 1/2. Raises
    `ValueError` for others.
    """
    checks.positive("shells.isotropic(thickness=)", thickness, "m")
    checks.positive("shells.isotropic(young=)", young, "Pa")
    checks.scalar("shells.isotropic(poisson=)", poisson, "a ratio")
    checks.finite("shells.isotropic(poisson=)", poisson)
    if not checks.has_tracers(poisson) and not -1.0 < float(as_float(poisson)) <= 0.5:
        raise ValueError(
            f"shells.isotropic(poisson=) is {float(as_float(poisson))}; it must be above -1 and at "
            "most 0.5: give Poisson's ratio, such as 0.3 for steel."
        )
    t, e, nu = (as_float(x) for x in (thickness, young, poisson))
    pattern = np.zeros((3, 8, 8))
    for k in (0, 3):
        pattern[0, [k, k + 1], [k, k + 1]] = pattern[1, [k, k + 1], [k + 1, k]] = 1.0
        pattern[2, k + 2, k + 2] = 1.0
    pattern[2, 6, 6] = pattern[2, 7, 7] = _SHEAR_FACTOR
    plane, shear = e / (1.0 - nu**2), 0.5 * e / (1.0 + nu)
    of_material = jnp.stack([plane, nu * plane, shear])
    heights = jnp.stack([t] * 3 + [t**3 / 12.0] * 3 + [t] * 2)
    patterns = jnp.asarray(pattern, of_material.dtype)
    return jnp.sum(patterns * of_material[:, None, None], axis=0) * heights[:, None]


class Geometry(NamedTuple):
    """What the shape of an element at rest makes of changes of its screws.

    `strains` (points, 8, 4, 6): membrane strains 11, 22 and twice 12, curvatures likewise, shears 1
    and 2, by `Changes`; `weights` (points,): areas, m²; `slopes` (2, 6): by q, the changes of the
    metric along the element that a linear field has not, as strains; `turns` (2, 6): mean turn of
    the nodes against the surface by y₁ and y₂.
    """

    strains: Float[Array, "4 8 4 6 ..."]
    weights: Float[Array, "4 ..."]
    slopes: Float[Array, "2 6 ..."]
    turns: Float[Array, "2 6 ..."]


def geometry(rest: Screws) -> Geometry:
    """Geometry of an element with these screws at rest."""

    def constant(values: np.ndarray) -> Array:
        return jnp.asarray(values.reshape(*values.shape, *(1,) * (rest.ndim - 2)), rest.dtype)

    def at(shares: np.ndarray) -> tuple[Array, Array]:
        """Shares (2, 6) of the screws in derivatives along the axes 1 and 2, and J⁻¹."""
        cofactors, determinant = small.adjugate(small.matmul(constant(shares), rest[:, :2]))
        inverse = cofactors / determinant[None, None]
        return small.matmul(inverse, constant(shares)), inverse

    metric = constant(_METRIC)
    in_middle, ((a, b), (c, d)) = at(_IN_MIDDLE)
    green = jnp.stack(
        [
            jnp.stack([0.5 * a * a, 0.5 * b * b, a * b]),
            jnp.stack([0.5 * c * c, 0.5 * d * d, c * d]),
            jnp.stack([a * c, b * d, a * d + b * c]),
        ]
    )
    none = [(0, 0)] * (rest.ndim - 1)
    membrane = jnp.pad(small.matmul(green, metric[:3])[:, None], [(0, 0), (0, 3), *none])
    points, weights = [], []
    for shares in _SHARES:
        along, _ = at(shares)
        plate = [constant(_PLATE[:, :, None, k]) * along[k][None, None] for k in range(2)]
        points.append(jnp.concatenate([membrane, plate[0] + plate[1]]))
        _, area = small.adjugate(small.matmul(constant(shares), rest[:, :2]))
        weights.append(area)
    at_rest = small.matvec(metric, _squares(rest))
    m11, m22, m12, along_1, along_2 = at_rest
    # A linear field changes the metric along the element as the hourglass h at rest tells, whose
    # parts along a₁ and a₂ these are.
    area = m11 * m22 - m12 * m12
    h1, h2 = (m22 * along_1 - m12 * along_2) / area, (m11 * along_2 - m12 * along_1) / area
    slopes = jnp.stack(
        [
            (metric[3] - h1[None] * metric[0] - h2[None] * metric[2]) / m11[None],
            (metric[4] - h1[None] * metric[2] - h2[None] * metric[1]) / m22[None],
        ]
    )
    turns = jnp.stack([-in_middle[1], in_middle[0]])
    return Geometry(jnp.stack(points), jnp.stack(weights), slopes, turns)


class Stiffness(NamedTuple):
    """Stiffness of an element against its strains.

    `section`: per area; `slopes` (2,): against those of `Geometry`; `turn` and `spin`: against its
    turns, and φ₃ of each edge.
    """

    section: Section
    slopes: Float[Array, "2 ..."]
    turn: Float[Array, "..."]
    spin: Float[Array, "..."]


def stiffness(section: Section, weights: Float[Array, "4 ..."]) -> Stiffness:
    """Stiffness of an element with this section and these areas."""
    area = jnp.sum(weights, axis=0)
    compliance = small.inverse(section[:3, :3])
    # The energy of the stresses by which Pian and Sumihara let an element bend in its plane.
    slopes = area[None] / 3.0 / jnp.stack([compliance[0, 0], compliance[1, 1]])
    of_shear = section[2, 2] * area
    return Stiffness(section, slopes, _DRILLING * of_shear, 0.25 * _SPIN * of_shear)


def _squares(screws: Screws) -> Array:
    return screws[:, 0] ** 2 + screws[:, 1] ** 2


class State(NamedTuple):
    """Changes of an element's screws from those at rest: those of strains, of its turn, of φ₃ of
    the edges; and y₁, y₂ of its screws.
    """

    changes: Changes
    turn: Float[Array, "..."]
    spins: Float[Array, "6 ..."]
    flat: Float[Array, "2 6 ..."]


def state(shape: Geometry, rest: Screws, screws: Screws) -> State:
    """Changes from the screws at rest to others."""
    change = (screws - rest).swapaxes(0, 1)
    # Not as a difference of squares, which loses digits.
    both = (screws + rest).swapaxes(0, 1)
    squares = change[0] * both[0] + change[1] * both[1]
    edges = jnp.asarray(_EDGES.reshape(6, *(1,) * (rest.ndim - 2)), rest.dtype)
    turn = jnp.sum(shape.turns * change[:2], axis=(0, 1))
    changes = jnp.concatenate([squares[None], change[2:5]])
    return State(changes, turn, edges * change[5], screws.swapaxes(0, 1)[:2])


def prediction(rest: Screws, screws: Screws, increments: Screws) -> tuple[Array, Screws]:
    """Changes of q (6,) from rest, and screws, to the first order after increments of screws."""
    change, both = screws - rest, screws + rest
    along = 2.0 * screws * increments
    squares = jnp.sum((change * both + along)[:, :2], axis=1)
    return squares, screws + increments


def state_ahead(
    now: State, shape: Geometry, rest: Screws, predicted: tuple[Array, Screws]
) -> State:
    """The state with predicted changes."""
    squares, screws = predicted
    linear = state(shape, rest, screws)
    changes = jnp.concatenate([squares[None], linear.changes[1:]])
    return linear._replace(changes=changes, flat=now.flat)


def strains(shape: Geometry, now: State) -> Float[Array, "4 8 ..."]:
    """Strains at the four points."""
    return jnp.sum(shape.strains * now.changes[None, None], axis=(2, 3))


def energy(shape: Geometry, stiff: Stiffness, now: State) -> Float[Array, "..."]:
    """Strain energy, J."""
    at_points = strains(shape, now)
    stresses = jnp.sum(stiff.section[None] * at_points[:, None], axis=2)
    of_section = jnp.sum(shape.weights * jnp.sum(at_points * stresses, axis=1), axis=0)
    slopes = small.matvec(shape.slopes, now.changes[0])
    of_slopes = jnp.sum(stiff.slopes * slopes**2, axis=0)
    of_turns = stiff.turn * now.turn**2 + stiff.spin * jnp.sum(now.spins**2, axis=0)
    return 0.5 * (of_section + of_slopes + of_turns)


def forces(shape: Geometry, stiff: Stiffness, now: State) -> tuple[Screws, Float[Array, "6 ..."]]:
    """σ (6, 6), which does the work Σ σ·ḣ, and the forces (6,) that do work on q."""
    at_points = strains(shape, now)
    stresses = jnp.sum(stiff.section[None] * at_points[:, None], axis=2) * shape.weights[:, None]
    pulled = jnp.sum(shape.strains * stresses[:, :, None, None], axis=(0, 1))
    slopes = stiff.slopes * small.matvec(shape.slopes, now.changes[0])
    on_squares = pulled[0] + small.matvec(small.transpose(shape.slopes), slopes)
    on_flat = 2.0 * now.flat * on_squares[None] + (stiff.turn * now.turn)[None, None] * shape.turns
    on_spins = stiff.spin[None] * now.spins
    sigma = jnp.concatenate([on_flat, pulled[1:], on_spins[None]])
    return sigma.swapaxes(0, 1), on_squares


def tangent(
    shape: Geometry, stiff: Stiffness, now: State, on_squares: Float[Array, "6 ..."]
) -> Float[Array, "36 36 ..."]:
    """Derivative of σ by all screws, edges and diagonals before components."""
    weighted = stiff.section[None] * shape.weights[:, None, None]
    terms = [weighted[:, :, k, None, None] * shape.strains[:, None, k] for k in range(8)]
    acting = functools.reduce(jnp.add, terms)
    # By pairs of what changes, then pairs of screws; term by term, as vector units take them.
    terms = [
        shape.strains[point, row, :, None, :, None] * acting[point, row, None, :, None]
        for point in range(4)
        for row in range(8)
    ]
    blocks = functools.reduce(jnp.add, terms)
    weighted = stiff.slopes[:, None] * shape.slopes
    of_slopes = jnp.sum(weighted[:, :, None] * shape.slopes[:, None], axis=0)
    none = [(0, 0)] * (blocks.ndim - 2)
    blocks = blocks + jnp.pad(of_slopes[None, None], [(0, 3), (0, 3), *none])
    # q changes by 2 y₁ and 2 y₂.
    twice = 2.0 * now.flat
    rows = jnp.concatenate([twice[:, None, :, None] * blocks[:1], blocks[1:]])
    by_screws = jnp.concatenate([twice[None, :, None] * rows[:, :1], rows[:, 1:]], axis=1)
    batch = (1,) * (on_squares.ndim - 1)

    def constant(values: np.ndarray) -> Array:
        return jnp.asarray(values.reshape(*values.shape, *batch), twice.dtype)

    same, six = constant(np.eye(2)[:, :, None, None]), constant(np.eye(6)[None, None])
    of_flat = 2.0 * same * six * on_squares[None, None, None]
    turned = stiff.turn[None, None] * shape.turns
    of_flat = of_flat + turned[:, None, :, None] * shape.turns[None, :, None]
    of_spins = stiff.spin[None, None, None, None] * constant(np.diag(_EDGES)[None, None])
    by_screws = (
        jnp.pad(by_screws, [(0, 1), (0, 1), *none])
        + jnp.pad(of_flat, [(0, 4), (0, 4), *none])
        + jnp.pad(of_spins, [(5, 0), (5, 0), *none])
    )
    ordered = jnp.moveaxis(by_screws, (2, 0, 3, 1), (0, 1, 2, 3))
    return ordered.reshape(36, 36, *ordered.shape[4:])


def area(y: Float[Array, "6 _"]) -> Float[Array, ""]:
    """A quarter of the area in the middle that translations y of screws span."""
    _, determinant = small.adjugate(small.matmul(jnp.asarray(_IN_MIDDLE, y.dtype), y[:, :2]))
    return determinant


def least_area(rest: np.ndarray) -> float:
    """Least of the four areas of an element whose screws at rest are known."""
    ways = np.einsum("pas,sc->pac", _SHARES, rest[:, :2])
    return float(np.linalg.det(ways).min())
