"""Partitions that another program writes: pyarrow, with pages of many forms, and a migration that makes their `_pm`."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.made_rows import array_of
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.other_footers import CHANGES, with_footer
from tornproof.harness.explorers.model_based.rows import MILLISECONDS_PER_DAY, WITHOUT_NULL
from tornproof.harness.explorers.model_based.world import ALLOWED, World, orderly
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.plan import Outcome
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.questdb import DECIMAL_DIGITS_MAX, TypeTag
from tornproof.model.table import Entry

FRACTIONS = frozenset({TypeTag.FLOAT, TypeTag.DOUBLE})
TYPES = FRACTIONS | {
    *DECIMAL_DIGITS_MAX,
    *(TypeTag.TIMESTAMP, TypeTag.DATE, TypeTag.LONG, TypeTag.INT, TypeTag.SHORT, TypeTag.BOOLEAN),
    *(TypeTag.VARCHAR, TypeTag.BINARY),
}
"""Those that follow from a Parquet schema alone."""
COMPRESSIONS = ("none", "snappy", "gzip", "zstd", "lz4")
FORM_COUNT = 30
SMALL_PAGE_BYTES, ROWS_IN_GROUP = 64, (3, 1_000)


def can_be_written(world: World) -> bool:
    """Return whether other programs can write such rows so that the types are what they were."""
    shape = world.rows.shape
    return all(shape.tag_of(index) in TYPES for index in range(len(shape.types)))


def write_otherwise(world: World, *, nth: int, form: int, footer: int = 0) -> None:
    """Put a file of pyarrow with the same rows in the place of a partition's, without `_pm`, and migrate the table."""
    entries = [each for each in world.state.committed.entries if each.token >= 0]
    entry = entries[nth % len(entries)]
    content = written(
        _rows_of(world, entry, has_nulls=bool(form & 2)), form=form, footer=footer, sorted_by=world.rows.shape.timestamp
    )
    storage, path, name = world.files.storage, world.files.path, world.files.name_of(entry.directory)
    storage.unlink(f"{path}/{name}/{PM_FILE}")
    partition = next(each for each in world.transaction.partitions if each.timestamp == entry.directory[0])
    token = len(content).to_bytes(8, "little")
    for file, new, offset_bytes in (
        (f"{name}/{DATA_FILE}", content, 0),
        (TXN_FILE, token, partition.token_offset_bytes),
    ):
        with storage.open_for_writing(f"{path}/{file}") as handle:
            if file != TXN_FILE:
                handle.truncate(0)
            handle.pwrite(new, offset_bytes)
            handle.fsync()
    storage.sync_directory(f"{path}/{name}")
    world.of_others.add(entry.directory)
    world.expect_token(entry.directory, len(content))
    with orderly("migrate"):
        migration = migrate_table(storage, path)
    outcomes = {each.name: each.outcome for each in migration.partitions}
    if outcomes.get(name) is not Outcome.MIGRATED:
        raise ViolationError(ALLOWED, f"migrate: {name}, which pyarrow wrote, is not migrated: {migration}")
    world.resume("a migration of another writer's file")
    world.check_durable([entry.directory[0]], with_version=False)
    world.check_sound("after a migration")
    world.follow_anew()
    world.reached["pages of another writer"] += 1


def _rows_of(world: World, entry: Entry, *, has_nulls: bool) -> pa.Table:
    """Return the rows of a partition with the types that another writer gives them.

    With `has_nulls` false and 0 are stored as nulls in columns whose types have none, as later releases may do.
    """
    shape, metadata = world.rows.shape, world.start.metadata
    rows = [world.rows.contents[identity] for identity in entry.rows]
    by_name = {column.name: column.id for column in metadata.columns}
    fields = [
        pa.field(
            field.name,
            field.type,
            nullable=index != shape.timestamp,
            metadata={"PARQUET:field_id": str(by_name[field.name])},
        )
        for index, field in enumerate(shape.schema)
    ]
    arrays = [
        array_of([_restored(shape.tag_of(index), row[index], has_nulls=has_nulls) for row in rows], field.type)
        for index, field in enumerate(fields)
    ]
    for index, array in enumerate(arrays):
        if shape.tag_of(index) is TypeTag.DATE and all(_is_day(row[index]) for row in rows):
            arrays[index] = array.cast(pa.date32())
            fields[index] = fields[index].with_type(pa.date32())
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def written(rows: pa.Table, *, form: int, footer: int, sorted_by: int = 0) -> bytes:
    """Return a Parquet file of rows as another program writes it; a form stands for one of each choice of pyarrow."""
    target = io.BytesIO()
    pq.write_table(
        rows,
        target,
        store_schema=False,
        compression=COMPRESSIONS[form % len(COMPRESSIONS)],
        use_dictionary=bool(form & 1),
        store_decimal_as_integer=bool(form & 2),
        data_page_version="2.0" if form & 2 else "1.0",
        write_statistics=not form & 4,
        write_page_checksum=bool(form & 8),
        write_page_index=form % 3 == 0,
        row_group_size=ROWS_IN_GROUP[form // 3 % 2],
        data_page_size=SMALL_PAGE_BYTES if form & 16 else None,
        sorting_columns=[pq.SortingColumn(sorted_by)] if form % 4 else None,
    )
    return with_footer(target.getvalue(), CHANGES[footer % len(CHANGES)])


def _is_day(value: int | None) -> bool:
    return value is None or value % MILLISECONDS_PER_DAY == 0


def _restored(tag: TypeTag | None, value: Any, *, has_nulls: bool) -> Any:
    if has_nulls and tag in WITHOUT_NULL and not value:
        return None
    return float(value) if tag in FRACTIONS and value is not None else value
