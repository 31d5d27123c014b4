"""Formulas in Unicode between backticks, as the errata are written, to TeX between dollar signs."""

import re
import unicodedata

_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0307": "dot", "\u0308": "ddot"}
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵇᵖⁱⁿᴺ", "0123456789-bpinN", strict=True)) | {"ᵀ": r"\mathsf{T}"}
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢₖₙ", "0123456789ikn", strict=True))
_SIGNS = {"½": r"\tfrac12 ", "¼": r"\tfrac14 ", "‖": r"\Vert ", "′": "'", "…": r"\ldots "}
_FUNCTIONS = "arccos cay cos cot dcay dexp exp sinc sin tan Ad"
_ROOT = "√("


def typeset(text: str) -> str:
    """Markdown with each formula between backticks as TeX."""
    return re.sub(r"`([^`]+)`", lambda formula: f"${tex(formula[1])}$", text)


def tex(formula: str) -> str:
    """TeX of a formula in Unicode."""
    text = unicodedata.normalize("NFD", _roots(formula))
    for accent, command in _ACCENTS.items():
        text = re.sub(rf"(\w){accent}", rf"\\{command}{{\1}}", text)
    for command, table in (("^", _RAISED), ("_", _LOWERED)):
        text = re.sub(
            f"[{''.join(table)}]+",
            lambda run, command=command, table=table: (
                f"{command}{{{''.join(table[letter] for letter in run[0])}}}"
            ),
            text,
        )
    text = re.sub(r"_([a-z]{2,})", r"_{\\text{\1}}", text)
    text = re.sub(r"\b1e-(\d+)", r"10^{-\1}", text)
    names = "|".join(_FUNCTIONS.split())
    text = re.sub(rf"(?<![a-zA-Z\\])({names})(?![a-zA-Z])", r"\\operatorname{\1}", text)
    return "".join(_SIGNS.get(letter, letter) for letter in text).strip()


def _roots(formula: str) -> str:
    """With the brackets after root signs as the arguments of roots."""
    while _ROOT in formula:
        start = formula.index(_ROOT)
        depth, end = 1, start + len(_ROOT)
        while depth:
            depth += {"(": 1, ")": -1}.get(formula[end], 0)
            end += 1
        inner = formula[start + len(_ROOT) : end - 1]
        formula = f"{formula[:start]}\\sqrt{{{inner}}}{formula[end:]}"
    return formula
