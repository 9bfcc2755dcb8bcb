"""Names of steps: the process, its operation, the call, the file, and an occurrence number among equal ones.

A name survives changes of the implementation that would shift a step number.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.process import bodies, simulated_process
from tornproof.harness.simulator.process.simulated_process import Mark, Node

OPEN, LOOK, CLOSE, END = "open", "look", "close", "end"
_DIRECTORY_NUMBER = re.compile(r"\.\d+(?=/|$)")


class Step(NamedTuple):
    """A step of a process; `call` is the value of a `CallKind`, `file` is relative to the table.

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
    """Return the name of a process in a session; the first session has no number."""
    return process if session == 1 else f"{process}.{session}"


def kind_of(process: str) -> str:
    """Return the kind of a process: "writer" or "reader"."""
    return re.split(r"[ .]", process)[0]


def is_commit(operation: str) -> bool:
    """Say whether an operation of a step is a commit."""
    return operation.startswith(f"{bodies.COMMIT} ")


class StepNames:
    """Names the steps of one test case's processes, each node once."""

    def __init__(self, path: str) -> None:
        """Name files relative to the table at `path`."""
        self._path = path
        self._operations: dict[Node, str] = {}
        self._known: dict[Node, tuple[str, str, str, int]] = {}

    def name(self, process: str, node: Node) -> Step:
        """Return the name of a process's next step; `process` includes the session."""
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._named(node)
        return Step(process, *known)

    def operation(self, node: Node) -> str:
        """Return the operation that a node is in."""
        unknown = []
        at: Node | None = node
        while at is not None and at not in self._operations:
            unknown.append(at)
            at = at.parent
        for each in reversed(unknown):
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
            if before.call.kind is kind and self.file(before.call) == file:
                if before in self._known:
                    occurrence += self._known[before][3]
                    break
                occurrence += 1
            before = before.parent
        return operation, kind.value, file, occurrence


def _after(operation: str, marks: tuple[Mark, ...]) -> str:
    """Return the operation that a process is in after these marks."""
    for mark in marks:
        match mark.kind:
            case bodies.OPENED:
                operation = LOOK
            case bodies.RECOVERED | bodies.ACKNOWLEDGED | bodies.FAILED:
                operation = CLOSE
            case bodies.COMMIT:
                operation = f"{bodies.COMMIT} {mark.value}"
            case simulated_process.READ:
                operation = f"read {_number(operation) + 1}"
            case bodies.SEEN | bodies.REJECTED:
                operation = f"after {operation}"
    return operation


def _number(operation: str) -> int:
    last = operation.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0
