"""What a target does where nothing fails, and whether it does the same again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tornproof.harness.common.system import TARGET_ERRORS, Target
from tornproof.harness.common.verdict import shown
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.kernel import BusError
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.filesystem.written import RecordingStorage
from tornproof.harness.simulator.process.simulated_process import NotDeterministicError
from tornproof.impl.errors import counted

Rehearsed = TypeVar("Rehearsed", bound=Target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal(Generic[Rehearsed]):
    """A run without faults: what a reader sees before and after each commit, the steps of the commits, and its end.

    Of steps only the kinds are kept: bytes that no reader returns, and names, may be random. `disk` is what it left.
    """

    target: Rehearsed
    operations: Sequence[Any]
    path: str
    seen: tuple[Hashable, ...]
    steps: tuple[CallKind, ...]
    ended: BaseException | None
    disk: MemoryStorage

    @classmethod
    def of(
        cls, target: Rehearsed, operations: Sequence[Any], *, path: str, disk: MemoryStorage | None = None
    ) -> Rehearsal[Rehearsed]:
        """Commit the operations, up to the first one that raises something, on a copy of a disk or an empty storage."""
        storage = MemoryStorage().bounded() if disk is None else disk.copy()
        recording = RecordingStorage(storage)
        seen: list[Hashable] = []
        opened_count, ended = 0, None
        try:
            if disk is None:
                target.create(storage, path)
            seen.append(target.read(storage.copy(), path))
            with target.open_writer(recording, path) as writer:
                opened_count = len(recording.steps)
                for operation in operations:
                    writer.commit(operation)
                    seen.append(target.read(storage.copy(), path))
        except (*TARGET_ERRORS, BusError, EndlessError) as error:
            ended = error
        steps = tuple(step.kind for step in recording.steps[opened_count:])
        return cls(
            target=target,
            operations=operations,
            path=path,
            seen=tuple(seen),
            steps=steps,
            ended=ended,
            disk=storage.copy(),
        )

    def repeat(self) -> None:
        """Do the same again; raises NotDeterministicError for what is different then."""
        difference = self._difference(Rehearsal.of(self.target, self.operations, path=self.path))
        if difference:
            raise NotDeterministicError(difference)
        if self.ended is None and self.operations:
            self._repeat_session()

    def _repeat_session(self) -> None:
        """Commit the last operation in a session of its own, and do that again on the same files.

        A target that keeps state apart from its files has another one then: that of the session before, or of an empty
        state that it created elsewhere meanwhile.
        """
        *others, last = self.operations
        left = Rehearsal.of(self.target, others, path=self.path).disk
        first, second = (Rehearsal.of(self.target, [last], path=self.path, disk=left) for _ in range(2))
        Rehearsal.of(self.target, (), path=self.path)
        third = Rehearsal.of(self.target, [last], path=self.path, disk=left)
        difference = first._difference(second) or first._difference(third)
        if difference:
            raise NotDeterministicError(
                f"it keeps state between sessions, apart from its files: on copies of the same files, {difference}"
            )

    def _difference(self, again: Rehearsal[Rehearsed]) -> str:
        before, now = self._facts, again._facts
        for what in before | now:
            if before.get(what) != now.get(what):
                return f"{what} {shown(before.get(what))}, and then {shown(now.get(what))}"
        return ""

    @property
    def _facts(self) -> dict[str, Hashable]:
        seen = {f"after {counted(count, 'commit')} a reader sees": each for count, each in enumerate(self.seen)}
        return seen | {f"step {number} of its commits is": step.value for number, step in enumerate(self.steps, 1)}
