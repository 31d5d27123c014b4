"""All formulations in absolute coordinates describe one motion."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.groups import so3, unified_velocity
from lie_jax.simulation.march import march
from lie_jax.spaces import derivatives
from lie_jax.systems.system import accelerations_and_multipliers
from models import free_body, heavy_top
from tests import mechanisms
from tests.suites import cases

FORMULATIONS = {
    "R3SO3": lie_jax.R3SO3(),
    "R3SO3 rotation vector": lie_jax.R3SO3(coordinates="rotation_vector"),
    "SE3 rotation vector": lie_jax.SE3(coordinates="rotation_vector"),
    "tetrahedron": lie_jax.UnifiedVelocity(*unified_velocity.tetrahedron(0.5, 2.0)),
    "angles": lie_jax.TaitBryan(),
    "Euler parameters": lie_jax.EulerParameters(),
}
# Rounding in forces of some hundred newtons, through a mass matrix of condition 1e3.
ROUNDING = 1e-10
T = jnp.asarray(0.4)


def _kinematic_defects(formulation, rng):
    """Defects of one body's kinematics, away from the formulation's own constraints."""
    q = formulation.configuration(
        jnp.asarray(rng.normal(size=3)),
        lie_jax.groups.quaternion.exp(jnp.asarray(rng.normal(size=3))),
    )
    if formulation.rows:
        q = q.at[3:].multiply(1.1)
    v, dv = jnp.asarray(rng.normal(size=(2, formulation.nv)))
    linear, angular, force, torque = jnp.asarray(rng.normal(size=(4, 3)))
    rotation, _ = formulation.pose(q)

    def hybrid_velocity(q, v):
        return jnp.concatenate(formulation.hybrid_velocity(formulation.pose(q)[0], q, v))

    def lifted(function, *rates):
        return jax.jvp(function, (q, v), (formulation.lift(q, v), *rates))

    hybrid, rate = lifted(hybrid_velocity, dv)
    turning = jax.jvp(lambda q: formulation.pose(q)[0], (q,), (formulation.lift(q, v),))[1]
    pulled = formulation.generalized_force(rotation, q, force, torque)
    back = formulation.acceleration(rotation, q, v, linear, angular)
    given = jnp.concatenate([linear, angular])
    return {
        "velocity": jnp.concatenate([formulation.lift(q, v)[:3] - hybrid[:3]]),
        "angular velocity": turning - rotation @ so3.hat(hybrid[3:]),
        "acceleration": rate - jnp.concatenate(formulation.hybrid_acceleration(rotation, q, v, dv)),
        "power": pulled @ v - jnp.concatenate([force, torque]) @ hybrid,
        "velocity and back": given
        - hybrid_velocity(q, formulation.velocity(rotation, q, linear, angular)),
        "acceleration and back": given
        - jnp.concatenate(formulation.hybrid_acceleration(rotation, q, v, back)),
        "own constraint": jax.jvp(
            lambda q, v: jax.jvp(formulation.constraint, (q,), (v,))[1], (q, v), (v, back)
        )[1]
        if formulation.rows
        else jnp.zeros(0),
    }


def _measured(formulation):
    """What can be measured of two bodies, and defects of the equations they were computed with."""
    system, state = mechanisms.two_bodies(formulation)
    q, v = state.q, state.v

    def hybrid(acceleration):
        each = (x.reshape(2, -1) for x in (q, v, acceleration))
        return jax.vmap(formulation.hybrid_acceleration)(system.poses(q)[0], *each)

    start = accelerations_and_multipliers(system, T, q, v)
    free = dataclasses.replace(system, joints=())
    own = free.acceleration(T, q, v)
    rng = np.random.default_rng(2)
    a = jnp.asarray(rng.normal(size=system.nv))
    multipliers = jnp.asarray(rng.normal(size=system.nc))
    b = system.constraint_jacobian(T, q)
    mass_matrix = system.mass_matrix(q)
    same = {
        "poses": system.poses(q),
        "twists": system.twists(q, v),
        "accelerations": hybrid(start.acceleration),
        "accelerations without joints": hybrid(own),
        "multipliers": start.multipliers[:6],
        "kinetic energy": system.kinetic_energy(q, v),
        "potential energy": system.potential_energy(q),
        "momentum": system.momentum(q, v),
        "joints": system.constraint(T, q)[:6],
    }
    zero = {
        "kinetic energy is half v M v": system.kinetic_energy(q, v) - 0.5 * v @ mass_matrix @ v,
        "Jacobian": b
        - derivatives.jacobian_along(system.space, lambda q: system.constraint(T, q), q),
        "residual": system.residual(T, q, v, a, multipliers)
        - (mass_matrix @ a + b.T @ multipliers - system.force(T, q, v)),
        "closed form without joints": accelerations_and_multipliers(free, T, q, v).acceleration
        - own,
        "coordinates hold their own constraints": system.constraint(T, q)[6:],
        "regular": jnp.where(jnp.asarray(system.validity.regular(q)), 0.0, 1.0),
    }
    return same, zero


@pytest.mark.full
@pytest.mark.parametrize("name", FORMULATIONS)
def test_kinematics_of_one_body(name):
    defects = jax.jit(lambda: _kinematic_defects(FORMULATIONS[name], np.random.default_rng(2)))()
    for rule, value in defects.items():
        assert np.max(np.abs(value), initial=0.0) < ROUNDING, rule


MEASURE = {name: jax.jit(lambda f=f: _measured(f)) for name, f in FORMULATIONS.items()}


@pytest.fixture(scope="module")
def expected():
    return MEASURE["R3SO3"]()[0]


@pytest.mark.parametrize(
    "name",
    cases(FORMULATIONS, []),
)
def test_formulations_agree_on_what_can_be_measured(name, expected):
    same, zero = MEASURE[name]()
    for rule, value in zero.items():
        assert np.max(np.abs(value), initial=0.0) < ROUNDING, rule
    for key, value in same.items():
        jax.tree.map(
            lambda x, y, key=key: assert_allclose(x, y, atol=ROUNDING, err_msg=key),
            value,
            expected[key],
        )


def _read(trajectory, index):
    return trajectory.q[index], trajectory.v[index]


def _two_errors(system, state, integrator, duration, steps, error):
    """Errors at the end of a duration, of this many steps and of twice as many."""
    error, errors = jax.jit(error), []
    for n in (steps, 2 * steps):
        end = march(system, integrator, state, duration / n, n)
        assert bool(end.result == lie_jax.Result.successful)
        errors.append(np.max(np.abs(error(end.state.q, end.state.v))))
    return errors


# Observed orders differ from the limit for h -> 0 by the next term of the error.
ORDER_SLACK = 0.1

# The top of `models.heavy_top` in axes for which z is that of symmetry: the angles stay regular.
UPRIGHT = {
    "inertia": np.diag([0.234375, 0.234375, 0.46875]),
    "center_of_mass": (0.0, 0.0, 1.0),
    "orientation": mechanisms.quaternion([-0.5 * np.pi, 0.0, 0.0]),
    "omega_body": (0.0, 4.61538, 150.0),
}


def _top(formulation, constrained):
    system, state = heavy_top.build(formulation, constrained=constrained, **UPRIGHT)
    reference = jnp.asarray(heavy_top.REFERENCE[0.1])
    return system, state, lambda q, v: heavy_top.center_of_mass(system, q) - reference


# `make test` has the method's order on groups, and its matrix with these coordinates.
@pytest.mark.full
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("name", ["angles", "Euler parameters"])
def test_generalized_alpha_on_charts_is_of_order_two(name, constrained):
    system, state, error = _top(FORMULATIONS[name], constrained)
    coarse, fine = _two_errors(system, state, lie_jax.GeneralizedAlpha(), 0.1, 200, error)
    assert abs(np.log2(coarse / fine) - 2.0) < ORDER_SLACK
    assert fine < 1e-4


def test_runge_kutta_on_angles_is_of_order_four():
    system, state, error = _top(lie_jax.TaitBryan(), False)
    coarse, fine = _two_errors(system, state, lie_jax.RungeKutta("rk4"), 0.1, 50, error)
    assert abs(np.log2(coarse / fine) - 4.0) < ORDER_SLACK
    # On a vector space the Munthe-Kaas method is the Runge-Kutta method.
    same = march(system, lie_jax.RKMK("rk4"), state, 0.1 / 100, 100).state
    assert_allclose(np.max(np.abs(jax.jit(error)(same.q, same.v))), fine, atol=1e-14)


# `make test` has the classical method on angles and on SE(3).
@pytest.mark.full
@pytest.mark.parametrize(
    "formulation",
    # [S3]'s classical formulation 1, and Euler parameters with their norm as a constraint.
    [lie_jax.R3SO3(coordinates="tait_bryan"), lie_jax.EulerParameters()],
)
def test_classical_formulations_keep_the_order_of_runge_kutta(formulation):
    system, state, error = _top(formulation, False)
    coarse, fine = _two_errors(system, state, lie_jax.RungeKutta("rk3"), 0.1, 100, error)
    assert abs(np.log2(coarse / fine) - 3.0) < ORDER_SLACK


UNIFIED = {
    "SE3": lie_jax.SE3(),
    "hexahedron": lie_jax.UnifiedVelocity(),
    "tetrahedron": FORMULATIONS["tetrahedron"],
}
# Up to here the free body has turned over once. Later, each turn amplifies rounding by the square
# of the ratio 1e4 of its angular velocities: at 1 s double precision holds 7 digits, not 16.
ONE_TURN = 0.25


def _free_body(formulation):
    system, state = free_body.build(formulation)
    point, omega = (jnp.asarray(x) for x in free_body.REFERENCE[ONE_TURN])

    def error(q, v):
        return jnp.concatenate(
            [
                free_body.observed_point(system, q) - point,
                (free_body.omega_body(system, q, v) - omega) / 100.0,
            ]
        )

    return system, state, error


@pytest.mark.full
def test_unified_velocities_reach_the_reference_in_any_projection():
    steps, errors = 1000, []
    for formulation in UNIFIED.values():
        system, state, error = _free_body(formulation)
        trajectory = lie_jax.simulate(
            system, lie_jax.RKMK("rk67"), state, dt=ONE_TURN / steps, steps=steps, save=steps
        )
        errors.append(error(*_read(trajectory, -1)))
    assert np.max(np.abs(errors)) < 1e-10
    assert_allclose(errors[1:], [errors[0]] * 2, atol=1e-11)


@pytest.mark.full
def test_unified_velocities_keep_the_order_of_the_method():
    system, state, error = _free_body(lie_jax.UnifiedVelocity())
    coarse, fine = _two_errors(system, state, lie_jax.RKMK("rk4"), ONE_TURN, 400, error)
    assert abs(np.log2(coarse / fine) - 4.0) < ORDER_SLACK


@pytest.mark.full
def test_gradients_agree_on_batches():
    """Of world accelerations with respect to parameters; each model is built inside the program."""

    def measured(formulation, mass, turn, omega):
        orientation = lie_jax.groups.quaternion.exp(turn)
        system, state = heavy_top.build(
            formulation(), mass=mass, orientation=orientation, omega_body=omega
        )
        q, v = state.q, state.v
        linear, angular = system.formulation.hybrid_acceleration(
            system.poses(q)[0][0], q, v, system.acceleration(T, q, v)
        )
        return jnp.sum(jnp.sin(linear) + jnp.cos(angular))

    kinds = lie_jax.R3SO3, lie_jax.UnifiedVelocity, lie_jax.TaitBryan, lie_jax.EulerParameters

    @jax.jit
    @jax.vmap
    def gradients(*parameters):
        def all_kinds(*parameters):
            return jnp.stack([measured(kind, *parameters) for kind in kinds])

        return jax.jacrev(all_kinds, (0, 1, 2))(*parameters)

    rng = np.random.default_rng(5)
    batch = (
        rng.uniform(1.0, 2.0, size=4),
        rng.normal(size=(4, 3)) * 0.4,
        rng.normal(size=(4, 3)),
    )
    for gradient in gradients(*map(jnp.asarray, batch)):
        assert_allclose(gradient[:, 1:], gradient[:, :1].repeat(3, axis=1), atol=ROUNDING)
        assert np.all(np.max(np.abs(gradient), axis=0) > 0.0)


@pytest.mark.parametrize("name", cases(FORMULATIONS, []))
def test_single_precision_stays(name):
    system, state = jax.tree.map(
        lambda x: x.astype(jnp.float32), mechanisms.two_bodies(FORMULATIONS[name])
    )

    def everything(q, v):
        t = jnp.zeros((), jnp.float32)
        return (
            system.acceleration(t, q, v),
            system.constraint(t, q),
            system.residual(t, q, v, v, jnp.zeros(system.nc, jnp.float32)),
            system.space.retract(q, v),
            system.space.tangent_operator_inv(v, v),
        )

    for leaf in jax.eval_shape(everything, state.q, state.v):
        assert leaf.dtype == jnp.float32


# Limits of the coordinates -----------------------------------------------------------------------


def test_angles_know_their_singularity():
    formulation = lie_jax.TaitBryan()
    for beta, regular in ((0.0, True), (1.5, True), (0.5 * np.pi - 1e-4, False), (-2.0, False)):
        q = jnp.asarray([0.0, 0.0, 0.0, 0.3, beta, 0.2])
        assert bool(formulation.regular(q)) == regular
        assert (formulation.invalid(np.asarray(q)) is None) == regular


def test_configurations_outside_a_chart_are_refused():
    upright = lie_jax.groups.quaternion.exp(jnp.asarray([0.0, 0.5 * jnp.pi, 0.0]))
    system, state = heavy_top.build(lie_jax.TaitBryan(), orientation=upright)
    assert not bool(system.validity.regular(state.q))
    with pytest.raises(ValueError, match=r"body 0: the Tait-Bryan angle β = 1\.57.*R3SO3"):
        lie_jax.simulate(system, lie_jax.RKMK(), state, dt=1e-3, steps=1)
    system, state = heavy_top.build(lie_jax.EulerParameters())
    off = lie_jax.State(state.q * 1.01, state.v)
    with pytest.raises(ValueError, match=r"body 0: the Euler parameters .* norm 1\.01.*divide"):
        lie_jax.simulate(system, lie_jax.GeneralizedAlpha(), off, dt=1e-3, steps=1)


def test_unified_velocity_refuses_what_is_no_projection():
    points, directions = unified_velocity.hexahedron()
    for arguments, message in (
        ((points, None), "comes without directions.*give both"),
        ((None, directions), "comes without points.*give both"),
        ((points[:5], directions), r"points has shape \(5, 3\)"),
        ((0.0 * points, directions), "determinant 0"),
    ):
        with pytest.raises(ValueError, match=message):
            lie_jax.UnifiedVelocity(*arguments)
    with pytest.raises(ValueError, match=r"traced by JAX.*outside of jit"):
        jax.jit(lambda p: lie_jax.UnifiedVelocity(p, directions).nq)(points)


@pytest.mark.parametrize(
    ("formulation", "integrator"),
    [
        pytest.param(lie_jax.TaitBryan(), lie_jax.RKMK("rk3"), marks=pytest.mark.full),
        pytest.param(lie_jax.TaitBryan(), lie_jax.GeneralizedAlpha(), marks=pytest.mark.full),
        (lie_jax.R3SO3(coordinates="tait_bryan"), lie_jax.RungeKutta("rk3")),
    ],
)
def test_a_body_that_turns_into_the_singularity_ends_the_run_there(formulation, integrator):
    body = lie_jax.Body("b", 1.0, np.diag([1.0, 2.0, 3.0]), omega_body=(0.0, 2.0, 0.0))
    system, state = lie_jax.assemble(lie_jax.Mechanism([body]), formulation)
    run = lie_jax.simulate(system, integrator, state, dt=0.01, steps=100, throw=False)
    assert bool(run.result == lie_jax.Result.singular)
    # β = 2 t reaches π/2 between 0.78 and 0.79 s.
    assert_allclose(run.stats.end_time, 0.78, atol=1e-12)
    assert_allclose(run.q[78, 4], 1.56, atol=1e-9)


def test_mass_matrix_is_that_of_the_residual_off_the_unit_sphere():
    """Euler parameters leave it within a step; derivatives of accelerations rely on both."""
    inertia = np.diag([0.2, 0.3, 0.25])
    body = lie_jax.Body("a", 2.0, inertia, center_of_mass=(0.3, -0.2, 0.5))
    formulation = lie_jax.EulerParameters(normalized=False)
    system, state = lie_jax.assemble(lie_jax.Mechanism([body]), formulation)
    q, v = 1.001 * (state.q + 0.1), jnp.zeros(system.nv)

    def needed(dv):
        return system.residual(0.0, q, v, dv, jnp.zeros(system.nc), None)

    mass, expected = jax.jit(lambda v: (jax.jacfwd(needed)(v), system.mass_matrix(q)))(v)
    assert_allclose(mass, expected, atol=1e-14)  # rounding of sums of order one
