"""Defects planted into the implementation, one at a time, and the explorers that notice them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from depth import always_if

from harness.explore.crash import explore_crashes
from harness.explore.stateful import explore_stateful
from harness.explore.stateful_memo import remembered_decoding, remembered_encoder
from harness.faults.planted import PLANTED, Planted
from harness.targets.table import TableOperation, TableTarget
from harness.verdict import Phase, Verdict

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


def test_without_a_defect_nothing_is_found() -> None:
    assert explored(OPERATIONS).findings == ()
    assert explored(OPERATIONS[:1], cuts=400).verdict is Verdict.VALID


@pytest.mark.parametrize(
    "planted", [planted for planted in PLANTED if planted.text not in NOT_FOR_CRASHES], ids=by_text
)
def test_the_crash_explorer_notices(planted: Planted) -> None:
    # A call that fails is tried after all kills, so one commit has to do where only that shows the defect.
    is_about_failing = planted.number == 27
    with planted.plant():
        phase = explored(OPERATIONS[:1], cuts=400) if is_about_failing else explored(OPERATIONS)
    assert phase.verdict is Verdict.INVALID
    assert phase.findings and all(finding.sentence for finding in phase.findings)


FOR_THE_MACHINE = [planted for planted in PLANTED if planted.text in NOT_FOR_CRASHES]


# `test_stateful_faults` plants all of them, and makes no finding small.
@pytest.mark.parametrize(
    "planted",
    always_if(lambda planted: planted is FOR_THE_MACHINE[0], FOR_THE_MACHINE),
    ids=by_text,
)
def test_the_state_machine_notices(planted: Planted) -> None:
    with planted.plant():
        phase = explore_stateful(None, "table", steps=800, seed=0)
    assert phase.verdict is Verdict.INVALID and phase.findings[0].sentence


def test_the_defect_is_gone_after_its_block() -> None:
    for planted in PLANTED:
        with planted.plant():
            pass
    assert explored(OPERATIONS).findings == ()
