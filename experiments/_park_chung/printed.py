"""The tables of [S1] as they are printed."""

STEP_SIZES = (1.0, 0.1, 0.01, 0.001)
METHODS = ("CG2", "CG3", "CG4", "CF2", "CF3", "CF4", "MK2", "MK3", "MK4")

# Tables VI, VII, VIII: drift at t = 1 s for the step sizes above (s).
ENERGY = {
    "CG2": (3.4673e-2, 1.1679e-3, 1.2151e-5, 1.2197e-7),
    "CG3": (3.9707e-2, 4.2896e-5, 4.3020e-8, 4.3059e-11),
    "CG4": (1.5120e-3, 2.0035e-7, 2.0421e-11, 1.7764e-14),
    "CF2": (3.4673e-2, 1.1679e-3, 1.2151e-5, 1.2197e-7),
    "CF3": (5.3524e-2, 5.0535e-5, 5.0334e-8, 5.0292e-11),
    "CF4": (3.6308e-3, 3.2133e-7, 3.1989e-11, 1.7764e-14),
    "MK2": (3.4673e-2, 1.1679e-3, 1.2151e-5, 1.2197e-7),
    "MK3": (5.3524e-2, 5.0535e-5, 5.0334e-8, 5.0292e-11),
    "MK4": (3.6308e-3, 3.2133e-7, 3.1996e-11, 1.4211e-14),
}
LINEAR_MOMENTUM = {
    "CG2": (5.5613e-1, 5.2947e-3, 5.2633e-5, 5.2600e-7),
    "CG3": (5.6523e-2, 4.7138e-5, 4.6619e-8, 4.6510e-11),
    "CG4": (8.4583e-3, 8.2850e-7, 8.3399e-11, 3.2901e-13),
    "CF2": (5.5613e-1, 5.2947e-3, 5.2633e-5, 5.2600e-7),
    "CF3": (5.1921e-2, 5.2437e-5, 5.2982e-8, 5.2981e-11),
    "CF4": (1.5953e-2, 1.5814e-6, 1.5782e-10, 5.7011e-14),
    "MK2": (5.5613e-1, 5.3178e-3, 5.2893e-5, 5.2864e-7),
    "MK3": (5.2334e-2, 5.3244e-5, 5.3800e-8, 5.3802e-11),
    "MK4": (1.5910e-2, 1.5903e-6, 1.5877e-10, 9.0256e-14),
}
ANGULAR_MOMENTUM = {
    "CG2": (8.3715e-1, 8.1705e-3, 8.3278e-5, 8.3449e-7),
    "CG3": (2.0265e-1, 1.9643e-4, 1.9513e-7, 1.9481e-10),
    "CG4": (2.3172e-2, 2.6873e-6, 2.8057e-10, 2.7154e-12),
    "CF2": (8.3715e-1, 8.1705e-3, 8.3278e-5, 8.3449e-7),
    "CF3": (2.8075e-1, 2.8154e-4, 2.8084e-7, 2.8059e-10),
    "CF4": (3.6510e-2, 3.6710e-6, 3.6619e-10, 3.9933e-13),
    "MK2": (8.3715e-1, 8.1218e-3, 8.2721e-5, 8.2885e-7),
    "MK3": (2.7813e-1, 2.8401e-4, 2.8359e-7, 2.8344e-10),
    "MK4": (3.9118e-2, 3.8141e-6, 3.8025e-10, 1.9654e-13),
}
DRIFTS = {
    "VI": ("kinetic energy", ENERGY),
    "VII": ("linear momentum", LINEAR_MOMENTUM),
    "VIII": ("angular momentum", ANGULAR_MOMENTUM),
}

# Drifts below 1e-9, whose printed digits hold rounding, in 80-bit arithmetic: an independent
# solution, whose accelerations follow from the bodies' Jacobians.
EXTENDED = {
    ("VI", "CG3", 0.001): 4.303073e-11,
    ("VI", "CG4", 0.01): 2.040025e-11,
    ("VI", "CG4", 0.001): 2.061e-15,
    ("VI", "CF3", 0.001): 5.031582e-11,
    ("VI", "CF4", 0.01): 3.198095e-11,
    ("VI", "CF4", 0.001): 3.194e-15,
    ("VI", "MK3", 0.001): 5.031582e-11,
    ("VI", "MK4", 0.01): 3.198095e-11,
    ("VI", "MK4", 0.001): 3.194e-15,
    ("VII", "CG3", 0.001): 4.657052e-11,
    ("VII", "CG4", 0.01): 8.339907e-11,
    ("VII", "CG4", 0.001): 8.340e-15,
    ("VII", "CF3", 0.001): 5.304167e-11,
    ("VII", "CF4", 0.01): 1.578215e-10,
    ("VII", "CF4", 0.001): 1.577e-14,
    ("VII", "MK3", 0.001): 5.386041e-11,
    ("VII", "MK4", 0.01): 1.587766e-10,
    ("VII", "MK4", 0.001): 1.587e-14,
    ("VIII", "CG3", 0.001): 1.949973e-10,
    ("VIII", "CG4", 0.01): 2.805627e-10,
    ("VIII", "CG4", 0.001): 2.817e-14,
    ("VIII", "CF3", 0.001): 2.807563e-10,
    ("VIII", "CF4", 0.01): 3.661822e-10,
    ("VIII", "CF4", 0.001): 3.662e-14,
    ("VIII", "MK3", 0.001): 2.835325e-10,
    ("VIII", "MK4", 0.01): 3.802322e-10,
    ("VIII", "MK4", 0.001): 3.801e-14,
}

