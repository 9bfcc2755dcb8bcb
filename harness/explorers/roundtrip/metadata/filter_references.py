"""Whether the bloom filters of `data.parquet` are read where `_pm` refers to them, and rejected where none is.

A reference leads to a bitset, or to the header of Parquet before it (docs/format.md); the header is that of
[BloomFilter.md](https://github.com/apache/parquet-format/blob/master/BloomFilter.md), told a second time here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.roundtrip.forms import reader_of
from tornproof.harness.explorers.roundtrip.metadata.chains import generation
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import EXTERNAL_BLOOMS, SORTED_BY_TIMESTAMP
from tornproof.impl.errors import CorruptError
from tornproof.impl.pm.bloom_position import bitset_of
from tornproof.impl.pm.chain import decode_metadata, resolve

PROPERTY = "a bloom filter is read where _pm refers to one, and nowhere else"
PM = "_pm"
START, BLOCK_BYTES = 40, 32
BITS = bytes(range(1, 65))
"""Two blocks."""
STRUCT, I32, STOP = 12, 5, 0
FAR = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterReference:
    """A reference, what data.parquet has from `START` on, and what is read, None if it is rejected."""

    name: str
    kind: str
    offset: int
    length: int
    content: bytes
    cut_bytes: int = 0
    expected: bytes | None = None


@functools.cache
def filter_references() -> tuple[FilterReference, ...]:
    """Return all references, always in the same order."""
    return (*_places(), *_headers())


def problem_of(case: FilterReference) -> str | None:
    """Say what is read instead; None if what is there."""
    flags = SORTED_BY_TIMESTAMP | EXTERNAL_BLOOMS
    draft = generation(1, flags=flags, blooms={0: (case.offset, case.length)})
    content = draft.encoded()
    data = (bytes(START) + case.content).ljust(draft.token, b"\xff")[: draft.token - case.cut_bytes]
    try:
        metadata = decode_metadata(content, resolve(content, draft.token, file=PM).position, file=PM)
        found = bitset_of(content, metadata, 0, 0, read_data=reader_of(data), file=PM)
    except CorruptError as error:
        return None if case.expected is None else f"it is rejected: {error}"
    if case.expected is None:
        return f"{len(found or b'')} bytes are taken for a filter"
    return None if found == case.expected else f"{found!r} is read instead of {case.expected!r}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that reject nothing, and of those that read every filter whole."""
    read = original_of(f"{__name__}:bitset_of")

    def reject_nothing(*reference: Any, **settings: Any) -> bytes:
        try:
            return read(*reference, **settings) or b""
        except CorruptError:
            return b""

    controls: Controls = (
        ("nothing is rejected", f"{__name__}:bitset_of", reject_nothing, "are taken for a filter"),
        ("all filters are whole", f"{__name__}:bitset_of", lambda *_, **__: BITS, "is read instead of"),
        (
            "a byte more is read",
            f"{__name__}:bitset_of",
            lambda *_, **named: (read(*_, **named) or b"") + b"x",
            "is read instead of",
        ),
        ("blocks are larger", "tornproof.impl.pm.bloom_position:BLOCK_BYTES", 2 * BLOCK_BYTES, "it is rejected: "),
    )
    return not_noticed(controls, problem_of, filter_references())


def _places() -> Iterator[FilterReference]:
    """Yield references to a filter of two blocks, and beside it."""
    whole = _header(len(BITS)) + BITS
    bits, token = START + len(whole) - len(BITS), generation(1).token
    for name, offset, length, expected in (
        ("the header and the bitset", START, len(whole), BITS),
        ("the bitset", bits, len(BITS), BITS),
        ("its first block", bits, BLOCK_BYTES, BITS[:BLOCK_BYTES]),
        ("all but the last byte", START, len(whole) - 1, None),
        ("a byte more", START, len(whole) + 1, None),
        ("the header and one block", START, len(whole) - BLOCK_BYTES, None),
        ("the header", START, len(whole) - len(BITS), None),
        ("a byte", bits, 1, None),
        ("the last bytes before the token", token - BLOCK_BYTES, BLOCK_BYTES, b"\xff" * BLOCK_BYTES),
        ("bytes across the token", token - BLOCK_BYTES + 1, BLOCK_BYTES, None),
        ("bytes behind the token", token, BLOCK_BYTES, None),
        ("bytes far behind", FAR, BLOCK_BYTES, None),
        ("far too many bytes", bits, FAR, None),
        ("no bytes", bits, 0, None),
    ):
        yield FilterReference(
            name=f"a reference to {name}", kind="places", offset=offset, length=length, content=whole, expected=expected
        )
    for cut_bytes, expected in ((0, b"\xff" * BLOCK_BYTES), (1, None), (BLOCK_BYTES, None)):
        yield FilterReference(
            name=f"a reference to the last bytes of a file without its last {cut_bytes}",
            kind="cut files",
            offset=token - BLOCK_BYTES,
            length=BLOCK_BYTES,
            content=whole,
            cut_bytes=cut_bytes,
            expected=expected,
        )


def _headers() -> Iterator[FilterReference]:
    """Yield headers before a bitset that say something else of it."""
    right = _header(len(BITS))
    for name, header, size_bytes, is_right in (
        ("as it is", right, len(BITS), True),
        ("of one block", _header(BLOCK_BYTES), BLOCK_BYTES, True),
        ("of less bytes", _header(len(BITS) - BLOCK_BYTES), len(BITS), False),
        ("of more bytes", _header(len(BITS) + 1), len(BITS), False),
        ("of no bytes", _header(0), 0, False),
        ("of no whole blocks", _header(BLOCK_BYTES + 1), BLOCK_BYTES + 1, False),
        ("of a negative size", _header(-len(BITS)), len(BITS), False),
        *(
            (f"of another {what}", _header(len(BITS), **{what: 2}), len(BITS), False)
            for what in ("algorithm", "hashing", "compression")
        ),
        ("without an end", right[:-1], len(BITS), False),
        ("without a size", bytes([3 << 4 | STRUCT]) + right[4:], len(BITS), False),
        ("that is none", b"\xff" * len(right), len(BITS), False),
    ):
        yield FilterReference(
            name=f"a header {name}",
            kind="headers",
            offset=START,
            length=len(header) + size_bytes,
            content=header + BITS[:size_bytes],
            expected=BITS[:size_bytes] if is_right else None,
        )


def _header(size_bytes: int, *, algorithm: int = 1, hashing: int = 1, compression: int = 1) -> bytes:
    """Return a BloomFilterHeader: the size, and three unions of which each has a member that is an empty struct."""
    zigzag = size_bytes << 1 ^ size_bytes >> 31
    number = bytes([zigzag & 127 | 128, zigzag >> 7]) if zigzag > 127 else bytes([zigzag])
    unions = b"".join(
        bytes([1 << 4 | STRUCT, member << 4 | STRUCT, STOP, STOP]) for member in (algorithm, hashing, compression)
    )
    return bytes([1 << 4 | I32]) + number + unions + bytes([STOP])
