"""Mechanisms with loops in joint coordinates move as in absolute ones, and as Lagrange has it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.systems.system import AbstractSystem, accelerations_and_multipliers
from models import bricard, slider_crank
from models import loops as shapes
from tests.messages import EYE, body, check_message

# Rounding in sums of some hundred products, relative to the largest entry.
ROUNDING = 1e-12
# Constraints after a projection (m, rad): rounding of poses.
HELD = 1e-12
# Errors of central differences with steps of 1e-4, relative to the derivative.
DIFFERENCES = 1e-7
# A leg with a push rod, and a leg without, on a trunk that slides along z. Of each body: mass,
# moment about y, distance of its centre of mass below its joint, length (m).
TRUNK_MASS, GRAVITY = 6.0, 9.81
PARTS = {
    "front thigh": (1.2, 0.02, 0.1, 0.3),
    "front shank": (0.5, 0.01, 0.12, 0.3),
    "thigh": (1.1, 0.018, 0.11, 0.28),
    "shank": (0.6, 0.012, 0.1, 0.3),
    "crank": (0.2, 0.001, 0.03, 0.08),
    "rod": (0.15, 0.002, 0.1, 0.0),
}
HIPS = {"front thigh": (0.3, 0.0), "thigh": (-0.3, 0.0), "crank": (-0.2, -0.05)}
CARRIERS = {"front shank": "front thigh", "shank": "thigh", "rod": "crank"}
ARMATURES = {"front thigh": 0.05, "thigh": 0.06, "crank": 0.02, "front shank": 0.03}
# Point of the shank that the rod holds, along its x and z (m), and angles about y at the start.
HELD_POINT = (0.04, -0.05)
ANGLES = {"front thigh": 0.4, "front shank": -0.7, "thigh": 0.5, "shank": -0.8, "crank": 1.1}


def _turned(angle, x, z):
    """A vector of the plane (x, z) turned about y."""
    return jnp.stack(
        [jnp.cos(angle) * x + jnp.sin(angle) * z, jnp.cos(angle) * z - jnp.sin(angle) * x]
    )


def _places(q):
    """Angle and place of the joint of each part, for height and relative angles in PARTS' order."""
    relative, placed = dict(zip(PARTS, q[1:], strict=True)), {}
    for name in PARTS:
        if name in HIPS:
            placed[name] = relative[name], jnp.asarray(HIPS[name]) + jnp.stack([0.0 * q[0], q[0]])
        else:
            angle, place = placed[CARRIERS[name]]
            tip = place + _turned(angle, 0.0, -PARTS[CARRIERS[name]][3])
            placed[name] = angle + relative[name], tip
    return placed


def _centers(q):
    """Centres of mass (6, 2) and angles (6,) of all parts."""
    placed = _places(q)
    centers = [at + _turned(a, 0.0, -PARTS[name][2]) for name, (a, at) in placed.items()]
    return jnp.stack(centers), jnp.stack([angle for angle, _ in placed.values()])


def _closure(q, length):
    """Distance (2,) of the rod's end from the point of the shank that it holds."""
    placed = _places(q)
    (rod, start), (shank, knee) = placed["rod"], placed["shank"]
    return start + _turned(rod, 0.0, -length) - knee - _turned(shank, *HELD_POINT)


def _lagrangian(q, v, length):
    mass, moment = (jnp.asarray([part[i] for part in PARTS.values()]) for i in range(2))
    (centers, _), (velocity, spin) = jax.jvp(_centers, (q,), (v,))
    armature = jnp.asarray([0.0, *(ARMATURES.get(name, 0.0) for name in PARTS)])
    kinetic = jnp.sum(mass * jnp.sum(velocity**2, axis=1)) + jnp.sum(moment * spin**2)
    kinetic += TRUNK_MASS * v[0] ** 2 + jnp.sum(armature * v**2)
    return 0.5 * kinetic - GRAVITY * (TRUNK_MASS * q[0] + jnp.sum(mass * centers[:, 1]))


def _start():
    """Coordinates of the legs whose rod holds the shank, and the rod's length."""
    angles = jnp.asarray([0.9, *(ANGLES.get(name, 0.0) for name in PARTS)])
    gap = -_closure(angles, 0.0)
    length = jnp.linalg.norm(gap)
    return angles.at[6].set(jnp.arctan2(-gap[0], -gap[1]) - ANGLES["crank"]), length


