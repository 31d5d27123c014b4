"""A straight line with noise, whose fit has a textbook solution."""

import jax.numpy as jnp
import numpy as np

TIME = jnp.linspace(0.0, 1.0, 400)


def line(p):
    return {"line": p["slope"] * TIME + p["offset"]}


def noisy_line(sigma, seed=0):
    noise = np.random.default_rng(seed).normal(size=len(TIME))
    return {"line": np.asarray(2.0 * TIME + 0.5) + sigma * noise}


START = {"slope": 1.0, "offset": 1.0}
