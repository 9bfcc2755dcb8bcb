"""What a new version of a table announces, what a sequencer has before it, and how long readers try to see one."""

from __future__ import annotations

import functools
import hashlib
import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from msgspec import structs

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.roundtrip.beside.closed_files import Opened
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import table_of_rows
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import BusyError, CorruptError, StorageError
from tornproof.impl.layout.txn import TransactionRecord
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.txn.announced_version import AnnouncedVersion, announced_after
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.txn.reader import TransactionReader
from tornproof.impl.txn.sequencer import SEQUENCER_FILE, pending_transaction_count
from tornproof.impl.txn.transaction import Partition, Transaction, safe_read
from tornproof.impl.txn.write import PartitionState, next_version

CLOCK_STEP_SECONDS, SLEEPS_MAX = 0.3, 50
COUNTERS = ("partition_table_version", "column_version", "truncate_version")
"""Of a record: what announces that an older partition is another one."""


def reloads() -> Iterator[Question]:
    """Yield two versions of a table, and what a reader that follows it is told of the second."""
    before = dict.fromkeys(range(3), 10)
    for changes, is_longer, counter in itertools.product(
        itertools.product((0, 1, None), repeat=len(before)), (False, True), (None, *COUNTERS)
    ):
        after = {number: before[number] + more for number, more in enumerate(changes) if more is not None}
        after |= {len(before): 10} if is_longer else {}
        same = [number for number in after if after[number] == before.get(number)]
        # The last partition may grow without announcement, or be gone, but no other one may take its place.
        is_replaced = len(after) == len(before) and [*after] != [*before]
        is_unannounced = counter is None and (is_replaced or not {*before} - {max(before)} <= {*same})
        yield ask(
            "reloads",
            f"row counts {before} and then {after}, {counter or 'no counter'} changed",
            (is_unannounced, [] if counter == "truncate_version" else same),
            _reload,
            states_of(before),
            states_of(after),
            counter,
        )
    states = states_of(before)
    for number, name, counter in itertools.product(before, ("flags", "name_txn", "token"), (None, *COUNTERS)):
        others = [structs.replace(each, **{name: 7}) if each.timestamp == number else each for each in states]
        same = [each for each in before if each != number and counter != "truncate_version"]
        yield ask(
            "reloads",
            f"another {name} of partition {number} of three, {counter or 'no counter'} changed",
            (counter is None, same),
            _reload,
            states,
            others,
            counter,
        )
    grown = structs.replace(states[-1], row_count=11, token=7)
    for is_longer in (False, True):
        # The entry is read whole only if another one follows.
        others = [*states[:-1], grown, *states_of({len(before): 10} if is_longer else {})]
        words = f"another token of the last partition of three, which grew{' before a new one' * is_longer}"
        yield ask("reloads", words, (not is_longer, [0, 1]), _reload, states, others, None)
    for number in range(len(before) - 1):
        others = [structs.replace(each, name_txn=7) if each.timestamp == number else each for each in states]
        words = f"another name of partition {number}, after a reload that failed"
        found = functools.partial(_reload, states, others, None, fails=True)
        yield Question("reloads", words, found, (True, [each for each in before if each != number]))


def _reload(
    before: Sequence[PartitionState], after: Sequence[PartitionState], counter: str | None, *, fails: bool = False
) -> tuple[bool, list[int]]:
    """Return whether a change was not announced, and which partitions may be kept open; a reload between may fail."""
    versions = iter((version_of(before), version_of(after, counter)))
    failing = replaced("tornproof.impl.txn.reader:safe_read", _busy)
    with replaced("tornproof.impl.txn.reader:safe_read", lambda *_: next(versions)):
        reader = TransactionReader(MemoryStorage(), "_txn")
        reader.reload()
        with failing if fails else nullcontext(), suppress(BusyError):
            needed(not fails or reader.reload() is None, "a reload that fails returns something")
        found = reader.reload()
    return bool(found.unannounced), [partition.timestamp for partition in found.unchanged]


def _busy(*_: object) -> Transaction:
    raise BusyError("the version keeps changing")


def states_of(row_counts: dict[int, int]) -> list[PartitionState]:
    """Return partitions by their timestamps."""
    return [
        PartitionState(timestamp=timestamp, row_count=row_count, flags=0, name_txn=-1, token=-1)
        for timestamp, row_count in row_counts.items()
    ]


def version_of(states: Sequence[PartitionState], counter: str | None = None) -> Transaction:
    """Return version 0 with these partitions, all of whose other numbers are 0, but for a counter."""
    record = bytearray(TransactionRecord.layout.size_bytes)
    if counter is not None:
        record[TransactionRecord.layout.offset_of(counter)] = 1
    partitions = (Partition(entry_offset_bytes=0, row_count_offset_bytes=0, **structs.asdict(each)) for each in states)
    decoded = TransactionRecord.unpack(bytes(record), 0, file="_txn")
    return Transaction(version=0, record=decoded, record_offset=0, symbol_counts=(), partitions=tuple(partitions))


