"""Calls and operations of one step, counted in the compiled programs."""

import dataclasses
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments._park_chung.printed import OPERATIONS
from experiments._park_chung.runs import INTEGRATORS

_ADD = {"add", "sub", "add_any"}
_TRIGONOMETRIC = {"sin", "cos", "tan", "atan2"}


def _watch(inner: Any, names: dict[str, str], calls: Counter, **replaced: Any) -> Any:
    """The same system or space, of a class that counts the calls of some of its methods and has
    other properties in the place of some.
    """
    kind = type(inner)

    def counted(name: str):
        def call(self, *args):
            calls[names[name]] += 1
            return getattr(kind, name)(self, *args)

        return call

    members: dict[str, Any] = {name: counted(name) for name in names}
    members |= {name: property(lambda self, x=x: x) for name, x in replaced.items()}
    watched = object.__new__(type(kind.__name__, (kind,), members))
    for field in dataclasses.fields(inner):
        object.__setattr__(watched, field.name, getattr(inner, field.name))
    return watched


class _Still(lie_jax.extend.AbstractSystem):
    """A system of a given space that spends nothing on its forward dynamics."""

    configurations: Any

    @property
    def space(self):
        return self.configurations

    def mass_matrix(self, q):
        return jnp.eye(self.nv, dtype=q.dtype)

    def force(self, t, q, v, u):
        return v

    def acceleration(self, t, q, v, u=None):
        return v


def calls(method: str) -> dict[str, int]:
    """Calls of one step: forward dynamics, exponentials, inverse differentials (Table X)."""
    system, state = chain(2)
    found: Counter = Counter()
    # `flow` calls `retract`.
    exponentials = {"retract": "exp"}
    space = _watch(system.space, exponentials | {"tangent_operator_inv": "dexpinv"}, found)
    # Stages written out: a loop over them would call everything once.
    stages = {"space": space, "slow_to_compile": False}
    watched = _watch(system, {"acceleration": "FDyn"}, found, **stages)
    # Functions that are compiled once would be called once.
    with jax.disable_jit():
        _trace(INTEGRATORS[method], watched, state)
    return {name: found[name] for name in ("FDyn", "exp", "dexpinv")}


def of_step(method: str, joints: int) -> tuple[int, ...]:
    """Operations of one step on a chain, besides forward dynamics (Table V)."""
    system, state = chain(joints)
    return _count(_trace(INTEGRATORS[method], _Still(system.space), state).jaxpr)


def of_forward_dynamics(joints: int) -> tuple[int, ...]:
    """Operations of one evaluation of the accelerations of a chain."""
    system, state = chain(joints)
    program = jax.make_jaxpr(lambda q, v: system.acceleration(0.0, q, v))(state.q, state.v)
    return _count(program.jaxpr)


def _trace(integrator, system, state):
    dt = jnp.asarray(0.1)

    def step(q, v):
        return integrator.step(system, dt, dt, lie_jax.State(q, v), None, None).state

    return jax.make_jaxpr(step)(state.q, state.v)


def chain(joints: int):
    """Spheres in a row on revolute joints about y and z in turn, the first one free to move."""
    bodies = [
        lie_jax.Body(str(i), 10.0, 4.0 * np.eye(3), position=(2.0 * i, 0.0, 0.0))
        for i in range(joints + 1)
    ]
    connections = [
        lie_jax.RevoluteJoint(str(i), str(i + 1), axis, child_point=(-2.0, 0.0, 0.0))
        for i, axis in enumerate(np.resize([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], (joints, 3)))
    ]
    mechanism = lie_jax.Mechanism(bodies, connections, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.Minimal())


def _count(jaxpr) -> tuple[int, ...]:
    """Additions, multiplications, divisions, square roots and trigonometric functions of numbers.

    As the program states them: products with the zeros of constant matrices count, and so do both
    sides of a choice. A loop counts as often as it runs.
    """
    found: Counter = Counter()
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        size = sum(int(np.prod(v.aval.shape)) for v in equation.outvars)
        if name in _ADD:
            found["add"] += size
        elif name in {"mul", "square"}:
            found["mult"] += size
        elif name == "integer_pow":
            found["mult"] += size * (abs(parameters["y"]) - 1)
        elif name == "div":
            found["div"] += size
        elif name in {"sqrt", "rsqrt"}:
            found["sqrt"] += size
        elif name in _TRIGONOMETRIC:
            found["trig"] += size
        elif name == "reduce_sum":
            found["add"] += int(np.prod(equation.invars[0].aval.shape)) - size
        elif name == "dot_general":
            (contracted, _), _ = parameters["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            length = int(np.prod([shape[i] for i in contracted]))
            found["mult"] += size * length
            found["add"] += size * (length - 1)
        times = parameters.get("length", 1)
        for inner in _inner(equation):
            found.update(
                {kind: times * n for kind, n in zip(OPERATIONS, _count(inner), strict=True)}
            )
    return tuple(found[name] for name in OPERATIONS)


def _inner(equation) -> list[Any]:
    """The programs that an equation runs."""
    values = equation.params.values()
    if equation.primitive.name == "custom_linear_solve":
        values = [equation.params["jaxprs"].solve]
    programs = [getattr(value, "jaxpr", value) for value in values]
    return [program for program in programs if hasattr(program, "eqns")]
