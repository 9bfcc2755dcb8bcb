"""The JSON document of any Parquet file, from its Thrift footer alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from impl.errors import CorruptError, Problem, ProblemError, UnsupportedError
from impl.layout.parquet import MAGIC
from impl.parquet.fields import FILE_META_DATA
from impl.parquet.footer import (
    TAIL_SIZE_BYTES,
    ColumnChunk,
    ParquetFooter,
    RowGroup,
    Statistics,
    decode_footer,
    read_footer_tail,
)
from impl.parquet.schema import SchemaLeaf
from impl.parquet.tree import Field, Items, Kind, Padded, Step, Struct, Value
from impl.storage import ReadableStorage
from tornproof.inspection.parquet_values import (
    CONVERTED_NAMES,
    ENCODING_NAMES,
    LogicalType,
    logical_type,
    logical_type_text,
    parquet_value,
)
from tornproof.inspection.report import FORMAT, Document, Problems

FOOTER_LIMIT_BYTES = 256 * 1024 * 1024
# A Thrift encoder writes field 32767 as a zigzag number; written plainly, its bytes decode as another id.
EXTENSION_FORMS = {32767: "zigzag", -16384: "plain"}


@dataclass(slots=True, kw_only=True)
class ParquetFile:
    """A Parquet file's last footer before `end_bytes`; None where it does not decode."""

    file: str
    size_bytes: int
    end_bytes: int
    footer_offset_bytes: int | None = None
    footer_length_bytes: int | None = None
    footer: ParquetFooter | None = None


def read_parquet_file(
    storage: ReadableStorage, path: str, at: int | None, problems: Problems, *, file: str
) -> ParquetFile:
    """Read the footer that ends at `at`, without one at the file's end; UnsupportedError above 256 MiB of footer."""
    with storage.open_for_reading(path) as handle:
        size_bytes = handle.size_bytes()
        found = ParquetFile(file=file, size_bytes=size_bytes, end_bytes=size_bytes if at is None else at)
        if found.end_bytes > size_bytes:
            expected = f"{found.end_bytes} bytes or more, the token"
            problems.append(_problem(file, "size", None, expected, f"{size_bytes} bytes"))
            return found
        if handle.pread(len(MAGIC), 0) != MAGIC:
            problems.append(_problem(file, "leading magic", 0, MAGIC, handle.pread(len(MAGIC), 0)))
        with problems.noted():
            tail = handle.pread(TAIL_SIZE_BYTES, max(found.end_bytes - TAIL_SIZE_BYTES, 0))
            offset_bytes, length_bytes = read_footer_tail(tail, file=file, token=found.end_bytes)
            found.footer_offset_bytes, found.footer_length_bytes = offset_bytes, length_bytes
        if found.footer_length_bytes is None or found.footer_offset_bytes is None:
            return found
        if found.footer_length_bytes > FOOTER_LIMIT_BYTES:
            raise UnsupportedError(
                file=file,
                field="footer_length",
                offset_bytes=found.end_bytes - TAIL_SIZE_BYTES,
                expected=f"at most {FOOTER_LIMIT_BYTES} bytes",
                actual=found.footer_length_bytes,
            )
        content = handle.pread(found.footer_length_bytes, found.footer_offset_bytes)
    _decode(found, content, problems)
    return found


def _decode(found: ParquetFile, content: bytes, problems: Problems) -> None:
    """Decode strictly and, where that fails, once more as QuestDB's converter does, which takes negative counts."""
    assert found.footer_offset_bytes is not None
    try:
        found.footer = decode_footer(content, file=found.file, offset_bytes=found.footer_offset_bytes)
    except ProblemError as error:
        problems.append(error.problem)
        if isinstance(error, CorruptError):
            with problems.noted():
                found.footer = decode_footer(
                    content, file=found.file, offset_bytes=found.footer_offset_bytes, tolerant=True
                )
        return
    problems.extend(_contradictions(found, found.footer))


def _problem(file: str, field: str, offset_bytes: int | None, expected: object, actual: object) -> Problem:
    return Problem(file=file, field=field, offset_bytes=offset_bytes, expected=str(expected), actual=str(actual))


def _contradictions(found: ParquetFile, footer: ParquetFooter) -> Iterator[Problem]:
    row_count = sum(row_group.num_rows for row_group in footer.row_groups)
    if row_count != footer.num_rows:
        yield _problem(
            found.file, "num_rows", footer.offset_bytes, f"{row_count}, the rows of the row groups", footer.num_rows
        )
    for ordinal, row_group in enumerate(footer.row_groups):
        for index, chunk in enumerate(row_group.chunks):
            end_bytes = first_page_offset(chunk) + chunk.total_compressed_size
            if not chunk.file_path and end_bytes > footer.offset_bytes:
                field = f"row_groups[{ordinal}].columns[{index}].total_compressed_size"
                expected = f"a chunk that ends by byte {footer.offset_bytes}, the footer"
                yield _problem(found.file, field, chunk.offset_bytes, expected, end_bytes)


def first_page_offset(chunk: ColumnChunk) -> int:
    """Return where the chunk's bytes start: a dictionary page, if any, stands before the data pages."""
    return min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)


