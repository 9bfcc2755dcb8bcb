"""Blocks with wrong content: zeros, what they held before the last commits, or what belongs elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from tornproof.harness.explorers.corruption.plan import (
    BITS_IN_BYTE,
    Again,
    Edit,
    Flip,
    Kind,
    Overwrite,
    difference,
)

WORD_BYTES = 8
BLOCK_BYTES = (512, 4096)
BLOCKS_MAX = 65_536
"""At most so many words or blocks of one size are damaged in a file; of more, every n-th."""
PAGE_BITS_MAX = 16
"""At most so many bits of a page are flipped: its checksum covers all of its bytes alike."""
FILTER_BITS_MAX = 4
"""At most so many bits of a filter are cleared: each of them is one of a value."""
HEADERS_MAX, HEADER_BITS_MAX = 6, 24
"""So many page headers of a file are damaged, in so many bits."""

Contents = Mapping[str, bytes]


def block_starts(size_bytes: int, block_bytes: int, blocks_max: int) -> range:
    """Return the offsets of the blocks of a file to damage: all of them, or an even sample of `blocks_max`."""
    count = -(-size_bytes // block_bytes)
    step = max(1, -(-count // blocks_max))
    return range(0, size_bytes, block_bytes * step)


def spread_flips(file: str, size_bytes: int, count_max: int) -> Iterator[Flip]:
    """Yield some bits of a file flipped, evenly spread, of each byte another one than of the one before."""
    for number, start in enumerate(block_starts(size_bytes, 1, count_max)):
        yield Flip(file, start * BITS_IN_BYTE + number % BITS_IN_BYTE)


def zeroed(contents: Contents, file: str, sizes: Sequence[int], blocks_max: int) -> Iterator[Overwrite]:
    """Yield the file with one aligned word or block of zeros, wherever it is not zero already."""
    content = contents[file]
    for block_bytes in sizes:
        for start in block_starts(len(content), block_bytes, blocks_max):
            edit = difference(file, content, start, bytes(block_bytes))
            if edit is not None:
                kind = Kind.ZEROED_WORD if block_bytes == WORD_BYTES else Kind.ZEROED_BLOCK
                yield Overwrite(kind, (edit,), f"{block_bytes} bytes at {start} of {file} zeroed")


def flipped(contents: Contents, file: str, bodies: Iterable[tuple[int, int]]) -> Iterator[Overwrite]:
    """Yield the file with one bit flipped in each of some bytes, evenly spread, of each of the `bodies` of pages."""
    content = contents[file]
    for start, end in bodies:
        for offset in block_starts(end - start, 1, PAGE_BITS_MAX):
            edit = Edit(file, start + offset, bytes([content[start + offset] ^ 1 << offset % BITS_IN_BYTE]))
            yield Overwrite(Kind.PAGE_BIT, (edit,), f"a bit of byte {start + offset} of {file} flipped")


def header_flips(file: str, headers: Iterable[tuple[int, int]]) -> Iterator[Again]:
    """Yield the file with one bit flipped in each of some bytes of each of some `headers` of pages."""
    for start, end in islice(headers, HEADERS_MAX):
        for flip in spread_flips(file, end - start, HEADER_BITS_MAX):
            yield Again(Kind.HEADER_BIT, Flip(file, start * BITS_IN_BYTE + flip.bit))


def cleared(contents: Contents, file: str, bitsets: Iterable[tuple[int, int]]) -> Iterator[Overwrite]:
    """Yield the file with one bit cleared in each of some bytes, evenly spread, of each of the `bitsets`."""
    content = contents[file]
    for start, end in bitsets:
        stored = [offset for offset in range(start, end) if content[offset]]
        for number in block_starts(len(stored), 1, FILTER_BITS_MAX):
            offset = stored[number]
            edit = Edit(file, offset, bytes([content[offset] & content[offset] - 1]))
            yield Overwrite(Kind.FILTER_BIT, (edit,), f"a bit of byte {offset} of {file} cleared")


def stale(
    contents: Contents, file: str, sizes: Sequence[int], blocks_max: int, older: Sequence[Contents]
) -> Iterator[Overwrite]:
    """Yield the file with one block as it was in each of the `older` contents, newest first; zeros past their end."""
    content = contents[file]
    for block_bytes in sizes:
        for start in block_starts(len(content), block_bytes, blocks_max):
            seen: set[bytes] = set()
            for back, version in enumerate(older, 1):
                held = _block(version[file], start, block_bytes) if file in version else None
                if held is None or held in seen:
                    continue
                seen.add(held)
                edit = difference(file, content, start, held)
                if edit is not None:
                    kind = Kind.STALE_WORD if block_bytes == WORD_BYTES else Kind.STALE_BLOCK
                    description = (
                        f"{block_bytes} bytes at {start} of {file} as they were {back} commit{'s' * (back > 1)} before"
                    )
                    yield Overwrite(kind, (edit,), description)


def misdirected(contents: Contents, file: str, sizes: Sequence[int], blocks_max: int) -> Iterator[Overwrite]:
    """Yield the file with one block overwritten by one that belongs elsewhere.

    It comes from the same file (the block before, the block after, the first one), or from the same offset of another
    file: those of its directory, some of other directories, and the one of the same name in the next partition.
    """
    content = contents[file]
    others = _others(contents, file)
    for block_bytes in sizes:
        for start in block_starts(len(content), block_bytes, blocks_max):
            seen: set[bytes] = set()
            sources = [(file, offset) for offset in (start - block_bytes, start + block_bytes, 0) if offset >= 0]
            for source, offset in (*sources, *((other, start) for other in others)):
                held = contents[source][offset : offset + block_bytes]
                edit = difference(file, content, start, held)
                if edit is not None and held not in seen:
                    seen.add(held)
                    kind = Kind.MISDIRECTED_WORD if block_bytes == WORD_BYTES else Kind.MISDIRECTED_BLOCK
                    description = f"{len(held)} bytes at {start} of {file} overwritten by those at {offset} of {source}"
                    yield Overwrite(kind, (edit,), description)


def lost(
    contents: Contents, file: str, sizes: Sequence[int], blocks_max: int, older: Sequence[Contents]
) -> Iterator[Overwrite]:
    """Yield the blocks of the last commit written elsewhere: missing at their offset, and overwriting another block.

    They are written to the next block of the same file, and to the same offset of the file beside it.
    """
    content, before = contents[file], older[0].get(file)
    if before is None:
        return
    others = _others(contents, file)[:1]
    for block_bytes in sizes:
        for start in block_starts(len(content), block_bytes, blocks_max):
            missing = difference(file, content, start, _block(before, start, block_bytes))
            if missing is None:
                continue
            written = content[start : start + block_bytes]
            kind = Kind.LOST_WORD if block_bytes == WORD_BYTES else Kind.LOST_BLOCK
            for target, offset in ((file, start + block_bytes), *((other, start) for other in others)):
                overwritten = difference(target, contents[target], offset, written)
                if overwritten is not None:
                    description = f"{block_bytes} bytes of {file} written to {offset} of {target} instead of {start}"
                    yield Overwrite(kind, (missing, overwritten), description)


def _block(content: bytes, start: int, block_bytes: int) -> bytes:
    return content[start : start + block_bytes].ljust(block_bytes, b"\0")


def _others(contents: Contents, file: str) -> list[str]:
    """Return the other files of a file's directory, two of other directories, and the next partition's namesake."""
    directory, _, name = file.rpartition("/")
    names = list(contents)
    beside = [other for other in names if other != file and other.rpartition("/")[0] == directory]
    away = (
        [other for other in names if "/" in other] if not directory else [other for other in names if "/" not in other]
    )
    namesakes = [other for other in names if other.rpartition("/")[2] == name]
    following = namesakes[(namesakes.index(file) + 1) % len(namesakes)]
    return list(dict.fromkeys([*beside, *away[:2], *([following] if following != file else [])]))
