"""A quadruped trots: its feet leave the ground in diagonal pairs and come down again."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from models import quadruped

END, INSTANTS = 1.0, 200
# s; N m in the knees, and half of it in the hips, opposite: the foot stays below its hip.
PERIOD, TORQUE = 0.5, 40.0
# N m, backwards in the hips of legs on the ground.
SWEEP = 8.0
# m: what runs with two tolerances may differ by, and how high feet rise.
APART, HIGH = 1e-3, 0.01


class Lifting(lie_jax.extend.AbstractForce):
    """A torque about y between two bodies, in one half of each period; twice differentiable."""

    parent: str = lie_jax.extend.fields.body_name()
    child: str = lie_jax.extend.fields.body_name()
    torque: jax.Array = eqx.field(converter=jnp.asarray)

    def wrenches(self, t, poses, velocities, u):
        push = jnp.maximum(jnp.sin(2.0 * jnp.pi * t / PERIOD) * jnp.sign(self.torque[1]), 0.0)
        axis = poses[0].rotation[:, 1]
        moment = self.torque[0] * push**3 * axis
        none = jnp.zeros_like(moment)
        on = [lie_jax.extend.Wrench(none, pose.rotation.T @ moment) for pose in poses]
        return lie_jax.extend.Wrench(none, -on[0].torque), on[1]


def trotting():
    """The robot with torques that lift its legs, the front left one's pair first."""
    others = []
    for leg in quadruped.LEGS:
        knee = -1.0 if "front" in leg else 1.0
        first = 1.0 if leg in ("front left", "rear right") else -1.0
        hip, thigh, shank = (f"{leg} {part}" for part in quadruped.PARTS)
        others.append(Lifting(thigh, shank, (knee * TORQUE, first)))
        others.append(Lifting(hip, thigh, (-0.5 * knee * TORQUE, first)))
        others.append(Lifting(hip, thigh, (SWEEP, -first)))
    return quadruped.build(others=others)


def trot(system, state, tolerance, integrator):
    adaptive = lie_jax.Adaptive(rtol=tolerance, atol=tolerance)
    options = {
        "dt": 1e-4,
        "steps": 100_000,
        "adaptive": adaptive,
        "save": jnp.linspace(END / INSTANTS, END, INSTANTS),
        "throw": False,
    }
    return lie_jax.simulate(system, integrator, state, **options)


@pytest.mark.full
def test_a_trot_ends_in_the_same_place_whatever_the_tolerance_and_the_method():
    """The trunk goes 4 cm forwards and 3 cm aside in 1 s, with two steps and more of each foot."""
    system, state = trotting()
    ends = []
    for integrator in (lie_jax.BDF(3), lie_jax.GeneralizedAlpha(0.8, index=2)):
        run = jax.jit(lambda tolerance, method=integrator: trot(system, state, tolerance, method))
        for tolerance in (1e-6, 1e-8):
            trajectory = run(tolerance)
            assert trajectory.result == lie_jax.Result.successful
            gaps = np.asarray(
                jax.vmap(system.contacts)(trajectory.t, trajectory.q, trajectory.v).gap
            )
            lifted = gaps > 0.0
            assert np.all(gaps.max(axis=0) > HIGH)
            assert np.all(np.sum(lifted[1:] & ~lifted[:-1], axis=0) >= 2)
            assert np.all(np.sum(lifted[:-1] & ~lifted[1:], axis=0) >= 2)
            ends.append(system.poses(trajectory.q[-1])[1][0])
    ends = np.asarray(ends)
    apart = np.linalg.norm(ends[:, None] - ends[None], axis=2)
    # Measured: 2.4e-6 m.
    assert apart.max() < APART
