"""Models in URDF and in MuJoCo's MJCF, read by MuJoCo's compiler."""

import contextlib
import importlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from lie_jax import checks
from lie_jax.io import (
    actuators,
    couplings,
    frames_and_keyframes,
    geoms,
    inertias,
    sources,
    tendons,
    trees,
    unsupported,
    urdf,
    urdf_tags,
    visuals,
)
from lie_jax.io import meshes as reading
from lie_jax.io.by_name import Named
from lie_jax.io.compiled import CompiledFile
from lie_jax.io.imported import ImportedJoint, ImportedModel
from lie_jax.mechanics.mechanism import Mechanism
from lie_jax.user_functions import libraries

_BALANCED = "inertias of a body, where the file has others (inertia='balance'), of"


def import_model(
    path: str | os.PathLike, *, floating_base: bool = False, inertia: str = "strict"
) -> ImportedModel:
    """Mechanism of a URDF or MJCF file.

    Bodies that no joint moves against each other become one, with the name of the first; bodies
    that cannot move are the ground. Where a body has several joints, massless bodies stand between
    them: such a mechanism has joint coordinates alone, `lie_jax.Minimal()`, and so has one with an
    `armature`. Children of floating joints are free bodies. Springs and dampers of joints are
    forces. An actuator of a hinge or a slider is a motor, whose input u[i] is its torque (N m) or
    force (N); its armature and damping, times the square of its gear, are the joint's. The feedback
    of position and velocity servos is a controller beside the motor. Equality constraints and
    `<mimic>` are joints that are constraints, after those of the tree. URDF has no actuators, and
    every hinge and slider that follows no other gets a motor. Parts that the file's flags switch
    off are absent. Limits, dry friction and contact of shapes are data: `ImportedModel.stops`,
    `dry_friction` and `contacts` make forces of them. Shapes without a name have that of their
    link or body.

    `ignored` names all parts that the mechanism does not have. A warning names those that change a
    motion and that the model cannot add.

    **Arguments:** `path`: of the file; `floating_base`: whether the root of a URDF file is free;
    otherwise it is fixed to the ground. `inertia`: `"strict"` refuses a URDF file in which a link,
    with all that are fixed to it, has an inertia that no body has; `"geometry"` gives links without
    `<inertial>` that of their shapes, of 1000 kg/m³; `"balance"` gives improper links the nearest
    one that a body can have, 1 g if they have no mass, and 1 mm wide, and a warning names them.
    MJCF files state all of these themselves.

    Inertias of URDF files come from `<inertial>`, as `<mujoco><compiler/></mujoco>` in the file may
    change it. Meshes (STL or OBJ) are the vertices of their convex hulls, of at most 64; a mesh
    without a file is no error where its body has an inertia. Needs MuJoCo: `pip install '.[io]'` in
    the clone. Raises `FileNotFoundError`, `ImportError`, and `ValueError` for a file that MuJoCo
    does not compile or in which nothing moves. All errors name the file.
    """
    checks.path("import_model(path=)", path)
    checks.one_of("import_model(inertia=)", inertia, ("strict", "geometry", "balance"))
    path = Path(path)
    sources.check_file(path)
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError as error:
        raise ImportError(
            "import_model reads files by MuJoCo's compiler, which is not installed: "
            "in the clone of lie_jax run pip install '.[io]'."
        ) from error
    tree = sources.tree(path)
    is_urdf = tree.tag == "robot"
    if floating_base and not is_urdf:
        raise ValueError(
            f"import_model(floating_base=True), but {str(path)!r} is an MJCF file, where "
            "<freejoint/> makes a body free: leave floating_base out, or add <freejoint/> to the "
            "file."
        )
    if inertia != "strict" and not is_urdf:
        settings = {
            "balance": '<compiler balanceinertia="true" boundmass="..." boundinertia="..."/>',
            "geometry": '<compiler inertiafromgeom="true"/>',
        }
        raise ValueError(
            f"import_model(inertia={inertia!r}), but {str(path)!r} is an MJCF file, where "
            f"{settings[inertia]} changes inertias: leave inertia out, or add this to the file."
        )
    with _refusing(mujoco, path):
        if is_urdf:
            spec, left_out = urdf.specification(mujoco, path, tree, floating_base)
            joined = inertias.join(mujoco, spec, tree, inertia)
        else:
            spec, left_out = mujoco.MjSpec.from_file(str(path)), {}
            reading.localize(spec)
            inertias.keep_products(mujoco, spec)
            joined = inertias.Joined({}, ())
        model, unread = reading.compile_model(mujoco, spec)
        file = CompiledFile(mujoco, model, joined.masses)
        imported = _import(file, tree)
    balanced = {_BALANCED: joined.mended} if joined.mended else {}
    tags = urdf_tags.unread_tags(tree) if is_urdf else {}
    ignored = unsupported.in_order(balanced | imported.ignored | tags | left_out | unread)
    told = unsupported.message(path.name, ignored, geoms.has_ground(file))
    if told:
        libraries.warn(told)
    return imported._replace(ignored=ignored)


