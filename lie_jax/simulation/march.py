"""One step of a run with steps of one size, and the time loop for any number of such steps."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, ArrayLike, Float, Int

from lie_jax.integrators.base import AbstractIntegrator, Step
from lie_jax.numerics import newton, pieces, rules
from lie_jax.numerics.conversion import strong
from lie_jax.simulation import limits
from lie_jax.simulation.instability import Growth
from lie_jax.simulation.policy import Feedback, Held
from lie_jax.simulation.trajectory import Restart, Result
from lie_jax.systems.system import AbstractSystem, Accelerations, State


class Loop(NamedTuple):
    """State between two steps, the carries of integrator and forces, and the record of the run.

    `held`: inputs that a policy holds over the last step, with its state, None without a policy.

    `taken` counts steps since time 0, `completed` those before the first failure, `iterations`
    their Newton iterations (`march` alone sums them). `result`, `residuals` and `worst` belong to
    the first failure. `stability` is the largest fourth power of h |λ| relative to the limit of
    stability, `growth` that of modes beyond it. `sides` are those of the joints when the run began.
    """

    state: State
    carry: Any
    memory: Any
    held: Held | None
    taken: Int[Array, ""]
    completed: Int[Array, ""]
    iterations: Int[Array, ""]
    result: Result
    residuals: Float[Array, " history"]
    worst: Int[Array, ""]
    stability: Float[Array, ""]
    growth: Growth
    sides: Array


class Sample(NamedTuple):
    """State, accelerations and the forces' memory at a saved instant, and the inputs u (nu,) of the
    accelerations, or None.
    """

    state: State
    accelerations: Accelerations
    memory: Any
    u: Array | None


class Beginning(NamedTuple):
    """Loop before the first step of a run, its sample, and what is kept of the start."""

    loop: "Loop"
    sample: Sample
    kept: Any


class Noted(NamedTuple):
    """Newton iterations of a step, and the inputs (nu,) that a policy held over it, or None."""

    iterations: Int[Array, ""]
    inputs: Array | None


class Run(NamedTuple):
    """Constants of a run: its equations, its step size dt (s), its inputs and its first step.

    `inputs` (steps, nu) or None, one row for each step; `first_step` counts from the time `t0` (s).
    `policy` computes the inputs instead, or is None. Automatic steps have `times` (n,), s: of the
    start, and of the instants at which "steps" in this sense end; dt is then the first size.
    `observe` computes the values that are kept of an instant in place of its sample, or is None.
    """

    system: AbstractSystem
    integrator: AbstractIntegrator
    dt: Float[Array, ""]
    inputs: Array | None
    first_step: Int[Array, ""]
    policy: Feedback | None = None
    t0: Float[Array, ""] | float = 0.0
    times: Float[Array, " n"] | None = None
    observe: Callable | None = None

    def time(self, step: Int[Array, "..."]) -> Float[Array, "..."]:
        """Time at which a step begins, s."""
        if self.times is not None:
            return self.times[step]
        return self.t0 + step.astype(self.dt.dtype) * self.dt

    def input(self, step: Int[Array, ""], held: Held | None) -> Array | None:
        """Input vector (nu,) of a step, counted from time 0, over which a policy has `held` some;
        None without inputs.
        """
        if held is not None:
            return held.u
        if self.inputs is None:
            return None
        return jax.lax.dynamic_index_in_dim(self.inputs, step - self.first_step, keepdims=False)

    def begin(self, start: State | Restart, passes: int = 0) -> Loop:
        """Loop before the first step, with new carries or with those of a restart; or before so
        many `passes` that complete the integrator's carry, each in place of a step.
        """
        if isinstance(start, Restart):
            state, carry, memory = start.state, start.carry, start.memory
            growth, u = start.growth, cast(Any, start.inputs)
            held = None if self.policy is None else Held(u, start.policy)
        else:
            state, t = start, self.time(self.first_step)
            memory = rules.stop_gradient(self.system.memory_after(t, state.q, state.v))
            held = None if self.policy is None else self.policy.begin(t, state)
            recalling, u = self.system.with_memory(memory), self.input(self.first_step, held)
            given = recalling, t, self.dt, state, u
            integrator = self.integrator
            carry = integrator.begin(*given, passes) if passes else integrator.init(*given)
            growth = None
        none = jnp.zeros((), jnp.int32)
        return Loop(
            state=state,
            carry=carry,
            memory=memory,
            held=held,
            taken=self.first_step,
            completed=self.first_step,
            iterations=none,
            result=Result.successful,
            residuals=jnp.full(self.integrator.history, newton.NONE, state.q.dtype),
            worst=none - 1,
            stability=jnp.zeros((), state.q.dtype),
            growth=Growth.begin(state.q) if growth is None else growth,
            sides=limits.sides(self.system, self.time(self.first_step), state.q),
        )

    def judge_start(self, loop: Loop) -> Loop:
        """Loop that has failed, and goes on with NaN, if its state is no start of a run."""
        result, worst = limits.start(self.system, self.time(self.first_step), loop.state)
        fine = result == Result.successful
        state = jax.tree.map(lambda x: jnp.where(fine, x, jnp.nan), loop.state)
        return loop._replace(state=state, result=result, worst=worst)

    def hold_inputs(self, loop: Loop) -> Loop:
        """Loop with the inputs that a policy holds over the step that begins."""
        if self.policy is None or loop.held is None:
            return loop
        t = self.time(loop.taken)
        return loop._replace(held=self.policy.hold(t, loop.taken, loop.state, loop.held))

    def step(self, loop: Loop) -> tuple[Loop, Noted]:
        """Loop after one step, and what is noted of the step; after a pass with another carry."""
        before, loop = loop, self.hold_inputs(loop)
        t, dt, u = self.time(loop.taken), self.dt, self.input(loop.taken, loop.held)
        system = self.system.with_memory(loop.memory)
        step = self.integrator.step(system, t, dt, loop.state, loop.carry, u)
        after, iterations = self.judge(loop, system, t, dt, step)
        starting = self.integrator.starting(before.carry)
        if starting is not None:
            before = before._replace(carry=after.carry)
            after = jax.tree.map(lambda a, b: jnp.where(starting, a, b), before, after)
        return after, Noted(iterations, None if loop.held is None else loop.held.u)

    def judge(
        self, loop: Loop, system: AbstractSystem, t: Array, dt: Array, step: Step
    ) -> tuple[Loop, Int[Array, ""]]:
        """Loop after a given step of size dt from time t (s), and the step's Newton iterations.

        `system` recalls the loop's memory.
        """
        verdict = limits.verdict(system, t + dt, dt, loop.state, step, loop.sides)
        # The backward pass needs no verdict but this.
        inside = checkpoint_name(verdict.inside, newton.FOUND)
        stability, growth = loop.stability, loop.growth
        fine, reason = verdict.valid, verdict.reason
        if step.stability is not None:
            larger = step.stability.rate > stability
            stability = jnp.where(larger, step.stability.rate, stability)
        if step.stability is not None and self.times is None:
            growth = growth.after(step.stability)
            # Projections fail where numbers overflow.
            overflow = (reason == Result.non_finite) | (reason == Result.newton_failed)
            explained = ~fine & growth.explains(step.stability, loop.growth, overflow)
            unstable = explained | fine & growth.unstable()
            fine, reason = fine & ~unstable, Result.where(unstable, Result.unstable, reason)
        if loop.held is not None:
            finite = loop.held.finite()
            fine, reason = fine & finite, Result.where(finite, reason, Result.input_not_finite)
        healthy = (loop.completed == loop.taken) & (loop.result == Result.successful)
        first_failure = healthy & ~fine
        residuals = jax.lax.stop_gradient(step.residuals)
        after = loop._replace(
            # Where a system cannot be left, `inside` is a constant, which XLA folds.
            state=jax.tree.map(lambda x: jnp.where(inside, x, jnp.nan), step.state),
            carry=step.carry,
            memory=verdict.memory,
            taken=loop.taken + 1,
            completed=loop.completed + (healthy & fine).astype(jnp.int32),
            result=Result.where(first_failure, reason, loop.result),
            residuals=jnp.where(first_failure, residuals, loop.residuals),
            worst=jnp.where(first_failure, verdict.worst, loop.worst),
            stability=stability,
            growth=growth,
        )
        return after, jnp.asarray(step.newton_iterations, jnp.int32)

    def values(self, t: Float[Array, ""], state: State) -> Any:
        """Values that are kept of a state at the time t, s."""
        assert self.observe is not None
        return jax.tree.map(strong, self.observe(t, state.q, state.v))

    def keep(self, loop: Loop, u: Array | None) -> Any:
        """What is kept of the loop's instant: values, or its sample with the inputs u."""
        if self.observe is None:
            return self.sample(loop, u)
        return self.values(self.time(loop.taken), loop.state)

    def sample(self, loop: Loop, u: Array | None, *, first: bool = False) -> Sample:
        """Sample of the loop's instant, with the inputs u of the step that ended there, or before
        the `first` step.
        """
        system, integrator = self.system.with_memory(loop.memory), self.integrator
        compute = integrator.first_accelerations if first else integrator.accelerations
        accelerations = compute(system, self.time(loop.taken), loop.state, loop.carry, u)
        return Sample(loop.state, accelerations, loop.memory, u)


