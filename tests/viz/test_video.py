"""Videos play a motion in its time, and show the bodies where they are."""

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pytest
from matplotlib.animation import FFMpegWriter
from PIL import Image

import lie_jax
from lie_jax import viz
from lie_jax.viz import frames, painting

# A picture in a palette, with antialiased edges, is off by about a pixel.
PIXELS = 3.0
SPEED, SECONDS = 2.0, 0.4


@pytest.fixture(scope="module")
def run():
    """A ball of 0.1 m radius that flies along x without gravity."""
    inertia = lie_jax.solids.sphere(1.0, 0.1)
    ball = lie_jax.Body("ball", 1.0, inertia, velocity=(SPEED, 0.0, 0.0))
    mechanism = lie_jax.Mechanism([ball], gravity=(0.0, 0.0, 0.0))
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    return system, lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=0.05, steps=8)


@pytest.mark.full
def test_a_gif_plays_in_real_time_with_the_ball_where_it_flies(run, tmp_path):
    path = tmp_path / "ball.gif"
    viz.video(path, run, speed=2.0, view="front", traces=[])
    with Image.open(path) as video:
        # Frames at 0, 0.1, ... 0.4 s of the motion.
        assert video.n_frames == 5
        places, shown = [], 0.0
        for frame in range(video.n_frames):
            video.seek(frame)
            shown += video.info["duration"] / 1000.0
            red, _, blue = np.moveaxis(np.asarray(video.convert("RGB"), int), 2, 0)
            columns = np.nonzero(blue - red > 60)[1]
            places.append(0.5 * (columns.min() + columns.max()))
        width = video.size[0]
    assert shown == pytest.approx(5 / 20)
    # The picture is as wide as the flight and the ball, with margins of 1/20 of that.
    metres = 1.1 * (SPEED * SECONDS + 0.2)
    expected = 0.1 * SPEED * np.arange(5) * width / metres
    np.testing.assert_allclose(np.subtract(places, places[0]), expected, atol=PIXELS)


@pytest.mark.full
def test_a_folder_that_is_not_there_is_named(run, tmp_path):
    with pytest.raises(ValueError, match="cannot be written"):
        viz.video(tmp_path / "no" / "a.gif", run)


def test_bad_input_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    for call, message in (
        (lambda: viz.video(tmp_path / "a.avi"), r"must end with \.gif or \.mp4"),
        (lambda: viz.video(tmp_path / "a.mp4"), "ffmpeg is not installed"),
        (lambda: viz.video(tmp_path / "a.gif", speed=0.0), "positive"),
        (lambda: viz.video(tmp_path / "a.gif", view="above"), "'oblique', 'front'"),
        (lambda: viz.video(tmp_path / "a.gif"), "no run"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_nearest_polygons_are_drawn_last():
    square = np.asarray([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    corners = np.stack([square + np.asarray([0.0, y, 0.0]) for y in (2.0, -1.0, 0.5)])
    polygons = painting.Polygons(corners, np.eye(3, 4), np.zeros(3))
    shown = painting.seen(polygons, painting.camera("front"))
    # The camera looks along y.
    assert np.argmax(shown["facecolors"], axis=1).tolist() == [0, 2, 1]
    np.testing.assert_allclose(shown["verts"][0], np.asarray(square)[:, [0, 2]], atol=1e-12)


def _everything():
    """Two bodies on a spring over ground, one with a shape of its own."""
    box = lie_jax.solids.box(1.0, (0.2, 0.1, 0.1))
    bodies = [
        lie_jax.Body(name, 1.0, box, position=(x, 0, 0.5)) for name, x in (("a", 0), ("b", 1))
    ]
    hinge = lie_jax.RevoluteJoint("ground", "a", (0, 1, 0), (0, 0, 0.5))
    spring = lie_jax.LinearSpringDamper("a", "b", 10.0, 0.0, 0.8)
    touch = lie_jax.contact.Contact(
        lie_jax.contact.Sphere("b", 0.1), lie_jax.contact.Plane("ground"),
        lie_jax.contact.HuntCrossley(1e4, 1.0),
    )  # fmt: skip
    mechanism = lie_jax.Mechanism(bodies, [hinge], [spring, touch])
    system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
    return system, lie_jax.simulate(
        system, lie_jax.GeneralizedAlpha(), state, dt=5e-3, steps=80, save=4
    )


@pytest.mark.full
def test_runs_side_by_side_with_shapes_springs_contacts_and_names(tmp_path):
    run = _everything()
    vertices = np.asarray([[0, 0, 0], [0.2, 0, 0], [0, 0.2, 0], [0, 0, 0.2]])
    faces = np.asarray([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
    mesh = viz.Mesh("a", vertices, faces, (1.0, 0.0, 0.0, 0.5))
    viz.video(tmp_path / "all.gif", run, run, shapes=[mesh], names=True)
    with Image.open(tmp_path / "all.gif") as video:
        # 0.4 s at 20 frames a second, with the first one.
        assert video.n_frames == 9
        width, height = video.size
        assert width == 500 and 300 <= height <= 500
    (scene,) = frames.prepare("test", (run,), None, [mesh], None)
    fixed = painting.attach_parts(scene, 0)
    assert set(fixed.bodies.tolist()) == {-1, 0, 1}
    placed = painting.polygons_at(fixed, scene, len(scene.t) - 1)
    # The mesh moves with its body.
    of_a = placed.corners[(fixed.bodies == 0) & (placed.colors[:, 3] == 0.5)]
    rotation, position = (np.asarray(x)[0] for x in run[0].poses(run[1].q[-1]))
    corners = {tuple(np.round(x, 6)) for x in of_a.reshape(-1, 3)}
    for vertex in vertices:
        assert tuple(np.round(position + rotation @ vertex, 6)) in corners


@pytest.mark.full
@pytest.mark.skipif(not FFMpegWriter.isAvailable(), reason="needs ffmpeg")
def test_mp4_is_written(run, tmp_path):
    viz.video(tmp_path / "ball.mp4", run)
    assert (tmp_path / "ball.mp4").read_bytes()[4:8] == b"ftyp"