@contextlib.contextmanager
def _refusing(mujoco: Any, path: Path) -> Iterator[None]:
    """Name the file in all errors, and the remedy in those of MuJoCo."""
    where = f"import_model(path=): {str(path)!r}"
    try:
        yield
    except sources.Refusal as error:
        raise ValueError(f"{where} {error}") from error
    except (ValueError, mujoco.FatalError) as error:
        raise ValueError(f"{where} {sources.reason(mujoco, error)}") from error
    except RecursionError as error:
        raise ValueError(
            f"{where} has bodies in a chain of hundreds, deeper than Python's recursion; a robot "
            "must be shallower: split the chain into several files."
        ) from error
    except Exception as error:
        error.add_note(f"{where} was being read.")
        raise


def _import(file: CompiledFile, tree: ElementTree.Element) -> ImportedModel:
    model, bodies, mounts = file.model, [], {}
    speeds = _speeds(tree) if tree.tag == "robot" else {}
    # Bodies without joints are parts of those that they are fixed to.
    moving = [i for i in np.flatnonzero(model.body_jntnum).tolist() if i not in file.points]
    for body in moving:
        bodies += trees.bodies(file, body)
        mounts |= dict(trees.mounts(file, body))
    if not bodies:
        kind = "but deformable bodies, which are not imported" if file.points else ""
        advice = "add one, or give the file that includes this one"
        if tree.tag == "robot":
            advice = "set floating_base=True if it is the URDF file of a free robot"
        raise sources.Refusal(
            f"is a file in which nothing moves{' ' * bool(kind)}{kind}; it must have a joint: "
            f"{advice}."
        )
    elements = {joint: trees.joint(file, joint, mount) for joint, mount in mounts.items()}
    coupled = couplings.couplings(file, elements)
    passive = [actuators.passive(file, number, joint) for number, joint in elements.items()]
    if tree.tag == "robot":
        followers = couplings.followers(file)
        leaders = [joint for joint in mounts if joint not in followers]
        driven = actuators.motors(file, elements, leaders)
    else:
        driven = actuators.drives(file, elements)
    mechanism = Mechanism(
        bodies,
        [*elements.values(), *coupled.joints],
        [
            *itertools.chain(*passive),
            *tendons.springs(file, elements),
            *actuators.compensation(file, moving),
            *driven.forces,
        ],
        (0.0, 0.0, 0.0) if file.disables("GRAVITY") else model.opt.gravity,
    )
    joints = []
    for joint, mount in mounts.items():
        name, zero = file.name("joint", joint), file.zero(joint)
        limits = actuators.limits(file.is_limited(joint), model.jnt_range[joint] - zero)
        friction = 0.0 if file.kind(joint) == "ball" else file.dry_friction(joint)
        strength = actuators.total_limits(file, "joint", joint)
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
        Named("frame", frames_and_keyframes.frames(file)),
        Named("keyframe", frames_and_keyframes.keyframes(file, mounts)),
        visuals.visuals(file),
        Named("keyframe", actuators.keyframe_inputs(file, driven.actuators)),
    )


def _speeds(robot: ElementTree.Element) -> dict[str, float]:
    """Limits of velocity in a URDF file, by the names of joints."""
    limits = ((joint.get("name"), joint.find("limit")) for joint in robot.findall("joint"))
    return {
        str(name): float(limit.get("velocity", "inf"))
        for name, limit in limits
        if limit is not None
    }
