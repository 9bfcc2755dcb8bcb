"""Operations on small tables, and acts of another process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeAlias

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import commit_prepared
from tornproof.harness.explorers.roundtrip.beside.small_tables import (
    ALONE,
    BEFORE,
    DATA,
    DAY,
    FIRST,
    HOME,
    OURS,
    PATH,
    PM,
    PREPARED_AT,
    VERSION_BEFORE,
    State,
    append,
    committed,
    data_of_others,
    numbers_in,
    other_data,
    prepared,
    rows_at,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.systems.answer import read_answer
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import BusyError
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.migrate.footer_form import change_footer_form
from tornproof.impl.migrate.plain_file import migrate_file
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.read.reader import snapshot_of
from tornproof.impl.repair.repair import forget_kept, repair_table
from tornproof.impl.storage.interface import EntryKind, LockMode, OpenMode, Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE, pin_committed
from tornproof.impl.txn.transaction import TXN_FILE

REFUSED = "refused"
PUBLISHED_SIZE_BYTES = 8
OUT = f"{HOME}/elsewhere"
GROWN, GROWN_BY_OTHER, NEXT_DAY = 4, 5, DAY + 1
"""Times of rows that are added."""

TABLES = frozenset(State) - {State.OF_OTHERS, State.FILE}
LOCKED = TABLES - {State.NEVER_LOCKED, State.PREPARED}
UNREADABLE = frozenset({State.WITHOUT_PM, State.CONTRADICTED})
READABLE = TABLES - UNREADABLE
REPLACED = UNREADABLE | {State.FILE}
CONVERTED = REPLACED | {State.OF_OTHERS}
Numbers: TypeAlias = frozenset[int]


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done, and what of it: `run` returns what it says, or REFUSED.

    `of` is the state of the table, `rows` are the numbers after it. `mends` says whether the table is sound then,
    `writes` whether it changes the table's own files, and `purges` whether it removes what nobody needs.
    """

    name: str
    of: State
    run: Callable[[Storage], object]
    rows: Callable[[Numbers], Numbers] = lambda numbers: numbers
    mends: bool = False
    writes: bool = True
    purges: bool = False

    @property
    def migrates(self) -> bool:
        """Whether it makes a `_pm`."""
        return self.of in CONVERTED


@dataclass(slots=True)
class Other:
    """Another process, what it keeps open, and the files of the version that it has pinned, as they were then."""

    storage: Storage
    held: ExitStack = field(default_factory=ExitStack)
    pinned: dict[str, bytes] = field(default_factory=dict)

    def needs(self, *directories: str) -> None:
        """Note the files in these directories."""
        for directory in directories:
            for name in (DATA_FILE, PM_FILE):
                if self.storage.kind(f"{directory}/{name}") is EntryKind.FILE:
                    with self.storage.open_for_reading(f"{directory}/{name}") as file:
                        self.pinned[f"{directory}/{name}"] = file.pread(file.size_bytes(), 0)

    def lost(self, image: DiskImage) -> str | None:
        """Return a file that is gone or another one; it may have grown, which the header of a `_pm` says."""
        for path, before in self.pinned.items():
            start = PUBLISHED_SIZE_BYTES if path.endswith(PM_FILE) else 0
            if image.files.get(path, b"")[start : len(before)] != before[start:]:
                return path
        return None


@dataclass(frozen=True, slots=True)
class Act:
    """What another process does: `run` raises BusyError if it may not.

    `of` are the states in which it can. Without `asks` it neither asks for a lock nor respects one; `rows` are the
    numbers after it, `is_first` says that it has been before, `stays` that the table is locked then.
    """

    name: str
    of: Collection[State]
    run: Callable[[Other], None]
    rows: Callable[[Numbers], Numbers] = lambda numbers: numbers
    asks: bool = True
    is_first: bool = False
    stays: bool = False


