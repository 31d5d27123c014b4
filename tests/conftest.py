"""Settings of every test process: double precision, strict promotion, a cache of compilations."""

import gc
import os
from pathlib import Path

import jax

# Compilation is most of the time, and what is compiled right does not depend on how well it is
# done. Without LLVM's optimisations, with XLA's former emitters and one module in place of many,
# it takes half of it. `XLA_FLAGS= make test` compiles as users' programs do; `make test-all` does
# both. A version that does not know a flag ends the process: the flags are for those that do.
if jax.__version__.startswith("0.10."):
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 "
        "--xla_backend_optimization_level=0",
    )

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Tracing makes millions of small objects that live on; looking for garbage among them at every
# 700th, Python's default, costs a quarter of its time.
gc.set_threshold(50_000, 20, 100)

# Each compiled program holds several mappings of memory, of which Linux gives a process 65 530: a
# process that compiles beyond them ends.
_MOST_MAPPINGS = 30_000
_MAPPINGS = Path("/proc/self/maps")


def pytest_runtest_teardown(item) -> None:
    """Forget compiled programs before there are too many; the quick tests have few."""
    counts = "full" in item.keywords and _MAPPINGS.exists()
    if counts and len(_MAPPINGS.read_bytes().splitlines()) > _MOST_MAPPINGS:
        jax.clear_caches()


def pytest_sessionstart(session) -> None:
    """Switch the cache on, when types of `lie_jax` are being checked already."""
    # A process whose workers run the tests has no use for it.
    if session.config.getoption("numprocesses"):
        return
    import lie_jax

    lie_jax.cache_compilations(Path(__file__).parent.parent / ".jax_cache")
