"""From matrices of finite elements to a few modes: Craig and Bampton's, free ones, or given ones.

All in NumPy and SciPy, once, before a mechanism is assembled.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

from lie_jax import checks
from lie_jax.mechanics.flexible import pieces
from lie_jax.numerics import conversion

Array = np.ndarray

# Part of the size of stiffness by which rigid motions may strain a mesh.
_RIGID = 1e-6
# Part of the largest entry by which matrices may differ from their transpose.
_ASYMMETRY = 1e-8
# Width of the nodes of an interface, as a part of its length, below which they lie on a line.
_LINE = 1e-6
# Part of a square of frequency within which two are one: which of their modes comes first is
# arbitrary, and differs from machine to machine.
_CLUSTER = 1e-6
# Least singular value of rigid motions and modes, of length one, that do not depend on each other.
_INDEPENDENT = 1e-6


class Model(NamedTuple):
    """Nodes (n, 3) in m, mass (n, n) in kg and stiffness (3n, 3n) in N/m of a mesh."""

    nodes: Array
    mass: Any
    stiffness: Any

    @property
    def whole_mass(self) -> Any:
        """Mass matrix (3n, 3n)."""
        return scipy.sparse.kron(self.mass, scipy.sparse.eye(3)).tocsc()


def model_of(where: str, nodes: Any, mass: Any, stiffness: Any) -> Model:
    """Checked matrices of a mesh; raises `ValueError` for what is none."""
    if checks.has_tracers(nodes, mass, stiffness):
        raise ValueError(
            f"{where}: nodes=, mass= or stiffness= are traced by JAX; they must be known numbers, "
            "which a library reduces: make the body outside of jax.jit and jax.grad, and "
            "differentiate by the factors of FlexibleBody.scale(mass=, stiffness=), or take "
            "FlexibleBody.from_mesh."
        )
    nodes = np.asarray(nodes, dtype=float)
    if nodes.ndim != 2 or nodes.shape[1] != 3 or len(nodes) < 4 or not np.isfinite(nodes).all():
        raise ValueError(
            f"{where}: nodes= has the shape {nodes.shape}; it must be (n, 3) finite numbers, m, of "
            "at least four nodes."
        )
    n = len(nodes)
    stiffness = _sparse(where, "stiffness", stiffness, (3 * n,), "N/m, node after node")
    mass = _sparse(where, "mass", mass, (n, 3 * n), "kg")
    if mass.shape[0] == 3 * n:
        mass = _scalar_mass(where, mass)
    model = Model(nodes, mass, stiffness)
    _check_rigid_motions(where, model)
    return model


def _sparse(where: str, name: str, matrix: Any, sizes: Sequence[int], unit: str) -> Any:
    if not scipy.sparse.issparse(matrix):
        checks.real(f"{where}: {name}=", matrix)
        matrix = np.asarray(matrix, float)
        matrix = scipy.sparse.diags(matrix) if matrix.ndim == 1 else matrix
    elif conversion.real_shape(matrix.data) is None:
        raise ValueError(f"{where}: {name}= has dtype {matrix.dtype}; it must be real numbers.")
    allowed = " or ".join(f"({size}, {size})" for size in sizes)
    if matrix.shape not in [(size, size) for size in sizes]:
        raise ValueError(
            f"{where}: {name}= has the shape {matrix.shape}; it must be {allowed}, {unit}, for "
            f"{sizes[-1] // 3} nodes."
        )
    matrix = scipy.sparse.csc_matrix(matrix, dtype=float)
    largest, least = abs(matrix).max(), matrix.diagonal().min()
    if not np.isfinite(largest) or largest == 0.0:
        raise ValueError(
            f"{where}: {name}= has the largest entry {largest}; it must be finite and not zero."
        )
    if least < 0.0:
        raise ValueError(
            f"{where}: {name}= has {least:.4g} on its diagonal, in row "
            f"{int(matrix.diagonal().argmin())}; energies must not be negative: check the sign."
        )
    asymmetry = abs(matrix - matrix.T).max() / largest
    if asymmetry > _ASYMMETRY:
        raise ValueError(
            f"{where}: {name}= differs from its transpose by {asymmetry:.2g} of its largest entry; "
            "it must be symmetric: add the transpose and halve if the file has one triangle alone."
        )
    return ((matrix + matrix.T) / 2).tocsc()


def _scalar_mass(where: str, mass: Any) -> Any:
    """Matrix m (n, n) of a mass m ⊗ I."""
    parts = [mass[axis::3][:, axis::3] for axis in range(3)]
    defect = max(abs(mass - scipy.sparse.kron(parts[0], scipy.sparse.eye(3))).max(), 0.0)
    if defect > _ASYMMETRY * abs(mass).max():
        raise ValueError(
            f"{where}: mass= has other numbers along x than along y and z, or couples them (by "
            f"{defect:.3g} kg); it must be the mass of translations, m times the identity (3, 3): "
            "give the mass of each node (n,) for meshes with rotations or lumped inertia."
        )
    return parts[0].tocsc()


def rigid_motions(nodes: Array, about: Array) -> Array:
    """Displacements (3n, 6) of nodes by unit translations, and unit rotations about a point."""
    n = len(nodes)
    turns = np.stack([np.cross(axis, nodes - about) for axis in np.eye(3)], axis=2)
    return np.hstack([np.tile(np.eye(3), (n, 1)), turns.reshape(3 * n, 3)])


def _check_rigid_motions(where: str, model: Model) -> None:
    size = np.ptp(model.nodes, axis=0).max()
    motions = rigid_motions(model.nodes, model.nodes.mean(axis=0))
    motions[:, 3:] /= size
    forces = np.abs(model.stiffness @ motions).max(axis=0)
    largest = abs(model.stiffness).max()
    for k in np.flatnonzero(forces > _RIGID * largest):
        kind = "translation along" if k < 3 else "rotation about"
        raise ValueError(
            f"{where}: stiffness= answers a {kind} {'xyz'[k % 3]} by {forces[k]:.3g} N, and the "
            f"largest entry is {largest:.3g} N/m; rigid motions must strain nothing: leave "
            "supports out, give nodes in m and in the order of the matrices, three rows for each."
        )


class Basis(NamedTuple):
    """Modes (n, 3, m), the reduced stiffness (m, m), and points (i, 3), shifts and turns (i, 3, m)
    of the interfaces; of NumPy, or of JAX.
    """

    modes: Any
    stiffness: Any
    points: Any
    shifts: Any
    turns: Any


def interface_map(where: str, name: str, nodes: Array, members: Array) -> tuple[Array, Array]:
    """Centre (3,) of nodes, and the least-squares translation and rotation (6, 3 members) of
    their displacements.
    """
    center = nodes[members].mean(axis=0)
    arms = nodes[members] - center
    size, width = np.linalg.svd(arms, compute_uv=False)[:2]
    if width < _LINE * size or size == 0.0:
        raise ValueError(
            f"{where}: the nodes of interface {name!r} lie on a line, within {width:.2g} m of one "
            f"that is {size:.2g} m long; rotations about it need nodes beside it: take some there."
        )
    scale = np.repeat([1.0, 1.0 / size], 3)
    rigid = rigid_motions(nodes[members], center) * scale
    return center, scale[:, None] * np.linalg.pinv(rigid)


def rows_of(members: Array) -> Array:
    """Rows of the displacements of nodes."""
    return (3 * np.asarray(members)[:, None] + np.arange(3)).ravel()


def interface_modes(where: str, model: Model, interfaces: Sequence[Array], modes: int) -> Array:
    """Craig and Bampton's modes (3n, m): rigid interfaces, the first one held, the others moved one
    by one, then vibrations with all interfaces held; diagonal in the end.
    """
    fixed = np.concatenate([rows_of(members) for members in interfaces])
    free = np.setdiff1d(np.arange(3 * len(model.nodes)), fixed)
    inner = model.stiffness[free][:, free].tocsc()
    solve = solver(where, inner)
    columns = []
    for members in interfaces[1:]:
        center = model.nodes[members].mean(axis=0)
        motions, rows = rigid_motions(model.nodes[members], center), rows_of(members)
        shapes = np.zeros((3 * len(model.nodes), 6))
        shapes[rows] = motions
        shapes[free] = -solve(np.asarray(model.stiffness[free][:, rows] @ motions))
        columns.append(shapes)
    held = 6 * (len(interfaces) - 1)
    if modes > held:
        mass = model.whole_mass[free][:, free]
        vibrations = np.zeros((3 * len(model.nodes), modes - held))
        vibrations[free] = lowest_modes(where, inner, mass, (held, modes), solve)
        columns.append(vibrations)
    return _diagonal_modes(where, model, np.hstack(columns))


def free_modes(where: str, model: Model, modes: int) -> Array:
    """Modes (3n, m) of the free body, without rigid motions."""
    mass = model.whole_mass
    below = shift(model.stiffness, mass)
    solve = solver(where, (model.stiffness - below * mass).tocsc())
    shapes = lowest_modes(where, model.stiffness, mass, (-6, modes), solve, below)
    return _diagonal_modes(where, model, shapes)[:, 6:]


def shift(stiffness: Any, mass: Any) -> float:
    """Square of a frequency below zero, where the shifted stiffness of a free body is regular."""
    return -abs(stiffness).max() / abs(mass).max() * 1e-6


def solver(where: str, matrix: Any) -> Any:
    """Solution by a factored sparse matrix; raises `ValueError` for a singular one."""
    try:
        return scipy.sparse.linalg.splu(matrix).solve
    except RuntimeError as error:
        raise ValueError(
            f"{where}: stiffness= is singular with the interfaces held; a mesh in one piece, held "
            "there, must be stiff: leave out nodes that no element has, and join loose parts."
        ) from error


def lowest_modes(
    where: str, stiffness: Any, mass: Any, span: tuple[int, int], solve: Any, shift: float = 0.0
) -> Array:
    """Eigenvectors (rows, count) of the lowest frequencies: modes number `span[0]` to `span[1]`."""
    size, count = stiffness.shape[0], span[1] - span[0]
    if count >= size:
        raise ValueError(
            f"{where}: modes= asks for {count} vibrations, and {size} displacements are free; "
            "there must be fewer: lower modes=."
        )
    if count + 1 > size // 2 or size < 60:
        try:
            values, vectors = scipy.linalg.eigh(stiffness.toarray(), mass.toarray())
        except np.linalg.LinAlgError as error:
            raise ValueError(pieces.mass_words(where)) from error
    else:
        start = np.cos(np.arange(size))
        operator: Any = scipy.sparse.linalg.LinearOperator
        inverse = operator(stiffness.shape, matvec=solve)
        values, vectors = scipy.sparse.linalg.eigsh(
            stiffness, k=count + 1, M=mass, sigma=shift, OPinv=inverse, v0=start
        )
    order = np.argsort(values)
    values, vectors = values[order], vectors[:, order]
    _check_cut(where, values, *span)
    return vectors[:, :count]


def _check_cut(where: str, values: Array, first: int, modes: int) -> None:
    """Raise where modes of equal frequency would be kept in part: which is arbitrary."""
    count = modes - first
    if values[count] - values[count - 1] > _CLUSTER * values[count]:
        return
    fewer = first + int((np.abs(values / values[count] - 1.0) <= _CLUSTER).argmax())
    choice = [fewer, modes + 1] if fewer >= max(first, 1) else [modes + 1]
    raise ValueError(
        f"{where}: modes= is {modes}, of which the last has the angular frequency of the next, "
        f"{np.sqrt(values[count]):.6g} rad/s; modes of equal frequency must be kept or left out "
        f"together: take {' or '.join(map(str, choice))}."
    )


def _diagonal_modes(where: str, model: Model, shapes: Array) -> Array:
    """Modes of the same span with diagonal stiffness and mass, the largest displacement one."""
    matrices = model.stiffness, model.whole_mass
    stiffness, mass = (shapes.T @ (matrix @ shapes) for matrix in matrices)
    try:
        _, turn = scipy.linalg.eigh((stiffness + stiffness.T) / 2, (mass + mass.T) / 2)
    except np.linalg.LinAlgError as error:
        raise ValueError(pieces.mass_words(where)) from error
    return _scale(shapes @ turn)


def _scale(shapes: Array) -> Array:
    largest = np.abs(shapes).argmax(axis=0)
    return shapes / shapes[largest, np.arange(shapes.shape[1])]


def basis_of(
    where: str, model: Model, interfaces: Mapping[str, Array], modes: Any, frame: str
) -> Basis:
    """Reduced basis of a model; `modes` is a number, or (n, 3, m) of one's own."""
    members = list(interfaces.values())
    maps = [interface_map(where, name, model.nodes, part) for name, part in interfaces.items()]
    if not isinstance(modes, int | np.integer):
        shapes = np.asarray(modes, float).reshape(3 * len(model.nodes), -1)
        for k in np.flatnonzero(~shapes.any(axis=0)):
            raise ValueError(f"{where}: mode {k} of modes= is zero; leave it out.")
    elif frame == "free":
        shapes = free_modes(where, model, int(modes))
    else:
        shapes = interface_modes(where, model, members, int(modes))
    _check_independent(where, model, shapes)
    stiffness = shapes.T @ (model.stiffness @ shapes)
    mass = shapes.T @ (model.whole_mass @ shapes)
    weighted = (stiffness + stiffness.T) / 2, (mass + mass.T) / 2
    pieces.check_strain(where, model.stiffness, weighted, shapes)
    rows = map(rows_of, members)
    motions = [matrix @ shapes[part] for (_, matrix), part in zip(maps, rows, strict=True)]
    m = shapes.shape[1]
    return Basis(
        shapes.reshape(len(model.nodes), 3, m),
        weighted[0],
        np.array([center for center, _ in maps]).reshape(-1, 3),
        np.array([x[:3] for x in motions]).reshape(-1, 3, m),
        np.array([x[3:] for x in motions]).reshape(-1, 3, m),
    )


def _check_independent(where: str, model: Model, shapes: Array) -> None:
    rigid = rigid_motions(model.nodes, model.nodes.mean(axis=0))
    columns = np.hstack([rigid, shapes])
    least = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)[-1]
    if least < _INDEPENDENT:
        raise ValueError(
            f"{where}: modes= and rigid motions have the least singular value {least:.2g}; modes "
            "must not contain a rigid motion, which the body's frame has, nor depend on each "
            "other: hold the frame (the first interface) in each mode, or subtract rigid motions."
        )
