"""Gaps are distances; forces balance, follow from energies, and have derivatives everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

import lie_jax
from lie_jax import contact
from lie_jax.mechanics.contact import feet, geometry
from lie_jax.mechanics.joints.base import BodyPose, BodyVelocity
from tests.suites import cases

TURN = tuple(Rotation.from_rotvec([0.3, -0.5, 0.2]).as_quat(scalar_first=True))
FIRST = {
    "sphere": contact.Sphere("a", 0.3, (0.1, 0.0, -0.2)),
    "capsule": contact.Capsule("a", 0.2, (-0.4, 0.0, 0.1), (0.5, 0.1, 0.0)),
    "box": contact.Box("a", (0.4, 0.6, 0.2), (0.1, 0.0, 0.0), TURN),
    "ellipsoid": contact.Ellipsoid("a", (0.4, 0.2, 0.3), (0.0, 0.1, 0.0), TURN),
    "points": contact.Points(
        "a", [(0.3, 0, 0), (-0.2, 0.3, 0.1), (-0.1, -0.4, 0), (0, 0.1, 0.4), (0.1, 0, -0.3)]
    ),
}


def _hills(x, y, library=jnp):
    return 0.1 * library.sin(2.0 * x) * library.cos(1.5 * y) - 0.05 * x


SECOND = {
    "plane": contact.Plane("b", (0.0, 0.1, 0.2), (0.3, -0.2, 1.0)),
    "sphere": contact.Sphere("b", 0.4, (0.0, 0.1, 0.0)),
    "capsule": contact.Capsule("b", 0.25, (0.0, -0.5, 0.0), (0.1, 0.4, 0.2)),
    "field": contact.HeightField("b", _hills),
}
PAIRS = [
    *((name, "plane") for name in FIRST),
    *((name, "field") for name in ("sphere", "capsule", "box", "points")),
    *((one, other) for one in ("sphere", "capsule") for other in ("sphere", "capsule")),
]
ROUND = [pair for pair in PAIRS if pair[1] in FIRST]
QUICK = [("capsule", "capsule")]
LAW = lie_jax.contact.HuntCrossley(1e3, dissipation=0.2)
FRICTION = lie_jax.contact.Coulomb(
    0.4, static_coefficient=0.6, spinning_radius=0.02, rolling_lever=0.01
)
# Of distances found by an optimiser, and of sums of forces of 1e3 N.
FOUND, ROUNDING = 1e-6, 1e-11


def motions(seed, count, apart=0.8):
    """Random poses and velocities of two bodies near each other, stacked."""
    rng = np.random.default_rng(seed)

    def body():
        rotation = Rotation.random(count, rng=rng).as_matrix()
        pose = BodyPose(rotation, rng.normal(0.0, apart, (count, 3)))
        return pose, BodyVelocity(*rng.normal(0.0, 1.0, (2, count, 3)))

    one, other = body(), body()
    return jax.tree.map(jnp.asarray, ((one[0], other[0]), (one[1], other[1])))


def _inside(shape, pose, points):
    """Distances of points (n, 3) from a shape, negative inside."""
    local = (points - np.asarray(pose.position)) @ np.asarray(pose.rotation)
    if isinstance(shape, contact.Plane):
        return (local - np.asarray(shape.point)) @ np.asarray(shape.normal)
    if isinstance(shape, contact.Sphere):
        return np.linalg.norm(local - np.asarray(shape.center), axis=1) - float(shape.radius)
    start, end = np.asarray(shape.start), np.asarray(shape.end)
    along = end - start
    part = np.clip((local - start) @ along / (along @ along), 0.0, 1.0)
    return np.linalg.norm(local - start - part[:, None] * along, axis=1) - float(shape.radius)


def _core(shape):
    """Points of a shape's core by numbers from 0 to 1, their count, and the radius around it."""
    if isinstance(shape, contact.Sphere):
        return lambda x: np.asarray(shape.center), 0, float(shape.radius)
    start, end = np.asarray(shape.start), np.asarray(shape.end)
    return lambda x: start + x[0] * (end - start), 1, float(shape.radius)


