"""Inertias of the links of a URDF file: joined where links are fixed to each other, then judged."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from lie_jax import checks

# A link that has to have mass, and has none, gets this one (kg).
_LEAST_MASS = 1e-3
# Least standard deviation of mended mass along every axis (m).
_LEAST_EXTENT = 1e-3
# Mass and moments (kg, kg m²) of massless bodies, which MuJoCo's compiler refuses.
_STANDS_FOR_NOTHING = 1e-12
# Bodies of one kind in a message.
_NAMES = 4


class Joined(NamedTuple):
    """Names of bodies that have no mass, and of those that have been mended."""

    massless: tuple[str, ...]
    mended: tuple[str, ...]


class _Mass(NamedTuple):
    """Mass (kg), its place (3,) and inertia about it (3, 3), in the axes of a body."""

    mass: float
    center: np.ndarray
    inertia: np.ndarray

    def __add__(self, other: "_Mass") -> "_Mass":  # pyright: ignore[reportIncompatibleMethodOverride]
        mass = self.mass + other.mass
        if not mass:
            return _Mass(0.0, self.center, self.inertia + other.inertia)
        center = (self.mass * self.center + other.mass * other.center) / mass
        inertia = np.zeros((3, 3))
        for part in (self, other):
            arm = part.center - center
            inertia += part.inertia + part.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
        return _Mass(mass, center, inertia)

    def moved(self, position: np.ndarray, rotation: np.ndarray) -> "_Mass":
        """The mass in the axes of a body in which this one has a position and a rotation."""
        center = position + rotation @ self.center
        return _Mass(self.mass, center, rotation @ self.inertia @ rotation.T)


_NOTHING = _Mass(0.0, np.zeros(3), np.zeros((3, 3)))


def join(mujoco: Any, spec: Any, mends: bool) -> Joined:
    """Join the inertias of links that are fixed to each other, in a specification of MuJoCo.

    The link that moves has the inertia of all that are fixed to it. A link without mass stays so
    where it carries mass by joints. Raises `ValueError` with names, numbers and rules for
    inertias that no body has; `mends`: whether the nearest ones that a body can have stand for
    them.
    """
    improper, massless, mended = [], [], []
    are_numbers = True
    for body, mass, carries in _moving(mujoco, spec):
        is_empty = not mass.mass and not mass.inertia.any()
        if is_empty and carries and body.joints and not _is_free(mujoco, body):
            massless.append(body.name)
            _set(body, _Mass(_STANDS_FOR_NOTHING, mass.center, _STANDS_FOR_NOTHING * np.eye(3)))
            continue
        broken = _broken_rule(mass)
        is_finite = bool(np.isfinite([mass.mass, *mass.inertia.ravel()]).all())
        if broken and not (mends and is_finite):
            improper.append(f"{body.name!r} has {broken}")
            are_numbers = are_numbers and is_finite
            continue
        if broken:
            mended.append(body.name)
            mass = _mended(mass, _LEAST_EXTENT)
        _set(body, mass if broken else _mended(mass, 0.0))
    if improper:
        more = f", and {len(improper) - _NAMES} more" if len(improper) > _NAMES else ""
        balance = (
            ", or take import_model(..., inertia='balance'), which changes them to the nearest "
            "ones that a body can have"
        )
        raise ValueError(
            "has links with inertias that no body has, counted with all links that are fixed to "
            f"them: {'; '.join(improper[:_NAMES])}{more}. Correct <inertial>"
            f"{balance if are_numbers else ''}."
        )
    return Joined(tuple(massless), tuple(mended))


def _moving(mujoco: Any, spec: Any) -> Iterator[tuple[Any, _Mass, bool]]:
    """Bodies with joints, their mass with all that is fixed to them, and whether they carry mass
    by joints.

    Others are left without mass.
    """
    moving = []

    def visit(body: Any) -> tuple[_Mass, bool]:
        total, carries = _mass(mujoco, body), False
        for child in body.bodies:
            part, beyond = visit(child)
            rotation = np.zeros(9)
            mujoco.mju_quat2Mat(rotation, child.quat)
            if child.joints:
                carries = carries or beyond or bool(part.mass)
            else:
                carries = carries or beyond
                total = total + part.moved(np.asarray(child.pos), rotation.reshape(3, 3))
                _set(child, _NOTHING)
        if body.joints:
            moving.append((body, total, carries))
        return total, carries

    for body in spec.worldbody.bodies:
        visit(body)
        if not body.joints:
            _set(body, _NOTHING)
    return iter(moving[::-1])


def _mass(mujoco: Any, body: Any) -> _Mass:
    if not body.explicitinertial:
        return _NOTHING
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, body.iquat)
    axes, products = rotation.reshape(3, 3), np.asarray(body.fullinertia)
    xx, yy, zz, xy, xz, yz = products
    inertia = np.asarray([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if np.isnan(xx):
        inertia = np.diag(body.inertia)
    return _Mass(float(body.mass), np.asarray(body.ipos), axes @ inertia @ axes.T)


def _set(body: Any, mass: _Mass) -> None:
    j = mass.inertia
    body.explicitinertial = True
    body.mass, body.ipos, body.iquat, body.inertia = mass.mass, mass.center, [1, 0, 0, 0], [0] * 3
    body.fullinertia = [j[0, 0], j[1, 1], j[2, 2], j[0, 1], j[0, 2], j[1, 2]]
    if not mass.mass:
        body.fullinertia = [np.nan, 0, 0, 0, 0, 0]


def _is_free(mujoco: Any, body: Any) -> bool:
    return any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in body.joints)


def _broken_rule(mass: _Mass) -> str | None:
    """Numbers, and the rule that they break; None for the inertia of a body."""
    if not np.isfinite([mass.mass, *mass.inertia.ravel()]).all():
        return "numbers that are not finite"
    if mass.mass <= 0.0:
        return f"the mass {mass.mass:.6g} kg, which must be positive"
    moments = np.linalg.eigvalsh(mass.inertia)
    numbers = f"the principal moments {', '.join(f'{x:.4g}' for x in moments)} kg m²"
    if moments[0] <= 0.0:
        return f"{numbers}, which must be positive"
    if moments[0] + moments[1] < moments[2] - checks.INPUT_SLACK * moments[2]:
        return f"{numbers}, of which the smaller two must add up to the largest or more"
    return None


def _mended(mass: _Mass, extent: float) -> _Mass:
    """The mass with the nearest distribution about its centre that has no negative part, and this
    standard deviation along every axis or more (m).
    """
    weight = mass.mass if mass.mass > 0.0 else _LEAST_MASS
    # ∫ x xᵀ dm, of which the inertia is the trace times the identity less the matrix.
    spread = 0.5 * np.trace(mass.inertia) * np.eye(3) - mass.inertia
    sizes, axes = np.linalg.eigh(spread)
    least = weight * extent**2
    if sizes[0] >= least and mass.mass > 0.0:
        return mass
    spread = axes @ np.diag(np.maximum(sizes, least)) @ axes.T
    return _Mass(weight, mass.center, np.trace(spread) * np.eye(3) - spread)
