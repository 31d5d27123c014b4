"""Parts of one's own, each a class of at most twelve lines, in every use that lie_jax has for them.

Each part describes a motion with a closed form, along one coordinate, by one parameter: the run is
compared with it in both kinds of coordinates and over a batch, its derivative with that of the
closed form; `identify` finds the parameter, and `ilqr` moves it to where a direct solution does.
"""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import fields
from tests.messages import check_message
from tests.suites import cases

Z = np.asarray([0.0, 0.0, 1.0])
MASS, INERTIA, GRAVITY = 2.0, 0.5, 9.81
DT, STEPS = 5e-3, 40
END = DT * STEPS


class Screw(lie_jax.AbstractJoint):
    pitch: Float[Array, ""]
    rows, coordinate_units = 5, ("rad",)

    def coordinates(self, parent, child):
        turn = parent.rotation.T @ child.rotation
        return jnp.arctan2(turn[1, 0], turn[0, 0])[None]

    def motions(self):
        return (lie_jax.Motion("screw", Z, pitch=self.pitch),)

    def constraint(self, t, parent, child):
        (x, y, z), turn = child.position - parent.position, parent.rotation.T @ child.rotation
        along = turn[1, 0] * jnp.cos(z / self.pitch) - turn[0, 0] * jnp.sin(z / self.pitch)
        return jnp.stack([x, y, turn[0, 2], turn[1, 2], along])


class Constant(lie_jax.AbstractJointForce):
    size: Float[Array, ""]

    def effort(self, t, x, rate, u):
        return self.size

    def energy(self, x):
        return -self.size * x


class Bowl(lie_jax.contact.AbstractShape):
    radius: fields.Parameter = fields.positive("m")

    def distance(self, point):
        away = jnp.sqrt(point @ point)
        return self.radius - away, -point / away


class Disc(lie_jax.contact.AbstractShape):
    radius: fields.Parameter = fields.positive("m")

    def support(self, direction):
        flat = direction * jnp.asarray([1.0, 1.0, 0.0])
        return self.radius * flat / jnp.sqrt(flat @ flat + 1e-20)


class Euler(lie_jax.AbstractIntegrator):
    def init(self, system, t, dt, state, u):
        return None

    def step(self, system, t, dt, state, carry, u):
        q, v = state.q, state.v
        moved = system.space.retract(q, dt * v)
        return lie_jax.Step(lie_jax.State(moved, v + dt * system.acceleration(t, q, v, u)))

    def accelerations(self, system, t, state, carry, u):
        found = system.acceleration(t, state.q, state.v, u)
        return lie_jax.Accelerations(found, jnp.zeros(0))


class Robust(eqx.Module):
    scale: float = 1e-3

    def __call__(self, predicted, observed):
        square = ((predicted - observed) / self.scale) ** 2
        return jnp.sqrt(2.0 * (jnp.sqrt(1.0 + square) - 1.0) + 1e-30)


class HalfSine(lie_jax.AbstractChart):
    def map(self, x):
        return jnp.concatenate([jnp.sqrt(1.0 - x @ x)[None], x])

    def inverse(self, q):
        return jnp.where(q[0] < 0.0, -q[1:], q[1:])


class Sled(lie_jax.AbstractSystem):
    mass: Float[Array, ""]

    @property
    def space(self):
        return lie_jax.Rn(1)

    def mass_matrix(self, q):
        return self.mass[None, None]

    def force(self, t, q, v, u):
        return jnp.ones(1) if u is None else 1.0 + u


PARTS = [Screw, Constant, Bowl, Disc, Euler, Robust, HalfSine, Sled]
LINES = 12


@pytest.mark.parametrize("part", PARTS)
def test_parts_are_short(part):
    assert len([line for line in inspect.getsource(part).splitlines() if line.strip()]) <= LINES


def slider(joints=(), forces=(), gravity=(0.0, 0.0, 0.0)):
    """A body on a slider along z, with a motor, or on other joints."""
    body = lie_jax.Body("b", MASS, INERTIA * np.eye(3))
    axis = lie_jax.PrismaticJoint("ground", "b", Z)
    held = joints or [axis]
    motor = [lie_jax.JointMotor(held[0], input=0)]
    return lie_jax.Mechanism([body], held, [*motor, *forces(held[0])] if forces else motor, gravity)


def screw(pitch):
    joints = [Screw("ground", "b", pitch=pitch)]
    return slider(joints, gravity=(0.0, 0.0, -GRAVITY))


def pushed(size):
    return slider(forces=lambda joint: [Constant(joint, size=size)])


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
    formulation: lie_jax.AbstractFormulation | None = None
    integrator: lie_jax.AbstractIntegrator = lie_jax.RKMK("rk4")
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


@pytest.mark.parametrize("name", cases(list(USES), ["joint", "integrator"]))
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
    fit = lie_jax.identify(
        lambda value: travel(use, value), 1.2 * use.value, recorded, progress=False
    )
    assert_allclose(fit.estimates, use.value, rtol=1e-6)


