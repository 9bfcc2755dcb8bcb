"""Making checksums right again after a mutation, without which nothing behind a checksum would ever be reached."""

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress

from fuzz_inputs import joined, parts_of

from tornproof.impl.errors import TornproofError
from tornproof.impl.parquet.fields import PAGE_HEADER, ids_of
from tornproof.impl.parquet.thrift import Field, Kind, decode, encode, value_of, with_fields
from tornproof.impl.pm.chain import CHECKSUM_START, walk
from tornproof.impl.pm.footer import FooterPosition

CHECKSUM_BYTES = 4
PUBLISHED_END_BYTES = 8
PAGE = ids_of(PAGE_HEADER)
SIGN_BIT = 1 << 31


def pm(data: bytes) -> bytes:
    """Publish all bytes of a `_pm`, and give every generation that can be found the CRC that its bytes have."""
    content = bytearray(data)
    if len(content) >= PUBLISHED_END_BYTES:
        content[:PUBLISHED_END_BYTES] = len(content).to_bytes(PUBLISHED_END_BYTES, "little")
    positions: list[FooterPosition] = []
    with suppress(TornproofError):
        positions.extend(walk(data, file="_pm"))
    # A newer CRC spans the older ones, so these come first.
    for location in reversed(positions):
        start = location.checksum_offset
        checksum = zlib.crc32(content[CHECKSUM_START:start])
        content[start : start + CHECKSUM_BYTES] = checksum.to_bytes(CHECKSUM_BYTES, "little")
    return bytes(content)


def pages(content: bytes) -> bytes:
    """Give every page that states a CRC the one that its body has."""
    repaired = []
    position = 0
    with suppress(TornproofError):
        while position < len(content):
            header, body = decode(content, file="chunk", start=position)
            size = value_of(header, PAGE["compressed_page_size"])
            if not isinstance(size, int) or not 0 <= size <= len(content) - body:
                break
            if value_of(header, PAGE["crc"]) is not None:
                checksum = zlib.crc32(content[body : body + size])
                signed = checksum - 2 * SIGN_BIT if checksum >= SIGN_BIT else checksum
                header = with_fields(header, Field(PAGE["crc"], Kind.I32, signed))
            repaired.append(encode(header) + content[body : body + size])
            position = body + size
    return b"".join(repaired) + content[position:]


def _pages_of_input(data: bytes) -> bytes:
    facts, content = parts_of(data, 2)
    return joined(facts, pages(content))


def _chunk(data: bytes) -> bytes:
    *rest, content = parts_of(data, 4)
    return joined(*rest, pages(content))


def _inspected(data: bytes) -> bytes:
    # The number of the file that is inspected comes first; 0 is `_pm`.
    return data[:1] + pm(data[1:]) if data[:1] == b"\0" else data


REPAIRS: Mapping[str, Callable[[bytes], bytes]] = {
    "pm": pm,
    "pages": _pages_of_input,
    "chunk": _chunk,
    "inspect": _inspected,
}
"""By target; others have no checksum to repair."""
