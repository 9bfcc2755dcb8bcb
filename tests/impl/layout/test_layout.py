"""One declaration of a byte layout gives offsets, single records, arrays and annotated hex that agree."""

import struct
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rejections import rejection

import tornproof.impl.layout.meta
import tornproof.impl.layout.parquet
import tornproof.impl.layout.pm
import tornproof.impl.layout.txn
import tornproof.impl.types.questdb
from tornproof.impl.layout.bits import Bits, BitTable
from tornproof.impl.layout.record import I64, U8, U32, FieldSpec, Record, Wire, derive_layout, gap, layout_of, meaning

MODULES = (
    tornproof.impl.layout.meta,
    tornproof.impl.layout.parquet,
    tornproof.impl.layout.pm,
    tornproof.impl.layout.txn,
    tornproof.impl.types.questdb,
)


def declared(kind: type) -> Iterator[Any]:
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, kind) and value is not Record:
                yield value


RECORDS = sorted(
    {record for record in declared(type) if issubclass(record, Record)}, key=lambda record: record.layout.title
)
BIT_TABLES = list(declared(BitTable))


@layout_of(title="Sample", size_bytes=16, source="this test")
class Sample(Record):
    small: U8 = meaning("first")
    left_over: Annotated[bytes, gap(3)] = meaning("nothing")
    word: U32 = meaning("second")
    long: I64 = meaning("third")


SAMPLE = Sample(small=7, left_over=b"\xaa\xbb\xcc", word=0x01020304, long=-2)
SAMPLE_BYTES = bytes.fromhex("07 aabbcc 04030201 feffffffffffffff")


def test_a_record_is_packed_little_endian_without_padding() -> None:
    assert SAMPLE.pack() == SAMPLE_BYTES
    assert Sample.unpack(b"?" + SAMPLE_BYTES, 1, file="f") == SAMPLE


def test_a_record_cannot_be_changed_and_can_be_a_key() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        SAMPLE.word = 3  # type: ignore[misc]
    assert {SAMPLE: "it"}[Sample.unpack(SAMPLE_BYTES, 0, file="f")] == "it"


def test_offsets_follow_from_the_order_of_the_fields() -> None:
    assert [(spec.name, spec.offset_bytes, spec.end_bytes) for spec in Sample.layout.fields] == [
        ("small", 0, 1),
        ("left_over", 1, 4),
        ("word", 4, 8),
        ("long", 8, 16),
    ]
    assert Sample.layout.offset_of("word") == 4
    with pytest.raises(KeyError):
        Sample.layout.offset_of("nothing")


def test_annotated_lines_have_offset_hex_name_and_value() -> None:
    assert list(Sample.layout.annotate(b"??" + SAMPLE_BYTES, 2)) == [
        (2, "07", "SMALL", "7"),
        (3, "aa bb cc", "LEFT_OVER", "aabbcc"),
        (6, "04 03 02 01", "WORD", "16909060"),
        (10, "fe ff ff ff ff ff ff ff", "LONG", "-2"),
    ]


@pytest.mark.parametrize("offset_bytes", [1, -1, 16, 1 << 64])
def test_a_record_outside_of_the_bytes_is_not_annotated(offset_bytes: int) -> None:
    with pytest.raises(AssertionError):
        list(Sample.layout.annotate(SAMPLE_BYTES, offset_bytes))


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_unpacked(buffer: type[Any]) -> None:
    assert Sample.unpack(buffer(SAMPLE_BYTES), 0, file="f") == SAMPLE


@pytest.mark.parametrize("offset_bytes", [1, -1, 16, 1 << 31, 1 << 64])
def test_a_record_that_does_not_fit_is_corrupt(offset_bytes: int) -> None:
    problem = rejection(lambda: Sample.unpack(SAMPLE_BYTES, offset_bytes, file="f"))
    assert (problem.field, problem.offset_bytes) == ("Sample", offset_bytes)


@pytest.mark.parametrize("word", [-1, 1 << 32])
def test_a_value_that_does_not_fit_its_field_is_rejected_when_packed(word: int) -> None:
    with pytest.raises(struct.error):
        Sample(small=0, left_over=bytes(3), word=word, long=0).pack()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
@settings(max_examples=30)
@given(data=st.data())
def test_struct_numpy_and_fields_agree_on_random_bytes(record: type[Record], data: st.DataObject) -> None:
    table = record.layout
    raw = data.draw(st.binary(min_size=table.size_bytes, max_size=table.size_bytes))
    unpacked = record.unpack(raw, 0, file="f")
    array = np.frombuffer(raw, table.dtype)
    assert array.itemsize == table.size_bytes
    for spec in table.fields:
        value = getattr(unpacked, spec.name)
        part = raw[spec.offset_bytes : spec.end_bytes]
        signed = spec.wire.name.startswith("i")
        assert value == (part if spec.wire.name == "bytes" else int.from_bytes(part, "little", signed=signed))
        cell = array[spec.name][0]
        assert value == (cell.tobytes() if spec.wire.name == "bytes" else int(cell))
    assert unpacked.pack() == raw


