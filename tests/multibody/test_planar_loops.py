"""Andrews' squeezer, four-bar linkages in a row and the simple pendulum move as independent digits
say, the linkages through their singular positions.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax.simulation.march import march
from models import four_bars, pendulum, squeezer

# Rounding of angles of some rad, and of accelerations relative to the largest.
ROUNDING = 1e-13
# Of constraints of bodies of some centimetres or metres (m, rad).
CLOSED = 1e-14
# Of runs whose steps err less (rad).
ACCURATE = 1e-10
ORDER_SLACK = 0.15
# Of derivatives, relative to the largest, against differences of fourth order.
DIFFERENCE = 1e-8
TIMES = tuple(squeezer.REFERENCE)
# Angles θ, γ, φ, δ, Ω, ε at the start as the test set gives them (rad).
PRINTED_START = (
    *(0.0, 0.455279819163070380, 0.222668390165885885, 0.487364979543842550),
    *(-0.222668390165885885, 1.23054744454982119),
)
# At 0.03 s as the test set gives them, to digits that its own run has.
PRINTED_END = (
    *(15.81077119629904, -15.75637105984298, 0.04082224013073101, -0.5347301163226499),
    *(0.5244099658805304, 0.5347301163226499, 1.048080741042263),
)
PRINTED = 2e-9


def _turned(gap):
    """Differences of angles without whole turns."""
    return np.remainder(np.asarray(gap) + np.pi, 2.0 * np.pi) - np.pi


def _loops(beta, theta, gamma, phi, delta, omega, epsilon):
    """The test set's six equations of the loops (m), for arrays of angles."""
    sin, cos = np.sin, np.cos
    x = 0.007 * cos(beta) - 0.028 * cos(beta + theta)
    y = 0.007 * sin(beta) - 0.028 * sin(beta + theta)
    return np.stack([
        x - 0.035 * sin(gamma) + 0.03635,
        y + 0.035 * cos(gamma) - 0.03273,
        x - 0.02 * sin(phi + delta) - 0.04 * cos(delta) + 0.06934,
        y + 0.02 * cos(phi + delta) - 0.04 * sin(delta) + 0.00227,
        x - 0.02 * cos(omega + epsilon) - 0.04 * sin(epsilon) + 0.06934,
        y - 0.02 * sin(omega + epsilon) + 0.04 * cos(epsilon) + 0.00227,
    ])  # fmt: skip


def test_squeezers_close_where_the_test_set_says():
    """At the start and at all reference times, also with a turning crank."""
    expected = np.asarray([(squeezer.ANGLE, *PRINTED_START), *squeezer.REFERENCE.values()])
    assert_allclose(_loops(*expected.T), np.zeros((6, 5)), rtol=0, atol=CLOSED)
    assert_allclose(expected[-1], PRINTED_END, rtol=0, atol=PRINTED)

    @jax.jit
    @jax.vmap
    def placed(crank):
        system, state = squeezer.build(angle=crank, rate=100.0)
        rate = system.constraint_jacobian(0.0, state.q) @ state.v
        return squeezer.angles(system, state.q), system.constraint(0.0, state.q), rate

    angles, gap, rate = placed(jnp.asarray(expected[:, 0]))
    assert_allclose(_turned(angles - expected), np.zeros((5, 7)), rtol=0, atol=ROUNDING)
    assert_allclose(gap, np.zeros_like(gap), rtol=0, atol=CLOSED)
    assert_allclose(rate, np.zeros_like(rate), rtol=0, atol=100.0 * CLOSED)


PROJECTED = lie_jax.RKMK("rk67", stabilization=lie_jax.Projection())


@pytest.mark.full
@pytest.mark.parametrize("name", ["joint coordinates", "R3SO3", "SE3"])
def test_squeezer(name):
    """In steps of 25 μs; joint coordinates count the crank's turns."""
    counted = name == "joint coordinates"
    ways = {"joint coordinates": None, "R3SO3": lie_jax.R3SO3(), "SE3": lie_jax.SE3()}
    system, state = squeezer.build(ways[name])
    loop, taken = state, 0
    for t, expected in squeezer.REFERENCE.items():
        count = round(t / 2.5e-5)
        loop = march(system, PROJECTED, loop, 2.5e-5, count - taken)
        taken = count
        gap = np.asarray(squeezer.angles(system, loop.state.q)) - expected
        assert_allclose(gap if counted else _turned(gap), np.zeros(7), rtol=0, atol=ACCURATE)
        constraint = system.constraint(t, loop.state.q)
        assert_allclose(constraint, np.zeros_like(constraint), rtol=0, atol=CLOSED)