@pytest.mark.parametrize(("first", "second"), cases(ROUND, [("capsule", "capsule")]))
def test_gaps_of_round_shapes_are_the_least_distances(first, second):
    shapes = FIRST[first], SECOND[second]
    poses, _ = motions(1, 20)
    touching = jax.vmap(lambda poses: geometry.touching(shapes, poses))(poses)
    (one, n, radius), (other, m, other_radius) = map(_core, shapes)
    for k in range(20):
        a, b = jax.tree.map(lambda x, k=k: np.asarray(x[k]), poses)

        def distance(x, a=a, b=b):
            line = a.position + a.rotation @ one(x[:n]) - b.position - b.rotation @ other(x[n:])
            return np.linalg.norm(line)

        starts = np.random.default_rng(k).uniform(size=(4, n + m))
        least = min(
            minimize(distance, x, bounds=[(0.0, 1.0)] * (n + m), tol=1e-12).fun
            if n + m
            else distance(x)
            for x in starts
        )
        assert_allclose(touching.gap[k, 0], least - radius - other_radius, atol=FOUND)
        # The point lies as far from one surface as from the other.
        point = np.asarray(touching.point[k])
        for shape, pose in zip(shapes, (a, b), strict=True):
            assert_allclose(_inside(shape, pose, point), touching.gap[k] / 2, atol=1e-9)


@pytest.mark.full
def test_gaps_to_a_field_are_the_least_distances():
    shapes = FIRST["capsule"], SECOND["field"]
    poses, _ = motions(7, 20)
    touching = jax.vmap(lambda poses: geometry.touching(shapes, poses))(poses)
    for k in range(20):
        a, b = jax.tree.map(lambda x, k=k: np.asarray(x[k]), poses)
        for i, (center, radius) in enumerate(zip(*shapes[0].balls(), strict=True)):
            center = a.position + a.rotation @ np.asarray(center)
            point = b.rotation.T @ (center - b.position)

            def square(xy, point=point):
                return np.sum((point - np.asarray([*xy, _hills(*xy, np)])) ** 2)

            least = minimize(square, point[:2], method="Nelder-Mead", tol=1e-12).fun ** 0.5
            sign = np.sign(point[2] - _hills(*point[:2], np))
            assert_allclose(touching.gap[k, i], sign * least - radius, atol=FOUND)


@pytest.mark.parametrize("first", cases(FIRST, FIRST.keys() - {"capsule", "box"}))
def test_gaps_to_a_plane_are_the_lowest_heights(first):
    shapes = FIRST[first], SECOND["plane"]
    poses, _ = motions(2, 20)
    touching = jax.vmap(lambda poses: geometry.touching(shapes, poses))(poses)
    directions = Rotation.random(40_000, rng=3).as_matrix()[:, 2]
    surface = _surface(shapes[0], directions)
    for k in range(20):
        a, b = jax.tree.map(lambda x, k=k: np.asarray(x[k]), poses)
        heights = _inside(shapes[1], b, a.position + surface @ a.rotation.T)
        # Samples of the surface lie above its lowest point by the square of their spacing.
        assert -1e-12 <= heights.min() - float(touching.gap[k].min()) <= 1e-3


def _surface(shape, directions):
    """Points (n, 3) of a shape's surface, body frame."""
    if isinstance(shape, contact.Sphere):
        return np.asarray(shape.center) + float(shape.radius) * directions
    if isinstance(shape, contact.Capsule):
        ends = [np.asarray(x) + float(shape.radius) * directions for x in (shape.start, shape.end)]
        return np.concatenate(ends)
    if isinstance(shape, contact.Points):
        return np.asarray(shape.points)
    turn = Rotation.from_quat(np.asarray(shape.orientation), scalar_first=True)
    if isinstance(shape, contact.Box):
        corners = np.sign(directions) * np.asarray(shape.size) / 2
        return np.asarray(shape.center) + turn.apply(corners)
    # The image of the unit sphere.
    return np.asarray(shape.center) + turn.apply(directions * np.asarray(shape.semi_axes))


def element(first, second, normal=LAW, friction=FRICTION):
    return lie_jax.contact.Contact(FIRST[first], SECOND[second], normal, friction)