def parquet_document(found: ParquetFile, problems: Problems) -> Document:
    """Return the document of a Parquet file."""
    footer = found.footer
    leaves = footer.leaves if footer else ()
    logical = [logical_type(leaf.element) for leaf in leaves]
    return {
        "format": FORMAT,
        "kind": "parquet",
        "file": found.file,
        "size_bytes": found.size_bytes,
        "problems": problems.documents(),
        "token": found.end_bytes,
        "footer_offset_bytes": found.footer_offset_bytes,
        "footer_length_bytes": found.footer_length_bytes,
        "version": footer.version if footer else None,
        "created_by": footer.created_by if footer else None,
        "num_rows": footer.num_rows if footer else None,
        "schema": [_leaf_document(index, leaf) for index, leaf in enumerate(leaves)],
        "row_groups": [
            _row_group_document(ordinal, row_group, leaves, logical)
            for ordinal, row_group in enumerate(footer.row_groups if footer else ())
        ],
        "key_values": [{"key": key, "value": value} for key, value in (footer.key_values if footer else ())],
        "extensions": list(_extensions(footer.tree)) if footer else [],
    }


def _leaf_document(index: int, leaf: SchemaLeaf) -> Document:
    converted = leaf.element.converted_type
    return {
        "index": index,
        "path": list(leaf.path),
        "physical_type": leaf.physical_type.name,
        "type_length": leaf.element.type_length,
        "logical_type": logical_type_text(leaf.element),
        "converted_type": CONVERTED_NAMES[converted]
        if converted is not None and 0 <= converted < len(CONVERTED_NAMES)
        else converted,
        "repetition": leaf.repetition.name,
        "max_rep_level": leaf.max_rep,
        "max_def_level": leaf.max_def,
        "field_id": leaf.element.field_id,
    }


def _row_group_document(
    ordinal: int, row_group: RowGroup, leaves: tuple[SchemaLeaf, ...], logical: list[LogicalType | None]
) -> Document:
    return {
        "index": ordinal,
        "rows": row_group.num_rows,
        "total_byte_size": row_group.total_byte_size,
        "sorting": [
            {"column": entry.column_index, "descending": entry.descending, "nulls_first": entry.nulls_first}
            for entry in row_group.sorting_columns
        ],
        "chunks": [
            _chunk_document(index, chunk, leaf, kind)
            for index, (chunk, leaf, kind) in enumerate(zip(row_group.chunks, leaves, logical, strict=True))
        ],
    }


def _chunk_document(index: int, chunk: ColumnChunk, leaf: SchemaLeaf, logical: LogicalType | None) -> Document:
    statistics = chunk.statistics
    start = first_page_offset(chunk)
    return {
        "column": index,
        "path": list(chunk.path_in_schema),
        "codec": chunk.codec.name,
        "encodings": [ENCODING_NAMES.get(encoding, encoding) for encoding in chunk.encodings],
        "num_values": chunk.num_values,
        "byte_range_start": start,
        "byte_range_end": start + chunk.total_compressed_size,
        "total_compressed": chunk.total_compressed_size,
        "total_uncompressed": chunk.total_uncompressed_size,
        "data_page_offset": chunk.data_page_offset,
        "dictionary_page_offset": chunk.dictionary_page_offset,
        "null_count": statistics.null_count if statistics else None,
        "distinct_count": statistics.distinct_count if statistics else None,
        "min": _bound_document(statistics, "min", leaf, logical) if statistics else None,
        "max": _bound_document(statistics, "max", leaf, logical) if statistics else None,
        "bloom": _place(chunk.bloom_filter_offset, chunk.bloom_filter_length),
        "column_index": _place(chunk.column_index_offset, chunk.column_index_length),
        "offset_index": _place(chunk.offset_index_offset, chunk.offset_index_length),
        "file_path": chunk.file_path,
    }


def _place(offset_bytes: int | None, length_bytes: int | None) -> Document | None:
    return None if offset_bytes is None else {"offset_bytes": offset_bytes, "length_bytes": length_bytes}


def _bound_document(
    statistics: Statistics, name: str, leaf: SchemaLeaf, logical: LogicalType | None
) -> Document | None:
    raw: bytes | None = getattr(statistics, f"{name}_value")
    is_deprecated = raw is None
    if is_deprecated:
        raw = getattr(statistics, f"deprecated_{name}")
    if raw is None:
        return None
    return {
        "value": parquet_value(leaf, logical, raw),
        "hex": raw.hex(),
        "exact": getattr(statistics, f"is_{name}_value_exact"),
        "deprecated": is_deprecated,
    }


def _extensions(tree: Struct) -> Iterator[Document]:
    """Yield every field with the extension's id, in whichever struct; `form` says how its id is written."""
    pending: list[tuple[Value, tuple[Step, ...]]] = [(tree, ())]
    while pending:
        value, steps = pending.pop()
        if isinstance(value, Struct):
            for field in value.fields:
                if field.id in EXTENSION_FORMS and field.kind == Kind.BINARY:
                    yield _extension_document(field, steps)
            pending += [(field.value, (*steps, field.id)) for field in reversed(value.fields) if _holds(field.value)]
        elif isinstance(value, Items):
            pending += [
                (element, (*steps, f"[{index}]"))
                for index, element in reversed(list(enumerate(value.elements)))
                if _holds(element)
            ]


def _holds(value: Value) -> bool:
    return isinstance(value, Struct | Items)


def _extension_document(field: Field, steps: tuple[Step, ...]) -> Document:
    content: Any = field.value.value if isinstance(field.value, Padded) else field.value
    return {
        "struct": FILE_META_DATA.path_text(steps) if steps else "FileMetaData",
        "form": EXTENSION_FORMS[field.id],
        "offset_bytes": field.offset_bytes,
        "length_bytes": len(content),
        "uuid": content[-16:].hex() if len(content) >= 16 else None,
    }
