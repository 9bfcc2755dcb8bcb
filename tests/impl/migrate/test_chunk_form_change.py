"""Files whose numbers are in a new encoding too: where their bytes are, what readers see, and every damage."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chunk_forms import (
    all_values,
    bits_of,
    changed,
    duplicate_bits,
    footer_of_form,
    in_chunk_form,
    numbers_file,
    outcome_of,
    records_in,
)
from depth import nightly
from footer_forms import FILE, reader_of
from parquet_files import footer_bytes, written

from tornproof.harness.common.patch import wrapped
from tornproof.impl.chunk.duplicate_pages import _decode_levels
from tornproof.impl.chunk.duplicate_values import ChunkSource, read_chunk_values
from tornproof.impl.chunk.duplicates import ChunkForm, Duplicate, NewChunk, duplicate_of, meta_data_of, with_duplicate
from tornproof.impl.errors import CorruptError, UnsupportedError, UsageError
from tornproof.impl.extension.point import extension_of, with_extension
from tornproof.impl.layout.parquet import MAGIC, FooterForm
from tornproof.impl.migrate.chunk_layout import span_of
from tornproof.impl.parquet.fields import OFFSET_INDEX, PageEncoding
from tornproof.impl.parquet.footer import ParquetFooter
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import Struct, decode, encode

NEW_COLUMNS = {1: PageEncoding.PFOR, 2: PageEncoding.ALP, 4: PageEncoding.ALP, 5: PageEncoding.PFOR}
FORMS = tuple(FooterForm)


@pytest.mark.parametrize("form", FORMS)
def test_the_file_as_it_was_comes_back_byte_for_byte(form: FooterForm) -> None:
    extended = in_chunk_form(ChunkForm.ALP, form)
    assert extended != numbers_file()
    back, done = changed(extended, ChunkForm.OLD, FooterForm.THRIFT)
    assert back == numbers_file()
    assert (done.before, done.after, done.chunks_before, done.chunks_after) == (form, "thrift", "alp", "old")
    assert done.size_after == len(back)


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_have_the_same_values_to_the_bit(form: FooterForm) -> None:
    old = all_values(numbers_file())
    assert {each.source for each in old.values()} == {ChunkSource.OLD}
    for chunks, source in ((ChunkForm.ALP, ChunkSource.DUPLICATE), (ChunkForm.ALP_ALONE, ChunkSource.ALONE)):
        found = all_values(in_chunk_form(chunks, form))
        assert {(each.source, each.doubt) for each in found.values()} == {(source, None)}
        assert {key: bits_of(values) for key, values in found.items()} == {
            key: bits_of(values) for key, values in old.items()
        }
    assert len(old) == 3 * len(NEW_COLUMNS)


@pytest.mark.parametrize("form", [each for each in FORMS if each is not FooterForm.FINAL])
def test_readers_that_do_not_know_it_read_the_old_chunks(form: FooterForm) -> None:
    content = in_chunk_form(ChunkForm.ALP, form)
    plain = pq.read_table(pa.BufferReader(numbers_file()))
    assert str(pq.read_table(pa.BufferReader(content), page_checksum_verification=True)) == str(plain)
    filtered = pq.read_table(pa.BufferReader(content), filters=[("some", ">", 30)])
    assert filtered.column("some").to_pylist() == [32, 36, 40, 44]


def test_new_chunks_start_a_row_group_and_old_ones_end_it() -> None:
    content = in_chunk_form(ChunkForm.ALP)
    footer, records = footer_of_form(content), records_in(content)
    assert {column: record.encoding for (_, column), record in records.items()} == NEW_COLUMNS
    reached = len(MAGIC)
    for index, group in enumerate(footer.row_groups):
        for column in NEW_COLUMNS:
            assert records[index, column].chunk_offset == reached
            reached += records[index, column].chunk_length
        others = [column for column in range(len(group.chunks)) if column not in NEW_COLUMNS]
        for column in (*others, *NEW_COLUMNS):
            start, end = span_of(group.chunks[column])
            assert start == reached
            reached = end
        assert group.offset_bytes < len(content)


def test_offset_indexes_lead_to_the_pages_where_they_are_now() -> None:
    for chunks in (ChunkForm.ALP, ChunkForm.ALP_ALONE):
        content = in_chunk_form(chunks)
        footer = footer_of_form(content)
        found = 0
        for group in footer.row_groups:
            for column, chunk in enumerate(group.chunks):
                if chunks is ChunkForm.ALP_ALONE and column in NEW_COLUMNS:
                    assert (chunk.offset_index_offset, chunk.column_index_offset) == (None, None)
                    continue
                assert chunk.offset_index_offset and chunk.offset_index_length
                end = chunk.offset_index_offset + chunk.offset_index_length
                tree, _ = decode(content[chunk.offset_index_offset : end], file=FILE)
                pages = read(tree, OFFSET_INDEX)["page_locations"]
                assert pages[0]["offset"] == chunk.data_page_offset
                assert all(span_of(chunk).start <= page["offset"] < span_of(chunk).end for page in pages)
                found += len(pages)
        assert found > 10


def test_alone_the_old_chunks_and_the_former_footer_are_gone_for_good() -> None:
    alone, done = changed(in_chunk_form(ChunkForm.ALP, FooterForm.PRIVATE), ChunkForm.ALP_ALONE)
    assert alone == in_chunk_form(ChunkForm.ALP_ALONE, FooterForm.PRIVATE)
    assert (done.after, done.chunks_before, done.chunks_after, done.encoded_count) == (
        "private",
        "alp",
        "alp-alone",
        12,
    )
    assert len(alone) < len(in_chunk_form(ChunkForm.ALP, FooterForm.PRIVATE))
    for group in footer_of_form(alone).row_groups:
        for column, encoding in NEW_COLUMNS.items():
            assert encoding in group.chunks[column].encodings
        assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in group.chunks)
    for chunks in (ChunkForm.OLD, ChunkForm.ALP):
        with pytest.raises(
            UsageError, match="its chunks cannot be as they were: the chunks that it had before are gone"
        ):
            changed(alone, chunks)
    other = pq.read_table(pa.BufferReader(in_chunk_form(ChunkForm.ALP_ALONE)), columns=["name", "text", "lists"])
    assert other.equals(pq.read_table(pa.BufferReader(numbers_file()), columns=["name", "text", "lists"]))


def test_the_footer_changes_alone_and_the_duplicates_stay() -> None:
    content = in_chunk_form(ChunkForm.ALP)
    private, done = changed(content, None, FooterForm.PRIVATE)
    assert (done.chunks_before, done.chunks_after) == ("alp", "alp")
    assert private == in_chunk_form(ChunkForm.ALP, FooterForm.PRIVATE)
    assert changed(private, ChunkForm.ALP, FooterForm.THRIFT)[0] == content


def test_a_file_without_numbers_is_left_as_it_is() -> None:
    with pytest.raises(UsageError, match="it has no chunks of doubles, floats or integers outside of lists"):
        changed(written(pa.table({"name": ["a", "b"]})), ChunkForm.ALP)


@pytest.mark.parametrize("count", [0, 1, 200_000])
def test_chunks_of_nothing_and_of_several_pages(count: int) -> None:
    values = np.round(np.random.default_rng(0).normal(100, 5, count), 2)
    content = written(pa.table({"price": pa.array(values, mask=np.arange(count) % 7 == 3)}))
    extended, _ = changed(content, ChunkForm.ALP if count else None, FooterForm.MIGRATION)
    assert changed(extended, ChunkForm.OLD, FooterForm.THRIFT)[0] == content
    assert [bits_of(each) for each in all_values(extended).values()] == [
        bits_of(each) for each in all_values(content).values()
    ]


@pytest.mark.parametrize("row_counts", [(0,), (3, 0), (2, 0, 0, 3)])
def test_a_row_group_without_pages_is_extended_too(row_counts: tuple[int, ...]) -> None:
    """Its chunks have the offset 0 in files of Arrow C++, which were refused as row groups that overlap."""
    sink = pa.BufferOutputStream()
    schema = pa.schema({"name": pa.string(), "price": pa.float64()})
    with pq.ParquetWriter(sink, schema, compression="none", use_dictionary=False) as writer:
        for count in row_counts:
            writer.write_table(pa.table({"name": ["a"] * count, "price": [1.5] * count}, schema=schema))
    content = sink.getvalue().to_pybytes()
    extended, _ = changed(content, ChunkForm.ALP, FooterForm.MIGRATION)
    assert changed(extended, ChunkForm.OLD, FooterForm.THRIFT)[0] == content
    for file in (extended, changed(content, ChunkForm.ALP_ALONE, FooterForm.MIGRATION)[0]):
        assert file.startswith(MAGIC)
        assert [len(each.values) for each in all_values(file).values()] == list(row_counts)
    assert pq.read_table(pa.BufferReader(extended)) == pq.read_table(pa.BufferReader(content))


LEVELS = {
    "runs of bits and of a level": (bytes([3, 0b11111011, 5 << 1, 1]), [1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
    "a run that ends behind the last value": (bytes([0xC8, 1, 0]), [0] * 13),
    "two runs of a level": (bytes([3 << 1, 0, 0x90, 0x01, 1]), [0] * 3 + [1] * 10),
}


@pytest.mark.parametrize("name", LEVELS)
def test_levels_of_other_writers_are_read_too(name: str) -> None:
    runs, expected = LEVELS[name]
    body = len(runs).to_bytes(4, "little") + runs + b"values"
    is_valid, end = _decode_levels(memoryview(body), len(expected), "x", 0)
    assert (is_valid.tolist(), end) == ([bool(each) for each in expected], 4 + len(runs))


@pytest.mark.parametrize("runs", [b"", b"\3", b"\3\xff", bytes([13 << 1]), bytes([13 << 1, 2]), b"\x80", bytes([0, 1])])
def test_levels_that_are_too_few_or_too_high_are_rejected(runs: bytes) -> None:
    with pytest.raises(CorruptError, match="definition levels at byte 7"):
        _decode_levels(memoryview(len(runs).to_bytes(4, "little") + runs), 13, "x", 7)
    with pytest.raises(CorruptError, match="expected at most 4 bytes"):
        _decode_levels(memoryview((5).to_bytes(4, "little")), 13, "x", 7)


def rewritten(content: bytes, key: tuple[int, int], meta: Struct) -> ParquetFooter:
    """Return the footer of a file in which a chunk has other metadata."""
    footer, offset = footer_bytes(content)
    old = encode(meta_data_of(footer_of_form(content), *key))
    assert footer.count(old) == 1
    new = footer.replace(old, encode(meta))
    return footer_of_form(content[:offset] + new + len(new).to_bytes(4, "little") + MAGIC)


KEY = (1, 2)


def test_doubts_are_said_and_answered_by_the_old_chunk() -> None:
    content = in_chunk_form(ChunkForm.ALP)
    meta = meta_data_of(footer_of_form(content), *KEY)
    found = extension_of(meta, file=FILE)
    assert found is not None
    record = records_in(content)[KEY]
    chunk = content[record.chunk_offset : record.chunk_offset + record.chunk_length]
    fact = NewChunk(len(chunk), record.chunk_crc, PageEncoding.ALP)
    cases = {
        "its UUID is unknown": with_extension(meta, found.content[:-1] + b"x"),
        "the checksum of its record is wrong": with_extension(meta, b"x" + found.content[1:]),
        "its checksum is wrong": with_duplicate(meta, fact, record.chunk_offset + 1),
        "its encoding is 11": with_duplicate(meta, fact._replace(encoding=PageEncoding.PFOR), record.chunk_offset),
        "it ends behind the pages": with_duplicate(meta, fact._replace(size_bytes=1 << 40), record.chunk_offset),
    }
    other = records_in(content)[1, 1]
    cases["its pages do not decode: page"] = with_duplicate(
        meta, NewChunk(other.chunk_length, other.chunk_crc, PageEncoding.ALP), other.chunk_offset
    )
    right = bits_of(all_values(numbers_file())[KEY])
    for doubt, changed_meta in cases.items():
        values = read_chunk_values(reader_of(content), rewritten(content, KEY, changed_meta), *KEY, file=FILE)
        assert (values.source, values.doubt) == (ChunkSource.OLD, doubt)
        assert bits_of(values) == right


def test_a_duplicate_of_other_metadata_is_rejected() -> None:
    """A writer that knows nothing of the extension may keep it when it replaces a chunk."""
    content = in_chunk_form(ChunkForm.ALP)
    footer = footer_of_form(content)
    stale = extension_of(meta_data_of(footer, 0, 2), file=FILE)
    assert stale is not None
    meta = with_extension(meta_data_of(footer, *KEY), stale.content)
    with pytest.raises(CorruptError, match="of the metadata that its duplicate was made for"):
        read_chunk_values(reader_of(content), rewritten(content, KEY, meta), *KEY, file=FILE)


def test_other_extensions_of_columns_are_none_of_ours() -> None:
    meta = with_extension(Struct(()), b"somebody else's")
    assert duplicate_of(meta, file=FILE) == Duplicate(doubt="its UUID is unknown")
    assert duplicate_of(Struct(()), file=FILE) == Duplicate()


def test_columns_that_have_no_new_encoding_are_rejected_by_name() -> None:
    footer = footer_of_form(numbers_file())
    for column, name in ((0, "name"), (6, "lists.list.element")):
        with pytest.raises(UnsupportedError, match=name):
            read_chunk_values(reader_of(numbers_file()), footer, 0, column, file=FILE)
    with pytest.raises(IndexError):
        read_chunk_values(reader_of(numbers_file()), footer, 3, 1, file=FILE)


@pytest.mark.parametrize("step", [97, nightly(1)])
@pytest.mark.parametrize("chunks", [ChunkForm.ALP, ChunkForm.ALP_ALONE])
def test_no_flipped_bit_of_a_new_chunk_or_what_leads_to_it_gives_a_wrong_value(chunks: ChunkForm, step: int) -> None:
    content = in_chunk_form(chunks)
    right = {key: bits_of(values) for key, values in all_values(numbers_file()).items()}
    bits = duplicate_bits(content)
    found: Counter[str] = Counter()
    for bit in bits[::step]:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        found[outcome_of(bytes(damaged), right)] += 1
        assert not found["silent"], bit
    assert found.total() == -(-len(bits) // step) > 14_000 // step
    assert found["rejected"] > 0 and (found["fallback"] > 0) is (chunks is ChunkForm.ALP)
    # The bits of the reserved id, of 3 bytes, say how it is encoded, and others than ours make it an unknown field.
    # Without a duplicate nothing has a checksum of the metadata, of which the values need a part.
    assert found["right"] < found.total() / (10 if chunks is ChunkForm.ALP else 3)


@pytest.mark.parametrize("step", [61, nightly(1)])
@pytest.mark.parametrize("form", FORMS)
def test_no_cut_gives_a_wrong_value(form: FooterForm, step: int) -> None:
    content = in_chunk_form(ChunkForm.ALP, form)
    right = {key: bits_of(values) for key, values in all_values(numbers_file()).items()}
    (former_end,) = {record.former_end for record in records_in(content).values()}
    sizes = {*range(0, len(content), step), former_end}
    found = Counter(outcome_of(content[:size], right) for size in sizes)
    assert found == {"rejected": len(sizes)}


def test_without_its_checksum_damage_of_a_duplicate_would_be_silent() -> None:
    """The control: a checksum that is made to fit makes wrong values, which the same judge notices."""
    content = bytearray(in_chunk_form(ChunkForm.ALP))
    right = {key: bits_of(values) for key, values in all_values(numbers_file()).items()}
    record = records_in(bytes(content))[KEY]
    found: Counter[str] = Counter()
    with (
        wrapped("tornproof.impl.parquet.pages:_check_checksums", lambda _: lambda *_, **__: None),
        wrapped("tornproof.impl.chunk.duplicates:large_crc32", lambda _: lambda __: record.chunk_crc),
    ):
        for position in range(record.chunk_offset, record.chunk_offset + record.chunk_length):
            content[position] ^= 1
            footer = footer_of_form(bytes(content))
            values = read_chunk_values(reader_of(bytes(content)), footer, *KEY, file=FILE)
            found["wrong" if bits_of(values) != right[KEY] else "right"] += 1
            content[position] ^= 1
    assert found["wrong"] > 10
