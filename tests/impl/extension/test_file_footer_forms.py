"""The footer of a file in each of its forms, what readers say of it, and every damage of it."""

from collections import Counter
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from depth import nightly
from footer_forms import EXTENDED, damages, in_form, outcome, read, reader_of, sample_file
from parquet_files import footer_bytes

from tornproof.impl.errors import CorruptError
from tornproof.impl.extension.encode import flatbuffer_of
from tornproof.impl.extension.footer import Source, extension_content, footer_tail, read_file_footer
from tornproof.impl.extension.point import HeaderForm, append_extension
from tornproof.impl.layout.parquet import FINAL_MAGIC, ExtensionTail, FooterForm
from tornproof.impl.parquet.footer import file_tail
from tornproof.impl.storage.checksum import crc32

SIDE_BY_SIDE = (FooterForm.PRIVATE, FooterForm.MIGRATION)


@dataclass(frozen=True)
class Sample:
    content: bytes
    thrift: bytes
    footer_offset: int


@pytest.fixture(scope="module")
def sample() -> Sample:
    content = sample_file()
    thrift, offset_bytes = footer_bytes(content)
    return Sample(content, thrift, offset_bytes)


@pytest.mark.parametrize("header", list(HeaderForm))
@pytest.mark.parametrize("form", EXTENDED)
def test_a_form_is_recognised_and_both_footers_say_the_same(
    sample: Sample, form: FooterForm, header: HeaderForm
) -> None:
    plain, footer = read(sample.content), read(in_form(sample.content, form, header))
    assert (plain.form, plain.source, plain.doubt, plain.header) == (FooterForm.THRIFT, Source.THRIFT, None, None)
    assert (footer.form, footer.source, footer.doubt) == (form, Source.FLATBUFFERS, None)
    assert footer.header is (None if form is FooterForm.FINAL else header)
    assert footer.thrift() == plain.thrift() == sample.thrift
    assert footer.decoded() == plain.decoded()
    for row_group in range(3):
        for column in range(4):
            assert footer.chunk(row_group, column) == plain.chunk(row_group, column)
    for each in (plain, footer):
        with pytest.raises(IndexError):
            each.chunk(3, 0)


@pytest.mark.parametrize("form", SIDE_BY_SIDE)
def test_readers_that_do_not_know_it_read_on(sample: Sample, form: FooterForm) -> None:
    extended = pq.read_table(pa.BufferReader(in_form(sample.content, form)))
    assert extended.equals(pq.read_table(pa.BufferReader(sample.content)))


def test_the_final_form_has_no_thrift_and_is_rejected_by_readers_that_do_not_know_it(sample: Sample) -> None:
    content = in_form(sample.content, FooterForm.FINAL)
    assert content.endswith(FINAL_MAGIC) and sample.thrift not in content
    with pytest.raises(pa.ArrowInvalid):
        pq.read_metadata(pa.BufferReader(content))


def test_one_chunk_is_found_without_reading_the_others(sample: Sample) -> None:
    content = in_form(sample.content, FooterForm.FINAL)
    asked: list[tuple[int, int]] = []

    def counted(size_bytes: int, offset_bytes: int) -> bytes:
        asked.append((size_bytes, offset_bytes))
        return reader_of(content)(size_bytes, offset_bytes)

    footer = read_file_footer(counted, len(content), file="x")
    before = len(asked)
    assert footer.chunk(1, 2).total_compressed_size > 0
    assert len(asked) == before == 3


