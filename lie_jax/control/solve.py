"""Optimal control of phases by an interior-point method on the states and inputs of all steps."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lie_jax import checks
from lie_jax.control import ends, nodes, search
from lie_jax.control.nodes import Node
from lie_jax.control.phase import Phase, bounds
from lie_jax.control.points import Limits, Parameters, Point, Problem, Stretch
from lie_jax.control.transcription import (
    Chunk,
    Clock,
    Layout,
    Part,
    onto_constraints,
    roll_out,
)
from lie_jax.systems.system import AbstractSystem, State
from lie_jax.user_functions import snapshots

_CHUNK = 20
_FIRST_BARRIER = 0.1
_MARGIN = 1e-2


class Guess(eqx.Module):
    inputs: Any = None
    states: Any = None
    duration: Any = None


class Optimum(eqx.Module):
    states: State
    inputs: Array
    duration: Array
    cost: Array
    converged: Array
    iterations: Array
    history: Array
    gains: Any
    parameters: Any
    point: Any


def solve(problem, state, *, parameters=None, parameter_limits=None, links=None, begin=None,
          periodic=False, symmetry=None, guess=None, second_order=True, tolerance=1e-9, max_iterations=200, report=False):
    phases = [problem] if isinstance(problem, Phase) else list(problem)
    guesses = [guess] if isinstance(problem, Phase) else (guess or [None] * len(phases))
    guesses = [Guess() if g is None else g for g in guesses]
    free = [ph.is_free for ph in phases]
    nT = sum(free)
    dtype = (state.q if isinstance(state, State) else jnp.zeros(())).dtype
    leaves, structure = jax.tree.flatten(parameters)
    layout = Layout(nT, None if parameters is None else structure, tuple(tuple(np.shape(x)) for x in leaves))
    ps = nT + sum(np.size(x) for x in leaves)
    p, lower, upper = np.zeros(ps), np.full(ps, -np.inf), np.full(ps, np.inf)
    i = 0
    start0, start_row = 0.0, np.zeros(ps)
    clocks = []
    for ph, g in zip(phases, guesses):
        row = np.zeros(ps)
        if ph.is_free:
            lower[i], upper[i] = map(float, ph.duration)
            if g.duration is not None:
                p[i] = float(g.duration)
            else:
                p[i] = 0.5 * (lower[i] + upper[i]) if np.isfinite(upper[i]) else max(1.0, 2 * lower[i])
            row[i] = 1.0
            i += 1
            dur = 0.0
        else:
            dur = float(ph.duration)
        clocks.append(Clock(jnp.asarray(start0), jnp.asarray(start_row), jnp.asarray(dur), jnp.asarray(row)))
        start0, start_row = start0 + dur, start_row + row
    if leaves:
        p[nT:] = np.concatenate([np.ravel(x) for x in leaves])
        if parameter_limits is not None:
            lower[nT:] = np.concatenate([np.ravel(x) for x in jax.tree.leaves(parameter_limits[0])])
            upper[nT:] = np.concatenate([np.ravel(x) for x in jax.tree.leaves(parameter_limits[1])])
    p = inside(p, lower, upper)
    p = jnp.asarray(p)
    parts, stretches = [], []
    first_state = ends.start_state(type("L", (), {"layout": layout})(), state, p) if state is not None else None
    node_state = first_state
    mu = _FIRST_BARRIER
    for j, (ph, g, clock) in enumerate(zip(phases, guesses, clocks)):
        system = ph.system if isinstance(ph.system, AbstractSystem) else ph.system(*layout.read(p))
        nu = system.nu
        if g.inputs is not None:
            nu = np.shape(g.inputs)[1]
        lo, up = (np.asarray(x) for x in bounds("Phase(limits=)", ph.limits, nu, dtype))
        fixed_mask = lo == up
        idx = np.flatnonzero(~fixed_mask)
        placement = np.zeros((nu, len(idx)))
        placement[idx, np.arange(len(idx))] = 1.0
        rl, ru = (np.asarray(x)[idx] for x in bounds("Phase(rates=)", ph.rates, nu, dtype))
        lrows, urows = tuple(np.flatnonzero(np.isfinite(rl)).tolist()), tuple(np.flatnonzero(np.isfinite(ru)).tolist())
        allowed = nodes.freedom(system, node_state if g.states is None else jax.tree.map(lambda x: x[0], g.states)) if system.nc else None
        part = Part(ph.system, ph.method, ph.running, ph.final, ph.end, ph.path, clock, jnp.asarray(ph.steps), layout, jnp.where(fixed_mask, lo, 0.0), jnp.asarray(placement),
                    jnp.asarray(lo[idx]), jnp.asarray(up[idx]), jnp.asarray(rl[list(lrows)]), jnp.asarray(ru[list(urows)]),
                    lrows, urows, allowed, ph.is_free and ph.running is None)
        parts.append(part)
        u = np.zeros((ph.steps, nu)) if g.inputs is None else np.asarray(g.inputs)
        u = u[:, idx]
        u = np.stack([inside(row, lo[idx], up[idx]) for row in u]) if len(idx) else u
        held = jnp.zeros(len(idx) if part.has_rates else 0)
        if g.states is not None:
            node_state = jax.tree.map(lambda x: jnp.asarray(x[0]), g.states)
        chunks = []
        first = Node(node_state, held)
        n = 2 * system.nv + held.shape[0]
        for at in range(0, ph.steps, _CHUNK):
            k = np.arange(at, at + _CHUNK)
            real = k < ph.steps
            kk = np.minimum(k, ph.steps - 1)
            uu = np.where(real[:, None], u[kk], 0.0)
            C = _CHUNK
            ch = Chunk(jnp.asarray(k), jnp.asarray(real), first, Node(None, None), jnp.asarray(uu), None, jnp.zeros((C, n)), None, None, None)
            if g.states is not None:
                after = jax.tree.map(lambda x: jnp.asarray(x)[np.minimum(k + 1, ph.steps)], g.states)
                ch = ch._replace(after=Node(after, jnp.asarray(uu) if part.has_rates else jnp.zeros((C, 0))))
                ch = onto_constraints(part, ch, p)
            elif g.inputs is not None:
                ch = roll_out(part, ch, p)
            else:
                ch = ch._replace(after=jax.tree.map(lambda x: jnp.broadcast_to(x, (C, *x.shape)), first))
                if part.has_rates:
                    ch = ch._replace(after=ch.after._replace(held=ch.u))
            low = jnp.where(jnp.isfinite(part.lower)[None] & real[:, None], mu / jnp.where(jnp.isfinite(part.lower)[None], ch.u - part.lower[None], 1.0), 0.0)
            high = jnp.where(jnp.isfinite(part.upper)[None] & real[:, None], mu / jnp.where(jnp.isfinite(part.upper)[None], part.upper[None] - ch.u, 1.0), 0.0)
            c = jax.eval_shape(lambda: part.path(jnp.zeros((),int), jnp.zeros(()), jnp.ones(()), first, first, ch.u[0], p)).shape[0]
            ch = ch._replace(slacks=jnp.ones((C, c)), low=low, high=high, pulls=jnp.zeros((C, c)))
            chunks.append(ch)
            first = ch.last()
        e = part.end(first.state, p).shape[0]
        stretches.append(Stretch(tuple(chunks), jnp.zeros(n), jnp.zeros(e)))
        node_state = first.state
        link = None if links is None or j == len(phases) - 1 else links[j]
        node_state = ends.mirror(link, node_state, layout.read(p))
    lower, upper = jnp.asarray(lower), jnp.asarray(upper)
    plow = jnp.where(jnp.isfinite(lower), mu / jnp.where(jnp.isfinite(lower), p - lower, 1.0), 0.0)
    phigh = jnp.where(jnp.isfinite(upper), mu / jnp.where(jnp.isfinite(upper), upper - p, 1.0), 0.0)
    is_free_start = periodic or begin is not None
    b = 0 if begin is None else begin(first_state.q, first_state.v, *layout.read(p)).reshape(-1).shape[0]
    nlast = stretches[-1].costate.shape[0]
    point = Point(tuple(stretches), Parameters(p, plow, phigh), jnp.zeros(b), jnp.zeros(nlast) if periodic else None)
    prob = Problem(tuple(parts), tuple(links or [None] * (len(phases) - 1)), None if is_free_start else (state if isinstance(state, State) else snapshots.watch(state)), None if begin is None else snapshots.watch(begin),
                   None if symmetry is None else snapshots.watch(symmetry), bool(periodic), Limits(lower, upper))
    prob = snapshots.freeze(prob)
    rules = search.Rules(jnp.asarray(tolerance), jnp.asarray(max_iterations))
    looked = search.look(prob, point, second_order)
    stretches = []
    for st, ex in zip(point.stretches, looked.derived.expansions):
        chunks = []
        for c, e in zip(st.chunks, ex):
            slacks = jnp.where(c.real[:, None], jnp.maximum(-e.values, _MARGIN), 1.0)
            chunks.append(c._replace(slacks=slacks, pulls=jnp.where(c.real[:, None], mu / slacks, 0.0)))
        stretches.append(st._replace(chunks=tuple(chunks)))
    point = point._replace(stretches=tuple(stretches))
    found, units = search.errors(prob, point, looked.derived)
    looked = looked._replace(at=point, found=found, units=units)
    s = search.Search(looked, jnp.asarray(mu), jnp.asarray(0.0), jnp.full((search.FILTERED, 2), jnp.inf),
                      1e4 * jnp.maximum(1.0, found.gap), None, jnp.zeros((), jnp.int32), jnp.full((max_iterations + 1, 3), jnp.nan),
                      jnp.zeros((), bool), jnp.zeros((), bool))
    def body(s):
        new = search.advance(prob, rules, second_order, s)
        if report:
            i = int(s.iterations)
            print(i, *(f"{float(x):.10g}" for x in new.history[i]), f"mu {float(new.barrier):.1e} damp {float(new.damping):.1e}", "p", np.asarray(new.look.at.p)[:6], flush=True)
        return new
    s = search.repeat(lambda s: ~s.done, body, s)
    def collect(j):
        st = s.look.at.stretches[j]
        N = phases[j].steps
        first = st.chunks[0].first.state
        q = jnp.concatenate([first.q[None], *[c.after.state.q for c in st.chunks]])[: N + 1]
        v = jnp.concatenate([first.v[None], *[c.after.state.v for c in st.chunks]])[: N + 1]
        u = jnp.concatenate([c.u for c in st.chunks])[:N]
        u = parts[j].fixed[None] + u @ parts[j].placement.T
        return State(q, v), u, parts[j].clock.duration_at(s.look.at.p)
    states, inputs, durations = zip(*(collect(j) for j in range(len(phases))))
    if isinstance(problem, Phase):
        states, inputs, durations = states[0], inputs[0], durations[0]
    return Optimum(states, inputs, durations, s.history[s.iterations, 0], s.converged, s.iterations, s.history, s.gains, layout.read(s.look.at.p), s)


def inside(x, lower, upper):
    """Within the limits by a margin."""
    x, lower, upper = np.array(x, float), np.asarray(lower), np.asarray(upper)
    width = upper - lower
    both = np.isfinite(width)
    ml = np.where(both, np.minimum(_MARGIN * np.maximum(1, np.abs(lower)), _MARGIN * np.where(both, width, 1)), _MARGIN * np.maximum(1, np.abs(np.where(np.isfinite(lower), lower, 0))))
    mu = np.where(both, np.minimum(_MARGIN * np.maximum(1, np.abs(upper)), _MARGIN * np.where(both, width, 1)), _MARGIN * np.maximum(1, np.abs(np.where(np.isfinite(upper), upper, 0))))
    return np.clip(x, np.where(np.isfinite(lower), lower + ml, -np.inf), np.where(np.isfinite(upper), upper - mu, np.inf))
