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
# # What a gyro tells about a satellite
#
# A satellite turns by three reaction wheels with known torques. Its inertia, the wheels' inertia, its first
# angular velocity and the gyro's bias follow from half a minute of a noisy gyro; then the question whether
# the standard errors can be trusted, and what would not be determined if the torques were known up to a
# factor only. [docs/identification.md](../docs/identification.md) has more on identification, and on this satellite.

# %%
import textwrap
import warnings

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from lie_jax.estimation import transforms

lie_jax.configure(quiet=True)
DT, STEPS = 0.2, 150
NOISE = 5e-4  # rad/s
time = DT * np.arange(STEPS + 1)
waves = np.sin(2 * np.pi * time[:-1, None] / [13.0, 17.0, 23.0] + [0.3, 1.9, 4.0])
torques = jnp.asarray(0.02 * np.sign(waves))  # N m, held over each step


# %%
def satellite(inertia, wheels, omega):
    """A free body with three reaction wheels, along its axes; each motor reads one input."""
    bodies = [lie_jax.Body("satellite", 60.0, inertia, omega_body=omega)]
    joints, motors = [], []
    for k, (axis, speed) in enumerate(zip(jnp.eye(3), (260.0, -210.0, 240.0), strict=True)):
        name, place = f"wheel {k}", 0.15 * axis
        wheel = lie_jax.Body(
            name,
            0.5,
            jnp.diag(jnp.where(axis > 0.0, wheels[k], 3.5e-4)),
            position=place,
            velocity=jnp.cross(omega, place),
            omega_body=omega + speed * axis,  # rad/s
        )
        bodies.append(wheel)
        joint = lie_jax.RevoluteJoint("satellite", name, axis, parent_point=place)
        joints.append(joint)
        motors.append(lie_jax.JointMotor(joint, input=k))
    mechanism = lie_jax.Mechanism(bodies, joints, motors, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.Minimal())


def gyro(parameters):
    system, state = satellite(parameters["inertia"], parameters["wheels"], parameters["omega"])
    inputs = parameters.get("gain", jnp.ones(())) * torques
    trajectory = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=DT, steps=STEPS, inputs=inputs, throw=False
    )
    # Velocities begin with the satellite's twist: translation first, then rotation.
    return trajectory.v[:, 3:6] + parameters["bias"][None, :]


truth = {
    "inertia": jnp.asarray([[2.4, 0.12, -0.08], [0.12, 3.1, 0.15], [-0.08, 0.15, 1.9]]),
    "wheels": jnp.asarray([6.0e-4, 6.4e-4, 5.7e-4]),
    "omega": jnp.asarray([0.010, -0.020, 0.015]),
    "bias": jnp.asarray([1.0e-3, -2.0e-3, 0.5e-3]),
}
charts = {
    "inertia": transforms.inertia,
    "wheels": transforms.positive,
    "omega": transforms.free,
    "bias": transforms.free,
}
clean = np.asarray(jax.jit(gyro)(truth))
measured = clean + NOISE * np.random.default_rng(1).normal(size=clean.shape)

# %%
start = {
    "inertia": 2.0 * jnp.eye(3),
    "wheels": jnp.full(3, 5e-4),
    "omega": jnp.zeros(3),
    "bias": jnp.zeros(3),
}
fit = lie_jax.estimation.identify(
    gyro, start, measured, noise=NOISE, transforms=charts, progress=False
)
print("converged", bool(fit.converged), "after", len(fit.history.cost), "iterations")
for name in truth:
    print(f"{name:8} estimate - truth, in standard errors:")
    print(np.round(np.asarray((fit.estimates[name] - truth[name]) / fit.standard_errors[name]), 2))

# %%
figure, axis = plt.subplots(figsize=(9, 3.5))
for k, name in enumerate("xyz"):
    axis.plot(time, 1e3 * measured[:, k], ".", markersize=3, color=f"C{k}")
    axis.plot(time, 1e3 * (measured - np.asarray(fit.residuals))[:, k], color=f"C{k}", label=name)
axis.set(xlabel="time (s)", ylabel="gyro (mrad/s)")
axis.legend();

# %% [markdown]
# Can the standard errors be trusted? A hundred recordings of the same satellite with other noise, fitted under
# one `jax.vmap`: 95 % intervals should hold the truth 95 times in 100.

# %%
check = lie_jax.estimation.monte_carlo(gyro, truth, noise=NOISE, transforms=charts, runs=100)
print(check)

# %% [markdown]
# If the torques are known up to a factor only, so are all inertias. `identify` warns, and its report names the
# combination that the gyro does not determine.

# %%
with warnings.catch_warnings(record=True) as caught:
    unknown = lie_jax.estimation.identify(
        gyro,
        start | {"gain": jnp.ones(())},
        measured,
        noise=NOISE,
        transforms=charts | {"gain": transforms.positive},
        progress=False,
    )
for warning in caught:
    print(textwrap.fill(str(warning.message), 110))
print(unknown.identifiability())
