"""Loops as a GPU's threads compute them: their lines of C, compiled for this machine."""

import shutil

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from lie_jax.numerics import jax_internals, nvrtc
from lie_jax.sweeps import batched as batched_module
from lie_jax.sweeps.batching import threads
from lie_jax.sweeps.batching.batch_last import Value
from models import heavy_top
from tests.sweeps import c_loops, random_programs
from tests.sweeps.random_programs import Form

pytestmark = pytest.mark.skipif(
    shutil.which(c_loops.COMPILER) is None, reason=f"{c_loops.COMPILER} is missing"
)
MEMBERS = 9
# Of a trajectory of 20 steps: rounding.
ROUNDING = 1e-13


@pytest.fixture
def loop_count(monkeypatch):
    """Loops of batches are computed by C; the list holds their scalars."""
    found = []

    def start(written, arrays, shapes, size):
        found.append(len(written.loop.graph.nodes))
        return c_loops.start(written, arrays, shapes, size)

    monkeypatch.setattr(batched_module.threads, "_start", start)
    monkeypatch.setattr(batched_module, "_of_all", batched_module._in_kernels)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    batched_module._form.cache_clear()
    yield found
    batched_module._form.cache_clear()


def _fits(seed):
    """Whether all of a program's loop is written in C."""
    program = jax.make_jaxpr(random_programs.programs([seed], Form.NUMBERS, False, 1, 2))(
        *(x[0] for x in random_programs.arguments(seed, MEMBERS))
    )
    _, constants = jax_internals.unpack(program)
    arguments = [x[0] for x in random_programs.arguments(seed, MEMBERS)]
    values = [*(Value(x, False) for x in constants), *(Value(x, True) for x in arguments)]
    return threads.Threads(program, values).count == 1


@pytest.mark.parametrize(
    ("first", "form"),
    [
        (0, Form.NUMBERS),
        *(pytest.param(i, Form.NUMBERS, marks=pytest.mark.full) for i in range(12, 600, 12)),
        *(pytest.param(i, Form.CALLS, marks=pytest.mark.full) for i in range(600, 660, 12)),
    ],
)
def test_random_programs(first, form, loop_count):
    # Operations without a counterpart in C are rare; their loops stay with XLA.
    seeds = [seed for seed in range(first, first + 12) if _fits(seed)]
    assert len(seeds) >= 6
    fn = random_programs.programs(seeds, form, False, 1, 2)
    members = random_programs.arguments(seeds[0], MEMBERS)
    got = jax.jit(lie_jax.batched(fn))(*members)
    expected = jax.jit(jax.vmap(fn))(*members)
    random_programs.check_alike(got, expected, form)
    assert loop_count


# Where C leaves an operation open or has another one.
EDGES = {
    "float64": [0.0, -0.0, 1.0, -1.5, 2.5, 1e-300, 1e300, np.inf, -np.inf, np.nan],
    "float32": [0.0, -0.0, 1.0, -1.5, 2.5, 1e-30, 1e30, np.inf, -np.inf, np.nan],
    "uint16": [0, 1, 7, 15, 16, 17, 255, 2**15, 2**16 - 2, 2**16 - 1],
    "int8": [0, 1, -1, 7, 8, 9, -13, 100, 127, -128],
    "int32": [0, 1, -1, 7, -13, 31, 32, 33, 2**31 - 1, -(2**31)],
    "uint32": [0, 1, 7, 13, 31, 32, 33, 2**31, 2**32 - 2, 2**32 - 1],
    "int64": [0, 1, -1, 7, -13, 63, 64, 65, 2**63 - 1, -(2**63)],
}
OF_REALS = {
    "div": jnp.divide,
    "rem": jax.lax.rem,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "sign": lambda x, _: jnp.sign(x),
    "abs": lambda x, _: jnp.abs(x),
    "round": lambda x, _: jnp.round(x),
    "away": lambda x, _: jax.lax.round(x),
    "finite": lambda x, _: jnp.isfinite(x),
    "clamp": lambda x, y: jax.lax.clamp(-jnp.abs(y), x, jnp.abs(y)),
    "clamp between others": lambda x, y: jax.lax.clamp(x, y, -x),
    "clamp the other way": lambda x, y: jax.lax.clamp(jnp.abs(y), x, -jnp.abs(y)),
    "one by max": lambda x, y: 1.0 / jnp.maximum(x, y),
    "one by min": lambda x, y: 1.0 / jnp.minimum(x, y),
    **{
        kind: lambda x, _, kind=kind: (x * 100.0).astype(kind)
        for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    },
    "cube": lambda x, _: jax.lax.integer_pow(x, 3),
    "inverse": lambda x, _: jax.lax.integer_pow(x, -2),
    "floor": lambda x, _: jnp.floor(x),
    "equal": jnp.equal,
    "less": jnp.less,
    "select": lambda x, y: jnp.where(x < y, x, -y),
}
OF_INTEGERS = {
    "add": jax.lax.add,
    "sub": jax.lax.sub,
    "mul": jax.lax.mul,
    "div": jax.lax.div,
    "rem": jax.lax.rem,
    "max": jax.lax.max,
    "sign": lambda x, _: jax.lax.sign(x),
    "neg": lambda x, _: jax.lax.neg(x),
    "not": lambda x, _: jax.lax.bitwise_not(x),
    "and": jax.lax.bitwise_and,
    "xor": jax.lax.bitwise_xor,
    "left": jax.lax.shift_left,
    "right": jax.lax.shift_right_logical,
    "signed right": jax.lax.shift_right_arithmetic,
    "real": lambda x, _: x.astype(jnp.float64),
    "flag": lambda x, _: x.astype(bool),
}


