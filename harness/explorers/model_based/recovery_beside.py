"""The rule of a stateful run about a recovery during which another process commits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TypeVar

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.sessions import UNCOMMITTED
from tornproof.harness.explorers.model_based.world import ALLOWED, World, orderly
from tornproof.harness.simulator.filesystem.intercept import READ_ONLY_CALLS, Call, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import answer_of
from tornproof.impl.errors import BusyError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import Storage
from tornproof.impl.txn.pins import PINS_FILE

Result = TypeVar("Result")


def recover_beside_a_writer(world: World) -> None:
    """Recover copies while another process commits before one of the calls: it is refused, or no row is lost."""
    path, image = world.files.path, world.files.image()
    name = world.files.name_of(world.state.committed.entries[0].directory)
    data = f"{path}/{name}/{DATA_FILE}"
    # In a table of a server nothing is locked until there is something to do.
    image = image.with_file(data, image.files[data] + UNCOMMITTED).without_file(f"{path}/{PINS_FILE}")
    after = MemoryStorage.of(image)
    with orderly("a commit"):
        expected = [answer_of(image, path), answer_of(after, path)] if _is_committed(after, path) else []
    for at in count():
        storage = MemoryStorage.of(image)
        beside = _Beside(storage.fork_process(), at, partial(_is_committed, storage.fork_process(), path))
        with orderly("a recovery beside a writer", BusyError), suppress(BusyError):
            repair_table(beside, path)
        with orderly("a recovery after one beside a writer"):
            problems = repair_table(storage, path).problems
            found = answer_of(storage, path)
        if problems or found != expected[beside.answer]:
            done = "committed" if beside.answer else "tried to commit"
            when = f"before call {at} of a recovery another process {done}"
            raise ViolationError(ALLOWED, f"{when}: other rows are there afterwards, or {problems}")
        if beside.count <= at:
            break
        world.reached["commit in a recovery"] += beside.answer
        world.reached["recovery that locks a commit out"] += not beside.answer


class _Beside(InterceptedStorage):
    """A process before one of whose calls another one does something, whose answer is kept."""

    def __init__(self, inner: Storage, at: int, act: Callable[[], bool]) -> None:
        super().__init__(inner)
        self.count, self.answer = 0, False
        self._at, self._act = at, act

    def intercept(self, call: Call, run: Callable[[], Result]) -> Result:
        """Act before the call of that number, of those that do not only read."""
        if call.kind not in READ_ONLY_CALLS:
            if self.count == self._at:
                self.answer = self._act()
            self.count += 1
        return run()


def _is_committed(storage: Storage, path: str) -> bool:
    """Commit a row, unless another process has the table locked."""
    try:
        with open_writer_of_copy(storage, path) as writer:
            writer.write(rows_for(writer.table, [writer.transaction.partitions[0].timestamp], seed=1))
            writer.commit()
    except BusyError:
        return False
    return True
