"""Maps of the groups for a great many inputs, against the same formulas in extended precision.

Angles are zero, tiny, ordinary, next to π and next to 2π; translations have any length between
1e-30 and 1e30 m. The formulas of the truth are held to 30 digits by the golden values.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lie_jax.groups import adjoint, euler_parameters, quaternion, se3, series, so3, tait_bryan
from tests import golden
from tests.groups.extended import EXTENDED, PI, hat, truth
from tests.suites import cases

# An input more or less at a time changes nothing: one program serves all of them.
CHUNK = 10_000
# Errors in machine epsilons, times the condition number of what is computed.
BOUND_EPS = 8
# Digits of the truth: far below an epsilon of double precision.
TRUTH = 2e-17
needs_extended = pytest.mark.skipif(
    np.finfo(EXTENDED).eps > 1e-18, reason="long double is no longer than double here"
)


def inputs(seed, dtype):
    """Rotation vectors, translations and two directions, one a row, exact in the precision."""
    rng = np.random.default_rng(seed)
    tiny = 10.0 ** rng.uniform(-300.0 if dtype == np.float64 else -37.0, -3.0, CHUNK)
    next_to = 10.0 ** rng.uniform(-16.0, -1.0, CHUNK)
    sign = rng.choice([-1.0, 1.0], CHUNK)
    angles = np.select(
        [rng.integers(0, 6, CHUNK) == k for k in range(5)],
        [tiny, np.pi + sign * next_to, 2 * np.pi - next_to, np.zeros(CHUNK), next_to],
        rng.uniform(0.0, 2 * np.pi - 0.1, CHUNK),
    )
    axes, y, u, z = rng.normal(size=(4, CHUNK, 3))
    # Axes along and next to coordinate axes, too.
    axes *= np.where(rng.uniform(size=(CHUNK, 3)) < 0.15, 10.0 ** rng.uniform(-20, 0), 1.0)
    axes *= np.where(rng.uniform(size=(CHUNK, 3)) < 0.1, 0.0, 1.0)
    norm = np.linalg.norm(axes, axis=1, keepdims=True)
    axes = np.where(norm > 0.0, axes / np.where(norm > 0.0, norm, 1.0), [1.0, 0.0, 0.0])
    y *= 10.0 ** rng.uniform(-30.0, 30.0, (CHUNK, 1))
    x = (angles[:, None] * axes).astype(dtype)
    # Rounding may take angles to 2π, where dexp has no inverse.
    x *= np.where(np.linalg.norm(x.astype(EXTENDED), axis=1, keepdims=True) < 2 * PI, 1, 0.5)
    return [x.astype(dtype), y.astype(dtype), u.astype(dtype), z.astype(dtype)]


@jax.jit
@jax.vmap
def maps(x, y, u, z):
    """The package's values, with those of inverse maps and of what they are taken of."""
    twist, other = jnp.concatenate([y, x]), jnp.concatenate([0.0 * z, z])
    pose, screw = se3.exp(twist), se3.cay(twist)
    got = {
        f"so3.{name}": getattr(so3, name)(x)
        for name in (
            "exp",
            "dexp",
            "dexp_inv",
            "cay",
            "dcay",
            "dcay_inv",
            "cay2",
            "dcay2",
            "dcay2_inv",
        )
    }
    got |= {f"so3.{name}": getattr(so3, name)(x, z) for name in ("dexp_apply", "dexp_inv_apply")}
    got |= {f"so3.{name}": getattr(so3, name)(x, u) for name in ("ddexp", "ddexp_inv", "ddcay")}
    got |= {"quaternion.exp": quaternion.exp(x), "quaternion.cay": quaternion.cay(x)}
    got |= {
        "se3.exp": pose[:3, 3],
        "se3.dexp": se3.dexp(twist)[:3, 3:],
        "se3.dexp_inv": se3.dexp_inv(twist)[:3, 3:],
        "se3.dexp_apply": se3.dexp_apply(twist, other)[:3],
        "se3.dexp_inv_apply": se3.dexp_inv_apply(twist, other)[:3],
        "se3.cay": screw[:3, 3],
        "se3.dcay": se3.dcay(twist)[:3, 3:],
        "se3.dcay_inv": se3.dcay_inv(twist)[:3, 3:],
        "adjoint.cay": adjoint.to_pose(adjoint.cay(twist))[:3, 3],
        "E": series.e(jnp.sum(x * x)),
    }
    angles = tait_bryan.from_matrix(got["so3.exp"])
    back = {
        "so3.log": so3.log(got["so3.exp"]),
        "quaternion.log": quaternion.log(got["quaternion.exp"]),
        "se3.log": se3.log(pose),
        "adjoint.log": adjoint.log(se3.Ad(pose)),
        "so3.cay_inv": so3.cay_inv(got["so3.cay"]),
        "quaternion.cay_inv": quaternion.cay_inv(got["quaternion.cay"]),
        "se3.cay_inv": se3.cay_inv(screw),
        "small": 0.125 * x,
        "so3.cay2_inv": so3.cay2_inv(so3.cay2(0.125 * x)),
        "quaternion.cay2_inv": quaternion.cay2_inv(quaternion.cay2(0.125 * x)),
        "tait_bryan": tait_bryan.to_matrix(angles),
        "tait_bryan.velocity_matrix": tait_bryan.velocity_matrix(angles),
        "tait_bryan.velocity_matrix_inv": tait_bryan.velocity_matrix_inv(angles),
        "quaternion.to_matrix": quaternion.to_matrix(got["quaternion.exp"]),
        "quaternion.from_rotation": quaternion.to_matrix(quaternion.from_rotation(got["so3.exp"])),
        "euler_parameters": euler_parameters.velocity_matrix(got["quaternion.exp"]),
        "pose": pose, "screw": screw,
    }  # fmt: skip
    return got, back


