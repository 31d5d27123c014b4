"""A mechanism: bodies, joints, forces and gravity, without coordinates."""

import reprlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.contact.element import Contact
from lie_jax.mechanics.elements import AbstractElement
from lie_jax.mechanics.forces.base import AbstractForce
from lie_jax.mechanics.inertias import AbstractInertia
from lie_jax.mechanics.joints.base import GROUND, AbstractJoint
from lie_jax.numerics import conversion
from lie_jax.numerics.conversion import as_float

# Type of the members of a field, and how to make one.
_MEMBERS = {
    "bodies": (Body, "lie_jax.Body(name, mass, inertia)"),
    "joints": (AbstractJoint, "a joint such as lie_jax.SphericalJoint(parent, child)"),
    "forces": (AbstractForce, "a force such as lie_jax.PointForce(body, force)"),
    "inertias": (AbstractInertia, "lie_jax.beams.line(..., order=4).inertias"),
}

# Names of one kind in a text.
_MOST_NAMES = 6
# Contacts, of which a step computes each.
_MOST_PAIRS = 10_000


def _members(field: str, values: Iterable[Any]) -> tuple:
    if not isinstance(values, Iterable):
        raise ValueError(
            f"Mechanism({field}=) is a {type(values).__name__}; it must be a sequence: put it "
            "in a list."
        )
    members = tuple(values)
    for member in members:
        if not isinstance(member, _MEMBERS[field][0]):
            homes = [home for home, (kind, _) in _MEMBERS.items() if isinstance(member, kind)]
            what = _short_name(member) if homes else reprlib.repr(member)
            maker = f"make them with {_MEMBERS[field][1]}"
            fix = f"it belongs in {homes[0]}=" if homes else maker
            raise ValueError(
                f"Mechanism({field}=) holds {what}; it must hold {field} alone: {fix}."
            )
    return members


