"""Estimates of the error for methods without an embedded one: each step whole, and in two halves.

A method of order p errs by C h^(p+1) in a step of size h, and by C h^(p+1) / 2^p in two of half the
size. The difference of their ends over 2^p - 1 is the error of the halves. Their end is that of the
step: an extrapolated one would violate constraints and have no damping of the method.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from typing_extensions import override

from lie_jax.integrators.base import AbstractIntegrator, Difference, Step
from lie_jax.numerics import rules
from lie_jax.systems.system import accelerations_and_multipliers


class Doubled(AbstractIntegrator):
    """Two steps of a method as one, with an estimate of its error.

    **Arguments:** `method`: an integrator whose steps may have any sizes; `order`: its order.
    Accelerations and multipliers of a trajectory follow from positions and velocities.
    """

    method: AbstractIntegrator
    order: int = eqx.field(static=True)

    @property
    @override
    def embedded_order(self):
        return self.order

    @override
    def check(self, system):
        self.method.check(system)

    @override
    def init(self, system, t, dt, state, u):
        return self.method.init(system, t, 0.5 * dt, state, u)

    @override
    def step(self, system, t, dt, state, carry, u):
        def advance(now, t):
            state, carry = now
            step = self.method.step(system, t, 0.5 * dt, state, carry, u)
            return (step.state, step.carry), step

        # Two steps in a loop compile as one.
        times = jnp.stack([t, t + 0.5 * dt])
        (end, after), halves = jax.lax.scan(advance, (state, carry), times)
        # Sizes of steps are constants for derivatives.
        method, there, start, kept = rules.stop_gradient((self.method, system, state, carry))
        whole = method.step(there, t, dt, start, kept, u)
        known, space, share = rules.stop_gradient(end), system.space, 1.0 / (2**self.order - 1)
        apart = space.inverse_retract(known.q, whole.state.q)
        apart = space.tangent_operator(jnp.zeros_like(apart), apart)
        iterations, failed = halves.newton_iterations, jnp.argmin(halves.converged)
        halved = jnp.all(halves.converged)
        return Step(
            state=end,
            carry=after,
            newton_iterations=jnp.sum(iterations, dtype=jnp.int32) + whole.newton_iterations,
            converged=halved & whole.converged,
            worst=jnp.where(halved, whole.worst, jnp.asarray(halves.worst)[failed]),
            error=Difference(share * apart, share * (whole.state.v - known.v)),
        )

    @override
    def accelerations(self, system, t, state, carry, u):
        return accelerations_and_multipliers(system, t, state.q, state.v, u)
