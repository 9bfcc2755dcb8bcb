"""The sentences of a finding: its narrative, who does what in the run, and what was removed by shrinking."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tornproof.reports.kit.json_fields import Fields, counted, shortened

LINES_MAX = 60
LINE_CHARACTERS_MAX = 1_200
STEPS_MAX = 40
OPERATION_CHARACTERS_MAX = 300
_HOWEVER = re.compile(r"; however, ")
_LEAD = re.compile(r"(Broken|Let|Then|Because|However|Nearest run that passes)\b[:,]? (.*)", re.DOTALL)
_OF_EVIDENCE = ("let", "then", "because", "however")


class Line(NamedTuple):
    """A sentence without the word that it begins with."""

    lead: str
    text: str


def lines_of(sentences: Sequence[str]) -> list[Line]:
    """Return sentences as lines; what follows "however" is a line of its own."""
    lines = []
    for sentence in sentences[:LINES_MAX]:
        first, *others = _HOWEVER.split(shortened(sentence, LINE_CHARACTERS_MAX))
        match = _LEAD.fullmatch(first)
        lines.append(Line(match[1], match[2]) if match else Line("", first))
        lines += [Line("However", other) for other in others]
    if len(sentences) > LINES_MAX:
        lines.append(Line("", f"{len(sentences) - LINES_MAX:,} more sentences are left out."))
    return lines


def lines_of_evidence(evidence: Fields) -> list[Line]:
    """Return the lines in evidence without an explanation; raises ResultError if they are not texts."""
    return [
        Line(word.capitalize(), shortened(evidence.text(word), LINE_CHARACTERS_MAX))
        for word in _OF_EVIDENCE
        if word in evidence
    ]


def participants_of(test_case: Fields) -> list[str]:
    """Return who does what in a run, a sentence each; raises ResultError."""
    operations = test_case.items("operations")
    said = []
    for session, words in (("first_session", "The writer"), ("second_session", "The writer after a crash")):
        numbers = test_case.items(session)
        known = [operations[each] for each in numbers if type(each) is int and 0 <= each < len(operations)]
        for number, operation in zip(numbers[:STEPS_MAX], known[:STEPS_MAX], strict=False):
            said.append(f"{words} commits operation {number}: {_operation(operation)}.")
        if len(known) > STEPS_MAX:
            said.append(f"{words} commits {len(known) - STEPS_MAX:,} more operations.")
    for readers in test_case.inners("readers", STEPS_MAX):
        count, reads = readers.number("count"), readers.number("read_count")
        opened = {"fresh": "opening the table each time", "follow": "keeping the table open"}
        style = opened.get(readers.text("style", ""), "")
        said.append(f"{counted(count, 'reader')} of {counted(reads, 'read')} each{', ' if style else ''}{style}.")
    return said


def shrinking_of(shrunk: Fields) -> list[str]:
    """Return what was removed, and whether more could be; raises ResultError."""
    said = []
    for name in ("operations", "decisions"):
        counts = [each for each in shrunk.items(name) if type(each) is int]
        if len(counts) == 2:
            said.append(f"{counted(counts[1], name[:-1])} of the {counts[0]:,} that the run had when it was found.")
    runs = counted(shrunk.number("runs"), "run") if "runs" in shrunk else "some runs"
    if "is_smallest" in shrunk:
        said.append(
            f"It is minimal: smaller runs were tried, in {runs}, and do not violate the property."
            if shrunk.flag("is_smallest")
            else f"A smaller run may violate the property, too: shrinking stopped after {runs}, at its limit."
        )
    return said


def _operation(operation: Any) -> str:
    """Return an operation in words: its changes to a table, else its own text."""
    if not isinstance(operation, Mapping):
        return shortened(str(operation), OPERATION_CHARACTERS_MAX)
    table = operation.get("table")
    if not isinstance(table, Mapping):
        return shortened(str(operation.get("shown", dict(operation))), OPERATION_CHARACTERS_MAX)
    words = {"rows": "writes rows", "dropped": "drops partitions", "rewritten": "rewrites partitions"}
    words |= {"purges": "purges unused files", "abandons": "aborts before its version is stored"}
    return ", ".join(text for name, text in words.items() if table.get(name)) or "changes nothing"
