"""Systems with places where bodies touch, as `ConvexContact` needs them."""

import abc

from lie_jax.numerics.places import AbstractPlaces
from lie_jax.systems.system import AbstractSystem, Configuration, Time, Velocity


class AbstractTouchingSystem(AbstractSystem):
    """System whose forces at places of contact can be told from its other forces."""

    @abc.abstractmethod
    def places(self, t: Time, q: Configuration, v: Velocity) -> AbstractPlaces:
        """Places where bodies touch, held as at an instant; only where `no_places` is None."""

    @abc.abstractmethod
    def without_places(self) -> AbstractSystem:
        """System without the forces at its places."""

    @abc.abstractmethod
    def no_places(self) -> str | None:
        """Sentence on why it has no `places`, with the fix, for messages; None where it has."""
