"""The initial inputs of every target: parts of the real files, and a few generated ones for features they lack."""

import functools
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import fuzz_tables
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from chunk_forms import in_chunk_form
from fuzz_files import INSPECTED, PRINTED_BIT
from fuzz_inputs import CHUNK_START, Edit, chunk_input, joined
from fuzz_tables import golden_files
from fuzz_targets import PAGES_FACTS, SYMBOL_FACTS

from tornproof.cli.findings import finding_document
from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.case_document import case_document
from tornproof.harness.counterexamples.log import DecisionLog, Fail, Kill, PowerCut, Switch
from tornproof.harness.counterexamples.plain_data import packed
from tornproof.harness.counterexamples.step_names import Step
from tornproof.harness.systems.scenario import load_scenario, scenario_names
from tornproof.harness.systems.scenario_case import case_of
from tornproof.harness.systems.table import TableTarget
from tornproof.impl.chunk.duplicate_pages import KINDS
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import TornproofError
from tornproof.impl.extension.encode import flatbuffer_of
from tornproof.impl.extension.footer import extended_footer
from tornproof.impl.layout.index import IndexHeader
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm, ParquetTail
from tornproof.impl.parquet.bloom_filter import encode_filter_header
from tornproof.impl.parquet.footer import read_footer_tail
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.chain import decode_chain
from tornproof.impl.pm.header import Column
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.types.questdb import TypeTag

FOLDERS = ("tables/9.4.2/", "tables/2026-07/", "vectors/", "external/", "legacy/9.3.4/chain/", "server-mode/")
SIZE_MAX_BYTES = 16 << 10
SIZES_MAX_BYTES = {
    **dict.fromkeys(("thrift", "footer"), 2048),
    **dict.fromkeys(("extension", "flatbuffers", "pm", "convert", "inspect"), 4096),
}
"""Of targets whose time goes with the size, and which have small seeds of every kind."""
SEEDS_MAX = 120
SMALL_TABLE = 1
CONDITIONS = (
    "ts >= '2024-06-01T00:00:00Z' AND ts < '2024-06-02'",
    "ts BETWEEN '2024-01-01' AND '2024-01-02T12:34:56.789123Z'",
    "id IN (1, 2, -3) OR k = 0x1F OR plain > 1e300",
    "s IN ('a', 'b''c') AND n IS NOT NULL",
    "u = '11111111-2222-3333-4444-555555555555'",
    "l IN (1, 2, -3) OR i = 0x1F",
    "d < 1.5e-3 AND NOT (f > -0.0 OR d <> 2)",
    "st = 'abc' OR vc != 'x' OR sy IN ('a', 'b''c') AND vc IS NOT NULL",
    "u = '11111111-2222-3333-4444-555555555555' OR l256 = '0x01'",
    "ip = '10.0.0.1' OR gb = '#u' OR gl = '##0101'",
    "b = TRUE AND ch = 'x' AND dec64 <= 12.34 AND dec256 > -1",
    "by < 300 OR sh >= -32769 OR da = '2024-01-01' OR bi IS NULL OR arr IS NULL",
    "(((l = 1)))",
)
LONG = int(TypeTag.LONG)
VARCHAR = int(TypeTag.VARCHAR)
ROOT = Path(__file__).parents[2]


def seeds_of(target: str) -> list[bytes]:
    """Return the inputs that fuzzing of a target starts from: different ones, the shortest first, at least one."""
    return [*_seeds_of(target)]


