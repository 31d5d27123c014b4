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
# # Turning a satellite with least effort
#
# A rigid satellite is turned from rest to rest with the least ∫ ½ |u|² dt, u its three torques. About a principal
# axis the optimum is known in closed form. [docs/optimal_control.md](../docs/optimal_control.md) has methods and limits,
# [docs/control_examples.md](../docs/control_examples.md) a quadrotor, a robot and a pendulum.

# %%
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax

lie_jax.configure(quiet=True)
STEPS, DURATION = 50, 10.0
dt = DURATION / STEPS
MOMENTS = np.asarray([10.0, 15.0, 20.0])  # kg m²

# %%
satellite = lie_jax.Body("satellite", 60.0, np.diag(MOMENTS))
torques = [
    lie_jax.Torque("satellite", axis, frame="body", input=k) for k, axis in enumerate(np.eye(3))
]
mechanism = lie_jax.Mechanism([satellite], forces=torques, gravity=(0.0, 0.0, 0.0))
system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())


def running(t, q, v, u):
    return 0.5 * jnp.sum(u**2)


def reoriented(turn, **options):
    goal = jnp.concatenate([jnp.zeros(3), lie_jax.groups.quaternion.exp(jnp.asarray(turn))])

    def end(q, v):
        return jnp.concatenate([system.space.inverse_retract(goal, q)[3:], v[3:]])

    return lie_jax.control.ilqr(
        system,
        lie_jax.RKMK("rk4"),
        state,
        jnp.zeros((STEPS, 3)),
        dt=dt,
        running=running,
        end=end,
        **options,
    )


# %% [markdown]
# A quarter turn about x. The optimum of the double integrator is 6 J² θ² / T³, with a torque that falls linearly
# from 6 J θ / T²; held over steps it costs a little more, by 1 / (1 - 1/n²).

# %%
angle = np.pi / 2
eigenaxis = reoriented([angle, 0.0, 0.0])
exact = 6 * MOMENTS[0] ** 2 * angle**2 / DURATION**3 / (1 - 1 / STEPS**2)
print(f"converged {bool(eigenaxis.converged)} after {int(eigenaxis.iterations)} iterations")
print(
    f"cost {float(eigenaxis.cost):.9f}, exact {exact:.9f}, violation {float(eigenaxis.violation):.1e}"
)

# %% [markdown]
# About a general axis, free and with torques of at most 1.2 N m.

# %%
turn = [1.5, -1.0, 1.2]
free, limited = reoriented(turn), reoriented(turn, limits=(-1.2, 1.2))
figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), sharey=True)
time = dt * np.arange(STEPS)
for axis, solution, title in ((axes[0], free, "free"), (axes[1], limited, "limited")):
    for k, name in enumerate("xyz"):
        axis.step(time, solution.inputs[:, k], where="post", label=name)
    axis.set(title=f"{title}: cost {float(solution.cost):.4f}", xlabel="time (s)")
axes[0].set_ylabel("torque (N m)")
axes[0].legend();

# %% [markdown]
# The feedback gains of the solution hold the motion against a disturbance: the same torques, with and without
# them, after a push.

# %%
pushed = lie_jax.State(state.q, state.v.at[3:].add(jnp.asarray([0.02, -0.03, 0.02])))
integrator = lie_jax.RKMK("rk4")


def final_errors(with_gains):
    reference = free.trajectory

    def policy(t, q, v):
        k = jnp.rint(t / dt).astype(int)
        change = jnp.concatenate(
            [system.space.inverse_retract(reference.q[k], q), v - reference.v[k]]
        )
        return free.inputs[k] + (free.gains[k] @ change if with_gains else 0.0)

    steps = len(free.inputs)
    end = lie_jax.simulate(system, integrator, pushed, dt=dt, steps=steps, policy=policy)
    miss = system.space.inverse_retract(reference.q[-1], end.q[-1])[3:]
    return float(jnp.linalg.norm(miss)), float(jnp.linalg.norm(end.v[-1, 3:] - reference.v[-1, 3:]))


for name, with_gains in (("without gains", False), ("with gains", True)):
    turn_error, rate_error = final_errors(with_gains)
    print(f"{name:14} misses by {turn_error:.4f} rad, {rate_error:.4f} rad/s")
