"""Elementary motions, of which a joint with coordinates is made."""

from typing import Any, Literal

import equinox as eqx


class Motion(eqx.Module):
    """An elementary motion of a child's frame against a parent's: one step of a joint.

    `kind`: `"turn"` about `axis` by an angle (rad), `"slide"` along it by a distance (m),
    `"swivel"` about a point by a unit quaternion (4,), `"weld"` for none. `axis`: (3,), unit
    vector, parent's components. `parent_point`, `child_point`: (3,), points of either frame (m);
    they coincide, for a slide where its coordinate is zero. `orientation`: (4,), the unit
    quaternion that rotates the child's components into the parent's where the coordinate is zero; a
    swivel has none. `armature`: inertia that is added to the coordinate (kg m² or kg). None stands
    for zeros, and for the identity.
    """

    kind: Literal["turn", "slide", "swivel", "weld"] = eqx.field(static=True)
    axis: Any = None
    parent_point: Any = None
    child_point: Any = None
    orientation: Any = None
    armature: Any = None

    @property
    def nq(self) -> int:
        """Number of coordinates."""
        return {"swivel": 4, "weld": 0}.get(self.kind, 1)

    @property
    def nv(self) -> int:
        """Number of velocities: the coordinate's rate, or a swivel's angular velocity (3,)."""
        return {"swivel": 3, "weld": 0}.get(self.kind, 1)
