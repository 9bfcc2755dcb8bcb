"""Pages of ALP and PFOR: the worked examples of their specifications, all values to the bit, hostile bytes."""

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from depth import nightly
from hypothesis import given
from hypothesis import strategies as st

from tornproof.impl.errors import CorruptError
from tornproof.impl.extension.alp import DOUBLES, FLOATS, Precision, Scale, _integers, decode_alp, encode_alp
from tornproof.impl.extension.bit_packing import pack, packed_size_bytes, unpack
from tornproof.impl.extension.pfor import decode_pfor, encode_pfor
from tornproof.impl.extension.vectors import VECTOR_SIZE
from tornproof.impl.layout.encodings import AlpDoubles, AlpPage, PforInts, PforLongs, PforPage

Values = npt.NDArray[Any]
OFFSET_BYTES = 4
ALP_EXAMPLE = np.array([1500.0, np.nan, 2500.0, 333.5])
PFOR_EXAMPLE = np.array([100, 102, 101, 103, 100, 99, 50000, 104], "<i4")
FIRST = OFFSET_BYTES.to_bytes(4, "little")


def decoder_of(values: Values) -> Callable[..., Values]:
    return decode_alp if values.dtype.kind == "f" else decode_pfor


def encoded(values: Values) -> bytes:
    return encode_alp(values) if values.dtype.kind == "f" else encode_pfor(values)


def decoded(content: bytes, values: Values) -> Values:
    return decoder_of(values)(memoryview(content), len(values), values.dtype.str, file="x", at=100)


def comes_back(values: Values) -> bytes:
    content = encoded(values)
    assert decoded(content, values).tobytes() == values.tobytes()
    return content


def bits_of(numbers: list[int], width: int) -> bytes:
    """Return packed numbers, by another way."""
    packed = sum(number << position * width for position, number in enumerate(numbers))
    return packed.to_bytes(packed_size_bytes(len(numbers), width), "little")


@pytest.mark.parametrize("width", range(65))
def test_numbers_of_every_width_come_back(width: int) -> None:
    generator = np.random.default_rng(width)
    numbers = generator.integers(0, (1 << width) - 1, (3, 192), np.uint64, endpoint=True)
    content = pack(numbers, width)
    assert [row.tobytes() for row in content] == [bits_of([*map(int, row)], width) for row in numbers]
    assert (unpack(content, width, 192) == numbers).all()


def test_powers_of_ten_are_rounded_correctly() -> None:
    for precision, sign in itertools.product((DOUBLES, FLOATS), ("", "-")):
        for exponent, power in enumerate(precision.powers(sign)):
            exact = Fraction(10) ** (-exponent if sign else exponent)
            error = abs(Fraction(float(power)) - exact)
            for direction in (-np.inf, np.inf):
                neighbour = np.nextafter(power, np.asarray(direction, power.dtype))
                assert error <= abs(Fraction(float(neighbour)) - exact)


def test_the_worked_example_of_alp() -> None:
    integers, is_exception = _integers(ALP_EXAMPLE, Scale(np.asarray(4), np.asarray(3)), DOUBLES)
    assert is_exception.tolist() == [False, True, False, False]
    assert integers[~is_exception].tolist() == [15000, 25000, 3335]
    vector = AlpDoubles(exponent=4, factor=3, num_exceptions=1, frame_of_reference=3335, bit_width=15).pack()
    vector += bits_of([11665, 11665, 21665, 0], 15) + (1).to_bytes(2, "little") + ALP_EXAMPLE[1].tobytes()
    assert len(vector) == 31
    page = AlpPage(compression_mode=0, integer_encoding=0, log_vector_size=10, num_elements=4).pack()
    assert decoded(page + FIRST + vector, ALP_EXAMPLE).tobytes() == ALP_EXAMPLE.tobytes()
    assert len(comes_back(ALP_EXAMPLE)) == len(page + FIRST + vector), "ours is another pair, as large"


