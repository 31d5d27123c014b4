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

# Processes that tests start and that call `configure` keep their programs here, too.
_CACHE = Path(__file__).parent.parent / ".jax_cache"
os.environ["XDG_CACHE_HOME"] = str(_CACHE)

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
# With what was traced for them they fill the memory, too: two processes of full tests that forgot
# nothing took 18 GiB after an hour, and machines with less swap until they stand still.
_MOST_PAGES = 4 * 2**30 // os.sysconf("SC_PAGE_SIZE")
_PAGES = Path("/proc/self/statm")


def pytest_runtest_teardown(item) -> None:
    """Forget compiled programs before there are too many; the quick tests have few."""
    if "full" not in item.keywords or not _MAPPINGS.exists():
        return
    mappings, pages = len(_MAPPINGS.read_bytes().splitlines()), int(_PAGES.read_text().split()[1])
    if mappings > _MOST_MAPPINGS or pages > _MOST_PAGES:
        jax.clear_caches()
        gc.collect()


def pytest_sessionstart(session) -> None:
    """Switch the cache on, when types of `lie_jax` are being checked already."""
    # A process whose workers run the tests has no use for it.
    if session.config.getoption("numprocesses"):
        return
    from lie_jax import config

    config.keep_programs(_CACHE)
    # Without a bound, which costs a look at all programs for each new one, and in a folder of their
    # own: programs kept so have no time of their last use, which a bound needs.
    jax.config.update("jax_compilation_cache_dir", str(_CACHE / "tests"))
    jax.config.update("jax_compilation_cache_max_size", -1)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
