"""A run as rows of three lanes over time: the writer, the readers, and the state of the disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tornproof.harness.common.verdict import shortened
from tornproof.harness.counterexamples.actions import NOTABLE, READS, Action, ActionRecorder, in_order
from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Fail, Kill, PowerCut, Switch
from tornproof.harness.counterexamples.step_names import END, Step, kind_of
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.simulated_process import Mark, Node
from tornproof.harness.simulator.process.world import World

READ_ONLY_CALLS = READS | {CallKind.LISTDIR}
MARKS = {
    bodies.ACKNOWLEDGED: "acknowledged",
    bodies.FAILED: "fails",
    bodies.SEEN: "sees",
    bodies.REJECTED: "is refused",
    bodies.RECOVERED: "finds",
}
SIGHT_CHARACTERS_MAX = 200
ABORTED = "aborted before its version is stored, as asked"
HAPPENS = {Switch: "switch", Fail: "fail", Kill: "kill", PowerCut: "power"}
"""The words of rows for each kind of decision."""


@dataclass(slots=True)
class Row:
    """What one process does in one operation until another one runs, and the decisions that take effect there."""

    process: str
    operation: str
    does: list[str] = field(default_factory=list)
    acts: list[Step] = field(default_factory=list)
    disk: str = ""
    ends: list[str] = field(default_factory=list)
    decisions: list[Deviation] = field(default_factory=list)
    steps: set[Step] = field(default_factory=set)

    def document(
        self, decisive: Deviation | None, actions: Mapping[Step, Action], *, is_decisive: bool
    ) -> dict[str, Any]:
        """Return the row as JSON; of several decisions it names the decisive one, else the last one."""
        named = decisive if decisive in self.decisions else next(reversed(self.decisions), None)
        return {
            "lane": "writer" if kind_of(self.process) == "writer" else "readers",
            "client": self.process,
            "operation": self.operation,
            "does": _counted(self.does),
            "actions": in_order(actions[step] for step in self.acts),
            "ends": self.ends,
            "disk": self.disk,
            "happens": "" if named is None else HAPPENS[type(named)],
            "is_decisive": is_decisive,
        }


class LaneRecorder(ActionRecorder):
    """Writes the rows of a run."""

    def __init__(self, case: TestCase, log: DecisionLog) -> None:
        """Wait for a run of the log on the test case."""
        super().__init__(case)
        self._prefix = f"{case.path}/"
        self._switches = [each for each in log.deviations if isinstance(each, Switch)]
        self._has_ended = False
        self.rows: list[Row] = []

    def document(self, decisive: Deviation | None) -> list[dict[str, Any]]:
        """Return the rows as JSON; one is decisive, by a decision of this run or of its neighbour."""
        decisive_index = self._decisive_index(decisive)
        actions = self.actions()
        return [
            row.document(decisive, actions, is_decisive=index == decisive_index) for index, row in enumerate(self.rows)
        ]

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        """Add a call to the row of its process and operation."""
        super().stepped(step, call, node, world)
        row = self._row(step)
        row.steps.add(step)
        self._has_ended = node.call is None
        file = step.file
        if call.kind in NOTABLE:
            row.does.append(f"{call.kind} {file}")
            row.acts.append(step)
            row.disk = self._on_disk(world.kernel)
        elif call.kind in READ_ONLY_CALLS and kind_of(step.process) == "reader":
            row.does.append(f"read {file}")
            row.acts.append(step)
        row.ends += [self._mark_text(mark) for mark in node.marks if mark.kind in MARKS]
        if node.outcome:
            row.ends.append(node.outcome)

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        """Add a decision to the row in which it takes effect."""
        super().deviated(deviation, kernel)
        row = self._row(deviation.at)
        row.decisions.append(deviation)
        match deviation:
            case Kill():
                row.ends.append("KILLED")
                row.disk = "what was written stays"
            case PowerCut(model=model):
                row.ends.append("POWER IS CUT, and all processes die")
                row.disk = f"{self._on_disk(kernel)}; lost as model {model} allows"
            case Fail(reason=reason):
                row.does.append(f"{reason.name} for:")
            case _:
                pass

    def last_sight(self, process: str) -> str:
        """Return what a process gets at last, as the rest of a sentence."""
        own = [end for row in self.rows if row.process.partition(".")[0] == process for end in row.ends]
        return shortened(f"{process} {own[-1]}", SIGHT_CHARACTERS_MAX) if own else ""

    def _mark_text(self, mark: Mark) -> str:
        if mark.kind != bodies.ACKNOWLEDGED:
            return f"{MARKS[mark.kind]} {mark.value}"
        operation = self.case.operations[mark.value] if isinstance(mark.value, int) else None
        # Such an operation ends where its version should be stored, so nothing is acknowledged.
        return ABORTED if getattr(operation, "abandons", False) else MARKS[mark.kind]

    def _on_disk(self, kernel: Kernel) -> str:
        """Say what a power cut could lose."""
        loose = sorted(
            path.removeprefix(self._prefix) for path, number in kernel.paths() if not kernel.files[number].is_durable
        )
        count = len(kernel.entry_changes)
        names = [f"{count} {'change' if count == 1 else 'changes'} of names"] if count else []
        return f"not durable: {', '.join([*loose, *names])}" if loose or names else "all durable"

    def _row(self, step: Step) -> Row:
        last = self.rows[-1] if self.rows else None
        if last is None or (last.process, last.operation) != (step.process, step.operation):
            decisions = [] if last is None else self._switches_from(last, step.process)
            self.rows.append(Row(step.process, step.operation, decisions=decisions))
        return self.rows[-1]

    def _switches_from(self, last: Row, process: str) -> list[Deviation]:
        """Return the decision by which a process runs after another one, none where the policy lets it."""
        for switch in self._switches:
            is_at_end = switch.at.operation == END
            if (switch.at.process, switch.to, is_at_end) == (last.process, process, self._has_ended):
                self._switches.remove(switch)
                return [switch]
        return []

    def _decisive_index(self, decisive: Deviation | None) -> int:
        """Return the row in which a decision takes effect, else that of its step, else the last one.

        In a run without the decision, its process takes that step.
        """
        indexes = range(len(self.rows))
        taken = [index for index in indexes if decisive in self.rows[index].decisions]
        if decisive is not None and not taken:
            at = decisive.at
            taken = [index for index in indexes if at in self.rows[index].steps]
            taken = taken or [index for index in reversed(indexes) if self.rows[index].process == at.process]
        return next(iter(taken), len(self.rows) - 1)


def _counted(texts: Iterable[str]) -> list[str]:
    """Return the texts; equal neighbours become one with their count."""
    counted: list[tuple[str, int]] = []
    for text in texts:
        if counted and counted[-1][0] == text:
            counted[-1] = text, counted[-1][1] + 1
        else:
            counted.append((text, 1))
    return [text if count == 1 else f"{text} x{count}" for text, count in counted]
