"""SQLite itself in the simulator, over a VFS whose calls are the storage's: the sound one, and what others do."""

from dataclasses import replace
from typing import Any

import pytest
from depth import nightly, sampled
from random_runs import reread

from tornproof.harness.common.effort import EFFORTS, Bounds
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.kills.explorer import explore_crashes
from tornproof.harness.explorers.own_system.simulated import cases_of, explore_simulated, replay_simulated
from tornproof.harness.explorers.schedules.writers import Group, explore_writers, replay_writers
from tornproof.harness.simulator.process.case import NotExplorableError, Readers
from tornproof.harness.simulator.process.observer import ONE_ORDER, Property
from tornproof.harness.simulator.process.simulated_process import NotDeterministicError
from tornproof.harness.systems.scenario import Explorer
from tornproof.testing import PATH, FunctionTarget, target

pytest.importorskip("apsw", reason="needs the package apsw, which is SQLite for Python with its VFS")
from sqlite_vfs import Records

SMALL = Bounds.of(EFFORTS["small"])
DAY = replace(SMALL, schedules=200, states=12_000)
ONE, TWO = (b"a" * 200,), (b"a" * 200, b"b" * 200)
"""Each record fills the half of a page, so that every commit writes into several."""
SOUND = target(Records())
POWER, PRODUCT, SCHEDULES = Explorer.POWER, Explorer.PRODUCT, Explorer.SCHEDULES


def explored(
    explorer: Explorer, of: FunctionTarget, records: Any, models: Any = (), bounds: Bounds = SMALL, reads: int = 1
) -> Phase:
    cases = cases_of(explorer, of, records, [Readers(read_count=reads)])
    return explore_simulated(explorer, cases, models=models, bounds=bounds)


def writers(of: FunctionTarget, reader_count: int = 0) -> Group:
    (case,) = cases_of(SCHEDULES, of, TWO, [Readers(count=reader_count)] if reader_count else []).values()
    return Group(case=case, writer_count=2)


@pytest.mark.parametrize(
    ("explorer", "records", "models", "bounds"),
    sampled(
        1,
        [
            (SCHEDULES, ONE, (), DAY),
            (POWER, TWO, ("B",), SMALL),
            (PRODUCT, ONE, ("A",), DAY),
            nightly(SCHEDULES, TWO, (), Bounds.of(EFFORTS["medium"])),
            nightly(POWER, TWO, (), Bounds.of(EFFORTS["medium"])),
            nightly(PRODUCT, ONE, (), Bounds.of(EFFORTS["medium"])),
            nightly(PRODUCT, TWO, (), Bounds.of(EFFORTS["medium"])),
        ],
    ),
)
def test_sqlite_is_valid_on_a_sound_vfs(explorer: Explorer, records: Any, models: Any, bounds: Bounds) -> None:
    phase = explored(explorer, SOUND, records, models, bounds)
    assert (phase.verdict, phase.findings, phase.controls, phase.note) == (Verdict.VALID, (), "passed", "")
    assert phase.explored > 30
    if explorer is SCHEDULES:
        assert f"every order of dependent calls, in {164 if records is ONE else 3236} schedules" in phase.bound
    elif explorer is PRODUCT:
        assert "reduced schedules of 1 reader that locks or changes something" in phase.bound
        assert phase.counts["distinct worlds after a crash"] > 10


def test_sqlite_is_valid_when_it_is_killed_and_its_calls_fail() -> None:
    phase = explore_crashes(SOUND, ONE, path=PATH, cuts_max=40)
    assert (phase.verdict, phase.findings) == (Verdict.VALID, ())
    assert phase.counts["whole steps"] == 24 and phase.counts["failing calls"] > 10


@pytest.mark.parametrize("reader_count", [0, nightly(1)])
def test_two_connections_write_one_after_the_other(reader_count: int) -> None:
    phase = explore_writers(writers(SOUND, reader_count), schedules_max=200 if reader_count == 0 else 4_000)
    assert (phase.verdict, phase.findings, phase.controls, phase.note) == (Verdict.VALID, (), "passed", "")
    assert phase.counts["reduced schedules"] >= 200


@pytest.mark.parametrize(
    ("name", "without", "explorer", "records", "models", "violated"),
    sampled(
        1,
        [
            ("no lock", {"locks": False}, SCHEDULES, ONE, (), Property.WRONG_SNAPSHOT),
            nightly("no lock", {"locks": False}, PRODUCT, ONE, ("A",), Property.WRONG_SNAPSHOT),
            ("no sync", {"syncs": False}, POWER, TWO, ("B",), Property.LOST),
            nightly("no sync", {"syncs": False}, PRODUCT, ONE, ("C-4096",), Property.LOST),
            nightly(
                "no sync of a created name",
                {"syncs_created_name": False},
                POWER,
                TWO,
                ("Cdir",),
                Property.WRONG_SNAPSHOT,
            ),
            ("no sync of a removed name", {"syncs_removed_name": False}, POWER, TWO, ("B",), Property.LOST),
            nightly(
                "no sync of a removed name", {"syncs_removed_name": False}, PRODUCT, ONE, ("N-512",), Property.LOST
            ),
            # As documented: only with `extra` the removal of the journal is durable.
            nightly("synchronous = full", {"synchronous": "full"}, POWER, TWO, ("B",), Property.LOST),
            # A commit whose last sync failed is read by the next session, and gone after a power cut.
            nightly("no sync at first", {"syncs_first": False}, POWER, TWO, ("D",), Property.LOST),
        ],
    ),
)
def test_what_another_vfs_or_setting_does_is_found_and_replays(
    name: str, without: dict[str, Any], explorer: Explorer, records: Any, models: Any, violated: str
) -> None:
    broken = target(Records(name, **without))
    phase = explored(explorer, broken, records, models, DAY if explorer is SCHEDULES else SMALL)
    found = [finding for finding in phase.findings if finding.property == violated]
    assert phase.verdict is Verdict.INVALID and found
    again = reread(found[0])
    assert {replay_simulated(broken, records, again) for _ in range(10)} == {Verdict.INVALID}
    assert replay_simulated(SOUND, records, again) is not Verdict.INVALID
    if "log" in again.evidence:
        # The most is a failed call, the end of the process that saw it, and a power cut.
        assert len(again.evidence["log"]) <= 3 and again.evidence["shrunk"]["is_smallest"]


@pytest.mark.nightly
def test_two_writers_without_locks_lose_a_commit() -> None:
    broken = target(Records("no lock", locks=False))
    phase = explore_writers(writers(broken), schedules_max=200)
    (finding,) = [finding for finding in phase.findings if finding.property == ONE_ORDER]
    assert {replay_writers(writers(broken), reread(finding)) for _ in range(10)} == {Verdict.INVALID}
    assert replay_writers(writers(SOUND), reread(finding)) is not Verdict.INVALID


@pytest.mark.nightly
def test_the_same_is_explored_each_time_but_not_with_random_numbers_that_are_shared() -> None:
    assert explored(SCHEDULES, SOUND, ONE, bounds=DAY) == explored(SCHEDULES, SOUND, ONE, bounds=DAY)
    with pytest.raises((NotDeterministicError, NotExplorableError)):
        explored(SCHEDULES, target(Records(repeats_random_numbers=False)), ONE, bounds=DAY)
