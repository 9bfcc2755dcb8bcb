"""Whether a generation of `_pm` that is seen through its bytes says the same as the one that is decoded as a whole."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.corruption.crafted import overwritten
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Flip
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import FOOTER, with_checksum
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.chain import Metadata, decode_chain
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.view import MetadataView, VerifiedGenerations, open_view

PROPERTY = "one column of a generation is what decoding all of it gives"
COMPARED_MAX = 32
"""Of more columns, and of more bounds, every n-th is compared."""
TIME_BYTES = 8
COUNT_OFFSET_BYTES, FLAGS_OFFSET_BYTES, ENTRY_BYTES = 12, 32, 4
"""Where the number of row groups and the flags are in a footer, and what each row group takes there."""
REQUIRED_BITS = (32, 40, 63)
"""Of the flags: what they say must be known to a reader."""
ENTRIES_MAX = (1 << 32) // ENTRY_BYTES - 1


def view_problems(data: bytes, *, file: str) -> Iterator[tuple[int, str]]:
    """Yield the end of each generation in which something is different, and what; raises as `decode_chain` does."""
    seen: set[int] = set()
    for metadata in decode_chain(data, file=file, end_bytes=len(data)):
        # Of several generations with one token, a reader sees the newest, which comes first.
        if metadata.token not in seen:
            seen.add(metadata.token)
            problem = next(_problems(data, metadata, file), None)
            if problem is not None:
                yield metadata.generation.position.end_bytes, problem


def _problems(data: bytes, metadata: Metadata, file: str) -> Iterator[str]:
    verified = VerifiedGenerations()
    view = open_view(data, metadata.token, file=file, verified=verified)
    if view.row_counts.tolist() != [block.num_rows for block in metadata.blocks]:
        yield "row groups have other numbers of rows"
    names = [column.name for column in metadata.header.columns]
    for index in range(0, len(names), len(names) // COMPARED_MAX + 1):
        if view.find_column(names[index]) != names.index(names[index]):
            yield f"column {names[index]!r} is found at another place"
        if view.column(index) != metadata.header.columns[index]:
            yield f"column {names[index]!r} is another one"
        for ordinal, block in enumerate(metadata.blocks):
            if view.chunk(ordinal, index) != block.chunks[index]:
                yield f"chunk {index} of row group {ordinal} is another one"
    yield from _wrong_ranges(view, metadata)
    position = metadata.generation.position
    room = (position.checksum_offset - position.offset_bytes - struct.calcsize(FOOTER)) // ENTRY_BYTES
    for more in (1, 5, 10, ENTRIES_MAX):
        try:
            open_view(_with_row_groups(data, metadata, room + more), metadata.token, file=file, verified=verified)
        except CorruptError:
            continue
        yield f"{room + more} row groups are not rejected, although {room} have room"
    flip = Flip(file, position.checksum_offset * BITS_IN_BYTE)
    for times in ("", " for the second time"):
        try:
            open_view(flip.apply(data), metadata.token, file=file, verified=verified)
        except CorruptError:
            continue
        yield f"after it was read, a wrong checksum in its place is not noticed{times}"
    for bit in REQUIRED_BITS:
        flip = Flip(file, (position.offset_bytes + FLAGS_OFFSET_BYTES) * BITS_IN_BYTE + bit)
        try:
            open_view(flip.apply(data), metadata.token, file=file, verified=VerifiedGenerations())
        except CorruptError:
            continue
        except UnsupportedError:
            yield f"with bit {bit} of its flags flipped, it counts as one of a later release"
        yield f"that bit {bit} of its flags was flipped is not noticed"


def _with_row_groups(data: bytes, metadata: Metadata, count: int) -> bytes:
    """Return the bytes up to the end of a generation with another count and its checksum."""
    position = metadata.generation.position
    place = position.offset_bytes + COUNT_OFFSET_BYTES
    return with_checksum(overwritten(data[: position.end_bytes], place, struct.pack("<I", count)))


def _wrong_ranges(view: MetadataView, metadata: Metadata) -> Iterator[str]:
    """Yield ranges of time for which other row groups are chosen than by looking at each."""
    bounds = [_bounds(block.chunks, metadata.header.designated_timestamp) for block in metadata.blocks]
    times = sorted({each for low_and_high in bounds if low_and_high for each in low_and_high})
    for time in times[:: len(times) // COMPARED_MAX + 1]:
        for start, end in ((time, time + 1), (time, None), (None, time), (time + 1, None), (None, time + 1)):
            expected = [
                ordinal
                for ordinal, each in enumerate(bounds)
                if each is None or ((end is None or each[0] < end) and (start is None or each[1] >= start))
            ]
            if (found := view.row_groups_between(start, end)) != expected:
                yield f"of times from {start} to {end}, row groups {found} are read, and not {expected}"


def _bounds(chunks: tuple[Chunk, ...], timestamp: int) -> tuple[int, int] | None:
    if timestamp < 0:
        return None
    low, high = chunks[timestamp].minimum, chunks[timestamp].maximum
    if low is None or high is None or {len(low.value), len(high.value)} != {TIME_BYTES}:
        return None
    return int.from_bytes(low.value, "little", signed=True), int.from_bytes(high.value, "little", signed=True)


def failed_controls(data: bytes, *, file: str) -> Iterator[str]:
    """Yield in words each mistake of a view that is not noticed in any generation."""
    for name, location, broken in (
        (
            "checksums that are not compared",
            "tornproof.impl.pm.view:check_checksum",
            lambda check: lambda *_, **__: None,
        ),
        ("columns without a name", "tornproof.impl.pm.view:decode_column", _nameless),
    ):
        with wrapped(location, broken):
            if not any(view_problems(data, file=file)):
                yield f"{name} were not noticed"


def _nameless(decode: Callable[..., Column]) -> Callable[..., Column]:
    return lambda *arguments, **settings: replace(decode(*arguments, **settings), name="")
