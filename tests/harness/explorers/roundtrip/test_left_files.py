"""Calls leave on a disk what they should; those that leave other files, locks or names are found."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import kinds_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip import left_files as module
from tornproof.harness.explorers.roundtrip.left_files import _unsynced, failed_controls
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.storage.interface import OpenMode, Storage


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("location", "broken", "kinds"),
    [
        ("table.indexed_columns:indexed_columns", lambda _: (), {"dry runs"}),
        ("repair.kept:_is_copy", lambda *_: True, {"kept"}),
    ],
)
def test_what_is_left_otherwise_is_found_and_replays(location: str, broken: Any, kinds: set[str]) -> None:
    assert kinds_that_replay("left", replaced(f"tornproof.impl.{location}", broken)) == kinds


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 2


def test_a_sync_of_a_directory_is_none_of_the_files_in_it() -> None:
    def write(storage: Storage) -> None:
        for name in ("d/one", "d/one more"):
            storage.open_for_writing(name, OpenMode.NEW).close()
        with storage.open_for_writing("d/one more") as more:
            more.pwrite(b"2", 0)
        with storage.open_for_writing("d/one") as one:
            one.pwrite(b"1", 0)
            one.fsync()
        storage.sync_directory("d")

    start = MemoryStorage()
    start.mkdir("d")
    assert _unsynced(start, write) == ["d/one more"]
