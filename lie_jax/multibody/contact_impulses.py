"""Contacts that are held during a step, with forces as functions of relative velocities alone."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from typing_extensions import override

from lie_jax.mechanics.contact import geometry
from lie_jax.mechanics.contact.element import Contact
from lie_jax.multibody import stacking
from lie_jax.multibody.stacking import Groups
from lie_jax.numerics import small
from lie_jax.numerics.places import AbstractPlaces


class Held(NamedTuple):
    """Places of a group of k contacts, with m places each, as they are at an instant.

    `element`: the contacts, stacked; `gap` (k, m), m; `normal` (k, m, 3); `coefficient` (k, m): μ
    of friction at the slip of the instant, zero without friction.
    """

    element: Contact
    gap: Float[Array, "k m"]
    normal: Float[Array, "k m 3"]
    coefficient: Float[Array, "k m"]


class Places(AbstractPlaces):
    """Places of all contacts of a mechanism, group by group."""

    groups: tuple[Held, ...]

    @property
    @override
    def rub(self):
        return any(held.element.friction is not None for held in self.groups)

    @override
    def limits(self, dt, w):
        def at(element, gap, normal, coefficient, w):
            return coefficient * _normal_force(element, dt, gap, small.dot(normal, w))

        return self._each(at, jnp.zeros((0,), w.dtype), w)

    @override
    def forces(self, dt, limits, w):
        def at(element, gap, normal, _, w, limit):
            rate = small.dot(normal, w)
            force = _normal_force(element, dt, gap, rate) * normal
            if element.friction is None:
                return force
            return force + element.friction.against(limit, w - rate * normal)

        return small.once(self._each(at, jnp.zeros((0, 3), w.dtype), w, limits))

    def _each(self, function: Callable, none: Array, *values: Array) -> Array:
        """Results of function(element, gap, normal, coefficient, *values) at all places; `none`
        without places.
        """
        results, start = [none], 0
        for held in self.groups:
            k, m = held.gap.shape
            parts = [x[start : start + k * m].reshape(k, m, *x.shape[1:]) for x in values]
            start += k * m
            places = jax.vmap(function, in_axes=(None, *[0] * (3 + len(parts))))
            result = jax.vmap(places)(*held, *parts)
            results.append(result.reshape(k * m, *result.shape[2:]))
        return jnp.concatenate(results)


def _normal_force(element: Contact, dt: Array | float, gap: Array, rate: Array) -> Array:
    return element.normal.force(-gap - dt * rate, -rate)


def split(forces: Groups) -> tuple[Groups, Groups]:
    """Groups of contacts, and those of all other forces."""
    contacts = tuple(group for group in forces if isinstance(group.element, Contact))
    return contacts, tuple(group for group in forces if not isinstance(group.element, Contact))


def _relative(contacts: Groups, motion: Sequence[Array]) -> Float[Array, "n 3"]:
    # Velocities of first bodies on second ones at all places.
    def at(element, poses, velocities):
        touching = geometry.touching(element.shapes, poses)
        return element.relative(touching, poses, velocities)

    rows = [stacking.each(at, group, motion).reshape(-1, 3) for group in contacts]
    return small.once(jnp.concatenate([jnp.zeros((0, 3), motion[1].dtype), *rows]))


def places_at(
    forces: Groups, motion: Sequence[Array], units: tuple[Float[Array, "nv bodies 3"], ...]
) -> Places:
    """Places of all contacts at the motion of all bodies; `units`: ṙ and ω for unit velocities."""
    contacts, _ = split(forces)

    def at(element, poses, velocities):
        touching = geometry.touching(element.shapes, poses)
        w = element.relative(touching, poses, velocities)

        def coefficient(normal, w):
            slip = w - small.dot(normal, w) * normal
            return element.friction.limit(small.dot(slip, slip)) + jnp.zeros_like(w[0])

        if element.friction is None:
            coefficients = jnp.zeros_like(touching.gap)
        else:
            coefficients = jax.vmap(coefficient)(touching.normal, w)
        return touching.gap, touching.normal, coefficients

    groups = tuple(Held(group.element, *stacking.each(at, group, motion)) for group in contacts)
    pose = tuple(motion[:2])
    along = jax.vmap(lambda *rates: _relative(contacts, (*pose, *rates)), out_axes=2)
    return Places(along(*units), groups)


def refusal(forces: Groups) -> str | None:
    """Sentence on a contact whose torques of friction `Places` do not have, with the fix."""
    for group in split(forces)[0]:
        friction = group.element.friction
        for name in ("spinning_radius", "rolling_lever"):
            if getattr(friction, name, None) is not None:
                return (
                    f"{group.titles[0]} has a friction with a {name}, whose torque "
                    "is left out: leave the argument out, or use lie_jax.GeneralizedAlpha()."
                )
    return None
