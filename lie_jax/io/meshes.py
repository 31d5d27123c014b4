"""Files of meshes and pictures: where they are, and models without those that cannot be read."""

from pathlib import Path
from typing import Any

# What MuJoCo reads.
_SUFFIXES = (".stl", ".obj", ".msh")
_PACKAGE = "package://"


def find(spec: Any) -> None:
    """Set the files of a URDF file's meshes, whose addresses may begin with the name of a package.

    A package is looked for in all folders above the URDF file, by its name or as one of them.
    """
    folder = Path(spec.modelfiledir)
    for mesh in spec.meshes:
        # Inertias are those of the file: the hull needs no faces that are oriented alike.
        mesh.inertia = type(mesh.inertia).mjMESH_INERTIA_CONVEX
        if not mesh.file.startswith(_PACKAGE):
            continue
        within = Path(mesh.file.removeprefix(_PACKAGE))
        above = (folder, *folder.resolve().parents)
        inner = Path(*within.parts[1:])
        places = [place / part for place in above for part in (within, inner)]
        files = [place for place in places if place.is_file()]
        mesh.file = str(files[0].resolve() if files else within)


def compiled(mujoco: Any, spec: Any) -> tuple[Any, dict[str, tuple[str, ...]]]:
    """Model of MuJoCo, and the names of geoms, or of their bodies, that are left out, by reason.

    Left out are geoms of meshes that cannot be read. Raises `ValueError` if the model cannot be
    compiled without them, or if an inertia depends on one.
    """
    # Pictures move nothing, and their files may be missing.
    for texture in tuple(spec.textures):
        spec.delete(texture)
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    try:
        return spec.compile(), {}
    except ValueError:
        reasons = {mesh.name: _reason(mujoco, spec, mesh) for mesh in spec.meshes}
        left_out = [geom for geom in spec.geoms if reasons.get(geom.meshname)]
        if not left_out or any(_has_part_in_inertia(mujoco, spec, geom) for geom in left_out):
            raise
    names: dict[str, dict[str, None]] = {}
    for geom in left_out:
        # A geom that touches nothing is a picture.
        if geom.contype or geom.conaffinity:
            names.setdefault(str(reasons[geom.meshname]), {})[geom.name or geom.parent.name] = None
    unread = [mesh for mesh in spec.meshes if reasons[mesh.name]]
    for part in (*left_out, *unread):
        spec.delete(part)
    return spec.compile(), {reason: tuple(of) for reason, of in names.items()}


def _reason(mujoco: Any, spec: Any, mesh: Any) -> str | None:
    """Reason for which a mesh is left out, as a kind of what is ignored; None if it can be read."""
    if not mesh.file:
        return None
    given = Path(mesh.file)
    of_model = Path(spec.modelfiledir) / spec.compiler.meshdir
    file = of_model / (given.name if spec.strippath else given)
    if not file.is_file():
        return "meshes whose files are missing, of"
    if file.suffix.lower() not in _SUFFIXES:
        return "meshes that are no STL or OBJ files, of"
    alone = mujoco.MjSpec()
    alone.add_mesh(name="mesh", file=str(file), scale=mesh.scale, inertia=mesh.inertia)
    alone.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="mesh")
    try:
        alone.compile()
    except ValueError:
        return "meshes that MuJoCo cannot read, of"
    return None


def _has_part_in_inertia(mujoco: Any, spec: Any, geom: Any) -> bool:
    """Whether the inertia of a geom's body is, or may be, computed from the geom."""
    from_geoms, body = spec.compiler.inertiafromgeom, geom.parent
    if body.name == "world" or geom.mass == 0.0:
        return False
    if from_geoms == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO:
        return not body.explicitinertial
    return from_geoms == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
