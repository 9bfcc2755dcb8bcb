"""Transaction files are read as what their bytes say; other layouts, and readers that take more, are noticed."""

from __future__ import annotations

import pytest

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import (
    ENTRY,
    HEADER,
    RECORD,
    RECORD_BYTES_MAX,
    failed_controls,
    problem_of,
    transaction_files,
)
from tornproof.harness.explorers.roundtrip.parts import TRANSACTION_FILES
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.txn import transaction


def test_transaction_files_are_read_as_what_they_say() -> None:
    assert [problem for each in transaction_files() if (problem := problem_of(each))] == []
    assert [*failed_controls()] == []
    sizes = HEADER.size, RECORD.size, ENTRY.size, RECORD_BYTES_MAX
    assert sizes == (
        *(transaction.HEADER_BYTES, transaction.RECORD_BYTES),
        *(transaction.ENTRY_BYTES, transaction.RECORD_LIMIT_BYTES),
    )


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("AREA_ALIGNMENT_BYTES", 4),
        ("RECORD_LIMIT_BYTES", 1 << 30),
        ("area_of", lambda base, version, original=transaction.area_of: original(base, version + 1)),
        ("SYMBOL_BYTES", 4),
    ],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    with replaced(f"tornproof.impl.txn.transaction:{location}", broken):
        findings = [*findings_of(TRANSACTION_FILES)]
        assert {replay_roundtrip(each, DiskImage.of_files({}), "/table") for each in findings} == {Verdict.INVALID}
    assert {replay_roundtrip(each, DiskImage.of_files({}), "/table") for each in findings} == {Verdict.VALID}
