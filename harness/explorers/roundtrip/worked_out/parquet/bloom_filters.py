"""Bloom filters, of which a value of each type has its bits, and how they are copied."""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import xxhash

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import commit_rows, new_table, new_table_of_rows
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.model_based.other_footers import CHUNK_FACTS, with_fields_of
from tornproof.harness.explorers.roundtrip.forms import parquet_of, reader_of
from tornproof.harness.explorers.roundtrip.worked_out.metadata.hashes import SYMBOLS
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.convert import convert
from tornproof.impl.parquet import bloom
from tornproof.impl.parquet.thrift import Field, Kind, Struct, encode
from tornproof.impl.pm.bloom_position import bitset_of
from tornproof.impl.pm.chain import Metadata, decode_chain
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.pages import missing_values
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

BLOOM_SALTS = (*(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D), *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31))
PATH = "table"
TIMES = range(FIRST_TIME, FIRST_TIME + 10)
ZEROS: tuple[list[float | None], ...] = ([1.5], [0.0], [-0.0], [0.0, -0.0, 1.5], [None, -0.0, -0.0, math.nan])
FILTER_BYTES_MAX = 4096
LARGE_FILTER_BYTES = 1 << 20
"""The number of a word in such a filter has more than 16 bits."""
NUMBERS = {"a": (1, 2), "b": (3, 4), "c": (5, 6)}
"""Of each column one in each row group."""
HASHED = {
    **dict.fromkeys((pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(16)), True),
    **dict.fromkeys((pa.bool_(), pa.list_(pa.float64()), pa.struct({"a": pa.int64()}), pa.decimal128(9, 2)), False),
    pa.dictionary(pa.int32(), pa.string()): True,
}
"""Booleans have none by Parquet's description; decimals have them of their stored bytes alone."""
ONLY = Struct((Field(1, Kind.STRUCT, Struct(())),))
"""A choice among one, as that of a filter's algorithm, hash and compression."""


def copied_filters() -> Iterator[Question]:
    """Yield how often a filter is in the metadata of a small file whose row groups share it."""
    for size_bytes in (32, FILTER_BYTES_MAX):
        for count in (1, 2, 8):
            name = f"the copies of a filter of {size_bytes} bytes that {count} row groups share"
            yield ask("filters", name, count, _copied_filters, count, size_bytes)


def _copied_filters(group_count: int, size_bytes: int) -> int:
    rows = pa.table({"a": pa.array(range(group_count), pa.int64())})
    plain, bits = parquet_of(rows, row_group_size=1), b"\xff" * size_bytes
    head = encode(Struct((Field(1, Kind.I32, size_bytes), *(Field(number, Kind.STRUCT, ONLY) for number in (2, 3, 4)))))
    found = head + bits
    footer_bytes = int.from_bytes(plain[-8:-4], "little") + 8
    facts = Field(14, Kind.I64, len(plain) - footer_bytes), Field(15, Kind.I32, len(found))
    content = plain[:-footer_bytes] + found + plain[-footer_bytes:]
    content = with_fields_of(content, CHUNK_FACTS, *facts)
    metadata = convert(reader_of(content), size_bytes=len(content), file="shared.parquet")
    return metadata.count(size_bytes.to_bytes(4, "little") + bits)


def filters_of_zeros() -> Iterator[Question]:
    """Yield filters of floats, in which servers look for 0.0 alone, and store -0.0 as either of both zeros."""
    for (form, of), values in itertools.product((("<f", pa.float32()), ("<d", pa.float64())), ZEROS):
        zeros = [xxhash.xxh64_intdigest(struct.pack(form, zero)) for zero in (0.0, -0.0)]
        stored = [xxhash.xxh64_intdigest(struct.pack(form, each)) for each in values if each is not None]
        words = f"the zeros in a filter of the {of} values {values}"
        expected = [zeros[0] in stored or zeros[1] in stored, zeros[1] in stored]
        yield ask("filters", words, expected, _zeros_in, pa.array(values, of), zeros)
        for first in zeros:
            there = [first if each in zeros else each for each in stored]
            missing = sum(each == zeros[0] != first for each in stored)
            words = (
                f"how many of the {of} values {values} a filter lacks that has {'-' * (first == zeros[1])}0.0 for zeros"
            )
            yield ask("filters", words, missing, _missing, pa.array(values, of), there)


def _zeros_in(values: pa.Array, zeros: list[int]) -> list[bool]:
    content = bloom.bitset_of_values(values, 1e-6)
    return [bloom.may_contain(content, each) for each in zeros]


def _missing(values: pa.Array, hashes: list[int]) -> int:
    return missing_values(values, bloom.build_bitset(np.array(hashes, np.uint64), FILTER_BYTES_MAX))


