"""Normwise relative errors of every library's maps and derivatives, per interval of angles."""

from typing import Any

import numpy as np

from experiments._accuracy import inputs, jax_libraries, other_libraries, truth

MAPS = (
    "SO(3) exp",
    "SO(3) log, matrix",
    "SO(3) log, quaternion",
    "SO(3) dexp",
    "SO(3) dexp⁻¹",
    "SE(3) exp",
    "SE(3) log, matrix",
    "SE(3) log, quaternion",
    "SE(3) dexp",
    "SE(3) dexp⁻¹",
    "SE(3) Ad exp",
)
# Translation and rotation of a pose or a twist are judged apart.
_BLOCKS = {
    "SE(3) exp": (slice(0, 9), slice(9, 12)),
    "SE(3) log, matrix": (slice(0, 3), slice(3, 6)),
    "SE(3) log, quaternion": (slice(0, 3), slice(3, 6)),
}
# Within so many eps of π, rounding decides which of two rotation vectors is the principal one.
_SHEET_EPS = 8
# Their dexp⁻¹ is a function of exp(x), from which x is known only up to an angle of π.
_THROUGH_LOG = ("jaxlie", "Pinocchio")

# Errors of value, first and second derivative.
Cell = list[float | None]
Table = dict[str, Cell]
Errors = dict[str, dict[str, Table]]


class _Truth:
    """Value, Jacobian and Hessian of one map at all rows, each as a sum of two float64 arrays."""

    def __init__(self, rows: list[list[np.ndarray]]):
        self.parts = []
        for order in range(3):
            exact = np.stack([row[order] for row in rows])
            high = exact.astype(float)
            self.parts.append((high, (exact - high).astype(float)))

    def errors(self, name: str, got: list[list[np.ndarray]]) -> np.ndarray:
        """Largest relative error of each row (rows, 3); not a number where there is no result."""
        errors = np.full((len(self.parts[0][0]), 3), np.nan)
        for block in _BLOCKS.get(name, (slice(None),)):
            norms = [_norm(high[:, block]) for high, _ in self.parts]
            if "log" in name:
                # The second derivative of d ↦ log(T exp d) vanishes at T = I.
                norms[2] = np.maximum(norms[1], norms[2])
            for order, ((high, low), candidates) in enumerate(zip(self.parts, got, strict=True)):
                for candidate in candidates:
                    difference = (candidate - high)[:, block] - low[:, block]
                    error = _norm(difference) / np.where(norms[order] > 0, norms[order], 1.0)
                    error[~np.isfinite(error)] = np.inf
                    errors[:, order] = np.fmax(errors[:, order], error)
        return errors


def _norm(a: np.ndarray) -> np.ndarray:
    return np.linalg.norm(a.reshape(len(a), -1), axis=1)


def _truths(given: inputs.Inputs) -> dict[str, list[_Truth]]:
    """Per map its truth or, where a logarithm is involved, the truths on both sheets next to π."""
    eps = float(np.finfo(given.twist.dtype).eps)
    rows: dict[str, list[list[list]]] = {}

    def add(row: dict, other: dict) -> None:
        for name, tensors in row.items():
            both = rows.setdefault(name, [[], []])
            both[0].append(tensors)
            both[1].append(other.get(name, tensors))

    zero = truth.vector(np.zeros(6))
    for x, *pose in zip(given.twist, given.matrix, given.quaternion, given.position, strict=True):
        twist = truth.vector(x)
        near = abs(np.linalg.norm(x[3:]) - np.pi) < _SHEET_EPS * eps
        add(
            truth.with_derivatives(truth.maps, twist),
            truth.with_derivatives(truth.inverse_maps_past_pi, twist) if near else {},
        )
        matrix, quaternion, p = (truth.vector(part) for part in pose)
        rounded = truth.nearest_rotation(matrix.reshape(3, 3))
        for kind, q in (
            ("matrix", truth.quaternion_of(rounded)),
            ("quaternion", truth.unit(quaternion)),
        ):
            logs = [
                truth.with_derivatives(truth.log_maps(q, p, other_sheet), zero)
                if not other_sheet or abs(q[0]) < _SHEET_EPS * eps
                else {}
                for other_sheet in (False, True)
            ]
            add(*({f"{name}, {kind}": t for name, t in log.items()} for log in logs))
    return {name: [_Truth(sheet) for sheet in both] for name, both in rows.items()}


def _row_errors(name: str, truths: list[_Truth], got: list[list[np.ndarray]]) -> np.ndarray:
    candidates = [t.errors(name, got) for t in truths]
    best = np.argmin([c[:, 0] for c in candidates], axis=0)
    return np.stack(candidates)[best, np.arange(len(best))]


def _applies(name: str, library: str, interval: str) -> bool:
    through_log = "log" in name or (library in _THROUGH_LOG and "dexp⁻¹" in name)
    return not (through_log and interval == inputs.BEYOND)


def _table(name: str, library: str, intervals: list[str], rows: np.ndarray) -> Table:
    """Per interval the largest error of value, first and second derivative; None if missing."""
    table = {}
    for interval in inputs.INTERVALS:
        if _applies(name, library, interval):
            largest = np.max(rows[[i == interval for i in intervals]], axis=0)
            table[interval] = [None if np.isnan(e) else float(e) for e in largest]
    return table


def measure(dtype: type) -> tuple[Errors, list[str]]:
    """Errors by map, library and interval, and the names of the libraries not installed.

    Jacobians of exp are what the C++ libraries have for its first derivative: the error of dexp.
    """
    given = inputs.make(dtype)
    truths = _truths(given)
    results: dict[str, dict[str, Any]] = {
        library: {m: jax_libraries.evaluate(m, f, given) for m, f in functions.items()}
        for library, functions in jax_libraries.LIBRARIES.items()
    }
    missing = []
    if dtype == np.float64:
        for library, functions in other_libraries.LIBRARIES.items():
            try:
                found = functions()
            except ModuleNotFoundError:
                missing.append(library)
                continue
            results[library] = {m: other_libraries.evaluate(f, given) for m, f in found.items()}
    errors: Errors = {name: {} for name in MAPS}
    for library, by_map in results.items():
        for name, got in by_map.items():
            rows = _row_errors(name, truths[name], got)
            errors[name][library] = _table(name, library, given.interval, rows)
        if library in other_libraries.LIBRARIES:
            _add_jacobian_of_exp(errors, library)
    return errors, missing


def _add_jacobian_of_exp(errors: Errors, library: str) -> None:
    for group in ("SO(3)", "SE(3)"):
        jacobian = errors[f"{group} dexp"].get(library)
        if jacobian is not None:
            for interval, cell in errors[f"{group} exp"][library].items():
                cell[1] = jacobian[interval][0]
