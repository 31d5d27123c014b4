"""Predictions of `identify`: samples, or whitened innovations of experiments."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from lie_jax import checks
from lie_jax.estimation import passes
from lie_jax.estimation.draws import draw
from lie_jax.estimation.experiment import Experiment
from lie_jax.estimation.filter import Filtered, filter
from lie_jax.estimation.innovations import Whitened
from lie_jax.estimation.model import KINDS, Model, check_kinds
from lie_jax.estimation.parameters import broadcast
from lie_jax.user_functions import closures

_RETURN = (
    "return lie_jax.estimation.Experiment(system, method, state, measure=, dt=) in the place of "
    "what is simulated, one for each recording"
)


def of_samples(
    where: str, predict: Callable[[PyTree], PyTree], observations: PyTree
) -> Callable[[PyTree], PyTree]:
    """`predict`, with the samples of its experiments in their place."""

    def with_samples(values):
        tree = predict(values)
        leaves, structure = _leaves(where, tree)
        if not any(map(_is_experiment, leaves)):
            return tree
        if any(_is_experiment(x) and x.covariance is not None for x in leaves):
            raise ValueError(
                f"Experiment(covariance=) is given, and {where}(process=) is not; a run starts at "
                "the state itself: leave covariance= out, or give process=, densities of zero for "
                "no process noise."
            )
        parts = zip(leaves, _parts(where, structure, observations), strict=True)
        samples = [x.samples(len(y)) if _is_experiment(x) else x for x, y in parts]
        return jax.tree.unflatten(structure, samples)

    return with_samples


class Noisy(NamedTuple):
    """Experiments from parameters, under process noise; it and `noise` may be functions of them."""

    where: str
    predict: Callable[[PyTree], PyTree]
    noise: Any
    process: Any

    def innovations(self, observations: PyTree) -> Callable[[PyTree], PyTree]:
        """`Whitened` of each recording, a pytree, from the parameters."""
        if not callable(self.process):
            # Before `predict` is called, which may be of another kind.
            for process in _each(self.process, jax.tree.structure(observations)):
                check_kinds(f"{self.where}(process=)", process)

        def whiten(values):
            rows, structure = self._rows(values, observations)
            whitened = [self._whiten(*row) for row in rows]
            return jax.tree.unflatten(structure, whitened)

        return whiten

    def draw(self, values: PyTree, observations: PyTree, key: Array) -> PyTree:
        """Random recordings of the shapes of observations."""
        rows, structure = self._rows(values, observations)
        keys = jax.random.split(key, len(rows))
        drawn = []
        for key, (experiment, observed, *noise) in zip(keys, rows, strict=True):
            with _names_of(self.where):
                model = _model(experiment, *noise)
                model.check_samples(self.where, observed.shape[-1], experiment.state.q.dtype)
                drawn.append(draw(experiment, model, len(observed), key))
        return jax.tree.unflatten(structure, drawn)

    def _rows(self, values: PyTree, observations: PyTree) -> tuple[list[Any], Any]:
        """Experiment, observations, deviations and densities of each recording."""
        where, noise, process = self.where, self.noise, self.process
        leaves, structure = _leaves(where, self.predict(values))
        if not leaves or not all(map(_is_experiment, leaves)):
            some = "experiments and other values" if any(map(_is_experiment, leaves)) else "arrays"
            raise ValueError(
                f"{where}(process=) is given, and {where}(predict=) returns {some}; a filter needs "
                f"the system itself: {_RETURN}."
            )
        parts = _parts(where, structure, observations)
        noise = noise(values) if callable(noise) else noise
        noise = broadcast(f"{where}(noise=)", "number", noise, observations, "observations")
        densities = _each(process(values) if callable(process) else process, structure)
        rows = zip(leaves, parts, jax.tree.leaves(noise), densities, strict=True)
        return list(rows), structure

    def _whiten(self, experiment: Experiment, observed: Array, *noise: Any) -> Whitened:
        with _names_of(self.where):
            model = _model(experiment, *noise)
            covariance = experiment.covariance
            if covariance is None:
                covariance = jnp.zeros((model.size, model.size), experiment.state.q.dtype)
            filtered = filter(
                model,
                observed if checks.has_tracers(observed) else np.asarray(observed),
                experiment.state,
                covariance,
                dt=experiment.dt,
                t0=experiment.t0,
                inputs=experiment.inputs,
            )
        # A NaN of missing samples would remain in derivatives.
        residuals = -jnp.where(jnp.isnan(filtered.data), 0.0, filtered.whitened)
        return Whitened(residuals, filtered._scales, filtered.log_likelihood)


def noisy(
    where: str, predict: Callable[[PyTree], PyTree], noise: Any, process: Any, compare: Any
) -> Noisy:
    """`Noisy`; raises `ValueError` for noise that is missing and functions of other arguments."""
    if noise is None:
        raise ValueError(
            f"{where}(process=) is given without noise=; samples are weighed against the process "
            "noise by their own: give noise=, their standard deviations, or a function of the "
            "parameters that returns them."
        )
    for name, value in (("noise", noise), ("process", process)):
        if callable(value):
            checks.function(f"{where}({name}=)", value, "parameters")
    if compare != "vector":
        raise ValueError(
            f"{where}(compare=) is {compare!r}, and {where}(process=) is given, which compares "
            "samples as vectors: leave compare= out, and return numbers without constraint from "
            "Experiment(measure=)."
        )
    return Noisy(where, predict, noise, process)


def check_constant(where: str, noise: Any) -> None:
    """Raise `ValueError` for deviations that are functions of the parameters."""
    if callable(noise):
        raise ValueError(
            f"{where}(noise=) is a function, and {where}(process=) is not given; least squares do "
            "not seek deviations: give numbers, or process=, densities of zero for no process "
            "noise."
        )


def blank(
    where: str, predict: Callable[[PyTree], PyTree], values: PyTree, samples: Any
) -> PyTree | None:
    """Observations of zero for experiments, with so many samples; None for other predictions."""
    kinds, structures = [], []

    def one_sample(values):
        leaves, structure = _leaves(where, predict(values))
        kinds.extend(map(_is_experiment, leaves))
        structures.append(structure)
        return [x.expect(x.t0, x.state.q, x.state.v) if _is_experiment(x) else x for x in leaves]

    with closures.refuse_numbers(f"{where}(predict=)", predict, "the parameters"):
        shapes = jax.eval_shape(one_sample, values)
    if not any(kinds):
        return None
    if samples is None:
        raise ValueError(
            f"{where}(predict=) returns an Experiment, and samples= is not given; it must be the "
            "number of samples of each recording: give that of the recording that you fit."
        )
    (structure,) = structures
    counts = jax.tree.leaves(
        broadcast(
            f"{where}(samples=)", "number", samples, structure.unflatten(shapes), "recordings"
        )
    )
    rows = []
    for one, count, is_experiment in zip(shapes, counts, kinds, strict=True):
        checks.positive_integer(f"{where}(samples=)", count, "the number of samples")
        shape = (count, *one.shape) if is_experiment else one.shape
        rows.append(jnp.zeros(shape, one.dtype))
    return structure.unflatten(rows)


def _is_experiment(value: Any) -> bool:
    return isinstance(value, Experiment)


def _leaves(where: str, tree: PyTree) -> tuple[list[Any], Any]:
    """Experiments and other leaves of a prediction."""
    leaves, structure = jax.tree.flatten(
        tree, is_leaf=lambda x: isinstance(x, Experiment | Filtered)
    )
    if any(isinstance(x, Filtered) for x in leaves):
        raise ValueError(
            f"{where}(predict=) returns a result of lie_jax.estimation.filter; it must return what "
            f"is filtered: {_RETURN}, and give {where}(process=)."
        )
    return leaves, structure


def _parts(where: str, structure: Any, observations: PyTree) -> list[Any]:
    """Arrays of the observations, in the order of experiments."""
    if jax.tree.structure(observations) != structure:
        raise ValueError(
            f"{where}(predict=) returns experiments as {structure}, and the observations are "
            f"{jax.tree.structure(observations)}; the two must match: give an array of samples for "
            "each Experiment."
        )
    return jax.tree.leaves(observations)


def _each(process: Any, structure: Any) -> list[Any]:
    """Process noise of each recording: one for all, or a pytree like the observations."""
    try:
        return structure.flatten_up_to(process)
    except (ValueError, TypeError):
        return [process] * structure.num_leaves


def _model(experiment: Experiment, noise: Any, process: Any) -> Model:
    system, method, measure = experiment.system, experiment.method, experiment.measure
    dtype = experiment.state.q.dtype
    noise = passes.numbers(noise, dtype)
    if isinstance(process, Mapping) and set(process) <= set(KINDS):
        process = {kind: passes.numbers(x, dtype) for kind, x in process.items()}
    return Model(system, method, measure=measure, noise=noise, process=process)


@contextlib.contextmanager
def _names_of(where: str) -> Iterator[None]:
    """Name arguments in messages of `Model` and `filter` as those who gave them know them."""
    names = {
        "filter(model=).noise": f"{where}(noise=)",
        "filter(model=).process": f"{where}(process=)",
        "filter(model=)": "Experiment",
        "filter(data=)": f"{where}(observations=)",
        "Model(noise=)": f"{where}(noise=)",
        "Model(process=)": f"{where}(process=)",
        "Model(": "Experiment(",
        "filter(": "Experiment(",
    }
    try:
        yield
    except ValueError as error:
        message = str(error)
        for theirs, ours in names.items():
            message = message.replace(theirs, ours)
        raise ValueError(message) from error.__cause__
