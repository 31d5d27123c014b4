"""Trajectories: results of simulations."""

import types
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lie_jax.simulation.instability import Growth
from lie_jax.systems.system import State

_KEPT = "; what came before is in the trajectory."


class _One(eqx.Enumeration):
    item = ""


# Equinox does not export the classes of its enumerations and of their items.
_Enumerations: Any = type(eqx.Enumeration)
EnumerationItem: Any = type(_One.item)


class _Item(EnumerationItem):
    """Item, or items of a batch, of which an index takes some, as of an array."""

    def __getitem__(self, index: Any) -> "_Item":
        if not np.ndim(self._value):
            raise ValueError(
                f"the result of one run has no member [{index!r}]; only that of a batch has: take "
                "the result itself."
            )
        # NumPy refuses numbers beyond the last one, where JAX takes the last.
        members = self._value if self.is_traced() else np.asarray(self._value)
        return jax.tree.map(lambda _: jnp.asarray(members[index]), self)

    def __len__(self) -> int:
        return len(self._value)

    def __bool__(self) -> bool:
        raise ValueError(
            "a result is neither true nor false, for failures are results, too; it must be "
            "compared: write run.result == lie_jax.Result.successful."
        )


def _where(cls: Any, pred: Any, a: Any, b: Any) -> _Item:
    """`Enumeration.where`, of items that have an index."""
    plain: Any = eqx.Enumeration.where
    return _Item(plain.__func__(cls, pred, a, b)._value, cls)