# Table X: calls in one step, in this order.
CALLS = (
    *("FDyn", "svmultadd(6)", "svmultadd(N)", "svmult(6)", "exp"),
    *("hmmult", "add", "dexpinv", "mvmult(6x6)"),
)
TABLE_X = {
    "CG2": (2, 3, 6, 3, 3, 3, 2, 0, 0),
    "CF2": (2, 3, 6, 3, 3, 3, 2, 0, 0),
    "MK2": (2, 3, 6, 3, 2, 2, 2, 1, 1),
    "CG3": (3, 6, 12, 6, 6, 6, 3, 0, 0),
    "CF3": (3, 5, 8, 3, 3, 3, 3, 0, 0),
    "MK3": (3, 5, 8, 4, 3, 3, 3, 2, 2),
    "CG4": (5, 15, 30, 15, 15, 15, 5, 0, 0),
    "CF4": (4, 17, 20, 5, 5, 5, 4, 0, 0),
    "MK4": (4, 10, 14, 7, 4, 4, 4, 3, 3),
}

# Table V: operations of one step besides forward dynamics: additions and multiplications for
# N = 2 and for N = 20 joints, divisions, square roots, trigonometric functions.
OPERATIONS = ("add", "mult", "div", "sqrt", "trig")
TABLE_V = {
    "CG2": ((191, 299), (270, 378), 6, 3, 6),
    "CF2": ((191, 299), (270, 378), 6, 3, 6),
    "MK2": ((201, 309), (265, 373), 7, 2, 4),
    "CG3": ((381, 597), (540, 756), 12, 6, 12),
    "CF3": ((208, 352), (286, 430), 6, 3, 6),
    "MK3": ((334, 478), (430, 574), 12, 3, 6),
    "CG4": ((950, 1490), (1350, 1890), 30, 15, 30),
    "CF4": ((411, 771), (542, 902), 10, 5, 10),
    "MK4": ((493, 745), (633, 885), 17, 4, 8),
}

# Table IX: 1000 steps of methods of order 3 and 100 of order 4, with N = 2; forward dynamics first.
TABLE_IX = {
    "CG3": (1000, (3000, 381000, 540000, 12000, 6000, 12000)),
    "CG4": (100, (500, 95000, 135000, 3000, 1500, 3000)),
    "CF3": (1000, (3000, 208000, 286000, 6000, 3000, 6000)),
    "CF4": (100, (400, 41100, 54200, 1000, 500, 1000)),
    "MK3": (1000, (3000, 334000, 430000, 12000, 3000, 6000)),
    "MK4": (100, (400, 49300, 63300, 1700, 400, 800)),
}

# Operations of the calls, for N joints. Those of exp and dexpinv are stated in Appendix I-A; with
# the others counted by their definitions, Table V follows from Table X.
COSTS = {
    "svmultadd(6)": (6, 6, 0, 0, 0),
    "svmult(6)": (0, 6, 0, 0, 0),
    "exp": (26, 38, 2, 1, 2),
    "hmmult": (27, 36, 0, 0, 0),
    "add": (1, 0, 0, 0, 0),
    "dexpinv": (33, 33, 3, 0, 0),
    "mvmult(6x6)": (30, 36, 0, 0, 0),
}


def operations_of_calls(method: str, joints: int) -> tuple[int, ...]:
    """Operations of one step that Table X and the costs of its calls add up to."""
    costs = COSTS | {"FDyn": (0,) * 5, "svmultadd(N)": (joints, joints, 0, 0, 0)}
    calls = dict(zip(CALLS, TABLE_X[method], strict=True))
    return tuple(sum(n * costs[call][k] for call, n in calls.items()) for k in range(5))


def table_v(method: str, joints: int) -> tuple[int, ...]:
    """The printed operations of one step for 2 or 20 joints."""
    column = (2, 20).index(joints)
    add, mult, *rest = TABLE_V[method]
    return (add[column], mult[column], *rest)


def table_ix_follows_from_table_v() -> bool:
    """Whether Table IX is that number of steps times Table V."""
    return all(
        printed == tuple(steps * n for n in (TABLE_X[method][0], *table_v(method, 2)))
        for method, (steps, printed) in TABLE_IX.items()
    )
