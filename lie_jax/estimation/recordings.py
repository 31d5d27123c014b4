"""Recordings for `identify` and `monte_carlo`: their comparison, noise and missing samples."""

import dataclasses
import reprlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from lie_jax import checks
from lie_jax.estimation.parameters import broadcast
from lie_jax.groups import quaternion, se3, so3
from lie_jax.user_functions import closures


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Shapes of an element and of its residual, predicted minus observed, a prediction with noise
    added, a stand-in for a missing element, and a check of elements.
    """

    element: tuple[int, ...]
    residual: tuple[int, ...]
    difference: Callable[[Array, Array], Array]
    perturbed: Callable[[Array, Array], Array]
    neutral: Callable[[], np.ndarray]
    check: Callable[[str, np.ndarray], None]


def _on_group(group, element: tuple[int, ...], size: int, check: Callable) -> Comparison:
    letters = ",".join("abc"[: len(element)])

    def difference(predicted, observed):
        return group.log(group.compose(group.inverse(observed), predicted))

    def perturb(predicted, noise):
        return group.compose(predicted, group.exp(noise))

    return Comparison(
        element,
        (size,),
        jnp.vectorize(difference, signature=f"({letters}),({letters})->(k)"),
        jnp.vectorize(perturb, signature=f"({letters}),(k)->({letters})"),
        lambda: np.asarray(group.identity()),
        check,
    )


def _check_pose(name: str, value: np.ndarray) -> None:
    checks.trailing(name, value, (4, 4), "homogeneous matrices of poses")
    checks.rotation(f"{name}[..., :3, :3]", value[..., :3, :3])
    if not np.all(value[..., 3, :] == (0.0, 0.0, 0.0, 1.0)):
        raise ValueError(
            f"{name} has a last row that is not (0, 0, 0, 1); it must hold homogeneous matrices."
        )


def _of_own(loss: Callable, observed: Array) -> Comparison:
    """Comparison of one array by a function of the prediction and the observations."""
    with closures.refuse_numbers("identify(compare=)", loss, "predicted and observed samples"):
        residual = jax.eval_shape(loss, observed, observed)
    if not hasattr(residual, "shape"):
        raise ValueError(
            f"identify(compare=): the function returns a {type(residual).__name__}; it must return "
            "one array of residuals, (n, ...): give a function for each array of the observations."
        )
    if residual.shape[:1] != observed.shape[:1]:
        raise ValueError(
            f"identify(compare=): the function returns residuals of shape {residual.shape} for "
            f"{observed.shape[0]} samples; it must return those of each sample in a row, (n, ...)."
        )

    def refuse(*_: Any) -> Array:
        raise ValueError(
            "monte_carlo(compare=) has a function, which does not say how noise moves an "
            f"observation; it must be one of {', '.join(map(repr, COMPARISONS))}: take that, or "
            "the spread of identify's own estimate."
        )

    return Comparison(
        observed.shape[1:],
        residual.shape[1:],
        loss,
        refuse,
        # Losses may divide by an observation, or take its logarithm.
        lambda: np.ones(observed.shape[1:]),
        lambda *_: None,
    )


COMPARISONS = {
    "vector": Comparison(
        (), (), lambda p, o: p - o, lambda p, n: p + n, lambda: np.zeros(()), lambda *_: None
    ),
    "rotation": _on_group(so3, (3, 3), 3, checks.rotation),
    "quaternion": _on_group(quaternion, (4,), 3, checks.unit_quaternions),
    "pose": _on_group(se3, (4, 4), 6, _check_pose),
}


class Recordings(NamedTuple):
    """Pytrees of one structure: a `Comparison` of each array, observations, and weights of the
    residuals, zero for a missing one.
    """

    compare: PyTree
    observed: PyTree
    weights: PyTree

    def with_noise(self, key: Array) -> "Recordings":
        """Recordings with noise added to the observations."""
        leaves, structure = jax.tree.flatten(self.observed)
        keys = jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))

        def noisy(comparison, observed, weight, key):
            noise = jax.random.normal(key, weight.shape, weight.dtype)
            deviation = jnp.where(weight > 0.0, 1.0 / jnp.where(weight > 0.0, weight, 1.0), 0.0)
            return comparison.perturbed(observed, noise * deviation)

        observed = jax.tree.map(noisy, self.compare, self.observed, self.weights, keys)
        return self._replace(observed=observed)

    def weighted_residuals(self, predicted: PyTree, horizon: PyTree | None = None) -> PyTree:
        """Predicted minus observed, times weights; zero beyond a horizon, numbers of samples."""

        def residual(comparison, predicted, observed, weight):
            return comparison.difference(predicted, observed) * weight

        weighted = jax.tree.map(residual, self.compare, predicted, self.observed, self.weights)
        return weighted if horizon is None else jax.tree.map(_first, weighted, horizon)

    def scale_residuals(self, predicted: PyTree, horizon: PyTree | None = None) -> PyTree:
        """None: the noise of observations does not depend on the prediction."""
        return ()

    def log_density(self, predicted: PyTree) -> Array:
        """Logarithm of the density of all observations, up to a constant."""
        weighted = self.weighted_residuals(predicted)
        return -0.5 * jnp.sum(ravel_pytree(weighted)[0] ** 2)

    @property
    def numbers(self) -> int:
        """Number of residuals that have a weight."""
        return sum(int(np.count_nonzero(w)) for w in jax.tree.leaves(self.weights))

    @property
    def noise_is_known(self) -> bool:
        """Whether any noise but 1 is stated; 1 stands for unknown noise."""
        stated = [np.asarray(w) for w in jax.tree.leaves(self.weights)]
        return any(bool(np.any((w != 0.0) & (w != 1.0))) for w in stated)


def _first(residual: Array, number: Array) -> Array:
    inside = jnp.arange(len(residual)) < number
    return jnp.where(inside.reshape(-1, *[1] * (residual.ndim - 1)), residual, 0.0)


def prepare(where: str, observations: PyTree, noise: PyTree, compare: PyTree) -> Recordings:
    """Check observations, and compute the weights of residuals, 1/noise.

    Raises `ValueError` for observations without a leading axis, not finite where noise is, or of
    the wrong shape for their kind, and for noise that is not positive or does not broadcast.
    """
    leaves = jax.tree.leaves(observations)
    if not leaves or not all(leaf.ndim and len(leaf) for leaf in leaves):
        raise ValueError(
            f"{where}(observations=) holds arrays of the shapes {[x.shape for x in leaves]}; each "
            "must have a leading axis, the samples in time: make an array of a list of numbers, "
            "which would be as many recordings."
        )
    # A function may be a module, whose parts are no words.
    words = jax.tree.map(_Word, compare, is_leaf=callable)
    words = broadcast(f"{where}(compare=)", "word", words, observations, "observations")
    compare = jax.tree.map(partial(_comparison, where), words, observations)
    checks.real_leaves(f"{where}(noise=)", noise)
    deviations = broadcast(f"{where}(noise=)", "number", noise, observations, "observations")
    pairs = jax.tree.map(lambda *x: _prepare(where, *x), compare, observations, deviations)
    observed, weights = jax.tree.transpose(jax.tree.structure(compare), None, pairs)
    return Recordings(compare, observed, weights)


@dataclasses.dataclass(frozen=True)
class _Word:
    """A word or a function of `compare`, no pytree."""

    value: Any


def _comparison(where: str, word: _Word, observed: Array) -> Comparison:
    """Comparison of an array of observations."""
    value = word.value
    if callable(value):
        return _of_own(value, observed)
    checks.one_of(f"{where}(compare=)", value, tuple(COMPARISONS))
    comparison = COMPARISONS[value]
    if comparison.element:
        checks.trailing(
            f"{where}(observations=)", observed[0], comparison.element, f"each is a {value}"
        )
    return comparison


def check_precision(where: str, start: PyTree, observations: PyTree) -> None:
    """Raise unless start values have one precision, and observations none that is higher."""
    checks.one_precision([(f"{where}(start=)", start)])
    bits = jnp.finfo(jax.tree.leaves(start)[0].dtype).bits
    finer = jax.tree.map(lambda x: x if jnp.finfo(x.dtype).bits > bits else None, observations)
    checks.one_precision([(f"{where}(start=)", start), (f"{where}(observations=)", finer)])


def _prepare(
    where: str, comparison: Comparison, observed: Array, deviation: Any
) -> tuple[Array, Array]:
    """Observations with finite stand-ins for missing ones, and the weights of their residuals."""
    deviation = np.asarray(deviation, dtype=float)
    if not np.all(deviation > 0.0):
        raise ValueError(
            f"{where}(noise=) is {deviation.tolist()}; standard deviations must be positive: use "
            "1.0 where the noise is not known, and infinity for a sample that is missing."
        )
    batch_axes = observed.ndim - len(comparison.element)
    shape = observed.shape[:batch_axes] + comparison.residual
    try:
        weights = np.broadcast_to(1.0 / deviation, shape)
    except ValueError as error:
        raise ValueError(
            f"{where}(noise=) has the shape {deviation.shape}, the residuals have {shape}; it must "
            "broadcast to them: give a number, or one for each channel."
        ) from error
    values, has_weight = np.array(observed), weights > 0.0
    if comparison.residual:
        has_weight = np.any(has_weight, axis=-1)
    is_finite = np.all(np.isfinite(values), axis=tuple(range(batch_axes, values.ndim)))
    bad = np.argwhere(~is_finite & has_weight)
    if len(bad):
        raise ValueError(
            f"{where}(observations=) is not finite at index {tuple(bad[0].tolist())} of an array "
            f"of shape {observed.shape}; repair that sample, or give it infinite noise if it is "
            "missing."
        )
    values[~has_weight] = comparison.neutral()
    comparison.check(f"{where}(observations=)", values)
    return jnp.asarray(values), jnp.asarray(weights, observed.dtype)


def horizons(where: str, stages: Sequence[PyTree] | None, lengths: PyTree) -> list[PyTree]:
    """Numbers of samples of each array for each stage, the last of them all.

    Raises `ValueError` for stages that do not grow from one to the next up to the whole.
    """
    whole = jax.tree.leaves(lengths)
    if stages is None:
        return [lengths]
    rule = ValueError(
        f"{where}(horizons=) is {stages}; it must be a list of increasing numbers of samples that "
        f"end with all {max(whole)} of the recording, or with {lengths}: each is a number, or a "
        "pytree of them that is a prefix of the observations."
    )

    def clip(n: Any, part: PyTree) -> PyTree:
        """A number of samples for each array of a part, at most all."""
        is_integer = isinstance(n, int | np.integer) and not isinstance(n, bool)
        if not is_integer or not 1 <= n <= max(jax.tree.leaves(part)):
            raise rule
        return jax.tree.map(lambda length: min(int(n), length), part)

    if not isinstance(stages, list | tuple):
        raise rule
    try:
        samples = [jax.tree.map(clip, stage, lengths) for stage in stages]
    except ValueError:
        raise rule from None
    growth = np.diff([jax.tree.leaves(stage) for stage in samples], axis=0)
    grows = np.all(growth >= 0) and np.all(np.any(growth > 0, axis=-1))
    if not grows or jax.tree.leaves(samples[-1]) != whole:
        raise rule
    return samples


def check_finite(where: str, predicted: PyTree, at: str, remedy: str) -> None:
    """Raise if a prediction at some parameters holds an infinity or NaN."""
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(predicted)):
        raise ValueError(
            f"{where}(predict=) returns an infinity or NaN at the {at}; it must be finite there: "
            f"{remedy}simulate with a smaller dt."
        )


def predicted_shapes(
    predict: Callable[[PyTree], PyTree], compute: Callable[[PyTree], PyTree], start: PyTree
) -> PyTree:
    """Shapes of what is computed from a prediction."""
    with closures.refuse_numbers("identify(predict=)", predict, "the parameters"):
        # A new function: JAX caches traces by identity.
        return jax.eval_shape(lambda values: compute(values), start)


def check_shapes(predicted: PyTree, observed: PyTree) -> None:
    """Raise unless a prediction has the observations' shapes."""
    shapes, expected = (
        jax.tree.map(lambda x: tuple(x.shape), tree) for tree in (predicted, observed)
    )
    if shapes != expected:
        raise ValueError(
            f"predict returns arrays of the shapes {shapes}, the observations have {expected}; "
            "the two must match: observe the same channels at the same instants."
        )


