"""The evidence of a finding in words, made from its data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Fail, Kill, PowerCut, Switch, parse_deviation
from tornproof.harness.counterexamples.step_names import END, Step
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import ONE_ORDER, Property

GONE = {
    "lost": "{file} has lost what was written to bytes {ranges}",
    "torn": "{file} has a part of what was written to bytes {ranges}",
    "no name": "{file} is not there",
    "old name": "{file} is the file of before",
    "not removed": "{file} is still there",
    "both names": "{file} is still there too",
}
"""What became of bytes and names that a power cut did not leave as they were, in words."""
KEPT = "{file} already has the change of bytes {ranges}"
GONE_COUNT_MAX = 4
OPERATIONS_SHOWN_MAX = 3
THEN_SHOWN_MAX = 2
CAUSES_SHOWN_MAX = 2
LEFT_OUT = "left out"
PLAIN_ERROR = "CorruptError: "
"""The class of most errors, which says no more than the error itself."""


class Failure(NamedTuple):
    """What a process that a property is broken for does, and what the field calls it."""

    phrase: str
    names: str = ""


FAILURES = {
    Property.WRONG_SNAPSHOT: Failure("sees what was never committed", "torn read; ALICE: atomicity"),
    Property.REJECTED: Failure("is refused", "noticed torn read; ALICE: atomicity"),
    Property.STALE: Failure("does not see what was acknowledged before", "stale read; not linearizable"),
    Property.WENT_BACK: Failure("sees an older version than before", "non-monotonic read"),
    Property.LOST: Failure("does not find an acknowledged commit", "lost commit; ALICE: durability"),
    Property.SEEN_LOST: Failure("does not find what was read before", "aborted read, G1a"),
    Property.UNREADABLE: Failure("cannot read the table after a recovery", "ALICE: atomicity"),
    Property.RECOVERY: Failure("cannot recover", "ALICE: atomicity"),
    Property.COMMIT: Failure("cannot commit though no call fails", "unavailable"),
    Property.DISORDERLY: Failure("ends by an error that is not one of the target's"),
    Property.ENDS: Failure("does not end", "deadlock or livelock"),
    Property.LEASE: Failure("has bytes changed that it has leased", "dirty write, G0"),
    Property.IMMUTABLE: Failure("overwrites committed bytes", "dirty write, G0"),
    Property.BARRIERS: Failure("stores a version too early", "ALICE: ordering"),
    Property.IDEMPOTENT: Failure("recovers what was recovered, and changes it"),
    Property.CONTENT: Failure("leaves other rows than the model has", "lost update"),
    Property.BEHAVIOUR: Failure("reports what no behaviour of the model is", "non-monotonic read between readers"),
    Property.FAULT_FREE: Failure("is disturbed by nobody and gives a wrong answer"),
    Property.SYNCED: Failure("acknowledges a commit whose sync failed", "ALICE: durability"),
    ONE_ORDER: Failure("cannot be put in one order", "not serializable"),
}
"""By property; G0 and G1a are names of Adya's, the properties of ALICE are those of Pillai et al."""
LANES = ("writer", "readers", "disk")


def title_of(violated: str, process: str, seen: str) -> str:
    """Return a failure as a title: who got what, and what was wrong with it."""
    phrase = FAILURES.get(violated, Failure("violates: " + violated)).phrase
    return f"{process} {phrase}: {seen.removeprefix(PLAIN_ERROR)}"


def property_words(violated: str) -> str:
    """Return a property with the names that the field has for its violation."""
    names = FAILURES.get(violated, Failure("")).names
    return f"{violated} ({names})" if names else violated


def sentences(violated: str, evidence: Mapping[str, Any]) -> list[str]:
    """Return what was broken, how it happened, which changes prevent it, and the nearest run that passes."""
    explained = evidence["explanation"]
    then = [f"Then {each}." for each in _decisions(evidence)] or [
        "Then every process runs to its end; no call fails, and nothing crashes."
    ]
    return [
        f"Broken: {property_words(violated)}; {explained['clause']}.",
        f"Let {_setting(evidence['test_case'], explained.get('operations', []))}.",
        *then,
        f"However, {title_of(violated, explained['client'], explained['seen'])}.",
        *_prevented(explained.get("passes_when")),
        _neighbour(explained["neighbour"]),
    ]


