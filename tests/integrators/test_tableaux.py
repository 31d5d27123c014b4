"""Order conditions of the explicit methods, checked on the coefficients themselves."""

from fractions import Fraction as F
from functools import cache

import pytest

from lie_jax.integrators.tableaux import COMMUTATOR_FREE, CROUCH_GROSSMAN, TABLEAUX

# The refined coefficients have 40 digits.
REFINED = F(1, 10**38)


@cache
def _trees(order):
    """Rooted trees with so many nodes: a tree is the sorted tuple of its subtrees."""
    if order == 1:
        return ((),)
    return tuple({grown for tree in _trees(order - 1) for grown in _grown(tree)})


def _grown(tree):
    """The trees with one leaf more."""
    yield tuple(sorted((*tree, ())))
    for i, subtree in enumerate(tree):
        for grown in _grown(subtree):
            yield tuple(sorted((*tree[:i], grown, *tree[i + 1 :])))


def _size(tree):
    return 1 + sum(map(_size, tree))


def _density(tree):
    product = _size(tree)
    for subtree in tree:
        product *= _density(subtree)
    return product


def _stage_weights(tree, a):
    """Elementary weights of the stages, Φ_i(t) = Π over subtrees of Σ_j a_ij Φ_j."""
    weights = [F(1)] * len(a)
    for subtree in tree:
        inner = _stage_weights(subtree, a)
        sums = [sum((x * y for x, y in zip(row, inner, strict=False)), F(0)) for row in a]
        weights = [w * s for w, s in zip(weights, sums, strict=True)]
    return weights


def _defects(weights, a, order):
    for n in range(1, order + 1):
        for tree in _trees(n):
            stages = _stage_weights(tree, a)
            total = sum((x * y for x, y in zip(weights, stages, strict=True)), F(0))
            yield total - F(1, _density(tree))


def test_trees_are_counted_right():
    assert [len(_trees(n)) for n in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]


@pytest.mark.parametrize("name", TABLEAUX)
def test_runge_kutta_methods_have_their_order_and_no_more(name):
    tableau = TABLEAUX[name]
    assert all(sum(row, F(0)) == c for row, c in zip(tableau.a, tableau.c, strict=True))
    assert not any(_defects(tableau.b, tableau.a, tableau.order))
    assert any(_defects(tableau.b, tableau.a, tableau.order + 1))
    if tableau.embedded is not None:
        order = tableau.embedded_order
        assert order < tableau.order
        assert not any(_defects(tableau.embedded, tableau.a, order))
        assert any(_defects(tableau.embedded, tableau.a, order + 1))


# On a Lie group the terms of a Taylor series are ordered forests: sequences of ordered trees. An
# exponential of a combination of stages has the coefficient Π φ(tree) / m! of a forest of m trees,
# a product of exponentials the sum over all ways to cut the forest in two, and the velocity of a
# stage the coefficient of the forest below the root (Owren and Marthinsen 1999).


@cache
def _ordered_forests(order):
    if order == 0:
        return ((),)
    return tuple(
        (*forest, tree)
        for size in range(1, order + 1)
        for forest in _ordered_forests(order - size)
        for tree in _ordered_forests(size - 1)
    )


def _nodes(forest):
    return sum(1 + _nodes(tree) for tree in forest)


def _exact(forest):
    """Coefficient of the exact flow: g' = g F(g), by the last tree of the forest."""
    if not forest:
        return F(1)
    return _exact(forest[:-1]) * _exact(forest[-1]) / _nodes(forest)


def _moved(product, stages, forest):
    """Coefficient of a forest in the configuration that a product leads to."""

    def after(rows, forest):
        if not rows:
            return stages(product.start, forest) if product.start else F(int(not forest))
        total = F(0)
        for cut in range(len(forest) + 1):
            factor = F(1)
            for m, tree in enumerate(forest[cut:], start=1):
                factor *= sum((w * stages(j, tree) for j, w in enumerate(rows[-1]) if w), F(0)) / m
            total += after(rows[:-1], forest[:cut]) * factor
        return total

    return after(product.exponents, forest)


@pytest.mark.parametrize(
    ("family", "order"),
    [(f, n) for f in ("Crouch-Grossman", "commutator-free") for n in (2, 3, 4)],
)
def test_compositions_have_their_order_on_every_lie_group(family, order):
    method = {"Crouch-Grossman": CROUCH_GROSSMAN, "commutator-free": COMMUTATOR_FREE}[family][order]

    @cache
    def stage(i, forest):
        return _moved(method.stages[i], stage, forest)

    def defects(n):
        return [
            _moved(method.end, stage, forest) - _exact(forest) for forest in _ordered_forests(n)
        ]

    assert [len(_ordered_forests(n)) for n in range(1, 5)] == [1, 2, 5, 14]
    tolerance = REFINED if method is CROUCH_GROSSMAN[4] else 0
    for n in range(1, order + 1):
        assert max(map(abs, defects(n))) <= tolerance, n
    assert max(map(abs, defects(order + 1))) > F(1, 1000)


def test_summed_rows_of_the_commutator_free_methods_are_runge_kutta_methods():
    for order, name in ((3, "rk3"), (4, "rk4")):
        method, tableau = COMMUTATOR_FREE[order], TABLEAUX[name]
        assert method.b == tableau.b
        for summed, row in zip(method.a, tableau.a, strict=True):
            assert [x for x in summed if x] == [x for x in row if x]
