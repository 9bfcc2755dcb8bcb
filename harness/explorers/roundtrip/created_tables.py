"""Whether a table whose creation a power cut ends is not there yet, and can be created again, or is there whole.

The calls of a creation are made one after the other, and after each of them all disks are looked at that the models of
persistence leave. A creation that is killed where the table is there already may be followed by a commit of another
process, which no power cut may lose.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import STEPS, Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import POWER_MODELS, Model
from tornproof.impl.errors import FileMissingError, NotATableError, TornproofError
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage
from tornproof.impl.table.create import OWN_FILES, NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.table_writer import open_writer

PROPERTY = "a table whose creation is cut is not there, or whole"
PARENT = "home"
PATH = f"{PARENT}/table"
START = DiskImage({}, frozenset({PARENT}))
TIMESTAMP, LONG, SYMBOL = 8, 6, 12
ROWS = pa.table({"at": pa.array([0], pa.timestamp("us", "UTC"))})
MANY = 30
CREATE = "tornproof.impl.table.create"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTable:
    """A new table with these columns beside the timestamp, and what a power cut may leave of it."""

    model: Model
    columns: tuple[NewColumn, ...]

    @property
    def name(self) -> str:
        """It in words."""
        return f"a table with {[each.name[:4] for each in self.columns]} under {self.model}"

    @property
    def kind(self) -> str:
        """The model."""
        return self.model.name

    @property
    def smaller(self) -> CreatedTable:
        """A table with shorter files, and with those of the same names."""
        return replace(self, columns=tuple(each for each in self.columns if each.type == SYMBOL))

    def image(self) -> DiskImage:
        """Return what there is after its creation."""
        storage = MemoryStorage.of(START)
        self.create(storage)
        return storage.image()

    def create(self, storage: Storage) -> Table:
        """Create it."""
        columns = [NewColumn(name="at", type=TIMESTAMP), *self.columns]
        return create_table(storage, PATH, columns, timestamp="at", partition_by=PartitionBy.DAY)


@functools.cache
def created_tables() -> tuple[CreatedTable, ...]:
    """Return all creations, always in the same order."""
    text = NewColumn(name="text", type=SYMBOL, symbol_capacity=2)
    # Their metadata take more than one page.
    many = tuple(NewColumn(name=f"{number} {'x' * 120}", type=LONG) for number in range(MANY))
    return tuple(
        CreatedTable(model=model, columns=columns)
        for model in POWER_MODELS
        for columns in (many[:1], many, (text, *many[:1]))
    )


def problem_of(case: CreatedTable) -> str | None:
    """Say after which call a table is neither; None if there is none."""
    storage = FaultyStorage(MemoryStorage.of(START))
    case.create(storage)
    return _problem_of_creation(case, storage.calls) or _problem_of_commit(case, storage.calls)


def _problem_of_creation(case: CreatedTable, calls: Sequence[Call]) -> str | None:
    kernel, seen, smaller_files = Kernel.of(START), set[object](), case.smaller.image().files
    for number, call in enumerate(calls, start=1):
        apply(kernel, 0, call)
        is_created = number == len(calls)
        if call.kind in STEPS or is_created:
            for picked in legal_disks(kernel, case.model):
                identity = picked.disk.identity(), is_created
                if identity in seen:
                    continue
                seen.add(identity)
                problem = _problem_of_disk(case, picked.disk.kernel().image(), smaller_files, is_created)
                if problem is not None:
                    return f"if the power fails after call {number}, {call.kind} of {call.path}, {problem}"
    return None


def _problem_of_commit(case: CreatedTable, calls: Sequence[Call]) -> str | None:
    """Say after which call a creation can be killed so that a commit of another process is lost."""
    killed = MemoryStorage.of(START)
    for number, call in enumerate(calls, start=1):
        if call.kind not in STEPS:
            continue
        killed.repeat(call)
        if killed.kind(f"{PATH}/{TXN_FILE}") is EntryKind.MISSING:
            continue
        another = FaultyStorage(MemoryStorage.of(killed.image()))
        with open_writer(another, PATH, allow_parquet_last=True) as writer:
            writer.write(ROWS)
            version = writer.commit()
        kernel = Kernel.of(START)
        for session, each in [*((0, each) for each in calls[:number]), *((1, each) for each in another.calls)]:
            if each.kind is not CallKind.CLOCK:
                apply(kernel, session, each)
        for picked in legal_disks(kernel, case.model):
            problem = _problem_of_version(picked.disk.kernel().image(), version)
            if problem is not None:
                return f"if {call.kind} of {call.path} is the last call before a kill, and another commits, {problem}"
    return None


def _problem_of_version(image: DiskImage, version: int) -> str | None:
    try:
        found = open_table(MemoryStorage.of(image), PATH).transaction().version
    except (NotATableError, FileMissingError):
        return "the table is gone after a power cut"
    return None if found == version else f"version {found} is there after a power cut in place of {version}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of creations that make files durable too late, or not at all, or make others."""
    encode = original_of(f"{CREATE}:encode_metadata_file")

    def with_fewer_columns(metadata: TableMetadata, **more: Any) -> Any:
        return encode(structs.replace(metadata, columns=metadata.columns[:1]), **more)

    def with_another_name(metadata: TableMetadata, **more: Any) -> Any:
        *columns, last = metadata.columns
        return encode(structs.replace(metadata, columns=(*columns, structs.replace(last, name="another"))), **more)

    apply_call = original_of(f"{__name__}:apply")

    def without_names(kernel: Kernel, session: int, call: Call) -> None:
        if call.kind is not CallKind.SYNC_DIRECTORY:
            apply_call(kernel, session, call)

    create = original_of(f"{__name__}:create_table")

    def name_synced_last(storage: Storage, *of: Any, **more: Any) -> Any:
        table = create(_WithoutNameOfTable(storage), *of, **more)
        storage.sync_directory(PARENT)
        return table

    every_file = OWN_FILES | {TXN_FILE}
    controls: Controls = (
        ("files that are not synced", f"{CREATE}:_write", _without_sync),
        ("tables that need no name of their own", f"{CREATE}:UNNAMED_TXN_FILE", "_txn"),
        ("names that are not synced", f"{__name__}:apply", without_names, "is not there, whose creation has returned"),
        (
            "tables whose own name is synced last",
            f"{__name__}:create_table",
            name_synced_last,
            "the table is gone after a power cut",
        ),
        (
            "columns that are left out",
            f"{CREATE}:encode_metadata_file",
            with_fewer_columns,
            "the table has the columns",
        ),
        ("another name", f"{CREATE}:encode_metadata_file", with_another_name, "the table has the columns"),
        ("a name that is left out", f"{CREATE}:encode_name", lambda _: b"", "the table is not sound"),
        (
            "tables that are taken for unfinished ones",
            f"{CREATE}:OWN_FILES",
            every_file,
            "is created again over itself",
        ),
    )
    of_many: Controls = (
        ("files that are not emptied first", f"{CREATE}:_write", _without_truncate, "another table is created than"),
    )
    for those, are_many in ((controls, False), (of_many, True)):
        cases = [each for each in created_tables() if (len(each.columns) == MANY) is are_many]
        yield from not_noticed(those, problem_of, cases)


