"""Conditions as targets: their text, what they are true of, and whether pruning by them loses a row; bloom filters."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import fuzz_tables
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fuzz_inputs import parts_of

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.parquet.bloom import may_contain, probe
from tornproof.impl.parquet.bloom_filter import BLOCK_BYTES, decode_filter_header
from tornproof.impl.pm.block import Block
from tornproof.impl.pm.bloom_position import bitset_of
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.query.predicate import columns_of, matching
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.query.pruning import may_match
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.table import open_table

TABLE_WITH_TYPES = "tables/9.4.2/types/table/"
TABLE_WITH_FILTERS = "tables/9.4.2/bloom/table/"
HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """The first row group of a table with its rows, which conditions are tried on."""

    columns: Sequence[SnapshotColumn]
    arrays: Mapping[int, pa.Array]
    header: FileHeader
    block: Block
    filters: Mapping[int, bytes | None]


def predicate(data: bytes) -> None:
    """A condition on columns of every type, or on those with filters where the first byte is odd."""
    rows = _row_group(TABLE_WITH_FILTERS if data[:1] and data[0] % 2 else TABLE_WITH_TYPES)
    parsed = parse_predicate(data[1:].decode("utf-8", errors="surrogateescape"), rows.columns)
    columns_of(parsed)
    is_kept = may_match(parsed, rows.header, rows.block, bitset_of=rows.filters.get)
    found = matching(parsed, rows.arrays)
    assert is_kept or not pc.any(found).as_py(), parsed


def bloom(data: bytes) -> None:
    """A filter's header, and a bitset that is asked for one hash in both ways."""
    key, bitset = parts_of(data, 2)
    value_hash = int.from_bytes(key[:HASH_BYTES], "little")
    blocks = bitset[: len(bitset) // BLOCK_BYTES * BLOCK_BYTES]
    if blocks:
        assert probe(blocks, np.array([value_hash], np.uint64)).tolist() == [bool(may_contain(blocks, value_hash))]
    _, end = decode_filter_header(data, file="data.parquet")
    assert 0 < end <= len(data)


@functools.cache
def _row_group(folder: str) -> _RowGroup:
    files = {name.removeprefix(folder): content for name, content in fuzz_tables.golden_files([folder]).items()}
    image = DiskImage.of_files({f"t/{name}": content for name, content in files.items()})
    snapshot = open_snapshot(open_table(image, "t"))
    partition = next(each for each in snapshot.transaction.partitions if each.is_parquet)
    resolved = snapshot.resolve(partition)
    batch = next(snapshot.batches())
    content = resolved.published.content
    filters = {
        position: bitset_of(content, resolved.metadata, 0, position, read_data=None, file="_pm")
        for position in resolved.metadata.header.bloom_columns
    }
    return _RowGroup(
        columns=snapshot.columns,
        arrays={column.id: array for column, array in zip(snapshot.columns, batch.columns, strict=True)},
        header=resolved.metadata.header,
        block=resolved.metadata.blocks[0],
        filters=filters,
    )
