"""Faults of bloom filters: where a footer says that they lie, and which of them an update keeps."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

from tornproof.harness.mutation.fault import Explorer, faults_of
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.footer import BloomReference, FooterPlace, Generation, bloom_reference_offset
from tornproof.impl.pm.header import FileHeader

WORD_BYTES = 4
LONG_BYTES = 8


def by_columns(encode_footer: Callable[..., bytes]) -> Callable[..., bytes]:
    """Store all row groups of the first bloom column, then those of the next one."""

    def encode(generation: Generation, header: FileHeader) -> bytes:
        flat = list(itertools.chain.from_iterable(zip(*generation.blooms, strict=True)))
        width = len(header.bloom_columns)
        rows = tuple(tuple(flat[start : start + width]) for start in range(0, len(flat), width or 1))
        return encode_footer(dataclasses.replace(generation, blooms=rows if width else generation.blooms), header)

    return encode


def in_steps_of_words(decode_blooms: Callable[..., Any]) -> Callable[..., Any]:
    """Read the pairs of external references as if an entry had the size of an inlined one."""

    def decode(data: Buffer, place: FooterPlace, header: FileHeader) -> Any:
        rows, end_bytes = decode_blooms(data, place, header)
        if not header.blooms_external:
            return rows, end_bytes
        start, width = bloom_reference_offset(place, header, 0, 0), len(header.bloom_columns)

        def reference(entry: int) -> BloomReference:
            position = start + entry * WORD_BYTES
            offset, length = (
                int.from_bytes(data[at : at + LONG_BYTES], "little") for at in (position, position + LONG_BYTES)
            )
            return BloomReference(offset_bytes=offset, length_bytes=length)

        read = tuple(
            tuple(reference(ordinal * width + place) for place in range(width)) for ordinal in range(len(rows))
        )
        return read, end_bytes

    return decode


def without_blooms(reused: Callable[..., Any]) -> Callable[..., Any]:
    """Name row groups that are kept without their filters."""
    return lambda block_offset, blooms=(): reused(block_offset, (None,) * len(blooms))


_fault = faults_of(part="bloom filters", explorer=Explorer.SEQUENTIAL)
BLOOMS = (
    _fault(
        62,
        "filters by columns",
        "the matrix of filters stands column by column, not row group by row group",
        "wrong filter, rows that are not found",
        mode="seq (several row groups and columns)",
        place="tornproof.impl.pm.encode:encode_footer",
        substitute=by_columns,
        scenario="filters-in-pm",
    ),
    _fault(
        64,
        "external filters at inlined steps",
        "entries of 16 bytes that lead into data.parquet are read in steps of 4",
        "wrong filter",
        mode="seq in external mode",
        place="tornproof.impl.pm.footer:_decode_blooms",
        substitute=in_steps_of_words,
        scenario="filters-in-data",
    ),
    _fault(
        65,
        "kept row groups lose their filters",
        "an update writes 0 for the filters of row groups that it keeps",
        "nothing is pruned any more, answers stay the same",
        mode="metric",
        place="tornproof.impl.write.partition_writer:ReusedRowGroup",
        substitute=without_blooms,
        explorer=Explorer.METRIC,
        scenario="filters-in-pm",
        hidden_from=(Explorer.SEQUENTIAL,),
        argument="A reader without a filter reads the row group and finds the same rows, so that only the count of "
        "filters tells. Release 9.4.2 itself writes 0 for the row groups of an update.",
    ),
)
