"""Models in URDF and in MuJoCo's MJCF, read by MuJoCo's compiler."""

import contextlib
import importlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from lie_jax import checks
from lie_jax.io import (
    couplings,
    drives,
    geoms,
    inertias,
    landmarks,
    tendons,
    trees,
    unsupported,
    visuals,
)
from lie_jax.io import meshes as reading
from lie_jax.io.by_name import Named
from lie_jax.io.compiled import CompiledFile
from lie_jax.io.imported import ImportedJoint, ImportedModel
from lie_jax.mechanics.mechanism import Mechanism

_BALANCED = "inertias of a body, where the file has others (inertia='balance'), of"


def import_model(
    path: str | os.PathLike, *, floating_base: bool = False, inertia: str = "strict"
) -> ImportedModel:
    """Mechanism of a URDF or MJCF file.

    Bodies that no joint moves against each other become one, with the name of the first; bodies
    that cannot move are the ground. Where a body has several joints, massless bodies stand between
    them: such a mechanism has joint coordinates alone, `lie_jax.Minimal()`, and so has one with an
    `armature`. Springs and dampers of joints are forces. An actuator of a hinge or a slider is a
    motor, whose input u[i] is its torque (N m) or force (N); its armature and damping, times the
    square of its gear, are the joint's. The feedback of position and velocity servos is a
    controller beside the motor. Equality constraints and `<mimic>` are joints that are constraints,
    after those of the tree. URDF has no actuators, and every hinge and slider that follows no other
    gets a motor. Parts that the file's flags switch off are absent. Limits, dry friction and
    contact of shapes are data: `ImportedModel.stops`, `dry_friction` and `contacts` make forces of
    them. Parts that the mechanism does not have are left out: `ignored` and a warning name them.

    **Arguments:** `path`: of the file; `floating_base`: whether the root of a URDF file is free;
    otherwise it is fixed to the ground. `inertia`: `"strict"` refuses a URDF file in which a link,
    with all that are fixed to it, has an inertia that no body has; `"balance"` gives it the nearest
    one that a body can have, and at least 1 g, 1 mm wide, and a warning names it. MJCF files state
    both themselves.

    Inertias of URDF files come from `<inertial>` alone. Meshes (STL or OBJ) are the vertices of
    their convex hulls, of at most 64; a mesh without a file is no error where its body has an
    inertia. Needs MuJoCo: `pip install '.[io]'` in the clone. Raises `FileNotFoundError`,
    `ImportError`, and `ValueError` for a file that MuJoCo does not compile or in which nothing
    moves.
    """
    checks.path("import_model(path=)", path)
    checks.one_of("import_model(inertia=)", inertia, ("strict", "balance"))
    path = Path(path)
    _check_file(path)
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError as error:
        raise ImportError(
            "import_model reads files by MuJoCo's compiler, which is not installed: "
            "in the clone of lie_jax run pip install '.[io]'."
        ) from error
    tree = _tree(path)
    is_urdf = tree.tag == "robot"
    if floating_base and not is_urdf:
        raise ValueError(
            f"import_model(floating_base=True), but {str(path)!r} is an MJCF file, where "
            "<freejoint/> makes a body free: leave floating_base out, or add <freejoint/> to the "
            "file."
        )
    if inertia == "balance" and not is_urdf:
        raise ValueError(
            f"import_model(inertia='balance'), but {str(path)!r} is an MJCF file, where "
            '<compiler balanceinertia="true" boundmass="..." boundinertia="..."/> changes '
            "inertias: leave inertia out, or add these to the file."
        )
    with _refusing(path, "cannot be compiled: {}. Correct the file."):
        spec = mujoco.MjSpec.from_file(str(path))
    joined = inertias.Joined((), ())
    if is_urdf:
        with _refusing(path, "{}"):
            joined = _as_mechanism(mujoco, spec, floating_base, inertia == "balance")
    with _refusing(path, "cannot be compiled: {}. Correct the file."):
        model, meshes = reading.compiled(mujoco, spec)
    imported = _imported(path, CompiledFile(mujoco, model, joined.massless), tree)
    balanced = {_BALANCED: joined.mended} if joined.mended else {}
    ignored = balanced | imported.ignored | meshes
    if ignored:
        warnings.warn(unsupported.message(path.name, ignored), stacklevel=2)
    return imported._replace(ignored=ignored)


@contextlib.contextmanager
def _refusing(path: Path, form: str) -> Iterator[None]:
    """Name the file in a `ValueError`; `form` has a place for the reason."""
    try:
        yield
    except ValueError as error:
        reason = form.format(str(error).strip())
        raise ValueError(f"import_model(path=): {str(path)!r} {reason}") from error


def _check_file(path: Path) -> None:
    """Raise unless there is a file, and no source of macros."""
    if "<" in str(path):
        raise ValueError(
            f"import_model(path=) begins with {str(path)[:20]!r}, text of a model; it must be the "
            "name of a file: write the text to one with pathlib.Path(name).write_text(text)."
        )
    if path.is_dir():
        files = sorted(file.name for file in path.iterdir() if file.suffix in (".urdf", ".xml"))
        inside = f"a file in it, such as {files[0]!r}" if files else "a URDF or MJCF file"
        raise ValueError(f"import_model(path=) is {str(path)!r}, which is a folder: name {inside}.")
    if not path.is_file():
        raise FileNotFoundError(
            f"import_model(path=) is {str(path)!r}, which is not a file; it must be the name of "
            "a URDF or MJCF file: check it and the folder that you are in."
        )
    if path.suffix == ".xacro":
        raise _with_macros(path)


