"""Damage that an offline recovery finds: it must be reported and left alone, or all rows must be there afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from tornproof.harness.explorers.corruption.blocks import WORD_BYTES, spread_flips
from tornproof.harness.explorers.corruption.plan import Again, Edit, Kind, Overwrite
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.partition import PM_FILE

FLIPS_MAX = 24
"""So many bits of each file are tried, evenly spread."""


def recovered_damages(file: str, content: bytes) -> Iterator[Again]:
    """Yield some bits of a partition's file flipped, and the size lost that its `_pm` publishes.

    That is its first word, without which its generations have to be looked for.
    """
    directory, _, name = file.rpartition("/")
    published = Edit(f"{directory}/{PM_FILE}", 0, bytes(WORD_BYTES))
    for flip in spread_flips(file, len(content), FLIPS_MAX):
        start = flip.offset_bytes
        if name == DATA_FILE or start >= WORD_BYTES:
            edit = Edit(file, start, flip.apply(content)[start : start + 1])
            words = f"{flip}, and the published size of {published.file} lost"
            yield Again(Kind.RECOVERED, Overwrite(Kind.FIELD, (edit, published), words))