def _legs(formulation):
    """The legs as a mechanism of bodies in space, and its state at the start."""
    q, length = _start()
    place = {name: tuple(map(np.asarray, pair)) for name, pair in _places(q).items()}
    bodies = [lie_jax.Body("trunk", TRUNK_MASS, EYE, position=(0.0, 0.0, q[0]))]
    joints = [lie_jax.PrismaticJoint("ground", "trunk", EYE[2])]
    for name, (mass, moment, below, _) in PARTS.items():
        angle, (x, z) = place[name]
        turn = (np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0)
        inertia = np.diag([moment, moment, 0.5 * moment])
        bodies.append(
            lie_jax.Body(name, mass, inertia, (0.0, 0.0, -below), (x, 0.0, z), orientation=turn)
        )
        parent = CARRIERS.get(name, "trunk")
        x, z = HIPS[name] if name in HIPS else (0.0, -PARTS[parent][3])
        joints.append(
            lie_jax.RevoluteJoint(
                parent, name, EYE[1], parent_point=(x, 0.0, z), armature=ARMATURES.get(name)
            )
        )
    x, z = HELD_POINT
    joints.append(lie_jax.RevoluteJoint("rod", "shank", EYE[1], (0.0, 0.0, -length), (x, 0.0, z)))
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints), formulation)


def _moving_legs():
    """The legs, their state in motion, and the rod's length."""
    system, state = _legs(lie_jax.Minimal())
    length = _start()[1]
    row = np.asarray(jax.jit(jax.jacfwd(_closure))(state.q, length))
    v = np.random.default_rng(1).normal(size=7)
    return system, lie_jax.State(state.q, v - np.linalg.pinv(row) @ (row @ v)), length


def test_accelerations_are_those_of_lagranges_equations():
    system, state, length = _moving_legs()
    assert (system.nv, system.nc, system.cut_labels) == (7, 5, (("rod", "shank"),))

    @jax.jit
    def both(q, v):
        momentum = jax.grad(_lagrangian, 1)
        mass, change = (jax.jacfwd(momentum, i)(q, v, length) for i in (1, 0))
        force = jax.grad(_lagrangian)(q, v, length) - change @ v
        rows = jax.jacfwd(_closure)(q, length)
        rate = jax.jvp(lambda q: jax.jacfwd(_closure)(q, length) @ v, (q,), (v,))[1]
        kkt = jnp.block([[mass, rows.T], [rows, jnp.zeros((2, 2))]])
        expected = jnp.linalg.solve(kkt, jnp.concatenate([force, -rate]))[:7]
        found = accelerations_and_multipliers(system, jnp.zeros(()), q, v)
        return found.acceleration, expected, system.constraint(0.0, q)

    found, expected, violation = both(state.q, state.v)
    assert_allclose(found, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))
    assert np.max(np.abs(violation)) < HELD


@pytest.mark.parametrize(
    ("cut", "parts"),
    [
        ([("a", "d")], ("('a', 'd')", "label of no joint", "('c', 'a')")),
        ([("ground", "a")], ("SphericalJoint('c', 'a') closes a loop", "add ('c', 'a')")),
        ("ab", ("Minimal(cut=) is 'ab'", "cut=[('parent', 'child')]")),
        (("a", "b"), ("Minimal(cut=) has 'a'", "label of no joint")),
        ([("c", "a")], ("SphericalJoint('c', 'a') has an armature", "cut another joint")),
    ],
)
def test_cuts_that_leave_no_tree_are_refused(cut, parts):
    ends = ("ground", "a"), ("a", "b"), ("b", "c")
    joints = [lie_jax.SphericalJoint(*pair) for pair in ends]
    joints.append(lie_jax.SphericalJoint("c", "a", armature=0.1))
    mechanism = lie_jax.Mechanism([body(name) for name in "abc"], joints)
    check_message(lambda: lie_jax.assemble(mechanism, lie_jax.Minimal(cut)), *parts)


def _squeezer(formulation):
    return lie_jax.assemble(shapes.mechanism("squeezer"), formulation)


def _stewart(formulation):
    return lie_jax.assemble(shapes.mechanism("stewart"), formulation)


