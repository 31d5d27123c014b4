"""Tendons: forces along combinations of joint coordinates, and along lines through points."""

from collections.abc import Sequence
from typing import Any, no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax import checks
from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import element_name
from lie_jax.mechanics.fields import OptionalParameter, Parameter
from lie_jax.mechanics.forces.base import AbstractForce, entry
from lie_jax.mechanics.forces.springs import passes_through
from lie_jax.mechanics.joints.along import (
    AbstractAlongJoints,
    JointCoordinate,
    coordinate_of,
    slots_of,
)
from lie_jax.mechanics.joints.base import BodyPose, Poses, moving, pullback
from lie_jax.numerics import small
from lie_jax.numerics.conversion import as_float


def _range(of: str, **default: Any) -> Any:
    """Field with the ends (2,) of a range."""

    def check(where: str, value: Any) -> None:
        checks.shape(where, value, (2,), f"the smallest and the largest {of}")
        # In NumPy: inside `jax.jit` an entry of a constant array would be a tracer.
        ends = None if checks.has_tracers(value) else tuple(np.asarray(value).tolist())
        if ends is not None and not ends[0] <= ends[1]:
            raise ValueError(
                f"{where} is {ends}; it must be the smallest and the largest {of}: exchange them."
            )

    return fields.parameter(check, **default)


class AbstractTendon(AbstractForce):
    """A force F along a length ℓ that the poses of bodies determine: its power is F ℓ̇."""

    is_relative = True
    stiffness: Parameter = fields.non_negative("N/m")
    damping: Parameter = fields.non_negative("N s/m")
    relaxed: Parameter = _range("length at which the spring has no force")
    input: int | None = fields.input_number(default=None)
    limits: OptionalParameter = _range("force", default=None)

    def __init__(self, stiffness, damping, relaxed, input, limits):
        self.stiffness, self.damping, self.relaxed = stiffness, damping, relaxed
        self.input, self.limits = input, limits

    @property
    def _is_spring(self) -> bool:
        """Whether it has a potential energy."""
        return self.input is None and self.limits is None

    def _force(self, length: Array, rate: Array, u: Array | None) -> Array:
        """Force at a length and its rate."""
        force = -self.stiffness * self._stretch(length) - self.damping * rate
        if self.input is not None:
            force = force + entry(u, self.input)
        return force if self.limits is None else jnp.clip(force, *self.limits)

    def _stretch(self, length: Array) -> Array:
        shortest, longest = self.relaxed
        # Slopes are halves at both ends of the range: their sum is right where it is one length.
        return jnp.maximum(length - longest, 0.0) + jnp.minimum(length - shortest, 0.0)

    def _energy(self, length: Array) -> Array:
        """½ k times the square of the stretch; zero for an element with an input or limits."""
        stretch = self._stretch(length)
        return 0.5 * self.stiffness * stretch**2 if self._is_spring else jnp.zeros_like(stretch)


class CouplingForce(AbstractAlongJoints, AbstractTendon):
    """A spring, a damper and an input along a combination of the coordinates of joints.

    With the coordinates s of joints (rad or m), ℓ = c₁ s₁ + c₂ s₂ + …, as of a tendon over pulleys
    in joints. F = u[input] - k e - d ℓ̇, e the distance of ℓ from the range in which the spring is
    relaxed, and F between its limits, as of a servo that saturates. Joint i gets the torque (N m)
    or force (N) cᵢ F along its coordinate.

    **Arguments:** `joints`: joints of the mechanism with one coordinate, or pairs of a joint and
    the number of one of its coordinates; `coefficients`: (n,), c; `stiffness`: k, N/m, or N m/rad
    where ℓ is an angle; `damping`: d, N s/m or N m s/rad, neither negative; `relaxed`: (2,), the
    smallest and the largest ℓ at which the spring has no force; `input`: number of an entry of the
    inputs u, None for none; `limits`: (2,), the smallest and the largest F, None for none.

    Angles count whole turns, as those of every `AbstractJointForce`. Springs have a potential
    energy, ½ k e², if the element has neither input nor limits. Raises `ValueError` for other
    joints and values.
    """

    coordinates: tuple[JointCoordinate, ...] = fields.joint(tuple)
    coefficients: Parameter = fields.parameter(checks.finite)

    @no_type_check
    def __init__(
        self,
        joints: Sequence[Any],
        coefficients: ArrayLike | Sequence[ArrayLike],
        *,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        relaxed: ArrayLike | Sequence[ArrayLike] = (0.0, 0.0),
        input: int | None = None,
        limits: ArrayLike | Sequence[ArrayLike] | None = None,
    ):
        if not isinstance(joints, list | tuple) or not joints:
            raise ValueError(
                f"CouplingForce(joints=) is {joints!r}; it must be a list of joints, or of pairs "
                "of a joint and the number of a coordinate, at least one: give those of the "
                "mechanism."
            )
        AbstractTendon.__init__(self, stiffness, damping, relaxed, input, limits)
        self.coordinates = tuple(map(coordinate_of, joints))
        self.slots = slots_of(self.coordinates)
        self.coefficients = coefficients

    def __check_init__(self):
        where = f"{element_name(self)}.coefficients"
        count = len(self.coordinates)
        checks.shape(where, self.coefficients, (count,), "one number for each joint")

    @property
    @override
    def along(self):
        return self.coordinates

    @property
    @override
    def winds(self):
        return self._is_spring and self.counts_turns

    @property
    @override
    def lacks_turns(self):
        # The spring of an element with an input or limits has no potential energy.
        elastic = checks.has_tracers(self.stiffness) or bool(np.any(np.asarray(self.stiffness)))
        return self.last is None and self.counts_turns and not self.winds and elastic

    @override
    def wrenches(self, t, poses, velocities, u):
        rates = self.rates(poses, velocities)
        length = small.dot(self.coefficients, self.count_turns(t, poses, rates))
        force = self._force(length, small.dot(self.coefficients, rates), u)
        return self.wrenches_of(poses, force * self.coefficients)

    @override
    def potential_energy(self, poses):
        values = self.count_turns(jnp.zeros_like(poses[0].position[0]), poses)
        return self._energy(small.dot(self.coefficients, values))


