"""Print of states and parts of mechanisms shows numbers and names, and shapes where JAX traces."""

import jax
import numpy as np

import lie_jax
from lie_jax.numerics import conversion


def test_states_show_their_numbers():
    state = lie_jax.State([0.5, -9.81], np.asarray([1e-9, 2.0]))
    assert str(state) == repr(state) == "State(q=[0.5, -9.81], v=[1e-09, 2])"
    many = conversion.text(np.arange(1000.0))
    assert many == "[0, 1, ..., 998, 999]"


def test_traced_states_show_their_shapes():
    shown = []
    state = lie_jax.State(np.zeros((4, 2)), np.zeros((4, 1)))
    jax.make_jaxpr(lambda state: shown.append(str(state)))(state)
    jax.vmap(lambda state: shown.append(str(state)))(state)
    assert shown[0] == "State(q=f64[4,2], v=f64[4,1])"
    assert shown[1] == "State(q=f64[2], v=f64[1])"


def test_elements_and_mechanisms_show_numbers_and_names():
    rods = [lie_jax.Body(f"b{k}", 1.5, np.eye(3)) for k in range(9)]
    hinge = lie_jax.RevoluteJoint("ground", "b0", (0.0, 0.0, 2.0))
    assert "mass=1.5" in repr(rods[0]) and "axis=[0, 0, 1]" in repr(hinge)
    mechanism = lie_jax.Mechanism(rods, [hinge])
    assert repr(mechanism).splitlines() == [
        "Mechanism, gravity [0, 0, -9.81] m/s²",
        "  bodies    9  b0, b1, b2, b3, b4, b5, ... 3 more",
        "  joints    1  RevoluteJoint('ground', 'b0')",
        "  forces    0",
    ]


def test_systems_show_their_sizes():
    rod = lie_jax.Body("rod", 1.5, np.eye(3))
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0.0, 0.0, 1.0))
    system, _ = lie_jax.assemble(lie_jax.Mechanism([rod], [hinge]), lie_jax.R3SO3())
    assert repr(system).splitlines() == [
        "RigidBodySystem: q (7,), v (6,), constraints 5, inputs 0",
        "  bodies    1  rod",
    ]
    assert "RevoluteJoint('ground', 'rod')" in system.owner(system.nv)
