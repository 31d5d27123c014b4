"""Beams in equilibrium against closed forms and shooting solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams
from models import curved_beam, princeton_beam

# Of the ratio of errors of two meshes, one of which has twice the elements: 2 to the order.
ORDER = 0.02
# Of an extrapolated tip, in parts of the length.
EXTRAPOLATED = 1e-5
ROUNDING = 1e-12


def tip(build, read, elements):
    system, state = build(elements)
    return np.asarray(read(system, lie_jax.equilibrium(system, state).q))


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "read", "length"),
    [
        (curved_beam, curved_beam.tip, curved_beam.RADIUS * curved_beam.ANGLE),
        (princeton_beam, princeton_beam.tip_displacement, princeton_beam.LENGTH),
    ],
    ids=["bend", "Princeton"],
)
def test_tips_converge_to_the_continuous_beam(model, read, length):
    coarse, fine = (tip(model.build, read, n) for n in (16, 32))
    truth = np.asarray(model.REFERENCE)
    errors = [np.linalg.norm(x - truth) for x in (coarse, fine)]
    assert_allclose(np.log2(errors[0] / errors[1]), 2.0, atol=ORDER)
    extrapolated = fine + (fine - coarse) / 3.0
    assert_allclose(extrapolated, truth, rtol=0, atol=EXTRAPOLATED * length)


def rolled_up(elements, turns=1.0):
    """A cantilever of 10 m under the moment at its end that bends it to so many circles."""
    length, bending = 10.0, 100.0
    section = beams.Section((1e4, 1e4, 1e4, bending, bending, bending), 1.0, (1.0, 1.0, 1.0))
    line = beams.line("beam", section, length, elements, start="ground")
    moment = 2.0 * np.pi * turns * bending / length
    load = lie_jax.Torque(line.nodes[-1].name, (0.0, 0.0, moment), frame="body")
    mechanism = lie_jax.Mechanism(line.nodes, forces=[*line.elements, load], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3()), length


@pytest.mark.full
def test_an_end_moment_rolls_a_beam_up():
    """Screws are exact: three elements close the circle."""
    (system, state), length = rolled_up(3)
    end = lie_jax.equilibrium(system, state)
    rotation, position = (x[-1] for x in system.poses(end.q))
    assert_allclose(position, np.zeros(3), atol=ROUNDING * length)
    assert_allclose(rotation, np.eye(3), atol=ROUNDING)
    readings = system.beams(end.q, points=3)
    curvature = np.broadcast_to([1.0, 0.0, 0.0, 0.0, 0.0, 2.0 * np.pi / length], (3, 6))
    assert_allclose(readings.strain, curvature, atol=ROUNDING)
    assert_allclose(readings.resultant[:, 5], 100.0 * 2.0 * np.pi / length, rtol=ROUNDING)
    # The middle of the line lies across the circle.
    assert_allclose(readings.position[1, 1], [0.0, length / np.pi, 0.0], atol=1e-11)


@pytest.mark.full
def test_a_load_that_turns_elements_too_far_is_refused_with_what_was_reached():
    (system, state), _ = rolled_up(3, turns=1.5)
    with pytest.raises(lie_jax.EquilibriumError, match="of the load") as raised:
        lie_jax.equilibrium(system, state)
    # Each of three elements may turn by 3 rad.
    assert 0.5 < raised.value.part < 3.0 / np.pi
    assert np.all(np.isfinite(raised.value.state.q))
    (system, state), _ = rolled_up(3, turns=1.5)
    assert np.all(np.isnan(jax.jit(lambda: lie_jax.equilibrium(system, state).q)()))


@pytest.mark.full
def test_a_load_that_presses_elements_through_themselves_is_refused():
    section = beams.Section([1e4] * 3 + [10.0] * 3, 1.0, (1.0, 1.0, 1.0))
    line = beams.line("beam", section, 1.0, 3, start="ground")
    load = lie_jax.PointForce(line.nodes[-1].name, (-1.5e4, 0.0, 0.0))
    mechanism = lie_jax.Mechanism(line.nodes, forces=[*line.elements, load], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    with pytest.raises(lie_jax.EquilibriumError, match="of the load") as raised:
        lie_jax.equilibrium(system, state)
    # Stretch 1 - P/EA reaches zero at two thirds.
    assert 0.5 < raised.value.part <= 2.0 / 3.0


@pytest.mark.full
def test_the_tip_changes_with_stiffness_and_load_as_differences_say():
    def bent(x):
        section = beams.of_material(
            area=curved_beam.AREA,
            moments=(x[0] / 12.0, 1.0 / 12.0),
            torsion=x[1] / 6.0,
            young=curved_beam.YOUNG,
            shear=curved_beam.SHEAR,
            density=1.0,
        )
        system, state = curved_beam.build(8, 600.0 * x[2], cross_section=section)
        return curved_beam.tip(system, lie_jax.equilibrium(system, state).q)

    ones, step = jnp.ones(3), 1e-3
    jacobian = jax.jit(jax.jacrev(bent))(ones)
    run = jax.jit(bent)

    def difference(i):
        def at(h):
            return run(ones.at[i].add(h))

        return (8.0 * (at(step) - at(-step)) - at(2.0 * step) + at(-2.0 * step)) / (12.0 * step)

    expected = jnp.stack([difference(i) for i in range(3)], axis=1)
    assert_allclose(jacobian, expected, rtol=1e-7)


@pytest.mark.full
def test_a_pendulum_hangs_and_one_without_weight_stays():
    def built(gravity):
        # Horizontally gravity has no stiffness.
        turned = (np.cos(0.25), 0.0, np.sin(0.25), 0.0)
        rod = "rod", 1.0, 0.1 * np.eye(3), (0.5, 0.0, 0.0)
        body = lie_jax.Body(*rod, orientation=turned)
        hinge = lie_jax.RevoluteJoint("ground", "rod", (0.0, 1.0, 0.0))
        mechanism = lie_jax.Mechanism([body], [hinge], gravity=(0.0, 0.0, gravity))
        return lie_jax.assemble(mechanism, lie_jax.R3SO3())

    system, state = built(-9.81)
    # The hinge is open by 0.1 m at the start.
    state = lie_jax.State(state.q.at[0].add(0.1), state.v)
    hanging = lie_jax.equilibrium(system, state)
    assert_allclose(system.constraint(0.0, hanging.q), np.zeros(5), atol=1e-12)
    assert_allclose(system.poses(hanging.q)[0][0][:, 0], [0, 0, -1.0], atol=1e-10)
    system, state = built(0.0)
    with pytest.warns(UserWarning, match="1 direction is free.* 'rod' moves") as told:
        still = lie_jax.equilibrium(system, state)
    assert told[0].filename == __file__
    assert_allclose(system.poses(still.q)[0], system.poses(state.q)[0], atol=1e-12)