def bloom_filters() -> Iterator[Question]:
    """Yield hashes of values, the bits that they set in filters, what filters may contain, and how large they are."""
    numbers = (*range(-3, 4), 1 << 20, -(1 << 31), (1 << 31) - 1)
    plain = [bytes((row * 7 + at) % 256 for at in range(64)) for row in range(5)]
    arrays: list[tuple[str, pa.Array, list[bytes]]] = [
        ("32 bits", pa.array(numbers, pa.int32()), [struct.pack("<i", each) for each in numbers]),
        ("64 bits", pa.array(numbers, pa.int64()), [struct.pack("<q", each) for each in numbers]),
        (
            "16 bits",
            pa.array(numbers[:8], pa.int32()).slice(0, 7).cast(pa.int16()),
            [struct.pack("<i", each) for each in numbers[:7]],
        ),
        ("floats", pa.array([0.5, -2.0], pa.float32()), [struct.pack("<f", each) for each in (0.5, -2.0)]),
        ("doubles", pa.array([0.1, -1e300], pa.float64()), [struct.pack("<d", each) for each in (0.1, -1e300)]),
        ("texts", pa.array(SYMBOLS), [each.encode() for each in SYMBOLS]),
        ("texts of which one is empty", pa.array(["", "a"]), [b"", b"a"]),
        ("keys", pa.array(SYMBOLS[::-1]).dictionary_encode(), [each.encode() for each in SYMBOLS[::-1]]),
        ("values and nulls", pa.array([5, None, 6], pa.int64()), [struct.pack("<q", each) for each in (5, 6)]),
    ]
    for width in (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 31, 32, 33, 64):
        cut = [each[:width] for each in plain]
        arrays.append((f"{width} bytes", pa.array(cut, pa.binary(width)), cut))
    for name, array, contents in arrays:
        hashes = [xxhash.xxh64_intdigest(content) for content in contents]
        yield ask("bloom filters", f"hashes of {name}", hashes, _value_hashes, array)
        one_by_one = functools.partial(lambda values: [bloom.hash_of(each) for each in values], contents)
        yield Question("bloom filters", f"hashes of {name}, one by one", one_by_one, hashes)
        words = f"the bits of a filter of {LARGE_FILTER_BYTES} bytes of {name}"
        places = sorted({bit for each in hashes for bit in _bits_of(LARGE_FILTER_BYTES, each)})
        yield ask("bloom filters", words, places, _set_bits, hashes, LARGE_FILTER_BYTES)
        for size_bytes in (32, 64, 4096):
            filled = filter_of(hashes, size_bytes)
            name_of = f"a filter of {size_bytes} bytes of {name}"
            yield ask("bloom filters", name_of, filled, _made_filter, hashes, size_bytes)
            some = [*hashes, *(xxhash.xxh64_intdigest(struct.pack("<q", each)) for each in range(100, 140))]
            contained = [may_be_in(filled, each) for each in some] * 2
            yield ask("bloom filters", f"what is in {name_of}", contained, _contained, filled, some)
    for of, has_hashes in HASHED.items():
        yield ask("bloom filters", f"whether {of} has hashes", has_hashes, bloom.can_be_hashed, of)
    for count, rate in itertools.product((0, 1, 30, 1000, 10**6, 10**9), (0.5, 0.05, 0.001)):
        bits = -8 * count / math.log(1 - rate ** (1 / 8))
        expected = next(1 << power for power in range(5, 28) if 8 << power >= bits or power == 27)
        name = f"the bytes of a filter of {count} values at a rate of {rate}"
        yield ask("bloom filters", name, expected, bloom.bitset_size_bytes, count, rate)
    for times, of in itertools.product((1, 200), (pa.int64(), pa.string())):
        few = pa.array(range(50), pa.int64()).cast(of)
        values = pa.concat_arrays([few] * times)
        made = functools.partial(bloom.bitset_of_values, values, 0.01)
        hashes = [int(each) for each in bloom.hashes_of(few)]
        words = f"the filter of 50 values as {of}, each of which is there {times} times"
        yield Question("bloom filters", words, made, filter_of(hashes, bloom.bitset_size_bytes(len(hashes), 0.01)))


def asked_filters() -> Iterator[Question]:
    """Yield partitions whose filters are rewritten as others, none, or the same, and which filter each column has."""
    for position, (words, columns, expected) in itertools.product(
        BloomPosition,
        (
            ("as they are", None, ["v"]),
            ("none", {}, []),
            ("the same", {"v": 0.01}, ["v"]),
            ("one of another column", {"ts": 0.01}, ["ts"]),
        ),
    ):
        blooms = None if columns is None else BloomOptions(columns=columns, position=position)
        name = f"which columns have filters, once a partition with one {position.value} is rewritten with {words}"
        yield ask("filters asked for", name, expected, _filtered_columns, position, blooms)
    subsets = [names for count in range(1 + len(NUMBERS)) for names in itertools.combinations(NUMBERS, count)]
    for position, names in itertools.product(BloomPosition, subsets):
        those = {name: [[each] if name in names else None for each in numbers] for name, numbers in NUMBERS.items()}
        words = f"the numbers in the filter of each column, where {list(names)} have filters {position.value}"
        yield ask("filters asked for", words, {"ts": [None, None], **those}, _numbers_in_filters, position, names)


