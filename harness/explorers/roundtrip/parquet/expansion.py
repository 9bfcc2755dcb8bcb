"""Whether a chunk is rejected that decodes to more bytes than a reader allows, and no other, as pyarrow encodes it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import structs

from tornproof.harness.common.patch import Controls, all_replaced, not_noticed, original_of, replaced
from tornproof.harness.common.whose_error import errors_as_problems, the_only
from tornproof.harness.explorers.roundtrip.forms import parquet_of
from tornproof.harness.explorers.roundtrip.parquet.cold_reads import migrated
from tornproof.impl.chunk.chunk import decode_chunk, leaf_of, pages_of
from tornproof.impl.chunk.expansion import expanded_page_bytes
from tornproof.impl.chunk.metadata import Leaf
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column

PROPERTY = "what decodes to more bytes than a reader allows is rejected, and nothing else"
EXPANSION = "tornproof.impl.chunk.expansion"
ROW_COUNT, TEXT_BYTES = 300, 400
"""Most values are alike, so that few bytes decode to many."""
FALLS_BACK = {"dictionary_pagesize_limit": 50 * TEXT_BYTES, "write_batch_size": 10}
"""So large a dictionary makes the rest of a chunk plain pages."""
ALLOWED_TIMES = 3
"""Besides the values their pages are counted, with levels that are no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """One value many times, or as many that differ at the end, and how they are encoded."""

    values: list[Any]
    type: pa.DataType
    value_bytes: int
    encoding: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    rest: Repeated | None = None
    """What is behind them in the same chunk, from another writer."""
    is_required: bool = False

    @property
    def name(self) -> str:
        """It in words."""
        encoding = self.encoding or "a dictionary"
        words = ", ".join(f"{key} {value}" for key, value in self.settings.items())
        rest = f", and behind them {self.rest.name}" if self.rest else ""
        of = f"{'required ' * self.is_required}{self.type}"
        return f"{ROW_COUNT} values of {self.value_bytes} bytes ({of}) as {encoding}, {words}{rest}"

    @property
    def all_values(self) -> list[Any]:
        """With those of the rest."""
        return [*self.values, *(self.rest.all_values if self.rest else ())]

    @property
    def decoded_bytes(self) -> int:
        """The bytes of all values, without offsets."""
        return len(self.all_values) * self.value_bytes

    def content(self) -> bytes:
        """Return a Parquet file with them in its only chunk."""
        schema = pa.schema([pa.field("v", self.type, nullable=not self.is_required)])
        rows = pa.table([pa.array(self.values, self.type)], schema)
        encodings = {"use_dictionary": True} if self.encoding is None else {"column_encoding": {"v": self.encoding}}
        return parquet_of(rows, **{"store_schema": True, "use_dictionary": False, **encodings, **self.settings})