class PathForce(AbstractTendon):
    """A spring, a damper and an input along a line that runs straight from point to point.

    ℓ is the length of the line, as of a cable through eyelets without friction. F is that of the
    `CouplingForce`; it pushes the ends apart, and a tension is negative.

    **Arguments:** `points`: pairs of the name of a body, or `"ground"`, and a point (3,) of it (m),
    in the order of the line; `stiffness`: k, N/m; `damping`: d, N s/m, neither negative; `relaxed`:
    (2,), the smallest and the largest ℓ at which the spring has no force, m; `input`: number of an
    entry of the inputs u, None for none; `limits`: (2,), the smallest and the largest F, N, None
    for none. Raises `ValueError` for other values.

    Points that follow each other must not meet: the line has no direction there and the force is
    NaN. A run in which one passes through the other in a step ends with `Result.departed`.
    """

    # Names of bodies, which may repeat, and their places among `bodies`.
    ends: Any = eqx.field(static=True, metadata=fields.BODY, default=())
    slots: tuple[int, ...] = eqx.field(static=True, default=())
    places: Parameter = fields.parameter(checks.finite)

    @no_type_check
    def __init__(
        self,
        points: Sequence[tuple[str, ArrayLike | Sequence[float]]],
        *,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        relaxed: ArrayLike | Sequence[ArrayLike] = (0.0, 0.0),
        input: int | None = None,
        limits: ArrayLike | Sequence[ArrayLike] | None = None,
    ):
        pairs = list(points) if isinstance(points, Sequence) else []
        are_pairs = all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs)
        if len(pairs) < 2 or not are_pairs:
            raise ValueError(
                f"PathForce(points=) is a {type(points).__name__} of {len(pairs)}; it must be a "
                "list of pairs, at least two: write [('ground', (0, 0, 1)), ('body', (0, 0, 0))]."
            )
        for name, point in pairs:
            checks.name("the body in PathForce(points=)", name)
            checks.shape(f"the point of {name!r} in PathForce(points=)", point, (3,), "m")
        super().__init__(stiffness, damping, relaxed, input, limits)
        self.ends = tuple(name for name, _ in pairs)
        self.slots = tuple(map(self.bodies.index, self.ends))
        self.places = jnp.stack([as_float(point) for _, point in pairs])

    @property
    @override
    def bodies(self):
        """Names of the bodies, each once."""
        return tuple(dict.fromkeys(self.ends))

    def _lines(self, poses: Poses) -> Float[Array, "lines 3"]:
        points = jnp.stack(
            [
                poses[slot].position + small.matvec(poses[slot].rotation, point)
                for slot, point in zip(self.slots, self.places, strict=True)
            ]
        )
        return points[1:] - points[:-1]

    def _length(self, *poses: BodyPose) -> Float[Array, ""]:
        return jnp.sum(jnp.sqrt(jnp.sum(self._lines(poses) ** 2, axis=1)))

    @override
    def wrenches(self, t, poses, velocities, u):
        length, rate = jax.jvp(self._length, poses, moving(poses, velocities))
        return pullback(self._length, poses, self._force(length, rate, u))

    @override
    def potential_energy(self, poses):
        return self._energy(self._length(*poses))

    @override
    def memory_after(self, t, poses, velocities):
        """The lines between the points."""
        return self._lines(poses)

    @override
    def leaves_range(self, t, poses, velocities):
        """Whether one point has passed through the next one."""
        return jnp.any(jax.vmap(passes_through)(self.last, self._lines(poses)))
