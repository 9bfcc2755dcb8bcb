"""What is in memory at a time: results that were taken, what is remembered, and pieces of large partitions."""

from __future__ import annotations

import functools
import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table, new_table_of_rows
from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.corruption import every_type
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.chunk.metadata import Leaf, chunk_metadata
from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup, encode_row_group
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.thrift import Field, Kind, Known, Struct, decode, encode, struct_list
from tornproof.impl.read.decoding import SYNCHRONOUS, Decoding, InOrder, by_threads
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.table.table import open_table
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.verify.pages import page_checks
from tornproof.impl.write.writer_options import WriterOptions

PATH = "table"
PIECE_COUNT = 1_000
"""More than any machine has threads, each of which may hold one piece, and more than what is remembered."""
GROUP_COUNTS = (1, 2, 5)
SMALL_COLUMNS, AHEAD_MAX = 60, 10
CHUNK_START = 4
"""Of the first chunk of a file."""


class _Piece:
    """What is held or not."""


def held() -> Iterator[Question]:
    """Yield what may not be held: many results and metadata, row groups to be written, and pieces of unknown size."""
    for words, found in (("results of threads", _holds_results), ("metadata of single chunks", _holds_metadata)):
        yield Question("held", f"whether {words} are held that nobody needs", found, False)
    for count in GROUP_COUNTS:
        words = f"how many of {count} row groups of a new directory are encoded before the first is written"
        yield ask("held", words, 1, _encoded_ahead, count)
        words = f"how many of {count} row groups are held when each is encoded"
        yield ask("held", words, [0] * count, _held_before_each, count)
    yield Question("held", "how many structs are remembered of a second footer that is decoded", _remembered_structs, 0)
    words = "how often a chunk is read of a row group that is larger than what may be in memory"
    yield Question("held", words, _reads_of_too_large, 0)
    words = "whether a column of many that are small holds more than its own bytes"
    yield Question("held", words, _holds_others, False)
    yield Question("held", "whether threads decode more row groups ahead than are allowed", _is_far_ahead, False)
    sizes = [chunk.total_compressed for block in _resolved().metadata.blocks for chunk in block.chunks]
    yield Question("held", "the sizes of a verification's pieces of work", _sizes_of_work, sizes)


def _are_many(references: list[Callable[[], Any]]) -> bool:
    gc.collect()
    return sum(each() is not None for each in references) > PIECE_COUNT // 2


def _holds_results() -> bool:
    with by_threads() as decoding:
        return _are_many([weakref.ref(decoding.start(_Piece)()) for _ in range(PIECE_COUNT)])


def _holds_metadata() -> bool:
    leaf = Leaf(PhysicalType.INT64)
    return _are_many([weakref.ref(chunk_metadata(leaf, 0, 1, size)) for size in range(PIECE_COUNT)])


def _holds_others() -> bool:
    storage = MemoryStorage()
    columns = {"ts": "TIMESTAMP", **{f"v{number}": "LONG" for number in range(SMALL_COLUMNS)}}
    new_table_of_rows(storage, PATH, columns, range(FIRST_TIME, FIRST_TIME + 3))
    batch = the_only(open_snapshot(open_table(storage, PATH)).batches())
    return any(column.get_total_buffer_size() > 4 * max(column.nbytes, 64) for column in batch.columns)


def _remembered_structs() -> int:
    """Return how many structs are remembered beside those of the first footer, each of several structs in a list."""
    known, counts = Known(), list[int]()
    for first in range(2):
        items = [Struct((Field(1, Kind.I32, number),)) for number in range(20)]
        # The second one has them in other places.
        before = Field(1, Kind.BINARY, bytes(100 * first))
        decode(encode(Struct((before, struct_list(2, items)))), file="", known=known)
        counts.append(len(known.structs))
    needed(counts[0] == 20, "those of the first one are not")
    return counts[1] - counts[0]


