"""Forces on bodies, written once on poses and velocities.

A force names the bodies it acts on (`"ground"` stands for the inertial frame) and returns one
hybrid wrench for each of them. The gravity of a mechanism is an argument of `Mechanism`.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax import algebra, checks
from lie_jax.algebra import as_float
from lie_jax.mechanics.joints import BodyPose, Wrench, force_at

Vector = Float[Array, "3"]


class BodyVelocity(NamedTuple):
    """Velocity ṙ of the body frame's origin, inertial (m/s), and ω, body components (rad/s)."""

    linear: Vector
    omega_body: Vector


class AbstractForce(eqx.Module):
    """A force element; `bodies` are the names of those that its wrenches act on, in order."""

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
        """One wrench for each body."""

    def potential_energy(self, poses: tuple[BodyPose, ...]) -> Float[Array, ""]:
        """Potential energy (J) of a conservative force; zero for any other."""
        return jnp.zeros((), poses[0].position.dtype)


def _as_force(value: Any) -> Any:
    # A plain function becomes static, so that jit and vmap take the element as it is. A module or a
    # `jax.tree_util.Partial` keeps its arrays as differentiable parameters.
    if isinstance(value, eqx.Module | jax.tree_util.Partial):
        return value
    return jax.tree_util.Partial(value) if callable(value) else as_float(value)


class PointForce(AbstractForce):
    """A force with inertial components that acts at a body-fixed point.

    **Arguments:** `body`: its name; `force`: (3,), a constant (N, inertial components), or a
    function of the time (s) that returns one; `point`: (3,), in the body frame (m). A function with
    parameters to be differentiated is an `equinox.Module` with `__call__`, or a
    `jax.tree_util.Partial`. A constant force has the potential -F·p. Raises `ValueError` for other
    shapes.
    """

    body: str = eqx.field(static=True)
    force: Float[Array, "..."] | Callable = eqx.field(converter=_as_force)
    point: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, 0.0))

    def __check_init__(self):
        where = f"PointForce({self.body!r})"
        checks.shape(f"{where}.point", self.point, (3,), "m, body components")
        checks.finite(f"{where}.point", self.point)
        value = self.force
        if callable(value):
            value = jax.eval_shape(value, jnp.zeros((), self.point.dtype))
            if not hasattr(value, "shape"):
                raise ValueError(
                    f"{where}.force returns a {type(value).__name__}; it must return one array of "
                    "shape (3,), N, inertial components: wrap the components in jnp.stack."
                )
        else:
            checks.finite(f"{where}.force", value)
        checks.shape(f"{where}.force", value, (3,), "N, inertial components")

    @property
    def bodies(self):
        """The one body."""
        return (self.body,)

    def _value(self, t):
        return self.force(t) if callable(self.force) else self.force

    def wrenches(self, t, poses, velocities, u):
        """The force at its point."""
        return (force_at(poses[0], self.point, self._value(t)),)

    def potential_energy(self, poses):
        """-F·p for a constant force, else zero."""
        if callable(self.force):
            return jnp.zeros((), poses[0].position.dtype)
        place = poses[0].position + algebra.matvec(poses[0].rotation, self.point)
        return -algebra.dot(self.force, place)


class ViscousFriction(AbstractForce):
    """Viscous friction in a spherical joint: the torque -d (ω_child - ω_parent) on the child.

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
        omega_parent = algebra.matvec(parent.rotation, velocities[0].omega_body)
        omega_child = algebra.matvec(child.rotation, velocities[1].omega_body)
        torque = -self.coefficient * (omega_child - omega_parent)
        none = jnp.zeros_like(torque)
        return (
            Wrench(none, algebra.matvec(parent.rotation.T, -torque)),
            Wrench(none, algebra.matvec(child.rotation.T, torque)),
        )
