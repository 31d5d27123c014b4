"""Bad arguments of a search for a periodic motion, and searches without one, name cause and fix."""

from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from tests.messages import body, check_message
from tests.orbits.small import Circle, Driven, Swing

RK4 = lie_jax.RKMK("rk4")
START = lie_jax.State([1.0], [0.0])
DRIVEN = Driven(jnp.asarray(0.1), jnp.asarray(2.0))
ARM = lie_jax.Mechanism([body()], [lie_jax.RigidJoint("ground", "b")])
SWING = Swing(jnp.asarray(1.0))


class Pushed(Swing):
    """A pendulum that reads an input."""

    @property
    def nu(self):
        return 1


def find(system: Any = SWING, state: Any = START, integrator: Any = RK4, **others: Any):
    options = {"period": 6.0, "steps": 10} | others
    return lie_jax.periodic_orbit(system, integrator, state, **options)


def held():
    system, state = lie_jax.assemble(ARM, lie_jax.R3SO3())
    return find(system, state, period=1.0)


TOP = lie_jax.Event(lambda t, q, v: q[0] - 10.0, "stop")
CASES = {
    "pair of a system": (lambda: find((SWING, START)), "(system=)", "unpack it"),
    "system of inputs": (lambda: find(Pushed(jnp.asarray(1.0))), "reads 1 inputs", "lambda t"),
    "numbers for a state": (lambda: find(state=np.ones(2)), "(state=)", "lie_jax.State(q, v)"),
    "no integrator": (lambda: find(integrator="rk4"), "lie_jax.RKMK('rk4')"),
    "no period": (lambda: find(period=-1.0), "(period=) is -1.0", "positive"),
    "no steps": (lambda: find(steps=0), "(steps=) is 0", "at least 1"),
    "no choice": (lambda: find(free_period=6.0), "(free_period=) is 6.0", "True"),
    "no event": (lambda: find(until=lambda t, q, v: q[0]), "(until=)", "lie_jax.Event(function,"),
    "period with an event": (lambda: find(until=TOP, free_period=True), "(free_period=)", "until="),
    "symmetry of a time": (
        lambda: find(symmetry=lambda t, q, v: (q, v)), "(symmetry=)", "called with (q, v)"),
    "symmetry of q alone": (
        lambda: find(symmetry=lambda q, v: q), "(symmetry=) returns", "the pair (q, v)"),
    "symmetry of another shape": (
        lambda: find(symmetry=lambda q, v: (q, v[0])), "(symmetry=): its v", "(1,)"),
    "condition that is none": (lambda: find(condition=1.0), "(condition=) is 1.0", "function"),
    "condition of a pair": (
        lambda: find(condition=lambda q, v: (q, v)), "(condition=) returns", "jax.numpy"),
    "nothing that moves": (held, "6 independent constraints for 6 velocities", "leave some out"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_arguments_are_refused(case, monkeypatch):
    # Run-time checks of types, which users' programs have not, would come first.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    act, *parts = CASES[case]
    check_message(act, *parts)


def unsolved(*parts, **options):
    with pytest.raises(lie_jax.PeriodicOrbitError) as caught:
        find(**options)
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    assert not caught.value.orbit.converged
    return caught.value.orbit


@pytest.mark.full
def test_a_free_period_of_a_motion_at_rest_is_refused():
    unsolved("at rest", "condition=", state=lie_jax.State([0.0], [0.0]), free_period=True)


@pytest.mark.full
def test_a_period_of_the_drive_that_is_wrong_is_refused():
    check_message(
        lambda: find(DRIVEN, period=3.0), "(period=): after 3 s", "velocity 0", "all its digits"
    )
    check_message(lambda: find(DRIVEN, free_period=True), "(free_period=) is True", "as period=")


@pytest.mark.full
def test_an_event_that_does_not_come_is_named():
    unsolved("until= does not come before t = 6", "longer period=", until=TOP)


@pytest.mark.full
def test_what_is_left_of_a_closing_is_named():
    """After 2π all motions of a spring have closed, and none of them has gone on."""
    orbit = unsolved(
        *("end and start differ by 1 in the position of", "symmetry=", "free_period=True"),
        **{"system": Circle(jnp.asarray(0.0)), "symmetry": lambda q, v: (q + 1.0, v)},
        **{"period": 2.0 * np.pi, "steps": 200},
    )
    np.testing.assert_allclose(orbit.residual, 1.0, rtol=1e-6)
    unsolved(
        *("value 0 of condition= is 1,", "as period="),
        **{"system": Circle(jnp.asarray(1.0)), "steps": 200},
        **{"free_period": True, "condition": lambda q, v: 1.0 + 0.0 * q},
    )


@pytest.mark.full
def test_a_run_that_fails_is_named():
    steep = Driven(jnp.asarray(-1e4), jnp.asarray(2.0))
    unsolved("does not reach its end", "Take a smaller dt", system=steep, period=np.pi, steps=100)


@pytest.mark.full
def test_under_transformations_a_failure_is_nan():
    def result(q):
        return find(state=lie_jax.State(jnp.atleast_1d(q), [0.0]), free_period=True, steps=100)

    orbits = jax.jit(jax.vmap(result))(jnp.asarray([0.0, 1.0]))
    np.testing.assert_array_equal(orbits.converged, [False, True])
    np.testing.assert_array_equal(np.isnan(orbits.period), [True, False])
    np.testing.assert_array_equal(np.isnan(orbits.state.q[:, 0]), [True, False])
    assert np.isnan(orbits.trajectory.q[0]).all()