def test_the_sweep_covers_all_layouts() -> None:
    assert len(RECORDS) >= 25
    assert len(BIT_TABLES) >= 12


def test_fields_that_do_not_add_up_to_the_declared_size_are_noticed_at_import() -> None:
    with pytest.raises(AssertionError, match="add up to 4, not 8"):

        @layout_of(title="Short", size_bytes=8, source="this test")
        class Short(Record):
            word: U32 = meaning("only one")


def test_a_name_that_is_declared_twice_is_noticed_at_import() -> None:
    # The second annotation replaces the first, so its bytes are missing.
    with pytest.raises(AssertionError, match="add up to 4, not 8"):

        @layout_of(title="Twice", size_bytes=8, source="this test")
        class Twice(Record):
            word: U32 = meaning("once")
            word: U32 = meaning("again")  # type: ignore[no-redef]


def test_a_field_without_a_meaning_is_noticed_at_import() -> None:
    with pytest.raises(AssertionError, match="word has no meaning"):

        @layout_of(title="Silent", size_bytes=4, source="this test")
        class Silent(Record):
            word: U32


def test_a_field_without_a_wire_form_is_noticed_at_import() -> None:
    with pytest.raises(AssertionError):

        @layout_of(title="Formless", size_bytes=4, source="this test")
        class Formless(Record):
            word: int = meaning("how many bytes?")


WORD = Wire("u32", "I", "<u4", 4)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(FieldSpec("b", WORD, 6, ""), id="gap"),
        pytest.param(FieldSpec("b", WORD, 2, ""), id="overlap"),
        pytest.param(FieldSpec("a", WORD, 4, ""), id="name twice"),
        pytest.param(FieldSpec("b", Wire("u32", "Q", "<u4", 4), 4, ""), id="wire that lies about its size"),
    ],
)
def test_fields_that_do_not_join_are_noticed_at_import(second: FieldSpec) -> None:
    derive_layout("Good", "this test", (FieldSpec("a", WORD, 0, ""), FieldSpec("b", WORD, 4, "")))
    with pytest.raises((AssertionError, ValueError)):
        derive_layout("Bad", "this test", (FieldSpec("a", WORD, 0, ""), second))


NIBBLE = Bits("NIBBLE", 4, 4, "")


def test_bits_are_read_and_set_in_place() -> None:
    assert NIBBLE.mask == 0xF0
    assert NIBBLE.get(0xABC) == 0xB
    assert NIBBLE.put(0xABC, 5) == 0xA5C
    assert NIBBLE.get(-1) == 0xF


@pytest.mark.parametrize("value", [-1, 16])
def test_a_value_that_is_too_large_for_its_bits_is_our_bug(value: int) -> None:
    with pytest.raises(AssertionError):
        NIBBLE.put(0, value)


@pytest.mark.parametrize("table", BIT_TABLES, ids=lambda table: table.title)
@settings(max_examples=30)
@given(data=st.data())
def test_named_bits_of_a_word_do_not_disturb_each_other(table: BitTable, data: st.DataObject) -> None:
    word = data.draw(st.integers(0, (1 << table.word_bits) - 1))
    values = [data.draw(st.integers(0, (1 << bits.size_bits) - 1)) for bits in table.bits]
    changed = word
    for bits, value in zip(table.bits, values, strict=True):
        changed = bits.put(changed, value)
    assert [bits.get(changed) for bits in table.bits] == values
    assert changed & ~table.known_mask == word & ~table.known_mask
    assert changed >> table.word_bits == 0


@pytest.mark.parametrize(
    "bits",
    [
        pytest.param((Bits("A", 0, 5, ""), NIBBLE), id="overlap"),
        pytest.param((NIBBLE, Bits("B", 0, 1, "")), id="descending"),
        pytest.param((NIBBLE, Bits("C", 8, 1, "")), id="too many"),
    ],
)
def test_a_bit_table_that_does_not_fit_is_noticed_at_import(bits: tuple[Bits, ...]) -> None:
    assert BitTable("good", "this test", 8, (Bits("A", 0, 4, ""), NIBBLE)).known_mask == 0xFF
    with pytest.raises(AssertionError):
        BitTable("bad", "this test", 8, bits)
