"""Loops with dependent constraints run for many steps, and power balances their energy.

Parts of multipliers that have no reaction must not add up from step to step: thousands of steps
would multiply rounding errors until they move bodies.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import Result
from lie_jax.simulation.march import march
from tests import mechanisms
from tests.suites import cases

# Angle (rad) between the input and an intermediate shaft, torque (N m) on the input.
BEND, TORQUE = 0.35, 3.0
# Inertias (kg m²) about its own axis of a disc and of an intermediate shaft.
DISC, SHAFT = 0.02, 0.005
# Errors of second order in the work and in the speeds, relative to them, at 2 ms and 20 rad/s.
SECOND_ORDER = 2e-5
# Error of energies of some 60 J after 600 steps of 10 ms (J); it falls with the square of the step.
ENERGY = 0.5
# A unit force in dependent rows may stay by this part after a search starts anew.
LEFT = 1e-3
# Rounding of constraints whose multipliers are of order one; the diagonal that regularises is
# 1.8e-12 of it.
ROUNDING = 1e-15


def _about_z(angle):
    return np.asarray([np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)])


def two_shafts(formulation):
    """Input and output disc, and two equal intermediate shafts with two universal joints each: 25
    constraints, of which 23 are independent, and one degree of freedom.
    """
    along = np.asarray([np.cos(BEND), np.sin(BEND), 0.0])
    out = np.asarray([np.cos(2 * BEND), np.sin(2 * BEND), 0.0])
    disc, shaft = np.diag([DISC, 0.03, 0.03]), np.diag([SHAFT, 0.01, 0.01])
    bodies = [
        lie_jax.Body("in", 1.0, disc),
        lie_jax.Body("out", 1.0, disc, position=along, orientation=_about_z(2 * BEND)),
    ]
    joints = [
        lie_jax.RevoluteJoint("ground", "in", (1, 0, 0)),
        lie_jax.CylindricalJoint(
            "ground", "out", out, parent_point=along, orientation=_about_z(2 * BEND)
        ),
    ]
    across, up, end = (0, 1, 0), (0, 0, 1), np.asarray([0.5, 0.0, 0.0])
    for name in ("one", "two"):
        bodies.append(
            lie_jax.Body(name, 0.5, shaft, position=along / 2, orientation=_about_z(BEND))
        )
        joints.append(lie_jax.UniversalJoint("in", name, across, up, child_point=-end))
        joints.append(lie_jax.UniversalJoint(name, "out", up, across, parent_point=end))
    torque = lie_jax.Torque("in", (TORQUE, 0, 0))
    mechanism = lie_jax.Mechanism(bodies, joints, [torque], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, formulation)


def parallelogram():
    """Three equal links and a coupler, all joints revolute: 30 constraints of rank 23."""
    angle, rate = 0.6, 1.5
    link = np.asarray([np.cos(angle), np.sin(angle), 0.0])
    across = rate * np.cross([0.0, 0.0, 1.0], link)
    axis, bodies, joints = (0, 0, 1), [], []
    for k in range(3):
        bodies.append(
            lie_jax.Body(
                f"link {k}", 1.0, np.diag([0.01, 0.1, 0.1]), position=np.add((k, 0, 0), link / 2),
                orientation=_about_z(angle), velocity=across / 2, omega_body=(0, 0, rate),
            )
        )  # fmt: skip
        joints.append(lie_jax.RevoluteJoint("ground", f"link {k}", axis, (k, 0, 0), (-0.5, 0, 0)))
    bodies.append(
        lie_jax.Body(
            "coupler",
            2.0,
            np.diag([0.02, 0.3, 0.3]),
            position=np.add((1, 0, 0), link),
            velocity=across,
        )
    )
    for k in range(3):
        joints.append(
            lie_jax.RevoluteJoint(f"link {k}", "coupler", axis, (0.5, 0, 0), (k - 1.0, 0, 0))
        )
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=(0, -9.81, 0))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


def two_doors():
    """A door on two hinges that carries another one on three: 25 constraints of rank 10."""
    bodies = [
        lie_jax.Body("door", 3.0, np.diag([0.4, 0.6, 0.2]), position=(0.4, 0, 0)),
        lie_jax.Body("wing", 2.0, np.diag([0.2, 0.3, 0.1]), position=(1.1, 0, 0)),
    ]
    axis = (0, 0, 1)
    joints = [
        lie_jax.RevoluteJoint("ground", "door", axis, (0, 0, z), (-0.4, 0, z)) for z in (-0.7, 0.7)
    ] + [
        lie_jax.RevoluteJoint("door", "wing", axis, (0.4, 0, z), (-0.3, 0, z))
        for z in (-0.7, 0.1, 0.7)
    ]
    mechanism = lie_jax.Mechanism(bodies, joints, gravity=(0, -9.81, 0))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


@eqx.filter_jit
def _energies(system, state):
    kinetic = system.kinetic_energy(state.q, state.v)
    return kinetic, kinetic + system.potential_energy(state.q)


METHODS = {
    "default": lie_jax.GeneralizedAlpha(),
    "modified": lie_jax.GeneralizedAlpha(newton="modified"),
    "index 2": lie_jax.GeneralizedAlpha(index=2),
    "BDF": lie_jax.BDF(3),
}


# Steps and their size (s).
@pytest.mark.parametrize(
    ("method", "steps", "dt"),
    cases(
        [("default", 600, 2e-3), ("default", 2000, 5e-4), ("default", 4000, 5e-5),
         ("modified", 600, 2e-3), ("index 2", 600, 2e-3), ("BDF", 1500, 5e-4)],
        [],
    ),
)  # fmt: skip
def test_two_shafts_turn_as_one(method, steps, dt):
    """Both universal joints of a shaft are bent alike: the output turns as the input, and energy is
    the torque's work, which is known up to whole turns.
    """
    system, state = two_shafts(lie_jax.R3SO3())
    end = march(system, METHODS[method], state, dt, steps)
    assert bool(end.result == Result.successful)
    v = np.asarray(end.state.v)
    speed = v[3]
    kinetic = float(_energies(system, end.state)[0])
    assert_allclose(v[9], speed, rtol=SECOND_ORDER)
    # The speed of an intermediate shaft varies between ω cos β and ω / cos β.
    least, most = (
        (DISC + SHAFT * factor**2) * speed**2 for factor in (np.cos(BEND), 1 / np.cos(BEND))
    )
    angle = float(np.arctan2(*_direction(system, end.state)))
    turns = (kinetic / TORQUE - angle) / (2 * np.pi)
    assert least * (1 - SECOND_ORDER) < kinetic < most * (1 + SECOND_ORDER)
    assert abs(turns - round(turns)) * 2 * np.pi < SECOND_ORDER * kinetic / TORQUE


def _direction(system, state):
    rotations, _ = system.poses(state.q)
    # The input turns about x.
    return rotations[0, 2, 1], rotations[0, 1, 1]


@pytest.mark.full
@pytest.mark.parametrize("method", ["default", "modified", "index 2"])
@pytest.mark.parametrize("build", [parallelogram, two_doors])
def test_energy_stays_in_loops_with_dependent_rows(build, method):
    system, state = build()
    rows = np.asarray(system.constraint_jacobian(0.0, state.q))
    assert np.linalg.matrix_rank(rows, 1e-9) < len(rows)
    _, before = _energies(system, state)
    for dt in (1e-2, 1e-3, 1e-4):
        end = march(system, METHODS[method], state, dt, 600)
        assert bool(end.result == Result.successful)
        assert abs(float(_energies(system, end.state)[1] - before)) < ENERGY * (dt / 1e-2) ** 2


@pytest.mark.full
@pytest.mark.parametrize("build", [two_shafts, parallelogram, two_doors])
def test_redundant_multipliers_leave_with_the_first_correction(build):
    system, state = build(lie_jax.R3SO3()) if build is two_shafts else build()
    rows = np.asarray(system.constraint_jacobian(0.0, state.q))
    dependent = np.linalg.svd(rows.T)[2][np.linalg.matrix_rank(rows, 1e-9) :]

    @jax.jit
    def left(y):
        acceleration, multipliers = jnp.zeros(system.nv), jnp.zeros(system.nc)
        linear = system.linearization(0.0, state.q, state.v, acceleration, multipliers, None)
        matrix = linear.step_matrix(None, 1e-6, 1e-3).regularize()
        return y + matrix.solve_from(jnp.zeros_like(y), y)

    for row in dependent:
        y = left(jnp.concatenate([jnp.zeros(system.nv), jnp.asarray(row)]))
        assert np.max(np.abs(dependent @ y[system.nv :])) < LEFT


STORAGES = {
    "full": lambda: mechanisms.door(2),
    "tree": lambda: mechanisms.ball_chain(lie_jax.R3SO3(), np.zeros((3, 3))),
}


@pytest.mark.parametrize("name", cases(STORAGES, ["tree"]))
def test_what_leaves_the_multipliers_breaks_no_constraint(name):
    """First corrections of searches that start with multipliers of order one, in steps of 1 ms."""
    system, state = STORAGES[name]()
    nv, nc, rng = system.nv, system.nc, np.random.default_rng(3)
    force = jnp.asarray(1e-6 * rng.normal(size=nv))
    multipliers = jnp.asarray(rng.normal(size=nc))

    @jax.jit
    def corrected(q):
        none = jnp.zeros(nv)
        linear = system.linearization(0.0, q, none, none, jnp.zeros(nc), None)
        normals = system.algebra.position_reactions(0.0, q)

        def violations(matrix, start):
            matrix = matrix.regularize()
            b = jnp.pad(force, (0, len(start) - nv))
            x = matrix.solve_from(b, start)
            moved = x[:nv] if len(start) == nv + nc else x[:nv] - normals.of(x[nv + nc :])
            return jnp.stack([x[:nv], moved]) @ system.constraint_jacobian(0.0, q).T

        step = linear.step_matrix(None, 1e-6, 1e-3)
        stabilized = linear.stabilized_matrix(None, 1e-6, 1e-3, normals)
        start = jnp.concatenate([none, multipliers])
        return violations(step, start), violations(stabilized, jnp.pad(start, (0, nc)))

    for values in corrected(state.q):
        assert_allclose(values, np.zeros((2, nc)), rtol=0, atol=ROUNDING)
