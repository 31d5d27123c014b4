"""Checks of the arguments of a simulation, one function for each subject."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lie_jax import checks
from lie_jax.integrators.base import AbstractIntegrator
from lie_jax.integrators.step_size import Adaptive
from lie_jax.multibody.arguments import check_surplus, check_system
from lie_jax.numerics import conversion, memory, padding, programs
from lie_jax.numerics.checkpointing import ADJOINTS
from lie_jax.simulation import fingerprints, march
from lie_jax.simulation.policy import Feedback, Policy, warn_of_one_sample
from lie_jax.simulation.saving import EACH_STEP, Saving
from lie_jax.simulation.trajectory import Restart
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions.reader import name_of


def as_jax(system: Any, start: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """System, state and inputs with floats of NumPy as arrays of JAX in the state's precision.

    Lists and integers in the inputs become arrays, too. Other values stay for `check` to refuse.
    """

    def convert(tree: Any, dtype: Any) -> Any:
        def leaf(x: Any) -> Any:
            is_float = isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating)
            return conversion.in_precision(x, dtype) if is_float else x

        return jax.tree.map(leaf, tree)

    start = convert(start, None)
    state = start.state if isinstance(start, Restart) else start
    dtype = getattr(getattr(state, "q", None), "dtype", None)
    return convert(system, dtype), start, conversion.in_precision(inputs, dtype)


def check_start(system: Any, integrator: Any, start: Any, dt: Any) -> None:
    """Raise `ValueError` for no system, integrator, state or step size of a simulation."""
    _check_types(system, integrator, start)
    restart, state = (start, start.state) if isinstance(start, Restart) else (None, start)
    if restart is not None and not checks.has_tracers(restart.steps) and int(restart.steps) < 0:
        raise ValueError(
            "simulate(state=) is the Restart of a run that an event has stopped, which has no "
            "further steps: start anew from State(trajectory.q[-1], trajectory.v[-1]), with "
            "t0=trajectory.t[-1]."
        )
    checks.shape("the initial state's q", state.q, (system.nq,), "the system's coordinates")
    checks.shape("the initial state's v", state.v, (system.nv,), "the system's velocities")
    checks.finite("the initial state's q", state.q)
    checks.finite("the initial state's v", state.v)
    checks.positive("simulate(dt=)", dt, "s")


def check(
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    start: State | Restart,
    dt: Any,
    steps: int,
    inputs: Any,
    keeps: Saving = EACH_STEP,
    checkpoint: int | None = None,
    progress: bool = False,
    adaptive: Adaptive | None = None,
    adjoint: str = "stored",
    policy: Policy | None = None,
    feedback: Feedback | None = None,
    t0: Any = 0.0,
) -> None:
    """Raise `ValueError` for arguments that `lie_jax.simulate` cannot take, after `check_start`.

    `feedback`: how a run evaluates the `policy`.
    """
    restart, state = (start, start.state) if isinstance(start, Restart) else (None, start)
    _check_schedule(steps, keeps.every, checkpoint, adjoint)
    if restart is not None:
        instead = "" if inputs is None else ", and simulate(inputs=) is given in its place"
        _check_origin(restart, instead, integrator=integrator, system=system, policy=policy)
    if feedback is None:
        automatic = 1 if keeps.times is None else len(keeps.times)
        _check_inputs(system, steps if adaptive is None else automatic, inputs, adaptive)
    if adaptive is not None:
        fixed_only = {
            "policy": (
                policy is not None,
                "let a force compute it, such as lie_jax.JointController",
            ),
            "progress": (progress, "leave it out"),
        }
        integrator.with_estimate(system)
        for name, (is_set, instead) in fixed_only.items():
            if is_set:
                raise ValueError(
                    f"simulate({name}=) is for steps of one size; with adaptive= {instead}."
                )
    _check_memory(system, state, int(steps), keeps, adaptive)
    if restart is not None:
        parts = system, integrator, restart.dt, inputs, restart.steps, feedback, restart.t0
        run = march.Run(*parts)
        _check_restart(run, restart, dt, adaptive)
    elif policy is not None and feedback is not None:
        warn_of_one_sample(policy, feedback, steps)
    controller = (feedback.function, feedback.state) if feedback else ()
    checks.one_precision(
        [
            *(("system", system), ("state", start), ("inputs", inputs), ("adaptive", adaptive)),
            *(("policy", controller), ("save", keeps.function)),
        ]
    )
    # The velocities of a restart violate the constraints by what the integrator leaves.
    if restart is None and not checks.has_tracers(system, start, t0):
        reason = system.space.invalid(np.asarray(state.q))
        if reason is not None:
            deviation = system.space.deviation(state.q)
            owner = "" if deviation is None else f" of {system.owner(int(jnp.argmax(deviation)))}"
            raise ValueError(
                f"the initial state's q is not a valid configuration{owner}: {reason}."
            )
        reason = system.validity.invalid_start(float(t0), state.q, state.v)
        if reason is not None:
            raise ValueError(f"simulate(state=): {reason}")


def _check_types(system: Any, integrator: Any, start: Any) -> None:
    check_system("simulate(system=)", system)
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


def _check_schedule(steps: Any, every: int, checkpoint: Any, adjoint: Any) -> None:
    checks.positive_integer("simulate(steps=)", steps, "the number of steps")
    if every > steps:
        raise ValueError(
            f"simulate(save=) is {every}, more than steps={steps}: no instant after the first "
            "would be saved; take at most the number of steps."
        )
    if checkpoint is not None:
        checks.positive_integer("simulate(checkpoint=)", checkpoint, "steps in a block")
    checks.one_of("simulate(adjoint=)", adjoint, ADJOINTS)
    if adjoint == "recursive" and checkpoint == 1:
        raise ValueError(
            "simulate(checkpoint=) is 1; with adjoint='recursive' it must be at least 2, the "
            "number of blocks side by side: take more, or leave it out for the root of steps."
        )


def _check_inputs(
    system: AbstractSystem, rows: int, inputs: Any, adaptive: Adaptive | None
) -> None:
    columns, each = 0, "step"
    if adaptive is not None:
        each = "time of simulate(save=)" if rows > 1 else "run without times in simulate(save=)"
    if callable(inputs):
        instead = (
            f"Of a function of the time u(t) make jax.vmap(u)(dt * jnp.arange({rows})). For "
            "feedback, which reads q and v, give the function of (t, q, v) as simulate(policy=)."
        )
        if adaptive is not None:
            instead = "Let a force depend on time, such as lie_jax.Torque(body, lambda t: ...)."
        raise ValueError(
            f"simulate(inputs=) is the function {name_of(inputs)}; it must be an array ({rows}, "
            f"nu), one input vector for each {each}, held up to its end. {instead}"
        )
    if inputs is not None:
        checks.finite("simulate(inputs=)", inputs)
        if np.ndim(inputs) != 2 or np.shape(inputs)[0] != rows:
            raise ValueError(
                f"simulate(inputs=) has shape {np.shape(inputs)}; it must have shape ({rows}, nu), "
                f"one input vector for each {each}: {_advice(np.shape(inputs), system, rows)}."
            )
        columns = np.shape(inputs)[1]
    if columns < system.nu:
        missing = "is missing and " if inputs is None else ""
        raise ValueError(
            f"simulate(inputs=) {missing}holds {columns} inputs a step, but the forces read "
            f"{system.nu}; it must have shape ({rows}, {system.nu}): give a column for each input."
        )
    check_surplus("simulate(inputs=) holds in each step", columns, system)


def _advice(shape: tuple[int, ...], system: AbstractSystem, steps: int) -> str:
    """Advice for inputs of a shape that is no row for each step."""
    if shape == (steps,) and system.nu in (0, 1):
        return "for numbers of one input, one for each step, give u[:, None]"
    return f"for one (nu,) held over all of them give jnp.tile(u, ({steps}, 1))"


# Trajectories of fewer bytes are not compared with the free memory.
_SMALL = 2**28


def _check_memory(
    system: AbstractSystem, state: State, steps: int, keeps: Saving, adaptive: Adaptive | None
) -> None:
    instants = steps // keeps.every + 1
    if adaptive is not None and keeps.times is not None:
        instants = len(keeps.times) + 1
    numbers = system.nq + 2 * system.nv + system.nc + system.nu
    if keeps.function is not None:
        at = jnp.zeros((), state.q.dtype), state.q, state.v
        values = jax.tree.leaves(jax.eval_shape(keeps.function, *at))
        numbers = sum(math.prod(x.shape) for x in values)
    # Arrays with unused rows are copied to some without: there are two copies at a time.
    needed = (padding.roomy(instants + 1) + instants) * numbers * state.q.dtype.itemsize + 8 * steps
    if needed < _SMALL:
        return
    free = memory.free_device_bytes(jax.devices()[0])
    if needed > free:
        fewer = keeps.every * 10 ** math.ceil(math.log10(needed / free))
        raise ValueError(
            f"simulate(steps=) is {steps}: its {instants} saved instants of "
            f"{numbers} numbers take {needed / 1e9:.3g} GB, and "
            f"{free / 1e9:.3g} GB of memory are free; save fewer of them, for example by "
            f"save={fewer}, or values of a function alone, save=function, or simulate in pieces, "
            "each from the restart of the one before."
        )


def check_events(events: Any, max_events: Any, progress: bool) -> None:
    """Raise `ValueError` for options that a run with events does not have."""
    checks.positive_integer("simulate(max_events=)", max_events, "events in a run")
    without = isinstance(events, list | tuple) and not events
    if progress and not without:
        raise ValueError(
            "simulate(progress=) is for runs without events; leave one of the two out."
        )


def _check_origin(restart: Restart, instead: str, **parts: Any) -> None:
    """Raise `ValueError` if a part of the run differs from that of the run that is continued.

    `instead`: words on what is given where a policy is missing.
    """
    if restart.origin is None or checks.has_tracers(restart.origin):
        return
    different = fingerprints.difference(np.asarray(restart.origin), **parts)
    if different is None:
        return
    name, value = different
    if name == "policy" and parts["policy"] is None:
        raise ValueError(
            "simulate(state=) is the Restart of a run with a policy, and simulate(policy=) is "
            f"missing{instead}: pass that policy alone, or start anew from the restart's `state`."
        )
    if name == "policy":
        # Policies differ in their parts alone.
        raise ValueError(
            "simulate(state=) is the Restart of a run without a policy, and simulate(policy=) is "
            "given: leave it out, or start anew from the restart's `state`."
        )
    raise ValueError(
        f"simulate(state=) is the Restart of a run with another {name}, which is {value} now; a "
        "run goes on with its own integrator, system and policy: pass those, or start anew from "
        "the restart's `state`."
    )


def _check_restart(run: march.Run, restart: Restart, dt: Any, adaptive: Adaptive | None) -> None:
    if (adaptive is None) != (restart.control is None):
        kinds = "automatic steps", "steps of one size"
        before, now = kinds if adaptive is None else kinds[::-1]
        raise ValueError(
            f"simulate(state=) is the Restart of a run with {before}, and this one has {now}: "
            "start from its `state`, with t0= the time of its end."
        )
    stored = restart.dt
    given = None if checks.has_tracers(dt, stored) else float(np.asarray(dt, stored.dtype))
    if given is not None and given != float(stored):
        raise ValueError(
            f"simulate(dt=) is {float(dt)!r}, and that of the run that is continued was "
            f"{float(restart.dt)!r} s; both must be one number: take that one, or start from the "
            "restart's `state`."
        )

    before, now = (0 if x is None else np.shape(x)[-1] for x in (restart.inputs, run.inputs))
    if run.policy is None and before != now:
        raise ValueError(
            f"simulate(inputs=) holds {now} inputs in each step, and the run that is continued "
            f"held {before}; both must be one number: give "
            + (f"{before} columns, of zeros where there are no inputs." if before else "none.")
        )

    def carries(start: State | Restart) -> Any:
        loop = run.begin(start)
        return loop.carry, loop.memory, loop.held

    expected, stored = (eqx.filter_eval_shape(carries, s) for s in (restart.state, restart))
    if not eqx.tree_equal(expected, stored):
        raise ValueError(
            f"simulate(integrator=) is {run.integrator!r}, and the run that is continued was made "
            "by another one, or of another system: take the same, or start anew from the restart's "
            "`state`."
        )


def check_violations(system: AbstractSystem, state: State, t: Any = 0.0, found: Any = None) -> None:
    """Raise `ValueError` for a concrete state that violates the constraints at a time (s) by what
    was `found`, or has a joint turned over.
    """
    if not system.nc:
        return
    found = found or _violations(system, state, jnp.asarray(t, state.q.dtype))
    if checks.has_tracers(found):
        return
    position, velocity, sides = (np.asarray(x) for x in found)
    # Lengths and speeds that the constraints are made of, to judge the rounding in them.
    scale = 1.0 + sum(float(np.abs(np.asarray(x)).max(initial=0.0)) for x in (state.q, state.v))
    slack = np.sqrt(np.finfo(position.dtype).eps) * scale
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

    if not np.all(sides > 0.0):
        joint = system.validity.joint_name(int(np.argmin(sides)))
        raise ValueError(
            f"the initial state has {joint} turned over: half a turn from where it belongs, where "
            "its constraints hold as well, with an axis that points the opposite way or the wrong "
            "orientation; it must start on the other side: correct the bodies' orientations or the "
            "joint's orientation=, or use lie_jax.project(system, state)."
        )


def violations(system: AbstractSystem, state: State, t: Array) -> tuple[Array, Array, Array] | None:
    """Violations of the constraints of positions and of velocities at a time (s), and `sides`; None
    without constraints.
    """
    if not system.nc:
        return None
    rates = system.constraint_rate(t, state.q, state.v)
    return system.constraint(t, state.q), rates, system.validity.branch_signs(t, state.q)


_violations = programs.run_once(violations)
