"""Numbers of the experiments support the claims of their pages."""

import numpy as np
import pytest

from experiments import (
    constrained_groups,
    demo,
    explicit_formulations,
    heavy_top,
    implicit_formulations,
    local_global_maps,
    mechanisms,
    newton_counts,
    park_chung,
    unified_velocity,
)
from experiments._constrained_groups.cases import CASES
from tests.results import numbers_of

pytestmark = pytest.mark.full


def test_demo():
    folder, written = numbers_of(demo, "estimates.json")
    assert written["converged"]
    assert np.shape(written["center_of_mass"]) == (3,)
    inertia = np.asarray(written["inertia_about_pivot"])
    assert np.all(np.linalg.eigvalsh(inertia) > 0)
    assert written["friction"] > 0
    for name, error in written["standard_errors"].items():
        assert np.all(np.asarray(error) > 0)
        assert np.shape(error) == np.shape(written[name])
    assert written["heldout_rms_mm"] < 0.6
    assert written["heavy_top_error_m"]["RKMK4, free"] < 3e-8
    for name in ("markers.png", "residuals.png", "convergence.png", "scene.html"):
        assert (folder / name).stat().st_size > 10_000


def test_heavy_top():
    folder, results = numbers_of(heavy_top, "convergence.json")
    # Orders from h = 1e-4 on; DOPRI5 reaches rounding there, so that larger steps show its order.
    expected = {"RKMK4": (4, 2), "RKMK DOPRI5": (5, 0)}
    # Between rounding and the largest step there is no straight line left for order 6.
    sixth = results.pop("RKMK RK67, free")
    assert sixth["error_m"][2] < 1e-12
    assert max(sixth["quaternion_minus_rotation_vector_m"]) < 1e-11
    for name, case in results.items():
        order, first = expected.get(name.split(",")[0], (2, 2))
        orders = np.asarray(case["observed_order"])[first : first + 2]
        assert np.all(np.abs(orders - order) < 0.05), (name, orders)
        assert max(case["quaternion_minus_rotation_vector_m"]) < 1e-11
    assert (folder / "convergence.png").stat().st_size > 10_000


def test_mechanisms():
    folder, errors = numbers_of(mechanisms, "mechanisms.json")
    # RKMK4 with 1 ms and 0.1 ms, against reference solutions of 15 digits.
    assert max(errors["bricard_rad"].values()) < 1e-12
    assert max(errors["puma560_rad"].values()) < 1e-10
    for name in ("bricard.gif", "puma560.gif"):
        assert (folder / name).stat().st_size > 10_000


def test_newton_counts():
    _, results = numbers_of(newton_counts, "results.json")
    for name, entries in results.items():
        for h, entry in entries.items():
            # A dash in the paper is a failure here; all that the paper could compute, we can.
            assert entry["failed"] == (entry["paper"] is None), (name, h)
            if entry["other_code"] is not None:
                assert abs(entry["ours"] - entry["other_code"]) < 0.02, (name, h)
            elif (name, h) == ("7, Rxyz", "9.77e-08"):
                # Ours is the average of the first 0.1 s, the paper's that of 4 s.
                assert 1.0 <= entry["ours"] <= entry["paper"]
            elif not entry["failed"]:
                assert abs(entry["ours"] - entry["paper"]) < 0.1, (name, h)