def brief(violated: str, evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a finding in a few lines, each with what it begins with; none where its evidence says no cause."""
    if "why" in evidence:
        return [("broken", property_words(violated)), *(("cause", each) for each in causes_of(evidence))]
    if "explanation" not in evidence:
        return []
    explained = evidence["explanation"]
    lines = [
        ("broken", property_words(violated)),
        ("let", _setting(evidence["test_case"], explained.get("operations", []))),
    ]
    # Of several decisions the last ones do the harm.
    lines += [("then", each) for each in _decisions(evidence)[-THEN_SHOWN_MAX:]]
    return [*lines, *(("cause", each) for each in causes_of(evidence)[:1])]


def causes_of(evidence: Mapping[str, Any]) -> list[str]:
    """Return the sentences on the cause of a finding that are shown first, none for one without a cause."""
    why = evidence.get("why") or evidence.get("explanation") or {}
    said = [why["cause"]] if "why" in evidence else []
    changes = (why.get("passes_when") or {}).get("changes", [])
    return [*said, *(f"it does not happen when {each['text']}" for each in changes)][:CAUSES_SHOWN_MAX]


def cause_lines(evidence: Mapping[str, Any]) -> list[str]:
    """Return what `causes_of` says as whole sentences."""
    return [f"{each[:1].upper()}{each[1:]}." for each in causes_of(evidence)]


def lane_cells(row: Mapping[str, Any], *, raw: bool = False) -> list[str]:
    """Return a row of the lanes as texts (writer, readers, disk), with the calls themselves if `raw`."""
    doing = "; ".join([*(row["does"] if raw else row.get("actions") or row["does"]), *row["ends"]])
    text = f"{row['client']}, {row['operation']}" + (f": {doing}" if doing else "")
    lanes = [text, ""] if row["lane"] == "writer" else ["", text]
    return [*lanes, row["disk"]]


def byte_lines(evidence: Mapping[str, Any]) -> list[str]:
    """Return what happened to each range of bytes that was not durable at a power cut."""
    return [
        f"{each['state']:>7}  {each['file']} [{each['start']}, {each['end']})"
        + (f"  {', '.join(each['fields'])}" if each["fields"] else "")
        for each in evidence["explanation"]["bytes"]
    ]


def counts_of(case: TestCase) -> dict[str, Any]:
    """Return the part of a test case's document that sentences need."""
    return {
        "first_session": list(case.first_session),
        "second_session": list(case.second_session),
        "readers": [{"count": each.count} for each in case.readers],
    }


def _setting(case: Mapping[str, Any], operations: Sequence[str]) -> str:
    first, second = case["first_session"], case["second_session"]
    readers = sum(each["count"] for each in case["readers"])
    beside = f" beside {_count(readers, 'reader')}" if readers else ""
    again = f", and a second session of it {_committed(second, operations, ' more')}" if second else ""
    return f"a writer commit {_committed(first, operations)}{again}{beside}"


def _committed(numbers: Sequence[int], operations: Sequence[str], more: str = "") -> str:
    """Return how many operations a session commits, and what the first ones are."""
    known = [f"{number} {operations[number]}" for number in numbers if number < len(operations)]
    said = "; ".join([*known[:OPERATIONS_SHOWN_MAX], *(["…"] if len(known) > OPERATIONS_SHOWN_MAX else [])])
    return f"{len(numbers)}{more} {'operation' if len(numbers) == 1 else 'operations'}" + (f" ({said})" if said else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _decisions(evidence: Mapping[str, Any]) -> list[str]:
    """Return each decision with where its process stands, which older findings do not have, and what it took."""
    explained = evidence["explanation"]
    stands = explained.get("stands", [])
    deviations = DecisionLog.of_document(evidence["log"]).deviations
    left = _left(deviations, explained["bytes"])
    return [
        f"{_then(each, *stands[number : number + 1])}{left.get(number, '')}" for number, each in enumerate(deviations)
    ]


def _then(deviation: Deviation, stands: Mapping[str, str] | None = None) -> str:
    where = _where(deviation.at, stands)
    match deviation:
        case Switch(to=to):
            return f"{to} runs {where}"
        case Fail(reason=reason, written=written):
            part = ", of which a part was written" if written else ""
            return f"a call of {deviation.at.process} fails ({reason}): {_call(deviation.at)}{part}"
        case Kill():
            return f"the process of {deviation.at.process} is killed {where}"
        case PowerCut(model=model):
            return f"the power is cut {where}, and the disk has what model {model} allows"


def _left(deviations: Sequence[Deviation], ranges: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return what each power cut took, or else kept though no sync had returned, by its number."""
    cuts = [number for number, each in enumerate(deviations) if isinstance(each, PowerCut)]
    if len(cuts) > 1 and not all("decision" in each for each in ranges):
        # Older findings do not say which of several cuts it was.
        return {}
    left = {}
    for cut in cuts:
        of_cut = [each for each in ranges if each.get("decision", cut) == cut]
        parts = _parts(of_cut, GONE) or _parts(of_cut, {"kept": KEPT}) or ["all that was written"]
        left[cut] = f": {_some(parts)}"
    return left


def _parts(of_cut: Sequence[Mapping[str, Any]], words: Mapping[str, str]) -> list[str]:
    """Return what became of the bytes in one of some states, in words for each file and state."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in of_cut:
        if each["state"] in words:
            fields = f" ({', '.join(each['fields'])})" if each["fields"] else ""
            found.setdefault((each["file"], each["state"]), []).append(f"{each['start']} to {each['end']}{fields}")
    return [words[state].format(file=file, ranges=_some(ranges)) for (file, state), ranges in found.items()]


def _some(parts: Sequence[str]) -> str:
    more = len(parts) - GONE_COUNT_MAX
    return ", ".join([*parts[:GONE_COUNT_MAX], *([f"{more} more"] if more > 0 else [])])


def _where(at: Step, stands: Mapping[str, str] | None) -> str:
    """Say where a process stands, by the steps around it that change something, else by its next call."""
    if at.operation == END:
        return f"after the end of {at.process}"
    if stands is None:
        return f"while {at.process} stands in '{at.operation}' before: {_call(at)}"
    around = [f"{word} “{stands[word]}”" for word in ("after", "before") if stands[word]]
    return f"while {at.process} stands in '{at.operation}' {' and '.join(around) or 'at its beginning'}"


def _call(at: Step) -> str:
    return f"{at.call} {at.file}".strip() + (f" (number {at.occurrence})" if at.occurrence > 1 else "")


def _prevented(passes_when: Mapping[str, Any] | None) -> list[str]:
    """Return the changes of the run that make it pass, and of how many that were tried."""
    if passes_when is None:
        return []
    changes, tried = passes_when["changes"], passes_when["tried"]
    said = [f"It does not happen when {change['text']}." for change in changes]
    at_limit = " before the limit" if passes_when.get("is_cut") else ""
    if not said:
        return [f"None of {_count(tried, 'small change')} of the run prevents it."] if tried else []
    return [
        *said[:-1],
        f"{said[-1]} ({_count(tried, 'small change')} of the run tried{at_limit}, {passes_when['enough']} enough.)",
    ]


def _neighbour(neighbour: Mapping[str, Any] | None) -> str:
    if neighbour is None:
        return "No run that differs in one decision, by a step or altogether, passes."
    sees = f"; {neighbour['sees']}" if neighbour.get("sees") else ""
    if neighbour["change"] == LEFT_OUT:
        return f"Nearest run that passes: the same without this: {_then(parse_deviation(neighbour['decision']))}{sees}."
    then = _then(parse_deviation(neighbour.get("moved") or neighbour["decision"]), neighbour.get("stands"))
    return f"Nearest run that passes: the same, but {neighbour['change']}: {then}{sees}."
