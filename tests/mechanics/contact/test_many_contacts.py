"""Programs of many contacts of one kind are as long as those of few: so is the time to compile."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import contact

LAW, FRICTION = lie_jax.contact.HuntCrossley(1e5, dissipation=0.2), lie_jax.contact.Coulomb(0.3)
# Equations of sums over more rows, relative to all of them.
GROWTH = 1.01


def _lines(count, of_one_body, integrator):
    """Lines of the program of a run of bodies above the ground with `count` balls."""
    rng = np.random.default_rng(0)
    names = ["a"] if of_one_body else [f"a{i}" for i in range(count)]
    bodies = [
        lie_jax.Body(name, 1.0, jnp.eye(3), position=(i, 0.0, 2.0)) for i, name in enumerate(names)
    ]
    forces = [
        lie_jax.contact.Contact(
            contact.Sphere(names[i % len(names)], 0.05, rng.uniform(-0.2, 0.2, 3)),
            contact.Plane("ground"),
            LAW,
            FRICTION,
        )
        for i in range(count)
    ]
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, forces=forces), lie_jax.R3SO3())

    def run(state):
        return lie_jax.simulate(system, integrator, state, dt=1e-3, steps=10, throw=False)

    return jax.jit(run).lower(state).as_text().count("\n")


@pytest.mark.full
@pytest.mark.parametrize("of_one_body", [True, False])
@pytest.mark.parametrize("integrator", [lie_jax.GeneralizedAlpha(), lie_jax.ConvexContact()])
def test_a_hundred_contacts_have_the_program_of_four(integrator, of_one_body):
    few, many = (_lines(count, of_one_body, integrator) for count in (4, 100))
    assert many <= GROWTH * few
