"""Programs (jaxprs): their calls and loops, their size, and what varies from member to member."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from lie_jax.numerics import jax_internals


def inline(equation: Any, values: Sequence) -> tuple[Any, Sequence] | None:
    """Program and arguments of an equation that is a call, without its rules of derivatives."""
    name, params = equation.primitive.name, equation.params
    if name in ("jit", "pjit", "closed_call", "core_call", "eval_jaxpr"):
        return params.get("jaxpr") or params["call_jaxpr"], values
    if name in ("custom_jvp_call", "custom_vjp_call"):
        return params["call_jaxpr"], values
    if name in ("remat2", "checkpoint"):
        return params["jaxpr"], values
    if name in ("native", "apart"):
        return params["program"], values
    if name == "custom_linear_solve":
        lengths = params["const_lengths"]
        first = lengths.matvec + lengths.vecmat
        right = first + lengths.solve + lengths.transpose_solve
        return params["jaxprs"].solve, [*values[first : first + lengths.solve], *values[right:]]
    return None


class Scan(NamedTuple):
    """Parts of a scan's equation: its body and the numbers of constants and of carried arrays."""

    body: Any
    constants: int
    carried: int

    @classmethod
    def of(cls, equation: Any) -> "Scan":
        """The parts, from the shapes of arrays outside and inside of the body."""
        body = equation.params["jaxpr"]
        jaxpr, _ = jax_internals.unpack(body)

        def count_slices(outside, inside):
            pairs = zip(outside, inside, strict=True)
            return sum(len(x.aval.shape) > len(y.aval.shape) for x, y in pairs)

        carried = len(equation.outvars) - count_slices(equation.outvars, jaxpr.outvars)
        inputs = count_slices(equation.invars, jaxpr.invars)
        return cls(body, len(equation.invars) - inputs - carried, carried)

    def varying(self, given: Sequence[bool]) -> tuple[list[bool], list[bool]]:
        """Whether carried arrays and outputs differ from member to member if such operands do."""
        constants, carry, inputs = self.split(given)
        while True:
            found = depends(self.body, [*constants, *carry, *inputs])
            after = [a or b for a, b in zip(carry, found, strict=False)]
            if after == carry:
                return carry, found[self.carried :]
            carry = after

    def split(self, values: Sequence) -> tuple[list, list, list]:
        """Constants, carry and inputs."""
        first, second = self.constants, self.constants + self.carried
        return list(values[:first]), list(values[first:second]), list(values[second:])


def depends(program: Any, given: Sequence[bool]) -> list[bool]:
    """Whether each result of a program differs from member to member if such arguments do."""
    jaxpr, _ = jax_internals.unpack(program)
    known = dict(zip(jaxpr.invars, given, strict=True))

    def read(x):
        return False if hasattr(x, "val") else known.get(x, False)

    for equation in jaxpr.eqns:
        flags = varying(equation, [read(x) for x in equation.invars])
        known.update(zip(equation.outvars, flags, strict=True))
    return [read(x) for x in jaxpr.outvars]


def varying(equation: Any, given: Sequence[bool]) -> list[bool]:
    """Whether each result of an equation differs from member to member if such operands do."""
    name, params = equation.primitive.name, equation.params
    if not any(given) or name == "anywhere":
        return [False] * len(equation.outvars)
    inner = inline(equation, given)
    if inner is not None:
        return depends(*inner)
    if name == "cond":
        index, *operands = given
        results = [depends(branch, operands) for branch in params["branches"]]
        return [index or any(x) for x in zip(*results, strict=True)]
    if name == "scan":
        carry, outputs = Scan.of(equation).varying(given)
        return [*carry, *outputs]
    if name == "while":
        first = params["cond_nconsts"]
        second = first + params["body_nconsts"]
        carry = list(given[second:])
        while True:
            (each,) = depends(params["cond_jaxpr"], [*given[:first], *carry])
            found = depends(params["body_jaxpr"], [*given[first:second], *carry])
            after = [each or a or b for a, b in zip(carry, found, strict=True)]
            if after == carry:
                return carry
            carry = after
    return [True] * len(equation.outvars)


def weight(program: Any) -> int:
    """Number of entries of all arrays that a program computes."""
    jaxpr, _ = jax_internals.unpack(program)
    total = 0
    for equation in jaxpr.eqns:
        inner = [weight(x) for x in jax_internals.inside(equation)]
        if inner:
            total += sum(inner) * equation.params.get("length", 1)
        else:
            total += sum(math.prod(x.aval.shape) for x in equation.outvars)
    return total
