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
# # A connecting rod from a mesh
#
# A rod of steel is meshed, reduced to a few modes and built into a slider-crank that turns 1400 times a minute: how far does it
# bend, and what does that change? [docs/flexible.md](../docs/flexible.md) has the guide to flexible bodies.

# %%
import dataclasses

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import skfem
from matplotlib.collections import PolyCollection
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

import lie_jax

lie_jax.configure(quiet=True)

# %% [markdown]
# ## Mesh and body
#
# The rod lies along x between the pins at 0 and at 0.3 m. Its outline is wide at the crank and slim in the middle. The nodes
# around each pin are an interface, which moves as one. Meshes of files serve as well: give the path of a `.msh`, `.vtu` or `.bdf`.

# %%
LENGTH, DEPTH = 0.3, 0.012
PINS = {"crank": 0.018, "slider": 0.012}  # radii of the interfaces (m)

mesh = skfem.MeshHex.init_tensor(
    np.linspace(-0.024, LENGTH + 0.018, 29),
    np.linspace(-1.0, 1.0, 5),
    DEPTH * np.array([-0.5, 0.5]),
)
x, y, z = mesh.p
width = 0.007 + 0.015 * np.exp(-((x / 0.03) ** 2)) + 0.008 * np.exp(-(((x - LENGTH) / 0.025) ** 2))
mesh = skfem.MeshHex(np.stack([x, width * y, z]), mesh.t)

rod = lie_jax.FlexibleBody.from_mesh(
    "rod",
    mesh,
    density=7850.0,
    young=2.1e11,
    poisson=0.3,
    interfaces={
        "crank": lambda x: np.hypot(x[:, 0], x[:, 1]) < PINS["crank"],
        "slider": lambda x: np.hypot(x[:, 0] - LENGTH, x[:, 1]) < PINS["slider"],
    },
    modes=10,
    damping_time=1e-5,
)
print(rod)
print("frequencies (Hz):", np.round(rod.frequencies[:5] / (2.0 * np.pi), 1))

# %% [markdown]
# The frequencies are those of the rod held at the crank's pin. A picture of its modes: the outer faces of the mesh at the places
# that `node_positions` has for some amplitudes.

# %%
QUADS = [(0, 1, 3, 2), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5), (4, 5, 7, 6)]


def outer_faces(mesh):
    """Corners (faces, 4) of the faces that belong to one element."""
    # Corners in the order of their place within the element: x slowest, z fastest.
    place = np.lexsort(mesh.p[:, mesh.t][::-1], axis=0)
    corners = np.take_along_axis(mesh.t, place, axis=0).T
    faces = np.concatenate([corners[:, quad] for quad in QUADS])
    _, first, count = np.unique(
        np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True
    )
    return faces[first[count == 1]]


FACES = outer_faces(mesh)


def draw(axis, points, color):
    axis.add_collection3d(Poly3DCollection(points[FACES], facecolor=color, edgecolor="k", lw=0.2))
    axis.set_box_aspect((6, 2, 1), zoom=1.7)
    axis.set(xlim=(-0.03, 0.33), ylim=(-0.06, 0.06), zlim=(-0.03, 0.03))
    axis.set_axis_off()


figure, axes = plt.subplots(1, 3, figsize=(12, 3), subplot_kw={"projection": "3d"})
for k, axis in enumerate(axes):
    amplitudes = np.zeros(10)
    amplitudes[k] = 0.04
    draw(axis, np.asarray(rod.node_positions(amplitudes)), plt.get_cmap("viridis")(0.3 + 0.25 * k))
    axis.set_title(f"{rod.frequencies[k] / (2.0 * np.pi):.0f} Hz")

# %% [markdown]
# ## Slider-crank
#
# Joints hold `"rod.crank"` and `"rod.slider"` as they hold bodies. An interface's frame is at the middle of its nodes: the hinges are
# at the pins, a little beside it. The crank turns at 150 rad/s; it starts at the dead centre. The same mechanism with a rigid rod of
# the same mass and inertia stands for comparison.

# %%
CRANK, RATE = 0.1, 150.0
Z = (0.0, 0.0, 1.0)


