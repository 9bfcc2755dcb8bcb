"""Damage that an offline recovery finds: it must be reported and left alone, or all rows must be there afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from tornproof.harness.explorers.corruption.blocks import block_starts
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Again, Edit, Flip, Kind, Overwrite
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.partition import PM_FILE

PUBLISHED_BYTES = 8
"""At the start of `_pm`; without them its generations have to be looked for."""
FLIPS_MAX = 24
"""So many bits of each file are tried, evenly spread."""


def recovered_damages(file: str, content: bytes) -> Iterator[Again]:
    """Yield some bits of a partition's file flipped, and the size lost that its `_pm` publishes."""
    directory, _, name = file.rpartition("/")
    published = Edit(f"{directory}/{PM_FILE}", 0, bytes(PUBLISHED_BYTES))
    for number, start in enumerate(block_starts(len(content), 1, FLIPS_MAX)):
        if name == DATA_FILE or start >= PUBLISHED_BYTES:
            flip = Flip(file, start * BITS_IN_BYTE + number % BITS_IN_BYTE)
            edit = Edit(file, start, flip.apply(content)[start : start + 1])
            words = f"{flip}, and the published size of {published.file} lost"
            yield Again(Kind.RECOVERED, Overwrite(Kind.FIELD, (edit, published), words))