@pytest.mark.parametrize(("first", "second"), cases(PAIRS, QUICK))
def test_forces_balance_dissipate_and_follow_from_the_energy(first, second):
    poses, velocities = motions(4, 200, apart=0.3)
    rubbing, elastic = (
        element(first, second),
        element(first, second, lie_jax.contact.HuntCrossley(1e3), None),
    )
    t = jnp.zeros(())

    def sums(poses, velocities):
        wrenches = rubbing.wrenches(t, poses, velocities, None)
        forces = [wrench.force for wrench in wrenches]
        torques = [
            pose.rotation @ wrench.torque + jnp.cross(pose.position, wrench.force)
            for pose, wrench in zip(poses, wrenches, strict=True)
        ]
        return sum(forces), sum(torques), _power(wrenches, velocities), jnp.abs(forces[0]).max()

    def balance(poses, velocities):
        wrenches = elastic.wrenches(t, poses, velocities, None)

        def energy(s):
            moved = tuple(
                BodyPose(
                    pose.rotation @ lie_jax.groups.so3.exp(s * velocity.omega_body),
                    pose.position + s * velocity.linear,
                )
                for pose, velocity in zip(poses, velocities, strict=True)
            )
            return elastic.potential_energy(moved)

        return jax.jvp(energy, (0.0,), (1.0,))[1] + _power(wrenches, velocities)

    force, torque, power, size = jax.jit(jax.vmap(sums))(poses, velocities)
    assert np.sum(np.asarray(size) > 1.0) > 20
    assert_allclose(force, 0.0, atol=ROUNDING)
    assert_allclose(torque, 0.0, atol=ROUNDING)
    # With dissipation and friction a force gives back no more than its spring has.
    spring = jax.vmap(lambda *x: _power(elastic.wrenches(t, *x, None), x[1]))(poses, velocities)
    assert np.all(power <= spring + ROUNDING)
    assert_allclose(jax.jit(jax.vmap(balance))(poses, velocities), 0.0, atol=1e-9)


def _power(wrenches, velocities):
    return sum(
        wrench.force @ velocity.linear + wrench.torque @ velocity.omega_body
        for wrench, velocity in zip(wrenches, velocities, strict=True)
    )


@pytest.mark.full
@pytest.mark.parametrize("precision", [jnp.float64, jnp.float32])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_derivatives_are_finite_in_ten_thousand_states(first, second, precision):
    """Deep, touching, apart and at rest, also exactly at the touch."""
    poses, velocities = motions(5, 10_000, apart=0.4)
    still = jnp.arange(10_000) % 4 == 0
    velocities = jax.tree.map(lambda x: jnp.where(still[:, None], 0.0, x), velocities)
    contacts = element(first, second)
    weights = jnp.asarray(np.random.default_rng(6).normal(size=12), precision)

    def wrench(shift, poses, velocities):
        a, b = poses
        moved = (BodyPose(a.rotation, a.position + shift[:3]), b)
        c, d = velocities
        faster = (BodyVelocity(c.linear + shift[3:], c.omega_body), d)
        wrenches = contacts.wrenches(jnp.zeros((), shift.dtype), moved, faster, None)
        # One number of all components: it is not finite if one of them is not.
        return jnp.sum(weights * jnp.concatenate([x for w in wrenches for x in w]))

    def at_the_touch(poses):
        """The first body moved along the normal until the shapes touch."""
        a, b = poses
        touching = geometry.touching(contacts.shapes, poses)
        k = jnp.argmin(touching.gap)
        return BodyPose(a.rotation, a.position - touching.gap[k] * touching.normal[k]), b

    def in_precision(tree):
        return jax.tree.map(lambda x: x.astype(precision), tree)

    contacts, poses, velocities = in_precision((contacts, poses, velocities))
    touch = jnp.arange(10_000) % 5 == 0
    moved = jax.vmap(at_the_touch)(poses)
    poses = jax.tree.map(
        lambda x, y: jnp.where(touch.reshape(-1, *(1,) * (x.ndim - 1)), y, x), poses, moved
    )
    none = jnp.zeros(6, precision)
    for derivative in (jax.jacfwd(jax.jacfwd(wrench)), jax.jacrev(jax.grad(wrench))):
        both = jax.jit(jax.vmap(lambda *x, d=derivative: (wrench(none, *x), d(none, *x))))
        for values in both(poses, velocities):
            assert np.isfinite(values).all()


