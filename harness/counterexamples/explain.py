"""Why a property was broken, as data: three lanes of events, the bytes that were lost, and the nearest passing run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.verdict import shortened
from tornproof.harness.counterexamples.actions import ActionRecorder
from tornproof.harness.counterexamples.byte_map import crash_ranges
from tornproof.harness.counterexamples.cause import Decisive, infer, notable, stands_in
from tornproof.harness.counterexamples.lanes import LaneRecorder
from tornproof.harness.counterexamples.log import DecisionLog, Deviation, PowerCut, moved_to, step_text, text_of
from tornproof.harness.counterexamples.replay_engine import Observer, disk_after
from tornproof.harness.counterexamples.run import Replayer, Signature
from tornproof.harness.counterexamples.shrink import StepRecorder
from tornproof.harness.counterexamples.smaller import Candidate
from tornproof.harness.counterexamples.state_recorder import StateRecorder
from tornproof.harness.counterexamples.step_names import END, Step
from tornproof.harness.counterexamples.words import counts_of, property_words, sentences
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.case import NotExplorableError
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

CLAUSES = {
    Property.WRONG_SNAPSHOT: "I2: a snapshot equals exactly one committed version",
    Property.REJECTED: "I8: a reader of a sound table gets an answer",
    Property.STALE: "I1: what was acknowledged before a read began is in what it sees",
    Property.WENT_BACK: "I3: the versions that one reader sees never go back",
    Property.LOST: "I1: an acknowledged commit survives every crash",
    Property.SEEN_LOST: "I4: what was seen stays, while only processes die",
    Property.UNREADABLE: "I6: after a recovery the table can be read",
    Property.RECOVERY: "I6: a crash leaves what a writer can recover",
    Property.COMMIT: "I10: a commit is acknowledged where no call fails",
    Property.DISORDERLY: "I8: an error is said in an orderly way, and never a bus error",
    Property.ENDS: "I8: nobody waits for ever",
    Property.LEASE: "I5: what is leased stays as it is",
    Property.IMMUTABLE: "I7: bytes of committed generations never change",
    Property.BARRIERS: "I9: no version is stored before what it names is durable",
    Property.IDEMPOTENT: "I6: recovery of what is recovered changes nothing",
    Property.BEHAVIOUR: "I1 and I3, between readers too: what a read has seen, every read that begins later sees",
    Property.FAULT_FREE: "I10: a commit is acknowledged where no call fails",
    Property.SYNCED: "I1: an acknowledged commit survives every crash",
    Property.CONTENT: "I2: a commit leaves the rows that the model has, no more and no fewer",
}
OPERATION_CHARACTERS_MAX = 80


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A passing run that differs in one decision: that decision, what replaces it, the change in words, and the run."""

    deviation: Deviation
    moved: Deviation | None
    change: str
    lanes: LaneRecorder

    def document(self, process: str, decisive: Decisive | None) -> dict[str, Any]:
        """Return it as JSON, with what a process then sees."""
        return {
            "decision": text_of(self.deviation),
            "change": self.change,
            "verdict": "VALID",
            "moved": "" if self.moved is None else text_of(self.moved),
            "stands": None if self.moved is None or decisive is None else decisive.stands_before(self.moved.at),
            "sees": self.lanes.last_sight(process),
            "lanes": self.lanes.document(self.moved or self.deviation),
        }


