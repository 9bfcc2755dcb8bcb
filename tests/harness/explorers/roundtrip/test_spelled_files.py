"""Files are what they are however their paths are spelled; a directory without a name is found."""

from __future__ import annotations

import pytest

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.explorer import findings_of, replay_roundtrip
from tornproof.harness.explorers.roundtrip.parts import part_of
from tornproof.harness.explorers.roundtrip.spelled_files import problem_of, spelled_files
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.migrate.plain_file import migrate_file
from tornproof.impl.storage.interface import OpenMode, Storage

EMPTY = DiskImage.of_files({})


def test_a_migration_makes_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_another(storage: Storage, path: str) -> None:
        migrate_file(storage, path)
        storage.open_for_writing(f"{path}.left", OpenMode.NEW).close()

    case = next(each for each in spelled_files() if each.operation == "migrated")
    assert problem_of(case) is None
    monkeypatch.setattr("tornproof.harness.explorers.roundtrip.spelled_files.migrate_file", with_another)
    said = problem_of(case)
    assert said is not None and ".left'" in said


def test_a_bare_name_that_is_in_no_partition_is_found_and_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.impl.migrate.footer_form.parent_of", lambda path: path.rpartition("/")[0])
    (finding,) = findings_of(part_of("spelled"))
    assert spelled_files()[finding.evidence["spelled"]].path == "data.parquet"
    assert replay_roundtrip(finding, EMPTY, "/table") is Verdict.INVALID
    monkeypatch.undo()
    assert replay_roundtrip(finding, EMPTY, "/table") is Verdict.VALID
