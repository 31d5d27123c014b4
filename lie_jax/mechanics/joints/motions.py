"""Elementary motions, of which a joint with coordinates is made."""

from typing import Any, Literal

import equinox as eqx

from lie_jax import checks
from lie_jax.numerics.conversion import as_float

Kind = Literal["turn", "slide", "screw", "swivel", "weld"]
# Numbers of coordinates and of velocities.
COUNTS: dict[Kind, tuple[int, int]] = {
    "turn": (1, 1),
    "slide": (1, 1),
    "screw": (1, 1),
    "swivel": (4, 3),
    "weld": (0, 0),
}


class Motion(eqx.Module):
    """An elementary motion of a child's frame against a parent's: one step of a joint.

    `kind`: `"turn"` about `axis` by an angle (rad), `"slide"` along it by a distance (m),
    `"screw"` for both, by an angle and `pitch` (m/rad) times that angle, `"swivel"` about a point
    by a unit quaternion (4,), `"weld"` for none. `axis`: (3,), unit vector, parent's components.
    `parent_point`, `child_point`: (3,), points of either frame (m); they coincide, for a slide and
    a screw where the coordinate is zero. `orientation`: (4,), the unit quaternion that rotates the
    child's components into the parent's where the coordinate is zero; a
    swivel has none. `armature`: inertia that is added to the coordinate (kg m² or kg). None stands
    for zeros, and for the identity.
    """

    kind: Kind = eqx.field(static=True)
    axis: Any = eqx.field(converter=as_float, default=None)
    parent_point: Any = eqx.field(converter=as_float, default=None)
    child_point: Any = eqx.field(converter=as_float, default=None)
    orientation: Any = eqx.field(converter=as_float, default=None)
    armature: Any = eqx.field(converter=as_float, default=None)
    pitch: Any = eqx.field(converter=as_float, default=None)

    def __check_init__(self):
        if self.kind not in COUNTS:
            raise ValueError(
                f"Motion(kind=) is {self.kind!r}; it must be one of {', '.join(COUNTS)}."
            )
        if (self.axis is None) == (self.kind in ("turn", "slide", "screw")):
            give = "needs an axis (3,): give axis="
            need = give if self.axis is None else "has no axis: leave it out"
            raise ValueError(f"Motion({self.kind!r}) {need}.")
        if self.axis is not None:
            checks.unit_vector(f"Motion({self.kind!r}).axis", self.axis, "parent's")
        if (self.pitch is None) == (self.kind == "screw"):
            rule = "needs a pitch (m/rad): give pitch=" if self.pitch is None else "has no pitch"
            raise ValueError(f"Motion({self.kind!r}) {rule}.")
        if self.pitch is not None:
            checks.scalar("Motion(pitch=)", self.pitch, "m/rad")
            checks.finite("Motion(pitch=)", self.pitch)
        if self.armature is not None:
            checks.non_negative("Motion(armature=)", self.armature, "kg m² or kg")
        if self.kind == "swivel" and self.orientation is not None:
            raise ValueError(
                "Motion('swivel') has every orientation as a coordinate: leave orientation= out."
            )
