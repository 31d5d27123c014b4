"""Feedback: inputs that a function of the motion computes, held from sample to sample."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lie_jax import checks
from lie_jax.multibody.arguments import check_surplus
from lie_jax.numerics.conversion import in_precision, real_shape, strong
from lie_jax.simulation.trajectory import Restart
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import closures, libraries, snapshots

# Relative difference of a sample time and a multiple of dt that rounding of both explains.
_ROUNDING = 1e-6


def _watch(value: Any) -> Any:
    return snapshots.watch(value) if callable(value) else value


class Policy(eqx.Module):
    """Feedback with a sample time or a state of its own: `simulate(..., policy=Policy(...))`.

    A digital controller: the function is evaluated at samples, and its inputs are held in between.

    **Arguments:**

    - `function(t, q, v)`: input vector u (nu,), of the time (s), the configuration (nq,) and the
      velocity (nv,) at the sample. With a `state` it is `function(t, q, v, state)` and returns the
      pair (u, state), the state in the same form.
    - `sample_time`: time from sample to sample (s), a multiple of dt; the first sample is at the
      start of the run. By default each step begins with a sample.
    - `state`: initial value of the policy's own memory, such as the integral of an error, a filter
      or a hidden layer: an array, or a tuple or dictionary of them.

    The function is pure, of `jax.numpy`. An `equinox.Module` with `__call__`, such as a network,
    or a `jax.tree_util.Partial`, has parameters with derivatives, as have the `state` and values of
    JAX that a function closes over. Raises `ValueError` for anything else.
    """

    function: Callable = eqx.field(converter=_watch)
    sample_time: float | None = eqx.field(static=True, default=None)
    state: Any = None

    def __check_init__(self):
        arguments = ("t", "q", "v") if self.state is None else ("t", "q", "v", "state")
        checks.function("Policy(function=)", self.function, *arguments)
        if self.sample_time is not None:
            if checks.has_tracers(self.sample_time):
                raise ValueError(
                    "Policy(sample_time=) is traced by JAX; it must be a number, which chooses the "
                    "steps that begin with a sample: pass it from outside of the transformation."
                )
            checks.positive("Policy(sample_time=)", self.sample_time, "s")
            # A number of Python: static values are hashed.
            object.__setattr__(self, "sample_time", float(self.sample_time))


class Held(NamedTuple):
    """Inputs u (nu,) that a policy holds, and the policy's state, () without one."""

    u: Array
    state: Any

    def finite(self) -> Bool[Array, ""]:
        """Whether the inputs are finite."""
        return jnp.isfinite(jnp.sum(jax.lax.stop_gradient(self.u)))


class Feedback(NamedTuple):
    """Policy in a run: its function, the steps from sample to sample, None for one, and its state
    at time 0.
    """

    function: Callable
    every: Int[Array, ""] | np.ndarray | None
    state: Any

    def begin(self, t: Float[Array, ""], now: State) -> Held:
        """First inputs, with the state before the first sample."""
        return self.sample(t, now, self.state)._replace(state=self.state)

    def sample(self, t: Float[Array, ""], now: State, state: Any) -> Held:
        """Inputs and state after a sample at the time t (s)."""
        at = t, now.q, now.v
        u, after = self.function(*at, state) if _has(state) else (self.function(*at), state)
        return Held(jnp.asarray(u, now.q.dtype), jax.tree.map(strong, after))

    def hold(self, t: Float[Array, ""], step: Int[Array, ""], now: State, before: Held) -> Held:
        """Inputs and state over a step, counted from time 0, that begins at the time t (s)."""
        if self.every is None:
            return self.sample(t, now, before.state)
        return jax.lax.cond(
            step % self.every == 0,
            lambda: self.sample(t, now, before.state),
            lambda: before,
        )


def _has(state: Any) -> bool:
    """Whether there is a state: without one the function has no such argument."""
    return not (isinstance(state, tuple) and state == ())


