"""CUDA C++ compiled to PTX by NVRTC, NVIDIA's compiler at run time, which JAX's packages bring."""

import ctypes
import functools
import importlib.util
import pathlib
from typing import Any

import jax


def is_found() -> bool:
    """Whether NVRTC can be loaded."""
    return _library() is not None


def architecture() -> str:
    """The architecture of JAX's GPUs, as NVRTC calls it: compute_90."""
    major, _, minor = str(jax.devices("gpu")[0].compute_capability).partition(".")
    return f"compute_{major}{minor}"


# Sources and PTX have some megabytes each.
@functools.lru_cache(maxsize=8)
def ptx(source: str, architecture: str) -> str:
    """PTX of CUDA C++. Raises `RuntimeError` with the compiler's messages."""
    library, program = _library(), ctypes.c_void_p()
    if library is None:
        raise RuntimeError("NVRTC, NVIDIA's compiler, is missing; pip install nvidia-cuda-nvrtc.")
    place = ctypes.byref(program)
    _check(library.nvrtcCreateProgram(place, source.encode(), b"loop.cu", 0, None, None))
    try:
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
        if library.nvrtcCompileProgram(program, 1, options):
            raise RuntimeError(f"NVRTC: {_text(library, program, 'ProgramLog')}")
        return _text(library, program, "PTX")
    finally:
        library.nvrtcDestroyProgram(place)


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"NVRTC ended with status {status}.")


def _text(library: Any, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.value.decode()


@functools.cache
def _library() -> Any:
    """The library from JAX's packages or, without them, from the system."""
    found = importlib.util.find_spec("nvidia")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    paths = [x for folder in folders for x in sorted(pathlib.Path(folder).rglob("libnvrtc.so.*"))]
    for name in (*map(str, paths), "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