def _migrate(storage: Storage, out: str | None = None) -> object:
    return migrate_table(storage, PATH, out=out, only=FIRST.rpartition("/")[2]).is_complete or REFUSED


def _migrate_file(storage: Storage) -> object:
    return migrate_file(storage, ALONE).is_complete or REFUSED


def _change_form(storage: Storage, out: str | None = None) -> object:
    change_footer_form(storage, ALONE, FooterForm.PRIVATE, chunks=ChunkForm.ALP, out=out)
    return "changed"


def _recover(storage: Storage) -> object:
    return REFUSED if repair_table(storage, PATH).problems else "recovered"


def _forget(storage: Storage) -> object:
    forget_kept(storage, PATH)
    return "forgotten"


def _purge(storage: Storage) -> object:
    with open_writer_of_copy(storage, PATH) as writer:
        writer.purge()
    return "purged"


def _grow(storage: Storage) -> object:
    append(storage, [GROWN])
    return "committed"


def _adopt(storage: Storage) -> object:
    commit_prepared(storage, PATH, prepared()[1])
    return "committed"


def _scan(storage: Storage) -> object:
    with pin_committed(storage, PATH) as pin:
        return numbers_in(read_answer(snapshot_of(open_table(storage, PATH), pin.transaction)))


def _with(*numbers: int) -> Callable[[Numbers], Numbers]:
    return lambda before: before | {*numbers}


def _without_first_day(numbers: Numbers) -> Numbers:
    return frozenset(number for number in numbers if number >= DAY)


OPERATIONS = (
    Operation("a migration", State.WITHOUT_PM, _migrate, mends=True),
    Operation("a migration of another program's data", State.OF_OTHERS, _migrate, mends=True),
    Operation("a migration that replaces a `_pm`", State.CONTRADICTED, _migrate, mends=True),
    Operation("a migration to another place", State.WITHOUT_PM, functools.partial(_migrate, out=OUT), writes=False),
    Operation("a migration of a file", State.FILE, _migrate_file, writes=False),
    Operation("a change of a file's form", State.FILE, _change_form),
    Operation("a copy of a file in another form", State.FILE, functools.partial(_change_form, out=OUT), writes=False),
    Operation("a recovery", State.LEFT_OVER, _recover),
    Operation("a recovery of a table that nobody has locked", State.NEVER_LOCKED, _recover),
    Operation("forgetting what was kept", State.RECOVERED, _forget, writes=False),
    Operation("a purge", State.SOUND, _purge, purges=True),
    Operation("a commit", State.SOUND, _grow, _with(GROWN + OURS)),
    Operation("an adoption", State.PREPARED, _adopt, _with(PREPARED_AT + OURS)),
    Operation("reading", State.SOUND, _scan, writes=False),
)


def _append(other: Other) -> None:
    append(other.storage, [NEXT_DAY])


def _grow_otherwise(other: Other) -> None:
    append(other.storage, [GROWN_BY_OTHER])


def _rewrite(other: Other) -> None:
    """Put the first day into another directory, and purge."""
    with open_writer_of_copy(other.storage, PATH) as writer:
        writer.rewrite_partition(0)
        writer.commit()
        writer.purge()


def _drop(other: Other) -> None:
    with open_writer_of_copy(other.storage, PATH) as writer:
        writer.drop_partition(0)
        writer.commit()
        writer.purge()


def _migrate_too(other: Other) -> None:
    migrate_table(other.storage, PATH)


def _pin(other: Other) -> None:
    pin = other.held.enter_context(pin_committed(other.storage, PATH))
    if not pin.is_held:
        raise BusyError("the table cannot be pinned")
    table = open_table(other.storage, PATH)
    other.needs(*(table.files_of(each).path for each in pin.transaction.partitions))


def _pin_and_replace(other: Other) -> None:
    """Pin a version, which is no longer the last one then."""
    with open_writer_of_copy(other.storage, PATH) as writer:
        _pin(other)
        writer.rewrite_partition(0)
        writer.commit()
        writer.purge()


