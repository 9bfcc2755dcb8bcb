"""What is left of a run after all has been taken away that the broken property does not need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornproof.reports.kit.json_fields import Fields, shortened

STEPS_MAX = 40
CHARACTERS_MAX = 300


def cast_of(situation: Fields) -> list[str]:
    """Return who does what in a run, a sentence each; raises ResultError."""
    operations = situation.items("operations")
    said = []
    for life, words in (("first_life", "The writer"), ("second_life", "Its second life, after a crash,")):
        numbers = situation.items(life)
        known = [operations[each] for each in numbers if type(each) is int and 0 <= each < len(operations)]
        for number, operation in zip(numbers[:STEPS_MAX], known[:STEPS_MAX], strict=False):
            said.append(f"{words} commits operation {number}: {_operation(operation)}.")
        if len(known) > STEPS_MAX:
            said.append(f"{words} commits {len(known) - STEPS_MAX:,} more operations.")
    for readers in situation.inners("readers", STEPS_MAX):
        count, reads = readers.number("count"), readers.number("read_count")
        opened = {"fresh": "each time opening the table anew", "follow": "keeping the table open"}
        style = opened.get(readers.text("style", ""), "")
        said.append(f"{_count(count, 'reader')} of {_count(reads, 'read')} each{', ' if style else ''}{style}.")
    return said


def shrinking_of(shrunk: Fields) -> list[str]:
    """Return what was taken away, and whether more could be; raises ResultError."""
    said = []
    for name in ("operations", "decisions"):
        counts = [each for each in shrunk.items(name) if type(each) is int]
        if len(counts) == 2:
            said.append(f"{_count(counts[1], name[:-1])} of the {counts[0]:,} that the run had when it was found.")
    runs = f"{_count(shrunk.number('runs'), 'run')}" if "runs" in shrunk else "some runs"
    if "is_smallest" in shrunk:
        said.append(
            f"Nothing of it can be left out: what is smaller was tried, in {runs}, and breaks it no more."
            if shrunk.flag("is_smallest")
            else f"A smaller one may break the property, too: after {runs} the budget for trying had ended."
        )
    return said


def _operation(operation: Any) -> str:
    """Return an operation in words: of a table what it changes, of anything else what it says of itself."""
    if not isinstance(operation, Mapping):
        return shortened(str(operation), CHARACTERS_MAX)
    table = operation.get("table")
    if not isinstance(table, Mapping):
        return shortened(str(operation.get("shown", dict(operation))), CHARACTERS_MAX)
    words = {"rows": "writes rows", "dropped": "drops partitions", "rewritten": "writes partitions anew"}
    words |= {"purges": "removes what is unused", "abandons": "ends before its version is stored"}
    return ", ".join(text for name, text in words.items() if table.get(name)) or "changes nothing"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
