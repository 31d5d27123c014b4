"""Small mechanisms that several tests share."""

import jax.numpy as jnp
import numpy as np

import lie_jax


def pushed(t):
    """A force that depends on time (N)."""
    return jnp.stack([jnp.sin(t), 2.0 * jnp.cos(3.0 * t), jnp.ones_like(t)])


def inertia(rng) -> np.ndarray:
    """A random physical inertia: that of a cloud of point masses."""
    points = rng.normal(size=(8, 3)) * 0.3
    return sum(np.dot(p, p) * np.eye(3) - np.outer(p, p) for p in points)


def two_bodies(formulation, seed=1):
    """Two general bodies, two ball joints, friction, a driving and a constant force, gravity."""
    rng = np.random.default_rng(seed)

    def body(name):
        return lie_jax.Body(
            name,
            rng.uniform(1, 3),
            inertia(rng),
            center_of_mass=rng.normal(size=3) * 0.3,
            position=rng.normal(size=3),
            orientation=lie_jax.quaternion.exp(jnp.asarray(rng.normal(size=3))),
            velocity=rng.normal(size=3),
            omega_body=rng.normal(size=3),
        )

    mechanism = lie_jax.Mechanism(
        bodies=[body("upper"), body("lower")],
        joints=[
            lie_jax.SphericalJoint("ground", "upper", (0.1, 0.2, 0.3), rng.normal(size=3)),
            lie_jax.SphericalJoint("upper", "lower", rng.normal(size=3), rng.normal(size=3)),
        ],
        forces=[
            lie_jax.ViscousFriction("upper", "lower", 0.7),
            lie_jax.PointForce("lower", pushed, point=(0.1, -0.2, 0.4)),
            lie_jax.PointForce("upper", (1.0, 2.0, -3.0), point=(0.3, 0.1, 0.0)),
        ],
    )
    return lie_jax.assemble(mechanism, formulation)


def ball_chain(formulation, omegas, mass=1.0, inertia=None, length=0.5):
    """Hanging links on ball joints, frames at the upper joint, centres of mass mid-link.

    `omegas` (n, 3) are the initial angular velocities of the links relative to the one above.
    """
    inertia = np.diag([0.021, 0.022, 0.002]) if inertia is None else inertia
    down = jnp.asarray([0.0, 0.0, -length])
    bodies, joints = [], []
    place, velocity, omega = jnp.zeros(3), jnp.zeros(3), jnp.zeros(3)
    for i, relative in enumerate(jnp.asarray(omegas)):
        if i:
            velocity = velocity + jnp.cross(omega, down)
            place = place + down
        omega = omega + relative
        bodies.append(
            lie_jax.Body(
                f"link {i}",
                mass,
                inertia,
                center_of_mass=0.5 * down,
                position=place,
                velocity=velocity,
                omega_body=omega,
            )
        )
        joints.append(
            lie_jax.SphericalJoint(f"link {i - 1}", f"link {i}", parent_point=down)
            if i
            else lie_jax.SphericalJoint("ground", "link 0")
        )
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints), formulation)
