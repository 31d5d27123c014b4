"""Parts of a model of MuJoCo without a counterpart in a mechanism."""

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from lie_jax.io import geoms, model_fields, tendons, urdf, urdf_tags
from lie_jax.io.actuators import servo, shares_limits

# Names of one kind in a message.
_NAMES = 8
_CONTACTS = "contacts, which `contacts` adds, of"
_OTHER_SHAPES = "shapes of other kinds"
_HULLS = f"meshes, flat or with more than {geoms.LARGEST_HULL} vertices of the hull, of"
_STOPS = "limits, which `stops` adds, of"
_FRICTION = "dry friction, which `dry_friction` adds, of"
_EXCLUDED = "contacts that the file excludes"
_SENSORS = "sensors"
# Kinds that move nothing by themselves, or that the model adds: not in the warning.
_QUIET = (_STOPS, _FRICTION, _SENSORS, _EXCLUDED, urdf.WITHOUT_SIZE, urdf.NOT_READ)
# Of these, too, but they are in the warning where the file has a ground.
_SHAPES = (_CONTACTS, _OTHER_SHAPES, _HULLS)


def _rows(model: Any, field: str) -> list[int]:
    """Rows of a field with a number that is not zero; none where this MuJoCo has no such field."""
    values = np.asarray(getattr(model, field, ()))
    return np.flatnonzero(values.any(axis=tuple(range(1, values.ndim)))).tolist()


