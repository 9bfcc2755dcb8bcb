"""Parquet files with what QuestDB's own converter made of them, and small Parquet files made to be converted."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
from parquet_files import written

from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.migrate.convert import ConversionMode, convert
from tornproof.impl.migrate.rejections import Cause, RejectedCorruptError, RejectedUnsupportedError
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, Value, decode, encode
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.chain import Metadata, check_checksum, decode_metadata, walk

FILE = "data.parquet"
META = (4, [0], 1, [0], 3)
"""The metadata of the first chunk, and its statistics, as steps into a footer."""
STATISTICS = (*META, 12)
MS, US, NS = pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")
TOOL, SERVER = ConversionMode.TOOL, ConversionMode.SERVER
REGENERATED = golden_data.files("tables/*/*/regenerated/*")
MIGRATED = golden_data.files("legacy/*/*/migrated/*")
EXTERNAL = tuple(name.removesuffix(".pm") for name in golden_data.files("external/*.pm"))
REJECTED = tuple(
    name.removesuffix(".footer")
    for name in golden_data.files("external/*.footer")
    if name.removesuffix(".footer") not in EXTERNAL
)
VECTORS = tuple(name.removesuffix(".parquet") for name in golden_data.files("vectors/*.parquet"))
SERVER_MODE = golden_data.files("server-mode/*.pm")


class Source(NamedTuple):
    """A Parquet file of which only the last bytes need be there."""

    size_bytes: int
    tail: bytes

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        """Return bytes of the file."""
        start = offset_bytes - (self.size_bytes - len(self.tail))
        assert start >= 0, "read before the footer"
        return self.tail[start : start + size_bytes]


def whole(content: bytes) -> Source:
    """Return a file with all of its bytes."""
    return Source(len(content), content)


def external(questdb_data: Path, name: str) -> Source:
    """Return a public file, `external/NAME`, of which the footer is there."""
    sizes = json.loads((questdb_data / "external/sizes.json").read_text())
    return Source(sizes[PurePosixPath(name).name], (questdb_data / f"{name}.footer").read_bytes())


def partition(questdb_data: Path, pm_name: str) -> Source:
    """Return the data.parquet of a table from which the converter made `pm_name`."""
    position = PurePosixPath(pm_name)
    data = questdb_data / position.parents[1] / "table" / position.stem / "data.parquet"
    return whole(data.read_bytes())


def converted(source: Source | bytes, mode: ConversionMode = SERVER, *, as_questdb: bool = False) -> bytes:
    """Return the `_pm` of a file."""
    source = whole(source) if isinstance(source, bytes) else source
    return convert(source.read, size_bytes=source.size_bytes, file=FILE, mode=mode, as_questdb=as_questdb)


def decoded(pm: bytes) -> Metadata:
    """Return the only generation of a `_pm` after checking that it is published, and its CRC."""
    assert int.from_bytes(pm[:8], "little") == len(pm)
    (position,) = walk(pm, file="_pm")
    check_checksum(pm, position, file="_pm")
    return decode_metadata(pm, position, file="_pm")


def cause_of(source: Source | bytes, mode: ConversionMode = SERVER, *, as_questdb: bool = False) -> Cause | None:
    """Return why a file is refused, None for one that is converted."""
    try:
        converted(source, mode, as_questdb=as_questdb)
    except (RejectedCorruptError, RejectedUnsupportedError) as error:
        assert error.problem.file == FILE
        return error.cause
    return None


def footer_tree(content: bytes) -> Struct:
    """Return the footer of a file as a tree."""
    length = ParquetTail.unpack(content, len(content) - 8, file=FILE).footer_length
    return decode(content[-8 - length :], file=FILE)[0]


def meta_fields(content: bytes) -> tuple[Field, ...]:
    """Return the fields of the first chunk's metadata."""
    node: Any = footer_tree(content)
    for step in (4, 1, 3):
        node = next(field.value for field in node.fields if field.id == step)
        node = node.elements[0] if isinstance(node, Items) else node
    fields: tuple[Field, ...] = node.fields
    return fields


def with_footer(content: bytes, footer: bytes | Struct) -> bytes:
    """Return the file with another footer."""
    length = ParquetTail.unpack(content, len(content) - 8, file=FILE).footer_length
    raw = footer if isinstance(footer, bytes) else encode(footer)
    return content[: -8 - length] + raw + ParquetTail(footer_length=len(raw), magic=MAGIC).pack()


PLAIN = written(pa.table({"v": pa.array(range(6)), "w": pa.array(["a", "b"] * 3)}), row_group_size=3)
Change = Callable[[Value | None], Value | None]


def changed(node: Any, path: tuple[int | list[int], ...], change: Change, kind: Kind | None = None) -> Any:
    """Return a tree with the value at `path` changed, added where it is absent, or removed.

    Steps are ids of fields, and places in lists as lists of one; `kind` is the wire type of a new value.
    """
    if not path:
        return change(node)
    step, *rest = path
    if isinstance(step, list):
        (position,) = step
        value = changed(node.elements[position], tuple(rest), change, kind)
        return node._replace(elements=(*node.elements[:position], value, *node.elements[position + 1 :]))
    old = next((field for field in node.fields if field.id == step), None)
    value = changed(old.value if old else None, tuple(rest), change, kind)
    fields = [field for field in node.fields if field.id != step]
    if value is not None:
        new_kind = kind if kind is not None and not rest else old.kind if old else _kind_of(value)
        fields.append(Field(step, new_kind, value))
    return node._replace(fields=tuple(sorted(fields, key=lambda field: field.id)))


