"""A reader beside a writer that does in one session what the test case has in two: its findings replay, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted_faults import planted

from tornproof.harness.check import capture_table
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.counterexamples.moves import BOTH_SESSIONS
from tornproof.harness.explorers.schedules.explorer import explore_schedules
from tornproof.harness.explorers.simulated_phases import simulate
from tornproof.harness.replay import replay_finding
from tornproof.harness.systems.releases import HARDENED_PRESET
from tornproof.harness.systems.scenario import Explorer
from tornproof.harness.systems.simulation import settings_of_table
from tornproof.impl.storage.operating_system import OperatingSystemStorage

SCHEDULES_MAX = 400


@pytest.mark.nightly
def test_every_finding_replays_also_of_more_commits_than_the_first_session_has(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/chain/table")
    image = capture_table(OperatingSystemStorage(), path)
    setting = next(each for each in settings_of_table(image, path, HARDENED_PRESET) if each.case.second_session)
    with planted("no final look"):
        found = explore_schedules(setting.case, schedules_max=SCHEDULES_MAX, controls=()).findings
        assert {BOTH_SESSIONS in each.evidence for each in found} == {False, True}
        findings = simulate(Explorer.SCHEDULES, [setting]).findings
        assert len(findings) > 1
        assert {replay_finding(each, image, path) for each in findings} == {Verdict.INVALID}
