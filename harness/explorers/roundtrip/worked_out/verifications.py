"""What a verification looks at and counts, also in threads, and which errors of a system are no damage."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import commit, table_of_rows
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import StorageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.decoding import SYNCHRONOUS, by_threads
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import LookedAt, verify_table
from tornproof.impl.write.writer_options import BloomOptions, WriterOptions

PATH, TXN = "table", "_txn"
ENTRY = struct.Struct("<4q")
"""Of a partition in `_txn`: its timestamp, flags and rows, name and token."""
ROW_COUNT, GROUP_ROWS, COMMITS = 2_000, 500, 2
FILTERED = WriterOptions(
    blooms=BloomOptions(columns={"v": 0.01}), row_group_row_count_max=GROUP_ROWS, rewrite_unused_ratio=1e9
)
SMALL_PM_BYTES = 3_000
"""So small a limit of metadata makes filters go to data.parquet."""


def looked_at() -> Iterator[Question]:
    """Yield native partitions and what a verification says that it looked at, of all of a table or of sizes alone."""
    for quick in (False, True):
        words = f"what {'a quick' if quick else 'a'} verification looks at in a native partition"
        found = functools.partial(_looked_at, quick=quick)
        yield Question("looked at", words, found, LookedAt.SIZES if quick else LookedAt.OFFSETS_AND_SYMBOL_KEYS)


def _looked_at(*, quick: bool) -> LookedAt:
    """Return it for the only partition of a table, which has the files of one of its two columns."""
    files = dict(table_of_rows(PATH, [(FIRST_TIME, 1)]).files)
    (entry,) = open_table(DiskImage.of_files(files), PATH).transaction().partitions
    content = bytearray(files[f"{PATH}/{TXN}"])
    ENTRY.pack_into(content, entry.entry_offset_bytes, entry.timestamp, 1, -1, -1)
    beside = {path: each for path, each in files.items() if path.count("/") == 1}
    own = {f"{PATH}/{TXN}": bytes(content), f"{PATH}/2024-01-01/ts.d": bytes(8)}
    (report,) = verify_table(open_table(DiskImage.of_files(beside | own), PATH), quick=quick).partitions
    return report.looked_at


def verified() -> Iterator[Question]:
    """Yield tables with filters in both places, and what a verification counts, in threads or not, and what is dead."""
    for limit, in_threads in itertools.product((1 << 20, SMALL_PM_BYTES), (False, True)):
        groups = COMMITS * ROW_COUNT // GROUP_ROWS
        expected = {"row_groups": groups, "chunks": 2 * groups, "rows": COMMITS * ROW_COUNT, "partitions": 1}
        place = "metadata" if limit > SMALL_PM_BYTES else "data.parquet"
        words = f"a table with filters in {place}, verified {'in threads' if in_threads else 'at once'}"
        found = functools.partial(_counts, limit, in_threads=in_threads)
        yield Question("verified", f"what is counted of {words}", found, (expected, True, (), 0))
        yield Question("verified", f"what there is to recover of {words}", functools.partial(_actions, limit), [])
    for file, reason in itertools.product((PM_FILE, DATA_FILE), set(StorageReason) - {StorageReason.MISSING}):
        for words, call in (("a verification", verify_table), ("a read", _read)):
            name = f"what comes of {words} where {file} cannot be opened: {reason.value}"
            yield Question("verified", name, functools.partial(_unopened, file, reason, call), "StorageError")


@functools.cache
def _filtered(limit: int) -> DiskImage:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "v": "LONG"})
    with replaced("tornproof.impl.limits:PM_LIMIT_BYTES", limit):
        for number in range(COMMITS):
            first = FIRST_TIME + (1 + number) * ROW_COUNT
            rows = [(first + each, each) for each in range(ROW_COUNT)]
            commit(storage, PATH, rows, options=FILTERED)
    return storage.image()


def _counts(limit: int, *, in_threads: bool) -> Any:
    """Return what is counted, whether all bytes of pages are, the problems, and how many bytes are dead."""
    table = open_table(MemoryStorage.of(_filtered(limit)), PATH)
    if in_threads:
        with by_threads() as decoding:
            report = verify_table(table, decoding=decoding)
    else:
        report = verify_table(table, decoding=SYNCHRONOUS)
    counts = report.counts
    (partition,) = table.transaction().partitions
    metadata = open_snapshot(table).resolve(partition).metadata
    needed(metadata.header.blooms_external == (limit == SMALL_PM_BYTES), "the filters are elsewhere")
    needed(metadata.header.bloom_columns, "there are no filters")
    pages_bytes = sum(chunk.total_compressed for block in metadata.blocks for chunk in block.chunks)
    return (
        {name: getattr(counts, name) for name in ("row_groups", "chunks", "rows", "partitions")},
        counts.pages_bytes == pages_bytes,
        report.all_problems,
        sum(each.dead_bytes for each in report.partitions),
    )


def _actions(limit: int) -> list[str]:
    return [str(each.kind) for each in repair_table(MemoryStorage.of(_filtered(limit)), PATH, dry_run=True).actions]


class _Closed(InterceptedStorage):
    """A storage in which files of a name cannot be opened, for one reason."""

    def __init__(self, image: DiskImage, name: str, reason: StorageReason) -> None:
        super().__init__(MemoryStorage.of(image))
        self._name, self._reason = name, reason

    def intercept(self, call: Call, run: Callable[[], Any]) -> Any:
        if call.kind is CallKind.OPEN_FOR_READING and call.path.endswith(f"/{self._name}"):
            raise StorageError(file=call.path, operation=call.kind.value, reason=self._reason)
        return run()


def _unopened(file: str, reason: StorageReason, call: Callable[[Any], Any]) -> Any:
    storage = _Closed(table_of_rows(PATH, [(FIRST_TIME, 0)]), file, reason)
    return outcome_of(lambda: call(open_table(storage, PATH)))


def _read(table: Any) -> int:
    return sum(batch.num_rows for batch in open_snapshot(table).batches())
