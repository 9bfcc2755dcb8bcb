"""Hashes, sizes and bits of bloom filters are those of other writers, and no filter loses a value."""

import io
import struct
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_files import written
from type_values import SYMBOLS, TYPES, arrow

from tornproof.impl.parquet.bloom import (
    bitset_of_values,
    bitset_size_bytes,
    build_bitset,
    can_be_hashed,
    hash_of,
    hashes_of,
    may_contain,
    probe,
)
from tornproof.impl.parquet.bloom_filter import (
    SIZE_MAX_BYTES,
    SIZE_MIN_BYTES,
    decode_filter_header,
    encode_filter_header,
)
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.write.stored_arrays import stored_array

# The bits of the file bloom_filter.xxhash.bin of Apache's parquet-testing, which holds four words: offset and byte.
PUBLIC_WORDS = ("hello", "parquet", "bloom", "filter")
PUBLIC_BITS = {
    130: 0x10, 133: 0x02, 137: 0x04, 140: 0x80, 145: 0x02, 151: 0x80, 155: 0x10, 159: 0x08,
    162: 0x80, 167: 0x10, 168: 0x01, 175: 0x10, 176: 0x20, 182: 0x20, 187: 0x40, 190: 0x08,
    224: 0x04, 230: 0x40, 234: 0x40, 238: 0x08, 243: 0x04, 245: 0x20, 248: 0x10, 252: 0x02,
    322: 0x20, 325: 0x08, 329: 0x01, 335: 0x20, 338: 0x80, 343: 0x08, 345: 0x01, 349: 0x10,
}  # fmt: skip
PUBLIC_HEADER = bytes.fromhex("1580101c1c00001c1c00001c1c000000")


def random_words(seed: int, count: int) -> pa.Array:
    """Return different 64-bit integers; other seeds give other ones."""
    numbers = np.arange(count, dtype=np.uint64) * np.uint64(2) + np.uint64(seed % 2)
    return pa.array((numbers * np.uint64(0x9E3779B97F4A7C15)).view(np.int64))


def filters_of(file: bytes) -> dict[str, tuple[bytes, bytes]]:
    """Return header and bitset of each filter in the first row group."""
    found = {}
    row_group = pq.read_metadata(io.BytesIO(file)).row_group(0)
    for position in range(row_group.num_columns):
        chunk = row_group.column(position)
        if chunk.bloom_filter_offset is not None:
            raw = file[chunk.bloom_filter_offset : chunk.bloom_filter_offset + chunk.bloom_filter_length]
            size_bytes, start = decode_filter_header(raw, file="made")
            assert len(raw) == start + size_bytes
            found[chunk.path_in_schema] = raw[:start], raw[start:]
    return found


@given(st.integers(0, 40), st.data())
def test_hashes_of_values_of_any_fixed_size_are_those_of_the_reference(width_bytes: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.binary(min_size=width_bytes, max_size=width_bytes), min_size=1, max_size=5))
    expected = [xxhash.xxh64_intdigest(value) for value in values]
    assert hashes_of(pa.array(values, pa.binary(width_bytes))).tolist() == expected
    assert hashes_of(pa.array(values)).tolist() == expected
    assert [hash_of(value) for value in values] == expected


PLAIN_FORMS: list[tuple[pa.Array, list[bytes]]] = [
    (pa.array([-1, 5], pa.int8()), [b"\xff\xff\xff\xff", b"\5\0\0\0"]),
    (pa.array([-2, 5], pa.int16()), [b"\xfe\xff\xff\xff", b"\5\0\0\0"]),
    (pa.array([0xFFFF], pa.uint16()), [b"\xff\xff\0\0"]),
    (pa.array([0xFFFF_FFFF], pa.uint32()), [b"\xff" * 4]),
    (pa.array([1, None, -1], pa.int32()), [b"\1\0\0\0", b"\xff" * 4]),
    (pa.array([None, 1 << 40], pa.int64()), [(1 << 40).to_bytes(8, "little")]),
    (pa.array([1], pa.timestamp("us", "UTC")), [b"\1" + bytes(7)]),
    (pa.array([1.0, -0.0], pa.float32()), [b"\0\0\x80\x3f", b"\0\0\0\x80"]),
    (pa.array([1.0, -0.0], pa.float64()), [b"\0\0\0\0\0\0\xf0\x3f", b"\0\0\0\0\0\0\0\x80"]),
    (pa.array(["ä", None, ""]), ["ä".encode(), b""]),
    (pa.array(["ä"], pa.large_string()), ["ä".encode()]),
    (pa.array([b"\0\xff"], pa.binary()), [b"\0\xff"]),
    (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16))), [b"0123456789abcdef"]),
    (pa.DictionaryArray.from_arrays(pa.array([2, None, 0, 2]), pa.array(["x", "unused", "z"])), [b"z", b"x", b"z"]),
    (pa.array([], pa.int64()), []),
    (pa.array([None, None], pa.string()), []),
]


@pytest.mark.parametrize(("stored", "plain"), PLAIN_FORMS)
def test_values_are_hashed_in_the_form_of_plain_pages_and_nulls_are_left_out(stored: pa.Array, plain: Any) -> None:
    assert can_be_hashed(stored.type)
    assert hashes_of(stored).tolist() == [hash_of(value) for value in plain]
    assert hashes_of(stored.slice(1)).tolist() == [hash_of(value) for value in plain][len(stored[:1].drop_null()) :]


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=12)
@given(data=st.data())
def test_a_filter_of_any_type_holds_every_value_that_it_was_made_of(name: str, data: st.DataObject) -> None:
    column_type, of, values = TYPES[name]
    metadata = TableMetadata(
        columns=(TableColumn(id=0, name="x", type=column_type),), partition_by=PartitionBy.DAY, timestamp_id=-1
    )
    array = arrow(data.draw(st.lists(values, max_size=20)), of)
    stored = stored_array(array, new_header(metadata).columns[0], symbols=SYMBOLS).array
    assert can_be_hashed(stored.type) is (name != "boolean")
    if name == "boolean":
        return
    bitset = bitset_of_values(stored, 0.01)
    hashes = hashes_of(stored)
    assert probe(bitset, hashes).all()
    assert all(may_contain(bitset, int(each)) for each in hashes)


