"""Shells: published deflections and frequencies of plates and shells, and their stresses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import Normalize
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from numpy.typing import NDArray

import lie_jax
from experiments import _plots, _report
from lie_jax import shells
from models import shell_benchmarks, slit_annulus
from models.shell_benchmarks import SMALL

# Parts of the annulus' load with published deflections.
PARTS = tuple(slit_annulus.REFERENCE)
ANNULI = ((3, 16), (6, 30), (14, 112))
# Of the cylinder along its path to the full load.
AROUND, ALONG, POINTS, LENGTH = 12, 8, 15, 0.05


def deflections(benchmark: shell_benchmarks.Benchmark) -> NDArray:
    """Published deflections at the equilibrium, m."""
    end = lie_jax.equilibrium(benchmark.system, benchmark.state)
    return np.asarray(benchmark.deflections(end.q))


def row(mesh: str, here: Any, published: Any) -> dict:
    """Numbers of a table, published ones, and percents between them."""
    here, published = (np.atleast_1d(np.asarray(x, float)) for x in (here, published))
    percents = 100.0 * (here / published - 1.0)
    return {
        "mesh": mesh,
        "here": here.tolist(),
        "published": published.tolist(),
        "percent": percents.tolist(),
    }


def statics() -> dict[str, list[dict]]:
    """Deflections of all benchmarks at equilibria, by meshes."""
    benchmarks = shell_benchmarks
    tables: dict[str, list[dict]] = {
        "cantilever under end shear": [
            row(f"{n} × 1", deflections(benchmarks.cantilever(count=n)), benchmarks.CANTILEVER)
            for n in (4, 16)
        ]
    }
    rows = []
    for mesh in ANNULI:
        system, state = slit_annulus.build(*mesh)
        here = slit_annulus.corners(system, lie_jax.equilibrium(system, state).q)
        rows.append(row(f"{mesh[0]} × {mesh[1]}", here, slit_annulus.REFERENCE[1.0]))
    tables["slit annular plate"] = rows

    def hemispheres(load: float, unit: float, published: Any) -> list[dict]:
        ways = {n: deflections(benchmarks.hemisphere(n, load)) / unit for n in (8, 16)}
        return [row(f"{n} × {n}", way, published) for n, way in ways.items()]

    published = (benchmarks.HEMISPHERE_SMALL,) * 2
    tables["hemisphere, small loads"] = hemispheres(2.0 * SMALL, SMALL, published)
    tables["hemisphere, P = 400"] = hemispheres(400.0, 1.0, benchmarks.HEMISPHERE)
    tables["cylinder pulled by a quarter"] = [
        row(
            "24 × 16",
            deflections(benchmarks.open_cylinder(24, 16, 0.25 * benchmarks.PULL)),
            benchmarks.PULL_OUT_QUARTER,
        )
    ]
    tables["pinched cylinder"] = [
        row(f"{n} × {n}", -deflections(benchmarks.pinched_cylinder(n))[0], benchmarks.PINCHED)
        for n in (8, 16)
    ]
    loads = np.asarray([[0.0, 0.0, SMALL], [0.0, SMALL, 0.0]])
    tables["twisted strip"] = [
        row(
            f"{n} × {across}",
            [deflections(benchmarks.twisted_strip(n, across, load))[0] / SMALL for load in loads],
            benchmarks.TWISTED,
        )
        for n, across in ((12, 2), (24, 4))
    ]
    return tables


def frequencies() -> dict[str, list[dict]]:
    """Frequencies of thin plates, and what two meshes extrapolate to."""
    tables = {}
    for name, clamped, published in (
        ("free plate", False, shell_benchmarks.FREE_PLATE),
        ("plate clamped at an edge", True, shell_benchmarks.CLAMPED_PLATE),
    ):
        coarse, fine = (shell_benchmarks.plate_frequencies(n, clamped) for n in (4, 8))
        better = fine + (fine - coarse) / 3.0
        tables[name] = [
            row("4 × 4", coarse, published),
            row("8 × 8", fine, published),
            row("extrapolated", better, published),
        ]
    return tables


def annulus() -> tuple[dict, Any, NDArray]:
    """Deflections by the load on one mesh, and the last configuration."""
    system, state = slit_annulus.build(6, 30)
    ways = []
    for part in PARTS:
        state = lie_jax.equilibrium(*_loaded(part, state))
        ways.append([float(x) for x in slit_annulus.corners(system, state.q)])
    return {"part": list(PARTS), "here": ways}, system, np.asarray(state.q)


def _loaded(part: float, state: lie_jax.State) -> tuple[Any, lie_jax.State]:
    """The annulus under a part of its load, near a configuration."""
    system, _ = slit_annulus.build(6, 30, part)
    return system, state


def pulled_cylinder() -> tuple[dict, Any, NDArray]:
    """Deflections along the path of equilibria beyond the snap, and at the full load with the
    configuration there.
    """
    benchmark = shell_benchmarks.open_cylinder(AROUND, ALONG, shell_benchmarks.PULL)
    system, state = benchmark.system, benchmark.state
    path = lie_jax.equilibrium_path(system, state, steps=POINTS, length=LENGTH)
    part = np.asarray(path.part)
    ways = jax.jit(jax.vmap(benchmark.deflections))(path.q)
    nearest = lie_jax.State(path.q[int(np.argmin(np.abs(part - 1.0)))], state.v)
    end = lie_jax.equilibrium(system, nearest)
    here = benchmark.deflections(end.q)
    results = {
        "part": part.tolist(),
        "here": np.asarray(ways).tolist(),
        "end": [row(f"{AROUND} × {ALONG}", here, shell_benchmarks.PULL_OUT)],
    }
    return results, system, np.asarray(end.q)


def face_stresses(system: Any, q: Any) -> tuple[NDArray, NDArray]:
    """Corners (n, 4, 3) of elements, and the larger stress of von Mises (n,), Pa, of both faces."""
    readings = shells.readings(system, jnp.asarray(q))
    elements = [x.element for x in system.forces if isinstance(x.element, shells.Shell)]
    section = np.asarray(elements[0].section).reshape(-1, 8, 8)[0]
    # Of a plate of one material, whose stiffnesses differ by t² / 12.
    thickness = np.sqrt(12.0 * section[3, 3] / section[0, 0])
    resultant = np.asarray(readings.resultant)
    membrane, bending = resultant[:, :3] / thickness, 6.0 * resultant[:, 3:6] / thickness**2
    faces = np.stack([membrane + bending, membrane - bending])
    x, y, xy = np.moveaxis(faces, -1, 0)
    return np.asarray(readings.position), np.sqrt(x * x - x * y + y * y + 3.0 * xy * xy).max(axis=0)


def show_curves(annuli: dict, cylinder: dict, path: Path) -> None:
    """Deflections by loads, with published ones as dots."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
    here, published = np.asarray(annuli["here"]), np.asarray([*slit_annulus.REFERENCE.values()])
    for column, (what, color) in enumerate((("inner", _plots.BLUE), ("outer", _plots.ORANGE))):
        load = slit_annulus.LARGEST * np.asarray(PARTS)
        left.plot([0, *here[:, column]], [0, *load], color=color, label=f"{what} corner")
        left.plot(published[:, column], load, "o", color=color)
    left.set(xlabel="deflection (m)", ylabel="load (N/m)", title="Slit annular plate, 6 × 30")
    before = int(np.argmax(np.asarray(cylinder["part"]) >= 1.0))
    ways = np.asarray([*cylinder["here"][:before], cylinder["end"][0]["here"]])
    part = np.asarray([*cylinder["part"][:before], 1.0])
    for column, (what, color) in enumerate(
        (
            ("at the force, outwards", _plots.GREEN),
            ("in the middle, inwards", _plots.BLUE),
            ("at the end, inwards", _plots.ORANGE),
        )
    ):
        right.plot(ways[:, column], part * shell_benchmarks.PULL / 1e3, color=color)
        right.plot([], [], color=color, label=what)
        points = shell_benchmarks.PULL_OUT_QUARTER, shell_benchmarks.PULL_OUT
        right.plot([point[column] for point in points], [10.0, 40.0], "o", color=color)
    right.set(xlabel="deflection", ylabel="force / 1000", title=f"Cylinder, {AROUND} × {ALONG}")
    for axis in (left, right):
        axis.legend(fontsize=8)
    _plots.save(figure, path)


