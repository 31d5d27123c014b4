"""Parts of one's own, each a class of at most twelve lines, in every use that lie_jax has for them.

Each part describes a motion with a closed form, along one coordinate, by one parameter: the run is
compared with it in both kinds of coordinates and over a batch, its derivative with that of the
closed form; `identify` finds the parameter, and `ilqr` moves it to where a direct solution does.
"""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.own_parts import (
    DT,
    GRAVITY,
    INERTIA,
    LAW,
    MASS,
    STEPS,
    STIFFNESS,
    Bowl,
    Constant,
    Disc,
    Euler,
    HalfSine,
    Robust,
    Screw,
    Sled,
    Z,
    pushed,
    slider,
)
from tests.suites import cases

PARTS = [Screw, Constant, Bowl, Disc, Euler, Robust, HalfSine, Sled]
LINES = 12


@pytest.mark.parametrize("part", PARTS)
def test_parts_are_short(part):
    assert len([line for line in inspect.getsource(part).splitlines() if line.strip()]) <= LINES


def screw(pitch):
    joints = [Screw("ground", "b", pitch=pitch)]
    return slider(joints, gravity=(0.0, 0.0, -GRAVITY))


def accelerated(mass):
    """The same with another mass, under one newton."""
    body = lie_jax.Body("b", mass, INERTIA * np.eye(3))
    axis = lie_jax.PrismaticJoint("ground", "b", Z)
    forces = [lie_jax.JointMotor(axis, input=0), lie_jax.PointForce("b", Z)]
    return lie_jax.Mechanism([body], [axis], forces, (0.0, 0.0, 0.0))


class Use(NamedTuple):
    """A system by a parameter, its integrator, and the acceleration of the coordinate and its
    inertia in closed form; `formulation` None for a system without bodies.
    """

    make: Callable
    value: float
    acceleration: Callable
    inertia: Callable
    formulation: lie_jax.extend.AbstractFormulation | None = None
    integrator: lie_jax.extend.AbstractIntegrator = lie_jax.RKMK("rk4")
    error: float = 1e-12


def _inertia(pitch):
    return INERTIA + MASS * pitch**2


MINIMAL = lie_jax.Minimal()
SCREW = Use(screw, 0.3, lambda p: -MASS * GRAVITY * p / _inertia(p), _inertia, MINIMAL)
PUSHED = Use(pushed, 3.0, lambda size: size / MASS, lambda _: MASS, MINIMAL)
ACCELERATED = Use(accelerated, MASS, lambda mass: 1.0 / mass, lambda mass: mass, MINIMAL)
SLED = Use(Sled, MASS, lambda mass: 1.0 / mass, lambda mass: mass)
# Of first order: the closed form is that of the method.
BY_EULER = ACCELERATED._replace(integrator=Euler())
USES = {
    "joint": SCREW,
    "joint, absolute": SCREW._replace(formulation=lie_jax.R3SO3()),
    "force": PUSHED,
    "force, absolute": PUSHED._replace(formulation=lie_jax.SE3()),
    "chart, absolute": SCREW._replace(formulation=lie_jax.R3SO3(chart=HalfSine()), error=1e-9),
    "integrator": BY_EULER,
    "system": SLED,
}


def start(use, value):
    value = jnp.asarray(value)
    made = use.make(value)
    if use.formulation is None:
        return made, lie_jax.State(jnp.zeros(1), jnp.zeros(1))
    return lie_jax.assemble(made, use.formulation)


def travel(use, value):
    """Coordinate at all instants of a run from rest."""
    system, state = start(use, value)
    inputs = np.zeros((STEPS, 1))
    run = lie_jax.simulate(
        system, use.integrator, state, dt=DT, steps=STEPS, inputs=inputs, throw=False
    )
    if use.formulation is None:
        return run.q[:, 0]
    angles = system.joint_coordinates(run.q, run.v, run.t)
    return next(iter(angles.values()))[:, 0]


def exact(use, value):
    t = DT * np.arange(STEPS + 1)
    along = t * (t - DT) if isinstance(use.integrator, Euler) else t * t
    return 0.5 * use.acceleration(value) * along


@pytest.mark.parametrize("name", cases(list(USES), ["system"]))
def test_runs_batches_and_derivatives_are_those_of_the_closed_form(name):
    use = USES[name]

    @jax.jit
    @jax.vmap
    def both(value):
        return travel(use, value), jax.grad(lambda x: travel(use, x)[-1])(value)

    values = use.value * np.asarray([1.0, 1.3])
    runs, slopes = both(values)
    for k, value in enumerate(values):
        assert_allclose(runs[k], exact(use, value), atol=use.error)
        wanted = jax.grad(lambda x: exact(use, x)[-1])(value)
        assert_allclose(slopes[k], wanted, rtol=1e-9, atol=use.error)


