"""A square plate of one metre as a flexible body from a mesh: free, or clamped along one side.

Frequency parameters ω L² √(ρ h / D) of thin plates with Poisson's ratio 0.3. Clamped: Leissa, "The
free vibration of rectangular plates" (1973), also the benchmark SDLS01 of the guide VPCS. Free:
later digits for Leissa's upper bounds 13.489, 19.789 and 24.432.
"""

import numpy as np
import skfem

import lie_jax

SIDE, THICKNESS = 1.0, 0.01
YOUNG, POISSON, DENSITY = 2.1e11, 0.3, 7800.0
FREE = (13.468, 19.596, 24.270)
CLAMPED = (3.49, 8.52, 21.43)


def parameter(omega: np.ndarray) -> np.ndarray:
    """Frequency parameters of angular frequencies (rad/s)."""
    bending = YOUNG * THICKNESS**3 / (12 * (1 - POISSON**2))
    return omega * SIDE**2 * np.sqrt(DENSITY * THICKNESS / bending)


def body(frame: str, elements: int = 12, modes: int = 6) -> lie_jax.FlexibleBody:
    """The plate, with the interface `"side"` at x = 0, and so many elements along a side."""
    along, across = np.linspace(0.0, SIDE, elements + 1), THICKNESS * np.array([-0.5, 0.5])
    return lie_jax.FlexibleBody.from_mesh(
        "plate",
        skfem.MeshHex.init_tensor(along, along, across),
        density=DENSITY,
        young=YOUNG,
        poisson=POISSON,
        interfaces={"side": lambda x: x[:, 0] < 1e-9},
        modes=modes,
        frame=frame,
    )
