"""One sample of model predictive control of a quadrotor, beside Crocoddyl.

`python -m benchmarks.mpc` brings the quadrotor of `models.quadrotor` back to hover from 1.4 m and
1.5 rad away, turning at 2.3 rad/s, with thrusts between zero and twice those of hover, in 20 steps
of 50 ms. It measures a call of `lie_jax.control.mpc` with one iteration and with three, its
feedback alone, 64 in a batch, and as many iterations of Crocoddyl's BoxFDDP on the same problem
(linearised and searched likewise; a closed loop of it is not run), in turns in one process that is
pinned to one core. Writes `out/bench/mpc.json` and a table.
"""

# pyright: reportMissingImports=false
import time
from collections.abc import Callable

import numpy as np

from benchmarks._processes import arguments_of, conditions, pin_to_one_core, write

STEPS, DT, BATCH = 20, 0.05, 64
# Weights of place and attitude, of rates, and of thrusts relative to hover; those at the end.
PLACE, ATTITUDE, RATES, THRUSTS = 10.0, 2.0, 0.5, 0.2
AT_END = 20.0, 4.0, 4.0
# Distance from hover: m, rad, m/s and rad/s.
AWAY = np.array([1.0, -0.7, 0.5, 1.2, -0.8, 0.5]), np.array([0.5, 0.0, 0.0, 2.0, -1.0, 0.5])
SECONDS = 4.0


def _cpu(function: Callable, count: int) -> float:
    """CPU seconds of a call, of so many in a row."""
    start = time.process_time()
    for _ in range(count):
        function()
    return (time.process_time() - start) / count


def _ours() -> tuple[dict[str, tuple[Callable, int]], dict[str, float]]:
    """Calls to measure, and CPU times of the first ones with what a closed loop reaches."""
    import jax
    import jax.numpy as jnp

    import lie_jax
    from lie_jax import control
    from models import quadrotor

    lie_jax.configure(cache=False)
    system, hover_state = quadrotor.build()
    hover, space, method = quadrotor.hover_thrusts(), system.space, lie_jax.RKMK("rk4")
    target = hover_state.q

    def running(t, q, v, u):
        x = space.inverse_retract(target, q)
        cost = PLACE * jnp.sum(x[:3] ** 2) + ATTITUDE * jnp.sum(x[3:] ** 2)
        return cost + RATES * jnp.sum(v**2) + THRUSTS * jnp.sum((u / hover - 1.0) ** 2)

    def final(q, v):
        x = space.inverse_retract(target, q)
        place, attitude, rates = AT_END
        cost = place * jnp.sum(x[:3] ** 2) + attitude * jnp.sum(x[3:] ** 2)
        return cost + rates * jnp.sum(v**2)

    phase = control.Phase(
        system, method, steps=STEPS, duration=STEPS * DT, running=running, final=final,
        limits=(0.0 * hover, 2.0 * hover),
    )  # fmt: skip
    away = lie_jax.State(space.retract(target, jnp.asarray(AWAY[0])), jnp.asarray(AWAY[1]))
    guess = control.Guess(inputs=np.tile(hover, (STEPS, 1)))
    calls, numbers = {}, {}

    def wait(value):
        return jax.block_until_ready(value)

    for iterations in (1, 3):
        start = time.process_time()
        controller, plan = control.mpc(phase, hover_state, guess=guess, iterations=iterations)
        wait(controller(away, plan))
        numbers[f"first answer, {iterations} iterations"] = time.process_time() - start
        state = away
        for _ in range(round(SECONDS / DT)):
            u, plan = controller(state, plan)
            run = lie_jax.simulate(
                system, method, state, dt=DT / 5, steps=5, inputs=jnp.tile(u, (5, 1)), throw=False
            )
            state = lie_jax.State(run.q[-1], run.v[-1])
        rest = jnp.concatenate([space.inverse_retract(target, state.q), state.v])
        numbers[f"distance after {SECONDS} s, {iterations} iterations"] = float(
            jnp.linalg.norm(rest)
        )
        calls[f"call, {iterations} iterations"] = (
            lambda c=controller, s=state, p=plan: wait(c(s, p)), 100
        )  # fmt: skip
        if iterations == 1:
            calls["feedback alone"] = (
                lambda c=controller, s=state, p=plan: wait(c.feedback(s, p)), 300
            )  # fmt: skip
            batch = jax.jit(jax.vmap(controller))
            rows = [
                jax.tree.map(lambda x: jnp.broadcast_to(x, (BATCH, *x.shape)) + 0, tree)
                for tree in (state, plan)
            ]
            start = time.process_time()
            wait(batch(*rows))
            numbers[f"first answer of {BATCH}"] = time.process_time() - start
            calls[f"{BATCH} in a batch"] = (lambda b=batch, r=rows: wait(b(*r)), 5)
    return calls, numbers


