"""Inertias of a mechanism written back into the file that it was imported from."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from lie_jax import checks
from lie_jax.io import sources
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.sweeps import unfinished

Element = ElementTree.Element
# Settings of MuJoCo's compiler that change inertias.
_CHANGES = ("inertiafromgeom", "settotalmass", "balanceinertia", "boundmass", "boundinertia")


def write_inertias(
    source: str | os.PathLike, mechanism: Mechanism, path: str | os.PathLike
) -> None:
    """Write a copy of a URDF or MJCF file with the masses, centres of mass and inertias of a
    mechanism, such as identified ones.

    `source`: the file that the mechanism was imported from; `path`: of the new file, in the same
    folder if its meshes have relative addresses. Of links that are fixed to each other the first
    one gets the inertia of all. All else stays as it is, but for comments. Raises `ValueError` for
    a file in which the mechanism's bodies have no names, or stand in files that it includes, and
    `FileNotFoundError` for a source or a folder that does not exist.
    """
    for argument, value in (("source", source), ("path", path)):
        checks.path(f"lie_jax.io.write_inertias({argument}=)", value)
    if not Path(source).is_file():
        raise FileNotFoundError(
            f"lie_jax.io.write_inertias(source=) is {str(source)!r}, which is not a file; it must "
            "be the file that the mechanism was imported from: check it and the folder that you "
            "are in."
        )
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"lie_jax.io.write_inertias(path=) is {str(path)!r}, in a folder that does not exist; "
            f"make it first: pathlib.Path({str(folder)!r}).mkdir(parents=True)."
        )
    if Path(path).is_dir():
        raise ValueError(
            f"lie_jax.io.write_inertias(path=) is {str(path)!r}, which is a folder; it must be the "
            "name of the new file: add one."
        )
    try:
        root = sources.parse(Path(source))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"lie_jax.io.write_inertias(source=) is {str(source)!r}, which cannot be read as XML "
            f"({error}); it must be the URDF or MJCF file that the mechanism was imported from: "
            "check it."
        ) from error
    tree = ElementTree.ElementTree(root)
    bodies = {body.name: body for body in mechanism.bodies if not body.is_massless}
    is_urdf = root.tag == "robot"
    groups = list(_links(root, str(source)) if is_urdf else _bodies(root))
    missing = set(bodies) - {first for first, _ in groups}
    if missing:
        raise ValueError(
            f"lie_jax.io.write_inertias(source=): {str(source)!r} has no bodies with the names "
            f"{', '.join(sorted(missing))}; it must be the file that the mechanism was imported "
            "from, in which all bodies have names: take that file, or name them there."
        )
    for first, parts in groups:
        if first not in bodies:
            continue
        for part in parts:
            for inertial in part.findall("inertial"):
                part.remove(inertial)
        parts[0].insert(0, _urdf(bodies[first]) if is_urdf else _mjcf(bodies[first]))
        for part in () if is_urdf else parts[1:]:
            # Without it MuJoCo computes an inertia from the geoms.
            none = {"pos": "0 0 0", "mass": "0", "diaginertia": "0 0 0"}
            part.insert(0, Element("inertial", none))
    for compiler in root.findall("mujoco/compiler" if is_urdf else "compiler"):
        # They would put other inertias in their place.
        for attribute in _CHANGES:
            compiler.attrib.pop(attribute, None)
    try:
        with unfinished.replacing(path) as new:
            ElementTree.indent(tree)
            tree.write(new, encoding="utf-8", xml_declaration=True)
    except RecursionError as error:
        raise ValueError(
            f"lie_jax.io.write_inertias(source=): {str(source)!r} has bodies nested too deeply, "
            "hundreds within each other, for Python's writer of XML; name them in a shorter chain, "
            "or write the inertias by hand."
        ) from error
    except OSError as error:
        raise ValueError(
            f"lie_jax.io.write_inertias(path=) is {str(path)!r}, which cannot be written "
            f"({error.strerror}); it must be a file that you may write to: take another."
        ) from error


def _links(robot: Element, source: str) -> Iterator[tuple[str, list[Element]]]:
    """Links that are fixed to each other, by the name of the first one, which comes first."""
    fixed: dict[str, str] = {}
    groups: dict[str, list[Element]] = {}
    for joint in robot.findall("joint"):
        parent, child = joint.find("parent"), joint.find("child")
        if joint.get("type") == "fixed" and parent is not None and child is not None:
            fixed[str(child.get("link"))] = str(parent.get("link"))
    for link in robot.findall("link"):
        first = str(link.get("name"))
        met = {first: None}
        while first in fixed:
            first = fixed[first]
            if first in met:
                raise ValueError(
                    f"lie_jax.io.write_inertias(source=): {source!r} has fixed joints in a cycle, "
                    f"through the links {', '.join(met)}; a URDF file must be a tree: take one of "
                    "the joints out."
                )
            met[first] = None
        parts = groups.setdefault(first, [])
        parts.insert(0 if link.get("name") == first else len(parts), link)
    yield from groups.items()


def _bodies(root: Element) -> Iterator[tuple[str, list[Element]]]:
    """Bodies that are fixed to each other, by the name of the first one, which comes first."""
    for body in root.iter("body"):
        if _moves(body):
            yield str(body.get("name")), [body, *_fixed_bodies(body)]


def _moves(body: Element) -> bool:
    return body.find("joint") is not None or body.find("freejoint") is not None


def _fixed_bodies(body: Element) -> Iterator[Element]:
    waiting = [body]
    while waiting:
        for child in waiting.pop().findall("body"):
            if not _moves(child):
                waiting.append(child)
                yield child


def _text(*numbers: float) -> str:
    return " ".join(repr(float(x)) for x in numbers)


def _numbers(body: Body) -> Mapping[str, str]:
    inertia, axes = np.asarray(body.inertia), "xyz"
    parts = {f"i{axes[i]}{axes[j]}": _text(inertia[i, j]) for i in range(3) for j in range(i, 3)}
    place = _text(*np.asarray(body.center_of_mass))
    return {"place": place, "mass": _text(float(body.mass)), **parts}


def _urdf(body: Body) -> Element:
    element, numbers = Element("inertial"), dict(_numbers(body))
    ElementTree.SubElement(element, "origin", xyz=numbers.pop("place"), rpy="0 0 0")
    ElementTree.SubElement(element, "mass", value=numbers.pop("mass"))
    ElementTree.SubElement(element, "inertia", numbers)
    return element


def _mjcf(body: Body) -> Element:
    numbers = _numbers(body)
    full = " ".join(numbers[part] for part in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz"))
    return Element("inertial", pos=numbers["place"], mass=numbers["mass"], fullinertia=full)
