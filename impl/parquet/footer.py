"""A Parquet footer as checked, immutable values made from its lossless tree.

Sources: parquet.thrift of Apache Parquet format; where that is ambiguous, what QuestDB's converter accepts.
Values have the names of parquet.thrift; offsets count from the start of the file, sizes are in bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC, ParquetTail
from tornproof.impl.parquet.fields import (
    COLUMN_CHUNK,
    COLUMN_META_DATA,
    COLUMN_ORDER,
    FILE_META_DATA,
    KEY_VALUE,
    ROW_GROUP,
    SCHEMA_ELEMENT,
    SIZE_STATISTICS,
    Codec,
    ids_of,
)
from tornproof.impl.parquet.records import check, make, read
from tornproof.impl.parquet.schema import SchemaLeaf, check_annotation, read_leaves
from tornproof.impl.parquet.thrift import (
    NODE_COUNT_MAX,
    BrokenError,
    Field,
    Items,
    Kind,
    Known,
    Padded,
    Struct,
    decode,
    encode,
    struct_list,
    structs_in,
    value_of,
    with_fields,
    without,
)

ENCRYPTED_MAGIC = b"PARE"
TAIL_SIZE_BYTES = ParquetTail.layout.size_bytes
PARQUET_SIZE_MIN_BYTES = len(MAGIC) + TAIL_SIZE_BYTES


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one chunk, None where absent. QuestDB ignores the deprecated ones and the exactness."""

    min_value: bytes | None
    max_value: bytes | None
    null_count: int | None
    distinct_count: int | None
    is_min_value_exact: bool | None
    is_max_value_exact: bool | None
    deprecated_min: bytes | None
    deprecated_max: bytes | None


class ColumnChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One column in one row group; absent optional values are None.

    `dictionary_page_offset` is also None if the footer has 0, by which some writers mean "none". `file_path` may be an
    empty string, which is not absent.
    """

    offset_bytes: int
    path_in_schema: tuple[str, ...]
    physical_type: int
    codec: Codec
    encodings: tuple[int, ...]
    num_values: int
    total_compressed_size: int
    total_uncompressed_size: int
    data_page_offset: int
    dictionary_page_offset: int | None
    statistics: Statistics | None
    bloom_filter_offset: int | None
    bloom_filter_length: int | None
    column_index_offset: int | None
    column_index_length: int | None
    offset_index_offset: int | None
    offset_index_length: int | None
    file_path: str | None


class SortingColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One sorting column of a row group; `column_index` is not checked and may name no leaf."""

    column_index: int
    descending: bool
    nulls_first: bool


class RowGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One row group; it has one chunk for each leaf, in the order of the leaves."""

    offset_bytes: int
    num_rows: int
    total_byte_size: int
    ordinal: int | None
    sorting_columns: tuple[SortingColumn, ...]
    chunks: tuple[ColumnChunk, ...]


class ParquetFooter(msgspec.Struct, frozen=True, kw_only=True):
    """One footer. `tree` is all of it, unknown fields included; `length_bytes` includes the tree's stop byte.

    `key_values` keeps order and duplicates; a missing value is None.
    """

    tree: Struct
    offset_bytes: int
    length_bytes: int
    version: int
    num_rows: int
    created_by: str | None
    key_values: tuple[tuple[str, str | None], ...]
    leaves: tuple[SchemaLeaf, ...]
    row_groups: tuple[RowGroup, ...]

    @property
    def metadata(self) -> dict[str, str | None]:
        """The key-values as a mapping; of repeated keys the first counts, as in QuestDB."""
        return dict(reversed(self.key_values))


def read_footer_tail(tail: bytes | memoryview, *, file: str, token: int) -> tuple[int, int]:
    """Return (offset, length) of the footer, in bytes, from the last 8 bytes before `token`.

    `token` is the size of the file as its reader sees it. Raises CorruptError, or UnsupportedError for encryption.
    """
    if token < PARQUET_SIZE_MIN_BYTES:
        raise CorruptError(
            file=file, field="size", offset_bytes=None, expected=f"at least {PARQUET_SIZE_MIN_BYTES}", actual=token
        )
    at = token - TAIL_SIZE_BYTES
    record = ParquetTail.unpack(tail, 0, file=file)
    if record.magic == ENCRYPTED_MAGIC:
        raise UnsupportedError(file=file, field="magic", offset_bytes=token - 4, expected=MAGIC, actual=record.magic)
    if record.magic != MAGIC:
        raise CorruptError(file=file, field="magic", offset_bytes=token - 4, expected=MAGIC, actual=record.magic)
    length_bytes = record.footer_length
    length_max_bytes = token - PARQUET_SIZE_MIN_BYTES
    if not 1 <= length_bytes <= length_max_bytes:
        raise CorruptError(
            file=file,
            field="footer_length",
            offset_bytes=at,
            expected=f"1 to {length_max_bytes} bytes before it",
            actual=length_bytes,
        )
    return at - length_bytes, length_bytes


def decode_footer(
    footer_bytes: bytes,
    *,
    file: str,
    offset_bytes: int,
    tolerant: bool = False,
    node_count_max: int = NODE_COUNT_MAX,
    known: Known | None = None,
) -> ParquetFooter:
    """Return the footer at `offset_bytes` of `file`; bytes behind its stop byte are ignored.

    `tolerant` accepts negative counts and positions of auxiliary structures, as QuestDB's converter does; `known` may
    only be shared by calls for the same file with the same options. Raises CorruptError or UnsupportedError, naming
    field path and offset.
    """
    tree, length_bytes = decode(
        footer_bytes,
        file=file,
        offset_bytes=offset_bytes,
        node_count_max=node_count_max,
        path_of=FILE_META_DATA.path_text,
        known=known,
    )
    try:
        return _footer(tree, length_bytes, read(tree, FILE_META_DATA, tolerant=tolerant, known=known), known)
    except BrokenError as error:
        error.report(file, FILE_META_DATA.path_text)


def check_for_others(footer: ParquetFooter, *, file: str) -> None:
    """Raise CorruptError for what no reader here needs, and other readers would reject."""
    try:
        check(footer.tree, FILE_META_DATA)
        for leaf in footer.leaves:
            check_annotation(leaf.element)
        orders = value_of(footer.tree, FOOTER["column_orders"])
        if isinstance(orders, Items) and len(orders.elements) != len(footer.leaves):
            raise BrokenError(
                f"{len(footer.leaves)}, one for each leaf",
                len(orders.elements),
                footer.tree.offset_bytes,
                step="column_orders",
            )
        for group in structs_in(footer.tree, FOOTER["row_groups"]):
            for leaf, chunk in zip(footer.leaves, structs_in(group, GROUP_COLUMNS), strict=True):
                _check_histograms(chunk, leaf)
    except BrokenError as error:
        error.report(file, FILE_META_DATA.path_text)


def _check_histograms(chunk: Struct, leaf: SchemaLeaf) -> None:
    """Raise BrokenError if a chunk counts values of other levels than those of its column."""
    meta = value_of(chunk, CHUNK_META)
    sizes = value_of(meta, CHUNK_SIZES) if isinstance(meta, Struct) else None
    if not isinstance(sizes, Struct):
        return
    for name, level_max in (("repetition", leaf.max_rep), ("definition", leaf.max_def)):
        field = f"{name}_level_histogram"
        counts = value_of(sizes, SIZES[field])
        if isinstance(counts, Items) and len(counts.elements) not in (0, level_max + 1):
            expected = f"counts of {level_max + 1} levels"
            raise BrokenError(expected, len(counts.elements), sizes.offset_bytes, step=field)


def start_of(meta: Mapping[str, Any]) -> int:
    """Return where the chunk of a ColumnMetaData, given by its members' names, starts."""
    return int(meta.get("dictionary_page_offset") or meta["data_page_offset"])


def _footer(tree: Struct, length_bytes: int, values: dict[str, Any], known: Known | None) -> ParquetFooter:
    try:
        leaves = read_leaves(values["schema"])
    except BrokenError as error:
        error.steps.append("schema")
        error.offset_bytes = tree.offset_bytes if error.offset_bytes is None else error.offset_bytes
        raise
    made = {} if known is None else known.made
    row_groups = tuple(
        _row_group(group, f"[{index}]", len(leaves), made) for index, group in enumerate(values["row_groups"])
    )
    if known is not None and not made:
        # The values stay in memory with what was made of them, so that no others can have their identity.
        made |= {
            id(group): (group, row_group) for group, row_group in zip(values["row_groups"], row_groups, strict=True)
        }
    return ParquetFooter(
        tree=tree,
        offset_bytes=tree.offset_bytes,
        length_bytes=length_bytes,
        version=values["version"],
        num_rows=values["num_rows"],
        created_by=values.get("created_by"),
        key_values=tuple((pair["key"], pair.get("value")) for pair in values.get("key_value_metadata", ())),
        leaves=leaves,
        row_groups=row_groups,
    )


