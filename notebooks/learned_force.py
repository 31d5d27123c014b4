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
# # A force learned from throws
#
# You learn how to make a neural network a force of a mechanism, and how to train it from recorded motions, through bounces
# on the ground. A ball is thrown and filmed. The air's drag on it is unknown: only places are measured, no forces. A network
# of [Equinox](https://docs.kidger.site/equinox/), trained by [Optax](https://optax.readthedocs.io/), learns the drag as a
# function of the speed. [docs/extending.md](../docs/extending.md) has more on forces, [docs/contact.md](../docs/contact.md)
# on contact.
#
# Install with `pip install '.[viz]'` in the clone.

# %%
import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import lie_jax

lie_jax.configure(quiet=True)
MASS, RADIUS = 0.43, 0.11  # kg and m, a football
HALF_DENSITY_AREA = 0.5 * 1.2 * np.pi * RADIUS**2  # kg/m
DT, EVERY = 2e-3, 10  # a picture every 20 ms
NOISE = 0.01  # m

# %% [markdown]
# ## The force
#
# Drag acts against the velocity and has the size ½ ρ A c s², with the density ρ of the air, the area A of the ball, its speed s
# and the drag coefficient c. The law of c is a part of the force: any function of the speed whose numbers are arrays. A force
# returns a wrench for each of its bodies: a force in inertial components, and a torque.


# %%
class Drag(lie_jax.extend.AbstractForce):
    """The force -½ ρ A c(s) s v on a body."""

    body: str = lie_jax.extend.fields.body_name()
    law: eqx.Module

    def wrenches(self, t, poses, velocities, u):
        (velocity,) = velocities
        # A root has no derivative at zero.
        speed = jnp.sqrt(velocity.linear @ velocity.linear + 1e-6)
        force = -HALF_DENSITY_AREA * self.law(speed) * speed * velocity.linear
        return (lie_jax.extend.Wrench(force, jnp.zeros_like(force)),)


def throw(law, velocity, steps):
    """Places (m) of a ball, fifty a second."""
    ball = lie_jax.Body(
        "ball",
        MASS,
        lie_jax.solids.sphere(MASS, RADIUS),
        position=(0.0, 0.0, 1.0),
        velocity=velocity,
    )
    bounce = lie_jax.contact.Contact(
        lie_jax.contact.Sphere("ball", RADIUS),
        lie_jax.contact.Plane("ground"),
        # N/m², s/m: soft, and without friction.
        lie_jax.contact.HuntCrossley(3e5, dissipation=0.05),
    )
    mechanism = lie_jax.Mechanism([ball], forces=[bounce, Drag("ball", law)])
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    run = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=DT, steps=steps, save=EVERY, throw=False
    )
    return run.q[:, :3]


# %% [markdown]
# ## Recordings
#
# The true law is that of a drag crisis: at a certain speed the flow around a ball becomes turbulent, and the drag coefficient falls
# to a third. Ten throws of one second, each with a bounce, are filmed with an error of 1 cm.


# %%
class Crisis(eqx.Module):
    """Drag coefficient that falls from 0.45 to 0.15 about 13 m/s."""

    def __call__(self, speed):
        return 0.45 - 0.3 * jax.nn.sigmoid((speed - 13.0) / 1.2)


@eqx.filter_jit
def throws(law, velocities):
    return jax.vmap(lambda velocity: throw(law, velocity, 500))(velocities)


speeds, slopes = np.linspace(5.0, 24.0, 10), np.radians([5, -25, 0, -30, -10, 0, -20, -5, -15, -10])
velocities = np.stack([speeds * np.cos(slopes), 0.0 * speeds, speeds * np.sin(slopes)], axis=1)
clean = throws(Crisis(), velocities)
measured = np.asarray(clean) + NOISE * np.random.default_rng(0).normal(size=clean.shape)
print("throws, pictures, coordinates:", measured.shape)
figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
for places in measured:
    axis.plot(places[:, 0], places[:, 2], ".-", markersize=3, linewidth=0.5)
axis.set(xlabel="distance (m)", ylabel="height (m)");


# %% [markdown]
# ## A network
#
# A small network of Equinox in the place of the law, with one hidden layer. Its input is of order one, and its output is
# made positive: drag brakes.


# %%
class Network(eqx.Module):
    """Drag coefficient as a function of the speed, by 24 hidden units."""

    layers: eqx.nn.MLP

    def __init__(self, key):
        self.layers = eqx.nn.MLP("scalar", "scalar", 24, 1, activation=jnp.tanh, key=key)

    def __call__(self, speed):
        return jax.nn.softplus(self.layers(speed / 3.0 - 4.0) - 1.0)


