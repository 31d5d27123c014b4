"""The maps of Pinocchio, GTSAM and SciPy in our conventions, in double precision.

A library's function takes one row of the inputs and returns the value, and the Jacobian of
d ↦ log(T exp d) where the library has it. Their Jacobians of exp are left-trivialised: those at -x
are ours at x.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.transform import RigidTransform, Rotation

Result = tuple[np.ndarray, np.ndarray | None]
Function = Callable[..., Result]

# GTSAM and SciPy put the rotation first.
_SWAP = [3, 4, 5, 0, 1, 2]


def _value(values: Any) -> Result:
    return np.ravel(values), None


def _parts(rotation: np.ndarray, position: np.ndarray) -> Result:
    return np.concatenate([np.ravel(rotation), np.ravel(position)]), None


def scipy() -> dict[str, Function]:
    """SciPy's `Rotation` and `RigidTransform`."""

    def exp6(x, *pose):
        matrix = RigidTransform.from_exp_coords(x[_SWAP]).as_matrix()
        return _parts(matrix[:3, :3], matrix[:3, 3])

    def log6(rotation, p):
        return _value(RigidTransform.from_components(p, rotation).as_exp_coords()[_SWAP])

    return {
        "SO(3) exp": lambda x, *pose: _value(Rotation.from_rotvec(x[3:]).as_matrix()),
        "SO(3) log, matrix": lambda x, r, q, p: _value(Rotation.from_matrix(r).as_rotvec()),
        "SO(3) log, quaternion": lambda x, r, q, p: _value(
            Rotation.from_quat(q, scalar_first=True).as_rotvec()
        ),
        "SE(3) exp": exp6,
        "SE(3) log, matrix": lambda x, r, q, p: log6(Rotation.from_matrix(r), p),
        "SE(3) log, quaternion": lambda x, r, q, p: log6(
            Rotation.from_quat(q, scalar_first=True), p
        ),
    }


def pinocchio() -> dict[str, Function]:
    """Pinocchio's explog functions; dexp⁻¹ only through the Jacobian of log at exp(-x)."""
    pin = importlib.import_module("pinocchio")

    def exp6(x, *pose):
        placement = pin.exp6(x)
        return _parts(placement.rotation, placement.translation)

    def log6(x, r, q, p):
        placement = pin.SE3(r, p)
        return pin.log6(placement).vector, pin.Jlog6(placement)

    return {
        "SO(3) exp": lambda x, *pose: _value(pin.exp3(x[3:])),
        "SO(3) log, matrix": lambda x, r, q, p: (pin.log3(r), pin.Jlog3(r)),
        "SO(3) log, quaternion": lambda x, r, q, p: _value(pin.log3(np.roll(q, -1))),
        "SO(3) dexp": lambda x, *pose: _value(pin.Jexp3(-x[3:])),
        "SO(3) dexp⁻¹": lambda x, *pose: _value(pin.Jlog3(pin.exp3(-x[3:]))),
        "SE(3) exp": exp6,
        "SE(3) log, matrix": log6,
        "SE(3) log, quaternion": lambda x, r, q, p: _value(
            pin.log6_quat(np.concatenate([p, np.roll(q, -1)])).vector
        ),
        "SE(3) dexp": lambda x, *pose: _value(pin.Jexp6(-x)),
        "SE(3) dexp⁻¹": lambda x, *pose: _value(pin.Jlog6(pin.exp6(-x))),
        "SE(3) Ad exp": lambda x, *pose: _value(pin.exp6(x).action),
    }


def gtsam() -> dict[str, Function]:
    """GTSAM's Rot3 and Pose3; a rotation is stored as a matrix."""
    library = importlib.import_module("gtsam")
    rot3, pose3 = library.Rot3, library.Pose3

    def exp6(x, *pose):
        placement = pose3.Expmap(x[_SWAP])
        return _parts(placement.rotation().matrix(), placement.translation())

    def swapped(matrix):
        return matrix[np.ix_(_SWAP, _SWAP)]

    def log3(rotation):
        x = rot3.Logmap(rotation)
        return x, rot3.LogmapDerivative(x)

    def log6(rotation, p):
        placement = pose3(rotation, p)
        return pose3.Logmap(placement)[_SWAP], swapped(pose3.LogmapDerivative(placement))

    return {
        "SO(3) exp": lambda x, *pose: _value(rot3.Expmap(x[3:]).matrix()),
        "SO(3) log, matrix": lambda x, r, q, p: log3(rot3(r)),
        "SO(3) log, quaternion": lambda x, r, q, p: log3(rot3.Quaternion(*q)),
        "SO(3) dexp": lambda x, *pose: _value(rot3.ExpmapDerivative(-x[3:])),
        "SO(3) dexp⁻¹": lambda x, *pose: _value(rot3.LogmapDerivative(-x[3:])),
        "SE(3) exp": exp6,
        "SE(3) log, matrix": lambda x, r, q, p: log6(rot3(r), p),
        "SE(3) log, quaternion": lambda x, r, q, p: log6(rot3.Quaternion(*q), p),
        "SE(3) dexp": lambda x, *pose: _value(swapped(pose3.ExpmapDerivative(-x[_SWAP]))),
        "SE(3) dexp⁻¹": lambda x, *pose: _value(swapped(pose3.LogmapDerivative(-x[_SWAP]))),
        "SE(3) Ad exp": lambda x, *pose: _value(swapped(pose3.Expmap(x[_SWAP]).AdjointMap())),
    }


LIBRARIES = {"Pinocchio": pinocchio, "GTSAM": gtsam, "SciPy": scipy}


def evaluate(function: Function, inputs: Any) -> list[list[np.ndarray]]:
    """Value and, where there is one, Jacobian of all rows, as for the JAX libraries."""
    rows = zip(inputs.twist, inputs.matrix, inputs.quaternion, inputs.position, strict=True)
    values, jacobians = zip(*(function(*row) for row in rows), strict=True)
    first = [] if jacobians[0] is None else [np.stack(jacobians)]
    return [[np.stack(values)], first, []]
