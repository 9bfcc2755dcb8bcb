"""Values of every type of QuestDB's: its codes, strategies that reach the extremes, and the arrays that hold them."""

import decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.types.arrow import list_type
from tornproof.impl.types.questdb import DECIMAL_TYPE, GEOHASH_TYPE, TypeTag

NANOSECONDS = TypeTag.TIMESTAMP | 1 << 18
SYMBOLS = SymbolTable(("zebra", "", "never used", "apple", "größe", "last"))
_, PRECISION, SCALE = DECIMAL_TYPE.bits
_, GEOHASH_BITS, GEOHASH_FLAG = GEOHASH_TYPE.bits


def decimal_type(tag: TypeTag, precision: int, scale: int) -> int:
    """Return a decimal's type code."""
    return SCALE.put(PRECISION.put(int(tag), precision), scale)


def array_type(dimensions: int) -> int:
    """Return the type code of an array of doubles."""
    return TypeTag.ARRAY | TypeTag.DOUBLE << 8 | (dimensions - 1) << 14


def geohash_type(tag: TypeTag, size_bits: int) -> int:
    """Return a geohash's type code."""
    return GEOHASH_FLAG.put(GEOHASH_BITS.put(int(tag), size_bits), 1)


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    """Any integer of that width, its extremes often."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.sampled_from([low, high, 0, 1]) | st.integers(low, high)


def geohashes(size_bits: int) -> st.SearchStrategy[int]:
    """Any geohash of so many bits, and what servers take for null."""
    most = (1 << size_bits) - 1
    return st.sampled_from([-1, 0, most]) | st.integers(0, most)


def decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    """Any decimal of that shape, its extremes often."""
    most = 10**precision - 1
    numbers = st.sampled_from([-most, most, -1, 0]) | st.integers(-most, most)
    return numbers.map(lambda number: decimal_of(number, scale))


def decimal_of(unscaled: int, scale: int) -> decimal.Decimal:
    """Return a decimal of any number of digits, from a tuple, because arithmetic would round to the context's."""
    return decimal.Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def nested(dimensions: int) -> st.SearchStrategy[Any]:
    """Lists in lists that are an array."""
    lengths = st.lists(st.integers(0, 3), min_size=dimensions, max_size=dimensions)
    return lengths.flatmap(shaped)


def shaped(lengths: list[int]) -> st.SearchStrategy[Any]:
    """Arrays of one shape."""
    if not lengths:
        return st.floats()
    return st.lists(shaped(lengths[1:]), min_size=lengths[0], max_size=lengths[0])


