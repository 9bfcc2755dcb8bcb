"""Transaction files are read as what their bytes say; other layouts, and readers that take more, are noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import (
    ENTRY,
    HEADER,
    RECORD,
    RECORD_BYTES_MAX,
    of_entries,
)
from tornproof.impl.txn import transaction


def test_transaction_files_are_read_as_what_they_say() -> None:
    sizes = HEADER.size, RECORD.size, ENTRY.size, RECORD_BYTES_MAX
    assert sizes == (
        *(transaction.HEADER_BYTES, transaction.RECORD_BYTES),
        *(transaction.ENTRY_BYTES, transaction.RECORD_LIMIT_BYTES),
    )


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("AREA_ALIGNMENT_BYTES", 8),
        ("AREA_ALIGNMENT_BYTES", 2),
        ("RECORD_LIMIT_BYTES", 1 << 30),
        ("area_of", lambda base, version, original=transaction.area_of: original(base, version + 1)),
        ("SYMBOL_BYTES", 4),
    ],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("transaction", replaced(f"tornproof.impl.txn.transaction:{location}", broken))


@pytest.mark.parametrize("version", [6, 7])
def test_the_slot_of_the_other_area_leads_nowhere(version: int) -> None:
    """A reader that looks at it must not find something that could be right."""
    file = replace(of_entries([]), version=version)
    content = file.content()
    numbers = HEADER.unpack(content[: HEADER.size])
    offset_bytes, symbols_size, _ = numbers[4:7] if file.area == "a" else numbers[1:4]
    assert offset_bytes > len(content) and symbols_size < 0
