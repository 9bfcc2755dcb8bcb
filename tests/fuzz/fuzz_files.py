"""Whole files as targets: `_pm` by every way in which it is read, and whatever `inspect` is pointed at."""

import io
import itertools
from contextlib import suppress

import pyarrow as pa
from fuzz_inputs import parts_of

from tornproof.cli.console import VisibleConsole
from tornproof.cli.inspection.inspector import inspect_path
from tornproof.cli.inspection.tree import Printer
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import DATA_FILE, ParquetTail
from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.convert import convert as convert_file
from tornproof.impl.parquet.bloom import hashes_of, probe
from tornproof.impl.parquet.footer import file_tail
from tornproof.impl.pm.bloom_position import bitset_of
from tornproof.impl.pm.chain import Metadata, decode_chain, decode_metadata, resolve, walk
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.extent import dead_byte_count, reached_intervals
from tornproof.impl.pm.statistics import bounds_of
from tornproof.impl.pm.view import VerifiedGenerations, open_view
from tornproof.impl.table.partition import PM_FILE

INSPECTED = (PM_FILE, "_txn", "_meta", DATA_FILE)
GENERATIONS_PER_INPUT = 8
CHUNKS_PER_GENERATION = 64
WIDTH = 100
PRINTED_BIT = 0x80


def pm(data: bytes) -> None:
    """The chain, each generation decoded, checked and seen through a view, and which bytes all of it reaches."""
    positions = []
    try:
        for position in walk(data, file=PM_FILE):
            positions.append(position)  # noqa: PERF402 - what came before an error counts
    finally:
        for position in positions[:GENERATIONS_PER_INPUT]:
            with suppress(TornproofError):
                _view(data, position.token, decode_metadata(data, position, file=PM_FILE))
    generations: list[Metadata] = []
    for metadata in decode_chain(data, file=PM_FILE, end_bytes=len(data)):
        list(check_metadata(data, metadata, file=PM_FILE, newer=generations[-1] if generations else None))
        generations.append(metadata)
        _probe_filters(data, metadata)
    intervals = reached_intervals(data, generations, file=PM_FILE)
    assert 0 <= dead_byte_count(data, len(data), intervals, file=PM_FILE) <= len(data)


def inspect(data: bytes) -> None:
    """What `inspect` finds in a file; the first byte selects the kind of file and the form of the output."""
    first = data[0] if data else 0
    name = INSPECTED[first % len(INSPECTED)]
    content = parquet_file(data[1:]) if name == DATA_FILE else data[1:]
    found = inspect_path(DiskImage.of_files({f"t/{name}": content}), f"t/{name}", None)
    if not first & PRINTED_BIT:
        return
    printer = Printer(VisibleConsole(file=io.StringIO(), width=WIDTH), show_all=False)
    found.print(printer, hexadecimal=True)


def convert(data: bytes) -> None:
    """A Parquet file to its `_pm`, which can be read back, in both modes and as strictly as the server."""
    content = parquet_file(data)
    for mode, as_questdb in itertools.product(ConversionMode, (False, True)):
        with suppress(TornproofError):
            made = convert_file(
                lambda size, offset: content[offset : offset + size],
                size_bytes=len(content),
                file=DATA_FILE,
                mode=mode,
                as_questdb=as_questdb,
            )
            (metadata,) = decode_chain(made, file=PM_FILE, end_bytes=len(made))
            resolve(made, metadata.token, file=PM_FILE)
            assert metadata.token == len(content)


def parquet_file(data: bytes) -> bytes:
    """Return a file of the parts of an input: what ends it is right, unless the input has an end of its own."""
    body, tail, footer = parts_of(data, 3)
    return body + (footer + tail if len(tail) == ParquetTail.layout.size_bytes else file_tail(footer))


def _probe_filters(data: bytes, metadata: Metadata) -> None:
    """Read every filter of a generation; one in data.parquet is read from the same bytes."""
    for ordinal, column in itertools.product(range(len(metadata.blocks)), metadata.header.bloom_columns):
        with suppress(TornproofError):
            filter_bytes = bitset_of(
                data,
                metadata,
                ordinal,
                column,
                read_data=lambda size, offset: data[offset : offset + size],
                file=PM_FILE,
            )
            if filter_bytes:
                probe(filter_bytes, hashes_of(pa.array([1, 2], pa.int64())))


def _view(data: bytes, token: int, metadata: Metadata) -> None:
    """A view of a generation agrees with decoding all of it, if its CRC is valid."""
    if resolve(data, token, file=PM_FILE).position != metadata.generation.position:
        return
    view = open_view(data, token, file=PM_FILE, verified=VerifiedGenerations())
    assert view.row_counts.tolist() == [block.num_rows for block in metadata.blocks]
    assert set(view.row_groups_between(0, 1)) <= set(range(len(metadata.blocks)))
    for ordinal, block in enumerate(metadata.blocks):
        for index, chunk in enumerate(block.chunks[:CHUNKS_PER_GENERATION]):
            assert view.chunk(ordinal, index) == chunk
            bounds_of(metadata.header.columns[index], chunk)
    for index, column in enumerate(metadata.header.columns[:CHUNKS_PER_GENERATION]):
        assert view.column(index) == column
        assert view.find_column(column.name) is not None
