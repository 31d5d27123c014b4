"""Elements whose strains are linear along them: energies, forces, and the order of statics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams
from lie_jax.mechanics.beams.laws import Element, Linear
from models import curved_beam, princeton_beam

ROUNDING = 1e-12
# Of first derivatives against each other; those of the energy's least value need its slope.
DERIVATIVES = 1e-9
# Of the exponent by which errors fall from one mesh to the other.
ORDER = 0.02


def element(seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    unloaded = np.asarray([1.0, 0.0, 0.0, 0.1, -0.2, 0.3])
    numbers = Element(
        jnp.asarray(0.7), jnp.asarray(root @ root.T + np.eye(6)), jnp.asarray(unloaded)
    )
    return numbers, 0.7 * jnp.asarray(unloaded + 0.2 * rng.normal(size=6))


@pytest.mark.full
def test_force_and_tangent_are_derivatives_of_the_energy():
    law, (numbers, h) = Linear(), element()

    @jax.jit
    def evaluated(h):
        by_energy = jax.grad(lambda h: law.energy(numbers, h))(h)
        return (
            by_energy,
            law.force(numbers, h),
            law.tangent(numbers, h),
        )

    @jax.jit
    def differentiated(h):
        slopes = (
            jax.jacfwd(lambda h: law.force(numbers, h))(h),
            jax.hessian(lambda h: law.energy(numbers, h))(h),
        )
        return slopes, jax.jacfwd(lambda h: law.tangent(numbers, h))(h)

    by_energy, force, tangent = evaluated(h)
    assert_allclose(by_energy, force, rtol=DERIVATIVES)
    slopes, bent = differentiated(h)
    for slope in slopes:
        assert_allclose(slope, tangent, rtol=0, atol=DERIVATIVES * np.max(np.abs(tangent)))
    step = 1e-4
    ahead, behind = (evaluated(h.at[4].add(x))[2] for x in (step, -step))
    # Errors of a difference are step² and rounding / step.
    assert_allclose((ahead - behind) / (2.0 * step), bent[:, :, 4], rtol=1e-5, atol=1e-5)


def test_lines_pass_through_nodes_and_follow_the_strain():
    law, (numbers, h) = Linear(), element(1)
    begin, end = jax.jit(jax.vmap(lambda xi: law.screw_to(numbers, h, xi)))(jnp.asarray([0.0, 1.0]))
    assert_allclose(end, h, atol=ROUNDING)
    assert_allclose(begin, np.zeros(6), atol=ROUNDING)

    @jax.jit
    def middle(length):
        """C⁻¹C' halfway, which is the strain there up to L⁴."""
        scaled = numbers._replace(length=jnp.asarray(length))
        h = length / 0.7 * element(1)[1]

        def pose(xi):
            return lie_jax.groups.se3.exp(law.screw_to(scaled, h, xi))

        at, rate = jax.jvp(pose, (jnp.asarray(0.5),), (jnp.asarray(1.0 / length),))
        return jnp.linalg.norm(
            lie_jax.groups.se3.vee(jnp.linalg.inv(at) @ rate) - law.strain(scaled, h)
        )

    assert middle(0.35) < middle(0.7) / 8.0


@pytest.mark.full
def test_one_element_bends_as_linear_theory_says():
    """Deflection F L³/(3 EI) + F L/GA and slope F L²/(2 EI), to the square of the slope."""
    force, length, bending, shear = 1e-5, 2.0, 3.0, 50.0
    section = beams.Section((1e6, shear, shear, 1.0, bending, bending), 1.0, (1.0, 1.0, 1.0))
    line = beams.line("beam", section, length, 1, start="ground", interpolation="linear")
    load = lie_jax.PointForce("beam 1", (0.0, force, 0.0))
    mechanism = lie_jax.Mechanism(line.nodes, forces=[*line.elements, load], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    end = lie_jax.equilibrium(system, state)
    rotation, position = (x[-1] for x in system.poses(end.q))
    bent = force * (length**3 / (3.0 * bending) + length / shear)
    assert_allclose(position[1], bent, rtol=1e-8)
    assert_allclose(rotation[1, 0], force * length**2 / (2.0 * bending), rtol=1e-8)
    # At the middle half the moment of the clamped end, and the force across.
    expected = [force, force * 0.5 * length]
    assert_allclose(system.beams(end.q).resultant[0, jnp.asarray([1, 5])], expected, rtol=1e-8)
    # The first and the last node, and a cubic parabola between them.
    half = force * (5.0 * length**3 / (48.0 * bending) + 0.5 * length / shear)
    assert_allclose(system.beams(end.q, points=3).position[0, 1, 1], half, rtol=1e-8)


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "read", "length"),
    [
        (curved_beam, curved_beam.tip, curved_beam.RADIUS * curved_beam.ANGLE),
        (princeton_beam, princeton_beam.tip_displacement, princeton_beam.LENGTH),
    ],
    ids=["bend", "Princeton"],
)
def test_tips_are_of_the_fourth_order(model, read, length):
    def error(elements):
        system, state = model.build(elements, interpolation="linear")
        end = lie_jax.equilibrium(system, state)
        return np.linalg.norm(np.asarray(read(system, end.q)) - np.asarray(model.REFERENCE))

    coarse, fine = error(8), error(16)
    assert fine < 1e-6 * length
    # Sixth-order terms are 0.05 of the bend's, which turns by 0.2 rad in an element.
    assert_allclose(np.log2(coarse / fine), 4.0, atol=ORDER)


@pytest.mark.full
def test_the_bend_changes_with_its_load_and_stiffness_as_differences_say():
    def bent(x):
        section = beams.of_material(
            area=1.0, moments=(x[0] / 12.0, 1.0 / 12.0), torsion=1.0 / 6.0,
            young=curved_beam.YOUNG, shear=curved_beam.SHEAR, density=1.0,
        )  # fmt: skip
        system, state = curved_beam.build(
            4, 600.0 * x[1], cross_section=section, interpolation="linear"
        )
        return curved_beam.tip(system, lie_jax.equilibrium(system, state).q)

    ones, step = jnp.ones(2), 1e-3
    jacobian, run = jax.jit(jax.jacrev(bent))(ones), jax.jit(bent)

    def difference(i):
        near, far = (run(ones.at[i].add(h)) - run(ones.at[i].add(-h)) for h in (step, 2.0 * step))
        return (8.0 * near - far) / (12.0 * step)

    expected = jnp.stack([difference(i) for i in range(2)], axis=1)
    assert_allclose(jacobian, expected, rtol=1e-7)


def test_other_interpolations_are_refused():
    with pytest.raises(ValueError, match="interpolation is 'cubic'"):
        lie_jax.beams.Beam("ground", "body", np.ones(6), 1.0, interpolation="cubic")
