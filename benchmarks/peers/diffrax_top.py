"""The heavy top as a quaternion differential equation written by hand, by diffrax."""

from importlib import metadata

import diffrax
import jax
import jax.numpy as jnp

from benchmarks.peers.cases import TOLERANCE, Missing, Program, run_of
from models import heavy_top


def version() -> str:
    """Diffrax's."""
    return f"diffrax {metadata.version('diffrax')}"


def _rates(t, y, parameters):
    # y: unit quaternion, scalar first, and body-fixed angular velocity. The centre of mass lies on
    # body y, gravity acts along world -z.
    torque, j1, j2, j3 = parameters
    w, x, y_, z, o1, o2, o3 = y
    return jnp.stack([
        0.5 * (-x * o1 - y_ * o2 - z * o3),
        0.5 * (w * o1 + y_ * o3 - z * o2),
        0.5 * (w * o2 - x * o3 + z * o1),
        0.5 * (w * o3 + x * o2 - y_ * o1),
        (-torque * (1.0 - 2.0 * (x * x + y_ * y_)) + (j2 - j3) * o2 * o3) / j1,
        (j3 - j1) * o3 * o1 / j2,
        (torque * 2.0 * (x * z - w * y_) + (j1 - j2) * o1 * o2) / j3,
    ])  # fmt: skip


def program(case: str, quick: bool) -> Program:
    """DOPRI5 with automatic steps and the tolerances of ours."""
    if case != "top adaptive":
        raise Missing(f"no {case} in diffrax")
    jax.config.update("jax_enable_x64", True)
    run = run_of(case, quick)
    x, y, z = heavy_top.INERTIA
    length = heavy_top.CENTER_OF_MASS[1]
    across = heavy_top.MASS * length**2
    torque = -heavy_top.MASS * heavy_top.GRAVITY[2] * length
    parameters = jnp.asarray([torque, x + across, y, z + across])
    start = jnp.asarray([1.0, 0.0, 0.0, 0.0, *heavy_top.OMEGA_BODY])

    @jax.jit
    def end(start, parameters):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(_rates),
            diffrax.Dopri5(),
            t0=0.0,
            t1=run.dt,
            dt0=1e-4,
            y0=start,
            args=parameters,
            stepsize_controller=diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE),
            saveat=diffrax.SaveAt(t1=True),
            max_steps=16_384,
            throw=False,
        )

    def once():
        return jax.block_until_ready(end(start, parameters))

    solution = once()
    w, x, y, z = (float(c) for c in solution.ys[0, :4])
    column = (2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x))
    steps = float(solution.stats["num_steps"])
    return Program(once, run.units, [length * c for c in column], {"steps": steps})