def length(a):
    return np.sqrt(np.sum(a * a, axis=tuple(range(1, a.ndim))))


class Checked(NamedTuple):
    """Distances (n,) and what they are relative to."""

    error: np.ndarray
    scale: np.ndarray


def forward_errors(got, expected, x, y, z) -> dict[str, Checked]:
    theta = length(x)
    # Next to 2π relative errors of the inverses grow with those of the angle.
    condition = 1 / (1 - theta / (2 * PI))
    scales = {
        "so3.dexp_apply": length(z),
        "so3.dexp_inv_apply": length(expected["so3.dexp_inv"]) * length(z),
        "se3.dexp_apply": length(expected["se3.dexp"]) * length(z),
        "se3.dexp_inv_apply": length(expected["se3.dexp_inv"]) * length(z),
        **dict.fromkeys(["se3.exp", "se3.cay", "adjoint.cay"], length(y)),
    }
    checked = {}
    for name, value in expected.items():
        scale = scales.get(name, length(value))
        if "exp_inv" in name or name == "E":
            scale = scale * condition
        checked[name] = Checked(length(got[name] - value), scale)
    return checked


def back_errors(got, back, expected, x) -> dict[str, Checked]:
    theta = length(x)
    beyond = theta > PI
    turns = np.where(beyond, 1 - 2 * PI / np.where(beyond, theta, 1), 1)
    principal = turns[:, None] * x
    checked = {}
    for name in ("so3.log", "quaternion.log"):
        error = length(back[name] - principal)
        # Rounding decides on the sign at π.
        error = np.where(
            np.abs(theta - PI) < 1e-3, np.minimum(error, length(back[name] + principal)), error
        )
        checked[name] = Checked(error, np.where(beyond, 2 * PI, theta))
    for name, copies in (("se3.log", 1), ("adjoint.log", 2)):
        rotation, place = back[name][:, 3:], back["pose"][:, :3, 3]
        wanted = truth(rotation, rotation, rotation, place)["so3.dexp_inv_apply"]
        checked[name] = Checked(length(back[name][:, :3] - wanted), copies * length(place))
        checked[f"{name}, rotation"] = Checked(length(rotation - back["so3.log"]), 0 * theta)
    for name in ("so3.cay_inv", "quaternion.cay_inv"):
        checked[name] = Checked(length(back[name] - x), theta * np.sqrt(1 + theta**2))
    rotation, place = back["se3.cay_inv"][:, 3:], back["screw"][:, :3, 3]
    wanted = (place - np.cross(rotation, place)) / 2
    checked["se3.cay_inv"] = Checked(
        length(back["se3.cay_inv"][:, :3] - wanted), (1 + theta) * length(place)
    )
    for name in ("so3.cay2_inv", "quaternion.cay2_inv"):
        checked[name] = Checked(length(back[name] - back["small"]), length(back["small"]))
    inverse, matrix = back["tait_bryan.velocity_matrix_inv"], back["tait_bryan.velocity_matrix"]
    quat, exp = got["quaternion.exp"], expected["so3.exp"]
    w, rest = quat[:, :1, None], quat[:, 1:, None]
    left = np.concatenate([-rest, w * np.eye(3) - hat(quat[:, 1:])], axis=2)
    return checked | {
        "tait_bryan": Checked(length(back["tait_bryan"] - exp), length(exp)),
        "tait_bryan.velocity_matrix": Checked(
            length(matrix @ inverse - np.eye(3)), length(inverse)
        ),
        "quaternion.to_matrix": Checked(length(back["quaternion.to_matrix"] - exp), length(exp)),
        "quaternion.from_rotation": Checked(
            length(back["quaternion.from_rotation"] - exp), length(exp)
        ),
        "euler_parameters": Checked(length(back["euler_parameters"] - 2 * left), length(left)),
    }