# Of a file with both footers, damage of Thrift is rejected, because it is in doubt which of them is right.
@pytest.mark.parametrize("step", [67, nightly(1)])
@pytest.mark.parametrize("form", EXTENDED)
def test_no_flipped_bit_and_no_cut_of_a_footer_gives_a_wrong_answer(
    sample: Sample, form: FooterForm, step: int
) -> None:
    content = in_form(sample.content, form)
    found: Counter[str] = Counter()
    for name, damaged in islice(damages(content, sample.footer_offset), 0, None, step):
        found[outcome(damaged, sample.thrift)] += 1
        assert not found["silent"], name
    assert found.total() == -(-9 * (len(content) - sample.footer_offset) // step) > 15_000 // step
    # Of the final form nothing is left to fall back on.
    assert (found["fallback"] == 0) is (form is FooterForm.FINAL)
    assert found["rejected"] > 0 == found["right"], "no byte is without a checksum"


def test_without_its_checksum_damage_of_the_flatbuffers_would_be_silent(sample: Sample) -> None:
    """The control: damage with checksums that are made to fit gives wrong answers, which the same judge notices."""
    flat = bytearray(flatbuffer_of(sample.thrift, file="x"))
    plain, places = read(sample.content), ((0, 0), (1, 1), (2, 3))
    right = [plain.chunk(*each) for each in places]
    found: Counter[str] = Counter()
    for position in range(0, len(flat), 7):
        flat[position] ^= 1
        tail = file_tail(append_extension(sample.thrift, extension_content(bytes(flat), FooterForm.PRIVATE)))
        flat[position] ^= 1
        try:
            footer = read(sample.content[: sample.footer_offset] + tail)
            found["right" if [footer.chunk(*each) for each in places] == right else "wrong"] += 1
        except (CorruptError, IndexError):
            found["rejected"] += 1
    assert found["wrong"] > 10


@pytest.mark.parametrize("form", SIDE_BY_SIDE)
def test_doubts_are_said_and_answered_by_thrift(sample: Sample, form: FooterForm) -> None:
    content = in_form(sample.content, form)
    tail_offset = len(content) - 8 - 1 - ExtensionTail.layout.size_bytes
    doubts = {
        "flatbuffer_crc": "its checksum is wrong",
        "flatbuffer_size": "the checksum of its size is wrong",
        "size_crc": "the checksum of its size is wrong",
        "uuid": "its UUID is unknown",
    }
    for name, doubt in doubts.items():
        at = tail_offset + ExtensionTail.layout.offset_of(name)
        damaged = content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
        footer = read(damaged)
        assert (footer.source, footer.doubt) == (Source.THRIFT, doubt)
        assert footer.thrift() == sample.thrift
        assert footer.form is (FooterForm.THRIFT if name == "uuid" else form)
    damaged = content[: tail_offset - 50] + b"\xff" + content[tail_offset - 49 :]
    assert read(damaged).doubt == "its checksum is wrong"


def test_a_hostile_size_with_a_right_checksum_is_a_doubt(sample: Sample) -> None:
    flat = flatbuffer_of(sample.thrift, file="x")
    whole = extension_content(flat, FooterForm.PRIVATE)
    for size in (len(flat) + len(sample.thrift) + 100, (1 << 32) - 1):
        tail = ExtensionTail.unpack(whole, len(flat), file="x")
        hostile = flat + tail.changed(flatbuffer_size=size, size_crc=crc32(size.to_bytes(4, "little"))).pack()
        content = sample.content[: sample.footer_offset] + file_tail(append_extension(sample.thrift, hostile))
        footer = read(content)
        assert (footer.source, footer.doubt) == (Source.THRIFT, "its size is larger than the footer")


def test_the_extension_of_another_version_of_the_file_is_rejected(sample: Sample) -> None:
    """An extension that a writer kept from an older footer would answer for row groups that are no more."""
    older = pa.table({"ts": [1, 2, 3]})
    sink = pa.BufferOutputStream()
    pq.write_table(older, sink)
    stale = flatbuffer_of(footer_bytes(sink.getvalue().to_pybytes())[0], file="x")
    extended = append_extension(sample.thrift, extension_content(stale, FooterForm.PRIVATE))
    with pytest.raises(CorruptError, match="of which the FlatBuffers footer was made"):
        read(sample.content[: sample.footer_offset] + file_tail(extended))


def test_the_extension_of_somebody_else_is_left_alone(sample: Sample) -> None:
    extended = append_extension(sample.thrift, b"somebody else's, and their UUID.")
    footer = read(sample.content[: sample.footer_offset] + file_tail(extended))
    assert (footer.form, footer.source, footer.doubt) == (FooterForm.THRIFT, Source.THRIFT, "its UUID is unknown")
    assert footer.thrift() == sample.thrift


def test_a_footer_of_the_migration_can_be_extended_itself(sample: Sample) -> None:
    flat = flatbuffer_of(sample.thrift, file="x", extension=b"one more")
    extended = append_extension(sample.thrift, extension_content(flat, FooterForm.MIGRATION))
    footer = read(sample.content[: sample.footer_offset] + file_tail(extended))
    assert footer.flat is not None and footer.flat.extension == b"one more"
    assert footer.thrift() == footer.flat.thrift() == sample.thrift
    assert read(in_form(sample.content, FooterForm.MIGRATION)).flat.extension is None  # type: ignore[union-attr]


def test_the_tail_of_the_thrift_form_is_that_of_any_file(sample: Sample) -> None:
    tail = footer_tail(sample.thrift, FooterForm.THRIFT, file="x")
    assert sample.content[: sample.footer_offset] + tail == sample.content
