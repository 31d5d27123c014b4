"""A block that rocks and a rod that jams: what stiff contacts approach where rigid bodies are odd.

Sources of the closed forms: Housner, The behavior of inverted pendulum structures during
earthquakes (1963), for the block; Painlevé (1895) and Génot, Brogliato, New results on Painlevé
paradoxes (1999), for the angles of the rod. Forces and speeds of the jammed rod are derived below.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq

import lie_jax
from lie_jax import contact

GRAVITY = 9.81
# Of bodies of 1 kg: half of the block's diagonal (m), its angle to the edge's, its depth (m).
RADIUS, ALPHA, DEPTH = 0.5, 0.2, 0.15
WIDTH, HEIGHT = 2.0 * RADIUS * np.sin(ALPHA), 2.0 * RADIUS * np.cos(ALPHA)
SIZE = (WIDTH, DEPTH, HEIGHT)
# About an edge the inertia is 4/3 m R², whatever the depth: 2 m g R over it.
TWICE_SQUARE = 1.5 * GRAVITY / RADIUS
# Ratio of the speeds after and before an impact without rebound.
HOUSNER = 0.94079574550216
# Of ratios of errors, here and below, of which the first are a percent and less of the results.
FIRST_ORDER, SECOND_ORDER = 0.01, 0.03


def block(tilt, overlap, turning, law, slip):
    """A block on its edge at x = 0, tilted about y; `turning` (rad/s) is its fall."""
    turn = lie_jax.groups.so3.exp(jnp.stack([0.0 * overlap, tilt, 0.0 * overlap]))
    arm = turn @ jnp.asarray([-0.5 * WIDTH, 0.0, 0.5 * HEIGHT])
    omega = jnp.asarray([0.0, -turning, 0.0])
    body = lie_jax.Body(
        "block",
        1.0,
        lie_jax.solids.box(1.0, SIZE),
        position=arm - jnp.asarray([0.0, 0.0, 1.0]) * overlap,
        orientation=lie_jax.groups.quaternion.from_matrix(turn),
        velocity=jnp.cross(omega, arm),
        omega_body=omega,
    )
    touching = lie_jax.contact.Contact(
        contact.Box("block", SIZE), contact.Plane("ground"), law, lie_jax.contact.Coulomb(1.0, slip)
    )
    mechanism = lie_jax.Mechanism([body], forces=[touching], gravity=(0, 0, -GRAVITY))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


@pytest.mark.full
def test_a_tilted_block_falls_as_the_pendulum_about_its_edge():
    """With errors in proportion to the sag √(G/k), to which the slip is kept."""
    start = 0.5 * ALPHA
    # The edge carries less than the weight, as the block begins to fall.
    carried = GRAVITY * (1.0 - 0.75 * np.sin(ALPHA - start) ** 2)

    def touch(stiffness):
        law = lie_jax.contact.HuntCrossley(stiffness, dissipation=0.5)
        overlap = jnp.sqrt(0.5 * carried / stiffness)
        system, state = block(start, overlap, 0.0, law, 1.0 / jnp.sqrt(stiffness))
        # The first vertex is one of the other edge.
        other = lie_jax.Event(lambda t, q, v: system.contacts(t, q, v).gap[0], "stop", direction=-1)
        options = {"dt": 2e-4, "steps": 2000, "events": [other], "max_events": 2, "throw": False}
        run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.8), state, **options)
        return run.events.t[0], -run.events.v[0, 4]

    def speed(tilt):
        return np.sqrt(TWICE_SQUARE * (np.cos(ALPHA - start) - np.cos(ALPHA - tilt)))

    # tilt = start - x², so that what is integrated stays finite where the block is at rest.
    limit = 2.0 / np.sqrt(TWICE_SQUARE * np.sin(ALPHA - start))
    time = quad(
        lambda x: 2.0 * x / speed(start - x * x) if x > 1e-6 else limit,
        0.0,
        np.sqrt(start),
        epsabs=1e-9,
    )[0]
    truth = np.asarray([time, speed(0.0)])
    ends = np.stack(jax.jit(jax.vmap(touch))(jnp.asarray([1e8, 1e9, 1e10])), axis=1)
    errors = np.abs(ends - truth[None])
    assert_allclose(errors[:-1] / errors[1:], np.sqrt(10.0), rtol=FIRST_ORDER)
    # Of second order in the sag, a hundredth of the last error.
    extrapolated = ends[2] + (ends[2] - ends[1]) / (np.sqrt(10.0) - 1.0)
    assert np.all(np.abs(extrapolated - truth) < 0.01 * errors[2])


@pytest.mark.full
def test_a_block_goes_on_rocking_with_the_ratio_of_housner():
    """Impacts without rebound are approached by more dissipation, and by stiffness that grows with
    its fourth power: the overlap of the impact, left at the speed 1/a, is soon over.

    The ratio is then off by the square of the rebound 1/a, and by the sag, which is kept to it.
    """
    turning = np.sqrt(TWICE_SQUARE * (np.cos(0.5 * ALPHA) - np.cos(ALPHA)))

    def ratio(part):
        stiffness, dissipation = 1e8 / part**4, 40.0 / part
        sag = jnp.sqrt(0.5 * GRAVITY / stiffness)
        law = lie_jax.contact.HuntCrossley(stiffness, dissipation=dissipation)
        # The instant at which the other edge touches.
        system, state = block(sag / WIDTH, sag, turning, law, 1e-3 * part**2)
        options = {"dt": 1e-5, "steps": 6000, "save": 6000, "throw": False}
        run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.8), state, **options)
        # What it would have turned with at the impact, by the energy of the pendulum.
        tilt = jnp.arcsin(-system.poses(run.q[-1])[0][0, 0, 2])
        higher = jnp.cos(ALPHA - tilt) - np.cos(ALPHA)
        return jnp.sqrt(run.v[-1, 4] ** 2 + TWICE_SQUARE * higher) / turning, tilt

    ratios, tilts = jax.jit(jax.vmap(ratio))(jnp.asarray([1.0, 0.5, 0.25]))
    # On the other edge.
    assert np.all(np.asarray(tilts) > 0.03)
    errors = np.asarray(ratios) - HOUSNER
    assert_allclose(errors[:-1] / errors[1:], 4.0, rtol=SECOND_ORDER)
    # Of higher order, a fiftieth of the last error.
    assert abs(errors[2] + (errors[2] - errors[1]) / 3.0) < 0.02 * errors[2]


# Half of the length of the rod (m), friction, and the angles (degrees) to the ground between which
# μ > (1 + 3 cos² θ)/(3 sin θ cos θ): more force on the tip presses it deeper into the ground.
LENGTH, FRICTION, JAMMING = 0.5, 1.5, (50.6415981605, 73.0484693655)
SQUARE = LENGTH**2 / 3.0
BALL = 0.02


def rod(angle, speed, law, slip, overlap=0.0, ball=BALL):
    """A slender rod, leaning forwards, whose tip is pushed along the ground (-x)."""
    height = LENGTH * jnp.sin(angle) + ball - overlap
    up = jnp.asarray([0.0, 0.0, 1.0])
    body = lie_jax.Body(
        "rod",
        1.0,
        jnp.diag(jnp.asarray([1e-3, SQUARE, SQUARE])),
        position=up * height,
        orientation=lie_jax.groups.quaternion.exp(jnp.asarray([0.0, -1.0, 0.0]) * angle),
        velocity=jnp.asarray([-speed, 0.0, 0.0]),
    )
    touching = lie_jax.contact.Contact(
        contact.Sphere("rod", ball, (-LENGTH, 0.0, 0.0)),
        contact.Plane("ground"),
        law,
        lie_jax.contact.Coulomb(FRICTION, slip),
    )
    mechanism = lie_jax.Mechanism([body], forces=[touching], gravity=(0, 0, -GRAVITY))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


def linear(stiffness, dissipation=0.0):
    """Linear spring with an onset of a tenth of the sag under the weight."""
    return lie_jax.contact.SmoothLinear(stiffness, 0.1 * GRAVITY / stiffness, dissipation)


def levers(angle):
    """Lever of the tip's contact along and above the ground, as parts of the radius of gyration."""
    along, above = LENGTH * np.cos(angle), LENGTH * np.sin(angle) + BALL
    return along / np.sqrt(SQUARE), above / np.sqrt(SQUARE)


