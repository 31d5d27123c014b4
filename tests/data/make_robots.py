"""Write robots.json: dynamics of arm.urdf and walker.urdf by Pinocchio (pip install pin==4.1.0).

States are random. Velocities, forces and bodies are in the order of `joints`; the base of the
walker comes first, with its position, quaternion (scalar first) and body-fixed twist.
"""

import json
from pathlib import Path

import numpy as np
import pinocchio

HERE = Path(__file__).parent
ROBOTS = {"arm": None, "walker": pinocchio.JointModelFreeFlyer()}


def robot(name, root):
    """Quantities of one robot in one state."""
    file = str(HERE / f"{name}.urdf")
    model = pinocchio.buildModelFromUrdf(file, *(() if root is None else (root,)))
    data, rng = model.createData(), np.random.default_rng(4)
    joints = range(1, model.njoints)
    ours, q = [], pinocchio.neutral(model)
    for i in joints:
        at, count = model.idx_qs[i], model.nqs[i]
        if count == 7:
            position, quaternion = rng.normal(size=3), rng.normal(size=4)
            quaternion = quaternion / np.linalg.norm(quaternion)
            q[at : at + 7] = [*position, *np.roll(quaternion, -1)]
            ours += [*position, *quaternion]
            continue
        angle = rng.uniform(-1.5, 1.5)
        q[at : at + count] = (np.cos(angle), np.sin(angle)) if count == 2 else angle
        ours.append(angle)
    v, a = rng.normal(size=(2, model.nv))
    half = np.triu(pinocchio.crba(model, data, q))
    values = {
        "mass_matrix": half + np.triu(half, 1).T,
        "inverse_dynamics": pinocchio.rnea(model, data, q, v, a).copy(),
        "bias_force": pinocchio.nonLinearEffects(model, data, q, v).copy(),
        "gravity_force": pinocchio.computeGeneralizedGravity(model, data, q).copy(),
        "coriolis_matrix": pinocchio.computeCoriolisMatrix(model, data, q, v).copy(),
        "torque_regressor": pinocchio.computeJointTorqueRegressor(model, data, q, v, a).copy(),
        "center_of_mass": pinocchio.centerOfMass(model, data, q).copy(),
        "center_of_mass_jacobian": pinocchio.jacobianCenterOfMass(model, data, q).copy(),
        "kinetic_energy": pinocchio.computeKineticEnergy(model, data, q, v),
        "potential_energy": pinocchio.computePotentialEnergy(model, data, q),
    }
    pinocchio.ccrba(model, data, q, v)
    values |= {
        "centroidal_momentum": data.hg.vector.copy(),
        "centroidal_momentum_matrix": data.Ag.copy(),
        "inertial_parameters": np.concatenate(
            [model.inertias[i].toDynamicParameters() for i in joints]
        ),
    }
    pinocchio.forwardKinematics(model, data, q, v, a)
    local = pinocchio.ReferenceFrame.LOCAL
    values |= {
        "pose": [data.oMi[i].homogeneous for i in joints],
        "twist": [pinocchio.getVelocity(model, data, i, local).vector for i in joints],
        "acceleration": [pinocchio.getAcceleration(model, data, i, local).vector for i in joints],
        "jacobian": [pinocchio.computeJointJacobian(model, data, q, i).copy() for i in joints],
    }
    state = {"q": ours, "v": v, "acceleration": a}
    lists = {key: np.asarray(value).tolist() for key, value in values.items()}
    return {
        "joints": list(model.names[1:]),
        "state": {key: np.asarray(value).tolist() for key, value in state.items()},
        "values": lists,
    }


if __name__ == "__main__":
    made = {name: robot(name, root) for name, root in ROBOTS.items()}
    made["made_by"] = f"Pinocchio {pinocchio.__version__}"
    (HERE / "robots.json").write_text(json.dumps(made, indent=None) + "\n")
