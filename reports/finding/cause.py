"""The cause of a finding: the last step done, the decision in between, the next step not done, and what was read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from tornproof.reports.finding.document import Cause, Explanation, FileBytes, Prevention
from tornproof.reports.finding.narrative import lines_of
from tornproof.reports.finding.space_time import Call, call_of
from tornproof.reports.kit.json_fields import shortened
from tornproof.reports.kit.page import fill

CHARACTERS_MAX = 400
READ_SHOWN_MAX = 4
_AROUND = re.compile(r" while [^“]* stands in '[^']*'( (and )?(after|before) “[^”]*”)+")
_OCCURRENCE = re.compile(r" #(\d+)$")


class StepWords(NamedTuple):
    """A step of a client: its operation, and the call."""

    operation: str
    call: Call


class ReadRange(NamedTuple):
    """Bytes that were read and that were not durable."""

    file: str
    start: int
    end: int
    state: str
    label: str


def cause_strip(explanation: Explanation) -> Markup:
    """Return the strip as HTML, empty if no decision is the cause."""
    cause = explanation.cause
    if cause is None:
        return prevented(explanation.passes_when)
    read = list(_loose_bytes_read(explanation.files))
    return fill(
        "cause.html.j2",
        client=cause.client or "the client",
        reader=explanation.client or "the reader",
        done=_step_words(cause.done_action or cause.done),
        decision=_decision_words(cause, explanation),
        not_yet=_step_words(cause.not_yet_action or cause.not_yet),
        read=read[:READ_SHOWN_MAX],
        read_left_out=max(0, len(read) - READ_SHOWN_MAX),
        passes_when=explanation.passes_when,
    )


def prevented(passes_when: Prevention) -> Markup:
    """Return which changes of a run prevent its finding as HTML, empty if none was tried."""
    return fill("prevented.html.j2", passes_when=passes_when)


def _step_words(step: str) -> StepWords:
    """Return a step, without the number of a call if it is the first of its kind."""
    operation, colon, call = shortened(step, CHARACTERS_MAX).partition(": ")
    if not colon:
        operation, call = "", operation
    numbered = _OCCURRENCE.sub(lambda match: "" if match[1] == "1" else f" (number {match[1]})", call)
    return StepWords(operation, call_of(numbered))


def _decision_words(cause: Cause, explanation: Explanation) -> str:
    """Return the sentence of the narrative on the decision, if it has one for each, else the decision itself."""
    thens = [line.text for line in lines_of(explanation.narrative) if line.lead == "Then"]
    if len(thens) == len(explanation.decisions) and cause.decision in explanation.decisions:
        # The steps around it stand beside it.
        return _AROUND.sub(" there", thens[list(explanation.decisions).index(cause.decision)])
    return shortened(cause.decision, CHARACTERS_MAX)


def _loose_bytes_read(files: Sequence[FileBytes]) -> Iterator[ReadRange]:
    """Yield the parts of what was read that were not durable."""
    for file in files:
        for each in file.ranges:
            if each.state == "durable":
                continue
            for start, end in file.read:
                first, last = max(start, each.start), min(end, each.end)
                if first < last:
                    yield ReadRange(file.file, first, last, each.state, each.label)
