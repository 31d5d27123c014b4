"""The cases in MuJoCo's C library: ball joints, Runge-Kutta of order 4, one thread."""

# It is not installed everywhere, and its types are not to be relied upon.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from collections.abc import Callable

import mujoco
import numpy as np
from mujoco import rollout

from benchmarks.peers import standing, trees
from benchmarks.peers.cases import Missing, Program, run_of, spread
from models import chain, heavy_top


def version() -> str:
    """MuJoCo's."""
    return f"MuJoCo {mujoco.__version__}"


def top() -> str:
    """The heavy top on a ball joint, as MJCF."""
    return _model(heavy_top.GRAVITY, f"""
      <body>
        <joint type="ball"/>
        <inertial pos="{_row(heavy_top.CENTER_OF_MASS)}" mass="{heavy_top.MASS}"
          diaginertia="{_row(heavy_top.INERTIA)}"/>
      </body>""")  # fmt: skip


def links(number: int) -> str:
    """A chain of links on ball joints, as MJCF."""
    inner = ""
    for i in reversed(range(number)):
        hook = -chain.LENGTH if i else 0.0
        inner = f"""
      <body pos="0 0 {hook}">
        <joint type="ball"/>
        <inertial pos="0 0 {-0.5 * chain.LENGTH}" mass="{chain.MASS}"
          diaginertia="{_row(chain.INERTIA)}"/>{inner}
      </body>"""
    return _model(chain.GRAVITY, inner)


def _row(values: tuple[float, ...]) -> str:
    return " ".join(str(x) for x in values)


def _model(gravity: tuple[float, ...], bodies: str) -> str:
    return f"""
    <mujoco>
      <compiler balanceinertia="false"/>
      <option gravity="{_row(gravity)}" integrator="RK4">
        <flag contact="disable"/>
      </option>
      <worldbody>{bodies}</worldbody>
    </mujoco>"""


# MJCF, initial joint velocities, and the body and its point that are compared.
Case = tuple[str, tuple[float, ...], int, tuple[float, ...]]


def case_of(name: str) -> Case:
    """A case by its name."""
    cases: dict[str, Callable[[], Case]] = {
        "top": lambda: (top(), heavy_top.OMEGA_BODY, 1, heavy_top.CENTER_OF_MASS),
        "links": lambda: (
            links(6),
            tuple(chain.relative_omega(6).ravel()),
            6,
            (0.0, 0.0, -chain.LENGTH),
        ),
    }
    single = name.removesuffix(" batch")
    if single == "standing":
        return standing.mjcf(), (0.0,) * 18, 1, (0.0, 0.0, 0.0)
    if single in trees.SHAPES:
        shape = trees.SHAPES[single]
        velocity = tuple(trees.velocities(shape.coordinates))
        return trees.mjcf(single), velocity, len(shape.parents), trees.POINT
    if single not in cases:
        raise Missing(f"no model of {name} in MuJoCo")
    return cases[single]()


def point_of(model: mujoco.MjModel, qpos: np.ndarray, body: int, point) -> list[float]:
    """World position of a point of a body, m."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    return [float(x) for x in data.xpos[body] + data.xmat[body].reshape(3, 3) @ np.asarray(point)]


def program(case: str, quick: bool) -> Program:
    """A case by `mujoco.rollout`, which loops in C."""
    xml, velocity, body, point = case_of(case)
    run = run_of(case, quick)
    model = mujoco.MjModel.from_xml_string(xml)
    model.opt.timestep = run.dt
    data = mujoco.MjData(model)
    if case.startswith("standing"):
        data.qpos[:] = standing.start(case)
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    velocities = spread(velocity, run.batch) if run.batch > 1 else np.array([velocity])
    start = np.empty((run.batch, mujoco.mj_stateSize(model, kind)))
    for row, own in zip(start, velocities, strict=True):
        data.qvel[:] = own
        mujoco.mj_getState(model, data, row, kind)
    states = np.empty((run.batch, run.steps, start.shape[1]))
    sensors = np.empty((run.batch, run.steps, model.nsensordata))

    def once() -> None:
        rollout.rollout(model, data, start, nstep=run.steps, state=states, sensordata=sensors)

    once()
    # The time comes first.
    end = states[-1, -1, 1 : 1 + model.nq]
    return Program(once, run.units, point_of(model, end, body, point))
