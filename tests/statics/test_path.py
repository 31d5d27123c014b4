"""Equilibria past limit loads against closed forms and the literature."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams

STIFFNESS, HEIGHT, FORCE = 1e3, 0.3, 10.0
# Of forces of the order of 100 N.
ROUNDING = 1e-11


def truss(formulation):
    """A slider on the z axis, held by a spring to a point at a distance of 1 m from the axis."""
    slider = lie_jax.Body("slider", 1.0, np.eye(3), position=(0.0, 0.0, HEIGHT))
    guide = lie_jax.PrismaticJoint("ground", "slider", (0.0, 0.0, 1.0))
    relaxed = float(np.hypot(1.0, HEIGHT))
    spring = lie_jax.LinearSpringDamper(
        "ground", "slider", STIFFNESS, 0.0, relaxed, parent_point=(1.0, 0.0, 0.0)
    )
    load = lie_jax.PointForce("slider", (0.0, 0.0, -FORCE))
    mechanism = lie_jax.Mechanism([slider], [guide], [spring, load], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, formulation)


def carried(z):
    """Part of the load that the spring carries at a height, by the triangle of the spring."""
    long = np.hypot(1.0, z)
    return STIFFNESS * (np.hypot(1.0, HEIGHT) - long) * z / long / FORCE


@pytest.mark.full
@pytest.mark.parametrize(
    "formulation",
    [lie_jax.Minimal(), lie_jax.SE3()],
    ids=["joint coordinates", "SE3"],
)
def test_a_truss_snaps_through(formulation):
    system, state = truss(formulation)
    path = lie_jax.equilibrium_path(system, state, steps=40, length=0.02)
    z = np.asarray(jax.jit(jax.vmap(lambda q: system.poses(q)[1][0, 2]))(path.q))
    assert z[0] == HEIGHT and z[-1] < -HEIGHT
    assert_allclose(path.part, carried(z), rtol=0, atol=ROUNDING)
    # Both limit loads lie between points.
    exact, ours = carried(np.linspace(-HEIGHT, HEIGHT, 10_001)), path.part[np.abs(z) <= HEIGHT]
    assert 0.98 < ours.max() / exact.max() <= 1.0 + ROUNDING
    assert 0.98 < ours.min() / exact.min() <= 1.0 + ROUNDING
    # Past the limit a point is an equilibrium of the system under its part of the load.
    k = int(np.argmin(np.abs(z)))
    loaded = system.under_loads(path.part[k])
    if not system.nc:
        force = jax.jit(lambda q: loaded.force(0.0, q, state.v))(path.q[k])
        assert_allclose(force, 0.0, atol=FORCE * ROUNDING)
        return
    again = lie_jax.equilibrium(loaded, lie_jax.State(path.q[k], state.v))
    assert_allclose(again.q, path.q[k], atol=ROUNDING)


def arch(elements):
    """A deep circular arch of 215°, clamped at one end, on a hinge at the other; R²/EI is 0.01."""
    radius, angle = 100.0, np.radians(215.0)
    # Stiff out of its plane.
    section = beams.Section((1e8, 1e8, 1e8, 1e9, 1e9, 1e6), 1.0, (1.0, 0.5, 0.5))
    turned, half = 0.5 * (np.pi + angle), 0.25 * angle
    line = beams.line(
        "arch", section, radius * angle, elements,
        position=radius * np.asarray([np.cos(turned), np.sin(turned), 0.0]),
        orientation=(np.cos(half), 0.0, 0.0, np.sin(half)),
        rest_strain=(1.0, 0.0, 0.0, 0.0, 0.0, -1.0 / radius),
        start="ground", interpolation="linear",
    )  # fmt: skip
    last, crown = line.nodes[-1], line.nodes[elements // 2 - 1]
    hinge = lie_jax.RevoluteJoint("ground", last.name, (0, 0, 1.0), parent_point=last.position)
    load = lie_jax.PointForce(crown.name, (0.0, -1000.0, 0.0))
    mechanism = lie_jax.Mechanism(line.nodes, [hinge], [*line.elements, load], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3())


@pytest.mark.full
def test_a_deep_arch_carries_the_load_of_the_literature():
    """DaDeppo and Schmidt (1975): 8.97 EI/R² without extension, three digits."""
    system, state = arch(24)
    path = lie_jax.equilibrium_path(system, state, steps=80)
    part = np.asarray(path.part)
    peak = int(part.argmax())
    assert peak < len(part) - 1
    assert_allclose(part[peak], 0.897, atol=1e-3)


def test_values_that_are_none_of_a_path_are_refused():
    system, state = truss(lie_jax.Minimal())
    with pytest.raises(ValueError, match="is 0"):
        lie_jax.equilibrium_path(system, state, steps=0)
    with pytest.raises(ValueError, match="is -1"):
        lie_jax.equilibrium_path(system, state, length=-1.0)
    with pytest.raises(ValueError, match="outside of JAX's transformations"):
        jax.jit(lambda q: lie_jax.equilibrium_path(system, lie_jax.State(q, state.v)).q)(state.q)


@pytest.mark.full
def test_a_path_that_ends_has_what_was_reached():
    """A load that presses an element to no length."""
    section = beams.Section([1e4] * 3 + [10.0] * 3, 1.0, (1.0, 1.0, 1.0))
    line = beams.line("beam", section, 1.0, 1, start="ground")
    load = lie_jax.PointForce(line.nodes[-1].name, (-1e4, 0.0, 0.0))
    mechanism = lie_jax.Mechanism(line.nodes, forces=[*line.elements, load], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    with pytest.raises(lie_jax.EquilibriumError, match="ended after") as raised:
        lie_jax.equilibrium_path(system, state, steps=100, length=0.1)
    assert 0.5 < raised.value.part < 1.0
    assert np.all(np.isfinite(raised.value.state.q))


@pytest.mark.full
def test_a_load_that_moves_nothing_has_no_path():
    """A pendulum that hangs carries any weight."""
    axis = 0.0, 1.0, 0.0
    hinge = lie_jax.RevoluteJoint("ground", "rod", axis, child_point=(0.0, 0.0, 0.5))
    spring = lie_jax.JointSpring(hinge, stiffness=3.0)
    rod = lie_jax.Body("rod", 1.0, 0.1 * np.eye(3), position=(0.0, 0.0, -0.5))
    system, state = lie_jax.assemble(lie_jax.Mechanism([rod], [hinge], [spring]), lie_jax.Minimal())
    with pytest.raises(lie_jax.EquilibriumError, match="no part of the load moves anything"):
        lie_jax.equilibrium_path(system, state)
