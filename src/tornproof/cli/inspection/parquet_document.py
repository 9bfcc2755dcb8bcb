"""The JSON document of any Parquet file, from its Thrift footer alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tornproof.cli.inspection.bloom_document import Budget, bitset_figures, parquet_bloom_document
from tornproof.cli.inspection.byte_map import range_documents
from tornproof.cli.inspection.parquet_map import (
    ReadBytes,
    dead_byte_count,
    first_page_offset,
    parquet_map,
)
from tornproof.cli.inspection.pm_chain import MetadataFile
from tornproof.cli.inspection.report import Document, Problems, demand_at_most, head_document, problem_of
from tornproof.cli.inspection.values import (
    ENCODING_NAMES,
    LogicalType,
    logical_type,
    logical_type_text,
    parquet_value,
)
from tornproof.impl.chunk.duplicates import Duplicate, duplicate_content, duplicates_in
from tornproof.impl.errors import CorruptError, Problem, ProblemError
from tornproof.impl.extension.footer import FileFooter, extension_problems, read_file_footer, split_extended_footer
from tornproof.impl.extension.point import FORMS
from tornproof.impl.layout.parquet import FINAL_MAGIC, MAGIC, FinalTail
from tornproof.impl.parquet.fields import CONVERTED_NAMES, FILE_META_DATA
from tornproof.impl.parquet.footer import (
    TAIL_SIZE_BYTES,
    ColumnChunk,
    ParquetFooter,
    RowGroup,
    Statistics,
    decode_footer,
    read_footer_tail,
)
from tornproof.impl.parquet.schema import SchemaLeaf
from tornproof.impl.parquet.thrift import Field, Items, Kind, Padded, Step, Struct, Value
from tornproof.impl.storage.interface import ReadableFile, ReadableStorage

FOOTER_LIMIT_BYTES = 256 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class ParquetFile:
    """A Parquet file's last footer before `end_bytes`; None where it does not decode.

    `read(size_bytes, offset_bytes)` reads the file, fewer bytes at its end.
    """

    file: str
    read: ReadBytes
    size_bytes: int
    end_bytes: int
    footer_offset_bytes: int | None = None
    footer_length_bytes: int | None = None
    footer: ParquetFooter | None = None
    forms: FileFooter | None = None


def read_parquet_file(
    storage: ReadableStorage, path: str, at: int | None, problems: Problems, *, file: str
) -> ParquetFile:
    """Read the footer that ends at `at`, without one at the file's end; UnsupportedError above 256 MiB of footer."""
    with storage.open_for_reading(path) as handle:
        size_bytes = handle.size_bytes()
        found = ParquetFile(
            file=file,
            read=reader_of(storage, path),
            size_bytes=size_bytes,
            end_bytes=size_bytes if at is None else at,
        )
        if found.end_bytes > size_bytes:
            expected = f"{found.end_bytes} bytes or more, the token"
            problems.append(problem_of(file, "size", None, expected, f"{size_bytes} bytes"))
            return found
        if handle.pread(len(MAGIC), 0) != MAGIC:
            problems.append(problem_of(file, "leading magic", 0, MAGIC, handle.pread(len(MAGIC), 0)))
        if handle.pread(len(FINAL_MAGIC), max(found.end_bytes - len(FINAL_MAGIC), 0)) == FINAL_MAGIC:
            with problems.noted():
                _read_final(found, handle, problems)
            return found
        with problems.noted():
            tail = handle.pread(TAIL_SIZE_BYTES, max(found.end_bytes - TAIL_SIZE_BYTES, 0))
            offset_bytes, length_bytes = read_footer_tail(tail, file=file, token=found.end_bytes)
            found.footer_offset_bytes, found.footer_length_bytes = offset_bytes, length_bytes
        if found.footer_length_bytes is None or found.footer_offset_bytes is None:
            return found
        offset_bytes = found.end_bytes - TAIL_SIZE_BYTES
        demand_at_most(
            FOOTER_LIMIT_BYTES, found.footer_length_bytes, file=file, field="footer_length", offset_bytes=offset_bytes
        )
        content = handle.pread(found.footer_length_bytes, found.footer_offset_bytes)
    _decode(found, content, problems)
    problems.extend(extension_problems(content, file=file, offset_bytes=found.footer_offset_bytes))
    with suppress(CorruptError):
        found.forms = split_extended_footer(content, file=file, offset_bytes=found.footer_offset_bytes)
    return found


