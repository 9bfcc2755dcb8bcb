"""Earlier versions of a table: our own writer commits to a copy of it, so that its files have older content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import Answer, answer_of
from tornproof.harness.systems.table import GROWING, TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.workload import crash_operations
from tornproof.impl.table.table import open_table
from tornproof.impl.write.writer_options import (
    DEFAULT_FALSE_POSITIVE_RATE,
    BloomOptions,
    BloomPosition,
    WriterOptions,
    has_hashes,
)

FILTERS_MAX = 4


@dataclass(frozen=True, slots=True)
class Version:
    """A table after a commit, and what a reader read of it."""

    image: DiskImage
    answer: Answer


def grow(image: DiskImage, path: str) -> tuple[Version, ...]:
    """Return the table at `path` as it is and after each of some commits that make its files longer, oldest first.

    Raises RowsRejectedError where no writer may write to it, and what reading and writing raise.
    """
    # Files in a new directory have no older content.
    operations = [operation for operation in crash_operations(image, path) if not operation.rewritten]
    grown = committed(image, path, operations, replace(GROWING, blooms=_filters(image, path)))
    return _version(image, path), *(_version(each, path) for each in grown)


def _filters(image: DiskImage, path: str) -> BloomOptions:
    """Return filters in data.parquet for some columns of new partitions."""
    metadata = open_table(image, path).metadata
    names = [column.name for column in metadata.columns if has_hashes(column.type)] if metadata else []
    rates = dict.fromkeys(names[:FILTERS_MAX], DEFAULT_FALSE_POSITIVE_RATE)
    return BloomOptions(columns=rates, position=BloomPosition.EXTERNAL)


def committed(
    image: DiskImage, path: str, operations: Sequence[TableOperation], options: WriterOptions = GROWING
) -> Iterator[DiskImage]:
    """Yield the table after each of some commits; raises what writing raises."""
    storage = MemoryStorage.of(image)
    with TableTarget(options=options).open_writer(storage, path) as commits:
        for operation in operations:
            commits.commit(operation)
            yield storage.image()


def _version(image: DiskImage, path: str) -> Version:
    return Version(image, answer_of(image, path))
