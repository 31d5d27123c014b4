"""Derivatives go through the reduction of a mesh, also where modes have equal frequencies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import skfem

import lie_jax
from lie_jax.mechanics.flexible import differentiable, finite_elements, meshes

# A square bar, whose bending modes are double; one half of it gets another material.
SIDE = np.array([-0.005, 0.005])
MESH = skfem.MeshHex.init_tensor(np.linspace(0.0, 0.4, 5), SIDE, SIDE)
HALF = (MESH.p.T[MESH.t].mean(axis=0)[:, 0] < 0.2).astype(float)
ENDS = {"left": lambda x: x[:, 0] < 1e-9, "right": lambda x: x[:, 0] > 0.4 - 1e-9}
LOAD = np.array([0.1, 1.0, 0.5, 0.1, 0.2, 0.3])
# Differences of the fourth order; solutions of stiffness matrices lose eight digits.
STEP, TOLERANCE = 1e-2, 3e-6


def _body(change, **options):
    """With other stiffness and density of one half, Poisson's ratio, height and length."""
    young, density, poisson, height, length = change
    xp = np if isinstance(change, np.ndarray) else jnp
    nodes = MESH.p.T * (1.0 + xp.stack([length, 0.0 * length, height]))[None]
    given = {"interfaces": ENDS, "modes": 11, "order": 1, **options}
    return lie_jax.FlexibleBody.from_mesh(
        "bar",
        MESH,
        density=7800.0 * (1.0 + density * HALF),
        young=2.1e11 * (1.0 + young * HALF),
        poisson=0.3 + 0.1 * poisson,
        nodes=nodes,
        **given,
    )


def _response(change, **options):
    """A number of the body that does not depend on the basis: of vibrations under a load."""
    of = (body := _body(change, **options)).deformation
    mass, stiffness = jnp.trace(of.second), of.stiffness
    if of.spin is not None:
        stiffness = stiffness + 1e4 * of.spin[2] + 1e3 * of.spin[4]
    at_end = jnp.concatenate([of.shifts[1], of.turns[1]]).T @ jnp.asarray(LOAD)
    bent = jnp.linalg.solve(stiffness - 200.0**2 * mass, at_end)
    sums = of.first[0] @ bent + jnp.einsum("ijk,i,j,k", of.mixed, LOAD[:3], LOAD[3:], bent)
    return 1e3 * at_end @ bent + sums + 1e3 * body.inertia[1, 1] + body.center_of_mass[0]


def _difference(function, along):
    at = {k: float(function(k * STEP * along)) for k in (-2, -1, 1, 2)}
    return (8.0 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12.0 * STEP)


def test_derivatives_are_those_of_differences():
    along = np.array([0.3, -0.5, 0.4, 0.2, 0.1])
    zero = jnp.zeros(5)
    value, slope = jax.jit(lambda x, y: jax.jvp(_response, (x,), (y,)))(zero, jnp.asarray(along))
    np.testing.assert_allclose(value, _response(np.zeros(5)), rtol=1e-7)
    np.testing.assert_allclose(slope, _difference(_response, along), rtol=TOLERANCE)


CASES = {
    "static modes alone": {"modes": 6},
    "a free body": {"frame": "free", "modes": 6},
    "spin": {"spin_stiffness": True},
    "quadratic": {"order": 2, "modes": 10},
}


@pytest.mark.full
@pytest.mark.parametrize("case", list(CASES))
def test_gradients_are_those_of_differences(case):
    def response(change):
        return _response(change, **CASES[case])

    slope = jax.jit(jax.grad(response))(jnp.zeros(5))
    for k, along in enumerate(np.eye(5)):
        expected = _difference(response, along)
        np.testing.assert_allclose(slope[k], expected, rtol=TOLERANCE, atol=1e-7)


@pytest.mark.full
def test_second_derivatives_are_those_of_differences():
    curvature = jax.jit(jax.jacfwd(jax.grad(_response)))(jnp.zeros(5))
    slope = jax.jit(jax.grad(_response))
    for k, along in enumerate(jnp.eye(5)):
        expected = (slope(1e-3 * along) - slope(-1e-3 * along)) / 2e-3
        size = float(jnp.abs(curvature).max())
        np.testing.assert_allclose(curvature[k], expected, rtol=0, atol=1e-4 * size)


# Of differences of the fourth order, between runs whose matrices have ten digits.
OF_RUNS = 1e-7


