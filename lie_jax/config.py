"""Settings of the process: precision, compilation for the CPU, cache of programs, lines."""

import hashlib
import os
import platform
import tempfile
from pathlib import Path

import jax
import platformdirs
import threadpoolctl

from lie_jax import checks
from lie_jax.numerics import jax_internals, programs, waits
from lie_jax.user_functions import libraries

_warned = False


def configure(
    *,
    x64: bool = True,
    fast_loops: bool = True,
    cache: bool | str | os.PathLike = True,
    quiet: bool = False,
) -> None:
    """Set up the process: call it once, right after the imports, before arrays are made.

    **Arguments:**

    - `x64`: double precision, or with False single, without a warning of it.
    - `fast_loops`: XLA compiles a loop that touches less than 1 MB in each pass (1 kB without) into
      one function on the CPU: with JAX 0.10 runs of small systems are two to seven times as fast.
      Large programs compile faster, batches use vectors of 512 bits, sums of many numbers call no
      library, where the release of JAX allows. Flags already set in `XLA_FLAGS` stay. Linear
      algebra runs on one thread: threads that wait for each other cost up to seventy times the
      step.
    - `cache`: whether compiled programs are kept for later processes: True keeps them in the user's
      own folder for caches (on Linux `~/.cache/lie_jax`), with a warning where that cannot be
      written, a path in that folder, False nowhere. It holds at most 1 GiB, a folder for each kind
      of processor, serves several processes at once, and may be deleted at any time. JAX 0.10 does
      not keep programs with callbacks, such as `simulate` inside `jax.jit` without `throw=False`.
      XLA's lines on the terminal, harmless ones about the processor, are switched off.
    - `quiet`: leave out the lines on stderr about programs that take long to compile.

    Raises `ValueError` for other values and for a folder that cannot be written, `RuntimeError` if
    JAX has computed something already.
    """
    global _warned
    checks.one_of("configure(x64=)", x64, (True, False))
    checks.one_of("configure(fast_loops=)", fast_loops, (True, False))
    checks.one_of("configure(quiet=)", quiet, (True, False))
    if not isinstance(cache, bool | str | os.PathLike):
        raise ValueError(
            f"configure(cache=) is {cache!r}; it must be True, False or the path of a folder: give "
            "False to keep no programs."
        )
    waits.quiet = quiet
    if fast_loops:
        _set_cpu_flags()
        # JAX calls the library of SciPy, which is visible once SciPy has loaded it.
        import scipy.linalg  # noqa: F401

        for library in threadpoolctl.ThreadpoolController().lib_controllers:
            if library.user_api == "blas" and "scipy" in str(library.filepath).split(os.sep)[-2]:
                library.set_num_threads(1)
    jax.config.update("jax_enable_x64", x64)
    _warned = _warned or not x64
    if cache is True:
        _cache_by_default()
    elif cache is not False:
        keep_programs(cache)


def _cache_by_default() -> None:
    if getattr(jax.config, "jax_compilation_cache_dir", None):
        # The user has chosen a folder already.
        return
    try:
        keep_programs(platformdirs.user_cache_path("lie_jax", appauthor=False))
    except ValueError as error:
        libraries.warn(
            f"{error} Until then, or with configure(cache=False), each process compiles."
        )


# A version of XLA that does not know a flag ends the process, as LLVM does: these versions know the
# emitters, and these the width of vectors and LLVM's option.
_KNOW_EMITTERS = "0.10."
_KNOW_WIDTH_AND_OPTION = ("0.10.", "0.12.")


def cpu_flags() -> list[str]:
    """Words that `configure` adds to `XLA_FLAGS`, the option for loops first."""
    option = "xla_cpu_small_while_loop_byte_threshold=1000000"
    known = jax.__version__.startswith(_KNOW_WIDTH_AND_OPTION)
    if known:
        # After LLVM unrolls a loop, it walks along all loops of the function to forget what it
        # knows of them: time squared in their number, a fifth of all compilation. With this option
        # it forgets everything at once.
        option += ",-forget-scev-loop-unroll="
    words = [f"--xla_backend_extra_options={option}"]
    if jax.__version__.startswith(_KNOW_EMITTERS):
        # The newer emitters compile longer, and programs with small arrays run no faster.
        words.append("--xla_cpu_use_fusion_emitters=false")
    if known:
        # Batches of small systems run a third faster where the processor has such vectors; single
        # runs and other processors do not notice.
        words.append("--xla_cpu_prefer_vector_width=512")
    if jax.__version__.startswith(programs.CALL_FOR_SUMS):
        # Without such calls chains of 256 links and batches of robots on their feet take half of
        # the time, plane loops of seven bodies three quarters; batches of robots in the air take a
        # fifth more. Runs outside of JAX transformations have none, with or without the flag.
        words.append("--xla_cpu_experimental_ynn_fusion_type=-LIBRARY_FUSION_TYPE_REDUCE")
    return words


def _set_cpu_flags() -> None:
    flags = os.environ.get("XLA_FLAGS", "").split()
    names = {flag.split("=")[0] for flag in flags}
    loop, *others = cpu_flags()
    missing = [loop] if loop not in flags else []
    missing += [flag for flag in others if flag.split("=")[0] not in names]
    if not missing:
        return
    wanted = " ".join([*flags, *missing])
    if jax_internals.has_computed():
        raise RuntimeError(
            "lie_jax.configure was called after JAX had computed something, when XLA no longer "
            "reads its flags: call it right after the imports, before arrays are made, give "
            f'fast_loops=False, or start the process with XLA_FLAGS="{wanted}".'
        )
    os.environ["XLA_FLAGS"] = wanted


# The least recently used programs make room for others: some thousand fit in.
_MOST_BYTES = 2**30
# Seconds. Programs that compile faster are compiled anew: to keep one takes JAX up to that time, as
# it looks at all the others.
_SHORTEST = 0.05


def keep_programs(folder: str | os.PathLike) -> None:
    """Keep compiled programs in a folder, which is made if it is missing."""
    checks.path("configure(cache=)", folder)
    if not os.fspath(folder):
        raise ValueError("configure(cache=) is ''; it must be a folder: give its path.")
    path = Path(folder).expanduser() / _processor()
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise ValueError(
            f"configure(cache=) is {str(folder)!r}, which cannot be created or written "
            f"({error.strerror}); it must be a folder that you may write to: take another."
        ) from error
    # A process that ends while it keeps a program leaves it without the time of its last use;
    # JAX 0.10 then keeps no others.
    for program in path.glob("*-cache"):
        if not program.with_name(program.name.removesuffix("cache") + "atime").exists():
            program.unlink(missing_ok=True)
    jax_internals.silence_xla()
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_compilation_cache_max_size", _MOST_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _SHORTEST)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _processor() -> str:
    """Name of a folder for programs that run on this kind of processor alone."""
    words = [platform.machine(), platform.processor()]
    described = Path("/proc/cpuinfo")
    if described.exists():
        kinds = ("flags", "Features", "model name")
        lines = described.read_text().splitlines()
        words += sorted({line for line in lines if line.startswith(kinds)})
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]


def warn_of_single_precision() -> None:
    """Warn once in a process of a simulation in float32, JAX's default."""
    global _warned
    if _warned or jax.config.read("jax_enable_x64"):
        return
    _warned = True
    libraries.warn(
        "This simulation runs in float32, JAX's default: expect errors of 1e-4 to 1e-6. Call "
        "lie_jax.configure() before making arrays, or set JAX_ENABLE_X64=1, for float64; "
        "configure(x64=False) keeps float32 without this warning.",
    )
