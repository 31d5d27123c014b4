"""Trees of URDF and MJCF files, and refusals of all other files."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

# Substitutions of xacro and of ROS launch files.
_MACRO = re.compile(r"\$\{|\$\((arg|cwd|dirname|env|eval|find|optenv|anon)\b")
# MuJoCo's words for parts that its schema does not have.
_UNKNOWN = re.compile(
    r"Schema violation: unrecognized (?:attribute: '(?P<attribute>[^']*)'|element)"
    r"\s+Element '(?P<element>[^']*)'(?:, line (?P<line>\d+))?"
)
# Words of MuJoCo for coordinates that it no longer reads.
_GLOBAL = "global coordinates no longer supported"
# Remedies by words of MuJoCo.
_REMEDIES = {
    _GLOBAL: "Convert the file with MuJoCo 2.3.3",
    "mass and inertia of moving bodies must be larger": (
        "Give the body an <inertial>, or a geom with a mass"
    ),
    "axis too small in joint": "Correct the <axis> of the joint (in MJCF axis=), which is zero",
}
_PLUGIN = re.compile(r"\bplugin \S+ not found")


class Refusal(ValueError):
    """Reason, after the name of the file, for which a file is not imported, and the remedy."""


def check_file(path: Path) -> None:
    """Raise unless there is a file, and no source of macros."""
    if "<" in str(path):
        raise ValueError(
            f"import_model(path=) begins with {str(path)[:20]!r}, text of a model; it must be the "
            "name of a file: write the text to one with pathlib.Path(name).write_text(text)."
        )
    if path.is_dir():
        files = sorted(file.name for file in path.iterdir() if file.suffix in (".urdf", ".xml"))
        inside = f"a file in it, such as {files[0]!r}" if files else "a URDF or MJCF file"
        raise ValueError(f"import_model(path=) is {str(path)!r}, which is a folder: name {inside}.")
    if not path.is_file():
        raise FileNotFoundError(
            f"import_model(path=) is {str(path)!r}, which is not a file; it must be the name of "
            "a URDF or MJCF file: check it and the folder that you are in."
        )
    if path.suffix == ".xacro":
        raise _with_macros(path)


def tree(path: Path) -> ElementTree.Element:
    """Root of a file in URDF or in MJCF, names with the prefixes of the file; raises for all
    others.
    """
    try:
        root = parse(path)
    except ValueError as error:
        raise ValueError(
            f"import_model(path=): {str(path)!r} is not an XML file ({error}); it must be a URDF "
            "or MJCF file: correct it, or expand its macros first."
        ) from error
    if _has_macros(root):
        raise _with_macros(path)
    if root.tag not in ("robot", "mujoco"):
        advice = {
            "sdf": "SDF files and worlds are not read: export the model as URDF or MJCF",
            "mujocoinclude": "import the file that includes it",
        }.get(root.tag, "give the file of a robot or model")
        raise ValueError(
            f"import_model(path=): {str(path)!r} has the root <{root.tag}>; it must be <robot> as "
            f"in URDF or <mujoco> as in MJCF: {advice}."
        )
    return root


def reason(mujoco: Any, error: Exception) -> str:
    """MuJoCo's reason for a refusal, with the remedy where it is known."""
    text = " ".join(str(error).split()).removesuffix(".")
    unknown = _UNKNOWN.search(text)
    if unknown is None:
        known = [remedy for words, remedy in _REMEDIES.items() if words in text]
        if _PLUGIN.search(text):
            known = ["Delete <plugin> and the elements that name it; plugins are not read"]
        return f"cannot be compiled: {text}. {(known or ['Correct the file'])[0]}."
    element, attribute = f"<{unknown['element']}>", unknown["attribute"]
    part = f"the attribute {attribute!r} of {element}" if attribute else f"the element {element}"
    line = f" in line {unknown['line']}" if unknown["line"] not in (None, "0") else ""
    return (
        f"cannot be compiled: it has {part}{line}, which MuJoCo {mujoco.__version__} does not "
        "read; files of an older MuJoCo may have it. Delete "
        f"{'the attribute' if attribute else 'the element'}."
    )


def parse(path: Path) -> ElementTree.Element:
    """Root of an XML file as MuJoCo reads it: prefixes need no declaration, and white space may
    stand before it and zero bytes after it. Raises `ValueError` for other files.
    """
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(path.read_bytes().lstrip().rstrip(b"\0 \t\r\n"), True)
        return builder.close()
    except (expat.ExpatError, AssertionError) as error:
        raise ValueError(str(error)) from error


def _has_macros(root: ElementTree.Element) -> bool:
    """Whether a file has elements of xacro, or substitutions where URDF has numbers and names."""
    if any("xacro:" in part.tag for part in root.iter()):
        return True
    read = [
        part for kind in ("link", "joint") for link in root.findall(kind) for part in link.iter()
    ]
    # A mesh that is missing is no obstacle.
    values = [value for part in read for key, value in part.attrib.items() if key != "filename"]
    return root.tag == "robot" and any(map(_MACRO.search, values))


def _with_macros(path: Path) -> ValueError:
    stem = path.name.removesuffix(".xacro").removesuffix(".urdf")
    source = path.name if path.suffix == ".xacro" else f"{stem}.urdf.xacro"
    return ValueError(
        f"import_model(path=): {str(path)!r} has macros of xacro that are not expanded; it must be "
        f"a URDF file: run `xacro {source} > {stem}.urdf` first, or without ROS "
        f"`pip install xacrodoc` and `xacrodoc {source} -o {stem}.urdf`."
    )
