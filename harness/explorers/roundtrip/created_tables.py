"""Whether a table whose creation a power cut ends is not there yet, and can be created again, or is there whole.

The calls of a creation are made one after the other, and after each of them all disks are looked at that the models of
persistence leave.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import STEPS
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import POWER_MODELS, Model
from tornproof.impl.errors import FileMissingError, NotATableError, TornproofError
from tornproof.impl.storage.interface import OpenMode, Storage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.verify.verify import verify_table

PROPERTY = "a table whose creation is cut is not there, or whole"
PATH = "home/table"
START = DiskImage({}, frozenset({"home"}))
TIMESTAMP, LONG, SYMBOL = 8, 6, 12
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
    many = tuple(NewColumn(name=f"{number} {'x' * 120}", type=LONG) for number in range(30))
    return tuple(
        CreatedTable(model=model, columns=columns)
        for model in POWER_MODELS
        for columns in (many[:1], many, (text, *many[:1]))
    )


@errors_as_problems
def problem_of(case: CreatedTable) -> str | None:
    """Say after which call a table is neither; None if there is none."""
    storage = FaultyStorage(MemoryStorage.of(START))
    case.create(storage)
    kernel, seen, smaller_files = Kernel.of(START), set[object](), case.smaller.image().files
    for number, call in enumerate(storage.calls, start=1):
        apply(kernel, 0, call)
        is_created = number == len(storage.calls)
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


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of creations that make files durable too late, or not at all."""
    controls: Controls = (
        ("files that are not synced", f"{CREATE}:_write", _without_sync),
        ("tables that need no name of their own", f"{CREATE}:UNNAMED_TXN_FILE", "_txn"),
    )
    return not_noticed(controls, problem_of, created_tables())


def _without_sync(storage: Storage, path: str, content: bytes) -> None:
    with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
        file.truncate(0)
        file.pwrite(content, 0)


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
