"""Plots and the scene in the browser."""

import base64
import contextlib
import dataclasses
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import types
import urllib.request
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
import rich
from matplotlib.image import imread
from websockets.sync.client import connect

import lie_jax
from lie_jax import viz
from lie_jax.viz import frames, plots, scene, solids, springs
from models import double_pendulum

ROOT = Path(__file__).parents[2]
# A browser draws no two pictures alike to the last shade.
SHADE = 0.2


@pytest.fixture(scope="module")
def runs():
    def run(formulation, integrator):
        system, state = double_pendulum.build(formulation)
        return system, lie_jax.simulate(system, integrator, state, dt=4e-3, steps=250)

    return (
        run(lie_jax.R3SO3(), lie_jax.GeneralizedAlpha()),
        run(lie_jax.Minimal(), lie_jax.RKMK("rk4")),
    )


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_plots_of_a_rod_that_turns_about_one_end():
    """Of given rows, which violate the hinge along its axis and the rate of that."""
    rod = lie_jax.Body("rod", 1.0, np.eye(3), center_of_mass=(0.5, 0.0, 0.0))
    free, state = lie_jax.assemble(lie_jax.Mechanism([rod]), lie_jax.R3SO3())
    run = lie_jax.simulate(free, lie_jax.RKMK("euler"), state, dt=0.1, steps=8)
    hinge = lie_jax.RevoluteJoint("ground", "rod", (0.0, 0.0, 1.0))
    system, _ = lie_jax.assemble(lie_jax.Mechanism([rod], [hinge]), lie_jax.R3SO3())
    angle, one = np.linspace(0.0, 4.0, 9), np.ones(9)
    circle = 0.5 * np.stack([np.cos(angle), np.sin(angle)])
    position = [0.0 * one, 0.0 * one, 1e-3 * one]
    q = np.stack([*position, np.cos(angle / 2), 0.0 * one, 0.0 * one, np.sin(angle / 2)], axis=1)
    v = np.tile([0.0, 0.0, 0.2, 0.0, 0.0, 3.0], (9, 1))
    turned = dataclasses.replace(run, q=jnp.asarray(q), v=jnp.asarray(v))
    shown = [np.asarray([x.get_ydata() for x in a.lines]) for a in viz.motion(system, turned).axes]
    np.testing.assert_allclose(shown[0], [*circle, 1e-3 * one], atol=1e-12)
    np.testing.assert_allclose(shown[1], v[:, 3:].T, atol=1e-12)
    drift = [x.get_ydata() for x in viz.drift(system, turned).axes[0].lines]
    np.testing.assert_allclose(drift, [1e-3 * one, 0.2 * one], rtol=1e-12)
    path = viz.paths(system, turned).axes[0].lines[0].get_xydata()
    np.testing.assert_allclose(path, circle.T, atol=1e-12)


# `make test` has given rows, above, energies and reactions of a pendulum, and messages of videos.
@pytest.mark.full
def test_plots_show_what_was_computed(runs):
    (system, run), (tree, other) = runs
    # The model's frames lie in the centres of mass.
    off = jnp.asarray([[0.1, 0.2, 0.3], [0.0, 0.0, 0.0]])
    moved = eqx.tree_at(lambda s: s.bodies.center_of_mass, system, off)
    lines = viz.motion(moved, run).axes[0].lines
    rotation, origin = jax.jit(jax.vmap(system.poses))(run.q)
    expected = origin[:, 0] + rotation[:, 0] @ off[0]
    np.testing.assert_allclose([x.get_ydata() for x in lines], expected.T, rtol=1e-12, atol=1e-15)
    kinetic, potential, total = (
        np.asarray(x.get_ydata()) for x in viz.energy(*runs[1]).axes[0].lines
    )
    np.testing.assert_allclose(total, kinetic + potential)
    assert np.ptp(kinetic) > 1.0 > 1e-3 > np.ptp(total)
    positions, velocities = (
        np.asarray(x.get_ydata()) for x in viz.drift(system, run).axes[0].lines
    )
    assert np.nanmax(positions) < 1e-12 < np.nanmax(velocities)
    first, _, second, _ = viz.paths(tree, other).axes[0].lines
    assert len(first.get_data_3d()[0]) == 251
    again = viz.paths(system, run).axes[0].lines[2].get_data_3d()
    np.testing.assert_allclose(second.get_data_3d(), again, atol=2e-2)


