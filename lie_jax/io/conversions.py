"""Rotations and poses from and to other libraries, eagerly and with any leading batch axes.

Quaternions are scalar first here and in jaxlie, scalar last by default in SciPy; twists are
translation first here and in jaxlie. Functions raise for values that are no rotations.
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lie_jax import checks
from lie_jax.numerics import conversion

if TYPE_CHECKING:
    import jaxlie
    from scipy.spatial.transform import Rotation

Quaternions = Float[Array, "*batch 4"]
Poses = Float[Array, "*batch 4 4"]


def to_scipy(q: Quaternions) -> "Rotation":
    """`scipy.spatial.transform.Rotation` of unit quaternions `q` (..., 4)."""
    from scipy.spatial.transform import Rotation

    checks.unit_quaternions("conversions.to_scipy: q", q)
    return Rotation.from_quat(np.asarray(q), scalar_first=True)


def from_scipy(rotation: "Rotation") -> Quaternions:
    """Unit quaternions (..., 4) of a `rotation`, a `scipy.spatial.transform.Rotation`."""
    return jnp.asarray(rotation.as_quat(scalar_first=True), float)


def to_jaxlie(q: Quaternions) -> "jaxlie.SO3":
    """`jaxlie.SO3` of unit quaternions (..., 4)."""
    import jaxlie

    checks.unit_quaternions("conversions.to_jaxlie: q", q)
    return jaxlie.SO3(wxyz=conversion.as_float(q))


def from_jaxlie(rotation: "jaxlie.SO3") -> Quaternions:
    """Unit quaternions (..., 4) of a `rotation`, a `jaxlie.SO3`."""
    return rotation.wxyz


def pose_to_jaxlie(c: Poses) -> "jaxlie.SE3":
    """`jaxlie.SE3` of homogeneous matrices (..., 4, 4)."""
    import jaxlie

    c = conversion.as_float(c)
    checks.trailing("conversions.pose_to_jaxlie: c", c, (4, 4), "homogeneous matrices")
    checks.rotation("conversions.pose_to_jaxlie: the rotation of c", c[..., :3, :3])
    return jaxlie.SE3.from_matrix(c)


def pose_from_jaxlie(pose: "jaxlie.SE3") -> Poses:
    """Homogeneous matrices (..., 4, 4) of a `pose`, a `jaxlie.SE3`."""
    return pose.as_matrix()
