"""Restarted runs continue unbroken ones bit by bit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax.simulation import fingerprints
from models import double_pendulum, heavy_top
from tests.suites import cases
from tests.systems import Spinner

DT, HALF = 1e-3, 7
EULER = lie_jax.RKMK("euler")


def _driven():
    """A wheel whose angle is given in time, with a motor on the body that it carries."""
    axle = lie_jax.RevoluteJoint("ground", "wheel", (0, 0, 1))
    elbow = lie_jax.RevoluteJoint("wheel", "arm", (1, 0, 0), (0, 0.1, 0), (0, 0.1, 0))
    driver = lie_jax.JointDriver(axle, value=lambda t: 0.1 * jnp.sin(20.0 * t))
    mechanism = lie_jax.Mechanism(
        [lie_jax.Body(name, 1.0, np.diag([0.1, 0.2, 0.3])) for name in ("wheel", "arm")],
        [axle, elbow, driver],
        [lie_jax.JointMotor(elbow, input=0)],
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    return system, lie_jax.project(system, state)


def _pushed():
    """A pendulum with a motor, in joint coordinates: accelerations follow its input at once."""
    arm = lie_jax.Body("arm", 1.0, np.diag([0.1, 0.2, 0.3]))
    hinge = lie_jax.RevoluteJoint("ground", "arm", (1, 0, 0), (0, 0.1, 0), (0, 0.1, 0))
    motor = lie_jax.JointMotor(hinge, input=0)
    return lie_jax.assemble(lie_jax.Mechanism([arm], [hinge], [motor]), lie_jax.Minimal())


INPUTS = jnp.linspace(-3.0, 2.0, 2 * HALF)[:, None]


CASES = {
    "RKMK4": (_pushed, lie_jax.RKMK("rk4")),
    "generalized-α": (lambda: heavy_top.build(constrained=True), lie_jax.GeneralizedAlpha(0.8)),
    "modified Newton": (double_pendulum.build, lie_jax.GeneralizedAlpha(0.8, newton="modified")),
    "driven": (_driven, lie_jax.GeneralizedAlpha(0.8)),
    "BDF": (_driven, lie_jax.BDF(3)),
}


@pytest.mark.parametrize("name", cases(CASES, ["RKMK4"]))
def test_two_halves_are_bit_by_bit_the_whole(name, tmp_path):
    build, integrator = CASES[name]
    system, state = build()

    def run(start, which):
        inputs = INPUTS[which] if system.nu else None
        steps = len(INPUTS[which])
        return lie_jax.simulate(system, integrator, start, dt=DT, steps=steps, inputs=inputs)

    whole, first = run(state, slice(None)), run(state, slice(HALF))
    lie_jax.io.save(tmp_path / "first.nc", first)
    second = run(lie_jax.io.load(tmp_path / "first.nc").restart, slice(HALF, None))
    for field in ("t", "q", "v", "acceleration", "multipliers"):
        joined = np.concatenate([getattr(first, field), getattr(second, field)[1:]])
        np.testing.assert_array_equal(joined, getattr(whole, field), err_msg=field)
    assert int(second.stats.completed_steps) == HALF
    assert float(second.stats.end_time) == float(whole.stats.end_time)
    for a, b in zip(*(jax.tree.leaves(x.restart) for x in (second, whole)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.full
def test_rows_have_the_inputs_of_the_steps_that_ended_there():
    system, state = Spinner(jnp.asarray([1.0, 2.0, 3.0])), lie_jax.State(np.eye(4)[0], np.ones(3))

    def run(start, inputs, save=1):
        options = {"inputs": inputs, "save": save}
        return lie_jax.simulate(system, EULER, start, dt=DT, steps=5, **options)

    first, second = np.arange(1.0, 6.0)[:, None], np.arange(6.0, 11.0)[:, None]
    whole = run(state, first)
    np.testing.assert_array_equal(whole.u[:, 0], [1.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    onward = run(whole.restart, second, save=2)
    np.testing.assert_array_equal(onward.u[:, 0], [5.0, 7.0, 9.0])
    for inputs, count in ((None, 0), (np.ones((5, 3)), 3)):
        message = rf"holds {count} inputs in each step, and .* continued held 1.* give 1 columns"
        with pytest.raises(ValueError, match=message):
            run(whole.restart, inputs)


@pytest.mark.full
def test_rows_of_events_transformations_and_policies_have_inputs():
    system, state = _pushed()
    method, inputs = lie_jax.RKMK("rk4"), INPUTS[:HALF]
    start = lie_jax.simulate(system, method, state, dt=DT, steps=HALF, inputs=inputs).restart

    def run(**options):
        options = {"inputs": inputs} | options
        return lie_jax.simulate(
            system, method, start, dt=DT, steps=HALF, save=3, throw=False, **options
        ).u[:, 0]

    never = [lie_jax.Event(lambda t, q, v: q[0] - 9.0, "stop")]
    expected = [inputs[-1, 0], inputs[2, 0], inputs[5, 0]]
    for found in (run(events=never), jax.jit(run)(), jax.jit(lambda: run(events=never))()):
        np.testing.assert_array_equal(found, expected)

    def policy(t, q, v):
        return jnp.asarray([t])

    start = lie_jax.simulate(system, method, state, dt=DT, steps=HALF, policy=policy).restart
    steps = np.asarray([HALF - 1, HALF + 2, HALF + 5])
    np.testing.assert_array_equal(run(inputs=None, policy=policy), DT * steps)


def test_restarts_that_fit_nothing_are_refused():
    system, state = heavy_top.build()
    heavier, _ = heavy_top.build(mass=16.0)
    rk4, alpha = lie_jax.RKMK("rk4"), lie_jax.GeneralizedAlpha(0.8)
    of_rk4 = lie_jax.simulate(system, rk4, state, dt=DT, steps=3).restart
    # Parts of the integrator are compared before its carry.
    origin = fingerprints.checksums(integrator=alpha, system=system)
    of_alpha = dataclasses.replace(of_rk4, origin=jnp.asarray(origin))
    adaptive = {"adaptive": lie_jax.Adaptive(), "t_end": 1.0}
    for restart, system_now, integrator, options, message in (
        (of_rk4, system, rk4, {"dt": 2 * DT}, r"dt=\) is 0\.002, and that of the run .*0\.001"),
        (of_rk4, system, lie_jax.RKMK("dopri5"), adaptive, "another integrator"),
        (of_rk4, system, alpha, {}, "another integrator, which is 'GeneralizedAlpha' now"),
        (of_rk4, system, lie_jax.RKMK("heun"), {}, r"another integrator\.tableau, which is 'heun'"),
        (
            of_alpha,
            system,
            lie_jax.GeneralizedAlpha(0.9),
            {},
            r"another integrator\.rho_inf, which is 0\.9 now",
        ),
        (
            of_alpha,
            system,
            lie_jax.GeneralizedAlpha(0.8, index=2),
            {},
            r"another integrator\.index, which is 2 now",
        ),
        (of_rk4, heavier, rk4, {}, r"system\.bodies\.mass, which is \[16\.\].*`state`"),
    ):
        with pytest.raises(ValueError, match=message):
            lie_jax.simulate(system_now, integrator, restart, steps=3, **{"dt": DT} | options)


@pytest.mark.full
def test_restarts_go_through_transformations():
    """What is traced cannot be compared and passes; what is not is compared there, too."""

    def end(moment, *pieces):
        system = Spinner(moment * jnp.asarray([1.0, 2.0, 3.0]))
        state = lie_jax.State([1.0, 0.0, 0.0, 0.0], [0.1, 2.0, 0.3])
        for steps in pieces:
            state = lie_jax.simulate(system, EULER, state, dt=DT, steps=steps).restart
        return system, state

    moments = jnp.asarray([10.0, 15.0])
    halves, whole = (
        jax.jit(jax.vmap(lambda moment, pieces=pieces: end(moment, *pieces)[1]))(moments)
        for pieces in ((2, 2), (4,))
    )
    np.testing.assert_array_equal(halves.state.q, whole.state.q)
    objects = {"integrator": EULER, "system": end(10.0)[0], "policy": None}
    names = [name for name, *_ in fingerprints._parts_of(objects)]
    unknown = np.all(halves.origin == fingerprints.UNKNOWN, axis=0)
    assert [x for x, yes in zip(names, unknown, strict=True) if yes] == ["system.moments"]
    jax.eval_shape(jax.grad(lambda moment: end(moment, 2, 2)[1].state.q.sum()), 15.0)