def test_the_worked_example_of_a_frame_of_reference() -> None:
    assert bits_of([111, 444, 777, 0], 10) == pack(np.array([[111, 444, 777, 0]], np.uint64), 10)[0, :5].tobytes()
    content = comes_back(np.array([123.0, 456.0, 789.0, 12.0]))
    vector = AlpDoubles.unpack(content, AlpPage.layout.size_bytes + OFFSET_BYTES, file="x")
    assert (vector.bit_width, vector.num_exceptions) == (10, 0)


def test_the_worked_examples_of_pfor() -> None:
    page = PforPage(packing_mode=0, log_vector_size=10, value_byte_width=4, num_elements=8).pack()
    vector = PforInts(frame_of_reference=99, bit_width=3, num_exceptions=1).pack()
    vector += bits_of([1, 3, 2, 4, 1, 0, 0, 5], 3) + (6).to_bytes(2, "little") + (50000).to_bytes(4, "little")
    assert len(vector) == 16
    assert comes_back(PFOR_EXAMPLE) == page + FIRST + vector
    generator = np.random.default_rng(0)
    uniform = generator.integers(1000, 1255, 1024, "<i4", endpoint=True)
    uniform[:2] = 1000, 1255
    assert len(comes_back(uniform)) == 1042
    keys = generator.integers(2_450_815, 2_453_005, 1024, "<i4", endpoint=True)
    keys[:2] = 2_450_815, 2_453_005
    keys[100:1000:90] = 2_415_022
    content = comes_back(keys)
    vector_header = PforInts.unpack(content, PforPage.layout.size_bytes + OFFSET_BYTES, file="x")
    # The document says 11 bits, in which its own largest distance, 2,190, does not fit.
    assert vector_header == PforInts(frame_of_reference=2_450_815, bit_width=12, num_exceptions=10)
    assert len(content) == 7 + OFFSET_BYTES + 7 + 1536 + 60


HARD = {
    "nothing": np.zeros(0),
    "specials": np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.7976931348623157e308, 2.0**63, -(2.0**63)]),
    "a NaN with other bits": np.array([0x7FF8_0000_0000_0123, 0xFFF0_0000_0000_0001], np.uint64).view("<f8"),
    "exceptions alone": np.full(3000, np.pi * 1e-300),
    "prices": np.round(np.random.default_rng(1).normal(100, 5, 5000), 2),
    "random bits": np.random.default_rng(2).integers(0, 1 << 63, 2500, np.int64).view("<f8"),
    "floats": np.round(np.random.default_rng(3).normal(100, 5, 3000), 1).astype("<f4"),
    "floats of random bits": np.random.default_rng(4).integers(0, 1 << 31, 2500, np.int32).view("<f4"),
    "the whole range": np.array([-(1 << 63), (1 << 63) - 1, 0, -1], "<i8"),
    "the whole range of 32 bits": np.array([-(1 << 31), (1 << 31) - 1, 0, -1], "<i4"),
    "times": np.cumsum(np.random.default_rng(5).integers(0, 5000, 4000, np.int64)) + 1_700_000_000_000_000,
    "one value": np.full(2048, 7, "<i8"),
}


@pytest.mark.parametrize("name", HARD)
def test_all_values_come_back_to_the_bit(name: str) -> None:
    comes_back(HARD[name])


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i8", "<i4"])
@given(content=st.binary(max_size=600))
def test_any_values_come_back_to_the_bit(dtype: str, content: bytes) -> None:
    whole = len(content) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize
    comes_back(np.frombuffer(content[:whole], dtype))


@pytest.mark.parametrize("count", [VECTOR_SIZE - 1, VECTOR_SIZE, VECTOR_SIZE + 1, 2 * VECTOR_SIZE])
def test_counts_beside_whole_vectors(count: int) -> None:
    comes_back(np.arange(count) / 4)
    comes_back(np.arange(count, dtype="<i4"))


def test_decimals_and_times_are_small() -> None:
    assert len(encoded(HARD["prices"])) < 0.25 * HARD["prices"].nbytes
    assert len(encoded(HARD["times"])) < 0.4 * HARD["times"].nbytes
    assert len(encoded(HARD["one value"])) < 50


