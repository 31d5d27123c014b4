"""Mechanisms with flexible bodies: equations of motion, their blocks, and laws of motion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.mechanics.elements import replace_fields
from lie_jax.mechanics.flexible.body import FlexibleBody
from lie_jax.mechanics.flexible.reduction import rigid_motions, rows_of
from lie_jax.systems.system import AbstractSystem
from tests.meshes import lattice

# Derivatives of forces of some 1e4 N in numbers of 1 m.
TOLERANCE = 1e-9
FORMULATIONS = {
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(),
    "EulerParameters": lie_jax.EulerParameters(),
}
# The number of modes of the first body fills no nodes of six.
MODES, FREE_MODES = 8, 2


def _bar(name="bar", **options):
    mesh = lattice()
    given = {"interfaces": mesh.ends, "modes": MODES, "damping_time": 1e-3, **options}
    return FlexibleBody.from_matrices(name, mesh.nodes, mesh.mass, mesh.stiffness, **given)


def _mechanism():
    """A bar on a hinge and a spring, a ball at its end, and a bar of another kind beside them."""
    inertia = 0.01 * np.eye(3)
    other = _bar("other", frame="free", modes=FREE_MODES, position=(0.0, 1.0, 0.0))
    bodies = [_bar(), lie_jax.Body("ball", 0.3, inertia, position=(0.5, 0.0, 0.0)), other]
    joints = [
        lie_jax.RevoluteJoint("ground", "bar.left", axis=(0, 1, 0), parent_point=(0, 0.05, 0.05)),
        lie_jax.SphericalJoint("bar.right", "ball", child_point=(-0.1, 0.05, 0.05)),
    ]
    springs = [
        lie_jax.Bushing("bar.right", "other.left", 50.0 * np.eye(3), np.eye(3)),
        lie_jax.LinearSpringDamper(
            "ground", "other.right", stiffness=30.0, damping=0.2, length=0.1
        ),
    ]
    return lie_jax.Mechanism(bodies, joints, springs)


def _state(system, seed=0):
    draw = np.random.default_rng(seed)
    return jnp.asarray(draw.normal(size=system.nv)), jnp.asarray(draw.normal(size=system.nv))


@pytest.mark.full
@pytest.mark.parametrize("name", list(FORMULATIONS))
def test_blocks_are_derivatives_of_the_residual(name):
    system, state = lie_jax.assemble(_mechanism(), FORMULATIONS[name])
    draw = np.random.default_rng(1)
    v, acceleration = _state(system)
    multipliers = jnp.asarray(draw.normal(size=system.nc))
    q = system.space.flow(state.q, 0.1 * v)
    right = jnp.asarray(draw.normal(size=system.nv + system.nc))
    factors = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))

    @jax.jit
    def compare():
        at = 0.0, q, v, acceleration, multipliers, None
        plain = AbstractSystem.linearization(system, *at)
        own = system.linearization(*at)
        unit = jnp.eye(system.nv)
        pairs = [(own.dense().combined(unit, *f), plain.combined(unit, *f)) for f in factors]
        pairs.append((system.constraint_jacobian(0.0, q), plain.constraints))
        saddle = AbstractSystem.algebra.fget(system)
        x = 0.1 * v
        pairs.append((system.mass_matrix(q), own.dense().combined(unit, *factors[2])))
        matrix = own.step_matrix(x, 0.3, 0.7)
        dense = plain.step_matrix(x, 0.3, 0.7)
        pairs.append((matrix.matvec(right), dense.matvec(right)))
        pairs.append((matrix.solve(dense.matvec(right)), right))
        pairs.append(
            (
                system.algebra.step_saddle(0.0, q, x).matvec(right),
                saddle.step_saddle(0.0, q, x).matvec(right),
            )
        )
        residual = system.mass_matrix(q) @ acceleration - system.force(0.0, q, v)
        residual = residual + plain.constraints.T @ multipliers
        pairs.append((own.residual, residual))
        return pairs

    for number, (got, expected) in enumerate(compare()):
        size = float(np.abs(expected).max())
        np.testing.assert_allclose(
            got, expected, rtol=0, atol=TOLERANCE * max(size, 1.0), err_msg=f"pair {number}"
        )


@pytest.mark.full
@pytest.mark.parametrize("name", list(FORMULATIONS))
def test_stabilised_steps_have_their_matrix(name):
    system, state = lie_jax.assemble(_mechanism(), FORMULATIONS[name])
    v, acceleration = _state(system)
    draw = np.random.default_rng(2)
    multipliers = jnp.asarray(draw.normal(size=system.nc))
    positions = system.nc - system.velocity_rows
    right = jnp.asarray(draw.normal(size=system.nv + system.nc + positions))
    q = system.space.flow(state.q, 0.1 * v)

    @jax.jit
    def compare():
        at = 0.0, q, v, acceleration, multipliers, None
        plain, own = AbstractSystem.linearization(system, *at), system.linearization(*at)
        reactions = system.algebra.position_reactions(0.0, state.q)
        dense = AbstractSystem.algebra.fget(system).position_reactions(0.0, state.q)
        x = 0.1 * v
        matrix = own.stabilized_matrix(x, 0.3, 0.7, reactions)
        other = plain.stabilized_matrix(x, 0.3, 0.7, dense)
        moved = reactions.of(right[:positions]), dense.of(right[:positions])
        return (matrix.matvec(right), other.matvec(right)), moved

    for got, expected in compare():
        size = float(np.abs(expected).max())
        np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE * max(size, 1.0))


def _free(**options):
    draw = np.random.default_rng(5)
    amplitudes = 1e-3 * draw.normal(size=MODES) / (1.0 + np.arange(MODES)) ** 2
    moving = {"velocity": (0.3, -0.2, 0.5), "omega_body": (0.4, 1.0, 0.7)}
    return _bar(amplitudes=amplitudes, damping_time=None, **moving, **options)


def _energy(system, q, v):
    return float(system.kinetic_energy(q, v) + system.potential_energy(q))


@pytest.mark.full
@pytest.mark.parametrize("frame", ["interface", "free"])
@pytest.mark.parametrize("name", ["R3SO3", "SE3"])
def test_free_flight_keeps_momentum_and_energy(name, frame):
    mechanism = lie_jax.Mechanism([_free(frame=frame)], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, FORMULATIONS[name])
    ends, runs = [], ((lie_jax.RKMK("rk4"), 8000, 1e-7), (lie_jax.RATTLie(), 2000, 2e-3))
    for integrator, steps, loss in runs:
        run = lie_jax.simulate(system, integrator, state, dt=0.2 / steps, steps=steps, save=steps)
        start, end = ((run.q[k], run.v[k]) for k in (0, -1))
        for x, y in zip(system.momentum(*start), system.momentum(*end), strict=True):
            np.testing.assert_allclose(y, x, rtol=0, atol=1e-8)
        assert abs(_energy(system, *end) / _energy(system, *start) - 1.0) < loss
        ends.append(end[0])
    np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=1e-3)


@pytest.mark.full
def test_without_modes_of_motion_it_is_the_rigid_body_bit_by_bit():
    body = _bar(velocity=(0.3, -0.2, 0.5), omega_body=(0.4, 1.0, 0.7), damping_time=None)
    rigid = lie_jax.Body(
        "bar",
        body.mass,
        body.inertia,
        body.center_of_mass,
        velocity=body.velocity,
        omega_body=body.omega_body,
    )
    still = replace_fields(body, amplitudes=jnp.zeros(MODES))
    systems = [lie_jax.assemble(lie_jax.Mechanism([b]), lie_jax.R3SO3()) for b in (rigid, still)]
    results = [
        [
            system.kinetic_energy(state.q, state.v),
            system.potential_energy(state.q),
            *system.momentum(state.q, state.v),
            system.mass_matrix(state.q)[:6, :6],
        ]
        for system, state in systems
    ]
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", ["R3SO3", "SE3"])
def test_springs_from_and_to_the_ground_stack(name):
    springs = [
        lie_jax.LinearSpringDamper("ground", "bar.right", 30.0, 0.2, 0.1),
        lie_jax.LinearSpringDamper("bar.left", "ground", 20.0, 0.1, 0.1, (0, 0, 0), (0, 1, 0)),
    ]
    mechanism = lie_jax.Mechanism([_bar(modes=6)], forces=springs)
    system, state = lie_jax.assemble(mechanism, FORMULATIONS[name])
    v, acceleration = _state(system)

    @jax.jit
    def compare(along):
        at = 0.0, state.q, v, acceleration, jnp.zeros(0), None
        stiffness = system.linearization(*at).dense().combined(jnp.eye(system.nv), 1.0, 0.0, 0.0)
        own = stiffness @ along
        moved = system.space.lift(state.q, along)
        return own, jax.jvp(lambda q: system.residual(0.0, q, *at[2:]), (state.q,), (moved,))[1]

    got, expected = compare(0.1 * acceleration)
    size = float(np.abs(expected).max())
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE * size)


def test_names_of_interfaces_are_those_of_frames():
    system, state = lie_jax.assemble(_mechanism(), lie_jax.R3SO3())
    assert system.names == ("bar", "ball", "other")
    assert system.names_by_slot[3:] == ("bar.left", "bar.right", "other.left", "other.right")
    rotations, positions = system.poses_by_slot(state.q)
    np.testing.assert_allclose(rotations[3:], np.tile(np.eye(3), (4, 1, 1)), atol=1e-15)
    np.testing.assert_allclose(positions[4], (0.4, 0.05, 0.05), atol=1e-15)
    assert system.owner(3 * 6 + MODES) == "the amplitudes of body 'other'"
    with pytest.raises(ValueError, match=r"the names are 'bar', 'bar\.left', 'bar\.right'"):
        lie_jax.Mechanism([_bar()], [lie_jax.RigidJoint("ground", "bar.middle")])


def test_readings_are_those_of_each_body():
    draw = np.random.default_rng(7)
    amplitudes, others = 1e-3 * draw.normal(size=MODES), 1e-3 * draw.normal(size=FREE_MODES)
    bodies = [
        _bar("second", frame="free", modes=FREE_MODES, amplitudes=others),
        lie_jax.Body("rigid", 1.0, np.eye(3)),
        _bar("first", amplitudes=amplitudes, amplitude_rates=amplitudes),
    ]
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, gravity=(0, 0, 0)), lie_jax.SE3())
    of_bodies = system.amplitudes(state.q)
    np.testing.assert_array_equal(of_bodies["first"], amplitudes)
    np.testing.assert_array_equal(of_bodies["second"], others)
    rows = system.amplitudes(jnp.stack([state.q, 2.0 * state.q]))
    np.testing.assert_array_equal(rows["first"][1], 2.0 * amplitudes)
    first = bodies[2]
    places = first.node_positions(rows["first"])
    expected = np.asarray(first.nodes) + 2.0 * np.asarray(first.modes) @ amplitudes
    np.testing.assert_allclose(places[1], expected, rtol=0, atol=1e-15)
    powers = system.powers(0.0, state.q, state.v, jnp.zeros(0)).bodies
    damping = np.asarray(first.deformation.damping)
    np.testing.assert_allclose(powers["first"], -amplitudes @ damping @ amplitudes, rtol=1e-12)
    assert powers["second"] == 0.0


def test_powers_within_bodies_are_the_rate_of_the_energy():
    draw = np.random.default_rng(8)
    amplitudes, rates = 1e-3 * draw.normal(size=(2, MODES))
    moving = {"velocity": (0.3, -0.2, 0.5), "omega_body": (0.4, 1.0, 0.7)}
    body = _bar(amplitudes=amplitudes, amplitude_rates=rates, **moving)
    spin = draw.normal(size=(6, MODES, MODES))
    deformation = body.deformation
    spun = type(deformation)(
        *(
            jnp.asarray(spin + spin.swapaxes(1, 2))
            if name == "spin"
            else getattr(deformation, name)
            for name in ("first", "mixed", "second", "stiffness", "damping", "spin")
        ),
        deformation.points,
        deformation.shifts,
        deformation.turns,
    )
    body = replace_fields(body, deformation=spun)
    system, state = lie_jax.assemble(lie_jax.Mechanism([body]), lie_jax.R3SO3())

    @jax.jit
    def rate_and_power(q, v):
        def energy(q, v):
            return system.kinetic_energy(q, v) + system.potential_energy(q)

        change = system.space.lift(q, v), system.acceleration(0.0, q, v)
        rate = jax.jvp(energy, (q, v), change)[1]
        return rate, system.powers(0.0, q, v, jnp.zeros(0)).bodies["bar"]

    rate, power = rate_and_power(state.q, state.v)
    assert abs(power) > 1e-4
    # The energy of a joule has rounding errors.
    np.testing.assert_allclose(rate, power, rtol=0, atol=1e-12)


@pytest.mark.full
def test_fast_spins_and_large_turns_are_named():
    spinning = _bar(omega_body=(0.0, 0.0, 40.0), damping_time=None)
    system, state = lie_jax.assemble(lie_jax.Mechanism([spinning]), lie_jax.R3SO3())
    with pytest.warns(UserWarning, match="stiffness by the stress of a spin"):
        lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-5, steps=3)
    bent = _bar(damping_time=None)
    # The amplitude that turns an end by half a radian.
    turns = np.linalg.norm(np.asarray(bent.deformation.turns[1]), axis=0)
    amplitudes = np.where(np.arange(MODES) == 0, 0.5 / turns[0], 0.0)
    body = replace_fields(bent, amplitudes=jnp.asarray(amplitudes))
    system, state = lie_jax.assemble(lie_jax.Mechanism([body]), lie_jax.R3SO3())
    with pytest.warns(UserWarning, match="turned by up to 0.5 rad"):
        lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-6, steps=3)


@pytest.mark.full
def test_derivatives_by_density_and_stiffness_agree_with_differences():
    bar = _free(frame="free")

    @jax.jit
    def end(factors):
        body = bar.scale(mass=factors[0], stiffness=factors[1])
        system, state = lie_jax.assemble(lie_jax.Mechanism([body]), lie_jax.SE3())
        method = lie_jax.GeneralizedAlpha(0.9)
        run = lie_jax.simulate(system, method, state, dt=1e-3, steps=50, throw=False)
        return run.q[-1] @ jnp.cos(jnp.arange(run.q.shape[1], dtype=run.q.dtype))

    at, step = jnp.ones(2), 1e-5
    slope = jax.grad(end)(at)
    for k, unit in enumerate(np.eye(2)):
        difference = (end(at + step * unit) - end(at - step * unit)) / (2.0 * step)
        np.testing.assert_allclose(slope[k], difference, rtol=1e-5, atol=1e-9)


@pytest.mark.full
def test_a_loaded_end_moves_as_that_of_the_mesh():
    mesh, force = lattice(), np.asarray([3.0, -2.0, 5.0]) * 1e-3
    n, right, left = len(mesh.nodes), mesh.ends["right"], mesh.ends["left"]
    held = np.concatenate([rows_of(left), rows_of(right)])
    inner = np.setdiff1d(np.arange(3 * n), held)
    # The end moves as a rigid body, by the same force.
    span = np.zeros((3 * n, inner.size + 6))
    span[inner, np.arange(inner.size)] = 1.0
    center = mesh.nodes[right].mean(axis=0)
    span[rows_of(right), inner.size :] = rigid_motions(mesh.nodes[right], center)
    right_side = np.zeros(inner.size + 6)
    right_side[inner.size : inner.size + 3] = force
    moved = np.linalg.solve(span.T @ mesh.stiffness @ span, right_side)[inner.size :]
    load = lie_jax.PointForce("bar.right", force)
    bodies = [_bar(modes=6)]
    at_root = mesh.nodes[left].mean(axis=0)
    joints = [lie_jax.RigidJoint("ground", "bar.left", parent_point=at_root)]
    mechanism = lie_jax.Mechanism(bodies, joints, [load], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    found = lie_jax.equilibrium(system, state)
    _, places = system.poses_by_slot(found.q)
    # Squares of small turns, which the mesh leaves out.
    np.testing.assert_allclose(places[2] - center, moved[:3], rtol=0, atol=1e-11)
    assert np.linalg.norm(moved[:3]) > 1e-6
