"""Laws of mechanics for random mechanisms: what is compared is never the package's own value.

Each test prints the seed of its structure; `random_mechanisms.structure(seed)` builds it again.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.simulation import checks
from lie_jax.system import accelerations_and_multipliers
from tests.mechanics import random_mechanisms
from tests.mechanics.random_mechanisms import Drawn, Size, motion

# Structures, and sets of numbers for each of them, which share the compiled program. The first ones
# have all joints, forces and formulations between them.
FIRST = (3, 11, 15, 25, 43, 52, 68, 73)
MANY, NUMBERS = 80, 5
# Structures of which whole runs and derivatives are compared.
RUNS = 26
# Rounding, in parts of the sum of the absolute values that cancel, times what the solution of the
# equations of motion amplifies it by: mechanisms next to a singular position are not sorted out.
ROUNDING = 1e-9
# The same of second derivatives of constraints, made of first ones of rounded poses.
DRIFT = 1e-9


class Constraints(NamedTuple):
    """What absolute coordinates tell besides: of the joints, and momenta."""

    values: Any
    rates: Any
    accelerations: Any
    reactions: Any
    momenta: Any


class Found(NamedTuple):
    """What a system says about an instant; time derivatives belong to its accelerations."""

    twists: Any
    twist_rates: Any
    kinetic: Any
    kinetic_rate: Any
    potential: Any
    potential_rate: Any
    constraints: Any


@eqx.filter_jit
def found(systems, states, inputs, virtual) -> Found:
    """Of systems that differ in numbers; with virtual velocities the rate of the potential is
    along these, and `constraints` are there.
    """

    def at(system, state, u, virtual):
        q, v, t = state.q, state.v, jnp.zeros(())
        now, lift = (q, v), system.space.lift
        if virtual is None:
            acceleration, constraints, virtual = system.acceleration(t, q, v, u), None, v
        else:
            acceleration, multipliers = accelerations_and_multipliers(system, t, q, v, u)
            rates = jnp.ones(()), lift(q, v), acceleration
            constraints = Constraints(
                system.constraint(t, q),
                *jax.jvp(system.constraint_rate, (t, q, v), rates),
                list(system.reactions(t, q, multipliers).values()),
                system.momentum(q, v),
            )
        rates = lift(q, v), acceleration
        return Found(
            *jax.jvp(system.twists, now, rates),
            *jax.jvp(system.kinetic_energy, now, rates),
            *jax.jvp(system.potential_energy, (q,), (lift(q, virtual),)),
            constraints,
        )

    return eqx.filter_vmap(at)(systems, states, inputs, virtual)


def stacked(members):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *members)


def evaluated(drawn: list[Drawn], formulation, virtual=None) -> list[Found]:
    """The instants of all mechanisms of one structure, from one compiled program."""
    systems, states = zip(
        *(lie_jax.assemble(own.mechanism, formulation) for own in drawn), strict=True
    )
    inputs = np.stack([own.inputs for own in drawn])
    flat = None if virtual is None else np.stack([_hybrid(*both) for both in virtual])
    all_of_them = jax.tree.map(np.asarray, found(stacked(systems), stacked(states), inputs, flat))
    return [jax.tree.map(lambda leaf, k=k: leaf[k], all_of_them) for k in range(len(drawn))]


def _hybrid(drawn: Drawn, flat):
    """Inertial velocities as those of R³ × SO(3), bodies in the mechanism's order."""
    own = flat.copy()
    own[:, 3:] = np.einsum("nji,nj->ni", drawn.rotations[:-1], flat[:, 3:])
    return own[drawn.order].reshape(-1)


def close(what, got, expected, scale, bound=ROUNDING):
    off = np.max(np.abs(np.asarray(got) - np.asarray(expected)), initial=0.0)
    assert off <= bound * scale, f"{what}: off by {off:.3g} at a scale of {scale:.3g}"


def dimensionless(twists, size: Size, order, times=1):
    """Twists in units of length over time to a power, bodies by number."""
    units = np.asarray([size.length] * 3 + [1.0] * 3) / size.time**times
    return (twists / units)[np.argsort(order)]


