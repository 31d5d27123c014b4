"""Contract of a force, written on poses and velocities.

A force names the bodies on which it acts (`"ground"` stands for the inertial frame) and returns one
hybrid wrench for each of them. The gravity of a mechanism is an argument of `Mechanism`.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lie_jax.mechanics import fields
from lie_jax.mechanics.elements import AbstractElement
from lie_jax.mechanics.joints.base import Poses, Time, Velocities, Wrench


class AbstractForce(AbstractElement):
    """A force element; its wrenches act on `bodies`, in order.

    **Arguments** that forces share: `parent`, `child`, `axis`, `orientation`, `parent_point` and
    `child_point` are those of every `AbstractJoint`; for forces in joints see `AbstractJointForce`.
    Forces raise `ValueError` for other shapes and values.
    """

    # Whether the force is given: no motion changes it, but for its direction.
    is_load: ClassVar[bool] = False
    # Whether the wrenches balance each other and depend on the relative motion of the bodies alone.
    # A rigid motion of all bodies then rotates the wrenches and changes nothing else.
    is_relative: ClassVar[bool] = False
    # Whether wrenches change smoothly with every motion, without places where they set in: Newton's
    # method may then keep a matrix from step to step.
    is_smooth: ClassVar[bool] = False
    # What `memory_after` returned at the last instant of a run; None outside of runs.
    last: Any = eqx.field(init=False, repr=False, default=None, metadata=fields.PRESET)

    # What `prediction` returned before the last step of a search; None elsewhere.
    predicted: Any = eqx.field(init=False, repr=False, default=None, metadata=fields.PRESET)

    @abc.abstractmethod
    def wrenches(
        self, t: Time, poses: Poses, velocities: Velocities, u: Float[Array, " nu"] | None
    ) -> tuple[Wrench, ...]:
        """One wrench for each body; u is the one entry of an element with an `input_number`."""

    def derivatives(
        self, t: Time, poses: Poses, velocities: Velocities, u: Float[Array, "count nu"] | None
    ) -> tuple[Float[Array, "slots 6 slots 6 count"], Float[Array, "slots 6 slots 6 count"]] | None:
        """Derivatives of hybrid wrenches of stacked elements: along hybrid velocities, at constant
        ṙ and ω, and by hybrid velocities.

        The arrays of `self`, poses, velocities and u have elements on their first axis. None, as
        here, for derivatives by forward mode; formulas pay where they are much of a step.
        """
        return None

    def prediction(self, poses: Poses, increments: Velocities) -> Any:
        """Strains to the first order after hybrid increments (m, rad): a pytree of arrays.

        Where bodies turn in a step of a search, a stiff element is stretched to the second order.
        Forces of that stretch in the next matrix would keep it from turning on. Derivatives of an
        element with such `predicted` strains take the forces that belong to these instead, and the
        search converges in few and long steps. None, as here, for elements without this trouble.
        Source: Magisano, Leonetti, Garcea, "How to improve efficiency and robustness of the Newton
        method in geometrically non-linear structural problem discretized via displacement-based
        finite elements" (2017).
        """
        return None

    def potential_energy(self, poses: Poses) -> Float[Array, ""]:
        """Potential energy (J) of a conservative force; zero for any other."""
        return jnp.zeros((), poses[0].position.dtype)

    @property
    def is_bounded(self) -> bool:
        """Whether `leaves_range` may be true: of laws with a memory, in a run."""
        return self.last is not None

    @property
    def winds(self) -> bool:
        """Whether `potential_energy` depends on whole turns, which poses do not determine."""
        return False

    @property
    def lacks_turns(self) -> bool:
        """Whether its power depends on whole turns without a memory that counts them."""
        return False

    def memory_after(self, t: Time, poses: Poses, velocities: Velocities) -> Any:
        """Memory of an instant of a run, the field `last` in the next step: a pytree of arrays.

        None for a force without memory.
        """
        return None

    def leaves_range(self, t: Time, poses: Poses, velocities: Velocities) -> Bool[Array, ""]:
        """Whether no motion that the law describes leads from the instant in `last` to this one.

        A law that describes not all motions, whatever the instant before, is asked outside of runs,
        too, if it overrides `is_bounded`.
        """
        return jnp.zeros((), bool)


class AbstractPairForce(AbstractForce):
    """A force between a parent and a child."""

    parent: str = eqx.field(static=True, metadata=fields.BODY)
    child: str = eqx.field(static=True, metadata=fields.BODY)


def entry(u: Float[Array, " nu"] | None, number: int) -> Float[Array, ""]:
    """Entry of the inputs with this number."""
    if u is None or u.shape[0] <= number:
        given = "none were given" if u is None else f"u has {u.shape[0]}"
        raise ValueError(
            f"a force reads input {number}, counted from 0, but {given}; give at least "
            f"{number + 1}: the argument u, or simulate(inputs=) of shape (steps, nu)."
        )
    return u[number]
