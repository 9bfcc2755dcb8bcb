"""A promise that texts are ASCII holds, or is not made again; a writer that keeps it is found, blind looks noticed."""

from __future__ import annotations

from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.writing import promised_texts as module
from tornproof.harness.explorers.roundtrip.writing.promised_texts import PATH, failed_controls, promised_texts
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.layout.pm import IS_ASCII
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.table.table import open_table


def test_the_header_that_is_made_promises_what_it_is_said_to() -> None:
    table = open_table(MemoryStorage.of(module._image()), PATH)
    (partition,) = table.transaction().partitions
    time, text = resolve_partition(table.files_of(partition), partition).metadata.header.columns
    assert IS_ASCII.get(text.flags) and not IS_ASCII.get(time.flags)
    assert {(text or "").isascii() for each in promised_texts() for text in each.texts} == {True, False}


def test_a_writer_that_does_not_look_at_texts_is_found_and_replays() -> None:
    def careless(_: Any) -> Any:
        return module._Careless

    findings = first_that_replays("ascii", wrapped("tornproof.impl.write.partition_change:PartitionChanger", careless))
    assert "says that all texts are ASCII" in findings[0].sentence


def test_a_blind_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "problem_of", lambda _: None)
    assert len([*failed_controls()]) == 3
