"""The points that a run has reached are counted correctly, and controls test its checker with falsified events."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tornproof.harness.checkers.rules import RULES
from tornproof.harness.checkers.snapshot_isolation import Judgement, judge
from tornproof.harness.common.history import Event, EventKind, to_arrow
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.processes import judge as process_judge
from tornproof.harness.explorers.processes.judge import (
    COMMIT_DONE,
    COMMIT_UNDONE,
    KILLED_IN_COMMIT,
    KILLED_IN_PURGE,
    KILLED_IN_RECOVERY,
    KILLED_PUBLISHED,
    PIN_FREED,
    PINNED_READER_KILLED,
    PURGED,
    READ_AGAIN,
    READ_DURING_COMMIT,
    REMOVED,
    RESTATED,
)
from tornproof.harness.explorers.processes.run import Outcome
from tornproof.harness.explorers.processes.stop import Stopped


class Script:
    """Events one nanosecond after the other."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._sequences: dict[str, int] = {}

    def add(self, client: str, kind: EventKind, version: int | None = None, **details: int) -> Script:
        sequence = self._sequences.get(client, 0)
        self._sequences[client] = sequence + 1
        has_digest = kind in (EventKind.COMMIT_START, EventKind.READ_END, EventKind.RECOVERED)
        self.events.append(
            Event(
                process=client,
                sequence=sequence,
                client=client,
                kind=kind,
                time_ns=len(self.events),
                version=version,
                digest=f"content {version}" if has_digest else None,
                details=json.dumps(details),
            )
        )
        return self

    def commit(self, version: int) -> Script:
        self.add("writer", EventKind.COMMIT_START, version, purged=1)
        return self.add("writer", EventKind.COMMIT_ACKNOWLEDGED, version)

    def recover(self, version: int) -> Script:
        return self.add("writer", EventKind.RECOVERED, version, restated=1, removed=2)

    def read(self, version: int, between: Callable[[], object] = lambda: None) -> Script:
        self.add("reader", EventKind.READ_START)
        between()
        return self.add("reader", EventKind.READ_END, version)


NOTHING = Outcome(expected=None)


def points(script: Script, outcome: Outcome = NOTHING) -> dict[str, int]:
    return process_judge.reached_points(script.events, outcome)


def test_reads_during_commits_are_counted() -> None:
    script = Script().recover(0).read(0).commit(1).read(1)
    script.read(1, lambda: script.commit(2))
    script.add("writer", EventKind.COMMIT_START, 3, purged=0).read(2)
    script.add("writer", EventKind.KILLED).read(2)
    assert points(script)[READ_DURING_COMMIT] == 2


@pytest.mark.parametrize(("commits", "expected"), [(1, 0), (2, 1), (3, 1)])
def test_pinned_snapshots_that_are_read_again_after_two_commits_are_counted(commits: int, expected: int) -> None:
    script = Script().recover(0)
    script.read(0, lambda: script.add("reader", EventKind.PIN, 0))
    for version in range(1, commits + 1):
        script.commit(version)
    script.read(0).add("reader", EventKind.UNPIN).read(commits)
    assert points(script)[READ_AGAIN] == expected


def test_what_kills_left_is_counted() -> None:
    script = Script().recover(0).commit(1)
    script.add("writer", EventKind.COMMIT_START, 2, purged=3).add("writer", EventKind.KILLED).recover(2)
    script.add("writer", EventKind.COMMIT_START, 3, purged=0).add("writer", EventKind.KILLED)
    script.add("writer", EventKind.KILLED).recover(2)
    script.add("writer", EventKind.KILLED).recover(2)
    reached = points(script)
    assert (reached[COMMIT_DONE], reached[COMMIT_UNDONE], reached[PURGED]) == (1, 1, 4)
    assert reached[KILLED_IN_COMMIT] == 2
    assert (reached[RESTATED], reached[REMOVED]) == (4, 8)


def test_where_writers_were_killed_is_counted() -> None:
    positions = ("commit: sync header", "commit: append data", "recovery: append pm", "purge: remove file")
    killed_at = [Stopped(position=position, is_published=position == positions[0]) for position in positions]
    reached = points(
        Script().recover(0), Outcome(expected=None, killed_at=killed_at, pinned_reader_kills=3, freed_pins=2)
    )
    assert reached["killed at commit: sync header"] == reached["killed at commit: append data"] == 1
    assert reached["killed at commit: sync data"] == 0
    assert (reached[KILLED_PUBLISHED], reached[KILLED_IN_RECOVERY], reached[KILLED_IN_PURGE]) == (1, 1, 1)
    assert (reached[PINNED_READER_KILLED], reached[PIN_FREED]) == (3, 2)


def whole_script() -> Script:
    script = Script().recover(0).commit(1).read(1).commit(2).read(2)
    return script.add("writer", EventKind.KILLED).recover(2).read(2)


def test_a_falsified_event_of_each_kind_is_detected() -> None:
    judgement = judge(to_arrow(whole_script().events))
    assert judgement.verdict is Verdict.VALID
    assert process_judge.failed_controls(whole_script().events, judgement) == []


def test_a_checker_that_detects_no_falsified_event_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = Judgement(verdict=Verdict.VALID, counts={}, denominators={})
    monkeypatch.setattr(process_judge, "judge", lambda history: blind)
    failures = process_judge.failed_controls(whole_script().events, blind)
    assert failures == [
        "a falsified event was not detected as content_of_another_version",
        "a falsified event was not detected as acknowledged_version_lost",
    ]


def test_a_checker_without_the_order_between_readers_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    judgement = judge(to_arrow(whole_script().events))
    monkeypatch.delitem(RULES, "seen_version_missed")
    assert process_judge.failed_controls(whole_script().events, judgement) == [
        "a small history was not detected as seen_version_missed"
    ]


def test_a_history_without_anything_to_falsify_is_not_trusted() -> None:
    judgement = Judgement(verdict=Verdict.VALID, counts={}, denominators={})
    assert process_judge.failed_controls(Script().recover(0).read(0).events, judgement) == [
        "no read of a later version could be falsified"
    ]
