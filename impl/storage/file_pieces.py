"""The bytes of a file of any size, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

from tornproof.impl.storage.interface import ReadableFile

PIECE_BYTES = 4 * 1024 * 1024


def pieces_of(file: ReadableFile, start_bytes: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) from `start_bytes` to the end of the file."""
    while piece := file.pread(PIECE_BYTES, start_bytes):
        yield start_bytes, piece
        start_bytes += len(piece)