@pytest.mark.parametrize("degrees", JAMMING)
def test_a_force_on_the_tip_accelerates_it_upwards_outside_of_the_jamming_angles_alone(degrees):
    ball, overlap, stiffness = 1e-9, 1e-10, 1e12

    @jax.jit
    def rate(angle):
        """Upward acceleration (m/s²) of the tip by the force on it."""
        slip = 1e-9
        system, state = rod(
            angle, 1.0, lie_jax.contact.HuntCrossley(stiffness, 1.0), slip, overlap, ball
        )
        vdot = system.acceleration(0.0, state.q, state.v, None)
        return vdot[2] + vdot[4] * LENGTH * jnp.cos(angle) + GRAVITY

    root = brentq(lambda x: float(rate(np.radians(x))), degrees - 1.0, degrees + 1.0, xtol=1e-11)
    # Off by the radius of the ball, in parts of the length, in degrees.
    assert_allclose(root, degrees, rtol=0, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("degrees", [40.0, 80.0])
def test_a_rod_slides_as_a_rigid_one_outside_of_the_jamming_angles(degrees):
    """With errors in proportion to the sag G/k, on both sides of the interval."""
    angle, speed, end, steps = np.radians(degrees), 4.0, 0.03, 3000

    def pressed(angle, omega):
        """Normal force (N), and the angular acceleration by a newton of it."""
        along, above = levers(angle)
        centrifugal = LENGTH * np.sin(angle) * omega**2
        force = (GRAVITY - centrifugal) / (1.0 + along**2 - FRICTION * along * above)
        return force, (FRICTION * above - along) / np.sqrt(SQUARE)

    def rates(t, y):
        force, turning = pressed(*y[:2])
        return [y[1], force * turning, FRICTION * force]

    rigid = solve_ivp(
        rates, (0.0, end), [angle, 0.0, -speed], method="DOP853", rtol=1e-12, atol=1e-12
    ).y[:, -1]
    # It slides all the way.
    assert rigid[2] + rigid[1] * levers(rigid[0])[1] * np.sqrt(SQUARE) < -0.5

    def slide(stiffness):
        # The spring's force begins half an onset below touch.
        overlap = (pressed(angle, 0.0)[0] + 0.05 * GRAVITY) / stiffness
        law, slip = linear(stiffness, 50.0), 1e-2 / jnp.sqrt(stiffness)
        system, state = rod(angle, speed, law, slip, overlap)
        options = {"dt": end / steps, "steps": steps, "save": steps, "throw": False}
        run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.5), state, **options)
        q, v = run.q[-1], run.v[-1]
        (force,) = system.contacts(run.t[-1], q, v).normal_force
        tilt = jnp.arcsin(system.poses(q)[0][0, 2, 0])
        return jnp.stack([tilt, -v[4], v[0], force])

    ends = np.asarray(jax.jit(jax.vmap(slide))(jnp.asarray([1e6, 1e7, 1e8])))
    truth = np.asarray([*rigid, pressed(*rigid[:2])[0]])
    motion = np.linalg.norm((ends - truth[None])[:, :3], axis=1)
    assert_allclose(motion[:-1] / motion[1:], 10.0, rtol=0.15)
    # Vibrations of the contact have speeds in proportion to the sag, and forces to its root.
    force = np.abs(ends[:, 3] - truth[3])
    assert np.all(force[:-1] / force[1:] > np.sqrt(10.0))


