"""Numbers of Python, NumPy and JAX are accepted, and all other values refused by name."""

import dataclasses
from decimal import Decimal

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lie_jax
from lie_jax.mechanics.fields import as_direction
from lie_jax.systems.system import accelerations_and_multipliers
from tests.elements import ELEMENTS, EYE, X
from tests.messages import check_message

NO_NUMBERS = (
    "1.0", 1j, True, Decimal(1), object(), {"a": 1}, [1, "a"], [[1], [1, 2]], np.asarray([1j]),
    np.ones(3, bool), np.float16(1), np.asarray([1], object), 10**400,
    np.ma.masked_equal([1.0, 2.0], 2.0),
)  # fmt: skip


def _fields():
    for kind, options in ELEMENTS.items():
        made = kind(**options)
        for field in dataclasses.fields(made):
            if eqx.is_inexact_array(getattr(made, field.name)):
                yield kind, options, field.name, getattr(made, field.name)


def test_what_is_no_number_is_refused_by_element_and_field(monkeypatch):
    # Users' programs have no run-time checks of types, which would come first.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for kind, options, name, _ in _fields():
        for value in NO_NUMBERS:
            made = {**options, name: value}
            check_message(lambda kind=kind, made=made: kind(**made), kind.__name__, name, "must be")


def test_numbers_of_python_numpy_and_jax_are_the_same():
    for kind, options, name, array in _fields():
        lists = np.asarray(array).tolist()
        for value in (lists, tuple(lists) if array.ndim else lists, np.asarray(array), array):
            made = getattr(kind(**{**options, name: value}), name)
            assert isinstance(made, jax.Array) and not made.weak_type
            assert made.dtype == jnp.float64, (kind, name)
            assert_array_equal(made, array)


def _pushed():
    body = lie_jax.Body("b", 2, EYE)
    push = lie_jax.PointForce("b", X, input=0)
    return lie_jax.assemble(lie_jax.Mechanism([body], forces=[push]), lie_jax.R3SO3())


@pytest.mark.full
def test_arrays_of_numpy_may_be_inputs_and_leaves():
    system, state = _pushed()

    def end(system, state, inputs):
        run = lie_jax.simulate(
            system, lie_jax.RKMK("euler"), state, dt=0.5, steps=2, inputs=inputs, throw=False
        )
        return run.v[-1, :3]

    def with_gravity(value):
        return eqx.tree_at(lambda s: s.gravity, system, value)

    expected = np.asarray([0.5 * 0.5 * (1 + 3), 0.0, -2.0])
    down, inputs = np.asarray([0.0, 0.0, -2.0]), np.asarray([[1], [3]])
    of_numpy = eqx.tree_at(lambda s: (s.q, s.v), state, (np.array(state.q), np.array(state.v)))
    for start in (state, of_numpy):
        for values in (inputs, inputs.tolist(), inputs.astype(float), jnp.asarray(inputs, float)):
            assert_allclose(end(with_gravity(down), start, values), expected, rtol=1e-15)
    batch = jax.vmap(lambda u: end(with_gravity(down), of_numpy, u))(np.stack([inputs, inputs]))
    assert_allclose(batch, np.stack([expected, expected]), rtol=1e-15)


@pytest.mark.parametrize("mass", [3, 3.0, np.float64(3.0), np.asarray(3), np.asarray(3.0)])
def test_leaves_of_mechanisms_may_be_numbers(mass):
    mechanism = lie_jax.Mechanism([lie_jax.Body("b", 2, EYE)])
    heavier = eqx.tree_at(lambda m: (m.bodies[0].mass, m.gravity), mechanism, (mass, np.ones(3)))
    system, _ = lie_jax.assemble(heavier, lie_jax.R3SO3())
    assert_array_equal(system.bodies.mass, [3.0])
    assert system.bodies.mass.dtype == system.gravity.dtype == jnp.float64


def test_numbers_that_jit_closes_over_are_checked():
    moments = jnp.diag(jnp.asarray([1.0, 1.0, 3.0]))

    def body(mass, inertia):
        jax.jit(lambda x: x * lie_jax.Body("b", mass, inertia).mass)(1.0)

    check_message(lambda: body(-1.0, EYE), "Body('b').mass is -1.0", "positive")
    check_message(lambda: body(1.0, moments), "triangle inequality", "check_inertia=False")
    axis = np.zeros(3)
    act = jax.jit(lambda x: x * lie_jax.RevoluteJoint("a", "b", axis).axis)
    check_message(lambda: act(1.0), "RevoluteJoint('a', 'b').axis is (0, 0, 0)")