def show_stresses(shapes: dict[str, tuple[Any, NDArray, Callable]], path: Path) -> None:
    """Shells in their last shapes with the stresses of their elements."""
    figure = plt.figure(figsize=(9.5, 4.2), layout="constrained")
    for number, (name, (system, q, copies)) in enumerate(shapes.items(), 1):
        corners, stresses = face_stresses(system, q)
        axis = figure.add_subplot(1, len(shapes), number, projection="3d")
        scale = Normalize(0.0, float(np.quantile(stresses, 0.98)))
        colors = plt.get_cmap("viridis")(scale(stresses))
        parts = [corners * np.asarray(signs) for signs in copies()]
        faces = Poly3DCollection(
            np.concatenate(parts),
            facecolors=np.tile(colors, (len(parts), 1)),
            edgecolors="0.3",
            linewidths=0.2,
        )
        axis.add_collection3d(faces)
        points = np.concatenate(parts).reshape(-1, 3)
        low, high = points.min(axis=0), points.max(axis=0)
        axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]), title=name)
        axis.set_box_aspect(high - low)
        axis.set_axis_off()
        bar = plt.cm.ScalarMappable(scale, "viridis")
        figure.colorbar(bar, ax=axis, shrink=0.7, label="stress of von Mises (Pa)")
    _plots.save(figure, path)