@pytest.mark.parametrize("log_vector_size", [3, 5, 15])
def test_vectors_of_other_sizes_are_read(log_vector_size: int) -> None:
    """Other writers may choose the size; each vector here has its own width."""
    size = 1 << log_vector_size
    vectors = [
        PforLongs(frame_of_reference=-3, bit_width=width, num_exceptions=0).pack()
        + bits_of([(1 << width) - 1] * size, width)
        for width in (0, 1, 7)
    ]
    starts = itertools.accumulate(map(len, vectors[:-1]), initial=OFFSET_BYTES * len(vectors))
    page = PforPage(packing_mode=0, log_vector_size=log_vector_size, value_byte_width=8, num_elements=3 * size).pack()
    content = page + b"".join(start.to_bytes(4, "little") for start in starts) + b"".join(vectors)
    values = np.repeat(np.array([-3, -2, 124], "<i8"), size)
    assert (decoded(content, values) == values).all()


@pytest.mark.parametrize(
    ("changed", "at", "field"),
    [
        (1, 0, "COMPRESSION_MODE"),
        (1, 1, "INTEGER_ENCODING"),
        (2, 2, "LOG_VECTOR_SIZE"),
        (16, 2, "LOG_VECTOR_SIZE"),
        (5, 3, "NUM_ELEMENTS"),
        (255, 6, "NUM_ELEMENTS"),
        (255, 8, "offsets"),
        (5, 7, "bit_width"),
        (19, 11, "exponent"),
        (5, 12, "exponent"),
        (2, 13, "offsets"),
        (65, 23, "bit_width"),
        (17, 23, "offsets"),
        (4, 32, "exception positions"),
    ],
)
def test_what_contradicts_the_bytes_is_rejected_with_its_name(changed: int, at: int, field: str) -> None:
    vector = AlpDoubles(exponent=4, factor=3, num_exceptions=1, frame_of_reference=3335, bit_width=15).pack()
    vector += bits_of([11665, 11665, 21665, 0], 15) + (1).to_bytes(2, "little") + ALP_EXAMPLE[1].tobytes()
    page = AlpPage(compression_mode=0, integer_encoding=0, log_vector_size=10, num_elements=4).pack()
    content = bytearray(page + FIRST + vector)
    content[at] = changed
    with pytest.raises(CorruptError) as caught:
        decoded(bytes(content), ALP_EXAMPLE)
    assert caught.value.problem.field == field
    assert caught.value.problem.offset_bytes is not None and caught.value.problem.offset_bytes >= 100


@pytest.mark.parametrize("step", [11, nightly(1)])
@pytest.mark.parametrize("values", [ALP_EXAMPLE, PFOR_EXAMPLE], ids=["ALP", "PFOR"])
def test_every_flipped_bit_and_every_cut_gives_values_or_an_error(values: Values, step: int) -> None:
    content = encoded(values)
    for bit in range(0, 8 * len(content), step):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert len(decoded(bytes(damaged), values)) == len(values)
        except CorruptError:
            continue
    for size_bytes in range(len(content)):
        with pytest.raises(CorruptError):
            decoded(content[:size_bytes], values)


def test_a_claim_of_many_values_allocates_nothing() -> None:
    for page in (
        AlpPage(compression_mode=0, integer_encoding=0, log_vector_size=15, num_elements=(1 << 31) - 1).pack(),
        PforPage(packing_mode=0, log_vector_size=15, value_byte_width=8, num_elements=(1 << 31) - 1).pack(),
    ):
        decode: Callable[..., Values] = decode_alp if page[1] == 0 else decode_pfor
        with pytest.raises(CorruptError, match="at most what 300 bytes can hold"):
            decode(memoryview(page + bytes(300)), (1 << 31) - 1, "<f8" if page[1] == 0 else "<i8", file="x", at=0)


def test_both_precisions_have_their_exponents() -> None:
    made: list[Precision] = [DOUBLES, FLOATS]
    assert [(each.exponent_max + 1) * (each.exponent_max + 2) // 2 for each in made] == [190, 66]