def _rolling(formulation):
    """A disc that rolls, a pendulum on it held by a rod, and two geared wheels."""
    thin = np.diag([0.02, 0.03, 0.04])
    bodies = [
        body("disc", inertia=thin, position=(0.0, 0.0, 0.5), velocity=(1.0, 0.0, 0.0),
             omega_body=(0.0, 2.0, 0.0)),
        body("bob", inertia=thin, position=(0.3, 0.4, 0.5), velocity=(1.0, 0.0, -0.6),
             omega_body=(0.0, 2.0, 0.0)),
        body("pinion", inertia=thin, omega_body=(0.0, 0.0, 2.0)),
        body("wheel", inertia=thin, position=(1.0, 0.0, 0.0), omega_body=(0.0, 0.0, -1.0)),
    ]  # fmt: skip
    joints = [
        lie_jax.RollingDisc("ground", "disc", 0.5, EYE[1]),
        lie_jax.DistanceJoint("disc", "bob", 0.5),
        lie_jax.RevoluteJoint("ground", "pinion", EYE[2]),
        lie_jax.RevoluteJoint("ground", "wheel", EYE[2], (1.0, 0.0, 0.0)),
        lie_jax.GearJoint("pinion", "wheel", EYE[2], EYE[2], -0.5),
    ]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints), formulation)


BUILDERS = {
    "slider-crank": slider_crank.build,
    "bricard": lambda formulation: bricard.build(formulation, angle=0.3, rate=0.7),
    "squeezer": _squeezer,
    "stewart": _stewart,
}


def _rates(system, state):
    """Rates of ṙ and ω of all bodies from the accelerations of a system."""
    t = jnp.zeros(())
    found = accelerations_and_multipliers(system, t, state.q, state.v)
    tangents = system.space.lift(state.q, state.v), found.acceleration
    _, rates = jax.jvp(lambda q, v: system._instant(t, q, v)[3:], (state.q, state.v), tangents)
    return jnp.concatenate([x[np.asarray(system.slots)] for x in rates], axis=1)


@pytest.mark.full
@pytest.mark.parametrize("name", BUILDERS)
def test_bodies_accelerate_as_in_absolute_coordinates(name):
    ways = [BUILDERS[name](formulation) for formulation in (lie_jax.Minimal(), lie_jax.R3SO3())]
    found, expected = jax.jit(lambda ways: [_rates(*way) for way in ways])(ways)
    assert_allclose(found, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))


@pytest.mark.full
@pytest.mark.parametrize("name", [*BUILDERS, "legs"])
def test_linearizations_are_derivatives(name):
    system, state = BUILDERS.get(name, _legs)(lie_jax.Minimal())
    rng, nv = np.random.default_rng(2), system.nv
    v, acceleration, x = map(jnp.asarray, rng.normal(size=(3, nv)))
    q = system.space.retract(state.q, 0.1 * x)
    point = jnp.asarray(0.3), q, v, acceleration, jnp.asarray(rng.normal(size=system.nc)), None

    @jax.jit
    def both(point):
        t, q, v, acceleration, *_ = point
        matrices = []
        for of in (type(system), AbstractSystem):
            linear = of.linearization(system, *point)
            dense = linear.dense()
            matrices.append([
                linear.residual,
                linear.step_matrix(0.1 * x, 0.3, 0.7).entries,
                dense.combined(jnp.eye(nv), 0.3, 0.7),
                of.constraint_jacobian(system, t, q),
                of.constraint_rate(system, t, q, v),
                *of.constraint_rates(system, t, q, v, acceleration),
                of.constraint_rates(system, t, q, v, acceleration, 0.0)[1],
            ])  # fmt: skip
        return matrices

    for found, expected in zip(*both(point), strict=True):
        assert_allclose(found, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))


INTEGRATORS = {
    # Errors in s (m) and θ (rad) after a second in a thousand steps of 1 ms.
    "rk4": (lie_jax.RKMK("rk4"), 1e-7),
    "baumgarte": (lie_jax.RKMK("rk4", stabilization=lie_jax.Baumgarte(20.0)), 5e-6),
    "index 3": (lie_jax.GeneralizedAlpha(0.9), 5e-4),
    "index 2": (lie_jax.GeneralizedAlpha(0.9, index=2), 5e-4),
}


@pytest.mark.full
@pytest.mark.parametrize("name", INTEGRATORS)
def test_slider_cranks_follow_twenty_digits(name):
    integrator, error = INTEGRATORS[name]
    system, state = slider_crank.build(lie_jax.Minimal())
    run = lie_jax.simulate(system, integrator, state, dt=1e-3, steps=1000)
    angle, _, position, _ = slider_crank.REFERENCE[1.0]
    turns = run.q[-1, 0] - angle
    assert abs(turns - 2 * np.pi * np.round(turns / (2 * np.pi))) < error
    assert abs(slider_crank.slider_position(system, run.q[-1]) - position) < error
    if name != "baumgarte":
        violation = jax.vmap(lambda q: system.constraint(0.0, q))(run.q)
        assert np.max(np.abs(violation)) < HELD


