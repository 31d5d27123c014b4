"""`newton="auto"` keeps matrices where a system says that it pays, and finds the same steps."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import contact
from lie_jax.systems.algebra import Algebra
from models import double_pendulum, flying_beam
from tests.systems import OnALine

# Both searches end at the level of rounding.
SAME_SOLUTION = 1e-11
DT = 0.02


def four_springs(*more):
    inertia = np.diag([0.1, 0.2, 0.15])
    bodies = [
        lie_jax.Body(f"body {k}", 1.0, inertia, position=(1.0 + k, 0.0, 0.0)) for k in range(4)
    ]
    names = ["ground", *(body.name for body in bodies)]
    springs = [
        lie_jax.LinearSpringDamper(*pair, stiffness=1e3, damping=0.0, length=0.9)
        for pair in itertools.pairwise(names)
    ]
    mechanism = lie_jax.Mechanism(bodies, forces=[*springs, *more])
    return lie_jax.assemble(mechanism, lie_jax.SE3())[0]


class Drag(lie_jax.extend.AbstractForce):
    """A force of one's own, of which nothing is known."""

    body: str = eqx.field(static=True, metadata=lie_jax.extend.fields.BODY)

    def wrenches(self, t, poses, velocities, u):
        return (lie_jax.extend.Wrench(-velocities[0].linear, jnp.zeros(3)),)


@pytest.mark.parametrize(
    ("system", "keeps"),
    [
        (lambda: four_springs(), True),
        (lambda: four_springs(lie_jax.PointForce("body 0", (1.0, 0.0, 0.0))), True),
        (lambda: four_springs(Drag("body 0")), False),
        (
            lambda: four_springs(
                lie_jax.contact.Contact(
                    contact.Plane("ground"),
                    contact.Sphere("body 0", 0.1),
                    contact.HuntCrossley(1e5),
                    None,
                )
            ),
            False,
        ),
        (lambda: double_pendulum.build()[0], False),
    ],
    ids=["springs", "with a load", "own force", "contact", "joints"],
)
def test_smooth_forces_without_constraints_keep_matrices(system, keeps):
    assert system().algebra.slow_to_linearize is keeps


def flight(newton, bending):
    system, state = flying_beam.build(4, spatial=True, bending=bending)
    method = lie_jax.GeneralizedAlpha(0.9, newton=newton)
    return lie_jax.simulate(system, method, state, dt=DT, steps=12, save=12)


@pytest.mark.full
def test_kept_matrices_find_the_same_motion_and_derivatives_and_batches_keep_none():
    bendings = jnp.asarray([400.0, 600.0])

    def result(newton, bending):
        run = flight(newton, bending)
        return run.q[-1], run.stats.newton_iterations

    def slope(newton, bending):
        return jax.jvp(lambda b: result(newton, b)[0], (bending,), (1.0,))[1]

    one, other = (result(newton, 400.0) for newton in ("auto", "full"))
    assert one[1].max() > other[1].max()
    assert_allclose(one[0], other[0], atol=SAME_SOLUTION)
    batch = jax.jit(jax.vmap(partial(result, "auto")))(bendings)
    assert_allclose(batch[0][0], other[0], atol=SAME_SOLUTION)
    assert (batch[1][0] == other[1]).all()
    slopes = [jax.jit(partial(slope, newton))(400.0) for newton in ("auto", "full")]
    assert_allclose(*slopes, atol=SAME_SOLUTION)


class KeptMatrices(Algebra):
    """Algebra that asks for kept matrices."""

    slow_to_linearize = True


class Springs(OnALine):
    """A hard spring whose system asks for kept matrices."""

    @property
    def algebra(self):
        return KeptMatrices(self)

    def force(self, t, q, v, u=None):
        return -30.0 * jnp.sinh(q)


def test_a_system_of_its_own_may_ask_for_kept_matrices():
    state = lie_jax.State([1.5], [0.0])
    ends, iterations = [], []
    for newton in ("auto", "full"):
        method = lie_jax.GeneralizedAlpha(0.9, newton=newton)
        run = lie_jax.simulate(Springs(), method, state, dt=DT, steps=50)
        ends.append(run.q)
        iterations.append(np.asarray(run.stats.newton_iterations))
    assert_allclose(*ends, atol=SAME_SOLUTION)
    assert iterations[0].mean() > iterations[1].mean()
    many = jax.vmap(
        lambda x: (
            lie_jax.simulate(
                Springs(),
                lie_jax.GeneralizedAlpha(0.9),
                lie_jax.State(x, jnp.zeros(1)),
                dt=DT,
                steps=50,
            ).stats.newton_iterations
        )
    )(jnp.asarray([[1.5], [1.0]]))
    assert (many[0] == iterations[1]).all()
