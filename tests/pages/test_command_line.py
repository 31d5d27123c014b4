"""The command `python -m experiments` runs, compares, animates and names mistakes."""

import json

import numpy as np
import pytest

import lie_jax
from experiments.__main__ import app
from experiments._command import choices, comparing, simulating
from models import heavy_top

pytestmark = pytest.mark.full

SHORT = ["--dt", "1e-3", "--t-end", "0.04"]


def _command(*words):
    app.cli(args=[str(word) for word in words], prog="python -m experiments")


def test_list_names_everything(capsys):
    _command("list")
    text = capsys.readouterr().out
    for name in (*choices.experiments(), *choices.MODELS, *choices.FORMULATIONS):
        assert name in text


def test_papers_and_models_are_there():
    known = choices.experiments()
    for paper in choices.PAPERS.values():
        assert set(paper) <= set(known)
    for model in choices.MODELS:
        system, state = choices.built(model, None)
        assert state.q.shape == (system.nq,)


def test_simulate_and_animate(tmp_path):
    _command("simulate", "Heavy_Top", "--integrator", "rk4", *SHORT, "--out", tmp_path)
    folder = tmp_path / "heavy_top"
    found = lie_jax.io.load(folder / "run.nc")
    system, state = heavy_top.build()
    whole = lie_jax.simulate(system, lie_jax.RKMK("rk4"), state, dt=1e-3, steps=40)
    # Made of pieces, which go on bit by bit.
    np.testing.assert_array_equal(found["trajectory"].q, whole.q)
    np.testing.assert_array_equal(found["trajectory"].t, whole.t)
    assert (folder / "motion.png").stat().st_size > 10_000
    _command("animate", folder / "run.nc")
    assert (folder / "run.html").stat().st_size > 100_000


def test_interrupted_run_keeps_what_was_computed(tmp_path, monkeypatch, capsys):
    class Bar(simulating.tqdm):
        def update(self, n=1):
            super().update(n)
            if self.n >= 10:
                raise KeyboardInterrupt

    monkeypatch.setattr(simulating, "tqdm", Bar)
    _command("simulate", "heavy_top", "--integrator", "rk4", *SHORT, "--out", tmp_path)
    assert "interrupted" in capsys.readouterr().out
    trajectory = lie_jax.io.load(tmp_path / "heavy_top" / "run.nc")["trajectory"]
    assert trajectory.q.shape[0] == 11


