"""Linear models and their Gaussian recordings, by textbook formulas in NumPy."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.linalg import block_diag

import lie_jax
from tests.systems import Oscillator

STIFFNESS, MASSES, DAMPING = np.asarray([[5.0, -2.0], [-2.0, 4.0]]), np.asarray([2.0, 3.0]), 0.1
DT, STEPS = 0.1, 30
# Samples: the first position, and the sum of both velocities.
SEEN = np.asarray([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
NOISE, DENSITIES = np.asarray([0.02, 0.1]), np.asarray([0.3, 0.1])
MEAN = np.asarray([1.0, -0.5, 0.3, 0.7])
SPREAD = np.asarray([0.3, 0.2, 0.1, 0.4])
COVARIANCE = np.diag(SPREAD**2) + 0.01


def measure(t, q, v):
    return jnp.stack([q[0], v[0] + v[1]])


def model(process="inputs", noise=NOISE, densities=DENSITIES, scale=1.0, **others):
    return lie_jax.estimation.Model(
        Oscillator(scale * jnp.asarray(STIFFNESS)),
        lie_jax.RKMK("rk4"),
        measure=measure,
        noise=noise,
        process={process: densities, **others},
    )


START = lie_jax.State(MEAN[:2], MEAN[2:])


class Linear(NamedTuple):
    """Steps A x + b_k + G w with w of variance one, samples H x + e with deviations r of e."""

    a: np.ndarray
    offsets: np.ndarray
    g: np.ndarray
    h: np.ndarray = SEEN
    r: np.ndarray = NOISE


def linear(process="inputs", densities=DENSITIES):
    """One step of RK4 on the oscillator, from Taylor's polynomial of degree four in the step.

    The load sin t enters through the stages of the method.
    """
    rates = np.zeros((4, 4))
    rates[:2, 2:] = np.eye(2)
    rates[2:, :2] = -STIFFNESS / MASSES[:, None]
    rates[2:, 2:] = -DAMPING / MASSES[:, None] * np.eye(2)
    push = np.concatenate([np.zeros((2, 2)), np.diag(1.0 / MASSES)])

    def step(x, t, load):
        def rate(t, x):
            return rates @ x + push @ (np.sin(t) * np.ones(2) + load)

        k1 = rate(t, x)
        k2 = rate(t + DT / 2, x + DT / 2 * k1)
        k3 = rate(t + DT / 2, x + DT / 2 * k2)
        k4 = rate(t + DT, x + DT * k3)
        return x + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    zero, none = np.zeros(4), np.zeros(2)
    offsets = np.stack([step(zero, DT * k, none) for k in range(STEPS)])
    columns = [step(x, 0.0, none) - offsets[0] for x in np.eye(4)]
    a = np.stack(columns, axis=1)
    if process == "inputs":
        loads = [step(zero, 0.0, u) - offsets[0] for u in np.eye(2)]
        g = np.stack(loads, axis=1) * densities / DT**0.5
    else:
        impulse = push * densities * DT**0.5
        g = 0.5 * (a @ impulse + impulse)
    return Linear(a, offsets, g)


def with_biases(system, densities, deviations):
    """Steps and start with biases of both channels, which walk randomly."""
    offsets = np.concatenate([system.offsets, np.zeros((STEPS, 2))], axis=1)
    walks = np.diag(densities * DT**0.5)
    wider = system._replace(
        a=block_diag(system.a, np.eye(2)),
        offsets=offsets,
        g=block_diag(system.g, walks),
        h=np.concatenate([system.h, np.eye(2)], axis=1),
    )
    start = np.concatenate([MEAN, np.zeros(2)]), block_diag(COVARIANCE, np.diag(deviations**2))
    return wider, start


def draw(system, rng):
    """Samples of one motion, and its states."""
    x = rng.multivariate_normal(MEAN, COVARIANCE)
    states, data = [], []
    for k in range(STEPS + 1):
        states.append(x)
        data.append(system.h @ x + system.r * rng.normal(size=2))
        if k < STEPS:
            x = system.a @ x + system.offsets[k] + system.g @ rng.normal(size=2)
    return np.stack(data), np.stack(states)


def kalman(system, data, start=(MEAN, COVARIANCE)):
    """Textbook filter and Rauch-Tung-Striebel smoother; missing channels lose their rows."""
    x, p = start
    filtered, predicted = [], []
    for k, y in enumerate(data):
        predicted.append((x, p))
        there = ~np.isnan(y)
        h, r = system.h[there], np.diag(system.r[there] ** 2)
        gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
        x, p = x + gain @ (y[there] - h @ x), p - gain @ h @ p
        filtered.append((x, p))
        if k < len(data) - 1:
            x = system.a @ x + system.offsets[k]
            p = system.a @ p @ system.a.T + system.g @ system.g.T
    smoothed = [filtered[-1]]
    for (x, p), (ahead, q) in zip(filtered[-2::-1], predicted[:0:-1], strict=True):
        gain = p @ system.a.T @ np.linalg.inv(q)
        mean, spread = smoothed[0]
        smoothed.insert(0, (x + gain @ (mean - ahead), p + gain @ (spread - q) @ gain.T))
    return tuple(tuple(map(np.stack, zip(*rows, strict=True))) for rows in (filtered, smoothed))


def mean(system, start=MEAN):
    """Samples without any noise."""
    states = [start]
    for k in range(STEPS):
        states.append(system.a @ states[-1] + system.offsets[k])
    return np.stack([system.h @ x for x in states])


def log_density(system, data, start=(MEAN, COVARIANCE)):
    """Of all samples, jointly Gaussian, by their mean and covariance."""
    count = len(data)
    mean = [start[0]]
    for k in range(count - 1):
        mean.append(system.a @ mean[-1] + system.offsets[k])
    # Columns: error of the start, then the loads of all steps.
    rows = [np.concatenate([np.eye(4), np.zeros((4, 2 * (count - 1)))], axis=1)]
    for k in range(count - 1):
        row = system.a @ rows[-1]
        row[:, 4 + 2 * k : 6 + 2 * k] += system.g
        rows.append(row)
    seen = np.concatenate([system.h @ row for row in rows])
    weights = block_diag(start[1], np.eye(2 * (count - 1)))
    covariance = seen @ weights @ seen.T + np.diag(np.tile(system.r**2, count))
    errors = (data - np.stack([system.h @ x for x in mean])).reshape(-1)
    there = ~np.isnan(errors)
    errors, covariance = errors[there], covariance[np.ix_(there, there)]
    square = errors @ np.linalg.solve(covariance, errors)
    return -0.5 * (square + np.linalg.slogdet(2.0 * np.pi * covariance)[1])
