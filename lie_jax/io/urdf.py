"""URDF files as specifications of MuJoCo: parts that MuJoCo refuses are mended or left out by name.

MuJoCo reads a copy of the file. There the link `world` is declared, shapes have names of their own,
shapes without a size are absent, and links with floating joints stand on the ground. Addresses of
meshes are numbers, because MuJoCo takes two meshes of one name in different folders for one.
"""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from lie_jax.io import meshes
from lie_jax.io.sources import Refusal

Element = ElementTree.Element

# Types of joints that MuJoCo reads.
_ONE_COORDINATE = ("revolute", "continuous", "prismatic")
_TYPES = (*_ONE_COORDINATE, "fixed", "floating", "planar", "spherical")
# Dimensions of a shape that must be positive, by its tag.
_DIMENSIONS = {
    "box": ("size",),
    "sphere": ("radius",),
    "cylinder": ("radius", "length"),
    "capsule": ("radius",),
    "mesh": (),
}
WITHOUT_SIZE = "shapes without a size, of"
_MIMIC = "<mimic> with a joint that is no hinge or slider, of"
NOT_READ = "shapes that MuJoCo does not read from URDF, of"


class Specification(NamedTuple):
    """A specification of MuJoCo, and names of the parts that it does not have, by kind."""

    spec: Any
    ignored: dict[str, tuple[str, ...]]


def specification(mujoco: Any, path: Path, robot: Element, floating_base: bool) -> Specification:
    """Specification of a robot without inertias; fixed links are bodies of their own.

    `floating_base`: whether roots without a joint are free. Raises `ValueError` for links and
    joints that a mimic or a joint names and the file does not have, for links with two parents and
    cycles, and for all that MuJoCo refuses.
    """
    robot = copy.deepcopy(robot)
    _check_names(robot)
    _check_tree(robot)
    _remove_pictures(robot)
    ignored = _remove_shapes(robot) | _remove_ball_limits(robot) | _remove_mimics(robot)
    _name_shapes(robot)
    addresses = _number_meshes(robot)
    joints = {_link(joint, "child"): joint for joint in robot.findall("joint")}
    floating = [joint for joint in joints.values() if joint.get("type") == "floating"]
    places = {_link(joint, "child"): _place(_link(joint, "child"), joints) for joint in floating}
    for joint in floating:
        robot.remove(joint)
    for link in robot.findall("link"):
        for inertial in link.findall("inertial"):
            link.remove(inertial)
    try:
        spec = mujoco.MjSpec.from_string(ElementTree.tostring(robot, encoding="unicode"))
    except ValueError as error:
        raise ValueError(_with_lines_of_the_file(mujoco, path, str(error))) from error
    spec.modelfiledir = str(path.parent)
    meshes.find(spec, addresses)
    spec.compiler.discardvisual = False
    # `trees` joins fixed bodies, after free ones have got their joints.
    spec.compiler.fusestatic = False
    for joint in floating:
        body = spec.body(_link(joint, "child"))
        rotation, body.pos = places[body.name]
        mujoco.mju_mat2Quat(body.quat, rotation.ravel())
        _make_free(body, joint)
    if floating_base:
        _free_roots(spec)
    return Specification(spec, ignored)


def numbers(element: Element | None, attribute: str, default: str, owner: str) -> np.ndarray:
    """Numbers of an attribute; raises `ValueError` with the name of the owner for other text."""
    text = default if element is None else element.get(attribute, default)
    try:
        values = np.asarray([float(number) for number in text.split()])
    except ValueError:
        values = np.zeros(0)
    if values.size != len(default.split()):
        raise Refusal(
            f"cannot be compiled: {owner!r} has {attribute}={text!r}; it must be "
            f"{len(default.split())} numbers. Correct the file."
        )
    return values


def origin(element: Element, owner: str) -> tuple[np.ndarray, np.ndarray]:
    """Rotation (3, 3) and position (3,) of the `<origin>` of an element."""
    place = element.find("origin")
    position = numbers(place, "xyz", "0 0 0", owner)
    (cx, cy, cz), (sx, sy, sz) = (
        f(numbers(place, "rpy", "0 0 0", owner)) for f in (np.cos, np.sin)
    )
    about_x = np.asarray([[1.0, 0.0, 0.0], [0.0, cx, -sx], [0.0, sx, cx]])
    about_y = np.asarray([[cy, 0.0, sy], [0.0, 1.0, 0.0], [-sy, 0.0, cy]])
    about_z = np.asarray([[cz, -sz, 0.0], [sz, cz, 0.0], [0.0, 0.0, 1.0]])
    return about_z @ about_y @ about_x, position


