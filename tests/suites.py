"""Choice of the suite in which a case runs."""

import pytest


def cases(names, quick):
    """Parameters: quick cases run in both suites, the others in `make test-all` alone."""
    assert set(quick) <= set(names)
    return [name if name in quick else pytest.param(name, marks=pytest.mark.full) for name in names]