TYPES: dict[str, tuple[int, pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (TypeTag.BOOLEAN, pa.bool_(), st.booleans()),
    "byte": (TypeTag.BYTE, pa.int8(), integers(8)),
    "short": (TypeTag.SHORT, pa.int16(), integers(16)),
    "char": (TypeTag.CHAR, pa.uint16(), integers(16, signed=False)),
    "int": (TypeTag.INT, pa.int32(), integers(32)),
    "long": (TypeTag.LONG, pa.int64(), integers(64)),
    "date": (TypeTag.DATE, pa.timestamp("ms", "UTC"), integers(64)),
    "timestamp": (TypeTag.TIMESTAMP, pa.timestamp("us", "UTC"), integers(64)),
    "nanoseconds": (NANOSECONDS, pa.timestamp("ns", "UTC"), integers(64)),
    "float": (TypeTag.FLOAT, pa.float32(), st.sampled_from([0.0, -0.0]) | st.floats(width=32)),
    "double": (TypeTag.DOUBLE, pa.float64(), st.sampled_from([0.0, -0.0]) | st.floats()),
    "string": (TypeTag.STRING, pa.string(), st.text()),
    "varchar": (TypeTag.VARCHAR, pa.string(), st.text()),
    "symbol": (TypeTag.SYMBOL, pa.string(), st.sampled_from(SYMBOLS.symbols)),
    "binary": (TypeTag.BINARY, pa.binary(), st.binary()),
    "uuid": (TypeTag.UUID, pa.uuid(), st.binary(min_size=16, max_size=16)),
    "long128": (TypeTag.LONG128, pa.binary(16), st.binary(min_size=16, max_size=16)),
    "long256": (TypeTag.LONG256, pa.binary(32), st.binary(min_size=32, max_size=32)),
    "ipv4": (TypeTag.IPV4, pa.uint32(), integers(32, signed=False)),
    "geobyte": (geohash_type(TypeTag.GEOBYTE, 4), pa.int8(), geohashes(4)),
    "geoshort": (geohash_type(TypeTag.GEOSHORT, 12), pa.int16(), geohashes(12)),
    "geoint": (geohash_type(TypeTag.GEOINT, 24), pa.int32(), geohashes(24)),
    "geolong": (geohash_type(TypeTag.GEOLONG, 50), pa.int64(), geohashes(50)),
    "array": (array_type(1), list_type(1), nested(1)),
    "array of 3 dimensions": (array_type(3), list_type(3), nested(3)),
    "decimal8": (decimal_type(TypeTag.DECIMAL8, 2, 1), pa.decimal128(2, 1), decimals(2, 1)),
    "decimal16": (decimal_type(TypeTag.DECIMAL16, 4, 4), pa.decimal128(4, 4), decimals(4, 4)),
    "decimal32": (decimal_type(TypeTag.DECIMAL32, 9, 0), pa.decimal128(9, 0), decimals(9, 0)),
    "decimal64": (decimal_type(TypeTag.DECIMAL64, 18, 4), pa.decimal128(18, 4), decimals(18, 4)),
    "decimal128": (decimal_type(TypeTag.DECIMAL128, 38, 6), pa.decimal128(38, 6), decimals(38, 6)),
    "decimal256": (decimal_type(TypeTag.DECIMAL256, 76, 8), pa.decimal256(76, 8), decimals(76, 8)),
}
NEVER_NULL = {"boolean", "byte", "short", "char"}
SHOWN: dict[str, tuple[Any, Any]] = {
    "boolean": (False, True),
    "byte": (-128, 127),
    "short": (-32768, 32767),
    "char": (0, 65535),
    "int": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    "date": (-62_135_596_800_000, 253_402_300_799_999),
    "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999),
    "nanoseconds": (-(1 << 60), 1 << 60),
    "float": (float("-inf"), 2.0**-149),
    "double": (float("inf"), 5e-324),
    "string": ("", "größe 😀"),
    "varchar": ("\0", "x" * 3000),
    "binary": (b"", bytes(range(256))),
    "uuid": (bytes(16), b"\xff" * 16),
    "long128": (bytes(16), b"\xff" * 16),
    "long256": (bytes(32), b"\xff" * 32),
    "ipv4": (0, (1 << 32) - 1),
    "geobyte": (0, 15),
    "geoshort": (0, (1 << 12) - 1),
    "geoint": (0, (1 << 24) - 1),
    "geolong": (0, (1 << 50) - 1),
    "array": ([], [1.5, -0.0, float("inf")]),
    "array of 3 dimensions": ([[[]]], [[[1.0, 2.0]], [[3.0, 4.0]]]),
    "decimal8": (decimal.Decimal("-9.9"), decimal.Decimal("9.9")),
    "decimal16": (decimal.Decimal("-0.9999"), decimal.Decimal("0.9999")),
    "decimal32": (decimal_of(1 - 10**9, 0), decimal_of(10**9 - 1, 0)),
    "decimal64": (decimal_of(1 - 10**18, 4), decimal_of(10**18 - 1, 4)),
    "decimal128": (decimal_of(1 - 10**38, 6), decimal_of(10**38 - 1, 6)),
    "decimal256": (decimal_of(1 - 10**76, 8), decimal_of(10**76 - 1, 8)),
}
"""The smallest and the largest that every reader can show: calendars end long before 64 bits do."""


def arrow(values: list[Any], of: pa.DataType) -> pa.Array:
    """Return an array of Python values; times are given as integers, UUIDs as bytes."""
    if isinstance(of, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(of, pa.array(values, of.storage_type))
    return pa.array(values, pa.int64()).view(of) if pa.types.is_timestamp(of) else pa.array(values, of)


def text(values: pa.Array | pa.ChunkedArray) -> str:
    """Tell values apart that compare as equal, and let NaN equal itself."""
    if pa.types.is_timestamp(values.type):
        # Most instants have no Python object.
        return f"{values.type} {values.cast(pa.int64()).to_pylist()}"
    return f"{values.type} {values.to_pylist()!r}"
