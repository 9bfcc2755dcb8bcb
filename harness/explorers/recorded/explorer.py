"""Explores the crash states of a recorded program: enumerates them, asks the checker, and explains what it rejects.

The checker must accept the end of the run with all acknowledgements and its start with none, else nothing that it says
counts. Of rejected states, one of each cause is made smaller, and a sync that would close it is looked for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tornproof.harness.common.verdict import Finding, HasTime, Phase, Verdict, always, nothing_explored
from tornproof.harness.counterexamples.replay_engine import choice_text, read_choice
from tornproof.harness.counterexamples.smaller import simpler_choices
from tornproof.harness.explorers.recorded.checker import Answer, Checker, StoppedError
from tornproof.harness.explorers.recorded.effects import Effect, kept_effects, lost_effects, site, sites
from tornproof.harness.explorers.recorded.mending import mend
from tornproof.harness.explorers.recorded.states import (
    Enumerated,
    Point,
    State,
    enumerate_states,
    key_of,
    points_of,
    state_named,
)
from tornproof.harness.parallel.tasks import Exploration
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.harness.recording.replaying import Machine
from tornproof.harness.recording.steps import SYNCS, Step, StepKind, Trace, parts_of, whole_of
from tornproof.harness.simulator.persistence.legal_disks import DEFAULT_LIMITS, Disk, chosen_disk
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.models import MODELS, Choice, D, Model, model_named

PHASE = "power"
STATES_OF_AN_EFFORT = 500
STATES_OF_A_TASK = 50
RUNS_TO_SHRINK_MAX = 200
CAUSES_MAX = 12
SHOWN_MAX = 4
COUNTED_MAX = 10**18
"""There can be more legal states than a file of results can count."""
UNCHANGING = SYNCS | {StepKind.ACKNOWLEDGE}
ALL_MODELS = tuple(model for model in MODELS if model is not D)
"""Without failing syncs, for which a program would have to be run again."""
MEND_LIMITS = Limits(file_count=64, names_count=64, disk_count=128)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedQuestion:
    """A trace, the checker, the models, and how many states are checked at most."""

    trace: Trace
    checker: Checker
    models: tuple[str, ...] = tuple(model.name for model in ALL_MODELS)
    states_max: int
    limits: Limits = DEFAULT_LIMITS


class Sanity(NamedTuple):
    """What the checker says of the ends of a run: of the end, the start, and the start where all was acknowledged."""

    end: Answer
    start: Answer
    forgetful: Answer


class Rejected(NamedTuple):
    """A state that the checker rejects, what it said, and what is not on its disk."""

    state: State
    answer: Answer
    lost: tuple[Effect, ...]


def explore_recorded(question: RecordedQuestion) -> Exploration:
    """Explore; the phase says how many crash points and states there are, and how many were checked."""
    if all(step.kind in UNCHANGING for step in question.trace.steps):
        return nothing_explored(PHASE, "nothing was recorded: the program changed nothing below the directory")
    models = [model_named(name) for name in question.models]
    ends, *found = yield [
        Task(run=_ends, begins_first=True),
        *(Task(run=_enumerate, arguments=(model.name,)) for model in models),
    ]
    if ends is None or None in found:
        return nothing_explored(PHASE, "the run was cut before the crash states were known")
    if doubt := _doubt_of(ends):
        return nothing_explored(PHASE, doubt)
    states = _first_states(found, question.states_max)
    batches = [states[start : start + STATES_OF_A_TASK] for start in range(0, len(states), STATES_OF_A_TASK)]
    answered = yield [Task(run=_check, arguments=(batch,), cost=len(batch)) for batch in batches]
    checked = sum(count for count, _ in filter(None, answered))
    rejected = [each for _, some in filter(None, answered) for each in some]
    causes = _causes(question.trace, rejected)
    explained = yield [Task(run=_explain, arguments=(each,)) for each, _ in causes]
    findings = _findings(question.trace, causes, explained)
    return _phase(question, found, checked, findings, len(rejected), ends)


class Checked(NamedTuple):
    """What the checker says of one state, the state in words, and why a rejection does not count, if it does not."""

    answer: Answer
    sentences: list[str]
    doubt: str

    @property
    def verdict(self) -> Verdict:
        """UNKNOWN where the checker rejects what it should accept, too."""
        if self.answer.accepts:
            return Verdict.VALID
        return Verdict.UNKNOWN if self.doubt else Verdict.INVALID


def check_one(question: RecordedQuestion, name: str) -> Checked:
    """Check the one state of a name, and, if the checker rejects it, whether it accepts the ends of the run."""
    point, state = state_named(question.trace, name)
    model, choice = model_named(state.choice.model), state.choice
    disk = chosen_disk(point.machine.kernel, model, choice)
    acknowledged = question.trace.acknowledgements(point.step)
    with tempfile.TemporaryDirectory(prefix="tornproof-") as scratch:
        answer = question.checker.check(disk.kernel(), acknowledged, Path(scratch))
        doubt = "" if answer.accepts else _doubt_of(_ends_of(question, Path(scratch)))
    steps = question.trace.steps
    lost = lost_effects(steps, point.machine, model, choice, disk)
    kept = kept_effects(steps, point.machine, lost)
    return Checked(answer, _sentences(question.trace, Rejected(state, answer, lost), kept), doubt)


# Tasks.


def _points(worker: Worker) -> dict[bool, dict[int, Point]]:
    """Return the crash points by step, for models in which a sync of a part syncs the whole file, and for others."""
    models = {model.syncs_whole_files: model for model in ALL_MODELS}
    trace = worker.question.trace
    return {is_whole: {point.step: point for point in points_of(trace, model)} for is_whole, model in models.items()}


def _machine(worker: Worker, state: State) -> Machine:
    return worker.once(_points)[model_named(state.choice.model).syncs_whole_files][state.step].machine


def _answers(worker: Worker) -> dict[bytes, Answer]:
    return {}


def _disk(worker: Worker, state: State) -> Disk:
    return chosen_disk(_machine(worker, state).kernel, model_named(state.choice.model), state.choice)


def _rejected(worker: Worker, state: State, disk: Disk) -> Rejected | None:
    """Return the state with what its disk lacks if the checker rejects it."""
    machine = _machine(worker, state)
    answer = _asked(worker, disk, machine)
    if answer.accepts:
        return None
    steps, model = worker.question.trace.steps, model_named(state.choice.model)
    return Rejected(state, answer, lost_effects(steps, machine, model, state.choice, disk))


def _asked(worker: Worker, disk: Disk, machine: Machine) -> Answer:
    """Return what the checker says of a disk, which it is asked once in a process."""
    question: RecordedQuestion = worker.question
    known, key = worker.once(_answers), key_of(disk, machine.acknowledged)
    if key not in known:
        lines = question.trace.acknowledgements(len(question.trace.steps))[: machine.acknowledged]
        known[key] = question.checker.check(disk.kernel(), lines, worker.scratch, worker.has_time)
    return known[key]


def _ends(worker: Worker) -> Sanity:
    return _ends_of(worker.question, worker.scratch, worker.has_time)


def _ends_of(question: RecordedQuestion, scratch: Path, has_time: HasTime = always) -> Sanity:
    trace, checker = question.trace, question.checker
    end = Machine(trace.start)
    start = end.fork()
    for index, step in enumerate(trace.steps):
        end.apply(step, index)
    everything = trace.acknowledgements(len(trace.steps))
    return Sanity(
        checker.check(end.kernel, everything, scratch, has_time),
        checker.check(start.kernel, (), scratch, has_time),
        checker.check(start.kernel, everything, scratch, has_time),
    )


def _enumerate(worker: Worker, model: str) -> Enumerated:
    question: RecordedQuestion = worker.question
    return enumerate_states(question.trace, model_named(model), question.limits, question.states_max)


def _check(worker: Worker, states: Sequence[State]) -> tuple[int, list[Rejected]]:
    """Return how many states were checked, and those that were rejected."""
    rejected: list[Rejected] = []
    for count, state in enumerate(states):
        if not worker.has_time():
            return count, rejected
        worker.report_progress(count, len(states))
        try:
            each = _rejected(worker, state, _disk(worker, state))
        except StoppedError:
            return count, rejected
        if each is not None:
            rejected.append(each)
    worker.report_progress(len(states), len(states))
    return len(states), rejected


def _explain(worker: Worker, rejected: Rejected) -> tuple[Rejected, dict[str, Any]]:
    """Make a rejected state smaller, and say what is missing and what would have prevented it."""
    question: RecordedQuestion = worker.question
    smaller = _shrunk(worker, rejected)
    state, machine = smaller.state, _machine(worker, smaller.state)

    def accepts(left: Disk, then: Machine) -> bool:
        return _asked(worker, left, then).accepts

    sync, tried = mend(question.trace, state, _disk(worker, state), smaller.lost, accepts, MEND_LIMITS, worker.has_time)
    evidence: dict[str, Any] = {
        "state": state.name,
        "model": state.choice.model,
        "crash_after": state.step,
        "lost": [{"step": effect.step, "state": effect.state} for effect in smaller.lost],
        "kept": list(kept_effects(question.trace.steps, machine, smaller.lost)),
        "checker": smaller.answer._asdict(),
        "acknowledged": machine.acknowledged,
        "syncs_tried": tried,
        "closed_by": None,
    }
    if sync is not None:
        evidence["closed_by"] = {
            "sync": f"{sync.sync.name} of {sync.sync.path}",
            "after": sync.after,
            "checked": sync.checked,
        }
    return smaller, evidence


def _shrunk(worker: Worker, rejected: Rejected) -> Rejected:
    """Return a state of the same crash point that lacks less and is rejected too."""
    machine, model = _machine(worker, rejected.state), model_named(rejected.state.choice.model)
    runs = 0
    is_smaller = True
    while is_smaller and runs < RUNS_TO_SHRINK_MAX:
        is_smaller = False
        for choice in _simpler(worker, rejected.state, model):
            if runs == RUNS_TO_SHRINK_MAX or not worker.has_time():
                break
            try:
                disk = chosen_disk(machine.kernel, model, choice)
            except IndexError:
                continue
            runs += 1
            # With other names, a file that the choice is about may not be there.
            choice = choice._replace(files=tuple(each for each in choice.files if each[0] in disk.tree.paths))
            state = rejected.state._replace(key=key_of(disk, machine.acknowledged), choice=choice)
            if (found := _rejected(worker, state, disk)) is not None:
                rejected, is_smaller = found, True
                break
    return rejected


def _simpler(worker: Worker, state: State, model: Model) -> Iterable[Choice]:
    kernel = _machine(worker, state).kernel
    simpler = simpler_choices(kernel, model.name, choice_text(state.choice))
    return (read_choice(model.name, text) for text in simpler)


# Results.


def _doubt_of(ends: Sanity) -> str:
    """Return why nothing that the checker says counts, or ""."""
    if not ends.end.accepts:
        return f"the checker rejects the end of the run, of which nothing is lost: {ends.end}"
    return "" if ends.start.accepts else f"the checker rejects the start of the run: {ends.start}"


def _first_states(found: Sequence[Enumerated], count_max: int) -> list[State]:
    """Return the states of all models, each once, those that deviate least first, and of those in the models' order.

    The first models have few states that deviate little, and most file systems are like them.
    """
    states: dict[bytes, tuple[int, int, State]] = {}
    for rank, each in enumerate(found):
        for state in each.states:
            states.setdefault(state.key, (state.deviation, rank, state))
    return [state for *_, state in sorted(states.values(), key=lambda each: (*each[:2], each[2].key))[:count_max]]


def _causes(trace: Trace, rejected: Sequence[Rejected]) -> list[tuple[Rejected, int]]:
    """Return a state of each cause, which lacks least, and how many are like it."""
    causes: list[tuple[Rejected, frozenset[str]]] = []
    counts: list[int] = []
    for each in sorted(rejected, key=_simplicity):
        places = _cause(trace, each)
        known = next((index for index, (_, cause) in enumerate(causes) if cause <= places), None)
        if known is not None:
            counts[known] += 1
        elif len(causes) < CAUSES_MAX:
            causes.append((each, places))
            counts.append(1)
    return [(each, count) for (each, _), count in zip(causes, counts, strict=True)]


def _simplicity(rejected: Rejected) -> tuple[int, int, int, int]:
    """Return a key that puts first what lacks least, under the model that most file systems are like."""
    state = rejected.state
    rank = [model.name for model in ALL_MODELS].index(state.choice.model)
    return len(rejected.lost), rank, state.deviation, state.step


def _cause(trace: Trace, rejected: Rejected) -> frozenset[str]:
    if rejected.lost:
        return sites(trace.steps, rejected.lost)
    last = trace.steps[rejected.state.step - 1] if rejected.state.step else None
    return frozenset({f"after {'the start' if last is None else site(last)}"})


def _findings(
    trace: Trace, causes: Sequence[tuple[Rejected, int]], explained: Sequence[tuple[Rejected, dict[str, Any]] | None]
) -> tuple[Finding, ...]:
    """Return a finding for each cause; one that there was no time to explain is as it was found."""
    found: dict[frozenset[str], Finding] = {}
    for (as_found, count), each in zip(causes, explained, strict=True):
        rejected, evidence = each or (as_found, {"state": as_found.state.name})
        sentences = _sentences(trace, rejected, evidence.get("kept", ()))
        sentences += _mended(trace, evidence) if each else []
        finding = Finding(
            property="the checker accepts what a crash leaves",
            phase=PHASE,
            sentence=" ".join(sentences),
            evidence={**evidence, "states": count, "sentences": sentences},
        )
        found.setdefault(_cause(trace, rejected), finding)
    return tuple(found.values())


def _sentences(trace: Trace, rejected: Rejected, kept: Sequence[int]) -> list[str]:
    steps, state = trace.steps, rejected.state
    when = _moment(steps, state.step)
    said = [f"The power is cut {when} (model {state.choice.model})."]
    if state.choice.model == "A":
        said = [f"The program is killed {when}."]
    said += [f"{_upper(str(whole_of(steps, effect.step)))} {effect.state}." for effect in rejected.lost[:SHOWN_MAX]]
    if len(rejected.lost) > SHOWN_MAX:
        said.append(f"So are {len(rejected.lost) - SHOWN_MAX} more.")
    later = [index for index in kept if rejected.lost and index > rejected.lost[0].step]
    if later:
        shown = "; ".join(str(whole_of(steps, each)) for each in later[:SHOWN_MAX])
        said.append(f"On disk is, though it was called later: {shown}.")
    acknowledged = trace.acknowledgements(state.step)
    if acknowledged:
        last = acknowledged[-1].decode(errors="backslashreplace")
        said.append(f"Acknowledged by then: {len(acknowledged)}, the last {last!r}.")
    said.append(f"The checker: {rejected.answer}.")
    return said


def _moment(steps: Sequence[Step], count: int) -> str:
    """Return in words when a crash after so many steps comes, which may be inside of a write."""
    if not count:
        return "before the first call"
    parts = parts_of(steps, count - 1)
    whole = whole_of(steps, count - 1)
    written = sum(len(steps[part].content) for part in range(parts.start, count))
    return f"after {whole}" if parts.stop == count else f"after the first {written} bytes of {whole}"


def _mended(trace: Trace, evidence: dict[str, Any]) -> list[str]:
    closed = evidence["closed_by"]
    if closed is not None:
        after = whole_of(trace.steps, closed["after"])
        return [
            f"One sync closes it: {closed['sync']} after {after}; of {closed['checked']} states that are left then, "
            "none of this kind is rejected."
        ]
    return [f"No single sync closes it, of {evidence['syncs_tried']} that were tried."] if evidence["lost"] else []


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _phase(
    question: RecordedQuestion,
    found: Sequence[Enumerated],
    checked: int,
    findings: tuple[Finding, ...],
    rejected: int,
    ends: Sanity,
) -> Phase:
    keys = frozenset[bytes]().union(*(each.keys for each in found))
    is_complete = all(each.is_complete for each in found) and checked == len(keys)
    names = ", ".join(question.models)
    points = max(each.points for each in found)
    if is_complete:
        bound = f"every disk under {names} at {points} crash points"
    else:
        bound = f"{checked} of {len(keys)} different states that were found at {points} crash points under {names}"
        if not all(each.is_complete for each in found):
            bound += "; at some points they are a sample of those that are allowed"
    counts = {
        "crash points": points,
        "legal states": min(sum(each.legal for each in found), COUNTED_MAX),
        "tried states": sum(each.tried for each in found),
        "different states": len(keys),
        "rejected states": rejected,
        "acknowledgements": len(question.trace.acknowledgements(len(question.trace.steps))),
    }
    phase = Phase(
        name=PHASE,
        explored=checked,
        complete=is_complete,
        bound=bound,
        verdict=Verdict.INVALID if findings or rejected else Verdict.VALID if checked else Verdict.UNKNOWN,
        counts=counts,
        findings=findings,
        note=_note(ends, counts["acknowledgements"]),
    )
    return phase.with_controls(_failed_controls(question, found))


def _note(ends: Sanity, acknowledgements: int) -> str:
    if not acknowledgements:
        return "nothing was acknowledged, so the checker is not asked whether what was promised is lost"
    if ends.forgetful.accepts:
        return "the checker accepts the start even where everything was acknowledged: it cannot tell what is lost"
    return ""


def _failed_controls(question: RecordedQuestion, found: Sequence[Enumerated]) -> list[str]:
    """Return what speaks against the injector: where something is not synced, some disk lacks it."""
    return [
        f"{name}: nothing is ever lost, though at {each.unsynced_points} crash points something was not synced"
        for name, each in zip(question.models, found, strict=True)
        if model_named(name).everything_dies and each.unsynced_points and each.tried <= each.points
    ]
