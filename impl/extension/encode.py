"""A Thrift footer as a FlatBuffers footer, from which `decode.py` makes the very same Thrift bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flatbuffers
import msgspec
import numpy as np
from flatbuffers.builder import BuilderSizeError

from tornproof.impl.errors import UnsupportedError
from tornproof.impl.extension import parquet3_generated as schema
from tornproof.impl.extension.chunks import (
    I32_MAX,
    I64_MAX,
    NUMBERED,
    ChunkArrays,
    ChunkFacts,
    bytes_in,
    chunk_facts,
    chunk_tables,
    integer_in,
)
from tornproof.impl.extension.columnar import ColumnarTables
from tornproof.impl.extension.logical import logical_type
from tornproof.impl.extension.skeleton import Stated, skeleton_of
from tornproof.impl.parquet.fields import FILE_META_DATA, KEY_VALUE, ROW_GROUP, SCHEMA_ELEMENT, SORTING_COLUMN, ids_of
from tornproof.impl.parquet.footer import ParquetFooter, decode_footer
from tornproof.impl.parquet.schema import SchemaLeaf, read_element
from tornproof.impl.parquet.thrift import Struct, Value, structs_in
from tornproof.impl.storage.checksum import large_crc32

FILE, GROUP, ELEMENT, PAIR, SORTING = map(
    ids_of, (FILE_META_DATA, ROW_GROUP, SCHEMA_ELEMENT, KEY_VALUE, SORTING_COLUMN)
)
I16_MAX = (1 << 15) - 1
THRIFT_SIZE_MAX_BYTES = 256 << 20
"""More would take too much memory to decode."""
LISTS = tuple(FILE[name] for name in ("schema", "row_groups", "key_value_metadata"))
BUFFER_SIZE_BYTES = 1 << 16


def flatbuffer_of(thrift: bytes, *, file: str, extension: bytes = b"") -> bytes:
    """Return the FlatBuffers footer of an encoded Thrift footer; `extension` is one of the new footer itself.

    Raises CorruptError for bytes that are no footer, and UnsupportedError for encrypted columns, bytes behind the
    struct, and more than the limits.
    """
    if len(thrift) > THRIFT_SIZE_MAX_BYTES:
        expected = f"at most {THRIFT_SIZE_MAX_BYTES} bytes to make another footer of"
        raise UnsupportedError(file, "footer_length", None, expected, len(thrift))
    footer = decode_footer(thrift, file=file, offset_bytes=0)
    if footer.length_bytes != len(thrift):
        behind = len(thrift) - footer.length_bytes
        raise UnsupportedError(file, "footer", footer.length_bytes, "no bytes behind its stop byte", behind)
    if any(each.id == FILE["encryption_algorithm"] for each in footer.tree.fields):
        raise UnsupportedError(file, "encryption_algorithm", None, "columns that are not encrypted", "encrypted ones")
    try:
        return _Encoding(footer, thrift).build(extension)
    except BuilderSizeError:
        raise UnsupportedError(file, "footer", None, "a FlatBuffers footer of at most 2 GiB", "more") from None


class _Rest(msgspec.Struct):
    """What goes into the table of the same name."""

    skeletons: dict[bytes, int] = msgspec.field(default_factory=dict)
    indexes: dict[str, list[int]] = msgspec.field(default_factory=dict)
    numbers: list[int] = msgspec.field(default_factory=list)

    def add(self, name: str, struct: Struct, stated: Stated, **numbered: Any) -> None:
        """Add the skeleton of the next struct of a kind."""
        skeleton, numbers = skeleton_of(struct, stated, **numbered)
        self.indexes.setdefault(name, []).append(self.skeletons.setdefault(skeleton, len(self.skeletons)))
        self.numbers += numbers


class _Encoding:
    """One footer on its way; FlatBuffers are built from the leaves to the root."""

    def __init__(self, footer: ParquetFooter, thrift: bytes) -> None:
        self._tree, self._leaves, self._thrift = footer.tree, footer.leaves, thrift
        self._builder = flatbuffers.Builder(BUFFER_SIZE_BYTES)
        self._rest = _Rest()

    def build(self, extension: bytes) -> bytes:
        lists = {each: structs_in(self._tree, each) for each in LISTS}
        elements, groups, pairs = lists.values()
        group_vector = self._row_groups(groups)
        pair_vector = self._pairs(pairs)
        element_vector = self._elements(elements)
        created_by = self._text(self._tree, FILE["created_by"])
        facts = file_facts(self._tree)
        version, num_rows, _ = facts
        self._rest.add("file", self._tree, file_stated(facts, lists))
        rest = self._rest_table()
        extension_vector = self._builder.CreateByteVector(extension) if extension else 0
        builder = self._builder
        schema.FileMetaDataStart(builder)
        schema.FileMetaDataAddVersion(builder, version)
        schema.FileMetaDataAddSchema(builder, element_vector)
        schema.FileMetaDataAddNumRows(builder, num_rows)
        schema.FileMetaDataAddRowGroups(builder, group_vector)
        if pairs:
            schema.FileMetaDataAddKv(builder, pair_vector)
        if created_by:
            schema.FileMetaDataAddCreatedBy(builder, created_by)
        schema.FileMetaDataAddRest(builder, rest)
        if extension:
            schema.FileMetaDataAddExtension(builder, extension_vector)
        builder.Finish(schema.FileMetaDataEnd(builder))
        return bytes(builder.Output())

    def _row_groups(self, groups: Sequence[Struct]) -> int:
        facts: list[ChunkFacts] = []
        row_counts: list[int] = []
        for group in groups:
            chunks = structs_in(group, GROUP["columns"])
            row_count = integer_in(group, GROUP["num_rows"], I64_MAX) or 0
            for chunk, leaf in zip(chunks, self._leaves, strict=True):
                own = chunk_facts(chunk, leaf.physical_type, row_count)
                self._rest.add("columns", chunk, own.stated(leaf.physical_type, leaf_path(leaf)), numbered=NUMBERED)
                facts.append(own)
                row_counts.append(row_count)
            self._rest.add("row_groups", group, group_stated(group_facts(group), chunks))
        positions = chunk_tables(self._builder, ChunkArrays.of(facts, row_counts))
        of_groups = positions.reshape(len(groups), len(self._leaves))
        return row_group_vector(
            self._builder,
            [
                (chunks, group_facts(group), structs_in(group, GROUP["sorting_columns"]))
                for group, chunks in zip(groups, of_groups, strict=True)
            ],
        )

    def _pairs(self, pairs: Sequence[Struct]) -> int:
        builder, offsets = self._builder, []
        for pair in pairs:
            key, value = self._text(pair, PAIR["key"]), self._text(pair, PAIR["value"])
            schema.KeyValueStart(builder)
            if key:
                schema.KeyValueAddKey(builder, key)
            if value:
                schema.KeyValueAddVal(builder, value)
            offsets.append(schema.KeyValueEnd(builder))
            texts = text_in(pair, PAIR["key"]), text_in(pair, PAIR["value"])
            self._rest.add("key_values", pair, pair_stated(*texts))
        return self._vector(schema.FileMetaDataStartKvVector, offsets)

    def _elements(self, elements: Sequence[Struct]) -> int:
        builder, offsets = self._builder, []
        for element in elements:
            name = self._text(element, ELEMENT["name"])
            kind, logical = logical_type(builder, read_element(element))
            facts = element_facts(element)
            order = _empty(builder) if facts["type"] is not None else 0
            schema.SchemaElementStart(builder)
            if name:
                schema.SchemaElementAddName(builder, name)
            for fact, value in facts.items():
                if value is not None:
                    getattr(schema, f"SchemaElementAdd{fact.title().replace('_', '')}")(builder, value)
            if kind:
                schema.SchemaElementAddLogicalTypeType(builder, kind)
                schema.SchemaElementAddLogicalType(builder, logical)
            if order:
                schema.SchemaElementAddColumnOrderType(builder, schema.ColumnOrder.TypeDefinedOrder)
                schema.SchemaElementAddColumnOrder(builder, order)
            offsets.append(schema.SchemaElementEnd(builder))
            self._rest.add("schema", element, element_stated(facts, text_in(element, ELEMENT["name"])))
        return self._vector(schema.FileMetaDataStartSchemaVector, offsets)

    def _rest_table(self) -> int:
        builder, rest = self._builder, self._rest
        offsets = []
        for skeleton in rest.skeletons:
            content = builder.CreateByteVector(skeleton)
            schema.SkeletonStart(builder)
            schema.SkeletonAddContent(builder, content)
            offsets.append(schema.SkeletonEnd(builder))
        skeletons = self._vector(schema.RestStartSkeletonsVector, offsets)
        names = ("schema", "key_values", "row_groups", "columns")
        vectors = {name: builder.CreateNumpyVector(np.array(rest.indexes.get(name, ()), np.uint32)) for name in names}
        numbers = builder.CreateNumpyVector(np.array(rest.numbers, np.int64))
        schema.RestStart(builder)
        schema.RestAddThriftSize(builder, len(self._thrift))
        schema.RestAddThriftCrc(builder, large_crc32(self._thrift))
        schema.RestAddSkeletons(builder, skeletons)
        schema.RestAddFile(builder, rest.indexes["file"][0])
        schema.RestAddSchema(builder, vectors["schema"])
        schema.RestAddKeyValues(builder, vectors["key_values"])
        schema.RestAddRowGroups(builder, vectors["row_groups"])
        schema.RestAddColumns(builder, vectors["columns"])
        schema.RestAddNumbers(builder, numbers)
        return schema.RestEnd(builder)

    def _text(self, struct: Struct, field_id: int) -> int:
        text = text_in(struct, field_id)
        return 0 if text is None else self._builder.CreateString(text)

    def _vector(self, start: Callable[[Any, int], int], offsets: Sequence[int]) -> int:
        start(self._builder, len(offsets))
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())


RowGroupParts = tuple[Any, Mapping[str, int | None], Sequence[Struct]]


def row_group_vector(builder: flatbuffers.Builder, groups: Sequence[RowGroupParts]) -> int:
    """Add the row groups, each of the positions of its chunks, its numbers and its sorting columns; return a vector."""
    tables = ColumnarTables(builder, 0)
    offsets = []
    for positions, facts, sorting in groups:
        columns = tables.vector(positions)
        sorted_by = [_sorting_column(builder, each) for each in sorting]
        sorting_vector = tables.vector(np.array(sorted_by, np.int64)) if sorted_by else 0
        schema.RowGroupStart(builder)
        schema.RowGroupAddColumns(builder, columns)
        for name, value in facts.items():
            if value is not None:
                getattr(schema, f"RowGroupAdd{name.title().replace('_', '')}")(builder, value)
        if sorting_vector:
            schema.RowGroupAddSortingColumns(builder, sorting_vector)
        offsets.append(schema.RowGroupEnd(builder))
    return tables.vector(np.array(offsets, np.int64))


def _sorting_column(builder: flatbuffers.Builder, entry: Struct) -> int:
    flags = {each.id: each.value is True for each in entry.fields}
    schema.SortingColumnStart(builder)
    schema.SortingColumnAddColumnIdx(builder, integer_in(entry, SORTING["column_index"], I32_MAX) or 0)
    schema.SortingColumnAddDescending(builder, flags.get(SORTING["descending"], False))
    schema.SortingColumnAddNullsFirst(builder, flags.get(SORTING["nulls_first"], False))
    return schema.SortingColumnEnd(builder)


def _empty(builder: flatbuffers.Builder) -> int:
    schema.EmptyStart(builder)
    return schema.EmptyEnd(builder)


def text_in(struct: Struct, field_id: int) -> bytes | None:
    """Return a text of a struct, None where it is absent or not UTF-8, which strings of FlatBuffers must be."""
    text = bytes_in(struct, field_id)
    try:
        return text if text is None or text.decode() is not None else None
    except UnicodeDecodeError:
        return None


def file_facts(tree: Struct) -> tuple[int, int, bytes | None]:
    """Return what the schema says of the file itself: version, rows, who created it."""
    version = integer_in(tree, FILE["version"], I32_MAX) or 0
    return version, integer_in(tree, FILE["num_rows"], I64_MAX) or 0, text_in(tree, FILE["created_by"])


def group_facts(group: Struct) -> dict[str, int | None]:
    """Return the numbers that the schema has of a row group."""
    names = ("total_byte_size", "num_rows", "file_offset", "total_compressed_size")
    numbers: dict[str, int | None] = {name: integer_in(group, GROUP[name], I64_MAX) or 0 for name in names}
    return {**numbers, "ordinal": integer_in(group, GROUP["ordinal"], I16_MAX)}


def group_stated(facts: Mapping[str, int | None], chunks: tuple[Value, ...]) -> Stated:
    """Return a row group's members by their ids, from what the schema says and its chunks."""
    return {(GROUP["columns"],): chunks, **_present({(GROUP[name],): value for name, value in facts.items()})}