def _pin_and_append(other: Other) -> None:
    with open_writer_of_copy(other.storage, PATH) as writer:
        _pin(other)
        writer.write(rows_at([NEXT_DAY]))
        writer.commit()


def _have_pinned(other: Other) -> None:
    """Hold the lock of a reader that has pinned the version before."""
    file = other.storage.open_for_reading(f"{PATH}/{PINS_FILE}")
    other.held.callback(file.close)
    if not file.try_lock(LockMode.SHARED, offset_bytes=VERSION_BEFORE, size_bytes=1):
        raise BusyError("the version before is locked")
    other.needs(BEFORE)


def _stay(other: Other) -> None:
    other.held.enter_context(open_writer_of_copy(other.storage, PATH))


def _copy(later: tuple[int, ...], other: Other) -> None:
    """Write other data over those of the first day, or over the file that is alone."""
    _put(_data_in(other), other_data(*later), other)


def _move(other: Other) -> None:
    """Put another file in the place of that file."""
    _put(f"{HOME}/new", other_data(3), other)
    other.storage.rename(f"{HOME}/new", _data_in(other))


def _data_in(other: Other) -> str:
    return DATA if other.storage.kind(DATA) is EntryKind.FILE else ALONE


def _put(path: str, content: bytes, other: Other) -> None:
    with other.storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
        file.truncate(0)
        file.pwrite(content, 0)


def _lengthen(other: Other) -> None:
    with other.storage.open_for_writing(ALONE) as file:
        file.pwrite(b"more", file.size_bytes())


def _serve(other: Other) -> None:
    """Commit rows to the first day as a server does, that knows no locks, and one of a release without `_pm`."""
    grown = committed()
    for path in (DATA, f"{PATH}/{TXN_FILE}"):
        with other.storage.open_for_writing(path) as file:
            file.pwrite(grown.files[path], 0)


def _copy_of_others(other: Other) -> None:
    _put(DATA, data_of_others((1, 2, 4), "two"), other)


def _restore(other: Other) -> None:
    _put(PM, committed().files[PM], other)


ADDED = _with(NEXT_DAY + OURS)
ACTS = (
    Act("adds rows to another day", UNREADABLE, _append, ADDED),
    Act("adds rows to the first day", READABLE, _grow_otherwise, _with(GROWN_BY_OTHER + OURS)),
    Act("rewrites the first day", READABLE, _rewrite),
    Act("drops the first day", {*UNREADABLE, State.SOUND, State.PREPARED}, _drop, _without_first_day),
    Act("migrates it, too,", {State.WITHOUT_PM}, _migrate_too),
    Act("pins the version", LOCKED | {State.NEVER_LOCKED}, _pin),
    Act("pins the version, which another replaces,", READABLE & LOCKED, _pin_and_replace),
    Act("has pinned a version, after which another adds rows,", {State.SOUND}, _pin_and_append, ADDED, is_first=True),
    Act("has the version before pinned", LOCKED, _have_pinned, is_first=True),
    Act("is a writer", TABLES, _stay, stays=True),
    Act("puts data of the same size there", REPLACED, functools.partial(_copy, (3,)), asks=False),
    Act("puts longer data there", REPLACED, functools.partial(_copy, tuple(range(3, 50))), asks=False),
    Act("puts shorter data there", REPLACED, functools.partial(_copy, (1,)), asks=False),
    Act("puts another file there", REPLACED, _move, asks=False),
    Act("makes it longer", {State.FILE}, _lengthen, asks=False),
    Act("puts other data there", {State.OF_OTHERS}, _copy_of_others, asks=False),
    Act("commits as a server does", UNREADABLE, _serve, asks=False),
    Act("puts a `_pm` there", {State.WITHOUT_PM}, _restore, asks=False),
)
