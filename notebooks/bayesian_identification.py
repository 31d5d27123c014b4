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
# # Bayesian identification
#
# You learn how to sample the parameters of a mechanism with a library of samplers, here Hamiltonian Monte Carlo of
# [BlackJAX](https://blackjax-devs.github.io/blackjax/), and when that says more than least squares with standard errors.
# A simulated run has derivatives, and that is all that the sampler needs. A pendulum is filmed for two seconds; its length
# and the friction of its hinge are wanted. [docs/identification.md](../docs/identification.md) has the least squares.
#
# Install with `pip install blackjax '.[viz]'` in the clone.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from lie_jax import solids
from lie_jax.estimation import transforms

lie_jax.configure(quiet=True)

# %% [markdown]
# BlackJAX computes something while it is imported, and `configure` must come before that.

# %%
import blackjax

DT, EVERY, STEPS = 0.025, 2, 80
NOISE = 0.03  # rad
NAMES, UNITS = ("angle", "friction", "length"), ("rad", "N m s/rad", "m")

# %% [markdown]
# ## A recording
#
# A thin rod of 0.2 kg swings about a hinge at its end. Its angle is read twenty times a second, each time with an error
# of 0.03 rad. The recording is simulated, so that the truth is known.


# %%
def swing(parameters, steps):
    """Angles (rad) of the rod, twenty a second."""
    length = parameters["length"]
    rod = lie_jax.Body(
        "rod",
        0.2,
        solids.cylinder(0.2, 0.005, length),
        center_of_mass=jnp.asarray([0.0, 0.0, -0.5]) * length,
        orientation=lie_jax.groups.quaternion.exp(
            jnp.asarray([0.0, 1.0, 0.0]) * parameters["angle"]
        ),
    )
    hinge = lie_jax.RevoluteJoint("ground", "rod", axis=(0.0, 1.0, 0.0))
    friction = lie_jax.ViscousFriction("ground", "rod", parameters["friction"])
    mechanism = lie_jax.Mechanism([rod], [hinge], [friction])
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    run = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=DT, steps=steps, save=EVERY, throw=False
    )
    return run.q[:, 0]


def predict(parameters):
    return swing(parameters, STEPS)


truth = {"length": 0.55, "friction": 3e-4, "angle": 0.7}
time = DT * EVERY * np.arange(STEPS // EVERY + 1)
clean = np.asarray(jax.jit(predict)(truth))
measured = clean + NOISE * np.random.default_rng(0).normal(size=clean.shape)

# %% [markdown]
# ## Least squares
#
# The best fit, and standard errors from the curvature of the misfit there. They describe a normal distribution.

# %%
fit = lie_jax.estimation.identify(
    predict,
    {"length": 0.5, "friction": 2e-3, "angle": float(measured[0])},
    measured,
    noise=NOISE,
    transforms={
        "length": transforms.positive,
        "friction": transforms.positive,
        "angle": transforms.free,
    },
    progress=False,
)
print(fit)
estimate = np.asarray([fit.estimates[name] for name in NAMES])
error = np.asarray([fit.standard_errors[name] for name in NAMES])

# %% [markdown]
# The standard error of the friction is a large part of the friction, which cannot be negative. A normal distribution does
# not know that.
#
# ## The posterior density
#
# With independent normal noise the logarithm of the likelihood is minus half the sum of squares. The prior is flat over
# all positive lengths and frictions. The sampler works with any real numbers, and so with the coordinates of the fit,
# `fit.coordinates`: the angle and the logarithms of friction and length. The density over these is the one over the
# parameters times their derivative. `fit.log_density` is the logarithm of the product. Because of the derivative, its
# slope is not zero at the best fit.

# %%
value, gradient = jax.jit(jax.value_and_grad(fit.log_density))(fit.coordinates)
print(f"at the best fit: {value:.3f}, gradient", np.round(np.asarray(gradient), 3))

# %% [markdown]
# ## Sampling
#
# Hamiltonian Monte Carlo moves through the density along its gradient. Least squares has told where to start and how wide
# the density is in each direction, so that nothing is left to tune: the covariance is the sampler's inverse mass matrix, and
# steps are half a standard error. Four chains run in one compiled program, and their first hundred samples are dropped.

# %%
sampler = blackjax.hmc(
    fit.log_density,
    step_size=0.5,
    inverse_mass_matrix=fit.covariance,
    num_integration_steps=4,
)


def chain(key):
    def step(state, key):
        state, info = sampler.step(key, state)
        return state, (state.position, info.is_divergent, info.acceptance_rate)

    return jax.lax.scan(step, sampler.init(fit.coordinates), jax.random.split(key, 1100))[1]


sampled = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 4))
z, diverged, accepted = (x[:, 100:] for x in sampled)
print("steps that diverged:", int(diverged.sum()), " accepted:", round(float(accepted.mean()), 3))
print("R-hat:", np.round(np.asarray(blackjax.diagnostics.potential_scale_reduction(z)), 3))
print("effective samples:", np.round(np.asarray(blackjax.diagnostics.effective_sample_size(z))))

