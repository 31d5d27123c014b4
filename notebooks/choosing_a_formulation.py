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
# # Choosing a formulation
#
# One mechanism in the coordinates that the library knows: what they store, what a run costs, what is kept.
# [docs/conventions.md](../docs/conventions.md) lists them, [docs/integrators.md](../docs/integrators.md) the methods.

# %%
import time

import jax
import matplotlib.pyplot as plt
import numpy as np

import lie_jax

lie_jax.configure(quiet=True)
END = 1.0

# %% [markdown]
# Two bodies on ball joints, the second hanging on the first. In absolute coordinates each body has its pose and joints are constraints; in joint
# coordinates the joints' coordinates are all there is.


# %%
def double_pendulum(formulation):
    elbow = np.asarray([0.0, 1.0, 0.0])  # m, where the bodies meet
    upper_omega, lower_omega = np.asarray([0.3, 0.2, 1.0]), np.asarray([1.0, -2.0, 3.0])  # rad/s
    # The first body starts turned by 90 degrees about x: its z axis along the world's -y.
    turn = np.asarray([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    elbow_velocity = np.cross(turn @ upper_omega, elbow)
    upper = lie_jax.Body(
        "upper",
        2.0,
        np.diag([0.30, 0.28, 0.05]),
        position=elbow / 2,
        orientation=(0.5**0.5, 0.5**0.5, 0.0, 0.0),
        velocity=elbow_velocity / 2,
        omega_body=upper_omega,
    )
    below = np.asarray([0.0, 0.0, -0.4])
    lower = lie_jax.Body(
        "lower",
        1.0,
        np.diag([0.10, 0.09, 0.02]),
        position=elbow + below,
        velocity=elbow_velocity + np.cross(lower_omega, below),
        omega_body=lower_omega,
    )
    joints = [
        lie_jax.SphericalJoint("ground", "upper", child_point=(0.0, 0.0, 0.5)),
        lie_jax.SphericalJoint("upper", "lower", (0.0, 0.0, -0.5), (0.0, 0.0, 0.4)),
    ]
    return lie_jax.assemble(lie_jax.Mechanism([upper, lower], joints), formulation)


FORMULATIONS = {
    "R3SO3": lie_jax.R3SO3(),
    "SE3": lie_jax.SE3(),
    "UnifiedVelocity": lie_jax.UnifiedVelocity(),
    "TaitBryan": lie_jax.TaitBryan(),
    "EulerParameters": lie_jax.EulerParameters(),
    "Minimal": lie_jax.Minimal(),
}
systems = {name: double_pendulum(chosen) for name, chosen in FORMULATIONS.items()}
for name, (system, _) in systems.items():
    print(f"{name:16} {system.nq:3} coordinates {system.nv:3} velocities {system.nc:2} constraints")


# %% [markdown]
# ## Work and precision
#
# The same generalized-α method in each, against places of the centres of mass from an independent solution in extended
# precision. Its errors are of order 2 everywhere; the formulation decides the constant, and what a step costs: the
# least CPU time of four runs, of which the first one compiles.

# %%
REFERENCE = np.asarray(
    [
        [-0.12332301595352, -0.34850326581042, -0.33665547293278],
        [-0.00686490911993, -0.96567139237214, -0.49917247868371],
    ]
)  # m, after 1 s
integrator, steps = lie_jax.GeneralizedAlpha(0.9), 1000
for name, (system, state) in systems.items():
    times = []
    for _ in range(4):
        began = time.process_time()
        run = lie_jax.simulate(system, integrator, state, dt=END / steps, steps=steps)
        run.q.block_until_ready()
        times.append(time.process_time() - began)
    places = system.poses(run.q[-1])[1]  # body frames lie at the centres of mass
    error = np.linalg.norm(np.asarray(places) - REFERENCE)
    print(f"{name:16} error {error:.1e} m, {1e6 * min(times) / steps:5.1f} µs a step")

# %% [markdown]
# ## What is kept
#
# Energy over ten seconds at h = 5 ms. It is a measure of the error: methods of order 4 keep a thousand times more of it
# than one of order 2 with numerical damping, whatever the coordinates.

# %%
for name, chosen in (
    ("generalized-α, R3SO3", (systems["R3SO3"], integrator)),
    ("generalized-α, Minimal", (systems["Minimal"], integrator)),
    ("Gauss, order 4, Minimal", (systems["Minimal"], lie_jax.ImplicitRKMK("gauss4"))),
    ("Runge-Kutta, order 4, Minimal", (systems["Minimal"], lie_jax.RKMK("rk4"))),
):
    (system, state), method = chosen
    run = lie_jax.simulate(system, method, state, dt=5e-3, steps=2000, save=10)
    energies = jax.vmap(lambda q, v, s=system: s.kinetic_energy(q, v) + s.potential_energy(q))
    energy = np.asarray(energies(run.q, run.v))
    plt.semilogy(run.t[1:], abs(energy[1:] - energy[0]), label=name)
plt.xlabel("t (s)")
plt.ylabel("change of the energy (J)")
plt.legend();

# %% [markdown]
# ## In short
#
# - Trees of bodies: `Minimal()`, with an explicit method where nothing is stiff.
# - Closed loops, forces in the joints, or the pose of each body wanted: `R3SO3()` or `SE3()` with
#   `GeneralizedAlpha()`.
# - `TaitBryan()` and `EulerParameters()` are there to compare with: the angles have a singularity, the parameters a
#   constraint for each body.
