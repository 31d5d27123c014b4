"""Clamped beams under loads at the tip and along the line, against elliptic integrals, shooting
and linear theory.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lie_jax
from lie_jax import beams
from models import princeton_beam

# Numbers of elements; a beam that is wound up needs the second pair to show the order.
MESHES, FINE_MESHES = (8, 16), (16, 32)
# Of the exponent by which errors fall from one mesh to the other.
ORDER = 0.02
# Of the tip extrapolated from both meshes, in parts of the length.
EXTRAPOLATED = 1e-5
NONE = (0.0, 0.0, 0.0)


def deflected(elements, stiffness, length, force=NONE, moment=NONE, along=NONE):
    """Displacement of the tip (3,) under loads there, and along the line."""
    section = beams.Section(stiffness, 1.0, (1.0, 1.0, 1.0))
    line = beams.line("beam", section, length, elements, start="ground")
    tip = line.nodes[-1].name
    loads = [lie_jax.PointForce(tip, force), lie_jax.Torque(tip, moment)]
    mechanism = lie_jax.Mechanism(
        line.nodes,
        forces=[*line.elements, *loads, *beams.distributed(line, along)],
        gravity=(0, 0, 0),
    )
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    end = lie_jax.equilibrium(system, state)
    return np.asarray(system.poses(end.q)[1][-1]) - np.asarray([length, 0.0, 0.0])


def converges(truth, length, meshes=MESHES, **case):
    """Check the order of both meshes and the extrapolated tip, in the components with a truth."""
    truth = np.asarray(truth)
    coarse, fine = (deflected(n, length=length, **case) for n in meshes)
    errors = [np.linalg.norm(x - truth) for x in (coarse, fine)]
    assert_allclose(np.log2(errors[0] / errors[1]), 2.0, atol=ORDER)
    extrapolated = fine + (fine - coarse) / 3.0
    assert_allclose(extrapolated, truth, rtol=0, atol=EXTRAPOLATED * length)


# Shortening and deflection of the elastica under P by P L²/EI: elliptic integrals, 16 digits.
ELASTICA = {
    1.0: (0.05643323628337688, 0.3017207737998135),
    2.0: (0.1606417208251672, 0.4934574803967118),
    5.0: (0.3876283607244299, 0.7137915236119127),
    10.0: (0.5549955977537513, 0.8106090248802965),
}


@pytest.mark.full
@pytest.mark.parametrize("load", ELASTICA)
def test_elastica(load):
    shortening, deflection = ELASTICA[load]
    # Stretch and shear are below 1e-6.
    stiffness = (1e7, 1e7, 1e7, 1.0, 1.0, 1.0)
    truth = -shortening, deflection, 0.0
    converges(truth, 1.0, stiffness=stiffness, force=(0.0, load, 0.0))


# Of a beam wound up by a moment and pulled across (Ibrahimbegović 1997): tips by shooting.
HELIX = {
    0.1: (0.4102033526, 0.0537709031, -1.0917290193),
    0.2: (0.1150606983, 0.0083622229, -0.5984974909),
}


@pytest.mark.full
@pytest.mark.parametrize("part", HELIX)
def test_helix(part):
    """The tip is wound by one or two turns about z."""
    converges(
        np.asarray(HELIX[part]) - np.asarray([10.0, 0.0, 0.0]),
        10.0,
        FINE_MESHES,
        stiffness=(1e4, 1e4, 1e4, 100.0, 100.0, 100.0),
        force=(0.0, 0.0, 50.0 * part),
        moment=(0.0, 0.0, 200.0 * np.pi * part),
    )


def thick(young=2.07e11, poisson=0.3, width=0.1, height=0.5):
    shear, area = 0.5 * young / (1.0 + poisson), width * height
    flat, steep = height * width**3 / 12.0, width * height**3 / 12.0
    factor = 10.0 * (1.0 + poisson) / (12.0 + 11.0 * poisson)
    across = factor * shear * area
    return young * area, across, across, shear * (flat + steep), young * flat, young * steep


@pytest.mark.full
@pytest.mark.parametrize(
    ("force", "truth"),
    [(6.25e7, (-0.15097114424, 0.71056859786)), (6.25e4, (-1.8884917e-7, 8.0990325398e-4))],
)
def test_shear_deformable_cantilever(force, truth):
    """2 m long and 0.5 m high; tips by shooting."""
    converges((*truth, 0.0), 2.0, stiffness=thick(), force=(0.0, force, 0.0))


# Displacements of the Princeton beam's tip by force (N) and angle (degrees), by shooting, m.
PRINCETON = {
    (4.448, 45.0): (-0.003748208361, -0.003976433782, 0.056063500665),
    (8.896, 15.0): (-0.002248463842, -0.010643581436, 0.042192448630),
    (8.896, 45.0): (-0.014411824833, -0.008979196723, 0.109113115255),
    (8.896, 90.0): (-0.026021482773, 0.0, 0.146252357201),
    (13.345, 0.0): (-0.000304668367, -0.016061178877, 0.0),
    (13.345, 15.0): (-0.005340667767, -0.016577651973, 0.064734218007),
    (13.345, 30.0): (-0.017258922258, -0.016989798933, 0.118179534218),
    (13.345, 45.0): (-0.030452934696, -0.015621149906, 0.156774617721),
    (13.345, 60.0): (-0.041257300595, -0.011963545832, 0.182003786208),
    (13.345, 75.0): (-0.048085612480, -0.006470335303, 0.196138733764),
    (13.345, 90.0): (-0.050401015353, 0.0, 0.200683960608),
}


@pytest.mark.full
@pytest.mark.parametrize("case", PRINCETON)
def test_princeton_beam(case):
    force, degrees = case
    across = np.radians(degrees)
    converges(
        PRINCETON[case],
        princeton_beam.LENGTH,
        stiffness=princeton_beam.section().stiffness,
        force=force * np.asarray([0.0, -np.cos(across), np.sin(across)]),
    )


@pytest.mark.full
def test_a_load_along_the_line_bends_as_linear_theory_says():
    """Deflection p L⁴/(8 EI) + p L²/(2 GA), to the square of the slope."""
    load, length, bending, shear = 1e-3, 2.0, 3.0, 50.0
    stiffness = (1e6, shear, shear, 1.0, bending, bending)
    truth = load * length**4 / (8.0 * bending) + load * length**2 / (2.0 * shear)
    bent = deflected(4, stiffness, length, along=(0.0, load, 0.0))
    # Nodes are exact for small loads; the square of the slope is 1e-7.
    assert_allclose(bent[1], truth, rtol=1e-6)


@pytest.mark.full
def test_a_follower_load_along_the_line_turns_with_the_sections():
    """Half a ring under pressure."""
    length, bending, pressure = 1.0, 2.0, 1e-3
    section = beams.Section((1e5, 1e5, 1e5, 1.0, bending, bending), 1.0, (1.0, 1.0, 1.0))
    line = beams.line(
        "beam", section, length, 8, start="ground", rest_strain=(1, 0, 0, 0, 0, np.pi)
    )
    force = lie_jax.Mechanism(
        line.nodes,
        forces=[*line.elements, *beams.distributed(line, (0.0, pressure, 0.0), frame="body")],
        gravity=(0, 0, 0),
    )
    system, state = lie_jax.assemble(force, lie_jax.SE3())
    readings = system.beams(lie_jax.equilibrium(system, state).q)
    # At the clamped end of a half circle of radius a the moment of the pressure is 2 p a², at an
    # angle φ from the free end p a² (1 - cos φ); elements take it at their middles, up to h².
    radius, angle = length / np.pi, np.pi * (1.0 - (np.arange(8) + 0.5) / 8.0)
    moment = pressure * radius**2 * (1.0 - np.cos(angle))
    assert_allclose(np.abs(readings.resultant[:, 5]), moment, atol=0.03 * moment.max())