def test_local_global_maps():
    folder, results = numbers_of(local_global_maps, "local_global_maps.json")
    errors = results["errors"]
    for name, case in errors.items():
        order = 4 if "RKMK4" in name else 2
        for key, figures in case.items():
            assert figures["step_us"] > 0
            # The rotor's nutation turns by 0.8 rad in the largest step: straight lines begin late.
            pairs = slice(3, 4) if name.startswith("rotor") else slice(1, 3)
            seen = np.asarray(figures["observed_order"])[pairs]
            assert np.all(np.abs(seen - order) < 0.1), (name, key, seen)
            # How orientations are stored is no part of a method.
            with_quaternions = case["1" + key[1]]["error_m"]
            np.testing.assert_allclose(figures["error_m"], with_quaternions, rtol=0, atol=ROUNDING)
    # About a fixed point both groups are one, with a joint only if the group is SE(3).
    for method, held in (("RKMK4", "RKMK4 index 1"), ("generalized-α", "generalized-α")):
        free, joint = errors[f"heavy top, free, {method}"], errors[f"heavy top, joint, {held}"]
        for chart, (se3, r3so3) in {"exp": "ab", "cayley": "dc"}.items():
            expected = free[f"1{se3}"]["error_m"]
            for same in (free[f"1{r3so3}"], joint[f"1{se3}"]):
                np.testing.assert_allclose(same["error_m"], expected, rtol=0, atol=ROUNDING)
            different = np.asarray(joint[f"1{r3so3}"]["error_m"]) / expected
            assert np.all(np.abs(np.log(different)) > np.log(2.0)), (method, chart)
    # SE(3) keeps a joint at the ground by itself, and no other joint.
    for name in ("heavy top, joint, RKMK4 index 1", "chain, RKMK4 index 1"):
        for key, figures in errors[name].items():
            ground, *others = np.asarray(figures["joint_drift_m"]).T
            if key[1] in "ad":
                assert np.all(ground < ROUNDING), (name, key)
            else:
                assert np.all(ground[:2] > 10 * ROUNDING), (name, key)
            for other in others:
                assert np.all(other[:2] > 10 * ROUNDING), (name, key)
    assert results["chain_reference_uncertainty_m"] < ROUNDING
    drifts = {
        name: (max(figures["norm_defect"]), max(figures["joint_drift_m"]))
        for name, figures in results["coordinates"].items()
    }
    for name, (norm, joint) in drifts.items():
        assert (norm > 1e-6) == name.startswith("coordinates"), name
        assert (joint < UNHELD) == (name == "local, SE(3)"), name
    for name in ("errors.png", "work.png", "joints.png"):
        assert (folder / name).stat().st_size > 10_000


def test_unified_velocity():
    folder, results = numbers_of(unified_velocity, "results.json")
    methods = results["methods"]
    for name, case in methods.items():
        # From h = 1e-3 s to 1e-4 s; smaller steps are at the level of rounding.
        h, errors = (
            np.asarray(results["h"][3:7]),
            np.asarray(case["omega_error_after_one_turn"][3:7]),
        )
        assert np.polyfit(np.log(h), np.log(errors), 1)[0] > 4.0, name
        # After 1 s rounding has been amplified to 1e-5 rad/s of 100 rad/s.
        assert case["omega_error"][6] < 1e-4
        assert case["point_error_m"]["0.25"] < 1e-9
        assert max(case["largest_determinant_error"]["stored"]) < 1e-14
        assert results["point_minus_quaternions_m"][name]["after one turn"] < 1e-11
    for name in ("path", "point", "omega", "determinant", "determinant_steps", "convergence"):
        assert (folder / f"{name}.png").stat().st_size > 10_000


# Rounding of positions below 3 m that builds up over 20 000 steps.
ROUNDING = 1e-12
# Rounding of accelerations near 50 m/s², some 1e-14 m/s², moves a point that nothing holds by its
# double integral: 5e-13 m over ten seconds where it keeps its sign, a few times that as a bound.
UNHELD = 3e-12


# Rounding of energies of 17 J and momenta of up to 61 in SI units over as many as 1000 steps.
DRIFT_ROUNDING = 5e-13


