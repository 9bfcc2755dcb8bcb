"""Whether small chunks that are decoded together are what each of them is alone: its values, or rejected.

pyarrow writes the chunks, with and without checksums; then what `_pm` says of one of them is changed, or a byte of it.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.roundtrip.forms import parquet_of
from tornproof.harness.explorers.roundtrip.metadata.usual_records import chunk_of
from tornproof.harness.explorers.roundtrip.parquet.judged_statistics import BINARY, BYTE_ARRAY, INT96, Ordered, types
from tornproof.impl.chunk.chunk import decode_chunk
from tornproof.impl.chunk.together import Piece, decode_together
from tornproof.impl.errors import ProblemError
from tornproof.impl.pm.block import Statistic

PROPERTY = "chunks that are decoded together are what each is alone"
FILE = "data.parquet"
COUNTS = (3, 17)
"""Of few chunks, and of so many that their page headers are read at once."""
CODECS = {"NONE": 0, "SNAPPY": 1}
ENCODING_BITS = {"PLAIN": 1, "RLE_DICTIONARY": 2, "PLAIN_DICTIONARY": 2, "BYTE_STREAM_SPLIT": 32}
TIMESTAMP, IPV4 = 8, 25
SOUND = "as it is"
CHANGES = (SOUND, "a null more", "a value more", "a low bound", "a high bound", "another byte", "a byte less")
REJECTED_ALWAYS = ("a null more", "a value more", "a byte less")
BOUNDS = ("a low bound", "a high bound")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksTogether:
    """So many chunks of a type, of which that at `place` is changed."""

    type: Ordered
    count: int
    codec: str
    has_checksums: bool
    has_dictionary: bool
    change: str
    place: int

    @property
    def name(self) -> str:
        """It in words."""
        pages = f"{'with' if self.has_checksums else 'without'} checksums"
        encoding = ", in dictionaries" if self.has_dictionary else ""
        return f"{self.count} of {self.type.name} {pages}, {self.codec}{encoding}, one {self.change}"

    @property
    def kind(self) -> str:
        """The type, and what is changed."""
        return f"{self.type.name} {self.change}"

    @property
    def is_rejected(self) -> bool | None:
        """Whether the changed chunk is rejected when it is alone; None where that depends on its bytes."""
        # Bounds of addresses may be those of signed numbers, as earlier servers made them.
        depends = self.change == "another byte" or (self.change in BOUNDS and self.type.type == IPV4)
        if depends and not self.has_checksums:
            return None
        # Nothing but its values says how many there are in a dictionary of texts.
        is_vouched = self.has_checksums and not (self.has_dictionary and self.type.physical == BYTE_ARRAY)
        # Servers of many releases state a maximum of BINARY that is below some values.
        is_known = self.change != "a high bound" or self.type.type != BINARY
        is_compared = is_known and (not is_vouched or self.type.type == TIMESTAMP)
        return self.change in (*REJECTED_ALWAYS, "another byte") or (self.change in BOUNDS and is_compared)


@functools.cache
def chunks_together() -> tuple[ChunksTogether, ...]:
    """Return all cases, always in the same order."""
    return tuple(
        ChunksTogether(
            type=of,
            count=count,
            codec=codec,
            has_checksums=has_checksums,
            has_dictionary=has_dictionary,
            change=change,
            place=number % count,
        )
        for of in types()
        if of.physical != INT96
        for count in COUNTS
        for codec in CODECS
        for has_checksums in (False, True)
        for has_dictionary in (False, True)
        for number, change in enumerate(CHANGES)
        if change not in BOUNDS or of.is_ordered
    )


def problem_of(case: ChunksTogether) -> str | None:
    """Say what is wrong with what is decoded together; None if nothing is."""
    pieces = [*_written(case)]
    pieces[case.place] = _changed(pieces[case.place], case.change, case.type)
    alone = [_alone(piece) for piece in pieces]
    is_rejected = alone[case.place] is None
    if case.is_rejected is not None and is_rejected != case.is_rejected:
        return f"alone, that one is {'rejected' if is_rejected else 'taken'}"
    if any(each is None for index, each in enumerate(alone) if index != case.place):
        return "another one is rejected"
    together = decode_together(pieces, file=FILE)
    for one, other in zip(together, alone, strict=True):
        if one is not None and (other is None or not one.equals(other)):
            return (
                f"{one.to_pylist()} is decoded together, and alone {'nothing' if other is None else other.to_pylist()}"
            )
    if case.change == SOUND and any(each is None for each in together):
        return "sound ones are not decoded together"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of chunks whose values nobody compares, and of some that take the place of others."""
    together, decode = "tornproof.impl.chunk.together", f"{__name__}:decode_chunk"
    controls: Controls = (
        ("alone, values are not compared", "tornproof.impl.chunk.chunk:check_values", _nothing, "that one is taken"),
        ("alone, a byte is missing", decode, partial(_with_less, original_of(decode)), "another one is rejected"),
        ("values are not compared", f"{together}:check_values", _nothing, "is decoded together, and alone"),
        ("nothing is decoded together", f"{together}:_runs", lambda *_: iter(()), "are not decoded together"),
    )
    return not_noticed(controls, problem_of, chunks_together())


