# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: -all
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
# ---

# %% [markdown]
# # First steps
#
# A spinning top: built, simulated, looked at, differentiated.
# [docs/first_steps.md](../docs/first_steps.md) goes on to a pendulum of your own that is fitted to a recording.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from lie_jax import viz

lie_jax.configure(quiet=True)

# %% [markdown]
# A mechanism is made of bodies, joints and forces; it names no coordinates. `assemble` chooses them: here position
# and quaternion of the body, with the ball joint as a constraint.


# %%
def build(mass):
    top = lie_jax.Body(
        "top",
        mass,  # kg
        inertia=jnp.diag(jnp.asarray([0.24, 0.47, 0.24])),  # kg m², about the centre of mass
        position=(0, 1, 0),  # m, of the centre of mass
        velocity=(4.6, 0, 0),  # m/s
        omega_body=(0, 150, -4.6),  # rad/s
    )
    joint = lie_jax.SphericalJoint("ground", "top", child_point=(0, -1, 0))
    return lie_jax.assemble(lie_jax.Mechanism([top], [joint]), lie_jax.R3SO3())


system, state = build(15.0)
run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.9), state, dt=1e-3, steps=1000)
print(run.q.shape, run.v.shape, run.multipliers.shape)

# %% [markdown]
# `q` is (x, y, z, quaternion), `v` the velocity and the angular velocity, `multipliers` the force in the joint, at
# each of 1001 instants.

# %%
viz.paths(system, run);
# %%
viz.energy(system, run);
# %% [markdown]
# The constraints hold to rounding, and the quaternion keeps its norm, for steps stay on the group.

# %%
viz.drift(system, run);

# %% [markdown]
# Any function of the run has a gradient with respect to any number that went into it; the derivative goes through
# all steps and through Newton's method in each.


# %%
def height_after(mass):
    system, state = build(mass)
    run = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(0.9), state, dt=1e-3, steps=1000, throw=False
    )
    return run.q[-1, 2]


slope = jax.jit(jax.grad(height_after))(15.0)
difference = (height_after(15.0 + 1e-4) - height_after(15.0 - 1e-4)) / 2e-4
print(f"d(height)/d(mass): {slope:.9f} m/kg, by differences {difference:.9f}")

# %% [markdown]
# And it can be run for many masses at once.

# %%
masses = jnp.linspace(10.0, 20.0, 64)
heights = jax.jit(jax.vmap(height_after))(masses)
print(np.asarray(heights[::16]))
