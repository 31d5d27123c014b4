"""The cases in Exudyn, from the same numbers and initial states as ours.

Bodies have rotation vectors and its Lie group integrators; joints are its joints. Generalized-α
takes full Newton steps with the tangent operator in the iteration matrix, as ours does.
"""

# It is not installed everywhere, and its types are not to be relied upon.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false

from collections.abc import Callable
from typing import Any

import exudyn as exu
import numpy as np
from exudyn import itemInterface as items
from exudyn.rigidBodyUtilities import RigidBodyInertia

import lie_jax
from benchmarks.peers import ours
from benchmarks.peers.cases import RHO_INF, Missing, Program, Run, link_length, run_of
from models import chain, heavy_top, loops, puma560, rotor, slider_crank

X, Z = np.eye(3)[0], np.eye(3)[2]
# Systems with more bodies are solved by its sparse solver.
MOST_DENSE = 6
# Which of six axes joints hold: three translations, three rotations of the first body's frame.
BALL, ABOUT_X, ABOUT_Z = (1, 1, 1, 0, 0, 0), (1, 1, 1, 0, 1, 1), (1, 1, 1, 1, 1, 0)
ALONG_X = (0, 1, 1, 1, 1, 1)
IN_PLANE = (0, 1, 1, 0, 0, 0)
# The first body's x stays normal to the second's y.
UNIVERSAL = (1, 1, 1, 0, 0, 1)


def version() -> str:
    """Exudyn's."""
    return f"Exudyn {exu.config.Version()}"


class Model:
    """A system with a ground, to which bodies and joints are added."""

    def __init__(self):
        self.container = exu.SystemContainer()
        self.system = self.container.AddSystem()
        self.ground = self.system.AddObject(items.ObjectGround())
        self.bodies: list[Any] = []

    def body(self, mass, inertia, position, rotation, twist, gravity) -> None:
        """A body about its centre of mass, with a body-fixed twist (6,), translation first."""
        properties = RigidBodyInertia(
            mass=float(mass), inertiaTensor=np.asarray(inertia), com=np.zeros(3),
            inertiaTensorAtCOM=True,
        )  # fmt: skip
        rotation = np.asarray(rotation)
        self.bodies.append(
            self.system.CreateRigidBody(
                inertia=properties,
                nodeType=exu.NodeType.RotationRotationVector,
                referencePosition=np.asarray(position),
                referenceRotationMatrix=rotation,
                initialVelocity=rotation @ np.asarray(twist[:3]),
                initialAngularVelocity=rotation @ np.asarray(twist[3:]),
                gravity=list(gravity),
            )
        )

    def marker(self, body: int, point=(0.0, 0.0, 0.0)) -> Any:
        """A marker on a body, -1 for the ground, at a body-fixed point."""
        number = self.ground if body < 0 else self.bodies[body]
        return self.system.AddMarker(
            items.MarkerBodyRigid(bodyNumber=number, localPosition=np.asarray(point))
        )

    def joint(self, parent, child, points, axes, rotations=None) -> None:
        """A joint of two bodies at their points, holding some of six axes."""
        first, second = (np.eye(3), np.eye(3)) if rotations is None else rotations
        self.system.AddObject(
            items.GenericJoint(
                markerNumbers=[
                    self.marker(b, p) for b, p in zip((parent, child), points, strict=True)
                ],
                constrainedAxes=axes,
                rotationMarker0=first,
                rotationMarker1=second,
            )
        )

    def ball(self, parent, child, points) -> None:
        """A spherical joint."""
        markers = [self.marker(b, p) for b, p in zip((parent, child), points, strict=True)]
        self.system.AddObject(items.SphericalJoint(markerNumbers=markers))

    def force(self, body, vector, point=(0.0, 0.0, 0.0)) -> None:
        """A constant force, inertial components, at a body-fixed point."""
        marker = self.marker(body, point)
        self.system.AddLoad(items.LoadForceVector(markerNumber=marker, loadVector=list(vector)))


def _top(model: Model) -> Callable:
    centre, mass = np.asarray(heavy_top.CENTER_OF_MASS), heavy_top.MASS
    inertia = np.diag(heavy_top.INERTIA) + mass * (
        centre @ centre * np.eye(3) - np.outer(centre, centre)
    )
    twist = (0.0, 0.0, 0.0, *heavy_top.OMEGA_BODY)
    model.body(mass, inertia, np.zeros(3), np.eye(3), twist, np.zeros(3))
    weight = mass * np.asarray(heavy_top.GRAVITY)
    model.force(0, weight, centre)
    model.force(0, -weight)
    return lambda: _position(model, 0, centre)


