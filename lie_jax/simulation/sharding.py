"""Arrays on a mesh with explicit axes: inside of lie_jax the compiler chooses the shardings.

`jax.make_mesh` gives explicit axes, which JAX writes into the types of arrays. Types of constants
have no mesh, and many operations of JAX, batched ones above all, refuse to mix both.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import equinox as eqx
import jax
from jax.sharding import AxisType, PartitionSpec

P = ParamSpec("P")
T = TypeVar("T")


def automatic(function: Callable[P, T]) -> Callable[P, T]:
    """Function with the explicit axes of its arguments' mesh automatic inside, explicit outside."""

    @functools.wraps(function)
    def on_mesh(*args: P.args, **kwargs: P.kwargs) -> T:
        arrays, static = eqx.partition((args, kwargs), eqx.is_array)
        meshes = (jax.typeof(x).sharding.mesh for x in jax.tree.leaves(arrays))
        mesh = next((mesh for mesh in meshes if mesh.explicit_axes), None)
        if mesh is None:
            return function(*args, **kwargs)
        with jax.sharding.use_abstract_mesh(
            mesh.update_axis_types({name: AxisType.Auto for name in mesh.explicit_axes})
        ):
            args, kwargs = eqx.combine(_replicate(arrays), static)
            computed, static = eqx.partition(function(*args, **kwargs), eqx.is_array)
        with jax.sharding.use_abstract_mesh(mesh):
            return eqx.combine(_replicate(computed), static)

    return on_mesh


def _replicate(arrays):
    return jax.tree.map(lambda x: jax.sharding.reshard(x, PartitionSpec()), arrays)