def errors(seed, dtype) -> dict[str, np.ndarray]:
    """Errors of every map in epsilons and condition numbers, NaN for one that is not finite."""
    given, limits = inputs(seed, dtype), np.finfo(dtype)
    x, y, u, z = (a.astype(EXTENDED) for a in given)
    with np.errstate(all="ignore"):
        got, back = jax.tree.map(lambda a: np.asarray(a).astype(EXTENDED), maps(*given))
        expected = truth(x, y, u, z)
        checked = forward_errors(got, expected, x, y, z) | back_errors(got, back, expected, x)
        # Inverses have no digits left where the angle's last one decides, and may overflow.
        near = 1 - length(x) / (2 * PI) < 100 * limits.eps
        found = {}
        for name, (error, scale) in checked.items():
            free = "exp_inv" in name or name == "E"
            large = scale > 1e-3 * limits.max
            # What underflows is rounded to zero.
            relative = np.maximum(error - 100 * limits.tiny, 0) / np.maximum(scale, limits.tiny)
            found[name] = np.where(large | (free & near), 0, relative / limits.eps)
    return found


def check(seeds, dtype):
    worst: dict[str, float] = {}
    for seed in seeds:
        for name, error in errors(seed, dtype).items():
            assert not np.any(np.isnan(error)), f"{name} is NaN: inputs({seed}, {dtype})"
            worst[name] = max(worst.get(name, 0.0), float(np.max(error)))
    print({name: round(value, 2) for name, value in worst.items()})
    wrong = {name: value for name, value in worst.items() if not value <= BOUND_EPS}
    assert not wrong, f"errors in epsilons for {dtype}, inputs{(min(seeds), max(seeds))}: {wrong}"


# Double precision is compared with 30 digits, too.
@needs_extended
@pytest.mark.parametrize("dtype", cases([np.float64, np.float32], [np.float32]))
def test_maps_for_ten_thousand_inputs(dtype):
    check(range(1), dtype)


@needs_extended
@pytest.mark.full
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_maps_for_a_million_inputs(dtype):
    check(range(1, 101), dtype)


@needs_extended
def test_the_truth_has_the_golden_digits():
    def exact(key):
        values = np.asarray([entry[key] for entry in golden.MAPS["se3"]], dtype=object)
        return np.vectorize(EXTENDED, otypes=[EXTENDED])(values)

    x, u = exact("X"), exact("U")
    got = truth(x[:, :3], x[:, 3:], u[:, :3], x[:, :3])
    for name, value in got.items():
        module, function = name.partition(".")[::2]
        # The golden files have rotations first.
        rows, columns = {"so3": (slice(0, 3), slice(0, 3)), "se3": (slice(3, 6), slice(0, 3))}.get(
            module, (None, None)
        )
        key = {"ddexp": "D_dexp_U", "ddexp_inv": "D_dexp_inv_U", "ddcay": "D_dcay_U"}.get(
            function, function
        )
        if rows is None or key not in golden.MAPS["se3"][0]:
            continue
        if module == "se3" and key in ("exp", "cay"):
            expected = exact(key)[:, :3, 3]
        elif key in ("exp", "cay"):
            expected = exact(key)[:, :3, :3]
        else:
            expected = exact(key)[:, rows, columns]
        error = length(value - expected) / np.maximum(length(expected), 1)
        assert np.max(error) < TRUTH, name