# Largest distance of a recording's time from an instant of the run, as a fraction of the interval
# between instants: recorded times are rounded.
_REGULARITY = 1e-3


def rows_at(
    times: Sequence[float] | np.ndarray | Array,
    *,
    dt: float,
    steps: int,
    save: int = 1,
    t0: float = 0.0,
) -> np.ndarray:
    """Rows of the trajectory of `simulate` with these arguments at the times of a recording.

    `times` (n,), `dt` and `t0` in s; `steps` and `save` as there. To observe:
    `trajectory.q[rows]`. Raises `ValueError` for times that do not increase, or lie outside of the
    run or between its instants.
    """
    checks.real("rows_at(times=)", times)
    checks.positive("rows_at(dt=)", dt, "s")
    checks.positive_integer("rows_at(steps=)", steps, "the number of steps")
    checks.positive_integer("rows_at(save=)", save, "steps between saved instants")
    instants = np.asarray(times, float)
    interval, last = float(dt) * save, steps // save
    if instants.ndim != 1 or not np.all(np.isfinite(instants)) or np.any(np.diff(instants) <= 0.0):
        raise ValueError(
            f"rows_at(times=) is {reprlib.repr(instants.tolist())}; it must be one row of finite "
            "times, each later than the one before: sort them and leave out the missing ones."
        )
    checks.scalar("rows_at(t0=)", t0, "s")
    rows = np.rint((instants - float(t0)) / interval)
    off = np.abs((instants - float(t0)) / interval - rows)
    for wrong, rule in (
        (
            (rows < 0) | (rows > last),
            f"outside of the run, which ends at {float(t0) + last * interval:g} s",
        ),
        (off > _REGULARITY, f"between instants of the run, which are {interval:g} s apart"),
    ):
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(
                f"rows_at(times=): sample {i} at {instants[i]:g} s lies {rule}: change dt and "
                "steps, or cut the recording."
            )
    return rows.astype(int)