class _WithoutNameOfTable(InterceptedStorage):
    """Makes durable no name that is in the directory of the table's own."""

    def sync_directory(self, path: str) -> None:
        """Sync another directory."""
        if path != PARENT:
            super().sync_directory(path)


def _without_sync(storage: Storage, path: str, content: bytes) -> None:
    with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
        file.truncate(0)
        file.pwrite(content, 0)


def _without_truncate(storage: Storage, path: str, content: bytes) -> None:
    with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
        file.pwrite(content, 0)
        file.fsync()


def _problem_of_disk(
    case: CreatedTable, image: DiskImage, smaller_files: Mapping[str, bytes], is_created: bool
) -> str | None:
    storage = MemoryStorage.of(image)
    try:
        table = open_table(storage, PATH)
    except (NotATableError, FileMissingError):
        if is_created:
            return "the table is not there, whose creation has returned"
        case.smaller.create(storage)
        return None if storage.image().files == smaller_files else "another table is created than where nothing is"
    names = [column.name for column in table.metadata.columns] if table.metadata else []
    if names != ["at", *(each.name for each in case.columns)]:
        return f"the table has the columns {names}"
    if problems := verify_table(table).all_problems:
        return f"the table is not sound: {problems[0]}"
    try:
        case.create(storage)
    except TornproofError:
        return None
    return "the table is created again over itself"