def whole() -> list[tuple[float, float, float]]:
    """A shape as it is."""
    return [(1.0, 1.0, 1.0)]


def eighths() -> list[tuple[float, float, float]]:
    """Mirror images of an eighth across three planes."""
    return [(x, y, z) for x in (1.0, -1.0) for y in (1.0, -1.0) for z in (1.0, -1.0)]


def report(results: dict) -> None:
    """Print the tables of the page."""

    def words(numbers: list[float]) -> str:
        return ", ".join(f"{x:.5g}" for x in numbers)

    rows = [
        (
            name,
            line["mesh"],
            words(line["here"]),
            words(line["published"]),
            ", ".join(f"{x:+.2f}" for x in line["percent"]),
        )
        for name, table in (
            *results["statics"].items(),
            ("cylinder pulled by the whole", results["cylinder"]["end"]),
            *results["frequencies"].items(),
        )
        for line in table
    ]
    heads = ("", "mesh", "here", "published", "difference (%)")
    print("", *_report.table(heads, rows, left=2), sep="\n")
    rows = [
        (f"{part:g}", words(here), words(list(slit_annulus.REFERENCE[part])))
        for part, here in zip(PARTS, results["annulus"]["here"], strict=True)
    ]
    print("", *_report.table(("part of 0.8 N/m", "6 × 30", "published"), rows), sep="\n")


def main(folder: Path) -> None:
    """Measure, print tables, write numbers and pictures."""
    lie_jax.configure(fast_loops=False, cache=False)
    results: dict[str, Any] = {"frequencies": frequencies()}
    results["annulus"], ring, ring_q = annulus()
    results["cylinder"], tube, tube_q = pulled_cylinder()
    results["statics"] = statics()
    _report.write_json(folder / "results.json", results, ascii=False)
    show_curves(results["annulus"], results["cylinder"], folder / "curves.png")
    shapes = {"0.8 N/m": (ring, ring_q, whole), "Force of 40000": (tube, tube_q, eighths)}
    show_stresses(shapes, folder / "stresses.png")
    report(results)