@pytest.mark.full
def test_turns_of_saved_instants_in_absolute_coordinates():
    system, state = squeezer.build(lie_jax.R3SO3())
    run = lie_jax.simulate(system, PROJECTED, state, dt=5e-5, steps=600, save=10)
    angle = squeezer.crank_angle(system, run.q, run.v, run.t)
    assert_allclose(angle[-1], squeezer.REFERENCE[TIMES[-1]][0], rtol=0, atol=1e-9)


# Integrator, its order and numbers of steps to the end, in joint coordinates.
ORDERS = {
    "radau5": (lie_jax.ImplicitRKMK("radau5"), 5, (300, 600)),
    "generalized-alpha": (lie_jax.GeneralizedAlpha(0.9, index=2), 2, (1500, 3000)),
}


@pytest.mark.full
@pytest.mark.parametrize("name", ORDERS)
def test_orders(name):
    integrator, order, counts = ORDERS[name]
    system, state = squeezer.build()
    end = TIMES[-1]
    ends = [march(system, integrator, state, end / n, n).state.q for n in counts]
    gaps = [np.asarray(squeezer.angles(system, q)) - squeezer.REFERENCE[end] for q in ends]
    errors = [float(np.linalg.norm(gap)) for gap in gaps]
    assert_allclose(np.log2(errors[0] / errors[1]), order, rtol=0, atol=ORDER_SLACK)


def _check_slope(observed, value, change):
    """A derivative by a number against differences of fourth order with this change of it."""
    places = jnp.asarray(value) + change * jnp.asarray([-2.0, -1.0, 1.0, 2.0])
    far_below, below, above, far_above = np.asarray(jax.jit(jax.vmap(observed))(places))
    expected = (8.0 * (above - below) - (far_above - far_below)) / (12.0 * change)
    slope = jax.jit(lambda x: jax.jvp(observed, (x,), (jnp.ones(()),))[1])(jnp.asarray(value))
    largest = float(np.max(np.abs(expected)))
    assert largest > 0.01
    assert_allclose(slope, expected, rtol=0, atol=DIFFERENCE * largest)


@pytest.mark.full
@pytest.mark.parametrize(("name", "value", "change"), [
    ("torque", squeezer.TORQUE, 1e-4), ("angle", squeezer.ANGLE, 1e-3),
])  # fmt: skip
def test_derivatives_of_the_squeezer(name, value, change):
    """Of its angles after 0.01 s by the torque and by the crank's angle at the start."""

    def observed(x):
        system, state = squeezer.build(**{name: x})
        end = march(system, lie_jax.RKMK("rk67"), state, 5e-5, 200).state
        return squeezer.angles(system, end.q)

    _check_slope(observed, value, change)


def _stiffness(loops):
    """Of the equation of the posts' angle θ̈ = -k cos θ: k, 1/s²."""
    return 9.81 * 1.5 * (3 * loops + 1) / (4 * loops + 1)


