"""What servers refuse of a partition that is sound, by a trial with one and by their sources (docs/writing.md)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress

from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.encode_options import Encoding
from tornproof.impl.pm.footer_comparison import encodings_mask
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.table.columns import column_positions, position_of
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.write.partition_writer import load_state
from tornproof.impl.write.writer_options import is_read_by_servers

BITS = {encoding: encodings_mask((encoding.value,)) or 0 for encoding in Encoding}


def refused_values(snapshot: Snapshot) -> str | None:
    """Return which column no server reads, or None; raises as reading a partition does."""
    for resolved in _partitions(snapshot):
        columns, positions = resolved.metadata.header.columns, column_positions(resolved.metadata.header)
        # Columns that were dropped are not read.
        read = [place for each in snapshot.columns if (place := position_of(each, positions)) is not None]
        for block, place, (encoding, bit) in itertools.product(resolved.metadata.blocks, read, BITS.items()):
            column = columns[place]
            # Lists, as other programs write arrays, have the encodings of their doubles.
            is_flat = not column.max_rep_level or encoding is Encoding.BYTE_STREAM_SPLIT
            if is_flat and block.chunks[place].encodings & bit and not is_read_by_servers(encoding, column.type):
                return f"{resolved.files.name}: no server reads column {column.name!r} in {encoding.name}"
    return None


def refused_footer(snapshot: Snapshot) -> str | None:
    """Return in which partition updates of a server refuse the Thrift footer, or None; a damaged one says nothing."""
    for resolved in _partitions(snapshot):
        with suppress(TornproofError):
            state = load_state(resolved)
            if state.form is not FooterForm.THRIFT or state.has_duplicates:
                return f"{resolved.files.name}: servers refuse the extensions in its Thrift footer"
    return None


def _partitions(snapshot: Snapshot) -> Iterator[ResolvedPartition]:
    return (snapshot.resolve(each) for each in snapshot.transaction.partitions if each.is_parquet)
