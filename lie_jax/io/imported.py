"""Contents of an imported file: the mechanism, and forces that can be added to it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from lie_jax.io import by_name
from lie_jax.io.visuals import Mesh
from lie_jax.mechanics.contact.element import Contact
from lie_jax.mechanics.contact.geometry import can_touch
from lie_jax.mechanics.contact.laws import AbstractNormalLaw, Coulomb
from lie_jax.mechanics.contact.shapes import AbstractShape
from lie_jax.mechanics.contact.stops import JointFriction, JointStop
from lie_jax.mechanics.joints.base import GROUND, AbstractJoint
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.multibody.system import AbstractMultibodySystem
from lie_jax.robotics.frames import Frame
from lie_jax.robotics.joint_state import joint_state
from lie_jax.systems.system import State


class ImportedJoint(NamedTuple):
    """A joint of a file: `name`; `parent` and `child` as in the mechanism; `limits`, the smallest
    and the largest coordinate (rad, m; of a ball joint the turn, rad), infinite where the file has
    none; `zero`, the file's coordinate where the mechanism's is zero; `dry_friction` (N m, N);
    `velocity_limit`, of the rate (rad/s, m/s), which URDF files have; `force_limits`, the smallest
    and the largest torque or force of its actuators together (N m, N).
    """

    name: str
    parent: str
    child: str
    limits: tuple[float, float]
    zero: float
    dry_friction: float = 0.0
    velocity_limit: float = np.inf
    force_limits: tuple[float, float] = (-np.inf, np.inf)


class ImportedActuator(NamedTuple):
    """Actuator i of a file, the input u[i]: `name`; `joint`, the name of the joint, tendon or site
    on which it acts, as `transmission` says; `gain`, u for one unit of the file's control (N m, N);
    `limits`, the smallest and the largest u, infinite where the file has none; `proportional`
    (N m/rad, N/m) and `derivative` (N m s/rad, N s/m), the gains of a servo, whose torque or force
    is u less these times the file's coordinate or length and its rate; `force_limits`, the smallest
    and the largest torque or force, between which that of a servo stays.
    """

    name: str
    joint: str
    gain: float
    limits: tuple[float, float]
    proportional: float = 0.0
    derivative: float = 0.0
    transmission: str = "joint"
    force_limits: tuple[float, float] = (-np.inf, np.inf)


class ImportedCoupling(NamedTuple):
    """An equality constraint of a file: `name`; `kind`, "connect" or "weld" for a closed loop,
    "joint" for coordinates of joints; `first`, `second`, the bodies that are held together, or the
    joints of which the first one follows the second, or is held where that is "".
    """

    name: str
    kind: str
    first: str
    second: str


# Names of one kind in a table.
_NAMES = 4


class ImportedModel(NamedTuple):
    """Model of a file: `mechanism`, in the pose that is zero in all of the file's coordinates, at
    rest; `joints` in the order of the mechanism's; `actuators` in the order of the inputs u;
    `ignored`, by kind, the names of the parts that the mechanism does not have; `shapes`, by name,
    the shapes of the file that may touch, of moving bodies and of the ground; `couplings`, whose
    joints stand after those of `joints` in the mechanism; `frames`, by name, of bodies, links and
    sites; `keyframes`, by name, states in the coordinates of `lie_jax.Minimal()`; `visuals`,
    surfaces for `viz.export(shapes=)`; `keyframe_inputs`, by name, inputs u of the keyframes, zero
    for actuators of laws that are left out. `print` shows a table of them.

    Stops, dry friction and contact need laws that a file does not state: `stops`, `dry_friction`
    and `contacts` make forces of them, which are added to those of the mechanism.
    """

    mechanism: Mechanism
    joints: tuple[ImportedJoint, ...]
    actuators: tuple[ImportedActuator, ...]
    ignored: dict[str, tuple[str, ...]]
    shapes: dict[str, AbstractShape]
    couplings: tuple[ImportedCoupling, ...]
    frames: dict[str, Frame]
    keyframes: dict[str, State]
    visuals: tuple[Mesh, ...]
    keyframe_inputs: dict[str, Float[Array, " nu"]]

    def __repr__(self):
        """Table of the contents with counts, and of the parts left out."""
        actuators, joints = self.actuators, self.joints
        limited = {
            "position limits": [(joint.name, joint.limits) for joint in joints],
            "velocity limits": [(joint.name, joint.velocity_limit) for joint in joints],
            "force limits": [(part.name, part.force_limits) for part in (*joints, *actuators)],
            "input limits": [(actuator.name, actuator.limits) for actuator in actuators],
        }
        rows = {
            "bodies": self.mechanism.names,
            **{
                kind: [part.name for part in getattr(self, kind)]
                for kind in ("joints", "couplings", "actuators")
            },
            **{kind: list(getattr(self, kind)) for kind in ("frames", "keyframes", "shapes")},
            **{
                kind: list(dict.fromkeys(name for name, x in of if np.isfinite(x).any()))
                for kind, of in limited.items()
            },
        }
        present = {kind: names for kind, names in rows.items() if names}
        lines = ["ImportedModel", *_rows(present), "left out", *_rows(self.ignored)]
        return "\n".join(lines if self.ignored else lines[: lines.index("left out")])

    def stops(self, law: AbstractNormalLaw) -> list[JointStop]:
        """Stops of all hinges and sliders with limits.

        `law`: such as `lie_jax.contact.HuntCrossley(stiffness)`, in N m/radᵖ for hinges, in N/mᵖ
        for sliders.
        """
        return [
            JointStop(joint, lower=imported.limits[0], upper=imported.limits[1], law=law)
            for imported, joint in self._axial()
            if np.isfinite(imported.limits).all()
        ]

    def dry_friction(self, *, hinges: float = 1e-2, sliders: float = 1e-3) -> list[JointFriction]:
        """Dry friction of all hinges and sliders that have it in the file.

        `hinges`, `sliders`: the rates (rad/s, m/s) below which it is smooth.
        """
        smooth = {"rad": hinges, "m": sliders}
        return [
            JointFriction(
                joint, limit=imported.dry_friction, velocity=smooth[joint.coordinate_units[0]]
            )
            for imported, joint in self._axial()
            if imported.dry_friction
        ]

    def contacts(
        self,
        normal: AbstractNormalLaw,
        friction: Coulomb | None = None,
        ground: AbstractShape | None = None,
    ) -> list[Contact]:
        """Contacts of all shapes of moving bodies with the ground.

        `normal` and `friction`: laws of a `Contact`. `ground`: a shape of the ground, by default
        all of those in the file. Contacts of moving bodies with each other are made one by one, of
        `shapes`. Raises `ValueError` if there is no ground, or nothing that can touch it.
        """
        moving = [shape for shape in self.shapes.values() if shape.body != GROUND]
        grounds = [shape for shape in self.shapes.values() if shape.body == GROUND]
        grounds = grounds if ground is None else [ground]
        pairs = [(shape, below) for below in grounds for shape in moving if can_touch(shape, below)]
        if not pairs:
            raise ValueError(
                f"ImportedModel.contacts: there are {len(moving)} shapes of moving bodies and "
                f"{len(grounds)} of the ground, of which no pair can touch; there must be one: "
                "give ground=lie_jax.contact.Plane('ground'), or make a Contact of other shapes."
            )
        return [Contact(shape, below, normal, friction) for shape, below in pairs]

    def state(
        self,
        system: AbstractMultibodySystem,
        state: State,
        positions: Mapping[str, Any] | None = None,
        velocities: Mapping[str, Any] | None = None,
    ) -> State:
        """The state with coordinates and velocities of some joints, by the file's names.

        `system`: the mechanism in `lie_jax.Minimal()`, also with forces added to it; `positions`:
        the file's coordinates (rad, m; a unit quaternion of a ball joint); `velocities`: their
        rates (angular velocity of a ball joint). Raises `ValueError` for other names and shapes.
        """
        at = by_name.by_label("positions", self.joints, positions, self.mechanism.bodies)
        rates = by_name.by_label("velocities", self.joints, velocities)
        return joint_state(system, state, at, rates)

    def inputs(self, values: Mapping[str, Any]) -> Float[Array, " nu"]:
        """Inputs u (N m, N) by the names of actuators, zero for all others.

        Raises `ValueError` for names of no actuator.
        """
        return by_name.inputs(self.actuators, values, self.mechanism.gravity.dtype)

    def _axial(self) -> Iterator[tuple[ImportedJoint, AbstractJoint]]:
        # Joints of couplings come last.
        for imported, joint in zip(self.joints, self.mechanism.joints, strict=False):
            if len(joint.coordinate_units) == 1:
                yield imported, joint


def _rows(parts: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines with kind, count and first names of parts."""
    width = max(map(len, parts), default=0)
    lines = []
    for kind, names in parts.items():
        more = ", ..." if len(names) > _NAMES else ""
        lines.append(f"  {kind:{width}} {len(names):4}  {', '.join(names[:_NAMES])}{more}".rstrip())
    return lines
