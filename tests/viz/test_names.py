"""Names of bodies are shown letter by letter, whatever their letters mean to matplotlib."""

import io

import numpy as np
import pytest

import lie_jax
from lie_jax import viz

# Other files have pictures in `make test`.
pytestmark = pytest.mark.full

NAMES = r"a$\frac{$b", r"$x$ for \$ and %_b^c"


@pytest.fixture(scope="module")
def run():
    bodies = [
        lie_jax.Body(name, 1.0, np.eye(3), position=(k, 0.0, 0.0), velocity=(0.0, k, 0.0))
        for k, name in enumerate(NAMES)
    ]
    joints = [lie_jax.SphericalJoint("ground", NAMES[0])]
    forces = [lie_jax.LinearSpringDamper("ground", NAMES[1], 50.0, 4.0, 0.4)]
    mechanism = lie_jax.Mechanism(bodies, joints, forces)
    system, state = lie_jax.assemble(mechanism, lie_jax.Minimal())
    return system, lie_jax.simulate(system, lie_jax.RKMK("euler"), state, dt=0.1, steps=2)


def _seen(text):
    """Letters that matplotlib draws: outside of a formula a dollar is written with a backslash."""
    word, is_formula = text._preprocess_math(text.get_text())
    assert not is_formula
    return word


def test_plots_show_names_as_they_are(run):
    motion, paths = viz.motion(*run), viz.paths(*run)
    reactions, energy = viz.reactions(*run, frame=NAMES[0]), viz.energy(*run)
    for figure in (motion, paths, reactions, energy):
        figure.savefig(io.BytesIO(), format="svg")
    rows = [axes.yaxis.label for axes in motion.axes[::2]]
    assert [_seen(label) for label in rows] == [f"{name} / m" for name in NAMES]
    legend = paths.axes[0].get_legend()
    assert [_seen(text) for text in legend.get_texts()] == list(NAMES)
    assert _seen(reactions.axes[0].yaxis.label) == f"ground – {NAMES[0]} / N"
    assert repr(NAMES[1]) in _seen(energy.axes[1].get_legend().get_texts()[1])


def test_videos_show_names_as_they_are(run, tmp_path):
    viz.video(tmp_path / "video.gif", run, names=True)
    assert (tmp_path / "video.gif").stat().st_size
