"""First and second derivatives of steps and trajectories agree with differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.numerics import newton
from lie_jax.numerics.dense import DenseMatrix
from models import heavy_top
from tests.suites import cases
from tests.systems import OSCILLATOR, OSCILLATOR_START, Oscillator, Pendulum, Spinner

# Central differences of sixth order at this step: truncation and rounding both stay below 1e-8.
DIFFERENCE_STEP = 1e-4
AGREEMENT_WITH_DIFFERENCES = 1e-7
# Of Hessian-vector products with differences of gradients.
AGREEMENT_OF_HESSIANS = 1e-6
AGREEMENT_OF_MODES = 1e-12
# Steps as large as the motion allows, 0.6 rad each: a long run in few of them.
DT = 4e-3
STEPS = 50

CASES = {
    "RKMK4": (False, lie_jax.RKMK("rk4"), lie_jax.R3SO3()),
    "generalized-α": (True, lie_jax.GeneralizedAlpha(0.9), lie_jax.R3SO3()),
    "generalized-α, free": (False, lie_jax.GeneralizedAlpha(0.9), lie_jax.R3SO3()),
    "generalized-α, SE(3), rotation vector": (
        True,
        lie_jax.GeneralizedAlpha(0.9),
        lie_jax.SE3(coordinates="rotation_vector"),
    ),
}

PARAMETERS, UNRAVEL = ravel_pytree(
    {
        "mass": jnp.asarray(heavy_top.MASS),
        "inertia": jnp.diag(jnp.asarray(heavy_top.INERTIA)),
        "center_of_mass": jnp.asarray(heavy_top.CENTER_OF_MASS),
        "turn": jnp.asarray([0.1, -0.2, 0.3]),
        "omega_body": jnp.asarray(heavy_top.OMEGA_BODY),
    }
)


def _built(case, flat):
    """The system, state and integrator of a case with its parameters."""
    constrained, integrator, formulation = CASES[case]
    parameters = UNRAVEL(flat)
    orientation = lie_jax.groups.quaternion.exp(parameters.pop("turn"))
    built = heavy_top.build(
        formulation, constrained=constrained, orientation=orientation, **parameters
    )
    return *built, integrator


def _number(system, q, v, multipliers):
    centers = jax.vmap(lambda q: heavy_top.center_of_mass(system, q))(q)
    return jnp.sum(jnp.sin(3.0 * centers)) + 1e-3 * jnp.sum(v**2) + 1e-4 * jnp.sum(multipliers)


def _of_trajectory(case):
    """A number that depends on the whole trajectory, as a function of the parameters."""

    def objective(flat):
        system, state, integrator = _built(case, flat)
        run = lie_jax.simulate(system, integrator, state, dt=DT, steps=STEPS, throw=False)
        return _number(system, run.q, run.v, run.multipliers)

    return objective


def _steps(system, state, integrator):
    """Configurations, velocities and multipliers after each step, without what `simulate` adds."""
    dt = jnp.asarray(DT)

    def step(loop, t):
        result = integrator.step(system, t, dt, *loop, None)
        state, carry = result.state, result.carry
        end = integrator.accelerations(system, t + dt, state, carry, None)
        return (state, carry), (state.q, state.v, end.multipliers)

    times = dt * jnp.arange(float(STEPS))
    start = state, integrator.init(system, times[0], dt, state, None)
    return jax.lax.scan(step, start, times)[1]


def _of_steps(case):
    """A number that depends on the ends of all steps, as a function of the parameters."""

    def objective(flat):
        system, state, integrator = _built(case, flat)
        return _number(system, *_steps(system, state, integrator))

    return objective


def _of_spins(flat):
    """Number made of a free body's steps, from its moments of inertia and its spin."""
    state = lie_jax.State(jnp.eye(4)[0], flat[3:])
    q, v, _ = _steps(Spinner(flat[:3]), state, lie_jax.GeneralizedAlpha(0.9))
    return jnp.sum(jnp.sin(3.0 * q)) + 1e-3 * jnp.sum(v**2)


def _of_swings(flat):
    """Number made of a pendulum's steps, from its mass, its angle and its rate."""
    mass, angle, rate = flat
    across, along = jnp.sin(angle), jnp.cos(angle)
    state = lie_jax.State(jnp.stack([across, -along]), rate * jnp.stack([along, across]))
    q, v, multipliers = _steps(Pendulum(mass), state, lie_jax.GeneralizedAlpha(0.9))
    return jnp.sum(jnp.sin(3.0 * q)) + 0.1 * jnp.sum(v**2) + 1e-2 * jnp.sum(multipliers)


# Differences at three distances on both sides.
WEIGHTS = {1: 45, 2: -9, 3: 1, -1: -45, -2: 9, -3: -1}


