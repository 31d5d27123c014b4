"""Models of other tools: against MuJoCo's own dynamics."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import lie_jax
from lie_jax import io
from tests.suites import cases

# Of the largest entry; accelerations carry the condition of mass matrices, 2e2 to 7e3, once 2e9.
CLOSE = 1e-10
# Two methods of fourth order; they differ by 5e-12, and at twice the step by sixteen times that.
TRAJECTORY = 2e-11
_GYM = Path(find_spec("gymnasium").origin).parent / "envs" / "mujoco" / "assets"
_IN_GYM = ("ant", "hopper", "humanoid", "pusher", "swimmer")
_STATES = 4
_FREE, _BALL = mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL

# A base, two links, a tool and a frame that are fixed to the second one, a slider.
URDF = """
<robot name="arm">
  <link name="base">
    <inertial><origin xyz="0 0 0.1"/><mass value="2"/>
      <inertia ixx="0.1" iyy="0.12" izz="0.1" ixy="0.01" ixz="0" iyz="0"/></inertial>
    <collision><geometry><mesh filename="package://not/there.stl"/></geometry></collision>
  </link>
  <link name="upper">
    <inertial><origin xyz="0 0 0.3" rpy="0.1 0.2 0.3"/><mass value="1"/>
      <inertia ixx="0.1" iyy="0.2" izz="0.15" ixy="0.01" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="tool">
    <inertial><origin xyz="0.1 0 0.3" rpy="0.1 0.2 0.3"/><mass value="0.4"/>
      <inertia ixx="0.01" iyy="0.02" izz="0.015" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="tip"/>
  <link name="slide">
    <inertial><mass value="0.3"/>
      <inertia ixx="0.01" iyy="0.02" izz="0.015" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/>
    <origin xyz="0 0.1 0.2" rpy="0.3 0 0.1"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="2" effort="10" velocity="3"/><dynamics damping="0.3" friction="0.1"/>
  </joint>
  <joint name="weld" type="fixed">
    <parent link="upper"/><child link="tool"/><origin xyz="0 0.1 0.2" rpy="0.3 0 0.1"/>
  </joint>
  <joint name="end" type="fixed"><parent link="tool"/><child link="tip"/></joint>
  <joint name="rail" type="prismatic">
    <parent link="tool"/><child link="slide"/>
    <origin xyz="0.1 0.1 0.2" rpy="0.3 0.5 0.1"/><axis xyz="1 0 1"/>
    <limit lower="-0.2" upper="0.3" effort="5" velocity="3"/><dynamics damping="0.7"/>
  </joint>
</robot>
"""

# A free body, a ball joint with damping, two joints of one body, springs and zeros off zero.
MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <option gravity="0.3 -0.2 -9.7"/>
  <worldbody>
    <body name="torso" pos="0 0 1" quat="0.9 0.1 -0.3 0.2">
      <joint type="free" name="base" armature="0.2"/>
      <inertial pos="0.1 0 0.05" quat="0.9 0.2 0.1 0" mass="3" diaginertia="0.1 0.15 0.2"/>
      <body name="arm" pos="0.2 0.1 0" quat="0.8 0.2 0.1 -0.3">
        <joint name="ball" type="ball" pos="0 0 0.1" damping="0.2" armature="0.03"/>
        <inertial pos="0 0 -0.2" mass="1" diaginertia="0.02 0.03 0.04"/>
      </body>
      <body name="leg" pos="-0.2 0.1 0" quat="0.8 -0.2 0.1 0.3">
        <joint name="slide" type="slide" axis="1 2 0" pos="0.1 0 0" ref="0.1" stiffness="20"
          springref="0.3" damping="2" armature="0.5"/>
        <joint name="hinge" axis="0 1 1" pos="0 0.1 0" ref="0.4" stiffness="3" springref="-0.2"
          damping="0.1" range="-1 1.5" armature="0.01"/>
        <inertial pos="0 0 -0.3" mass="1.2" diaginertia="0.02 0.03 0.04"/>
        <body name="foot" pos="0 0 -0.5"><inertial pos="0.1 0 0" mass="0.2"
          diaginertia="0.001 0.002 0.0015"/><geom name="sole" size="0.1"/></body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="cord"><joint joint="hinge" coef="1"/></fixed></tendon>
  <actuator>
    <motor name="drive" joint="hinge" gear="20" ctrlrange="-1 2" armature="1e-4" damping="2e-3"/>
    <position name="servo" joint="slide" kp="30" kv="1.5" forcerange="-4 5"/>
    <motor name="winch" tendon="cord"/>
  </actuator>
</mujoco>
"""


