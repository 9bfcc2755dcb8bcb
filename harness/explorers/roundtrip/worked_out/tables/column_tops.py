"""What a commit leaves in `_cv`: of no partition that it has written a row is older than a column.

A reader of data.parquet alone sees nothing of a mistake, only a server that makes the partition native again.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.explorers.roundtrip.metadata.column_version_files import (
    DICTIONARY,
    ENTRY,
    FILE,
    HEADER,
    NO_NUMBER,
    OTHERS,
    Entry,
)
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import disks_of_power_cuts, table_of, table_of_rows
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.txn import TransactionRecord
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import verify_table

PATH = "table"
DAY = 86_400_000_000
DAYS = tuple(FIRST_TIME // DAY * DAY + number * DAY for number in range(4))
"""All but the last one have two rows."""
ROW_COUNT = 2
VERSION = 7
VALUE, GONE = 1, 9
"""The id of a column of the table, and that of one that it has no more."""
OWN: dict[str, tuple[Entry, ...]] = {
    "none": (),
    "one row": ((DAYS[1], VALUE, 5, 1),),
    "all rows, and others of the last": ((DAYS[1], VALUE, 5, ROW_COUNT), (DAYS[2], VALUE, NO_NUMBER, 1)),
    "no row": ((DAYS[1], VALUE, 5, 0),),
}
BESIDE: tuple[Entry, ...] = ((DICTIONARY, GONE, 4, 0), (DAYS[0], GONE, 6, 1), (DAYS[1], GONE, 6, 2))
Entries: TypeAlias = Sequence[Entry]
RECOVERIES: Mapping[str, Callable[[MemoryStorage], object]] = {
    "a recovery": lambda storage: repair_table(storage, PATH),
    "another writer": lambda storage: open_writer_of_copy(storage, PATH).close(),
}


def column_tops() -> Iterator[Question]:
    """Yield which entries there are after partitions were dropped and written, and whether the table is sound."""
    for (words, own), since, dropped, written in itertools.product(
        OWN.items(), (None, *DAYS[1:3]), ((), DAYS[1:2], DAYS[2:3], DAYS[:3]), ((), DAYS[1:2], DAYS[3:])
    ):
        if dropped or written:
            default = () if since is None else ((OTHERS, VALUE, 3, since),)
            before = (*default, *BESIDE, *own)
            column = "was always there" if since is None else f"came on day {DAYS.index(since)}"
            done = f"days {_numbers(dropped)} are dropped and rows of days {_numbers(written)} written"
            name = f"`_cv` of a column that {column}, older than which is {words} of day 1, after {done}"
            yield ask("column tops", name, _expected(before, dropped, written), _after, before, dropped, written)
    for count in (40, 125, 126, 127, 300):
        before = (*((DAYS[0], GONE + number, 6, 1) for number in range(count)), *OWN["one row"])
        name = f"`_cv` of {count} columns that are gone, after rows of day 1 are written"
        yield ask("column tops", name, _expected(before, (), DAYS[1:2]), _after, before, (), DAYS[1:2])
    for words, dropped, written in (
        ("all rows, and others of the last", (), DAYS[1:3]),
        ("one row", DAYS[:1], DAYS[1:2]),
        ("no row", DAYS[2:3], ()),
    ):
        before = ((OTHERS, VALUE, 3, DAYS[2]), *BESIDE, *OWN[words])
        name = f"`_cv` at any time of a commit and after any power cut in it, older than which was {words} of day 1"
        versions = [(VERSION, sorted(before), "sound"), _expected(before, dropped, written)]
        yield ask("column tops", name, versions, _met, before, dropped, written)
    for (words, own), (how, restored) in itertools.product(OWN.items(), RECOVERIES.items()):
        before, name = (*BESIDE, *own), f"`_cv` of a killed commit, older than which is {words} of day 1, after {how}"
        yield ask("column tops", name, (VERSION, sorted(before), "sound"), _restored, before, restored)


def _numbers(days: Sequence[int]) -> list[int]:
    return [DAYS.index(day) for day in days]


def _expected(before: Entries, dropped: Sequence[int], written: Sequence[int]) -> tuple[int, list[Entry], str]:
    """Return the version, the entries and what is wrong, by docs/writing.md."""
    days = sorted({*DAYS[:3]} - {*dropped} | {*written})
    said = {entry[:2]: entry for entry in before if entry[0] not in dropped}
    last = days[-1] if days else OTHERS
    default = said.get((OTHERS, VALUE))
    if default is not None and default[3] > last:
        said[OTHERS, VALUE] = (OTHERS, VALUE, default[2], last)
        if days:
            said.setdefault((last, VALUE), (last, VALUE, default[2], ROW_COUNT))
    for day in written:
        own, default = said.get((day, VALUE)), said.get((OTHERS, VALUE))
        if own[3] > 0 if own is not None else default is not None and default[3] > day:
            number = (own or default or (0, 0, NO_NUMBER))[2]
            said[day, VALUE] = (day, VALUE, number, 0)
    entries = sorted(said.values())
    return VERSION + (entries != sorted(before)), entries, "sound"


def _after(before: Entries, dropped: Sequence[int], written: Sequence[int]) -> tuple[Any, ...]:
    storage = MemoryStorage.of(_image(before))
    _commit(storage, dropped, written)
    return _left(storage)


def _commit(storage: Storage, dropped: Sequence[int], written: Sequence[int]) -> None:
    with open_writer_of_copy(storage, PATH) as writer:
        for day in dropped:
            writer.drop_partition(day)
        if written:
            writer.write(table_of([(day + 9, 9) for day in written], writer.schema))
        writer.commit()


def _met(before: Entries, dropped: Sequence[int], written: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return what a reader or a power cut at any time of a commit may meet: each version once, in their order."""
    image = _image(before)
    storage, found = FaultyStorage(MemoryStorage.of(image)), list[tuple[Any, ...]]()
    _commit(storage, dropped, written)
    for _, _, disk in disks_of_power_cuts(Kernel.of(image), storage.calls):
        met = outcome_of(functools.partial(_committed, MemoryStorage.of(disk)))
        if met not in found:
            found.append(met)
    return found