def march(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: State | Loop,
    dt: ArrayLike,
    steps: ArrayLike,
    inputs: Array | None = None,
) -> Loop:
    """Loop after `steps` steps of size dt (s), from time 0 or from the loop of an earlier call.

    One compiled program serves all numbers of steps. Forward-mode derivatives go through it;
    reverse mode needs `lie_jax.simulate`, which saves what the backward pass recomputes from.
    A failed step leaves its reason in the loop's `result`. Arguments are not checked.
    """
    return _march(system, integrator, start, jnp.asarray(dt, float), jnp.asarray(steps), inputs)


@eqx.filter_jit
def _march(system, integrator, start, dt, steps, inputs):
    going_on = isinstance(start, Loop)
    dtype = (start.state if going_on else start).q.dtype
    first_step = start.taken if going_on else jnp.zeros((), jnp.int32)
    run = Run(system, integrator, dt.astype(dtype), inputs, first_step)

    def step(_, loop):
        healthy = loop.completed == loop.taken
        after, noted = pieces.cut_around(run.step)(loop)
        counted = healthy & (after.completed == after.taken)
        total = loop.iterations + jnp.where(counted, noted.iterations, 0)
        return after._replace(iterations=total)

    return jax.lax.fori_loop(0, steps, step, start if going_on else run.begin(start))
