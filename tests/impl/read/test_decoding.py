"""Work beside the reading thread gives what work at once gives, in the same order, and its errors."""

import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import golden_data
import msgspec
import pyarrow as pa
import pytest
import table_builder as tb
from command_line import TIMEOUT_SECONDS
from depth import nightly, sampled
from msgspec.structs import replace
from real_tables import resolved_partitions
from written_tables import PATH, new_table, rows, write

from tornproof.harness.common.arrow_bytes import arrow_bytes
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.together import Piece, decode_together
from tornproof.impl.errors import StorageError, TornproofError
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.pm.block import Block, Chunk, Statistic
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column
from tornproof.impl.read import reader, row_group
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.decoding import AHEAD_BYTES_MAX, SMALL_BYTES, SYNCHRONOUS, Decoding, InOrder, by_threads
from tornproof.impl.read.reader import AHEAD_GROUP_COUNT_MAX, AHEAD_ROW_COUNT, open_snapshot
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.columns import SnapshotColumn, column_key
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.partition import PartitionFiles, ResolvedPartition
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table


def test_synchronous_work_is_done_before_its_result_is_requested() -> None:
    done = []
    wait = SYNCHRONOUS.start(lambda: done.append(1))
    assert done == [1] and wait() is None and done == [1]


def test_work_of_threads_is_done_elsewhere() -> None:
    with by_threads() as decoding:
        threads = [decoding.start(threading.get_ident) for _ in range(4)]
        assert threading.get_ident() not in [thread() for thread in threads]
        assert decoding.ahead_count >= 1


def test_small_work_is_done_in_the_reading_thread_when_its_result_is_due() -> None:
    threads: list[int] = []

    def work() -> None:
        threads.append(threading.get_ident())

    with by_threads() as decoding:
        results: InOrder[None] = InOrder(decoding)
        results.begin(work, SMALL_BYTES - 1)
        assert not threads
        list(results.rest())
        results.begin(work, SMALL_BYTES)
        list(results.rest())
    assert threads[0] == threading.get_ident() != threads[1]
    at_once: InOrder[None] = InOrder(SYNCHRONOUS)
    at_once.begin(work, 1)
    assert len(threads) == 3


def test_an_error_comes_where_the_result_would() -> None:
    def fail() -> None:
        raise ValueError("no")

    with by_threads() as decoding:
        wait = decoding.start(fail)
        with pytest.raises(ValueError, match="no"):
            wait()