@functools.cache
def repeated() -> tuple[Repeated, ...]:
    """Return values of fixed and of other sizes, in each encoding for them, with pages of both versions."""
    text = "x" * TEXT_BYTES
    kinds = (
        (text, pa.string(), TEXT_BYTES, (None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")),
        (text.encode(), pa.binary(), TEXT_BYTES, (None, "PLAIN")),
        (7, pa.int64(), 8, (None, "PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")),
        (0.5, pa.float64(), 8, (None, "PLAIN", "BYTE_STREAM_SPLIT")),
        (Decimal(7), pa.decimal128(38, 0), 16, (None, "PLAIN")),
    )
    sharing = Repeated(
        values=[text] * ROW_COUNT,
        type=pa.string(),
        value_bytes=TEXT_BYTES,
        encoding="DELTA_BYTE_ARRAY",
        settings={"compression": "none"},
    )
    texts = [f"{number:0>{TEXT_BYTES}}" for number in range(ROW_COUNT)]
    by_dictionary = replace(sharing, values=texts, encoding=None)
    return (
        *(
            Repeated(values=[value] * ROW_COUNT, type=of, value_bytes=size, encoding=encoding, settings=settings)
            for value, of, size, encodings in kinds
            for encoding in encodings
            for settings in (
                {"compression": "zstd", "data_page_version": "1.0"},
                {"compression": "none", "data_page_version": "2.0"},
                # Its dictionaries have an older number.
                {"compression": "snappy", "version": "1.0"},
            )
        ),
        Repeated(values=texts, type=pa.string(), value_bytes=TEXT_BYTES, settings=FALLS_BACK),
        replace(sharing, encoding=None, rest=sharing),
        replace(by_dictionary, rest=replace(by_dictionary, encoding="DELTA_LENGTH_BYTE_ARRAY")),
        replace(sharing, is_required=True),
        replace(sharing, settings={"compression": "none", "data_page_size": TEXT_BYTES, "write_batch_size": 50}),
    )


@errors_as_problems
def problem_of(each: Repeated) -> str | None:
    """Say what is wrong: it must decode, but not where one byte less is allowed; None if nothing is."""
    if _decode(each) != each.all_values:
        return "it decodes to other values"
    if _is_rejected(each, ALLOWED_TIMES * each.decoded_bytes):
        return f"{each.decoded_bytes} bytes are rejected where {ALLOWED_TIMES} times as many are allowed"
    if not _is_rejected(each, each.decoded_bytes - 1):
        return f"{each.decoded_bytes} bytes are decoded where {each.decoded_bytes - 1} are allowed"
    beside_others = _bytes_beside_others(each)
    if beside_others is not None and beside_others < each.decoded_bytes:
        return f"{each.decoded_bytes} bytes count as {beside_others} beside other chunks of one page"
    return None


def _bytes_beside_others(each: Repeated) -> int | None:
    """Return what a chunk counts as where many of one page are decoded together; None if it is not such a chunk."""
    column, chunk, content = _chunk(each)
    leaf, pages = leaf_of(column), pages_of(content, chunk, file=DATA_FILE)
    if len(pages) > 1 or not isinstance(leaf, Leaf):
        return None
    (page,) = pages
    sizes_bytes, encodings = np.array([page.uncompressed_size_bytes]), np.array([page.encoding])
    return int(expanded_page_bytes(leaf, chunk.num_values, sizes_bytes, encodings)[0])


def _is_rejected(each: Repeated, allowed_bytes: int) -> bool:
    with all_replaced({f"{EXPANSION}:EXPANDED_MAX_BYTES": allowed_bytes, f"{EXPANSION}:EXPANSION_MAX": 0}):
        try:
            _decode(each)
        except UnsupportedError:
            return True
    return False


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a reader that counts no bytes, and of one that counts too many."""
    with replaced(f"{EXPANSION}:bound_bytes", lambda chunk: 1 << 40):
        yield from (f"{each.name}: no limit was not noticed" for each in repeated() if problem_of(each) is None)
    decode = original_of(f"{__name__}:decode_chunk")
    controls: Controls = (
        ("values count as wider than they are", f"{EXPANSION}:fixed_width_bytes", lambda *_: 1 << 10, "are rejected"),
        (
            "the first value is left out",
            f"{__name__}:decode_chunk",
            lambda *of, **file: decode(*of, **file)[1:],
            "it decodes to other values",
        ),
        (
            "values count as nothing beside other chunks",
            f"{__name__}:expanded_page_bytes",
            lambda *_: np.zeros(1),
            "beside other chunks of one page",
        ),
    )
    yield from not_noticed(controls, problem_of, repeated())


def _decode(each: Repeated) -> list[Any]:
    column, chunk, pages = _chunk(each)
    found = decode_chunk(pages, column, chunk, file=DATA_FILE)
    values: list[Any] = found.to_pylist()
    return values


def _chunk(each: Repeated) -> tuple[Column, Chunk, bytes]:
    """Return the only column, its chunk with all values, and the bytes of that."""
    content = each.content()
    metadata = migrated(content)
    block = the_only(metadata.blocks)
    chunk = the_only(block.chunks)
    pages = content[chunk.byte_range_start : chunk.byte_range_end]
    if each.rest is not None:
        _, rest, more = _chunk(each.rest)
        pages += more
        chunk = structs.replace(
            chunk,
            encodings=chunk.encodings | rest.encodings,
            num_values=chunk.num_values + rest.num_values,
            total_compressed=len(pages),
        )
    return metadata.header.columns[0], chunk, pages
