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
# # A robot from a file
#
# You learn how to read a robot from a URDF file, ask for poses and Jacobians of its tool, solve its inverse kinematics and
# inverse dynamics, and simulate it with feedback. [docs/import_models.md](../docs/import_models.md) says what files may
# contain (MJCF, too), [docs/robots.md](../docs/robots.md) has all functions.
#
# Install with `pip install '.[io,viz]'` in the clone.

# %%
import dataclasses
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from lie_jax import robotics, viz

lie_jax.configure(quiet=True)

# %% [markdown]
# ## The file
#
# An arm with six hinges: three carry the wrist, three turn it. It is written here, so that the notebook needs no other file.
# `import_model` warns of all that the file has and the mechanism lacks. Here that is known, and the table shows it: limits of
# joints, which `arm.stops` would make forces.

# %%
LINK = """
  <link name="{link}">
    <inertial><origin xyz="0 0 {half}"/><mass value="{mass}"/>
      <inertia ixx="{across}" iyy="{across}" izz="{along}" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0 0 {half}"/><geometry><cylinder radius="0.04" length="{length}"/></geometry></visual>
  </link>
  <joint name="{joint}" type="revolute">
    <parent link="{parent}"/><child link="{link}"/><origin xyz="0 0 {below}"/><axis xyz="{axis}"/>
    <limit lower="-2.8" upper="2.8" effort="{effort}" velocity="3"/>
    <dynamics damping="{damping}"/>
  </joint>"""
JOINTS = (  # name, axis, length of the link (m), mass (kg), largest torque (N m), damping (N m s/rad)
    ("waist", "0 0 1", 0.20, 4.0, 80, 4.0),
    ("shoulder", "0 1 0", 0.40, 4.0, 80, 4.0),
    ("elbow", "0 1 0", 0.35, 3.0, 60, 3.0),
    ("roll", "0 0 1", 0.10, 1.0, 20, 0.3),
    ("pitch", "0 1 0", 0.08, 0.8, 20, 0.3),
    ("yaw", "0 0 1", 0.08, 0.5, 20, 0.3),
)
text, parent, below = '<robot name="arm"><link name="table"/>', "table", 0.1
for joint, axis, length, mass, effort, damping in JOINTS:
    across, along = mass * (length**2 / 12 + 0.04**2 / 4), mass * 0.04**2 / 2
    numbers = {"mass": mass, "length": length, "half": length / 2, "across": across, "along": along}
    names = {"link": f"{joint} link", "joint": joint, "parent": parent, "axis": axis}
    text += LINK.format(below=below, effort=effort, damping=damping, **numbers, **names)
    parent, below = names["link"], length
Path("arm.urdf").write_text(text + "\n</robot>")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    arm = lie_jax.io.import_model("arm.urdf")
print(arm)
system, upright = lie_jax.assemble(arm.mechanism, lie_jax.Minimal())

# %% [markdown]
# ## Frames
#
# A frame is fixed to a body. Its Jacobian maps the rates of the joints to the frame's velocity and angular velocity, along its
# axes. A difference of two poses says the same.

# %%
tool = lie_jax.robotics.Frame("yaw link", position=(0.0, 0.0, 0.08), name="tool")
bent = arm.state(system, upright, {"shoulder": 0.4, "elbow": 1.2, "pitch": 0.6})
rates, h = jnp.asarray([0.3, -0.2, 0.5, 0.1, 0.4, -0.6]), 1e-6
jacobian = jax.jit(lambda q: tool.jacobian(system, q))(bent.q)
before, after = (tool.pose(system, bent.q + s * h * rates) for s in (-1.0, 1.0))
print("pose\n", np.round(np.asarray(tool.pose(system, bent.q)), 4))
print("Jacobian times rates", np.round(np.asarray(jacobian @ rates), 6))
moved = lie_jax.groups.se3.log(lie_jax.groups.se3.inverse(before) @ after) / (2 * h)
print("by a difference     ", np.round(np.asarray(moved), 6))

# %% [markdown]
# ## Inverse kinematics
#
# Joint angles that put the tool to a pose, within the limits of the file, from 32 starts about the bent arm.

# %%
lower, upper = np.asarray([joint.limits for joint in arm.joints]).T
starts = np.asarray(bent.q) + 0.5 * np.random.default_rng(0).normal(size=(32, system.nq))
starts = np.clip(starts, lower, upper)
down = lie_jax.groups.so3.exp(jnp.asarray([0.0, 2.2, 0.0]))  # the tool points forward and down
goal = lie_jax.groups.se3.pose(down, jnp.asarray([0.20, 0.50, 0.35]))
reached = lie_jax.robotics.inverse_kinematics(
    system, [(tool, goal)], starts, lower=lower, upper=upper
)
print("angles (rad)", np.round(np.asarray(reached.q), 4))
print("pose is off by", float(jnp.abs(tool.pose(system, reached.q) - goal).max()))