@pytest.mark.full
def test_a_rod_jams_within_the_jamming_angles_with_a_force_that_grows_with_the_root_of_stiffness():
    """The tip starts on the ground without pressing on it, and stops as if it hit something.

    For a frozen rod of 1 kg a newton on the tip accelerates the sliding tip by p downwards and
    brakes it by q; it accelerates the tip that sticks by s upwards. With N = k δ the sliding tip
    has δ̇ = √(p k) δ = p/q (u - u₀): it stops with δ̇ = p u/q, from where it goes on to the overlap
    δ² = δ̇²/k (1/p + 1/s). Weight and turning are of order log(k)/√k beside it.
    """
    angle, speed, count = np.radians(60.0), 1.0, 4000
    along, above = levers(angle)
    p = FRICTION * along * above - 1.0 - along**2
    q = FRICTION * (1.0 + above**2) - along * above
    s = 1.0 + along**2 - (along * above) ** 2 / (1.0 + above**2)
    assert p > 0.0
    limit = p * speed / q * np.sqrt(1.0 / p + 1.0 / s)

    def jam(stiffness):
        system, state = rod(angle, speed, linear(stiffness), 1e-4 * speed, 0.0 * stiffness)
        # Long against the time of the contact's vibration, 1/√k.
        dt = 80.0 / jnp.sqrt(stiffness) / count
        run = lie_jax.simulate(
            system, lie_jax.GeneralizedAlpha(0.8), state, dt=dt, steps=count, throw=False
        )
        contacts = jax.vmap(system.contacts)(run.t, run.q, run.v)
        force = contacts.normal_force[:, 0]
        peak = jnp.argmax(force)
        parted = contacts.gap[-1, 0] > 0.0
        return force[peak] / jnp.sqrt(stiffness), contacts.slip[peak, 0, 0], parted, run.v

    stiffness = np.asarray([1e8, 1e10, 1e12])
    peaks, slips, parted, velocities = jax.jit(jax.vmap(jam))(jnp.asarray(stiffness))
    assert np.all(np.isfinite(velocities)) and np.all(parted)
    # It sticks where the force is largest: what is left is the creep of friction, below its speed.
    assert np.all(np.abs(slips) < 1e-4 * speed)
    root = np.sqrt(stiffness)
    errors = peaks / limit - 1.0
    assert np.all(errors[:-1] / errors[1:] > 5.0)
    terms = np.stack([np.ones(3), 1.0 / root, np.log(stiffness) / root], axis=1)
    # A tenth of the last error.
    assert_allclose(np.linalg.solve(terms, peaks)[0], limit, rtol=2e-4)
