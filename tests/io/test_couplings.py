"""Equality constraints of files: against MuJoCo's own Jacobians, and index-1 equations of them."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import lie_jax
from lie_jax import io

# Constraints at a point of the manifold that Newton's method finds, and their Jacobians.
CLOSE = 1e-9
# A difference of MuJoCo's Jacobians over 2e-6 of a second.
ACCELERATIONS = 1e-6

# Two legs of a floating trunk with rotor inertia, closed by a ball; a gripper whose second finger
# follows the first, a slider that follows a hinge along a parabola, a hinge that is held, a bar
# that is welded across two links, and two hinges on a cord of constant length.
MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="trunk" pos="0 0 1"><freejoint/>
      <geom type="box" size="0.3 0.2 0.1"/>
      <body name="left" pos="0.3 0 0"><joint name="l1" axis="0 1 0" armature="0.2"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.03"/>
        <body name="shin" pos="0 0 -0.5"><joint name="l2" axis="0 1 0" armature="0.1"/>
          <geom type="capsule" fromto="0 0 0 -0.3 0 0" size="0.03"/>
          <site name="tip" pos="-0.3 0 0"/><site name="top"/>
        </body>
      </body>
      <body name="right" pos="-0.3 0 0"><joint name="r1" axis="0 1 0" armature="0.2"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.03"/>
        <body name="shank" pos="0 0 -0.5"><joint name="r2" axis="0 1 0" damping="0.1"/>
          <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
        </body>
      </body>
      <body name="finger1" pos="0 0.3 0"><joint name="f1" type="slide" axis="1 0 0" ref="0.01"/>
        <geom size="0.05"/></body>
      <body name="finger2" pos="0 0.4 0"><joint name="f2" axis="0 0 1" ref="0.3"/>
        <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03"/></body>
      <body name="cam" pos="0 -0.4 0"><joint name="c" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0 0.2 0" size="0.03"/></body>
      <body name="fixed" pos="0 -0.6 0"><joint name="h" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0 0.2 0" size="0.03"/></body>
      <body name="cord1" pos="0 -0.7 0"><joint name="t1" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0 0.2 0" size="0.03"/></body>
      <body name="cord2" pos="0 -0.8 0"><joint name="t2" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0 0.2 0" size="0.03"/></body>
    </body>
    <body name="bar" pos="0.2 1 1" quat="0.9 0.1 0.2 0.3"><freejoint/>
      <geom type="box" size="0.1 0.2 0.3"/></body>
  </worldbody>
  <tendon><fixed name="cord"><joint joint="t1" coef="2"/><joint joint="t2" coef="0.5"/></fixed>
    <spatial name="rope"><site site="tip"/><site site="top"/></spatial></tendon>
  <equality>
    <connect name="ball" body1="shin" body2="shank" anchor="-0.3 0 0"/>
    <weld name="glue" body1="trunk" body2="bar" anchor="0.1 0 0"/>
    <joint joint1="f2" joint2="f1" polycoef="0 2 0 0 0"/>
    <joint name="parabola" joint1="f1" joint2="c" polycoef="0 0.1 0.4 0 0"/>
    <joint name="held" joint1="h" polycoef="0.2 0 0 0 0"/>
    <tendon name="constant" tendon1="cord" polycoef="0 0 0 0 0"/>
    <tendon name="long" tendon1="rope"/>
    <connect name="off" body1="shin" body2="cam" anchor="0 0 0" active="false"/>
  </equality>
</mujoco>
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "loops.xml"
    path.write_text(MJCF)
    with pytest.warns(UserWarning, match="import_model leaves out"):
        return io.import_model(path)


def test_what_becomes_of_equality_constraints(imported):
    assert [(c.name, c.kind, c.first, c.second) for c in imported.couplings] == [
        ("ball", "connect", "shin", "shank"),
        ("glue", "weld", "trunk", "bar"),
        ("equality 2", "joint", "f2", "f1"),
        ("parabola", "joint", "f1", "c"),
        ("held", "joint", "h", ""),
        ("constant", "joint", "t1", "t2"),
    ]
    assert imported.ignored["equality constraints"] == ("long",)
    assert imported.ignored["equality constraints that the file switches off"] == ("off",)


def _theirs(model, qpos):
    """Values and Jacobian of MuJoCo's equality constraints."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_fwdPosition(model, data)
    jacobian = data.efc_J.reshape(-1, model.nv)[: data.ne].copy()
    return data.efc_pos[: data.ne].copy(), jacobian


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:import_model leaves out")
def test_accelerations_are_those_of_mujocos_constraints(tmp_path):
    model = mujoco.MjModel.from_xml_string(MJCF)
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    # The tendon that is not imported goes last.
    model.eq_active0[6] = 0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    rng, qpos = np.random.default_rng(2), model.qpos0.copy()
    mujoco.mj_integratePos(model, qpos, rng.normal(size=model.nv), 0.2)
    for _ in range(20):
        values, jacobian = _theirs(model, qpos)
        mujoco.mj_integratePos(model, qpos, -np.linalg.pinv(jacobian) @ values, 1.0)
    values, jacobian = _theirs(model, qpos)
    np.testing.assert_allclose(values, 0.0, atol=CLOSE)
    qvel = rng.normal(size=model.nv)
    qvel -= np.linalg.pinv(jacobian) @ jacobian @ qvel
    # Index-1 equations with MuJoCo's masses, forces and Jacobians.
    changes = []
    for h in (1e-6, -1e-6):
        moved = qpos.copy()
        mujoco.mj_integratePos(model, moved, qvel, h)
        changes.append(_theirs(model, moved)[1] @ qvel)
    drift = (changes[0] - changes[1]) / 2e-6
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    for unit, column in zip(np.eye(model.nv), mass, strict=True):
        mujoco.mj_mulM(model, data, column, unit)
    force = data.qfrc_passive + data.qfrc_actuator - data.qfrc_bias
    n = len(values)
    saddle = np.block([[mass, jacobian.T], [jacobian, np.zeros((n, n))]])
    expected = np.linalg.lstsq(saddle, np.concatenate([force, -drift]), rcond=None)[0][: model.nv]

    words = (" ".join(map(repr, x.tolist())) for x in (qpos, qvel))
    key = '<keyframe><key name="start" qpos="{}" qvel="{}"/></keyframe></mujoco>'.format(*words)
    (tmp_path / "start.xml").write_text(MJCF.replace("</mujoco>", key))
    imported = io.import_model(tmp_path / "start.xml")
    system, _ = lie_jax.assemble(imported.mechanism, lie_jax.Minimal())
    assert (system.nv, system.nc) == (model.nv, n)
    start = imported.keyframes["start"]
    q, v = jnp.asarray(start.q), jnp.asarray(start.v)
    acceleration, constraint, rate = jax.jit(
        lambda: (
            system.acceleration(0.0, q, v),
            system.constraint(0.0, q),
            system.constraint_rate(0.0, q, v),
        )
    )()
    np.testing.assert_allclose(constraint, 0.0, atol=CLOSE)
    np.testing.assert_allclose(rate, 0.0, atol=CLOSE)
    # Both free bodies come first, with the acceleration of their body-fixed twist.
    free = [model.body(name).dofadr[0] for name in ("trunk", "bar")]
    moved = []
    for dof in free:
        place, turn = model.jnt_qposadr[model.dof_jntid[dof]], np.zeros(9)
        mujoco.mju_quat2Mat(turn, qpos[place + 3 : place + 7])
        (linear, angular), (velocity, omega) = (
            x[dof : dof + 6].reshape(2, 3) for x in (expected, qvel)
        )
        back = turn.reshape(3, 3).T
        moved += [back @ linear - np.cross(omega, back @ velocity), angular]
    others = np.delete(expected, [dof + k for dof in free for k in range(6)])
    np.testing.assert_allclose(acceleration, np.concatenate([*moved, others]), atol=ACCELERATIONS)
