"""Operations on numbers, and numbers themselves, in what C and CUDA C++ share.

All are those of JAX, also where C leaves them open: signed integers wrap, shifts by a number's
width give zero, and what is no number stays none in a maximum.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lie_jax.sweeps.batching.scalar_graph import Unfit

_TYPES = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
}


def type_of(dtype: Any) -> str:
    """Type of C. Raises `Unfit` for numbers that have none."""
    try:
        return _TYPES[np.dtype(dtype).name]
    except KeyError:
        raise Unfit from None


def _reinterpret(own: str, out: str) -> str:
    kinds = _TYPES[own], _TYPES[out]
    union = f"union {{ {kinds[0]} own; {kinds[1]} out; }} both;"
    body = f"{union} both.own = x; return both.out;"
    return f"FUNCTION {kinds[1]} {own}_as_{out}({kinds[0]} x) {{ {body} }}"


# Comes before functions that use `expression`, after a definition of FUNCTION.
PRELUDE = "\n".join(
    [
        "typedef unsigned long long size_type;",
        *(
            _reinterpret(f"{own}{bits}", f"{out}{bits}")
            for bits in (32, 64)
            for own in ("float", "int", "uint")
            for out in ("float", "int", "uint")
            if own != out
        ),
    ]
)


def literal(value: Any, dtype: Any) -> str:
    """A number in C, all its digits."""
    dtype, kind = np.dtype(dtype), type_of(dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "u":
        return f"(({kind}){int(value)}ull)"
    if dtype.kind == "i":
        # C has no literal for the least integer.
        value = int(value)
        return f"(({kind})({value + 1}ll - 1))" if value < 0 else f"(({kind}){value}ll)"
    value = float(value)
    if math.isnan(value):
        return f"(({kind})NOT_A_NUMBER)"
    if math.isinf(value):
        return f"(({kind}){'-' if value < 0 else ''}INFINITE)"
    return f"(({kind}){value.hex()})"


class _Case(NamedTuple):
    """Operands in C, their dtype (the last one's), and the dtype of the result."""

    params: dict[str, Any]
    x: Sequence[str]
    own: np.dtype
    out: np.dtype

    @property
    def kind(self) -> str:
        return type_of(self.out)

    @property
    def unsigned(self) -> str:
        return type_of(f"uint{8 * self.own.itemsize}")

    @property
    def wide(self) -> str:
        """Unsigned integers of 32 bits at least: C makes signed ones of shorter ones."""
        return type_of(f"uint{max(32, 8 * self.own.itemsize)}")

    def function(self, name: str, *x: str) -> str:
        """A function of C's mathematics."""
        if self.own.kind != "f":
            raise Unfit
        return f"{name}{'f' if self.own == np.float32 else ''}({', '.join(x or self.x)})"


def expression(
    name: str, params: dict[str, Any], x: Sequence[str], dtypes: Sequence[Any], out: Any
) -> str:
    """An operation of JAX on numbers, in C. Raises `Unfit` for one that is not known."""
    rule = _RULES.get(name)
    if rule is None:
        raise Unfit(name)
    return rule(_Case(params, x, np.dtype(dtypes[-1]), np.dtype(out)))


def _compare(sign: str) -> Callable[[_Case], str]:
    return lambda case: f"{case.x[0]} {sign} {case.x[1]}"


def _bits(sign: str) -> Callable[[_Case], str]:
    return lambda case: f"({case.kind})({case.x[0]} {sign} {case.x[1]})"


def _arithmetic(sign: str) -> Callable[[_Case], str]:
    def rule(case):
        own = f"({case.wide})" if case.own.kind in "iu" else ""
        return f"({case.kind})({own}{case.x[0]} {sign} {own}{case.x[1]})"

    return rule


def _extreme(sign: str) -> Callable[[_Case], str]:
    def rule(case):
        a, b = case.x
        if case.own.kind != "f":
            return f"({a} {sign} {b} ? {a} : {b})"
        # Of two zeros the positive one is larger.
        zero = f"{a} + {b}" if sign == ">" else f"-(-{a} - {b})"
        equal = f"{a} == 0 && {b} == 0 ? {zero}"
        return f"({a} {sign} {b} || {a} != {a} ? {a} : {equal} : {b})"

    return rule


def _function(name: str) -> Callable[[_Case], str]:
    return lambda case: case.function(name)


def _unchanged(case: _Case) -> str:
    return case.x[0]


def _select(case: _Case) -> str:
    which, *cases = case.x
    if len(cases) == 2:
        return f"({which} ? {cases[1]} : {cases[0]})"
    text = cases[-1]
    for place in reversed(range(len(cases) - 1)):
        text = f"({which} <= {place} ? {cases[place]} : {text})"
    return text


def _convert(case: _Case) -> str:
    (x,) = case.x
    if case.out.kind == "b":
        return f"{x} != 0"
    if case.own.kind != "f" or case.out.kind == "f":
        return f"({case.kind}){x}"
    # What is too large becomes the largest, and what is no number zero.
    bounds = np.iinfo(case.out)
    low, high = (literal(value, case.out) for value in (bounds.min, bounds.max))
    first, last = (literal(float(value), case.own) for value in (bounds.min, bounds.max))
    inside = f"{x} <= {first} ? {low} : {x} >= {last} ? {high} : ({case.kind}){x}"
    return f"({x} != {x} ? ({case.kind})0 : {inside})"


def _reinterpretation(case: _Case) -> str:
    if case.own == case.out:
        return case.x[0]
    if case.own.itemsize != case.out.itemsize or case.own.itemsize < 4:
        raise Unfit
    return f"{case.own.name}_as_{case.out.name}({case.x[0]})"


def _negative(case: _Case) -> str:
    if case.own.kind == "f":
        return f"-{case.x[0]}"
    return f"({case.kind})(0 - ({case.unsigned}){case.x[0]})"


def _not(case: _Case) -> str:
    return f"!{case.x[0]}" if case.own.kind == "b" else f"({case.kind})~{case.x[0]}"


def _size(case: _Case) -> str:
    if case.own.kind == "f":
        return case.function("fabs")
    return f"({case.x[0]} < 0 ? {_negative(case)} : {case.x[0]})"


def _sign(case: _Case) -> str:
    # Zeros and what is no number stay what they are.
    (x,) = case.x
    return f"({x} > 0 ? ({case.kind})1 : {x} < 0 ? ({case.kind})-1 : {x})"


def _square(case: _Case) -> str:
    return _arithmetic("*")(case._replace(x=[case.x[0], case.x[0]]))


def _integer_power(case: _Case) -> str:
    exponent = case.params["y"]
    if case.own.kind != "f":
        raise Unfit
    if exponent == 0:
        return f"({case.kind})1"
    # By squares, as XLA has it.
    factors, square, left = [], case.x[0], abs(exponent)
    while left:
        if left & 1:
            factors.append(square)
        square, left = f"({square} * {square})", left >> 1
    product = f"({' * '.join(factors)})"
    return f"({case.kind})1 / {product}" if exponent < 0 else product


def _clamp(case: _Case) -> str:
    low, x, high = case.x
    # A bound that is no number leaves none.
    none = f"{low} != {low} ? {low} : {high} != {high} ? {high} : " if case.own.kind == "f" else ""
    # The upper bound counts where it is below the lower one.
    lower = f"({low} > {high} ? {high} : {low})"
    return f"({none}{x} < {low} ? {lower} : {x} > {high} ? {high} : {x})"


def _quotient(case: _Case) -> str:
    a, b = case.x
    if case.own.kind == "f":
        return f"{a} / {b}"
    # The least integer by -1 wraps.
    wraps = f"{b} == -1 ? {_negative(case)} : " if case.own.kind == "i" else ""
    return f"({b} == 0 ? ({case.kind})-1 : {wraps}({case.kind})({a} / {b}))"


def _remainder(case: _Case) -> str:
    a, b = case.x
    if case.own.kind == "f":
        return case.function("fmod")
    wraps = f"{b} == -1 ? ({case.kind})0 : " if case.own.kind == "i" else ""
    return f"({b} == 0 ? {a} : {wraps}({case.kind})({a} % {b}))"


def _reduce_precision(case: _Case) -> str:
    # To its own precision: JAX writes it against XLA's fusions.
    own = np.finfo(case.own) if case.own.kind == "f" else None
    bits = case.params["exponent_bits"], case.params["mantissa_bits"]
    if own is None or bits != (own.nexp, own.nmant):
        raise Unfit("reduce_precision")
    return case.x[0]


def _power(case: _Case) -> str:
    return case.function("pow")


def _round(case: _Case) -> str:
    return case.function("rint" if int(case.params["rounding_method"]) else "round")


def _inverse_root(case: _Case) -> str:
    return f"({case.kind})1 / {case.function('sqrt')}"


def _logistic(case: _Case) -> str:
    return f"({case.kind})1 / (({case.kind})1 + {case.function('exp', f'-{case.x[0]}')})"


def _is_finite(case: _Case) -> str:
    return f"{case.x[0]} - {case.x[0]} == 0" if case.own.kind == "f" else "true"


def _shift(sign: str) -> Callable[[_Case], str]:
    def rule(case):
        bits, by = 8 * case.own.itemsize, f"({case.unsigned}){case.x[1]}"
        shifted = f"({case.kind})(({case.unsigned}){case.x[0]} {sign} {by})"
        return f"({by} < {bits} ? {shifted} : ({case.kind})0)"

    return rule


def _shift_with_sign(case: _Case) -> str:
    last, by = 8 * case.own.itemsize - 1, f"({case.unsigned}){case.x[1]}"
    signed = type_of(f"int{8 * case.own.itemsize}")
    return f"({case.kind})(({signed}){case.x[0]} >> ({by} < {last} ? {by} : {last}))"


_SAME_NAME = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor lgamma
    log log1p nextafter sin sinh sqrt tan tanh
"""
_RULES: dict[str, Callable[[_Case], str]] = {
    **{name: _function(name) for name in _SAME_NAME.split()},
    **{name: _unchanged for name in ("copy", "copy_p", "name", "real", "stop_gradient")},
    "abs": _size,
    "add": _arithmetic("+"),
    "add_any": _arithmetic("+"),
    "and": _bits("&"),
    "bitcast_convert_type": _reinterpretation,
    "clamp": _clamp,
    "convert_element_type": _convert,
    "div": _quotient,
    "eq": _compare("=="),
    "ge": _compare(">="),
    "gt": _compare(">"),
    "integer_pow": _integer_power,
    "is_finite": _is_finite,
    "le": _compare("<="),
    "logistic": _logistic,
    "lt": _compare("<"),
    "max": _extreme(">"),
    "min": _extreme("<"),
    "mul": _arithmetic("*"),
    "ne": _compare("!="),
    "neg": _negative,
    "not": _not,
    "or": _bits("|"),
    "pow": _power,
    "reduce_precision": _reduce_precision,
    "rem": _remainder,
    "round": _round,
    "rsqrt": _inverse_root,
    "select_n": _select,
    "shift_left": _shift("<<"),
    "shift_right_arithmetic": _shift_with_sign,
    "shift_right_logical": _shift(">>"),
    "sign": _sign,
    "square": _square,
    "sub": _arithmetic("-"),
    "xor": _bits("^"),
}
