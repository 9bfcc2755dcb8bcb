"""Recording the steps of a run on a storage, and replaying a prefix of them on a disk in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tornproof.harness.simulator.filesystem.intercept import STEPS, Answer, Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.storage.interface import File, OpenMode, Storage


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


class Replay:
    """Replays recorded steps on `storage`, which must hold what it held when the recording began."""

    def __init__(self, storage: MemoryStorage) -> None:
        """Start before the first step."""
        self.storage = storage
        self._files: dict[int, File] = {}

    def write(self, step: Call, start: int, stop: int) -> None:
        """Write the bytes [start, stop) of a write."""
        self._files[step.file].pwrite(step.content[start:stop], step.offset_bytes + start)

    def apply(self, step: Call) -> None:
        """Replay a whole step; a barrier changes nothing here."""
        match step.kind:
            case CallKind.OPEN_FOR_WRITING:
                self._files[step.file] = self.storage.open_for_writing(step.path, OpenMode.EXISTING_OR_NEW)
            case CallKind.PWRITE | CallKind.STORE:
                self.write(step, 0, len(step.content))
            case CallKind.TRUNCATE:
                self._files[step.file].truncate(step.size_bytes)
            case CallKind.MKDIR:
                self.storage.mkdir(step.path)
            case CallKind.RMDIR:
                self.storage.rmdir(step.path)
            case CallKind.RENAME:
                self.storage.rename(step.path, step.target_path)
            case CallKind.LINK:
                self.storage.link(step.path, step.target_path)
            case CallKind.UNLINK:
                self.storage.unlink(step.path)


def replay_prefix(
    start: MemoryStorage, steps: Sequence[Call], step_count: int, written_bytes: int = 0
) -> MemoryStorage:
    """Return a disk after the first `step_count` steps, and `written_bytes` of the next one, a write.

    Raises ValueError for a crash point that these steps do not have.
    """
    replay = Replay(start.copy())
    if not 0 <= step_count <= len(steps):
        raise ValueError(f"there are {len(steps)} steps, not {step_count}")
    for step in steps[:step_count]:
        replay.apply(step)
    if written_bytes:
        torn = steps[step_count] if step_count < len(steps) else None
        if torn is None or torn.kind is not CallKind.PWRITE or not 0 < written_bytes < len(torn.content):
            raise ValueError(f"step {step_count} is no write that can end after {written_bytes} bytes")
        replay.write(torn, 0, written_bytes)
    return replay.storage


def crash_points(
    start: MemoryStorage, steps: Iterable[Call], cuts_of: Callable[[Call], Iterable[int]]
) -> Iterator[tuple[MemoryStorage, int, int]]:
    """Yield a disk for each crash point in order, the number of whole steps on it and the bytes of the next one.

    `cuts_of` gives ascending lengths below that of a write. Every disk is the same object, so copy what is kept.
    """
    replay = Replay(start.copy())
    yield replay.storage, 0, 0
    for number, step in enumerate(steps):
        written = 0
        if step.kind is CallKind.PWRITE:
            for length in cuts_of(step):
                replay.write(step, written, length)
                written = length
                yield replay.storage, number, length
        replay.apply(step)
        yield replay.storage, number + 1, 0
