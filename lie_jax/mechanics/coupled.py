"""Whether the joints whose coordinates are coupled are those of the mechanism."""

from collections.abc import Sequence

import jax
import numpy as np

from lie_jax import checks
from lie_jax.groups import quaternion
from lie_jax.mechanics.beams.element import Beam
from lie_jax.mechanics.elements import AbstractElement, named
from lie_jax.mechanics.forces.bushing import Bushing
from lie_jax.mechanics.forces.revolute_bushing import RevoluteBushing
from lie_jax.mechanics.forces.tendons import CouplingForce
from lie_jax.mechanics.joints.base import AbstractJoint
from lie_jax.mechanics.joints.coupling import CouplingJoint
from lie_jax.mechanics.joints.pairs import PrismaticJoint, RevoluteJoint

# Forces that hold bodies together as joints do.
_COMPLIANT = Bushing | RevoluteBushing | Beam
# Cosine of the angle between two axes that count as parallel.
PARALLEL = 0.999


def objection(
    element: AbstractElement, joints: Sequence[AbstractJoint], forces: Sequence[AbstractElement]
) -> str | None:
    """Sentence on a coupled hinge or slider that nothing connects, or along whose axis its bodies
    cannot move.

    None where it is one of these `joints`, or where joints of other kinds, compliant ones among the
    `forces` or traced axes leave that open.
    """
    for coupled in element.joints if isinstance(element, CouplingJoint | CouplingForce) else ():
        ends = {coupled.parent, coupled.child}
        compliant = [force for force in forces if isinstance(force, _COMPLIANT)]
        if not any(ends <= set(other.bodies) for other in (*joints, *compliant)):
            return (
                f"couples {named(coupled)}, and no joint connects these bodies; it must be one of "
                "the mechanism's joints: add it to joints=, or take forces between bodies "
                "without a joint, such as lie_jax.TorsionalSpringDamper, LinearSpringDamper or "
                "PathForce."
            )
        # Others without motions, such as drivers, only restrict those of these.
        between = [
            joint
            for joint in joints
            if type(joint).motions is not AbstractJoint.motions
            and {joint.parent, joint.child} == ends
        ]
        # A distance may change between points on two sides of a hinge.
        kinds = RevoluteJoint | PrismaticJoint if _turns(coupled) else PrismaticJoint
        known = [joint for joint in between if isinstance(joint, kinds)]
        if not known or len(known) < len(between) or checks.traced(coupled, known):
            continue
        axes = [_axis(joint, coupled.parent) for joint in known]
        wanted = np.asarray(coupled.axis)
        if any(
            _turns(joint) == _turns(coupled) and abs(axis @ wanted) > PARALLEL
            for joint, axis in zip(known, axes, strict=True)
        ):
            continue
        there = " and ".join(f"{named(joint)} with the axis {_text(joint)}" for joint in known)
        return (
            f"couples {named(coupled)} with the axis {_text(coupled)}, which is none of the "
            f"mechanism's joints: between these bodies there is {there}. Its coordinate would not "
            "be that of a joint: give the joint itself that is in joints=."
        )
    return None


def _turns(joint: AbstractJoint) -> bool:
    return isinstance(joint, RevoluteJoint)


def _axis(joint: RevoluteJoint | PrismaticJoint, parent: str) -> np.ndarray:
    """Axis of a joint in the frame of this one of its bodies."""
    if joint.parent == parent:
        return np.asarray(joint.axis)
    # Inside `jax.jit`, too, where these values are constants.
    with jax.ensure_compile_time_eval():
        return np.asarray(quaternion.rotate(quaternion.conjugate(joint.orientation), joint.axis))


def _text(joint: RevoluteJoint | PrismaticJoint) -> str:
    return f"({', '.join(f'{x:.3g}' for x in np.asarray(joint.axis).tolist())})"
