"""Forces on bodies, written once on poses and velocities.

A force names the bodies it acts on (`"ground"` stands for the inertial frame) and returns one
hybrid wrench for each of them. The gravity of a mechanism is an argument of `Mechanism`.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax import checks, jax_internals
from lie_jax.callables import snapshots
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity, Wrench, force_at, in_parent
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float

Vector = Float[Array, "3"]


def point_position(pose: BodyPose, point: Vector) -> Vector:
    """Inertial position of a body-fixed point (m)."""
    return pose.position + small.matvec(pose.rotation, point)


def point_velocity(pose: BodyPose, velocity: BodyVelocity, point: Vector) -> Vector:
    """Inertial velocity of a body-fixed point (m/s)."""
    swing = small.cross(velocity.omega_body, point)
    return velocity.linear + small.matvec(pose.rotation, swing)


def turning_rate(
    axis: Vector, poses: tuple[BodyPose, ...], velocities: tuple[BodyVelocity, ...]
) -> Float[Array, ""]:
    """Angular velocity of the child against the parent about an axis of the parent (rad/s)."""
    parent, child = poses
    omega = in_parent(parent, child, velocities[1].omega_body) - velocities[0].omega_body
    return small.dot(axis, omega)


def torques_about(
    axis: Vector, poses: tuple[BodyPose, ...], torque: Float[Array, ""]
) -> tuple[Wrench, Wrench]:
    """Wrenches of a torque (N m) on the child about an axis of the parent, and of its opposite."""
    parent, child = poses
    none = jnp.zeros_like(axis)
    return Wrench(none, -torque * axis), Wrench(none, torque * in_parent(child, parent, axis))


class AbstractForce(eqx.Module):
    """A force element; `bodies` are the names of those that its wrenches act on, in order.

    `is_load` says that the force is given: no motion changes it, but for its direction.
    """

    is_load: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def bodies(self) -> tuple[str, ...]:
        """Names of the bodies it acts on."""

    @abc.abstractmethod
    def wrenches(
        self,
        t: Float[Array, ""],
        poses: tuple[BodyPose, ...],
        velocities: tuple[BodyVelocity, ...],
        u: Float[Array, " nu"] | None,
    ) -> tuple[Wrench, ...]:
        """One wrench for each body.

        An element with a field `input`, the number of an entry of the inputs, is stacked with
        others as if it read the first: it then gets that entry alone.
        """

    def potential_energy(self, poses: tuple[BodyPose, ...]) -> Float[Array, ""]:
        """Potential energy (J) of a conservative force; zero for any other."""
        return jnp.zeros((), poses[0].position.dtype)

    def remember(
        self,
        t: Float[Array, ""],
        poses: tuple[BodyPose, ...],
        velocities: tuple[BodyVelocity, ...],
    ) -> Any:
        """What the element keeps of an instant of a run: a pytree of arrays, None for most.

        A run hands it to the element's field `last` in the next step. The field is None outside of
        runs.
        """
        return None

    def departed(
        self,
        t: Float[Array, ""],
        poses: tuple[BodyPose, ...],
        velocities: tuple[BodyVelocity, ...],
    ) -> Bool[Array, ""]:
        """Whether no motion that the law describes leads from the instant in `last` to this one."""
        return jnp.zeros((), bool)


def as_signal(value: Any) -> Any:
    """A constant as an array, or a function of the time in the form that elements hold."""
    # A plain function becomes static, so that jit and vmap take the element as it is. A module or a
    # `jax.tree_util.Partial` keeps its arrays as differentiable parameters.
    if isinstance(value, snapshots.Function):
        return value
    if isinstance(value, eqx.Module | jax.tree_util.Partial):
        # Elements are stacked array by array.
        return jax.tree.map(lambda x: as_float(x) if type(x) is float else x, value)
    return _signal(value) if callable(value) else as_float(value)


def _signal(function: Callable) -> Callable:
    time = jnp.asarray(0.0)
    try:
        program, form = jax.make_jaxpr(function, return_shape=True)(time)
    except TypeError:  # `check_signal`, which knows whose function it is, meets it again.
        return snapshots.watched(function)
    if not checks.traced(program.consts):
        return snapshots.watched(function)

    # What is being differentiated, batched or compiled around it becomes a parameter, too.
    def at(leaves, t):
        found = jax_internals.evaluated(program, leaves, t.astype(time.dtype))
        value = jax.tree.unflatten(jax.tree.structure(form), found)
        return jax.tree.map(lambda x: jnp.asarray(x, t.dtype), value)

    return jax.tree_util.Partial(at, program.consts)


FRAMES = ("world", "body")
_COMPONENTS = {"world": "inertial components", "body": "body components"}


def check_signal(where: str, value: Any, shape: tuple[int, ...], unit: str) -> None:
    """Raise unless the value, or what it returns as a function of the time, has this shape."""
    if callable(value):
        # A weakly typed time goes with parameters of either precision.
        try:
            value = jax.eval_shape(value, jnp.asarray(0.0))
        except TypeError as error:  # JAX's errors of tracing are of this type, too.
            error.add_note(
                f"{where} is called with one argument, the time (s), which JAX traces: compute "
                "with jax.numpy, and take jnp.where in the place of `if`."
            )
            raise
        where = f"{where}(t)"
        if not hasattr(value, "shape"):
            raise ValueError(
                f"{where} is of type {type(value).__name__}; it must be one array of shape "
                f"{shape}, {unit}: return one, of several components by jnp.stack."
            )
    else:
        checks.finite(where, value)
    checks.shape(where, value, shape, unit)


def value_at(value: Any, t: Array) -> Any:
    """What `as_signal` made, at a time."""
    if not callable(value):
        return value
    found: Any = value(t)
    return found.astype(t.dtype) if jnp.issubdtype(found.dtype, jnp.integer) else found


def check_input(element: Any, where: str) -> None:
    """Raise unless `input` is the number of an input, or None where that is allowed."""
    number = element.input
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(
            f"{where}.input is {number!r}; it must be the number of an entry of the inputs u, "
            "counted from 0."
        )


def entry(u: Float[Array, " nu"] | None, number: int) -> Float[Array, ""]:
    """An entry of the inputs."""
    if u is None or u.shape[0] <= number:
        given = "none were given" if u is None else f"u has {u.shape[0]}"
        raise ValueError(
            f"a force reads input {number}, counted from 0, but {given}; give at least "
            f"{number + 1}: the argument u, or simulate(inputs=) of shape (steps, nu)."
        )
    return u[number]


def _driven(element: Any, load: Array, u: Float[Array, " nu"] | None) -> Array:
    """A given load, or as many times of it as the element's input says."""
    return load if element.input is None else entry(u, element.input) * load


