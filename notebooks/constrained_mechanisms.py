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
# # Constrained mechanisms
#
# A closed loop, the forces in its joints, and joints that say the same thing twice.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from lie_jax import viz

lie_jax.configure(quiet=True)

# %% [markdown]
# ## A loop
#
# A four-bar linkage in the plane y = 0: crank, coupler and rocker between two pivots of the ground, on four hinges.
# Poses at the start must fit the joints; here they come from the points where the bars meet.

# %%
PIVOT, KNEE, ELBOW, SUPPORT = np.asarray(
    [[0.0, 0.0, 0.0], [0.1, 0.0, 0.4], [1.0, 0.0, 0.8], [0.9, 0.0, 0.0]]
)
AXIS = (0.0, 1.0, 0.0)


def bar(name, start, end, mass=2.0, width=0.02):
    """A square bar between two points (m); its frame lies mid-bar, parallel to the world's."""
    along = end - start
    length = np.linalg.norm(along)
    across = (length**2 + width**2) * np.eye(3)
    inertia = mass / 12 * (across - (1 - (width / length) ** 2) * np.outer(along, along))
    return lie_jax.Body(name, mass, inertia, position=(start + end) / 2)


def hinge(bars, parent, child, point, axis=AXIS):
    """A hinge at a point of the world at the start."""
    places = [np.asarray(bars[name].position) if name in bars else 0.0 for name in (parent, child)]
    return lie_jax.RevoluteJoint(parent, child, axis, *(point - place for place in places))


bars = {
    "crank": bar("crank", PIVOT, KNEE),
    "coupler": bar("coupler", KNEE, ELBOW),
    "rocker": bar("rocker", ELBOW, SUPPORT),
}
hinges = [
    hinge(bars, "ground", "crank", PIVOT),
    hinge(bars, "crank", "coupler", KNEE),
    hinge(bars, "coupler", "rocker", ELBOW),
    hinge(bars, "ground", "rocker", SUPPORT),
]
linkage = lie_jax.Mechanism(bars.values(), hinges)
system, state = lie_jax.assemble(linkage, lie_jax.R3SO3())
print(f"{system.nv} velocities, {system.nc} constraints")

# %% [markdown]
# Three bodies have 18 velocities, four hinges 20 constraints, and yet it moves: in a plane three of them follow from
# the others. The library finds that out at the start, says so in the result, and goes on.

# %%
integrator = lie_jax.GeneralizedAlpha(0.9)
run = lie_jax.simulate(system, integrator, state, dt=2e-3, steps=1500)
print(lie_jax.Result[run.result])

# %%
viz.motion(system, run);
# %%
viz.drift(system, run);
# %% [markdown]
# The multipliers are the forces that the joints need. Where constraints follow from each other they are not
# determined; those of least norm are taken, and the forces in the plane are the right ones.

# %%
plt.figure()
reactions = system.reactions(run.t, run.q, run.v, run.acceleration, run.multipliers)
for joint in (("ground", "crank"), ("ground", "rocker")):
    force = np.asarray(reactions[joint].force)
    plt.plot(run.t, np.linalg.norm(force, axis=1), label=f"{joint[1]} on the ground")
plt.xlabel("t (s)")
plt.ylabel("force in the hinge (N)")
plt.legend();
# %% [markdown]
# Do they balance the motion? The forces of the two pivots and the weight together are the change of momentum.

# %%
momentum = np.asarray(jax.vmap(lambda q, v: system.momentum(q, v)[0])(run.q, run.v))
rate = np.gradient(momentum, np.asarray(run.t), axis=0)[2:-2]
weight = 6.0 * np.asarray([0.0, 0.0, -9.81])
pivots = sum(
    np.asarray(reactions[joint].force) for joint in (("ground", "crank"), ("ground", "rocker"))
)
print("largest rate of momentum (N):", np.abs(rate).max())
print("largest difference       (N):", np.abs(rate - (pivots + weight)[2:-2]).max())

# %% [markdown]
# ## Position, velocity and acceleration
#
# Generalized-α of index 3 holds the positions, and velocities of the constraints stay small; of index 2 it holds both.

# %%
for index in (3, 2):
    method = lie_jax.GeneralizedAlpha(0.9, index=index)
    held = lie_jax.simulate(system, method, state, dt=2e-3, steps=500)
    positions = jax.vmap(system.constraint)(held.t, held.q)
    rates = jax.vmap(system.constraint_rate)(held.t, held.q, held.v)
    print(
        f"index {index}: positions {jnp.abs(positions).max():.1e}, velocities {jnp.abs(rates).max():.1e}"
    )

# %% [markdown]
# ## A loop that moves although it should not
#
# Bricard's mechanism: five bars along edges of a cube, with the ground as the sixth, on six hinges in space: 30
# constraints on 30 velocities, of which 29 are independent in every pose. Errors fall with the square of the step all
# the same; where the corner between the third and the fourth bar is after a second is known from an independent
# solution in extended precision.

# %%
corners = np.asarray([[0, 0, 0], [1, 0, 0], [1, -1, 0], [1, -1, 1], [0, -1, 1], [0, 0, 1]], float)
edges = {f"bar {k}": bar(f"bar {k}", corners[k - 1], corners[k], 1.0, 0.1) for k in range(1, 6)}
x, y, z = np.eye(3)
names = ["ground", *edges, "ground"]
pairs = zip(names[:-1], names[1:], corners, (y, z, x, y, z, x), strict=True)
cube = lie_jax.Mechanism(
    edges.values(), [hinge(edges, *pair) for pair in pairs], gravity=(0.0, -9.81, 0.0)
)
mechanism, start = lie_jax.assemble(cube, lie_jax.R3SO3())
CORNER = np.asarray([0.510501461187220, -1.649167599394806, 0.140123114553186])  # m
errors = []
for steps in (100, 200):
    loop = lie_jax.simulate(mechanism, integrator, start, dt=1 / steps, steps=steps)
    rotation, position = mechanism.poses(loop.q[-1])
    corner = position[2] + rotation[2] @ jnp.asarray([0.0, 0.0, 0.5])
    errors.append(np.linalg.norm(corner - CORNER))
print(f"errors {errors[0]:.2e} m, {errors[1]:.2e} m: order {np.log2(errors[0] / errors[1]):.3f}")
