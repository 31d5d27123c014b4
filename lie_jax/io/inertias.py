"""Inertias of the links of a URDF file: joined where links are fixed to each other, then judged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from lie_jax import checks
from lie_jax.io import meshes, urdf
from lie_jax.io.sources import Refusal
from lie_jax.numerics.conversion import as_float

# A link that has to have mass, and has none, gets this one (kg).
_LEAST_MASS = 1e-3
# Least standard deviation of mended mass along every axis (m).
_LEAST_EXTENT = 1e-3
# Digits of a moment over the largest one, in units of the last place, that are rounding.
_ROUNDING = 8.0
# Bodies of one kind in a message.
_NAMES = 4


class Mass(NamedTuple):
    """Mass (kg), its place (3,) and inertia about it (3, 3), in the axes of a body."""

    mass: float
    center: np.ndarray
    inertia: np.ndarray

    @property
    def is_nothing(self) -> bool:
        """Whether there is neither mass nor inertia."""
        return not self.mass and not self.inertia.any()

    def __add__(self, other: "Mass") -> "Mass":  # pyright: ignore[reportIncompatibleMethodOverride]
        # Sums with nothing keep every digit.
        if self.is_nothing or other.is_nothing:
            return other if self.is_nothing else self
        mass = self.mass + other.mass
        if not mass:
            return Mass(0.0, self.center, self.inertia + other.inertia)
        center = (self.mass * self.center + other.mass * other.center) / mass
        inertia = np.zeros((3, 3))
        for part in (self, other):
            arm = part.center - center
            inertia += part.inertia + part.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
        return Mass(mass, center, inertia)

    def scale(self, factor: float) -> "Mass":
        """As dense as this times a factor."""
        return Mass(factor * self.mass, self.center, factor * self.inertia)

    def transform(self, position: np.ndarray, rotation: np.ndarray) -> "Mass":
        """The mass in the axes of a body in which this one has a position and a rotation."""
        center = position + rotation @ self.center
        return Mass(self.mass, center, _rotate(rotation, self.inertia))


_NOTHING = Mass(0.0, np.zeros(3), np.zeros((3, 3)))


class Joined(NamedTuple):
    """Masses of the bodies with joints by name, zero for massless ones, and names of those that
    have been mended.
    """

    masses: dict[str, Mass]
    mended: tuple[str, ...]


class _Moving(NamedTuple):
    """A body with joints: its mass with all that is fixed to it, the links that it consists of, and
    whether it carries mass by joints.
    """

    body: Any
    mass: Mass
    links: tuple[str, ...]
    carries: bool


def join(mujoco: Any, spec: Any, robot: ElementTree.Element, inertia: str) -> Joined:
    """Masses of the bodies of a URDF file, with all links that are fixed to them.

    The bodies of the specification get others, so that MuJoCo judges none. A link without mass
    stays so where it carries mass by joints. `inertia`: as for `import_model`. Raises `ValueError`
    with names, numbers and rules for inertias that no body has.
    """
    links = {str(link.get("name")): _of_link(link) for link in robot.findall("link")}
    bare = [name for name, mass in links.items() if mass is None]
    counts = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    if counts or inertia == "geometry":
        shapes = _of_shapes(mujoco, spec)
        links |= {name: shapes[name] for name in (links if counts else bare) if name in shapes}
    masses = {name: _apply_bounds(spec.compiler, mass or _NOTHING) for name, mass in links.items()}
    joined: dict[str, Mass] = {}
    improper: list[str] = []
    mended: list[str] = []
    offers = {"balance"} if inertia != "balance" else set()
    for body, mass, parts, carries in _moving(mujoco, spec, masses):
        is_carrier = mass.is_nothing and carries and not _is_free(mujoco, body)
        broken = None if is_carrier else _broken_rule(mass)
        if broken and not np.isfinite([mass.mass, *mass.inertia.ravel()]).all():
            improper.append(f"{body.name!r} has {broken}")
            offers.discard("balance")
        elif broken and inertia == "balance":
            mended.append(body.name)
            mass = _mend(mass)
        elif broken:
            improper.append(f"{body.name!r} has {broken}")
            shaped = [part for part in parts if part in bare and spec.body(part).geoms]
            offers |= {"geometry"} if shaped and inertia == "strict" else set()
        joined[body.name] = mass
    if improper:
        raise Refusal(_refusal(improper, offers))
    total, wanted = sum(mass.mass for mass in joined.values()), spec.compiler.settotalmass
    if wanted > 0.0 and total:
        joined = {name: mass.scale(wanted / total) for name, mass in joined.items()}
    _set_others(spec)
    return Joined(joined, tuple(mended))


def keep_products(mujoco: Any, spec: Any) -> None:
    """Replace inertias of MJCF bodies with products by principal ones.

    MuJoCo drops products below about 1e-6 of the moments.
    """
    for body in spec.bodies:
        products = np.asarray(body.fullinertia)
        if not body.explicitinertial or not np.isfinite(products).all():
            continue
        moments, axes = np.linalg.eigh(_matrix(products))
        # Others are MuJoCo's to refuse or to balance.
        if moments[0] <= 0.0 or moments[0] + moments[1] < moments[2]:
            continue
        axes[:, 2] *= np.linalg.det(axes)
        body.fullinertia, body.inertia = [np.nan, 0, 0, 0, 0, 0], moments
        mujoco.mju_mat2Quat(body.iquat, axes.ravel())


def _matrix(parts: Sequence[float] | np.ndarray) -> np.ndarray:
    xx, yy, zz, xy, xz, yz = parts
    return np.asarray([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], float)


def _rotate(rotation: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    # Products keep every digit where there is no rotation.
    if np.array_equal(rotation, np.eye(3)):
        return inertia
    turned = rotation @ inertia @ rotation.T
    return 0.5 * (turned + turned.T)


def _of_link(link: ElementTree.Element) -> Mass | None:
    """Mass of a link in its axes; None without `<inertial>`."""
    inertial, name = link.find("inertial"), str(link.get("name"))
    if inertial is None:
        return None

    def number(tag: str, attribute: str) -> float:
        element = inertial.find(tag)
        if element is None or element.get(attribute) is None:
            raise Refusal(
                f"cannot be compiled: <inertial> of the link {name!r} has no <{tag} {attribute}=>; "
                "it must have one. Add it to the file."
            )
        return float(urdf.numbers(element, attribute, "0", name)[0])

    parts = [number("inertia", part) for part in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")]
    rotation, center = urdf.origin(inertial, name)
    return Mass(number("mass", "value"), center, _rotate(rotation, _matrix(parts)))


def _of_shapes(mujoco: Any, spec: Any) -> dict[str, Mass]:
    """Masses of the shapes that may touch, of all bodies that have some, as dense as water."""
    copy = spec.copy()
    for part in (*copy.joints, *copy.equalities):
        copy.delete(part)
    for geom in tuple(copy.geoms):
        if not (geom.contype or geom.conaffinity):
            copy.delete(geom)
    for mesh in copy.meshes:
        mesh.inertia = type(mesh.inertia).mjMESH_INERTIA_LEGACY
    meshes.delete_unreadable(mujoco, copy)
    settings = copy.compiler
    settings.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    settings.boundmass = settings.boundinertia = 0.0
    settings.settotalmass = -1.0
    model = copy.compile()
    found = {}
    for i in range(1, model.nbody):
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, model.body_iquat[i])
        inertia = _rotate(axes.reshape(3, 3), np.diag(model.body_inertia[i]))
        mass = Mass(float(model.body_mass[i]), model.body_ipos[i].copy(), inertia)
        if mass.mass:
            found[model.body(i).name] = mass
    return found


def _apply_bounds(settings: Any, mass: Mass) -> Mass:
    """The mass of a link as the compiler settings of the file change it, by MuJoCo's rules."""
    if not (settings.balanceinertia or settings.boundmass or settings.boundinertia):
        return mass
    if not np.isfinite(mass.inertia).all():
        return mass
    least, axes = settings.boundinertia, np.eye(3)
    moments = np.diagonal(mass.inertia)
    if np.count_nonzero(mass.inertia - np.diag(moments)):
        moments, axes = np.linalg.eigh(mass.inertia)
    bounded = np.maximum(moments, least) if least else moments
    if settings.balanceinertia and 2.0 * np.max(bounded) > np.sum(bounded):
        bounded = np.full(3, np.mean(bounded))
    inertia = mass.inertia
    if np.any(bounded != moments):
        inertia = _rotate(axes, np.diag(bounded))
    return Mass(max(mass.mass, settings.boundmass), mass.center, inertia)