def _row_group(
    values: dict[str, Any], step: str, leaf_count: int, made: Mapping[int, tuple[dict[str, Any], RowGroup]]
) -> RowGroup:
    columns = values["columns"]
    if len(columns) != leaf_count:
        expected = f"{leaf_count} chunks, one for each leaf"
        error = BrokenError(expected, len(columns), values["offset_bytes"], step="columns")
        error.steps += [step, "row_groups"]
        raise error
    if id(values) in made:
        return made[id(values)][1]
    return RowGroup(
        offset_bytes=values["offset_bytes"],
        num_rows=values["num_rows"],
        total_byte_size=values["total_byte_size"],
        ordinal=values.get("ordinal"),
        sorting_columns=tuple(
            SortingColumn(
                column_index=entry["column_index"], descending=entry["descending"], nulls_first=entry["nulls_first"]
            )
            for entry in values.get("sorting_columns", ())
        ),
        chunks=tuple(_chunk(column, column["meta_data"]) for column in columns),
    )


def _chunk(column: dict[str, Any], values: dict[str, Any]) -> ColumnChunk:
    return ColumnChunk(
        offset_bytes=column["offset_bytes"],
        path_in_schema=tuple(values["path_in_schema"]),
        physical_type=values["type"],
        codec=Codec(values["codec"]),
        encodings=tuple(values["encodings"]),
        num_values=values["num_values"],
        total_compressed_size=values["total_compressed_size"],
        total_uncompressed_size=values["total_uncompressed_size"],
        data_page_offset=values["data_page_offset"],
        dictionary_page_offset=values.get("dictionary_page_offset") or None,
        statistics=_statistics(values["statistics"]) if "statistics" in values else None,
        bloom_filter_offset=values.get("bloom_filter_offset"),
        bloom_filter_length=values.get("bloom_filter_length"),
        column_index_offset=column.get("column_index_offset"),
        column_index_length=column.get("column_index_length"),
        offset_index_offset=column.get("offset_index_offset"),
        offset_index_length=column.get("offset_index_length"),
        file_path=column.get("file_path"),
    )


def _statistics(values: dict[str, Any]) -> Statistics:
    return Statistics(
        min_value=values.get("min_value"),
        max_value=values.get("max_value"),
        null_count=values.get("null_count"),
        distinct_count=values.get("distinct_count"),
        is_min_value_exact=values.get("is_min_value_exact"),
        is_max_value_exact=values.get("is_max_value_exact"),
        deprecated_min=values.get("min"),
        deprecated_max=values.get("max"),
    )


FOOTER = ids_of(FILE_META_DATA)
ORDINAL, GROUP_COLUMNS = (ids_of(ROW_GROUP)[name] for name in ("ordinal", "columns"))
CHUNK_META, CHUNK_SIZES = ids_of(COLUMN_CHUNK)["meta_data"], ids_of(COLUMN_META_DATA)["size_statistics"]
SIZES = ids_of(SIZE_STATISTICS)
ELEMENT_TYPE = ids_of(SCHEMA_ELEMENT)["type"]
VERSION = 1
"""The version in footers of QuestDB."""
ORDINAL_MAX = 0x7FFF


class RowGroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a row group's chunks start and end, and the bytes of its indexes and bloom filters.

    Only bloom filters outside of the chunks are counted; others are part of the span.
    """

    start_bytes: int
    end_bytes: int
    indexes_length_bytes: int
    blooms_length_bytes: int

    @property
    def unused_bytes(self) -> int:
        """What dropping the row group adds to UNUSED_BYTES, gaps between chunks included (docs/format.md)."""
        return self.end_bytes - self.start_bytes + self.indexes_length_bytes + self.blooms_length_bytes


class FooterParts(msgspec.Struct, frozen=True, kw_only=True):
    """A footer split into its row groups and all other `fields`, which have an empty list in their place.

    `ordinals` has the ordinal stored in each of `row_groups`, or None.
    """

    fields: Struct
    row_groups: tuple[bytes, ...]
    ordinals: tuple[int | None, ...]

    def encode(self) -> bytes:
        """Return the encoded footer; one that was only split is unchanged up to its stop byte."""
        old = next(field for field in self.fields.fields if field.id == FOOTER["row_groups"])
        assert isinstance(old.value, Items)
        row_groups = old._replace(value=old.value._replace(elements=self.row_groups))
        return encode(with_fields(self.fields, row_groups))

    def with_row_groups(self, row_groups: Sequence[bytes], row_count: int) -> FooterParts:
        """Return the footer of these row groups with `row_count` rows in total.

        A row group that keeps its index keeps its bytes; otherwise its stored ordinal, if any, is updated.
        """
        known = dict(zip(self.row_groups, self.ordinals, strict=True))
        ordinals = [known[raw] if raw in known else _ordinal_of(raw) for raw in row_groups]
        placed = list(row_groups)
        for index, (raw, ordinal) in enumerate(zip(row_groups, ordinals, strict=True)):
            stays = index < len(self.row_groups) and raw == self.row_groups[index]
            if ordinal is not None and ordinal != index and not stays:
                placed[index], ordinals[index] = _with_ordinal(raw, index)
        fields = with_fields(self.fields, Field(FOOTER["num_rows"], Kind.I64, row_count))
        if len(placed) != len(self.row_groups):
            fields = with_fields(fields, struct_list(FOOTER["row_groups"], ()))
        return FooterParts(fields=fields, row_groups=tuple(placed), ordinals=tuple(ordinals))

    def key_value(self, key: str) -> str | None:
        """Return the value of the first pair with this key, or None."""
        views = (read(pair, KEY_VALUE) for pair in self._pairs())
        return next((view.get("value") for view in views if view["key"] == key), None)

    def with_key_value(self, key: str, value: str) -> FooterParts:
        """Return the footer with this pair replacing the first one with the key, or appended."""
        pairs = self._pairs()
        index = next((index for index, pair in enumerate(pairs) if read(pair, KEY_VALUE)["key"] == key), len(pairs))
        pairs[index : index + 1] = [make(KEY_VALUE, key=key, value=value)]
        return replace(self, fields=with_fields(self.fields, struct_list(FOOTER["key_value_metadata"], pairs)))

    def same_schema(self, other: FooterParts) -> bool:
        """Return whether the schemas of both footers have the same bytes."""
        return self._schema_bytes() == other._schema_bytes()

    def _pairs(self) -> list[Struct]:
        for field in self.fields.fields:
            if field.id == FOOTER["key_value_metadata"] and field.kind == Kind.LIST and isinstance(field.value, Items):
                return [pair for pair in field.value.elements if isinstance(pair, Struct)]
        return []

    def _schema_bytes(self) -> bytes:
        return encode(Struct(tuple(field for field in self.fields.fields if field.id == FOOTER["schema"])))


def split_footer(
    footer_bytes: bytes, *, file: str, offset_bytes: int, node_count_max: int = NODE_COUNT_MAX
) -> FooterParts:
    """Split the footer at `offset_bytes` of `file`; bytes behind its stop byte are ignored.

    Row groups are only checked to be structs, everything else completely. Memory is that of one row group, which may
    have `node_count_max` nodes. Raises CorruptError, UnsupportedError.
    """
    path_of = FILE_META_DATA.path_text
    tree, length_bytes = decode(
        footer_bytes,
        file=file,
        offset_bytes=offset_bytes,
        node_count_max=node_count_max,
        path_of=path_of,
        shallow_list_id=FOOTER["row_groups"],
    )
    try:
        return _split(tree, footer_bytes, length_bytes - 1)
    except BrokenError as error:
        error.report(file, path_of)


def _split(tree: Struct, footer_bytes: bytes, end_bytes: int) -> FooterParts:
    ids = [field.id for field in tree.fields]
    if len(set(ids)) < len(ids):
        raise BrokenError("every field once", ids, tree.offset_bytes)
    rest, spans, ordinals = tree, [], []
    for field, following in itertools.zip_longest(tree.fields, tree.fields[1:]):
        items = field.value
        if field.id == FOOTER["row_groups"] and isinstance(items, Items) and items.element_kind == Kind.STRUCT:
            rest = with_fields(tree, field._replace(value=items._replace(elements=())))
            structs = [element for element in items.elements if isinstance(element, Struct)]
            ordinals = [_ordinal_in(struct) for struct in structs]
            spans = [struct.offset_bytes - tree.offset_bytes for struct in structs]
            spans.append((following.offset_bytes - tree.offset_bytes) if following else end_bytes)
    # A field that was not split off has the wrong wire type, which is rejected here.
    read(rest, FILE_META_DATA)
    row_groups = tuple(footer_bytes[start:end] for start, end in itertools.pairwise(spans))
    return FooterParts(fields=rest, row_groups=row_groups, ordinals=tuple(ordinals))


def _ordinal_in(row_group: Struct) -> int | None:
    for field in row_group.fields:
        if field.id == ORDINAL and field.kind == Kind.I16:
            value = field.value.value if isinstance(field.value, Padded) else field.value
            assert isinstance(value, int)
            return value
    return None


def empty_footer(schema: Sequence[Struct], key_values: Mapping[str, str], created_by: str) -> FooterParts:
    """Return the footer of a file without row groups, for its schema's elements, the root first.

    Its column orders declare that bounds are in the order of each type; otherwise readers ignore the bounds.
    """
    leaf_count = sum(value_of(element, ELEMENT_TYPE) is not None for element in schema)
    fields = make(
        FILE_META_DATA,
        version=VERSION,
        schema=schema,
        num_rows=0,
        row_groups=(),
        key_value_metadata=[make(KEY_VALUE, key=key, value=value) for key, value in key_values.items()],
        created_by=created_by,
        column_orders=[make(COLUMN_ORDER, TYPE_ORDER=Struct(()))] * leaf_count,
    )
    return FooterParts(fields=fields, row_groups=(), ordinals=())


def file_tail(footer: bytes) -> bytes:
    """Return the end of a file: the footer, its length, the magic bytes."""
    return footer + ParquetTail(footer_length=len(footer), magic=MAGIC).pack()


def row_group_facts(row_group: bytes, *, file: str = DATA_FILE) -> RowGroupFacts:
    """Return the facts of an encoded row group; raises CorruptError if they are missing or lengths are negative."""
    tree, _ = decode(row_group, file=file, path_of=ROW_GROUP.path_text)
    try:
        chunks = read(tree, ROW_GROUP)["columns"]
    except BrokenError as error:
        error.report(file, ROW_GROUP.path_text)
    metas = [chunk["meta_data"] for chunk in chunks]
    starts = [start_of(meta) for meta in metas]
    ends = [start + meta["total_compressed_size"] for start, meta in zip(starts, metas, strict=True)]
    start, end = min(starts, default=0), max(ends, default=0)
    blooms = [(meta.get("bloom_filter_offset", start), meta.get("bloom_filter_length", 0)) for meta in metas]
    return RowGroupFacts(
        start_bytes=start,
        end_bytes=end,
        indexes_length_bytes=sum(
            chunk.get("column_index_length", 0) + chunk.get("offset_index_length", 0) for chunk in chunks
        ),
        blooms_length_bytes=sum(length for offset, length in blooms if not start <= offset < end),
    )


def unused_bytes_of(row_group: bytes, *, file: str = DATA_FILE) -> int:
    """Return what dropping an encoded row group adds to UNUSED_BYTES; raises CorruptError."""
    return row_group_facts(row_group, file=file).unused_bytes


def _ordinal_of(row_group: bytes) -> int | None:
    return _ordinal_in(decode(row_group, file=DATA_FILE)[0])


def _with_ordinal(row_group: bytes, index: int) -> tuple[bytes, int | None]:
    """Return the row group with `index` as its ordinal, or without an ordinal if that has more than 16 bits."""
    tree, _ = decode(row_group, file=DATA_FILE)
    if index > ORDINAL_MAX:
        return encode(without(tree, ORDINAL)), None
    return encode(with_fields(tree, Field(ORDINAL, Kind.I16, index))), index