def _read_final(found: ParquetFile, handle: ReadableFile, problems: Problems) -> None:
    """Read a footer that is FlatBuffers alone."""
    found.forms = read_file_footer(handle.pread, found.end_bytes, file=found.file)
    found.footer_offset_bytes = found.forms.offset_bytes
    found.footer_length_bytes = found.end_bytes - FinalTail.layout.size_bytes - found.forms.offset_bytes
    found.footer = found.forms.decoded()
    problems.extend(_contradictions(found, found.footer))


def reader_of(storage: ReadableStorage, path: str) -> ReadBytes:
    """Return a function that reads bytes of a file, which it opens for each call."""

    def read(size_bytes: int, offset_bytes: int) -> bytes:
        with storage.open_for_reading(path) as handle:
            return handle.pread(size_bytes, offset_bytes)

    return read


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


def _contradictions(found: ParquetFile, footer: ParquetFooter) -> Iterator[Problem]:
    row_count = sum(row_group.num_rows for row_group in footer.row_groups)
    if row_count != footer.num_rows:
        yield problem_of(
            found.file, "num_rows", footer.offset_bytes, f"{row_count}, the rows of the row groups", footer.num_rows
        )
    for ordinal, row_group in enumerate(footer.row_groups):
        for index, chunk in enumerate(row_group.chunks):
            end_bytes = first_page_offset(chunk) + chunk.total_compressed_size
            if not chunk.file_path and end_bytes > footer.offset_bytes:
                field = f"row_groups[{ordinal}].columns[{index}].total_compressed_size"
                expected = f"a chunk that ends by byte {footer.offset_bytes}, the footer"
                yield problem_of(found.file, field, chunk.offset_bytes, expected, end_bytes)


def parquet_document(found: ParquetFile, problems: Problems, beside: MetadataFile | None = None) -> Document:
    """Return the document of a Parquet file; `beside` is the `_pm` of the same partition."""
    footer = found.footer
    leaves = footer.leaves if footer else ()
    logical = [logical_type(leaf.element) for leaf in leaves]
    blooms = _bloom_documents(found, problems)
    duplicates = _duplicates(found, problems)
    ranges = (
        []
        if footer is None
        else parquet_map(
            footer,
            found.end_bytes,
            found.size_bytes,
            tail_start_bytes=(found.footer_offset_bytes or 0) + (found.footer_length_bytes or 0),
            bloom_lengths={key: bloom["length_bytes"] for key, bloom in blooms.items()},
            duplicates=[each for each in duplicates if each[2].record is not None],
            beside=beside,
            read_bytes=found.read,
        )
    )
    return {
        **head_document("parquet", found.file, found.size_bytes, problems),
        "token": found.end_bytes,
        "footer_offset_bytes": found.footer_offset_bytes,
        "footer_length_bytes": found.footer_length_bytes,
        "version": footer.version if footer else None,
        "created_by": footer.created_by if footer else None,
        "num_rows": footer.num_rows if footer else None,
        "schema": [_leaf_document(index, leaf) for index, leaf in enumerate(leaves)],
        "row_groups": [
            _row_group_document(ordinal, row_group, leaves, logical, blooms)
            for ordinal, row_group in enumerate(footer.row_groups if footer else ())
        ],
        "key_values": [{"key": key, "value": value} for key, value in (footer.key_values if footer else ())],
        "footer": _forms_document(found.forms) if found.forms else None,
        "extensions": list(extension_documents(footer.tree)) if footer else [],
        "duplicates": [_duplicate_document(found, *each) for each in duplicates],
        "dead_bytes": dead_byte_count(ranges) if footer else None,
        "byte_map": range_documents(ranges, without="token"),
    }


def _duplicates(found: ParquetFile, problems: Problems) -> list[tuple[int, int, Duplicate]]:
    duplicates: list[tuple[int, int, Duplicate]] = []
    with problems.noted():
        duplicates += duplicates_in(found.footer, file=found.file) if found.footer else ()
    return duplicates


