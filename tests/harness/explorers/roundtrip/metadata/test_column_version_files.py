"""Column versions are read as what their bytes say; readers of another area or another time are noticed."""

from __future__ import annotations

import pytest

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.metadata.column_version_files import (
    DICTIONARY,
    FILE_BYTES_MAX,
    OTHERS,
    column_version_files,
    failed_controls,
    problem_of,
)
from tornproof.harness.explorers.roundtrip.parts import COLUMN_VERSION_FILES
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.table import column_versions

EMPTY = DiskImage.of_files({})


def test_files_are_read_as_what_they_say() -> None:
    assert [problem for each in column_version_files() if (problem := problem_of(each))] == []
    assert [*failed_controls()] == []
    assert (OTHERS, DICTIONARY) == (column_versions.DEFAULT_PARTITION, column_versions.DICTIONARY)
    assert column_versions.CV_LIMIT_BYTES == FILE_BYTES_MAX


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("column_versions:DEFAULT_PARTITION", 0),
        ("column_versions:ENTRY_BYTES", 8),
        ("column_versions:NO_NAME_TXN", 0),
    ],
)
def test_other_readers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    with replaced(f"tornproof.impl.table.{location}", broken):
        findings = [*findings_of(COLUMN_VERSION_FILES)]
        assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.INVALID}
    assert {replay_roundtrip(each, EMPTY, "/table") for each in findings} == {Verdict.VALID}
