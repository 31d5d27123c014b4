"""A ball that falls and bounces: runs with events whose results are known."""

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from lie_jax.spaces.base import Rn

# A ball of gravity 9.81 m/s² from 1 m with the restitution 0.8: height after 0.8 s, its derivatives
# by the height and the restitution, and the times of impacts, from closed forms.
DROP = jnp.asarray(1.0), jnp.asarray(0.8)
HEIGHT, BY_HEIGHT, BY_RESTITUTION = 0.639203562020829, 0.589201781010415, 1.54355753445602
IMPACTS = 0.451523640986, 1.17396146656, 1.75191172702, 2.21427193539, 2.58416010209
ZENO = 4.06371276887158
# Digits that are known of the closed forms, and rounding of some ten operations on numbers of one.
DIGITS, ROUNDING = 1e-10, 1e-13


class Falling(lie_jax.extend.AbstractSystem):
    """Points above the ground, each of one coordinate."""

    gravity: jax.Array
    n: int

    @property
    def space(self):
        return Rn(self.n)

    def mass_matrix(self, q):
        return jnp.eye(self.n, dtype=q.dtype)

    def force(self, t, q, v, u=None):
        return -self.gravity * jnp.ones_like(q)


BALL, RK4 = Falling(jnp.asarray(9.81), 1), lie_jax.RKMK("rk4")


def height(t, q, v):
    return q[0]


def noted(t, q, v):
    return q, v


def impact(restitution, point=0):
    """Impact of a point on the ground."""

    def reversed_(t, q, v):
        return q, jnp.where(jnp.arange(len(v)) == point, -restitution * v, v)

    return lie_jax.Event(lambda t, q, v: q[point], reversed_, direction=-1)


def dropped(drop, steps=17, end=0.8, integrator=RK4, **options):
    start, restitution = drop
    state = lie_jax.State(start[None], jnp.zeros(1, start.dtype))
    options = {"dt": end / steps, "steps": steps, "events": [impact(restitution)]} | options
    return lie_jax.simulate(BALL, integrator, state, **options)


def automatic(*times):
    """Options of a run with automatic steps to the given times."""
    adaptive = lie_jax.Adaptive(rtol=1e-11, atol=1e-11)
    return {"dt": 0.01, "steps": 300, "adaptive": adaptive, "save": jnp.asarray(times)}


DOPRI5, RADAU5 = lie_jax.RKMK("dopri5"), lie_jax.ImplicitRKMK("radau5")


def bounced(start, restitution, end=0.8):
    """Times of impacts, and the height at the end, in closed form."""
    t, v, times = np.sqrt(2.0 * start / 9.81), np.sqrt(2.0 * 9.81 * start), []
    while t < end:
        times.append(t)
        v = restitution * v
        if t + 2.0 * v / 9.81 > end:
            return times, v * (end - t) - 0.5 * 9.81 * (end - t) ** 2
        t = t + 2.0 * v / 9.81
    raise AssertionError("no impact")