def test_park_chung():
    folder, results = numbers_of(park_chung, "results.json")
    drifts = results["drifts"]
    assert drifts["entries"] == 108
    differing = {(e["table"], e["method"], e["h"]): e for e in drifts["differing"]}
    # The paper's rounding in this entry is larger than in all others.
    outlier = differing.pop(("VIII", "CG4", 0.001))
    assert abs(outlier["ours"]) < DRIFT_ROUNDING < outlier["paper"] < 3e-12
    # Rounding reaches the fifth digit of those below 1e-9 alone, and explains each.
    for place, entry in differing.items():
        assert entry["paper"] < 1e-9, place
        exact = entry["extended_precision"]
        assert abs(entry["ours"] - exact) < DRIFT_ROUNDING, place
        assert abs(entry["paper"] - exact) < DRIFT_ROUNDING, place
    operations = results["operations"]
    assert operations["table_v_follows_from_table_x"]
    assert operations["table_ix_follows_from_table_v"]
    for name, entry in operations["methods"].items():
        assert entry["calls"] == entry["calls_paper"], name
    for name, work in results["work"].items():
        errors = np.asarray(work["error_m"])
        orders = np.log2(errors[:-1] / errors[1:])[errors[1:] > 1e-13]
        assert abs(orders[-1] - int(name[2])) < 0.1, (name, orders)
    final = {name: run["angular"][-1] for name, run in results["long_run"].items()}
    assert final["CG4"] > 1.5 * max(final["CF4"], final["MK4"])
    assert final["CG3"] > 1.5 * max(final["CF3"], final["MK3"])
    for name in ("drift.png", "long_drift.png", "work.png"):
        assert (folder / name).stat().st_size > 10_000


def test_explicit_formulations():
    folder, results = numbers_of(explicit_formulations, "results.json")
    top, rotor = results["heavy top"], results["rotor"]
    for case in (top, rotor):
        for methods in case.values():
            assert all(figures["step_us"] > 0 for figures in methods.values())
        # What [S3] finds: the Lie group errs less than angles at every step size, and far less
        # where both converge, until rounding is reached.
        for method in ("RK44", "DOPRI5", "RK67"):
            pairs = zip(
                case["RV"][method]["error_m"], case["Rxyz"][method]["error_m"], strict=False
            )
            lie, angles = np.asarray([p for p in pairs if p[1] > ROUNDED_MOTION]).T
            assert len(lie) >= 4
            assert np.all(lie < angles), method
            assert np.all(lie[-3:] < 0.1 * angles[-3:]), method
    # Orders where errors are neither pre-asymptotic nor rounding.
    for methods, method, order, where in (
        (top["RV"], "RK44", 4, slice(2, 5)),
        (top["RV"], "DOPRI5", 5, slice(0, 2)),
        (top["EP"], "RK44", 4, slice(2, 5)),
        (top["Rxyz, axis z"], "RK44", 4, slice(0, 2)),
    ):
        seen = np.asarray(methods[method]["observed_order"])[where]
        assert np.all(np.abs(seen - order) < 0.3), (method, seen)
    reached = results["seconds_to_reach"]
    for case, accuracy, method in (
        ("heavy top", "1e-06", "RK44"),
        ("rotor", "1e-09", "DOPRI5"),
        ("rotor", "1e-09", "RK67"),
    ):
        lie, angles = (
            reached[f"{case}, {accuracy} m, {method}, {name}"] for name in ("RV", "Rxyz")
        )
        assert angles > 2.0 * lie, (case, method)
    for run in results["adaptive"].values():
        assert run["end_s"] == 1.0
    lie = (results["adaptive"][f"DOPRI5, RV, {tolerance}"] for tolerance in ("1e-08", "1e-12"))
    loose, tight = (run["error_m"] for run in lie)
    assert loose < 1e-5
    assert tight < 1e-3 * loose
    assert abs(results["path"]["period_s"] - 2.5) < 0.1
    for case in ("heavy_top", "rotor"):
        for kind in ("convergence", "work"):
            assert (folder / f"{case}_{kind}.png").stat().st_size > 10_000
    assert (folder / "path.png").stat().st_size > 10_000


# Errors of positions (m) above it are the methods' own: rounding over millions of steps stays a
# hundred times below.
ROUNDED_MOTION = 1e-9


def _common(first: dict, second: dict) -> np.ndarray:
    """Errors (2, steps) of two methods at the step sizes where both succeed."""
    pairs = zip(first["error"], second["error"], strict=False)
    return np.asarray([pair for pair in pairs if None not in pair]).T


