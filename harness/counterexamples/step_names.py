"""Steps by name: which client, within which operation, which call of which file, and the how-manieth of these.

A name outlives changes of the implementation that a number of a step does not.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.process import bodies as programs
from tornproof.harness.simulator.process import simulated_process
from tornproof.harness.simulator.process.simulated_process import Mark, Node

OPEN, LOOK, CLOSE, END = "open", "look", "close", "end"
_DIRECTORY_NUMBER = re.compile(r"\.\d+(?=/|$)")


class Step(NamedTuple):
    """A step of a client; `call` is what a `CallKind` says and `file` is relative to the table.

    At the end of a process the operation is `END`, and there is no call.
    """

    process: str
    operation: str
    call: str = ""
    file: str = ""
    occurrence: int = 0


def without_numbers(path: str) -> str:
    """Return a path without the numbers of its directories, which follow from what was committed before."""
    return _DIRECTORY_NUMBER.sub("", path)


def session_name(process: str, session: int) -> str:
    """Return the name of a client in a life: the first one needs no number."""
    return process if session == 1 else f"{process}.{session}"


def kind_of(process: str) -> str:
    """Return which part a client has, as "writer" or "reader"."""
    return re.split(r"[ .]", process)[0]


class StepNames:
    """Names the steps of one situation's clients, each moment once."""

    def __init__(self, path: str) -> None:
        """Name files relative to the table at `path`."""
        self._path = path
        self._operations: dict[Node, str] = {}
        self._known: dict[Node, tuple[str, str, str, int]] = {}

    def name(self, process: str, node: Node) -> Step:
        """Return the name of a client's next step; `client` says the life, too."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._named(node)
        return Step(process, *known)

    def operation(self, node: Node) -> str:
        """Return the operation that a moment is in."""
        path = []
        at: Node | None = node
        while at is not None and at not in self._operations:
            path.append(at)
            at = at.parent
        for each in reversed(path):
            before = OPEN if each.parent is None else self._operations[each.parent]
            self._operations[each] = _after(before, each.marks)
        return self._operations[node]

    def file(self, call: Call) -> str:
        """Return the file of a call, relative to the table and without the numbers of directories."""
        if call.path == self._path:
            return "."
        return without_numbers(call.path.removeprefix(f"{self._path}/"))

    def _named(self, node: Node) -> tuple[str, str, str, int]:
        if node.call is None:
            return END, "", "", 0
        operation, kind, file = self.operation(node), node.call.kind, self.file(node.call)
        occurrence, before = 1, node.parent
        while before is not None and self.operation(before) == operation:
            assert before.call is not None
            occurrence += before.call.kind is kind and self.file(before.call) == file
            before = before.parent
        return operation, kind.value, file, occurrence


def _after(operation: str, marks: tuple[Mark, ...]) -> str:
    """Return the operation that a client is in after it has said something."""
    for mark in marks:
        match mark.kind:
            case programs.OPENED:
                operation = LOOK
            case programs.RECOVERED | programs.ACKNOWLEDGED | programs.FAILED:
                operation = CLOSE
            case programs.COMMIT:
                operation = f"commit {mark.value}"
            case simulated_process.READ:
                operation = f"read {_number(operation) + 1}"
            case programs.SEEN | programs.REJECTED:
                operation = f"after {operation}"
    return operation


def _number(operation: str) -> int:
    last = operation.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0
