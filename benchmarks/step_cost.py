"""Cost of a step of the integrators, and of a gradient as a multiple of the run itself.

`python -m benchmarks.step_cost` measures the heavy top, the rotor and the three bodies of [S1] in
fresh processes pinned to one core, with XLA as it comes and with its threshold for compiling a
whole loop into one function raised, and writes `out/bench/step_cost.json` and a table. Figures are
medians of process CPU time. Between machines compare ratios only: the row "sine and cosine" is a
scan over 1000 dependent evaluations of sin and cos in the same process, the yardstick of the
machine.
"""

import json

from benchmarks._processes import (
    MODES,
    arguments_of,
    conditions,
    cpu_seconds,
    in_fresh_process,
    pin_to_one_core,
    write,
)

STEPS = 10_000
GRADIENT_STEPS = 1_000


def measure(repeats: int) -> dict[str, float]:
    """All figures of this process, in microseconds a step or as ratios."""
    import jax
    import jax.numpy as jnp

    import lie_jax
    from models import heavy_top, puma560, rotor, slider_crank, three_bodies

    lie_jax.configure(fast_loops=False, cache=False)
    figures = {}

    @jax.jit
    def yardstick(x):
        return jax.lax.scan(lambda x, _: (jnp.sin(x) + jnp.cos(x), None), x, length=1000)[0]

    def end(mass, constrained, integrator, steps):
        system, state = heavy_top.build(constrained=constrained, mass=mass)
        trajectory = lie_jax.simulate(
            system, integrator, state, dt=1e-4, steps=steps, save=steps, throw=False
        )
        return jnp.sum(heavy_top.center_of_mass(system, trajectory.q[-1]))

    one = jnp.asarray(1.0)
    # One call is too short for the clock of the process.
    figures["sine and cosine"] = (
        cpu_seconds(lambda: [yardstick(one) for _ in range(100)], repeats) / 100 / 1000 * 1e6
    )
    mass = jnp.asarray(heavy_top.MASS)
    for name, constrained, integrator in (
        ("RKMK4, free", False, lie_jax.RKMK("rk4")),
        ("generalized-α, free", False, lie_jax.GeneralizedAlpha(0.9)),
        ("generalized-α, constrained", True, lie_jax.GeneralizedAlpha(0.9)),
    ):

        def run(mass, steps, constrained=constrained, integrator=integrator):
            return end(mass, constrained, integrator, steps)

        forward = jax.jit(lambda m, run=run: run(m, STEPS))
        figures[name] = cpu_seconds(lambda f=forward: f(mass), repeats) / STEPS * 1e6
        short = jax.jit(lambda m, run=run: run(m, GRADIENT_STEPS))
        base = cpu_seconds(lambda f=short: f(mass), repeats)
        for mode, transform in (("reverse", jax.grad), ("forward", jax.jacfwd)):
            gradient = jax.jit(transform(lambda m, run=run: run(m, GRADIENT_STEPS)))
            cost = cpu_seconds(lambda f=gradient: f(mass), repeats)
            figures[f"{name}: {mode}-mode gradient / run"] = cost / base

    def step_cost(build, integrator, dt):
        def run(scale):
            system, state = build()
            state = lie_jax.State(state.q, scale * state.v)
            trajectory = lie_jax.simulate(
                system, integrator, state, dt=dt, steps=STEPS, save=STEPS, throw=False
            )
            return trajectory.q[-1]

        compiled = jax.jit(run)
        return cpu_seconds(lambda: compiled(one), repeats) / STEPS * 1e6

    names = {"rk4": "RK44", "dopri5": "DOPRI5", "rk67": "RK67"}
    for model, build, dt in (
        ("heavy top", heavy_top.build, 1e-4),
        ("rotor", rotor.build, 1e-6),
    ):
        for tableau, name in names.items():
            figures[f"{model}, {name}"] = step_cost(build, lie_jax.RKMK(tableau), dt)
    figures["three bodies in joint coordinates, RK44"] = step_cost(
        three_bodies.build, lie_jax.RKMK("rk4"), 1e-4
    )
    # Newton iterations a step: one for the rotor, two for the others.
    for name, build, dt in (
        ("rotor", rotor.build, 1e-5),
        ("slider-crank", slider_crank.build, 1e-4),
        ("Puma 560", puma560.build, 1e-3),
    ):
        figures[f"{name}, generalized-α"] = step_cost(build, lie_jax.GeneralizedAlpha(0.9), dt)
    for name, stabilization in (
        ("projection", lie_jax.Projection()),
        ("Baumgarte", lie_jax.Baumgarte(50.0)),
    ):
        figures[f"heavy top with its joint, RK44, index 1, {name}"] = step_cost(
            lambda: heavy_top.build(constrained=True),
            lie_jax.RKMK("rk4", stabilization=stabilization),
            1e-4,
        )
    for formulation in (lie_jax.R3SO3(), lie_jax.SE3()):
        for tableau in ("gauss2", "gauss4", "gauss6"):
            for jacobian in ("autodiff", "analytic"):
                name = f"heavy top on {type(formulation).__name__}, implicit {tableau}, {jacobian}"
                figures[name] = step_cost(
                    lambda f=formulation: heavy_top.build(f),
                    lie_jax.ImplicitRKMK(tableau, jacobian=jacobian),
                    1e-4,
                )
    return figures


def main() -> None:
    """Measure in fresh processes, or be one of them."""
    arguments = arguments_of(__doc__)
    pin_to_one_core()
    if arguments.child:
        print(json.dumps(measure(arguments.repeats)))
        return
    results = {
        mode: in_fresh_process("benchmarks.step_cost", arguments.repeats, XLA_FLAGS=flags)
        for mode, flags in MODES.items()
    }
    lines = [
        conditions(arguments.repeats),
        "",
        f"| | {' | '.join(MODES)} |",
        "|---|" + "---:|" * len(MODES),
    ]
    for name in results["as it comes"]:
        unit = "" if name.endswith("/ run") else " (µs a step)"
        values = " | ".join(f"{results[mode][name]:.3g}" for mode in MODES)
        lines.append(f"| {name}{unit} | {values} |")
    write(arguments.out, "step_cost", results, lines)


if __name__ == "__main__":
    main()
