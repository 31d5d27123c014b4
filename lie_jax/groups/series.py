"""Even functions of an angle θ, written in t = θ², in the maps of SO(3) and SE(3).

Values and two derivatives are right to a few units in the last place for every angle of the domain,
also at 0 (next to zeros in absolute terms), in float32 and float64, in any nesting of forward and
reverse mode. Below a switch a Taylor polynomial in t is used, above it the closed form. Switches
lie at θ = 2 to 4: each differentiation of a closed form loses a factor of θ⁻² in accuracy. Both
branches get safe arguments, so that the branch not taken puts no NaN into a derivative.
"""

import functools
from collections.abc import Callable, Sequence
from math import factorial, perm

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lie_jax.numerics import jax_internals, rules

Scalar = Float[Array, ""]

# One polynomial degree for each precision: the first neglected term stays below half a unit in the
# last place at the switch even after two differentiations.
_DEGREES = {"c1": (8, 12), "c2": (9, 15), "c3": (10, 16), "e": (6, 14), "rates": (9, 15)}


def _degree(name: str, t: Scalar) -> int:
    single, double = _DEGREES[name]
    return single if jnp.finfo(t.dtype).bits <= 32 else double


def horner(coefficients: Sequence[float], t: Scalar) -> Scalar:
    """Polynomial `coefficients[0] + coefficients[1] t + ...`."""
    # In sixteenths of t, which is exact: the last coefficients are small, and their products with a
    # small derivative of t would underflow in single precision.
    scaled = [16.0**j * coefficient for j, coefficient in enumerate(coefficients)]
    part, result = 0.0625 * t, jnp.full_like(t, scaled[-1])
    for coefficient in reversed(scaled[:-1]):
        result = result * part + coefficient
    return result


def _taylor(k: int, name: str, t: Scalar, order: int = 0) -> Scalar:
    # 2^order times the derivative of c_k.
    orders = range(order, _degree(name, t) + order + 1)
    factors = [2.0**order * perm(j, order) * (-1.0) ** j for j in orders]
    return horner([f / factorial(2 * j + k) for j, f in zip(orders, factors, strict=True)], t)


def _stumpff(k: int, name: str, t: Scalar, switch: float, closed: Callable[[Scalar], Scalar]):
    small = t < switch
    near = _taylor(k, name, jnp.where(small, t, 0.0))
    return jnp.where(small, near, closed(jnp.where(small, switch, t)))


def c0(t: Scalar) -> Scalar:
    """Cosine of θ."""
    return 1.0 - t * c2(t)


_C1_SWITCH = 4.0
_RATES_SWITCH = 20.0


def c1(t: Scalar) -> Scalar:
    """Ratio sin θ / θ, the α of [S4] (2.4)."""

    def closed_form(t):
        theta = jnp.sqrt(t)
        return jnp.sin(theta) / theta

    return _stumpff(1, "c1", t, _C1_SWITCH, closed_form)


def c2(t: Scalar) -> Scalar:
    """(1 - cos θ) / θ², half the β of [S4] (2.4)."""
    return _stumpff(2, "c2", t, 10.0, lambda t: 2.0 * jnp.sin(0.5 * jnp.sqrt(t)) ** 2 / t)


def c3(t: Scalar) -> Scalar:
    """(θ - sin θ) / θ³, the δ of [S4] (2.4)."""
    sine_ratio = c1(t)
    return _stumpff(3, "c3", t, 16.0, lambda t: (1.0 - sine_ratio) / t)


def c0_and_c1(t: Scalar) -> tuple[Scalar, Scalar]:
    """(`c0`, `c1`), without closed forms if no member of a batch needs them."""
    known = jax.lax.stop_gradient(t)
    # On a GPU a branch would wait for the host; outside of transformations one is compiled alone.
    if not jax_internals.is_traced(t) or jax.default_backend() != "cpu":
        values = _both(known)
    else:
        values = jax.lax.cond(_anywhere()(known >= _C1_SWITCH)[0], _both, _both_near, known)
    # The derivative of a branch is four branches.
    return rules.value_with_rule(values, _changes, t)


def _changes(values: tuple[Scalar, Scalar], t: Scalar, change: Scalar) -> tuple[Scalar, Scalar]:
    small = t < _C1_SWITCH
    near = 0.5 * _taylor(1, "c1", jnp.where(small, t, 0.0), 1)
    far = (values[0] - values[1]) / (2.0 * jnp.where(small, _C1_SWITCH, t))
    return -0.5 * values[1] * change, jnp.where(small, near, far) * change


def _both(t: Scalar) -> tuple[Scalar, Scalar]:
    return c0(t), c1(t)


def _both_near(t: Scalar) -> tuple[Scalar, Scalar]:
    return 1.0 - t * _taylor(2, "c2", t), _taylor(1, "c1", t)


