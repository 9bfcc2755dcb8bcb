"""The power explorer: a crash after every step, in every model of persistence, also in recovery, and what is left then.

Of each model all legal disks of each crash point are tried, or a sample that the phase calls one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.disk.persistence import C_8, MODELS, Model
from harness.explore import power_points
from harness.explore.power_controls import failed_controls
from harness.explore.power_course import Course, Courses
from harness.explore.power_exploration import PHASE, Found, Settings, Tally, finding_of
from harness.explore.power_judge import PowerJudge
from harness.explore.power_model import explore_model
from harness.explore.situation import Situation
from harness.verdict import Clock, Finding, OnProgress, Phase, Verdict

COUNTED_MAX = 1 << 53
IN_ORDER = (*(model for model in MODELS if model is not C_8), C_8)
"""What can be explored completely comes before what is a sample."""


def explore_power(
    situation: Situation,
    *,
    clock: Clock,
    seconds: float,
    models: Sequence[Model] = IN_ORDER,
    settings: Settings | None = None,
    on_progress: OnProgress = lambda done, total: None,
    points: Sequence[str] | None = None,
) -> Phase:
    """Cut the power of a situation's one writer at every step of its first life, and of recoveries after it.

    Runs for about `seconds` of `clock`; of a model that is not done then the bound says so, and without one that is
    done the verdict is UNKNOWN. `points` must be reached, by default those of a table's workload. Raises
    NotExplorableError.
    """
    begin = clock()
    settings = settings or Settings()
    failed = failed_controls(models)
    courses = Courses(situation)
    course = courses.of(models[0])
    judge = PowerJudge(situation)
    found: list[Found] = []
    tallies: dict[Model, Tally] = {}
    total = len(models) * len(course.points)
    try:
        for number, model in enumerate(models):
            exploration = explore_model(
                judge,
                courses,
                model,
                settings,
                has_time=lambda: clock() - begin < seconds,
                on_point=lambda done, number=number: on_progress(number * len(course.points) + done, total),  # type: ignore[misc]
            )
            tallies[model] = exploration.tally
            found += exploration.found.values()
    finally:
        judge.close()
    must_reach = power_points.must_reach_all(models) if points is None else points
    return _phase(situation, course, tallies, found, failed, must_reach, clock() - begin)


def _phase(
    situation: Situation,
    course: Course,
    tallies: dict[Model, Tally],
    found: Sequence[Found],
    failed: Sequence[str],
    must_reach: Sequence[str],
    seconds: float,
) -> Phase:
    reached: Counter[str] = Counter()
    counts: dict[str, int] = {"steps": course.step_count, "crash points": len(course.points)}
    notes, bounds = [], []
    for model, tally in tallies.items():
        reached.update(tally.reached)
        counts |= {f"{model}: {name}": count for name, count in _counts(tally).items()}
        bounds.append(_bound(model, tally))
    missing = [name for name in must_reach if not reached[name]]
    is_cut = any(tally.is_out_of_time for tally in tallies.values())
    if missing and not is_cut and not found:
        notes.append(f"never reached: {', '.join(missing)}")
    if is_cut and all(tally.is_out_of_time for tally in tallies.values()):
        notes.append("the time was over before one model was explored to its end")
    if failed:
        notes.append("a positive control failed")
    target = situation.target.name
    findings = [_undisturbed(target, *violation[::2]) for violation in course.violations]
    findings += [finding_of(each, target) for each in found]
    return Phase(
        name=PHASE,
        explored=sum(len(tally.distinct) for tally in tallies.values()),
        complete=not is_cut and all(tally.is_complete for tally in tallies.values()),
        bound=f"{len(situation.first_life)} commits with {course.step_count} calls, a crash at each of "
        f"{len(course.points)} moments at which it can leave something else; {'; '.join(bounds)}",
        verdict=Verdict.INVALID if findings else Verdict.UNKNOWN if notes else Verdict.VALID,
        seconds=seconds,
        counts=counts,
        reached={name: reached[name] for name in dict.fromkeys((*must_reach, *reached))},
        controls="; ".join(failed) if failed else "passed",
        note="; ".join(notes),
        findings=tuple(findings),
    )


def _counts(tally: Tally) -> dict[str, int]:
    counts = {
        "crash points": tally.points,
        "legal disks": tally.legal,
        "disks tried": tally.tried,
        "distinct disks": len(tally.distinct) - tally.nested_distinct,
        "disks of crashes in recovery tried": tally.nested_tried,
        "further distinct disks of crashes in recovery": tally.nested_distinct,
        "disks with commits on top": tally.gone_on,
        "violations": tally.violations,
    }
    return {name: count for name, count in counts.items() if count < COUNTED_MAX}


def _bound(model: Model, tally: Tally) -> str:
    if tally.is_complete and not tally.is_out_of_time:
        return f"{model} complete: {len(tally.distinct)} distinct disks"
    legal = str(tally.legal) if tally.legal < COUNTED_MAX else f"about 2^{tally.legal.bit_length()}"
    cut = "cut by the time" if tally.is_out_of_time else "a sample"
    return f"{model} {cut}: {tally.tried} of {legal} disks, {len(tally.distinct)} distinct"


def _undisturbed(target: str, violated: str, sentence: str) -> Finding:
    return Finding(
        property=violated,
        phase=PHASE,
        sentence=f"Without any disturbance: {sentence}.",
        evidence={"target": target, "cuts": []},
    )
