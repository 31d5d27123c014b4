"""Gradients through contact: a ball and a wall, two elastic balls, against closed forms."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import lie_jax
from experiments import _plots, _report
from experiments._contact_gradients import exact, mjx
from lie_jax import contact
from lie_jax.simulation.march import march

# Stiffness (N/mᵖ), exponent, dissipation (s/m): a ball of 1 kg and 1 m/s touches for some 31 ms.
LAWS = {
    "p = 1": (1e4, 1.0, 0.0),
    "p = 3/2": (1e5, 1.5, 0.0),
    "p = 3/2, a = 0.3 s/m": (1e5, 1.5, 0.3),
    "p = 2, a = 0.3 s/m": (1e6, 2.0, 0.3),
    "p = 3, a = 0.3 s/m": (1e8, 3.0, 0.3),
}
SPEED, GAP, END, RADIUS = 1.0, 0.05, 0.2, 0.1
STEPS_IN_CONTACT = (10, 20, 40, 80)
# Places of the touch within a step, and parts of a step by which the contact is shorter: where it
# takes a whole number of steps, errors of its beginning and end cancel. Figures are of the worst.
PHASES, PARTS = 7, 3
TOLERANCES = (1e-6, 1e-8, 1e-10, 1e-12)
ALPHA = lie_jax.GeneralizedAlpha(0.9)
# Two balls of 1 kg on a line: places (m) and speeds (m/s), seen after 1 s. The case of a known
# issue (nimblephysics, number 97), in which rigid balls have the derivatives (1, 0, 1, 0).
BALLS, BALLS_END, BALLS_STIFFNESS = (0.0, 0.52, 1.0, 0.0), 1.0, 1e5
HARD, NIMBLE = (1.0, 0.0, 1.0, 0.0), (0.75, 0.25, 0.91, 0.08)


def thrown(law: tuple, speed: jax.Array, gap: jax.Array):
    """System and state of a ball that flies to a wall at x = 0."""
    stiffness, exponent, dissipation = law
    zero = 0.0 * speed
    ball = lie_jax.Body(
        "ball",
        1.0,
        jnp.eye(3),
        position=jnp.stack([RADIUS + gap, zero, zero]),
        velocity=jnp.stack([-speed, zero, zero]),
    )
    wall = lie_jax.contact.Contact(
        contact.Sphere("ball", RADIUS),
        contact.Plane("ground", normal=(1, 0, 0)),
        lie_jax.contact.HuntCrossley(stiffness, exponent, dissipation),
    )
    mechanism = lie_jax.Mechanism([ball], forces=[wall], gravity=(0, 0, 0))
    return lie_jax.assemble(mechanism, lie_jax.R3SO3())


def touch(system) -> lie_jax.Event:
    """An event that does nothing but end a step at each touch."""
    return lie_jax.Event(
        lambda t, q, v: system.contacts(t, q, v).gap[0], lambda t, q, v: (q, v), direction=0
    )


def with_slope(end):
    """Speed at the end, and the derivative of the place there by the first speed.

    `end(speed, gap)` is a state.
    """

    def function(speed, gap):
        state, rate = jax.jvp(lambda speed: end(speed, gap), (speed,), (jnp.ones_like(speed),))
        return state.v[0], rate.q[0]

    return function


class Bounces(NamedTuple):
    """Runs of one number of steps, each with its gap (m) and step size (s)."""

    steps: int
    gap: np.ndarray
    dt: np.ndarray


def bounces(law: tuple, count: int) -> Bounces:
    """Runs with some `count` steps in a contact."""
    lasts = exact.contact_time(SPEED, *law)
    part, phase = np.meshgrid(np.arange(PARTS) / PARTS, np.arange(PHASES) / PHASES)
    dt = lasts / (count - part.ravel())
    return Bounces(round(END * count / lasts), GAP + phase.ravel() * dt * SPEED, dt)


def errors(law: tuple, gaps: np.ndarray, ends: np.ndarray, runs) -> dict[str, float]:
    """Largest error of the last speed (m/s), and of the derivative, relative."""
    known = np.asarray(
        [exact.bounce(SPEED, gap, end, *law) for gap, end in zip(gaps, ends, strict=True)]
    )
    computed = np.stack([np.asarray(x) for x in runs], axis=-1)
    return {
        "speed": float(np.abs(computed[:, 0] - known[:, 0]).max()),
        "derivative": float(np.abs(computed[:, 1] / known[:, 1] - 1.0).max()),
    }


def fixed(law: tuple) -> dict[int, dict[str, float]]:
    """Errors with steps of one size, by steps in a contact."""

    @jax.jit
    def program(gaps, dts, steps):
        def one(gap, dt):
            def end(speed, gap):
                return march(*_start(law, speed, gap), dt, steps).state

            return with_slope(end)(SPEED, gap)

        return jax.vmap(one)(gaps, dts)

    results = {}
    for count in STEPS_IN_CONTACT:
        steps, gaps, dts = bounces(law, count)
        results[count] = errors(law, gaps, steps * dts, program(gaps, dts, jnp.asarray(steps)))
    return results


def _start(law: tuple, speed: jax.Array, gap: jax.Array):
    system, state = thrown(law, speed, gap)
    return system, ALPHA, state


def stopped_at_touch(law: tuple) -> dict[int, dict[str, float]]:
    """Errors of runs in which an event ends a step at each touch, by steps in a contact."""
    results = {}
    for count in STEPS_IN_CONTACT:
        steps, gaps, dts = bounces(law, count)

        @jax.jit
        def program(gaps, dts, steps=steps):
            def one(gap, dt):
                def end(speed, gap):
                    system, integrator, state = _start(law, speed, gap)
                    options = {"dt": dt, "steps": steps, "save": steps, "throw": False}
                    run = lie_jax.simulate(
                        system, integrator, state, events=[touch(system)], max_events=4, **options
                    )
                    return lie_jax.State(run.q[-1], run.v[-1])

                return with_slope(end)(SPEED, gap)

            return jax.vmap(one)(gaps, dts)

        results[count] = errors(law, gaps, steps * dts, program(gaps, dts))
    return results


def automatic(law: tuple, integrator) -> dict[float, dict[str, float]]:
    """Errors with automatic steps, by tolerances."""
    gaps = GAP + np.arange(PHASES) / PHASES * 1e-3

    @jax.jit
    def program(gaps, tolerance):
        def end(speed, gap):
            system, state = thrown(law, speed, gap)
            adaptive = lie_jax.Adaptive(rtol=tolerance, atol=tolerance)
            run = lie_jax.simulate(
                system,
                integrator,
                state,
                dt=1e-4,
                steps=20_000,
                adaptive=adaptive,
                save=jnp.asarray([END]),
                throw=False,
            )
            return lie_jax.State(run.q[-1], run.v[-1])

        return jax.vmap(partial(with_slope(end), SPEED))(gaps)

    ends = np.full(PHASES, END)
    return {t: errors(law, gaps, ends, program(gaps, jnp.asarray(t))) for t in TOLERANCES}


def elastic_balls(events: bool, steps: int) -> tuple[float, np.ndarray]:
    """Place (m) of the second ball at the end, and its derivatives by (x₁, x₂, v₁, v₂)."""

    def end(x):
        zero = 0.0 * x[0]
        bodies = [
            lie_jax.Body(
                name,
                1.0,
                jnp.eye(3),
                position=jnp.stack([x[k], zero, zero]),
                velocity=jnp.stack([x[2 + k], zero, zero]),
            )
            for k, name in enumerate("ab")
        ]
        law = lie_jax.contact.HuntCrossley(BALLS_STIFFNESS, exponent=1.0)
        hit = lie_jax.contact.Contact(contact.Sphere("a", RADIUS), contact.Sphere("b", RADIUS), law)
        mechanism = lie_jax.Mechanism(bodies, forces=[hit], gravity=(0, 0, 0))
        system, state = lie_jax.assemble(mechanism, lie_jax.R3SO3())
        more = {"events": [touch(system)], "max_events": 4} if events else {}
        options = {"dt": BALLS_END / steps, "steps": steps, "save": steps} | more
        return lie_jax.simulate(system, ALPHA, state, throw=False, **options).q[-1, 7]

    value, slope = jax.jit(jax.value_and_grad(end))(jnp.asarray(BALLS))
    return float(value), np.asarray(slope)


def exact_balls() -> tuple[float, np.ndarray]:
    """Place and derivatives in closed form: both move with the mean speed while they touch."""

    def end(x):
        lasts = jnp.pi * jnp.sqrt(1.0 / (2.0 * BALLS_STIFFNESS))
        touched = (x[1] - x[0] - 2.0 * RADIUS) / (x[2] - x[3])
        mean = 0.5 * (x[2] + x[3])
        return x[1] + x[3] * touched + mean * lasts + x[2] * (BALLS_END - touched - lasts)

    value, slope = jax.value_and_grad(end)(jnp.asarray(BALLS))
    return float(value), np.asarray(slope)


def balls() -> dict[str, dict]:
    """Derivatives of the two elastic balls by several means."""
    lasts = float(np.pi * np.sqrt(1.0 / (2.0 * BALLS_STIFFNESS)))
    steps = round(BALLS_END / (lasts / STEPS_IN_CONTACT[2]))
    rows: dict[str, tuple[float | None, np.ndarray]] = {
        "rigid balls, exact": (None, np.asarray(HARD)),
        "Nimble, as reported": (None, np.asarray(NIMBLE)),
        "this spring, exact": exact_balls(),
        "lie_jax, 40 steps in the contact": elastic_balls(False, steps),
        "lie_jax, steps that end at the touch": elastic_balls(True, steps),
    }
    try:
        rows["MJX, 40 steps in the contact"] = mjx.elastic_balls(
            np.asarray(BALLS), RADIUS, lasts, BALLS_END / steps, steps
        )
    except ImportError as error:
        print(f"MJX is left out: {error}")
    return {name: {"end": end, "slope": list(map(float, x))} for name, (end, x) in rows.items()}


def picture(results: dict, path: Path) -> None:
    """Errors of derivatives against the number of steps in a contact."""
    figure, axis = plt.subplots(figsize=(6.4, 4.2))
    colors = (_plots.RED, _plots.ORANGE, _plots.GREEN, _plots.BLUE, _plots.PURPLE)
    looks = dict(zip(LAWS, colors, strict=True))
    for name, found in results["fixed"].items():
        numbers = [found[str(n)]["derivative"] for n in STEPS_IN_CONTACT]
        axis.loglog(STEPS_IN_CONTACT, numbers, "o-", color=looks[name], label=name)
    for name, found in results["stopped at touch"].items():
        numbers = [found[str(n)]["derivative"] for n in STEPS_IN_CONTACT]
        label = f"{name}, steps end at the touch"
        axis.loglog(STEPS_IN_CONTACT, numbers, "s--", color=looks[name], label=label)
    axis.set(
        xlabel="steps in the contact",
        ylabel="relative error of the derivative",
        xticks=STEPS_IN_CONTACT,
        xticklabels=map(str, STEPS_IN_CONTACT),
    )
    axis.minorticks_off()
    axis.legend(fontsize=8)
    _plots.save(figure, path)


def report(results: dict) -> None:
    """Print the tables of the page."""
    for kind in ("fixed", "stopped at touch"):
        rows = (
            (law, what, *(f"{found[str(n)][what]:.1e}" for n in STEPS_IN_CONTACT))
            for law, found in results[kind].items()
            for what in ("speed", "derivative")
        )
        heads = (kind, "error of", *map(str, STEPS_IN_CONTACT))
        print("", *_report.table(heads, rows, left=2), sep="\n")
    rows = (
        (name, law, *(f"{found[f'{t:g}']['derivative']:.1e}" for t in TOLERANCES))
        for name, laws in results["automatic"].items()
        for law, found in laws.items()
    )
    heads = ("automatic steps", "law", *(f"{t:g}" for t in TOLERANCES))
    print("", *_report.table(heads, rows, left=2), sep="\n")
    rows = (
        (
            name,
            *(f"{x:.6g}" for x in row["slope"]),
            "" if row["end"] is None else f"{row['end']:.9f}",
        )
        for name, row in results["balls"].items()
    )
    print("", *_report.table(("", "x₁", "x₂", "v₁", "v₂", "end (m)"), rows), sep="\n")


def _named(found: dict) -> dict:
    return {f"{key:g}": value for key, value in found.items()}


def main(folder: Path) -> None:
    """Measure, print tables, write numbers and the picture."""
    lie_jax.configure(fast_loops=False, cache=False)
    square = ("p = 1", "p = 2, a = 0.3 s/m")
    chosen = {"RKMK dopri5": lie_jax.RKMK("dopri5"), "radau5": lie_jax.ImplicitRKMK("radau5")}
    parts = {
        "balls": balls,
        "fixed": lambda: {name: _named(fixed(law)) for name, law in LAWS.items()},
        "stopped at touch": lambda: {name: _named(stopped_at_touch(LAWS[name])) for name in square},
        "automatic": lambda: {
            name: {law: _named(automatic(LAWS[law], integrator)) for law in square}
            for name, integrator in chosen.items()
        },
    }
    results = {}
    for name, measure in parts.items():
        results[name] = measure()
        _report.write_json(folder / "results.json", results, ascii=False)
    report(results)
    picture(results, folder / "gradients.png")
