"""Recoveries restate what they can write to; one that stops too early or late is a finding that replays."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from replayed import all_that_replay

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.writing import republished_partitions
from tornproof.harness.explorers.roundtrip.writing.republished_partitions import failed_controls, volumes
from tornproof.impl.errors import StorageError
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.write import recovery


def up_to_the_first_error(storage: Any, table: Any, transaction: Any) -> None:
    """Restate partitions until one cannot be written to."""
    with suppress(StorageError):
        for partition in transaction.partitions:
            resolved = resolve_partition(table.files_of(partition), partition)
            if resolved.resolved.orphan_count:
                recovery._republish(storage, resolved)


def test_a_recovery_that_ends_with_the_first_error_is_found_and_replays() -> None:
    findings = all_that_replay(
        "volumes", replaced("tornproof.impl.write.recovery:_republish_partitions", up_to_the_first_error)
    )
    assert any("partition 2 is not restated" in each.sentence for each in findings)


def test_a_look_at_no_errors_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    left = tuple(each for each in volumes() if each.error is None)
    monkeypatch.setattr(republished_partitions, "volumes", lambda: left)
    assert [*failed_controls()] == [
        "the last is restated first: not noticed",
        "any error leaves a partition: not noticed",
    ]


def test_volumes_that_give_no_error_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(republished_partitions, "_on_volumes", lambda disk, *_: disk)
    problems = [republished_partitions.problem_of(each) for each in volumes() if each.error is None]
    assert problems.count(None) == 1 and all(
        "is restated, on a volume with the error" in each for each in problems if each
    )
