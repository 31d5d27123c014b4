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
from lie_jax.mechanics.flexible import (
    choices,
    finite_elements,
    meshes,
    pieces,
    reduction,
    solids,
    sums,
)
from lie_jax.mechanics.flexible.deformation import Deformation
from lie_jax.numerics.conversion import as_float

_FRAMES = ("interface", "free")
# rad, of an interface at the start: displacements are linear, and runs warn from 0.3 rad on.
_LARGEST_TURN = 1.0
_MOTION = (
    *("position", "orientation", "velocity", "omega_body"),
    *("amplitudes", "amplitude_rates", "check_inertia"),
)


class FlexibleBody(Body):
    """A body that deforms: a moving frame, and small displacements within it by modes.

    Make it by `from_mesh` or `from_matrices`. It is a `lie_jax.Body` in its undeformed shape, with
    mass, inertia, pose and velocity, and has an amplitude for each mode. Its interfaces are frames
    with the names `"body.interface"`, to which joints, forces and other parts attach as to bodies.

    **Arguments**, which these compute: `name`, `mass`, `inertia`, `center_of_mass`,
    `position`, `orientation`, `velocity`, `omega_body` and `check_inertia` of a `lie_jax.Body`;
    `deformation`: sums over the mass, stiffness and damping of m modes; `interfaces`: names;
    `nodes` (n, 3), m, and `modes` (n, 3, m), displacements for a unit of each amplitude;
    `amplitudes`, `amplitude_rates` (m,), initial ones; `edges` (k, 2), for pictures: numbers of
    nodes of the outer edges of a mesh, None without; `stresses` (n, 3, 3, m), those of the modes at
    the nodes of a mesh, Pa, None without.

    Displacements are small: they are linear in the amplitudes, and so is the force of elasticity. A
    body that bends far is a chain of several, or a `lie_jax.beams.line`.
    Source: Shabana, "Dynamics of multibody systems" (2013); Craig, Bampton, "Coupling of
    substructures for dynamic analyses" (1968).
    """

    deformation: Deformation = eqx.field(kw_only=True)
    interfaces: tuple[str, ...] = eqx.field(static=True, kw_only=True)
    nodes: Array = eqx.field(kw_only=True)
    modes: Array = eqx.field(kw_only=True)
    amplitudes: Parameter = eqx.field(converter=as_float, kw_only=True)
    amplitude_rates: Parameter = eqx.field(converter=as_float, kw_only=True)
    edges: Any = eqx.field(default=None, kw_only=True)
    stresses: Any = eqx.field(default=None, kw_only=True)

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of the interfaces' frames in a mechanism."""
        return tuple(f"{self.name}.{interface}" for interface in self.interfaces)

    @property
    def interface_points(self) -> dict[str, Array]:
        """Places (3,) of the interfaces' frames in the undeformed body, m, by names."""
        return dict(zip(self.interfaces, self.deformation.points, strict=True))

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
        **motion: Any,
    ) -> "FlexibleBody":
        """Flexible body from the matrices of a finite-element model.

        **Arguments:**

        - `name`: name of the body.
        - `nodes`: (n, 3), places of the nodes in the body frame, m.
        - `mass`: (n,) masses of nodes, (n, n) or (3n, 3n) m times the identity (3, 3), kg.
        - `stiffness`: (3n, 3n), N/m, three rows for each node.
        - `interfaces`: by names, numbers of nodes from 0, or a function of places (n, 3) that is
          true for nodes (n,) of the interface, three at least that are not on a line: where other
          parts attach. Nodes of an interface move as one.
        - `modes`: number of modes, or modes of your own (n, 3, m). With `frame="interface"` the
          body frame is held to the first interface; the modes are those of Craig and Bampton, six
          for each other interface, which moves by itself, and vibrations with all interfaces held.
          With `frame="free"` they are the lowest ones of the free body.
        - `damping_time`: τ of a damping τ K, s; None for none.
        - `motion`: `position`, `orientation`, `velocity` and `omega_body` of a `lie_jax.Body`;
          `amplitudes`, `amplitude_rates` (m,), initial ones, m and m/s: the largest component of a
          mode is one.

        Raises `ValueError` for matrices that are not symmetric, that rigid motions strain or that
        more than these leave without strain, a mesh in several pieces, interfaces without enough
        nodes or that share nodes, modes that contain a rigid motion, and numbers of modes that keep
        one of two of equal frequency.
        """
        where = f"FlexibleBody({name!r})"
        checks.one_of(f"{where}: frame=", frame, _FRAMES)
        model = reduction.model_of(where, nodes, mass, stiffness)
        n = len(model.nodes)
        members = choices.interfaces_of(where, interfaces, model.nodes)
        choices.check_modes(where, modes, frame, members, n)
        choices.check_one_piece(where, n, [pieces.pairs_of(model.stiffness)], members, frame)
        basis = reduction.basis_of(where, model, members, modes, frame)
        return _body(name, sums.of_model(model, basis), members, damping_time, motion)

    @staticmethod
    def from_mesh(
        name: str,
        mesh: Any,
        *,
        density: ArrayLike,
        young: ArrayLike,
        poisson: ArrayLike,
        interfaces: Mapping[str, Any],
        modes: Any,
        frame: str = "interface",
        order: int = 2,
        nodes: ArrayLike | None = None,
        spin_stiffness: bool = False,
        damping_time: ArrayLike | None = None,
        **motion: Any,
    ) -> "FlexibleBody":
        """Flexible body of an elastic solid, from its mesh of tetrahedra and hexahedra.

        Needs scikit-fem, and for files meshio: `pip install '.[fe]'` in the clone.

        **Arguments**, beside those of `from_matrices`:

        - `mesh`: a mesh of scikit-fem (`MeshHex`, `MeshTet` and their quadratic kinds) or meshio,
          or the path of a file that meshio reads: Gmsh (`.msh`), VTK (`.vtu`), Nastran (`.bdf`),
          Abaqus (`.inp`). Coordinates are in m and in the body frame.
        - `density` (kg/m³), `young` (Pa), `poisson`: numbers, or one for each element.
        - `interfaces`: also the name of a set of the mesh: a boundary of scikit-fem, a physical
          group of Gmsh, a set of points or cells. Numbers of nodes are those of the mesh, from 0.
        - `nodes`: (n, 3), m, other places of the mesh's own nodes, as for another thickness;
          interfaces keep the nodes that they have in `mesh`.
        - `order`: 2 gives linear elements quadratic displacements, with more nodes behind the
          mesh's own; 1 keeps the nodes, and linear elements are far too stiff in bending.
        - `spin_stiffness`: True adds the stiffness by the stress of the body's own spin, about an
          axis through the body frame's origin with the first interface held; with `frame="free"`
          about an axis through the centre of mass.

        `density`, `young`, `poisson` and `nodes` may be traced by JAX, in double precision:
        derivatives go through the reduction, exactly, also where modes have equal frequencies.
        Amplitudes then have another meaning from value to value, the motion of the body has not.

        `print(body)` shows mass, size and lowest frequency, and with them a mesh in mm. Raises
        `ImportError` without these libraries; `FileNotFoundError`; `ValueError` for files that
        meshio does not read, elements that are inside out, flat or there twice, by their numbers,
        nodes of no element, unknown sets, and what `from_matrices` refuses.
        """
        where = f"FlexibleBody({name!r})"
        checks.one_of(f"{where}: frame=", frame, _FRAMES)
        solid = meshes.read(where, mesh, order)
        places = None if nodes is None else meshes.move_nodes(where, solid, nodes)
        members = choices.interfaces_of(where, interfaces, solid.nodes, solid)
        n = len(solid.nodes)
        choices.check_modes(where, modes, frame, members, n)
        elements = [block.nodes for block in solid.blocks]
        choices.check_one_piece(where, n, elements, members, frame)
        checks.one_of(f"{where}: spin_stiffness=", spin_stiffness, (True, False))
        of = finite_elements.material_of(where, solid, density, young, poisson)
        reduced = solids.reduce(where, solid, places, of, members, modes, frame, spin_stiffness)
        return _body(name, reduced, members, damping_time, motion, meshes.outer_edges(solid))

    def __check_init__(self):
        m = self.deformation.stiffness.shape[-1]
        for name in ("amplitudes", "amplitude_rates"):
            where = f"FlexibleBody({self.name!r}).{name}"
            checks.shape(where, getattr(self, name), (m,), "one number for each mode")
            checks.finite(where, getattr(self, name))
        self._check_size()

    def _check_size(self) -> None:
        """Raise for initial amplitudes in another unit, which no small displacements are."""
        of = self.deformation
        if checks.has_tracers(of.shifts, of.turns, self.nodes, self.amplitudes):
            return
        e, length = np.asarray(self.amplitudes), np.ptp(np.asarray(self.nodes), axis=0).max()
        motions = (np.linalg.norm(np.asarray(x) @ e, axis=1) for x in (of.shifts, of.turns))
        for name, shift, turn in zip(self.interfaces, *motions, strict=True):
            if shift > length or turn > _LARGEST_TURN:
                raise ValueError(
                    f"FlexibleBody({self.name!r}).amplitudes move the interface {name!r} by "
                    f"{shift:.3g} m and turn it by {turn:.3g} rad, and the body is {length:.3g} m "
                    "long; displacements must be small: check the unit of amplitudes, m where the "
                    "largest component of a mode is one."
                )

    def __repr__(self):
        """Mass, size and lowest frequency, which show a mesh in wrong units."""
        if checks.has_tracers(self.deformation, self.mass, self.nodes):
            return f"FlexibleBody({self.name!r}, traced, interfaces {self.interfaces})"
        x, hertz = np.asarray(self.nodes), self.frequencies[0] / (2.0 * np.pi)
        size = " x ".join(f"{side:.4g}" for side in np.ptp(x, axis=0))
        return (
            f"FlexibleBody({self.name!r}, {float(self.mass):.4g} kg, {size} m, {len(x)} nodes, "
            f"{self.modes.shape[-1]} modes from {hertz:.4g} Hz, interfaces "
            f"{', '.join(map(repr, self.interfaces))})"
        )

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
        shifts = self._sum_of_modes("node_positions", amplitudes, self.modes)
        return jnp.broadcast_to(self.nodes, shifts.shape) + shifts

    def node_stresses(
        self, amplitudes: Float[ArrayLike, "*instants modes"]
    ) -> Float[Array, "*instants nodes 3 3"]:
        """Stress at the nodes in body axes (Pa), at amplitudes as `system.amplitudes` has them.

        The mean over the elements at a node. It has what modes know of: loads at interfaces and
        vibrations, no inertia forces of rigid motion. Raises `ValueError` without a mesh.
        """
        if self.stresses is None:
            raise ValueError(
                f"FlexibleBody({self.name!r}).node_stresses needs elements, which matrices have "
                "not: make the body by from_mesh."
            )
        return self._sum_of_modes("node_stresses", amplitudes, self.stresses)

    def _sum_of_modes(self, name: str, amplitudes: Any, values: Array) -> Array:
        """Values (..., m) of modes, times amplitudes (..., m)."""
        m, where = values.shape[-1], f"FlexibleBody({self.name!r}).{name}: amplitudes"
        checks.trailing(where, amplitudes, (m,), "one number for each mode, of one body")
        return jnp.tensordot(as_float(amplitudes), values, axes=[[-1], [values.ndim - 1]])

    def scale(self, *, mass: ArrayLike = 1.0, stiffness: ArrayLike = 1.0) -> "FlexibleBody":
        """The body with its density and its stiffness, damping included, times these factors.

        Modes stay as they are: factors common to a whole body do not change them.
        """
        for key, factor in (("mass", mass), ("stiffness", stiffness)):
            checks.positive(f"FlexibleBody({self.name!r}).scale({key}=)", factor, "a factor")
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
            stresses=None if self.stresses is None else young * self.stresses,
        )


def _body(
    name: str,
    reduced: sums.ReducedMesh,
    members: Mapping[str, Any],
    damping_time: Any,
    motion: Mapping[str, Any],
    edges: Any = None,
) -> FlexibleBody:
    where = f"FlexibleBody({name!r})"
    for key in motion:
        if key not in _MOTION:
            raise TypeError(
                f"{where}: {key}= is no argument; beside those of the docstring there are "
                f"{', '.join(f'{word}=' for word in _MOTION)}; mass and inertia follow from the "
                "mesh."
            )
    if damping_time is not None:
        checks.non_negative(f"{where}: damping_time=", damping_time, "s")
    zero = np.zeros(reduced.basis.modes.shape[2])
    return FlexibleBody(
        name,
        *reduced.rigid_inertia(),
        deformation=reduced.deformation(damping_time),
        interfaces=tuple(members),
        nodes=as_float(reduced.nodes),
        modes=as_float(reduced.basis.modes),
        stresses=None if reduced.stresses is None else as_float(reduced.stresses),
        edges=edges,
        **{"amplitudes": zero, "amplitude_rates": zero, **motion},
    )