network = Network(jax.random.key(0))

# %% [markdown]
# ## Training
#
# The loss is the mean square of the misfit over the noise: 1 is perfect. Its gradient goes back through all steps of all
# throws, and so through the bounces.


# %%
def loss(law):
    return jnp.mean(((throws(law, velocities) - measured) / NOISE) ** 2)


STEPS = 150
optimiser = optax.adam(optax.cosine_decay_schedule(2e-2, STEPS))


@eqx.filter_jit
def improve(law, memory):
    value, gradient = eqx.filter_value_and_grad(loss)(law)
    updates, memory = optimiser.update(gradient, memory)
    return eqx.apply_updates(law, updates), memory, value


learned, memory, losses = network, optimiser.init(eqx.filter(network, eqx.is_array)), []
for _ in range(STEPS):
    learned, memory, value = improve(learned, memory)
    losses.append(float(value))
print(
    f"loss: {losses[0]:.0f} at first, {losses[-1]:.3f} at last; of the true law {loss(Crisis()):.3f}"
)

# %% [markdown]
# For comparison, the best constant drag coefficient: a single number, by least squares.


# %%
class Constant(eqx.Module):
    coefficient: jax.Array

    def __call__(self, speed):
        return self.coefficient


fit = lie_jax.estimation.identify(
    lambda c: throws(Constant(c), velocities),
    0.4,
    measured,
    max_iterations=20,
    transforms=lie_jax.estimation.transforms.positive,
    progress=False,
)
constant = Constant(fit.estimates)
print(f"best constant {float(constant.coefficient):.3f}, its loss {loss(constant):.0f}")

# %% [markdown]
# ## Learned against true law
#
# Grey bars show where the speeds of the recordings lie. Beyond them the network has seen nothing, and means
# nothing. Below 7 m/s it is off, too: drag is small there and hardly moves the ball. The loss of 1.04, where the true law
# has 0.97, leaves little to learn.

# %%
seen = np.linalg.norm(np.diff(clean, axis=1), axis=2).ravel() / (DT * EVERY)
s = jnp.linspace(0.5, 28.0, 200)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.semilogy(losses)
left.set(xlabel="step of the optimiser", ylabel="loss")
for law, style, name in (
    (Crisis(), "k", "true"),
    (learned, "C0", "network"),
    (constant, "C1--", "constant"),
):
    right.plot(s, jax.vmap(law)(s) + 0.0 * s, style, label=name)
right.set(xlabel="speed (m/s)", ylabel="drag coefficient", ylim=(0.0, 0.7))
counts = right.twinx()
counts.hist(seen, bins=30, color="0.85", zorder=0)
counts.set(yticks=[], ylim=(0, 150))
right.set_zorder(counts.get_zorder() + 1)
right.patch.set_visible(False)
right.legend()
inside = (s > seen.min()) & (s < seen.max())
off = jnp.abs(jax.vmap(learned)(s) - jax.vmap(Crisis())(s))[inside]
print(
    f"{seen.min():.1f} to {seen.max():.1f} m/s: off by at most {off.max():.3f}, on average {off.mean():.3f}"
)

# %% [markdown]
# ## A throw that was not recorded
#
# Higher, sideways and twice as long.

# %%
new = np.asarray([15.0, 6.0, 9.0])
true, by_network, by_constant = (
    np.asarray(eqx.filter_jit(throw)(law, new, 1000)) for law in (Crisis(), learned, constant)
)
rms = {
    name: np.sqrt(np.mean(np.sum((places - true) ** 2, axis=1)))
    for name, places in (("network", by_network), ("constant", by_constant))
}
for name, value in rms.items():
    print(f"{name:9} {value:.3f} m from the true places (root mean square)")
figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
for places, style, name in (
    (true, "k", "true"),
    (by_network, "C0:", "network"),
    (by_constant, "C1--", "constant"),
):
    axis.plot(np.hypot(places[:, 0], places[:, 1]), places[:, 2], style, label=name)
axis.set(xlabel="distance (m)", ylabel="height (m)")
axis.legend();

# %% [markdown]
# ## In short
#
# - A force is a class with a method that returns wrenches; a network of Equinox in a field of it is a parameter like a mass.
#   Its activation is a function and no parameter: take `equinox.filter_jit` and its like in the place of `jax.jit`.
# - No force is measured: the gradient of a simulated run by all weights, through contact, is enough.
# - Steps must resolve the contact, as here by nine of them, so that gradients are those of the motion.
# - Keep what is known out of the network: here the direction, the square of the speed, weight and contact.
