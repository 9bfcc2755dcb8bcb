"""The bytes of a partition's next generation, from the committed one and the row groups that change.

Nothing is written here: the result is a `PartitionWrite` for the commit and the state after it. The cost does not grow
with the file, except for its row groups' entries, which every footer repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tornproof.impl import limits
from tornproof.impl.chunk.duplicates import DUPLICATE_UUID, duplicate_bytes_of
from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup, PlacedRowGroup
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.extension.footer import extended_footer, form_of_extension
from tornproof.impl.extension.point import without_extension
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC, FooterForm, ParquetTail
from tornproof.impl.parquet.footer import (
    FooterParts,
    SortingColumn,
    empty_footer,
    file_tail,
    split_footer,
    unused_bytes_of,
)
from tornproof.impl.pm.block import Block
from tornproof.impl.pm.chain import Metadata, walk
from tornproof.impl.pm.encode import (
    AppendedGeneration,
    AppendPoint,
    FooterFacts,
    NewRowGroup,
    ReusedRowGroup,
    append_point,
    lay_out_generation,
    patch_header,
    start_file,
)
from tornproof.impl.pm.footer import BloomReference, FooterSections
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.pm.statistics import bounds_of
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.partition import PM_FILE, PartitionFiles, ResolvedPartition
from tornproof.impl.table.partition_schema import schema_elements
from tornproof.impl.table.questdb_json import QUESTDB_KEY, JsonColumn, new_json, updated_json
from tornproof.impl.write.commit import PartitionWrite
from tornproof.impl.write.merge_plan import Span

CREATED_BY = "tornproof"


class OpenPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A parquet partition's committed generation as its writer remembers it; the next one is appended at `point`."""

    files: PartitionFiles
    metadata: Metadata
    footer: FooterParts
    form: FooterForm
    point: AppendPoint
    spans: tuple[Span, ...]
    generation_count: int

    @property
    def token(self) -> int:
        """The committed size of data.parquet."""
        return self.metadata.token

    @property
    def unused_bytes(self) -> int:
        """Bytes before the token that no row group of the committed generation uses."""
        return self.metadata.generation.position.fixed.unused_bytes

    @property
    def has_duplicates(self) -> bool:
        """Whether columns of numbers are in a new encoding too."""
        return any(DUPLICATE_UUID in row_group for row_group in self.footer.row_groups)


def excess_of(after: OpenPartition, before: OpenPartition | None = None) -> limits.Excess | None:
    """Return the limit of readers that a new generation exceeds, or None.

    The recovery of a commit that is killed between the two restates the generation `before` behind it, so there must be
    room for one more footer; the chain is no longer then, because the killed generation is not in it.
    """
    footers = [each.metadata.generation.position.trailer.footer_length for each in (after, before) if each]
    return limits.excess(
        pm_bytes=after.point.base_bytes + max(footers),
        row_group_count=len(after.metadata.blocks),
        column_count=len(after.metadata.header.columns),
        generation_count=after.generation_count,
    )


class KeptRowGroups(msgspec.Struct, frozen=True):
    """The row groups [first, end) of the committed generation."""

    first: int
    end: int


NextRowGroups: TypeAlias = KeptRowGroups | EncodedRowGroup
Append: TypeAlias = Callable[[bytes, int], None]
"""Takes bytes of data.parquet and their offset."""


def load_state(resolved: ResolvedPartition, timestamp: SnapshotColumn | None = None) -> OpenPartition:
    """Return the state of a resolved partition; reads the Thrift footer; raises CorruptError, UnsupportedError.

    If `_pm` does not say that rows are in time order, the timestamps of the table's column are decoded.
    """
    fixed = resolved.metadata.generation.position.fixed
    label = resolved.files.data_label
    with resolved.files.open_data() as handle:
        footer = handle.pread(fixed.parquet_footer_length, fixed.parquet_footer_offset)
        if timestamp is not None and not resolved.metadata.header.is_in_time_order:
            spans = [_decoded_span(resolved, block, handle, timestamp) for block in resolved.metadata.blocks]
        else:
            spans = [_span(resolved.metadata.header, block, resolved.files) for block in resolved.metadata.blocks]
    if len(footer) < fixed.parquet_footer_length:
        expected = f"{resolved.metadata.token} bytes or more, the committed token"
        raise CorruptError(label, "size", None, expected, f"{fixed.parquet_footer_offset + len(footer)} bytes")
    parts = split_footer(footer, file=label, offset_bytes=fixed.parquet_footer_offset)
    if len(parts.row_groups) != len(resolved.metadata.blocks):
        expected = f"{len(resolved.metadata.blocks)}, as in {resolved.files.pm_label}"
        raise CorruptError(label, "row_groups", fixed.parquet_footer_offset, expected, len(parts.row_groups))
    content = resolved.published.content
    return OpenPartition(
        files=resolved.files,
        metadata=resolved.metadata,
        footer=replace(parts, fields=without_extension(parts.fields)),
        form=form_of_extension(parts.fields),
        point=append_point(content, resolved.resolved.position, base_bytes=len(content)),
        spans=tuple(spans),
        generation_count=_generation_count(content),
    )


