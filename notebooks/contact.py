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
# # Gradients through contact
#
# A ball bounces off a wall. Where is it afterwards, and how does that depend on its speed? The motion is easy; the
# derivative depends on the law of contact and on where the steps end. [docs/contact.md](../docs/contact.md) explains
# the laws, [docs/contact_gradients.md](../docs/contact_gradients.md) has tables.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from lie_jax import contact

lie_jax.configure(quiet=True)
RADIUS, GAP, END, STEPS = 0.1, 0.05, 0.2, 256
# Some forty steps in each contact, which lasts 31 ms.
LINEAR = lie_jax.contact.HuntCrossley(1e4, exponent=1.0)
SMOOTH = lie_jax.contact.HuntCrossley(1e6, exponent=2.0)


# %%
def touch(system):
    return lie_jax.Event(
        lambda t, q, v: system.contacts(t, q, v).gap[0], lambda t, q, v: (q, v), direction=0
    )


def place(law, speed, ends_at_touch=False):
    """Distance of the ball from the wall at the end, m."""
    ball = lie_jax.Body(
        "ball",
        1.0,
        lie_jax.solids.sphere(1.0, RADIUS),
        position=(RADIUS + GAP, 0.0, 0.0),
        velocity=jnp.stack([-speed, 0.0 * speed, 0.0 * speed]),
    )
    wall = contact.Plane("ground", normal=(1.0, 0.0, 0.0))
    hit = lie_jax.contact.Contact(contact.Sphere("ball", RADIUS), wall, law)
    mechanism = lie_jax.Mechanism([ball], forces=[hit], gravity=(0.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    events = [touch(system)] if ends_at_touch else []
    run = lie_jax.simulate(
        system,
        lie_jax.GeneralizedAlpha(0.9),
        state,
        dt=END / STEPS,
        steps=STEPS,
        save=STEPS,
        events=events,
        throw=False,
    )
    return run.q[-1, 0] - RADIUS


# %% [markdown]
# A linear spring and a spring of the square of the overlap, both without losses. The time of contact is in closed form
# for each, and so are place and derivative.


# %%
def exact(law, speed):
    p = law.exponent
    deepest = ((p + 1.0) * speed**2 / (2.0 * law.stiffness)) ** (1.0 / (p + 1.0))
    # The integral of 1/sqrt(1 - s**(p + 1)) from 0 to 1: π/2, and of Γ functions.
    half = {1.0: np.pi / 2.0, 2.0: 1.4021821053254542}[p]
    lasts = 2.0 * half * deepest / speed
    return speed * (END - lasts) - GAP


speeds = jnp.linspace(1.0, 1.02, 81)
figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(7, 6))
for name, law, color in (("linear spring", LINEAR, "C3"), ("square", SMOOTH, "C0")):
    known = jax.vmap(jax.value_and_grad(lambda v, law=law: exact(law, v)))(speeds)
    computed = jax.jit(jax.vmap(jax.value_and_grad(lambda v, law=law: place(law, v))))(speeds)
    top.plot(speeds, computed[0], color=color, label=name)
    top.plot(speeds, known[0], ":", color="k")
    bottom.plot(speeds, computed[1], color=color)
    bottom.plot(speeds, known[1], ":", color="k")
    worst = [float(jnp.abs(x / y - 1.0).max()) for x, y in zip(computed, known, strict=True)]
    print(f"{name:14} place {worst[0]:.1e}, derivative {worst[1]:.1e}, relative to closed forms")
top.set_ylabel("place at the end (m)")
bottom.set(ylabel="its derivative by the speed (s)", xlabel="speed (m/s)")
top.legend();

# %% [markdown]
# The places lie on each other. The derivative of the run with the linear spring is exact, but of a run whose steps begin
# the contact at any part of a step: it jumps up and down by a fifth. With the square it does not.
#
# A step that ends at the touch mends the linear spring, too: an event that does nothing.

# %%
few = speeds[::10]
computed = jax.jit(jax.vmap(jax.value_and_grad(lambda v: place(LINEAR, v, True))))(few)
known = jax.vmap(jax.value_and_grad(lambda v: exact(LINEAR, v)))(few)
for name, x, y in zip(("place", "derivative"), computed, known, strict=True):
    print(f"{name:10} {float(jnp.abs(x / y - 1.0).max()):.1e}")


# %% [markdown]
# What it is good for: a ball is to be thrown onto the ground so that it lands in a bucket 2 m away after one bounce.
# Newton's method on the horizontal and the downward speed, with derivatives through the bounce.


# %%
def thrown(velocity):
    """Place of the ball after 0.6 s, m."""
    ball = lie_jax.Body(
        "ball",
        0.06,
        lie_jax.solids.sphere(0.06, 0.03),
        position=(0.0, 0.0, 1.0),
        velocity=jnp.stack([velocity[0], 0.0 * velocity[0], -velocity[1]]),
    )
    bounce = lie_jax.contact.Contact(
        contact.Sphere("ball", 0.03),
        contact.Plane("ground"),
        lie_jax.contact.HuntCrossley(1e6, dissipation=0.05),
        lie_jax.contact.Coulomb(0.6),
    )
    system, state = lie_jax.assemble(lie_jax.Mechanism([ball], forces=[bounce]), lie_jax.R3SO3())
    run = lie_jax.simulate(
        system,
        lie_jax.GeneralizedAlpha(0.9),
        state,
        dt=1e-4,
        steps=6000,
        save=6000,
        throw=False,
    )
    return jnp.stack([run.q[-1, 0], run.q[-1, 2]])


bucket, velocity = jnp.asarray([2.0, 0.5]), jnp.asarray([3.0, 2.0])
both = jax.jit(lambda v: (thrown(v), jax.jacfwd(thrown)(v)))
for _ in range(8):
    landed, slope = both(velocity)
    print("velocity", velocity, "lands", np.round(landed, 9))
    velocity = velocity - jnp.linalg.solve(slope, landed - bucket)
