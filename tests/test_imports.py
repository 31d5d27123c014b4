"""Imports point one way; the package offers what it promises and is light to import."""

import ast
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax

PACKAGE = Path(lie_jax.__file__).parent

# Each layer imports from layers above it in this list and from its own; integrators and mechanics
# are siblings.
LAYERS = [
    {"jax_internals"},
    {
        *(
            "algebra",
            "batch_algebra",
            "block_trees",
            "callables",
            "checks",
            "config",
            "derivatives",
            "memory",
            "linear",
            "fingerprints",
            "unfinished",
            "padding",
            "sharding",
        ),
        "integrators.tableaux",
    },
    {"series"},
    {
        *("groups.rotation_algebra", "groups.quaternion", "groups.so3", "groups.se3"),
        *("groups.adjoint", "groups.rn", "groups.product", "groups.closed_forms"),
        *("groups.tait_bryan", "groups.euler_parameters", "groups.unified_velocity"),
    },
    {"spaces", "body_spaces", "pose_spaces", "joint_spaces"},
    {"calculus"},
    {"system"},
    {"trajectory"},
    {"newton", "redundancy", "limits", "jax_guard"},
    {
        "integrators.adaptive",
        "integrators.alpha_start",
        "integrators.alpha_step",
        "integrators.base",
        "integrators.explicit",
        "integrators.generalized_alpha",
        "integrators.implicit_rkmk",
        "integrators.stability",
        "integrators.stabilization",
    },
    {"adjoints", "fixed_steps", "adaptive_steps", "preflight"},
    {"simulate", "transforms", "interop", "diffrax_adapter"},
    {"parameters", "recordings", "estimation", "identifiability", "fitting", "fitting_methods"},
    {"sweep_batches", "sweep_storage"},
    {"identify", "monte_carlo", "sweep"},
    {"io.files", "io.models", "io.unsupported"},
    {"viz.look", "viz.shapes", "viz.plots", "viz.scene"},
    {
        "control.backward",
        "control.box",
        "control.expansion",
        "control.iterative_lqr",
        "control.nonlinear",
        "control.preflight",
        "control.problem",
        "control.programme",
        "control.search_steps",
        "control.shooting",
        "control.solution",
        "control.splines",
        "control.transcription",
    },
]
MECHANICS_ABOVE = 7


def _modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if not name.endswith("__init__"):
            yield name, ast.parse(path.read_text())


def _imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("lie_jax."):
                    yield alias.name.removeprefix("lie_jax.")
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where they point"
            if (node.module or "").startswith("lie_jax"):
                base = (node.module or "").removeprefix("lie_jax").lstrip(".")
                for alias in node.names:
                    name = f"{base}.{alias.name}".lstrip(".")
                    yield name if _is_module(base, alias.name) else base


def _is_module(base, name):
    return (PACKAGE / base.replace(".", "/") / f"{name}.py").exists()


def _layer(module):
    for number, layer in enumerate(LAYERS):
        if module in layer:
            return number
    assert module.startswith("mechanics."), f"{module} has no place in the layers"
    return MECHANICS_ABOVE


def test_imports_point_one_way():
    seen = set()
    for module, tree in _modules():
        seen.add(module)
        for imported in _imports(tree):
            assert _layer(imported) <= _layer(module), f"{module} imports {imported}"
            # Pictures and files of other tools are of bodies and joints.
            if module.startswith("viz.") or module in ("io.models", "io.unsupported"):
                continue
            if module.startswith("mechanics.") != imported.startswith("mechanics."):
                assert not imported.startswith("mechanics."), f"{module} imports {imported}"
                assert _layer(imported) < MECHANICS_ABOVE, f"{module} imports {imported}"
    assert {m for layer in LAYERS for m in layer} <= seen


def test_no_import_cycles():
    graph = {module: set(_imports(tree)) - {module} for module, tree in _modules()}
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path, module])
        if module in done:
            return
        path.append(module)
        for imported in graph.get(module, ()):
            visit(imported)
        done.add(path.pop())

    for module in graph:
        visit(module)


def test_integrators_mention_no_formulation():
    for path in (PACKAGE / "integrators").glob("*.py"):
        text = path.read_text()
        for word in ("mechanics", "R3SO3", "quaternion", "rotation_vector"):
            assert word not in text.replace("SO(3)", ""), f"{path.name} mentions {word}"