def check_state(drawn: Drawn, own: Found):
    """The state that was drawn is the system's, its energy and momentum are those of its bodies."""
    length, mass, time = drawn.size
    order = drawn.order
    rotations, velocities = drawn.rotations[order], drawn.velocities[order]
    body = np.concatenate(
        [np.einsum("nji,nj->ni", rotations, velocities[:, :3]),
         np.einsum("nji,nj->ni", rotations, velocities[:, 3:])], axis=1
    )  # fmt: skip
    close("twists", dimensionless(own.twists - body, drawn.size, order), 0.0, 10.0)
    energy = mass * length**2 / time**2
    kinetic, linear, angular = 0.0, np.zeros(3), np.zeros(3)
    for k, b in enumerate(drawn.mechanism.bodies):
        arm = rotations[k] @ np.asarray(b.center_of_mass)
        center = velocities[k, :3] + np.cross(velocities[k, 3:], arm)
        spin = rotations[k] @ np.asarray(b.inertia) @ rotations[k].T @ velocities[k, 3:]
        kinetic += 0.5 * (b.mass * center @ center + velocities[k, 3:] @ spin)
        linear += float(b.mass) * center
        place = drawn.positions[order[k]] + arm
        angular += spin + float(b.mass) * np.cross(place, center)
    reach = 10.0 + np.max(np.abs(drawn.positions)) / length
    close("kinetic energy", own.kinetic, kinetic, energy + kinetic)
    close("potential energy", own.potential, drawn.potential(), energy * reach * 100)
    close(
        "momentum",
        own.constraints.momenta[0] / (mass * length / time),
        linear / (mass * length / time),
        100,
    )
    close(
        "angular momentum", own.constraints.momenta[1] * time / (mass * length**2),
        angular * time / (mass * length**2), 100 * reach,
    )  # fmt: skip


def check_constraints(drawn: Drawn, own: Found):
    """Joints hold for poses and velocities by construction, and go on to hold."""
    length, _, time = drawn.size
    # Rows are lengths or angles.
    scale = max(length, 1.0) * (10.0 + np.max(np.abs(drawn.positions)) / length)
    rates = 10.0 * scale * (1.0 + np.max(np.abs(own.twist_rates)) / max(length, 1.0))
    close("constraints", own.constraints.values, 0.0, scale)
    close("constraint rates", own.constraints.rates, 0.0, scale / time * 10.0)
    close(
        "constraint accelerations",
        own.constraints.accelerations,
        0.0,
        rates * (1 + time**-2),
        DRIFT,
    )


def inertial_terms(drawn: Drawn, own: Found, w):
    """Power of the bodies' inertia along velocities w, one number for each body."""
    found_ = []
    for k, number in enumerate(drawn.order):
        body, rotation = drawn.mechanism.bodies[k], drawn.rotations[number]
        (u, omega), (du, domega) = (x.reshape(2, 3) for x in (own.twists[k], own.twist_rates[k]))
        c, inertia = np.asarray(body.center_of_mass), np.asarray(body.inertia)
        center = du + np.cross(omega, u) + np.cross(domega, c)
        center = center + np.cross(omega, np.cross(omega, c))
        force = float(body.mass) * rotation @ center
        torque = rotation @ (inertia @ domega + np.cross(omega, inertia @ omega))
        place = drawn.positions[number] + rotation @ c
        found_.append(force @ w.at(number, place) + torque @ w.omega[number])
    return found_


def check_virtual_power(drawn: Drawn, own: Found, flat, elements):
    """Inertia, forces and reactions are in balance along any velocities w (d'Alembert)."""
    v, w = (motion(drawn.positions, x) for x in (drawn.velocities, flat))
    terms = inertial_terms(drawn, own, w)
    terms += [-law.power(v, w) for law in drawn.laws]
    terms.append(own.potential_rate)
    for element, joint, (force, torque) in zip(
        elements, drawn.mechanism.joints, own.constraints.reactions, strict=True
    ):
        parent, child = element.parent, element.child
        if element.kind is lie_jax.GearJoint:
            # The torque on the parent is about another axis.
            about = drawn.rotations[child] @ np.asarray(joint.child_axis)
            axis = drawn.rotations[parent] @ np.asarray(joint.axis)
            back = float(joint.ratio) * (about @ torque) * (axis @ w.omega[parent])
            terms.append(back - torque @ w.omega[child])
            continue
        point = np.asarray(getattr(joint, "child_point", np.zeros(3)))
        place = drawn.positions[child] + drawn.rotations[child] @ point
        passing = w.at(child, place) - w.at(parent, place)
        terms.append(-force @ passing - torque @ (w.omega[child] - w.omega[parent]))
    close("virtual power", np.sum(terms), 0.0, np.sum(np.abs(terms)))


