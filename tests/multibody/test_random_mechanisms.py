"""Random mechanisms obey laws of mechanics that are written in NumPy.

Each test prints the seed of its structure; `random_mechanisms.structure(seed)` builds it again.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.systems.system import accelerations_and_multipliers
from tests.multibody import random_mechanisms
from tests.multibody.random_parts import Drawn, Size, motion, rotation
from tests.multibody.random_ways import NUMBERS, ROUNDING, close, partner
from tests.suites import cases

# Angles stay within half a turn: poses alone tell the energies of springs, and the slopes of
# couplings.
pytestmark = pytest.mark.filterwarnings(
    "ignore:potential_energy", r"ignore:reactions\(q\) takes the angle of CouplingJoint"
)

# Number of structures.
MANY = 80
# Number of structures with tendons, bushings, beams, contacts, couplings and generic joints, and
# those of them that `make test` has.
NEWER, QUICK = 400, (132,)
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
    along these, and there are `constraints` and no rate of the kinetic energy.
    """

    def at(system, state, u, virtual):
        q, v, t = state.q, state.v, jnp.zeros(())
        now, lift = (q, v), system.space.lift
        if virtual is None:
            acceleration, constraints, virtual = system.acceleration(t, q, v, u), None, v
            kinetic = jax.jvp(system.kinetic_energy, now, (lift(q, v), acceleration))
        else:
            acceleration, multipliers = accelerations_and_multipliers(system, t, q, v, u)
            rates = jnp.ones(()), lift(q, v), acceleration
            constraints = Constraints(
                system.constraint(t, q),
                *jax.jvp(system.constraint_rate, (t, q, v), rates),
                list(system.reactions(t, q, v, acceleration, multipliers, u).values()),
                system.momentum(q, v),
            )
            kinetic = system.kinetic_energy(q, v), None
        return Found(
            *jax.jvp(system.twists, now, (lift(q, v), acceleration)),
            *kinetic,
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
    # More than the forces read are refused.
    inputs = np.stack([own.inputs[: systems[0].nu] for own in drawn])
    flat = None if virtual is None else np.stack([_hybrid(*both) for both in virtual])
    all_of_them = jax.tree.map(np.asarray, found(stacked(systems), stacked(states), inputs, flat))
    return [jax.tree.map(lambda leaf, k=k: leaf[k], all_of_them) for k in range(len(drawn))]


def _hybrid(drawn: Drawn, flat):
    """Inertial velocities as those of R³ × SO(3), bodies in the mechanism's order."""
    own = flat.copy()
    own[:, 3:] = np.einsum("nji,nj->ni", drawn.rotations[:-1], flat[:, 3:])
    return own[drawn.order].reshape(-1)


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
        if element.kind is lie_jax.CouplingJoint:
            # Of four bodies; along velocities that it allows it has no power.
            continue
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


def check_structure(seed, build=random_mechanisms.structure):
    structure = build(seed)
    rng = np.random.default_rng([seed, 3])
    print(f"structure {seed}: {structure}")
    turn = rotation(rng)
    drawn = [random_mechanisms.draw(structure, k) for k in range(NUMBERS)]
    other_size = Size(*10.0 ** rng.uniform(-2.0, 2.0, 3))
    isotropic = not any(f.kind is lie_jax.CartesianSpringDamper for f in structure.forces)
    moved = random_mechanisms.draw(
        structure, 0, turn=turn if isotropic else None, shift=rng.normal(size=3)
    )
    resized = random_mechanisms.draw(structure, 0, size=other_size)
    everything = [*drawn, moved, resized]
    virtual = [own.unlike(rng) for own in everything]
    if any(own.kind is lie_jax.CouplingJoint for own in structure.joints):
        virtual = [own.admissible(w) for own, w in zip(everything, virtual, strict=True)]
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


@pytest.mark.parametrize("seed", cases(range(NEWER), QUICK))
def test_laws_with_newer_elements(seed):
    check_structure(seed, random_mechanisms.newer)


# `make test` has each law by itself, with each kind of joint and force.
@pytest.mark.full
@pytest.mark.parametrize("seed", range(MANY))
def test_laws_at_an_instant(seed):
    check_structure(seed)
