"""Whether what a writer acknowledges is read under the limits of readers, where these are lower and lower.

The limits are of what readers take into memory, and far above what a test can write; here they are lower.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, all_replaced, not_noticed
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import TornproofError
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.symbols import read_table_symbols
from tornproof.impl.table.table import open_table
from tornproof.impl.write.writer_options import WriterOptions

PROPERTY = "what a writer acknowledges is read under the limits of readers"
PATH = "limited"
DAY, DAYS = 86_400_000_000, 4
ROW_COUNT = 8
ONE_BY_ONE, TOGETHER = WriterOptions(row_group_row_count_max=1), WriterOptions()
ROWS, PAGES = "rows of a row group", "pages of a chunk"
SIZED = "bytes of metadata, in row groups by their size,"
OPTIONS = {
    ROWS: TOGETHER,
    PAGES: WriterOptions(encoding=EncodeOptions(page_row_count_max=1)),
    SIZED: WriterOptions(row_group_size_bytes_max=1),
}
"""Of writers that are asked for one limit; others write row groups of one row."""
WRITER = "write.readable_row_groups"
LIMITS: Mapping[str, tuple[str, ...]] = {
    "bytes of a chunk": ("limits:CHUNK_LIMIT_BYTES",),
    "bytes of all symbols": ("limits:SYMBOL_CHARACTERS_LIMIT_BYTES",),
    "symbols": ("limits:SYMBOL_COUNT_LIMIT",),
    "bytes of a record in _txn": ("txn.transaction:RECORD_LIMIT_BYTES", "txn.write:RECORD_LIMIT_BYTES"),
    ROWS: tuple(f"{module}:VALUE_COUNT_MAX" for module in ("read.row_group", "chunk.chunk", WRITER)),
    "bytes of a page": tuple(f"{module}:PAGE_SIZE_MAX_BYTES" for module in ("parquet.pages", WRITER)),
    PAGES: ("limits:PAGE_COUNT_LIMIT",),
    "lists inside of arrays": tuple(f"{module}:LIST_COUNT_MAX" for module in ("types.raw_arrays", WRITER)),
    "row groups": ("limits:ROW_GROUP_COUNT_LIMIT",),
    "column chunks": ("limits:CHUNK_COUNT_LIMIT",),
    "bytes of metadata": ("limits:PM_LIMIT_BYTES",),
    SIZED: ("limits:PM_LIMIT_BYTES",),
    "generations": ("limits:GENERATION_COUNT_LIMIT",),
}
"""Where readers and writers have each limit."""
ALLOWED = (*range(1, 7), *(round(50 * 1.35**step) for step in range(18)))
"""From what allows nothing to what allows all."""


@dataclass(frozen=True, slots=True)
class LimitedCommit:
    """A commit where readers take no more than so much of something."""

    kind: str
    allowed: int

    @property
    def name(self) -> str:
        """It in words."""
        return f"a commit where readers take at most {self.allowed} {self.kind}"


@functools.cache
def limited_commits() -> tuple[LimitedCommit, ...]:
    """Return all commits, always in the same order."""
    return tuple(LimitedCommit(kind, allowed) for kind in LIMITS for allowed in ALLOWED)


def problem_of(case: LimitedCommit) -> str | None:
    """Say whether something is not read after it was acknowledged, or was refused; None if neither is so."""
    storage = MemoryStorage.of(_table())
    with all_replaced({f"tornproof.impl.{location}": case.allowed for location in LIMITS[case.kind]}):
        if _unread(storage, 1) is not None:
            return None
        try:
            _commit(storage, range(1, ROW_COUNT), OPTIONS.get(case.kind, ONE_BY_ONE))
        except TornproofError as error:
            if case.allowed == ALLOWED[-1]:
                return f"it is refused: {error}"
            unread = _unread(storage, 1)
            return f"it is refused, and then {unread}" if unread else None
        unread = _unread(storage, ROW_COUNT)
        return f"it is acknowledged, and then {unread}" if unread else None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers without a limit of chunks or symbols, and of one that writes nothing."""
    controls: Controls = (
        ("chunks of any size", f"tornproof.impl.{WRITER}:_is_readable_chunk", lambda *_: True, "acknowledged"),
        ("lists of any number", f"tornproof.impl.{WRITER}:inner_list_count", lambda *_: 0, "acknowledged"),
        ("symbols of any size", "tornproof.impl.write.new_symbols:_check_limits", lambda *_: None, "acknowledged"),
        ("nothing is committed", f"{__name__}:_commit", lambda *_: None, "1 rows are read"),
    )
    return not_noticed(controls, problem_of, limited_commits())


def _unread(storage: MemoryStorage, row_count: int) -> str | None:
    """Say what a reader, or a writer that goes on, does not get; None if they get all."""
    try:
        open_writer_of_copy(storage, PATH).close()
        table = open_table(storage, PATH)
        read_table_symbols(table, table.transaction())
        found = sum(batch.num_rows for batch in open_snapshot(table).batches())
    except TornproofError as error:
        return f"cannot be read: {error}"
    return None if found == row_count else f"{found} rows are read instead of {row_count}"


@functools.cache
def _table() -> DiskImage:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "s": "SYMBOL", "b": "BINARY", "a": "DOUBLE[][]"})
    _commit(storage, range(1))
    return storage.image()


def _commit(storage: MemoryStorage, numbers: Sequence[int], options: WriterOptions = ONE_BY_ONE) -> None:
    """Commit rows of several days, with symbols, bytes that hardly compress, and arrays of lists."""
    with open_writer_of_copy(storage, PATH, options=options) as writer:
        schema = writer.schema
        values = [hashlib.sha512(b"%d" % number).digest() * (1 + number % 3) for number in numbers]
        times = pa.array([FIRST_TIME + number % DAYS * DAY + number for number in numbers])
        symbols = pa.array([value.hex() for value in values]).dictionary_encode()
        arrays = pa.array([[[0.5]] * (1 + number % 5) for number in numbers], schema.field("a").type)
        columns = [times.cast(schema.field("ts").type), symbols.cast(schema.field("s").type), pa.array(values), arrays]
        writer.write(pa.table(columns, schema=schema))
        writer.commit()
