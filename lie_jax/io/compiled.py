"""A model that MuJoCo has compiled, as the parts of an import read it."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from lie_jax.io import urdf
from lie_jax.io.inertias import Mass
from lie_jax.mechanics.joints.base import GROUND

# Fields with the numbers of parts, where they are not "n" and the kind.
_COUNTS = {"joint": "njnt", "equality": "neq"}
# Kinds of force that one more flag switches off together.
_CONSTRAINTS = ("CONTACT", "EQUALITY", "FRICTIONLOSS", "LIMIT")


class CompiledFile:
    """A compiled model, its poses at zero, and the module `mujoco`.

    `masses`: those of the moving bodies of a URDF file by name, of which the model has others.
    """

    def __init__(self, mujoco: Any, model: Any, masses: Mapping[str, Mass] | None = None):
        self.mujoco, self.model = mujoco, model
        self.masses = {} if masses is None else masses
        self.data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, self.data)
        self._names: dict[str, list[str]] = {}
        self.points = self._points()

    def count(self, kind: str) -> int:
        """Number of parts of a kind; an actuator may have several controls or none."""
        if kind == "actuator":
            return len(self.model.actuator_trntype)
        return int(getattr(self.model, _COUNTS.get(kind, f"n{kind}")))

    def name(self, kind: str, i: int) -> str:
        """Name of a part, which no other one of its kind has."""
        if kind not in self._names:
            self._names[kind] = self._all_names(kind)
        return self._names[kind][i]

    def _all_names(self, kind: str) -> list[str]:
        number = getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
        count = range(self.count(kind))
        names = [self.mujoco.mj_id2name(self.model, number, i) or "" for i in count]
        used = {*names, GROUND}
        if kind == "geom":
            return self._geom_names(names)
        for i, name in enumerate(names):
            if name and not (kind == "body" and name == GROUND):
                continue
            # The mechanism calls the inertial frame "ground".
            made = f"{name} {kind}" if name else f"{kind} {i}"
            while made in used:
                made += " (unnamed)"
            used.add(made)
            names[i] = made
        return names

    def _geom_names(self, names: list[str]) -> list[str]:
        """Names of geoms, of which those without one are called by their bodies."""
        model, used = self.model, {*names}
        touches = model.geom_contype | model.geom_conaffinity
        # Shapes are before pictures.
        for i in np.argsort(touches == 0, kind="stable"):
            if not names[i]:
                body = int(model.geom_bodyid[i])
                owner = self.name("body", body) if body else GROUND
                names[i] = urdf.free_name(owner, used)
        return names

    def _points(self) -> frozenset[int]:
        """Bodies that are no more than points of a deformable one."""
        model = self.model
        if not getattr(model, "nflex", 0):
            return frozenset()
        bodies = {int(body) for body in (*model.flex_vertbodyid, *model.flex_nodebodyid)}
        has_parts = {*model.geom_bodyid.tolist(), *model.site_bodyid.tolist()}
        has_parts |= set(model.body_parentid.tolist())
        slides = self.mujoco.mjtJoint.mjJNT_SLIDE
        turns = {int(b) for b in model.jnt_bodyid[model.jnt_type != slides]}
        return frozenset(b for b in bodies - has_parts - turns if model.body_jntnum[b])

    def kind(self, joint: int) -> str:
        """Word for a joint: free, ball, slide or hinge."""
        return self.mujoco.mjtJoint(self.model.jnt_type[joint]).name[len("mjJNT_") :].lower()

    def is_moved(self, body: int) -> bool:
        """Whether a body, or the one that it is fixed to, has a joint.

        A body that MuJoCo's user moves has none: it is ground here.
        """
        return bool(self.model.body_jntnum[self.model.body_weldid[body]])

    def parent(self, body: int) -> int:
        """Moving body that a body is joined to, 0 for the ground."""
        parent = int(self.model.body_parentid[body])
        return int(self.model.body_weldid[parent]) if self.is_moved(parent) else 0

    def joints(self, body: int) -> list[int]:
        """Joints of a body, free ones left out."""
        first, count = self.model.body_jntadr[body], self.model.body_jntnum[body]
        return [j for j in range(first, first + count) if self.kind(j) != "free"]

    def disables(self, flag: str) -> bool:
        """Whether the file switches off a kind of force."""
        flags = (flag, "CONSTRAINT") if flag in _CONSTRAINTS else (flag,)
        bits = (getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{name}") for name in flags)
        return any(self.model.opt.disableflags & bit for bit in bits)

    def is_off(self, actuator: int) -> bool:
        """Whether the file switches an actuator off, by a flag or by its group."""
        options, group = self.model.opt, int(self.model.actuator_group[actuator])
        off = group >= 0 and options.disableactuator >> group & 1
        return self.disables("ACTUATION") or bool(off)

    def target(self, actuator: int) -> tuple[str, int]:
        """The kind of part that an actuator acts on, and its number; "" for other kinds.

        "joint", "tendon" or "site", a site without another one that it is seen from.
        """
        kinds = self.mujoco.mjtTrn
        kind, (number, other) = (
            self.model.actuator_trntype[actuator],
            self.model.actuator_trnid[actuator],
        )
        words = {
            kinds.mjTRN_JOINT: "joint",
            kinds.mjTRN_JOINTINPARENT: "joint",
            kinds.mjTRN_TENDON: "tendon",
            kinds.mjTRN_SITE: "site" if other < 0 else "",
        }
        return words.get(kinds(kind), ""), int(number)

    def control(self, actuator: int) -> int | None:
        """Number of an actuator's control; None unless it has a single one."""
        counts = getattr(self.model, "actuator_ctrlnum", None)
        if counts is None:
            return actuator
        return int(self.model.actuator_ctrladr[actuator]) if counts[actuator] == 1 else None

    def armature(self, joint: int) -> float:
        """Rotor inertia of a joint and of its actuators, which their gears multiply."""
        armature = self.model.dof_armature[self.model.jnt_dofadr[joint]]
        return float(armature) + self._gear_sum(joint, "actuator_armature")

    def damping(self, joint: int) -> float:
        """Damping of a joint and of its actuators, which their gears multiply."""
        if self.disables("DAMPER"):
            return 0.0
        damping = self.model.dof_damping[self.model.jnt_dofadr[joint]]
        return float(damping) + self._gear_sum(joint, "actuator_damping")

    def dry_friction(self, joint: int) -> float:
        """Largest dry friction of a joint with one coordinate."""
        if self.disables("FRICTIONLOSS"):
            return 0.0
        return float(self.model.dof_frictionloss[self.model.jnt_dofadr[joint]])

    def is_limited(self, joint: int) -> bool:
        """Whether the coordinate of a joint has limits."""
        return bool(self.model.jnt_limited[joint]) and not self.disables("LIMIT")

    def zero(self, joint: int) -> float:
        """Coordinate of a joint in the pose that is the mechanism's zero."""
        is_ball = self.kind(joint) == "ball"
        return 0.0 if is_ball else float(self.model.qpos0[self.model.jnt_qposadr[joint]])

    def stiffness(self, joint: int) -> float:
        """Stiffness of a joint's spring."""
        return 0.0 if self.disables("SPRING") else float(self.model.jnt_stiffness[joint])

    def is_massless(self, body: int) -> bool:
        """Whether a moving body has no mass in the file."""
        mass = self.masses.get(self.model.body(body).name)
        return mass is not None and mass.is_nothing

    def _gear_sum(self, joint: int, field: str) -> float:
        model = self.model
        if not hasattr(model, field) or self.kind(joint) == "ball":
            return 0.0
        acting = self._actuators[joint]
        return float(sum(model.actuator_gear[i, 0] ** 2 * getattr(model, field)[i] for i in acting))

    @functools.cached_property
    def _actuators(self) -> dict[int, list[int]]:
        """Actuators of each joint."""
        acting: dict[int, list[int]] = {joint: [] for joint in range(self.model.njnt)}
        for i in range(self.count("actuator")):
            kind, part = self.target(i)
            if kind == "joint":
                acting[part].append(i)
        return acting

    def pose(self, body: int) -> tuple[np.ndarray, np.ndarray]:
        """Position (3,) and rotation (3, 3), body to inertial."""
        return self.data.xpos[body], self.data.xmat[body].reshape(3, 3)

    def seen(
        self, body: int, position: np.ndarray, rotation: np.ndarray
    ) -> tuple[str, np.ndarray, np.ndarray]:
        """Body of the mechanism that holds a body, and in its frame the position and the
        orientation, a unit quaternion, of a frame given in the world.
        """
        if self.is_moved(body):
            holder = int(self.model.body_weldid[body])
            origin, axes = self.pose(holder)
            name = self.name("body", holder)
        else:
            origin, axes, name = np.zeros(3), np.eye(3), GROUND
        orientation = np.zeros(4)
        self.mujoco.mju_mat2Quat(orientation, (axes.T @ rotation).ravel())
        return name, axes.T @ (position - origin), orientation

    def site(self, site: int) -> tuple[str, np.ndarray, np.ndarray]:
        """As `seen`, for the frame of a site."""
        place = self.data.site_xpos[site], self.data.site_xmat[site].reshape(3, 3)
        return self.seen(int(self.model.site_bodyid[site]), *place)

    def on(
        self, body: int, position: np.ndarray, quaternion: np.ndarray
    ) -> tuple[str, np.ndarray, np.ndarray]:
        """As `seen`, for a frame given in that of a body."""
        origin, axes = self.pose(body)
        turn = np.zeros(9)
        self.mujoco.mju_quat2Mat(turn, quaternion)
        return self.seen(body, origin + axes @ position, axes @ turn.reshape(3, 3))
