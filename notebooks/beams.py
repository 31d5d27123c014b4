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
# # Beams: roll one up, throw one, identify one
#
# A beam is a row of elements between bodies that are its nodes. Each element is a screw motion: it bends, twists and
# stretches by constant strains, however far. [docs/beams.md](../docs/beams.md) has the elements and what they cannot do.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from lie_jax import beams
from lie_jax.estimation import transforms

lie_jax.configure(quiet=True)

# %% [markdown]
# ## Roll-up
#
# A moment of 2π EI/L at its end bends a cantilever to a circle. `lie_jax.equilibrium` lets the load grow in steps. Screws
# are exact here: the ends meet to rounding, with eight elements or three.

# %%
LENGTH, BENDING = 10.0, 100.0


def rolled_up(part):
    """Points of the line under a part of the moment."""
    section = beams.Section((1e4, 1e4, 1e4, BENDING, BENDING, BENDING), 1.0, (1.0, 1.0, 1.0))
    line = beams.line("beam", section, LENGTH, 8, start="ground")
    moment = jnp.stack([0.0 * part, 0.0 * part, part * 2.0 * jnp.pi * BENDING / LENGTH])
    load = lie_jax.Torque(line.nodes[-1].name, moment, frame="body")
    mechanism = lie_jax.Mechanism(line.nodes, forces=[*line.elements, load], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    end = lie_jax.equilibrium(system, state)
    return system.beams(end.q, points=9).position.reshape(-1, 3)


lines = jax.jit(rolled_up)
figure, axis = plt.subplots(figsize=(6, 4))
for part in (0.1, 0.25, 0.5, 0.75, 1.0):
    points = np.asarray(lines(jnp.asarray(part)))
    axis.plot(points[:, 0], points[:, 1], label=f"{part:g} of the moment")
axis.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
print("distance of the ends (m):", np.linalg.norm(points[-1] - points[0]))

# %% [markdown]
# ## Flight
#
# A beam on no support, pushed and turned at its lower end for 2.5 s: a classic of Simo and Vu-Quoc. The centre of mass must
# have moved by 0.4 t² until then.


# %%
def flying_beam(elements, bending):
    stiffness = jnp.stack([1e4 + 0.0 * bending] * 3 + [bending] * 3)
    section = beams.Section(stiffness, 1.0, (10.0, 10.0, 10.0))
    half = 0.5 * np.arctan2(8.0, -6.0)  # from (6, 0) to (0, 8)
    turn = (np.cos(half), 0.0, 0.0, np.sin(half))
    line = beams.line("beam", section, 10.0, elements, position=(6.0, 0.0, 0.0), orientation=turn)

    def push(load):
        return lambda t: jnp.where(t <= 2.5, 1.0, 0.0) * jnp.asarray(load)

    lower = line.nodes[0].name
    loads = [
        lie_jax.PointForce(lower, push([8.0, 0.0, 0.0])),
        lie_jax.Torque(lower, push([0.0, 0.0, -80.0])),
    ]
    mechanism = lie_jax.Mechanism(
        line.nodes, forces=[*line.elements, *loads], gravity=(0.0, 0.0, 0.0)
    )
    return lie_jax.assemble(mechanism, lie_jax.SE3())


system, state = flying_beam(16, jnp.asarray(500.0))
flight = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.9), state, dt=0.01, steps=1000)
shape = jax.jit(jax.vmap(lambda q: system.beams(q, points=3).position.reshape(-1, 3)))
figure, axis = plt.subplots(figsize=(8, 4.5))
for k, points in enumerate(np.asarray(shape(flight.q[::50]))):
    axis.plot(points[:, 0], points[:, 1], color=plt.get_cmap("viridis")(k / 20))
axis.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
moved, _ = system.momentum(flight.q[-1], flight.v[-1])
print("momentum at the end (kg m/s), 20 by 8 N in 2.5 s:", np.asarray(moved))

# %% [markdown]
# Derivatives go through the whole flight: here of the end's place by the bending stiffness, against a difference.


# %%
def end_of_flight(bending):
    system, state = flying_beam(4, jnp.asarray(bending))
    run = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(0.9), state, dt=0.01, steps=500, save=500
    )
    return system.poses(run.q[-1])[1][-1, 0]


slope = jax.grad(end_of_flight)(500.0)
difference = (end_of_flight(500.05) - end_of_flight(499.95)) / 0.1
print("d x/d EI:", float(slope), "difference:", float(difference))

# %% [markdown]
# ## Identification
#
# A strip, clamped at one end, carries a lump beside its other end and is let go. Two markers on the lump are filmed for half a
# second, to a twentieth of a millimetre. What are the strip's bending and torsional stiffness, and its damping?

# %%
DT, STEPS, NOISE = 2e-3, 250, 5e-5


def film(x):
    """Places of two markers, (STEPS + 1, 6), m."""
    stiff = jnp.asarray([2.8e6, 1e6, 1e6, 0.0, 0.0, 36.0])
    stiffness = stiff.at[3].set(x["torsion"]).at[4].set(x["bending"])
    section = beams.Section(stiffness, 0.107, (1.46e-6, 0.09e-6, 1.37e-6), x["time"] * stiffness)
    lump = lie_jax.Body("lump", 0.05, np.diag([2e-5, 2e-5, 3e-5]), position=(0.5, 0.1, 0.0))
    strip = beams.line("strip", section, 0.5, 6, start="ground", end=lump)
    mechanism = lie_jax.Mechanism([*strip.nodes, lump], forces=strip.elements)
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    run = lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(0.9), state, dt=DT, steps=STEPS, throw=False
    )
    rotation, position = jax.vmap(system.poses)(run.q)
    marker = position[:, -1] + rotation[:, -1] @ jnp.asarray([0.0, 0.05, 0.0])
    return jnp.concatenate([position[:, -1], marker], axis=1)


truth = {"bending": jnp.asarray(2.4), "torsion": jnp.asarray(2.9), "time": jnp.asarray(2e-3)}
clean = np.asarray(jax.jit(film)(truth))
filmed = clean + NOISE * np.random.default_rng(2).normal(size=clean.shape)
start = {"bending": jnp.asarray(2.0), "torsion": jnp.asarray(2.0), "time": jnp.asarray(1e-3)}
fit = lie_jax.estimation.identify(
    film, start, filmed, noise=NOISE, transforms=transforms.positive, progress=False
)
print("converged", bool(fit.converged))
for name, value in truth.items():
    error = float(fit.standard_errors[name])
    off = (float(fit.estimates[name]) - float(value)) / error
    print(f"{name:8} {float(fit.estimates[name]):.6f} ± {error:.6f}: off by {off:.2f} of that")

# %%
figure, axis = plt.subplots(figsize=(8, 3.5))
time = DT * np.arange(STEPS + 1)
for column, name in ((2, "lump"), (5, "marker beside it")):
    axis.plot(time, 1e3 * filmed[:, column], ".", markersize=3, label=name)
    axis.plot(time, 1e3 * (filmed - np.asarray(fit.residuals))[:, column], color="k", linewidth=0.8)
axis.set(xlabel="time (s)", ylabel="height (mm)")
axis.legend();