class Mechanism(eqx.Module):
    """Bodies connected by joints and moved by forces.

    **Arguments:** `bodies`: a sequence of `Body`, at least one, with names of their own; `joints`:
    a sequence of joints; `forces`: a sequence of force elements; `gravity`: (3,), acceleration of
    gravity, inertial components, m/s²; `inertias`: a sequence of inertia elements, mass between
    bodies, in addition to theirs.

    Raises `ValueError` if a name is used twice, if a joint or force names a body that is not there,
    if a joint connects a body with itself, or if a force, driver or coupling acts along a joint
    that is none of its joints.
    """

    bodies: tuple[Body, ...] = eqx.field(converter=partial(_members, "bodies"))
    joints: tuple[AbstractJoint, ...] = eqx.field(converter=partial(_members, "joints"), default=())
    forces: tuple[AbstractForce, ...] = eqx.field(converter=partial(_members, "forces"), default=())
    gravity: Float[Array, "..."] = eqx.field(converter=as_float, default=(0.0, 0.0, -9.81))
    inertias: tuple[AbstractInertia, ...] = eqx.field(
        converter=partial(_members, "inertias"), default=(), kw_only=True
    )

    def __check_init__(self):
        if callable(self.gravity):
            raise ValueError(
                "Mechanism(gravity=) is a function; it must be (3,) numbers, m/s², that do not "
                "change with time: give the mean there, and for the rest g(t) add "
                "lie_jax.PointForce(body, lambda t: mass * g(t), point=center_of_mass) for each "
                "body to forces=."
            )
        checks.shape("Mechanism(gravity=)", self.gravity, (3,), "m/s², inertial components")
        checks.finite("Mechanism(gravity=)", self.gravity)
        pairs = sum(isinstance(force, Contact) for force in self.forces)
        if pairs > _MOST_PAIRS:
            raise ValueError(
                f"Mechanism(forces=) has {pairs} contacts; it may have {_MOST_PAIRS}, as each step "
                "computes all of them: leave out pairs that cannot meet, or take MuJoCo or Drake, "
                "which search for those that do."
            )
        elements = (*self.bodies, *self.joints, *self.forces, *self.inertias)
        # Stacked with others, numbers of single precision would pass for double ones.
        checks.one_precision(
            [*((_short_name(element), element) for element in elements), ("gravity", self.gravity)]
        )
        names = self.names
        if not names:
            raise ValueError(
                "Mechanism(bodies=) is empty; it must hold at least one Body: add "
                "lie_jax.Body(name, mass, inertia)."
            )
        for name in names:
            if names.count(name) > 1 or name == GROUND:
                what = "the inertial frame" if name == GROUND else "another body"
                raise ValueError(
                    f"Mechanism(bodies=) has a body with the name {name!r}, which is that of "
                    f"{what}; every body needs a name of its own: rename it."
                )
        titles = [joint.name for joint in self.joints if joint.name is not None]
        for title in titles:
            if titles.count(title) > 1:
                raise ValueError(
                    f"Mechanism(joints=) has {titles.count(title)} joints with the name {title!r}; "
                    "every name belongs to one joint: rename them."
                )
        slots = (*names, *self.frames)
        for name in self.frames:
            if slots.count(name) > 1:
                raise ValueError(
                    f"Mechanism(bodies=) has two frames with the name {name!r}, one of them the "
                    "interface of a flexible body; every one needs a name of its own: rename it."
                )
        known = ", ".join(repr(n) for n in (*slots, GROUND))
        for element in (*self.joints, *self.forces, *self.inertias):
            for name in element.bodies:
                checks.name(f"the name of a body in {_short_name(element)}", name)
                if name != GROUND and name not in slots:
                    raise ValueError(
                        f"{_short_name(element)} names the body {name!r}, which does not exist; "
                        f"the names are {known}: correct it, or add the body to bodies=."
                    )
            if len(set(element.bodies)) < len(element.bodies) and not element.shares_bodies:
                raise ValueError(
                    f"{_short_name(element)} connects {element.bodies[0]!r} with itself; it "
                    "needs two different bodies: correct one of the names."
                )
        for element in (*self.joints, *self.forces):
            objection = element.objection(self.joints)
            if objection is not None:
                raise ValueError(f"{_short_name(element)} {objection}")

    def __repr__(self):
        """Table of the bodies, joints and forces; each of them shows its numbers."""
        parts = {"bodies": self.bodies, "joints": self.joints, "forces": self.forces}
        if self.inertias:
            parts["inertias"] = self.inertias
        lines = [f"Mechanism, gravity {conversion.text(self.gravity)} m/s²"]
        for kind, elements in parts.items():
            words = self.names if kind == "bodies" else tuple(map(_short_name, elements))
            more = f", ... {len(words) - _MOST_NAMES} more" if len(words) > _MOST_NAMES else ""
            lines.append(
                f"  {kind} {len(words):4}  {', '.join(words[:_MOST_NAMES])}{more}".rstrip()
            )
        return "\n".join(lines)

    @property
    def names(self) -> tuple[str, ...]:
        """The bodies' names in order."""
        return tuple(body.name for body in self.bodies)

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of frames of bodies to which elements attach as to bodies of their own."""
        return tuple(frame for body in self.bodies for frame in body.frames)


def attach_elements(mechanism: Mechanism) -> Mechanism:
    """The mechanism whose elements have what they need of its joints."""
    joints = mechanism.joints
    parts = joints, mechanism.forces
    whole = [tuple(element.attach(joints) for element in of_kind) for of_kind in parts]
    return eqx.tree_at(lambda m: (m.joints, m.forces), mechanism, tuple(whole))


def _short_name(element: AbstractElement) -> str:
    return f"{type(element).__name__}({', '.join(map(reprlib.repr, element.words))})"


# Name of a joint, or its parent and child, and its number among those between these.
Label = str | tuple[str | int, ...]


def labels(joints: Sequence[AbstractJoint]) -> tuple[Label, ...]:
    """Keys of joints in readings: the name, without one (parent, child), for the second one without
    a name between the same bodies (parent, child, 2), ...
    """
    made: list[Label] = []
    for joint in joints:
        pair = joint.parent, joint.child
        others = sum(label[:2] == pair for label in made if isinstance(label, tuple))
        key = (*pair, others + 1) if others else pair
        made.append(key if joint.name is None else joint.name)
    return tuple(made)
