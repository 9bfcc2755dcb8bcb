"""Faults of an update: what it appends to data.parquet, its metadata, its bloom filters, and what it keeps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from tornproof.harness.mutation.fault import Explorer, PlantedFault, nothing
from tornproof.impl.chunk.duplicates import NewChunk, records_of
from tornproof.impl.chunk.row_group_encoder import HOME_BYTES, EncodedRowGroup
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.layout.record import Buffer
from tornproof.impl.parquet.footer import split_footer
from tornproof.impl.pm.footer import BloomReference, FooterPosition, Generation, bloom_reference_offset
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.storage.interface import Storage
from tornproof.impl.write.commit import HARDENED, Action, PartitionWrite
from tornproof.impl.write.merge_plan import Keep, Merge
from tornproof.impl.write.partition_writer import KeptRowGroups, NextRowGroups, OpenPartition

WORD_BYTES = 4
LONG_BYTES = 8


def cut_before_append(actions: Mapping[Action, Callable[[Any], None]]) -> dict[Action, Callable[[Any], None]]:
    """Truncate what an orphan left in data.parquet before rows are appended."""

    def append(run: Any) -> None:
        file, end_bytes = run._file(DATA_FILE), run._write.data_offset_bytes
        if file.size_bytes() > end_bytes:
            file.truncate(end_bytes)
        actions[Action.APPEND_DATA](run)

    return {**actions, Action.APPEND_DATA: append}


def before_the_tail(_: Storage, write: PartitionWrite) -> int:
    """Return the size without the length and the magic at its end."""
    return write.data_offset_bytes + len(write.data) - 8


def statistics_from_block(encode_chunk: Callable[..., bytes]) -> Callable[..., bytes]:
    """Count the offsets of long statistics from another base than readers do."""

    def encode(chunk: Any, index: int, references: dict[tuple[int, str], int]) -> bytes:
        return encode_chunk(chunk, index, {key: offset + 8 for key, offset in references.items()})

    return encode


def keep_replaced(plan_merge: Callable[..., tuple[Any, ...]]) -> Any:
    """Keep a row group that was merged, beside the merged one."""

    def plan(*arguments: Any, **settings: Any) -> tuple[Any, ...]:
        steps: list[Any] = []
        for step in plan_merge(*arguments, **settings):
            steps += [Keep(step.first, step.last + 1), step] if isinstance(step, Merge) else [step]
        return tuple(steps)

    return plan


def by_columns(encode_footer: Callable[..., bytes]) -> Callable[..., bytes]:
    """Store all row groups of the first bloom column, then those of the next one."""

    def encode(generation: Generation, header: FileHeader) -> bytes:
        flat = list(itertools.chain.from_iterable(zip(*generation.blooms, strict=True)))
        width = len(header.bloom_columns)
        rows = tuple(tuple(flat[start : start + width]) for start in range(0, len(flat), width or 1))
        return encode_footer(structs.replace(generation, blooms=rows if width else generation.blooms), header)

    return encode


def in_steps_of_words(decode_blooms: Callable[..., Any]) -> Callable[..., Any]:
    """Read the pairs of external references as if an entry had the size of an inlined one."""

    def decode(data: Buffer, location: FooterPosition, header: FileHeader) -> Any:
        rows, end_bytes = decode_blooms(data, location, header)
        if not header.blooms_external:
            return rows, end_bytes
        start, width = bloom_reference_offset(location, header, 0, 0), len(header.bloom_columns)

        def reference(entry: int) -> BloomReference:
            at = start + entry * WORD_BYTES
            offset, length = (
                int.from_bytes(data[first : first + LONG_BYTES], "little") for first in (at, at + LONG_BYTES)
            )
            return BloomReference(offset_bytes=offset, length_bytes=length)

        read = tuple(
            tuple(reference(ordinal * width + column) for column in range(width)) for ordinal in range(len(rows))
        )
        return read, end_bytes

    return decode


def without_blooms(reused: Callable[..., Any]) -> Callable[..., Any]:
    """Reference the row groups that are kept without their filters."""
    return lambda block_offset, blooms=(): reused(block_offset, (None,) * len(blooms))


APPENDS = "append-and-power-cut"


def older_extension(extended_footer: Callable[..., bytes]) -> Callable[..., bytes]:
    """Append an extension without the newest row group, as the generation before has it."""

    def extended(thrift: bytes, form: FooterForm, **settings: Any) -> bytes:
        parts = split_footer(thrift, file=DATA_FILE, offset_bytes=0)
        older = parts.with_row_groups(parts.row_groups[:-1], 0).encode()
        return thrift[:-1] + extended_footer(older, form, **settings)[len(older) - 1 :]

    return extended


def checksum_from_the_second_byte(checksums: Callable[[Buffer], dict[str, int]]) -> Callable[[Buffer], dict[str, int]]:
    """Leave the first byte out of the checksum."""
    return lambda flat: {**checksums(flat), "flatbuffer_crc": checksums(flat[1:])["flatbuffer_crc"]}


def older_duplicates(next_in_place: Callable[..., Any]) -> Callable[..., Any]:
    """Let the extension of a merged row group lead to the duplicates of the row group that it replaces."""

    def next_generation(state: OpenPartition, row_groups: Sequence[NextRowGroups], form: FooterForm | None) -> Any:
        kept = [range(group.first, group.end) for group in row_groups if isinstance(group, KeptRowGroups)]
        replaced = sorted(set(range(len(state.spans))).difference(*kept))
        home_bytes = state.token - HOME_BYTES
        groups = []
        for group in row_groups:
            if replaced and isinstance(group, EncodedRowGroup):
                records = records_of(state.footer.row_groups[replaced[0]])
                older = {
                    column: (record.chunk_offset - home_bytes, NewChunk.as_in(record))
                    for column, record in records.items()
                }
                group = structs.replace(group, duplicates=older)
            groups.append(group)
        return next_in_place(state, groups, form)

    return next_generation


EXTENDED = "footer-extension-and-power-cut"
DUPLICATED = "duplicates-and-power-cut"
_fault = partial(PlantedFault, explorer=Explorer.SEQUENTIAL)
UPDATES = (
    _fault(
        50,
        "token without the tail",
        "the size of data.parquet is counted without its last eight bytes",
        "token matches no footer",
        location="Protocol.token_of",
        substitute=structs.replace(HARDENED, token_of=before_the_tail),
        scenario=APPENDS,
    ),
    _fault(
        53,
        "blocks are not aligned",
        "a block starts right behind the statistics of the one before",
        "low bits of its offset are lost",
        location="tornproof.impl.layout.pm:BLOCK_ALIGNMENT_BYTES",
        substitute=lambda _: 1,
        scenario="texts-of-many-lengths",
    ),
    _fault(
        54,
        "long statistics from another base",
        "offsets of statistics that do not fit inline are counted from another base",
        "wrong minimum and maximum",
        location="tornproof.impl.pm.block:_encode_chunk",
        substitute=statistics_from_block,
        scenario="texts-of-many-lengths",
    ),
    _fault(
        69,
        "replaced row group stays",
        "a row group that was merged stays beside the merged one",
        "duplicate rows",
        location="tornproof.impl.write.partition_change:plan_merge",
        substitute=keep_replaced,
        scenario="merge-and-power-cut",
    ),
    _fault(
        70,
        "dead bytes are not counted",
        "UNUSED_BYTES leaves out row groups that an update replaces",
        "rewrite comes too late",
        location="tornproof.impl.write.partition_writer:unused_bytes_of",
        substitute=lambda _: lambda *__: 0,
        explorer=Explorer.METRIC,
        scenario="merge-and-power-cut",
        also=(Explorer.STATEFUL,),
        hidden_from=(Explorer.SEQUENTIAL, Explorer.CRASH),
        argument="Readers never use UNUSED_BYTES: it only decides when a partition is rewritten.",
    ),
    _fault(
        72,
        "dead tail cut off",
        "data.parquet is truncated to the committed end before rows are appended",
        "mapped reader of dead bytes gets a bus error",
        location="tornproof.impl.write.commit:_PARTITION_ACTIONS",
        substitute=cut_before_append,
        explorer=Explorer.METRIC,
        scenario="two-orphans",
        hidden_from=(Explorer.SEQUENTIAL, Explorer.TRACE_RULE, Explorer.SCHEDULES, Explorer.CRASH),
        argument="Our readers map no data.parquet and read nothing past a token, so only the count of dead "
        "bytes shows it; readers that map the whole file would get a bus error.",
    ),
    _fault(
        62,
        "filters by columns",
        "the matrix of filters is stored by columns, not by row groups",
        "wrong filter, rows that are not found",
        location="tornproof.impl.pm.encode:encode_footer",
        substitute=by_columns,
        scenario="filters-in-pm",
    ),
    _fault(
        64,
        "external filters at inlined steps",
        "entries of 16 bytes that lead into data.parquet are read in steps of 4",
        "wrong filter",
        location="tornproof.impl.pm.footer:_decode_blooms",
        substitute=in_steps_of_words,
        scenario="filters-in-data",
    ),
    _fault(
        65,
        "kept row groups lose their filters",
        "an update writes 0 for the filters of row groups that it keeps",
        "nothing is pruned any more, answers stay the same",
        location="tornproof.impl.write.partition_writer:ReusedRowGroup",
        substitute=without_blooms,
        explorer=Explorer.METRIC,
        scenario="filters-in-pm",
        hidden_from=(Explorer.SEQUENTIAL,),
        argument="A reader without a filter reads the row group and finds the same rows, so only the count of "
        "filters shows it. Release 9.4.2 itself writes 0 for the row groups of an update.",
    ),
    _fault(
        None,
        "limits of readers not asked",
        "a commit makes `_pm` larger than readers take",
        "an acknowledged commit that nobody can open",
        location="tornproof.impl.write.partition_change:excess_of",
        substitute=nothing,
        explorer=Explorer.SMALL_LIMITS,
        scenario="append-and-power-cut",
        hidden_from=(Explorer.SEQUENTIAL,),
    ),
    _fault(
        None,
        "extension of an older generation",
        "a commit in place keeps the FlatBuffers footer that the generation before has",
        "readers of FlatBuffers see row groups that are no more",
        location="tornproof.impl.write.partition_writer:extended_footer",
        substitute=older_extension,
        scenario=EXTENDED,
    ),
    _fault(
        None,
        "checksum of the extension over the wrong bytes",
        "the CRC of the FlatBuffers footer leaves out its first byte",
        "nobody believes the extension",
        location="tornproof.impl.extension.footer:checksums",
        substitute=checksum_from_the_second_byte,
        scenario=EXTENDED,
    ),
    _fault(
        None,
        "duplicate chunk stale after a merge",
        "a merged row group leads to the duplicates of the row group that it replaces",
        "readers of the new encoding see rows that are no more",
        location="tornproof.impl.write.partition_change:next_in_place",
        substitute=older_duplicates,
        scenario=DUPLICATED,
    ),
)