def _prepared(model: mujoco.MjModel) -> mujoco.MjModel:
    """Without what import leaves out, and tells; with energies."""
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    model.dof_armature[model.jnt_type[model.dof_jntid] == _FREE] = 0.0
    model.dof_frictionloss[:] = 0.0
    model.opt.density = model.opt.viscosity = 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


class _Change(NamedTuple):
    """From MuJoCo's coordinates to ours; `rates` makes its velocities of ours, `drift` is what the
    accelerations have besides.
    """

    q: np.ndarray
    rates: np.ndarray
    drift: np.ndarray


def _change(model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray) -> _Change:
    q, rates, drift, place = [], np.zeros((model.nv, model.nv)), np.zeros(model.nv), 0
    kinds = model.jnt_type
    for joint in sorted(range(model.njnt), key=lambda j: (kinds[j] != _FREE, j)):
        p, d = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        if kinds[joint] == _FREE:
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, qpos[p + 3 : p + 7])
            turn = turn.reshape(3, 3)
            q.append(qpos[p : p + 7])
            rates[d : d + 3, place : place + 3] = turn
            rates[d + 3 : d + 6, place + 3 : place + 6] = np.eye(3)
            drift[d : d + 3] = np.cross(turn @ qvel[d + 3 : d + 6], qvel[d : d + 3])
            place += 6
        elif kinds[joint] == _BALL:
            turned = np.zeros(4)
            mujoco.mju_mulQuat(turned, model.body_quat[model.jnt_bodyid[joint]], qpos[p : p + 4])
            q.append(turned)
            rates[d : d + 3, place : place + 3] = np.eye(3)
            place += 3
        else:
            q.append(qpos[p : p + 1] - model.qpos0[p : p + 1])
            rates[d, place] = 1.0
            place += 1
    return _Change(np.concatenate(q), rates, drift)