def check_energy(drawn: Drawn, own: Found):
    """Energy changes by the power of forces that are no potential's (joints that hold do none)."""
    v = motion(drawn.positions, drawn.velocities)
    terms = [own.kinetic_rate, own.potential_rate, *(-law.power(v, v) for law in drawn.laws)]
    close("energy", np.sum(terms), 0.0, np.sum(np.abs(terms)) + abs(own.kinetic / drawn.size.time))


def check_same(drawn: Drawn, own: Found, other: Drawn, theirs: Found, what: str):
    """Two descriptions of one motion have the same dimensionless twists and accelerations."""
    for name, times in (("twists", 1), ("twist_rates", 2)):
        mine, his = (
            dimensionless(getattr(f, name), d.size, d.order, times)
            for f, d in ((own, drawn), (theirs, other))
        )
        close(f"{what}, {name}", mine, his, 1.0 + np.max(np.abs(mine)), 1e2 * ROUNDING)


def partner(structure):
    """Another way to write the same equations."""
    ways = [
        lie_jax.SE3(),
        lie_jax.TaitBryan(),
        lie_jax.UnifiedVelocity(),
        lie_jax.EulerParameters(),
        lie_jax.R3SO3("rotation_vector"),
        lie_jax.SE3("rotation_vector"),
    ]
    if structure.is_tree and structure.joints and structure.seed % 3 < 2:
        return lie_jax.Minimal()
    return ways[structure.seed % len(ways)]


def check_structure(seed):
    structure = random_mechanisms.structure(seed)
    rng = np.random.default_rng([seed, 3])
    print(f"structure {seed}: {structure}")
    turn = random_mechanisms.rotation(rng)
    drawn = [random_mechanisms.draw(structure, k) for k in range(NUMBERS)]
    other_size = Size(*10.0 ** rng.uniform(-2.0, 2.0, 3))
    isotropic = not any(f.kind is lie_jax.CartesianSpringDamper for f in structure.forces)
    moved = random_mechanisms.draw(
        structure, 0, turn=turn if isotropic else None, shift=rng.normal(size=3)
    )
    resized = random_mechanisms.draw(structure, 0, size=other_size)
    everything = [*drawn, moved, resized]
    virtual = [own.unlike(rng) for own in everything]
    pairs = list(zip(everything, virtual, strict=True))
    reference = evaluated(everything, lie_jax.R3SO3(), pairs)
    for own, flat, got in zip(everything, virtual, reference, strict=True):
        check_state(own, got)
        check_constraints(own, got)
        check_virtual_power(own, got, flat, structure.joints)
    check_same(drawn[0], reference[0], moved, reference[NUMBERS], "turned and shifted")
    check_same(drawn[0], reference[0], resized, reference[NUMBERS + 1], "resized")
    # In another formulation, with the bodies in another order.
    formulation, order = partner(structure), rng.permutation(structure.bodies)
    shuffled = [random_mechanisms.draw(structure, k, order=order) for k in range(NUMBERS)]
    rest = evaluated(shuffled, formulation)
    for one, own, two, got in zip(drawn, reference, shuffled, rest, strict=False):
        check_same(one, own, two, got, repr(formulation))
        if not structure.rheonomic:
            check_energy(two, got)


# Steps of the coarsest of three runs, which halve the step, and what they last in units of time.
STEPS, DURATION = 8, 0.1
# What is left of an error that halving a step should divide by 2 to the power of the order: twice
# as much, for steps of this length are not small for every mechanism.
ORDER_SLACK = 3.0
# Rounding of forty steps, in the units of the mechanism.
RUN_ROUNDING = 1e-9

