"""Frequencies of beams and mechanisms against closed forms and shooting solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams
from models import double_pendulum, heavy_top

# Of frequencies from the same numbers by two ways.
ROUNDING = 1e-12
GRAVITY = 9.81
# Flap frequencies ω √(ρAL⁴/EI) of a cantilever that turns at Ω √(ρAL⁴/EI) = 6 about its root, by
# shooting; Wright, Smith, Thresher, Wang (1982) tabulate five digits of them.
FLAP = (7.3603730193100, 26.809081678498, 66.683914381505)
# P L² / √(EI GJ), twice the first zero of the Bessel function J₋₁/₄.
LATERAL = 4.01259934357890


def cantilever(section, length, elements, forces=()):
    line = beams.line("beam", section, length, elements, start="ground")
    mechanism = lie_jax.Mechanism(line.nodes, forces=[*line.elements, *forces], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.SE3())


@pytest.mark.full
def test_lumped_rods_extend_and_twist_at_the_frequencies_of_a_chain():
    """ω = 2 c / L_e sin((2n - 1) π / 4N): masses between springs, half a mass at the free end."""
    elements, length, mass = 8, 10.0, 2.0
    inertia = 0.3, 0.1, 0.2
    section = beams.Section((100.0, 1e3, 1e3, 50.0, 20.0, 20.0), mass, inertia)
    result = lie_jax.modes(*cantilever(section, length, elements))
    assert result.shapes.shape == (48, 48)
    assert np.all(np.diff(result.frequencies) >= 0.0)
    assert_allclose(result.growth, np.zeros(48))
    numbers = (2.0 * np.arange(1, elements + 1) - 1.0) * np.pi / (4.0 * elements)
    for axis, speed in ((0, np.sqrt(100.0 / mass)), (3, np.sqrt(50.0 / inertia[0]))):
        # Shapes that move along x, or turn about it.
        part = np.abs(result.shapes.reshape(48, elements, 6)[:, :, axis]).max(axis=1)
        whole = np.abs(result.shapes).max(axis=1)
        expected = 2.0 * speed / (length / elements) * np.sin(numbers)
        assert_allclose(result.frequencies[part > 0.5 * whole], expected, rtol=ROUNDING)


def blade(elements):
    """A slender beam on a hub that turns: flap and lag modes by frequency."""
    section = beams.Section((3e7, 3e7, 3e7, 1.0, 1.0, 1.0), 1.0, (2e-8, 1e-8, 1e-8))
    hub = lie_jax.Body("hub", 1.0, np.eye(3))
    line = beams.line("blade", section, 1.0, elements, start=hub)
    hinge = lie_jax.RevoluteJoint("ground", "hub", (0.0, 0.0, 1.0))
    joints = [hinge, lie_jax.JointDriver(hinge, value=lambda t: 6.0 * t)]
    mechanism = lie_jax.Mechanism([hub, *line.nodes], joints, line.elements, gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    state = lie_jax.equilibrium(system, state, rate=(0.0, 0.0, 6.0))
    result = lie_jax.modes(system, state, number=6)
    assert_allclose(result.growth, np.zeros(6), atol=1e-10)
    shapes = np.abs(result.shapes.reshape(6, -1, 6)).max(axis=1)
    is_flap = shapes[:, 2] > shapes[:, 1]
    return np.asarray(result.frequencies)[is_flap], np.asarray(result.frequencies)[~is_flap]


@pytest.mark.full
def test_a_rotating_cantilever_flaps_as_shooting_says():
    (coarse, _), (fine, lag) = (blade(n) for n in (32, 64))
    assert_allclose(fine, FLAP, rtol=1.1e-4)
    # Shear and rotary inertia take some 2e-6 from the third one.
    assert_allclose(np.log2((coarse - FLAP) / (fine - FLAP)), [2.0] * 3, atol=0.12)
    assert_allclose(fine + (fine - coarse) / 3.0, FLAP, rtol=5e-6)
    # Extension is stiff: Coriolis forces are some 4 Ω² ω² / EA of the stiffness, 5e-6.
    assert_allclose(lag[0] ** 2, fine[0] ** 2 - 36.0, rtol=1e-5)


@pytest.mark.full
def test_a_strip_buckles_sideways_at_the_load_of_the_closed_form():
    """Smallest eigenvalue of the stiffness at the equilibrium under the load changes its sign."""
    weak, torsion = 1e-4, 1e-4
    section = beams.Section((1e6, 1e6, 1e6, torsion, 1.0, weak), 1.0, (2e-4, 1e-4, 1e-4))

    def critical(elements):
        @jax.jit
        def softest(load):
            push = load * jnp.asarray([0.0, 0.0, -1.0])
            tip = lie_jax.PointForce(f"beam {elements}", push)
            system, state = cantilever(section, 1.0, elements, [tip])
            linear = lie_jax.linearize(system, lie_jax.equilibrium(system, state))
            return jnp.linalg.eigvalsh(linear.reduced_stiffness)[0]

        unit = np.sqrt(weak * torsion)
        low, high = 3.9 * unit, 4.2 * unit
        below, above = softest(low), softest(high)
        assert below > 0.0 > above
        for _ in range(4):
            middle = low + (high - low) * float(below / (below - above))
            value = softest(middle)
            if value > 0.0:
                low, below = middle, value
            else:
                high, above = middle, value
        return middle / unit

    loads = [critical(n) for n in (8, 16)]
    extrapolated = loads[1] + (loads[1] - loads[0]) / 3.0
    assert_allclose(extrapolated, LATERAL, rtol=1e-3)


@pytest.mark.full
def test_a_column_under_a_follower_load_flutters():
    """Beck (1952): two frequencies meet at P L² / EI = 20.0509536."""
    section = beams.Section((1e6, 1e6, 1e6, 1.0, 1.0, 2.0), 1.0, (2e-6, 1e-6, 1e-6))

    def growth(load):
        push = load * jnp.asarray([-1.0, 0.0, 0.0])
        follower = lie_jax.PointForce("beam 32", push, frame="body")
        system, state = cantilever(section, 1.0, 32, [follower])
        state = lie_jax.equilibrium(system, state)
        return jnp.max(lie_jax.modes(system, state, number=4, damped=True).growth)

    below, above = jax.jit(jax.vmap(growth))(jnp.asarray([19.95, 20.15]))
    assert below < 1e-3
    assert above > 0.1


@pytest.mark.full
def test_frequencies_change_with_stiffness_and_load_as_differences_say():
    """The load bends the beam: its equilibrium moves, too."""

    def frequencies(x):
        bending = jnp.stack([jnp.full((), 2.0), x[0]])
        stiffness = jnp.concatenate([jnp.asarray([500.0, 300.0, 300.0, 3.0]), bending])
        section = beams.Section(stiffness, 1.0, (0.03, 0.01, 0.02))
        push = x[1] * jnp.asarray([-0.5, 1.0, 0.3])
        system, state = cantilever(section, 1.0, 3, [lie_jax.PointForce("beam 3", push)])
        state = lie_jax.equilibrium(system, state)
        return lie_jax.modes(system, state, number=3).frequencies

    x, step = jnp.asarray([3.0, 1.5]), 1e-2
    run = jax.jit(frequencies)

    def difference(i):
        def at(h):
            return run(x.at[i].add(h))

        return (8.0 * (at(step) - at(-step)) - at(2.0 * step) + at(-2.0 * step)) / (12.0 * step)

    expected = jnp.stack([difference(i) for i in range(2)], axis=1)
    assert_allclose(jax.jit(jax.jacrev(frequencies))(x), expected, rtol=1e-7)


def swings(about):
    """Squares of frequencies of the hanging double pendulum about one axis."""
    (m1, m2), length = double_pendulum.MASS, 1.0
    (i1, i2), a, b = (double_pendulum.INERTIA[k][about] for k in (0, 1)), 0.5, 0.4
    mass = [[i1 + m1 * a**2 + m2 * length**2, m2 * length * b], [m2 * length * b, i2 + m2 * b**2]]
    stiffness = np.diag([(m1 * a + m2 * length) * GRAVITY, m2 * b * GRAVITY])
    return np.linalg.eigvals(np.linalg.solve(mass, stiffness))


@pytest.mark.parametrize(
    "formulation",
    [
        lie_jax.Minimal(),
        pytest.param(lie_jax.SE3(), marks=pytest.mark.full),
        pytest.param(lie_jax.R3SO3(), marks=pytest.mark.full),
        pytest.param(lie_jax.EulerParameters(), marks=pytest.mark.full),
        pytest.param(lie_jax.TaitBryan(), marks=pytest.mark.full),
    ],
    ids=lambda formulation: type(formulation).__name__,
)
def test_a_double_pendulum_swings_alike_in_all_coordinates(formulation):
    upright, still = [(1.0, 0.0, 0.0, 0.0)] * 2, np.zeros((2, 3))
    system, state = double_pendulum.build(formulation, orientation=upright, omega_body=still)
    result = lie_jax.modes(system, state)
    # Both bodies turn freely about the vertical.
    expected = np.sort(np.concatenate([np.zeros(2), swings(0), swings(1)]))
    assert_allclose(np.sort(result.squares), expected, rtol=ROUNDING, atol=1e-11)
    shapes = np.asarray(result.shapes)
    mass = np.asarray(lie_jax.linearize(system, state).mass)
    assert_allclose(shapes @ mass @ shapes.T, np.eye(6), atol=1e-10)


@pytest.mark.full
@pytest.mark.parametrize("spin", [300.0, 150.0])
def test_a_sleeping_top_is_stable_if_it_spins_fast(spin):
    """I₁ σ² - I₃ s σ + m g l = 0 for nutation and precession; the body sees them at |σ - s|."""
    # The y axis is that of symmetry, and points up.
    upright = (0.5**0.5, 0.5**0.5, 0.0, 0.0)
    omega = (0.0, spin, 0.0)
    across, axial, _ = heavy_top.INERTIA
    moment, weight = heavy_top.MASS + across, heavy_top.MASS * GRAVITY
    system, state = heavy_top.build(
        lie_jax.SE3(), constrained=True, orientation=upright, omega_body=omega
    )
    result = lie_jax.modes(system, state, number=4)
    root = np.emath.sqrt((axial * spin) ** 2 - 4.0 * moment * weight)
    in_space = (axial * spin + np.array([-1.0, 1.0]) * root) / (2.0 * moment)
    frequencies = np.asarray(result.frequencies)
    frequencies = frequencies[frequencies > 1.0]
    assert_allclose(frequencies, np.sort(np.abs(in_space.real - spin)), rtol=1e-9)
    # Turns about the axis are free: a double zero, of which rounding makes its square root.
    assert_allclose(np.nanmax(result.growth), np.max(in_space.imag), rtol=1e-9, atol=1e-4)


@pytest.mark.full
def test_dampers_give_growth_rates_and_their_derivatives():
    """Motions e^λt with m λ² + d λ + k = 0, under and over the critical damping."""

    def built(damping):
        body = lie_jax.Body("cart", 2.0, np.eye(3))
        rail = lie_jax.PrismaticJoint("ground", "cart", (1.0, 0.0, 0.0))
        along = jnp.asarray([1.0, 0.0, 0.0])
        spring = lie_jax.CartesianSpringDamper("ground", "cart", 18.0 * along, damping * along)
        mechanism = lie_jax.Mechanism([body], [rail], [spring], gravity=(0.0, 0.0, 0.0))
        return lie_jax.assemble(mechanism, lie_jax.Minimal())

    result = lie_jax.modes(*built(4.0))
    assert_allclose(result.growth, [-1.0], rtol=ROUNDING)
    assert_allclose(result.frequencies, [np.sqrt(8.0)], rtol=ROUNDING)
    over = lie_jax.modes(*built(20.0), number=2)
    assert_allclose(over.frequencies, [0.0, 0.0])
    assert_allclose(np.sort(over.growth), [-9.0, -1.0], rtol=ROUNDING)
    # The oscillation counts once.
    beyond = lie_jax.modes(*built(4.0), number=2)
    assert np.isnan([beyond.growth[1], beyond.frequencies[1], *np.abs(beyond.shapes[1])]).all()

    def rates(damping):
        result = lie_jax.modes(*built(damping), damped=True)
        return jnp.stack([result.growth[0], result.frequencies[0]])

    # λ' = -λ / (2 m λ + d), of -d/2m and √(k/m - d²/4m²).
    slopes = jax.jit(jax.jacrev(rates))(jnp.asarray(4.0))
    assert_allclose(slopes, [-0.25, -0.25 / np.sqrt(8.0)], rtol=1e-10)
    with pytest.raises(ValueError, match=r"damped=\) is False, but"):
        lie_jax.modes(*built(4.0), damped=False)
    assert np.all(np.isnan(jax.jit(lambda d: lie_jax.modes(*built(d)).frequencies)(4.0)))


@pytest.mark.full
def test_a_frequency_changes_with_the_place_of_a_hinge():
    """ω² = m g l / (I + m l²): the constraints move with l, and the state with them."""
    mass, moment = 2.0, 0.1

    def frequency(length):
        down = length * jnp.asarray([0.0, 0.0, -1.0])
        body = lie_jax.Body("rod", mass, moment * np.eye(3), position=down)
        hinge = lie_jax.RevoluteJoint("ground", "rod", (0, 1, 0), (0, 0, 0), -down)
        mechanism = lie_jax.Mechanism([body], [hinge], gravity=(0.0, 0.0, -GRAVITY))
        return lie_jax.modes(*lie_jax.assemble(mechanism, lie_jax.R3SO3())).frequencies[0]

    def closed_form(length):
        return jnp.sqrt(mass * GRAVITY * length / (moment + mass * length**2))

    length = jnp.asarray(0.5)
    got = jax.jit(jax.value_and_grad(frequency))(length)
    assert_allclose(got, jax.value_and_grad(closed_form)(length), rtol=ROUNDING)


class Chain(lie_jax.extend.AbstractSystem):
    """Two masses in a row on two springs of 1 N/m."""

    masses: jax.Array

    @property
    def space(self):
        return lie_jax.extend.Rn(2)

    def mass_matrix(self, q):
        return jnp.diag(self.masses)

    def force(self, t, q, v, u=None):
        return -jnp.asarray([[2.0, -1.0], [-1.0, 1.0]]) @ q


@pytest.mark.full
def test_systems_of_ones_own_have_modes_and_directions_without_mass_are_refused():
    still = lie_jax.State(jnp.zeros(2), jnp.zeros(2))
    result = lie_jax.modes(Chain(jnp.ones(2)), still)
    golden = (np.sqrt(5.0) - 1.0) / 2.0
    assert_allclose(result.frequencies, [golden, 1.0 / golden], rtol=ROUNDING)
    with pytest.raises(ValueError, match=r"without mass, .* velocity 1"):
        lie_jax.modes(Chain(jnp.asarray([1.0, 0.0])), still)


@pytest.mark.full
def test_an_inverted_pendulum_grows_and_bad_numbers_are_refused():
    body = lie_jax.Body("rod", 2.0, 0.1 * np.eye(3), (0.0, 0.0, 0.5))
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0.0, 1.0, 0.0))
    mechanism = lie_jax.Mechanism([body], [hinge], gravity=(0.0, 0.0, -GRAVITY))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    result = lie_jax.modes(system, state)
    assert_allclose(result.squares, [-GRAVITY / 0.6], rtol=ROUNDING)
    assert_allclose(result.growth, [np.sqrt(GRAVITY / 0.6)], rtol=ROUNDING)
    assert_allclose(result.frequencies, [0.0])
    with pytest.raises(ValueError, match="1 free directions"):
        lie_jax.modes(system, state, number=2)
    with pytest.raises(ValueError, match="number"):
        lie_jax.modes(system, state, number=0)


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.Minimal(), lie_jax.R3SO3()])
def test_all_modes_of_a_car_with_a_free_wheel_are_there_by_default(formulation):
    """The wheel, which turns freely, counts twice; the frequencies of the quarter car are those of
    λ² M + λ C + K by NumPy.
    """
    bodies = [
        lie_jax.Body("chassis", 300.0, np.eye(3), position=(0.0, 0.0, 1.0)),
        lie_jax.Body("wheel", 40.0, np.eye(3), position=(0.0, 0.0, 0.3)),
    ]
    held = ("x", "y", "rotation_x", "rotation_z")
    joints = [
        lie_jax.PrismaticJoint("ground", "chassis", (0, 0, 1)),
        lie_jax.GenericJoint("chassis", "wheel", held, parent_point=(0.0, 0.0, -0.7)),
    ]
    mass, damping, stiffness = np.diag([300.0, 40.0]), 1500.0, 2e4
    forces = [
        lie_jax.LinearSpringDamper("chassis", "wheel", stiffness, damping, 0.7),
        lie_jax.LinearSpringDamper("ground", "wheel", 2e5, 100.0, 0.3),
    ]
    mechanism = lie_jax.Mechanism(bodies, joints, forces, gravity=(0.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, formulation)
    result = lie_jax.modes(system, state)
    between = np.asarray([[1.0, -1.0], [-1.0, 1.0]])
    of_tyre = np.diag([0.0, 1.0])
    c, k = damping * between + 100.0 * of_tyre, stiffness * between + 2e5 * of_tyre
    top = np.hstack([np.zeros((2, 2)), np.eye(2)])
    bottom = -np.linalg.solve(mass, np.hstack([k, c]))
    exponents = np.linalg.eigvals(np.vstack([top, bottom]))
    exponents = exponents[exponents.imag > 0.0]
    exponents = exponents[np.argsort(exponents.imag)]
    # Rounding may make a pair of the double zero.
    assert result.frequencies.shape[0] in (3, 4)
    assert_allclose(result.frequencies[-2:], exponents.imag, rtol=ROUNDING)
    assert_allclose(result.growth[-2:], exponents.real, rtol=ROUNDING)
    # Rounding of a double zero makes its square root.
    assert_allclose(result.frequencies[:-2], 0.0, atol=1e-4)
    assert not np.any(np.isnan(result.growth))
