"""The rows of the table: what is compared with what, how well they must agree, what is aimed at."""

from typing import NamedTuple

from benchmarks.peers.cases import CHAIN_SIZES, TREES

# Distances of end points, m. The same method, and methods of order 4 in steps that resolve the
# motion: rounding over 10 000 steps.
SAME = 1e-10
# Generalized-α in both, of second order: they start differently, with errors of that order. The
# largest steps are those of the slider-crank.
SECOND_ORDER = 1e-6
# MJX averages velocities of stages, which is of second order on rotations.
MJX_STEPS = 1e-4
# Automatic steps with tolerances of 1e-8 over some 1500 steps.
AUTOMATIC = 1e-5
# MuJoCo's implicit method is of first order.
FIRST_ORDER = 1e-2
# The ground gives by other lengths, up to its 5.5 mm here.
OTHER_GROUND = 1e-2


class Row(NamedTuple):
    """A comparison: ours / theirs should be at most `target` with the raised loop threshold, and at
    most `as_it_comes` without.
    """

    case: str
    title: str
    peer: str
    against: str
    agree: float
    target: float | None = None
    as_it_comes: float | None = None


ROWS = (
    Row("top", "heavy top, RKMK4", "Exudyn", "Exudyn, RK44", SAME, 0.06, 0.2),
    Row("top", "heavy top, RKMK4", "MuJoCo C", "MuJoCo C, RK4, ball joint", SAME, 0.08),
    Row("top", "heavy top, RKMK4", "own C", "own scalar C", SAME, 2.0),
    Row(
        *("top joint", "heavy top with its joint, generalized-α", "Exudyn"),
        *("Exudyn, full Newton with T", SECOND_ORDER, 0.08, 0.3),
    ),
    Row("rotor", "rotor, generalized-α", "Exudyn", "Exudyn", SECOND_ORDER, 0.5),
    Row("slider-crank", "slider-crank, generalized-α", "Exudyn", "Exudyn", SECOND_ORDER, 0.35),
    Row("squeezer", "Andrews' squeezer, generalized-α", "Exudyn", "Exudyn", SECOND_ORDER, 0.7),
    Row("stewart", "Stewart platform, generalized-α", "Exudyn", "Exudyn, sparse", SECOND_ORDER),
    *(
        Row(
            *(f"four-bars-{n}", f"{n} four-bar linkages in a row, generalized-α", "Exudyn"),
            *("Exudyn, sparse", SECOND_ORDER),
        )
        for n in (10, 40)
    ),
    Row("puma", "Puma 560, generalized-α", "Exudyn", "Exudyn", SECOND_ORDER, 0.10),
    Row("top batch", "4096 heavy tops, RKMK4", "MJX", "MJX, RK4", MJX_STEPS, 0.02),
    Row("top batch", "4096 heavy tops, RKMK4", "own C", "own C with SIMD", SAME, 3.0),
    Row(
        *("gradient of top", "gradient of 10 000 RKMK4 steps, heavy top", "Exudyn"),
        *("Exudyn's run alone, RK44", SAME, 1.0),
    ),
    Row("links", "6 links on ball joints, RKMK4", "MuJoCo C", "MuJoCo C, RK4", SAME, 1.0),
    Row("links", "6 links on ball joints, RKMK4", "Pinocchio", "Pinocchio, 4 × ABA", SAME),
    *(Row(n, f"{n}, RKMK4", "MuJoCo C", "MuJoCo C, RK4", SAME, 1.5) for n in TREES),
    Row(
        *("held humanoid", "humanoid, springs and dampers in its joints, generalized-α"),
        *("MuJoCo C", "MuJoCo C, implicit", FIRST_ORDER, 5.0),
    ),
    *(
        Row(f"{n} batch", f"{n}, 4096 of them", "MuJoCo C", "MuJoCo C, RK4", SAME, 1.0)
        for n in ("arm with gripper", "quadruped")
    ),
    *(
        Row(
            *(case, f"quadruped on the ground{many}, convex contact", "MuJoCo C"),
            *("MuJoCo C, Euler", OTHER_GROUND, target),
        )
        for case, many, target in (("standing", "", 3.0), ("standing batch", ", 4096 of them", 1.0))
    ),
    Row("links batch", "6 links, 4096 of them", "MuJoCo C", "MuJoCo C, RK4", SAME, 0.4),
    Row("top adaptive", "heavy top, DOPRI5, 1 s", "diffrax", "diffrax, own ODE", AUTOMATIC, 1.0),
    *(
        Row(
            *(f"chain-{n}", f"chain of {n}, generalized-α", "Exudyn"),
            "Exudyn" if n == CHAIN_SIZES[0] else "Exudyn, sparse",
            *(SECOND_ORDER, {64: 0.10, 256: 0.10, 1024: 0.08}.get(n)),
        )
        for n in CHAIN_SIZES
    ),
)
# Gradient / run of our own, at most.
GRADIENTS = {
    "gradient of top": "heavy top, RKMK4",
    "gradient of slider-crank": "slider-crank, generalized-α",
    "gradient of chain-16": "chain of 16, generalized-α",
    "gradient of two arms": "two arms, RKMK4",
}
GRADIENT_TARGET = 6.0
GRADIENT_AGREES = 1e-5
GROWTH_TARGET = 1.1
COMPILE_TARGET = 3.0
FIRST_RESULT_TARGET = 3.0