def test_what_is_no_contact_is_refused_by_name():
    ball, ground = contact.Sphere("a", 0.1), contact.Plane("ground")
    for arguments, message in (
        ((ball, 3, LAW), r"Contact\(second=\) is 3; it must be a shape"),
        ((ball, ground, 1e5), r"Contact\(normal=\) is 100000\.0; it must be a law"),
        (
            (ball, ground, LAW, 0.3),
            r"Contact\(friction=\) is 0\.3; it must be lie_jax\.contact\.Coulomb",
        ),
        ((FIRST["ellipsoid"], FIRST["ellipsoid"], LAW), "cannot take a Ellipsoid and a Ellipsoid"),
        (
            (ground, ground, LAW),
            "cannot take a Plane and a Plane; spheres and capsules touch each other",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            lie_jax.contact.Contact(*arguments)
    for make, message in (
        (lambda: contact.Sphere("a", 0.0), r"Sphere\('a'\)\.radius"),
        (lambda: contact.Capsule("a", 0.1, (0, 0, 1), (0, 0, 1)), r"Capsule\('a'\) has its start"),
        (lambda: contact.Box("a", (1.0, 0.0, 1.0)), r"Box\('a'\)\.size\[1\]"),
        (lambda: contact.Plane("a", normal=(0, 0, 0)), r"Plane\('a'\)\.normal"),
        (lambda: contact.Points("a", np.eye(3)), r"'a'\)\.points are 3 points in one plane; they"),
        (lambda: contact.Points("a", np.eye(4, 3) * [1, 1, 0]), "are 4 points in one plane"),
        (
            lambda: contact.Points("a", (1.0, 2.0, 3.0)),
            r"points has shape \(3,\); it must be \(n, 3",
        ),
        (lambda: contact.Points("a", np.full((5, 3), np.nan)), r"Points\('a'\)\.points"),
        (lambda: contact.HeightField("a", 0.1), r"HeightField\('a'\)\.height is 0\.1; it must be"),
        (lambda: contact.HeightField("a", lambda x, y: jnp.zeros(2)), r"\.height\(x, y\)"),
        (
            lambda: contact.HeightField("a", lambda x: x),
            r"'a'\)\.height is .*two arguments, x and y",
        ),
        (lambda: lie_jax.contact.HuntCrossley(-1.0), r"HuntCrossley\(\)\.stiffness"),
        (lambda: lie_jax.contact.HuntCrossley(1.0, 0.5), r"HuntCrossley\(exponent=\) is 0\.5"),
        (lambda: lie_jax.contact.Coulomb(0.3, velocity=0.0), r"Coulomb\(\)\.velocity"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_a_field_that_needs_numbers_is_refused_by_name():
    with pytest.raises(ValueError, match=r"HeightField.*x and y.*jnp\.where.*in the place of `if`"):
        contact.HeightField("a", lambda x, y: x if x > 0.0 else y)


def test_a_point_above_a_field_is_never_below_it():
    """High above hills the distance has several minima, and the search may end at any."""
    points = np.random.default_rng(7).uniform((-2, -2, 0.15), (2, 2, 2), (5000, 3))

    def hills(x, y):
        return 0.1 * jnp.sin(10 * x) * jnp.cos(10 * y)

    above, _ = jax.jit(jax.vmap(lambda x: feet.above(hills, x)))(jnp.asarray(points))
    drop = points[:, 2] - hills(points[:, 0], points[:, 1])
    assert np.all((above > 0.0) & (above <= 1.001 * drop + 1e-7))
    flat, normal = feet.above(lambda x, y: 0.0, jnp.asarray([0.3, 0.2, 0.5]))
    assert_allclose([flat, *normal], [0.5, 0.0, 0.0, 1.0])


def test_more_pairs_than_a_bound_are_refused():
    ball = lie_jax.Body("a", 1.0, np.eye(3), position=(0.0, 0.0, 1.0))
    touch = lie_jax.contact.Contact(contact.Sphere("a", 0.1), contact.Plane("ground"), LAW)
    with pytest.raises(ValueError, match=r"10001 contacts; .* leave out pairs that cannot meet"):
        lie_jax.Mechanism([ball], forces=[touch] * 10_001)