def _crocoddyl() -> dict[str, tuple[Callable, int]]:
    """Iterations of Crocoddyl on the problem; nothing where it is not installed."""
    try:
        import crocoddyl
        import pinocchio
    except ImportError:
        return {}
    from models import quadrotor

    mass, arm, drag = quadrotor.MASS, quadrotor.ARM, quadrotor.DRAG
    model = pinocchio.Model()
    still = pinocchio.SE3.Identity()
    joint = model.addJoint(0, pinocchio.JointModelFreeFlyer(), still, "root_joint")
    inertia = pinocchio.Inertia(mass, np.zeros(3), np.diag(quadrotor.INERTIA))
    model.appendBodyToJoint(joint, inertia, still)
    space = crocoddyl.StateMultibody(model)
    senses = {1: crocoddyl.ThrusterType.CCW, -1: crocoddyl.ThrusterType.CW}
    thrusters = [
        crocoddyl.Thruster(pinocchio.SE3(np.eye(3), arm * place), drag, senses[int(sense)])
        for place, sense in zip(quadrotor.DIRECTIONS, quadrotor.SENSES, strict=True)
    ]
    actuation = crocoddyl.ActuationModelFloatingBaseThrusters(space, thrusters)
    hover, target = np.asarray(quadrotor.hover_thrusts()), space.zero()

    def costs(place, attitude, rates, thrusts):
        total = crocoddyl.CostModelSum(space, 4)
        weights = 2.0 * np.array([place] * 3 + [attitude] * 3 + [rates] * 6)
        total.addCost(
            "state",
            crocoddyl.CostModelResidual(
                space,
                crocoddyl.ActivationModelWeightedQuad(weights),
                crocoddyl.ResidualModelState(space, target, 4),
            ),
            1.0,
        )
        if thrusts:
            total.addCost(
                "thrusts",
                crocoddyl.CostModelResidual(
                    space,
                    crocoddyl.ActivationModelWeightedQuad(2.0 * thrusts / hover**2),
                    crocoddyl.ResidualModelControl(space, hover),
                ),
                1.0,
            )
        return crocoddyl.DifferentialActionModelFreeFwdDynamics(space, actuation, total)

    running = crocoddyl.IntegratedActionModelRK(
        costs(PLACE, ATTITUDE, RATES, THRUSTS), crocoddyl.RKType.four, DT
    )
    running.u_lb, running.u_ub = np.zeros(4), 2.0 * hover
    last = crocoddyl.IntegratedActionModelEuler(costs(*AT_END, 0.0), 0.0)
    start = space.integrate(target, np.concatenate(AWAY))
    problem = crocoddyl.ShootingProblem(start, [running] * STEPS, last)
    solver = crocoddyl.SolverBoxFDDP(problem)
    states, inputs = [start] * (STEPS + 1), [hover] * STEPS
    return {
        f"Crocoddyl, {count} iterations": (
            lambda count=count: solver.solve(states, inputs, count, False), 100
        )
        for count in (1, 3)
    }  # fmt: skip


def main() -> None:
    """Measure in turns, write the least CPU times and print a table."""
    arguments = arguments_of(__doc__)
    pin_to_one_core()
    calls, numbers = _ours()
    calls |= _crocoddyl()
    least = dict.fromkeys(calls, np.inf)
    for _ in range(arguments.repeats):
        for name, (function, count) in calls.items():
            least[name] = min(least[name], _cpu(function, count))
    lines = [f"{conditions(arguments.repeats)} (here the least)", "", "| | |", "|---|---:|"]
    lines += [f"| {name} | {value:.3g} |" for name, value in numbers.items()]
    lines += [f"| {name} | {1e6 * value:.1f} µs |" for name, value in least.items()]
    write(arguments.out, "mpc", {"numbers": numbers, "seconds": least}, lines)


if __name__ == "__main__":
    main()
