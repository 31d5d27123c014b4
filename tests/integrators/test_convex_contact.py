"""Convex contact has order one in a contact that steps resolve, and is stable in any other."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax import Result, contact
from lie_jax.simulation.march import march
from models import quadruped
from tests.runs import orders

METHOD = lie_jax.ConvexContact()
GRAVITY = 9.81
DOWN = (0.0, 0.0, -GRAVITY)
# Of observed orders, whose lines are straight to this over the halvings here.
SLACK = 0.05
# Of states after some thousand steps, and of forces relative to the weight.
DIGITS = 1e-10
# Of two sums of the same terms, in parts of the largest.
ROUNDING = 1e-12


def ball(stiffness, dissipation=0.0, friction=0.5, height=0.0, velocity=(0.0, 0.0, 0.0), **how):
    """A solid ball of 1 kg and 0.1 m on the ground, by its height above the sag of rest."""
    stiffness, velocity = jnp.asarray(stiffness, float), jnp.asarray(velocity, float)
    position = jnp.stack([0.0 * stiffness, 0.0 * stiffness, 0.1 + height - sag(stiffness)])
    body = lie_jax.Body(
        "ball", 1.0, lie_jax.solids.sphere(1.0, 0.1), position=position, velocity=velocity
    )
    touching = lie_jax.contact.Contact(
        contact.Sphere("ball", 0.1),
        contact.Plane("ground"),
        lie_jax.contact.HuntCrossley(stiffness, dissipation=dissipation),
        None if friction is None else lie_jax.contact.Coulomb(friction, **how),
    )
    mechanism = lie_jax.Mechanism([body], forces=[touching], gravity=DOWN)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


def sag(stiffness):
    return jnp.sqrt(GRAVITY / stiffness)


def weightless(system):
    return eqx.tree_at(lambda system: system.gravity, system, jnp.zeros(3))


def block(friction, slope=10.0, stiffness=1e8):
    """A block of 1 kg on a slope (degrees), at rest, and the direction down the slope."""
    slope, size = np.radians(slope), (0.2, 0.2, 0.1)
    turned = Rotation.from_rotvec([0.0, slope, 0.0])
    depth = np.sqrt(GRAVITY * np.cos(slope) / (4 * stiffness))
    body = lie_jax.Body(
        "block",
        1.0,
        lie_jax.solids.box(1.0, size),
        position=turned.apply([0.0, 0.0, 0.05 - depth]),
        orientation=turned.as_quat(scalar_first=True),
    )
    touching = lie_jax.contact.Contact(
        contact.Box("block", size),
        contact.Plane("ground", normal=turned.apply([0.0, 0.0, 1.0])),
        lie_jax.contact.HuntCrossley(stiffness, dissipation=5.0),
        friction,
    )
    mechanism = lie_jax.Mechanism([body], forces=[touching], gravity=DOWN)
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    return system, state, turned.apply([1.0, 0.0, 0.0])


@pytest.mark.parametrize("dissipation", [0.1, 0.3, 1.0])
def test_an_impact_that_steps_resolve_is_of_first_order(dissipation):
    """Against the speed of Hunt and Crossley, in 20 to 160 steps a contact."""
    speed: Any = brentq(
        lambda w: np.log((1.0 + dissipation) / (1.0 - dissipation * w)) - dissipation * (1.0 + w),
        *(0.0, 1.0 - 1e-12),
        xtol=1e-14,
    )
    # It starts at the touch.
    system, state = ball(1e5, dissipation, height=float(sag(1e5)), velocity=(0.0, 0.0, -1.0))
    system, counts = weightless(system), 200 * 2 ** np.arange(4)
    ends = [march(system, METHOD, state, 0.2 / n, n) for n in counts]
    errors = np.abs([end.state.v[2] - speed for end in ends])
    assert_allclose(orders(errors), 1.0, atol=SLACK)


@pytest.mark.full
def test_a_ball_that_is_dropped_loses_energy_and_rests_at_its_sag():
    """Where a contact takes many steps and where it is far shorter than one."""
    stiffness = jnp.asarray([1e5, 1e5, 1e9, 1e9, 1e9])
    dt = jnp.asarray([1e-2, 5e-2, 1e-3, 1e-2, 5e-2])

    @jax.jit
    @jax.vmap
    def run(stiffness, dt):
        system, state = ball(stiffness, 0.3, height=0.3)

        def step(state, _):
            end = METHOD.step(system, jnp.zeros_like(dt), dt, state, None, None)
            energy = system.kinetic_energy(state.q, state.v) + system.potential_energy(state.q)
            return end.state, (energy, end.converged)

        end, (energy, converged) = jax.lax.scan(step, state, None, 2000)
        return end, energy, converged

    end, energy, converged = run(stiffness, dt)
    assert np.all(converged)
    assert np.max(np.diff(energy, axis=1)) <= ROUNDING
    depths = 0.1 - end.q[:, 2]
    assert_allclose(depths, sag(stiffness), rtol=DIGITS)
    assert_allclose(end.v, 0.0, atol=ROUNDING)


@pytest.mark.full
def test_an_impact_shorter_than_a_step_has_its_friction():
    """A ball that slides on through an impact changes its speed along by μ times that across."""
    system, state = ball(1e9, friction=0.2, height=0.01, velocity=(9.0, 0.0, -3.0))
    system = weightless(system)
    end = march(system, METHOD, state, 1e-2, 4).state
    # But for the smooth rest of friction, (vₛ / slip)² / 2.
    assert_allclose(9.0 - end.v[0], 0.2 * (end.v[2] + 3.0), rtol=1e-7)
    assert end.v[2] > -ROUNDING
    later = march(system, METHOD, end, 1e-2, 4).state
    assert_allclose(later.v, end.v, atol=ROUNDING)


def test_a_ball_rolls_with_five_sevenths_of_its_speed():
    """In steps of 5 ms, with the lever of the middle of the overlap."""
    system, state = ball(1e9, 0.2, friction=0.2, velocity=(2.0, 0.0, 0.0))
    end = march(system, METHOD, state, 5e-3, 1000)
    assert end.result == Result.successful
    lever = 0.1 - 0.5 * sag(1e9)
    assert_allclose(end.state.v[0], 2.0 / (1.0 + 0.4 * 0.1**2 / lever**2), rtol=DIGITS)


def railed(speed):
    """A block on a rail that presses it on the ground with its weight, 2 kg."""
    radius, stiffness, friction = 0.1, 1e6, lie_jax.contact.Coulomb(0.3, 1e-2)
    position = (0.0, 0.0, radius - np.sqrt(2.0 * GRAVITY / stiffness))
    body = lie_jax.Body("block", 2.0, np.eye(3), position=position)
    rail = lie_jax.PrismaticJoint("ground", "block", axis=(1, 0, 0), parent_point=position)
    shapes = contact.Sphere("block", radius), contact.Plane("ground")
    touching = lie_jax.contact.Contact(*shapes, lie_jax.contact.HuntCrossley(stiffness), friction)
    mechanism = lie_jax.Mechanism([body], [rail], [touching], gravity=DOWN)
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    return system, lie_jax.State(state.q, jnp.asarray([speed]))


@pytest.mark.full
def test_a_sliding_block_stops_at_the_end_of_the_closed_form():
    """With errors of first order."""
    system, state = railed(1.0)
    counts = 100 * 2 ** np.arange(5)
    ends = [march(system, METHOD, state, 4.0 / n, n) for n in counts]
    way = (np.sqrt(1.0 + 1e-4) + 1e-4 * np.arcsinh(1e2)) / (2.0 * 0.3 * GRAVITY)
    errors = np.abs([end.state.q[0] - way for end in ends])
    assert_allclose(orders(errors), 1.0, atol=SLACK)


@pytest.mark.full
@pytest.mark.parametrize("velocity", [1e-3, 1e-5, 1e-7])
def test_a_block_on_a_slope_creeps(velocity):
    """10⁴ steps, with vₛ r/√(1 - r²) at the part r of what friction could hold."""
    system, state, downhill = block(lie_jax.contact.Coulomb(0.3, velocity))
    end = march(system, METHOD, state, 1e-3, 10_000)
    assert end.result == Result.successful
    part = np.tan(np.radians(10.0)) / 0.3
    expected = velocity * part / np.sqrt(1.0 - part**2)
    assert_allclose(end.state.v[:3] @ downhill, expected, rtol=1e-6)


def sliding(x):
    """A ball that slides and sinks in, by stiffness, μ and speed along the ground."""
    stiffness, friction, speed = x
    velocity = jnp.stack([speed, 0.0 * speed, 0.0 * speed - 0.05])
    return ball(stiffness, 0.5, friction, velocity=velocity, static_coefficient=0.6)


def after(given, dt=2e-3):
    """Numbers of the state after 20 steps, in which the overlap grows and falls."""
    system, state = given

    def step(state, _):
        time, size = jnp.zeros((), state.q.dtype), jnp.asarray(dt, state.q.dtype)
        return METHOD.step(system, time, size, state, None, None).state, None

    end, _ = jax.lax.scan(step, state, None, 20)
    return jnp.concatenate([end.q, end.v])


def slid(x):
    return after(sliding(x))


START = jnp.asarray([1e6, 0.3, 0.5])


@pytest.mark.full
def test_derivatives_of_both_modes_are_those_of_differences():
    value = jax.jit(slid)
    forward, reverse = jax.jit(lambda x: (jax.jacfwd(slid)(x), jax.jacrev(slid)(x)))(START)
    size = np.max(np.abs(forward), axis=0)
    assert_allclose(forward / size[None], reverse / size[None], rtol=0.0, atol=ROUNDING)
    for k, direction in enumerate(np.eye(3) * START[None] * 1e-5):
        change = (value(START + direction) - value(START - direction)) / (2.0 * direction[k])
        assert_allclose(forward[:, k] / size[k], change / size[k], rtol=0.0, atol=1e-6)


@pytest.mark.full
def test_batches_are_their_members_and_single_precision_is_finite():
    starts = START[None] * jnp.asarray([[1.0, 1.0, 1.0], [3.0, 2.0, 0.1], [0.5, 0.5, 2.0]])
    together, one = jax.jit(jax.vmap(slid))(starts), jax.jit(slid)
    rows = jnp.stack([one(start) for start in starts])
    assert_allclose(together, rows, rtol=0.0, atol=ROUNDING)
    given = jax.tree.map(
        lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, jax.vmap(sliding)(starts)
    )

    def sum_of(given):
        numbers = after(given)
        return jnp.sum(numbers), numbers

    gradients, numbers = jax.jit(jax.vmap(eqx.filter_grad(sum_of, has_aux=True)))(given)
    assert numbers.dtype == jnp.float32
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradients))
    assert_allclose(numbers, rows, atol=1e-4)


@pytest.mark.full
def test_forces_fall_with_the_velocity_of_a_place():
    """So that the function that a step minimises is convex, whatever state and step size."""
    friction = lie_jax.contact.Coulomb(0.3, static_coefficient=0.9)
    system, state, _ = block(friction)
    places = system.places(0.0, state.q, state.v)
    rng = np.random.default_rng(0)
    w = jnp.asarray(
        rng.normal(size=(50, *places.jacobian.shape[:2]))
        * 10.0 ** rng.integers(-6, 2, 50)[:, None, None]
    )
    limits = jnp.asarray(rng.uniform(size=places.jacobian.shape[:1]))
    slopes = jax.vmap(lambda w: places.slopes(jnp.asarray(1e-2), limits, w))(w)
    values = np.linalg.eigvalsh(slopes)
    assert_allclose(slopes, slopes.swapaxes(-1, -2), atol=ROUNDING * np.max(values))
    assert np.all(values >= -ROUNDING * np.max(values, axis=-1, keepdims=True))


def _colliding(formulation, friction=0.3):
    names, inertia = ("one", "two"), lie_jax.solids.sphere(1.0, 0.1)
    bodies = [
        lie_jax.Body(name, 1.0 + k, inertia, position=(0.21 * k, 0.05 * k, 0.0),
                     velocity=(2.0 - 3.0 * k, 0.5, 0.0), omega_body=(1.0, 2.0, 3.0))
        for k, name in enumerate(names)
    ]  # fmt: skip
    one, two = (contact.Sphere(name, 0.1) for name in names)
    law = lie_jax.contact.HuntCrossley(1e8, 1.5, dissipation=0.1)
    hit = lie_jax.contact.Contact(one, two, law, lie_jax.contact.Coulomb(friction))
    mechanism = lie_jax.Mechanism(bodies, forces=[hit], gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, formulation)


@pytest.mark.full
def test_bodies_that_collide_keep_their_momentum():
    """To rounding with inertial components; others approach the same motion with first order."""
    counts, ends = (20, 40, 80), {}
    for formulation in (lie_jax.R3SO3(), lie_jax.SE3(), lie_jax.Minimal()):
        system, state = _colliding(formulation)
        runs = [march(system, METHOD, state, 0.02 / n, n).state for n in counts]
        ends[type(formulation)] = np.asarray([system.twists(x.q, x.v) for x in runs])
        if formulation == lie_jax.R3SO3():
            for end in runs:
                before, after = (system.momentum(x.q, x.v)[0] for x in (state, end))
                assert_allclose(after, before, atol=ROUNDING)
                assert np.linalg.norm(end.v - state.v) > 1.0
    for kind in (lie_jax.SE3, lie_jax.Minimal):
        apart = np.abs(ends[kind] - ends[lie_jax.R3SO3]).max(axis=(1, 2))
        assert_allclose(orders(apart), 1.0, atol=0.2)


@pytest.mark.full
def test_a_block_is_held_by_its_coefficient_at_rest():
    """On a slope steeper than its coefficient of sliding."""
    friction = lie_jax.contact.Coulomb(0.1, 1e-5, static_coefficient=0.3)
    system, state, downhill = block(friction)
    end = march(system, METHOD, state, 1e-3, 10_000)
    creep = end.state.v[:3] @ downhill
    part = np.tan(np.radians(10.0)) / (0.1 + 0.2 * np.exp(-((creep / 1e-2) ** 2)))
    assert_allclose(creep, 1e-5 * part / np.sqrt(1.0 - part**2), rtol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("dt", [1e-3, 2e-3])
def test_a_quadruped_settles_with_a_quarter_of_its_weight_on_each_foot(dt):
    # Friction holds nothing: at this slip forces along the ground vanish with a time of some 3 s.
    system, state = quadruped.build(slip=1e-2, lift=0.02)
    count = round(60.0 / dt)
    run = lie_jax.simulate(system, METHOD, state, dt=dt, steps=count, save=count)
    forces = system.contacts(run.t[-1], run.q[-1], run.v[-1]).normal_force
    assert_allclose(forces, 0.25 * quadruped.mass() * GRAVITY, rtol=1e-6)


@pytest.mark.full
def test_derivatives_of_a_quadruped_are_those_of_differences():
    weights = jnp.asarray(np.random.default_rng(0).normal(size=37))

    def end(x):
        stiffness, friction, speed = x
        system, state = quadruped.build(stiffness=stiffness, friction=friction, slip=1e-2)
        start = lie_jax.State(state.q, state.v + speed * jnp.eye(system.nv)[0])
        options = {"dt": 2e-3, "steps": 50, "save": 50, "throw": False}
        run = lie_jax.simulate(system, METHOD, start, **options)
        return jnp.sum(weights * jnp.concatenate([run.q[-1], run.v[-1]]))

    start = jnp.asarray([1e6, 0.8, 0.3])
    value, forward, reverse = map(jax.jit, (end, jax.jacfwd(end), jax.grad(end)))
    gradient = forward(start)
    assert_allclose(gradient, reverse(start), rtol=ROUNDING)
    for k, direction in enumerate(np.eye(3) * start[None] * 1e-4):
        change = (value(start + direction) - value(start - direction)) / (2.0 * direction[k])
        assert_allclose(gradient[k], change, rtol=1e-6)


@pytest.mark.full
def test_a_mechanism_without_contact_takes_steps_too():
    body = lie_jax.Body("body", 1.0, np.eye(3), velocity=(1.0, 0.0, 0.0))
    mechanism = lie_jax.Mechanism([body], gravity=DOWN)
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    end = march(system, METHOD, state, 1e-2, 10).state
    assert_allclose(end.v, [1.0, 0.0, -0.1 * GRAVITY, 0.0, 0.0, 0.0], atol=ROUNDING)
    assert_allclose(end.q[2], -GRAVITY * 1e-4 * 55, atol=ROUNDING)


class Point(lie_jax.extend.AbstractSystem):
    """A free point."""

    @property
    def space(self):
        return lie_jax.extend.Rn(1)

    def mass_matrix(self, q):
        return jnp.eye(1)

    def force(self, t, q, v, u):
        return jnp.zeros(1)


def test_what_does_not_fit_is_refused_by_name():
    body = lie_jax.Body("rod", 1.0, np.eye(3))
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0.0, 1.0, 0.0))
    jointed = lie_jax.assemble(lie_jax.Mechanism([body], [hinge]), lie_jax.R3SO3())
    spinning, rolling = ball(1e5, spinning_radius=0.01), ball(1e5, rolling_lever=0.01)
    point = Point(), lie_jax.State(jnp.zeros(1), jnp.zeros(1))
    joints = [hinge, lie_jax.RevoluteJoint("rod", "ground", (0.0, 1.0, 0.0))]
    looped = lie_jax.assemble(lie_jax.Mechanism([body], joints), lie_jax.Minimal())
    # Who uses joint coordinates is not told to.
    no_advice = r"constraints are left in joint coordinates((?!Minimal).)*GeneralizedAlpha\(\)\.$"
    for case, message in (
        (jointed, r"constraints: .*Minimal\(\)"),
        (looped, no_advice),
        (spinning, r"Contact\('ball', 'ground'\) .*spinning_radius.*GeneralizedAlpha"),
        (rolling, r"rolling_lever.*GeneralizedAlpha"),
        (point, r"ConvexContact .*no mechanism .*RKMK"),
    ):
        with pytest.raises(ValueError, match=message):
            lie_jax.simulate(case[0], METHOD, case[1], dt=1e-3, steps=1)
