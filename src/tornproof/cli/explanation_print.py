"""Prints the explanation of a simulated finding: sentences, lanes over time, and bytes lost in a power cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tornproof.harness.counterexamples.words import LANES, byte_lines, lane_cells, sentences


def print_explanation(console: Console, violated: str, evidence: Mapping[str, Any]) -> None:
    """Print the explanation of a run that violates a property."""
    for sentence in sentences(violated, evidence):
        console.print(sentence)
    table = Table(*LANES, show_lines=True)
    for row in evidence["explanation"]["lanes"]:
        table.add_row(*map(Text, lane_cells(row)))
    console.print(table)
    lines = byte_lines(evidence)
    if lines:
        console.print("Bytes that were not durable when the power was cut:")
    for line in lines:
        console.print(line)