@pytest.mark.parametrize("name", cases(list(USES), ["system"]))
def test_parameters_are_identified(name):
    use = USES[name]
    recorded = exact(use, use.value)
    fit = lie_jax.estimation.identify(
        lambda value: travel(use, value), 1.2 * use.value, recorded, progress=False
    )
    assert_allclose(fit.estimates, use.value, rtol=1e-6)


@pytest.mark.parametrize("name", cases([n for n in USES if "absolute" not in n], []))
def test_inputs_are_optimal(name):
    """The cost R Σ u² dt / 2 + (x - 1)² / 2 is quadratic in u, and x a sum of its entries."""
    use = USES[name]
    system, state = start(use, use.value)
    weight = 1e-3
    problem = lie_jax.control.ilqr(
        system,
        use.integrator,
        state,
        np.zeros((STEPS, 1)),
        dt=DT,
        running=lambda t, q, v, u: 0.5 * weight * u @ u,
        final=lambda q, v: 0.5 * (q[0] - 1.0) ** 2,
    )
    # Each input acts for one step, and moves the end by the time that is left.
    left = DT * (STEPS - 1 - np.arange(STEPS))
    left = left if isinstance(use.integrator, Euler) else left + 0.5 * DT
    reach = DT * left / use.inertia(use.value)
    free = exact(use, use.value)[-1]
    wanted = (1.0 - free) * reach / (reach @ reach + weight * DT)
    assert_allclose(problem.inputs[:, 0], wanted, rtol=1e-6, atol=1e-9)


def test_losses_of_ones_own_resist_outliers():
    """Of one sample far away the median-like fit takes no notice, the mean does."""
    truth, t = 2.0, np.linspace(0.0, 1.0, 21)
    recorded = truth * t
    recorded[-1] += 1.0
    fits = [
        lie_jax.estimation.identify(
            lambda a: a * t, 1.5, recorded, compare=loss, progress=False
        ).estimates
        for loss in ("vector", Robust())
    ]
    # The normal equation of the mean: its slope moves by 1 · t / Σ t².
    assert_allclose(fits[0], truth + 1.0 / np.sum(t**2), rtol=1e-6)
    assert abs(float(fits[1]) - truth) < 1e-3
    with pytest.raises(ValueError, match="monte_carlo"):
        lie_jax.estimation.monte_carlo(lambda a: a * t, truth, noise=0.1, runs=2, compare=Robust())


def _touching(first, second, position, orientation=(1.0, 0.0, 0.0, 0.0)):
    body = lie_jax.Body("b", MASS, INERTIA * np.eye(3), position=position, orientation=orientation)
    pair = lie_jax.contact.Contact(first, second, LAW)
    system, state = lie_jax.assemble(lie_jax.Mechanism([body], forces=[pair]), lie_jax.R3SO3())
    return system, state, system.contacts(0.0, state.q, state.v)


def test_ground_of_ones_own():
    """A ball in a bowl, at 0.8 of its radius in the direction (3, 0, -4)/5."""
    direction = np.asarray([0.6, 0.0, -0.8])
    first, second = lie_jax.contact.Sphere("b", 0.5), Bowl("ground", 2.0)
    for pair in ((first, second), (second, first)):
        *_, contacts = _touching(*pair, 1.6 * direction)
        assert_allclose(contacts.gap, [2.0 - 1.6 - 0.5], rtol=1e-12)
        assert_allclose(contacts.normal[0], -direction, atol=1e-12)


def test_bodies_of_ones_own():
    """A disc tilted by half a radian touches a plane with its lowest point."""
    tilt = 0.5
    tilted = (np.cos(0.5 * tilt), np.sin(0.5 * tilt), 0.0, 0.0)
    pair = Disc("b", 0.3), lie_jax.contact.Plane("ground")
    system, state, contacts = _touching(*pair, (0.0, 0.0, 0.1), tilted)
    gap = 0.1 - 0.3 * np.sin(tilt)
    assert_allclose(contacts.gap, [gap], rtol=1e-9)
    force = system.force(0.0, state.q, state.v)
    assert_allclose(force[2], STIFFNESS * gap**2 - GRAVITY * MASS, rtol=1e-9)


def test_subclasses_of_shapes_touch_as_the_shapes_do():
    class Marble(lie_jax.contact.Sphere):
        pass

    ground = lie_jax.contact.Plane("ground")
    gaps = [
        _touching(kind("b", 0.5), ground, (0.0, 0.0, 0.7))[2].gap
        for kind in (Marble, lie_jax.contact.Sphere)
    ]
    assert_allclose(gaps[0], gaps[1], rtol=1e-15)
    assert_allclose(gaps[0], [0.2], rtol=1e-12)
