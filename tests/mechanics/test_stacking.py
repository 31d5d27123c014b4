"""Elements of one's own are stacked, whatever their fields are called."""

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax


class _Spring(lie_jax.AbstractForce):
    """A spring between the origins of two frames, named left and right."""

    left: str = lie_jax.fields.body_name()
    right: str = lie_jax.fields.body_name()
    stiffness: jax.Array = lie_jax.fields.non_negative("N/m")

    def wrenches(self, t, poses, velocities, u):
        """The pull on both."""
        pull = self.stiffness * (poses[1].position - poses[0].position)
        none = jnp.zeros_like(pull)
        return lie_jax.Wrench(pull, none), lie_jax.Wrench(-pull, none)


class _Thruster(lie_jax.AbstractForce):
    """A force along x of the size of an input, with a constructor of its own."""

    where: str = lie_jax.fields.body_name()
    channel: int = lie_jax.fields.input_number()

    def __init__(self, number):
        self.where, self.channel = f"b{number}", number

    def wrenches(self, t, poses, velocities, u):
        """The entry of the inputs along x."""
        force = u[self.channel] * jnp.eye(3, dtype=u.dtype)[0]
        return (lie_jax.Wrench(force, jnp.zeros_like(force)),)


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
