"""Recording the steps of a run on a storage, and replaying a prefix of them on a disk in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tornproof.harness.simulator.filesystem.intercept import STEPS, Answer, Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.storage.interface import Storage


class RecordingStorage(InterceptedStorage):
    """A storage over another one; `steps` are the calls so far that changed bytes or names, and the barriers."""

    def __init__(self, inner: Storage) -> None:
        """Start with nothing recorded."""
        super().__init__(inner)
        self.steps: list[Call] = []

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Record a step unless it failed."""
        answer = run()
        if call.kind in STEPS:
            self.steps.append(call)
        return answer


def replay_prefix(
    start: MemoryStorage, steps: Sequence[Call], step_count: int, written_bytes: int = 0
) -> MemoryStorage:
    """Return a disk after the first `step_count` steps from `start`, and `written_bytes` of the next one, a write.

    Raises ValueError for a crash point that these steps do not have.
    """
    storage = start.copy()
    if not 0 <= step_count <= len(steps):
        raise ValueError(f"there are {len(steps)} steps, not {step_count}")
    for step in steps[:step_count]:
        storage.repeat(step)
    if written_bytes:
        torn = steps[step_count] if step_count < len(steps) else None
        if torn is None or torn.kind is not CallKind.PWRITE or not 0 < written_bytes < len(torn.content):
            raise ValueError(f"step {step_count} is no write that can end after {written_bytes} bytes")
        storage.repeat(part_of(torn, 0, written_bytes))
    return storage


def crash_points(
    start: MemoryStorage, steps: Iterable[Call], cuts_of: Callable[[Call], Iterable[int]]
) -> Iterator[tuple[MemoryStorage, int, int]]:
    """Yield a disk for each crash point in order, the number of whole steps on it and the bytes of the next one.

    `cuts_of` gives ascending lengths below that of a write. Every disk is the same object, so copy what is kept.
    """
    storage = start.copy()
    yield storage, 0, 0
    for number, step in enumerate(steps):
        written = 0
        for length in cuts_of(step) if step.kind is CallKind.PWRITE else ():
            storage.repeat(part_of(step, written, length))
            written = length
            yield storage, number, length
        storage.repeat(step)
        yield storage, number + 1, 0


def part_of(write: Call, start: int, stop: int) -> Call:
    """Return the write of the bytes [start, stop) of what a call writes."""
    return write._replace(
        content=write.content[start:stop], offset_bytes=write.offset_bytes + start, size_bytes=stop - start
    )
