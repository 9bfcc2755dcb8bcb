"""Files are what they are however their paths are spelled; a directory without a name is found."""

from __future__ import annotations

import pytest

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.explorers.roundtrip.spelled_files import spelled_files
from tornproof.harness.simulator.filesystem.image import DiskImage

EMPTY = DiskImage.of_files({})


def test_a_bare_name_that_is_in_no_partition_is_found_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.impl.migrate.footer_form.parent_of", lambda path: path.rpartition("/")[0])
    (finding,) = findings_of(part_of("spelled"))
    assert spelled_files()[finding.evidence["spelled"]].path == "data.parquet"
    assert replay_roundtrip(finding, EMPTY, "/table") is Verdict.INVALID
    monkeypatch.undo()
    assert replay_roundtrip(finding, EMPTY, "/table") is Verdict.VALID
