"""Prints a finding in a few lines, and its whole explanation: sentences, lanes over time, bytes lost in a power cut."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.alike import alike
from tornproof.harness.counterexamples.words import LANES, brief, byte_lines, lane_cells, sentences

BRIEF_LINES_MAX = {"title": 3, "broken": 1, "let": 1, "then": 3, "cause": 3, "like": 1}
"""How many lines of 80 columns each part of a finding has, eleven at most; the command that replays it comes last."""
LABEL_WIDTH = 10
LINE_WIDTH = 78


def print_finding(console: Console, finding: Finding) -> None:
    """Print a finding in at most 11 lines of 80 columns; one without an explanation in three."""
    first, *others = _fitting(f"finding {finding.sentence}", BRIEF_LINES_MAX["title"], LINE_WIDTH)
    console.print(Text.assemble(("finding", "bold red"), first.removeprefix("finding")))
    for line in others:
        console.print(Text(f"  {line}"))
    parts = brief(finding.property, finding.evidence)
    parts += [("like", each.where) for each in alike(finding)[:1]]
    labels = [label for label, _ in parts]
    for label, text in parts:
        # Of several sentences of a kind each has fewer lines, and what it is like takes one from how it came about.
        lines_max = BRIEF_LINES_MAX[label] if labels.count(label) == 1 else 2
        lines_max -= label == "then" and "like" in labels
        for number, line in enumerate(_fitting(text, lines_max, LINE_WIDTH - LABEL_WIDTH)):
            console.print(Text.assemble((f"  {'' if number else label:<{LABEL_WIDTH}}", "dim"), line))


def _fitting(text: str, lines_max: int, width: int) -> list[str]:
    """Return a text in at most so many lines, the last one shortened."""
    return textwrap.wrap(
        text, width, max_lines=lines_max, placeholder=" …", break_on_hyphens=False, break_long_words=False
    )


def print_explanation(console: Console, violated: str, evidence: Mapping[str, Any], *, verbose: bool) -> None:
    """Print the explanation of a run that violates a property; `verbose` shows the calls themselves."""
    for sentence in sentences(violated, evidence):
        console.print(sentence)
    table = Table(*LANES, show_lines=True)
    for row in evidence["explanation"]["lanes"]:
        table.add_row(*map(Text, lane_cells(row, raw=verbose)))
    console.print(table)
    lines = byte_lines(evidence)
    if lines:
        console.print("Bytes that were not durable when the power was cut:")
    for line in lines:
        console.print(line)