class PointForce(AbstractForce):
    """A force at a body-fixed point, with a direction fixed in the world or in the body.

    **Arguments:** `body`: its name; `force`: (3,), a constant (N), or a function of the time (s)
    that returns one; `point`: (3,), in the body frame (m); `frame`: `"world"` for inertial
    components, `"body"` for components that turn with the body (a follower force); `input`: number
    of an entry of the inputs u; the force is then u[input] times `force`, as of a propeller. A
    function that is an `equinox.Module` with `__call__`, or a `jax.tree_util.Partial`, is not
    compiled anew when its parameters change. A constant force has the potential -F·p in the world's
    frame, none in the body's or with an input. Raises `ValueError` for other shapes, words and
    numbers.
    """

    is_load: ClassVar[bool] = True
    body: str = eqx.field(static=True)
    force: Float[Array, "..."] | Callable = eqx.field(converter=as_signal)
    point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))
    frame: str = eqx.field(static=True, default="world")
    input: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        where = f"PointForce({self.body!r})"
        if self.input is not None:
            check_input(self, where)
        checks.shape(f"{where}.point", self.point, (3,), "m, body components")
        checks.finite(f"{where}.point", self.point)
        checks.one_of(f"{where}.frame", self.frame, FRAMES)
        check_signal(f"{where}.force", self.force, (3,), f"N, {_COMPONENTS[self.frame]}")

    @property
    def bodies(self):
        """The one body."""
        return (self.body,)

    def wrenches(self, t, poses, velocities, u):
        """The force at its point."""
        force = _driven(self, value_at(self.force, t), u)
        if self.frame == "body":
            force = small.matvec(poses[0].rotation, force)
        return (force_at(poses[0], self.point, force),)

    def potential_energy(self, poses):
        """-F·p for a constant force of constant direction, else zero."""
        if callable(self.force) or self.frame == "body" or self.input is not None:
            return jnp.zeros((), poses[0].position.dtype)
        return -small.dot(self.force, point_position(poses[0], self.point))


class Torque(AbstractForce):
    """A torque on a body, with a direction fixed in the world or in the body.

    **Arguments:** `body`: its name; `torque`: (3,), a constant (N m), or a function of the time (s)
    that returns one, as for `PointForce`; `frame`: `"world"` for inertial components, `"body"` for
    components that turn with the body (a follower torque); `input`: number of an entry of the
    inputs u; the torque is then u[input] times `torque`. It has no potential. Raises `ValueError`
    for other shapes, words and numbers.
    """

    is_load: ClassVar[bool] = True
    body: str = eqx.field(static=True)
    torque: Float[Array, "..."] | Callable = eqx.field(converter=as_signal)
    frame: str = eqx.field(static=True, default="world")
    input: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        where = f"Torque({self.body!r})"
        if self.input is not None:
            check_input(self, where)
        checks.one_of(f"{where}.frame", self.frame, FRAMES)
        check_signal(f"{where}.torque", self.torque, (3,), f"N m, {_COMPONENTS[self.frame]}")

    @property
    def bodies(self):
        """The one body."""
        return (self.body,)

    def wrenches(self, t, poses, velocities, u):
        """The torque, and no force."""
        torque = _driven(self, value_at(self.torque, t), u)
        if self.frame == "world":
            torque = small.matvec(poses[0].rotation.T, torque)
        return (Wrench(jnp.zeros_like(torque), torque),)


class ViscousFriction(AbstractForce):
    """Viscous friction in a joint that turns: the torque -d (ω_child - ω_parent) on the child.

    **Arguments:** `parent`, `child`: names of bodies, or `"ground"`; `coefficient`: d, N m s/rad,
    not negative. Raises `ValueError` for other values.
    """

    parent: str = eqx.field(static=True)
    child: str = eqx.field(static=True)
    coefficient: Float[Array, "..."] = eqx.field(converter=as_float)

    def __check_init__(self):
        where = f"ViscousFriction({self.parent!r}, {self.child!r}).coefficient"
        checks.shape(where, self.coefficient, (), "one number, N m s/rad")
        checks.non_negative(where, self.coefficient, "N m s/rad")

    @property
    def bodies(self):
        """Parent and child."""
        return (self.parent, self.child)

    def wrenches(self, t, poses, velocities, u):
        """Opposite torques on parent and child, and no force."""
        parent, child = poses
        omega_parent = small.matvec(parent.rotation, velocities[0].omega_body)
        omega_child = small.matvec(child.rotation, velocities[1].omega_body)
        torque = -self.coefficient * (omega_child - omega_parent)
        none = jnp.zeros_like(torque)
        return (
            Wrench(none, small.matvec(parent.rotation.T, -torque)),
            Wrench(none, small.matvec(child.rotation.T, torque)),
        )