def test_convergence_and_work():
    steps, errors = [1e-1, 1e-2], {"one": [1e-2, 1e-4], "two": [1e-3, np.nan]}
    axes = viz.convergence(steps, errors, (2,)).axes[0]
    assert len(axes.lines) == 3
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), errors["one"])
    numbers = np.asarray([10, 20, 40])
    errors_of_order_2 = {"one": 1.0 / numbers**2, "two": 2.0 / numbers**2}
    orders = dict.fromkeys(errors, 2.0)
    study = lie_jax.Convergence(
        numbers, 1.0 / numbers, errors_of_order_2, errors_of_order_2, orders, orders, {},
        lie_jax.State([0.0], [0.0]),
    )  # fmt: skip
    for axes in viz.convergence(study).axes:
        *lines, triangle = axes.lines
        assert len(lines) == 2 and [x.get_text() for x in axes.texts] == ["2"]
        left, right, corner, _ = triangle.get_xydata()
        assert corner[1] / right[1] == pytest.approx((right[0] / left[0]) ** 2)
        np.testing.assert_array_equal(lines[0].get_xydata()[-1], [1 / 40, 1 / 1600])
    assert len(viz.work_precision(dict.fromkeys(errors, steps), errors).axes[0].lines) == 2
    with pytest.raises(ValueError, match="'two' has 2 errors"):
        viz.work_precision({"one": steps}, errors)


