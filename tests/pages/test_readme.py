"""The code in the README and the documentation runs as it is printed."""

import contextlib
import functools
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import lie_jax
from models import heavy_top

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _loops_as_they_are(monkeypatch):
    # The other tests have computed by now, after which loops are no longer set up.
    monkeypatch.setattr(
        lie_jax, "configure", functools.partial(lie_jax.configure, fast_loops=False)
    )


def _run(page: Path) -> dict:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    return names


def test_readme(capsys):
    names = _run(ROOT / "README.md")
    (printed,) = re.findall(r"print\(.*\)  # (.*)\n", (ROOT / "README.md").read_text())
    assert capsys.readouterr().out == printed + "\n"
    tip = jax.jit(names["tip"])
    difference = (tip(0.5 + 1e-5) - tip(0.5 - 1e-5)) / 2e-5
    np.testing.assert_allclose(names["slope"], difference, rtol=1e-7)
    # A rod on a ball joint, by SciPy: the direction d of its length turns with ω.
    turning = 1.0 * (0.01**2 / 4 + 0.5**2 / 12 + 0.25**2)
    spinning = 0.5 * 1.0 * 0.01**2

    def change(t, y):
        orientation, omega = Rotation.from_quat(y[:4], scalar_first=True), y[4:]
        weight = orientation.inv().apply([0.0, 0.0, -9.81])
        moment = np.asarray([turning, turning, spinning])
        torque = np.cross([0.0, 0.0, -0.25], weight) - np.cross(omega, moment * omega)
        w, x, y, z = y[:4]
        a, b, c = 0.5 * omega
        turned = [-x * a - y * b - z * c, w * a + y * c - z * b]
        turned += [w * b + z * a - x * c, w * c + x * b - y * a]
        return np.concatenate([turned, torque / moment])

    start = [1.0, 0.0, 0.0, 0.0, 5.0, 0.0, 9.0]
    end = solve_ivp(change, (0.0, 2.0), start, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    exact = Rotation.from_quat(end[:4], scalar_first=True).apply([0.0, 0.0, -0.5])[2]
    # The error of RK4.
    np.testing.assert_allclose(names["height"], exact, rtol=1e-8)


PAGES = (
    *(
        "index.md",
        "first_steps.md",
        "tutorial.md",
        "pictures.md",
        "identification.md",
        "state_estimation.md",
        "integrators.md",
    ),
    *(
        "sweeps.md",
        "optimal_control.md",
        "concepts.md",
        "import_models.md",
        "robots.md",
        "beams.md",
        "shells.md",
        "flexible.md",
        "contact.md",
        "events.md",
        "periodic.md",
        "extending.md",
        "gpu.md",
    ),
    *(f"theory/{path.name}" for path in sorted((ROOT / "docs" / "theory").glob("[!i]*.md"))),
)


@pytest.mark.parametrize("page", PAGES)
def test_documentation(page, tmp_path, monkeypatch, capsys):
    # Some pages write files.
    monkeypatch.chdir(tmp_path)
    # A fit does not determine all.
    warnings = {"identification.md": "only 2 of 3"}
    warned = pytest.warns(UserWarning, match=warnings.get(page))
    with warned if page in warnings else contextlib.nullcontext():
        names = _run(ROOT / "docs" / page)
    if page == "index.md":
        energy = np.asarray(names["kinetic"] + names["potential"])
        # Friction takes energy, and nothing else does.
        assert np.all(np.diff(energy) < 1e-6)
    elif page == "beams.md":
        # Of a straight strip at rest, Euler's and Bernoulli's frequencies with little shear.
        roots = np.asarray([1.87510406871196117, 4.69409113297417458])
        exact = roots**2 * np.sqrt(2.1e11 * 0.002**2 / 12.0 / 7850.0)
        np.testing.assert_allclose(names["bending"], exact, rtol=2e-3)
        # A small force lifts the tip by F L³/(3 EI).
        lifted = names["height"](1e-3)
        np.testing.assert_allclose(lifted, 1e-3 / (3.0 * 2.1e11 * 0.03 * 0.002**3 / 12), rtol=2e-3)
    elif page == "flexible.md":
        # Of a thin beam, clamped at one end; its mesh cannot shrink sideways there.
        exact = 1.87510406871196117**2 * np.sqrt(2.1e11 * 0.01**2 / 12 / 7800.0) / 0.4**2
        np.testing.assert_allclose(names["rod"].frequencies[0], exact, rtol=2e-2)
        found = names["plate"].frequencies[:3] * np.sqrt(7800.0 * 0.01 / names["bending"])
        np.testing.assert_allclose(found, (13.468, 19.596, 24.270), rtol=2e-2)
    elif page == "theory/flexible.md":
        # Southwell's number of a uniform blade.
        np.testing.assert_allclose(names["southwell"], 1.193, rtol=1e-2)
    elif page == "contact.md":
        # Angular momentum about the line of contact, in the middle of the overlap, is kept.
        radius, lever = names["radius"], names["radius"] - names["sag"] / 2
        slope = 1.0 / (1.0 + 0.4 * (radius / lever) ** 2)
        assert abs(names["rolled"](2.0) - 2.0 * slope) < 1e-9
    elif page == "events.md":
        # Of a push of 1.5 m/s² from rest over 1 m, and over 2 m against the speed reached there.
        turns = np.sqrt(4 / 3), np.sqrt(4 / 3) * (2 + np.sqrt(3))
        np.testing.assert_allclose(names["turns"](3.0), turns, rtol=1e-8)
    elif page == "first_steps.md":
        fit, truth = names["fit"], {"length": 0.27, "friction": 1.3e-3, "angle": 0.62}
        for name, value in truth.items():
            off = abs(float(fit.estimates[name]) - value)
            assert off < 4 * float(fit.standard_errors[name]) < 0.05 * value, name
        text = (ROOT / "docs" / page).read_text()
        printed = dict(re.findall(r"^(\w+) +([\d.e-]+) +[\d.e-]+$", text, flags=re.MULTILINE))
        assert set(printed) == set(truth)
        # To the digits that the page prints.
        for name, number in printed.items():
            np.testing.assert_allclose(float(number), fit.estimates[name], rtol=1e-5)
        (number,) = re.findall(r"print\(slope\)  # (.*)", text)
        np.testing.assert_allclose(float(number), names["slope"], rtol=5e-3)
        swing = names["swing"]
        difference = (swing(0.3 + 1e-6) - swing(0.3 - 1e-6)) / 2e-6
        np.testing.assert_allclose(names["slope"], difference, rtol=1e-6)
        # About the hinge: a rod (r²/4 + l²/12 and its centre), a ball (2/5 r² and its centre).
        moment = 0.2 * (0.01**2 / 4 + 0.6**2 / 12 + 0.3**2) + 0.3 * (0.4 * 0.03**2 + 0.5**2)
        ticking = names["ticking"]
        energy = 0.5 * moment * ticking.v[:, 0] ** 2 - 0.21 * 9.81 * np.cos(ticking.q[:, 0])
        np.testing.assert_allclose(energy, -0.21 * 9.81 * np.cos(np.radians(40.0)), rtol=1e-6)
        assert float(names["further"].t[0]) == float(names["trajectory"].t[-1])
        assert (tmp_path / "pendulum.html").exists()
    elif page == "tutorial.md":
        printed = capsys.readouterr().out.splitlines()
        assert printed == re.findall(r"print\(.*\)  # (.*)", (ROOT / "docs" / page).read_text())
    elif page == "pictures.md":
        ends = [np.asarray(system.poses(run.q[-1])[1]) for system, run in names["runs"]]
        np.testing.assert_allclose(*ends, atol=2e-2)
        assert (tmp_path / "scene.html").exists() and (tmp_path / "drift.png").exists()
        assert (tmp_path / "reactions.png").exists()
    elif page == "integrators.md":
        projected, stabilised = map(float, names["drift"])
        assert projected < 1e-14 < 1e-12 < stabilised < 1e-8
        assert names["accepted"] > 1000 and names["rejected"] < 10
        end = heavy_top.center_of_mass(names["system"], names["run"].q[-1])
        np.testing.assert_allclose(end, heavy_top.REFERENCE[1.0], atol=1e-6)
        end = heavy_top.center_of_mass(names["system"], names["solution"].ys.q[-1])
        np.testing.assert_allclose(end, heavy_top.REFERENCE[0.1], atol=1e-7)
    elif page == "sweeps.md":
        omega, inertia = names["swept"].results.v[..., 3:], names["variants"]["inertia"]
        energy = 0.5 * np.sum(np.asarray(inertia)[:, None] * omega**2, axis=-1)
        np.testing.assert_allclose(energy, np.broadcast_to(energy[:, :1], energy.shape), rtol=1e-6)
        # Turning about the middle axis is unstable: small errors grow.
        assert np.ptp(omega[0, :, 1]) < 1e-12 < 1.0 < np.ptp(omega[50, :, 1])
        assert not names["swept"].failed.any()
        np.testing.assert_allclose(names["stored"].v, names["swept"].results.v, rtol=1e-10)
    elif page == "state_estimation.md":
        low, high = names["nis"].bounds(0.99)
        assert low < names["nis"].ratio < high
        for name, value in {"stiffness": 2.0, "damping": 0.1, "gusts": names["GUSTS"]}.items():
            off = abs(float(names["fit"].estimates[name]) - value)
            assert off < 3 * float(names["fit"].standard_errors[name]), name
    elif page == "theory/explicit_methods.md":
        np.testing.assert_allclose(list(names["orders"].values()), [4.0, 3.0, 4.0], atol=0.1)
    elif page.startswith("theory/"):
        # The page asserts what it claims.
        assert "assert" in (ROOT / "docs" / page).read_text()
    elif page == "concepts.md":
        assert names["trajectory"].q.shape == (1001, 7)
        np.testing.assert_allclose(names["back"], [0.1, 0.0, 0.0, 0.0, 0.0, 0.2], atol=1e-15)
        # Parallel bars: the left one at its angle, the right one parallel to it.
        tops = [np.asarray(body.position) for body in names["leaning"].bodies if body.name != "top"]
        along = 0.5 * np.asarray([np.cos(1.2), np.sin(1.2), 0.0])
        np.testing.assert_allclose(tops, [along, along + np.eye(3)[0]], atol=1e-12)
        # The weight of the tool, which the motor holds, on its lever.
        weight = np.asarray([0.0, 0.0, 2.0 * 9.81])
        np.testing.assert_allclose(names["sensor"].force[-1], weight, atol=1e-9)
        lever = np.cross([0.35, 0.0, 0.0], weight)
        np.testing.assert_allclose(names["sensor"].torque[-1], lever, atol=1e-9)
    elif page == "import_models.md":
        assert names["arm"].mechanism.names == ("upper", "fore")
        np.testing.assert_allclose(names["run"].q, np.tile([0.5, 1.0], (501, 1)), atol=1e-9)
        assert np.min(np.abs(names["held"])) > 1.0
        fall = names["fall"]
        assert np.max(np.abs(fall.v[-1])) < 1e-8
        np.testing.assert_allclose(fall.q[-1], [1.5362, -0.0052], atol=5e-5)
        # About the elbow: weights, the force on the ball along the normal, the law of the stop.
        turned = np.sum(fall.q[-1])
        (gap,) = names["system"].contacts(0.0, fall.q[-1], fall.v[-1]).gap
        weights = 9.81 * (1.2 * 0.15 + 0.3 * 0.3) * np.sin(turned)
        held = 1e5 * fall.q[-1, 1] ** 2
        reach = 0.3 * np.sin(turned)
        np.testing.assert_allclose(weights + held, 1e6 * gap**2 * reach, rtol=1e-3)
    elif page == "robots.md":
        np.testing.assert_allclose(
            names["pose"][:3, :3] @ names["pose"][:3, :3].T, np.eye(3), atol=1e-13
        )
        np.testing.assert_allclose(names["jacobian"] @ names["state"].v, names["twist"], atol=1e-13)
        solution, tool = names["solution"], names["tool"]
        jacobian = tool.jacobian(names["system"], solution.q)
        np.testing.assert_allclose(
            tool.pose(names["system"], solution.q), names["goal"], atol=1e-10
        )
        np.testing.assert_allclose(jacobian @ names["along"], np.eye(6), atol=1e-9)
        assert np.all(names["batch"].converged)
        np.testing.assert_allclose(names["by_regressor"], names["by_newton_euler"], rtol=1e-12)
        # Critically damped: (1 + 10 t) exp(-10 t) of the way is left after 1.5 s, but for torques
        # that are held for a step.
        way = np.asarray(names["state"].q - solution.q)
        left = names["run"].q[-1] - solution.q
        np.testing.assert_allclose(left, 16.0 * np.exp(-15.0) * way, atol=1e-5)
        assert np.all(np.isfinite(names["effort"]))
        samples = names["held"].inputs.reshape(-1, 5, 6)
        assert np.all(np.ptp(samples, axis=1) == 0.0) and np.ptp(samples[:, 0]) > 0.0
    elif page == "extending.md":
        np.testing.assert_allclose(names["violation"], np.zeros(2), atol=1e-14)
        assert np.max(np.ptp(names["run"].q, axis=0)) > 0.1
        np.testing.assert_allclose(names["fall"](0.05), np.sqrt(2.0 * 9.81 / 0.05), rtol=1e-5)
        first, second = names["errors"]
        assert 1.9 < first / second < 2.1
        np.testing.assert_allclose(*names["ends"], atol=1e-8)
        np.testing.assert_allclose(names["beating"].q[-1], np.cos(2.0), atol=1e-8)
    elif page == "gpu.md":
        assert names["last"].shape == (512, 6) and np.all(np.isfinite(names["last"]))
    elif page == "optimal_control.md":
        best = names["best"]
        # The last step's state is the end of the trajectory; the motor stays within its limits.
        np.testing.assert_allclose(best.trajectory.q[-1], [np.pi], atol=1e-6)
        assert np.max(np.abs(best.inputs)) <= 2.5
        assert np.any(np.asarray(best.trajectory.q) < -0.1)
    else:
        fit, truth = names["fit"], names["truth"]
        for name, value in truth.items():
            off = np.abs(np.asarray(fit.estimates[name] - value))
            assert np.all(off < 4 * np.asarray(fit.standard_errors[name])), name
        several, true = names["several"], names["true"]
        for name, value in true.items():
            off = abs(float(several.estimates[name]) - value)
            assert off < 4 * float(several.standard_errors[name]), name
        assert names["report"].determined.tolist() == [True, True, False]
        assert 0.93 < float(names["check"].pooled_coverage) < 0.97