def _decoded_span(resolved: ResolvedPartition, block: Block, handle: ReadableFile, timestamp: SnapshotColumn) -> Span:
    """Return a row group's smallest and largest timestamp, by its values."""
    arrays = [array for (array,) in row_group_columns(resolved, block, handle, [timestamp])]
    if any(array.null_count for array in arrays):
        expected = "a designated timestamp in each row"
        raise CorruptError(resolved.files.data_label, f"column {timestamp.name!r}", None, expected, "none in some")
    bounds = [pc.min_max(array.cast(pa.int64())) for array in arrays]
    return Span(min(each["min"].as_py() for each in bounds), max(each["max"].as_py() for each in bounds))


def _generation_count(content: bytes) -> int:
    """Return the length of a published chain; damage of older generations is not the writer's business."""
    count = 0
    with suppress(CorruptError, UnsupportedError):
        for _ in walk(content, file=PM_FILE):
            count += 1
    return count


def next_in_place(
    state: OpenPartition, row_groups: Sequence[NextRowGroups], form: FooterForm | None = None
) -> tuple[PartitionWrite, OpenPartition]:
    """Return the write that appends new row groups and footers with all of `row_groups`, and the state after it.

    The Thrift footer gets a new extension of `form`, by default of that which the partition has.
    """
    form = form or state.form
    kept = [range(group.first, group.end) for group in row_groups if isinstance(group, KeptRowGroups)]
    dropped = set(range(len(state.footer.row_groups))).difference(*kept)
    footer_length = state.metadata.generation.position.fixed.parquet_footer_length
    unused_bytes = state.unused_bytes + footer_length + ParquetTail.layout.size_bytes
    unused_bytes += sum(unused_bytes_of(state.footer.row_groups[ordinal]) for ordinal in dropped)
    unused_bytes += sum(duplicate_bytes_of(state.footer.row_groups[ordinal]) for ordinal in dropped)
    content = _Content(state.token)
    placed = _place(state.metadata.header, row_groups, content.append, state.token, state)
    # Of a footer's optional sections only the scratchpad is copied to the next generation (docs/format.md).
    scratchpad = state.metadata.generation.sections.scratchpad
    tail, footer, laid_out = _lay_out(
        state.metadata.header, state.footer, form, state.point, placed, unused_bytes, scratchpad
    )
    content.append(tail, placed.end_bytes)
    write = PartitionWrite(
        directory_path=state.files.path,
        is_new=False,
        data_offset_bytes=state.token,
        data=content.joined(),
        pm_offset_bytes=state.point.base_bytes,
        pm=laid_out.content,
        published_bytes=laid_out.generation.position.end_bytes,
    )
    after = _state(state.files, state.metadata.header, footer, form, laid_out, placed)
    return write, replace(after, generation_count=state.generation_count + 1)


def new_footer(header: FileHeader, table_name: str) -> FooterParts:
    """Return the footer of a new data.parquet without row groups, with the schema and the `questdb` JSON."""
    json = new_json(
        [
            JsonColumn(column.type, False, bool(layout.LOCAL_KEY_IS_GLOBAL.get(column.flags)), None)
            for column in header.columns
        ]
    )
    return empty_footer(schema_elements(header, table_name=table_name), {QUESTDB_KEY: json}, created_by=CREATED_BY)


def next_in_new_directory(
    files: PartitionFiles,
    header: FileHeader,
    footer: FooterParts,
    row_groups: Iterable[EncodedRowGroup],
    append: Append | None = None,
    *,
    form: FooterForm = FooterForm.THRIFT,
) -> tuple[PartitionWrite, OpenPartition]:
    """Return the complete files of a new partition or of a rewrite; `footer` has the schema and the key-values.

    With `append` data.parquet goes there instead, a row group at a time, and the write has only its size.
    """
    head, point = start_file(header)
    content = _Content(0)
    append = append or content.append
    append(MAGIC, 0)
    placed = _place(header, row_groups, append, len(MAGIC), None)
    tail, footer, laid_out = _lay_out(header, footer, form, point, placed, 0, None)
    append(tail, placed.end_bytes)
    published = patch_header(laid_out.generation.position.end_bytes)
    data = content.joined()
    write = PartitionWrite(
        directory_path=files.path,
        is_new=True,
        data_offset_bytes=0 if data else placed.end_bytes + len(tail),
        data=data,
        pm_offset_bytes=0,
        pm=published + head[len(published) :] + laid_out.content,
        published_bytes=laid_out.generation.position.end_bytes,
    )
    return write, _state(files, header, footer, form, laid_out, placed)


class _Content:
    """New bytes of data.parquet that a commit keeps until it writes them."""

    def __init__(self, offset_bytes: int) -> None:
        self._end_bytes = offset_bytes
        self._parts: list[bytes] = []

    def append(self, content: bytes, offset_bytes: int) -> None:
        assert offset_bytes == self._end_bytes, "bytes come in order"
        self._parts.append(content)
        self._end_bytes += len(content)

    def joined(self) -> bytes:
        return b"".join(self._parts)


