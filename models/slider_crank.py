"""The spatial slider-crank mechanism of [S3] 4.3, Table 8, a benchmark of IFToMM.

The crank turns by θ about the world's x axis through its pivot; its end carries the connecting rod
by a ball joint, the rod's other end the slider by a universal joint, with the axes slider x and rod
y. The slider moves along the world's x axis through the origin.

Body frames: the crank's at its pivot, with z along the crank; the rod's mid-rod, with x along the
rod from the crank to the slider; the slider's at the universal joint, parallel to the world's.
Moments of inertia are about the centres of mass.

Table 8 puts the crank's centre of mass in its pivot. The solutions at IFToMM have it mid-crank:
`crank_com=MID_CRANK`. The motion depends on it.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

import lie_jax
from lie_jax.numerics import small
from models import placement
from models.fixed_point import Numbers

CRANK_MASS, ROD_MASS, SLIDER_MASS = 0.12, 0.5, 2.0
CRANK_INERTIA = (0.0001, 0.00001, 0.0001)
ROD_INERTIA = (0.0004, 0.004, 0.004)
SLIDER_INERTIA = (0.0001, 0.0001, 0.0001)
CRANK_LENGTH, ROD_LENGTH = 0.08, 0.3
PIVOT = (0.0, 0.1, 0.12)
CRANK_COM = (0.0, 0.0, 0.0)
MID_CRANK = (0.0, 0.0, 0.04)
CRANK_ANGLE, CRANK_SPEED = 0.0, 6.0
GRAVITY = (0.0, 0.0, -9.81)

# θ (rad), θ̇, s (m), ṡ at these times (s) with the centre of mass in the pivot, and mid-crank, to 20
# digits: an independent solution in extended precision, found by two routes that share no code.
# The latter agrees with those at IFToMM to between 1e-7 and 4e-6 up to 0.2 s.
REFERENCE = {
    1.0: (
        *(10.48407383852431045727629, 10.22988839190264214421420),
        *(0.2337647503354621448309262, -0.5377057053554037792091704),
    ),
    2.0: (
        *(20.03128598110082321099197, 8.421894316042508170138146),
        *(0.2583044434167103220688199, 0.3885523303516586136731373),
    ),
    3.0: (
        *(31.35736345638474389536803, 6.296237315278940790610017),
        *(0.1977282006090055939361808, 0.2364143873305829988902986),
    ),
    4.0: (
        *(41.80108498642355768793509, 10.52697367069134454577181),
        *(0.2389456900034187111898135, -0.5485843653686775523679204),
    ),
    5.0: (
        *(51.36943988793069374996236, 7.903679714885903915866900),
        *(0.2546500854673186171777514, 0.3778271683851183372571013),
    ),
}
REFERENCE_MID_CRANK = {
    1.0: (
        *(10.91359072986466799880113, 10.42759300041204835099120),
        *(0.2117216613934437775955936, -0.5034918649250100306567026),
    ),
    2.0: (
        *(21.07274452277647652408187, 22.58424002783247003403189),
        *(0.2890851970671417824848026, 0.2165394234534352967649938),
    ),
    3.0: (
        *(32.00832775575719540463930, 5.916170357808075545911196),
        *(0.2284848136979287265640472, 0.3106396219398337830422630),
    ),
    4.0: (
        *(43.60175390653571049172027, 9.539454748310971293069962),
        *(0.1882304755815621604182382, 0.1957260723212768811237041),
    ),
    5.0: (
        *(54.33333216831316507936673, 11.49499626504208660692506),
        *(0.2407195737296153161042668, -0.5959844120449362205471685),
    ),
}


def build(
    formulation: lie_jax.extend.AbstractFormulation | None = None,
    *,
    crank_mass: Numbers = CRANK_MASS,
    rod_mass: Numbers = ROD_MASS,
    slider_mass: Numbers = SLIDER_MASS,
    crank_inertia: Numbers | None = None,
    rod_inertia: Numbers | None = None,
    slider_inertia: Numbers | None = None,
    crank_com: Numbers = CRANK_COM,
    crank_length: Numbers = CRANK_LENGTH,
    rod_length: Numbers = ROD_LENGTH,
    pivot: Numbers = PIVOT,
    angle: Numbers = CRANK_ANGLE,
    speed: Numbers = CRANK_SPEED,
    gravity: Numbers = GRAVITY,
) -> tuple[lie_jax.extend.AbstractMultibodySystem, lie_jax.State]:
    """The mechanism as a system with 17 constraints, 3 in joint coordinates, and its initial state.

    **Arguments:** `formulation`: default `R3SO3()`; masses in kg; inertias (3, 3) about the centres
    of mass, kg m²; `crank_com` (3,): centre of mass from the pivot, crank's axes, m; lengths in m;
    `pivot` (3,), world, m; `angle` θ and `speed` θ̇ of the crank at the start, rad and rad/s;
    `gravity` (3,), m/s².
    """
    crank_length, rod_length, pivot = (
        jnp.asarray(x, float) for x in (crank_length, rod_length, pivot)
    )

    def place(theta):
        return _place(theta, crank_length, rod_length, pivot)

    start = placement.motion(place, jnp.asarray(angle, float), jnp.asarray(speed, float))
    inertias = (
        (crank_inertia, CRANK_INERTIA),
        (rod_inertia, ROD_INERTIA),
        (slider_inertia, SLIDER_INERTIA),
    )
    crank, rod, slider = (
        lie_jax.Body(
            name,
            mass,
            jnp.diag(jnp.asarray(default)) if inertia is None else inertia,
            center,
            *(part[i] for part in start),
        )
        for i, (name, mass, (inertia, default), center) in enumerate(
            zip(
                ("crank", "rod", "slider"),
                (crank_mass, rod_mass, slider_mass),
                inertias,
                (crank_com, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
                strict=True,
            )
        )
    )
    x, y, z = jnp.eye(3)
    half = 0.5 * rod_length * x
    joints = [
        lie_jax.RevoluteJoint("ground", "crank", x, pivot),
        lie_jax.SphericalJoint("crank", "rod", crank_length * z, -half),
        lie_jax.UniversalJoint("slider", "rod", x, y, child_point=half),
        lie_jax.PrismaticJoint("ground", "slider", x),
    ]
    mechanism = lie_jax.Mechanism([crank, rod, slider], joints, gravity=gravity)
    return lie_jax.assemble(mechanism, lie_jax.R3SO3() if formulation is None else formulation)


def _place(theta: Array, crank_length: Array, rod_length: Array, pivot: Array):
    """Rotations (3, 3, 3) and positions (3, 3) of the body frames for an angle of the crank."""
    x = jnp.asarray([1.0, 0.0, 0.0])
    crank = lie_jax.groups.so3.exp(theta * x)
    end = pivot + crank_length * crank[:, 2]
    # The slider is ahead of the crank's end, the distance of which from its axis this is.
    away = jnp.sqrt(end[1] ** 2 + end[2] ** 2)
    slide = end[0] + jnp.sqrt(rod_length**2 - away**2)
    along = (slide * x - end) / rod_length
    across = jnp.stack([jnp.zeros_like(away), end[2], -end[1]]) / away
    rod = jnp.stack([along, across, small.cross(along, across)], axis=1)
    positions = [pivot, 0.5 * (end + slide * x), slide * x]
    return jnp.stack([crank, rod, jnp.eye(3)]), jnp.stack(positions)


def slider_position(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, ""]:
    """Position s of the slider along the world's x axis, m."""
    return system.poses(q)[1][2, 0]


def crank_angle(
    system: lie_jax.extend.AbstractMultibodySystem, q: Float[Array, " nq"]
) -> Float[Array, ""]:
    """Angle θ of the crank between -π and π, rad: it has turned by this and full turns."""
    rotation = system.poses(q)[0][0]
    return jnp.arctan2(rotation[2, 1], rotation[1, 1])