def _mass_matrix(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    columns = np.zeros((model.nv, model.nv))
    for unit, column in zip(np.eye(model.nv), columns, strict=True):
        mujoco.mj_mulM(model, data, column, unit)
    return columns


def _check(imported: io.ImportedModel, model: mujoco.MjModel, whole: bool = False) -> None:
    """Accelerations and energies in random states are MuJoCo's; on the whole, all terms are."""
    rng, data = np.random.default_rng(3), mujoco.MjData(model)
    system, state = lie_jax.assemble(imported.mechanism, lie_jax.Minimal())
    home = _change(model, model.qpos0, np.zeros(model.nv)).q
    np.testing.assert_allclose(state.q, home, atol=1e-14)
    assert system.nv == model.nv
    states, expected = [], []
    for _ in range(_STATES):
        qpos = model.qpos0.copy()
        mujoco.mj_integratePos(model, qpos, rng.normal(size=model.nv), 0.5)
        data.qpos[:], data.qvel[:] = qpos, rng.normal(size=model.nv)
        mujoco.mj_forward(model, data)
        change = _change(model, data.qpos, data.qvel)
        matrix = change.rates.T @ _mass_matrix(model, data) @ change.rates
        acceleration = np.linalg.solve(change.rates, data.qacc - change.drift)
        states.append((change.q, np.linalg.solve(change.rates, data.qvel)))
        force, (_, v) = matrix @ acceleration, states[-1]
        energies = 0.5 * v @ matrix @ v, data.energy[0]
        terms = (matrix, force, force) if whole else ()
        expected.append((acceleration, *energies, *terms))
    inputs = jnp.zeros(len(imported.actuators))

    @jax.jit
    @jax.vmap
    def ours(q, v):
        acceleration = system.acceleration(0.0, q, v, inputs)
        values = acceleration, system.kinetic_energy(q, v), system.potential_energy(q)
        if not whole:
            return values
        matrix = system.mass_matrix(q)
        residual = system.residual(0.0, q, v, 2.0 * acceleration, jnp.zeros(0), inputs)
        force_of_residual = matrix @ (2.0 * acceleration) - residual
        return *values, matrix, system.force(0.0, q, v, inputs), force_of_residual

    found = ours(*(jnp.asarray(np.stack(x)) for x in zip(*states, strict=True)))
    names = "acceleration", "kinetic energy", "potential energy"
    names += ("mass matrix", "force", "force in the residual") if whole else ()
    for what, computed, theirs in zip(names, found, zip(*expected, strict=True), strict=True):
        difference = np.asarray(computed) - np.stack(theirs)
        if what == "potential energy":
            # MuJoCo counts bodies that cannot move, too.
            difference -= difference[0]
        error = np.max(np.abs(difference))
        assert error <= CLOSE * np.max(np.abs(theirs)), (what, error)


@pytest.mark.filterwarnings("ignore:import_model leaves out")
@pytest.mark.parametrize("name", cases(_IN_GYM, []))
def test_models_in_packages_have_the_dynamics_of_mujoco(name):
    path = _GYM / f"{name}.xml"
    model = _prepared(mujoco.MjModel.from_xml_path(str(path)))
    _check(io.import_model(path), model, whole=True)


@pytest.fixture
def mjcf(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(MJCF)
    with pytest.warns(UserWarning, match="import_model leaves out") as warned:
        imported = io.import_model(path)
    (warning,) = warned
    # What the model adds by laws of the user is in the table alone.
    assert "without them: rotor inertia (armature) of base. All" in str(warning.message)
    assert imported.ignored["contacts, which `contacts` adds, of"] == ("sole",)
    assert imported.ignored["limits, which `stops` adds, of"] == ("hinge",)
    return imported


def test_mjcf(mjcf):
    _check(mjcf, _prepared(mujoco.MjModel.from_xml_string(MJCF)))
    assert mjcf.mechanism.names == ("torso", "arm", "leg after slide", "leg")
    assert [joint.name for joint in mjcf.joints] == ["ball", "slide", "hinge"]
    _, slide, hinge = mjcf.joints
    assert (slide.zero, hinge.zero) == pytest.approx((0.1, 0.4))
    assert hinge.limits == pytest.approx((-1.4, 1.1))
    assert slide.limits == (-np.inf, np.inf)
    drive, servo, winch = mjcf.actuators
    free = (-np.inf, np.inf)
    assert drive == ("drive", "hinge", 20.0, (-20.0, 40.0), 0.0, 0.0, "joint", free)
    assert servo == ("servo", "slide", 30.0, free, 30.0, 1.5, "joint", (-4.0, 5.0))
    assert winch == ("winch", "cord", 1.0, free, 0.0, 0.0, "tendon", free)
    assert not any("actuators" in kind for kind in mjcf.ignored)


@pytest.mark.full
def test_a_trajectory_is_that_of_mujoco(mjcf):
    model = _prepared(mujoco.MjModel.from_xml_string(MJCF))
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.timestep = h = 1e-3
    data, rng, steps = mujoco.MjData(model), np.random.default_rng(4), 200
    data.qvel[:] = rng.normal(size=model.nv)
    system, state = lie_jax.assemble(mjcf.mechanism, lie_jax.Minimal())
    start = _change(model, data.qpos, data.qvel)
    state = lie_jax.State(state.q, jnp.asarray(np.linalg.solve(start.rates, data.qvel)))
    for _ in range(steps):
        mujoco.mj_step(model, data)
    end = _change(model, data.qpos, data.qvel)
    run = lie_jax.simulate(
        system, lie_jax.RKMK("rk4"), state, dt=h, steps=steps, inputs=jnp.zeros((steps, 3))
    )
    np.testing.assert_allclose(run.q[-1], end.q, atol=TRAJECTORY)
    np.testing.assert_allclose(run.v[-1], np.linalg.solve(end.rates, data.qvel), atol=TRAJECTORY)


# `make test` has robots of such files in the tests of robotics.
@pytest.mark.full
def test_urdf(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF)
    with pytest.warns(UserWarning, match="meshes whose files are missing, of base"):
        fixed = io.import_model(path)
    with pytest.warns(UserWarning, match=f"files of meshes that are missing {tmp_path}/not/there"):
        floating = io.import_model(path, floating_base=True)
    assert floating.ignored["dry friction, which `dry_friction` adds, of"] == ("shoulder",)
    spec = mujoco.MjSpec.from_string(URDF)
    for part in (*spec.geoms, *spec.meshes):
        spec.delete(part)
    _check(fixed, _prepared(spec.compile()))
    assert fixed.mechanism.names == ("upper", "slide")
    assert floating.mechanism.names == ("base", "upper", "slide")
    for imported in (fixed, floating):
        assert [joint.limits for joint in imported.joints] == [(-1.0, 2.0), (-0.2, 0.3)]
        assert imported.actuators == (
            ("shoulder", "shoulder", 1.0, (-10.0, 10.0), 0.0, 0.0, "joint", (-10.0, 10.0)),
            ("rail", "rail", 1.0, (-5.0, 5.0), 0.0, 0.0, "joint", (-5.0, 5.0)),
        )
        assert [joint.velocity_limit for joint in imported.joints] == [3.0, 3.0]
        assert [joint.force_limits for joint in imported.joints] == [(-10.0, 10.0), (-5.0, 5.0)]
    # Joints as constraints.
    tree, at_rest = lie_jax.assemble(floating.mechanism, lie_jax.Minimal())
    loose, start = lie_jax.assemble(floating.mechanism, lie_jax.SE3())
    (_, positions), (_, expected), constraint = jax.jit(
        lambda: (loose.poses(start.q), tree.poses(at_rest.q), loose.constraint(0.0, start.q))
    )()
    np.testing.assert_allclose(positions, expected, atol=1e-15)
    assert constraint.shape == (10,)
    np.testing.assert_allclose(constraint, 0.0, atol=1e-15)


@pytest.mark.full
def test_inputs_are_forces_of_the_actuators(mjcf):
    model = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(model)
    data.ctrl[0] = 0.3
    mujoco.mj_forward(model, data)
    system, state = lie_jax.assemble(mjcf.mechanism, lie_jax.Minimal())
    inputs = mjcf.inputs({"drive": mjcf.actuators[0].gain * 0.3})
    force = jax.jit(lambda *given: system.force(*given))
    with_input, without = (
        force(0.0, state.q, state.v, u) for u in (inputs, jnp.zeros_like(inputs))
    )
    change = with_input - without
    hinge = model.joint("hinge").dofadr[0]
    assert data.actuator_force[0] == pytest.approx(0.3)
    np.testing.assert_allclose(change[hinge], data.qfrc_actuator[hinge], rtol=1e-12)
    np.testing.assert_allclose(np.delete(change, hinge), 0.0, atol=1e-12)


def _warned(path: Path, text: str, match: str, **options) -> io.ImportedModel:
    path.write_text(text)
    with pytest.warns(UserWarning, match=match):
        return io.import_model(path, **options)


def test_what_flags_switch_off_is_not_there(tmp_path):
    def forces(flags: str) -> tuple:
        flagged = MJCF.replace("<option ", "<option actuatorgroupdisable='3' ").replace(
            '-9.7"/>', f'-9.7"><flag {flags}/></option>'
        )
        flagged = flagged.replace('<position name="servo"', '<position name="servo" group="3"')
        match = "actuators that the file switches off servo"
        imported = _warned(tmp_path / "flags.xml", flagged, match)
        assert imported.ignored["actuators that the file switches off"] == ("servo",)
        assert [actuator.name for actuator in imported.actuators] == ["drive", "winch"]
        assert not imported.mechanism.gravity.any()
        return imported.mechanism.forces

    # Of the ball joint, of the slider and of the hinge with its actuator, whose gear is 20.
    ball, slide, hinge, *_ = forces('gravity="disable" spring="disable"')
    assert (ball.coefficient, hinge.stiffness) == (0.2, 0.0)
    assert hinge.damping == pytest.approx(0.1 + 20.0**2 * 2e-3)
    assert (slide.stiffness, slide.damping) == (0.0, 2.0)
    slide, hinge, *_ = forces('gravity="disable" damper="disable"')
    assert (hinge.stiffness, hinge.damping) == (3.0, 0.0)
    assert (slide.stiffness, slide.damping) == (20.0, 0.0)


def test_laws_that_are_not_imported_are_named(tmp_path):
    text = MJCF.replace('gear="20"', 'gear="20" delay="0.02" nsample="3"')
    text = text.replace('damping="2e-3"', 'damping="2e-3 0.1 0"')
    text = text.replace('springref="-0.2"', 'springref="-0.2" springyield="0.1"')
    ignored = _warned(tmp_path / "laws.xml", text, "control laws of the actuators drive").ignored
    assert ignored["control laws of the actuators"] == ("drive",)
    assert ignored["nonlinear dampers of the actuators"] == ("drive",)
    assert ignored["yielding springs of"] == ("hinge",)


def test_limits_in_the_wrong_order_are_named(tmp_path):
    text = URDF.replace('lower="-1" upper="2"', 'lower="2" upper="-1"')
    imported = _warned(tmp_path / "arm.urdf", text, "lower above upper. of shoulder")
    assert imported.joints[0].limits == (-np.inf, np.inf)


BAD = {
    "<robot><link name='a'></robot>": "is not an XML file.*mismatched tag",
    "<robot name='r'><link name='a'/><joint name='j' type='revolute'><parent link='a'/>"
    "<child link='b'/></joint></robot>": "cannot be compiled: .*",
    "<robot name='r'><link name='a'/></robot>": "robot.urdf.* nothing moves",
    "<mujoco><worldbody><body><joint/></body></worldbody></mujoco>": "cannot be compiled: .*mass",
}


@pytest.mark.parametrize("text", BAD)
def test_broken_files(tmp_path, text):
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    with pytest.raises(ValueError, match=BAD[text]):
        io.import_model(path)


def test_files_that_are_not_there_and_bases_that_are_free_already(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a file"):
        io.import_model(tmp_path / "nothing.xml")
    (tmp_path / "robot.xml").write_text(MJCF)
    with pytest.raises(ValueError, match="is an MJCF file"):
        io.import_model(tmp_path / "robot.xml", floating_base=True)


@pytest.mark.full
def test_limits_are_named_once_and_where_there_are_any(tmp_path, recwarn):
    def joint(name, kind, parent, limit):
        inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        return (
            f'<link name="{name}"><inertial><mass value="1"/>{inertia}</inertial></link>'
            f'<joint name="to {name}" type="{kind}"><parent link="{parent}"/><child link="{name}"/>'
            f'<axis xyz="0 0 1"/><limit {limit} effort="3" velocity="2"/></joint>'
        )

    for kind, limit, count in (("continuous", "", 0), ("revolute", 'lower="-1" upper="1"', 1)):
        links = joint("a", "continuous", "base", "") + joint("b", kind, "a", limit)
        (tmp_path / "arm.urdf").write_text(f'<robot name="r"><link name="base"/>{links}</robot>')
        ignored = io.import_model(tmp_path / "arm.urdf").ignored
        assert ignored.get("limits, which `stops` adds, of", ()) == ("to b",) * count
        assert not recwarn
