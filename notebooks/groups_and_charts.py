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
# # Groups and charts
#
# Rotations are no vectors. A step of a Lie group integrator works with a vector all the same: local coordinates x,
# from which a chart makes the rotation that the step adds. [docs/conventions.md](../docs/conventions.md) has all names.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from lie_jax.groups import quaternion, so3

lie_jax.configure(quiet=True)

# %% [markdown]
# ## The exponential map, and the logarithm back

# %%
x = jnp.asarray([0.3, -0.5, 0.8])
rotation = so3.exp(x)
print(np.asarray(rotation))
print("log:", np.asarray(so3.log(rotation)), " quaternion:", np.asarray(quaternion.exp(x)))

# %% [markdown]
# Rotations do not commute. How the exponential changes with x is its differential `dexp`; a finite difference shows
# what it means: the angular velocity (inertial components) that belongs to a rate of x.

# %%
rate, h = jnp.asarray([0.1, 0.7, -0.2]), 1e-6
turned = so3.exp(x + h * rate) @ so3.exp(x - h * rate).T
print(np.asarray(so3.log(turned) / (2 * h)))
print(np.asarray(so3.dexp(x) @ rate))

# %% [markdown]
# A pose turns and moves: with the exponential of SE(3) along a screw, with that of R³×SO(3) along a straight line
# while it turns.

# %%
x = jnp.asarray([1.0, 0.0, 0.3, 0.0, 0.0, 2.0])  # translation first, in m, then rotation, in rad
scales = jnp.linspace(0.0, 1.0, 60)
axes = plt.figure().add_subplot(projection="3d")
for space, style in ((lie_jax.SE3(), "-"), (lie_jax.R3SO3(), "--")):
    start = space.configuration(jnp.zeros(3), quaternion.identity())
    along = jax.vmap(lambda s, space=space, start=start: space.retract(start, s * x))(scales)
    axes.plot(*along[:, :3].T, style, label=type(space).__name__)
axes.legend();
# %% [markdown]
# ## Charts
#
# The exponential is one of the maps that make a rotation of a vector. Those of Cayley need no sine and no cosine;
# their coordinates grow without bound at half a turn and at a whole one. That bounds the turn in one step, not in a
# run: every step starts at zero again.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.0), layout="constrained")
left.remove()
left = figure.add_subplot(1, 2, 1, projection="3d")
u, w = np.meshgrid(np.linspace(0.0, 2 * np.pi, 40), np.linspace(0.0, 0.55 * np.pi, 20))
left.plot_surface(
    np.cos(u) * np.sin(w), np.sin(u) * np.sin(w), np.cos(w), color="0.85", alpha=0.5, lw=0
)
plane = np.meshgrid([-1.1, 1.1], [-1.1, 1.1])
left.plot_surface(*plane, np.ones((2, 2)), color="C0", alpha=0.25)
s = np.linspace(0.0, 1.0, 40)
left.plot(s, 0.3 * s, np.ones(40), "C0")
size = np.hypot(1.0, 0.3)
left.plot(np.sin(size * s) / size, 0.3 * np.sin(size * s) / size, np.cos(size * s), "C3")
left.text(0.0, 0.0, 1.05, "$q_0$", ha="right")
left.text(1.0, 0.3, 1.05, "$x$", color="C0")
left.text(
    np.sin(size) / size,
    0.3 * np.sin(size) / size,
    np.cos(size),
    "  retract($q_0$, $x$)",
    color="C3",
)
left.set_aspect("equal")
left.set_axis_off()
left.view_init(elev=22, azim=-55)
angle = np.linspace(0.0, 2 * np.pi, 400)
right.plot(angle, angle, label='"exp": rotation vector φ n')
right.plot(angle[:195], np.tan(angle[:195] / 2), "--", label='"cayley": Rodrigues tan(φ/2) n')
right.plot(
    angle[:385], np.tan(angle[:385] / 4), ":", label='"cayley2": modified Rodrigues tan(φ/4) n'
)
right.axvline(np.pi, color="0.7", lw=0.8)
right.set(
    ylim=(0.0, 7.0), xlabel="rotation φ in a step (rad)", ylabel="size of the local coordinates"
)
right.legend(fontsize=8);

# %% [markdown]
# ## The same motion in all of them
#
# A heavy top on a ball joint, by the same Runge-Kutta method of order 4 in each space and chart. Where its centre of
# mass is after a second is known from an independent solution in extended precision. All charts converge with
# order 4; they differ in the constant.


# %%
def heavy_top(space):
    omega, center = np.asarray([0.0, 150.0, -4.61538]), np.asarray([0.0, 1.0, 0.0])
    top = lie_jax.Body(
        "top",
        15.0,
        np.diag([0.234375, 0.46875, 0.234375]),
        position=center,
        velocity=np.cross(omega, center),
        omega_body=omega,
    )
    joint = lie_jax.SphericalJoint("ground", "top", child_point=-center)
    return lie_jax.assemble(lie_jax.Mechanism([top], [joint]), space)


spaces = {
    "R3SO3, exp": lie_jax.R3SO3(),
    "R3SO3, Cayley": lie_jax.R3SO3(chart="cayley"),
    "SE3, exp": lie_jax.SE3(),
    "SE3, Cayley": lie_jax.SE3(chart="cayley"),
}
reference = np.asarray([0.173343964098386, 0.640088592068571, -0.748490791113581])  # m
for name, space in spaces.items():
    system, state = heavy_top(space)
    errors = []
    for steps in (500, 1000):
        run = lie_jax.simulate(
            system, lie_jax.RKMK("rk4"), state, dt=1 / steps, steps=steps, save=steps
        )
        errors.append(np.linalg.norm(system.poses(run.q[-1])[1][0] - reference))
    order = np.log2(errors[0] / errors[1])
    print(f"{name:14} errors {errors[0]:.2e} m, {errors[1]:.2e} m: order {order:.2f}")
