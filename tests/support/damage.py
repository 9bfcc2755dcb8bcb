"""Damaged bytes, of which one bit or one number is another, and a damaged function."""

from collections.abc import Iterator


def flipped(content: bytes, bit: int) -> bytes:
    """Return the content with one bit flipped, counted from the lowest of the first byte."""
    position = bit // 8
    return content[:position] + bytes([content[position] ^ 1 << bit % 8]) + content[position + 1 :]


def each_flipped(content: bytes, step: int = 1, start: int = 0) -> Iterator[bytes]:
    """Yield the content with each bit flipped in turn, or with every n-th from `start` on."""
    return (flipped(content, bit) for bit in range(start, 8 * len(content), step))


def patched(content: bytes, offset_bytes: int, value: int, size_bytes: int) -> bytes:
    """Return the content with a signed little-endian number in place of what stands there."""
    word = value.to_bytes(size_bytes, "little", signed=True)
    return content[:offset_bytes] + word + content[offset_bytes + size_bytes :]


def ends_in_an_error(*_: object) -> None:
    """Raise what nobody expects."""
    raise LookupError("a mistake")