# %% [markdown]
# R-hat near 1 says that the four chains agree.
#
# ## Posterior against standard errors
#
# Black: the normal distribution of least squares, as curves and as ellipses of two standard errors. Blue: samples. Red: the
# truth. The samples are wider, for two reasons. `identify` takes the size of the noise from the residuals, which are 0.78 times
# the stated noise in this recording, and the density takes the stated one. And the friction is bounded by zero: its samples end
# there and have a longer tail to the other side, and the angle at the start follows it.

# %%
decoded = jax.vmap(fit.decode)(z.reshape(-1, 3))
samples = np.stack([decoded[name] for name in NAMES], axis=1)
known = np.asarray([truth[name] for name in NAMES])
covariance = error[:, None] * np.asarray(fit.correlation) * error
angles = np.linspace(0.0, 2.0 * np.pi, 100)
circle = 2.0 * np.stack([np.cos(angles), np.sin(angles)])  # two standard errors
figure, axes = plt.subplots(3, 3, figsize=(8, 7.5), sharex="col", layout="constrained")
for row, column in np.ndindex(3, 3):
    axis, pair = axes[row, column], [column, row]
    if column > row:
        axis.remove()
    elif column == row:
        axis.hist(samples[:, row], bins=60, density=True, color="C0", alpha=0.5)
        x = estimate[row] + error[row] * np.linspace(-3.5, 3.5, 200)
        normal = np.exp(-0.5 * ((x - estimate[row]) / error[row]) ** 2)
        axis.plot(x, normal / (error[row] * np.sqrt(2.0 * np.pi)), "k")
        axis.axvline(known[row], color="C3")
        axis.set_yticks([])
    else:
        axis.plot(*samples[::4, pair].T, ".", markersize=2, color="C0")
        ellipse = np.linalg.cholesky(covariance[np.ix_(pair, pair)]) @ circle
        axis.plot(*(estimate[pair, None] + ellipse), "k")
        axis.plot(*known[pair], "o", color="C3")
        axis.set_ylabel(f"{NAMES[row]} ({UNITS[row]})" if column == 0 else "")
    if row == 2:
        axis.set_xlabel(f"{NAMES[column]} ({UNITS[column]})")

# %%
quantiles = np.quantile(samples, [0.025, 0.975], axis=0)
print(f"{'':10}{'truth':>9}  {'95 %, least squares':>21}  {'95 %, samples':>21}")
for k, name in enumerate(NAMES):
    low, high = estimate[k] - 1.96 * error[k], estimate[k] + 1.96 * error[k]
    print(
        f"{name:10}{known[k]:9.5f}  {low:9.5f} to {high:8.5f}  "
        f"{quantiles[0, k]:9.5f} to {quantiles[1, k]:8.5f}"
    )

# %% [markdown]
# ## Predictions
#
# Each sample is a pendulum. Two hundred of them show what the recording leaves open: the next eight seconds.

# %%
some = jax.tree.map(lambda x: x[::20], decoded)
swings = np.asarray(jax.jit(jax.vmap(lambda p: swing(p, 400)))(some))
later = DT * EVERY * np.arange(swings.shape[1])
figure, axis = plt.subplots(figsize=(8, 3.5), layout="constrained")
axis.plot(later, swings.T, color="C0", alpha=0.04)
axis.plot(later, jax.jit(lambda p: swing(p, 400))(truth), color="C3", label="truth")
axis.plot(time, measured, "k.", markersize=4, label="recording")
axis.set(xlabel="time (s)", ylabel="angle (rad)")
axis.legend(loc="upper right");

# %% [markdown]
# ## In short
#
# - `identify` gives a normal distribution from one fit. It is right where the prediction is nearly linear over the standard
#   errors and no bound is near.
# - Where it is not, or where a bound such as zero friction is near, sample: give `fit.log_density` to any sampler that
#   takes JAX functions, and read its samples by `fit.decode`.
# - Start at the best fit, in coordinates without bounds, with the covariance of least squares, and look at R-hat and at steps
#   that diverged. For densities that are far from normal take `blackjax.nuts` after `blackjax.window_adaptation`.