@functools.cache
def _anywhere() -> Callable:
    # The identity for a single condition; for a batch, whether it holds for any member. A branch on
    # it stays a branch under `vmap`.
    def batch(conditions, axes):
        return _anywhere()(jnp.any(conditions[0], axis=axes[0])), [None]

    return jax_internals.pass_through("anywhere", lambda condition: [condition], batch)


def stumpff_rates(t: Scalar) -> tuple[tuple[Scalar, Scalar], tuple[Scalar, Scalar]]:
    """(2 c₂', 4 c₂'') and (2 c₃', 4 c₃''): derivatives with respect to t, for closed forms.

    2 c₂' is (α - β)/θ² and 2 c₃' is (β/2 - 3δ)/θ² in [S4] (2.33).
    """
    large = jnp.where(t < _RATES_SWITCH, _RATES_SWITCH, t)
    first2 = (c1(large) - 2.0 * c2(large)) / large
    first3 = (c2(large) - 3.0 * c3(large)) / large
    second2 = (c3(large) - c2(large) - 4.0 * first2) / large
    second3 = (first2 - 5.0 * first3) / large
    small = t < _RATES_SWITCH
    near = jnp.where(small, t, 0.0)

    def rates(k: int, first: Scalar, second: Scalar) -> tuple[Scalar, Scalar]:
        return (
            jnp.where(small, _taylor(k, "rates", near, 1), first),
            jnp.where(small, _taylor(k, "rates", near, 2), second),
        )

    return rates(2, first2, second2), rates(3, first3, second3)


# E(t) is the sum over n >= 1 of 2 / ((2 π n)² - t). The poles n = 1, 2 are kept; the others are
# expanded about t = 0: coefficient j is the sum over n >= 3 of 2 (2 π n)^(-2 j - 2).
_E_TAIL = (
    2.0007593556872226181e-2,
    2.543812068862562158e-5,
    5.5845683904944151311e-8,
    1.4088241574761046862e-10,
    3.7567162002157978115e-13,
    1.0280125375360461078e-15,
    2.8500221292137912383e-18,
    7.9555754107198449836e-21,
    2.2289326645537011567e-23,
    6.2574711508057722392e-26,
    1.7586730492909679891e-28,
    4.9458469500579387389e-31,
    1.3913826789080879928e-33,
    3.9150442526453142427e-36,
    1.1017268914671418779e-38,
)
# (2 π n)² for n = 1, 2 as a rounded number and the remainder, in single and in double precision.
_E_POLES = {
    32: ((39.478416442871094, 1.161486340725338e-6), (157.91366577148438, 4.645945362901351e-6)),
    64: ((39.47841760435743, 2.506118203495885e-15), (157.91367041742973, 1.002447281398354e-14)),
}


def _to_poles(t: Scalar) -> list[Scalar]:
    # 1 / (pole - t). Adding the remainder to `pole - t` directly would be undone by the compiler,
    # which adds the two constants first.
    pairs = [(1.0 / (pole - t), remainder) for pole, remainder in _E_POLES[jnp.finfo(t.dtype).bits]]
    return [quotient * (1.0 - remainder * quotient) for quotient, remainder in pairs]


def _e_derivative(order: int, t: Scalar) -> Scalar:
    # 2^order times the derivative of E.
    tail = enumerate(_E_TAIL[: _degree("e", t) + 1])
    coefficients = [2.0**order * perm(j, order) * p for j, p in tail][order:]
    factor = 2.0 ** (order + 1) * factorial(order)
    return horner(coefficients, t) + sum(factor * q ** (order + 1) for q in _to_poles(t))


def e(t: Scalar) -> Scalar:
    """(1 - (θ/2) cot(θ/2)) / θ², the coefficient of x̃² in dexp⁻¹ ([S4] (2.11)), for θ < 2π."""
    return _e_derivative(0, t)


def e_rates(t: Scalar) -> tuple[Scalar, Scalar]:
    """2 E' and 4 E'', derivatives in t: (1/β + γ - 2)/θ⁴ of [S4] (2.40), and its rate."""
    return _e_derivative(1, t), _e_derivative(2, t)


# arctan(r) / r in r² up to r = 1/4, and the switch that goes with it.
_ARCTAN_SWITCH = 1.0 / 16.0


def arctan_ratio(y: Scalar, x: Scalar) -> Scalar:
    """atan2(√y, x) / √y for x >= 0 and (x, y) != (0, 0): smooth in y at 0, never an arc cosine."""
    small = y < _ARCTAN_SWITCH * x * x
    safe_x = jnp.where(small, x, 1.0)
    degree = 6 if jnp.finfo(y.dtype).bits <= 32 else 14
    taylor = [(-1.0) ** j / (2 * j + 1) for j in range(degree + 1)]
    near = horner(taylor, jnp.where(small, y, 0.0) / (safe_x * safe_x)) / safe_x
    root = jnp.sqrt(jnp.where(small, 1.0, y))
    return jnp.where(small, near, jnp.arctan2(root, x) / root)
