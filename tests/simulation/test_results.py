"""Results of batches: counts by name, and a text as short for a thousand runs as for one."""

import inspect
import re

import jax
import jax.numpy as jnp
import jaxtyping
import pytest

import lie_jax
from lie_jax import Result
from lie_jax.simulation.trajectory import items_by_name
from tests.messages import check_message


@pytest.fixture(scope="module")
def batch():
    """512 results (2, 256), of which two are unstable."""
    number = jnp.arange(512).reshape(2, 256)
    unstable = (number == 7) | (number == 400)
    either = jax.vmap(jax.vmap(lambda x: Result.where(x, Result.unstable, Result.successful)))
    return either(unstable)


@pytest.mark.full
def test_a_batch_is_counted(batch):
    assert lie_jax.count_results(batch) == {"successful": 510, "unstable": 2}
    assert Result[batch] == "510 successful, 2 unstable"
    assert repr(batch).endswith("Result<510 successful, 2 unstable>")
    assert [tuple(place) for place in jnp.argwhere(batch == Result.unstable)] == [(0, 7), (1, 144)]


def test_other_values_are_not_counted(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=r"count_results\(result=\) .* int; .* pass run.result"):
        lie_jax.count_results(3)


def test_one_result_is_its_sentence(batch):
    one = jax.tree.map(lambda x: x[0, 7], batch)
    assert Result[one] == Result[Result.unstable] != Result[Result.successful]
    assert lie_jax.count_results(one) == {"unstable": 1}


def test_members_of_a_batch_are_taken_by_an_index(batch):
    assert Result[batch[0, 7]] == Result[batch[1][144]] == Result[Result.unstable]
    assert lie_jax.count_results(batch[0]) == {"successful": 255, "unstable": 1}
    assert lie_jax.count_results(batch[batch == Result.unstable]) == {"unstable": 2}
    assert len(batch) == 2 and [lie_jax.count_results(row)["unstable"] for row in batch] == [1, 1]
    with pytest.raises(IndexError):
        batch[2]
    inside = jax.jit(lambda result, k: Result.where(k > 0, result[0, k], Result.departed))
    assert bool(inside(batch, 7) == Result.unstable) and bool(inside(batch, 0) == Result.departed)
    check_message(lambda: Result.successful[0], "one run", "[0]", "the result itself")


def test_results_have_no_truth_value_and_no_other_names(batch):
    for result in (Result.unstable, batch):
        check_message(lambda r=result: bool(r), "compared", "run.result == lie_jax.Result.succ")
    with pytest.raises(AttributeError, match=r"Result has no 'succesful'; it has successful, "):
        _ = Result.succesful


def test_a_traced_result_says_so(batch):
    texts = []
    jax.jit(lambda result: texts.append(Result[result]))(batch)
    assert texts == ["traced"]


def test_the_documentation_lists_every_result():
    listed = re.findall(r"^- `(\w+)`:", inspect.getdoc(Result) or "", re.MULTILINE)
    assert listed == list(items_by_name(Result))