LIE_WAYS = (
    (lie_jax.R3SO3(), lie_jax.CommutatorFree(4), 4),
    (lie_jax.SE3(), lie_jax.CrouchGrossman(4), 4),
    (lie_jax.R3SO3(chart="cayley"), lie_jax.RKMK("rk4"), 4),
    (lie_jax.SE3(chart="cayley"), lie_jax.RKMK("rk3"), 3),
    (lie_jax.UnifiedVelocity(), lie_jax.RKMK("rk4"), 4),
    (lie_jax.SE3("rotation_vector"), lie_jax.RKMK("dopri5"), 5),
    (lie_jax.TaitBryan(), lie_jax.RungeKutta("rk4"), 4),
    (lie_jax.EulerParameters(), lie_jax.RungeKutta("rk4"), 4),
    (lie_jax.R3SO3(), lie_jax.GeneralizedAlpha(0.6), 2),
    (lie_jax.SE3(chart="cayley"), lie_jax.GeneralizedAlpha(0.6, index=2), 2),
    (lie_jax.UnifiedVelocity(), lie_jax.GeneralizedAlpha(0.6), 2),
    (lie_jax.EulerParameters(), lie_jax.GeneralizedAlpha(0.6), 2),
    (lie_jax.TaitBryan(), lie_jax.GeneralizedAlpha(0.6, newton="modified"), 2),
)
JOINT_WAYS = (
    (lie_jax.Minimal(), lie_jax.CommutatorFree(4), 4),
    (lie_jax.Minimal(), lie_jax.RKMK("rk4"), 4),
    (lie_jax.Minimal(), lie_jax.ImplicitRKMK("gauss4"), 4),
    (lie_jax.Minimal(), lie_jax.GeneralizedAlpha(0.9), 2),
)
FREE_WAYS = (
    (lie_jax.R3SO3(), lie_jax.ImplicitRKMK("gauss6"), 6),
    (lie_jax.SE3(chart="cayley"), lie_jax.ImplicitRKMK("gauss4"), 4),
)


class Run(NamedTuple):
    """The end of a run: poses and energy (J); energy at its start, steps and how it ended."""

    rotations: Any
    positions: Any
    energy: Any
    start: Any
    completed: Any


@eqx.filter_jit
def runs(system, integrator, state, dts, inputs) -> Run:
    """To one time with each of three step sizes, of which the last one is STEPS * 4 times taken."""
    steps = 4 * STEPS

    def run(dt, last):
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=dt, steps=steps, inputs=inputs, throw=False
        )

        def energy(k):
            q, v = trajectory.q[k], trajectory.v[k]
            return system.kinetic_energy(q, v) + system.potential_energy(q)

        poses = system.poses(trajectory.q[last])
        return Run(*poses, energy(last), energy(0), trajectory.stats.completed_steps)

    return jax.vmap(run)(dts, jnp.asarray([STEPS, 2 * STEPS, 4 * STEPS]))