def element_facts(element: Struct) -> dict[str, int | None]:
    """Return the numbers that the schema has of a schema element."""
    limits = {"type": 7, "repetition_type": 2}
    names = ("type", "repetition_type", "type_length", "num_children", "field_id")
    numbers = {name: integer_in(element, ELEMENT[name], limits.get(name, I32_MAX)) for name in names}
    return {**numbers, "num_children": numbers["num_children"] or 0}


def element_stated(facts: Mapping[str, int | None], name: bytes | None) -> Stated:
    """Return a schema element's members by their ids."""
    return _present({(ELEMENT["name"],): name, **{(ELEMENT[each],): value for each, value in facts.items()}})


def pair_stated(key: bytes | None, value: bytes | None) -> Stated:
    """Return a key-value pair's members by their ids."""
    return _present({(PAIR["key"],): key, (PAIR["value"],): value})


def file_stated(facts: tuple[int, int, bytes | None], lists: Mapping[int, tuple[Value, ...]]) -> Stated:
    """Return the footer's members by their ids, from what the schema says and the structs in its lists."""
    names = ("version", "num_rows", "created_by")
    own: dict[tuple[int, ...], Any] = {(FILE[name],): value for name, value in zip(names, facts, strict=True)}
    return {**_present(own), **{(each,): structs for each, structs in lists.items()}}


def leaf_path(leaf: SchemaLeaf) -> tuple[bytes, ...]:
    """Return the path of a column as Thrift stores it."""
    return tuple(name.encode() for name in leaf.path)


def _present(members: Mapping[tuple[int, ...], Any]) -> Stated:
    return {path: value for path, value in members.items() if value is not None}
