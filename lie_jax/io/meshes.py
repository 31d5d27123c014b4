"""Files of meshes and pictures: where they are, and models without those that cannot be read."""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from lie_jax.io.sources import Refusal

# Suffixes of files that MuJoCo reads.
_SUFFIXES = (".stl", ".obj", ".msh")
# Schemes of addresses that begin with the name of a package, or of a model of Gazebo.
_PACKAGES = ("package", "model")
_MISSING = "meshes whose files are missing, of"
# Paths that were tried, as a kind of what is ignored.
PATHS = "files of meshes that are missing"


def find(spec: Any, addresses: Mapping[str, str]) -> None:
    """Set the files of a URDF file's meshes; `addresses` by the names that the meshes have now.

    An address is a path, a `file://` address, or begins with the name of a package. A package is
    looked for in all folders above the URDF file, by its name or as one of them.
    """
    folder = Path(spec.modelfiledir)
    for mesh in spec.meshes:
        # Inertias are those of the file: the hull needs no faces that are oriented alike.
        mesh.inertia = type(mesh.inertia).mjMESH_INERTIA_CONVEX
        address = addresses[mesh.file]
        parts = urlparse(address)
        if parts.scheme in _PACKAGES:
            mesh.file = str(_in_package(folder, Path(parts.netloc + parts.path)))
            continue
        path = _path(address)
        mesh.file = str((_folder(spec) / _strip(spec, path)).absolute())
    # Paths are absolute now.
    spec.strippath = False


def localize(spec: Any) -> None:
    """Replace `file://` addresses of an MJCF file by paths."""
    for part in (*spec.meshes, *spec.hfields):
        part.file = _path(part.file)


def _path(address: str) -> str:
    """Path of a `file://` address, whose slashes MuJoCo may have joined; other addresses as they
    are.
    """
    parts = urlparse(address)
    # A letter is a drive.
    if parts.scheme != "file":
        return address
    return re.sub("^/?localhost(?=/)", "", unquote(parts.netloc + parts.path))


def _in_package(folder: Path, within: Path) -> Path:
    above = (folder, *folder.resolve().parents)
    inner = Path(*within.parts[1:])
    places = [place / part for place in above for part in (within, inner)]
    files = [place for place in places if place.is_file()]
    return files[0].resolve() if files else (folder / within).absolute()


def _folder(spec: Any) -> Path:
    return Path(spec.modelfiledir) / spec.compiler.meshdir


def _strip(spec: Any, path: str) -> str:
    return Path(path).name if spec.strippath else path


def compile_model(mujoco: Any, spec: Any) -> tuple[Any, dict[str, tuple[str, ...]]]:
    """Model of MuJoCo, and the names of geoms, or of their bodies, that are left out, by reason.

    Left out are geoms of meshes that cannot be read. Raises `ValueError` if the model cannot be
    compiled without them, or if an inertia depends on one.
    """
    # Pictures and lights move nothing, and their files may be missing.
    for part in (*spec.textures, *spec.lights):
        spec.delete(part)
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    try:
        return _model(spec), {}
    except ValueError as error:
        unread = _unreadable(mujoco, spec)
        left_out = [geom for geom in spec.geoms if geom.meshname in unread]
        if not unread:
            raise
        needed = [geom for geom in left_out if _has_part_in_inertia(mujoco, spec, geom)]
        if needed:
            bodies = list(dict.fromkeys(geom.parent.name for geom in needed))
            of_first, path = unread[needed[0].meshname]
            raise Refusal(
                f"cannot be compiled: the inertia of {bodies[0]!r} depends on one of the "
                f"{of_first.removesuffix(', of')}, {str(path)!r}; the bodies are "
                f"{', '.join(map(repr, bodies))}. Add the files, or give the bodies <inertial>."
            ) from error
    ignored = delete_unreadable(mujoco, spec)
    return _model(spec), ignored


def _model(spec: Any) -> Any:
    with warnings.catch_warnings():
        # Deformable bodies are left out.
        warnings.filterwarnings("ignore", r"(?s).*\bflex")
        return spec.compile()


def delete_unreadable(mujoco: Any, spec: Any) -> dict[str, tuple[str, ...]]:
    """Delete geoms of meshes that cannot be read; their names by reason, and paths that were
    tried.
    """
    unread = _unreadable(mujoco, spec)
    left_out = [geom for geom in spec.geoms if geom.meshname in unread]
    names: dict[str, dict[str, None]] = {}
    for geom in left_out:
        reason, path = unread[geom.meshname]
        # A geom that touches nothing is a picture.
        if geom.contype or geom.conaffinity:
            names.setdefault(reason, {})[geom.name or geom.parent.name] = None
            if reason == _MISSING:
                names.setdefault(PATHS, {})[str(path)] = None
    for part in (*left_out, *(mesh for mesh in spec.meshes if mesh.name in unread)):
        spec.delete(part)
    return {reason: tuple(of) for reason, of in names.items()}


def _unreadable(mujoco: Any, spec: Any) -> dict[str, tuple[str, Path]]:
    """Reasons for which meshes are left out, as kinds of what is ignored, and their files."""
    found = {mesh.name: _flaw(mujoco, spec, mesh) for mesh in spec.meshes}
    return {name: flaw for name, flaw in found.items() if flaw is not None}


def _flaw(mujoco: Any, spec: Any, mesh: Any) -> tuple[str, Path] | None:
    if not mesh.file:
        return None
    file = _folder(spec) / _strip(spec, mesh.file)
    if not file.is_file():
        return _MISSING, file.absolute()
    if file.suffix.lower() not in _SUFFIXES:
        return "meshes that are no STL or OBJ files, of", file
    alone = mujoco.MjSpec()
    alone.add_mesh(name="mesh", file=str(file.absolute()), scale=mesh.scale, inertia=mesh.inertia)
    alone.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="mesh")
    try:
        alone.compile()
    except ValueError:
        return "meshes that MuJoCo cannot read, of", file
    return None


def _has_part_in_inertia(mujoco: Any, spec: Any, geom: Any) -> bool:
    """Whether the inertia of a geom's body is, or may be, computed from the geom."""
    from_geoms, body = spec.compiler.inertiafromgeom, geom.parent
    if body.name == "world" or geom.mass == 0.0:
        return False
    if from_geoms == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO:
        return not body.explicitinertial
    return from_geoms == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