def _moving(mujoco: Any, spec: Any, masses: Mapping[str, Mass]) -> Iterator[_Moving]:
    """Bodies with joints, from the root."""
    moving: list[_Moving] = []

    def visit(body: Any) -> tuple[Mass, tuple[str, ...], bool]:
        """Mass and links of a body with all fixed to it, and whether it carries mass by joints."""
        total, links, carries = masses[body.name], (body.name,), False
        for child in body.bodies:
            part, parts, beyond = visit(child)
            if child.joints:
                carries = carries or beyond or bool(part.mass)
                continue
            rotation = np.zeros(9)
            mujoco.mju_quat2Mat(rotation, child.quat)
            carries, links = carries or beyond, links + parts
            total = total + part.transform(np.asarray(child.pos), rotation.reshape(3, 3))
        if body.joints:
            moving.append(_Moving(body, total, links, carries))
        return total, links, carries

    for body in spec.worldbody.bodies:
        visit(body)
    return iter(moving[::-1])


def _set_others(spec: Any) -> None:
    """Give all bodies of the specification an inertia that MuJoCo accepts."""
    settings = spec.compiler
    settings.inertiafromgeom = type(settings.inertiafromgeom).mjINERTIAFROMGEOM_FALSE
    settings.balanceinertia = False
    settings.boundmass = settings.boundinertia = 0.0
    settings.settotalmass = -1.0
    for body in spec.bodies[1:]:
        body.explicitinertial = True
        body.mass, body.ipos, body.iquat, body.inertia = 1.0, [0] * 3, [1, 0, 0, 0], [1] * 3
        body.fullinertia = [np.nan, 0, 0, 0, 0, 0]


