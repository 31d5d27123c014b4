"""Flexible bodies in joint coordinates move as in absolute ones, from the same motion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import contact
from lie_jax.groups import quaternion
from lie_jax.mechanics.flexible.body import FlexibleBody
from lie_jax.multibody.minimal.flexible_system import FlexibleTreeSystem
from lie_jax.systems.system import AbstractSystem, accelerations_and_multipliers
from models import flexible_crank
from tests.meshes import lattice

# Relative to the largest number: what rounding leaves of products, and of solutions with stiff
# modes.
ROUNDING, SOLUTION = 1e-12, 1e-10
MODES = 8
# Middle of the end of the lattice.
RIGHT = (0.4, 0.05, 0.05)


def _bar(name="bar", **options):
    mesh = lattice()
    given = {"interfaces": mesh.ends, "modes": MODES, "damping_time": 1e-3, **options}
    return FlexibleBody.from_matrices(name, mesh.nodes, mesh.mass, mesh.stiffness, **given)


def _hung():
    """A bar on a hinge at its second interface, a ball at its first one, and a spring."""
    ball = lie_jax.Body("ball", 0.3, 0.01 * np.eye(3), position=(-0.1, 0.05, 0.05))
    joints = [
        lie_jax.RevoluteJoint("ground", "bar.right", axis=(0, 1, 0), parent_point=RIGHT),
        lie_jax.SphericalJoint("bar.left", "ball", child_point=(0.1, 0.0, 0.0)),
    ]
    forces = [
        lie_jax.LinearSpringDamper("ground", "bar.left", stiffness=30.0, damping=0.2, length=0.1),
        lie_jax.PointForce(
            "bar.left", lambda t: jnp.asarray([0.1 + t, 0.5, -0.3]), point=(0.1, 0, 0)
        ),
        lie_jax.contact.Contact(
            contact.Sphere("bar.left", 0.3),
            contact.Plane("ground", (0.0, 0.0, -0.1)),
            lie_jax.contact.HuntCrossley(1e2, 2.0, 0.1),
        ),
    ]
    return lie_jax.Mechanism([_bar(), ball], joints, forces)


def _flying():
    """A hub that flies with two bars of other kinds, one after the other, the second turned."""
    hub = lie_jax.Body("hub", 1.0, 0.05 * np.eye(3), position=(-0.2, 0.05, 0.05))
    end = lie_jax.Body("end", 0.2, 0.02 * np.eye(3), position=(0.8, 0.05, 0.05))
    second = _bar("second", frame="free", modes=2, position=(0.4, 0.0, 0.0))
    joints = [
        lie_jax.PrismaticJoint("bar.left", "hub", axis=(1, 0, 0)),
        lie_jax.UniversalJoint("bar.right", "second.left", axis=(0, 1, 0), child_axis=(0, 0, 1)),
        lie_jax.RigidJoint("second.right", "end"),
    ]
    bushing = lie_jax.Bushing("bar.right", "second.left", 50.0 * np.eye(3), np.eye(3))
    return lie_jax.Mechanism([hub, _bar(), second, end], joints, [bushing])


MECHANISMS = {"hung": _hung, "flying": _flying, "loop": flexible_crank.mechanism}


# The other two belong to the full tests.
QUICK = ["loop", *(pytest.param(x, marks=pytest.mark.full) for x in ("hung", "flying"))]


def _moving(mechanism, seed=0):
    """The system in joint coordinates with the state of some motion."""
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    assert isinstance(system, FlexibleTreeSystem)
    draw = np.random.default_rng(seed)
    shift, v = (jnp.asarray(draw.normal(size=system.nv)) for _ in range(2))
    bent = sum(system.flexibility.modes)
    scale = jnp.asarray([0.3] * (system.nv - bent) + [3e-3] * bent)
    return system, system.space.flow(state.q, scale * shift), v * jnp.minimum(1.0, 10.0 * scale)


def _absolute(system, other, q, v):
    """The same motion in absolute coordinates."""
    rotation, position = system.poses(q)
    orientation = jax.vmap(quaternion.from_rotation)(rotation)
    of_bodies = jax.vmap(other.formulation.configuration)(position, orientation)
    twist = system.twists(q, v)
    linear = jnp.einsum("kij,kj->ki", rotation, twist[:, :3])
    velocity = jax.vmap(other.formulation.velocity)(rotation, of_bodies, linear, twist[:, 3:])
    ends = system.all_amplitudes(q), system.all_rates(v)
    pairs = zip((of_bodies, velocity), ends, strict=True)
    return tuple(jnp.concatenate([x.reshape(-1), e]) for x, e in pairs)


def _carried(system, other, q, v, acceleration):
    """Configuration, velocity and acceleration of the same motion in absolute coordinates."""
    rates = system.space.lift(q, v), acceleration
    at, change = jax.jvp(lambda q, v: _absolute(system, other, q, v), (q, v), rates)
    return *at, change[1]


def _same(got, expected, tolerance=ROUNDING):
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        size = max(1.0, float(np.abs(y).max(initial=0.0)))
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * size)


@pytest.mark.full
@pytest.mark.parametrize("name", list(MECHANISMS))
def test_forces_are_those_of_free_bodies_along_the_joints(name):
    """Constraints do no work along joint velocities: d'Alembert's principle."""
    mechanism = MECHANISMS[name]()
    system, q, v = _moving(mechanism)
    free = lie_jax.Mechanism(mechanism.bodies, (), mechanism.forces, mechanism.gravity)
    other, _ = lie_jax.assemble(free, lie_jax.R3SO3())
    acceleration = jnp.asarray(np.random.default_rng(3).normal(size=system.nv))

    @jax.jit
    def compare(q, v, acceleration):
        none = jnp.zeros(system.nc)
        at = _carried(system, other, q, v, acceleration)
        _, along = jax.vjp(lambda v: _absolute(system, other, q, v)[1], v)
        needed = other.residual(0.0, *at, jnp.zeros(0))
        pairs = [
            (system.residual(0.0, q, v, acceleration, none), along(needed)[0]),
            (system.kinetic_energy(q, v), other.kinetic_energy(*at[:2])),
            (system.potential_energy(q), other.potential_energy(at[0])),
            (system.momentum(q, v), other.momentum(*at[:2])),
            (system.frame_poses(q), other.frame_poses(at[0])),
        ]
        return pairs

    for got, expected in compare(q, v, acceleration):
        _same(got, expected)
    assert [system.names_by_slot[slot] for slot in system.frame_slots] == list(other.names_by_slot)


@pytest.mark.full
@pytest.mark.parametrize("name", QUICK)
def test_mass_matrix_and_rows_are_derivatives(name):
    system, q, v = _moving(MECHANISMS[name](), seed=1)

    @jax.jit
    def compare(q, v):
        none = jnp.zeros(system.nc)
        residual = jax.linearize(lambda a: system.residual(0.0, q, v, a, none), v)[1]
        pairs = [
            (jax.vmap(residual)(jnp.eye(system.nv)), system.mass_matrix(q)),
            (0.5 * v @ system.mass_matrix(q) @ v, system.kinetic_energy(q, v)),
        ]
        if system.nc:
            t = jnp.zeros(())
            rates = AbstractSystem.constraint_rates(system, t, q, v, 2.0 * v, 0.5)
            pairs.append((system.constraint_rates(t, q, v, 2.0 * v, 0.5), rates))
            rows = AbstractSystem.constraint_jacobian(system, t, q)
            pairs.append((system.constraint_jacobian(t, q), rows))
            work, back = jax.vjp(lambda x: system.residual(t, q, v, v, x), none)
            del work
            pairs.append((jax.vmap(lambda x: back(x)[0], out_axes=1)(jnp.eye(system.nv)), rows))
        return pairs

    for got, expected in compare(q, v):
        _same(got, expected)


@pytest.mark.full
@pytest.mark.parametrize("name", ["hung", "flying"])
@pytest.mark.parametrize("formulation", ["SE3", "R3SO3"])
def test_accelerations_reactions_and_powers_are_those_in_absolute_coordinates(name, formulation):
    mechanism = MECHANISMS[name]()
    system, q, v = _moving(mechanism)
    other, _ = lie_jax.assemble(mechanism, getattr(lie_jax, formulation)())

    @jax.jit
    def compare(q, v):
        none = jnp.zeros(0)
        own = system.acceleration(0.0, q, v)
        *at, rates = _carried(system, other, q, v, own)
        solved = accelerations_and_multipliers(other, 0.0, *at)
        powers = system.powers(0.0, q, v, none), other.powers(0.0, *at, solved.multipliers)
        return [
            (rates, solved.acceleration),
            (system.reactions(0.0, q, v, own, none), other.reactions(0.0, *at, *solved)),
            (other.constraint(0.0, at[0]), jnp.zeros(other.nc)),
            (powers[0].forces, powers[1].forces),
            (powers[0].bodies, powers[1].bodies),
        ]

    for got, expected in compare(q, v):
        _same(got, expected, SOLUTION)


@pytest.mark.full
def test_a_clamped_bar_sags_and_vibrates_as_its_matrices_say():
    body = _bar(damping_time=None)
    clamp = lie_jax.RigidJoint("ground", "bar.left", parent_point=(0.0, 0.05, 0.05))
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], [clamp]), lie_jax.Minimal())
    assert system.nv == MODES
    found = lie_jax.equilibrium(system, state)
    of = body.deformation
    amplitudes = np.linalg.solve(of.stiffness, np.asarray(of.first).T @ [0.0, 0.0, -9.81])
    _same(system.amplitudes(found.q)["bar"], amplitudes)
    assert system.owner(3) == "the amplitudes of body 'bar'"
    modes = lie_jax.modes(system, found)
    np.testing.assert_allclose(np.abs(modes.frequencies), body.frequencies, rtol=1e-6)


def test_places_of_bent_bodies_fit_their_joints():
    bent = 1e-2 * np.random.default_rng(2).normal(size=MODES)
    ball = lie_jax.Body("ball", 0.3, 0.01 * np.eye(3))
    joints = [
        lie_jax.RevoluteJoint("ground", "bar.right", axis=(0, 1, 0)),
        lie_jax.RevoluteJoint("bar.left", "ball", axis=(0, 0, 1), child_point=(0.1, 0.0, 0.0)),
    ]
    mechanism = lie_jax.Mechanism([_bar(amplitudes=bent), ball], joints)
    angles = {("ground", "bar.right"): 0.4, ("bar.left", "ball"): -0.7}
    _, state = lie_jax.assemble(lie_jax.place(mechanism, angles), lie_jax.Minimal())
    _same(state.q, np.concatenate([[0.4, -0.7], bent]))


@pytest.mark.full
@pytest.mark.parametrize("name", ["hung", "flying"])
def test_runs_are_those_in_absolute_coordinates(name):
    mechanism = MECHANISMS[name]()
    system, q, v = _moving(mechanism)
    other, _ = lie_jax.assemble(mechanism, lie_jax.SE3())
    at = _absolute(system, other, q, v)
    runs = []
    for which, start in ((system, (q, v)), (other, at)):
        state = lie_jax.State(*start)
        fine = lie_jax.simulate(which, lie_jax.RKMK("rk4"), state, dt=1e-4, steps=1000, save=1000)
        runs.append(fine.q[-1])
    end = system.frame_poses(runs[0])
    # The method's error, of order four.
    _same(end, other.frame_poses(runs[1]), 1e-7)
    errors = []
    for steps in (200, 400):
        method, dt = lie_jax.GeneralizedAlpha(0.9), 0.1 / steps
        run = lie_jax.simulate(system, method, lie_jax.State(q, v), dt=dt, steps=steps, save=steps)
        errors.append(float(jnp.linalg.norm(system.frame_poses(run.q[-1])[1] - end[1])))
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < 0.2


@pytest.mark.full
def test_the_flexible_crank_ends_as_the_test_set_says():
    system, state = lie_jax.assemble(flexible_crank.mechanism(), lie_jax.Minimal())
    run = lie_jax.simulate(system, lie_jax.RKMK("rk67"), state, dt=1e-5, steps=10_000, save=10_000)
    crank, rod, slider, *amplitudes = run.q[-1]
    readings = crank, crank + rod, slider, *amplitudes
    np.testing.assert_allclose(readings, flexible_crank.REFERENCE, rtol=0, atol=1e-11)


@pytest.mark.full
def test_derivatives_and_batches_of_runs_are_those_of_single_runs():
    mechanism = _hung()
    _, q, v = _moving(mechanism)
    state, method = lie_jax.State(q, v), lie_jax.GeneralizedAlpha(0.9)

    def reach(factor):
        body = mechanism.bodies[0].scale(stiffness=factor)
        changed = lie_jax.Mechanism([body, mechanism.bodies[1]], mechanism.joints, mechanism.forces)
        other, _ = lie_jax.assemble(changed, lie_jax.Minimal())
        run = lie_jax.simulate(other, method, state, dt=1e-3, steps=40, save=40)
        return other.frame_poses(run.q[-1])[1]

    at, step = 1.3, 1e-4
    values = jax.jit(jax.vmap(reach))(jnp.asarray([at - step, at, at + step]))
    value, change = jax.jit(lambda x: jax.jvp(reach, (x,), (jnp.ones_like(x),)))(at)
    np.testing.assert_allclose(value, values[1], rtol=0, atol=1e-10)
    # Of second order in the step.
    difference = (values[2] - values[0]) / (2.0 * step)
    np.testing.assert_allclose(change, difference, rtol=0, atol=1e-5 * np.abs(change).max())
    back = jax.jit(jax.grad(lambda x: jnp.sum(reach(x))))(at)
    np.testing.assert_allclose(back, jnp.sum(change), rtol=1e-6)


@pytest.mark.full
def test_events_of_automatic_steps_are_those_in_absolute_coordinates():
    mechanism, instants = _hung(), []
    system, q, v = _moving(mechanism)
    other, _ = lie_jax.assemble(mechanism, lie_jax.SE3())
    for which, start in ((system, (q, v)), (other, _absolute(system, other, q, v))):
        height = which.frame_poses(start[0])[1][2, 2]
        # The first interface, behind the two bodies.
        passing = lie_jax.Event(
            lambda t, q, v, which=which, height=height: (
                which.frame_poses(q)[1][2, 2] - height + 0.02
            ),
            "stop",
        )
        options = {"adaptive": lie_jax.Adaptive(1e-9, 1e-9), "t_end": 0.5, "events": [passing]}
        method, state = lie_jax.RKMK("dopri5"), lie_jax.State(*start)
        run = lie_jax.simulate(which, method, state, dt=1e-4, steps=5000, save=5000, **options)
        instants.append(float(run.events.t[0]))
    assert 0.0 < instants[0] < 0.5
    assert abs(instants[0] - instants[1]) < 1e-7