class _Placed(msgspec.Struct):
    """Row groups at their offsets: where they end, each group's entries in both footers, and the kept blocks."""

    end_bytes: int
    thrift: list[bytes] = msgspec.field(default_factory=list)
    row_groups: list[NewRowGroup | ReusedRowGroup] = msgspec.field(default_factory=list)
    kept_blocks: list[Block | None] = msgspec.field(default_factory=list)
    kept_spans: list[Span | None] = msgspec.field(default_factory=list)
    row_count: int = 0


def _place(
    header: FileHeader,
    row_groups: Iterable[NextRowGroups],
    append: Append,
    offset_bytes: int,
    state: OpenPartition | None,
) -> _Placed:
    placed = _Placed(offset_bytes)
    by_time = SortingColumn(column_index=header.designated_timestamp, descending=False, nulls_first=False)
    sorting = [by_time] if header.is_in_time_order else []
    for group in row_groups:
        if isinstance(group, KeptRowGroups):
            assert state is not None, "a new file keeps nothing"
            kept = slice(group.first, group.end)
            blocks, generation = state.metadata.blocks[kept], state.metadata.generation
            placed.thrift += state.footer.row_groups[kept]
            placed.row_groups += map(ReusedRowGroup, generation.block_offsets[kept], generation.blooms[kept])
            placed.kept_blocks += blocks
            placed.kept_spans += state.spans[kept]
            placed.row_count += sum(block.num_rows for block in blocks)
            continue
        written = group.place(placed.end_bytes, sorting=sorting)
        append(written.content, placed.end_bytes)
        placed.end_bytes += len(written.content)
        placed.thrift.append(written.thrift)
        blooms = _blooms(header, group, written)
        placed.row_groups.append(NewRowGroup(num_rows=group.row_count, chunks=written.chunks, blooms=blooms))
        placed.kept_blocks.append(None)
        placed.kept_spans.append(None)
        placed.row_count += group.row_count
        del group, written  # before the next one is made
    return placed


def _blooms(
    header: FileHeader, group: EncodedRowGroup, written: PlacedRowGroup
) -> tuple[bytes | BloomReference | None, ...]:
    """Return for each bloom column of the file the bitset to inline, or its position in data.parquet."""
    if not header.blooms_external:
        return tuple(map(group.bitsets.get, header.bloom_columns))
    return tuple(
        BloomReference(offset_bytes=written.bitset_offsets[index], length_bytes=len(group.bitsets[index]))
        if index in written.bitset_offsets
        else None
        for index in header.bloom_columns
    )


def _lay_out(
    header: FileHeader,
    footer: FooterParts,
    form: FooterForm,
    point: AppendPoint,
    placed: _Placed,
    unused_bytes: int,
    scratchpad: tuple[tuple[int, bytes], ...] | None,
) -> tuple[bytes, FooterParts, AppendedGeneration]:
    """Return the end of data.parquet, its footer in parts, and the generation of `_pm` that describes it."""
    footer = footer.with_row_groups(placed.thrift, placed.row_count)
    json = footer.key_value(QUESTDB_KEY)
    if json is not None:
        footer = footer.with_key_value(QUESTDB_KEY, updated_json(json, unused_bytes=unused_bytes))
    encoded = extended_footer(footer.encode(), form, file=DATA_FILE)
    facts = FooterFacts(
        parquet_footer_offset=placed.end_bytes,
        parquet_footer_length=len(encoded),
        unused_bytes=unused_bytes,
        footer_feature_flags=layout.SCRATCHPAD.put(0, int(scratchpad is not None)),
        sections=FooterSections(scratchpad=scratchpad),
    )
    return file_tail(encoded), footer, lay_out_generation(header, point, placed.row_groups, facts)


def _state(
    files: PartitionFiles,
    header: FileHeader,
    footer: FooterParts,
    form: FooterForm,
    laid_out: AppendedGeneration,
    placed: _Placed,
) -> OpenPartition:
    new_blocks = iter(laid_out.new_blocks)
    blocks = tuple(block or next(new_blocks) for block in placed.kept_blocks)
    spans = tuple(span or _span(header, block, files) for span, block in zip(placed.kept_spans, blocks, strict=True))
    return OpenPartition(
        files=files,
        metadata=Metadata(header=header, generation=laid_out.generation, blocks=blocks),
        footer=footer,
        form=form,
        point=laid_out.next_point,
        spans=spans,
        generation_count=1,
    )


def _span(header: FileHeader, block: Block, files: PartitionFiles) -> Span:
    """Return a row group's first and last timestamp; raises CorruptError if `_pm` does not have them."""
    position = header.designated_timestamp
    bounds = bounds_of(header.columns[position], block.chunks[position]) if position >= 0 else None
    if not isinstance(bounds, tuple) or not isinstance(bounds[0], int) or not isinstance(bounds[1], int):
        expected = "a minimum and a maximum, as every writer stores them"
        field = "statistics of the designated timestamp"
        raise CorruptError(files.pm_label, field, block.offset_bytes, expected, "none")
    return Span(bounds[0], bounds[1])
