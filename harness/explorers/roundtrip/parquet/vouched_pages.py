"""Whether pages that verification does not decode, because they have checksums, are read as they were written.

A checksum covers the body of a page and not its header, so each bit of each header is flipped.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.forms import opened, parquet_of
from tornproof.harness.explorers.roundtrip.parquet.cold_reads import migrated
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.chunk.chunk import decode_chunk, pages_of
from tornproof.impl.errors import ProblemError
from tornproof.impl.parquet.footer import ParquetFooter
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.read.decoding import SYNCHRONOUS
from tornproof.impl.verify.pages import CheckedChunk, page_checks

PROPERTY = "pages that are sound without being decoded are read as they were written"
FILE = "data.parquet"
COLUMNS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "numbers": (pa.int64(), (7, None, -(1 << 63) + 1, 7)),
    "truths": (pa.bool_(), (True, False, True, True)),
    "texts": (pa.string(), ("", "größe", None, "größe")),
    "reals": (pa.float64(), (0.5, None, -0.0, 0.5)),
}
CODECS = ("NONE", "SNAPPY")


@dataclass(frozen=True, slots=True)
class Written:
    """How a column was written."""

    of: str
    codec: str
    has_dictionary: bool

    @property
    def is_decoded(self) -> bool:
        """Whether nothing but its values says how many there are in its dictionary."""
        return self.has_dictionary and self.of == "texts"


@dataclass(frozen=True, slots=True)
class VouchedPages:
    """A bit of a page's header that is flipped, or none; the chunk's byte counts from its start."""

    written: Written
    page: int
    offset_bytes: int
    bit: int | None

    @property
    def name(self) -> str:
        """It in words."""
        how = f"{self.written.of}, {self.written.codec}{', in a dictionary' if self.written.has_dictionary else ''}"
        place = f"bit {self.bit} of byte {self.offset_bytes}, in the header of page {self.page}, is another one"
        return f"{how}: {'all is as it was written' if self.bit is None else place}"

    @property
    def kind(self) -> str:
        """How the column was written, and whether something is changed."""
        return f"{self.written} {self.bit is None}"


@functools.cache
def vouched_pages() -> tuple[VouchedPages, ...]:
    """Return all cases, always in the same order."""
    ways = [Written(*each) for each in itertools.product(COLUMNS, CODECS, (False, True))]
    return (
        *(VouchedPages(each, 0, 0, None) for each in ways),
        *(
            VouchedPages(each, number, offset_bytes, bit)
            for each in ways
            for number, header in enumerate(_headers(each))
            for offset_bytes in header
            for bit in range(8)
        ),
    )


def problem_of(case: VouchedPages) -> str | None:
    """Say what is taken for sound; None if it is right."""
    written, footer, metadata = _file(case.written)
    chunk, column = metadata.blocks[0].chunks[0], metadata.header.columns[0]
    content = bytearray(written)
    if case.bit is not None:
        content[chunk.byte_range_start + case.offset_bytes] ^= 1 << case.bit
    checked = the_only(_checked(bytes(content), metadata, footer))
    if case.bit is None and (checked.problem is not None or checked.is_decoded != case.written.is_decoded):
        return f"it is {'decoded' if checked.is_decoded else 'not decoded'}, with the problem {checked.problem}"
    if checked.problem is not None or checked.is_decoded:
        return None
    pages = bytes(content[chunk.byte_range_start : chunk.byte_range_end])
    try:
        found = decode_chunk(pages, column, chunk, file=FILE).to_pylist()
    except ProblemError as error:
        return f"it is taken for sound, and cannot be read: {error}"
    expected = [*COLUMNS[case.written.of][1]]
    return None if found == expected else f"it is taken for sound, and {found} is read instead of {expected}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of checksums that are taken for proof of headers."""
    module = "tornproof.impl.verify.pages"
    decode = original_of(f"{__name__}:decode_chunk")
    controls: Controls = (
        ("all pages with checksums are sound", f"{module}:are_vouched", lambda *_: True),
        ("no page is known to be sound", f"{module}:are_vouched", lambda *_: False),
        ("a field of no type is false", "tornproof.impl.parquet.pages:TRUE", 0, "and cannot be read"),
        (
            "values are backwards",
            f"{__name__}:decode_chunk",
            lambda *of, **file: decode(*of, **file)[::-1],
            "is read inst",
        ),
    )
    return not_noticed(controls, problem_of, vouched_pages())


def _checked(content: bytes, metadata: Metadata, footer: ParquetFooter) -> Iterator[CheckedChunk]:
    image = DiskImage.of_files({FILE: content})
    files = SimpleNamespace(open_data=lambda: image.open_for_reading(FILE), data_label=FILE)
    partition: Any = SimpleNamespace(files=files, metadata=metadata)
    return page_checks(partition, footer, SYNCHRONOUS)


def _headers(written: Written) -> list[range]:
    """Return where in the chunk the header of each page is."""
    content, _, metadata = _file(written)
    chunk = metadata.blocks[0].chunks[0]
    pages = pages_of(content[chunk.byte_range_start : chunk.byte_range_end], chunk, file=FILE)
    starts = [page.header_offset_bytes - chunk.byte_range_start for page in pages]
    return [range(start, start + page.header_length_bytes) for start, page in zip(starts, pages, strict=True)]


@functools.cache
def _file(written: Written) -> tuple[bytes, ParquetFooter, Metadata]:
    """Return a file of one column with checksums, its footer, and the metadata that a migration makes of it."""
    of, values = COLUMNS[written.of]
    settings: dict[str, Any] = {"compression": written.codec, "use_dictionary": written.has_dictionary}
    content = parquet_of(
        pa.table({"a": pa.array(values, of)}), write_page_checksum=True, write_statistics=False, **settings
    )
    return content, opened(content).decoded(), migrated(content)