def edited(content: bytes, path: tuple[int | list[int], ...], value: Value | None, kind: Kind | None = None) -> bytes:
    """Return the file with one value of its footer set, or removed."""
    return with_footer(content, changed(footer_tree(content), path, lambda _: value, kind))


def _kind_of(value: Value) -> Kind:
    kinds = {bytes: Kind.BINARY, bool: Kind.BOOL, Struct: Kind.STRUCT, Items: Kind.LIST}
    return kinds.get(type(value), Kind.I32)


def struct(*fields: tuple[int, Kind, Value]) -> Struct:
    """Return a struct of fields given as (id, wire type, value)."""
    return Struct(tuple(Field(*field) for field in fields))


def schema_element(name: str = "x", **fields: Any) -> Struct:
    """Return an element of a schema by the names of parquet.thrift."""
    ids = {
        "type": (1, Kind.I32),
        "type_length": (2, Kind.I32),
        "repetition": (3, Kind.I32),
        "children": (5, Kind.I32),
        "converted": (6, Kind.I32),
        "scale": (7, Kind.I32),
        "precision": (8, Kind.I32),
        "field_id": (9, Kind.I32),
        "logical": (10, Kind.STRUCT),
    }
    named = [(*ids[key], value) for key, value in fields.items() if value is not None]
    return struct(*sorted([*named, (4, Kind.BINARY, name.encode())]))


def file_of(
    *elements: Struct, row_groups: tuple[Struct, ...] = (), more: tuple[tuple[int, Kind, Value], ...] = ()
) -> bytes:
    """Return a file that is all footer, of a schema given with its root."""
    footer = struct(
        (1, Kind.I32, 2),
        (2, Kind.LIST, Items(Kind.STRUCT, elements)),
        (3, Kind.I64, 0),
        (4, Kind.LIST, Items(Kind.STRUCT, row_groups)),
        *more,
    )
    raw = encode(footer)
    return MAGIC + raw + ParquetTail(footer_length=len(raw), magic=MAGIC).pack()


def file_of_leaf(**fields: Any) -> bytes:
    """Return a file with one optional leaf, described as by `schema_element`."""
    return file_of(schema_element("root", children=1), schema_element("x", **({"repetition": 1} | fields)))


def file_of_type(**fields: Any) -> int:
    """Return the TYPE that the only column of such a file gets."""
    (column,) = decoded(converted(file_of_leaf(**fields))).header.columns
    return column.type


def logical(number: int, *fields: tuple[int, Kind, Value]) -> Struct:
    """Return a logical type by its number in the union."""
    return struct((number, Kind.STRUCT, struct(*fields)))


def first_chunk(content: bytes, mode: ConversionMode = SERVER, *, as_questdb: bool = False) -> Chunk:
    """Return the first chunk of a converted file."""
    return decoded(converted(content, mode, as_questdb=as_questdb)).blocks[0].chunks[0]


def text_bounds(chunk: Chunk) -> tuple[bytes | None, bytes | None]:
    """Return the bytes of minimum and maximum, None where absent."""
    low, high = chunk.minimum, chunk.maximum
    return low.value if low else None, high.value if high else None


def sorted_by(*entries: tuple[int, bool], nulls_first: bool = False) -> Items:
    """Return sorting columns given as (index, is descending)."""
    return Items(
        Kind.STRUCT,
        tuple(
            struct((1, Kind.I32, index), (2, Kind.BOOL, descending), (3, Kind.BOOL, nulls_first))
            for index, descending in entries
        ),
    )


def timestamps(unit: pa.DataType = US, *, nullable: bool = False, rows: int = 4, **options: Any) -> bytes:
    """Return a file of timestamps 10, 11 and so on, and of a number."""
    schema = pa.schema([pa.field("ts", unit, nullable=nullable), pa.field("v", pa.int64())])
    table = pa.table([pa.array(range(10, 10 + rows), pa.int64()).cast(unit), pa.array(range(rows))], schema=schema)
    return written(table, **({"row_group_size": 2} | options))


def with_json(content: bytes, schema: Any, **members: Any) -> bytes:
    """Return the file with the JSON of a table of these columns."""
    return with_text(content, json.dumps({"version": 1, "schema": schema} | members))


def with_text(content: bytes, *texts: str | None) -> bytes:
    """Return the file with these values of the key `questdb`, and no other key."""
    pairs = tuple(
        struct((1, Kind.BINARY, b"questdb"), *([(2, Kind.BINARY, text.encode())] if text is not None else []))
        for text in texts
    )
    return edited(content, (5,), Items(Kind.STRUCT, pairs))


def chunks_of(metadata: Metadata) -> list[tuple[Any, ...]]:
    """Return what a `_pm` says of every chunk, row group by row group."""
    return [
        (Codec(chunk.codec).name, chunk.num_values, chunk.byte_range_start, chunk.total_compressed, chunk.null_count)
        for block in metadata.blocks
        for chunk in block.chunks
    ]


def chunks_in(metadata: pq.FileMetaData) -> list[tuple[Any, ...]]:
    """Return what pyarrow says of them."""
    found = []
    for ordinal, index in itertools.product(range(metadata.num_row_groups), range(metadata.num_columns)):
        chunk = metadata.row_group(ordinal).column(index)
        # pyarrow takes a dictionary at offset 0 for none only in part of its interface.
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        statistics = chunk.statistics if chunk.is_stats_set else None
        nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
        codec = "LZ4_RAW" if chunk.compression == "LZ4" else chunk.compression
        found.append((codec, chunk.num_values, start, chunk.total_compressed_size, nulls))
    return found
