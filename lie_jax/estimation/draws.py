"""Random recordings of an experiment: its start, process noise and samples drawn at random."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.estimation import factors, local, passes
from lie_jax.estimation.experiment import Experiment
from lie_jax.estimation.local import Point
from lie_jax.estimation.model import Model
from lie_jax.numerics.small import matvec


def draw(experiment: Experiment, model: Model, count: int, key: Array) -> Float[Array, "count ny"]:
    """So many samples of one motion."""
    system, dt, t0 = experiment.system, experiment.dt, experiment.t0
    dtype, noisy = experiment.state.q.dtype, model.process.get("inputs")
    inputs = passes.held_inputs(
        "Experiment(inputs=)",
        system,
        experiment.inputs,
        count - 1,
        dtype,
        None if noisy is None else noisy.size,
    )
    if inputs is not None:
        # The last step goes beyond the recording.
        inputs = jnp.concatenate([inputs, jnp.zeros_like(inputs, shape=(1, inputs.shape[1]))])
    for_start, for_loads, for_samples = jax.random.split(key, 3)
    point = Point(experiment.state, jnp.zeros(model.biases, dtype))
    if experiment.covariance is not None:
        normal = jax.random.normal(for_start, (model.size,), dtype)
        x = matvec(factors.root(jnp.asarray(experiment.covariance)), normal)
        point = local.land(system, t0, point, x)

    def body(point, row):
        k, u, loads = row
        t = t0 + k.astype(dtype) * dt
        return model.step(t, dt, point, u, loads), model.sample(t, point)

    loads = jax.random.normal(for_loads, (count, model.loads), dtype)
    clean = jax.lax.scan(body, point, (jnp.arange(count), inputs, loads))[1]
    errors = jax.random.normal(for_samples, clean.shape, dtype)
    return clean + jnp.broadcast_to(model.noise.astype(dtype), clean.shape) * errors