@pytest.mark.full
@pytest.mark.parametrize("formulation", [lie_jax.R3SO3(), lie_jax.Minimal()], ids=["R3", "joints"])
def test_posts_accelerate_as_one_angle(formulation):
    """Upright, leaning, on their way below the ground, and with bars of half the length and thrice
    the mass; the energy is that of the angle.
    """
    angles = np.asarray([0.5 * np.pi, 0.8, -1.9, 2.6])
    rates = np.asarray([-1.0, -2.0, 3.0, 0.5])
    lengths, masses = np.asarray([1.0, 1.0, 1.0, 0.5]), np.asarray([1.0, 1.0, 1.0, 3.0])

    @jax.jit
    @jax.vmap
    def evaluated(angle, rate, length, mass):
        system, state = four_bars.build(
            formulation, angle=angle, rate=rate, length=length, mass=mass
        )
        t = jnp.zeros(())
        change = system.acceleration(t, state.q, state.v)
        turning = [system.twists(state.q, v)[:, 5] for v in (state.v, change)]
        energy = system.kinetic_energy(state.q, state.v) + system.potential_energy(state.q)
        closed = system.constraint(t, state.q), system.constraint_jacobian(t, state.q) @ state.v
        return four_bars.post_angle(system, state.q), *turning, energy, closed

    seen, turned, accelerated, energy, closed = evaluated(
        *(jnp.asarray(x) for x in (angles, rates, lengths, masses))
    )
    assert_allclose(seen, angles, rtol=0, atol=ROUNDING)
    # Posts and beams in the order of the bars.
    posts = np.asarray([1.0, 1.0, 0.0, 1.0, 0.0])
    assert_allclose(turned, rates[:, None] * posts, rtol=0, atol=ROUNDING)
    k = _stiffness(2) / lengths
    # The smallest constraint is that of a lying loop, and the regularisation's share grows with it.
    assert_allclose(accelerated, (-k * np.cos(angles))[:, None] * posts, rtol=0, atol=1e-10)
    inertia = masses * lengths**2 * 3.0
    assert_allclose(energy, inertia * (0.5 * rates**2 + k * np.sin(angles)), rtol=ROUNDING)
    for values in closed:
        assert_allclose(values, np.zeros_like(values), rtol=0, atol=10.0 * CLOSED)


# Largest error of the energy, of some 60 to 1200 J, over 10 s (J).
ENERGY = 1e-4
# Loops, coordinates, integrator, step (s), and bound of the error of the angle (rad).
PASSES = {
    "two": (2, lie_jax.R3SO3(), "rk4", 1e-3, 1e-8),
    "two in joint coordinates": (2, lie_jax.Minimal(), "radau5", 5e-3, 1e-7),
    "ten": (10, lie_jax.R3SO3(), "rk4", 2e-3, 1e-8),
    "ten in joint coordinates": (10, lie_jax.Minimal(), "rk4", 2e-3, 1e-8),
    "forty": (40, lie_jax.R3SO3(), "rk4", 1e-3, 1e-5),
}
METHODS = {
    "rk4": lie_jax.RKMK("rk4", stabilization=lie_jax.Projection()),
    "radau5": lie_jax.ImplicitRKMK("radau5"),
}
POSTS = {2: four_bars.REFERENCE, 10: four_bars.REFERENCE_10, 40: four_bars.REFERENCE_40}


@pytest.mark.full
@pytest.mark.parametrize("name", PASSES)
def test_ten_passes_of_the_singular_position(name):
    loops, formulation, method, step, error = PASSES[name]
    system, state = four_bars.build(formulation, loops=loops)
    every = round(0.01 / step)
    run = lie_jax.simulate(system, METHODS[method], state, dt=step, steps=1000 * every, save=every)
    angle = np.asarray(four_bars.post_angle(system, run.q, run.v, run.t))
    # At 0, -π … -9 π all bars are in line.
    assert np.sum(np.diff(np.floor(angle / np.pi)) < 0) == 10
    places = [round(100 * t) for t in POSTS[loops]]
    expected = [values[0] for values in POSTS[loops].values()]
    assert_allclose(angle[places], expected, rtol=0, atol=error)

    @jax.jit
    @jax.vmap
    def energy(q, v):
        return system.kinetic_energy(q, v) + system.potential_energy(q)

    energies = np.asarray(energy(run.q, run.v))
    assert np.max(np.abs(energies - energies[0])) < ENERGY


@pytest.mark.full
def test_simple_pendulum():
    """Over 10 s in steps of 2.5 ms, with its energy of zero."""
    system, state = pendulum.build()
    run = lie_jax.simulate(system, PROJECTED, state, dt=2.5e-3, steps=4000, save=400)
    places = jax.vmap(lambda q: pendulum.position(system, q))(run.q)
    expected = list(pendulum.REFERENCE.values())
    assert_allclose(places[np.asarray([1, 2, 5, 10])], expected, rtol=0, atol=ACCURATE)
    energy = [
        system.kinetic_energy(q, v) + system.potential_energy(q)
        for q, v in zip(run.q, run.v, strict=True)
    ]
    assert_allclose(energy, np.zeros(11), rtol=0, atol=ACCURATE)
