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

    Of steps only the kinds are kept: bytes that no reader returns, and names, may be random.
    """

    target: Rehearsed
    operations: Sequence[Any]
    path: str
    seen: tuple[Hashable, ...]
    steps: tuple[CallKind, ...]
    ended: BaseException | None

    @classmethod
    def of(cls, target: Rehearsed, operations: Sequence[Any], *, path: str) -> Rehearsal[Rehearsed]:
        """Commit the operations on an empty storage, up to the first one that raises something."""
        storage = MemoryStorage().bounded()
        recording = RecordingStorage(storage)
        seen: list[Hashable] = []
        opened_count, ended = 0, None
        try:
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
        return cls(target=target, operations=operations, path=path, seen=tuple(seen), steps=steps, ended=ended)

    def repeat(self) -> None:
        """Do the same again; raises NotDeterministicError for what is different then."""
        before, now = self._facts, Rehearsal.of(self.target, self.operations, path=self.path)._facts
        for what in before | now:
            if before.get(what) != now.get(what):
                raise NotDeterministicError(f"{what} {shown(before.get(what))}, and then {shown(now.get(what))}")

    @property
    def _facts(self) -> dict[str, Hashable]:
        seen = {f"after {counted(count, 'commit')} a reader sees": each for count, each in enumerate(self.seen)}
        return seen | {f"step {number} of its commits is": step.value for number, step in enumerate(self.steps, 1)}
