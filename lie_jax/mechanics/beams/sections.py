"""Cross-sections of beams: stiffness and inertia per length.

Sections lie in the y-z plane of their frame, whose origin is their centroid.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from lie_jax import checks
from lie_jax.mechanics.beams.element import as_matrix, check_definite, check_semidefinite
from lie_jax.mechanics.fields import OptionalParameter, Parameter
from lie_jax.numerics.conversion import as_float

# Of a torsion constant's series; the next term is below 1e-25.
_TERMS = 8
# Sum of 1/n⁵ over odd n, 31/32 ζ(5).
_ODD_FIFTHS = 1.0045237627951398


class Section(eqx.Module):
    """A cross-section of a beam.

    **Arguments:** `stiffness`, `damping`: K and D of a `lie_jax.beams.Beam`; `mass`: kg/m;
    `inertia`: of the section about its centroid, (3,) along its axes, ρ(I_y + I_z), ρ I_y and
    ρ I_z, or a matrix (3, 3), kg m. Raises `ValueError` for values that are none of a section.
    """

    stiffness: Parameter = eqx.field(converter=as_matrix)
    mass: Parameter = eqx.field(converter=as_float)
    inertia: Parameter = eqx.field(converter=as_float)
    damping: OptionalParameter = eqx.field(converter=as_matrix, default=None)

    def __check_init__(self):
        check_definite("Section(stiffness=)", self.stiffness)
        checks.positive("Section(mass=)", self.mass, "kg/m")
        if np.shape(self.inertia) != (3,):
            checks.shape("Section(inertia=)", self.inertia, (3, 3), "kg m; or three numbers")
        checks.finite("Section(inertia=)", self.inertia)
        if self.damping is not None:
            check_semidefinite("Section(damping=)", self.damping)

    @property
    def inertia_matrix(self) -> Float[Array, "3 3"]:
        """Inertia as a matrix (3, 3), kg m."""
        if self.inertia.ndim == 2:
            return self.inertia
        return self.inertia[:, None] * jnp.eye(3, dtype=self.inertia.dtype)


def of_material(
    *,
    area: ArrayLike,
    moments: tuple[ArrayLike, ArrayLike],
    torsion: ArrayLike,
    young: ArrayLike,
    shear: ArrayLike,
    density: ArrayLike,
    shear_factors: tuple[ArrayLike, ArrayLike] = (1.0, 1.0),
    damping_time: ArrayLike | None = None,
) -> Section:
    """Section of one material.

    **Arguments:** `area` (m²), `moments` of area I_y and I_z (m⁴) and the `torsion` constant (m⁴);
    `young` E and `shear` G (Pa), `density` (kg/m³); the `shear_factors` multiply G `area` along y
    and z; with a `damping_time` τ (s) the section has the damping τ K.

    Returns a `Section`. Raises `ValueError` for numbers that are not positive, and for a negative
    damping time.
    """
    quantities = [
        *(("area", area, "m²"), ("moments[0]", moments[0], "m⁴"), ("moments[1]", moments[1], "m⁴")),
        *(("torsion", torsion, "m⁴"), ("young", young, "Pa"), ("shear", shear, "Pa")),
        ("density", density, "kg/m³"),
    ]
    for name, value, unit in quantities:
        checks.positive(f"beams: {name}", value, unit)
    if damping_time is not None:
        checks.non_negative("beams: damping_time", damping_time, "s")
    e, g, a, j, rho = (as_float(x) for x in (young, shear, area, torsion, density))
    about_y, about_z = (as_float(x) for x in moments)
    across_y, across_z = (as_float(x) for x in shear_factors)
    along_axes = [e * a, g * a * across_y, g * a * across_z, g * j, e * about_y, e * about_z]
    stiffness = jnp.stack(along_axes)
    inertia = rho * jnp.stack([about_y + about_z, about_y, about_z])
    damping = None if damping_time is None else as_float(damping_time) * stiffness
    return Section(stiffness, rho * a, inertia, damping)


def rectangle(
    width: ArrayLike,
    height: ArrayLike,
    young: ArrayLike,
    shear: ArrayLike,
    density: ArrayLike,
    **options: Any,
) -> Section:
    """Section of a rectangle, `width` along y and `height` along z, m.

    `young` and `shear` in Pa, `density` in kg/m³. Shear factors are 5/6 and the torsion constant is
    Saint-Venant's by default; `options` and errors are those of `of_material`.
    """
    checks.positive("rectangle(width=)", width, "m")
    checks.positive("rectangle(height=)", height, "m")
    b, h = as_float(width), as_float(height)
    given = {
        "area": b * h,
        "moments": (b * h**3 / 12.0, h * b**3 / 12.0),
        "torsion": _torsion_of_rectangle(b, h),
        "shear_factors": (5.0 / 6.0, 5.0 / 6.0),
    }
    return of_material(**{**given, **options}, young=young, shear=shear, density=density)


def tube(
    outer: ArrayLike,
    inner: ArrayLike,
    young: ArrayLike,
    shear: ArrayLike,
    density: ArrayLike,
    **options: Any,
) -> Section:
    """Section of a ring with an `outer` and an `inner` radius, m.

    `young` and `shear` in Pa, `density` in kg/m³. Shear factors are 0.9 by default; `options` and
    errors are those of `of_material`. Raises `ValueError` unless `inner` is less than `outer`, too.
    """
    checks.positive("tube(outer=)", outer, "m")
    checks.non_negative("tube(inner=)", inner, "m")
    out, within = as_float(outer), as_float(inner)
    if not checks.has_tracers(out, within) and not float(within) < float(out):
        raise ValueError(
            f"tube(inner=) is {float(within)} m and outer={float(out)} m; the inner radius must "
            "be the smaller one: exchange them."
        )
    moment = 0.25 * jnp.pi * (out**4 - within**4)
    given = {
        "area": jnp.pi * (out**2 - within**2),
        "moments": (moment, moment),
        "torsion": 2.0 * moment,
        "shear_factors": (0.9, 0.9),
    }
    return of_material(**{**given, **options}, young=young, shear=shear, density=density)


def circle(
    radius: ArrayLike, young: ArrayLike, shear: ArrayLike, density: ArrayLike, **options: Any
) -> Section:
    """Section of a full circle, `radius` in m.

    `young` and `shear` in Pa, `density` in kg/m³. Shear factors are 0.9 by default; `options` and
    errors are those of `of_material`.
    """
    return tube(radius, 0.0, young, shear, density, **options)


def _torsion_of_rectangle(width: Array, height: Array) -> Array:
    """Saint-Venant's constant of a rectangle, m⁴.

    Source: Timoshenko, Goodier, "Theory of Elasticity", the series for a bar of rectangular
    section.
    """
    short, long = jnp.minimum(width, height), jnp.maximum(width, height)
    odd = jnp.arange(1, 2 * _TERMS, 2).astype(short.dtype)
    # The series of tanh(x)/n⁵ with 1 - tanh(x) = 2 / (1 + exp(2 x)), which falls at once.
    twice = jnp.pi * odd * long / short
    series = _ODD_FIFTHS - jnp.sum(2.0 * jnp.exp(-twice) / (1.0 + jnp.exp(-twice)) / odd**5)
    return long * short**3 / 3.0 * (1.0 - 192.0 * short / (jnp.pi**5 * long) * series)
