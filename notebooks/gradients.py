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
# # Gradients of whole trajectories
#
# How the final height of a spinning top depends on its mass and its first angular velocity: in reverse and in forward mode, with second derivatives, and with little memory. [docs/gradients.md](../docs/gradients.md)
# says how derivatives are checked, [docs/adjoints.md](../docs/adjoints.md) cost and memory.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax

lie_jax.configure(quiet=True)
STEPS, DT = 1000, 1e-3


# %%
def top(parameters, formulation):
    """A top on a ball joint, 1 m below its centre of mass, whose axis is its y axis."""
    center = jnp.asarray([0.0, 1.0, 0.0])
    body = lie_jax.Body(
        "top",
        parameters["mass"],
        jnp.diag(jnp.asarray([0.234375, 0.46875, 0.234375])),
        position=center,
        velocity=jnp.cross(parameters["omega_body"], center),
        omega_body=parameters["omega_body"],
    )
    joint = lie_jax.SphericalJoint("ground", "top", child_point=-center)
    return lie_jax.assemble(lie_jax.Mechanism([body], [joint]), formulation)


def final_height(parameters, **options):
    system, state = top(parameters, lie_jax.R3SO3())
    trajectory = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(0.9), state, dt=DT, steps=STEPS, throw=False, **options
    )
    return system.poses(trajectory.q[-1])[1][0, 2]


parameters = {
    "mass": jnp.asarray(15.0),  # kg
    "omega_body": jnp.asarray([0.0, 150.0, -4.61538]),  # rad/s
}
height, reverse = jax.jit(jax.value_and_grad(final_height))(parameters)
forward = jax.jit(jax.jacfwd(final_height))(parameters)
print(f"height {height:.9f} m")
for name in parameters:
    print(
        f"{name:12} reverse {np.asarray(reverse[name])}  forward - reverse",
        np.asarray(forward[name] - reverse[name]),
    )

# %% [markdown]
# The gradient against central differences of ever smaller size: truncation falls with the square of the size
# until rounding takes over. The gradient itself has neither error.

# %%
sizes = np.logspace(-1, -9, 17)
shifted = {
    "mass": jnp.asarray(np.concatenate([15.0 + sizes, 15.0 - sizes])),
    "omega_body": jnp.broadcast_to(parameters["omega_body"], (2 * len(sizes), 3)),
}
values = np.asarray(jax.jit(jax.vmap(final_height))(shifted)).reshape(2, -1)
differences = (values[0] - values[1]) / (2 * sizes)
plt.loglog(sizes, abs(differences / float(reverse["mass"]) - 1), "o-")
plt.xlabel("size of the difference (kg)")
plt.ylabel("relative difference from the gradient");

# %% [markdown]
# Second derivatives: a Hessian-vector product by forward over reverse mode, against differences of gradients.

# %%
direction = {"mass": jnp.asarray(1.0), "omega_body": jnp.asarray([1.0, -2.0, 0.5])}
gradient = jax.grad(final_height)
product = jax.jit(lambda p: jax.jvp(gradient, (p,), (direction,))[1])(parameters)
h = 1e-5


@jax.jit
def shifted_gradient(shift):
    return gradient(jax.tree.map(lambda p, d: p + shift * d, parameters, direction))


ahead, behind = shifted_gradient(h), shifted_gradient(-h)
for name in parameters:
    difference = (ahead[name] - behind[name]) / (2 * h)
    print(f"{name:12}", np.asarray(product[name]), " differences", np.asarray(difference))


# %% [markdown]
# Memory of the backward pass for a million steps, as the compiler reserves it: all states stored, or states in
# blocks, with those between them computed again. Here the top has joint coordinates, `Minimal()`.


# %%
def reserved_megabytes(adjoint):
    def height_of_long_run(mass):
        system, state = top(parameters | {"mass": mass}, lie_jax.Minimal())
        trajectory = lie_jax.simulate(
            system,
            lie_jax.RKMK("rk4"),
            state,
            dt=1e-5,
            steps=10**6,
            save=10**6,
            throw=False,
            adjoint=adjoint,
        )
        return system.poses(trajectory.q[-1])[1][0, 2]

    compiled = jax.jit(jax.grad(height_of_long_run)).lower(parameters["mass"]).compile()
    return compiled.memory_analysis().temp_size_in_bytes / 1e6


for adjoint in ("stored", "recursive"):
    print(f"{adjoint:10} {reserved_megabytes(adjoint):8.2f} MB")
