"""Arguments of `control.solve` that go wrong, and ends of a search that are no optimum."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import control
from lie_jax.control.parts import Layout
from tests.cart import AT_ZERO, MIDPOINT, Mass, Rest, effort
from tests.systems import OnALine, Spinner

STEPS = 10
ONE = Mass(1.0)
# Tolerance of the search, times some terms.
SEARCH = 1e-8


def at_one(q, v, *parameters):
    return jnp.concatenate([q - 1.0, v])


def _phase(**options):
    known = {"steps": STEPS, "duration": 2.0, "running": effort, "end": at_one}
    return control.Phase(ONE, MIDPOINT, **{**known, **options})


RK4 = lie_jax.RKMK("rk4")


def _spin(method, dtype):
    phase = control.Phase(Spinner(jnp.ones(3)), method, steps=3, duration=1.0, running=effort)
    return control.solve(
        phase, lie_jax.State(*(x.astype(dtype) for x in (np.eye(4)[0], np.zeros(3))))
    )


def _optimum(states):
    number, whole = jnp.zeros(()), jnp.zeros((), int)
    numbers = number, number, number, whole, jnp.zeros((1, 3)), whole > 0
    return control.Optimum(states, *[None] * 6, *numbers)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: control.solve(_phase(limits=(np.inf, np.inf)), AT_ZERO), "inf above for none"),
        (lambda: _spin(RK4, np.float32), "one precision"),
        (lambda: _spin(lie_jax.RungeKutta("rk4"), np.float64), "leaves the group"),
        (lambda: _two(lambda q, v: q), "links=.*write return q, v"),
        (lambda: _two(lambda q, v: (jnp.zeros(2), v)), r"links=\): q has shape \(2,\)"),
        (lambda: control.solve(_phase(), AT_ZERO, begin=lambda q, v: [v]), "begin=.*list"),
        (
            lambda: control.solve(_phase(), AT_ZERO, periodic=lambda q, v: (q[0], v)),
            r"periodic=\): q has shape",
        ),
        (
            lambda: control.solve([_phase()], AT_ZERO, guess=_optimum(AT_ZERO)),
            "Optimum of one phase",
        ),
        (
            lambda: control.solve(_phase(), AT_ZERO, guess=_optimum([AT_ZERO])),
            "Optimum of a list of phases",
        ),
        (lambda: control.solve([_phase()], AT_ZERO, guess=control.Guess()), "a list"),
    ],
)
def test_bad_arguments_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def _two(link):
    return control.solve([_phase(end=None), _phase()], AT_ZERO, links=[link])


def test_problems_with_and_without_parameters_are_told_apart():
    """One after the other in one process: JAX asks whether the program of the first will do."""
    without, one = Layout(0, (), ()), Layout(0, (jax.tree.structure(1.0),), ((),))
    assert jax.tree.structure(one) != jax.tree.structure(without)
    assert jax.tree.structure(without) != jax.tree.structure(one)


@pytest.mark.full
def test_multipliers_of_another_problem_are_left_out():
    """Numbers of conditions and of inequalities differ, and the guess is taken."""
    guess = control.solve(_phase(), AT_ZERO)
    for options in ({"end": lambda q, v: q - 1.0}, {"path": lambda t, q, v, u: v - 0.7}):
        best = control.solve(_phase(**options), AT_ZERO, guess=guess)
        cold = control.solve(_phase(**options), AT_ZERO)
        assert bool(best.converged) and bool(cold.converged)
        assert_allclose(best.cost, cold.cost, rtol=SEARCH)


@pytest.mark.full
def test_a_link_takes_the_parameters():
    """A jump by a length that costs its square, and the effort for the rest of the way."""
    # A problem without parameters goes before.
    assert bool(control.solve(_phase(), AT_ZERO).converged)

    def jump(q, v, length):
        return q + length, v

    phases = [
        _phase(end=None, final=lambda q, v, length: 0.5 * length**2),
        _phase(end=lambda q, v, length: at_one(q, v)),
    ]
    best = control.solve(phases, AT_ZERO, links=[jump], parameters=jnp.asarray(0.1))
    # ½ k (1 - x)² + ½ x², where ½ k is the effort for one metre: 6 / T³ for continuous forces.
    steps = 2 * STEPS
    k = 2.0 * 6.0 / 4.0**3 * steps**2 / (steps**2 - 1)
    assert bool(best.converged)
    assert_allclose(best.parameters, k / (1.0 + k), rtol=SEARCH)


class Hanging(OnALine):
    """A pendulum with a torque at its pivot."""

    @property
    def nu(self):
        return 1

    def force(self, t, q, v, u):
        return u - jnp.sin(q)


@pytest.mark.full
def test_a_maximum_is_no_optimum():
    """Hanging at rest the gradient of a swing-up's cost is zero, and its cost the largest."""

    def low(q, v):
        return 10.0 * jnp.sum(1.0 + jnp.cos(q))

    phase = control.Phase(
        Hanging(), lie_jax.RKMK("rk4"), steps=STEPS, duration=3.0, running=effort, final=low
    )
    with pytest.warns(UserWarning, match="saddle or a maximum.*another guess"):
        found = control.solve(phase, AT_ZERO)
    assert not bool(found.converged)
    best = control.solve(phase, AT_ZERO, guess=control.Guess(inputs=np.ones((STEPS, 1))))
    assert bool(best.converged)
    assert best.cost < 0.2 * found.cost