def _with_macros(path: Path) -> ValueError:
    stem = path.name.removesuffix(".xacro").removesuffix(".urdf")
    source = path.name if path.suffix == ".xacro" else f"{stem}.urdf.xacro"
    return ValueError(
        f"import_model(path=): {str(path)!r} has macros of xacro that are not expanded; it must be "
        f"a URDF file: run `xacro {source} > {stem}.urdf` first."
    )


def _tree(path: Path) -> ElementTree.Element:
    """Root of a file in URDF or in MJCF; raises for all others."""
    try:
        tree = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(
            f"import_model(path=): {str(path)!r} is not an XML file ({error}); it must be a URDF "
            "or MJCF file: correct it, or expand its macros first."
        ) from error
    root = tree.tag
    if any("xacro" in part.tag for part in tree.iter() if isinstance(part.tag, str)):
        raise _with_macros(path)
    if root not in ("robot", "mujoco"):
        advice = {
            "sdf": "SDF files and worlds are not read: export the model as URDF or MJCF",
            "mujocoinclude": "import the file that includes it",
        }.get(root, "give the file of a robot or model")
        raise ValueError(
            f"import_model(path=): {str(path)!r} has the root <{root}>; it must be <robot> as in "
            f"URDF or <mujoco> as in MJCF: {advice}."
        )
    if root == "robot":
        _check_mimics(path, tree)
    return tree


def _check_mimics(path: Path, robot: ElementTree.Element) -> None:
    """Raise if a joint of a URDF file follows one that the file does not have."""
    names = [joint.get("name") for joint in robot.findall("joint")]
    for joint in robot.findall("joint"):
        for mimic in joint.findall("mimic"):
            if mimic.get("joint") not in names:
                raise ValueError(
                    f"import_model(path=): in {str(path)!r} the joint {joint.get('name')!r} "
                    f"mimics {mimic.get('joint')!r}, which is no joint of the file; correct the "
                    "name, or remove <mimic>."
                )


def _as_mechanism(mujoco: Any, spec: Any, floating_base: bool, mends: bool) -> inertias.Joined:
    """Set what a URDF file leaves to its reader: inertias, fixed bodies, meshes, the free base."""
    reading.find(spec)
    # Inertias come from <inertial> alone.
    spec.compiler.inertiafromgeom = 0
    spec.compiler.discardvisual = False
    # `trees` joins fixed bodies, after the free one has got its joint.
    spec.compiler.fusestatic = False
    if floating_base:
        for body in spec.worldbody.bodies:
            body.add_freejoint()
    return inertias.join(mujoco, spec, mends)


def _imported(path: Path, file: CompiledFile, tree: ElementTree.Element) -> ImportedModel:
    model, bodies, mounts = file.model, [], {}
    speeds = _speeds(tree) if tree.tag == "robot" else {}
    # Bodies without joints are parts of those that they are fixed to.
    moving = np.flatnonzero(model.body_jntnum).tolist()
    for body in moving:
        bodies += trees.bodies(file, body)
        mounts |= dict(trees.mounts(file, body))
    if not bodies:
        raise ValueError(
            f"import_model(path=) is {str(path)!r}, in which nothing moves; it must have a joint: "
            "set floating_base=True if it is the URDF file of a free robot."
        )
    elements = {joint: trees.joint(file, joint, mount) for joint, mount in mounts.items()}
    coupled = couplings.couplings(file, elements)
    forces = [force for joint in mounts for force in drives.passive(file, joint, mounts[joint])]
    if tree.tag == "robot":
        followers = couplings.followers(file)
        leaders = [joint for joint in mounts if joint not in followers]
        driven = drives.motors(file, elements, leaders)
    else:
        driven = drives.drives(file, elements)
    mechanism = Mechanism(
        bodies,
        [*elements.values(), *coupled.joints],
        [
            *forces,
            *tendons.springs(file, elements),
            *drives.compensation(file, moving),
            *driven.forces,
        ],
        (0.0, 0.0, 0.0) if file.disables("GRAVITY") else model.opt.gravity,
    )
    joints = []
    for joint, mount in mounts.items():
        name, zero = file.name("joint", joint), file.zero(joint)
        limits = drives.limits(model.jnt_limited[joint], model.jnt_range[joint] - zero)
        friction = 0.0 if file.kind(joint) == "ball" else file.dry_friction(joint)
        strength = drives.total_limits(file, "joint", joint)
        data = limits, zero, friction, speeds.get(name, np.inf), strength
        joints.append(ImportedJoint(name, mount.parent, mount.child, *data))
    shapes = geoms.shapes(file)
    return ImportedModel(
        mechanism,
        tuple(joints),
        driven.actuators,
        unsupported.elements(file, driven.actuators, shapes) | coupled.ignored,
        Named("shape", shapes),
        coupled.couplings,
        Named("frame", landmarks.frames(file)),
        Named("keyframe", landmarks.keyframes(file, mounts)),
        visuals.visuals(file),
        Named("keyframe", drives.keyframe_inputs(file, driven.actuators)),
    )


def _speeds(robot: ElementTree.Element) -> dict[str, float]:
    """Limits of velocity in a URDF file, by the names of joints."""
    limits = ((joint.get("name"), joint.find("limit")) for joint in robot.findall("joint"))
    return {
        str(name): float(limit.get("velocity", "inf"))
        for name, limit in limits
        if limit is not None
    }
