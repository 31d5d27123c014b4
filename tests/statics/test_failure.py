"""Searches for an equilibrium that end early name the cause that their last state shows."""

import numpy as np
import pytest

import lie_jax
from lie_jax import beams

Y = (0.0, 1.0, 0.0)


def refused(mechanism, formulation, *parts):
    system, state = lie_jax.assemble(mechanism, formulation)
    with pytest.raises(lie_jax.EquilibriumError) as caught:
        lie_jax.equilibrium(system, state)
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    # One cause alone.
    words = ("direction is free", "redundant", "largest load", "out of the range", "is open")
    assert sum(word in str(caught.value) for word in words) == 1
    return caught.value


def pendulum(joints=1, **others):
    """A rod along x on hinges about y."""
    rod = lie_jax.Body("rod", 1.0, 0.1 * np.eye(3), (0.5, 0.0, 0.0))
    hinge = lie_jax.RevoluteJoint("ground", "rod", Y)
    return lie_jax.Mechanism([rod], [hinge] * joints, **others)


@pytest.mark.full
def test_a_load_that_nothing_holds_is_named():
    # Horizontally gravity has no stiffness.
    refused(pendulum(), lie_jax.Minimal(), "direction is free", "as a pendulum")


@pytest.mark.full
def test_redundant_joints_are_counted():
    refused(pendulum(joints=2), lie_jax.R3SO3(), "5 of 10 constraints are redundant", "Minimal()")


@pytest.mark.full
def test_a_largest_load_is_told_from_other_causes():
    """A spring from (1, 0) to a slider on the z axis snaps through."""
    height, stiffness, force = 0.3, 1e3, 10.0
    slider = lie_jax.Body("slider", 1.0, np.eye(3), position=(0.0, 0.0, height))
    guide = lie_jax.PrismaticJoint("ground", "slider", (0.0, 0.0, 1.0))
    relaxed = float(np.hypot(1.0, height))
    spring = lie_jax.LinearSpringDamper(
        "ground", "slider", stiffness, 0.0, relaxed, parent_point=(1.0, 0.0, 0.0)
    )
    load = lie_jax.PointForce("slider", (0.0, 0.0, -force))
    mechanism = lie_jax.Mechanism([slider], [guide], [spring, load], gravity=(0, 0, 0))
    error = refused(mechanism, lie_jax.Minimal(), "close to the largest load", "equilibrium_path")
    heights = np.linspace(0.0, height, 10001)
    carried = stiffness * (relaxed / np.hypot(1.0, heights) - 1.0) * heights / force
    # The search gives up steps of 1e-4 of the load.
    assert carried.max() - 1e-3 < error.part <= carried.max()


@pytest.mark.full
def test_laws_that_are_left_are_named():
    section = beams.Section([1e4] * 3 + [10.0] * 3, 1.0, (1.0, 1.0, 1.0))
    line = beams.line("beam", section, 1.0, 3, start="ground")
    load = lie_jax.PointForce(line.nodes[-1].name, (-1.5e4, 0.0, 0.0))
    mechanism = lie_jax.Mechanism(line.nodes, forces=[*line.elements, load], gravity=(0, 0, 0))
    refused(mechanism, lie_jax.SE3(), "out of the range of a force's law", "body 'beam ")
