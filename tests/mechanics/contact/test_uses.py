"""Uses of derivatives through contact: a law identified from a toss, the height of a hop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax
from lie_jax import contact
from lie_jax.estimation import transforms

pytestmark = pytest.mark.full

# Of estimates, in their standard errors.
WITHIN = 2.0
# Of derivatives against central differences, whose own error is less than a tenth of it.
HOP = 1e-6
# N m, s, m, kg
TORQUE, PUSH, LINK, HEAVY, LIGHT = 9.0, 0.1, 0.25, 3.0, 0.3

MASS, EDGE = 0.37, 0.1
TRUTH = {"friction": 0.18, "stiffness": 5e4, "dissipation": 0.8}
# m, rad: of a camera.
NOISE = 5e-4, 2e-3
DT, STEPS, EVERY = 5e-4, 1600, 10


def toss(parameters):
    """Positions (m) and rotations of a cube, thrown with a spin, that lands and slides."""
    cube = lie_jax.Body(
        "cube",
        MASS,
        lie_jax.solids.box(MASS, (EDGE, EDGE, EDGE)),
        position=(0.0, 0.0, 0.2),
        orientation=lie_jax.groups.quaternion.exp(jnp.asarray([0.4, 0.6, 0.2])),
        velocity=(1.2, 0.4, 0.0),
        omega_body=(3.0, -4.0, 2.0),
    )
    touching = lie_jax.contact.Contact(
        contact.Box("cube", (EDGE, EDGE, EDGE)),
        contact.Plane("ground"),
        lie_jax.contact.HuntCrossley(
            parameters["stiffness"], dissipation=parameters["dissipation"]
        ),
        lie_jax.contact.Coulomb(parameters["friction"], velocity=1e-2),
    )
    system, state = lie_jax.assemble(lie_jax.Mechanism([cube], forces=[touching]), lie_jax.R3SO3())
    run = lie_jax.simulate(
        system,
        lie_jax.GeneralizedAlpha(0.8),
        state,
        dt=DT,
        steps=STEPS,
        save=EVERY,
        throw=False,
    )
    rotation, position = jax.vmap(system.poses)(run.q)
    return {"position": position[:, 0], "rotation": rotation[:, 0]}


def test_the_law_of_a_cube_is_identified_from_its_toss():
    rng = np.random.default_rng(4)
    seen = jax.tree.map(np.asarray, jax.jit(toss)(TRUTH))
    assert seen["position"][:, 2].min() < 0.5 * EDGE * np.sqrt(2.0)
    turned = jax.vmap(lie_jax.groups.so3.exp)(
        NOISE[1] * rng.normal(size=(len(seen["rotation"]), 3))
    )
    seen = {
        "position": seen["position"] + NOISE[0] * rng.normal(size=seen["position"].shape),
        "rotation": np.einsum("nij,njk->nik", seen["rotation"], turned),
    }
    fit = lie_jax.estimation.identify(
        toss,
        {"friction": 0.3, "stiffness": 2e4, "dissipation": 0.4},
        seen,
        noise={"position": NOISE[0], "rotation": NOISE[1]},
        compare={"position": "vector", "rotation": "rotation"},
        transforms={name: transforms.positive for name in TRUTH},
        horizons=(50, 161),
        progress=False,
    )
    for name, value in TRUTH.items():
        off = abs(float(fit.estimates[name]) - value)
        assert off < WITHIN * float(fit.standard_errors[name]) < 0.1 * value, name


def hop(torque):
    """Height (m) of the trunk at its highest point, and the gap (m) of the foot before it.

    A trunk on a vertical guide, thigh and shank of one length. The knee pushes for PUSH seconds and
    the hip with half of it, which keeps the foot below the trunk.
    """
    bent, inertia = 0.9, lie_jax.solids.box(LIGHT, (0.02, 0.02, LINK))
    height, knee = 2.0 * LINK * np.cos(bent), -LINK * np.asarray([np.sin(bent), 0.0, np.cos(bent)])
    turned = [
        lie_jax.groups.quaternion.exp(jnp.asarray([0.0, angle, 0.0]))
        for angle in (0.0, bent, -bent)
    ]
    middle = (0.0, 0.0, -0.5 * LINK)
    places = [np.asarray([0.0, 0.0, height]), np.asarray([0.0, 0.0, height]) + knee]
    bodies = [
        lie_jax.Body("trunk", HEAVY, HEAVY * jnp.eye(3) / 100, position=places[0]),
        lie_jax.Body("thigh", LIGHT, inertia, middle, places[0], turned[1]),
        lie_jax.Body("shank", LIGHT, inertia, middle, places[1], turned[2]),
    ]
    y, below = (0.0, 1.0, 0.0), (0.0, 0.0, -LINK)
    joints = [
        lie_jax.PrismaticJoint("ground", "trunk", (0.0, 0.0, 1.0)),
        lie_jax.RevoluteJoint("trunk", "thigh", y),
        lie_jax.RevoluteJoint("thigh", "shank", y, below),
    ]
    forces = [
        lie_jax.JointMotor(joints[1], input=0),
        lie_jax.JointMotor(joints[2], input=1),
        lie_jax.contact.Contact(
            contact.Sphere("shank", 0.02, below),
            contact.Plane("ground", (0.0, 0.0, -0.02)),
            lie_jax.contact.HuntCrossley(1e6, dissipation=0.5),
            lie_jax.contact.Coulomb(0.8),
        ),
    ]
    system, state = lie_jax.assemble(lie_jax.Mechanism(bodies, joints, forces), lie_jax.Minimal())
    dt, steps = 2.5e-4, 600
    pushes = jnp.where(np.arange(steps) * dt < PUSH, torque, 0.0)
    run = lie_jax.simulate(
        system,
        lie_jax.GeneralizedAlpha(0.8),
        state,
        dt=dt,
        steps=steps,
        save=steps,
        inputs=jnp.outer(pushes, jnp.asarray([-0.5, 1.0])),
        throw=False,
    )
    q, v = run.q[-1], run.v[-1]
    masses = jnp.asarray([HEAVY, LIGHT, LIGHT])

    def center(q):
        rotation, position = system.poses(q)
        arms = jnp.asarray([[0.0, 0.0, 0.0], middle, middle])
        return masses @ (position + jnp.einsum("nij,nj->ni", rotation, arms))[:, 2] / masses.sum()

    high, rise = jax.jvp(center, (q,), (v,))
    (gap,) = system.contacts(0.0, q, v).gap
    return high + rise**2 / (2 * 9.81), (gap, rise)


def test_the_height_of_a_hop_follows_from_the_torque():
    run = jax.jit(hop)
    _, (gap, rise) = run(TORQUE)
    assert gap > 0.01 and rise > 0.3
    _, slope, _ = jax.jit(lambda x: jax.jvp(hop, (x,), (1.0,), has_aux=True))(TORQUE)
    backward = jax.jit(jax.grad(hop, has_aux=True))(TORQUE)[0]
    step = 1e-3
    ends = [float(run(TORQUE + k * step)[0]) for k in (-2, -1, 1, 2)]
    difference = (8.0 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12.0 * step)
    for derivative in (slope, backward):
        assert abs(float(derivative) / difference - 1.0) < HOP
