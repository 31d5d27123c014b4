"""Programs whose wait `benchmarks.compile_cost` measures: mechanisms, methods, what is asked."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import lie_jax
from models import (
    bar_pendulum,
    chain,
    flexible_crank,
    flying_beam,
    four_bars,
    heavy_top,
    quadruped,
    slider_crank,
)

STEPS = 100
_X, _Y, _Z = np.eye(3)


class Program(NamedTuple):
    """Function of one number, compiled as a whole in each of the `modes`, and where it is called.

    Without modes it is called as it is, and compiles several programs.
    """

    function: Callable
    at: float
    modes: tuple[str, ...] = ()


def _end(system: Any, state: Any, integrator: Any, **options: Any) -> Any:
    options = {"dt": 1e-3, "steps": STEPS, "throw": False} | options
    return jnp.sum(lie_jax.simulate(system, integrator, state, **options).q[-1])


def _of(build: Callable, integrator: Any, **options: Any) -> Callable:
    def function(number: Any) -> Any:
        system, state = build(number)
        return _end(system, state, integrator, **options)

    return function


def _shaft(mass: Any) -> tuple:
    """Three bodies: a crank with a driver, two universal joints, and a bearing that closes it."""
    inertia = jnp.diag(jnp.asarray([0.02, 0.02, 0.01])) * mass
    names = ("in", "middle", "out")
    bodies = [lie_jax.Body(x, mass, inertia, position=(0, 0, 0.5 + i)) for i, x in enumerate(names)]
    ends = (0, 0, 0.5), (0, 0, -0.5)
    entry = lie_jax.RevoluteJoint("ground", "in", _Z, child_point=ends[1])
    joints = [
        entry,
        lie_jax.UniversalJoint("in", "middle", _X, _Y, *ends),
        lie_jax.UniversalJoint("middle", "out", _X, _Y, *ends),
        lie_jax.RevoluteJoint("ground", "out", _Z, (0, 0, 3.0), ends[0]),
        lie_jax.JointDriver(entry, value=lambda t: 2.0 * t * t),
    ]
    load = lie_jax.PointForce("out", lambda t: jnp.asarray([0.3, 0.1, 0.0]) * t)
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints, [load]), lie_jax.Minimal())


def _six_bar(formulation: Any) -> Callable:
    """Watt's six-bar linkage: two loops that share two links of three hinges each."""
    places = {"A": (0, 0), "B": (0, 1), "C": (3, 2), "D": (3.5, 0)}
    places |= {"E": (2, 3), "F": (4.5, 1.5), "G": (4, 3.5)}
    points = {name: np.asarray([*xy, 0.0]) for name, xy in places.items()}
    links = ("AB", "BCE", "DCF", "EG", "FG")
    hinges = (
        ("A", "ground", "AB"), ("B", "AB", "BCE"), ("D", "ground", "DCF"), ("C", "BCE", "DCF"),
        ("E", "BCE", "EG"), ("F", "DCF", "FG"), ("G", "EG", "FG"),
    )  # fmt: skip
    centers = {link: np.mean([points[x] for x in link], axis=0) for link in links}
    centers["ground"] = np.zeros(3)

    def build(mass):
        inertia = 0.1 * mass * jnp.eye(3)
        bodies = [lie_jax.Body(x, mass, inertia, position=centers[x]) for x in links]
        joints = [
            lie_jax.RevoluteJoint(
                first, second, _Z, points[x] - centers[first], points[x] - centers[second]
            )
            for x, first, second in hinges
        ]
        mechanism = lie_jax.Mechanism(bodies, joints, gravity=(0, -9.81, 0))
        return lie_jax.assemble(mechanism, formulation)

    return build


def _arm(mass: Any) -> tuple:
    """Seven hinges with springs in joint coordinates."""
    axes = [_Z, _Y, _Z, _Y, _Z, _Y, _Z]
    bodies = [
        lie_jax.Body(f"link {i}", mass, 0.02 * mass * jnp.eye(3), position=(0, 0, 0.3 + 0.3 * i))
        for i in range(7)
    ]
    names = ["ground", *(body.name for body in bodies)]
    pairs = list(zip(names, names[1:], axes, strict=False))
    joints = [lie_jax.RevoluteJoint(*pair, child_point=(0, 0, -0.3)) for pair in pairs]
    springs = [
        lie_jax.JointSpring(joint, stiffness=50.0, damping=2.0, relaxed=0.1) for joint in joints
    ]
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints, springs), lie_jax.Minimal())