def _around(along, center=PARAMETERS):
    """The parameters and those shifted along each axis (7 n, n), and what comes from one program.

    Results of `along(parameters, axis)`, each (7, n, ...), the shifts first.
    """
    n = len(center)
    shifts = DIFFERENCE_STEP * np.kron(np.asarray([0, *WEIGHTS])[:, None], np.eye(n))
    points = center[None] + shifts
    axes = jnp.tile(jnp.eye(n), (len(WEIGHTS) + 1, 1))
    results = jax.jit(jax.vmap(along))(points, axes)
    return points, jax.tree.map(
        lambda x: np.asarray(x).reshape(len(WEIGHTS) + 1, n, *x.shape[1:]), results
    )


def _differences(values):
    weights = np.asarray(list(WEIGHTS.values())) / (60 * DIFFERENCE_STEP)
    return np.tensordot(weights, values[1:], 1)


def _scaled_error(got, expected):
    return np.max(np.abs(np.asarray(got) - np.asarray(expected))) / np.max(np.abs(expected))


def _errors_by_parameter(got, expected):
    """Each parameter's largest error, relative to its own largest derivative."""
    got, expected = (UNRAVEL(jnp.asarray(x)) for x in (got, expected))
    return {k: _scaled_error(v, expected[k]) for k, v in got.items()}


def test_gradients_of_constrained_steps_agree_with_differences():
    gradient = jax.value_and_grad(_of_swings)
    start = jnp.asarray([1.5, 0.6, 12.0])
    _, (values, gradients) = _around(lambda p, axis: gradient(p), start)
    assert _scaled_error(gradients[0, 0], _differences(values)) < AGREEMENT_WITH_DIFFERENCES


# `make test` has those of roots and of runs with automatic steps.
@pytest.mark.full
def test_second_derivatives_of_implicit_steps_agree_with_differences():
    start = jnp.asarray([0.5, 0.8, 1.0, 20.0, -70.0, 90.0])
    _, ((values, gradients), (slopes, products)) = _around(
        lambda p, axis: jax.jvp(jax.value_and_grad(_of_spins), (p,), (axis,)), start
    )
    assert _scaled_error(gradients[0, 0], slopes[0]) < AGREEMENT_OF_MODES
    assert _scaled_error(slopes[0], _differences(values)) < AGREEMENT_WITH_DIFFERENCES
    assert _scaled_error(products[0], _differences(gradients)) < AGREEMENT_OF_HESSIANS


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_steps_agree_with_differences_and_with_each_other(case):
    _check_derivatives(_of_steps(case))


@pytest.mark.full
def test_forward_derivatives_of_explicit_steps_agree_with_differences():
    objective = _of_steps("RKMK4")
    _, (values, slopes) = _around(lambda p, axis: jax.jvp(objective, (p,), (axis,)))
    for name, error in _errors_by_parameter(slopes[0], _differences(values)).items():
        assert error < AGREEMENT_WITH_DIFFERENCES, name


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_trajectories_agree_with_differences_and_with_each_other(case):
    objective = _of_trajectory(case)
    points, values = _check_derivatives(objective)
    # Of a batch; alone, with rounding of another order of summation, grown over the trajectory.
    some = slice(None, None, 9)
    single = jax.jit(objective)
    assert_allclose(values.reshape(-1)[some], [single(p) for p in points[some]], rtol=1e-11)


def _check_derivatives(objective):
    # Forward mode over the value and the gradient by reverse mode.
    points, ((values, gradients), (slopes, products)) = _around(
        lambda p, axis: jax.jvp(jax.value_and_grad(objective), (p,), (axis,))
    )
    for name, error in _errors_by_parameter(gradients[0, 0], slopes[0]).items():
        assert error < AGREEMENT_OF_MODES, name
    for name, error in _errors_by_parameter(slopes[0], _differences(values)).items():
        assert error < AGREEMENT_WITH_DIFFERENCES, name
    # A silent wrong Hessian is found in any of its columns.
    for product, expected in zip(products[0], _differences(gradients), strict=True):
        for name, error in _errors_by_parameter(product, expected).items():
            assert error < AGREEMENT_OF_HESSIANS, name
    return points, values


def _roots(search):
    """The square root of 3 a + 1, by y² = a + y_before² three times in a scan."""

    def residual(y, a):
        return y**2 - a

    def linearize(y, a):
        return residual(y, a), DenseMatrix(jnp.diag(2.0 * y))

    def function(a):
        @jax.checkpoint
        def step(y, _):
            found = newton.root(search, residual, linearize, y, None, a + y**2)
            return found.y, None

        return jax.lax.scan(step, jnp.ones(1), length=3)[0][0]

    return function


