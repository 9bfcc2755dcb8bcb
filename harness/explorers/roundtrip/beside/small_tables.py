"""A small table of two days in each state in which operators find something to do."""

from __future__ import annotations

import enum
import functools
import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.whose_error import needed
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.answer import Answer
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.writer_options import WriterOptions

HOME, PATH = "home", "home/table"
FIRST, BEFORE = f"{PATH}/1970-01-01.2", f"{PATH}/1970-01-01.0"
"""The directories of the first day, and that of the version before."""
DATA, PM = f"{FIRST}/{DATA_FILE}", f"{FIRST}/{PM_FILE}"
VERSION_BEFORE = 2
ALONE = f"{HOME}/alone.parquet"
DAY = 86_400 * 10**6
PREPARED_AT = 2 * DAY
TIMES = (1, 2, 3, DAY)
OURS, OTHERS, THIRDS = 10, 20, 30
"""What is added to the time of a row for its number: in the table, and in other data."""


class State(enum.StrEnum):
    """A state of the table."""

    SOUND = "a sound table"
    WITHOUT_PM = "a table without a `_pm`"
    OF_OTHERS = "a table with data of another program without a `_pm`"
    CONTRADICTED = "a table with the `_pm` of other data"
    LEFT_OVER = "a table that a killed writer has left"
    NEVER_LOCKED = "such a table that has no `_pins`"
    RECOVERED = "a recovered table"
    PREPARED = "a table with a prepared partition"
    FILE = "a file of no table"


def rows_at(times: Sequence[int], more: int = OURS) -> pa.Table:
    """Return rows at these times, whose numbers are greater by so much."""
    return pa.table({"at": pa.array(times, pa.timestamp("us", "UTC")), "n": pa.array([each + more for each in times])})


def append(storage: Storage, times: Sequence[int], more: int = OURS) -> None:
    """Commit rows; raises BusyError if another process has the table locked."""
    with open_writer_of_copy(storage, PATH) as writer:
        writer.write(rows_at(times, more))
        writer.commit()


def numbers_in(answer: Answer) -> list[int]:
    """Return the numbers in all rows, in order."""
    return sorted(answer.rows["n"].to_pylist())


@functools.cache
def small_table(state: State) -> DiskImage:
    """Return the table in a state, with a row group that was appended and a directory that was replaced."""
    image = _sound()
    match state:
        case State.SOUND:
            return image
        case State.WITHOUT_PM:
            return image.without_file(PM)
        case State.OF_OTHERS:
            return _of_others()
        case State.CONTRADICTED:
            return image.with_file(PM, _sound(more=THIRDS).files[PM])
        case State.LEFT_OVER:
            return _left_over()
        case State.NEVER_LOCKED:
            return _left_over().without_file(f"{PATH}/{PINS_FILE}")
        case State.RECOVERED:
            storage = MemoryStorage.of(_left_over())
            repair_table(storage, PATH)
            return storage.image()
        case State.PREPARED:
            return prepared()[0]
        case State.FILE:
            return DiskImage.of_files({ALONE: image.files[DATA]})


@functools.cache
def other_data(*later: int) -> bytes:
    """Return data of the first day with other numbers; with 3 as the only later time it has as many bytes."""
    return _sound(later, OTHERS).files[DATA]


@functools.cache
def data_of_others(times: tuple[int, ...], word: str) -> bytes:
    """Return data of another program, whose footer has a word and no bounds."""
    target = io.BytesIO()
    rows = rows_at(times)
    numbers = [field.with_metadata({"PARQUET:field_id": str(at)}) for at, field in enumerate(rows.schema)]
    schema = pa.schema([numbers[0].with_nullable(False), numbers[1]])
    settings = {"store_schema": False, "write_statistics": False, "compression": "none"}
    with pq.ParquetWriter(target, schema, sorting_columns=[pq.SortingColumn(0)], **settings) as writer:
        writer.write_table(rows.cast(schema))
        writer.add_key_value_metadata({"word": word})
    return target.getvalue()


def _of_others() -> DiskImage:
    """Return the table with data of another program on the first day, and a token that says where they end."""
    data = data_of_others(TIMES[:3], "one")
    (partition, _) = open_table(_sound(), PATH).transaction().partitions
    storage = MemoryStorage.of(_sound().with_file(DATA, data).without_file(PM))
    with storage.open_for_writing(f"{PATH}/{TXN_FILE}") as file:
        file.pwrite(len(data).to_bytes(8, "little"), partition.token_offset_bytes)
    return storage.image()


@functools.cache
def prepared() -> tuple[DiskImage, PreparedPartition]:
    """Return the table with a prepared partition of one row."""
    storage = MemoryStorage.of(_sound())
    metadata = needed(open_table(storage, PATH).metadata, "the new table has no metadata")
    with PartitionBuild(storage, f"{PATH}/prepared", metadata, WriterOptions(), table_name="table") as build:
        build.append(build.encoded(rows_at([PREPARED_AT])))
        partition = build.finish(PREPARED_AT)
    return storage.image(), partition


@functools.cache
def _sound(later: Sequence[int] = (3,), more: int = OURS) -> DiskImage:
    storage = MemoryStorage.of(DiskImage({}, frozenset({HOME})))
    new_table(storage, PATH, {"at": "TIMESTAMP", "n": "LONG"})
    append(storage, (1, 2, DAY), more)
    append(storage, later, more)
    with open_writer_of_copy(storage, PATH) as writer:
        writer.rewrite_partition(0)
        writer.commit()
    return storage.image()


@functools.cache
def committed() -> DiskImage:
    """Return a sound table in which the first day has got a row."""
    storage = MemoryStorage.of(_sound())
    append(storage, (4,))
    return storage.image()


def _left_over() -> DiskImage:
    """Return what a writer leaves that is killed before it stores the version."""
    return committed().with_file(f"{PATH}/{TXN_FILE}", _sound().files[f"{PATH}/{TXN_FILE}"])
