"""The JSON document of a `_pm`, and its committed generation; docs/inspect.md describes every field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tornproof.cli.inspection.bloom_document import Budget, bitset_figures
from tornproof.cli.inspection.byte_map import range_documents
from tornproof.cli.inspection.pm_chain import MetadataFile, block_extents, metadata_at, note_contradictions
from tornproof.cli.inspection.pm_map import DEAD, byte_map
from tornproof.cli.inspection.report import (
    Document,
    Problems,
    clean_text,
    flags_document,
    head_document,
    problem_of,
    record_document,
)
from tornproof.cli.inspection.values import questdb_value
from tornproof.impl.errors import Problem, TornproofError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.fields import Codec, Repetition
from tornproof.impl.pm.block import Chunk, Statistic, chunk_offset
from tornproof.impl.pm.bloom_position import ReadData, bitset_of
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.footer import Generation
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.names import type_name
from tornproof.impl.types.physical import PhysicalType


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What `_txn` has committed of one partition: the size of its data.parquet in one version of the table."""

    file: str
    version: int
    token: int

    def document(self, generation: int | None) -> Document:
        """Return the JSON document; `generation` is the index of the token in the chain of `_pm`."""
        return {"file": self.file, "version": self.version, "token": self.token, "generation": generation}


def committed_of(storage: ReadableStorage, directory_path: str) -> Committed | None:
    """Return what is committed of the partition in a directory, or None if that is not known.

    That is so if the path does not name directory and table, if the table does not list the directory as a parquet
    partition, or if its `_txn` cannot be read, which an inspection of that file shows.
    """
    table_path, separator, name = directory_path.rpartition("/")
    table_path = table_path or ("/" if separator else ".")
    if name in ("", ".", ".."):
        return None
    try:
        table = open_table(storage, table_path)
        transaction = table.transaction()
        for partition in transaction.partitions:
            if partition.is_parquet and table.directory_of(partition) == name:
                file = clean_text(f"{table_path}/{TXN_FILE}")
                return Committed(file=file, version=transaction.version, token=partition.token)
    except TornproofError:
        pass
    return None


Blooms: TypeAlias = dict[tuple[int, int], Document]
"""Documents of bloom filters by row group and column."""


def pm_document(
    found: MetadataFile,
    at: int | None,
    problems: Problems,
    *,
    committed: Committed | None = None,
    read_data: ReadData | None = None,
) -> Document:
    """Return the document of a `_pm`; `at` picks the generation whose row groups are shown, by its token.

    Without `at` it is the committed one, or the newest if that is not known. `read_data` reads data.parquet, for the
    bloom filters in it.
    """
    committed_at = None if committed is None else found.index_of(committed.token)
    index = committed_at if at is None and committed_at is not None else found.index_of(at)
    if at is not None and index is None:
        problems.append(_token_missing(found, at))
    metadata = None if index is None else metadata_at(found, index)
    if metadata is not None:
        note_contradictions(found, metadata, problems)
    ranges = byte_map(found)
    row_groups = [] if metadata is None else _row_group_documents(found, metadata, read_data, problems)
    return {
        **head_document("_pm", found.file, len(found.content), problems),
        "header": _header_document(found),
        "columns": [_column_document(*entry) for entry in enumerate(found.header.columns)] if found.header else [],
        "sorting": _sorting_document(found.header),
        "bloom_columns": list(found.header.bloom_columns) if found.header else [],
        "squash_tracker": found.header.squash_tracker if found.header else None,
        "generations": [_generation_document(found, each) for each in range(len(found.positions))],
        "committed": committed.document(committed_at) if committed else None,
        "resolved": None
        if index is None
        else {
            "generation": index,
            "token": found.positions[index].token,
            "orphans": list(range(index)),
        },
        "row_groups": row_groups,
        "dead_bytes": sum(entry.size_bytes for entry in ranges if entry.what == DEAD),
        "byte_map": range_documents(ranges, without="column"),
    }


def _token_missing(found: MetadataFile, at: int) -> Problem:
    tokens = ", ".join(str(position.token) for position in found.positions[:8]) or "none"
    return problem_of(found.file, "token", None, f"one of the chain's {len(found.positions)}: {tokens}", at)


def _header_document(found: MetadataFile) -> Document | None:
    if found.fixed is None:
        return None
    document = record_document(found.fixed)
    document["feature_flags"] = flags_document(layout.HEADER_FEATURES, found.fixed.feature_flags)
    document["end_bytes"] = found.header.size_bytes if found.header else None
    document["unknown_sections"] = found.header.extra.hex() if found.header else None
    return document


def _column_document(index: int, column: Column) -> Document:
    repetition = layout.FIELD_REPETITION.get(column.flags)
    return {
        "index": index,
        "name": column.name,
        "id": column.id,
        "type": {"code": column.type, "name": type_name(column.type)},
        "flags": flags_document(layout.COLUMN_FLAGS, column.flags),
        "repetition": Repetition(repetition).name if repetition < len(Repetition) else None,
        "fixed_byte_len": column.fixed_byte_len,
        "physical_type": PhysicalType(column.physical_type).name,
        "max_rep_level": column.max_rep_level,
        "max_def_level": column.max_def_level,
    }


