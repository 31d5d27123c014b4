# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Four thousand tops
#
# A sweep over two parameters, batch by batch; then to disk, where a killed sweep goes on.
# [docs/sweeps.md](../docs/sweeps.md) has devices, processes and measured throughput.

# %%
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax

lie_jax.configure(quiet=True)


# %%
def lowest_point(variant):
    """Lowest height (m) of a top within a second after its start with a level axis."""
    top = lie_jax.Body(
        "top",
        variant["mass"],
        np.diag([0.234375, 0.46875, 0.234375]),
        position=(0.0, 1.0, 0.0),
        omega_body=jnp.stack([0.0, variant["spin"], 0.0]),
    )
    joint = lie_jax.SphericalJoint("ground", "top", child_point=(0.0, -1.0, 0.0))
    system, state = lie_jax.assemble(lie_jax.Mechanism([top], [joint]), lie_jax.Minimal())
    trajectory = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=2e-3, steps=500, save=10, throw=False
    )
    heights = jax.vmap(lambda q: system.poses(q)[1][0, 2])(trajectory.q)
    return {"lowest": jnp.min(heights), "result": trajectory.result}


masses, spins = np.meshgrid(np.linspace(5.0, 25.0, 64), np.linspace(20.0, 150.0, 64), indexing="ij")
variants = {"mass": masses.ravel(), "spin": spins.ravel()}
swept = lie_jax.sweep(lowest_point, variants, batch=1024, progress=False)
print(swept.results["lowest"].shape, "failed:", int(swept.failed.sum()))

# %%
plt.pcolormesh(spins, masses, swept.results["lowest"].reshape(masses.shape), shading="gouraud")
plt.colorbar(label="lowest height of the centre of mass (m)")
plt.xlabel("spin (rad/s)")
plt.ylabel("mass (kg)");

# %% [markdown]
# With `save_to` each batch is written when it is computed, as a zarr store that xarray reads. A sweep that was
# killed and is called again takes up the batches that are missing; here all are there, and nothing is computed.

# %%
folder = Path(tempfile.mkdtemp()) / "tops.zarr"
for _ in range(2):
    began = time.perf_counter()
    dataset = lie_jax.sweep(lowest_point, variants, batch=1024, save_to=folder, progress=False)
    print(f"{time.perf_counter() - began:.1f} s")
dataset

# %%
np.array_equal(dataset["lowest"].values, swept.results["lowest"])
