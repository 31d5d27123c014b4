"""Ways to compute the motion of a random mechanism, and bounds on the distance between them."""

import numpy as np

import lie_jax

# Sets of numbers for each structure, which share the compiled program.
NUMBERS = 5
# Rounding, in parts of the sum of the absolute values that cancel, times what the solution of the
# equations of motion amplifies it by: mechanisms next to a singular position are not sorted out.
ROUNDING = 1e-9

LIE_WAYS = (
    (lie_jax.R3SO3(), lie_jax.CommutatorFree(4), 4),
    (lie_jax.SE3(), lie_jax.CrouchGrossman(4), 4),
    (lie_jax.R3SO3(chart="cayley"), lie_jax.RKMK("rk4"), 4),
    (lie_jax.SE3(chart="cayley"), lie_jax.RKMK("rk3"), 3),
    (lie_jax.UnifiedVelocity(), lie_jax.RKMK("rk4"), 4),
    (lie_jax.SE3("rotation_vector"), lie_jax.RKMK("dopri5"), 5),
    (lie_jax.TaitBryan(), lie_jax.RungeKutta("rk4"), 4),
    (lie_jax.EulerParameters(), lie_jax.RungeKutta("rk4"), 4),
    (lie_jax.R3SO3(), lie_jax.GeneralizedAlpha(0.6), 2),
    (lie_jax.SE3(chart="cayley"), lie_jax.GeneralizedAlpha(0.6, index=2), 2),
    (lie_jax.UnifiedVelocity(), lie_jax.GeneralizedAlpha(0.6), 2),
    (lie_jax.EulerParameters(), lie_jax.GeneralizedAlpha(0.6), 2),
    (lie_jax.TaitBryan(), lie_jax.GeneralizedAlpha(0.6, newton="modified"), 2),
)
JOINT_WAYS = (
    (lie_jax.Minimal(), lie_jax.CommutatorFree(4), 4),
    (lie_jax.Minimal(), lie_jax.RKMK("rk4"), 4),
    (lie_jax.Minimal(), lie_jax.ImplicitRKMK("gauss4"), 4),
    (lie_jax.Minimal(), lie_jax.GeneralizedAlpha(0.9), 2),
)
FREE_WAYS = (
    (lie_jax.R3SO3(), lie_jax.ImplicitRKMK("gauss6"), 6),
    (lie_jax.SE3(chart="cayley"), lie_jax.ImplicitRKMK("gauss4"), 4),
)


def close(what, got, expected, scale, bound=ROUNDING):
    off = np.max(np.abs(np.asarray(got) - np.asarray(expected)), initial=0.0)
    assert off <= bound * scale, f"{what}: off by {off:.3g} at a scale of {scale:.3g}"


def partner(structure):
    """Another way to write the same equations."""
    ways = [
        lie_jax.SE3(),
        lie_jax.TaitBryan(),
        lie_jax.UnifiedVelocity(),
        lie_jax.EulerParameters(),
        lie_jax.R3SO3("rotation_vector"),
        lie_jax.SE3("rotation_vector"),
    ]
    if structure.is_tree and structure.joints and structure.seed % 3 < 2:
        return lie_jax.Minimal()
    return ways[structure.seed % len(ways)]


def way_of(structure):
    """A formulation, an integrator and its order."""
    if structure.is_tree and structure.joints and structure.seed % 3 == 0:
        return JOINT_WAYS[structure.seed // 3 % len(JOINT_WAYS)]
    if not structure.joints and structure.seed % 2:
        return FREE_WAYS[structure.seed // 2 % len(FREE_WAYS)]
    return LIE_WAYS[structure.seed % len(LIE_WAYS)]
