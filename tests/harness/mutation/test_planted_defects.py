"""Defects planted into the implementation, one at a time, and the explorers that notice them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from depth import nightly

from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.kills.exploration import Exploration, Plan
from tornproof.harness.explorers.kills.explorer import explore_crashes
from tornproof.harness.explorers.kills.judge import Judge, Violation
from tornproof.harness.explorers.model_based.explorer import explore_stateful
from tornproof.harness.mutation.planted import PLANTED, Planted
from tornproof.harness.systems.table import TableOperation, TableTarget

SHARE_SIZE = 16
HOUR_MICROSECONDS = 3_600_000_000
# What only readers see that pin old versions, or that long-lived readers see, is for the stateful explorer.
NOT_FOR_CRASHES = {"directories that only pinned versions name are removed", "pins are not asked for"}


def rows(*times_and_values: tuple[int, int]) -> pa.Table:
    times, values = zip(*times_and_values, strict=True)
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "v": values, "s": [f"row {v}" for v in values]})


OPERATIONS = (
    TableOperation(rows=(rows((0, 1), (10, 2)),)),
    TableOperation(rows=(rows((20, 3)),)),
    TableOperation(rows=(rows((5, 4), (HOUR_MICROSECONDS + 1, 5)),)),
    TableOperation(rewritten=(0,)),
)


def explored(operations: Sequence[TableOperation], *, cuts: int = 0) -> Phase:
    target = TableTarget(encode=remembered_encoder())
    with remembered_decoding():
        return explore_crashes(target, operations, path="table", cuts_max=cuts, recovery_kills_max=1)


def by_text(planted: Planted) -> str:
    return f"{planted.number}: {planted.text}"


def test_there_are_more_than_ten_defects_in_all_four_parts() -> None:
    assert len(PLANTED) > 10 and len({planted.text for planted in PLANTED}) == len(PLANTED)
    assert {planted.part for planted in PLANTED} == {"writer", "reader", "recovery", "purger"}


def test_without_a_defect_nothing_is_found_whatever_was_planted_before() -> None:
    for planted in PLANTED:
        with planted.plant():
            pass
    assert explored(OPERATIONS).findings == ()
    assert explored(OPERATIONS[:1], cuts=400).verdict is Verdict.VALID


FOR_CRASHES = [planted for planted in PLANTED if planted.text not in NOT_FOR_CRASHES]


def noticed(operations: Sequence[TableOperation], *, cuts: int = 0) -> str:
    """Return the sentence of the first finding of the same exploration, which goes no further then."""
    with remembered_decoding():
        try:
            judge = Judge(TableTarget(encode=remembered_encoder()), operations, start=None, path="table", expected=None)
        except Violation as violation:
            return violation.reason
        plan = Plan.of(judge, cuts_max=cuts, recovery_kills_max=1)
        exploration = Exploration(judge, "table", plan)
        found = (exploration.run([share]).findings for share in plan.shares(judge, SHARE_SIZE))
        return next((finding.sentence for findings in found for finding in findings.values()), "")


@pytest.mark.parametrize("planted", FOR_CRASHES, ids=by_text)
def test_the_crash_explorer_notices(planted: Planted) -> None:
    # A call that fails is tried after all kills, so one commit has to do where only that shows the defect.
    is_about_failing = planted.number == 27
    with planted.plant():
        assert noticed(OPERATIONS[:1], cuts=400) if is_about_failing else noticed(OPERATIONS)


FOR_THE_MACHINE = [planted for planted in PLANTED if planted.text in NOT_FOR_CRASHES]


# `test_stateful_faults` plants them too, and makes no finding small; those that it makes small by day are found sooner.
@pytest.mark.parametrize("planted", [nightly(planted) for planted in FOR_THE_MACHINE], ids=by_text)
def test_the_state_machine_notices(planted: Planted) -> None:
    with planted.plant():
        phase = explore_stateful(None, "table", steps=800, seed=0)
    assert phase.verdict is Verdict.INVALID and phase.findings[0].sentence
