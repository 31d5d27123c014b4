"""The gallery has every joint and every force, with their numbers of held directions."""

import re
from pathlib import Path

import lie_jax

DOCS = Path(__file__).parents[2] / "docs"
LARGEST_BYTES = 25_000


def test_gallery_has_every_joint_and_force():
    page = (DOCS / "gallery.md").read_text()
    pictures = dict(re.findall(r"\| !\[(\w+)\]\((images/gallery/\w+\.png)\) \|", page))
    modules = (lie_jax, lie_jax.beams, lie_jax.contact)
    public = (getattr(module, name) for module in modules for name in module.__all__)
    elements = {
        thing.__name__
        for thing in public
        if isinstance(thing, type)
        and issubclass(thing, lie_jax.extend.AbstractJoint | lie_jax.extend.AbstractForce)
        and not thing.__name__.startswith("Abstract")
        # Made by `lie_jax.beams.distributed`.
        and thing is not lie_jax.beams.NodeLoad
    }
    assert set(pictures) == elements
    for picture in pictures.values():
        assert 0 < (DOCS / picture).stat().st_size < LARGEST_BYTES
    for name, held in (("SphericalJoint", 3), ("RevoluteJoint", 5), ("RollingDisc", 3)):
        assert re.search(rf"`{name}`\]\(\S+\) \|.*\| {held} \|", page)