@functools.cache
def _seeds_of(target: str) -> Sequence[bytes]:
    short = {seed for seed in SEEDS[target]() if len(seed) <= SIZES_MAX_BYTES.get(target, SIZE_MAX_BYTES)}
    chosen = sorted(short, key=lambda seed: (len(seed), seed))
    return chosen[:: -(-len(chosen) // SEEDS_MAX)]


@functools.cache
def _files() -> Mapping[str, bytes]:
    return golden_files(FOLDERS)


def _named(*names: str) -> Iterator[bytes]:
    """Yield the files that are called so, or end so where the name begins with a dot."""
    for path, content in _files().items():
        name = PurePosixPath(path).name
        if name in names or any(name.endswith(suffix) for suffix in names if suffix.startswith(".")):
            yield content


def _pms() -> Iterator[bytes]:
    return _named(PM_FILE, ".pm")


def _parquet_parts() -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes before the footer, and the footer."""
    for content in _named(DATA_FILE, ".parquet"):
        try:
            tail = content[-ParquetTail.layout.size_bytes :]
            start, length = read_footer_tail(tail, file=DATA_FILE, token=len(content))
        except TornproofError:
            continue
        yield content[:start], content[start : start + length]


def _footers() -> Iterator[bytes]:
    return (footer for _, footer in _parquet_parts())


def _short_footers() -> Iterator[bytes]:
    """Yield the footers of which FlatBuffers and extensions may be short enough, each once."""
    return (footer for footer in dict.fromkeys(_footers()) if len(footer) <= SIZES_MAX_BYTES["flatbuffers"])


def _flatbuffers() -> Iterator[bytes]:
    for footer in _short_footers():
        with suppress(TornproofError):
            yield flatbuffer_of(footer, file=DATA_FILE)


def _extended_footers() -> Iterator[bytes]:
    for footer in _short_footers():
        with suppress(TornproofError):
            yield extended_footer(footer, FooterForm.MIGRATION, file=DATA_FILE)
            yield footer


def _vectors() -> Iterator[bytes]:
    for number, kind in enumerate(KINDS.values()):
        for values in ([], [1.0], [1, 2, 3, 1 << 30], range(1100)):
            yield bytes([number]) + kind.encode(np.array(values, kind.value))


def _duplicates() -> Iterator[bytes]:
    for chunks, form in itertools.product(ChunkForm, FooterForm):
        yield in_chunk_form(chunks, form)


def _parquet_files() -> Iterator[bytes]:
    return (joined(body, b"", footer) for body, footer in _parquet_parts())


def _chunks() -> Iterator[tuple[Column, Chunk, bytes]]:
    """Yield the chunks of the real tables and of generated ones, each kind of column and pages once."""
    seen = set()
    for path, content in _files().items():
        data = _files().get(f"{PurePosixPath(path).parent}/{DATA_FILE}")
        if PurePosixPath(path).name != PM_FILE or data is None:
            continue
        for metadata in itertools.islice(decode_chain(content, file=PM_FILE, end_bytes=len(content)), 1):
            for block in metadata.blocks:
                for column, chunk in zip(metadata.header.columns, block.chunks, strict=True):
                    kind = (column.type, column.physical_type, column.max_def_level, chunk.codec, chunk.encodings)
                    if kind not in seen:
                        seen.add(kind)
                        yield column, chunk, data[chunk.byte_range_start : chunk.byte_range_end]
    yield from _made_chunks()


def _made_chunks() -> Iterator[tuple[Column, Chunk, bytes]]:
    """Yield chunks with page checksums, by both page versions, several codecs and encodings."""
    numbers = pa.array([row * row if row % 7 else None for row in range(100)])
    texts = pa.array([str(row % 37) * (row % 9) if row % 5 else None for row in range(100)])
    codecs = ("none", "snappy", "zstd", "gzip", "lz4", "brotli")
    for version, (number, codec) in itertools.product(("1.0", "2.0"), enumerate(codecs)):
        for values, type_, encodings in (
            (numbers, LONG, ("DELTA_BINARY_PACKED", "PLAIN", "BYTE_STREAM_SPLIT", None)),
            (texts, VARCHAR, ("DELTA_BYTE_ARRAY", "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", None)),
        ):
            encoding = encodings[number % len(encodings)]
            sink = io.BytesIO()
            pq.write_table(
                pa.table({"x": values}),
                sink,
                compression=codec,
                data_page_version=version,
                data_page_size=256,
                write_page_checksum=True,
                use_dictionary=encoding is None,
                column_encoding=None if encoding is None else {"x": encoding},
            )
            yield _made_chunk(sink, type_)


def _made_chunk(sink: io.BytesIO, type_: int) -> tuple[Column, Chunk, bytes]:
    meta = pq.read_metadata(sink).row_group(0).column(0)
    column = Column(
        name="x",
        id=0,
        type=type_,
        flags=0,
        fixed_byte_len=0,
        physical_type=2 if type_ == LONG else 6,
        max_rep_level=0,
        max_def_level=1,
    )
    codec = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}[meta.compression]
    chunk = Chunk(
        codec=codec,
        encodings=0,
        num_values=meta.num_values,
        byte_range_start=CHUNK_START,
        total_compressed=meta.total_compressed_size,
        null_count=meta.statistics.null_count,
        distinct_count=None,
        minimum=None,
        maximum=None,
    )
    return column, chunk, sink.getvalue()[CHUNK_START : CHUNK_START + meta.total_compressed_size]


def _pages() -> Iterator[bytes]:
    return (joined(PAGES_FACTS.pack(chunk.codec, chunk.num_values), content) for _, chunk, content in _chunks())


def _chunk_inputs() -> Iterator[bytes]:
    return (chunk_input(*chunk) for chunk in _chunks())


def _thrifts() -> Iterator[bytes]:
    return itertools.chain(_footers(), (content for _, _, content in _chunks()))


def _raw_arrays() -> Iterator[bytes]:
    three = (3).to_bytes(4, "little") + bytes(4) + bytes(24)
    two_by_one = (2).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(16)
    yield b"\0" + bytes([len(three) // 4]) + three + b"\xff" + bytes([2]) + bytes(8)
    yield b"\1" + bytes([len(two_by_one) // 4]) + two_by_one


def _symbols() -> Iterator[bytes]:
    for path, offsets in _files().items():
        characters = _files().get(path[:-1] + "c")
        if path.endswith(".o") and characters is not None:
            yield joined(SYMBOL_FACTS.pack(3), offsets[:128], characters[:128])


def _indexes() -> Iterator[bytes]:
    for path, keys in _files().items():
        values = _files().get(path[:-1] + "v")
        if path.endswith(".k") and values is not None:
            size_bytes = IndexHeader.unpack(keys, 0, file=path).value_mem_size
            yield joined(keys[:256], values[: min(size_bytes, 8192)])


def _jsons() -> Iterator[bytes]:
    yield b'{"version":1,"schema":[{"column_type":5,"column_top":0},{"column_type":26,"ascii":true,"format":1}]}'
    for footer in _footers():
        start, end = footer.find(b'{"'), footer.rfind(b"}")
        if 0 <= start < end:
            yield footer[start : end + 1]


def _scenarios() -> Iterator[bytes]:
    return (path.read_bytes() for path in sorted((ROOT / "scenarios").glob("*.toml")))


def _findings() -> Iterator[bytes]:
    """Yield a finding of a table, of damage, and of a decision log, as `check` writes them."""
    problem = {"file": "_txn", "field": "VERSION", "offset_bytes": 0, "expected": "0", "actual": "1"}
    flip = {"kind": "flip", "file": "_txn", "bit": 1}
    edits = {"kind": "zeros", "edits": [{"file": "_txn", "offset_bytes": 8, "content": "00"}], "description": "zeros"}
    files = {name: packed(content) for name, content in fuzz_tables.files_of(SMALL_TABLE).items()}
    for phase, evidence in (("verify", problem), ("damage", flip), ("damage", edits)):
        yield _finding(phase, evidence, files)
    case = case_document(case_of(load_scenario(scenario_names()[0]), TableTarget()))
    at = Step("writer", "commit 1", "pwrite", "_txn", 1)
    log = DecisionLog(
        (Switch(at, "reader"), Fail(at, StorageReason.NO_SPACE), Kill(at), PowerCut(at, "m", "[null,{}]"))
    ).document()
    yield _finding("schedules", {"test_case": case, "log": log, "part": "x", "kind": "y"}, {})


def _finding(phase: str, evidence: dict[str, Any], files: dict[str, str]) -> bytes:
    found = Finding(property="consistent", phase=phase, sentence="It is not.", evidence=evidence)
    return json.dumps(finding_document(found, "t", files), separators=(",", ":")).encode()


def _inspected() -> Iterator[bytes]:
    for number, contents in enumerate((_pms(), _named("_txn"), _named("_meta"), _parquet_files())):
        assert number < len(INSPECTED)
        for position, content in enumerate(contents):
            yield bytes([number | (PRINTED_BIT if position % 2 else 0)]) + content


def _edited_tables() -> Iterator[bytes]:
    """Yield each table unharmed, and with one edit of each kind of each of its files that is read."""
    for number in range(len(fuzz_tables.TABLES)):
        yield bytes([number])
        for file, _ in enumerate(fuzz_tables.files_of(number)):
            for operation in range(fuzz_tables.OPERATIONS):
                edit = Edit(file, operation | fuzz_tables.REPAIR_BIT, 32 + 8 * operation, b"\1")
                yield bytes([number]) + edit.pack()


def _conditions() -> Iterator[bytes]:
    return (bytes([number % 2]) + text.encode() for number, text in itertools.product(range(2), CONDITIONS))


def _filters() -> Iterator[bytes]:
    yield joined(bytes(range(8)), encode_filter_header(32) + bytes(32))
    yield joined(bytes(8), bytes(range(64)))
    yield encode_filter_header(1 << 20)


SEEDS: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "thrift": _thrifts,
    "footer": _footers,
    "extension": _extended_footers,
    "flatbuffers": _flatbuffers,
    "vectors": _vectors,
    "duplicates": _duplicates,
    "pages": _pages,
    "chunk": _chunk_inputs,
    "raw_arrays": _raw_arrays,
    "pm": _pms,
    "txn": lambda: _named("_txn"),
    "cv": lambda: _named("_cv"),
    "meta": lambda: _named("_meta"),
    "symbols": _symbols,
    "index": _indexes,
    "questdb_json": _jsons,
    "scenario": _scenarios,
    "finding": _findings,
    "inspect": _inspected,
    "table": _edited_tables,
    "recovery": _edited_tables,
    "migration": _edited_tables,
    "convert": _parquet_files,
    "predicate": _conditions,
    "bloom": _filters,
}
