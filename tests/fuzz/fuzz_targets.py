"""What is fuzzed: every decoder as a function of bytes, which returns or raises a TornproofError, and nothing else."""

import struct
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import fuzz_files
import fuzz_predicates
import fuzz_tables
import pyarrow as pa
from fuzz_inputs import CHUNK_START, chunk_of, parts_of

from tornproof.cli.findings import load_finding
from tornproof.harness.counterexamples.case_document import case_of
from tornproof.harness.counterexamples.log import DecisionLog
from tornproof.harness.counterexamples.replay import UNUSABLE
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.scenario import parse_scenario
from tornproof.impl.chunk.chunk import decode_chunk
from tornproof.impl.chunk.duplicate_pages import KINDS
from tornproof.impl.chunk.duplicate_values import read_chunk_values
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import ProblemError, TornproofError
from tornproof.impl.extension.decode import FlatFooter
from tornproof.impl.extension.encode import flatbuffer_of
from tornproof.impl.extension.footer import ReadBytes, read_file_footer, split_extended_footer
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.footer_form import change_footer_form
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.parquet.footer import decode_footer, row_group_facts, split_footer
from tornproof.impl.parquet.pages import walk_pages
from tornproof.impl.parquet.thrift import decode, encode
from tornproof.impl.read.cold_read import read_cold
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.column_versions import decode_column_versions
from tornproof.impl.table.metadata_file import decode_metadata_file
from tornproof.impl.table.questdb_json import updated_json
from tornproof.impl.table.symbol_index import decode_symbol_index
from tornproof.impl.table.symbols import read_symbols
from tornproof.impl.txn.transaction import decode_transaction, safe_read
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.raw_arrays import lists_of

ENCODED_COUNT_MAX = 1 << 14
Target = Callable[[bytes], None]

PAGES_FACTS = struct.Struct("<BI")
SYMBOL_FACTS = struct.Struct("<i")
DIMENSIONS_MAX = 32
REPLAYED_AT_ONCE = ("verify", "roundtrip", "damage")


def thrift(data: bytes) -> None:
    """What is read is encoded again to the very same bytes."""
    tree, end = decode(data, file="thrift")
    assert encode(tree) == data[:end]


def footer(data: bytes) -> None:
    """A Thrift footer, strictly, as the converter takes it, and taken apart for a writer."""
    parts = split_footer(data, file="data.parquet", offset_bytes=4)
    _, end = decode(data, file="data.parquet", offset_bytes=4)
    assert parts.encode() == data[:end]
    parts.key_value("questdb")
    for row_group in parts.row_groups:
        row_group_facts(row_group)
    for tolerant in (True, False):
        assert decode_footer(data, file="data.parquet", offset_bytes=4, tolerant=tolerant).length_bytes == end


def extension(data: bytes) -> None:
    """A Thrift footer with or without an extension; as FlatBuffers it comes back to the very same bytes."""
    found = split_extended_footer(data, file="data.parquet", offset_bytes=4)
    thrift = found.thrift()
    assert FlatFooter(flatbuffer_of(thrift, file="data.parquet"), file="data.parquet").thrift() == thrift


def flatbuffers(data: bytes) -> None:
    """A FlatBuffers footer whose checksums were right."""
    found = FlatFooter(data, file="data.parquet")
    for row_group in range(min(found.row_group_count, 3)):
        with suppress(IndexError):
            found.chunk(row_group, 0)
    assert found.extension is None or len(found.extension) <= len(data)
    found.thrift()


def vectors(data: bytes) -> None:
    """The values of a page of ALP or PFOR, which are as many as its header says, and come back to the bit."""
    kind = tuple(KINDS.values())[data[0] % len(KINDS)] if data else KINDS[PhysicalType.DOUBLE]
    content = memoryview(data)[1:]
    count = int.from_bytes(content[3:7], "little")
    values = kind.decode(content, count, kind.value, file="data.parquet", at=4)[:ENCODED_COUNT_MAX]
    count = len(values)
    again = kind.encode(values)
    assert kind.decode(memoryview(again), count, kind.value, file="data.parquet", at=4).tobytes() == values.tobytes()


def duplicates(data: bytes) -> None:
    """A Parquet file with chunks in a new encoding: its values, and the file as it was."""
    with suppress(TornproofError):
        found = read_file_footer(_reader_of(data), len(data), file="data.parquet").decoded()
        for column in range(len(found.leaves)):
            with suppress(TornproofError, IndexError):
                read_chunk_values(_reader_of(data), found, 0, column, file="data.parquet")
    storage = MemoryStorage()
    with storage.open_for_writing("x.parquet", OpenMode.NEW) as file:
        file.pwrite(data, 0)
    change_footer_form(storage, "x.parquet", FooterForm.THRIFT, chunks=ChunkForm.OLD)


def _reader_of(data: bytes) -> ReadBytes:
    return lambda size_bytes, offset_bytes: data[offset_bytes : offset_bytes + size_bytes]


