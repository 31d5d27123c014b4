"""Parts of a model of MuJoCo without a counterpart in a mechanism."""

from collections.abc import Container
from typing import Any

import numpy as np

from lie_jax.io import geoms

# Names of one kind in a message.
_NAMES = 8


def is_off(file: Any, actuator: int) -> bool:
    """Whether a file switches an actuator off, by a flag or by its group."""
    options, group = file.model.opt, int(file.model.actuator_group[actuator])
    return file.disables("ACTUATION") or bool(group >= 0 and options.disableactuator >> group & 1)


def is_servo(file: Any, actuator: int) -> bool:
    """Whether an actuator's force depends on the motion, or on earlier motion or controls."""
    model, mujoco = file.model, file.mujoco
    if actuator in _rows(model, "actuator_delay"):
        return True
    gain, bias, dynamics = (
        mujoco.mjtGain(model.actuator_gaintype[actuator]),
        mujoco.mjtBias(model.actuator_biastype[actuator]),
        mujoco.mjtDyn(model.actuator_dyntype[actuator]),
    )
    simple = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtDyn.mjDYN_NONE
    return (gain, bias, dynamics) != simple


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

    first, joints = model.jnt_dofadr, range(model.njnt)
    loose = [j for j in joints if file.kind(j) in ("free", "ball")]
    free = [j for j in loose if file.kind(j) == "free"]
    damped = [j for j in free if model.dof_damping[first[j]] and not file.disables("DAMPER")]
    heavier = [j for j in free if model.dof_armature[first[j]]]
    sprung = [j for j in loose if model.jnt_stiffness[j] and not file.disables("SPRING")]
    # MuJoCo ignores the limits of a URDF file in the wrong order.
    is_reversed = model.jnt_range[:, 0] > model.jnt_range[:, 1]
    reversed_limits = [j for j in joints if is_reversed[j] and not model.jnt_limited[j]]
    off = [i for i in file.actuators() if is_off(file, i)]
    drives = [i for i in file.actuators() if i not in off]
    servos = [i for i in drives if file.name("actuator", i) in used and is_servo(file, i)]
    unused = [i for i in drives if file.name("actuator", i) not in used]
    may_touch = geoms.touching(model)
    is_shape = {i: file.name("geom", i) in shapes for i in may_touch}
    others = [i for i in may_touch if not is_shape[i]]
    is_mesh = {i: model.geom_type[i] == file.mujoco.mjtGeom.mjGEOM_MESH for i in others}
    rubbing = dict.fromkeys(model.dof_jntid[_rows(model, "dof_frictionloss")].tolist())
    fluid = model.opt.density or model.opt.viscosity
    plugins = [model.plugin(i).name or f"plugin {i}" for i in range(model.nplugin)]
    left_out = {
        "contacts, which `contacts` adds, of": names("geom", [i for i in may_touch if is_shape[i]]),
        "shapes of other kinds": names("geom", [i for i in others if not is_mesh[i]]),
        f"meshes, flat or with more than {geoms.LARGEST_HULL} vertices of the hull, of": names(
            "geom", [i for i in others if is_mesh[i]]
        ),
        "contact pairs": names("pair", range(model.npair)),
        "equality constraints": tuple(_equality(file, i) for i in range(model.neq)),
        "motion of": names("body", np.flatnonzero(model.body_mocapid >= 0)),
        "tendons": names("tendon", range(model.ntendon)),
        "flexible bodies": names("flex", range(model.nflex)),
        "rotor inertia (armature) of": names("joint", heavier),
        "limits in the wrong order (lower above upper) of": names("joint", reversed_limits),
        "dry friction, which `dry_friction` adds, of": names(
            "joint", [j for j in rubbing if j not in loose]
        ),
        "dry friction of": names("joint", [j for j in rubbing if j in loose]),
        "dampers of": names("joint", damped),
        "springs of": names("joint", sprung),
        "nonlinear dampers of": joints_with("dof_dampingpoly"),
        "nonlinear springs of": names("joint", _rows(model, "jnt_stiffnesspoly")),
        "yielding springs of": names("joint", _rows(model, "jnt_springyield")),
        "compensated gravity of": names("body", _rows(model, "body_gravcomp")),
        "forces of the fluid around": ("density, viscosity",) if fluid else (),
        "actuators": names("actuator", unused),
        "actuators that the file switches off": names("actuator", off),
        "control laws of the actuators": names("actuator", servos),
        "nonlinear dampers of the actuators": names(
            "actuator", _rows(model, "actuator_dampingpoly")
        ),
        "plugins": tuple(plugins),
    }
    return {kind: names for kind, names in left_out.items() if names}


def _equality(file: Any, i: int) -> str:
    """Name of an equality constraint, or else of the joints that it couples, as <mimic> does."""
    model = file.model
    name, first, second = model.equality(i).name, model.eq_obj1id[i], model.eq_obj2id[i]
    if name or model.eq_type[i] != file.mujoco.mjtEq.mjEQ_JOINT:
        return name or f"equality {i}"
    leader = file.name("joint", int(second)) if second >= 0 else "a constant"
    return f"{file.name('joint', int(first))} (follows {leader})"


def message(file: str, ignored: dict[str, tuple[str, ...]]) -> str:
    """Warning that names the parts left out."""
    parts = []
    for kind, names in ignored.items():
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        parts.append(f"{kind} {', '.join(names[:_NAMES])}{more}")
    return (
        f"import_model leaves out parts of {file}, so that the model moves without them: "
        f"{'; '.join(parts)}. All names are in `ignored`."
    )
