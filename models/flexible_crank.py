"""The planar slider-crank with a flexible connecting rod of the test set for initial value solvers.

The crank turns at a constant rate; the rod bends by two sines and stretches by a quadratic, whose
two amplitudes belong to its middle and its end. The rod's frame is at the crank's pin, its x axis
runs through the pin of the slider. All moves in the x-y plane, without gravity.

Source: Simeon, "Modelling a flexible slider crank mechanism by a mixed system of DAEs and PDEs"
(1996); Mazzia, Magherini, "Test Set for Initial Value Problem Solvers", problem "slider crank". The
sums over the rod's mass are those of that problem: its π has eight digits, and the mass of the
stretching modes is fifteen times that of their shapes.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import lie_jax
from lie_jax.mechanics.flexible.deformation import Deformation
from lie_jax.multibody.absolute.system import RigidBodySystem
from models.fixed_point import Numbers

CRANK, ROD = 0.15, 0.30
CRANK_MASS, ROD_MASS, SLIDER_MASS = 0.36, 0.151104, 0.075552
# About the crank's pivot, and about the rod's pin at the crank.
CRANK_INERTIA, ROD_INERTIA = 0.002727, 0.0045339259
YOUNG, DENSITY, WIDTH, HEIGHT = 2e11, 7870.0, 0.008, 0.008
RATE = 150.0
PI = 3.1415927

# At t = 0: position of the slider, amplitudes; their rates, and that of the rod's angle.
SLIDER = 0.450016933
AMPLITUDES = (0.0, 0.0, 0.103339863e-4, 0.169327969e-4)
# These positions do not close the linkage: rates of its constraints, which the test set keeps at
# zero, leave the gap as it is. Here the pin lies as far from the slider's origin.
PIN = CRANK + ROD + AMPLITUDES[3] - SLIDER
ROD_RATE, SLIDER_RATE = -74.99576703969453, -2.689386719979040e-06
RATES = (4.448961125815990e-01, 4.634339319238670e-03, -1.785910760000550e-06, SLIDER_RATE)

# φ1, φ2 (rad), x3 (m) and the four amplitudes (m) at t = 0.1, by the test set.
REFERENCE = (
    *(15.00000000000104, -0.3311734988256260, 0.1697373328427860),
    *(1.893192899613509e-4, 2.375751249879174e-5, -5.323896770569702e-6, -8.363313279112129e-6),
)


def rod(young: Numbers = YOUNG) -> Deformation:
    """The rod's modes: sines of one and two half waves, then displacements of middle and end."""
    volume, mass = WIDTH * HEIGHT * ROD, DENSITY * WIDTH * HEIGHT * ROD
    first, mixed, second = np.zeros((3, 4)), np.zeros((3, 3, 4)), np.zeros((3, 3, 4, 4))
    first[0, 2:] = DENSITY * volume * np.array([2 / 3, 1 / 6])
    first[1, 0] = DENSITY * volume * 2 / PI
    mixed[0, 0, 2:] = DENSITY * ROD * volume * np.array([1 / 3, 1 / 6])
    mixed[0, 1, :2] = DENSITY * ROD * volume * np.array([1 / PI, -0.5 / PI])
    second[1, 1, :2, :2] = mass * np.diag([0.5, 0.5])
    second[0, 0, 2:, 2:] = mass * np.array([[8.0, 1.0], [1.0, 2.0]])
    # Stretching modes against bending ones.
    both = np.array([[16 / PI**3, 0.0], [1 / PI - 8 / PI**3, -0.5 / PI]])
    second[0, 1, 2:, :2] = DENSITY * volume * both
    second[1, 0, :2, 2:] = second[0, 1, 2:, :2].T
    slender = PI**4 / 24 * (HEIGHT / ROD) ** 2
    bending, stretching = (
        np.diag([slender, 16 * slender]),
        np.array([[16.0, -8.0], [-8.0, 7.0]]) / 3,
    )
    stiffness = np.zeros((4, 4))
    stiffness[:2, :2], stiffness[2:, 2:] = bending, stretching
    shifts = np.zeros((2, 3, 4))
    shifts[1, 0, 3] = 1.0
    arrays = {
        "first": first,
        "mixed": mixed,
        "second": second,
        "stiffness": young * (WIDTH * HEIGHT / ROD * stiffness),
        "points": np.array([[0.0, 0.0, 0.0], [ROD, 0.0, 0.0]]),
        "shifts": shifts,
        "turns": np.zeros((2, 3, 4)),
    }
    known = {name: jnp.asarray(values) for name, values in arrays.items()}
    return Deformation(**known, damping=None, spin=None)


def mechanism(young: Numbers = YOUNG) -> lie_jax.Mechanism:
    """Crank, rod and slider, with a driver that turns the crank."""
    deformation, flat = rod(young), 1e-4
    about_center = ROD_INERTIA - ROD_MASS * ROD**2 / 4
    crank = lie_jax.Body(
        "crank", CRANK_MASS, np.diag([flat, CRANK_INERTIA, CRANK_INERTIA]), omega_body=(0, 0, RATE)
    )
    connecting = lie_jax.FlexibleBody(
        "rod",
        ROD_MASS,
        np.diag([flat, about_center, about_center]),
        (ROD / 2, 0.0, 0.0),
        position=(CRANK, 0.0, 0.0),
        velocity=(0.0, CRANK * RATE, 0.0),
        omega_body=(0.0, 0.0, ROD_RATE),
        deformation=deformation,
        interfaces=("crank", "slider"),
        nodes=deformation.points,
        modes=deformation.shifts,
        amplitudes=AMPLITUDES,
        amplitude_rates=RATES,
    )
    slider = lie_jax.Body(
        "slider",
        SLIDER_MASS,
        1e-5 * np.eye(3),
        position=(SLIDER, 0.0, 0.0),
        velocity=(SLIDER_RATE, 0.0, 0.0),
    )
    z = (0.0, 0.0, 1.0)
    pivot = lie_jax.RevoluteJoint("ground", "crank", axis=z)
    joints = [
        pivot,
        lie_jax.RevoluteJoint("crank", "rod.crank", axis=z, parent_point=(CRANK, 0.0, 0.0)),
        lie_jax.PrismaticJoint("ground", "slider", axis=(1, 0, 0)),
        # Hinges hold the plane already.
        lie_jax.GenericJoint("slider", "rod.slider", ("x", "y"), (PIN, 0.0, 0.0)),
        lie_jax.JointDriver(pivot, value=lambda t: RATE * t),
    ]
    return lie_jax.Mechanism([crank, connecting, slider], joints, gravity=(0, 0, 0))


def build(
    young: Numbers = YOUNG,
) -> tuple[RigidBodySystem, lie_jax.State]:
    """The mechanism with angles as coordinates, which count turns, and its initial state."""
    return lie_jax.assemble(mechanism(young), lie_jax.TaitBryan())


def readings(system: RigidBodySystem, q: Float[Array, " nq"]) -> tuple[Float[Array, ""], ...]:
    """Angles φ1 and φ2 (rad) of crank and rod, x3 (m) of the slider and the amplitude q1 (m)."""
    crank, connecting, slider = q[: 6 * len(system.names)].reshape(-1, 6)
    return crank[5], connecting[5], slider[0], system.amplitudes(q)["rod"][0]