def pages(data: bytes) -> None:
    """The page headers of a chunk."""
    facts, content = parts_of(data, 2)
    codec, value_count = PAGES_FACTS.unpack(facts[: PAGES_FACTS.size].ljust(PAGES_FACTS.size, b"\0"))
    walk_pages(content, file="data.parquet", offset_bytes=4, codec=Codec(codec % len(Codec)), value_count=value_count)


def chunk(data: bytes) -> None:
    """A chunk with its description in `_pm`, decoded to a valid Arrow array; also without any footer from a file."""
    column, facts, content = chunk_of(data)
    file = bytes(CHUNK_START) + content
    with DiskImage.of_files({"data": file}).open_for_reading("data") as handle, suppress(TornproofError):
        read_cold(handle, column, facts, row_count=facts.num_values, file="data.parquet").validate(full=True)
    decode_chunk(content, column, facts, file="data.parquet").validate(full=True)


def raw_arrays(data: bytes) -> None:
    """Arrays in QuestDB's own form: the number of dimensions, then values that each have a byte for their length."""
    values: list[bytes | None] = []
    dimensions, rest = data[:1], data[1:]
    while rest:
        # Few values are null; a length of several hundred bytes is needed for arrays with elements.
        length = rest[0]
        values.append(None if length == 0xFF else rest[1 : 1 + 4 * length])
        rest = rest[1 + (0 if length == 0xFF else 4 * length) :]
    column = pa.array(values, pa.binary())
    count = 1 + int.from_bytes(dimensions, "little") % DIMENSIONS_MAX
    lists_of(column, count, file="data.parquet", field="values", offset_bytes=4).validate(full=True)


def txn(data: bytes) -> None:
    """`_txn` as bytes, and read beside a writer; both agree."""
    files = {"t/_txn": data}
    memory = MemoryStorage.of(DiskImage.of_files(files))
    found = [
        _outcome(lambda: decode_transaction(data, file="_txn")),
        _outcome(lambda: safe_read(memory, "t/_txn")),
    ]
    assert found[0] == found[1], found


def cv(data: bytes) -> None:
    """`_cv` for the version that it has itself, and for the one before it."""
    version = int.from_bytes(data[:8], "little", signed=True)
    for expected in (version, version - 1):
        decode_column_versions(data, version=expected, file="_cv")


def meta(data: bytes) -> None:
    """`_meta`."""
    decode_metadata_file(data, file="_meta")


def symbols(data: bytes) -> None:
    """The two files of a symbol column's dictionary, and how many symbols `_txn` counts."""
    facts, offsets, characters = parts_of(data, 3)
    count = SYMBOL_FACTS.unpack(facts[: SYMBOL_FACTS.size].ljust(SYMBOL_FACTS.size, b"\0"))[0]
    read_symbols(DiskImage.of_files({"t/s.o": offsets, "t/s.c": characters}), "t", "s", count=count)


def index(data: bytes) -> None:
    """The two files of a symbol column's index."""
    keys, values = parts_of(data, 2)
    for piece in decode_symbol_index(keys, values, keys_file="s.k", file="s.v").pieces():
        assert len(piece.keys) == len(piece.rows) <= len(values) // 8


def questdb_json(data: bytes) -> None:
    """The JSON in a footer, whose text the Thrift decoder has checked."""
    text = data.decode("utf-8", errors="replace")
    again = updated_json(text, unused_bytes=1)
    assert updated_json(again, unused_bytes=1) == again


def scenario(data: bytes) -> None:
    """A scenario file."""
    parse_scenario(data, "fuzzed")


def finding(data: bytes) -> None:
    """A file in the form of a finding; one that is cheap to replay is replayed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(data)
        file.flush()
        found, image, path = load_finding(Path(file.name))
    if found.phase in REPLAYED_AT_ONCE and "log" not in found.evidence:
        replay_finding(found, image, path)
    try:
        DecisionLog.of_document(found.evidence["log"])
        case_of(found.evidence["test_case"])
    except UNUSABLE:
        return


def _outcome(read: Callable[[], object]) -> object:
    """Return what was read; of an error only that it was one, because readers see different parts of a bad file."""
    try:
        return read()
    except ProblemError as error:
        return type(error)


TARGETS: Mapping[str, Target] = {
    "thrift": thrift,
    "footer": footer,
    "extension": extension,
    "flatbuffers": flatbuffers,
    "vectors": vectors,
    "duplicates": duplicates,
    "pages": pages,
    "chunk": chunk,
    "raw_arrays": raw_arrays,
    "pm": fuzz_files.pm,
    "txn": txn,
    "cv": cv,
    "meta": meta,
    "symbols": symbols,
    "index": index,
    "questdb_json": questdb_json,
    "scenario": scenario,
    "finding": finding,
    "inspect": fuzz_files.inspect,
    "table": fuzz_tables.table,
    "recovery": fuzz_tables.recovery,
    "migration": fuzz_tables.migration,
    "convert": fuzz_files.convert,
    "predicate": fuzz_predicates.predicate,
    "bloom": fuzz_predicates.bloom,
}
