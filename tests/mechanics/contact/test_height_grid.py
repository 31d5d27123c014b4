"""Ground on a grid of heights: through all of them, smooth, straight beyond its edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline

import lie_jax
from lie_jax import contact

# Sums of some ten products of numbers of one, and second derivatives over cells of a tenth.
ROUNDING, CURVATURE = 1e-13, 1e-10
SPACING, CORNER = (0.1, 0.15), (-0.3, 0.2)
HEIGHTS = np.random.default_rng(3).uniform(-0.05, 0.05, (7, 5))
XS, YS = (
    corner + step * np.arange(n) for corner, step, n in zip(CORNER, SPACING, (7, 5), strict=True)
)


def interpolated(x, y):
    """Spline of SciPy along x through natural splines along y."""
    along_y = CubicSpline(YS, HEIGHTS, axis=1, bc_type="natural")(y)
    return CubicSpline(XS, along_y, bc_type="natural")


@pytest.fixture(scope="module")
def jets():
    """Height, slope and second derivatives at places (n, 2)."""
    grid = contact.HeightGrid(HEIGHTS, SPACING, CORNER)

    def at(xy):
        return grid(xy[0], xy[1])

    return jax.jit(jax.vmap(lambda xy: (at(xy), jax.grad(at)(xy), jax.hessian(at)(xy))))


def test_a_grid_is_the_natural_spline_through_its_heights(jets):
    nodes = np.stack(np.meshgrid(XS, YS, indexing="ij"), axis=-1).reshape(-1, 2)
    assert_allclose(jets(nodes)[0], HEIGHTS.reshape(-1), rtol=0, atol=ROUNDING)
    rng = np.random.default_rng(4)
    inside = rng.uniform((XS[0], YS[0]), (XS[-1], YS[-1]), (50, 2))
    # At nodes and edges, too, where a derivative of a clip would be wrong.
    places = np.concatenate([inside, nodes])
    height, slope, bend = jets(places)
    splines = [interpolated(*place) for place in places]
    for k, found in ((0, height), (1, slope[:, 0]), (2, bend[:, 0, 0])):
        expected = [spline(x, k) for spline, (x, _) in zip(splines, places, strict=True)]
        assert_allclose(found, expected, rtol=0, atol=CURVATURE if k else ROUNDING)


def test_a_grid_goes_on_straight_beyond_its_edges(jets):
    edge = np.asarray([[XS[0], 0.33], [XS[-1], 0.55], [-0.1, YS[0]], [0.1, YS[-1]]])
    away = np.asarray([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    height, slope, _ = jets(edge)
    for distance in (1e-9, 0.04, 3.0):
        beyond, _, bend = jets(edge + distance * away)
        expected = height + distance * np.sum(slope * away, axis=1)
        assert_allclose(beyond, expected, rtol=0, atol=ROUNDING * (1.0 + distance))
        across = np.einsum("ni,nij,nj->n", away, bend, away)
        assert_allclose(across, 0.0, atol=CURVATURE)


@pytest.mark.full
def test_numbers_of_a_grid_may_be_traced():
    def at(spacing, corner):
        return contact.HeightGrid(HEIGHTS, [spacing, 0.15], (corner, 0.2))(
            *jnp.asarray([0.02, 0.5])
        )

    step = 1e-5
    for k, slope in enumerate(jax.grad(at, (0, 1))(0.1, -0.3)):
        ends = [at(*(np.asarray([0.1, -0.3]) + sign * step * np.eye(2)[k])) for sign in (1, -1)]
        assert_allclose(slope, (ends[0] - ends[1]) / (2.0 * step), rtol=1e-6)
    assert contact.HeightGrid(HEIGHTS.astype(np.float32), 0.1).coefficients.dtype == jnp.float64


def rested(heights, spacing=0.5, dt=2e-3, steps=750):
    """Height (m) of a ball in a hollow, after it has come to rest."""
    above = jnp.stack([0.02 + 0.0 * heights[2, 2], 0.0 * heights[2, 2], 0.11 + heights[2, 2]])
    ball = lie_jax.Body("ball", 1.0, lie_jax.solids.sphere(1.0, 0.1), position=above)
    grid = contact.HeightGrid(heights, spacing, (-1.0, -1.0))
    hit = lie_jax.contact.Contact(
        contact.Sphere("ball", 0.1),
        contact.HeightField("ground", grid),
        lie_jax.contact.HuntCrossley(1e5, dissipation=0.5),
        lie_jax.contact.Coulomb(0.5, 1e-2, rolling_lever=0.02),
    )
    system, state = lie_jax.assemble(lie_jax.Mechanism([ball], forces=[hit]), lie_jax.R3SO3())
    run = lie_jax.simulate(
        system,
        lie_jax.GeneralizedAlpha(0.8),
        state,
        dt=dt,
        steps=steps,
        save=steps,
        throw=False,
    )
    return run.q[-1, 2]


@pytest.mark.full
def test_a_ball_rests_on_a_grid_and_rises_with_it():
    bowl = 0.1 * np.add.outer(np.linspace(-1, 1, 5) ** 2, np.linspace(-1, 1, 5) ** 2)
    value, slope = jax.jit(jax.value_and_grad(rested))(jnp.asarray(bowl))
    # It sinks by sqrt(m g / k).
    assert_allclose(value, bowl[2, 2] + 0.1 - np.sqrt(9.81 / 1e5), atol=1e-3)
    # All heights together lift the ball, its start too, as much as themselves.
    assert_allclose(jnp.sum(slope), 1.0, rtol=1e-8)
    assert float(slope[2, 2]) > 0.9


def test_what_is_no_grid_is_refused_by_name():
    for arguments, message in (
        (([1.0, 2.0], 0.1), r"HeightGrid\(heights=\) has shape \(2,\)"),
        ((np.zeros((1, 3)), 0.1), r"heights=\) has shape \(1, 3\)"),
        ([[[0.0, 1.0], [1.0]], 0.1], r"HeightGrid\(heights=\)"),
        ((None, 0.1), r"HeightGrid\(heights=\)"),
        ((np.full((2, 2), np.nan), 0.1), r"HeightGrid\(heights=\)"),
        ((np.zeros((2, 2)), 0.0), r"HeightGrid\(spacing=\) .* positive"),
        ((np.zeros((2, 2)), (0.1, 0.1, 0.1)), r"HeightGrid\(spacing=\)"),
        ((np.zeros((2, 2)), 0.1, 1.0), r"HeightGrid\(corner=\)"),
    ):
        with pytest.raises(ValueError, match=message):
            contact.HeightGrid(*arguments)
