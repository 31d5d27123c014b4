"""Trees in the shapes of robots, written as MJCF, from which both simulators read them."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import lie_jax


class Shape(NamedTuple):
    """Number of the parent of each body, -1 for the ground, and the joints that slide.

    The first body of a `floating` tree moves freely, all others turn about hinges. Springs and
    dampers act in the joints of a `held` tree.
    """

    parents: tuple[int, ...]
    slides: tuple[int, ...] = ()
    floating: bool = False
    held: bool = False

    @property
    def coordinates(self) -> int:
        """Number of velocities."""
        return len(self.parents) + 5 * self.floating


def _limbs(root: tuple[int, ...], *limbs: tuple[int, int]) -> tuple[int, ...]:
    """Parents of a trunk with chains on it: (body that carries it, its length)."""
    parents = list(root)
    for carrier, length in limbs:
        parents += [carrier, *range(len(parents), len(parents) + length - 1)]
    return tuple(parents)


_CHAIN = (-1, 0, 1, 2, 3, 4, 5)
_HUMANOID = _limbs((-1,), (0, 6), (0, 6), (0, 3), (15, 7), (15, 7))
SHAPES = {
    "7 hinges": Shape(_CHAIN),
    "7 hinges and a leaf": Shape((*_CHAIN, 3)),
    # As Panda with its gripper, ANYmal C, G1 and the Shadow hand have them.
    "arm with gripper": Shape((*_CHAIN, 6, 6), slides=(7, 8)),
    "quadruped": Shape(_limbs((-1,), *[(0, 3)] * 4), floating=True),
    "humanoid": Shape(_HUMANOID, floating=True),
    "held humanoid": Shape(_HUMANOID, floating=True, held=True),
    "hand": Shape(_limbs((-1, 0), (1, 4), (1, 4), (1, 4), (1, 5), (1, 5))),
    "two arms": Shape(_limbs((-1,), (0, 7), (0, 7), (7, 2), (14, 2))),
}  # fmt: skip
LENGTH, MASS, INERTIA, CENTRE = 0.3, 1.0, (0.02, 0.02, 0.01), (0.0, 0.0, -0.2)
GRAVITY = (0.0, 0.0, -9.81)
# In the joints of held trees, N m/rad and N m s/rad.
STIFFNESS, DAMPING = 60.0, 3.0
# The point whose motion is compared, on the last body.
POINT = (0.0, 0.0, -LENGTH)


def mjcf(name: str) -> str:
    """The tree of a shape as MJCF, for the implicit integrator if it is held, RK4 otherwise."""
    shape = SHAPES[name]
    integrator = "implicit" if shape.held else "RK4"
    held = f' stiffness="{STIFFNESS}" damping="{DAMPING}"' if shape.held else ""

    def body(i: int) -> str:
        parent = shape.parents[i]
        axis = "1 0 0" if i % 2 else "0 1 0"
        kind = "slide" if i in shape.slides else "hinge"
        joint = f'<joint type="{kind}" axis="{axis}"{held}/>'
        if shape.floating and parent < 0:
            joint = "<freejoint/>"
        place = f"{0.05 * (i - parent - 1)} 0 {-LENGTH if parent >= 0 else 0.0}"
        inner = "".join(body(k) for k, above in enumerate(shape.parents) if above == i)
        return (
            f'<body name="b{i}" pos="{place}">{joint}<inertial pos="{_row(CENTRE)}" mass="{MASS}" '
            f'diaginertia="{_row(INERTIA)}"/>{inner}</body>'
        )

    bodies = "".join(body(i) for i, parent in enumerate(shape.parents) if parent < 0)
    return (
        f'<mujoco><compiler balanceinertia="false"/><option gravity="{_row(GRAVITY)}" '
        f'integrator="{integrator}"><flag contact="disable"/></option>'
        f"<worldbody>{bodies}</worldbody></mujoco>"
    )


def _row(values: tuple[float, ...]) -> str:
    return " ".join(map(str, values))


def velocities(count: int) -> np.ndarray:
    """Initial velocities of so many coordinates (rad/s and m/s)."""
    return np.linspace(0.6, -0.8, count)


def model(name: str) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The tree in joint coordinates, and its initial state."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tree.xml"
        file.write_text(mjcf(name))
        imported = lie_jax.io.import_model(file)
    system, state = lie_jax.assemble(imported.mechanism, lie_jax.Minimal())
    return system, lie_jax.State(state.q, jnp.asarray(velocities(system.nv)))


def observed(system: lie_jax.extend.AbstractMultibodySystem, q: Array) -> Array:
    """The point whose motion is compared (3,), m."""
    rotations, positions = system.poses(q)
    return positions[-1] + rotations[-1] @ jnp.asarray(POINT)