def way_of(structure):
    """A formulation, an integrator and its order."""
    if structure.is_tree and structure.joints and structure.seed % 3 == 0:
        return JOINT_WAYS[structure.seed // 3 % len(JOINT_WAYS)]
    if not structure.joints and structure.seed % 2:
        return FREE_WAYS[structure.seed // 2 % len(FREE_WAYS)]
    return LIE_WAYS[structure.seed % len(LIE_WAYS)]


def three_runs(drawn: Drawn, formulation, integrator) -> tuple[np.ndarray, np.ndarray]:
    """Poses (3, n, 4, 3) without dimension, bodies by number, and relative errors in energy."""
    system, state = lie_jax.assemble(drawn.mechanism, formulation)
    length, mass, time = drawn.size
    inputs = np.broadcast_to(drawn.inputs, (4 * STEPS, 4))
    dts = np.asarray([1.0, 0.5, 0.25]) * DURATION * time / STEPS
    options = checks.Options(4 * STEPS, inputs, 1, None, False, None, "stored")
    checks.check(system, integrator, state, dts[0], options)
    run = jax.tree.map(np.asarray, runs(system, integrator, state, dts, inputs))
    assert np.all(run.completed >= STEPS * np.asarray([1, 2, 4])), f"stopped: {run.completed}"
    places = (run.positions - drawn.positions[drawn.order]) / length
    poses = np.concatenate([run.rotations, places[:, :, None, :]], axis=2)
    unit = mass * length**2 / time**2
    return poses[:, np.argsort(drawn.order)], (run.energy - run.start) / unit


def check_runs(seed):
    """One motion whatever the way to compute it; energy without friction; errors fall by order."""
    structure = random_mechanisms.structure(seed)
    if seed % 2:
        structure = structure.conservative()
    drawn = random_mechanisms.draw(structure, seed % NUMBERS)
    formulation, integrator, order = way_of(structure)
    print(f"structure {seed}: {structure}, {formulation}, {integrator}")
    poses, energy = three_runs(drawn, formulation, integrator)
    reference, of_reference = three_runs(drawn, lie_jax.R3SO3(), lie_jax.RKMK("rk4"))

    def falling(what, poses, order):
        first, second = (np.max(np.abs(poses[k + 1] - poses[k])) for k in range(2))
        least = ORDER_SLACK * 0.5**order * first + RUN_ROUNDING
        assert second <= least, f"{what} falls from {first:.3g} to {second:.3g}"
        return second

    error = falling("error", poses, order) + falling("error of reference", reference, 4)
    off = np.max(np.abs(poses[-1] - reference[-1]))
    assert off <= 2.0 * error + RUN_ROUNDING, f"motions are {off:.3g} apart, errors are {error:.3g}"
    if not structure.damped and not structure.rheonomic:
        for e, p, name in ((energy, order, "energy"), (of_reference, 4, "energy of reference")):
            least = ORDER_SLACK * 0.5**p * np.max(np.abs(e[:2])) + 100 * RUN_ROUNDING
            assert abs(e[2]) <= least, f"error of {name} {e}"


def check_derivatives(seed):
    """Forward mode, reverse mode and differences of accelerations by parameters; vmap and loop."""
    structure = random_mechanisms.structure(seed)
    drawn = random_mechanisms.draw(structure, 0, size=Size())
    formulation = partner(structure) if seed % 2 else lie_jax.R3SO3()
    print(f"structure {seed}: {structure}, {formulation}")
    rng = np.random.default_rng([seed, 4])
    system, state = lie_jax.assemble(drawn.mechanism, formulation)
    parts = system.bodies, system.forces, system.gravity
    parameters, rest = eqx.partition(parts, eqx.is_inexact_array)
    directions = jax.tree.map(lambda x: np.asarray(rng.normal()), parameters)
    weights = rng.normal(size=(structure.bodies, 6))

    @eqx.filter_jit
    def value(x, system, parameters, state):
        changed = jax.tree.map(lambda p, d: p * (1.0 + x * d), parameters, directions)
        own = eqx.tree_at(
            lambda s: (s.bodies, s.forces, s.gravity), system, eqx.combine(changed, rest)
        )
        q, v = state.q, state.v
        acceleration = own.acceleration(0.0, q, v, jnp.asarray(drawn.inputs))
        rates = (own.space.lift(q, v), acceleration)
        return jnp.sum(weights * jax.jvp(own.twists, (q, v), rates)[1])

    @eqx.filter_jit
    def derivatives(x, *rest):
        forward = jax.jvp(lambda x: value(x, *rest), (x,), (jnp.ones(()),))
        return *forward, jax.grad(value)(x, *rest)

    args = system, parameters, state
    one, forward, reverse = (float(x) for x in derivatives(jnp.zeros(()), *args))
    step = 1e-3
    places = np.asarray([0.0, step, -step, 2 * step, -2 * step])
    batch = np.asarray(eqx.filter_vmap(value, in_axes=(0, None, None, None))(places, *args))
    difference = (8.0 * (batch[1] - batch[2]) - (batch[3] - batch[4])) / (12.0 * step)
    scale = 1.0 + abs(one) + abs(forward) + np.max(np.abs(batch))
    close("vmap", one, batch[0], scale)
    close("reverse mode", reverse, forward, scale)
    # The fourth power of the step is 1e-12, times how unlike a parabola the value is.
    close("differences", difference, forward, scale, 1e-6)


@pytest.mark.parametrize("seed", FIRST)
def test_laws_at_an_instant(seed):
    check_structure(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", sorted({*range(MANY)} - {*FIRST}))
def test_laws_of_many_mechanisms(seed):
    check_structure(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RUNS))
def test_runs(seed):
    check_runs(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RUNS))
def test_derivatives(seed):
    check_derivatives(seed)