def elements(
    file: Any, actuators: tuple[Any, ...], shapes: Container[str]
) -> dict[str, tuple[str, ...]]:
    """Names of the parts left out, by kind; `shapes` are the names of geoms that have a shape."""
    model, used = file.model, {actuator.name for actuator in actuators}

    def names(kind: str, chosen: Any) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file.name(kind, int(i)) for i in chosen))

    def joints_with(velocity_field: str) -> tuple[str, ...]:
        return names("joint", model.dof_jntid[_rows(model, velocity_field)])

    first = model.jnt_dofadr
    joints = [j for j in range(model.njnt) if int(model.jnt_bodyid[j]) not in file.points]
    loose = [j for j in joints if file.kind(j) in ("free", "ball")]
    free = [j for j in loose if file.kind(j) == "free"]
    damped = [j for j in free if model.dof_damping[first[j]] and not file.disables("DAMPER")]
    heavier = [j for j in free if model.dof_armature[first[j]]]
    sprung = [j for j in loose if model.jnt_stiffness[j] and not file.disables("SPRING")]
    # MuJoCo ignores the limits of a URDF file in the wrong order.
    is_reversed = model.jnt_range[:, 0] > model.jnt_range[:, 1]
    reversed_limits = [j for j in joints if is_reversed[j] and not model.jnt_limited[j]]
    # Ball joints have no stops, and neither has one side of a joint.
    limited = [j for j in joints if file.is_limited(j) and file.kind(j) != "free"]
    numbers = range(file.count("actuator"))
    off = [i for i in numbers if file.is_off(i)]
    acting = [i for i in numbers if i not in off]
    unused = [i for i in acting if file.name("actuator", i) not in used]
    driving = [i for i in acting if i not in unused]
    laws = {i: servo(file, i) for i in driving}
    geared = sorted({i for x in ("armature", "damping") for i in _rows(model, f"actuator_{x}")})
    nonlinear = ("tendon_stiffnesspoly", "tendon_dampingpoly", "tendon_springyield")
    wrapped = [
        i
        for i in range(model.ntendon)
        if not any(tendons.parts(file, i, kind) is not None for kind in ("JOINT", "SITE"))
    ]

    def names_with_limits(kind: str, field: str) -> tuple[str, ...]:
        limited = _rows(model, field)
        return names(kind, [i for i in limited if shares_limits(file, kind, i)])

    may_touch = geoms.touching(file)
    is_shape = {i: file.name("geom", i) in shapes for i in may_touch}
    others = [i for i in may_touch if not is_shape[i]]
    is_mesh = {i: model.geom_type[i] == file.mujoco.mjtGeom.mjGEOM_MESH for i in others}
    rubs = [] if file.disables("FRICTIONLOSS") else _rows(model, "dof_frictionloss")
    rubbing = dict.fromkeys(model.dof_jntid[rubs].tolist())
    fluid = model.opt.density or model.opt.viscosity
    left_out = {
        _CONTACTS: names("geom", [i for i in may_touch if is_shape[i]]),
        _OTHER_SHAPES: names("geom", [i for i in others if not is_mesh[i]]),
        _HULLS: names("geom", [i for i in others if is_mesh[i]]),
        _EXCLUDED: names("exclude", range(model.nexclude)),
        "contact pairs": names("pair", range(0 if file.disables("CONTACT") else model.npair)),
        "motion of": names("body", np.flatnonzero(model.body_mocapid >= 0)),
        "tendons around geoms or over pulleys": names("tendon", wrapped),
        "limits of the tendons": names(
            "tendon", [] if file.disables("LIMIT") else _rows(model, "tendon_limited")
        ),
        "dry friction of the tendons": names(
            "tendon", [] if file.disables("FRICTIONLOSS") else _rows(model, "tendon_frictionloss")
        ),
        "inertia (armature) of the tendons": names("tendon", _rows(model, "tendon_armature")),
        "springs and dampers that are not linear, of the tendons": names(
            "tendon", sorted({i for field in nonlinear for i in _rows(model, field)})
        ),
        "flexible bodies": names("flex", range(model.nflex)),
        "rotor inertia (armature) of": names("joint", heavier),
        "limits in the wrong order (lower above upper) of": names("joint", reversed_limits),
        _FRICTION: names("joint", [j for j in rubbing if j not in loose]),
        "dry friction of": names("joint", [j for j in rubbing if j in loose]),
        "dampers of": names("joint", damped),
        "springs of": names("joint", sprung),
        "nonlinear dampers of": joints_with("dof_dampingpoly"),
        "nonlinear springs of": names("joint", _rows(model, "jnt_stiffnesspoly")),
        "yielding springs of": names("joint", _rows(model, "jnt_springyield")),
        "forces of the fluid around": ("density, viscosity",) if fluid else (),
        "actuators": names("actuator", unused),
        "actuators that the file switches off": names("actuator", off),
        "control laws of the actuators": names("actuator", [i for i in driving if not laws[i]]),
        "limits of the force of several actuators in": (
            *names_with_limits("joint", "jnt_actfrclimited"),
            *names_with_limits("tendon", "tendon_actfrclimited"),
        ),
        "carried weights within the limits of actuators of": names(
            "joint", np.flatnonzero(model.jnt_actgravcomp & model.jnt_actfrclimited)
        ),
        "inertia (armature) and dampers of the actuators": names(
            "actuator", [i for i in geared if file.target(i)[0] != "joint"]
        ),
        "nonlinear dampers of the actuators": names(
            "actuator", _rows(model, "actuator_dampingpoly")
        ),
        _STOPS: names("joint", [j for j in limited if j not in loose]),
        "limits of": names("joint", [j for j in limited if j in loose]),
        _SENSORS: names("sensor", range(model.nsensor)),
        "plugins": names("plugin", range(model.nplugin)),
        **model_fields.unread_features(file),
    }
    return {kind: names for kind, names in left_out.items() if names}


def in_order(ignored: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The kinds, with those that change a motion before those that the model adds."""
    return dict(sorted(ignored.items(), key=lambda item: _is_quiet(item[0], False)))


def _is_quiet(kind: str, has_ground: bool) -> bool:
    return kind in _QUIET or (kind in _SHAPES and not has_ground) or urdf_tags.is_quiet(kind)


def message(file: str, ignored: Mapping[str, tuple[str, ...]], has_ground: bool) -> str | None:
    """Warning that names the parts left out; None where they move nothing by themselves.

    `has_ground`: whether the file has a ground on which its bodies may lie.
    """
    parts = []
    for kind, names in ignored.items():
        if _is_quiet(kind, has_ground):
            continue
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        parts.append(f"{kind} {', '.join(names[:_NAMES])}{more}")
    if not parts:
        return None
    return (
        f"import_model leaves out parts of {file}, so that the model moves without them: "
        f"{'; '.join(parts)}. All names are in `ignored`."
    )