def _filtered_columns(position: BloomPosition, asked: BloomOptions | None) -> list[str]:
    storage, before = MemoryStorage(), BloomOptions(columns={"v": 0.01}, position=position)
    new_table_of_rows(storage, PATH, {"ts": "TIMESTAMP", "v": "LONG"}, TIMES, options=WriterOptions(blooms=before))
    with open_writer_of_copy(storage, PATH, options=WriterOptions(blooms=asked)) as writer:
        partition = the_only(writer.table.transaction().partitions)
        writer.rewrite_partition(partition.timestamp)
        writer.commit()
    content, _ = _contents_of(storage)
    header = _decoded(content).header
    return [header.columns[index].name for index in header.bloom_columns]


def _numbers_in_filters(position: BloomPosition, names: Sequence[str]) -> dict[str, list[list[int] | None]]:
    """Return which of all numbers are in the filter of each column in each row group, None where there is no filter."""
    storage, types = MemoryStorage(), {"ts": "TIMESTAMP", **dict.fromkeys(NUMBERS, "LONG")}
    new_table(storage, PATH, types)
    blooms = BloomOptions(columns=dict.fromkeys(names, 0.01), position=position)
    rows = pa.table({"ts": TIMES[:2], **NUMBERS})
    commit_rows(storage, PATH, rows, options=WriterOptions(blooms=blooms, row_group_row_count_max=1))
    content, data = _contents_of(storage)
    metadata, found = _decoded(content), dict[str, list[list[int] | None]]()
    for index, column in enumerate(metadata.header.columns):
        found[column.name] = []
        for ordinal in range(len(metadata.blocks)):
            bits = bitset_of(content, metadata, ordinal, index, read_data=reader_of(data), file=PM_FILE)
            found[column.name].append(None if bits is None else _numbers_in(bits))
    return found


def _numbers_in(bits: bytes) -> list[int]:
    numbers = itertools.chain.from_iterable(NUMBERS.values())
    return [each for each in numbers if may_be_in(bits, xxhash.xxh64_intdigest(struct.pack("<q", each)))]


def _contents_of(storage: MemoryStorage) -> tuple[bytes, bytes]:
    """Return `_pm` and data.parquet of the only partition."""
    table = open_table(storage, PATH)
    directory, files = table.directory_of(the_only(table.transaction().partitions)), storage.image().files
    return files[f"{PATH}/{directory}/{PM_FILE}"], files[f"{PATH}/{directory}/{DATA_FILE}"]


def _decoded(content: bytes) -> Metadata:
    return next(decode_chain(content, file=PM_FILE, end_bytes=len(content)))


def _value_hashes(array: pa.Array) -> list[int]:
    return [int(each) for each in bloom.hashes_of(array)]


def _made_filter(hashes: list[int], size_bytes: int) -> bytes:
    return bloom.build_bitset(np.array(hashes, np.uint64), size_bytes)


def _set_bits(hashes: list[int], size_bytes: int) -> list[int]:
    content = np.frombuffer(_made_filter(hashes, size_bytes), np.uint8)
    found: list[int] = np.flatnonzero(np.unpackbits(content, bitorder="little")).tolist()
    return found


def _contained(content: bytes, hashes: list[int]) -> list[bool]:
    together = bloom.probe(content, np.array(hashes, np.uint64)).tolist()
    return [*(bool(bloom.may_contain(content, each)) for each in hashes), *together]


def _bits_of(content_bytes: int, value_hash: int) -> Iterator[int]:
    """Yield the bits that a hash sets: its upper half chooses a block, its lower half a bit in each of eight words."""
    block = (value_hash >> 32) * (content_bytes // 32) >> 32
    for word, salt in enumerate(BLOOM_SALTS):
        yield block * 256 + word * 32 + ((value_hash % (1 << 32)) * salt % (1 << 32) >> 27)


def filter_of(hashes: list[int], size_bytes: int) -> bytes:
    """Return a bloom filter of values with these hashes."""
    found = functools.reduce(
        lambda bits, bit: bits | 1 << bit, (bit for each in hashes for bit in _bits_of(size_bytes, each)), 0
    )
    return found.to_bytes(size_bytes, "little")


def may_be_in(content: bytes, value_hash: int) -> bool:
    """Return whether a filter has all bits of a hash."""
    return all(content[bit // 8] >> bit % 8 & 1 for bit in _bits_of(len(content), value_hash))