@pytest.mark.parametrize("dtype", list(EDGES))
def test_operations_where_c_differs(dtype, loop_count):
    operations = OF_REALS if dtype.startswith("float") else OF_INTEGERS

    def fn(x, y):
        def step(carry, _):
            x, y = carry
            return (x, y), {name: op(x, y) for name, op in operations.items()}

        return jax.lax.scan(step, (x, y), None, length=2)[1]

    pairs = np.array([(x, y) for x in EDGES[dtype] for y in EDGES[dtype]], dtype)
    got = lie_jax.batched(fn)(*pairs.T)
    expected = jax.jit(jax.vmap(fn))(*pairs.T)
    assert len(loop_count) == 1
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values, err_msg=name)


PLACES = np.array([2, -1, 0, 7])


def test_places_that_the_state_chooses(loop_count):
    table = jnp.arange(12.0).reshape(4, 3)

    def fn(x, own):
        def step(carry, k):
            where = jnp.asarray(PLACES) + (carry > 1.0).astype(int)
            rows = {mode: table.at[where].get(mode=mode) for mode in ("fill", "clip")}
            columns = table.at[:, where].get(mode="fill", fill_value=-1.0)
            return carry + 0.3 * own[k], (rows, columns, own[k])

        return jax.lax.scan(step, x, jnp.arange(5))[1]

    x = jnp.linspace(0.0, 2.0, MEMBERS)
    own = jnp.arange(5.0 * MEMBERS).reshape(MEMBERS, 5)
    got, expected = lie_jax.batched(fn)(x, own), jax.jit(jax.vmap(fn))(x, own)
    for y, z in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(y, z)
    assert len(loop_count) == 1


def _end(save, **options):
    def end(mass):
        system, state = heavy_top.build(mass=mass, **options)
        integrator = lie_jax.GeneralizedAlpha(0.9) if options else lie_jax.RKMK("rk4")
        run = lie_jax.simulate(system, integrator, state, dt=1e-4, steps=20, save=save, throw=False)
        return run.q, run.result

    return end


@pytest.mark.parametrize(
    ("save", "options"),
    [(5, {}), pytest.param(20, {"constrained": True}, marks=pytest.mark.full)],
)
def test_runs(save, options, loop_count):
    masses = jnp.linspace(15.0, 16.0, MEMBERS)
    got = lie_jax.batched(_end(save, **options))(masses)
    expected = jax.jit(jax.vmap(_end(save, **options)))(masses)
    np.testing.assert_allclose(got[0], expected[0], rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(got[1], expected[1])
    assert loop_count


@pytest.mark.full
@pytest.mark.parametrize("options", [{}, {"constrained": True}])
def test_gradients_of_runs(options, loop_count):
    def gradient(mass):
        return jax.grad(lambda mass: jnp.sum(_end(20, **options)(mass)[0][-1]))(mass)

    masses = jnp.linspace(15.0, 16.0, MEMBERS)
    got = lie_jax.batched(gradient)(masses)
    expected = jax.jit(jax.vmap(gradient))(masses)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=0)
    # Forwards and backwards.
    assert len(loop_count) >= 2


def test_a_run_on_a_gpu_is_one_kernel(monkeypatch):
    sources = []

    def ptx(source, _):
        sources.append(source)
        return ".version 8.0"

    monkeypatch.setattr(nvrtc, "is_found", lambda: True)
    monkeypatch.setattr(nvrtc, "architecture", lambda: "compute_90")
    monkeypatch.setattr(nvrtc, "ptx", ptx)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    masses = jnp.linspace(15.0, 16.0, 1000)
    fn = jax.jit(lie_jax.batched(lambda mass: _end(20)(mass)[0][-1]))
    text = fn.trace(masses).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("gpu.ptx") == 1
    assert "stablehlo.while" not in text
    assert "grid_x = 8" in text and "#define SIZE 1000ull" in sources[0]
    # The same function where the arrays are not on the GPU.
    text = fn.trace(masses).lower(lowering_platforms=("cpu",)).as_text()
    assert "gpu.ptx" not in text and "stablehlo.while" in text


def test_a_gpu_without_its_compiler_is_told(monkeypatch):
    monkeypatch.setattr(nvrtc, "is_found", lambda: False)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.warns(UserWarning, match="nvidia-cuda-nvrtc"):
        got = jax.jit(lie_jax.batched(lambda x: jnp.sin(x) * 2.0))(jnp.arange(9.0))
    np.testing.assert_allclose(got, 2.0 * np.sin(np.arange(9.0)), rtol=1e-15)