def _cantilever(bending: Any) -> Any:
    stiffness = jnp.stack([1e4 + 0.0 * bending] * 3 + [bending] * 3)
    section = lie_jax.beams.Section(stiffness, 1.0, (1.0, 1.0, 1.0))
    line = lie_jax.beams.line("beam", section, 10.0, 8)
    load = lie_jax.PointForce(line.nodes[-1].name, jnp.asarray([0.0, 0.0, 8.0]))
    joint = lie_jax.RigidJoint("ground", line.nodes[0].name)
    mechanism = lie_jax.Mechanism(line.nodes, [joint], [*line.elements, load], gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    return jnp.sum(lie_jax.equilibrium(system, state).q)


def _plate(young: Any) -> Any:
    nodes = np.asarray([[x, 0.5 * y, 0.0] for x in range(5) for y in range(3)], float)
    first = np.asarray([3 * i + j for i in range(4) for j in range(2)])
    quads = np.stack([first, first + 3, first + 4, first + 1], axis=1)
    plate = lie_jax.shells.surface("p", (nodes, quads), 0.02, young, 0.3, 1.0, clamped=range(3))
    load = lie_jax.PointForce("p 14", jnp.asarray([0.0, 0.0, 1.0]))
    forces = [*plate.elements, load]
    mechanism = lie_jax.Mechanism(plate.nodes, forces=forces, gravity=(0, 0, 0))
    system, state = lie_jax.assemble(mechanism, lie_jax.SE3())
    return jnp.sum(lie_jax.equilibrium(system, state).q)


def _cart(mass: Any, *, motor: bool = False) -> tuple:
    """A pendulum on a cart that nothing holds along its rail, along which a motor may act."""
    bodies = [
        lie_jax.Body("cart", mass, jnp.eye(3)),
        lie_jax.Body("rod", 0.5, 0.1 * jnp.eye(3), position=(0, 0, -0.5)),
    ]
    joints = [
        lie_jax.PrismaticJoint("ground", "cart", _X),
        lie_jax.RevoluteJoint("cart", "rod", _Y, child_point=(0, 0, 0.5)),
    ]
    motors = [lie_jax.JointMotor(joints[0], input=0)] if motor else []
    return lie_jax.assemble(lie_jax.Mechanism(bodies, joints, motors), lie_jax.Minimal())


def _with_policy(gain: Any) -> Any:
    system, state = _cart(2.0, motor=True)
    policy = lie_jax.Policy(lambda t, q, v: -gain * (q[:1] + v[:1]), sample_time=0.01)
    return _end(system, state, lie_jax.RKMK("rk4"), policy=policy)


def _with_an_event(mass: Any) -> Any:
    """Automatic steps between given times, with an event that reverses the motion."""
    system, state = _cart(mass)
    turn = lie_jax.Event(lambda t, q, v: q[1] - 0.05, lambda t, q, v: (q, -v))
    options = {"adaptive": lie_jax.Adaptive(), "save": np.linspace(0.01, 0.1, 10)}
    moving = lie_jax.State(state.q, state.v.at[1].set(2.0))
    return _end(system, moving, lie_jax.RKMK("dopri5"), events=[turn], **options)


def _filtered(mass: Any) -> Any:
    """Likelihood of a cart's places under a random force along its rail."""
    system, state = _cart(mass, motor=True)
    model = lie_jax.estimation.Model(
        system,
        lie_jax.RKMK("rk4"),
        measure=lambda t, q, v: q[:1],
        noise=0.01,
        process={"inputs": 0.1},
    )
    data, covariance = jnp.zeros((STEPS + 1, 1)), 1e-2 * jnp.eye(4)
    return lie_jax.estimation.filter(model, data, state, covariance, dt=1e-3).log_likelihood


def _convergence(mass: float) -> Any:
    system, state = heavy_top.build(mass=mass)
    methods = {"RKMK4": lie_jax.RKMK("rk4"), "CG3": lie_jax.CrouchGrossman(3)}
    found = lie_jax.convergence(system, methods, state, 0.1, (50, 100, 200))
    return list(found.configuration_errors.values())


def _free_direction(mass: float) -> Any:
    return lie_jax.equilibrium(*_cart(mass)).q


def _cycle(mass: Any) -> Any:
    """Period of a pendulum on a cart, from a start at rest."""
    system, state = _cart(mass)
    held = lie_jax.State(state.q.at[1].set(0.5), state.v)
    orbit = lie_jax.periodic_orbit(
        system, lie_jax.RKMK("rk4"), held, period=1.5, steps=STEPS, free_period=True
    )
    return orbit.period


def _further(mass: Any) -> tuple:
    """Least effort in 2 s that brings the cart 1 m further, with its pendulum at rest."""
    system, state = _cart(mass, motor=True)

    def effort(t: Any, q: Any, v: Any, u: Any) -> Any:
        return 0.5 * jnp.sum(u**2)

    def further(q: Any, v: Any) -> Any:
        return jnp.concatenate([q - jnp.asarray([1.0, 0.0]), v])

    options = {"steps": STEPS, "duration": 2.0, "running": effort, "end": further}
    return lie_jax.control.Phase(system, lie_jax.RKMK("rk4"), **options), state


def _optimal_control(mass: Any) -> Any:
    return lie_jax.control.solve(*_further(mass)).cost


def _controller(mass: Any) -> Any:
    """First inputs of a controller and cost of its second plan: two plans, one iteration."""
    phase, state = _further(mass)
    controller, plan = lie_jax.control.mpc(phase, state)
    u, plan = controller(state, plan)
    return jnp.sum(u) + plan.cost


def _reactions(mass: float) -> Any:
    system, state = slider_crank.build(rod_mass=mass)
    run = lie_jax.simulate(system, lie_jax.GeneralizedAlpha(0.9), state, dt=1e-3, steps=STEPS)
    return jax.tree.leaves(
        system.reactions(run.t, run.q, run.v, run.acceleration, run.multipliers)
    )[0]


def programs() -> dict[str, Program]:
    """All programs by name."""
    explicit, implicit = lie_jax.RKMK("rk4"), lie_jax.GeneralizedAlpha(0.9)
    result, forward, gradient = "result", "forward mode", "gradient"
    both, minimal = (result, gradient), lie_jax.Minimal()

    def joint(mass):
        return heavy_top.build(constrained=True, mass=mass)

    def four_bar(mass):
        return four_bars.build(minimal, loops=1, mass=mass)

    def slider(mass):
        return slider_crank.build(rod_mass=mass)

    def beam(bending):
        return flying_beam.build(8, bending=bending)

    def beam_of_order_4(bending):
        return flying_beam.build(8, bending=bending, order=4)

    def flexible(young):
        return flexible_crank.build(young)

    def flexible_in_joints(young):
        return lie_jax.assemble(flexible_crank.mechanism(young), minimal)

    def meshed(young):
        return bar_pendulum.hung(bar_pendulum.body(young=young))

    def legged(mass):
        return quadruped.build(trunk_mass=mass)

    six_bars = {
        f"Watt's six-bar, {title}, {name}": Program(_of(_six_bar(formulation), method), 1.0, both)
        for title, formulation in (("R3SO3", lie_jax.R3SO3()), ("Minimal", minimal))
        for name, method in (("RKMK4", explicit), ("generalized-α", implicit))
    }
    return {
        "top, RKMK4": Program(_of(lambda mass: heavy_top.build(mass=mass), explicit), 15.0, both),
        "top with its joint, generalized-α": Program(_of(joint, implicit), 15.0, both),
        "slider-crank, generalized-α": Program(_of(slider, implicit), 0.5, both),
        "four-bar, Minimal, RKMK4": Program(
            _of(four_bar, explicit), 1.0, (result, forward, gradient)
        ),
        "shaft with driver, Minimal, RKMK4": Program(_of(_shaft, explicit), 1.0, (forward,)),
        **six_bars,
        "beam of 8, generalized-α": Program(_of(beam, implicit, dt=1e-2), 500.0, (gradient,)),
        "beam of 8, order 4, generalized-α": Program(
            _of(beam_of_order_4, implicit, dt=1e-2), 500.0, both
        ),
        "flexible slider-crank, generalized-α": Program(
            _of(flexible, implicit, dt=1e-5), flexible_crank.YOUNG, both
        ),
        "flexible slider-crank, Minimal, generalized-α": Program(
            _of(flexible_in_joints, implicit, dt=1e-5), flexible_crank.YOUNG, both
        ),
        "pendulum of a mesh by its modulus, generalized-α": Program(
            _of(meshed, implicit), bar_pendulum.YOUNG, both
        ),
        "chain of 16, generalized-α": Program(
            _of(lambda mass: chain.build(n=16, mass=mass), implicit), 1.0, (gradient,)
        ),
        "arm of 7 hinges, RKMK4": Program(_of(_arm, explicit), 2.0, (gradient,)),
        "quadruped, ConvexContact": Program(_of(legged, lie_jax.ConvexContact()), 9.0, (gradient,)),
        "equilibrium of a cantilever": Program(_cantilever, 500.0, both),
        "equilibrium of a plate of 8": Program(_plate, 1e7, both),
        "cart with a policy, RKMK4": Program(_with_policy, 1.0, both),
        "cart with an event, automatic steps": Program(_with_an_event, 2.0, both),
        "periodic motion of a pendulum on a cart, RKMK4": Program(_cycle, 2.0, both),
        "cart with a filter, RKMK4": Program(_filtered, 2.0, (result, forward, gradient)),
        "convergence of two methods": Program(_convergence, 15.0),
        "equilibrium with a free direction": Program(_free_direction, 2.0),
        "optimal control of a cart, solve": Program(_optimal_control, 2.0, both),
        "optimal control of a cart, solve without jit": Program(_optimal_control, 2.0),
        "controller of a cart, mpc": Program(_controller, 2.0, both),
        "reactions of a run": Program(_reactions, 0.5),
    }
