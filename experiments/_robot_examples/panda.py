"""An arm reaches a pose, and its inertias are identified from torques."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from experiments import _plots
from experiments._robot_examples import parts
from lie_jax import robotics
from lie_jax.estimation import transforms

FILE = "panda_description/urdf/panda.urdf"
DT, STEPS = 2e-3, 1000
# Of the closed loop, 1/s² and 1/s: critically damped.
GAINS = 64.0, 16.0
# Motions for the identification: samples a second, and their number.
RATE, SAMPLES = 40.0, 400
HARMONICS = 4
# Noise of the torques, N m, of the joints in the arm and in the wrist.
NOISE = np.asarray([0.2, 0.2, 0.2, 0.2, 0.05, 0.05, 0.05])
# What is known of a link at first: its mass to a factor, its centre of mass, m.
MASS_FACTOR, CENTER = 1.5, 0.03
# A ball with the mass and this radius (m) has the first inertia of a link.
RADIUS = 0.1


def main(path: Path, out: Path) -> dict[str, Any]:
    """Write panda.png, panda.html and panda_identified.urdf; returns the numbers."""
    model = parts.imported(path)
    mechanism = _closed_hand(model.mechanism)
    system, start = lie_jax.assemble(mechanism, lie_jax.Minimal())
    run, reached = _reach(model, system, start)
    parts.scene(out / "panda.html", model, system, run)

    lower, upper = _limits(model)
    rng = np.random.default_rng(0)
    seen, other = (_motion(rng, lower, upper) for _ in range(2))
    torques = _torques(mechanism, seen)
    measured = torques + NOISE * rng.normal(size=torques.shape)
    guess = _guess(mechanism, rng)
    fit = _identified(mechanism, seen, guess, measured)
    lie_jax.io.write_inertias(path, _with(mechanism, fit.estimates), out / "panda_identified.urdf")
    written = parts.imported(out / "panda_identified.urdf")

    right = _torques(mechanism, other)
    first = _torques(_with(mechanism, guess), other)
    again = _torques(_closed_hand(written.mechanism), other)
    _plot(out / "panda.png", run, reached, right, first, again)
    return {
        **{key: value for key, value in reached.items() if key != "errors"},
        "torque rms": _rms(right),
        "torque noise": NOISE,
        "rms error of the guess": _rms(first - right),
        "rms error identified": _rms(again - right),
        "rms residual / noise": _rms(
            (_torques(_with(mechanism, fit.estimates), seen) - measured) / NOISE
        ),
        "mass of the links": [float(body.mass) for body in mechanism.bodies[:7]],
        "mass identified": [float(link["mass"]) for link in fit.estimates.values()],
        "standard errors of mass": [float(x["mass"]) for x in fit.standard_errors.values()],
        "least eigenvalue of second moments": min(
            float(np.linalg.eigvalsh(0.5 * np.trace(j) * np.eye(3) - j)[0])
            for j in (np.asarray(link["inertia"]) for link in fit.estimates.values())
        ),
    }


def _closed_hand(mechanism: lie_jax.Mechanism) -> lie_jax.Mechanism:
    """The arm with its fingers welded to the hand, without what moved them."""
    joints = [
        lie_jax.RigidJoint(
            *(joint.parent, joint.child, joint.parent_point, joint.child_point, joint.orientation)
        )
        if isinstance(joint, lie_jax.PrismaticJoint)
        else joint
        for joint in mechanism.joints[:9]
    ]
    kinds = lie_jax.JointMotor, lie_jax.JointSpring
    forces = [force for force in mechanism.forces if isinstance(force, kinds) and force.is_angle]
    return dataclasses.replace(mechanism, joints=joints, forces=forces)


def _limits(model: lie_jax.io.ImportedModel) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = np.asarray([joint.limits for joint in model.joints[:7]]).T
    return lower, upper


def _reach(model, system, start) -> tuple[lie_jax.Trajectory, dict[str, Any]]:
    """Computed torque along a smooth path of the joints to the solution for a pose of the hand."""
    lower, upper = _limits(model)
    tool = model.frames["panda_hand_tcp"]
    turn = lie_jax.groups.so3.exp(jnp.asarray([np.pi, 0.0, 0.0]))
    goal = lie_jax.groups.se3.pose(turn, jnp.asarray([0.45, 0.35, 0.25]))
    middle = 0.5 * (lower + upper)
    state = dataclasses.replace(start, q=jnp.asarray(middle))
    starts = np.random.default_rng(0).uniform(lower, upper, (250, system.nq))
    solution = lie_jax.robotics.inverse_kinematics(
        system, [(tool, goal)], np.concatenate([middle[None], starts]), lower=lower, upper=upper
    )
    end, way = 0.75 * DT * STEPS, solution.q - middle

    def wish(t):
        s = jnp.clip(t / end, 0.0, 1.0)
        return middle + way * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)

    def policy(t, q, v):
        rate = jax.jacfwd(wish)
        push = jax.jacfwd(rate)(t) + GAINS[0] * (wish(t) - q) + GAINS[1] * (rate(t) - v)
        return robotics.inverse_dynamics(system, q, v, push, inputs=jnp.zeros(system.nu))

    run = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=DT, steps=STEPS, policy=policy)

    def error(q):
        return lie_jax.groups.se3.log(lie_jax.groups.se3.inverse(goal) @ tool.pose(system, q))

    errors = np.asarray(jax.jit(jax.vmap(error))(run.q))
    bound = np.asarray([actuator.limits[1] for actuator in model.actuators[:7]])
    used = jax.vmap(policy)(run.t, run.q, run.v)
    return run, {
        "residual of inverse kinematics": float(jnp.max(solution.residual)),
        "iterations": int(jnp.max(solution.iterations)),
        "position error": float(np.linalg.norm(errors[-1, :3])),
        "rotation error": float(np.linalg.norm(errors[-1, 3:])),
        "largest torque / limit": float(np.max(np.abs(used) / bound)),
        "errors": errors,
    }


def _motion(rng: np.random.Generator, lower, upper) -> tuple[jax.Array, ...]:
    """Angles, rates and accelerations (samples, 7) of random sums of sines within the limits."""
    t = jnp.arange(SAMPLES) / RATE
    size = rng.normal(size=(HARMONICS, 7))
    size *= 0.4 * (upper - lower) / np.sum(np.abs(size), axis=0)
    rate = 2.0 * np.pi * np.arange(1, HARMONICS + 1) * RATE / SAMPLES
    phase = rng.uniform(0.0, 2.0 * np.pi, (HARMONICS, 7))

    def angles(t):
        return 0.5 * (lower + upper) + jnp.sum(size * jnp.sin(rate[:, None] * t + phase), axis=0)

    rates = jax.jacfwd(angles)
    return tuple(jax.vmap(f)(t) for f in (angles, rates, jax.jacfwd(rates)))


@jax.jit
def _torques(mechanism: lie_jax.Mechanism, motion: tuple[jax.Array, ...]) -> jax.Array:
    system, _ = lie_jax.assemble(mechanism, lie_jax.Minimal())
    none = jnp.zeros(system.nu)

    def at(q, v, acceleration):
        return robotics.inverse_dynamics(system, q, v, acceleration, inputs=none)

    return jax.vmap(at)(*motion)


def _guess(mechanism: lie_jax.Mechanism, rng: np.random.Generator) -> dict[str, Any]:
    """Wrong masses, centres of mass and inertias of the seven links."""
    guess = {}
    for body in mechanism.bodies[:7]:
        mass = float(body.mass) * MASS_FACTOR ** rng.uniform(-1.0, 1.0)
        center = np.asarray(body.center_of_mass) + CENTER * rng.uniform(-1.0, 1.0, 3)
        inertia = np.asarray(lie_jax.solids.sphere(mass, RADIUS))
        guess[body.name] = {"mass": mass, "center": center, "inertia": inertia}
    return guess


def _with(mechanism: lie_jax.Mechanism, links: dict[str, Any]) -> lie_jax.Mechanism:
    bodies = [
        dataclasses.replace(
            body,
            mass=links[body.name]["mass"],
            center_of_mass=links[body.name]["center"],
            inertia=links[body.name]["inertia"],
        )
        if body.name in links
        else body
        for body in mechanism.bodies
    ]
    return dataclasses.replace(mechanism, bodies=bodies)


def _identified(mechanism, motion, guess, measured) -> lie_jax.estimation.Identification:
    """Torques do not determine all ten numbers of each link: priors hold those they do not."""
    chart = {"mass": transforms.positive, "center": transforms.free, "inertia": transforms.inertia}
    priors = {
        name: {
            "mass": (link["mass"], 0.5 * link["mass"]),
            "center": (link["center"], CENTER),
            "inertia": (link["inertia"], 0.02 * link["mass"]),
        }
        for name, link in guess.items()
    }
    return lie_jax.estimation.identify(
        lambda links: _torques(_with(mechanism, links), motion),
        guess,
        np.asarray(measured),
        noise=NOISE,
        transforms=dict.fromkeys(guess, chart),
        prior=priors,
        progress=False,
    )


def _rms(differences: jax.Array) -> np.ndarray:
    """Root mean square of each joint."""
    return np.sqrt(np.mean(np.asarray(differences) ** 2, axis=0))


def _plot(path: Path, run, reached, right, first, again) -> None:
    figure, (left, *both) = _plots.plt.subplots(1, 3, figsize=(10.0, 3.0))
    errors = reached["errors"]
    left.semilogy(run.t, np.linalg.norm(errors[:, :3], axis=1), label="position / m")
    left.semilogy(run.t, np.linalg.norm(errors[:, 3:], axis=1), label="rotation / rad")
    left.set(xlabel="t / s", title="error of the pose")
    left.legend()
    t = np.arange(SAMPLES) / RATE
    for axes, joint in zip(both, (1, 3), strict=True):
        axes.plot(t, first[:, joint], color=_plots.ORANGE, label="first guess")
        axes.plot(t, right[:, joint], color=_plots.BLACK, lw=2.5, label="truth")
        axes.plot(t, again[:, joint], "--", color=_plots.SKY, label="identified")
        axes.set(xlabel="t / s", title=f"another motion: torque {joint + 1} / N m")
    both[0].legend()
    _plots.save(figure, path)
