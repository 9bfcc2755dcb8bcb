"""Whether the recovery of a writer restates each partition in which a killed commit left rows, whatever others refuse.

A partition on a volume that cannot be written to is left as it is, and takes no rows; any other error ends the recovery
(docs/writing.md#recovery).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.roundtrip.writing.kills import WRITER, execute_and_spoil, row_count_in
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage, RefusingStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import RowsRejectedError, StorageError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import Storage, StorageReason
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.partition_change import PartitionChanger
from tornproof.impl.write.table_writer import TableWriter

PROPERTY = "a recovery restates what it can write to, leaves what is read-only, and ends for any other error"
PATH = "killed"
DAY = 86_400 * 10**6
TIMES = tuple(FIRST_TIME + day * DAY for day in range(3))
LATER = 5
OTHERS = (StorageReason.NO_SPACE, StorageReason.INPUT_OUTPUT)
WRITES = (CallKind.PWRITE, CallKind.FDATASYNC, CallKind.MAP, CallKind.MSYNC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volumes:
    """Why a kind of call fails in the directory of each partition, or None where it does not."""

    reasons: tuple[StorageReason | None, ...]
    at: CallKind = CallKind.OPEN_FOR_WRITING

    @property
    def name(self) -> str:
        """It in words."""
        told = (each.name.lower().replace("_", " ") if each else "no error" for each in self.reasons)
        return f"three partitions with {', '.join(told)} when one would {self.at}"

    @property
    def kind(self) -> str:
        """Whether it ends the recovery, and where calls fail."""
        return f"{self.error is None} {self.at}"

    @property
    def error(self) -> StorageReason | None:
        """The first one that ends a recovery."""
        return next((each for each in self.reasons if each in OTHERS), None)


@functools.cache
def volumes() -> tuple[Volumes, ...]:
    """Return all volumes, always in the same order."""
    some = (None, StorageReason.READ_ONLY, StorageReason.INPUT_OUTPUT)
    every = [Volumes(reasons=reasons) for reasons in itertools.product(some, repeat=len(TIMES))]
    for reason in (StorageReason.NOT_PERMITTED, StorageReason.NO_SPACE):
        every += [Volumes(reasons=reasons) for reasons in itertools.product((None, reason), repeat=len(TIMES))]
    for at, reason, place in itertools.product(WRITES, OTHERS, range(len(TIMES))):
        reasons = tuple(reason if number == place else None for number in range(len(TIMES)))
        every.append(Volumes(reasons=reasons, at=at))
    return tuple(dict.fromkeys(every))


def problem_of(case: Volumes) -> str | None:
    """Say what is wrong with a recovery and with what a writer takes after it; None if nothing is."""
    disk = MemoryStorage.of(_killed_table())
    directories = [f"{PATH}/{open_table(disk, PATH).directory_of(each)}/" for each in _partitions(disk)]
    storage = _on_volumes(disk, case, directories)
    taken = 0
    try:
        with open_writer_of_copy(storage, PATH) as writer:
            if case.error is not None:
                return f"the error of a volume, {case.error}, is not raised"
            problem = _problem_of_orphans(disk, case.reasons)
            if problem is None:
                taken, problem = _wrongly_taken(writer, case)
            if problem is not None:
                return problem
    except StorageError as error:
        if case.error is None or error.reason != case.error:
            return f"it ends: {error}"
        # What comes before the error is restated.
        problem = _problem_of_orphans(disk, case.reasons[: case.reasons.index(case.error)])
        if problem is not None:
            return problem
    if (count := row_count_in(disk, PATH)) != len(TIMES) + taken:
        return f"{count} rows are there afterwards, and should be {len(TIMES) + taken}"
    # The errors are gone.
    open_writer_of_copy(disk, PATH).close()
    problem = _problem_of_orphans(disk, (None,) * len(TIMES))
    if problem is not None:
        return f"after another recovery without errors {problem}"
    problems = verify_table(open_table(disk, PATH)).all_problems
    return f"after another recovery without errors, {problems[0]}" if problems else None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of recoveries that restate too little, and of writers after them."""
    recovery = "tornproof.impl.write.recovery"
    conform, republish = original_of(f"{WRITER}:conform"), original_of(f"{recovery}:_republish_partitions")

    def last_first(storage: Storage, table: Table, version: Transaction) -> None:
        republish(storage, table, structs.replace(version, partitions=version.partitions[::-1]))

    controls: Controls = (
        ("nothing is restated", f"{recovery}:_republish", lambda *_: None, "partition 0 is not restated"),
        ("nothing is restated later", f"{recovery}:_republish", lambda *_: None, "without errors partition 0 is not"),
        ("the last is restated first", f"{recovery}:_republish_partitions", last_first, "partition 0 is not restated"),
        ("any error leaves a partition", f"{recovery}:UNWRITABLE", tuple(StorageReason), "is not raised"),
        ("no error leaves a partition", f"{recovery}:UNWRITABLE", (), "it ends: "),
        ("no rows are taken", f"{WRITER}:reject_unless_writable", _refuse, "takes no rows: "),
        (
            "what is left takes rows",
            "tornproof.impl.write.partition_change:PartitionChanger",
            _Rewriting,
            "takes rows, which is left as it is",
        ),
        ("rows are lost", f"{WRITER}:conform", lambda *of: conform(*of)[:0], "rows are there afterwards"),
        ("the name is lost", f"{WRITER}:execute", execute_and_spoil, "after another recovery without errors, "),
    )
    # Made before all mistakes, because it is kept.
    _killed_table()
    return not_noticed(controls, problem_of, volumes())