class _Counted(_Enumerations):
    """Enumerations whose text for a batch has the number of each item."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        items = self._name_to_item
        items.update({name: _Item(item._value, self) for name, item in items.items()})
        self.where = types.MethodType(_where, self)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise AttributeError(
                f"{self.__name__} has no {name!r}; it has {', '.join(self._name_to_item)}."
            ) from None

    def __getitem__(self, item):
        if not (isinstance(item, self) and np.ndim(item._value)) or item.is_traced():
            return super().__getitem__(item)
        return ", ".join(f"{n} {name}" for name, n in count_results(item).items())


class Result(eqx.Enumeration, metaclass=_Counted):
    """End of a simulation: success, or the reason of the first failure.

    - `successful`: the run reached its end.
    - `redundant`: the run reached its end. Constraints depend on each other; multipliers are those
      of minimum norm.
    - `newton_failed`: Newton's method or a projection onto the constraints did not converge.
    - `non_finite`: the state became infinite or NaN.
    - `singular`: the formulation's coordinates, such as angles, became singular.
    - `minimum_step`: an adaptive run missed its tolerances with the smallest step size.
    - `step_bound`: an adaptive run used up its `steps` before the end.
    - `out_of_chart`: a step turned a body further than its chart describes.
    - `departed`: a step left the range of a force's law, such as a spring of no length.
    - `turned_over`: a step reached a joint turned over, where its constraints hold as well.
    - `unstable`: a mode grew because the steps of an explicit method were too large for it.
    - `acceleration_not_finite`: accelerations or multipliers are infinite or NaN, the state is not.
    - `too_many_events`: more events than `max_events`, or faster than rounding resolves.
    - `event_not_finite`: an event's function became infinite or NaN.
    - `action_off_constraints`: an event's action left a state that violates the constraints.
    - `input_not_finite`: a policy returned infinities or NaN.
    - `no_configuration`: the start is none, such as a quaternion off unit length.
    - `off_constraints`: the start violates the constraints.
    - `times_not_increasing`: times of `save=`, or `t_end`, that JAX traced do not increase.

    `Result[result]` is a sentence. Of a batch, `result == lie_jax.Result.unstable` has a value for
    each member, `result[i]` is that of member i, `lie_jax.count_results(result)` the numbers of
    members by name, and the text these numbers: "510 successful, 2 unstable". Compare results, as
    in `run.result == lie_jax.Result.successful`: their truth value raises `ValueError`.
    """

    successful = "The simulation reached its end."
    redundant = (
        "The simulation reached its end. Constraints depend on each other: the motion is what it "
        "is without the redundant ones, multipliers are those of minimum norm."
    )
    newton_failed = (
        f"Newton's method, or the projection onto the constraints, did not converge{_KEPT}"
    )
    non_finite = f"The state became infinite or NaN{_KEPT}"
    singular = f"The coordinates reached a singularity of the formulation{_KEPT}"
    minimum_step = f"The smallest step size did not meet the tolerances{_KEPT}"
    step_bound = f"The bound on the number of steps was reached before the end{_KEPT}"
    out_of_chart = f"A step turned a body further than its chart describes{_KEPT}"
    departed = (
        "A step left the range of the law of a force: the ends of a spring or two shapes passed "
        "through each other, a shape overlaps beyond its middle, or the number of turns of an "
        f"angle is uncertain{_KEPT}"
    )
    turned_over = (
        "A step, or the start, has a joint turned over: half a turn from where it belongs, where "
        f"its constraints hold as well{_KEPT}"
    )
    unstable = (
        "The steps were beyond the limit of stability of the explicit method, and a mode grew; all "
        "of them are in the trajectory, those after the first ones beyond the limit are wrong."
    )
    acceleration_not_finite = (
        "Accelerations or multipliers became infinite or NaN, though positions and velocities are "
        "finite."
    )
    too_many_events = (
        "More events happened than max_events, or an event followed itself faster than "
        f"rounding resolves{_KEPT}"
    )
    event_not_finite = f"The function of an event became infinite or NaN{_KEPT}"
    action_off_constraints = (
        f"The action of an event left a state that violates the constraints{_KEPT}"
    )
    input_not_finite = f"A policy returned an input that is infinite or NaN{_KEPT}"
    no_configuration = (
        "The start is no configuration, such as a quaternion that is not of unit length: the first "
        "row holds it, the others are NaN."
    )
    off_constraints = (
        "The start violates the constraints of positions or velocities: the first row holds it, "
        "the others are NaN."
    )
    times_not_increasing = (
        "The times of save=, or t_end, do not increase from the start of the run: the first row "
        "holds the start, the others are NaN."
    )


def succeeded(result: Result) -> Bool[Array, "..."]:
    """Whether a simulation reached its end."""
    return (result == Result.successful) | (result == Result.redundant)


def count_results(result: Result) -> dict[str, int]:
    """Numbers of members of a batch by the names of their results, in the order of `Result`.

    `result` has any batch axes, as that of runs under `jax.vmap` or of a sweep, or none. Raises
    `ValueError` for anything else.
    """
    if not isinstance(result, EnumerationItem):
        raise ValueError(
            f"count_results(result=) is a value of type {type(result).__name__}; it must be the "
            "result of a run or of a batch of runs: pass run.result."
        )
    numbers = np.asarray(result._value)
    counts = {name: int(np.sum(numbers == i._value)) for name, i in items_by_name(Result).items()}
    return {name: count for name, count in counts.items() if count}


class Statistics(eqx.Module):
    """Counts of a simulation.

    `newton_iterations` (steps,): linear solves of each step, zero for explicit methods.
    `completed_steps` (): steps before the first failure, all of them if there was none.
    `rejected_steps` (): steps of an adaptive run that were taken again with a smaller size.
    `end_time` (): last time before the first failure, s.
    `residual` (): largest entry of the residual of the first step that failed, zero without
    failure: of Newton's method in its scaling, or of the constraints after the projection; in an
    adaptive run the estimated error of the last step in units of the tolerance.
    `residual_history` (n,): `residual` after each iteration of that step, NaN beyond the last.
    `worst_equation` (): number of the equation with that residual, or of the velocity that turned
    furthest, as in the system's `owner`; of the force that left its law, as in its `law`, of a
    joint turned over, as in its `joint`, in a step or at a start that is none; else -1.
    `stability` (): largest step size times rate, estimated from two stages of each step, relative
    to the limit of the explicit method, the larger one of decays and oscillations: modes grow
    beyond 1. Zero for implicit methods. Loads that change within a step of `"euler"`, `"heun"` or
    `"midpoint"` count, too.
    """

    newton_iterations: Int[Array, "..."]
    completed_steps: Int[Array, "..."]
    rejected_steps: Int[Array, "..."]
    end_time: Float[Array, "..."]
    residual: Float[Array, "..."]
    residual_history: Float[Array, "..."]
    worst_equation: Int[Array, "..."]
    stability: Float[Array, "..."]


class Events(eqx.Module):
    """Events of a run in the order of time; rows of events that did not happen are NaN and -1.

    `t` (max_events,) times in s; `index` (max_events,) number of each event in the list that the
    run was given; `q` (max_events, nq) and `v` (max_events, nv) before the event's action. All but
    `index` have derivatives.
    """

    t: Float[Array, "..."]
    index: Int[Array, "..."]
    q: Float[Array, "..."]
    v: Float[Array, "..."]


class Control(NamedTuple):
    """Size that the next automatic step is to have, `planned` (s), the `error` of the last one that
    counts in units of the tolerance, and whether the last one was rejected.
    """

    planned: Float[Array, "..."]
    error: Float[Array, "..."]
    after_rejection: Bool[Array, "..."]


class Restart(eqx.Module):
    """End of a run, from which `lie_jax.simulate` continues as if the run had not stopped.

    `state`; `steps` () taken since the time `t0` () in s, of size `dt` () in s; `carry` of the
    integrator, `memory` of the forces (see `AbstractSystem.memory_after`); `inputs` (nu,) of the
    last step or None, `policy` the state of a policy that held them; `origin` (n,): checksums of
    integrator, system and policy part by part, 0 for parts that JAX traced; `growth` of modes
    beyond the limit of stability, so that pieces of a run are judged as the whole. Of automatic
    steps `t0` is the end, `dt` the first size that was asked for, and `control` has the next. A
    run that an event has stopped cannot be continued: its `steps` are -1 and its `state` is NaN.
    """

    state: State
    carry: Any
    steps: Int[Array, "..."]
    dt: Float[Array, "..."]
    t0: Float[Array, "..."]
    memory: Any = ()
    inputs: Float[Array, "..."] | None = None
    origin: Int[Array, "..."] | None = None
    policy: Any = ()
    growth: Growth | None = None
    control: Control | None = None


class Saved(eqx.Module):
    """Values that a run with `simulate(save=function)` kept, the start first.

    `t` (n,) times in s; `values`: the function's pytree of arrays, each with n rows. Of instants
    that were not reached, `t` and floats are NaN.
    """

    t: Float[Array, "..."]
    values: Any


class Trajectory(eqx.Module):
    """Saved instants of a simulation, the initial state first.

    `t` (n,) times in s; `q` (n, nq) configurations; `v` (n, nv) velocities; `acceleration` (n, nv)
    their time derivatives, with the inputs `u` (n, nu) of the step that ended there, None without
    inputs; `multipliers` (n, nc), of which column k belongs to the joint `system.owner(system.nv +
    k)`: `system.reactions(t, q, v, acceleration, multipliers, u)` returns forces and torques by
    joint; `stats` a `Statistics`; `result` a `Result`. The first row of `u` is the input of the
    first step, and in a run that continues another one the last input of that.
    `restart` is the end of the run, from which another one goes on. `memory` (n rows) is that of
    forces and couplings, such as the turns of hinges in absolute coordinates:
    `system.with_memory(jax.tree.map(lambda x: x[k], trajectory.memory))` is the system at instant
    k, `lie_jax.energies(system, trajectory)` has the energies of all. n = steps // k + 1 with
    `simulate(save=k)`, the number of given times + 1, or 2, the start and the end, where a function
    is saved; in an adaptive run without times there is room for all steps. Instants that were not
    reached are NaN. `events` are the `Events` of a run with events: when one of them stops the run,
    the last row is the event's instant, after rows of NaN. `inputs` (steps, nu), None without a
    policy: inputs that the policy held over each step, as `lie_jax.simulate(inputs=)` takes them.
    `saved` has the values of a function in `simulate(save=)`, None without.
    """

    t: Float[Array, "..."]
    q: Float[Array, "..."]
    v: Float[Array, "..."]
    acceleration: Float[Array, "..."]
    multipliers: Float[Array, "..."]
    stats: Statistics
    result: Result
    restart: Restart | None = None
    memory: Any = ()
    events: Events | None = None
    inputs: Float[Array, "..."] | None = None
    u: Float[Array, "..."] | None = None
    saved: Saved | None = None


# Fields of a trajectory with a row for each saved instant, as files and stores name them.
INSTANTS = ("t", "q", "v", "acceleration", "multipliers", "u")


def item_of(enumeration: Any, value: Any) -> Any:
    """Item with this number, or items of a batch."""
    return type(next(iter(items_by_name(enumeration).values())))(value, enumeration)


def items_by_name(enumeration: Any) -> dict[str, Any]:
    """Items of an enumeration by their names, which Equinox does not export."""
    return enumeration._name_to_item


def flag_attributes(enumeration: Any) -> dict[str, Any]:
    """Values, names and messages of an enumeration, by the CF conventions for flags."""
    items = items_by_name(enumeration)
    return {
        "flag_values": [int(item._value) for item in items.values()],
        "flag_meanings": " ".join(items),
        "messages": [str(enumeration._index_to_message[int(i._value)]) for i in items.values()],
    }
