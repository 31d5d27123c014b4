"""The quadruped of `models/quadruped.py` on the ground, as MJCF for MuJoCo.

Springs and dampers in its hinges stand for the controllers, round feet touch the ground. The laws
of contact differ: MuJoCo's ground gives by other lengths.
"""

import jax.numpy as jnp

from models import quadruped

# Height from which one falls, m. Many, whose runs are short, begin on the ground.
_LIFT = 0.02


def lift(case: str) -> float:
    """Height of the feet at the start, m."""
    return 0.0 if case.endswith(" batch") else _LIFT


def mjcf() -> str:
    """The quadruped as MJCF, its joint angles measured from straight legs."""
    parts = quadruped.solid_parts()

    def inertial(name: str) -> str:
        mass, inertia, center = parts[name]
        return (
            f'<inertial pos="{_row(center)}" mass="{mass}" '
            f'diaginertia="{_row(jnp.diagonal(inertia))}"/>'
        )

    def hinge(axis: str, angle: float) -> str:
        return (
            f'<joint type="hinge" axis="{axis}" stiffness="{quadruped.PROPORTIONAL}" '
            f'damping="{quadruped.DERIVATIVE}" springref="{angle}"/>'
        )

    def leg(name: str) -> str:
        hip, thigh, shank = quadruped.BENT[name]
        side = 1.0 if "left" in name else -1.0
        return (
            f'<body pos="{_row(quadruped.hip(name))}">{hinge("1 0 0", hip)}{inertial("hip")}'
            f'<body pos="0 {side * quadruped.OUTWARDS} 0">{hinge("0 1 0", thigh)}'
            f'{inertial("thigh")}<body pos="0 0 {-quadruped.LINK}">{hinge("0 1 0", shank)}'
            f'{inertial("shank")}<geom type="sphere" size="{quadruped.FOOT_RADIUS}" '
            f'pos="0 0 {-quadruped.LINK}" contype="1" conaffinity="0" condim="3" '
            f'friction="{quadruped.FRICTION} 0 0"/></body></body></body>'
        )

    legs = "".join(leg(name) for name in quadruped.LEGS)
    return (
        '<mujoco><compiler angle="radian"/>'
        f'<option gravity="{_row(quadruped.GRAVITY)}" integrator="Euler"/><worldbody>'
        f'<geom type="plane" size="9 9 1" contype="0" conaffinity="1" condim="3" '
        f'friction="{quadruped.FRICTION} 0 0"/>'
        f"<body><freejoint/>{inertial('trunk')}{legs}</body></worldbody></mujoco>"
    )


def start(case: str) -> list[float]:
    """Position (m), quaternion and joint angles (rad) at the start, in MuJoCo's order."""
    _, state = quadruped.build(lift=lift(case))
    return [float(x) for x in state.q]


def _row(values) -> str:
    return " ".join(str(float(x)) for x in values)
