"""Checks before a simulation starts."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from lie_jax import checks, index1
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.integrators.step_size import Adaptive
from lie_jax.numerics import conversion, memory
from lie_jax.numerics.checkpointing import ADJOINTS
from lie_jax.simulation import fingerprints, march
from lie_jax.simulation.trajectory import Restart
from lie_jax.system import AbstractSystem, State


class Options(NamedTuple):
    """What a simulation is asked for beside system, integrator, state and step size."""

    steps: int
    inputs: ArrayLike | None
    save_every: int = 1
    checkpoint: int | None = None
    progress: bool = False
    adaptive: Adaptive | None = None
    adjoint: str = "stored"


def as_jax(system: Any, start: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """System, state and inputs with JAX's arrays, in the state's precision, in the place of NumPy's
    floats; of inputs in the place of lists and integers, too. `check` refuses what is neither.
    """

    def converted(tree: Any, dtype: Any) -> Any:
        def leaf(x: Any) -> Any:
            is_float = isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating)
            return conversion.in_precision(x, dtype) if is_float else x

        return jax.tree.map(leaf, tree)

    start = converted(start, None)
    state = start.state if isinstance(start, Restart) else start
    dtype = getattr(getattr(state, "q", None), "dtype", None)
    return converted(system, dtype), start, conversion.in_precision(inputs, dtype)


def check(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: State | Restart,
    dt: Any,
    options: Options,
) -> Array | np.ndarray:
    """Raise `ValueError` for what `lie_jax.simulate` cannot do.

    Returns whether constraints are redundant.
    """
    steps, inputs, save_every, checkpoint, _, adaptive, adjoint = options
    if not isinstance(system, AbstractSystem):
        raise ValueError(
            f"simulate(system=) is a {type(system).__name__}; it must be a system. "
            "lie_jax.assemble returns the pair (system, state): unpack it."
        )
    if not isinstance(integrator, AbstractIntegrator):
        raise ValueError(
            f"simulate(integrator=) is {integrator!r}; it must be an integrator, for example "
            "lie_jax.RKMK('rk4') or lie_jax.GeneralizedAlpha(): the order of the arguments is "
            "system, integrator, state."
        )
    integrator.check(system)
    if not isinstance(start, State | Restart):
        raise ValueError(
            f"simulate(state=) is a {type(start).__name__}; it must be a lie_jax.State(q, v), as "
            "lie_jax.assemble returns it, or the restart of a trajectory."
        )
    restart, state = (start, start.state) if isinstance(start, Restart) else (None, start)
    checks.shape("the initial state's q", state.q, (system.nq,), "the system's coordinates")
    checks.shape("the initial state's v", state.v, (system.nv,), "the system's velocities")
    for name, value in (("q", state.q), ("v", state.v)):
        checks.finite(f"the initial state's {name}", value)
    checks.positive("simulate(dt=)", dt, "s")
    checks.positive_integer("simulate(steps=)", steps, "the number of steps")
    checks.positive_integer("simulate(save_every=)", save_every, "steps between saved instants")
    if save_every > steps:
        raise ValueError(
            f"simulate(save_every=) is {save_every}, more than steps={steps}: no instant after the "
            "first would be saved; take at most the number of steps."
        )
    if checkpoint is not None:
        checks.positive_integer("simulate(checkpoint=)", checkpoint, "steps in a block")
    checks.one_of("simulate(adjoint=)", adjoint, ADJOINTS)
    if adjoint == "recursive" and checkpoint == 1:
        raise ValueError(
            "simulate(checkpoint=) is 1; with adjoint='recursive' it must be at least 2, the "
            "number of blocks side by side: take more, or leave it out for the root of steps."
        )
    if inputs is not None:
        checks.finite("simulate(inputs=)", inputs)
    if inputs is not None and (np.ndim(inputs) != 2 or np.shape(inputs)[0] != steps):
        raise ValueError(
            f"simulate(inputs=) has shape {np.shape(inputs)}; it must have shape ({steps}, nu): "
            "one input vector for each step."
        )
    given = 0 if inputs is None else np.shape(inputs)[1]
    if given < system.nu:
        raise ValueError(
            f"simulate(inputs=) holds {given} inputs a step, but the forces read {system.nu}; it "
            f"must have shape ({steps}, {system.nu}): give a column for each input."
        )
    if adaptive is not None:
        _check_adaptive(integrator, options)
    _check_memory(system, state, options)
    t = jnp.zeros((), state.q.dtype)
    if restart is not None:
        _check_restart(system, integrator, restart, dt, options)
        t = restart.steps.astype(t.dtype) * restart.dt
    checks.one_precision(
        [("system", system), ("state", start), ("inputs", inputs), ("adaptive", adaptive)]
    )
    if checks.traced(system, start):
        return index1.redundant_under_tracing(system, t, state.q)
    if restart is not None:
        # Its velocities violate the constraints by what the integrator leaves.
        return _violations(system, t, state)[-1]
    return _check_consistency(system, t, state)


# Trajectories below this need no look at what is free.
_SMALL = 2**28


def _check_memory(system: AbstractSystem, state: State, options: Options) -> None:
    # As integers of any size: those of NumPy overflow.
    steps, save_every = int(options.steps), int(options.save_every)
    instants = steps // save_every + 1
    if options.adaptive and options.adaptive.times is not None:
        instants = len(options.adaptive.times) + 1
    each = (system.nq + 2 * system.nv + system.nc) * state.q.dtype.itemsize
    # The initial instant is joined to the others: there are two copies at a time.
    needed = 2 * instants * each + 8 * steps
    if needed < _SMALL:
        return
    free = memory.of_device(jax.devices()[0])
    if needed > free:
        fewer = save_every * 10 ** math.ceil(math.log10(needed / free))
        remedy = (
            "name fewer instants by Adaptive(times=...)"
            if options.adaptive
            else f"save fewer of them, for example by save_every={fewer}"
        )
        raise ValueError(
            f"simulate(steps=) is {steps}: its {instants} saved instants of "
            f"{each // state.q.dtype.itemsize} numbers take {needed / 1e9:.3g} GB, and "
            f"{free / 1e9:.3g} GB of memory are free; {remedy}, or simulate in pieces, each from "
            "the restart of the one before."
        )


def _check_adaptive(integrator: AbstractIntegrator, options: Options) -> None:
    if not isinstance(options.adaptive, Adaptive):
        raise ValueError(
            f"simulate(adaptive=) is {options.adaptive!r}; it must be a lie_jax.Adaptive(...)."
        )
    if integrator.embedded_order is None:
        raise ValueError(
            f"simulate(adaptive=): {type(integrator).__name__} has no estimate of its error here; "
            "use a tableau with embedded weights, for example lie_jax.RKMK('dopri5')."
        )
    for name, given, instead in (
        ("inputs", options.inputs is not None, "let a force depend on time"),
        ("save_every", options.save_every != 1, "name the instants by Adaptive(times=...)"),
        ("progress", options.progress, "leave it out"),
    ):
        if given:
            raise ValueError(
                f"simulate({name}=) is for steps of one size; with adaptive= {instead}."
            )


def _check_restart(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    restart: Restart,
    dt: Any,
    options: Options,
) -> None:
    if options.adaptive is not None:
        raise ValueError(
            "simulate(state=) is a Restart; it is for steps of one size: with adaptive= start from "
            "its `state`, at time 0."
        )
    if not checks.traced(dt, restart.dt) and float(dt) != float(restart.dt):
        raise ValueError(
            f"simulate(dt=) is {float(dt)!r}, and the run that is continued had steps of "
            f"{float(restart.dt)!r} s; both must be one number: take that one, or start from the "
            "restart's `state`, at time 0."
        )

    if restart.origin is not None and not checks.traced(restart.origin):
        origin = np.asarray(restart.origin)
        different = fingerprints.difference(origin, integrator=integrator, system=system)
        if different is not None:
            name, value = different
            raise ValueError(
                f"simulate(state=) is the Restart of a run with another {name}, which is {value} "
                "now; a run goes on with its own integrator and system: pass those, or start anew "
                "from the restart's `state`, at time 0."
            )

    def kept(start: State | Restart) -> Any:
        run = march.Run(system, integrator, restart.dt, options.inputs, restart.steps)
        loop = march.begin(run, start)
        return loop.carry, loop.memory

    wanted, found = (eqx.filter_eval_shape(kept, s) for s in (restart.state, restart))
    if not eqx.tree_equal(wanted, found):
        raise ValueError(
            f"simulate(integrator=) is {integrator!r}, and the run that is continued was made by "
            "another one, or of another system: take the same, or start anew from the restart's "
            "`state`, at time 0."
        )


def _check_consistency(system: AbstractSystem, t: Array, state: State) -> Array:
    reason = system.space.invalid(np.asarray(state.q))
    if reason is not None:
        raise ValueError(f"the initial state's q is not a valid configuration: {reason}.")
    if not system.nc:
        return jnp.zeros((), bool)
    *violations, redundant = _violations(system, t, state)
    if checks.traced(violations):
        return redundant
    position, velocity, scale = (np.asarray(x) for x in violations)
    slack = np.sqrt(np.finfo(position.dtype).eps) * float(scale)
    for what, value, unit in (
        ("position", position, "m for points, about rad for directions"),
        ("velocity", velocity, "m/s for points, about rad/s for directions"),
    ):
        sizes = np.abs(value)
        worst = float(sizes.max(initial=0.0))
        if not worst <= slack:
            owner = system.owner(system.nv + int(sizes.argmax()))
            raise ValueError(
                f"the initial state violates the {what} constraints by {worst:.3g} ({unit}), the "
                f"most in {owner}; at most {slack:.1g} is allowed: correct it, or use "
                "lie_jax.project(system, state), a state nearby that satisfies them."
            )
    return redundant


@eqx.filter_jit
def _violations(system: AbstractSystem, t: Array, state: State):
    position = system.constraint(t, state.q)
    velocity = system.constraint_rate(t, state.q, state.v)
    # Lengths and speeds that the constraints are made of, to judge the rounding in them.
    scale = 1.0 + jnp.max(jnp.abs(state.q)) + jnp.max(jnp.abs(state.v))
    return position, velocity, scale, index1.redundant(system, t, state.q)