def _with_lines_of_the_file(mujoco: Any, path: Path, error: str) -> str:
    """MuJoCo's words for the file itself, if it refuses that, too; those for the copy else."""
    try:
        mujoco.MjSpec.from_file(str(path))
    except ValueError as of_file:
        return str(of_file)
    return re.sub(r", line \d+", "", error)


def _link(joint: Element, end: str) -> str:
    """Name of the link at an end of a joint, "parent" or "child"."""
    element = joint.find(end)
    return "" if element is None else element.get("link", "")


def _check_names(robot: Element) -> None:
    """Declare the link `world` where a joint has it as its parent; raise for names that no link or
    joint has.
    """
    links = {link.get("name") for link in robot.findall("link")}
    joints = {joint.get("name") for joint in robot.findall("joint")}
    for joint in robot.findall("joint"):
        name = joint.get("name")
        for mimic in joint.findall("mimic"):
            if mimic.get("joint") == name:
                raise Refusal(
                    f"cannot be compiled: the joint {name!r} mimics itself. Name the joint that it "
                    "follows, or remove <mimic>."
                )
            if mimic.get("joint") not in joints:
                raise Refusal(
                    f"cannot be compiled: the joint {name!r} mimics {mimic.get('joint')!r}, which "
                    "is no joint of the file. Correct the name, or remove <mimic>."
                )
        if joint.get("type") not in _TYPES:
            raise Refusal(
                f"cannot be compiled: the joint {name!r} has the type {joint.get('type')!r}, which "
                f"is none of {', '.join(_TYPES)}. Replace it by joints of these types."
            )
        if _link(joint, "parent") == "world" and "world" not in links:
            robot.insert(0, Element("link", name="world"))
            links.add("world")
        for end in ("parent", "child"):
            if _link(joint, end) not in links:
                raise Refusal(
                    f"cannot be compiled: the joint {name!r} has the {end} {_link(joint, end)!r}, "
                    "which is no link of the file. Correct the name, or add the link."
                )


def _check_tree(robot: Element) -> None:
    """Raise for links with several parents, and for joints in a cycle."""
    joints: dict[str, Element] = {}
    for joint in robot.findall("joint"):
        link = _link(joint, "child")
        other = joints.setdefault(link, joint)
        if other is not joint:
            raise Refusal(
                f"cannot be compiled: the link {link!r} is the child of two joints, "
                f"{other.get('name')!r} and {joint.get('name')!r}, and a URDF file must be a tree. "
                "Take one of them out; a joint of lie_jax can close the loop in the mechanism."
            )
    for link in joints:
        above = list(_ancestors(link, joints))
        if _link(joints[above[-1]], "parent") == link:
            raise Refusal(
                "cannot be compiled: its joints form a cycle through the links "
                f"{', '.join(above)}, and a URDF file must be a tree. Take one of them out."
            )


def _remove_pictures(robot: Element) -> None:
    """Remove pictures, unless the file wants them, and materials after the first of a picture."""
    settings = robot.find("mujoco/compiler")
    keeps = settings is not None and settings.get("discardvisual") == "false"
    for link in robot.findall("link"):
        for visual in link.findall("visual"):
            for material in visual.findall("material")[1:]:
                visual.remove(material)
            if not keeps:
                link.remove(visual)


def _remove_shapes(robot: Element) -> dict[str, tuple[str, ...]]:
    """Remove shapes that have no size or that URDF does not have; names of those that touch."""
    left_out: dict[str, dict[str, None]] = {}
    for link in robot.findall("link"):
        for element in [*link.findall("visual"), *link.findall("collision")]:
            kind = _flaw(element)
            if kind is None:
                continue
            link.remove(element)
            if element.tag == "collision":
                name = element.get("name") or link.get("name", "")
                left_out.setdefault(kind, {})[name] = None
    return {kind: tuple(names) for kind, names in left_out.items()}


