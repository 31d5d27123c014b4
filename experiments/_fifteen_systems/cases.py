"""The fifteen systems of [S3] Table 1: models, motions that are compared, digits, a parameter."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import lie_jax
from models import (
    bricard,
    dual_spin,
    floating_bodies,
    follower_torque,
    free_body,
    governor,
    heavy_top,
    quadrotor_payload,
    satellite,
    slider_crank,
    space_robot,
    spherical_pendulum,
    three_bars,
    three_bodies,
)


class Case(NamedTuple):
    """A row of the table and the run that stands for it.

    `build(formulation, x)`: system and state, with one of its parameters, named by `parameter`,
    multiplied by x; `read(system, q, v)`: numbers of the state at the end, after `duration` (s),
    and `truth` their digits; `steps`: the fewest of a run. `changes_energy`: whether dampers or
    given torques change the energy. `differentiable`: the method whose derivative is compared.
    """

    number: str
    build: Callable[..., tuple[Any, lie_jax.State]]
    parameter: str
    read: Callable[..., Any]
    truth: NDArray
    duration: float
    steps: int
    changes_energy: bool = False
    differentiable: str = "RKMK rk4"


def _flat(*parts: Any) -> NDArray:
    return np.concatenate([np.ravel(np.asarray(part)) for part in parts])


def _times(x: Any, values: Any) -> Any:
    return x * jnp.asarray(values, float)


def _crank(system, q, v):
    angle = slider_crank.crank_angle(system, q)
    # An angle has any number of turns.
    turned = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    return jnp.concatenate([slider_crank.slider_position(system, q)[None], turned])


def _crank_truth() -> NDArray:
    angle, _, slide, _ = slider_crank.REFERENCE[1.0]
    return np.asarray([slide, np.cos(angle), np.sin(angle)])


def _base(system, q, v):
    rotation, position = system.poses(q)
    return jnp.concatenate([rotation[0].ravel(), position[0]])


def _orientation(system, q, v):
    return system.poses(q)[0][0].ravel()


def _wheels(system, q, v):
    observed = satellite.observe(system, q, v)
    # Speeds of wheels in units of 100 rad/s.
    return observed.at[7:].divide(100.0)


def _spun(system, q, v):
    observed = dual_spin.observe(system, q, v)
    return observed.at[3].divide(100.0)


def _scaled(truth: Any, first: int, last: int | None) -> NDArray:
    numbers = _flat(*truth)
    numbers[first:last] /= 100.0
    return numbers


CASES = {
    "free rigid body": Case(
        "1", lambda f, x: free_body.build(f, omega_body=_times(x, free_body.OMEGA_BODY)),
        "angular velocity", lambda s, q, v: free_body.observed_point(s, q),
        _flat(free_body.REFERENCE[0.25][0]), 0.25, 250,
    ),
    "heavy top, constrained": Case(
        "2", lambda f, x: heavy_top.build(f, constrained=True, mass=x * heavy_top.MASS),
        "mass", lambda s, q, v: heavy_top.center_of_mass(s, q),
        _flat(heavy_top.REFERENCE[0.5]), 0.5, 500,
    ),
    "heavy top, free of constraints": Case(
        "3", lambda f, x: heavy_top.build(f, mass=x * heavy_top.MASS),
        "mass", lambda s, q, v: heavy_top.center_of_mass(s, q),
        _flat(heavy_top.REFERENCE[0.5]), 0.5, 500,
    ),
    "body under a follower torque": Case(
        "4",
        lambda f, x: follower_torque.build(
            f, inertia=_times(x, np.diag(follower_torque.INERTIA))
        ),
        "inertia", _orientation, _flat(follower_torque.REFERENCE[5.0][0]), 5.0, 250,
        changes_energy=True,
    ),
    "slider-crank": Case(
        "5", lambda f, x: slider_crank.build(f, rod_mass=x * slider_crank.ROD_MASS),
        "mass of the rod", _crank, _crank_truth(), 1.0, 200,
    ),
    "spherical double pendulum": Case(
        "6", lambda f, x: spherical_pendulum.build(f, length=_times(x, spherical_pendulum.LENGTH)),
        "lengths", lambda s, q, v: spherical_pendulum.positions(s, q).ravel(),
        _flat(spherical_pendulum.REFERENCE[1.0]), 1.0, 100,
    ),
    "governor with compliant joints": Case(
        "7", lambda f, x: governor.build_compliant(f, stiffness=x * governor.SOFT_STIFFNESS),
        "stiffness", governor.readings,
        _flat(governor.REFERENCE_COMPLIANT[0.1]), 0.1, 1000, changes_energy=True,
    ),
    "spacecraft with reaction wheels": Case(
        "8",
        lambda f, x: satellite.build(
            f, torques=satellite.MANOEUVRE, wheel_speeds=_times(x, satellite.WHEEL_SPEEDS)
        ),
        "speeds of the wheels", _wheels,
        _scaled(satellite.REFERENCE[1.0], 7, None), 1.0, 500, changes_energy=True,
    ),
    "orthogonal Bricard mechanism": Case(
        "9", lambda f, x: bricard.build(f, length=x * bricard.LENGTH),
        "length", lambda s, q, v: bricard.observed_point(s, q),
        _flat(bricard.REFERENCE[1.0][0]), 1.0, 100,
        # Stages of explicit steps leave the constraints, where the redundant one contradicts the
        # others: accelerations there are no smooth function of the bars' length.
        differentiable="generalized-α",
    ),
    "two quadrotors and a payload": Case(
        "10",
        lambda f, x: quadrotor_payload.build(
            f, payload_mass=x * quadrotor_payload.PAYLOAD_MASS
        ),
        "mass of the payload", lambda s, q, v: quadrotor_payload.positions(s, q).ravel(),
        _flat(quadrotor_payload.REFERENCE[2.0]), 2.0, 200, changes_energy=True,
    ),
    "satellite with a manipulator": Case(
        "11", lambda f, x: space_robot.build(f, base_mass=x * space_robot.BASE_MASS),
        "mass of the base", lambda s, q, v: space_robot.observe(s, q),
        _flat(*space_robot.REFERENCE[5.0]), 5.0, 500, changes_energy=True,
    ),
    "floating bodies, ball joint": Case(
        "12a",
        lambda f, x: floating_bodies.build(
            f, joint="ball", density=x * floating_bodies.DENSITY
        ),
        "density", lambda s, q, v: floating_bodies.corners(s, q).ravel(),
        _flat(floating_bodies.REFERENCE["ball"][1.0]), 1.0, 200,
    ),
    "floating bodies, hinge": Case(
        "12b",
        lambda f, x: floating_bodies.build(
            f, joint="hinge", density=x * floating_bodies.DENSITY
        ),
        "density", lambda s, q, v: floating_bodies.corners(s, q).ravel(),
        _flat(floating_bodies.REFERENCE["hinge"][1.0]), 1.0, 200,
    ),
    "closed loop of three bars": Case(
        "13", lambda f, x: three_bars.build(f, mass=_times(x, three_bars.MASS)),
        "masses", lambda s, q, v: three_bars.joint_points(s, q).ravel(),
        _flat(three_bars.REFERENCE[1.0]), 1.0, 200,
    ),
    "dual-spin satellite": Case(
        "14", lambda f, x: dual_spin.build(f, damping=x * dual_spin.DAMPING),
        "damping", _spun, _scaled(dual_spin.REFERENCE[10.0], 3, 4), 10.0, 400, changes_energy=True,
    ),
    "three bodies with two hinges": Case(
        "15", lambda f, x: three_bodies.build(f, joint_rates=_times(x, three_bodies.JOINT_RATES)),
        "rates of the joints", _base,
        _flat(three_bodies.REFERENCE[10.0]["R"], three_bodies.REFERENCE[10.0]["r"]), 10.0, 200,
    ),
}  # fmt: skip