def _found_by_a_table(guess, kept, args):
    # A search that carries no derivatives.
    y = jnp.asarray(jax.lax.stop_gradient(jnp.sqrt(args)))
    none = jnp.zeros((), jnp.int32)
    return newton.Root(y, none, none == 0, jnp.full(newton.HISTORY, jnp.nan), none)


def _found_by_iterations(guess, kept, args):
    return newton.full(
        lambda y, a: (y**2 - a, DenseMatrix(jnp.diag(2.0 * y))),
        lambda correction, value, y, args: jnp.max(jnp.abs(correction)) < 1e-8,
        guess,
        kept,
        args,
    )


@pytest.mark.parametrize(
    ("search", "order"),
    cases([(search, order) for search in (_found_by_a_table, _found_by_iterations)
           for order in (2, 3)], [(_found_by_a_table, 2)]),
)  # fmt: skip
def test_derivatives_do_not_depend_on_how_a_root_was_found(search, order):
    """A `jax.lax.scan` forgets rules of functions where reverse mode meets another derivative."""
    function, a = _roots(search), jnp.asarray(0.7)

    def all_nestings(function):
        modes = {"f": jax.jacfwd, "r": jax.grad}
        derivatives = {"": function}
        for _ in range(order):
            derivatives = {x + y: modes[x](derivatives[y]) for x in modes for y in derivatives}
        _, (slope, _) = jax.jvp(jax.value_and_grad(function), (a,), (jnp.ones_like(a),))
        values = {name: derivative(a) for name, derivative in derivatives.items()}
        return values | {"of the value": slope}

    got = jax.jit(lambda: all_nestings(function))()
    expected = jax.jit(lambda: all_nestings(lambda a: jnp.sqrt(3.0 * a + 1.0)))()
    for name, value in expected.items():
        assert_allclose(got[name], value, rtol=1e-13, err_msg=name)


@pytest.mark.full
def test_derivatives_of_roots_in_batches():
    """Before and after `vmap`, with parameters that are alike in the batch, and without."""

    def root(a, b):
        return newton.root(
            _found_by_product,
            lambda y, ab: y**2 - ab[0] * ab[1],
            lambda y, ab: (y**2 - ab[0] * ab[1], DenseMatrix(jnp.diag(2.0 * y))),
            jnp.ones(1),
            None,
            (a, b),
        ).y[0]

    a, b = jnp.asarray([0.7, 2.0, 5.0]), jnp.asarray(1.3)

    def summed(root):
        return lambda a, b: jnp.sum(jax.vmap(root, (0, None))(a, b) ** 3)

    def all_batches(root):
        outer = jax.hessian(summed(root), (0, 1))(a, b)
        inner = jax.vmap(jax.hessian(root, (0, 1)), (0, None))(a, b)
        along_b = jax.grad(summed(root), 1)(a, b)
        twice = jax.grad(lambda b: jnp.sum(jax.vmap(lambda b: summed(root)(a, b))(b)))(b * a)
        return outer, inner, along_b, twice

    got = jax.jit(lambda: all_batches(root))()
    expected = jax.jit(lambda: all_batches(lambda a, b: jnp.sqrt(a * b)))()
    jax.tree.map(lambda x, y: assert_allclose(x, y, rtol=1e-13, atol=1e-15), got, expected)


def _found_by_product(guess, kept, args):
    return _found_by_a_table(guess, kept, (args[0] * args[1])[None])


# `make test` has second derivatives of such runs, and roots in loops.
@pytest.mark.full
@pytest.mark.parametrize("outer", ["forward", "reverse"])
def test_second_derivatives_of_adaptive_runs_hold_the_steps_in_loops_too(outer):
    def total(factor):
        run = lie_jax.simulate(
            Oscillator(factor * OSCILLATOR.stiffness), lie_jax.RKMK("ode23"), OSCILLATOR_START,
            dt=0.05, steps=40, throw=False,
            adaptive=lie_jax.Adaptive(rtol=1e-3, atol=1e-3), t_end=0.5,
        )  # fmt: skip
        return jnp.sum(jnp.where(jnp.isfinite(run.t)[:, None], run.q, 0.0) ** 3)

    def looped(factor):
        return jnp.sum(jax.lax.map(total, jnp.stack([factor, 1.1 * factor])))

    one = jnp.ones(())
    mode = {"forward": jax.jacfwd, "reverse": jax.grad}[outer]
    got, expected = jax.jit(
        lambda: (mode(jax.grad(looped))(one), jax.jacfwd(jax.jacfwd(looped))(one))
    )()
    assert_allclose(got, expected, rtol=1e-12)
