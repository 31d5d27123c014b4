"""Import without warnings, servos, and scenes."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from jaxtyping import Array

import lie_jax
from lie_jax import contact, viz


def imported(path: Path) -> lie_jax.io.ImportedModel:
    """The model of a file; the parts that it leaves out are printed, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lie_jax.io.import_model(path)
    print(model)
    return model


def servos(
    model: lie_jax.io.ImportedModel,
    system: lie_jax.extend.AbstractMultibodySystem,
    q: Array,
    proportional: float,
    derivative: float,
) -> list[lie_jax.JointController]:
    """Controllers (N m/rad, N m s/rad) that hold the hinges with motors at their angles in q."""
    angles = system.joint_coordinates(q)
    driven = {actuator.joint for actuator in model.actuators}
    return [
        lie_jax.JointController(
            joint,
            reference=angles[named.name][0],
            proportional=proportional,
            derivative=derivative,
        )
        for named, joint in zip(model.joints, model.mechanism.joints, strict=False)
        if named.name in driven and isinstance(joint, lie_jax.RevoluteJoint)
    ]


def scene(
    path: Path,
    model: lie_jax.io.ImportedModel,
    system: lie_jax.extend.AbstractMultibodySystem,
    run: lie_jax.Trajectory,
    *,
    others: Sequence[contact.Box] = (),
    traces: Sequence[str] = (),
) -> None:
    """Write a page with the moving robot, drawn by the surfaces of its file and other shapes."""
    viz.export(path, (system, run), shapes=[*model.visuals, *others], traces=traces)