def _duplicate_document(found: ParquetFile, row_group: int, column: int, duplicate: Duplicate) -> Document:
    """Return what is known of a duplicate, and from which encoding a reader takes the values; they are not kept."""
    document: Document = {"row_group": row_group, "column": column, "doubt": duplicate.doubt}
    if duplicate.record is None or found.footer is None:
        return document
    record = duplicate.record
    content = duplicate_content(found.read, record, found.footer)
    return {
        **document,
        "doubt": content if isinstance(content, str) else None,
        "encoding": ENCODING_NAMES.get(record.encoding, record.encoding),
        "byte_range_start": record.chunk_offset,
        "byte_range_end": record.chunk_offset + record.chunk_length,
        "former_end": record.former_end or None,
    }


def _bloom_documents(found: ParquetFile, problems: Problems) -> dict[tuple[int, int], Document]:
    """Return what is known of each bloom filter, by row group and column; bytes that are not a filter are a problem."""
    documents: dict[tuple[int, int], Document] = {}
    budget = Budget()
    for ordinal, row_group in enumerate(found.footer.row_groups if found.footer else ()):
        for index, chunk in enumerate(row_group.chunks):
            offset_bytes, length_bytes = chunk.bloom_filter_offset, chunk.bloom_filter_length
            if offset_bytes is None:
                continue
            documents[ordinal, index] = {
                "offset_bytes": offset_bytes,
                "length_bytes": length_bytes,
                "bitset_size_bytes": None,
                **bitset_figures(None),
            }
            if 0 <= offset_bytes < found.end_bytes and not chunk.file_path:
                with problems.noted():
                    documents[ordinal, index] = parquet_bloom_document(
                        found.read, offset_bytes, length_bytes, budget, file=found.file
                    )
    return documents


def _leaf_document(index: int, leaf: SchemaLeaf) -> Document:
    converted = leaf.element.converted_type
    return {
        "index": index,
        "path": list(leaf.path),
        "physical_type": leaf.physical_type.name,
        "type_length": leaf.element.type_length,
        "logical_type": logical_type_text(leaf.element),
        "converted_type": CONVERTED_NAMES.get(converted, converted) if converted is not None else None,
        "repetition": leaf.repetition.name,
        "max_rep_level": leaf.max_rep,
        "max_def_level": leaf.max_def,
        "field_id": leaf.element.field_id,
    }


def _row_group_document(
    ordinal: int,
    row_group: RowGroup,
    leaves: tuple[SchemaLeaf, ...],
    logical: list[LogicalType | None],
    blooms: dict[tuple[int, int], Document],
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
            _chunk_document(index, chunk, leaf, kind, blooms.get((ordinal, index)))
            for index, (chunk, leaf, kind) in enumerate(zip(row_group.chunks, leaves, logical, strict=True))
        ],
    }


def _chunk_document(
    index: int, chunk: ColumnChunk, leaf: SchemaLeaf, logical: LogicalType | None, bloom: Document | None
) -> Document:
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
        "bloom": bloom,
        "column_index": _location(chunk.column_index_offset, chunk.column_index_length),
        "offset_index": _location(chunk.offset_index_offset, chunk.offset_index_length),
        "file_path": chunk.file_path,
    }


def _location(offset_bytes: int | None, length_bytes: int | None) -> Document | None:
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


def _forms_document(forms: FileFooter) -> Document:
    return {"form": str(forms.form), "read_from": str(forms.source), "doubt": forms.doubt}


def extension_documents(tree: Struct) -> Iterator[Document]:
    """Yield a document for every field with the id of Parquet's extension field; `form` says how the id is encoded."""
    pending: list[tuple[Value, tuple[Step, ...]]] = [(tree, ())]
    while pending:
        value, steps = pending.pop()
        if isinstance(value, Struct):
            for field in value.fields:
                if field.id in FORMS and field.kind == Kind.BINARY:
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
        "form": FORMS[field.id].name.lower(),
        "offset_bytes": field.offset_bytes,
        "length_bytes": len(content),
        "uuid": content[-16:].hex() if len(content) >= 16 else None,
    }