def _bodies(model: Model, case: str, masses, inertias, gravity) -> None:
    # Where ours start.
    system, state, _ = ours.model(case)
    rotations, positions = system.poses(state.q)
    twists = system.twists(state.q, state.v)
    for row in zip(masses, inertias, positions, rotations, twists, strict=True):
        model.body(*row, gravity)


def _top_joint(model: Model) -> Callable:
    inertias = [np.diag(heavy_top.INERTIA)]
    _bodies(model, "top joint", [heavy_top.MASS], inertias, heavy_top.GRAVITY)
    model.ball(-1, 0, (np.zeros(3), -np.asarray(heavy_top.CENTER_OF_MASS)))
    return lambda: _position(model, 0)


def _rotor(model: Model) -> Callable:
    _bodies(model, "rotor", [rotor.MASS], [np.diag(rotor.INERTIA)], rotor.GRAVITY)
    for place, acting in ((-rotor.LEFT, (1.0, 1.0, 1.0)), (rotor.RIGHT, (0.0, 1.0, 1.0))):
        model.system.AddObject(
            items.CartesianSpringDamper(
                markerNumbers=[model.marker(-1, place * X), model.marker(0, place * X)],
                stiffness=rotor.STIFFNESS * np.asarray(acting),
                damping=rotor.DAMPING * np.asarray(acting),
            )
        )
    marker = model.marker(0)
    model.system.AddLoad(items.LoadTorqueVector(markerNumber=marker, loadVector=list(rotor.TORQUE)))
    return lambda: _position(model, 0, -rotor.LEFT * X)


def _slider_crank(model: Model) -> Callable:
    masses = (slider_crank.CRANK_MASS, slider_crank.ROD_MASS, slider_crank.SLIDER_MASS)
    moments = (slider_crank.CRANK_INERTIA, slider_crank.ROD_INERTIA, slider_crank.SLIDER_INERTIA)
    _bodies(model, "slider-crank", masses, [np.diag(m) for m in moments], slider_crank.GRAVITY)
    half = 0.5 * slider_crank.ROD_LENGTH * X
    origin = np.zeros(3)
    model.joint(-1, 0, (np.asarray(slider_crank.PIVOT), origin), ABOUT_X)
    model.joint(0, 1, (slider_crank.CRANK_LENGTH * Z, -half), BALL)
    model.joint(2, 1, (origin, half), UNIVERSAL)
    model.joint(-1, 2, (origin, origin), ALONG_X)
    return lambda: _position(model, 2)[:1]


def _puma(model: Model) -> Callable:
    inertias = [np.diag(i) for i in puma560.INERTIA]
    _bodies(model, "puma", puma560.MASS, inertias, puma560.GRAVITY)
    parent_point = np.zeros(3)
    for i in range(6):
        turn = lie_jax.groups.so3.exp(puma560.TWIST[i] * X)
        home, centre = np.asarray(turn), np.asarray(puma560.CENTER_OF_MASS[i])
        offset = np.array([puma560.LENGTH[i], 0.0, puma560.OFFSET[i]])
        points = (parent_point, -home.T @ offset - centre)
        frames = (np.eye(3), home.T)
        model.joint(i - 1, i, points, ABOUT_Z, frames)
        model.system.AddObject(
            items.TorsionalSpringDamper(
                markerNumbers=[model.marker(i - 1, points[0]), model.marker(i, points[1])],
                stiffness=puma560.PROPORTIONAL[i],
                damping=puma560.DERIVATIVE[i],
                offset=ours.puma_commands()[i],
                rotationMarker0=frames[0],
                rotationMarker1=frames[1],
            )
        )
        parent_point = -centre
    return lambda: _position(model, 5)


def _chain(model: Model, links: int) -> Callable:
    half = -0.5 * link_length(links) * Z
    inertias = [np.diag(chain.INERTIA)] * links
    _bodies(model, f"chain-{links}", [chain.MASS] * links, inertias, chain.GRAVITY)
    for i in range(links):
        model.ball(i - 1, i, (half if i else np.zeros(3), -half))
    return lambda: _position(model, links - 1, half)


