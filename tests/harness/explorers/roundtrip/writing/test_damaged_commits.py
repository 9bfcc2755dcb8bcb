"""A commit does not make damage sound; a writer that looks at no checksum is found, and blind looks are noticed."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.writing import damaged_commits as module
from tornproof.harness.explorers.roundtrip.writing.damaged_commits import FIRST, PATH, damaged_commits, failed_controls
from tornproof.harness.simulator.filesystem.memory import MemoryStorage


def test_bits_of_both_files_are_flipped_and_rows_are_added_in_both_ways() -> None:
    assert len({each.kind for each in damaged_commits()}) == 4
    assert module._rows(MemoryStorage.of(module._image())) == FIRST
    storage = MemoryStorage.of(module._image())
    assert module._rows_seen_by_others(storage) == FIRST
    assert storage.image().files.keys() == module._image().files.keys() and PATH in storage.image().directories


def unlooked(_: Any) -> Any:
    return lambda *_, **__: None


def test_a_writer_that_continues_any_metadata_is_found_and_replays() -> None:
    first_that_replays("damaged", wrapped("tornproof.impl.pm.chain:check_checksum", unlooked))


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 6
