"""Speed as ratios to a named peer, both measured alternately in the same run: `make bench`.

The results go to benchmarks/results/ and into docs/performance.md.
"""

from __future__ import annotations

import io
import itertools
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
import golden_archive
from document import DOCUMENT, RESULTS, Results, this_machine, write_document
from large_table import large_rows
from many import many_rows
from measure import ROUNDS, Row, Work, compare
from recording import recording_rows
from simulator import Rate, rates
from start import start_rows
from wide_metadata import metadata_rows

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.explorers.corruption.judge import Judge
from tornproof.harness.explorers.corruption.plan import Flip
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.chain import decode_metadata, walk
from tornproof.impl.pm.encode import (
    FooterFacts,
    NewRowGroup,
    ReusedRowGroup,
    append_generation,
    append_point,
    encode_file,
)
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions

GROUP_ROW_COUNT = 10
RESOLVE_GOAL = 0.9
SMALL_CHUNKS_GOAL = 1 / 2
TABLE = "tables/9.4.2/wide/table"
HERE = Path(__file__).parent


def rows(golden: Path) -> Iterator[Row]:
    path = str(golden / TABLE)
    table = open_table(OperatingSystemStorage(), path)
    snapshot = open_snapshot(table)
    partition = next(each for each in snapshot.transaction.partitions if each.is_parquet)
    files = snapshot.table.files_of(partition)
    content = Path(files.path, DATA_FILE).read_bytes()[: partition.token]
    yield compare(
        "resolve a token, CRC and structure (300 columns)",
        lambda: resolve_partition(files, partition),
        "pyarrow read_metadata",
        lambda: pq.read_metadata(io.BytesIO(content)),
        goal=RESOLVE_GOAL,
    )
    yield compare(
        "read all rows, checked against statistics",
        lambda: pa.Table.from_batches(list(snapshot.batches()), schema=snapshot.schema),
        "pyarrow read_table",
        lambda: pq.read_table(io.BytesIO(content)),
        goal=SMALL_CHUNKS_GOAL,
    )
    yield compare(
        "verify", lambda: verify_table(table), "our own read", lambda: pa.Table.from_batches(list(snapshot.batches()))
    )
    yield from append_rows(resolve_partition(files, partition).published.content)
    yield from commit_rows(golden / "written")
    small = str(golden / "tables/9.4.2/chain/table")
    judge = Judge(DiskImage.capture(OperatingSystemStorage(), small, size_bytes_max=1 << 30), small)
    damages = [Flip(file, bit) for file in judge.regions for bit in range(0, judge.size_bytes(file) * 8, 997)]
    yield compare(
        f"judge {len(damages)} damages by the part they hit",
        lambda: [judge.judge(damage) for damage in damages],
        "verify and read the whole table",
        lambda: [judge.judge_whole(damage) for damage in damages],
    )


def append_rows(content: bytes) -> Iterator[Row]:
    """Appending a row group to a `_pm` of 1,000 row groups must cost about as much as to one of 10."""
    newest = next(walk(content, file="_pm"))
    metadata = decode_metadata(content, newest, file="_pm")
    block = metadata.blocks[0]
    new = NewRowGroup(num_rows=block.num_rows, chunks=block.chunks)
    facts = FooterFacts(parquet_footer_offset=1 << 30, parquet_footer_length=1)

    def appending(row_group_count: int) -> Work:
        whole = encode_file(metadata.header, [new] * row_group_count, facts)
        last = next(walk(whole, file="_pm"))
        old = decode_metadata(whole, last, file="_pm").generation.block_offsets
        point = append_point(whole, last, base_bytes=len(whole))
        reused = [ReusedRowGroup(block_offset=offset) for offset in old]
        return lambda: append_generation(metadata.header, point, [*reused, new], facts)

    yield compare("append to a _pm of 1,000 row groups", appending(1000), "to one of 10", appending(10), goal=1 / 3)