def announcements() -> Iterator[Question]:
    """Yield what changes of one of two partitions, and whether the next version announces it to readers that follow.

    They read the last row count in any case, and all else of older partitions only if it is announced.
    """
    before = [PartitionState(timestamp=each, row_count=5, flags=0, name_txn=each, token=100) for each in (1, 2)]
    others = {"a partition less": before[:1], "none": [], "a first": before[1:]}
    for number, name in itertools.product(range(2), ("row_count", "flags", "name_txn", "token")):
        if (number, name) != (1, "row_count"):
            words = f"another {name} of {('the first', 'the last')[number]} of two partitions"
            others[words] = [
                structs.replace(each, **{name: 7}) if place == number else each for place, each in enumerate(before)
            ]
    for words, after in others.items():
        yield ask("announcements", words, True, _is_announced, before, after)
    for announced, told, committed, found in itertools.product((6, 7, 8), (None, 3, 4), (7,), (3,)):
        words = f"whether version {committed} with number {found} is version {announced} announced with {told}"
        unknown = announced < committed or told is None
        expected = False if announced > committed else None if unknown else told == found
        yield ask("announcements", words, expected, _is_committed, announced, told, committed, found)
    for identity, number in itertools.product((b"", b"a", b"another"), (0, -(1 << 63), (1 << 63) - 1)):
        digest = int.from_bytes(hashlib.blake2b(identity, digest_size=8).digest(), "big")
        added = number + (1 << 28) + digest % (1 << 28)
        words = f"the version that is announced of {identity!r} after one with number {number}"
        next_number = added - (1 << 64 if added >= 1 << 63 else 0)
        yield ask("announcements", words, (8, next_number), _announced, identity, number)


def _numbered(version: int, number: int) -> Transaction:
    made = structs.replace(version_of(()), version=version)
    return structs.replace(made, record=made.record.changed(partition_table_version=number))


def _is_committed(announced: int, told: int | None, committed: int, found: int) -> bool | None:
    of = AnnouncedVersion(version=announced, partition_table_version=told)
    return of.is_committed(_numbered(committed, found))


def _announced(identity: bytes, number: int) -> tuple[int, int | None]:
    found = announced_after(_numbered(7, number), identity)
    return found.version, found.partition_table_version


def _is_announced(before: Sequence[PartitionState], after: Sequence[PartitionState]) -> bool:
    current = version_of(before)
    found = next_version(current, partitions=after, min_timestamp=0, max_timestamp=0)
    return found.record.partition_table_version != current.record.partition_table_version


def pending() -> Iterator[Question]:
    """Yield logs of a sequencer, and how many of its transactions a version of the seventh does not contain."""
    for last, expected in ((-1, 0), (6, 0), (7, 0), (8, 1), (1 << 40, (1 << 40) - 7)):
        for more in (b"", b"\xff" * 9):
            content = struct.pack("<iq", 0, last) + more
            name = f"transactions after the seventh in a log of {len(content)} bytes that ends with {last}"
            yield ask("pending", name, expected, _pending_in, content)
    for size_bytes in (0, 4, 11):
        yield ask("pending", f"transactions in a log of {size_bytes} bytes", None, _pending_in, bytes(size_bytes))
    yield ask("pending", "transactions without a log", None, _pending_in, None)


def _pending_in(content: bytes | None) -> int | None:
    version = version_of(())
    version = structs.replace(version, record=version.record.changed(seq_txn=7))
    image = DiskImage.of_files({} if content is None else {f"table/{SEQUENCER_FILE}": content})
    return pending_transaction_count(image, "table", version)


class _Slow(InterceptedStorage):
    """A storage whose clock goes on whenever it is asked, and which ends what sleeps too often."""

    def __init__(self) -> None:
        super().__init__(MemoryStorage.of(table_of_rows("table", [(FIRST_TIME, 0)])))
        self.seconds, self.sleep_count = 0.0, 0

    def intercept(self, call: Call, run: Callable[[], Any]) -> Any:
        if call.kind is CallKind.CLOCK:
            self.seconds += CLOCK_STEP_SECONDS
            return self.seconds
        self.sleep_count += call.kind is CallKind.SLEEP
        if self.sleep_count > SLEEPS_MAX:
            raise StorageError(file=call.path, operation=call.kind.value, reason=StorageReason.INPUT_OUTPUT)
        return run()


def patience() -> Iterator[Question]:
    """Yield readers beside a writer that never stops, and what comes of them: they give up, and leave nothing open."""
    yield Question("patience", "what comes of a read whose version keeps changing", _never_read, "BusyError")
    for words, attempts, error in (("are gone", 0, "BusyError"), ("are damaged", 9, "CorruptError")):
        yield ask("patience", f"what a pin leaves open if versions {words}", (error, []), _left_open, attempts)


def _never_read() -> Any:
    storage = _Slow()
    with replaced("tornproof.impl.txn.transaction:is_committed_still", lambda *_: False):
        return outcome_of(lambda: safe_read(storage, "table/_txn"))


def _left_open(attempts: int) -> tuple[Any, list[str]]:
    """Return what comes of a pin, and which files are open then; the second look at `_txn` sees a damaged one."""
    storage, looks = Opened(MemoryStorage.of(table_of_rows("table", [(FIRST_TIME, 0)]))), itertools.count()

    def read(*of: Any, **settings: Any) -> Transaction:
        if next(looks) and attempts:
            raise CorruptError("_txn", "VERSION", 0, 1, 2)
        return safe_read(*of, **settings)

    with (
        replaced("tornproof.impl.txn.pins:safe_read", read),
        replaced("tornproof.impl.txn.pins:PIN_ATTEMPTS_MAX", attempts),
    ):
        answer = outcome_of(lambda: pin_committed(storage, "table"))
    return answer, [call.path for call in storage.left.values()]
