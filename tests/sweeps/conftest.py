"""Count of what batches take apart."""

import pytest

from lie_jax.sweeps.batching import kernels


@pytest.fixture
def kernel_count(monkeypatch):
    """Numbers that were computed by kernels of their own since the test began."""
    counted = []
    original = kernels.Evaluation._kernel

    def kernel(self, root, *rest):
        counted.append(root)
        return original(self, root, *rest)

    monkeypatch.setattr(kernels.Evaluation, "_kernel", kernel)
    return counted
