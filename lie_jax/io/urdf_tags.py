"""Tags and attributes of URDF files that the import does not read, so that none is lost unnamed.

Every tag that is not in the tables below is named in `ignored`, with the links or joints that have
it.
"""

from collections.abc import Iterator
from xml.etree import ElementTree

Element = ElementTree.Element

# Attributes and tags that are read, or that move nothing, by the tag that has them.
_ATTRIBUTES = {
    "robot": {"name", "version"},
    "link": {"name", "type", "concave"},
    "joint": {"name", "type", "dont_collapse"},
    "inertial": {"name"},
    "collision": {"name", "group", "mask", "concave"},
    "origin": {"xyz", "rpy"},
    "mass": {"value"},
    "inertia": {"ixx", "iyy", "izz", "ixy", "ixz", "iyz"},
    "parent": {"link"},
    "child": {"link"},
    "axis": {"xyz"},
    "limit": {"lower", "upper", "effort", "velocity"},
    "dynamics": {"damping", "friction"},
    "mimic": {"joint", "multiplier", "offset"},
}
_TAGS = {
    "robot": {"link", "joint"},
    "link": {"inertial", "collision"},
    "joint": {"origin", "parent", "child", "axis", "limit", "dynamics", "mimic"},
    "inertial": {"origin", "mass", "inertia"},
    "collision": {"origin", "geometry"},
    "mujoco": {"compiler", "option", "size"},
}
# Parts that move nothing: pictures, and words of ROS for its drivers.
_HARMLESS = {
    "robot": {"material"},
    "link": {"visual"},
    "joint": {"calibration"},
    "collision": {"material", "verbose"},
}
# Parts of transmissions that ROS has and that move nothing.
_OF_ROS = {"type", "joint", "actuator", "hardwareInterface"}
# Words in the names of parts of transmissions that change a motion.
_MOVES = ("inertia", "gear_ratio")
# Tags that move nothing where no contact acts and nothing is driven.
_QUIET = {
    *("gazebo", "robotNamespace", "ros2_control", "safety_controller", "sensor", "frame"),
    *("contact", "contact_coefficients", "self_collision_checking", "collision_checking"),
    *("self_filter", "verbose"),
    *("drake:proximity_properties", "drake:collision_filter_group"),
}
_IN_TRANSMISSION = "in <transmission> of"
_IN_LIMIT = "in <limit> of"


def is_quiet(kind: str) -> bool:
    """Whether a kind of what is ignored moves nothing by itself."""
    quiet = kind.endswith((_IN_TRANSMISSION, _IN_LIMIT))
    return quiet or kind.removeprefix("<").removesuffix("> of") in _QUIET


def unread_tags(robot: Element) -> dict[str, tuple[str, ...]]:
    """Names of links and joints by the tag or attribute of theirs that is not read."""
    found: dict[str, dict[str, None]] = {}
    for kind, owner in _unread_tags(robot, str(robot.get("name"))):
        found.setdefault(kind, {})[owner] = None
    return {kind: tuple(owners) for kind, owners in found.items()}


def _unread_tags(element: Element, owner: str) -> Iterator[tuple[str, str]]:
    known = _ATTRIBUTES.get(element.tag, element.attrib)
    for attribute in element.attrib:
        # Names of other dialects are declared by attributes.
        if attribute not in known and not attribute.startswith(("xmlns", "xsi:")):
            yield f"{attribute!r} in <{element.tag}> of", owner
    for child in element:
        name = child.get("reference") or child.get("name")
        named = str(name) if name and element.tag == "robot" else owner
        if child.tag == "transmission":
            yield from _of_transmission(child, named)
        elif child.tag == "mujoco" or child.tag in _TAGS.get(element.tag, ()):
            yield from _unread_tags(child, named)
        elif child.tag not in _HARMLESS.get(element.tag, ()) and element.tag in _TAGS:
            yield f"<{child.tag}> of", named


def _of_transmission(transmission: Element, owner: str) -> Iterator[tuple[str, str]]:
    """As `_unread_tags`, with the name of the joint that is driven."""
    joint = transmission.find("joint")
    driven = owner if joint is None else joint.get("name") or owner
    for part in transmission.iterfind(".//*"):
        if any(word in part.tag for word in _MOVES):
            yield f"<{part.tag}> of", driven
        elif part.tag not in _OF_ROS:
            yield f"<{part.tag}> {_IN_TRANSMISSION}", driven
