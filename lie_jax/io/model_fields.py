"""Fields of a compiled model that the import does not read, so that no feature is lost unnamed.

A field that is in no table below and is not zero is named in `ignored`: it belongs to a feature of
a newer MuJoCo.
"""

from typing import Any

import numpy as np

# Kinds of parts whose fields are read here, or named, as a whole, or that move nothing.
_WHOLE = (
    *("qpos0", "qpos", "site", "exclude", "sensor", "plugin", "key", "wrap", "flex", "flexedge"),
    *("cam", "light", "mat", "tex", "skin", "mesh", "hfield", "numeric", "text", "tuple"),
    *("bvh", "oct", "name", "names", "paths", "ten", "efm0", "efmC", "pair"),
    *("B", "M", "D", "mapM2M", "mapM2D", "mapD2M"),
)
# Fields that are read here or by `unsupported`, by the kind of part.
_READ = {
    "body": "parentid weldid mocapid jntnum jntadr pos quat ipos iquat mass inertia gravcomp "
    "plugin",
    "jnt": "type qposadr dofadr bodyid limited actfrclimited actgravcomp pos axis stiffness "
    "stiffnesspoly springyield range actfrcrange",
    "dof": "jntid frictionloss armature damping dampingpoly",
    "geom": "type contype conaffinity bodyid dataid matid group plugin size pos quat rgba fluid "
    "surfacevel adhesion",
    "tendon": "adr num limited actfrclimited range actfrcrange stiffness stiffnesspoly damping "
    "dampingpoly armature frictionloss lengthspring springyield",
    "actuator": "trntype dyntype gaintype biastype ctrladr ctrlnum trnid gainprm biasprm delay "
    "damping dampingpoly armature group plugin forcelimited forcerange ctrllimited ctrlrange gear",
    "eq": "type obj1id obj2id objtype active0 data",
    "tree": "bodyadr sleep_policy",
}
# Fields that follow from others, that belong to pictures, users or solvers, or that soften what is
# exact here or has laws of the user.
_HARMLESS = {
    "body": "rootid dofnum dofadr treeid geomnum geomadr simple sameframe subtreemass invweight0 "
    "margin user contype conaffinity bvhadr bvhnum",
    "jnt": "actuatorid group plasticadr solref solimp margin user",
    "dof": "bodyid parentid treeid Madr simplenum solref solimp invweight0 M0 length",
    "geom": "condim priority sameframe castshadow solmix solref solimp aabb rbound friction margin "
    "gap user",
    "tendon": "type matid actuatorid group plasticadr treenum treeid width solref_lim solimp_lim "
    "solref_fri solimp_fri margin length0 invweight0 user rgba",
    "actuator": "ctrlspec outadr outnum actadr actnum cranklength dynprm actlimited actrange "
    "actearly history historyadr user acc0 length0 lengthrange",
    "eq": "solref solimp",
    "tree": "bodynum dofadr dofnum",
}
_KINDS = {"jnt": "joint", "eq": "equality"}


def unread_features(file: Any) -> dict[str, tuple[str, ...]]:
    """Names of the parts with a feature that is not imported, by feature."""
    model = file.model
    found = {
        "moving surfaces (surfacevel) of": _names_with(file, "geom", "surfacevel"),
        "adhesion of": _names_with(file, "geom", "adhesion"),
        "bodies that sleep at the start": _asleep(file),
    }
    for field in getattr(model, "_all_fields", ()):
        kind, _, quantity = field.partition("_")
        known = f"{_READ.get(kind, '')} {_HARMLESS.get(kind, '')}".split()
        if np.ndim(getattr(model, field)) and kind not in _WHOLE and quantity not in known:
            found[f"{field} of"] = _names_with(file, kind, quantity)
    return {kind: names for kind, names in found.items() if names}


def _names_with(file: Any, kind: str, quantity: str) -> tuple[str, ...]:
    """Names of the parts of which a field is not zero; the field's own for parts without names."""
    model = file.model
    values = np.asarray(getattr(model, f"{kind}_{quantity}", ()))
    # Numbers of parts are -1 where there is none.
    rows = np.flatnonzero(((values != 0) & (values != -1)).any(axis=tuple(range(1, values.ndim))))
    if kind == "dof":
        kind, rows = "jnt", np.unique(model.dof_jntid[rows])
    if kind not in _READ or kind == "tree":
        return (kind,) if rows.size else ()
    return tuple(file.name(_KINDS.get(kind, kind), int(row)) for row in rows)


def _asleep(file: Any) -> tuple[str, ...]:
    """Names of the first bodies of trees that do not move until something touches them."""
    model, mujoco = file.model, file.mujoco
    policies = getattr(mujoco, "mjtSleepPolicy", None)
    if policies is None or not model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP:
        return ()
    asleep = np.flatnonzero(model.tree_sleep_policy == policies.mjSLEEP_INIT)
    return tuple(file.name("body", int(body)) for body in model.tree_bodyadr[asleep])