def _is_free(mujoco: Any, body: Any) -> bool:
    return any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in body.joints)


def _broken_rule(mass: Mass) -> str | None:
    """Numbers, and the rule that they break; None for the inertia of a body."""
    if not np.isfinite([mass.mass, *mass.inertia.ravel()]).all():
        return "numbers that are not finite"
    if mass.mass <= 0.0:
        return f"the mass {mass.mass:.6g} kg, which must be positive"
    moments = np.linalg.eigvalsh(mass.inertia)
    numbers = f"the principal moments {', '.join(f'{x:.4g}' for x in moments)} kg m²"
    # Single precision has another rounding.
    if moments[0] <= _ROUNDING * np.finfo(as_float(0.0).dtype).eps * moments[2]:
        return f"{numbers}, which must be positive"
    if moments[0] + moments[1] < moments[2] - checks.INPUT_SLACK * moments[2]:
        return f"{numbers}, of which the smaller two must add up to the largest or more"
    return None


def _refusal(improper: Sequence[str], offers: set[str]) -> str:
    more = f", and {len(improper) - _NAMES} more" if len(improper) > _NAMES else ""
    ways = {
        "geometry": "; take import_model(..., inertia='geometry'), which gives links without "
        "<inertial> the mass of their shapes, 1000 kg/m³",
        "balance": "; or take import_model(..., inertia='balance'), which changes them to the "
        "nearest ones that a body can have",
    }
    return (
        "has links with inertias that no body has, counted with all links that are fixed to "
        f"them: {'; '.join(improper[:_NAMES])}{more}. Correct <inertial>"
        f"{''.join(text for way, text in ways.items() if way in offers)}."
    )


def _mend(mass: Mass) -> Mass:
    """The mass with the nearest distribution about its centre that has the least extent along every
    axis.
    """
    weight = mass.mass if mass.mass > 0.0 else _LEAST_MASS
    # ∫ x xᵀ dm, of which the inertia is the trace times the identity less the matrix.
    spread = 0.5 * np.trace(mass.inertia) * np.eye(3) - mass.inertia
    sizes, axes = np.linalg.eigh(spread)
    rounding = 2.0 * _ROUNDING * np.finfo(as_float(0.0).dtype).eps * np.max(np.abs(sizes))
    least = max(weight * _LEAST_EXTENT**2, rounding)
    spread = axes @ np.diag(np.maximum(sizes, least)) @ axes.T
    return Mass(weight, mass.center, np.trace(spread) * np.eye(3) - spread)
