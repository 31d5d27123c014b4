"""Import without warnings, feedback in a loop, and scenes."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array

import lie_jax
from lie_jax import contact, viz

Policy = Callable[[Array, Array, Array], Array]


def imported(path: Path) -> lie_jax.io.ImportedModel:
    """The model of a file; the parts that it leaves out are printed, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lie_jax.io.import_model(path)
    print(model)
    return model


def servos(
    model: lie_jax.io.ImportedModel,
    system: lie_jax.AbstractMultibodySystem,
    q: Array,
    proportional: float,
    derivative: float,
) -> list[lie_jax.PDController]:
    """Controllers (N m/rad, N m s/rad) that hold the hinges with motors at their angles in q."""
    angles = system.joint_coordinates(q)
    driven = {actuator.joint for actuator in model.actuators}
    return [
        lie_jax.PDController(
            *(joint.parent, joint.child, joint.axis, angles[joint.parent, joint.child][0]),
            *(proportional, derivative, joint.orientation),
        )
        for named, joint in zip(model.joints, model.mechanism.joints, strict=False)
        if named.name in driven and isinstance(joint, lie_jax.RevoluteJoint)
    ]


def closed_loop(
    system: lie_jax.AbstractMultibodySystem,
    integrator: lie_jax.AbstractIntegrator,
    state: lie_jax.State,
    policy: Policy,
    *,
    dt: float,
    steps: int,
) -> lie_jax.Trajectory:
    """Trajectory with inputs u = policy(t, q, v) that are held over each step."""

    def advance(now, number):
        t = number * dt
        u = policy(t, now.q, now.v)
        run = lie_jax.simulate(
            *(system, integrator, now), dt=dt, steps=1, inputs=u[None], throw=False
        )
        return lie_jax.State(run.q[-1], run.v[-1]), u

    scan = jax.jit(lambda state: jax.lax.scan(advance, state, jnp.arange(float(steps)))[1])
    return lie_jax.simulate(system, integrator, state, dt=dt, steps=steps, inputs=scan(state))


def scene(
    path: Path,
    model: lie_jax.io.ImportedModel,
    system: lie_jax.AbstractMultibodySystem,
    run: lie_jax.Trajectory,
    *,
    others: Sequence[contact.Box] = (),
    traces: Sequence[str] = (),
) -> None:
    """Write a page with the moving robot, drawn by the surfaces of its file and other shapes."""
    viz.export(path, (system, run), shapes=[*model.visuals, *others], traces=traces)
