"""What happened in a run as rows of three lanes over time: the writer, the readers, and what that did to the disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.disk.intercept import BARRIERS, CHANGES, Call, CallKind
from harness.disk.kernel import Kernel
from harness.explore import programs
from harness.explore.client import Mark, Node
from harness.explore.world import World
from harness.findings.log import Deviation, Fail, Kill, PowerCut
from harness.findings.stage import Watcher
from harness.findings.step_names import Step, kind_of

NOTABLE = CHANGES | BARRIERS
LOOKS = {CallKind.PREAD, CallKind.LOAD, CallKind.READ_MAPPED, CallKind.VIEW, CallKind.LISTDIR}
SAID = {
    programs.ACKNOWLEDGED: "acknowledged",
    programs.FAILED: "fails",
    programs.SEEN: "sees",
    programs.REFUSED: "is refused",
    programs.RECOVERED: "finds",
}


@dataclass(slots=True)
class Row:
    """What one client does in one operation before another one goes on."""

    client: str
    operation: str
    does: list[str] = field(default_factory=list)
    disk: str = ""
    ends: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        """Return the writer's lane, the readers' one and the disk's."""
        doing = "; ".join([*_counted(self.does), *self.ends])
        text = f"{self.client}, {self.operation}" + (f": {doing}" if doing else "")
        lanes = [text, ""] if kind_of(self.client) == "writer" else ["", text]
        return [*lanes, self.disk]


class LaneRecorder(Watcher):
    """Writes the rows of a run."""

    def __init__(self, path: str) -> None:
        """Wait for a run on the table at `path`."""
        self._prefix = f"{path}/"
        self.rows: list[Row] = []

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        """Add a call to the row of its client and operation."""
        row = self._row(step)
        file = step.file
        if call.kind in NOTABLE and call.kind is not CallKind.OPEN_FOR_WRITING:
            row.does.append(f"{call.kind} {file}")
            row.disk = self._on_disk(world.kernel)
        elif call.kind in LOOKS and kind_of(step.client) == "reader":
            row.does.append(f"read {file}")
        row.ends += [_said(mark) for mark in node.marks if mark.kind in SAID]
        if node.outcome:
            row.ends.append(node.outcome)

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        """Say what goes wrong."""
        row = self._row(deviation.at)
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

    def _on_disk(self, kernel: Kernel) -> str:
        """Say what a power cut could take."""
        loose = sorted(
            place.removeprefix(self._prefix) for place, number in kernel.paths() if not kernel.files[number].is_durable
        )
        names = [f"{len(kernel.entry_changes)} changes of names"] if kernel.entry_changes else []
        return f"not durable: {', '.join([*loose, *names])}" if loose or names else "all durable"

    def _row(self, step: Step) -> Row:
        if not self.rows or (self.rows[-1].client, self.rows[-1].operation) != (step.client, step.operation):
            self.rows.append(Row(step.client, step.operation))
        return self.rows[-1]


def _said(mark: Mark) -> str:
    return SAID[mark.kind] + (f" {mark.value}" if mark.kind != programs.ACKNOWLEDGED else "")


def _counted(texts: Iterable[str]) -> list[str]:
    """Return the texts, those in a row that are equal as one with their count."""
    counted: list[tuple[str, int]] = []
    for text in texts:
        if counted and counted[-1][0] == text:
            counted[-1] = text, counted[-1][1] + 1
        else:
            counted.append((text, 1))
    return [text if count == 1 else f"{text} x{count}" for text, count in counted]
