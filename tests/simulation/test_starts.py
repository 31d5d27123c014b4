"""Starts inside compiled functions: those that are none end as a result, with what is concerned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import Result, contact

Z = (0.0, 0.0, 1.0)


def _pendulum():
    body = lie_jax.Body("still", 1.0, np.eye(3), position=(3.0, 0.0, 0.0))
    bar = lie_jax.Body("bar", 1.0, np.diag([0.1, 0.1, 0.2]), position=(0.5, 0.0, 0.0))
    hinge = lie_jax.RevoluteJoint("ground", "bar", Z, child_point=(-0.5, 0.0, 0.0))
    touching = lie_jax.contact.Contact(
        contact.Sphere("still", 0.1),
        contact.Plane("ground", (0, 0, -9.0)),
        lie_jax.contact.HuntCrossley(1e4),
    )
    return lie_jax.assemble(lie_jax.Mechanism([body, bar], [hinge], [touching]), lie_jax.R3SO3())


def _changed(state, *changes):
    q, v = state.q, state.v
    for place, value in changes:
        q, v = (
            (q.at[place].set(value), v) if place < len(q) else (q, v.at[place - len(q)].set(value))
        )
    return lie_jax.State(q, v)


# Changes of q, and after its 14 numbers of v; the result, and the owner of the number in `stats`.
STARTS = {
    "good": ((), Result.successful, None),
    "norm of two": (((10, 2.0),), Result.no_configuration, "body 'bar'"),
    "norm of nearly one": (((3, 1.0 + 1e-6),), Result.no_configuration, "body 'still'"),
    "norm of zero": (((10, 0.0),), Result.no_configuration, "body 'bar'"),
    "gap": (((7, 0.6),), Result.off_constraints, "RevoluteJoint('ground', 'bar')"),
    "velocity": (((14 + 7, 1.0),), Result.off_constraints, "RevoluteJoint('ground', 'bar')"),
    "turned over": (((10, 0.0), (11, 1.0)), Result.turned_over, "RevoluteJoint('ground', 'bar')"),
    "NaN": (((0, np.nan),), Result.non_finite, None),
    "NaN velocity": (((14 + 1, np.nan),), Result.non_finite, None),
    "infinite": (((1, np.inf),), Result.non_finite, None),
    "under the ground": (((2, -9.05),), Result.departed, "Contact('still', 'ground')"),
}
OPTIONS = {
    "steps of one size": {},
    "automatic steps": {
        "adaptive": lie_jax.Adaptive(rtol=1e-6, atol=1e-6),
        "save": np.asarray([0.002]),
    },
    "events": {"events": [lie_jax.Event(lambda t, q, v: q[1] - 5.0, "stop")]},
}


@pytest.mark.full
@pytest.mark.parametrize("options", ["steps of one size", "automatic steps", "events"])
def test_starts_that_are_none_end_as_results(options):
    system, state = _pendulum()
    starts = [_changed(state, *changes) for changes, *_ in STARTS.values()]
    q, v = jnp.stack([s.q for s in starts]), jnp.stack([s.v for s in starts])
    method = lie_jax.RKMK("dopri5" if options == "automatic steps" else "rk4")

    @jax.jit
    @jax.vmap
    def run(q, v):
        start = lie_jax.State(q, v)
        return lie_jax.simulate(
            system, method, start, dt=1e-3, steps=2, throw=False, **OPTIONS[options]
        )

    runs = run(q, v)
    for k, (name, (_, result, owner)) in enumerate(STARTS.items()):
        one = jax.tree.map(lambda x, k=k: x[k], runs)
        assert bool(one.result == result), name
        # The start as it was given, and nothing that could pass for a motion.
        assert np.array_equal(one.q[0], q[k], equal_nan=True)
        number = int(one.stats.worst_equation)
        if result == Result.successful:
            assert np.all(np.isfinite(one.q)) and number == -1
            continue
        assert np.all(np.isnan(one.q[1:])) and int(one.stats.completed_steps) == 0
        assert float(one.stats.end_time) == 0.0
        if owner is not None:
            of = system.validity
            words = {"turned over": of.joint_name, "under the ground": of.force_name}
            assert words.get(name, system.owner)(number) == owner, name


def test_a_known_start_names_its_body():
    system, state = _pendulum()
    start = _changed(state, (10, 2.0))
    with pytest.raises(ValueError, match=r"configuration of body 'bar': .* norm 2; .* divide it"):
        lie_jax.simulate(system, lie_jax.RKMK("rk4"), start, dt=1e-3, steps=2)