@pytest.mark.parametrize("name", cases([n for n in USES if "absolute" not in n], ["integrator"]))
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
        lie_jax.identify(lambda a: a * t, 1.5, recorded, compare=loss, progress=False).estimates
        for loss in ("vector", Robust())
    ]
    # The normal equation of the mean: its slope moves by 1 · t / Σ t².
    assert_allclose(fits[0], truth + 1.0 / np.sum(t**2), rtol=1e-6)
    assert abs(float(fits[1]) - truth) < 1e-3
    with pytest.raises(ValueError, match="monte_carlo"):
        lie_jax.monte_carlo(lambda a: a * t, truth, noise=0.1, runs=2, compare=Robust())


# N/m², of a spring with the overlap's square.
STIFFNESS = 1e4
LAW = lie_jax.HuntCrossley(STIFFNESS, 2.0)


def _touching(first, second, position, orientation=(1.0, 0.0, 0.0, 0.0)):
    body = lie_jax.Body("b", MASS, INERTIA * np.eye(3), position=position, orientation=orientation)
    pair = lie_jax.Contact(first, second, LAW)
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


class Branching(lie_jax.AbstractJointForce):
    def effort(self, t, x, rate, u):
        return 1.0 if x > 0.0 else -1.0


class Pair(lie_jax.AbstractJointForce):
    def effort(self, t, x, rate, u):
        return jnp.stack([x, rate])


@pytest.mark.parametrize(
    ("force", "parts"),
    [
        (Branching, ("Branching.effort", "jax.lax.cond in the place of `if`")),
        (Pair, ("Pair.effort returns an array of shape (2,)", "one number")),
    ],
)
def test_efforts_that_are_none_are_refused(force, parts):
    mechanism = slider(forces=lambda joint: [force(joint)])
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    check_message(lambda: system.force(0.0, state.q, state.v, jnp.zeros(1)), *parts)


class Listed(lie_jax.contact.AbstractShape):
    def balls(self):
        return [[0.0, 0.0, 0.0]], [0.1]


class Flat(lie_jax.contact.AbstractShape):
    def distance(self, point):
        return point[2]


def test_shapes_that_return_something_else_are_refused():
    ball, ground = lie_jax.contact.Sphere("b", 0.5), lie_jax.contact.Plane("ground")
    listed = "Listed('b').balls returns", "(n, 3)"
    check_message(lambda: lie_jax.Contact(Listed("b"), ground, LAW), *listed)
    flat = "Flat('ground').distance returns", "[()]", "a normal (3,)"
    check_message(lambda: lie_jax.Contact(ball, Flat("ground"), LAW), *flat)


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


def test_shapes_that_do_not_touch_are_named():
    with pytest.raises(ValueError, match=r"Contact cannot take a Disc and a Bowl.*AbstractShape"):
        lie_jax.Contact(Disc("b", 0.3), Bowl("ground", 2.0), LAW)


class Reversed(lie_jax.RevoluteJoint):
    """A hinge that counts its angle the other way round."""

    def coordinates(self, parent, child):
        return -super().coordinates(parent, child)


def test_coordinates_of_ones_own_are_those_along_which_forces_act():
    """One newton metre along the reversed angle turns the body backwards about z."""
    hinge = Reversed("ground", "b", Z)
    body = lie_jax.Body("b", MASS, INERTIA * np.eye(3))
    motor = lie_jax.JointMotor(hinge, input=0)
    mechanism = lie_jax.Mechanism([body], [hinge], [motor], (0.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    force = system.force(0.0, state.q, state.v, jnp.ones(1))
    assert_allclose(force, [0, 0, 0, 0, 0, -1.0], atol=1e-12)
    parts = "Reversed('ground', 'b')", "[-0.3", "motions() have [0.3]"
    check_message(lambda: lie_jax.assemble(mechanism, lie_jax.Minimal()), *parts)


def test_joints_that_leave_a_mechanism_are_named():
    mechanism = pushed(3.0)
    without = eqx.tree_at(lambda m: m.joints, mechanism, ())
    check_message(lambda: lie_jax.assemble(without, lie_jax.R3SO3()), "none of the mechanism's")


class Stretched(HalfSine):
    def map(self, x):
        return super().map(x * jnp.asarray([1.0, 2.0, 1.0]))

    def inverse(self, q):
        return super().inverse(q) / jnp.asarray([1.0, 2.0, 1.0])


class Shifted(HalfSine):
    def map(self, x):
        return super().map(x + 0.01)


class Long(HalfSine):
    def map(self, x):
        return 1.1 * super().map(x)


@pytest.mark.parametrize(
    ("chart", "rule"),
    [(Stretched, "slopes at zero"), (Shifted, "inverse of the rotation"), (Long, "unit length")],
)
def test_charts_that_break_a_rule_are_refused(chart, rule):
    check_message(lambda: lie_jax.R3SO3(chart=chart()), f"is a {chart.__name__}", rule)


def test_losses_that_return_no_array_are_refused():
    def fit(loss):
        return lambda: lie_jax.identify(
            lambda a: a * np.ones(3), 1.0, np.ones(3), compare=loss, progress=False
        )

    check_message(fit(lambda p, o: (p - o, o)), "compare=", "returns a tuple", "one array")
    check_message(fit(lambda p, o: jnp.sum(p - o)), "compare=", "shape ()", "each sample")
