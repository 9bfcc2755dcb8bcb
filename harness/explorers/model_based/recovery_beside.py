"""The rule of a stateful run about a recovery during which another process commits."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.sessions import UNCOMMITTED
from tornproof.harness.explorers.model_based.world import ALLOWED, World, orderly
from tornproof.harness.simulator.filesystem.beside import BesideStorage
from tornproof.harness.simulator.filesystem.intercept import READ_ONLY_CALLS, Call
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import answer_of
from tornproof.impl.errors import BusyError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import Storage
from tornproof.impl.txn.pins import PINS_FILE


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
    first: int | None = 0
    while first is not None:
        storage = MemoryStorage.of(image)
        commits = partial(_commits, world, storage.fork_process(), path)
        beside = BesideStorage(storage.fork_process(), commits, first=first, may_act=_may_change)
        with orderly("a recovery beside a writer", BusyError), suppress(BusyError):
            repair_table(beside, path)
        with orderly("a recovery after one beside a writer"):
            problems = repair_table(storage, path).problems
            found = answer_of(storage, path)
        is_committed = beside.acted_at is not None
        if problems or found != expected[is_committed]:
            when = f"before call {beside.acted_at} of a recovery another process committed"
            raise ViolationError(ALLOWED, f"{when}: other rows are there afterwards, or {problems}")
        first = None if beside.acted_at is None else beside.acted_at + 1
        world.reached["commit in a recovery"] += is_committed


def _may_change(call: Call) -> bool:
    return call.kind not in READ_ONLY_CALLS


def _commits(world: World, storage: Storage, path: str) -> bool:
    is_committed = _is_committed(storage, path)
    world.reached["recovery that locks a commit out"] += not is_committed
    return is_committed


def _is_committed(storage: Storage, path: str) -> bool:
    """Commit a row, unless another process has the table locked."""
    try:
        with open_writer_of_copy(storage, path) as writer:
            writer.write(rows_for(writer.table, [writer.transaction.partitions[0].timestamp], seed=1))
            writer.commit()
    except BusyError:
        return False
    return True
