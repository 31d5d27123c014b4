"""Elements with the least that each needs; where numbers stand integers do."""

import numpy as np

import lie_jax

EYE, X, Y = np.eye(3), (1, 0, 0), (0, 1, 0)
_ENDS = {"parent": "a", "child": "b"}
HINGE = lie_jax.RevoluteJoint("a", "b", X)
ELEMENTS = {
    lie_jax.Body: {"name": "b", "mass": 1, "inertia": EYE},
    lie_jax.State: {"q": [1], "v": [2]},
    lie_jax.SphericalJoint: _ENDS | {"armature": 1},
    lie_jax.RevoluteJoint: _ENDS | {"axis": X, "armature": 1},
    lie_jax.PrismaticJoint: _ENDS | {"axis": X, "armature": 1},
    lie_jax.CylindricalJoint: _ENDS | {"axis": X},
    lie_jax.UniversalJoint: _ENDS | {"axis": X, "child_axis": Y, "angle": 1},
    lie_jax.GenericJoint: _ENDS | {"held": ("x",)},
    lie_jax.PlanarJoint: _ENDS | {"normal": X},
    lie_jax.RigidJoint: _ENDS,
    lie_jax.DistanceJoint: _ENDS | {"length": 1},
    lie_jax.RollingDisc: _ENDS | {"radius": 1, "child_axis": X},
    lie_jax.GearJoint: _ENDS | {"axis": X, "child_axis": X, "ratio": -2},
    lie_jax.CouplingJoint: {
        "follower": lie_jax.RevoluteJoint("ground", "a", X),
        "leader": HINGE,
        "coefficients": (0, 2),
    },
    lie_jax.JointDriver: {"joint": HINGE, "value": 1},
    lie_jax.PointForce: {"body": "b", "force": X},
    lie_jax.Torque: {"body": "b", "torque": X},
    lie_jax.ViscousFriction: _ENDS | {"coefficient": 1},
    lie_jax.CartesianSpringDamper: _ENDS | {"stiffness": (1, 2, 3)},
    lie_jax.LinearSpringDamper: _ENDS | {"stiffness": 1, "damping": 1, "length": 1},
    lie_jax.JointSpring: {"joint": HINGE, "stiffness": 1, "damping": 1, "relaxed": 1},
    lie_jax.Bushing: _ENDS | {"stiffness": (1, 2, 3), "rotational_stiffness": EYE},
    lie_jax.RevoluteBushing: _ENDS
    | {"axis": X, "stiffness": (1, 2, 3), "rotational_stiffness": 1, "damping": EYE},
    lie_jax.JointController: {"joint": HINGE, "reference": 1, "proportional": 1, "derivative": 1},
    lie_jax.JointMotor: {"joint": HINGE, "input": 0},
    lie_jax.Baumgarte: {"rate": 1},
    lie_jax.Adaptive: {"dt_min": 1, "dt_max": 2},
}
