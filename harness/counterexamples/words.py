"""The evidence of a finding in words, made from its data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Fail, Kill, PowerCut, Switch, parse_deviation
from tornproof.harness.counterexamples.step_names import END, Step
from tornproof.harness.simulator.process.case import TestCase

GONE = {
    "lost": "{file} has lost what was written to bytes {ranges}",
    "torn": "{file} has a part of what was written to bytes {ranges}",
    "no name": "{file} is not there",
    "old name": "{file} is the file of before",
}
"""What became of bytes that a power cut did not keep, in words."""
GONE_COUNT_MAX = 4
LANES = ("writer", "readers", "disk")


def sentences(violated: str, evidence: Mapping[str, Any]) -> list[str]:
    """Return what was broken, how it happened, and the nearest run that passes."""
    explained = evidence["explanation"]
    deviations = DecisionLog.of_document(evidence["log"]).deviations
    then = [f"Then {_then(each)}{_lost(each, explained)}." for each in deviations] or [
        "Then nothing out of the ordinary happens."
    ]
    cause = _because(explained["cause"])
    return [
        f"Broken: {violated} ({explained['clause']}).",
        f"Let {_setting(evidence['test_case'])}.",
        *then,
        f"{cause}; however, {explained['client']} then has: {explained['seen']}",
        _neighbour(explained["neighbour"]),
    ]


def lane_cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row of the lanes as texts: writer, readers, disk."""
    doing = "; ".join([*row["does"], *row["ends"]])
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


def _setting(case: Mapping[str, Any]) -> str:
    first, second = len(case["first_session"]), len(case["second_session"])
    readers = sum(each["count"] for each in case["readers"])
    beside = f" beside {_count(readers, 'reader')}" if readers else ""
    again = f", and a second session of it {_count(second, 'more operation')}" if second else ""
    return f"a writer commit {_count(first, 'operation')}{again}{beside}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _then(deviation: Deviation) -> str:
    where = _where(deviation.at)
    match deviation:
        case Switch(to=to):
            return f"{to} goes on {where}"
        case Fail(reason=reason, written=written):
            part = ", of which a part was written" if written else ""
            return f"a call of {deviation.at.process} fails ({reason}): {_call(deviation.at)}{part}"
        case Kill():
            return f"the process of {deviation.at.process} is killed {where}"
        case PowerCut(model=model):
            return f"the power is cut {where}, and the disk has what model {model} allows"


def _lost(deviation: Deviation, explained: Mapping[str, Any]) -> str:
    """Return what a power cut took; of several cuts nobody can say which one took it."""
    if not isinstance(deviation, PowerCut) or len(explained["decisions"]) != 1:
        return ""
    gone: dict[tuple[str, str], list[str]] = {}
    for each in explained["bytes"]:
        if each["state"] in GONE:
            fields = f" ({', '.join(each['fields'])})" if each["fields"] else ""
            gone.setdefault((each["file"], each["state"]), []).append(f"{each['start']} to {each['end']}{fields}")
    parts = [GONE[state].format(file=file, ranges=_some(ranges)) for (file, state), ranges in gone.items()]
    return f": {_some(parts)}" if parts else ""


def _some(parts: Sequence[str]) -> str:
    more = len(parts) - GONE_COUNT_MAX
    return ", ".join([*parts[:GONE_COUNT_MAX], *([f"{more} more"] if more > 0 else [])])


def _where(at: Step) -> str:
    if at.operation == END:
        return f"after the end of {at.process}"
    return f"while {at.process} stands in '{at.operation}' before: {_call(at)}"


def _call(at: Step) -> str:
    return f"{at.call} {at.file}".strip() + (f" (number {at.occurrence})" if at.occurrence > 1 else "")


def _because(cause: Mapping[str, str] | None) -> str:
    if cause is None:
        return "Nobody disturbs anybody"
    done = f"had done '{cause['done']}'" if cause["done"] else "had done nothing"
    todo = f" and not yet '{cause['not_yet']}'" if cause["not_yet"] else " and nothing more was to come"
    return f"Because {cause['client']} {done}{todo}, this is what others find"


def _neighbour(neighbour: Mapping[str, str] | None) -> str:
    if neighbour is None:
        return "No run that differs in one decision, by a step or altogether, passes."
    decision = _then(parse_deviation(neighbour["decision"]))
    return f"Nearest run that passes: the same, but {neighbour['change']}: {decision}."
