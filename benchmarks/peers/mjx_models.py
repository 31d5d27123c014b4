"""The cases in MJX, MuJoCo in JAX, in double precision: a scan over its steps, under `jax.vmap`."""

# It is not installed everywhere, and its types are not to be relied upon.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from importlib import metadata

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

from benchmarks.peers import mujoco_models
from benchmarks.peers.cases import Program, run_of, spread


def version() -> str:
    """MJX's."""
    return f"MJX {metadata.version('mujoco-mjx')}"


def program(case: str, quick: bool) -> Program:
    """A case; several trajectories are a batch."""
    jax.config.update("jax_enable_x64", True)
    xml, velocity, body, point = mujoco_models.case_of(case)
    run = run_of(case, quick)
    model = mujoco.MjModel.from_xml_string(xml)
    model.opt.timestep = run.dt
    on_device, start = mjx.put_model(model), mjx.make_data(model)

    def end(omega):
        begin = start.replace(qvel=omega)
        last, _ = jax.lax.scan(lambda d, _: (mjx.step(on_device, d), None), begin, length=run.steps)
        return last.qpos

    velocities = spread(velocity, run.batch) if run.batch > 1 else np.array([velocity])
    given = jnp.asarray(velocities)
    compiled = jax.jit(jax.vmap(end))

    def once() -> jax.Array:
        return jax.block_until_ready(compiled(given))

    last = np.asarray(once())[-1]
    return Program(once, run.units, mujoco_models.point_of(model, last, body, point))
