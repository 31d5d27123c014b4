"""What a model of MuJoCo may have that a mechanism has not."""

from typing import Any

import numpy as np

# As many names of a kind as a message lists.
_NAMES = 8


def moves_a_joint(file: Any, actuator: int) -> bool:
    """Whether an actuator exerts its force in a joint."""
    kind = file.mujoco.mjtTrn(file.model.actuator_trntype[actuator])
    return kind in (file.mujoco.mjtTrn.mjTRN_JOINT, file.mujoco.mjtTrn.mjTRN_JOINTINPARENT)


def is_servo(file: Any, actuator: int) -> bool:
    """Whether an actuator's force depends on the motion, or on its past."""
    model, mujoco = file.model, file.mujoco
    gain, bias, dynamics = (
        mujoco.mjtGain(model.actuator_gaintype[actuator]),
        mujoco.mjtBias(model.actuator_biastype[actuator]),
        mujoco.mjtDyn(model.actuator_dyntype[actuator]),
    )
    simple = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtDyn.mjDYN_NONE
    return (gain, bias, dynamics) != simple


def elements(file: Any, actuators: tuple[Any, ...]) -> dict[str, tuple[str, ...]]:
    """Names of what is left out, by kind."""
    model, used = file.model, {actuator.name for actuator in actuators}

    def names(kind: str, chosen: Any) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file.name(kind, int(i)) for i in chosen))

    def joints_with(of_velocities: Any) -> tuple[str, ...]:
        return names("joint", model.dof_jntid[_rows_with_numbers(of_velocities)])

    first = model.jnt_dofadr
    loose = [j for j in range(model.njnt) if file.kind(j) in ("free", "ball")]
    free = [j for j in loose if file.kind(j) == "free"]
    damped = [j for j in free if model.dof_damping[first[j]]]
    heavier = [j for j in free if model.dof_armature[first[j]]]
    sprung = [j for j in loose if model.jnt_stiffness[j]]
    drives = [file.name("actuator", i) for i in range(model.nu)]
    servos = [name for i, name in enumerate(drives) if name in used and is_servo(file, i)]
    fluid = model.opt.density or model.opt.viscosity
    found = {
        "contacts of": names("geom", np.flatnonzero(model.geom_contype | model.geom_conaffinity)),
        "contact pairs": names("pair", range(model.npair)),
        "equality constraints": names("equality", range(model.neq)),
        "motion of": names("body", np.flatnonzero(model.body_mocapid >= 0)),
        "tendons": names("tendon", range(model.ntendon)),
        "flexible bodies": names("flex", range(model.nflex)),
        "rotor inertia (armature) of": names("joint", heavier),
        "dry friction of": joints_with(model.dof_frictionloss),
        "dampers of": names("joint", damped),
        "springs of": names("joint", sprung),
        "nonlinear dampers of": joints_with(getattr(model, "dof_dampingpoly", ())),
        "nonlinear springs of": names(
            "joint", _rows_with_numbers(getattr(model, "jnt_stiffnesspoly", ()))
        ),
        "compensated gravity of": names("body", np.flatnonzero(model.body_gravcomp)),
        "forces of the fluid around": ("density, viscosity",) if fluid else (),
        "actuators": tuple(name for name in drives if name not in used),
        "control laws of the actuators": tuple(servos),
    }
    return {kind: names for kind, names in found.items() if names}


def _rows_with_numbers(values: Any) -> np.ndarray:
    """Rows of which any number is not zero. Not every version of MuJoCo has every field."""
    values = np.asarray(values)
    return np.flatnonzero(values.reshape(len(values), -1).any(axis=-1))


def message(file: str, ignored: dict[str, tuple[str, ...]]) -> str:
    """A warning that names them."""
    parts = []
    for kind, names in ignored.items():
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        parts.append(f"{kind} {', '.join(names[:_NAMES])}{more}")
    return (
        f"import_model leaves out what there is no element for in {file}: {'; '.join(parts)}. All "
        "names are in `ignored`."
    )
