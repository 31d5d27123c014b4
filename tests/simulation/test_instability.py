"""Explicit runs that grow because of their step size end as unstable, whole or in pieces."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.integrators import stability, tableaux
from lie_jax.simulation.march import march
from tests.cart import Cart
from tests.suites import cases

RK4 = lie_jax.RKMK("rk4")
UNSTABLE, SUCCESSFUL = lie_jax.Result.unstable, lie_jax.Result.successful
STEPS = 400


class Oscillators(Cart):
    """Unit mass on a spring and damper, about another place than zero."""

    damping: float = 0.0

    def force(self, t, q, v, u):
        return -self.stiffness * (q - 0.01) - self.damping * v


def _factors(tableau, damping, stiffness):
    """Largest factors by which steps of 1 s multiply the modes, by powers of their matrices."""
    method = tableaux.TABLEAUX[tableau]
    size = len(method.b)
    a = np.stack([tableaux.pad(row, size) for row in method.a])
    roots = np.roots([1.0, damping, stiffness])
    power, ones = np.ones(2, complex), np.ones(size)
    factors = np.ones(2, complex)
    for _ in range(size):
        power = power * roots
        factors = factors + power * (np.asarray(method.b, float) @ ones)
        ones = a @ ones
    return np.abs(factors).max()


@pytest.mark.parametrize(
    "tableau",
    cases(["heun", "midpoint", "rk3", "rk4", "ode23", "dopri5", "rk67"], ["rk4"]),
)
def test_modes_that_grow_are_found_and_those_that_decay_are_not(tableau):
    rng = np.random.default_rng(4)
    rates, ratios = rng.uniform(0.3, 4.0, 300), rng.choice([0.0, 0.1, 0.3, 0.7, 0.95, 1.2], 300)

    def result(stiffness, damping):
        start = lie_jax.State(jnp.ones(1), jnp.zeros(1))
        system = Oscillators(mass=1.0, stiffness=stiffness, damping=damping)
        return march(system, lie_jax.RKMK(tableau), start, 1.0, STEPS).result

    stiffness, damping = rates**2, 2.0 * ratios * rates
    results = jax.jit(jax.vmap(result))(jnp.asarray(stiffness), jnp.asarray(damping))
    factors = np.asarray([_factors(tableau, d, k) for d, k in zip(damping, stiffness, strict=True)])
    # Grown by a thousand at the end; where the factor is smaller, no wrong state is large.
    grown, decaying = STEPS * np.log(factors) > np.log(1e3), factors < 0.99
    assert np.sum(grown) > 50 and np.sum(decaying) > 50
    assert np.all(results == UNSTABLE, where=grown)
    assert np.all(results == SUCCESSFUL, where=decaying)


@pytest.mark.parametrize("tableau", cases(["heun", "rk4", "dopri5"], []))
def test_few_steps_beyond_the_limit_are_found_in_every_phase(tableau):
    """Modes that grow by half a step, 5 % beyond the limit, against those that decay."""
    rng = np.random.default_rng(6)
    rates, ratios = rng.uniform(0.3, 6.0, 600), rng.choice([0.0, 1e-3, 0.3, 0.7, 0.95], 600)
    phases = rng.uniform(0.0, 2.0 * np.pi, 600)
    limit = stability.limit(*tableaux.TABLEAUX[tableau][:2])

    def end(stiffness, damping, q, v, steps):
        system = Oscillators(mass=1.0, stiffness=stiffness, damping=damping)
        loop = march(system, lie_jax.RKMK(tableau), lie_jax.State(q[None], v[None]), 1.0, steps)
        return (loop.result == UNSTABLE) | loop.growth.shortly_unstable()

    numbers = rates**2, 2.0 * ratios * rates, 0.01 + np.cos(phases), rates * np.sin(phases)
    run = jax.jit(jax.vmap(end, in_axes=(0, 0, 0, 0, None)))
    pairs = zip(*numbers[:2], strict=True)
    factors = np.asarray([_factors(tableau, damping, stiffness) for stiffness, damping in pairs])
    growing = (ratios < 0.1) & (factors > 1.5) & (rates > 1.05 * limit)
    decaying = factors < 0.99
    assert np.sum(growing) > 50 and np.sum(decaying) > 50
    for steps in (5, 6, 8, 12, 19):
        found = np.asarray(run(*map(jnp.asarray, numbers), steps))
        assert found[growing].all() and not found[decaying].any(), steps


@pytest.mark.parametrize("tableau", cases(["euler", "heun", "rk4", "dopri5"], []))
def test_the_first_steps_refuse_no_mode_that_decays(tableau):
    """Neither in runs of a few steps nor in ten one-step runs, which find most modes that grow."""
    rng = np.random.default_rng(8)
    rates, ratios = rng.uniform(0.3, 6.0, 2000), rng.choice([0.0, 0.1, 0.3, 0.7, 0.95, 2.0], 2000)
    phases = rng.uniform(0.0, 2.0 * np.pi, 2000)
    damping, stiffness = 2.0 * ratios * rates, rates**2

    def run(system, state, steps):
        loop = march(system, lie_jax.RKMK(tableau), state, 1.0, steps)
        return loop.state, (loop.result == UNSTABLE) | loop.growth.shortly_unstable()

    @jax.jit
    @jax.vmap
    def found(stiffness, damping, q, v):
        system = Oscillators(mass=1.0, stiffness=stiffness, damping=damping)
        state = lie_jax.State(q[None], v[None])
        few = [run(system, state, steps)[1] for steps in (2, 3, 4)]
        single = jax.lax.scan(lambda state, _: run(system, state, 1), state, length=10)[1]
        return jnp.any(jnp.stack(few)), single

    start = 0.01 + np.cos(phases), rates * np.sin(phases)
    few, single = map(np.asarray, found(*map(jnp.asarray, (stiffness, damping, *start))))
    pairs = list(zip(damping, stiffness, strict=True))
    # Modes that decay in steps 5 % larger, too, and those that steps double.
    decaying = np.asarray([_factors(tableau, 1.05 * d, 1.05**2 * k) for d, k in pairs]) < 1.0
    growing = np.asarray([_factors(tableau, d, k) for d, k in pairs]) > 2.0
    assert np.sum(decaying) > 100 and np.sum(growing) > 100
    assert not few[decaying].any() and not single[decaying].any()
    assert single.any(axis=1)[growing].mean() > 0.9


def test_eulers_method_is_judged():
    """A damped wheel: steps let it grow from h = c / k, all of whose modes oscillate."""
    mass, stiffness, damping = 40.0, 2e5, 1500.0
    system = Oscillators(mass=mass, stiffness=stiffness, damping=damping)
    start = lie_jax.State(jnp.asarray([0.011]), jnp.zeros(1))
    largest = damping / stiffness
    one_stage = tableaux.Tableau(((),), (1,), (0,), 1)
    for tableau in ("euler", one_stage):
        run = lie_jax.simulate(
            system, lie_jax.RKMK(tableau), start, dt=2.0 * largest, steps=200, throw=False
        )
        assert bool(run.result == UNSTABLE)
        # The square of the motion grows by 1 - h c / m + h² k / m = 1.5625 a step.
        expected = np.log(1e4) / np.log(1.5625)
        assert abs(int(run.stats.completed_steps) - expected) < 8
        end = march(system, lie_jax.RKMK(tableau), start, 0.9 * largest, 1000)
        assert bool(end.result == SUCCESSFUL)


@pytest.mark.full
def test_a_law_that_is_left_by_steps_beyond_the_limit_names_the_mode():
    wheel = lie_jax.Body("wheel", 40.0, np.eye(3), position=(0, 0, 0.3))
    tyre = lie_jax.LinearSpringDamper("ground", "wheel", 2e5, 100.0, 0.3)
    rail = lie_jax.PrismaticJoint("ground", "wheel", (0, 0, 1))
    mechanism = lie_jax.Mechanism([wheel], [rail], [tyre])
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    rest = lie_jax.State(jnp.asarray([0.3 - 40.0 * 9.81 / 2e5]), jnp.zeros(1))
    dt = 100.0 * 2.828 / np.sqrt(2e5 / 40.0)
    with pytest.raises(lie_jax.SimulationError) as error:
        lie_jax.simulate(system, RK4, rest, dt=dt, steps=2)
    assert bool(error.value.trajectory.result == UNSTABLE)
    text = str(error.value)
    assert "LinearSpringDamper('ground', 'wheel')" in text, text
    assert_allclose(_largest_step(text), dt / 100.0, rtol=0.02)


def _largest_step(text):
    """Largest stable step (s) in a message."""
    return float(text.split("stable up to dt = ")[1].split()[0])


def _hinge(damping=20.0):
    """A rod of 1/3 kg m² on a hinge with a damper (N m s/rad), a motor, and its rate (1/s)."""
    rod = lie_jax.Body("rod", 1.0, np.diag([1 / 12, 1 / 12, 1e-3]), position=(0, 0, -0.5))
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0, 1, 0), child_point=(0, 0, 0.5))
    forces = [
        lie_jax.ViscousFriction("ground", "rod", damping),
        lie_jax.JointMotor(hinge, input=0),
    ]
    system, _ = lie_jax.assemble(lie_jax.Mechanism([rod], [hinge], forces), lie_jax.Minimal())
    return system, lie_jax.State([0.3], [0.0]), 3.0 * damping


def _spring(t, q, v):
    return -5.0 * q


@pytest.mark.full
def test_pieces_of_an_unstable_run_are_unstable():
    system, state, rate = _hinge()
    dt = 2.9 / rate
    simulate = functools.partial(lie_jax.simulate, system, RK4, dt=dt)
    with pytest.raises(lie_jax.SimulationError) as error:
        simulate(state, steps=100, policy=_spring)
    text = str(error.value)
    words = "limit of stability", "RevoluteJoint('ground', 'rod')", "implicit method"
    for part in (*words, "ViscousFriction('ground', 'rod')"):
        assert part in text, text
    # The limit on the negative axis is 2.785; the weight makes the decay a little slower.
    assert_allclose(_largest_step(text), 2.785 / rate, rtol=0.02)

    def step(now, _):
        run = simulate(now, steps=1, inputs=_spring(0.0, now.q, now.v)[None], throw=False)
        return lie_jax.State(run.q[-1], run.v[-1]), run.result

    def piece(now, _):
        run = simulate(now, steps=5, policy=_spring, throw=False)
        return run.restart, run.result

    @jax.jit
    def all_results(state):
        _, of_steps = jax.lax.scan(step, state, length=30)
        start, first = piece(state, None)
        return of_steps, first, jax.lax.scan(piece, start, length=10)[1]

    for results in all_results(state):
        assert bool(jnp.all(results == UNSTABLE))
    # The same steps with a damper that the method resolves.
    system, state, _ = _hinge(10.0)
    lie_jax.simulate(system, RK4, state, dt=dt, steps=1, policy=_spring)


FORMULATIONS = {"joint coordinates": lie_jax.Minimal(), "constraints": lie_jax.R3SO3()}


@pytest.mark.full
@pytest.mark.parametrize("name", FORMULATIONS)
def test_an_overflow_names_the_damper_of_the_lightest_link(name):
    upper = lie_jax.Body("upper", 1.0, np.diag([1 / 12, 1 / 12, 1e-3]), position=(0, 0, -0.5))
    light = lie_jax.Body("light", 0.1, np.eye(3) * 1.3e-4, position=(0, 0, -1))
    y = (0, 1, 0)
    joints = [
        lie_jax.RevoluteJoint("ground", "upper", y, child_point=(0, 0, 0.5)),
        lie_jax.RevoluteJoint("upper", "light", y, (0, 0, -0.5)),
    ]
    forces = [
        lie_jax.JointSpring(joints[0], stiffness=10.0, damping=0.1, relaxed=0.5),
        lie_jax.ViscousFriction("upper", "light", 2.0),
    ]
    mechanism = lie_jax.Mechanism([upper, light], joints, forces)
    system, state = lie_jax.assemble(mechanism, FORMULATIONS[name])
    # A hundred times beyond the limit the state overflows, or turns by more than a turn in a step.
    with pytest.raises(lie_jax.SimulationError) as error:
        lie_jax.simulate(system, RK4, state, dt=2e-3, steps=50)
    assert bool(error.value.trajectory.result == UNSTABLE)
    text = str(error.value)
    assert "ViscousFriction('upper', 'light')" in text and "implicit method" in text, text
    # The link turns on its own centre, about 1.3e-4 kg m².
    assert_allclose(_largest_step(text), 2.785 * 1.3e-4 / 2.0, rtol=0.01)


def _ball(law):
    """A ball of 1 kg that falls onto a floor of a law (q, v), with its weight."""

    class Ball(Cart):
        def force(self, t, q, v, u):
            return law(q, v) - 9.81

    return Ball(mass=1.0)


# Laws of one force (N) of positions and speeds; the steps are of a millisecond.
PASSING = {
    "stop": _ball(lambda q, v: jnp.where(q < 0.0, jnp.maximum(-4e5 * q - 190.0 * v, 0.0), 0.0)),
    "dry friction": _ball(lambda q, v: 9.81 - 50.0 * q - 5.0 * jnp.tanh(v / 2e-3)),
    "sliding to rest": _ball(lambda q, v: 9.81 - 5.0 * jnp.tanh(v / 1e-3)),
    "load": _ball(lambda q, v: 9.81 + 100.0 * jnp.sin(30.0 * q)),
}


@pytest.mark.parametrize("tableau", cases(["heun", "rk4", "ode23", "dopri5", "rk67"], []))
def test_what_passes_is_no_instability(tableau):
    start = lie_jax.State(jnp.asarray([0.1]), jnp.asarray([-1.0]))
    for name, system in PASSING.items():
        end = march(system, lie_jax.RKMK(tableau), start, 1e-3, 1000)
        assert bool(end.result == SUCCESSFUL), name
        # At rest h |λ| is 5; the long stages of Heun's method see the saturated law alone.
        seen = name == "sliding to rest" and tableau != "heun"
        assert not seen or float(end.stability) > 1.0
        assert np.abs(end.state.v).max() < 10.0


def test_many_steps_beyond_the_limit_that_friction_bounds_raise_a_warning():
    """At rest 5 N over 1 mm/s let the speed alternate from step to step."""
    start = lie_jax.State(jnp.asarray([0.1]), jnp.asarray([-1.0]))
    run = {"dt": 1e-3, "steps": 1000}
    with pytest.warns(
        UserWarning, match="of 1000 steps were beyond the limit of stability"
    ) as told:
        lie_jax.simulate(PASSING["sliding to rest"], RK4, start, **run)
    assert told[0].filename == __file__
    for name in ("stop", "dry friction", "load"):
        lie_jax.simulate(PASSING[name], RK4, start, **run)