def _restored(before: Entries, recover: Callable[[MemoryStorage], object]) -> tuple[Any, ...]:
    image = _image(before)
    content = bytearray(image.files[f"{PATH}/{FILE}"])
    struct.pack_into("<q", content, 0, VERSION + 1)
    storage = MemoryStorage.of(image.with_file(f"{PATH}/{FILE}", bytes(content)))
    recover(storage)
    return _left(storage)


def _left(storage: MemoryStorage) -> tuple[Any, ...]:
    """Return the version in `_cv`, its entries, and what is wrong."""
    committed, (newest, *_) = _committed(storage), HEADER.unpack_from(storage.image().files[f"{PATH}/{FILE}"])
    return committed if newest == committed[0] else (newest, "another version than that in `_txn`")


def _committed(storage: MemoryStorage) -> tuple[Any, ...]:
    """Return the version that belongs to the committed record, its entries, and what is wrong."""
    table, content = open_table(storage, PATH), storage.image().files[f"{PATH}/{FILE}"]
    version = table.transaction().record.column_version
    offset, size_bytes = HEADER.unpack_from(content)[1 + 2 * (version % 2) :][:2]
    problems = verify_table(table).all_problems
    entries = [*ENTRY.iter_unpack(content[offset : offset + size_bytes])]
    return version, entries, str(problems[0]) if problems else "sound"


@functools.cache
def _rows() -> DiskImage:
    return table_of_rows(PATH, [(day + number, number) for day in DAYS[:3] for number in range(ROW_COUNT)])


def _image(entries: Entries) -> DiskImage:
    """Return a table with these entries, in the area of an odd version, and with that version in `_txn`."""
    image, area = _rows(), b"".join(ENTRY.pack(*entry) for entry in sorted(entries))
    txn = bytearray(image.files[f"{PATH}/{TXN_FILE}"])
    record = open_table(MemoryStorage.of(image), PATH).transaction().record_offset
    struct.pack_into("<q", txn, record + TransactionRecord.layout.offset_of("column_version"), VERSION)
    content = HEADER.pack(VERSION, 0, 0, HEADER.size, len(area)) + area
    return image.with_file(f"{PATH}/{FILE}", content.ljust(4096, b"\0")).with_file(f"{PATH}/{TXN_FILE}", bytes(txn))