def _sorting_document(header: FileHeader | None) -> list[Document]:
    return [
        {
            "column": index,
            "name": header.columns[index].name,
            "descending": bool(layout.DESCENDING.get(header.columns[index].flags)),
        }
        for index in (header.sorting if header else ())
        if header
    ]


def _generation_document(found: MetadataFile, index: int) -> Document:
    position = found.positions[index]
    generation = found.generations[index] if index < len(found.generations) else None
    computed = found.checksums[position.end_bytes]
    return {
        "index": index,
        "end_bytes": position.end_bytes,
        "footer_offset_bytes": position.offset_bytes,
        "footer_length_bytes": position.trailer.footer_length,
        "token": position.token,
        **record_document(position.fixed),
        "footer_feature_flags": flags_document(layout.FOOTER_FEATURES, position.fixed.footer_feature_flags),
        "checksum": {
            "stored": position.trailer.checksum,
            "computed": computed,
            "ok": position.trailer.checksum == computed,
        },
        "decoded": generation is not None,
        "block_offsets": list(generation.block_offsets) if generation else [],
        "rows": _row_count(found, generation),
        **_section_documents(generation),
    }


def _row_count(found: MetadataFile, generation: Generation | None) -> int | None:
    if generation is None or any(offset not in found.blocks for offset in generation.block_offsets):
        return None
    return sum(found.blocks[offset].num_rows for offset in generation.block_offsets)


def _section_documents(generation: Generation | None) -> Document:
    sections = generation.sections if generation else None
    scratchpad = sections.scratchpad if sections else None
    return {
        "seq_txn": sections.seq_txn if sections else None,
        "scratchpad": None
        if scratchpad is None
        else [{"code": code, "content": content.hex()} for code, content in scratchpad],
        "unknown_sections": sections.unknown.hex() if sections else None,
    }


def _row_group_documents(
    found: MetadataFile, metadata: Metadata, read_data: ReadData | None, problems: Problems
) -> list[Document]:
    extents = block_extents(found)
    blooms = _bloom_documents(found, metadata, read_data, problems)
    return [
        _row_group_document(found, metadata, ordinal, *extents[block.offset_bytes], blooms)
        for ordinal, block in enumerate(metadata.blocks)
    ]


def _row_group_document(
    found: MetadataFile, metadata: Metadata, ordinal: int, region: int, end: int, blooms: Blooms
) -> Document:
    block = metadata.blocks[ordinal]
    return {
        "index": ordinal,
        "block_offset_bytes": block.offset_bytes,
        "out_of_line_offset_bytes": region,
        "block_end_bytes": end,
        "written_by_generation": found.owners[block.offset_bytes],
        "rows": block.num_rows,
        "chunks": [
            _chunk_document(found, block.offset_bytes, index, column, chunk, blooms.get((ordinal, index)))
            for index, (column, chunk) in enumerate(zip(metadata.header.columns, block.chunks, strict=True))
        ],
    }


def _chunk_document(
    found: MetadataFile, block_offset: int, index: int, column: Column, chunk: Chunk, bloom: Document | None
) -> Document:
    offset_bytes = chunk_offset(block_offset, index)
    flags = layout.ColumnChunk.unpack(found.published, offset_bytes, file=found.file).stat_flags
    return {
        "column": index,
        "name": column.name,
        "codec": Codec(chunk.codec).name,
        "encodings": flags_document(layout.ENCODINGS, chunk.encodings),
        "num_values": chunk.num_values,
        "byte_range_start": chunk.byte_range_start,
        "byte_range_end": chunk.byte_range_end,
        "total_compressed": chunk.total_compressed,
        "null_count": chunk.null_count,
        "distinct_count": chunk.distinct_count,
        "stat_flags": flags_document(layout.STAT_FLAGS, flags),
        "min": _statistic_document(column, chunk.minimum, bool(layout.MIN_STAT_INLINED.get(flags))),
        "max": _statistic_document(column, chunk.maximum, bool(layout.MAX_STAT_INLINED.get(flags))),
        "bloom": bloom,
    }


def _statistic_document(column: Column, statistic: Statistic | None, is_inline: bool) -> Document | None:
    if statistic is None:
        return None
    return {
        "value": questdb_value(column, statistic.value),
        "hex": statistic.value.hex(),
        "exact": statistic.exact,
        "inline": is_inline,
    }


def _bloom_documents(found: MetadataFile, metadata: Metadata, read_data: ReadData | None, problems: Problems) -> Blooms:
    """Return what is known of each bloom filter, by row group and column; bytes that are not a filter are a problem."""
    documents: Blooms = {}
    budget = Budget()
    for ordinal, references in enumerate(metadata.generation.blooms):
        for index, bloom in zip(metadata.header.bloom_columns, references, strict=True):
            if bloom is None:
                continue
            is_external = bloom.length_bytes is not None
            size_bytes = bloom.length_bytes if is_external else found.bitset_sizes.get(bloom.offset_bytes)
            bitset = None
            if budget.take(size_bytes):
                with problems.noted():
                    bitset = bitset_of(found.published, metadata, ordinal, index, read_data=read_data, file=found.file)
            documents[ordinal, index] = {
                "file": DATA_FILE if is_external else PM_FILE,
                "offset_bytes": bloom.offset_bytes,
                "bitset_size_bytes": size_bytes if bitset is None else len(bitset),
                **bitset_figures(bitset),
            }
    return documents
