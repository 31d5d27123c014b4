"""A ball that a wall throws back, by closed forms and quadrature of 30 digits.

While a ball of 1 kg touches, the overlap obeys δ̈ = -k δᵖ (1 + a δ̇). With u = δ̇ for time that is
u du = -k δᵖ (1 + a u) dδ, integrated k δᵖ⁺¹ / (p + 1) = G(v) - G(u) with
G(u) = u/a - ln(1 + a u)/a², u²/2 without dissipation: Hunt and Crossley (1975).
"""

from typing import Any

import mpmath

mp: Any = mpmath.MPContext()  # a context of our own: nobody else can change its precision
mp.dps = 30
mpf = mp.mpf


def _work(u: Any, a: Any) -> Any:
    """G(u) of the head of this file."""
    return u * u / 2 if a == 0 else u / a - mp.log(1 + a * u) / a**2


def exit_speed(v: Any, a: Any) -> Any:
    """Speed (m/s) after an impact by the speed v (m/s) with the dissipation a (s/m)."""
    if a == 0:
        return v
    # G(-w) grows without bound as w approaches 1/a.
    guess = v - 2 * a * v**2 / 3 if a * v < 1 else mpf("0.5") / a
    return mp.findroot(lambda w: _work(-w, a) - _work(v, a), guess)


def duration(v: Any, k: Any, p: Any, a: Any) -> Any:
    """Time (s) between both touches."""

    def half(end: Any) -> Any:
        """Time between the touch with the rate `end` and the rate zero."""
        work = _work(end, a)

        def integrand(s: Any) -> Any:
            # Near the touch the overlap grows as s: nothing is singular.
            u = end * (1 - s ** (p + 1))
            overlap = ((p + 1) / k * (work - _work(u, a))) ** (1 / (p + 1))
            return abs(end) * (p + 1) * s**p / (k * overlap**p * (1 + a * u))

        return mp.quad(integrand, [0, mpf("0.25"), mpf("0.5"), 1], method="gauss-legendre")

    return half(v) + half(-exit_speed(v, a))


def position(v: Any, gap: Any, end: Any, k: Any, p: Any, a: Any) -> Any:
    """Distance (m) from the wall at the time `end` (s), when the ball has left it."""
    return exit_speed(v, a) * (end - gap / v - duration(v, k, p, a))


def bounce(v: float, gap: float, end: float, k: float, p: float, a: float) -> tuple[float, float]:
    """Speed (m/s) at the end, and the derivative (s) of the position there by the first speed."""
    numbers = [mpf(x) for x in (gap, end, k, p, a)]
    slope = mp.diff(lambda v: position(v, *numbers), mpf(v))
    return float(exit_speed(mpf(v), numbers[-1])), float(slope)


def contact_time(v: float, k: float, p: float, a: float) -> float:
    """`duration` in numbers of Python."""
    return float(duration(*(mpf(x) for x in (v, k, p, a))))
