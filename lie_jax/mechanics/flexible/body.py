"""Flexible bodies: a rigid body and its small displacements, from matrices of finite elements."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.mechanics.body import Body
from lie_jax.mechanics.elements import replace_fields
from lie_jax.mechanics.fields import Parameter
from lie_jax.mechanics.flexible import reduction
from lie_jax.mechanics.flexible.deformation import Deformation
from lie_jax.numerics.conversion import as_float

_FRAMES = ("interface", "free")


class FlexibleBody(Body):
    """A body that deforms: a moving frame, and small displacements within it by modes.

    Make it by `from_matrices`. It is a `lie_jax.Body` in its undeformed shape, with mass, inertia,
    pose and velocity, and has an amplitude for each mode. Its interfaces are frames with the names
    `"body.interface"`, to which joints, forces and other parts attach as to bodies.

    **Arguments**, which `from_matrices` computes: `name`, `mass`, `inertia`, `center_of_mass`,
    `position`, `orientation`, `velocity`, `omega_body` and `check_inertia` of a `lie_jax.Body`;
    `deformation`: sums over the mass, stiffness and damping of m modes; `interfaces`: names;
    `nodes` (n, 3), m, and `modes` (n, 3, m), displacements for a unit of each amplitude;
    `amplitudes`, `amplitude_rates` (m,), initial ones.

    Displacements are small: they are linear in the amplitudes, and so is the force of elasticity. A
    body that bends far is a chain of several, or a `lie_jax.beams.line`. Mechanisms with flexible
    bodies have absolute coordinates, all formulations but `lie_jax.Minimal()`.
    Source: Shabana, "Dynamics of multibody systems" (2013); Craig, Bampton, "Coupling of
    substructures for dynamic analyses" (1968).
    """

    deformation: Deformation = eqx.field(kw_only=True)
    interfaces: tuple[str, ...] = eqx.field(static=True, kw_only=True)
    nodes: Array = eqx.field(kw_only=True)
    modes: Array = eqx.field(kw_only=True)
    amplitudes: Parameter = eqx.field(converter=as_float, kw_only=True)
    amplitude_rates: Parameter = eqx.field(converter=as_float, kw_only=True)

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of the interfaces' frames in a mechanism."""
        return tuple(f"{self.name}.{interface}" for interface in self.interfaces)

    @staticmethod
    def from_matrices(
        name: str,
        nodes: ArrayLike,
        mass: Any,
        stiffness: Any,
        *,
        interfaces: Mapping[str, Any],
        modes: Any,
        frame: str = "interface",
        damping_time: ArrayLike | None = None,
        amplitudes: ArrayLike | None = None,
        amplitude_rates: ArrayLike | None = None,
        **motion: Any,
    ) -> "FlexibleBody":
        """Flexible body from the matrices of a finite-element model.

        **Arguments:**

        - `name`: name of the body.
        - `nodes`: (n, 3), places of the nodes in the body frame, m.
        - `mass`: (n,) masses of nodes, (n, n) or (3n, 3n) m times the identity (3, 3), kg.
        - `stiffness`: (3n, 3n), N/m, three rows for each node.
        - `interfaces`: numbers of nodes by names, three at least that are not on a line: where
          other parts attach. Nodes of an interface move as one.
        - `modes`: number of modes, or modes of your own (n, 3, m). With `frame="interface"` the
          body frame is held to the first interface; the modes are those of Craig and Bampton, six
          for each other interface, which moves by itself, and vibrations with all interfaces held.
          With `frame="free"` they are the lowest ones of the free body.
        - `damping_time`: τ of a damping τ K, s; None for none.
        - `amplitudes`, `amplitude_rates`: (m,), initial ones, m and m/s: the largest component of
          a mode is one.
        - `motion`: `position`, `orientation`, `velocity` and `omega_body` of a `lie_jax.Body`.

        Raises `ValueError` for matrices that are not symmetric, that rigid motions strain or that
        more than these leave without strain, interfaces without enough nodes, and modes that
        contain a rigid motion.
        """
        where = f"FlexibleBody({name!r})"
        checks.one_of(f"{where}: frame=", frame, _FRAMES)
        model = reduction.model_of(where, nodes, mass, stiffness)
        members = _interfaces(where, interfaces, len(model.nodes))
        least = 6 * (len(members) - 1) if frame == "interface" else 1
        if isinstance(modes, int | np.integer) and modes < max(least, 1):
            raise ValueError(
                f"{where}: modes= is {modes}; it must be {max(least, 1)} at least, six for each "
                "interface but the first: raise it, or merge interfaces."
            )
        basis = reduction.basis_of(where, model, members, modes, frame)
        x, shapes = model.nodes, basis.modes
        n, m = len(x), shapes.shape[2]
        weighted = (model.mass @ shapes.reshape(n, -1)).reshape(shapes.shape)
        moment, total = model.mass @ x, float(model.mass.sum())
        center = moment.sum(axis=0) / total
        spread = x.T @ moment - total * np.outer(center, center)
        damping = None if damping_time is None else as_float(damping_time) * basis.stiffness
        arrays = {
            "first": weighted.sum(axis=0),
            "mixed": np.einsum("ia,ibk->abk", x, weighted),
            "second": np.einsum("iak,ibl->abkl", shapes, weighted),
            "stiffness": basis.stiffness,
            "points": basis.points,
            "shifts": basis.shifts,
            "turns": basis.turns,
        }
        zero = np.zeros(m)
        return FlexibleBody(
            name,
            total,
            np.trace(spread) * np.eye(3) - spread,
            center,
            deformation=Deformation(
                **{key: as_float(value) for key, value in arrays.items()},
                damping=damping,
                spin=None,
            ),
            interfaces=tuple(members),
            nodes=as_float(x),
            modes=as_float(shapes),
            amplitudes=zero if amplitudes is None else amplitudes,
            amplitude_rates=zero if amplitude_rates is None else amplitude_rates,
            **motion,
        )

    def __check_init__(self):
        m = self.deformation.stiffness.shape[-1]
        for name in ("amplitudes", "amplitude_rates"):
            where = f"FlexibleBody({self.name!r}).{name}"
            checks.shape(where, getattr(self, name), (m,), "one number for each mode")

    @property
    def frequencies(self) -> Float[np.ndarray, " modes"]:
        """Angular frequencies of the modes with the frame held, rad/s."""
        of = self.deformation
        mass = np.trace(np.asarray(of.second), axis1=0, axis2=1)
        values = scipy.linalg.eigvalsh(np.asarray(of.stiffness), mass)
        return np.sqrt(np.maximum(values, 0.0))

    def node_positions(
        self, amplitudes: Float[ArrayLike, "*instants modes"]
    ) -> Float[Array, "*instants nodes 3"]:
        """Places of the nodes in the body frame (m), at amplitudes as `system.amplitudes` has them.

        Their inertial places are r + R x with position and rotation of the body.
        """
        moved = jnp.tensordot(as_float(amplitudes), self.modes, axes=[[-1], [2]])
        return jnp.broadcast_to(self.nodes, moved.shape) + moved

    def scale(self, *, mass: ArrayLike = 1.0, stiffness: ArrayLike = 1.0) -> "FlexibleBody":
        """The body with its density and its stiffness, damping included, times these factors.

        Modes stay as they are: factors common to a whole body do not change them.
        """
        of, density, young = self.deformation, as_float(mass), as_float(stiffness)
        damping = None if of.damping is None else young * of.damping
        deformation = Deformation(
            first=density * of.first,
            mixed=density * of.mixed,
            second=density * of.second,
            stiffness=young * of.stiffness,
            damping=damping,
            spin=None if of.spin is None else density * of.spin,
            points=of.points,
            shifts=of.shifts,
            turns=of.turns,
        )
        return replace_fields(
            self,
            mass=density * self.mass,
            inertia=density * self.inertia,
            deformation=deformation,
        )


def _interfaces(where: str, interfaces: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    if not isinstance(interfaces, Mapping) or not interfaces:
        raise ValueError(
            f"{where}: interfaces= is {interfaces!r}; it must be a dictionary of names and numbers "
            "of nodes, at least one: the body frame is held to the first."
        )
    members = {}
    for name, numbers in interfaces.items():
        checks.name(f"{where}: the name of an interface", name)
        numbers = np.asarray(numbers)
        if numbers.dtype == bool and numbers.shape == (n,):
            numbers = np.flatnonzero(numbers)
        if numbers.size < 3 or numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(
                f"{where}: interface {name!r} has {numbers.size} nodes; it must have numbers of "
                "three nodes at least: choose them by their places, as in "
                "numpy.flatnonzero(nodes[:, 0] < 1e-9)."
            )
        if numbers.min() < 0 or numbers.max() >= n:
            raise ValueError(
                f"{where}: interface {name!r} has nodes from {numbers.min()} to {numbers.max()}; "
                f"nodes are counted from 0 to {n - 1}: subtract one if the file counts from 1."
            )
        members[name] = np.unique(numbers)
    return members