@pytest.mark.full
def test_gradients_of_runs_by_material_thickness_and_damping():
    """Of a pendulum, against runs of bodies that NumPy reduced."""

    def bar(change):
        xp = np if isinstance(change, np.ndarray) else jnp
        high = xp.stack([0.0 * change[2], 0.0 * change[2], change[2]])
        return lie_jax.FlexibleBody.from_mesh(
            "bar",
            MESH,
            density=1000.0 * (1.0 + change[1]),
            young=2.1e9 * (1.0 + change[0]),
            poisson=0.3,
            nodes=MESH.p.T * (1.0 + high)[None],
            interfaces=ENDS,
            modes=6,
            damping_time=1e-3 * (1.0 + change[3]),
        )

    def march(body):
        hinge = lie_jax.RevoluteJoint("ground", "bar.left", axis=(0, 1, 0))
        system, state = lie_jax.assemble(lie_jax.Mechanism([body], [hinge]), lie_jax.R3SO3())
        method = lie_jax.GeneralizedAlpha(0.9)
        run = lie_jax.simulate(system, method, state, dt=2e-3, steps=100, save=100, throw=False)
        rotations, places = system.poses_by_slot(run.q[-1])
        bend = rotations[0].T @ (places[-1] - places[0])
        return places[-1, 2] + 1e2 * bend[2] + rotations[-1, 0, 2]

    slope = jax.jit(jax.jacfwd(lambda change: march(bar(change))))(jnp.zeros(4))
    run = jax.jit(march)
    for k, along in enumerate(np.eye(4)):
        expected = _difference(lambda change: run(bar(change)), along)
        np.testing.assert_allclose(slope[k], expected, rtol=OF_RUNS, atol=OF_RUNS)


def test_traced_meshes_have_the_modes_of_known_ones():
    known = _body(np.zeros(5), spin_stiffness=True)
    traced = jax.jit(lambda x: _body(x, spin_stiffness=True))(jnp.zeros(5))
    np.testing.assert_allclose(traced.frequencies, known.frequencies, rtol=1e-7)
    np.testing.assert_allclose(traced.mass, known.mass, rtol=1e-12)
    np.testing.assert_allclose(traced.inertia, known.inertia, rtol=1e-9, atol=1e-15)


def test_traced_numbers_out_of_bounds_are_no_number():
    solid = meshes.read("mesh", MESH, 1)

    @jax.jit
    def constants(young, poisson, stretch):
        of = finite_elements.material_of("mesh", solid, 7800.0, young, poisson)
        nodes = solid.nodes * jnp.stack([jnp.ones(()), jnp.ones(()), stretch])[None]
        return of, finite_elements.elements("mesh", solid, nodes, jnp)[0].volumes

    of, volumes = constants(2.1e11, 0.3, 1.0)
    assert all(np.isfinite(x).all() for x in (*of, volumes))
    of, volumes = constants(-1.0, 0.3, 0.0)
    assert np.isfinite(of.density).all() and np.isnan(of.shear).all()
    assert np.isnan(volumes).all()
    of, _ = constants(2.1e11, 0.5, 1.0)
    assert np.isnan(of.first).all()
    # SciPy gets no NaN, on which it would end all variants of a sweep.
    kept = differentiable._Kept(None, np.arange(3), 0, 0)
    wrong = differentiable.Matrices((jnp.full((1, 1, 3, 1, 3), jnp.nan),), (jnp.ones((1, 1, 1)),))
    assert np.isnan(differentiable._on_host(_fail, (3,), float, kept.rows * 1.0, wrong)).all()


@pytest.mark.full
def test_a_variant_that_is_no_body_harms_no_other():
    def stiffness(change):
        return _body(change, modes=6).deformation.stiffness[0, 0]

    changes = jnp.zeros((3, 5)).at[1, 0].set(-2.0)
    first, wrong, last = jax.jit(jax.vmap(stiffness))(changes)
    assert np.isnan(wrong) and np.isfinite(first)
    np.testing.assert_allclose(first, last, rtol=1e-12)


def _fail(*_):
    raise AssertionError


def test_what_cannot_be_traced_is_refused():
    with pytest.raises(ValueError, match="take frame='interface', or give known numbers"):
        jax.make_jaxpr(lambda x: _body(x, frame="free", modes=6, spin_stiffness=True))(np.zeros(5))
    shapes = np.ones((len(MESH.p.T), 3, 2))
    with pytest.raises(ValueError, match="modes= is an array, and the material or nodes= are"):
        jax.make_jaxpr(lambda x: _body(x, modes=shapes))(np.zeros(5))
    # A lowest frequency of the bar squared would be off by a quarter.
    with (
        jax.enable_x64(False),
        pytest.raises(ValueError, match="are traced by JAX in single precision"),
    ):
        jax.make_jaxpr(_body)(np.zeros(5, np.float32))
    with pytest.raises(ValueError, match=r"nodes= has shape|nodes=.*shape"):
        lie_jax.FlexibleBody.from_mesh(
            "bar",
            MESH,
            density=1.0,
            young=1.0,
            poisson=0.3,
            nodes=np.ones((3, 3)),
            interfaces=ENDS,
            modes=6,
        )
