"""Files with extensions in every form, for readers of Parquet that do not know them."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from chunk_forms import changed
from footer_forms import FILE
from parquet_files import footer_bytes, written

from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.extension.encode import flatbuffer_of
from tornproof.impl.extension.footer import extension_content
from tornproof.impl.extension.point import HeaderForm, append_extension
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.footer import file_tail

ROW_COUNT, GROUP_ROW_COUNT = 1_000, 400
SMALL_BYTES, LARGE_BYTES = 1_000, 40_000_000
FILTER_COLUMN, FILTER_FROM = "count", 900
SIDE_BY_SIDE = (FooterForm.PRIVATE, FooterForm.MIGRATION)
HEADERS = {HeaderForm.PLAIN: "`08 FF FF 01`", HeaderForm.ZIGZAG: "`08 FE FF 03`"}


class FormFile(NamedTuple):
    """A file: its footer's form, its chunks' form, the header and the bytes of the footer's extension, its content."""

    footer: FooterForm
    chunks: ChunkForm
    header: HeaderForm
    extension_bytes: int
    content: bytes

    @property
    def name(self) -> str:
        """A name of its own."""
        return f"{self.footer}-{self.chunks}-{self.header.name.lower()}-{self.extension_bytes}"


def plain_file() -> bytes:
    """Return a file of texts, integers, doubles with nulls and floats, in several row groups."""
    numbers = range(ROW_COUNT)
    table = pa.table(
        {
            "name": [f"name {number % 7}" for number in numbers],
            "time": pa.array([1_700_000_000_000_000 + 1_000 * number for number in numbers], pa.int64()),
            "price": [None if number % 5 == 2 else number / 8 for number in numbers],
            "size": pa.array([number / 4 for number in numbers], pa.float32()),
            FILTER_COLUMN: pa.array(numbers, pa.int32()),
        }
    )
    return written(table, row_group_size=GROUP_ROW_COUNT, write_page_index=True, data_page_size=1024)


def form_files(large_bytes: int = LARGE_BYTES) -> Iterator[FormFile]:
    """Yield the file in every form, with footer extensions as they are and of `large_bytes`."""
    for chunks in ChunkForm:
        content = plain_file() if chunks is ChunkForm.OLD else changed(plain_file(), chunks)[0]
        yield FormFile(FooterForm.THRIFT, chunks, HeaderForm.PLAIN, 0, content)
        thrift, offset = footer_bytes(content)
        for form in SIDE_BY_SIDE:
            for header in HEADERS:
                for size in (0, large_bytes) if chunks is ChunkForm.OLD else (0,):
                    inside = extension_content(flatbuffer_of(thrift, file=FILE, extension=bytes(size)), form)
                    extended = content[:offset] + file_tail(append_extension(thrift, inside, header))
                    yield FormFile(form, chunks, header, len(inside), extended)
        final = changed(content, None, FooterForm.FINAL)[0]
        yield FormFile(FooterForm.FINAL, chunks, HeaderForm.PLAIN, 0, final)
    # The extension of somebody else, in every struct that a reader decodes for a column, is a kilobyte.
    thrift, offset = footer_bytes(plain_file())
    for header in HEADERS:
        extended = append_extension(thrift, bytes(SMALL_BYTES), header)
        yield FormFile(
            FooterForm.THRIFT, ChunkForm.OLD, header, SMALL_BYTES, plain_file()[:offset] + file_tail(extended)
        )
