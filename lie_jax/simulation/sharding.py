"""Arrays on a mesh whose axes are explicit: inside of lie_jax the compiler chooses the shardings.

`jax.make_mesh` gives explicit axes, which JAX writes into the types of arrays. Constants have types
without a mesh, and many operations of JAX refuse to mix both, batched ones above all.
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
    """Make the explicit axes of the arguments' mesh automatic inside, and explicit again behind."""

    @functools.wraps(function)
    def on_mesh(*args: P.args, **kwargs: P.kwargs) -> T:
        given, rest = eqx.partition((args, kwargs), eqx.is_array)
        meshes = (jax.typeof(x).sharding.mesh for x in jax.tree.leaves(given))
        mesh = next((mesh for mesh in meshes if mesh.explicit_axes), None)
        if mesh is None:
            return function(*args, **kwargs)
        with jax.sharding.use_abstract_mesh(
            mesh.update_axis_types({name: AxisType.Auto for name in mesh.explicit_axes})
        ):
            args, kwargs = eqx.combine(_without_axes(given), rest)
            computed, rest = eqx.partition(function(*args, **kwargs), eqx.is_array)
        with jax.sharding.use_abstract_mesh(mesh):
            return eqx.combine(_without_axes(computed), rest)

    return on_mesh


def _without_axes(arrays):
    return jax.tree.map(lambda x: jax.sharding.reshard(x, PartitionSpec()), arrays)