def _loops(model: Model, name: str) -> Callable:
    """Joints that close a plane loop hold its plane's two translations alone: its solvers take no
    redundant constraints.
    """
    given = loops.SHAPES[name]()
    for link in given.links:
        twist = (*(link.rotation.T @ link.velocity), *link.omega_body)
        model.body(
            link.mass, np.diag(link.inertia), link.position, link.rotation, twist, given.gravity
        )
    numbers = {"ground": -1} | {link.name: i for i, link in enumerate(given.links)}

    def at(body, point):
        return loops.local(given, body, point)

    for tie in given.ties:
        ends = tie.parent, tie.child
        (a, b), points = (numbers[b] for b in ends), [at(b, tie.point) for b in ends]
        if tie.kind == "ball":
            model.ball(a, b, points)
            continue
        # Columns: the axis, and two normal to it.
        other = tie.second if tie.kind == "universal" else np.eye(3)[np.argmin(np.abs(tie.axis))]
        first = other - (other @ tie.axis) * tie.axis
        first = first / np.linalg.norm(first)
        frame = np.stack([tie.axis, first, np.cross(tie.axis, first)], axis=1)
        frames = [np.stack([loops.turned(given, b, c) for c in frame.T], axis=1) for b in ends]
        axes = {"hinge": ABOUT_X, "slide": ALONG_X, "universal": UNIVERSAL}[tie.kind]
        model.joint(a, b, points, IN_PLANE if tie.closes else axes, frames)
    for spring in given.springs:
        ends = zip((spring.parent, spring.child), spring.points, strict=True)
        markers = [model.marker(numbers[b], at(b, point)) for b, point in ends]
        model.system.AddObject(
            items.SpringDamper(
                markerNumbers=markers, stiffness=spring.stiffness, damping=0.0,
                referenceLength=spring.length,
            )
        )  # fmt: skip
    moment = list(given.moment * Z)
    model.system.AddLoad(items.LoadTorqueVector(markerNumber=model.marker(0), loadVector=moment))
    return lambda: _position(model, len(given.links) - 1)


def _position(model: Model, body: int, point=(0.0, 0.0, 0.0)) -> list[float]:
    position = model.system.GetObjectOutputBody(
        model.bodies[body], exu.OutputVariableType.Position, np.asarray(point)
    )
    return [float(x) for x in position]


MODELS = {
    "top": _top,
    "top joint": _top_joint,
    "rotor": _rotor,
    "slider-crank": _slider_crank,
    "puma": _puma,
}


def settings(run: Run, bodies: int) -> Any:
    """Steps of one size, nothing written, full Newton steps with the tangent operator."""
    chosen = exu.SimulationSettings()
    stepping = chosen.timeIntegration
    stepping.numberOfSteps, stepping.endTime = run.steps, run.steps * run.dt
    stepping.automaticStepSize = stepping.adaptiveStep = False
    stepping.verboseMode = 0
    stepping.newton.useModifiedNewton = False
    stepping.generalizedAlpha.spectralRadius = RHO_INF
    # Its sparse solver does not take the tangent operator.
    stepping.generalizedAlpha.lieGroupAddTangentOperator = bodies <= MOST_DENSE
    # Without it Newton's method fails in the heavy top with its joint.
    stepping.generalizedAlpha.lieGroupSimplifiedKinematicRelations = True
    chosen.solutionSettings.writeSolutionToFile = False
    chosen.solutionSettings.sensorsWritePeriod = stepping.endTime
    kinds = exu.LinearSolverType
    chosen.linearSolverType = kinds.EXUdense if bodies <= MOST_DENSE else kinds.EigenSparse
    chosen.parallel.numberOfThreads = 1
    return chosen


def program(case: str, quick: bool) -> Program:
    """A case: RK44 for "top", generalized-α for the others."""
    lie_jax.configure(fast_loops=False, cache=False)
    model, run = Model(), run_of(case, quick)
    if case.startswith("chain-"):
        end = _chain(model, int(case.removeprefix("chain-")))
    elif case in loops.SHAPES:
        end = _loops(model, case)
    elif case in MODELS:
        end = MODELS[case](model)
    else:
        raise Missing(f"no model of {case} in Exudyn")
    model.system.Assemble()
    chosen = settings(run, len(model.bodies))
    kinds = exu.DynamicSolverType
    kind = kinds.RK44 if case == "top" else kinds.GeneralizedAlpha

    def once() -> None:
        exu.SolveDynamic(model.system, chosen, solverType=kind, storeSolver=True)

    once()
    solver = model.system.sys["dynamicSolver"]
    detail = {ours.ITERATIONS: solver.it.newtonStepsCount / run.steps} if case != "top" else {}
    return Program(once, run.units, end(), detail)