class _All(Observer):
    """Passes one run to several observers."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def stepping(self, step: Step, call: Call, kernel: Kernel) -> None:
        for observer in self._observers:
            observer.stepping(step, call, kernel)

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        for observer in self._observers:
            observer.stepped(step, call, node, world)

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        for observer in self._observers:
            observer.deviated(deviation, kernel)


def explain(candidate: Candidate, wanted: Signature) -> dict[str, Any]:
    """Return why a case breaks the property, as JSON."""
    case, log = candidate.case, candidate.log
    with Replayer(case) as replayer:
        recorder, state = LaneRecorder(case, log), StateRecorder(case)
        result = replayer.play(log, wanted=wanted, observer=_All(recorder, state))
        violation = result.violation(wanted)
        assert violation is not None, "only what happens can be explained"
        neighbour = next(_neighbours(replayer, log, recorder), None)
        last = next(reversed(log.deviations), None)
        files, left_out_count = state.files()
        decisive = _decisive(replayer, log, recorder, neighbour)
        explanation = {
            "client": violation.process,
            "seen": violation.sentence,
            "broken": property_words(wanted.property),
            "clause": CLAUSES.get(wanted.property, wanted.property),
            "trace": result.trace_hash,
            "steps": result.step_count,
            "decisions": [text_of(deviation) for deviation in log.deviations],
            "operations": [shortened(str(each), OPERATION_CHARACTERS_MAX) for each in case.operations],
            "stands": [
                decisive.stands_before(each.at)
                if decisive is not None and each is decisive.deviation
                else stands_in(recorder, each.at)
                for each in log.deviations
            ],
            "lanes": recorder.document(last if neighbour is None else neighbour.deviation),
            "bytes": _bytes(candidate, recorder.kernels),
            "files": files,
            "files_at": state.text,
            "files_left_out": left_out_count,
            "cause": None if decisive is None else _cause(decisive),
            "passes_when": infer(case, decisive, log, recorder, violation.process).document(),
            "neighbour": None if neighbour is None else neighbour.document(violation.process, decisive),
        }
        evidence = {"explanation": explanation, "log": log.document(), "test_case": counts_of(case)}
        return {**explanation, "narrative": sentences(wanted.property, evidence)}


def _bytes(candidate: Candidate, kernels: dict[Deviation, Kernel]) -> list[dict[str, Any]]:
    ranges = []
    for deviation, kernel in kernels.items():
        assert isinstance(deviation, PowerCut)
        disk = disk_after(kernel, deviation.model, deviation.choice)
        # Only of several cuts it must be said which one it was.
        of = {"decision": candidate.log.deviations.index(deviation)} if len(kernels) > 1 else {}
        ranges += [each | of for each in crash_ranges(kernel, disk, candidate.case)]
    return ranges


def _neighbours(replayer: Replayer, log: DecisionLog, recorder: StepRecorder) -> Iterator[Neighbour]:
    """Yield the runs that break nothing with one decision a step earlier or left out, the last decision first.

    The shrinker has moved each decision to the first step at which it does harm, so a step earlier it mostly does none.
    """
    for index in reversed(range(len(log.deviations))):
        deviation = log.deviations[index]
        earlier = recorder.before(deviation.at)
        ways = [(moved_to(deviation, earlier), "one step earlier")] if earlier is not None else []
        for moved, change in [*ways, (None, "left out")]:
            kept = () if moved is None else (moved,)
            other = DecisionLog((*log.deviations[:index], *kept, *log.deviations[index + 1 :]))
            lanes = LaneRecorder(replayer.case, other)
            try:
                result = replayer.play(other, observer=lanes)
            except NotExplorableError:
                # What is right there is unknown, so this run does not count as passing.
                continue
            if not result.violations and (moved is None or moved in result.applied):
                yield Neighbour(deviation, moved, change, lanes)


def _decisive(
    replayer: Replayer, log: DecisionLog, recorder: ActionRecorder, neighbour: Neighbour | None
) -> Decisive | None:
    """Return the decision that matters, with the steps that its process takes from there on if it is left out."""
    if not log.deviations:
        return None
    deviation = log.deviations[-1] if neighbour is None else neighbour.deviation
    without = ActionRecorder(replayer.case)
    with suppress(NotExplorableError):
        replayer.play(DecisionLog(tuple(each for each in log.deviations if each is not deviation)), observer=without)
    return Decisive(
        log=log,
        number=log.deviations.index(deviation),
        actions={**without.actions(), **recorder.actions()},
        done=recorder.until(deviation.at),
        later=without.since(deviation.at),
    )


def _cause(decisive: Decisive) -> dict[str, str]:
    """Return what the process of the decision had done just before it, and what it had not done yet."""
    done, todo = notable(decisive.done[::-1]), notable(decisive.later)
    return {
        "decision": text_of(decisive.deviation),
        "client": decisive.deviation.at.process,
        "done": _text(done),
        "not_yet": _text(todo),
        "done_action": _action(done, decisive),
        "not_yet_action": _action(todo, decisive),
    }


def _text(step: Step | None) -> str:
    return "" if step is None or step.operation == END else step_text(step).partition("@")[2]


def _action(step: Step | None, decisive: Decisive) -> str:
    return "" if step is None or step.operation == END else f"{step.operation}: {decisive.text_of(step)}"
