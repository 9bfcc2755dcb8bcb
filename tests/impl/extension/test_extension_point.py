"""The extension point: one binary field, the last one of any struct, found forward and from the end."""

# The values of a decoded tree are of any type, and a wrong one fails its test.
# mypy: disable-error-code="arg-type,union-attr"

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_forms import sample_file
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import footer_bytes

from tornproof.impl.errors import CorruptError
from tornproof.impl.extension.point import (
    HeaderForm,
    append_extension,
    extension_of,
    start_in_reverse,
    with_extension,
    without_extension,
)
from tornproof.impl.parquet.fields import COLUMN_CHUNK, FILE_META_DATA, PAGE_HEADER, ROW_GROUP, ids_of
from tornproof.impl.parquet.footer import file_tail
from tornproof.impl.parquet.pages import walk_pages
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, decode, encode, with_fields

FORMS = tuple(HeaderForm)
PAGE = Struct(
    (
        Field(1, Kind.I32, 0),
        Field(2, Kind.I32, 4),
        Field(3, Kind.I32, 4),
        Field(5, Kind.STRUCT, Struct(tuple(Field(number, Kind.I32, int(number == 1)) for number in range(1, 5)))),
    )
)


def test_the_documented_header_is_written_and_thrift_encoders_write_another_one() -> None:
    assert HeaderForm.PLAIN.header(5) == bytes.fromhex("08 ff ff 01 05")
    assert HeaderForm.ZIGZAG.header(300) == bytes.fromhex("08 fe ff 03 ac 02")
    assert append_extension(b"\0", b"abc") == bytes.fromhex("08 ff ff 01 03") + b"abc\0"


@pytest.mark.parametrize("form", FORMS)
@given(content=st.binary(max_size=300))
def test_an_extension_is_found_forward_and_from_the_end_and_taken_off_without_a_trace(
    form: HeaderForm, content: bytes
) -> None:
    footer, _ = footer_bytes(sample_file())
    extended = append_extension(footer, content, form)
    tree, end = decode(extended, file="x")
    assert end == len(extended) and encode(tree) == extended
    assert extension_of(tree, file="x") == (content, form, len(footer) - 1)
    assert start_in_reverse(extended, len(content)) == (len(footer) - 1, form)
    assert start_in_reverse(extended, len(content) + 1) is None
    assert encode(without_extension(tree)) == footer
    assert encode(with_extension(tree, b"other", form)) == append_extension(footer, b"other", form)


def everywhere(struct: Struct, content: bytes, form: HeaderForm) -> Struct:
    """Return the tree with an extension in each of its structs."""
    fields = tuple(field._replace(value=inside(field.value, content, form)) for field in struct.fields)
    return with_extension(Struct(fields), content, form)


def inside(value: object, content: bytes, form: HeaderForm) -> object:
    if isinstance(value, Struct):
        return everywhere(value, content, form)
    if isinstance(value, Items) and value.element_kind == Kind.STRUCT:
        return value._replace(elements=tuple(everywhere(each, content, form) for each in value.elements))
    return value


@pytest.mark.parametrize("form", FORMS)
def test_every_struct_of_a_footer_can_have_one_and_other_readers_skip_it(form: HeaderForm) -> None:
    content = sample_file()
    footer, offset_bytes = footer_bytes(content)
    extended = encode(everywhere(decode(footer, file="x")[0], b"extension", form))
    tree, _ = decode(extended, file="x")
    assert encode(tree) == extended
    group = tree.fields[3].value.elements[0]
    chunk = group.fields[0].value.elements[0]
    for struct, table in ((tree, FILE_META_DATA), (group, ROW_GROUP), (chunk, COLUMN_CHUNK)):
        assert {field.id for field in struct.fields} - {form.value} <= {*ids_of(table).values()}
        found = extension_of(struct, file="x")
        assert found is not None and (found.content, found.form) == (b"extension", form)
    table = pq.read_table(pa.BufferReader(content[:offset_bytes] + file_tail(extended)))
    assert table.equals(pq.read_table(pa.BufferReader(content)))


@pytest.mark.parametrize("form", FORMS)
def test_page_headers_can_have_one(form: HeaderForm) -> None:
    inner = with_extension(PAGE.fields[3].value, b"in the page", form)
    header = with_extension(with_fields(PAGE, Field(5, Kind.STRUCT, inner)), b"beside it", form)
    content = encode(header) + bytes(4)
    (page,) = walk_pages(content, file="x", offset_bytes=0, codec=0, value_count=1)
    assert page.value_count == 1
    tree, _ = decode(content, file="x")
    assert encode(tree) == encode(header)
    found = extension_of(tree, file="x")
    assert found is not None and found.content == b"beside it"
    assert 8 in ids_of(PAGE_HEADER).values()


@pytest.mark.parametrize("form", FORMS)
def test_a_field_behind_it_is_rejected_with_the_place(form: HeaderForm) -> None:
    struct = Struct((Field(1, Kind.I32, 7), form.field(b"abc"), Field(3, Kind.I32, 9)))
    tree, _ = decode(encode(struct), file="x.parquet", offset_bytes=100)
    with pytest.raises(
        CorruptError, match=r"x.parquet: extension at byte 102: expected the last field of its struct, found 1 more"
    ):
        extension_of(tree, file="x.parquet")


def test_what_only_looks_like_one_is_none() -> None:
    numbers = Struct((Field(32767, Kind.I32, 7), Field(-16384, Kind.I32, 7)))
    assert extension_of(numbers, file="x") is None
    assert without_extension(numbers) == numbers
    # The bytes of a whole extension inside of somebody's text are not the last field.
    text = encode(Struct((Field(1, Kind.BINARY, append_extension(b"\0", b"abc")),)))
    assert extension_of(decode(text, file="x")[0], file="x") is None
    assert start_in_reverse(text, 3) is None


def test_a_length_beyond_the_bytes_is_rejected() -> None:
    header = HeaderForm.PLAIN.header((1 << 31) - 1)
    with pytest.raises(CorruptError):
        decode(header + b"abc\0", file="x")