def test_the_public_filter_is_made_of_its_words() -> None:
    public = bytes(PUBLIC_BITS.get(position, 0) for position in range(1024))
    assert build_bitset(hashes_of(pa.array(PUBLIC_WORDS)), 1024) == public
    assert all(may_contain(public, hash_of(word.encode())) for word in PUBLIC_WORDS)
    assert not any(may_contain(public, hash_of(word.encode())) for word in ("Hello", "parque", "", "filters"))
    assert encode_filter_header(1024) == PUBLIC_HEADER
    assert decode_filter_header(PUBLIC_HEADER + public, file="public") == (1024, 16)


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.05, 0.01, 0.001, 0.0001])
def test_filters_are_as_large_as_those_of_pyarrow_and_have_the_same_bits(rate: float) -> None:
    for count in (1, 5, 26, 27, 53, 64, 1000, 4096):
        stored = pa.table({"n": random_words(1, count)})
        content = written(stored, bloom_filter_options={"n": {"ndv": count, "fpp": rate}})
        header, bitset = filters_of(content)["n"]
        assert len(bitset) == bitset_size_bytes(count, rate)
        assert bitset == bitset_of_values(stored.column(0).combine_chunks(), rate)
        assert header == encode_filter_header(len(bitset))


def test_filters_are_never_smaller_than_a_block_or_larger_than_readers_take() -> None:
    assert bitset_size_bytes(0, 0.01) == bitset_size_bytes(1, 0.9) == SIZE_MIN_BYTES == 32
    assert bitset_size_bytes(1 << 31, 0.001) == bitset_size_bytes(1 << 60, 0.001) == SIZE_MAX_BYTES == 1 << 27


def test_filters_that_duckdb_writes_are_ours(tmp_path: Path) -> None:
    path = tmp_path / "duckdb.parquet"
    duckdb.execute(
        "COPY (SELECT (i * 7919)::BIGINT AS long, (i % 37)::INTEGER AS int, 's' || (i % 50) AS text, "
        f"(i % 41) / 2 AS double, ((i % 29) / 4)::FLOAT AS float FROM range(3000) r(i)) TO '{path}' (FORMAT parquet)"
    )
    rows, found = pq.read_table(path), filters_of(path.read_bytes())
    assert len(found) >= 4
    for name, (header, bitset) in found.items():
        stored = rows.column(name).combine_chunks()
        assert build_bitset(hashes_of(stored), len(bitset)) == bitset
        assert header == encode_filter_header(len(bitset))
        assert probe(bitset, hashes_of(stored)).all()


def measured_rate(rate: float, load: float) -> float:
    """Return how often a filter is wrong that holds such a part of the values for which its size is chosen."""
    size_bytes = bitset_size_bytes(20_000, rate)
    room = next(count for count in range(20_000, 80_000) if bitset_size_bytes(count + 1, rate) > size_bytes)
    bitset = build_bitset(hashes_of(random_words(0, int(room * load))), size_bytes)
    absent = hashes_of(random_words(1, 1_000_000))
    return np.count_nonzero(probe(bitset, absent)) / len(absent)


@pytest.mark.parametrize(("rate", "load"), [(0.05, 1.0), (0.01, 1.0), (0.001, 0.9)])
def test_absent_values_are_found_about_as_often_as_was_asked_for(rate: float, load: float) -> None:
    assert rate / 3 < measured_rate(rate, load) < rate * 1.5


def test_where_the_common_rule_sizes_too_small_is_known() -> None:
    # It leaves out that some blocks get more values than others.
    assert 0.0015 < measured_rate(0.001, 1.0) < 0.0025


@given(st.binary(min_size=32, max_size=96).filter(lambda raw: len(raw) % 32 == 0), st.integers(0, (1 << 64) - 1))
def test_single_and_many_probes_agree_on_any_bits(bitset: bytes, value_hash: int) -> None:
    assert probe(bitset, np.array([value_hash], np.uint64)).tolist() == [may_contain(memoryview(bitset), value_hash)]


def test_a_filter_of_a_negative_zero_has_both_zeros() -> None:
    """A server skipped the row group for a condition on 0.0, and what servers write for it was damage."""
    for form, of in (("<f", pa.float32()), ("<d", pa.float64())):
        negative, positive = (hash_of(struct.pack(form, zero)) for zero in (-0.0, 0.0))
        both = bitset_of_values(pa.array([-0.0, None, 7.0], of), 0.01)
        assert may_contain(both, negative) and may_contain(both, positive)
        alone = bitset_of_values(pa.array([0.0], of), 0.01)
        assert may_contain(alone, positive) and not may_contain(alone, negative)


def test_a_filter_of_no_values_holds_nothing_and_one_of_all_bits_everything() -> None:
    empty = bitset_of_values(pa.array([None], pa.int64()), 0.01)
    assert empty == bytes(32)
    assert not may_contain(empty, 0) and may_contain(b"\xff" * 32, 0)
    assert not probe(empty, hashes_of(random_words(0, 100))).any()
