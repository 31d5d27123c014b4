"""Springs and dampers of the rotor's supports, identified from the orbit of its axis [S3] 4.2."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from experiments import _identification, _plots
from lie_jax import algebra, transforms
from models import rotor

# Two proximity probes in each of two planes watch the axis along y and z, well inside the supports.
PROBES = (-0.10, 0.08)
NOISE = 2e-6
SECONDS = 0.2
SAMPLE_TIME = 4e-4
# The spin turns the rotor by 1.05 rad in such a step and its nutation by 2 rad; RKMK of order 5
# is still good for 17 nm, less than a hundredth of the noise.
STEP = 5e-5
FINE_STEP = 1e-5
# Numbers of samples of the growing horizon: 12, 40, 100 ms, then all.
HORIZONS = (31, 101, 251)

Parameters = dict[str, Any]
Orbit = Float[Array, "samples probes"]
# Rows for the left and the right support, columns along y and z; the blow along y and z, N s.
TRUTH = {
    "stiffness": jnp.asarray(((4200.0, 3800.0), (3900.0, 4300.0))),
    "damping": jnp.asarray(((5.5, 4.9), (4.6, 5.6))),
    "blow": jnp.asarray((0.1, 0.02)),
}
# Half of each spring, twice each damper, and a blow that is only known to be along y.
START = {
    "stiffness": jnp.full((2, 2), 2000.0),
    "damping": jnp.full((2, 2), 10.0),
    "blow": jnp.asarray((0.06, 0.0)),
}
TRANSFORMS = {
    "stiffness": transforms.positive,
    "damping": transforms.positive,
    "blow": transforms.free,
}
UNITS = {"stiffness": "N/m", "damping": "N s/m", "blow": "N s"}


def predict(
    parameters: Parameters, method: str = "dopri5", step: float = STEP, seconds: float = SECONDS
) -> Orbit:
    """Displacements (m) at the probes: left plane y, z, right plane y, z.

    The rotor is let go in the relaxed supports and falls by its weight; at that instant a hammer
    strikes the disk. The axial spring and damper are those of the paper, known.
    """
    axial = jnp.zeros((2, 1))
    system, state = rotor.build(
        stiffness=jnp.concatenate([axial + rotor.STIFFNESS, parameters["stiffness"]], axis=1),
        damping=jnp.concatenate([axial + rotor.DAMPING, parameters["damping"]], axis=1),
        gravity=rotor.WEIGHT,
    )
    # At the start, inertial directions are those of the body.
    struck = jnp.concatenate([jnp.zeros(1), parameters["blow"] / rotor.MASS, jnp.zeros(3)])
    trajectory = lie_jax.simulate(
        system,
        lie_jax.RKMK(method),
        lie_jax.State(state.q, state.v + struck),
        dt=step,
        steps=round(seconds / step),
        save_every=round(SAMPLE_TIME / step),
        throw=False,
    )
    rotation, position = jax.vmap(system.poses)(trajectory.q)
    ahead = rotation[:, 0, :, 0]
    planes = [position[:, 0, 1:] + place * ahead[:, 1:] for place in PROBES]
    return jnp.concatenate(planes, axis=1)


def fit(observed: Orbit, progress: bool = True) -> lie_jax.Identification:
    """Identify the supports from an orbit, from the poor start."""
    return lie_jax.identify(
        predict,
        START,
        observed,
        noise=NOISE,
        transforms=TRANSFORMS,
        horizons=(*HORIZONS, len(observed)),
        progress=progress,
    )