def test_compare(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(comparing, "_STEPS", (10, 20))
    for name, kept in (
        ("FORMULATIONS", ("SE3", "EulerParameters")),
        ("INTEGRATORS", ("gauss4",)),
    ):
        known = getattr(choices, name)
        monkeypatch.setattr(comparing, name, {k: known[k] for k in kept})
    _command("compare", "heavy_top", "--t-end", "0.02", "--out", tmp_path)
    table = (tmp_path / "compare_heavy_top" / "table.md").read_text()
    first, second = (float(x) for x in table.split("| SE3, gauss4 |")[1].split("|")[:2])
    assert 10.0 < first / second < 22.0
    assert "- EulerParameters, gauss4:" in table
    assert (tmp_path / "compare_heavy_top" / "work_precision.png").exists()


@pytest.mark.parametrize(
    "words, message",
    [
        (("run", "deno"), "no experiment 'deno'. Did you mean demo"),
        (("run",), "Name an experiment"),
        (("reproduce", "S9"), "no paper 'S9'"),
        (("reproduce", "S3", "fig99"), "no table or figure of S3 'fig99'"),
        (("simulate", "heavytop"), "no model 'heavytop'. Did you mean heavy_top"),
        (("simulate", "rotor", "--integrator", "rk5"), "no integrator 'rk5'. Did you mean rk4"),
        (("simulate", "rotor", "--formulation", "SO3"), "Did you mean R3SO3"),
        (("simulate", "rotor", "--dt", "0"), "must be positive"),
        (("simulate", "slider_crank", "--integrator", "gauss4"), "GeneralizedAlpha"),
        (("compare", "nothing"), "no model 'nothing'"),
        (("animate", "nothing.nc"), "cannot be animated"),
    ],
)
def test_mistakes_are_named(words, message, tmp_path):
    more = () if words[0] == "animate" else ("--out", tmp_path)
    with pytest.raises(SystemExit) as ended:
        _command(*words, *more)
    assert message in str(ended.value)


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        _command("simulate", "heavy_top", *SHORT, "--out", tmp_path / "file")
    assert "cannot be written" in str(ended.value)


def test_tables_and_figures_have_their_experiments():
    from experiments._command import choices

    assert list(choices.reproducing("S3", "table 4")) == ["newton_counts"]
    assert list(choices.reproducing("s3", "Figure 11")) == [
        "explicit_formulations",
        "implicit_formulations",
    ]
    assert choices.reproducing("S2") == choices.PAPERS["S2"]
    known = choices.experiments()
    assert all(name in known for chosen in choices.PAPERS.values() for name in chosen)


def test_robots_below_a_folder(tmp_path):
    (tmp_path / "files").mkdir()
    body = '<inertial pos="0 0 0.1" mass="1" diaginertia="1 1 1"/>'
    link = '<mass value="1"/><inertia ixx="{}" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    files = {
        "hinge.xml": f"<mujoco><worldbody><body><joint/>{body}</body></worldbody></mujoco>",
        "scene.xml": "<mujoco/>",
        "flat.urdf": '<robot name="r"><link name="a"/><link name="b"><inertial>'
        f'{link.format(5)}</inertial></link><joint name="j" type="continuous">'
        '<parent link="a"/><child link="b"/></joint></robot>',
        "idle.urdf": '<robot name="r"><link name="a"/></robot>',
    }
    for name, text in files.items():
        (tmp_path / "files" / name).write_text(text)
    _command("robots", tmp_path / "files", "--out", tmp_path)
    flat, hinge, idle = json.loads((tmp_path / "robots" / "robots.json").read_text())
    assert (flat["file"], flat["imported"], flat["nv"]) == ("flat.urdf", "balance", 1)
    assert idle["file"] == "idle.urdf" and "nothing moves" in idle["imported"]
    assert (hinge["imported"], hinge["nv"]) == ("ok", 1)
    # Rounding, and methods of fourth order at 0.5 ms.
    assert max(robot["motion"]["difference"] for robot in (flat, hinge)) < 1e-11
    # One hinge in double precision.
    assert max(flat["differences"] + hinge["differences"]) < 1e-14
    text = (tmp_path / "robots" / "robots.md").read_text()
    assert "2 of 3 files are imported, 1 of them with inertia='balance'" in text
    with pytest.raises(SystemExit, match="is no folder"):
        _command("robots", tmp_path / "nothing")


def test_a_folder_is_tried_to_its_end(tmp_path, capsys, monkeypatch):
    """Whatever a file has, there is a row with the reason, and kinds are counted."""
    body = '<body name="b"><freejoint/><geom size="1"/></body>'
    files = {
        "ball.xml": f"<mujoco><worldbody>{body}</worldbody></mujoco>",
        "broken.urdf": "<robot",
        "empty.urdf": "",
        "gone.xml": '<mujoco><include file="no.xml"/></mujoco>',
        "macros.urdf": '<robot xmlns:xacro="x"><xacro:arm/></robot>',
        "notes.xml": "<notes/>",
        "old.xml": '<mujoco><option apirate="1"/></mujoco>',
        "scene.xml": "<mujoco/>",
        "worse.xml": "<mujoco><worldbody><body><freejoint/></body></worldbody></mujoco>",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder.urdf").mkdir()
    read = lie_jax.io.import_model

    def import_model(path, **options):
        if path.name == "worse.xml":
            raise TypeError("a defect | of lie_jax")
        return read(path, **options)

    monkeypatch.setattr(lie_jax.io, "import_model", import_model)
    _command("robots", tmp_path, "--no-compare", "--out", tmp_path)
    numbers = json.loads((tmp_path / "robots" / "files.json").read_text())
    assert {number["file"]: number["kind"] for number in numbers} == {
        "ball.xml": "",
        "broken.urdf": "macros, or no URDF or MJCF",
        "empty.urdf": "macros, or no URDF or MJCF",
        "gone.xml": "files that are missing",
        "macros.urdf": "macros, or no URDF or MJCF",
        "old.xml": "older MuJoCo",
        "scene.xml": "nothing moves",
        "worse.xml": "crash",
    }
    printed = capsys.readouterr().out
    assert r"| worse.xml | crash |  |  |  |  | TypeError: a defect \| of lie_jax |" in printed
    assert "1 of 8 files are imported: ok 1." in printed
    assert "Refused files in which MuJoCo" in printed and "finds a joint: none." in printed