def test_published_inertias_may_break_the_triangle_inequality():
    moments = np.diag([1.0, 1.0, 3.0])
    body = lie_jax.Body("b", 1.0, moments, check_inertia=False)
    assert_array_equal(body.inertia, moments)
    for wrong, rule in ((-moments, "positive definite"), (moments + EYE[::-1] * X, "symmetric")):
        check_message(lambda m=wrong: lie_jax.Body("b", 1.0, m, check_inertia=False), rule)


def test_elements_of_another_precision_are_named():
    body = lie_jax.Body("b", 1.0, EYE)
    joint, single = (
        jax.tree.map(lambda x, dtype=dtype: x.astype(dtype), lie_jax.SphericalJoint("ground", "b"))
        for dtype in (jnp.float64, jnp.float32)
    )
    lie_jax.Mechanism([body], [joint])
    check_message(
        lambda: lie_jax.Mechanism([body], [single]), "SphericalJoint('ground', 'b').parent_point",
        "is float32", "Body('b').mass is float64", "after lie_jax.configure()",
    )  # fmt: skip


# Lengths of directions, up to where derivatives, their reciprocals, leave the range of numbers.
LENGTHS = {
    jnp.float64: [1e-300, 1e-170, 1e-20, 1.0, 1e200, 1.5e308],
    jnp.float32: [1e-36, 1e-20, 1.0, 1e30, 3e38],
}


@pytest.mark.parametrize("dtype", LENGTHS)
def test_directions_may_have_any_length(dtype):
    lengths, unit = jnp.asarray(LENGTHS[dtype], dtype), jnp.asarray([0.0, 0.6, -0.8], dtype)
    vectors, rounding = lengths[:, None] * unit[None], 4 * float(jnp.finfo(dtype).eps)
    assert_allclose(jax.vmap(as_direction)(vectors), [unit] * len(lengths), atol=rounding)
    assert_array_equal(as_direction(vectors[0]), jax.vmap(as_direction)(vectors)[0])
    slopes = np.asarray(jax.vmap(jax.jacfwd(as_direction))(vectors), float)
    expected = np.eye(3) - np.outer(unit, unit)
    # Reciprocals of the largest lengths are no normal numbers: those derivatives are zero.
    inside = np.asarray(lengths) < 1.0 / float(jnp.finfo(dtype).tiny)
    scaled = slopes * np.asarray(lengths, float)[:, None, None]
    assert_allclose(scaled[inside], [expected] * int(inside.sum()), atol=rounding)
    assert np.all(np.isfinite(slopes))


def test_cylinders_take_axes_of_any_length():
    expected = lie_jax.solids.cylinder(2.0, 0.1, 0.5, X)
    for length in (1e-170, 3, 1e200):
        assert_array_equal(lie_jax.solids.cylinder(2.0, 0.1, 0.5, (length, 0, 0)), expected)


@pytest.mark.full
def test_a_ball_held_at_its_centre_moves_as_a_point_mass():
    """The spherical pendulum: a = g - (g·n + v²/ℓ) n, n from the pivot to the mass."""
    n, v, length = np.asarray([0.6, 0.0, -0.8]), np.asarray([0.0, 1.5, 0.0]), 2.0

    @jax.jit
    @jax.vmap
    def acceleration(radius):
        inertia = lie_jax.solids.sphere(3.0, radius)
        ball = lie_jax.Body("ball", 3.0, inertia, position=length * n, velocity=v)
        rod = lie_jax.DistanceJoint("ground", "ball", length)
        system, state = lie_jax.assemble(lie_jax.Mechanism([ball], [rod]), lie_jax.R3SO3())
        t = jnp.zeros(())
        return accelerations_and_multipliers(system, t, state.q, state.v, None)[0]

    gravity = np.asarray([0.0, 0.0, -9.81])
    expected = gravity - (gravity @ n + v @ v / length) * n
    found = acceleration(jnp.asarray([1e-3, 0.1, 1.0]))
    # Some hundred operations on accelerations of up to 10 m/s².
    rounding = 1e-13
    assert_allclose(found[:, :3], [expected] * 3, rtol=rounding, atol=rounding)
    assert_allclose(found[:, 3:], 0.0, atol=rounding)