def _remove_ball_limits(robot: Element) -> dict[str, tuple[str, ...]]:
    """Remove limits of ball joints, which MuJoCo may refuse; names of the joints."""
    names = []
    for joint in robot.findall("joint"):
        for limit in joint.findall("limit") if joint.get("type") == "spherical" else ():
            joint.remove(limit)
            names.append(str(joint.get("name")))
    return {"limits of": tuple(names)} if names else {}


def _remove_mimics(robot: Element) -> dict[str, tuple[str, ...]]:
    """Remove mimics of and by joints without a single coordinate; names of the joints that move."""
    types = {joint.get("name"): joint.get("type") for joint in robot.findall("joint")}
    names = []
    for joint in robot.findall("joint"):
        for mimic in joint.findall("mimic"):
            pair = joint.get("type"), types[mimic.get("joint")]
            if not all(kind in _ONE_COORDINATE for kind in pair):
                joint.remove(mimic)
                names += [str(joint.get("name"))] if pair[0] != "fixed" else []
    return {_MIMIC: tuple(names)} if names else {}


def _flaw(element: Element) -> str | None:
    """Kind of what is ignored for a shape that cannot be read; None for others."""
    shapes = [shape for shape in element.iterfind("geometry/*") if shape.tag in _DIMENSIONS]
    if not shapes:
        return NOT_READ
    for attribute in _DIMENSIONS[shapes[0].tag]:
        try:
            sizes = [float(size) for size in shapes[0].get(attribute, "").split()]
        except ValueError:
            continue
        if any(size <= 0.0 for size in sizes):
            return WITHOUT_SIZE
    return None


def _name_shapes(robot: Element) -> None:
    """Name all shapes that touch: as in the file, or by their links."""
    collisions = [(c, link) for link in robot.findall("link") for c in link.findall("collision")]
    used = set()
    unnamed = []
    for collision, link in collisions:
        name = collision.get("name")
        if name and name not in used:
            used.add(name)
        else:
            unnamed.append((collision, str(link.get("name"))))
    for collision, name in unnamed:
        collision.set("name", free_name(name, used))
    for visual in robot.iterfind("link/visual"):
        visual.attrib.pop("name", None)


def free_name(name: str, used: set[str]) -> str:
    """The name, with a number from 2 where it is used; it is used from now on."""
    made, number = name, 1
    while made in used:
        number += 1
        made = f"{name} {number}"
    used.add(made)
    return made


def _number_meshes(robot: Element) -> dict[str, str]:
    """Replace addresses of meshes by numbers; addresses by these."""
    addresses: dict[str, str] = {}
    names: dict[str, str] = {}
    for mesh in robot.iterfind("link/*/geometry/mesh"):
        address = mesh.get("filename")
        if address is not None:
            name = names.setdefault(address, f"mesh-{len(names)}-")
            addresses[name] = address
            mesh.set("filename", name)
    return addresses


def _place(link: str, joints: dict[str, Element]) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and position of a link where all coordinates are zero."""
    rotation, position = np.eye(3), np.zeros(3)
    for ancestor in _ancestors(link, joints):
        joint = joints[ancestor]
        turn, shift = origin(joint, str(joint.get("name")))
        rotation, position = turn @ rotation, shift + turn @ position
    return rotation, position


def _ancestors(link: str, joints: dict[str, Element]) -> Iterator[str]:
    """The link and those above it, as far as they have joints to parents."""
    passed = set()
    while link in joints and link not in passed:
        passed.add(link)
        yield link
        link = _link(joints[link], "parent")


def _make_free(body: Any, joint: Element) -> None:
    name = str(joint.get("name"))
    free = body.add_freejoint(name=name)
    dynamics = joint.find("dynamics")
    free.damping[0] = numbers(dynamics, "damping", "0", name)[0]
    free.frictionloss = numbers(dynamics, "friction", "0", name)[0]


def _free_roots(spec: Any) -> None:
    """Give roots without a joint a free one; raise if a root has another one."""
    roots = list(spec.worldbody.bodies)
    held = [body.name for body in roots if body.joints]
    loose = [body for body in roots if not body.joints]
    if not loose and held:
        raise Refusal(
            f"has no root that could be free, and floating_base=True: {held[0]!r} has a joint to "
            "the world. Leave floating_base out."
        )
    for body in loose:
        body.add_freejoint()