def slider_crank(rod, at):
    """The mechanism with this rod, whose frames `at` have the pins at these points."""
    crank = lie_jax.Body("crank", 1.0, np.diag([1e-4, 2e-3, 2e-3]), omega_body=(0, 0, RATE))
    piston = lie_jax.Body("piston", 0.4, 1e-4 * np.eye(3), position=(CRANK + LENGTH, 0.0, 0.0))
    pivot = lie_jax.RevoluteJoint("ground", "crank", axis=Z)
    (crank_end, crank_pin), (slider_end, slider_pin) = at
    joints = [
        pivot,
        lie_jax.JointDriver(pivot, value=lambda t: RATE * t),
        lie_jax.RevoluteJoint("crank", crank_end, Z, (CRANK, 0, 0), crank_pin),
        lie_jax.PrismaticJoint("ground", "piston", axis=(1, 0, 0)),
        # The hinge at the crank holds the plane already.
        lie_jax.GenericJoint("piston", slider_end, ("x", "y"), (0, 0, 0), slider_pin),
    ]
    mechanism = lie_jax.Mechanism([crank, rod, piston], joints, gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


motion = {
    "position": (CRANK, 0.0, 0.0),
    "velocity": (0.0, CRANK * RATE, 0.0),
    "omega_body": (0.0, 0.0, -CRANK * RATE / LENGTH),
}
pins = {"crank": np.zeros(3), "slider": np.array([LENGTH, 0.0, 0.0])}
bends = dataclasses.replace(rod, **{name: jnp.asarray(value) for name, value in motion.items()})
at = [(f"rod.{name}", pin - rod.interface_points[name]) for name, pin in pins.items()]
system, state = slider_crank(bends, at)
stiff = lie_jax.Body("rod", rod.mass, rod.inertia, rod.center_of_mass, **motion)
rigid, rigid_state = slider_crank(stiff, [("rod", pin) for pin in pins.values()])

integrator, turn = lie_jax.GeneralizedAlpha(0.8), 2.0 * np.pi / RATE
run, rigid_run = (
    lie_jax.simulate(each, integrator, start, dt=turn / 400, steps=800)
    for each, start in ((system, state), (rigid, rigid_state))
)

# %% [markdown]
# The middle of the rod against the line between its pins, and the piston against that of the rigid rod. The rod bends by its
# own inertia, which turns with the crank; the ringing at the start, from a rod that was straight, dies out.

# %%
amplitudes = system.amplitudes(run.q)["rod"]
moved = np.asarray(rod.node_positions(amplitudes))
middle = np.argmin(np.linalg.norm(rod.nodes - np.array([LENGTH / 2, 0.0, 0.0]), axis=1))
slider_pin = np.linalg.norm(rod.nodes - pins["slider"], axis=1).argmin()
share = rod.nodes[middle, 0] / rod.nodes[slider_pin, 0]
bend = moved[:, middle, 1] - share * moved[:, slider_pin, 1]


def piston(system, run):
    return np.asarray(jax.jit(jax.vmap(lambda q: system.poses(q)[1][2, 0]))(run.q))


figure, axes = plt.subplots(2, 1, figsize=(8, 5), sharex=True)
degrees = np.degrees(RATE * run.t)
axes[0].plot(degrees, 1e6 * bend)
axes[0].set_ylabel("bend of the middle (µm)")
axes[1].plot(degrees, 1e6 * (piston(system, run) - piston(rigid, rigid_run)))
axes[1].set(xlabel="angle of the crank (°)", ylabel="piston, flexible - rigid (µm)")
print("largest bend in the second turn (µm):", 1e6 * np.abs(bend[400:]).max())

# %% [markdown]
# The bend of the second turn is near that of a statics problem: a beam between pins under its own inertia, which at the crank is
# that of the crank's pin, $\omega^2 r$, and at the piston has no part across the rod.

# %% [markdown]
# ## The rod drawn deformed
#
# Places of nodes in the world are r + R x with position and rotation of the body. Displacements from the line between the pins
# are drawn eighty times as large as they are.

# %%
top = FACES[np.all(rod.nodes[FACES, 2] > 0.0, axis=1)]
rotation, position = jax.jit(jax.vmap(system.poses))(run.q)
nodes = np.asarray(rod.nodes)
along = nodes[:, :1] / LENGTH * (moved[:, slider_pin] - nodes[slider_pin])[:, None]
drawn = nodes + along + 80.0 * (moved - nodes - along)
figure, axis = plt.subplots(figsize=(8, 4))
for k in range(400, 800, 50):
    places = np.asarray(position[k, 1]) + drawn[k] @ np.asarray(rotation[k, 1]).T
    color = plt.get_cmap("twilight")((k - 400) / 400)
    axis.add_collection(PolyCollection(places[top, :2], facecolor=color, edgecolor="k", lw=0.1))
    axis.plot(*np.stack([np.zeros(2), np.asarray(position[k, 1, :2])], axis=1), "k-o", lw=1, ms=3)
axis.set(xlim=(-0.15, 0.45), ylim=(-0.16, 0.16), aspect="equal", xlabel="x (m)", ylabel="y (m)");
