"""Elements made of constants inside `jax.jit`, where operations on constants give tracers."""

import inspect

import jax
import jax.numpy as jnp

import lie_jax
from lie_jax.mechanics.elements import AbstractElement
from tests import elements
from tests.elements import EYE, HINGE, X, Y
from tests.meshes import lattice
from tests.messages import check_message

LAW = lie_jax.contact.HuntCrossley(1.0)
ENDS = {"parent": "a", "child": "b"}
HINGES = {"joints": [HINGE], "coefficients": [1.0]}
POINTS = {"points": [("a", X), ("ground", X)]}
STOP = {"joint": HINGE, "lower": -1, "upper": 1, "law": LAW}
BALLS = [lie_jax.contact.Sphere(name, 1.0) for name in ("a", "b")]
MESH = lattice()
BAR = lie_jax.FlexibleBody.from_matrices(
    "bar", MESH.nodes, MESH.mass, MESH.stiffness, interfaces=MESH.ends, modes=6
)
OF_BAR = ("deformation", "interfaces", "nodes", "modes", "amplitudes", "amplitude_rates")
ELEMENTS = elements.ELEMENTS | {
    lie_jax.FlexibleBody: {"name": "a", "mass": 1, "inertia": EYE}
    | {name: getattr(BAR, name) for name in OF_BAR},
    lie_jax.contact.HuntCrossley: {"stiffness": 1},
    lie_jax.contact.SmoothLinear: {"stiffness": 1, "onset": 1},
    lie_jax.contact.Coulomb: {"coefficient": 1, "static_coefficient": 2, "rolling_lever": 1},
    lie_jax.contact.Contact: {"first": BALLS[0], "second": BALLS[1], "normal": LAW},
    lie_jax.JointStop: STOP,
    lie_jax.JointFriction: {"joint": HINGE, "limit": 1, "velocity": 1},
    lie_jax.CoordinateJoint: ENDS | {"coordinates": ("x",), "values": (1,)},
    lie_jax.CouplingForce: HINGES | {"relaxed": (0, 1), "limits": (-1, 1)},
    lie_jax.PathForce: POINTS | {"relaxed": (0, 1), "limits": (-1, 1)},
    lie_jax.beams.Beam: ENDS
    | {"stiffness": (1,) * 6, "length": 1, "rest_strain": (1, 0, 0, 0, 0, 1)},
    lie_jax.beams.BeamInertia: ENDS | {"length": 1, "mass": 1, "inertia": EYE},
    lie_jax.beams.NodeLoad: {"body": "a", "force": X, "moment": X, "share": 1},
    lie_jax.robotics.Frame: {"body": "a"},
    lie_jax.contact.Sphere: {"body": "a", "radius": 1},
    lie_jax.contact.Capsule: {"body": "a", "radius": 1, "start": X, "end": (0, 0, 0)},
    lie_jax.contact.Box: {"body": "a", "size": (1, 1, 1)},
    lie_jax.contact.Points: {"body": "a", "points": [X, Y, (0, 0, 1), (0, 0, 0)]},
    lie_jax.contact.Ellipsoid: {"body": "a", "semi_axes": (1, 2, 3)},
    lie_jax.contact.Plane: {"body": "a"},
    lie_jax.contact.HeightField: {
        "body": "a",
        "height": lie_jax.contact.HeightGrid(EYE, 1),
    },
}
WRONG = {
    lie_jax.CouplingForce: HINGES | {"relaxed": (1, 0)},
    lie_jax.PathForce: POINTS | {"limits": (1, 0)},
    lie_jax.beams.Beam: ENDS | {"stiffness": (1,) * 6, "length": 4,
                          "rest_strain": (1, 0, 0, 0, 0, 1)},
    lie_jax.JointStop: STOP | {"lower": 2},
    lie_jax.Adaptive: {"dt_min": 2, "dt_max": 1},
    lie_jax.UniversalJoint: ENDS | {"axis": X, "child_axis": X, "angle": 4},
}  # fmt: skip


def _inside(kind, options):
    return jax.make_jaxpr(lambda _: jax.tree.leaves(kind(**options)))(0.0)


def test_all_elements_are_built_inside_of_jit():
    public = {
        kind
        for home in (lie_jax, lie_jax.beams, lie_jax.contact)
        for kind in vars(home).values()
        if inspect.isclass(kind) and issubclass(kind, AbstractElement)
    }
    made = {kind for kind in public if not kind.__name__.startswith("Abstract")}
    assert made <= set(ELEMENTS)
    for kind, options in ELEMENTS.items():
        _inside(kind, options)


def test_constants_are_checked_inside_of_jit():
    for kind, options in WRONG.items():
        check_message(lambda kind=kind, options=options: _inside(kind, options), kind.__name__)


def test_charts_of_constants_are_checked_inside_of_jit():
    def inside(chart, value):
        return jax.make_jaxpr(lambda _: chart(value)[0])(0.0)

    inside(lie_jax.estimation.transforms.interval(0.0, 2.0), jnp.ones(2))
    inside(lie_jax.estimation.transforms.inertia, jnp.eye(3))
    chart = lie_jax.estimation.transforms.interval(0.0, 2.0)
    check_message(lambda: inside(chart, jnp.asarray([1.0, 3.0])), "between 0.0 and 2.0")