@pytest.mark.full
def test_single_precision():
    zero = lie_jax.State(*np.zeros((2, 1), np.float32))
    best = control.solve(_phase(limits=(-4.0, 4.0)), zero)
    assert bool(best.converged) and best.cost.dtype == jnp.float32
    # The closed form, to the tolerance of single precision.
    assert_allclose(best.cost, 0.75 * STEPS**2 / (STEPS**2 - 1), rtol=1e-3)


def _push(distance, limit, **options):
    return control.solve(
        _phase(end=Rest(jnp.asarray(distance)), limits=(-limit, limit), **options), AT_ZERO
    )


@pytest.mark.full
def test_costs_of_any_size():
    """With places and limits a millionth as large, the effort is the square of that."""
    large, small = _push(1.0, 1.7), _push(1e-6, 1.7e-6)
    assert bool(large.converged) and bool(small.converged)
    assert_allclose(1e12 * small.cost, large.cost, rtol=SEARCH)
    assert_allclose(1e6 * small.inputs, large.inputs, atol=1e3 * SEARCH)


@pytest.mark.full
def test_ends_without_a_cost_and_ends_that_cannot_be_met_take_few_iterations():
    met = _push(1.0, 5.0, running=None)
    assert bool(met.converged) and int(met.iterations) < 20
    assert_allclose(met.states.q[-1], 1.0, atol=SEARCH)
    with pytest.warns(UserWarning, match="exclude each other"):
        missed = _push(1.0, 0.1)
    assert not bool(missed.converged) and int(missed.iterations) < 40


class Falling(OnALine):
    """An upright pendulum whose angle counts in a unit of its own, with a torque."""

    unit: jax.Array

    @property
    def nu(self):
        return 1

    def force(self, t, q, v, u):
        assert u is not None
        return self.unit * (jnp.sin(q / self.unit) + u)


class Valleys(eqx.Module):
    """Cost of angles that are no multiple of 2π/3."""

    unit: jax.Array

    def __call__(self, t, q, v, u):
        return 0.01 * jnp.sum(u**2) + 10.0 * jnp.sum(1.0 - jnp.cos(3.0 * q / self.unit))


@pytest.mark.full
def test_units_of_states_do_not_change_the_way():
    """Damping of states in units of the inputs led to another optimum, of 16.4, in the second."""
    costs = []
    for unit in (1.0, 30.0):
        phase = control.Phase(
            Falling(jnp.asarray(unit)), RK4, steps=60, duration=4.0,
            running=Valleys(jnp.asarray(unit)), end=Rest(jnp.asarray(5.0 * unit)),
        )  # fmt: skip
        q = unit * np.linspace(0.3, 5.0, 61)[:, None]
        guess = control.Guess(states=lie_jax.State(q, 0.0 * q))
        best = control.solve(phase, lie_jax.State(q[0], np.zeros(1)), guess=guess)
        assert bool(best.converged)
        costs.append(best.cost)
    assert_allclose(costs[1], costs[0], rtol=SEARCH)
