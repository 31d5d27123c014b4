"""Imports point one way; the package offers what it promises and is light to import."""

import ast
import operator
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lie_jax

PACKAGE = Path(lie_jax.__file__).parent

# Each floor imports from itself and from the floors before it; rooms of one floor know nothing of
# each other.
FLOORS = [
    {"numerics"},
    {"user_functions"},
    {"checks"},
    {"config", "groups"},
    {"spaces", "mechanics"},
    {"systems"},
    {"integrators", "multibody"},
    {"simulation", "statics"},
    {"estimation", "sweeps", "control", "robotics", "orbits"},
    {"io"},
    {"viz"},
    # Names of the rooms below for users.
    {"beams", "contact", "extend", "shells", "solids"},
]


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


def _room(module):
    return module.split(".")[0]


def test_imports_point_one_way():
    floor_of = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    assert {_room(module) for module, _ in _modules()} == set(floor_of)
    for module, tree in _modules():
        for imported in _imports(tree):
            here, there = _room(module), _room(imported)
            assert here == there or floor_of[there] < floor_of[here], f"{module} imports {imported}"


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
    for path in (PACKAGE / "integrators").rglob("*.py"):
        text = path.read_text()
        for word in ("mechanics", "multibody", "R3SO3", "quaternion", "rotation_vector"):
            assert word not in text.replace("SO(3)", ""), f"{path.name} mentions {word}"


PUBLIC = {
    "groups.so3": "hat vee exp log dexp dexp_inv ddexp ddexp_inv cay cay_inv dcay dcay_inv ddcay "
    "ddcay_inv ad Ad bch",
    "groups.se3": "hat vee exp log dexp dexp_inv ddexp ddexp_inv cay cay_inv dcay dcay_inv ddcay "
    "ddcay_inv ad Ad identity compose inverse act",
    "groups.quaternion": "multiply conjugate exp log to_matrix from_matrix rotate",
    "robotics": "inverse_dynamics bias_force gravity_force coriolis_matrix operational_inertia "
    "center_of_mass center_of_mass_jacobian centroidal_momentum centroidal_momentum_matrix "
    "inertial_parameters torque_regressor joint_state stand Frame inverse_kinematics "
    "InverseKinematics InverseKinematicsError",
    "control": "Guess History Multipliers Optimum Phase Solution ilqr shoot solve spline_basis",
    "contact": "Contact Coulomb HuntCrossley SmoothLinear Sphere Plane HeightField HeightGrid",
    "beams": "Beam Line NodeLoad Section line rectangle circle tube of_material distributed",
    "shells": "Pressure Shell Shells Surface isotropic pressure readings surface",
    "estimation": "identify Identification Identifiability monte_carlo MonteCarlo rows_at "
    "transforms Experiment Model filter Filtered smooth Smoothed ChiSquare",
    "extend": "AbstractForce AbstractJoint AbstractJointForce AbstractIntegrator AbstractSystem "
    "AbstractChart AbstractFormulation AbstractCoordinates AbstractShape AbstractNormalLaw "
    "Motion Rn Validity fields",
    "": "R3SO3 SE3 TaitBryan EulerParameters UnifiedVelocity Minimal Mechanism assemble Body "
    "SphericalJoint RevoluteJoint PrismaticJoint RigidJoint PointForce Torque ViscousFriction "
    "UniversalJoint CylindricalJoint PlanarJoint DistanceJoint JointDriver "
    "Bushing RevoluteBushing RollingDisc GearJoint CouplingJoint CouplingForce "
    "CoordinateJoint GenericJoint JointSpring JointMotor JointController JointStop JointFriction "
    "CartesianSpringDamper LinearSpringDamper State RKMK CommutatorFree CrouchGrossman RungeKutta "
    "ImplicitRKMK GeneralizedAlpha Adaptive Projection Baumgarte Tableau simulate project "
    "batched sweep Sweep configure Trajectory Result SimulationError io Restart place energies",
}


def test_public_names_are_there_and_documented():
    for module, names in PUBLIC.items():
        holder = operator.attrgetter(module)(lie_jax) if module else lie_jax
        for name in names.split():
            assert (getattr(holder, name).__doc__ or "").strip(), f"{module}.{name}"


def test_parts_of_jax_without_promise_are_used_in_one_module():
    private = re.compile(r"(?<!\w)(jax\.(_src|extend|interpreters|core)|equinox\.internal)")
    users = {path.stem for path in PACKAGE.rglob("*.py") if private.search(path.read_text())}
    assert users == {"jax_internals"}


def test_import_needs_no_test_or_plot_library_and_leaves_the_precision_alone():
    program = (
        "import sys, jax, lie_jax; "
        "assert not jax.config.read('jax_enable_x64'); "
        "heavy = {'matplotlib', 'beartype', 'diffrax', 'pytest', 'scipy.optimize'}; "
        "heavy |= {'zarr', 'xarray', 'mujoco', 'viser', 'optax', 'optimistix', 'scipy.special'}; "
        "heavy |= {'lie_jax.control', 'lie_jax.io', 'lie_jax.viz'}; "
        "assert not heavy & set(sys.modules); "
        "lie_jax.control.ilqr, lie_jax.io.save"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("room", ["beams", "contact", "extend", "shells", "solids"])
def test_rooms_of_names_hold_no_others(room):
    module = getattr(lie_jax, room)
    # The checks of types in tests add `jaxtyping`.
    names = {name for name in vars(module) if name[0] != "_"} - {"jaxtyping"}
    assert names == set(module.__all__)


def test_names_of_rooms_are_found():
    with pytest.raises(AttributeError, match=r"it is lie_jax\.estimation\.rows_at$"):
        lie_jax.rows_at  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'rows'$"):
        lie_jax.rows  # noqa: B018


def test_rooms_that_are_imported_late_are_listed():
    assert {*lie_jax.__all__, "viz", "__version__"} == set(dir(lie_jax))


EXTRAS = {"viz": ("viser", "viz"), "io.diffrax": ("diffrax", "diffrax")}
_WITHOUT = f"""
import importlib
import sys
for module, (package, _) in {EXTRAS}.items():
    sys.modules[package] = None
    try:
        importlib.import_module("lie_jax." + module)
    except ImportError as error:
        print(error)
"""


@pytest.mark.full
def test_missing_packages_are_named_with_their_extra():
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True)
    for _, extra in EXTRAS.values():
        assert (
            f"not installed: in the clone of lie_jax run pip install '.[{extra}]'" in done.stdout
        ), done.stderr


def test_installed_jax_reduces_large_batches_rightly():
    """Jax 0.10.2 returns wrong numbers here on CPU: it must not be installed."""
    assert jax.__version__ != "0.10.2"
    rng = np.random.default_rng(0)
    a, x = rng.normal(size=(20_000, 3, 3)), rng.normal(size=(20_000, 3))
    got = jax.jit(jax.vmap(lambda a, x: jnp.sum(a * x[None, :], axis=1)))(
        jnp.asarray(a), jnp.asarray(x)
    )
    np.testing.assert_allclose(got, np.einsum("nij,nj->ni", a, x), rtol=1e-12, atol=1e-14)
