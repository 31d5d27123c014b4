"""Formulas of the five papers as printed and as they should read, next to the truth.

In the files of the papers `eq_N(sample, printed)` is formula N, as printed or corrected, and the
other functions of a sample are truths: they use nothing but the definitions of `reference`.
"""