def test_implicit_formulations():
    folder, results = numbers_of(implicit_formulations, "results.json")
    cases = results["cases"]
    top, held, rotor = (cases[name] for name in ("heavy top", "constrained heavy top", "rotor"))
    crank, puma = cases["slider-crank"], cases["Puma 560"]
    # Second order at the smallest steps, where nothing disturbs it: angles of the top come close to
    # a singularity, those of the rotor oscillate with its spin as Euler parameters do, and the
    # paper's tolerance of Newton's method is seen in the small errors of the slider-crank.
    for methods, rules in (
        ((top["RV"], top["EP"], held["RV"], held["EP"], *puma.values()), ("S3", "default")),
        ((rotor["RV"],), ("S3", "default")),
        ((crank["RV"], crank["Rxyz"]), ("default",)),
    ):
        for figures in methods:
            for rule in rules:
                orders = np.asarray(figures[rule]["observed_order"][-2:], float)
                assert np.all(np.abs(orders - 2.0) < 0.1), (rule, orders)
    # What [S3] finds of the top: Euler parameters err least, the Lie group iterates least and takes
    # the largest steps, alone by the paper's Newton method.
    for case, counted, factor in ((top, "S3", 5.0), (held, "S3 with T", 3.0)):
        for rule in ("S3", "default"):
            lie, parameters = _common(case["RV"][rule], case["EP"][rule])[:, -5:]
            assert np.all(lie > factor * parameters), rule
            lie, angles = _common(case["RV"][rule], case["Rxyz"][rule])[:, -3:]
            assert np.all(lie < angles), rule
        assert not case["RV"]["S3"]["failed"]
        assert case["EP"]["S3"]["failed"][0]["h"] == case["RV"]["S3"]["h"][0]
        assert case["Rxyz"]["S3"]["failed"][0]["h"] == case["RV"]["S3"]["h"][0]
        for i, count in enumerate(case["RV"][counted]["iterations"]):
            for other in ("EP", "Rxyz"):
                theirs = case[other]["S3"]["iterations"][i]
                assert theirs is None or count <= theirs + EQUAL_COUNTS, (other, i)
    # The rotor's Euler parameters fail at the largest steps and are the best at the smallest.
    assert [failure["h"] for failure in rotor["EP"]["S3"]["failed"]] == rotor["EP"]["S3"]["h"][:4]
    for rule in ("S3", "default"):
        assert not rotor["RV"][rule]["failed"] and not rotor["Rxyz"][rule]["failed"]
        best, lie, angles = (rotor[name][rule]["error"][-1] for name in ("EP", "RV", "Rxyz"))
        assert 5.0 * best < lie < 0.2 * angles, rule
    # Of the slider-crank: conventional coordinates are more accurate for h > 1e-4 s.
    for rule in ("S3", "default"):
        for name in ("EP", "Rxyz"):
            assert np.all(np.less(*_common(crank[name][rule], crank["RV"][rule]))), (name, rule)
    # T in the matrix saves iterations where rotations in a step are large.
    full, with_t = (held["RV"][rule]["iterations"][0] for rule in ("S3", "S3 with T"))
    assert full > 1.5 * with_t
    # Of the robot: joint coordinates err least and cost least.
    for rule in ("S3", "default"):
        minimal = puma["Min. Coord."][rule]
        for name in ("RV", "EP", "Rxyz"):
            other = puma[name][rule]
            assert np.all(np.less(*_common(minimal, other))), (name, rule)
            costs = zip(minimal["step_us"], other["step_us"], strict=True)
            assert all(least < cost for least, cost in costs if cost is not None)
    assert results["slider_crank_motion"]["readings_differ_by_m"] > 0.01
    for name in ("pivot", "mid-crank"):
        assert results["slider_crank_motion"][name]["error_m"] < 1e-6
    assert results["puma_motion"]["from_command_rad"] < 1e-3
    for case in cases:
        stem = case.lower().replace(" ", "_").replace("-", "_")
        for kind in ("convergence", "work"):
            assert (folder / f"{stem}_{kind}.png").stat().st_size > 10_000
    for name in ("heavy_top", "slider_crank", "puma_560"):
        assert (folder / f"{name}.png").stat().st_size > 10_000


