"""Files whose footers are in the forms of the footer extension, and every damage of one bit or of a length."""

import functools
from collections.abc import Callable, Iterator

import pyarrow as pa
from parquet_files import footer_bytes, written

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.extension.footer import FileFooter, Source, footer_tail, read_file_footer
from tornproof.impl.extension.point import HeaderForm
from tornproof.impl.layout.parquet import FooterForm

EXTENDED = tuple(form for form in FooterForm if form is not FooterForm.THRIFT)
FILE = "x.parquet"


@functools.cache
def sample_file() -> bytes:
    """Return a small file of several types, pages and row groups."""
    table = pa.table(
        {
            "ts": pa.array(range(0, 40, 2), pa.timestamp("us")),
            "price": pa.array([index / 7 for index in range(20)]),
            "name": pa.array([f"name {index % 3}" for index in range(20)]),
            "some": pa.array([None if index % 4 else index for index in range(20)], pa.int32()),
        }
    )
    return written(table, row_group_size=8, write_page_index=True)


def in_form(content: bytes, form: FooterForm, header: HeaderForm = HeaderForm.PLAIN) -> bytes:
    """Return a file with its footer in another form."""
    thrift, offset_bytes = footer_bytes(content)
    return content[:offset_bytes] + footer_tail(thrift, form, file=FILE, header=header)


def reader_of(content: bytes) -> Callable[[int, int], bytes]:
    """Return a function that reads a file's bytes."""
    return lambda size_bytes, offset_bytes: content[offset_bytes : offset_bytes + size_bytes]


def read(content: bytes) -> FileFooter:
    """Return the footer of a file."""
    return read_file_footer(reader_of(content), len(content), file=FILE)


def damages(content: bytes, start: int) -> Iterator[tuple[str, bytes]]:
    """Yield a file with each bit from `start` on flipped, then cut to each length from `start` on."""
    for bit in range(8 * start, 8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit % 8} of byte {bit // 8}", bytes(damaged)
    for size_bytes in range(start, len(content)):
        yield f"cut to {size_bytes}", content[:size_bytes]


def outcome(damaged: bytes, thrift: bytes) -> str:
    """Return what reading a damaged file gives: the right answer by either footer, an error, or a wrong answer."""
    try:
        footer = read(damaged)
        made = footer.flat.thrift() if footer.flat else footer.decoded() and footer.thrift()
    except (CorruptError, UnsupportedError):
        return "rejected"
    if made != thrift:
        return "silent"
    return "right" if footer.source is Source.FLATBUFFERS else "fallback"