@pytest.mark.full
def test_what_a_backend_sets_outlives_the_first_figure(tmp_path):
    """That of notebooks shows figures by a setting which it makes when it is loaded."""
    backend = "import matplotlib\nfrom matplotlib.backends.backend_agg import *\n"
    (tmp_path / "shown.py").write_text(backend + "matplotlib.rcParams['interactive'] = True\n")
    program = (
        "import matplotlib\nfrom lie_jax import viz\n"
        "viz.convergence([0.1, 0.01], {'one': [0.1, 0.001]})\n"
        "assert matplotlib.is_interactive()\n"
    )
    place = {"MPLBACKEND": "module://shown", "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    subprocess.run([sys.executable, "-c", program], env=os.environ | place, check=True)


@pytest.mark.full
def test_bad_input_is_named(runs, tmp_path):
    (system, run), _ = runs
    batch = jax.tree.map(lambda x: x[None], run)
    for call, message in (
        (lambda: plots.check_run("viz.motion", (system,), run), r"motion\(system=\) is a tuple"),
        (lambda: plots.check_trajectory("viz.energy", run.q), "what lie_jax.simulate returns"),
        (lambda: viz.energy(system, batch), "batch of trajectories"),
        (lambda: viz.drift(*runs[1]), "no constraints"),
        (lambda: viz.paths(runs[1][0], run), "shape"),
        (lambda: viz.export(tmp_path / "a.html"), "no run"),
        (lambda: viz.export(tmp_path / "a.html", runs[0], speed=0.0), "positive"),
        (lambda: viz.export(tmp_path / "no" / "a.html", runs[0]), "cannot be written"),
        (lambda: viz.export(tmp_path / "a.html", runs[0], view="above"), "'oblique', 'front'"),
        (lambda: viz.export(tmp_path / "a.html", runs[0], traces=["leg"]), "'leg'.*link 0, link 1"),
        (
            lambda: viz.export(
                tmp_path / "a.html", runs[0], shapes=[lie_jax.contact.Sphere("leg", 0.1)]
            ),
            "names the body 'leg'",
        ),
        (
            lambda: viz.export(
                tmp_path / "a.html",
                runs[0],
                shapes=[viz.Mesh("link 0", np.eye(3), np.asarray([[1, 2, 3]]))],
            ),
            "subtract 1",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.full
def test_scene_is_served_until_it_is_interrupted(runs, monkeypatch, capsys):
    pages = []

    def interrupted(seconds):
        address = re.search(r"http://[\w.:]+", capsys.readouterr().out)[0]
        with urllib.request.urlopen(address) as page:
            pages.append(page.read())
        raise KeyboardInterrupt

    clock = types.SimpleNamespace(monotonic=time.monotonic, sleep=interrupted)
    monkeypatch.setattr(scene, "time", clock)
    viz.show(*runs, port=0)
    assert len(pages) == 1 and b"<html" in pages[0]


@pytest.mark.full
def test_notebooks_show_no_table_of_addresses(runs, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(rich.get_console(), "is_jupyter", True)
    monkeypatch.setattr("rich.jupyter.display", lambda *parts: shown.append(parts))
    rich.print("something")
    assert len(shown) == 1
    viz.export(tmp_path / "scene.html", runs[1])
    assert len(shown) == 1


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@contextlib.contextmanager
def _browser(page, folder):
    """Commands to a page in a browser without a screen, by its debugging protocol."""
    options = "--headless --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader"
    own = f"--user-data-dir={folder} --remote-debugging-port=0 --window-size=800,600"
    command = [CHROMIUM, *options.split(), *own.split(), f"file://{page}"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        line = next(line for line in process.stderr if "DevTools listening" in line)
        port = line.split("127.0.0.1:")[1].split("/")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            target = next(t for t in json.load(answer) if t["type"] == "page")
        with connect(target["webSocketDebuggerUrl"], max_size=None, origin=None) as socket:

            def call(method, **parameters):
                socket.send(json.dumps({"id": 1, "method": method, "params": parameters}))
                while "id" not in (answer := json.loads(socket.recv(timeout=60))):
                    pass
                return answer["result"]

            yield call
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stderr.close()


def _until(found, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (value := found()) is not None:
            return value
        time.sleep(0.5)
    raise TimeoutError("the page does not show it")


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_exported_page_draws_and_its_slider_moves_a_body(runs, tmp_path):
    viz.export(tmp_path / "scene.html", *runs)
    with _browser(tmp_path / "scene.html", tmp_path / "profile") as call:

        def value(expression):
            answer = call("Runtime.evaluate", expression=expression, returnByValue=True)
            return answer["result"].get("value")

        def picture():
            data = base64.b64decode(call("Page.captureScreenshot")["data"])
            # The scene without the bar of controls.
            return imread(io.BytesIO(data))[150:540, :, :3]

        def click(x, y):
            for kind in ("mousePressed", "mouseReleased"):
                call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            time.sleep(2.0)

        bar = _until(
            lambda: value(
                "(() => {const s = document.querySelector('[role=slider]'); if (!s) return null;"
                "const r = s.parentElement.parentElement.getBoundingClientRect();"
                "return [r.left, r.width, r.top + r.height / 2];})()"
            )
        )
        left, width, height = bar
        pause = value(
            "[...document.querySelectorAll('button')].map(b => b.getBoundingClientRect())"
            f".filter(r => Math.abs(r.top + r.height / 2 - {height}) < 20)"
            ".map(r => [r.left + r.width / 2, r.top + r.height / 2])[0]"
        )
        _until(lambda: True if np.ptp(picture()) > SHADE else None)
        click(*pause)
        places = []
        for part in (0.1, 0.1, 0.8):
            click(left + part * width, height)
            places.append(picture())
        apart = [np.max(np.abs(a - b), axis=2) > SHADE for a, b in itertools.pairwise(places)]
        # Bodies cover some thousand points; none moves while the slider does not.
        assert apart[0].sum() < 100 < 1000 < apart[1].sum()
        text = (tmp_path / "scene.html").read_text()
        assert "http://127.0.0.1" not in text


def _solid(mass, moments):
    body = lie_jax.Body("body", mass, np.diag(moments))
    system, _ = lie_jax.assemble(lie_jax.Mechanism([body]), lie_jax.R3SO3())
    return system, solids.solids(system)[0]


def test_bodies_are_drawn_as_solids_with_their_inertia():
    kind, sizes, _, axes = _solid(12.0, [5.0, 10.0, 13.0])[1]
    assert kind == "box"
    # a² + b² = I / (m / 12), of the two sides across.
    np.testing.assert_allclose((axes @ sizes) ** 2, [9.0, 4.0, 1.0])
    # A disc of radius 2 m and thickness 0.3 m, about x.
    across = 3.0 * (3.0 * 2.0**2 + 0.3**2) / 12.0
    kind, sizes, _, axes = _solid(3.0, [0.5 * 3.0 * 2.0**2, across, across])[1]
    assert kind == "cylinder"
    np.testing.assert_allclose(np.abs(axes @ sizes), [0.3, 4.0, 4.0])
    assert np.linalg.det(axes) > 0.0
    # A rod of length 2 m and radius 0.1 m, about z.
    across = 3.0 * (3.0 * 0.1**2 + 2.0**2) / 12.0
    kind, sizes, _, axes = _solid(3.0, [across, across, 0.5 * 3.0 * 0.1**2])[1]
    assert kind == "cylinder"
    np.testing.assert_allclose(np.abs(axes @ sizes), [0.2, 0.2, 2.0])
    kind, sizes, *_ = _solid(2.0, [0.4 * 2.0 * 0.5**2] * 3)[1]
    assert kind == "ball"
    np.testing.assert_allclose(sizes, 1.0)


def test_springs_are_coils_between_their_points():
    body = lie_jax.Body("body", 1.0, np.eye(3), position=(0.0, 2.0, 0.0))
    spring = lie_jax.LinearSpringDamper(
        "ground", "body", 1.0, 0.0, 1.0, (0.5, 0.0, 0.0), (0.0, 0.0, 1.0)
    )
    mechanism = lie_jax.Mechanism([body], forces=[spring])
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    coil = springs.lines(system, state.q[None])[0]
    np.testing.assert_allclose(coil[0, 0], [0.5, 0.0, 0.0])
    np.testing.assert_allclose(coil[-1, 1], [0.0, 2.0, 1.0])
    np.testing.assert_allclose(coil[1:, 0], coil[:-1, 1])


def test_the_camera_sees_bodies_that_only_turn():
    system, _ = _solid(12.0, [5.0, 10.0, 13.0])
    low, high = frames.extent(system, np.zeros((3, 1, 3)))
    # Corners of the box with sides of 3, 2 and 1 m.
    np.testing.assert_allclose(high, np.full(3, 0.5 * 14.0**0.5))
    np.testing.assert_allclose(low, -high)


def _straight(velocity):
    body = lie_jax.Body("ball", 1.0, np.eye(3), velocity=velocity, omega_body=(0.0, 0.0, 2.0))
    mechanism = lie_jax.Mechanism([body], gravity=(0.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    return system, lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=0.1, steps=4)


@pytest.mark.full
def test_paths_have_equal_axes_and_plane_motions_their_plane(runs):
    plane = viz.paths(*_straight((1.0, 0.0, 0.2))).axes[0]
    assert (plane.get_xlabel(), plane.get_ylabel(), plane.get_aspect()) == ("x / m", "z / m", 1.0)
    x, z = plane.lines[0].get_data()
    np.testing.assert_allclose(z, 0.2 * np.asarray(x), atol=1e-12)
    space = viz.paths(*runs[0]).axes[0]
    widths = [np.ptp(limits) for limits in (space.get_xlim(), space.get_ylim(), space.get_zlim())]
    np.testing.assert_allclose(widths, widths[0])


@pytest.mark.full
def test_constant_energies_are_drawn_as_constant_with_values_at_the_ticks():
    above, below = viz.energy(*_straight((0.3, 0.0, 0.0))).axes
    above.figure.canvas.draw()
    # ½ 0.3² + ½ 2² J; rounding is not stretched over the axis.
    assert np.ptp(above.get_ylim()) > 0.1
    for axes in (above, below):
        assert not axes.yaxis.get_offset_text().get_text()
        ticks = [label.get_text() for label in axes.get_yticklabels()]
        assert len(set(ticks)) == len(ticks)
