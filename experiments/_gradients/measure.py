"""Derivatives of a run in both modes, to second order, against differences.

One program gives all: the tangent of value and gradient along a direction. Its tangent of the value
is the derivative in forward mode, the gradient that in reverse mode, the tangent of the gradient a
Hessian-vector product (forward over reverse); at shifted points, values and gradients are those
whose differences are taken.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import lie_jax
from experiments._gradients.cases import Case
from experiments._gradients.parameters import STEPS

# Central differences of sixth order. Each number moves by multiples of this part of the size of its
# kind: truncation and rounding both stay below 1e-9 of the derivatives.
DIFFERENCE_STEP = 2e-3
_WEIGHTS = {1: 45, 2: -9, 3: 1, -1: -45, -2: 9, -3: -1}
# Compiling is most of the time, and little of it is for the speed of the program.
_COMPILER = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
# Adaptive runs: their end (s), relative and absolute tolerance, and bound on the number of steps.
_END = 0.16
_TOLERANCE = 1e-4
_BOUND = 16


def _cast(tree, dtype):
    def cast(x):
        return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(cast, tree)


def _parts(case: Case, flat: Array):
    """System, state, integrator, step size and inputs, in the precision of `flat`."""
    numbers = case.model.parameters
    p = numbers.unravel(flat.astype(numbers.flat.dtype))
    driven = not case.adaptive
    system, state = case.model.build(p, case.formulation, case.constraints, driven)
    integrator = case.integrator(p["method"]["number"])
    inputs = p["inputs"]["u"] if driven else None
    return _cast((system, state, integrator, p["dt"]["dt"], inputs), flat.dtype)


def _number(case: Case, trajectory: lie_jax.Trajectory) -> Array:
    """A number that depends on the whole trajectory."""
    number = _of_motion(trajectory.q, trajectory.v)
    if case.reads_multipliers:
        for found in (trajectory.acceleration, trajectory.multipliers):
            number = number + 0.01 * jnp.sum(jnp.sin(0.1 * found))
    return number


def _of_motion(q: Array, v: Array) -> Array:
    return jnp.sum(jnp.sin(3.0 * q)) + 0.05 * jnp.sum(v**2)


def _objective(case: Case) -> Callable[[Array], Array]:
    def objective(flat):
        system, state, integrator, dt, inputs = _parts(case, flat)
        if case.adaptive:
            run = _adaptive_run(system, state, integrator, dt)
            # Rows beyond the end are NaN.
            reached = jnp.isfinite(run.t)[:, None]
            return _of_motion(*(jnp.where(reached, x, 0.0) for x in (run.q, run.v)))
        return _number(
            case,
            lie_jax.simulate(
                system, integrator, state, dt=dt, steps=STEPS, inputs=inputs, throw=False
            ),
        )

    return objective


def _adaptive_run(system, state, integrator, dt) -> lie_jax.Trajectory:
    adaptive = lie_jax.Adaptive(rtol=_TOLERANCE, atol=_TOLERANCE)
    adaptive = _cast(adaptive, state.q.dtype)
    return lie_jax.simulate(
        system, integrator, state, dt=dt, steps=_BOUND, throw=False, adaptive=adaptive, t_end=_END
    )


def _held(case: Case) -> Callable[[Array], Array]:
    """Result of an adaptive run with the steps of the unchanged run."""
    system, state, integrator, dt, _ = _parts(case, case.model.parameters.flat)
    run = _adaptive_run(system, state, integrator, dt)
    if not bool(run.result == lie_jax.Result.successful):
        raise RuntimeError(f"the adaptive run ended with {run.result}")
    times = run.t[jnp.isfinite(run.t)]

    def objective(flat):
        system, state, integrator, *_ = _parts(case, flat)

        def step(state, interval):
            t, size = interval
            state = integrator.step(system, t, size, state, None, None).state
            return state, state

        _, states = jax.lax.scan(step, state, (times[:-1], jnp.diff(times)))
        start = _of_motion(state.q, state.v)
        return start + _of_motion(states.q, states.v)

    return objective


def _program(objective: Callable) -> Callable:
    def tangent(flat, direction):
        return jax.jvp(jax.value_and_grad(objective), (flat,), (direction,))

    return jax.jit(jax.vmap(tangent), compiler_options=_COMPILER)


def _differences(values: np.ndarray) -> np.ndarray:
    """From values (weights, n, ...) at shifted points, with respect to numbers in their units."""
    weights = np.asarray(list(_WEIGHTS.values())) / (60.0 * DIFFERENCE_STEP)
    return np.tensordot(weights, values, 1)


def _worst(got: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference in units of the largest entry."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.abs(got - expected)) / np.max(np.abs(expected)))


def measure(case: Case) -> dict[str, dict[str, float | None]]:
    """Errors by kind of parameter: `gradient`, `modes`, `hessian`, and `single` if it is wanted.

    Each is the largest difference among the kind's parameters, relative to the kind's largest
    derivative: reverse mode against differences of values, forward against reverse mode,
    Hessian-vector products along each parameter against differences of gradients, and the gradient
    in single precision against that in double precision. Parameters count in units of the largest
    one of their kind. None for kinds without effect, all of whose derivatives are exactly zero.
    """
    numbers = case.model.parameters
    flat, sizes = np.asarray(numbers.flat), numbers.sizes
    n = len(flat)
    program = _program(_objective(case))
    around = _program(_held(case)) if case.adaptive else program
    shifts = DIFFERENCE_STEP * np.asarray(list(_WEIGHTS))[:, None, None] * np.diag(sizes)
    points = np.concatenate([np.zeros((1, n, n)), shifts]) + flat
    # With scaled directions, all derivatives come in units of the parameters' sizes.
    directions = np.broadcast_to(np.diag(sizes), points.shape)

    def rows(program, points, directions):
        (value, gradient), (slope, product) = program(
            points.reshape(-1, n), directions.reshape(-1, n)
        )
        shape = points.shape[:-1]
        return (
            np.asarray(value).reshape(shape),
            np.asarray(gradient * sizes).reshape(*shape, n),
            np.asarray(slope).reshape(shape),
            np.asarray(product * sizes).reshape(*shape, n),
        )

    values, gradients, slopes, products = rows(around, points, directions)
    by_values = _differences(values[1:])
    by_gradients = _differences(gradients[1:])
    if case.adaptive:
        _, gradients, slopes, products = rows(program, points[:1], directions[:1])
    reverse, forward, hessian = gradients[0, 0], slopes[0], products[0]
    found = {"gradient": {}, "modes": {}, "hessian": {}}
    rough = reverse
    if case.single:
        in_single = jax.jit(jax.grad(_objective(case)), compiler_options=_COMPILER)
        rough = np.asarray(in_single(flat.astype(np.float32)), float) * sizes
        found["single"] = {}
    for k, kind in enumerate(numbers.kinds):
        own = numbers.kind_of == k
        if kind in case.without_effect:
            zero = not (np.any(reverse[own]) or np.any(forward[own]) or np.any(hessian[own]))
            for errors in found.values():
                errors[kind] = None if zero else np.inf
            continue
        found["gradient"][kind] = _worst(reverse[own], by_values[own])
        found["modes"][kind] = _worst(forward[own], reverse[own])
        found["hessian"][kind] = _worst(hessian[own], by_gradients[own])
        if case.single:
            found["single"][kind] = _worst(rough[own], reverse[own])
    return found