# Averages of iterations that differ in single steps only.
EQUAL_COUNTS = 0.05


# Rounding of positions below 2 m within a step, and of velocities where nothing amplifies it: those
# of the top reach 150 rad/s.
HELD, HELD_RATE = 1e-14, 1e-12
# An iteration that stops at 1e-10 (m, N and N m together), the papers' rule.
STOPPED = 1e-10
# Observed orders between the two smallest of four steps.
ALPHA_ORDER = 0.05
# Multipliers that start with first order oscillate: their largest error is less regular.
PLAIN_ORDER = 0.15
# The accuracy that extrapolation must reach for an expansion in powers of h to be proven.
EXTRAPOLATED = 1e-11
# Rounding of positions, in velocities times 1/h and in multipliers times 1/h² at h = 4 ms, which
# the method's roots at -0.9 amplify some hundred times.
UNIFIED = {"observed": 1e-13, "twists": 1e-10, "multipliers": 1e-6}


def test_constrained_groups():
    folder, results = numbers_of(constrained_groups, "results.json")
    assert set(results["cases"]) == set(CASES)
    for name, case in results["cases"].items():
        assert case["reference_error"] < 1e-10
        for program, f in case["programs"].items():
            where = name, program
            plain = program == "plain start"
            for field in ("end", "observed", "twists", "multipliers"):
                if not max(f[field]) > 0.0:
                    assert (name, field) == ("rotor", "multipliers")
                    continue
                # The slider-crank's start is too gentle to be seen beside later errors.
                first = plain and field == "multipliers" and name != "slider-crank"
                slack = PLAIN_ORDER if first else ALPHA_ORDER
                seen = f["order_" + field][-1]
                assert abs(seen - (1 if first else 2)) < slack, (*where, field, seen)
            # Positions are held at every step, velocities by index 2 alone and by SE(3) on a ball
            # joint at the ground.
            assert max(f["drift"]) < (STOPPED if plain else HELD), where
            if name == "rotor":
                continue
            if program == "index 2":
                assert max(f["rate_drift"]) < HELD_RATE, where
            elif name == "heavy top" and program.startswith("SE(3)"):
                assert max(f["rate_drift"]) < 1e-9, where
            else:
                assert abs(f["order_rate_drift"][-1] - 2) < ALPHA_ORDER, where
            assert f["step_us"] > 0
        for t, f in case["extrapolated"].items():
            assert abs(f["orders"]["h²"][-1] - 2) < ALPHA_ORDER, (name, t)
            assert f["reached"] < EXTRAPOLATED, (name, t, f["reached"])
    for name in ("slider-crank", "double pendulum"):
        for field, difference in results["cases"][name]["programs"]["unified"]["minus_se3"].items():
            assert difference < UNIFIED[field], (name, field, difference)
    noise = results["noise"]["multipliers"]
    strong, weak, none = (noise[key][-1] for key in noise)
    assert strong > 10 * weak > 1e5 * none
    # Without numerical damping index 3 falls to rounding, index 2 does not.
    for name, run in results["energies"]["runs"].items():
        fails = "index 3, ρ∞ = 1" in name
        assert (run["end_s"] < 10.0) == fails, name
        if not fails:
            assert run["end_s"] == 100.0
            assert run["largest_J"] < 0.01, name
    ends = results["survival"]["end_s"]
    # By chance one of five step sizes reaches the end: compiled in another program it fails.
    assert np.sum(np.asarray(ends["index 3, ρ∞ = 1"]) < 10.0) >= 4
    assert min(ends["index 3, ρ∞ = 0.5"][1:]) == min(ends["index 2, ρ∞ = 1"][1:]) == 20.0
    for name in ("errors.png", "noise.png", "energy.png"):
        assert (folder / name).stat().st_size > 10_000