def test_nothing_is_under_way_behind_the_block_and_nothing_begins_there() -> None:
    entered, leave, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        entered.set()
        leave.wait()
        done.append("slow")

    with by_threads() as decoding:
        for _ in range(4 * decoding.ahead_count):
            decoding.start(slow)
        entered.wait()
        leave.set()
        count_at_end = len(done)
    begun = len(done)
    with by_threads() as decoding:
        decoding.start(lambda: None)()
    assert count_at_end <= begun == len(done)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    # Another program, because a test runner with threads is not to be forked.
    program = (
        "import os\n"
        "from tornproof.impl.storage.checksum import HALF_BYTES_MIN, large_crc32\n"
        "from tornproof.impl.read.decoding import by_threads\n"
        "def work():\n"
        "    with by_threads() as decoding:\n"
        "        assert decoding.start(lambda: 7)() == 7\n"
        "    assert large_crc32(bytes(2 * HALF_BYTES_MIN)) > 0\n"
        "work()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    work()\n"
        "    os._exit(0)\n"
        "os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=TIMEOUT_SECONDS, check=False).returncode == 0


@pytest.mark.parametrize("name", sampled(5, golden_data.TABLES))
def test_threads_find_what_is_found_synchronously(questdb_data: Path, name: str) -> None:
    path = str(questdb_data / name / "table")
    table = open_table(OperatingSystemStorage(), path)
    with by_threads() as decoding:
        assert verify_table(table, decoding=decoding) == verify_table(table)


@pytest.mark.parametrize(
    ("group_row_count", "ahead_row_count", "begun_count"),
    [(2, AHEAD_ROW_COUNT, 1 + AHEAD_GROUP_COUNT_MAX), (2, 7, 5), (100, 100, 2)],
)
def test_threads_read_row_groups_in_their_order_and_no_more_of_them_ahead_than_keeps_them_busy(
    monkeypatch: pytest.MonkeyPatch, group_row_count: int, ahead_row_count: int, begun_count: int
) -> None:
    monkeypatch.setattr(reader, "AHEAD_ROW_COUNT", ahead_row_count)
    values = pa.array(range(group_row_count * 20))
    built = tb.build({"v": (TypeTag.LONG, values)}, row_group_size=group_row_count)
    snapshot = open_snapshot(open_table(MemoryStorage.of(built.image()), "/table"))
    counters = ReadCounters()
    with by_threads() as decoding:
        batches = snapshot.batches(["v"], counters=counters, decoding=decoding)
        first = next(batches)
        assert counters.scanned_row_count == begun_count * group_row_count
        found = pa.Table.from_batches([first, *batches])
    assert found["v"].combine_chunks().equals(values)
    counters = ReadCounters()
    next(snapshot.batches(["v"], counters=counters))
    assert counters.scanned_row_count == group_row_count


def test_results_come_in_the_order_of_their_beginning_and_few_bytes_are_under_way() -> None:
    begun: list[int] = []

    def piece(number: int) -> Callable[[], int]:
        def work() -> int:
            begun.append(number)
            return number

        return work

    later = Decoding(start=lambda work: work, ahead_count=3)
    results: InOrder[int] = InOrder(later)
    for number in range(4):
        results.begin(piece(number), 1)
    assert list(results.due()) == [0] == begun
    results.begin(piece(4), AHEAD_BYTES_MAX)
    assert list(results.due()) == [1, 2, 3]
    results.begin(piece(5), 1)
    assert (list(results.due()), list(results.rest()), list(results.rest())) == ([4], [5], [])


def test_synchronous_results_are_due_immediately() -> None:
    results: InOrder[int] = InOrder(SYNCHRONOUS)
    results.begin(lambda: 1, 0)
    assert list(results.due()) == [1]


# Small chunks that are fetched and decoded together


WIDE_COLUMN_COUNT = 40
COLUMN_CHANGES: dict[str, Sequence[int]] = {
    "max_def_level": (0, 1, 2),
    "max_rep_level": (0, 1),
    "physical_type": range(8),
    "fixed_byte_len": (0, 16, 32, 1 << 20),
    "type": (-1, *TypeTag),
}


class Content(ReadableFile):
    """The bytes of a data.parquet, of which a read of some cannot be answered; counts its calls."""

    def __init__(self, content: bytes, broken: range = range(0)) -> None:
        self.content = content
        self.broken = broken
        self.call_count = 0

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        self.call_count += 1
        if offset_bytes < self.broken.stop and self.broken.start < offset_bytes + size_bytes:
            raise StorageError("data.parquet", "read", "an input/output error")
        return self.content[offset_bytes : offset_bytes + size_bytes]

    def size_bytes(self) -> int:
        return len(self.content)

    def close(self) -> None:
        pass


class Described(msgspec.Struct, frozen=True):
    files: PartitionFiles
    metadata: Metadata


class Case(msgspec.Struct, frozen=True):
    """A row group with its columns, and the file that it describes."""

    resolved: ResolvedPartition
    columns: tuple[Column, ...]
    block: Block
    content: bytes
    broken: range = range(0)

    def read(self) -> tuple[bytes | str, int]:
        """Return the rows or the error, and the number of calls that read the file."""
        header = replace(self.resolved.metadata.header, columns=self.columns)
        described = Described(self.resolved.files, replace(self.resolved.metadata, header=header))
        wanted = [SnapshotColumn.of(column_key(index, column), column) for index, column in enumerate(self.columns)]
        handle = Content(self.content, self.broken)
        try:
            (arrays,) = row_group.row_group_columns(described, self.block, handle, wanted)
        except TornproofError as error:
            # A column without nulls that was decoded alone may have a bitmap of its own.
            message = re.sub(r"\d+ bytes or more", "too many bytes", str(error))
            return f"{type(error).__name__}: {message}", handle.call_count
        names = [str(index) for index in range(len(arrays))]
        return arrow_bytes(pa.table(arrays, names=names)), handle.call_count


def cases_of(resolved: ResolvedPartition) -> list[Case]:
    """Every row group of a partition, with at most so many of its columns."""
    with resolved.files.open_data() as handle:
        content = handle.pread(resolved.partition.token, 0)
    columns = resolved.metadata.header.columns[:WIDE_COLUMN_COUNT]
    blocks = [replace(block, chunks=block.chunks[:WIDE_COLUMN_COUNT]) for block in resolved.metadata.blocks]
    return [Case(resolved, columns, block, content) for block in blocks]


def own_wide_table() -> MemoryStorage:
    """A table of many columns with checksums in its pages."""
    names = [f"c{index}" for index in range(WIDE_COLUMN_COUNT)]
    storage, _ = new_table(*[NewColumn(name=name, type=TypeTag.DOUBLE) for name in names])
    values: dict[str, Any] = {name: [index + 0.5, None, float(index)] for index, name in enumerate(names)}
    write(storage, rows(range(3), **values))
    return storage


@pytest.fixture(scope="module")
def row_groups(questdb_data: Path) -> list[Case]:
    names = ("9.4.2/types", "9.4.2/wide", "9.4.2/allnull", "9.4.2/bloom", "2026-07/nanosecond")
    partitions = [each for name in names for each in resolved_partitions(questdb_data / f"tables/{name}/table")]
    partitions += resolved_partitions(PATH, own_wide_table())
    return [case for resolved in partitions for case in cases_of(resolved)]


def assert_as_alone(case: Case, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes | str, int, int]:
    """Return the outcome and both numbers of calls."""
    found, call_count = case.read()
    with monkeypatch.context() as patch:
        patch.setattr(row_group, "is_small", lambda chunk: False)
        alone, call_count_alone = case.read()
    assert found == alone
    return found, call_count, call_count_alone


def test_undamaged_row_groups_are_decoded_together(row_groups: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[pa.Array | None] = []

    def watched(pieces: Sequence[Piece], *, file: str) -> list[pa.Array | None]:
        arrays = decode_together(pieces, file=file)
        found.extend(arrays)
        return arrays

    monkeypatch.setattr(row_group, "decode_together", watched)
    for case in row_groups:
        outcome, call_count, call_count_alone = assert_as_alone(case, monkeypatch)
        assert isinstance(outcome, bytes)
        if len(case.columns) == WIDE_COLUMN_COUNT:
            assert call_count == 1 and call_count_alone >= WIDE_COLUMN_COUNT
    # Alone are only arrays of doubles.
    assert found.count(None) < len(found) / 20


def damaged(case: Case, random_: random.Random) -> Case:
    kind = random_.choice(("bits", "bits", "bits", "chunk", "chunk", "column", "cut", "broken"))
    start = min(chunk.byte_range_start for chunk in case.block.chunks)
    end = max(chunk.byte_range_end for chunk in case.block.chunks)
    if kind == "bits":
        content = bytearray(case.content)
        for _ in range(random_.randint(1, 3)):
            # More than half of a small chunk is its page's header and the lengths of its levels.
            chunk = random_.choice([chunk for chunk in case.block.chunks if chunk.total_compressed])
            length = min(random_.choice((30, chunk.total_compressed)), chunk.total_compressed)
            # What was damaged before may say that the chunk is elsewhere.
            position = (chunk.byte_range_start + random_.randrange(length)) % len(content)
            content[position] ^= 1 << random_.randrange(8)
        return replace(case, content=bytes(content))
    if kind == "cut":
        return replace(case, content=case.content[: random_.randrange(start, end)])
    if kind == "broken":
        position = random_.randrange(start, end)
        return replace(case, broken=range(position, position + 1))
    index = random_.randrange(len(case.columns))
    if kind == "column":
        name = random_.choice(list(COLUMN_CHANGES))
        column = replace(case.columns[index], **{name: random_.choice(COLUMN_CHANGES[name])})
        return replace(case, columns=(*case.columns[:index], column, *case.columns[index + 1 :]))
    chunk = changed(case.block.chunks[index], random_)
    chunks = (*case.block.chunks[:index], chunk, *case.block.chunks[index + 1 :])
    return replace(case, block=replace(case.block, chunks=chunks))


def changed(chunk: Chunk, random_: random.Random) -> Chunk:
    name = random_.choice(
        ("codec", "encodings", "num_values", "byte_range_start", "total_compressed", "null_count", "minimum", "maximum")
    )
    old = getattr(chunk, name)
    new: Any
    if isinstance(old, Statistic):
        at = random_.randrange(len(old.value))
        value = old.value[:at] + bytes([old.value[at] ^ 1 << random_.randrange(8)]) + old.value[at + 1 :]
        new = Statistic(value, random_.choice((True, False)))
    elif name in ("minimum", "maximum"):
        new = Statistic(b"x", True)
    elif name == "codec":
        new = random_.choice(list(Codec))
    else:
        new = max(0, (old or 0) + random_.choice((-1, 1, 16, 1 << 13, 1 << 25)))
    return replace(chunk, **{name: new})


@pytest.mark.parametrize("seed", [0, *[nightly(seed) for seed in range(1, 40)]])
def test_damaged_row_groups_have_the_same_outcome(
    seed: int, row_groups: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(seed)
    outcomes = [assert_as_alone(damaged(random_.choice(row_groups), random_), monkeypatch)[0] for _ in range(500)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert 100 <= len(errors) <= 450
    assert {error.split(":")[0] for error in errors} == {"CorruptError", "UnsupportedError", "StorageError"}


def test_two_damaged_chunks_are_reported_by_the_first_that_is_decoded(
    row_groups: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(0)
    for _ in range(200):
        case = damaged(damaged(random_.choice(row_groups), random_), random_)
        assert_as_alone(case, monkeypatch)
