"""Every message names the value, the rule and the fix."""

import functools

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import lie_jax
from lie_jax.estimation import identify, monte_carlo, rows_at, transforms
from lie_jax.groups import product, quaternion, rn, se3, so3, tait_bryan, unified_velocity
from lie_jax.io import conversions
from lie_jax.numerics import memory
from lie_jax.spaces.products import Power
from models import heavy_top, pinned_body
from tests.messages import EYE, body, check_message, simulate
from tests.suites import cases

_PRODUCT = product.direct_product((so3, 3), (rn, 3))


def _top(constrained=True, **others):
    return heavy_top.build(constrained=constrained, **others)


def _adaptive(**options):
    adaptive = {"adaptive": lie_jax.Adaptive(), "t_end": 1.0} | options
    return simulate(*_top(False), lie_jax.RKMK("dopri5"), **adaptive)


def _off(field, change, constrained=True):
    system, state = heavy_top.build(constrained=constrained)
    changed = {"q": state.q, "v": state.v} | {field: getattr(state, field) + jnp.asarray(change)}
    return simulate(system, lie_jax.State(**changed))


def _unreachable():
    """Two joints whose points are a metre apart on the body and two on the ground."""
    joints = [
        lie_jax.SphericalJoint("ground", "b"),
        lie_jax.SphericalJoint("ground", "b", (2.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
    ]
    return lie_jax.assemble(lie_jax.Mechanism([body()], joints), lie_jax.R3SO3())


def _pendulum():
    joints = [lie_jax.RevoluteJoint("ground", "b", (0.0, 1.0, 0.0))]
    return lie_jax.assemble(lie_jax.Mechanism([body()], joints), lie_jax.Minimal())[0]


TEN = jnp.ones(10)


def _fit(observed=None, predict=None, start=1.0, **others):
    observed = np.linspace(0.0, 1.0, 10) if observed is None else observed
    predict = predict or (lambda p: p * jnp.linspace(0.0, 1.0, 10))
    return identify(predict, start, observed, progress=False, **others)


CASES = {
    "coordinates": (
        lambda: lie_jax.R3SO3(coordinates="euler"), "'euler'", "'quaternion'", "'rotation_vector'"),
    "chart": (lambda: lie_jax.SE3(chart="log"), "SE3(chart=)", "'log'", "'exp'"),
    "chart of a group": (
        lambda: lie_jax.SE3(chart="cayley2"), "SE3(chart=)", "'cayley2'", "'exp', 'cayley'"),
    "no rotation": (
        lambda: quaternion.from_matrix(jnp.eye(3).at[0, 1].set(0.1)), "from_matrix",
        "by 0.1", "determinant is 1", "orthonormalise"),
    "a reflection": (
        lambda: tait_bryan.from_matrix(-jnp.eye(3)), "determinant is -1", "rows against"),
    "inadmissible projection": (
        lambda: unified_velocity.projection(jnp.zeros((6, 3)), jnp.ones((6, 3))),
        "determinant 0", "zero up to rounding", "tetrahedron"),
    "tableau": (lambda: lie_jax.RKMK("rk5"), "'rk5'", "'rk4'"),
    "weights": (
        lambda: lie_jax.RKMK(lie_jax.Tableau(((), (1.0,)), (0.5, 0.4), (0.0, 1.0), 2)),
        "RKMK(tableau=)", "0.9", "sum to 1"),
    "row sums": (
        lambda: lie_jax.RungeKutta(lie_jax.Tableau(((), (0.9,)), (0.5, 0.5), (0.0, 1.0), 2)),
        "row 1 sums to 0.9", "node is 1.0", "equal"),
    "implicit tableau": (
        lambda: lie_jax.RKMK(lie_jax.Tableau(((0.5,),), (1.0,), (0.5,), 2)), "rows of [1]",
        "leave the diagonal"),
    "a tableau's NaN": (
        lambda: lie_jax.RKMK(lie_jax.Tableau(((),), (np.nan,), (0.0,), 1)), "RKMK(tableau=)",
        "coefficient nan", "finite"),
    "a tableau's order": (
        lambda: lie_jax.RKMK(lie_jax.Tableau(((),), (1.0,), (0.0,), 0)), "the order is 0",
        "at least 1"),
    "order": (lambda: lie_jax.CrouchGrossman(5), "CrouchGrossman(order=) is 5", "2, 3, 4"),
    "implicit method and constraints": (
        lambda: simulate(*_top(), integrator=lie_jax.ImplicitRKMK()), "ImplicitRKMK",
        "3 constraints", "GeneralizedAlpha"),
    "implicit method": (lambda: lie_jax.ImplicitRKMK("rk4"), "'rk4'", "'gauss4'"),
    "kind of Jacobian": (
        lambda: lie_jax.ImplicitRKMK(jacobian="exact"), "'exact'", "'autodiff', 'analytic'"),
    "composition with a Cayley chart": (
        lambda: simulate(
            *_top(formulation=lie_jax.SE3(chart="cayley"), constrained=False),
            integrator=lie_jax.CommutatorFree(3)),
        "CommutatorFree(3)", "'exp'", "lie_jax.RKMK"),
    "rho_inf": (lambda: lie_jax.GeneralizedAlpha(1.5), "1.5", "between 0", "and 1"),
    "dt": (lambda: simulate(*_top(), dt=-0.1), "dt", "-0.1", "positive", "(s)"),
    "steps": (lambda: simulate(*_top(), steps=0), "steps", "0", "at least 1"),
    "save": (lambda: simulate(*_top(), save=11), "11", "steps=10", "at most"),
    "checkpoint": (lambda: simulate(*_top(), checkpoint=-1), "checkpoint", "-1"),
    "inputs": (lambda: simulate(*_top(), inputs=jnp.ones((9, 1))), "(9, 1)", "(10, nu)"),
    "state shape": (
        lambda: simulate(_top()[0], lie_jax.State(jnp.zeros(6), jnp.zeros(6))), "q has shape (6,)",
        "(7,)"),
    "state not finite": (lambda: _off("v", [np.nan, 0, 0, 0, 0, 0]), "v is", "finite"),
    "state's quaternion": (
        lambda: _off("q", [0, 0, 0, 0.5, 0, 0, 0]), "body 0", "norm 1.5", "divide it"),
    "rotation vector too long": (
        lambda: simulate(
            *[f(_top(formulation=lie_jax.R3SO3(coordinates="rotation_vector"))) for f in (
                lambda pair: pair[0],
                lambda pair: lie_jax.State(pair[1].q.at[3].set(4.0), pair[1].v))]),
        "norm 4 > π", "principal"),
    "position constraint": (
        lambda: _off("q", [0.01, 0, 0, 0, 0, 0, 0]), "position constraints by 0.01",
        "lie_jax.project"),
    "velocity constraint": (
        lambda: _off("v", [0, 0.02, 0, 0, 0, 0]), "velocity constraints by 0.02",
        "lie_jax.project"),
    "observations not finite": (
        lambda: _fit(np.asarray([0.0, np.nan, 1.0])), "index (1,)", "repair that",
        "infinite noise"),
    "observations without time": (lambda: _fit(np.asarray(1.0)), "leading axis"),
    "prediction shape": (lambda: _fit(np.zeros(9)), "(10,)", "(9,)", "must match"),
    "prediction not finite": (
        lambda: _fit(predict=lambda p: jnp.full(10, jnp.nan) * p), "start values", "smaller dt"),
    "noise": (lambda: _fit(noise=0.0), "noise", "0.0", "positive"),
    "horizons": (lambda: _fit(horizons=(5, 3, 10)), "(5, 3, 10)", "increasing", "all 10"),
    "comparison": (lambda: _fit(compare="angle"), "'angle'", "'rotation'"),
    "observed rotations": (
        lambda: _fit(np.ones((10, 3, 3)), compare="rotation"), "rotation matrix", "orthonormalise"),
    "observed poses": (
        lambda: _fit(np.zeros((10, 4, 4)) + np.diag([1.0, 1.0, 1.0, 2.0]), compare="pose"),
        "last row", "homogeneous"),
    "prior of nothing": (
        lambda: _fit(predict=lambda p: p["a"] * TEN, start={"a": 1.0}, prior={"b": (1, 2)}),
        "'b'", "'a'"),
    "prior without noise": (
        lambda: _fit(prior=(1.0, 1.0), noise=None), "prior", "without noise=", "give noise="),
    "prior without deviation": (lambda: _fit(prior=2.0), "2.0", "(mean, standard deviation)"),
    "prior's mean": (lambda: _fit(prior=(np.ones(2), 1.0)), "the mean", "(2,)", "()"),
    "prior's deviation": (lambda: _fit(prior=(1.0, 0.0)), "0.0", "must be positive"),
    "prior outside": (
        lambda: _fit(prior=(-1.0, 1.0), transforms=transforms.positive), "the mean", "-1.0",
        "positive"),
    "start outside, by name": (
        lambda: _fit(start={"mass": -1.0}, transforms=transforms.positive), "'mass'", "-1.0"),
    "bounds": (lambda: transforms.interval(2.0, 1.0), "interval(2.0, 1.0)", "below"),
    "start out of bounds": (
        lambda: _fit(transforms=transforms.interval(2.0, 3.0)), "1.0", "between 2.0 and 3.0"),
    "horizons of several recordings": (
        lambda: identify(
            lambda p: [p * jnp.ones(10), p * jnp.ones(5)], 1.0, [np.ones(10), np.ones(5)],
            horizons=([5, 5], [10, 4])), "[10, 5]", "prefix"),
    "observations of another length": (
        lambda: _fit(np.ones(9), horizons=(5, 10)), "(10,)", "(9,)", "the same instants"),
    "runs": (
        lambda: monte_carlo(lambda p: p * jnp.ones(3), 1.0, noise=0.1, runs=0), "runs", "0",
        "at least 1"),
    "samples outside the run": (
        lambda: rows_at([0.0, 0.5, 1.25], dt=0.25, steps=4), "sample 2", "1.25", "1 s"),
    "samples between instants": (
        lambda: rows_at([0.0, 0.4], dt=0.25, steps=4), "sample 1", "0.25 s apart"),
    "max_iterations": (lambda: _fit(max_iterations=0), "max_iterations", "at least 1"),
    "start not positive": (
        lambda: transforms.positive(jnp.asarray([1.0, -3.0])), "-3.0", "positive"),
    "start inertia is flat": (
        lambda: transforms.inertia(jnp.diag(jnp.asarray([1.0, 1.0, 2.0]))), "flat", "strictly"),
    "start orientation": (
        lambda: transforms.orientation(jnp.ones(4)), "unit quaternion", "divide"),
    "force returns a tuple": (
        lambda: lie_jax.PointForce("b", lambda t: (0.0, 0.0, t)), "tuple", "(3,)", "jnp.stack"),
    "unreachable joints in project": (
        lambda: lie_jax.project(*_unreachable()), "violation", "within reach", "nearly fit"),
    "dtypes": (
        lambda: simulate(_top()[0], jax.tree.map(lambda x: x.astype(jnp.float32), _top()[1])),
        "float32", "float64", "astype"),
    "inputs not finite": (
        lambda: simulate(*_top(), inputs=jnp.full((10, 1), jnp.nan)), "nan at index (0, 0)",
        "finite"),
    "too few observations": (
        lambda: _fit(np.zeros(1), lambda p: p * jnp.ones(1)), "1 numbers", "1 unknowns", "more"),
    "noise shape": (lambda: _fit(noise=np.ones(3)), "(3,)", "(10,)", "broadcast"),
    "noise structure": (lambda: _fit(noise={"a": 1.0}), "'a'", "a prefix of", "one number"),
    "transforms structure": (
        lambda: _fit(transforms={"a": transforms.free}), "'a'", "a prefix of", "one transform"),
    "transform forgotten": (
        lambda: _fit(start={"a": 1.0, "b": 2.0}, transforms={"a": transforms.free}),
        "no entry for 'b'", "'a', 'b'"),
    "start of lower precision": (
        lambda: _fit(start=jnp.float32(1.0)), "identify(start=) is float32",
        "identify(observations=) is float64", "lie_jax.configure()"),
    "transform of nothing": (
        lambda: _fit(start={"a": 1.0}, transforms={"a": transforms.free, "b": transforms.free}),
        "an entry for 'b'", "parameters 'a'"),
}  # fmt: skip

# Values of a wrong type: in the tests the type checker would complain first, so that these run in
# an interpreter without it.
WRONG_TYPES = {
    "an array for a state": (
        lambda: simulate(_top()[0], _top()[1].q), "simulate(state=)", "State(q, v)", "assemble"),
    "one body instead of a list": (lambda: lie_jax.Mechanism(body()), "Body", "in a list"),
    "system and state in one": (
        lambda: simulate(_top(), _top()[1]), "tuple", "unpack"),
    "dt shape": (lambda: simulate(*_top(), dt=jnp.ones(2)), "dt", "one number"),
    "dt is None": (lambda: simulate(*_top(), dt=None), "simulate(dt=) is None", "one number (s)"),
    "dt is complex": (lambda: simulate(*_top(), dt=1j), "simulate(dt=) is 1j", "one number (s)"),
    "rho_inf is None": (lambda: lie_jax.GeneralizedAlpha(None), "is None", "one number"),
    "no mechanism": (
        lambda: lie_jax.assemble(None, lie_jax.R3SO3()), "assemble(mechanism=) is a NoneType",
        "lie_jax.Mechanism("),
    "inputs of another kind": (
        lambda: simulate(*_top(), inputs=np.ones((10, 1), bool)), "simulate(inputs=)", "bool",
        "real numbers"),
    "times without end": (
        lambda: _adaptive(save=[0.1, np.inf]), "[0.1, inf]", "must be finite"),
    "predict that is none": (lambda: _fit(predict=3), "identify(predict=) is 3", "a function"),
    "start that is text": (
        lambda: _fit(start={"a": "1"}), "identify(start=)['a'] is '1'", "real numbers"),
    "complex observations": (
        lambda: _fit(1j * np.ones(10)), "identify(observations=) has dtype complex128"),
    "noise that is text": (lambda: _fit(noise="0.1"), "identify(noise=) is '0.1'", "real numbers"),
    "transforms as text": (
        lambda: _fit(transforms="positive"), "the transform is 'positive'",
        "lie_jax.estimation.transforms.positive"),
    "horizons as a number": (lambda: _fit(horizons=5), "horizons=) is 5", "a list of increasing"),
    "prior that is text": (lambda: _fit(prior=("1", 1.0)), "the mean is '1'", "real numbers"),
    "bounds as text": (lambda: transforms.interval("0", 1.0), "interval(lower=)", "'0'"),
    "dt is text": (lambda: simulate(*_top(), dt="0.1"), "'0.1'", "one number"),
    "rho_inf is text": (lambda: lie_jax.GeneralizedAlpha("0.9"), "'0.9'", "one number"),
    "method": (lambda: _fit(method="lm"), "'lm'", "Optax", "optax.adam"),
    "a joint among the bodies": (
        lambda: lie_jax.Mechanism([lie_jax.SphericalJoint("a", "b")]), "bodies=", "joints="),
    "project of nothing": (lambda: lie_jax.project(_top()[0], None), "and NoneType", "assemble"),
    "times of samples as text": (
        lambda: rows_at("0.1", dt=0.1, steps=3), "rows_at(times=) is '0.1'"),
    "formulation": (
        lambda: lie_jax.assemble(lie_jax.Mechanism([body()]), "SE3"), "'SE3'", "lie_jax.R3SO3()"),
    "steps not integer": (lambda: simulate(*_top(), steps=1e3), "1000.0", "integer"),
    "no unit quaternion for SciPy": (
        lambda: conversions.to_scipy(jnp.ones((5, 4))), "to_scipy: q", "norm 2", "divide"),
    "no rotation for jaxlie": (
        lambda: conversions.pose_to_jaxlie(jnp.diag(jnp.asarray([1.0, 1.0, -1.0, 1.0]))),
        "pose_to_jaxlie", "determinant is -1"),
    "size of a product": (
        lambda: _PRODUCT.exp(jnp.zeros(7)), "exp of a product", "(7,)", "(6,)"),
    "elements of a product": (
        lambda: _PRODUCT.inverse((jnp.eye(3),)), "1 elements", "2 factors"),
    "elements of a power": (
        lambda: product.power(so3, 3, 2).inverse(jnp.zeros((5, 3, 3))), "(5, 3, 3)",
        "length 2"),
    "copies": (lambda: Power(lie_jax.SE3(), 0), "Power(n=)", "0", "at least 1"),
    "edges of a hexahedron": (
        lambda: unified_velocity.hexahedron((1.0, 1.0)), "half_lengths", "(2,)", "(3,)"),
    "orientation of a configuration": (
        lambda: lie_jax.SE3().configuration(jnp.zeros(3), jnp.ones(4)), "norm 2", "divide"),
    "complex numbers": (
        lambda: so3.exp(np.asarray([1j, 0, 0])), "complex128", "real numbers"),
    "half precision": (
        lambda: so3.exp(jnp.ones(3, jnp.float16)), "float16", "single or double"),
    "quaternions for SciPy": (
        lambda: conversions.to_scipy(jnp.ones((5, 3))), "(5, 3)", "(..., 4)", "scalar first"),
    "poses for jaxlie": (
        lambda: conversions.pose_to_jaxlie(jnp.ones((4, 3))), "(4, 3)", "(..., 4, 4)"),
    "a batch without vmap": (
        lambda: so3.exp(jnp.ones((10, 3))), "exp: x", "(10, 3)", "(3,)", "jax.vmap"),
    "a rotation for a pose": (lambda: se3.log(jnp.eye(3)), "log: c", "(3, 3)", "(4, 4)"),
    "a traced batch": (
        lambda: jax.jit(se3.dexp_inv)(jnp.ones((2, 6))), "dexp_inv", "(2, 6)", "(6,)"),
    "embedded weights": (
        lambda: lie_jax.RKMK(lie_jax.Tableau(((), (1,)), (0.5, 0.5), (0, 1), 2, (0.5, 0.5, 0), 1)),
        "3 embedded weights for 2 stages", "zeros"),
    "step bounds": (
        lambda: lie_jax.Adaptive(dt_min=1e-2, dt_max=1e-3), "0.01", "0.001", "exchange"),
    "stabilization": (
        lambda: lie_jax.RKMK(stabilization="projection"), "RKMK(stabilization=)", "'projection'",
        "lie_jax.Projection()"),
    "baumgarte": (lambda: lie_jax.Baumgarte(-1.0), "Baumgarte(rate=)", "-1.0", "sign"),
    "no end": (lambda: _adaptive(t_end=None), "neither is given", "t_end=", "save=times"),
    "times that fall": (lambda: simulate(*_top(), save=[0.2, 0.1]), "[0.2, 0.1]", "sort"),
    "times as a number": (lambda: simulate(*_top(), save=0.2), "save=) is 0.2", "[0.5, 1.0]"),
    "tolerance": (lambda: lie_jax.Adaptive(rtol=0.0), "rtol", "0.0", "positive"),
    "controller": (lambda: lie_jax.Adaptive(controller="pid"), "'pid'", "'integral'"),
    "safety": (lambda: lie_jax.Adaptive(safety=1.5), "safety", "1.5", "below 1"),
    "adaptive without estimate": (
        lambda: simulate(*_top(), lie_jax.RATTLie(), t_end=1.0, adaptive=lie_jax.Adaptive()),
        "RATTLie", "no estimate", "lie_jax.RKMK('dopri5')"),
    "adaptive of index 3": (
        lambda: simulate(*_top(), t_end=1.0, adaptive=lie_jax.Adaptive()), "GeneralizedAlpha",
        "one size", "GeneralizedAlpha(index=2)"),
    "adaptive that is none": (lambda: _adaptive(adaptive=1e-8), "1e-08", "lie_jax.Adaptive"),
    "adaptive inputs": (lambda: _adaptive(inputs=np.ones((10, 1))), "shape (10, 1)", "(1, nu)"),
    "integrator": (
        lambda: simulate(*_top(), integrator="rk4"), "'rk4'", "lie_jax.RKMK", "order"),
    "save without a path": (
        lambda: lie_jax.io.save(_top()[1], "top.nc"), "io.save(path=)", "type State", "order"),
    "load without a path": (lambda: lie_jax.io.load(None), "io.load(path=)", "type NoneType"),
    "body in the place of its name": (
        lambda: lie_jax.Mechanism([body()], [lie_jax.SphericalJoint("ground", None)]),
        "SphericalJoint('ground', None)", "name of a body", "in quotes"),
    "energies of a whole trajectory": (
        lambda: _pendulum().kinetic_energy(np.zeros((5, 1)), np.zeros((5, 1))),
        "q has shape (5, 1)", "(1,)", "one instant", "jax.vmap"),
    "velocities of another system": (
        lambda: _pendulum().momentum(np.zeros(1), np.zeros(3)), "v has shape (3,)", "(1,)"),
    "poses of a whole trajectory": (
        lambda: _top()[0].poses(np.zeros((5, 7))), "q has shape (5, 7)", "one instant"),
    "infinite armature": (
        lambda: lie_jax.RevoluteJoint("ground", "b", EYE[2], armature=np.inf), "armature is inf",
        "finite and not negative"),
    "traced steps": (
        lambda: jax.jit(lambda n: simulate(*_top(), steps=n).q)(3), "simulate(steps=) is traced",
        "static_argnames="),
}  # fmt: skip


@pytest.mark.parametrize("case", cases(CASES, CASES.keys() - {"position constraint"}))
def test_message(case):
    check_message(*CASES[case])


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_messages_for_wrong_types(case, monkeypatch):
    # Users' programs have no run-time checks of types, which would come first.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    check_message(*WRONG_TYPES[case])


def test_traced_values_pass_unchecked():
    assert jax.jit(lambda m: body(mass=m).mass)(-1.0) == -1.0


def test_trajectories_beyond_the_memory_are_refused_before_they_run(monkeypatch):
    system, state = heavy_top.build()
    monkeypatch.setattr(memory, "free_host_bytes", lambda: 1_000_000_000)
    run = functools.partial(lie_jax.simulate, system, lie_jax.RKMK("rk4"), state, dt=1e-4)
    with pytest.raises(ValueError, match="steps=") as error:
        run(steps=100_000_000)
    # 7 coordinates, 6 velocities and accelerations, in arrays with room for 6 2^24 instants and in
    # those cut from them, and iteration counts.
    for part in ("100000001 saved instants of 19 numbers", "31.3 GB", "1 GB", "save=100,"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("t", "parts"),
    [
        ([0.1, 0.2, 0.3], ("sample 0", "0.1", "start at 0", "shift")),
        ([0.0, 0.1, 0.2, 0.4, 0.5], ("line 5", "0.4", "equally spaced", "fill the gap")),
    ],
)
def test_uneven_clocks_are_refused(t, parts):
    with pytest.raises(ValueError) as error:
        pinned_body.sample_interval(np.asarray(t))
    for part in parts:
        assert part in str(error.value)


HEADER = ",".join(pinned_body.COLUMNS)
ROW = "0.1" + ",0.5" * 9


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (HEADER.replace(",wz", "") + "\n" + ROW, ("line 1", "'wz'", "missing")),
        ("", ("line 1", "'t'", "missing")),
        (HEADER, ("line 1", "no samples")),
        (f"{HEADER}\n{ROW}\n0.2,nan" + ",0.5" * 8, ("line 3", "'ax'", "'nan'", "finite")),
        (f"{HEADER}\n{ROW}\n0.2,0.5", ("line 3", "'ay'", "finite")),
        (f"{HEADER}\n{ROW}\n0.2,left" + ",0.5" * 8, ("line 3", "'left'", "repair")),
        (f"{HEADER}\n{ROW}\n0.05" + ",0.5" * 9, ("line 3", "0.05", "sort")),
        (f"{HEADER}\n{ROW}\n{ROW}", ("line 3", "increase")),
    ],
)
def test_recordings_are_refused_with_the_line(tmp_path, text, parts):
    path = tmp_path / "recording.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        pinned_body.read_recording(path)
    for part in (str(path), *parts):
        assert part in str(error.value)
