"""The sample by which columns are inferred: the first lines of files that are spread evenly over all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tornproof.pipeline.ingest.source import BLANKS, Block, Lines
from tornproof.pipeline.ingest.values import LineRefusedError, parse_frame

FILES_MAX = 100
SAMPLE_BLOCK_BYTES = 1 << 20


def sample_frames(paths: Sequence[str], line_count: int) -> Iterator[dict[str, Any]]:
    """Yield the objects among the first lines of at most FILES_MAX files; raises SourceUnreadableError."""
    step = -(-len(paths) // FILES_MAX)
    for path in paths[::step]:
        left = line_count
        for block in Lines(path, block_bytes=SAMPLE_BLOCK_BYTES):
            lines = block.text.split(b"\n")[:left] if isinstance(block, Block) else []
            for line in lines:
                if line.strip(BLANKS):
                    try:
                        yield parse_frame(line)
                    except LineRefusedError:
                        continue
            left -= len(lines)
            if left <= 0:
                break
