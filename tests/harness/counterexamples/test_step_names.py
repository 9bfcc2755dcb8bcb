"""Steps are told apart by how often a process did the same to a file before, whatever number its directory has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from tornproof.harness.counterexamples.step_names import StepNames
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.process.simulated_process import Node


@dataclass(eq=False)
class Made:
    """A node of which only the call matters."""

    call: Call
    parent: Any
    marks: tuple[()] = ()


def nodes(*calls: tuple[CallKind, str]) -> list[Node]:
    made: list[Node] = []
    for kind, path in calls:
        call, parent = Call(kind=kind, path=path), made[-1] if made else None
        made.append(cast(Node, Made(call, parent)))
    return made


def test_steps_on_two_versions_of_a_directory_have_two_numbers() -> None:
    old, new = "table/2024-01-01.1/_pm", "table/2024-01-01.2/_pm"
    write, sync = CallKind.PWRITE, CallKind.FSYNC
    made = nodes((write, old), (sync, old), (write, "table/_txn"), (write, new), (write, new))
    found = [StepNames("table").name("writer", node) for node in made]
    assert [(step.file, step.occurrence) for step in found] == [
        ("2024-01-01/_pm", 1),
        ("2024-01-01/_pm", 1),
        ("_txn", 1),
        ("2024-01-01/_pm", 2),
        ("2024-01-01/_pm", 3),
    ]
    names = StepNames("table")
    assert [names.name("writer", node) for node in made] == found, "also where steps before have names already"