@pytest.mark.full
@pytest.mark.parametrize("name", ["rk4", "index 3"])
def test_redundant_loops_follow_fifteen_digits(name):
    """One hinge of five rows closes Bricard's loop, of which four are independent."""
    system, state = bricard.build(lie_jax.Minimal())
    run = lie_jax.simulate(system, INTEGRATORS[name][0], state, dt=1e-3, steps=500)
    assert bool(run.result == lie_jax.Result.redundant)
    assert_allclose(run.q[-1, :2], bricard.REFERENCE[0.5][1], rtol=0, atol=2e-7)


@pytest.mark.full
@pytest.mark.parametrize("name", ["rk4", "index 3", "index 2"])
def test_gradients_are_central_differences(name):
    system, state, _ = _moving_legs()
    weights = jnp.asarray(np.random.default_rng(3).normal(size=(2, 7)))

    @jax.jit
    def end(p):
        changed = eqx.tree_at(
            lambda s: (s.bodies.mass, s.joints.armature),
            system,
            (system.bodies.mass * (1.0 + p[0]), system.joints.armature * (1.0 + p[1])),
        )
        start = lie_jax.State(state.q, state.v * (1.0 + p[2]))
        run = lie_jax.simulate(changed, INTEGRATORS[name][0], start, dt=2e-3, steps=20, throw=False)
        return jnp.sum(weights[0] * run.q[-1]) + jnp.sum(weights[1] * run.v[-1])

    zero, step = jnp.zeros(3), 1e-4
    expected = np.stack([(end(d) - end(-d)) / (2 * step) for d in step * jnp.eye(3)])
    for derivative in (jax.jacfwd(end), jax.grad(end)):
        found = jax.jit(derivative)(zero)
        assert_allclose(found, expected, rtol=0, atol=DIFFERENCES * np.max(np.abs(expected)))


@pytest.mark.full
def test_constraints_of_velocities_and_distances_meet_absolute_coordinates():
    """Rolling discs and rods without a tree float, gears join trees."""
    ends = []
    for formulation in (lie_jax.Minimal(), lie_jax.R3SO3()):
        system, state = _rolling(formulation)
        run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=2e-3, steps=100)
        ends.append(system.poses(run.q[-1])[1])
    assert_allclose(*ends, rtol=0, atol=1e-8)


@pytest.mark.full
def test_readings_have_all_joints_and_reactions_of_cut_ones():
    (system, state), (bodies, at) = (
        slider_crank.build(formulation) for formulation in (lie_jax.Minimal(), lie_jax.R3SO3())
    )
    readings = [s.joint_coordinates(x.q) for s, x in ((system, state), (bodies, at))]
    assert [*readings[0]] == [*readings[1]]
    for label, values in readings[1].items():
        assert_allclose(readings[0][label], values, rtol=0, atol=ROUNDING)
    forces = []
    for s, x in ((system, state), (bodies, at)):
        found = accelerations_and_multipliers(s, jnp.zeros(()), x.q, x.v)
        forces.append(s.reactions(0.0, x.q, x.v, *found)["crank", "rod"].force)
    assert_allclose(*forces, rtol=0, atol=1e-10 * np.max(np.abs(forces[0])))


@pytest.mark.full
def test_single_precision_closes_loops():
    system, state, _ = _moving_legs()
    double = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=2e-3, steps=50).q[-1]
    single = jax.tree.map(lambda x: x.astype(jnp.float32), (system, state))
    run = lie_jax.simulate(*(single[0], lie_jax.RKMK("rk4"), single[1]), dt=2e-3, steps=50)
    assert run.q.dtype == jnp.float32
    assert_allclose(run.q[-1], double, rtol=0, atol=2e-4)


@pytest.mark.full
def test_any_joint_of_a_loop_may_be_cut():
    """Also one to the ground, behind which the rest of the loop floats."""
    mechanism = shapes.mechanism("squeezer")
    ends = []
    cuts = [("2", "3"), ("2", "4"), ("2", "6")], [("ground", "3"), ("1", "2"), ("7", "6")]
    for cut in cuts:
        system, state = lie_jax.assemble(mechanism, lie_jax.Minimal(cut))
        run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-5, steps=100)
        ends.append(system.poses(run.q[-1])[1])
    assert_allclose(*ends, rtol=0, atol=1e-12)