def _with_less(decode: Callable[..., Any], content: bytes, *of: Any, **file: str) -> Any:
    return decode(content[1:], *of, **file)


def _nothing(*_: Any, **__: Any) -> None:
    """Check nothing."""


def _values(of: Ordered, number: int) -> list[Any]:
    low, middle, high = of.values
    return [low, None, high, *[middle] * (number % 2), *[low] * (number % 3 == 1), *[high] * 3][:5]


def _written(case: ChunksTogether) -> Sequence[Piece]:
    return _pieces(case.type.name, case.count, case.codec, case.has_checksums, case.has_dictionary)


@functools.cache
def _pieces(name: str, count: int, codec: str, has_checksums: bool, has_dictionary: bool) -> Sequence[Piece]:
    (of,) = (each for each in types() if each.name == name)
    rows = pa.table({str(number): pa.array(_values(of, number), of.arrow) for number in range(count)})
    settings: dict[str, Any] = {"compression": codec, "use_dictionary": has_dictionary, "data_page_version": "1.0"}
    content = parquet_of(rows, write_page_checksum=has_checksums, **settings)
    group = pq.read_metadata(io.BytesIO(content)).row_group(0)
    return tuple(_piece(of, content, group.column(number), codec) for number in range(count))


def _piece(of: Ordered, content: bytes, meta: pq.ColumnChunkMetaData, codec: str) -> Piece:
    start, size_bytes = meta.dictionary_page_offset or meta.data_page_offset, meta.total_compressed_size
    low, _, high = of.values
    chunk = chunk_of(
        meta.num_values,
        Statistic(of.stored(low), True) if of.is_ordered and of.stored(low) else None,
        Statistic(of.stored(high), True) if of.is_ordered else None,
        codec=CODECS[codec],
        encodings=sum({ENCODING_BITS.get(each, 0) for each in meta.encodings}),
        byte_range_start=start,
        total_compressed=size_bytes,
        null_count=1,
    )
    return Piece(content[start : start + size_bytes], of.column, chunk)


def _changed(piece: Piece, change: str, of: Ordered) -> Piece:
    content, column, chunk = piece
    low, _, high = of.values
    match change:
        case "a null more":
            return Piece(content, column, replace(chunk, null_count=2))
        case "a value more":
            return Piece(content, column, replace(chunk, num_values=chunk.num_values + 1))
        case "a low bound":
            return Piece(content, column, replace(chunk, minimum=Statistic(of.stored(high), True)))
        case "a high bound":
            return Piece(content, column, replace(chunk, maximum=Statistic(of.stored(low), True)))
        case "another byte":
            return Piece(content[:-1] + bytes([content[-1] ^ 1]), column, chunk)
        case "a byte less":
            return Piece(content[:-1], column, chunk)
    return piece


def _alone(piece: Piece) -> pa.Array | None:
    try:
        return decode_chunk(*piece, file=FILE)
    except ProblemError:
        return None