# %% [markdown]
# ## Inverse dynamics
#
# A smooth motion from the bent arm to these angles in a second and a half, from rest to rest, and the torques that it needs.

# %%
DT, STEPS, DURATION = 2e-3, 1000, 1.5
times = DT * jnp.arange(STEPS)


def reference(t):
    s = jnp.minimum(t / DURATION, 1.0)
    return bent.q + (reached.q - bent.q) * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


rate = jax.jacfwd(reference)
q_ref, v_ref, a_ref = (jax.jit(jax.vmap(f))(times) for f in (reference, rate, jax.jacfwd(rate)))
none = arm.inputs({})
torques = jax.jit(
    jax.vmap(lambda q, v, a: robotics.inverse_dynamics(system, q, v, a, inputs=none))
)(q_ref, v_ref, a_ref)
figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
axis.plot(times, torques, label=[joint.name for joint in arm.joints])
axis.set(xlabel="time (s)", ylabel="torque (N m)")
axis.legend(ncols=2)
share = jnp.abs(torques).max(axis=0) / np.asarray([motor.limits[1] for motor in arm.actuators])
print("largest torques over the limits of the file:", np.round(np.asarray(share), 2))

# %% [markdown]
# ## Feedback
#
# These torques alone do not hold a motion: here the arm carries half a kilogram of which they do not know. With a controller
# at each hinge it is held all the same.

# %%
PROPORTIONAL = (600.0, 600.0, 400.0, 40.0, 40.0, 20.0)  # N m/rad
DERIVATIVE = (40.0, 40.0, 25.0, 0.4, 0.4, 0.2)  # N m s/rad
end = tool.pose(system, upright.q)[:3, 3]
payload = lie_jax.Body("payload", 0.5, lie_jax.solids.sphere(0.5, 0.04), position=end)
clamp = lie_jax.RigidJoint("yaw link", "payload", parent_point=tool.position)
controllers = [
    lie_jax.JointController(
        joint,
        reference=lambda t, k=k: reference(t)[k],
        proportional=PROPORTIONAL[k],
        derivative=DERIVATIVE[k],
    )
    for k, joint in enumerate(arm.mechanism.joints)
]


def simulated(added):
    mechanism = dataclasses.replace(
        arm.mechanism,
        bodies=[*arm.mechanism.bodies, payload],
        joints=[*arm.mechanism.joints, clamp],
        forces=[*arm.mechanism.forces, *added],
    )
    loaded, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    run = lie_jax.simulate(loaded, lie_jax.RKMK("rk4"), bent, dt=DT, steps=STEPS, inputs=torques)
    return loaded, run


runs = {"torques alone": simulated([]), "with feedback": simulated(controllers)}
figure, axis = plt.subplots(figsize=(8, 3.2), layout="constrained")
worst = {}
for name, (_, run) in runs.items():
    error = jnp.abs(run.q[:-1] - q_ref).max(axis=1)
    worst[name] = float(error.max())
    axis.semilogy(times[1:], error[1:], label=name)
    print(f"{name}: largest error {worst[name]:.4f} rad")
axis.set(xlabel="time (s)", ylabel="largest error of a joint (rad)")
axis.legend();

# %% [markdown]
# ## The scene
#
# `viz.export` writes a page with the moving arm, drawn by the shapes of the file, that opens in any browser. Here are some
# instants, with the path of the tool.

# %%
loaded, run = runs["with feedback"]
viz.export("arm.html", (loaded, run), shapes=arm.visuals, traces=["payload"])
frames = [arm.frames[f"{joint} link"] for joint, *_ in JOINTS] + [tool]
points = jax.jit(jax.vmap(lambda q: jnp.stack([f.pose(loaded, q)[:3, 3] for f in frames])))
places = np.asarray(points(run.q[::10]))
axis = plt.figure(figsize=(7, 6)).add_subplot(projection="3d")
for k in range(0, 76, 15):
    axis.plot(*places[k].T, "o-", color=plt.get_cmap("viridis")(k / 80), linewidth=3)
axis.plot(*places[:, -1].T, "C3")
axis.set(xlabel="x (m)", ylabel="y (m)", zlabel="z (m)")
axis.set(xlim=(0.0, 0.8), ylim=(-0.1, 0.6), zlim=(0.0, 0.8))
axis.set_aspect("equal");

# %% [markdown]
# ## In short
#
# - `import_model` returns a mechanism, with the file's joints, motors, limits, frames and surfaces by name.
# - Poses, Jacobians, inverse kinematics and inverse dynamics are functions of a system and its coordinates, under `jit`, `vmap`
#   and derivatives.
# - What the file does not have, such as a load or controllers, is added to the mechanism as bodies, joints and forces.
