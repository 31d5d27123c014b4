"""Parts of one's own that break a rule are refused by their names."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.messages import check_message
from tests.own_parts import INERTIA, LAW, MASS, Bowl, Disc, HalfSine, Z, pushed, slider


class Branching(lie_jax.extend.AbstractJointForce):
    def effort(self, t, x, rate, u):
        return 1.0 if x > 0.0 else -1.0


class Pair(lie_jax.extend.AbstractJointForce):
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


class Listed(lie_jax.extend.AbstractShape):
    def balls(self):
        return [[0.0, 0.0, 0.0]], [0.1]


class Flat(lie_jax.extend.AbstractShape):
    def distance(self, point):
        return point[2]


def test_shapes_that_return_something_else_are_refused():
    ball, ground = lie_jax.contact.Sphere("b", 0.5), lie_jax.contact.Plane("ground")
    listed = "Listed('b').balls returns", "(n, 3)"
    check_message(lambda: lie_jax.contact.Contact(Listed("b"), ground, LAW), *listed)
    flat = "Flat('ground').distance returns", "[()]", "a normal (3,)"
    check_message(lambda: lie_jax.contact.Contact(ball, Flat("ground"), LAW), *flat)


class Doubled(Bowl):
    def distance(self, point):
        height, normal = super().distance(point)
        return height, 2.0 * normal


class Squared(Bowl):
    def distance(self, point):
        return self.radius**2 - point @ point, super().distance(point)[1]


class Inward(Bowl):
    def distance(self, point):
        height, normal = super().distance(point)
        return height, -normal


class Turned(Disc):
    def support(self, direction):
        return -super().support(direction)


@pytest.mark.parametrize("shape", [Doubled, Squared, Inward])
def test_grounds_whose_normals_are_not_those_of_the_distance_are_refused(shape):
    ball = lie_jax.contact.Sphere("b", 0.1)
    with pytest.raises(ValueError, match=rf"{shape.__name__}.*distance: on the surface.*unit"):
        lie_jax.contact.Contact(ball, shape("ground", 2.0), LAW)
    # Values that JAX traces are not known.
    jax.jit(lambda r: lie_jax.contact.Contact(ball, shape("ground", r), LAW).shapes[1].radius)(2.0)


def test_supports_that_are_not_farthest_are_refused():
    with pytest.raises(ValueError, match=r"Turned.*support\(.*farther along.*sign"):
        lie_jax.contact.Contact(Turned("b", 0.3), lie_jax.contact.Plane("ground"), LAW)


def test_shapes_that_do_not_touch_are_named():
    with pytest.raises(ValueError, match=r"Contact cannot take a Disc and a Bowl.*AbstractShape"):
        lie_jax.contact.Contact(Disc("b", 0.3), Bowl("ground", 2.0), LAW)


class Reversed(lie_jax.RevoluteJoint):
    """A hinge that counts its angle the other way round."""

    def coordinates(self, parent, child):
        return -super().coordinates(parent, child)


@pytest.mark.full
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
        return lambda: lie_jax.estimation.identify(
            lambda a: a * np.ones(3), 1.0, np.ones(3), compare=loss, progress=False
        )

    check_message(fit(lambda p, o: (p - o, o)), "compare=", "returns a tuple", "one array")
    check_message(fit(lambda p, o: jnp.sum(p - o)), "compare=", "shape ()", "each sample")