def _reads_of_too_large() -> int:
    storage = FaultyStorage(MemoryStorage())
    new_table_of_rows(storage, PATH, {"ts": "TIMESTAMP"}, range(FIRST_TIME, FIRST_TIME + 60))
    storage.calls.clear()
    with replaced("tornproof.impl.read.row_group:batch_bound_bytes", lambda _: 1):
        outcome = outcome_of(lambda: [*open_snapshot(open_table(storage, PATH)).batches()])
    needed(outcome == UnsupportedError.__name__, "it is read")
    reads = (call for call in storage.calls if call.kind is CallKind.PREAD and call.path.endswith(DATA_FILE))
    return sum(call.offset_bytes == CHUNK_START for call in reads)


def _is_far_ahead() -> bool:
    """Return whether pieces of more row groups are started than may be ahead, before the first rows are there."""
    storage, started = MemoryStorage(), itertools.count()
    options = WriterOptions(row_group_row_count_max=1)
    new_table_of_rows(storage, PATH, {"ts": "TIMESTAMP"}, range(FIRST_TIME, FIRST_TIME + 60), options=options)

    def start(work: Callable[[], Any]) -> Callable[[], Any]:
        next(started)
        return functools.cache(work)

    batches = open_snapshot(open_table(storage, PATH)).batches(decoding=Decoding(start=start, ahead_count=1_000))
    with replaced("tornproof.impl.read.decoding:SMALL_BYTES", 0):
        next(batches)
    return next(started) > 2 * AHEAD_MAX


def _encoded_ahead(group_count: int) -> int:
    """Return how many row groups of a large partition are encoded when its file is written for the first time."""
    storage = FaultyStorage(MemoryStorage())
    written_before = list[int]()

    def encode(*given: Any, **settings: Any) -> Any:
        written_before.append(sum(call.kind is CallKind.PWRITE for call in storage.calls))
        return encode_row_group(*given, **settings)

    _write_streamed(storage, group_count, encode)
    return written_before.count(written_before[0])


def _held_before_each(group_count: int) -> list[int]:
    """Return how many encoded row groups there are in memory when each one of a large partition is encoded."""
    held_before = list[int]()

    def encode(*given: Any, **settings: Any) -> Any:
        gc.collect()
        held_before.append(sum(isinstance(each, EncodedRowGroup) for each in gc.get_objects()))
        return encode_row_group(*given, **settings)

    _write_streamed(FaultyStorage(MemoryStorage()), group_count, encode)
    return [count - held_before[0] for count in held_before[:group_count]]


def _write_streamed(storage: FaultyStorage, group_count: int, encode: Callable[..., Any]) -> None:
    """Write a partition of row groups of one row, each when it is encoded."""
    new_table(storage, PATH, {"ts": "TIMESTAMP"})
    options = WriterOptions(row_group_row_count_max=1)
    with (
        replaced("tornproof.impl.write.partition_change:STREAMED_BYTES", 0),
        open_writer_of_copy(storage, PATH, options=options, encode=encode) as writer,
    ):
        writer.write(pa.table({"ts": range(FIRST_TIME, FIRST_TIME + group_count)}).cast(writer.schema))
        writer.commit()


def _sizes_of_work() -> list[int]:
    """Return the sizes that a verification tells of its pieces of work, by which it bounds what is in progress."""
    sizes = list[int]()

    class Noting(InOrder[Any]):
        def begin(self, work: Callable[[], Any], input_bytes: int) -> None:
            sizes.append(input_bytes)
            super().begin(work, input_bytes)

    with replaced("tornproof.impl.verify.pages:InOrder", Noting):
        (*_,) = page_checks(_resolved(), None, SYNCHRONOUS)
    return sizes


@functools.cache
def _resolved() -> ResolvedPartition:
    snapshot = open_snapshot(open_table(every_type.image_of_every_type(), every_type.PATH))
    partition = the_only(snapshot.transaction.partitions)
    return snapshot.resolve(partition)
