"""Choice of the suite in which a case runs."""

import pytest


def cases(names, quick):
    """Parameters: quick cases run in both suites, the others in `make test-all` alone."""
    assert set(quick) <= set(names)
    return [name if name in quick else _full(name) for name in names]


def _full(name):
    values = name if isinstance(name, tuple) else (name,)
    return pytest.param(*values, marks=pytest.mark.full)
