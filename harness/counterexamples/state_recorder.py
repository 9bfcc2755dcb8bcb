"""The files in the state that decides: at the last crash of a run, or else where the property breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tornproof.harness.counterexamples.actions import NUMBER_BYTES_MAX, READS
from tornproof.harness.counterexamples.byte_map import (
    DURABLE,
    NO_NAME,
    States,
    file_map,
    states_after,
    states_before,
    whole,
)
from tornproof.harness.counterexamples.log import Deviation, Kill, PowerCut
from tornproof.harness.counterexamples.regions import fields_of, own_fields
from tornproof.harness.counterexamples.replay_engine import Observer, disk_after
from tornproof.harness.counterexamples.step_names import Step
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel, Rejected, entries_of, without_loops
from tornproof.harness.simulator.persistence.models import Names, model_named
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World
from tornproof.impl.storage.interface import StorageReason

FILE_COUNT_MAX = 12
NOT_THERE = Rejected(StorageReason.MISSING)
Ranges = list[tuple[int, int]]


class StateRecorder(Observer):
    """Keeps the files at the last crash of a run, those at its end, and which bytes each operation reads."""

    def __init__(self, case: TestCase) -> None:
        """Wait for a run of the test case."""
        self._prefix, self._target = f"{case.path}/", case.target
        self._start = case.kernel()
        self._crash: tuple[Kill | PowerCut, Kernel] | None = None
        self._end = self._start
        self._operation = ("", "")
        self._reads: dict[tuple[str, str], dict[str, Ranges]] = {}
        self._missed: dict[tuple[str, str], set[str]] = {}

    def stepped(self, step: Step, call: Call, node: Node, world: World) -> None:
        """Note what was read; the files themselves are only examined after the run."""
        self._end = world.kernel
        self._operation = step.process, step.operation
        if node.answer == NOT_THERE:
            self._missed.setdefault(self._operation, set()).add(call.path)
        if call.kind not in READS:
            return
        size_bytes = len(node.answer) if isinstance(node.answer, bytes) else call.size_bytes
        files = self._reads.setdefault(self._operation, {})
        files.setdefault(call.path, []).append((call.offset_bytes, call.offset_bytes + size_bytes))

    def deviated(self, deviation: Deviation, kernel: Kernel) -> None:
        """Keep the files of a crash."""
        if isinstance(deviation, Kill | PowerCut):
            self._crash = deviation, kernel.fork()
            self._operation = ("", "")

    @property
    def text(self) -> str:
        """Which state it is, as the end of a sentence."""
        match self._crash:
            case None:
                return "when the property breaks"
            case (Kill(at=at), _):
                return f"when {at.process} is killed"
            case _:
                return "when the power is cut"

    def files(self) -> tuple[list[dict[str, Any]], int]:
        """Return a map of each file that changed in the run or was read at its end, and how many are left out.

        A file that the last operation did not find, though it was there at the start, is shown as one without a name.
        """
        kernel = self._end if self._crash is None else self._crash[1]
        image, start, path = kernel.image(), self._start.image(), self._prefix.removesuffix("/")
        fields = fields_of(image, start, path) | own_fields(self._target, image, path)
        reads = self._reads.get(self._operation, {})
        states = {file: each for file, each in self._states(kernel) if file.startswith(self._prefix)}
        for file in self._missed.get(self._operation, set()) & start.files.keys() - states.keys():
            states[file] = whole(NO_NAME, len(start.files[file]))
        shown = [file for file in states if file in reads or _has_changed(file, states[file], image, start)]
        # Where there are too many files, those that could be lost or were read come first.
        shown.sort(key=lambda file: (bool((states[file] == DURABLE).all()), file not in reads, file))
        left = self._left(kernel)
        maps = [
            with_values(
                file_map(file.removeprefix(self._prefix), states[file], fields.get(file), reads.get(file, ())),
                start.files.get(file, b""),
                left.files.get(file, b""),
            )
            for file in sorted(shown[:FILE_COUNT_MAX])
        ]
        return maps, max(0, len(shown) - FILE_COUNT_MAX)

    def _left(self, kernel: Kernel) -> DiskImage:
        """Return the files that the next process finds."""
        match self._crash:
            case (PowerCut(model=model, choice=choice), _):
                return disk_after(kernel, model, choice).kernel().image()
            case _:
                return kernel.image()

    def _states(self, kernel: Kernel) -> Iterator[tuple[str, States]]:
        durable = set(_durable_paths(kernel))
        match self._crash:
            case (PowerCut(model=model, choice=choice), _):
                if model_named(model).names is Names.ALL:
                    durable = {path for path, _ in kernel.paths()}
                yield from _states_after(kernel, disk_after(kernel, model, choice).kernel(), durable)
            case _:
                for path, number in kernel.paths():
                    yield path, states_before(kernel.files[number], has_name=path in durable)


def with_values(file: dict[str, Any], before: bytes, after: bytes) -> dict[str, Any]:
    """Add to each field of at most 8 bytes that has changed what it was and what it is."""
    for each in file["ranges"]:
        start, end = each["start"], each["end"]
        old, new = before[start:end], after[start:end]
        if end - start <= NUMBER_BYTES_MAX and each["field"] and len(new) == end - start and old != new:
            was = int.from_bytes(old, "little") if len(old) == len(new) else "nothing"
            each["value"] = f"{was} → {int.from_bytes(new, 'little')}"
    return file


def _states_after(kernel: Kernel, left: Kernel, durable: set[str]) -> Iterator[tuple[str, States]]:
    numbers = dict(kernel.paths())
    contents = {path: left.files[number].content for path, number in left.paths()}
    for path, number in numbers.items():
        state = kernel.files[number]
        if path in contents:
            yield path, states_after(state, contents[path], has_name=path in durable)
        else:
            yield path, whole(NO_NAME, len(state.content))
    for path in contents.keys() - numbers.keys():
        # Its name was removed, but that did not reach the disk.
        yield path, whole(DURABLE, len(contents[path]))


def _has_changed(path: str, states: States, image: DiskImage, start: DiskImage) -> bool:
    return bool((states != DURABLE).any()) or image.files.get(path) != start.files.get(path)


def _durable_paths(kernel: Kernel) -> Iterator[str]:
    """Return the paths whose names are on disk and lead to the same file there."""
    now = dict(kernel.paths())
    durable = without_loops(kernel.durable_directories)
    return (path for path, number in entries_of(durable) if now.get(path) == number)
