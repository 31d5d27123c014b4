"""Elements of one's own are stacked, whatever their fields are called."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax


class _Spring(lie_jax.extend.AbstractForce):
    """A spring between the origins of two frames, named left and right."""

    left: str = lie_jax.extend.fields.body_name()
    right: str = lie_jax.extend.fields.body_name()
    stiffness: jax.Array = lie_jax.extend.fields.non_negative("N/m")

    def wrenches(self, t, poses, velocities, u):
        """The pull on both."""
        pull = self.stiffness * (poses[1].position - poses[0].position)
        none = jnp.zeros_like(pull)
        return lie_jax.extend.Wrench(pull, none), lie_jax.extend.Wrench(-pull, none)


class _Thruster(lie_jax.extend.AbstractForce):
    """A force along x of the size of an input, with a constructor of its own."""

    where: str = lie_jax.extend.fields.body_name()
    channel: int = lie_jax.extend.fields.input_number()

    def __init__(self, number):
        self.where, self.channel = f"b{number}", number

    def wrenches(self, t, poses, velocities, u):
        """The entry of the inputs along x."""
        force = u[self.channel] * jnp.eye(3, dtype=u.dtype)[0]
        return (lie_jax.extend.Wrench(force, jnp.zeros_like(force)),)


class _Learned(lie_jax.extend.AbstractForce):
    """A force that a network computes from the velocity, with a factor that no field declares."""

    body: str = lie_jax.extend.fields.body_name()
    law: eqx.Module
    factor: float

    def wrenches(self, t, poses, velocities, u):
        """The network's output."""
        force = self.factor * self.law(velocities[0].linear)
        return (lie_jax.extend.Wrench(force, jnp.zeros_like(force)),)


def _system(forces):
    bodies = [
        lie_jax.Body(f"b{k}", 1.0, np.eye(3), position=(1.0 * k**2, 0.0, 0.0)) for k in range(6)
    ]
    mechanism = lie_jax.Mechanism(bodies, forces=forces, gravity=(0.0, 0.0, 0.0))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


def test_springs_with_fields_of_other_names_make_one_group():
    springs = [_Spring(f"b{k}", f"b{k + 1}", 1.0 + k) for k in range(5)]
    assert springs[2].bodies == ("b2", "b3")
    system, state = _system(springs)
    assert [group.count for group in system.forces] == [5]
    force = system.force(0.0, state.q, state.v, None).reshape(6, 6)[:, 0]
    pulls = np.asarray([(1.0 + k) * (2.0 * k + 1.0) for k in range(5)])
    np.testing.assert_allclose(force, np.append(pulls, 0.0) - np.append(0.0, pulls), rtol=1e-14)


def test_inputs_of_other_names_make_one_group():
    system, state = _system([_Thruster(k) for k in (2, 0, 1)])
    assert [group.count for group in system.forces] == [3]
    assert system.nu == 3
    force = system.force(0.0, state.q, state.v, jnp.asarray([5.0, 6.0, 7.0]))
    np.testing.assert_array_equal(force.reshape(6, 6)[:, 0], [5.0, 6.0, 7.0, 0.0, 0.0, 0.0])


def _networks(activation):
    keys = jax.random.split(jax.random.key(0), 2)
    return [eqx.nn.MLP(3, 3, 4, 1, activation=activation, key=key) for key in keys]


@pytest.mark.full
def test_networks_are_parameters_and_their_activations_static():
    networks = _networks(jax.nn.tanh)
    system, state = _system([_Learned(f"b{k}", law, 2.0) for k, law in enumerate(networks)])
    assert [group.count for group in system.forces] == [2]
    v = state.v + 1.0
    force = system.force(0.0, state.q, v, None).reshape(6, 6)[:2, :3]
    expected = [2.0 * law(jnp.ones(3)) for law in networks]
    np.testing.assert_allclose(force, expected, rtol=1e-14)
    mixed, _ = _system(
        [_Learned(f"b{k}", _networks(a)[0], 1.0) for k, a in enumerate((jnp.tanh, jax.nn.relu))]
    )
    assert [group.count for group in mixed.forces] == [1, 1]


@pytest.mark.full
def test_a_run_has_derivatives_by_the_weights_of_a_network():
    network, step = _networks(jax.nn.softplus)[0], 1e-2

    @eqx.filter_jit
    def end(network):
        system, state = _system([_Learned("b0", network, 1.0)])
        run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=step, steps=20, throw=False)
        return run.q[-1, 0]

    def where(network):
        return network.layers[0].weight

    gradient = eqx.filter_grad(end)(network)
    along = jax.random.normal(jax.random.key(1), where(network).shape)

    def moved(size):
        return end(eqx.tree_at(where, network, where(network) + size * along))

    difference = (moved(1e-4) - moved(-1e-4)) / 2e-4
    # Central differences of 1e-4 err by some 1e-8 of the value.
    np.testing.assert_allclose(jnp.sum(where(gradient) * along), difference, rtol=1e-6)
    assert abs(difference) > 1e-6


def test_fields_that_cannot_be_stacked_are_refused():
    with pytest.raises(ValueError, match=r"_Learned\('b0'\)\.factor is True.*static=True"):
        _system([_Learned("b0", jnp.tanh, True)])