def _refuse(*_: object) -> None:
    raise RowsRejectedError("nothing is taken")


class _Rewriting(PartitionChanger, kw_only=True):
    """A writer that puts each partition into a new directory."""

    def must_rewrite(self, *_: object) -> bool:
        """Return that it must."""
        return True


def _on_volumes(disk: Storage, case: Volumes, directories: list[str]) -> Storage:
    """Return a disk on which calls of one kind fail in some directories."""

    def reason_of(call: Call) -> StorageReason | None:
        reasons = zip(directories, case.reasons, strict=True)
        return next((each for at, each in reasons if each and call.kind is case.at and call.path.startswith(at)), None)

    return RefusingStorage(disk, reason_of)


@functools.cache
def _killed_table() -> DiskImage:
    """Return a table of three partitions, in each of which a killed commit has left a row."""
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "v": "LONG"})
    with open_writer_of_copy(storage, PATH) as writer:
        writer.write(_rows(*TIMES))
        writer.commit()
    # The size of each _pm is stored before the version.
    faulty = FaultyStorage(storage)
    with suppress(Killed), open_writer_of_copy(faulty, PATH) as writer:
        writer.write(_rows(*(each + 1 for each in TIMES)))
        faulty.arm(Fault(at=len(TIMES), reason=None, among=frozenset({CallKind.STORE})))
        writer.commit()
    needed(_orphan_counts(storage) == [1] * len(TIMES), "the commit was not killed before its version")
    return storage.image()


def _rows(*times: int) -> pa.Table:
    return pa.table({"ts": times, "v": [each % DAY for each in times]})


def _partitions(storage: Storage) -> tuple[Any, ...]:
    return open_table(storage, PATH).transaction().partitions


def _orphan_counts(storage: Storage) -> list[int]:
    """Return how many newer generations than the committed one each partition has."""
    snapshot = open_snapshot(open_table(storage, PATH))
    return [snapshot.resolve(each).resolved.orphan_count for each in snapshot.transaction.partitions]


def _problem_of_orphans(disk: Storage, reasons: tuple[StorageReason | None, ...]) -> str | None:
    """Say which partition is not restated, or is and cannot have been."""
    for number, (count, reason) in enumerate(zip(_orphan_counts(disk), reasons, strict=False)):
        if count and reason is None:
            return f"partition {number} is not restated"
        if reason and not count:
            return f"partition {number} is restated, on a volume with the error {reason.name}"
    return None


def _wrongly_taken(writer: TableWriter, case: Volumes) -> tuple[int, str | None]:
    """Write a row to each partition, and return how many were taken, and what is wrong with that."""
    taken = 0
    for number, (time, reason) in enumerate(zip(TIMES, case.reasons, strict=True)):
        writer.write(_rows(time + LATER))
        try:
            writer.commit()
        except RowsRejectedError as error:
            writer.rollback()
            if reason is None:
                return taken, f"partition {number} takes no rows: {error}"
        else:
            taken += 1
            if reason is not None:
                return taken, f"partition {number} takes rows, which is left as it is"
    return taken, None
