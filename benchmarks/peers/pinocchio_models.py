"""The chain of links in Pinocchio, which evaluates accelerations and has no integrator.

What counts as a step are four evaluations of the articulated-body algorithm, without the rest of a
Runge-Kutta step. That they are those of the same motion is checked by a step written in Python.
"""

# It is not installed everywhere, and its types are not to be relied upon.
# pyright: reportMissingImports=false

import numpy as np
import pinocchio

from benchmarks.peers.cases import Missing, Program, run_of
from models import chain

LINKS = 6


def version() -> str:
    """Pinocchio's."""
    return f"Pinocchio {pinocchio.__version__}"


def links(number: int) -> pinocchio.Model:
    """A chain of links on ball joints."""
    model = pinocchio.Model()
    model.gravity.linear = np.asarray(chain.GRAVITY)
    parent = 0
    for i in range(number):
        hook = np.array([0.0, 0.0, -chain.LENGTH if i else 0.0])
        place = pinocchio.SE3(np.eye(3), hook)
        parent = model.addJoint(parent, pinocchio.JointModelSpherical(), place, f"joint {i}")
        centre = np.array([0.0, 0.0, -0.5 * chain.LENGTH])
        inertia = pinocchio.Inertia(chain.MASS, centre, np.diag(chain.INERTIA))
        model.appendBodyToJoint(parent, inertia, pinocchio.SE3.Identity())
    return model


def program(case: str, quick: bool) -> Program:
    """Only the chain of six links."""
    if case != "links":
        raise Missing(f"no model of {case} in Pinocchio")
    run, model = run_of(case, quick), links(LINKS)
    data, none = model.createData(), np.zeros(model.nv)
    q = pinocchio.neutral(model)
    v = chain.relative_omega(LINKS).ravel()

    def rates(q, v):
        # Unit quaternions, vector first: q' = q omega / 2.
        p, o = q.reshape(-1, 4), v.reshape(-1, 3)
        change = np.empty_like(p)
        change[:, :3] = 0.5 * (p[:, 3:] * o + np.cross(p[:, :3], o))
        change[:, 3] = -0.5 * np.sum(p[:, :3] * o, axis=1)
        # Its algorithms expect unit quaternions.
        return change.ravel(), pinocchio.aba(model, data, _unit(q), v, none)

    for _ in range(run.steps):
        h = run.dt
        a = rates(q, v)
        b = rates(q + 0.5 * h * a[0], v + 0.5 * h * a[1])
        c = rates(q + 0.5 * h * b[0], v + 0.5 * h * b[1])
        d = rates(q + h * c[0], v + h * c[1])
        q = _unit(q + h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0]))
        v = v + h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])

    def once() -> None:
        for _ in range(4 * run.steps):
            pinocchio.aba(model, data, q, v, none)

    pinocchio.forwardKinematics(model, data, q)
    end = data.oMi[LINKS].act(np.array([0.0, 0.0, -chain.LENGTH]))
    return Program(once, run.units, [float(x) for x in end])


def _unit(q: np.ndarray) -> np.ndarray:
    p = q.reshape(-1, 4)
    return (p / np.linalg.norm(p, axis=1, keepdims=True)).ravel()