def commit_rows(folder: Path) -> Iterator[Row]:
    """Committing a row group after 1,000 others must cost about as much as after 10 (goal: at most 3 times)."""
    folder.mkdir()
    storage = OperatingSystemStorage()
    types = {"ts": TypeTag.TIMESTAMP, "v": TypeTag.LONG, "d": TypeTag.DOUBLE, "n": TypeTag.VARCHAR}
    columns = [NewColumn(name=name, type=tag) for name, tag in types.items()]
    options = WriterOptions(row_group_row_count_max=GROUP_ROW_COUNT, rewrite_unused_ratio=1.0)
    with ExitStack() as writers:

        def committing(row_group_count: int) -> Work:
            path = str(folder / f"groups{row_group_count}")
            table = create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)
            writer = writers.enter_context(open_writer(storage, path, options=options, allow_parquet_last=True))
            first = GROUP_ROW_COUNT * row_group_count
            writer.write(rows_for(table, range(first), seed=0))
            writer.commit()
            starts = range(first, first + (ROUNDS + 1) * GROUP_ROW_COUNT, GROUP_ROW_COUNT)
            batches = iter([rows_for(table, range(start, start + GROUP_ROW_COUNT), seed=start) for start in starts])

            def commit() -> None:
                writer.write(next(batches))
                writer.commit()

            return commit

        what = "commit a row group, writer open, to a file of 1,000"
        # Each commit makes the files longer, so a round is one commit.
        yield compare(what, committing(1000), "to one of 10", committing(10), goal=1 / 3, round_seconds=0)


def main() -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    results: list[Row] = []
    with tempfile.TemporaryDirectory() as name, console.status("unpacking") as status:
        folder = Path(name)
        golden_archive.unpack(folder / "questdb")
        # Large tables first, while the process is as fresh as that of a command.
        questdb = folder / "questdb"
        for row in itertools.chain(
            large_rows(folder),
            rows(questdb),
            metadata_rows(folder),
            start_rows(questdb),
            many_rows(folder),
            recording_rows(),
        ):
            results.append(row)
            status.update(f"{len(results)} comparisons, the last: {row.what}")
    console.print(ratio_grid(results))
    simulated = rates()
    console.print(rate_grid(simulated))
    found = Results(machine=this_machine(), rows=results, rates=simulated)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(found.as_json())
    write_document()
    console.print(f"wrote {RESULTS.relative_to(HERE.parent)} and {DOCUMENT.relative_to(HERE.parent)}")
    missed = [row.what for row in results if not row.is_met]
    if missed:
        console.print(f"{len(missed)} of {len(results)} below their goal: {'; '.join(missed)}")


def ratio_grid(results: list[Row]) -> Grid:
    grid = Grid(box=None, pad_edge=False, title=f"medians of {ROUNDS} alternating rounds", title_justify="left")
    for name in ("what", "ms", "peer", "peer ms", "times as fast", "goal"):
        grid.add_column(name, justify="left" if name in ("what", "peer") else "right", no_wrap=True)
    for row in results:
        goal = "" if row.goal is None else f"{row.goal:,.4g}"
        grid.add_row(row.what, f"{row.ours_ms:.3f}", row.peer, f"{row.peer_ms:.3f}", f"{row.times_as_fast:,.2f}", goal)
    return grid


def rate_grid(simulated: list[Rate]) -> Grid:
    grid = Grid(box=None, pad_edge=False, title="the simulator, one core", title_justify="left")
    for name in ("what", "count", "CPU seconds", "a second", "goal", "before", "note"):
        grid.add_column(name, justify="left" if name in ("what", "note") else "right", no_wrap=True)
    for rate in simulated:
        goal, before = ("" if number is None else f"{number:,}" for number in (rate.goal, rate.before))
        grid.add_row(
            rate.what, f"{rate.count:,}", f"{rate.seconds:.2f}", f"{rate.per_second:,.0f}", goal, before, rate.note
        )
    return grid


if __name__ == "__main__":
    main()
