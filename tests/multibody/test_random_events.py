"""Events in random mechanisms with loops happen when they should, and runs go on from them.

Whoever reverses all velocities of a mechanism that nothing damps sees it come back: a run whose
event does so ends, after twice the time of the event, where it began.
"""

import equinox as eqx
import numpy as np
import pytest

import lie_jax
from tests.multibody import random_mechanisms, random_newer
from tests.multibody.random_parts import SPRINGS, Size
from tests.multibody.random_ways import partner

pytestmark = [
    pytest.mark.full,
    # The event reads a mechanism, and here is another one each time.
    pytest.mark.filterwarnings("ignore:Passes was compiled"),
]

# The first structures that have closed loops, newer elements, and nothing that drives them. To draw
# them takes seconds, which tests that only collect this file do not wait for.
SEEDS = [0, 1, 4, 5, 6, 7, 8, 9, 10, 14, 15, 17]
# When the event happens in units of time, and steps to there and back of the coarser run; the run
# that tells where the event is has so many times its steps.
EVENT, STEPS, FINER = 0.11, 25, 8
# Twice what halving the steps of a method of fourth order leaves of an error.
ORDER_SLACK = 2.0 * 0.5**4
# Rounding of a hundred steps, and of the instant that is searched.
ROUNDING = 1e-9


def with_loop(seed: int):
    """The structure of a seed with springs alone."""
    structure = random_mechanisms.newer(seed)
    assert not (structure.is_tree or structure.rheonomic or structure.redundant)
    kept = (*SPRINGS, *random_newer.FORCES)
    forces = tuple(own for own in structure.forces if own.kind in kept)
    return structure._replace(forces=forces, damped=False)


class Passes(eqx.Module):
    """Zero where a body's origin passes a plane."""

    system: lie_jax.extend.AbstractSystem
    body: int = eqx.field(static=True)
    direction: np.ndarray
    place: np.ndarray

    def __call__(self, t, q, v):
        return (self.system.poses(q)[1][self.body] - self.place) @ self.direction


def back(t, q, v):
    """The state from which the motion returns."""
    return q, -v


def poses(system, q):
    rotations, positions = system.poses(q)
    return np.concatenate([rotations, np.asarray(positions)[..., None]], axis=-1)


@pytest.mark.parametrize("seed", SEEDS)
def test_motion_returns_from_an_event_that_reverses_it(seed):
    structure = with_loop(seed)
    print(f"structure {structure.seed}: {structure}")
    drawn = random_mechanisms.draw(structure, 0, size=Size())
    tall = lie_jax.assemble(drawn.mechanism, lie_jax.R3SO3())
    steps = STEPS * FINER
    fine = lie_jax.simulate(
        tall[0], lie_jax.RKMK("rk4"), tall[1], dt=EVENT / steps, steps=steps, save=steps
    )
    # The body that has moved furthest passes its place at the event, and goes on.
    (rotations, positions), twists = (
        tall[0].poses(fine.q[-1]),
        tall[0].twists(fine.q[-1], fine.v[-1]),
    )
    speeds = np.einsum("nij,nj->ni", rotations, np.reshape(twists, (-1, 2, 3))[:, 0])
    body = int(np.argmax(np.linalg.norm(speeds, axis=1)))
    direction = speeds[body] / np.linalg.norm(speeds[body])

    formulation = partner(structure)
    system, state = lie_jax.assemble(drawn.mechanism, formulation)
    passes = Passes(system, body, direction, positions[body])
    events = [lie_jax.Event(passes, back, direction=1)]
    flat = isinstance(formulation, lie_jax.TaitBryan | lie_jax.EulerParameters)
    method = (lie_jax.RungeKutta if flat else lie_jax.RKMK)("rk4")
    errors, times = [], []
    for steps in (STEPS, 2 * STEPS):
        run = lie_jax.simulate(
            system, method, state, dt=2 * EVENT / steps, steps=steps, save=steps,
            events=events, max_events=2,
        )  # fmt: skip
        assert np.isnan(run.events.t).tolist() == [False, True]
        times.append(float(run.events.t[0]) - EVENT)
        errors.append(np.max(np.abs(poses(system, run.q[-1]) - poses(system, state.q))))
    assert abs(times[1]) <= ORDER_SLACK * abs(times[0]) + ROUNDING, f"instants off by {times}"
    assert errors[1] <= ORDER_SLACK * errors[0] + ROUNDING, f"ends off by {errors}"