def prepare(
    policy: Any, system: AbstractSystem, start: State | Restart, dt: Any, inputs: Any
) -> tuple[Policy, Feedback]:
    """Policy, and how a run evaluates it, its functions frozen for the time of the call.

    Traced values that functions close over become parameters. Raises `ValueError` for what is no
    policy, for inputs or states of the wrong shape, and for samples that fall between steps.
    """
    if inputs is not None:
        raise ValueError(
            "simulate(policy=) and simulate(inputs=) are both given; the inputs of a run come from "
            "one of them: leave one out, or add the known inputs in the policy."
        )
    if not isinstance(policy, Policy):
        checks.function("simulate(policy=)", policy, "t", "q", "v")
        policy = Policy(policy)
    policy = snapshots.freeze(policy)
    state = start.state if isinstance(start, Restart) else start
    memory = () if policy.state is None else _arrays(policy.state, state.q.dtype)
    at: dict[str, Any] = {"t": jnp.zeros((), state.q.dtype), "q": state.q, "v": state.v}
    if policy.state is not None:
        at["state"] = memory
    call = f"simulate(policy=): its function({', '.join(at)})"
    u = closures.shapes("simulate(policy=): its function", policy.function, at)
    if policy.state is not None:
        if not isinstance(u, tuple | list) or len(u) != 2:
            raise ValueError(
                f"{call} returns one value; of a Policy with a state it must return the pair "
                "(u, state), the inputs and the state after the sample."
            )
        u, after = u
        _check_state(call, after, memory)
    checks.real(f"simulate(policy=): the value that its function({', '.join(at)}) returns", u)
    shape = real_shape(u) or ()
    if len(shape) != 1 or shape[0] < system.nu:
        raise ValueError(
            f"{call} returns inputs of shape {shape}; they must have shape ({system.nu},), a "
            "number for each input that the forces read: return a vector, such as jnp.stack([...])."
        )
    check_surplus(f"{call} returns", shape[0], system)
    function = closures.convert(policy.function, *at.values())
    return policy, Feedback(function, _every(policy.sample_time, dt), memory)


def _arrays(state: Any, dtype: Any) -> Any:
    """State of a policy with floats of Python and NumPy in the precision of the run."""

    def array(x: Any) -> Any:
        known = isinstance(x, jax.Array)
        is_float = isinstance(x, float) or jnp.issubdtype(getattr(x, "dtype", int), jnp.floating)
        return strong(in_precision(x, dtype) if is_float and not known else x)

    return jax.tree.map(array, state)


def _check_state(call: str, after: Any, before: Any) -> None:
    if jax.tree.structure(after) != jax.tree.structure(before):
        raise ValueError(
            f"{call} returns a state of another structure, {jax.tree.structure(after)}, than "
            f"Policy(state=), {jax.tree.structure(before)}: return it in the same form."
        )
    named = jax.tree_util.tree_leaves_with_path(before)
    for (path, old), new in zip(named, jax.tree.leaves(after), strict=True):
        if (tuple(np.shape(new)), new.dtype) != (old.shape, old.dtype):
            raise ValueError(
                f"{call} returns the state{jax.tree_util.keystr(path)} as {new.dtype} of shape "
                f"{tuple(np.shape(new))}; Policy(state=) has {old.dtype} of shape {old.shape}: "
                "return it in the same form."
            )


def warn_of_one_sample(policy: Policy, feedback: Feedback, steps: int) -> None:
    """Warn of a sample time beyond the end of a run, as one that was meant as a rate."""
    if feedback.every is None or int(feedback.every) <= int(steps):
        return
    time = policy.sample_time or 0.0
    rate = f": for {time:.9g} Hz give {1.0 / time:.9g}" if time > 1.0 else ""
    libraries.warn(
        f"Policy(sample_time=) is {time:.9g} s, {int(feedback.every)} steps, and the run has "
        f"{int(steps)}: the only sample is the one at its start. It is a time in s{rate}."
    )


def _every(sample_time: float | None, dt: Any) -> np.ndarray | None:
    """Number of steps from sample to sample."""
    if sample_time is None:
        return None
    if checks.has_tracers(dt):
        raise ValueError(
            "simulate(dt=) is traced by JAX, and Policy(sample_time=) must be a multiple of it: "
            "pass dt from outside of the transformation, or leave sample_time out."
        )
    size = float(dt)
    every = max(1, round(sample_time / size))
    if abs(sample_time / size - every) > _ROUNDING * every:
        raise ValueError(
            f"Policy(sample_time=) is {sample_time:.9g} s; it must be a multiple of simulate(dt=), "
            f"which is {size:.9g} s: take sample_time={every * size:.9g}, or "
            f"dt={sample_time / every:.9g}."
        )
    return np.asarray(every, np.int32)
