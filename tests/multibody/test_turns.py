"""Turns of springs and joints in absolute coordinates: counted by a run, by rates, or refused."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from tests.messages import check_message

X, Y, Z = np.eye(3)
# A disc that turns about z against a spring, and a pendulum that a load holds: programs compile
# once for both, whose numbers alone differ.
INERTIA, STIFFNESS, RATE = 0.1, 0.5, 30.0
FREQUENCY = np.sqrt(STIFFNESS / INERTIA)
# Errors of a method of order four with steps of 0.02 radians of the oscillation.
ERROR = 1e-6


def _built(formulation, body, spring, torque, gravity):
    """A body on a hinge of the ground with a spring that turns wind, and a torque on it."""
    bob = lie_jax.Body("bob", inertia=INERTIA * np.eye(3), **body)
    hinge, load = lie_jax.RevoluteJoint("ground", "bob", Z), lie_jax.Torque("bob", torque * Z)
    spring = lie_jax.JointSpring(hinge, **spring)
    mechanism = lie_jax.Mechanism([bob], [hinge], [spring, load], gravity=gravity)
    return lie_jax.assemble(mechanism, formulation)


def _wound(formulation, torque=0.0):
    """A disc with a rate that two turns of its spring stop."""
    body = {"mass": 1.0, "center_of_mass": 0.0 * X, "omega_body": (0, 0, RATE)}
    spring = {"stiffness": STIFFNESS, "damping": 0.0, "relaxed": 0.0}
    return _built(formulation, body, spring, torque, 0.0 * Y)


@pytest.mark.full
def test_energies_of_a_run_count_the_turns_of_its_springs():
    """45 J swing between motion and a spring that is wound by 13 rad."""
    system, state = _wound(lie_jax.R3SO3())
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=0.01, steps=300, save=10)
    energies = lie_jax.energies(system, run)
    phase = FREQUENCY * np.asarray(run.t)
    total = 0.5 * INERTIA * RATE**2
    assert_allclose(energies.potential, total * np.sin(phase) ** 2, atol=ERROR * total)
    assert_allclose(energies.kinetic, total * np.cos(phase) ** 2, atol=ERROR * total)
    # Poses alone know less than a turn, which is said.
    with pytest.warns(UserWarning, match=r"JointSpring\('ground', 'bob'\).*energies\("):
        system.potential_energy(run.q[-1])
    batch = jax.tree.map(lambda x: x[None], run)
    check_message(lambda: lie_jax.energies(system, batch), "shape (1, 31, 7)", "jax.vmap(")
    rows = run.q, run.v, run.t
    angle = RATE / FREQUENCY * np.sin(phase)
    assert np.max(np.abs(angle)) > 4.0 * np.pi
    assert_allclose(system.joint_coordinates(*rows)["ground", "bob"][:, 0], angle, atol=ERROR * 20)


@pytest.mark.full
def test_a_spring_that_must_be_wound_further_is_named():
    """Six radians hold 3 N m, which poses cannot say."""
    system, state = _wound(lie_jax.R3SO3(), torque=3.0)
    with pytest.raises(lie_jax.EquilibriumError) as error:
        lie_jax.equilibrium(system, state)
    for part in ("JointSpring('ground', 'bob') is wound by 3.1", "lie_jax.Minimal()"):
        assert part in str(error.value)


@pytest.mark.full
def test_joint_coordinates_find_an_equilibrium_beyond_a_half_turn():
    system, state = _wound(lie_jax.Minimal(), torque=3.0)
    assert_allclose(lie_jax.equilibrium(system, state).q, 3.0 / STIFFNESS, rtol=1e-12)


# Rate of the first angle, and instants: between two of them it turns by more than half a turn.
SPIN, INSTANTS = 5.0, np.arange(5.0)


def _spinning():
    """A body that turns about the first arm of its cross."""
    body = lie_jax.Body("a", 1.0, 0.1 * np.eye(3), omega_body=SPIN * X)
    joint = lie_jax.UniversalJoint("ground", "a", X, Y)
    mechanism = lie_jax.Mechanism([body], [joint], gravity=(0.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    half = 0.5 * SPIN * INSTANTS
    q = np.zeros((len(half), 7))
    q[:, 3], q[:, 4] = np.cos(half), np.sin(half)
    return system, jnp.asarray(q), jnp.tile(state.v, (len(half), 1)), jnp.asarray(INSTANTS)


def test_rates_settle_the_turns_between_coarse_instants():
    system, q, v, t = _spinning()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        angles = system.joint_coordinates(q, v, t)["ground", "a"]
        single = system.joint_coordinates(q[1])["ground", "a"]
    assert_allclose(angles[:, 0], SPIN * INSTANTS, atol=1e-12)
    assert_allclose(angles[:, 1], 0.0, atol=1e-12)
    assert_allclose(single[0], SPIN - 2.0 * np.pi, atol=1e-12)


def _coupled(formulation, coefficients):
    bodies = [lie_jax.Body(name, 1.0, np.eye(3)) for name in ("a", "b")]
    hinges = [lie_jax.RevoluteJoint("ground", body.name, X) for body in bodies]
    coupling = lie_jax.CouplingJoint(hinges[1], hinges[0], coefficients)
    return lie_jax.assemble(lie_jax.Mechanism(bodies, [*hinges, coupling]), formulation)


@pytest.mark.full
def test_powers_and_reactions_warn_of_turns_on_which_a_slope_depends():
    """A polynomial that is no line has another slope in every turn of its leader."""
    system, state = _coupled(lie_jax.R3SO3(), (0.0, 0.7, 0.1))

    def at(name, system, state, recalled=None):
        def value(q, v):
            recalling = (
                system if recalled is None else system.with_memory(system.memory_after(0.0, q, v))
            )
            given = (v,) if name == "reactions" else ()
            return getattr(recalling, name)(0.0, q, v, *given, jnp.zeros(system.nc))

        # Traced alone: nothing compiles.
        jax.eval_shape(value, state.q, state.v)

    for name in ("powers", "reactions"):
        words = rf"{name}\(q\) takes the angle of CouplingJoint.*\.{name}\(\*row\)\)\(run\.memory"
        with pytest.warns(UserWarning, match=words):
            at(name, system, state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at("powers", system, state, recalled=True)
        at("reactions", system, state, recalled=True)
        at("powers", *_coupled(lie_jax.R3SO3(), (0.0, 0.7)))
        at("powers", *_coupled(lie_jax.Minimal(), (0.0, 0.7, 0.1)))


def test_memories_of_all_instants_are_refused():
    system, state = _coupled(lie_jax.R3SO3(), (0.0, 0.7))
    memory = jax.eval_shape(lambda q, v: system.memory_after(0.0, q, v), state.q, state.v)
    # As many instants as elements: the first axis alone would not tell.
    for rows in (5, 1):
        whole = jax.tree.map(lambda x, rows=rows: np.zeros((rows, *x.shape)), memory)
        with pytest.raises(ValueError, match=r"with_memory\(memory=\) .*x\[k\], run\.memory"):
            system.with_memory(whole)
    with pytest.raises(ValueError, match="no memory of this system"):
        system.with_memory(())
    recalling = system.with_memory(jax.tree.map(lambda x: np.zeros(x.shape), memory))
    assert type(recalling) is type(system)


@pytest.mark.full
def test_turns_that_nothing_settles_are_said():
    system, q, v, t = _spinning()
    with pytest.warns(
        UserWarning, match=r"\('ground', 'a'\) from instant 0 to 1, .* run\.v, run\.t"
    ):
        system.joint_coordinates(q)
    # Four times as many turns as the positions have room for in between.
    uneven = v.at[2].multiply(3.0)
    with pytest.warns(UserWarning, match=r"from instant 1 to 2, .* save more instants"):
        system.joint_coordinates(q, uneven, t)
    check_message(lambda: system.joint_coordinates(q, v), "one of v= and t=", "run.t")


# A pendulum about z in gravity along -y, which a load winds by two turns and `ANGLE`.
MASS, ARM, GRAVITY, SPRING, DAMPER = 1.5, 0.4, 9.81, 8.0, 3.0
TURNS, ANGLE = 4.0 * np.pi, 0.3
TORQUE = SPRING * (TURNS + ANGLE) + MASS * ARM * GRAVITY * np.cos(ANGLE)
# k - m g l sin φ, over the inertia about the hinge.
SQUARE = (SPRING - MASS * ARM * GRAVITY * np.sin(ANGLE)) / (INERTIA + MASS * ARM**2)
# Of linearizations, and of the end of a motion that has decayed by e⁻⁴⁰.
ROUNDING = 1e-10


def _pendulum(formulation, angle=0.0, rest=0.0):
    """System and state of the pendulum at an angle; its spring rests at another one."""
    orientation = np.cos(0.5 * angle), 0.0, 0.0, np.sin(0.5 * angle)
    body = {"mass": MASS, "center_of_mass": ARM * X, "orientation": orientation}
    spring = {"stiffness": SPRING, "damping": DAMPER, "relaxed": rest}
    return _built(formulation, body, spring, TORQUE, -GRAVITY * Y)


def _square(system, state, t=0.0):
    linear = lie_jax.linearize(system, state, t=t)
    return np.linalg.solve(linear.reduced_mass, linear.reduced_stiffness)


@pytest.mark.full
def test_linear_motions_about_a_spring_that_is_wound_by_two_turns():
    """The coordinate of a hinge counts turns, and so does an angle at rest."""
    system, state = _pendulum(lie_jax.Minimal())
    assert_allclose(_square(system, lie_jax.State([TURNS + ANGLE], state.v)), SQUARE, rtol=ROUNDING)
    system, state = _wound(lie_jax.Minimal(), torque=3.0)
    held = lie_jax.State([3.0 / STIFFNESS], 0.0 * state.v)
    assert_allclose(_square(system, held), STIFFNESS / INERTIA, rtol=ROUNDING)
    assert_allclose(_square(*_pendulum(lie_jax.R3SO3(), ANGLE, -TURNS)), SQUARE, rtol=ROUNDING)


@pytest.mark.full
def test_linear_motions_about_the_end_of_a_run_that_winds_a_spring():
    """The memory of a run has the turns; without it the state is refused, and the spring named."""
    system, state = _pendulum(lie_jax.R3SO3())
    # As many rows as above, for one program.
    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=0.01, steps=930, save=31)
    end, recalled = (
        lie_jax.State(run.q[-1], 0.0 * run.v[-1]),
        system.with_memory(run.restart.memory),
    )
    assert_allclose(_square(recalled, end, run.t[-1]), SQUARE, rtol=ROUNDING)
    assert_allclose(lie_jax.equilibrium(recalled, end, t=run.t[-1]).q, end.q, atol=ROUNDING)
    check_message(
        lambda: lie_jax.linearize(system, end),
        f"{SPRING * TURNS:.3g}, acts on body 'bob'",
        "JointSpring('ground', 'bob') is taken between -π and π, 0.3 rad",
        "lie_jax.Minimal()",
        "system.with_memory(",
        "t=run.t[k]",
    )