PUBLIC = {
    "so3": "hat vee exp log dexp dexp_inv ddexp ddexp_inv cay cay_inv dcay dcay_inv ddcay "
    "ddcay_inv ad Ad bch",
    "se3": "hat vee exp log dexp dexp_inv ddexp ddexp_inv cay cay_inv dcay dcay_inv ddcay "
    "ddcay_inv ad Ad identity compose inverse act",
    "quaternion": "multiply conjugate exp log to_matrix from_matrix rotate",
    "control": "ilqr shoot spline_basis Solution History",
    "": "R3SO3 SE3 TaitBryan EulerParameters UnifiedVelocity Minimal Mechanism assemble Body "
    "SphericalJoint RevoluteJoint PrismaticJoint RigidJoint PointForce Torque ViscousFriction "
    "UniversalJoint CylindricalJoint PlanarJoint DistanceJoint RevoluteDriver "
    "TorsionalSpringDamper Bushing RollingDisc GearJoint PrismaticDriver "
    "CoordinateJoint RevoluteMotor PrismaticMotor "
    "TorsionalSpringDamper PDController PrismaticPDController "
    "CartesianSpringDamper LinearSpringDamper State RKMK CommutatorFree CrouchGrossman RungeKutta "
    "ImplicitRKMK GeneralizedAlpha Adaptive Projection Baumgarte Tableau simulate identify project "
    "monte_carlo MonteCarlo Identifiability rows_at sweep Sweep "
    "configure cache_compilations configure_cpu enable_x64 AbstractSystem Trajectory Result "
    "SimulationError Identification transforms io Restart",
}


def test_public_names_are_there_and_documented():
    for module, names in PUBLIC.items():
        holder = getattr(lie_jax, module) if module else lie_jax
        for name in names.split():
            assert (getattr(holder, name).__doc__ or "").strip(), f"{module}.{name}"


def test_reference_has_every_public_name():
    reference = (PACKAGE.parent / "docs" / "reference.md").read_text()
    listed = {line.removeprefix("::: ") for line in reference.splitlines() if line[:4] == "::: "}
    missing = []
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        for alias in getattr(node, "names", ()):
            thing = getattr(lie_jax, alias.name)
            module = getattr(thing, "__module__", None) or thing.__name__
            found = {f"lie_jax.{alias.name}", module, f"{module}.{alias.name}"}
            inside = any(entry.startswith(f"{module}.") for entry in listed)
            if not found & listed and not inside:
                missing.append(alias.name)
    assert not missing


def test_parts_of_jax_without_promise_are_used_in_one_module():
    private = ("jax._src", "jax.extend", "jax.interpreters", "jax.core", "equinox.internal")
    users = {
        path.stem
        for path in PACKAGE.rglob("*.py")
        if any(word in path.read_text() for word in private)
    }
    assert users == {"jax_internals"}


def test_import_needs_no_test_or_plot_library():
    program = (
        "import sys, lie_jax; "
        "heavy = {'matplotlib', 'beartype', 'diffrax', 'pytest', 'scipy.optimize'}; "
        "heavy |= {'zarr', 'xarray', 'mujoco', 'viser', 'optax', 'optimistix', 'scipy.special'}; "
        "assert not heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("viz", "viser", "viz"), ("diffrax_adapter", "diffrax", "diffrax")],
)
def test_missing_packages_are_named_with_their_extra(module, package, extra):
    program = f"import sys; sys.modules[{package!r}] = None; import lie_jax.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"not installed: pip install 'lie-jax[{extra}]'" in done.stderr


def test_installed_jax_reduces_large_batches_rightly():
    """Jax 0.10.2 returns wrong numbers here on CPU: it must not be installed."""
    assert jax.__version__ != "0.10.2"
    rng = np.random.default_rng(0)
    a, x = rng.normal(size=(20_000, 3, 3)), rng.normal(size=(20_000, 3))
    got = jax.jit(jax.vmap(lambda a, x: jnp.sum(a * x[None, :], axis=1)))(
        jnp.asarray(a), jnp.asarray(x)
    )
    np.testing.assert_allclose(got, np.einsum("nij,nj->ni", a, x), rtol=1e-12, atol=1e-14)
