"""Defects planted into the implementation, one at a time, and the explorers that notice them."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from depth import nightly, sampled
from explorations import explore_stateful
from planted_faults import NOT_FOR_CRASHES, NOTICED, planted

from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.kills.exploration import Exploration, Plan
from tornproof.harness.explorers.kills.explorer import explore_crashes
from tornproof.harness.explorers.kills.judge import Judge
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation

SHARE_SIZE = 16
HOUR_MICROSECONDS = 3_600_000_000


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


def named(fault: FaultFile) -> str:
    return fault.name


def test_there_are_more_than_ten_defects_of_writers_readers_recovery_and_purging() -> None:
    assert len(NOTICED) > 10 and len({fault.name for fault in NOTICED}) == len(NOTICED)
    locations = " ".join(fault.patch.location for fault in NOTICED)
    for part in ("commit:HARDENED", "table_writer:", "pm.chain:find_token", "write.recovery:", ":purge"):
        assert part in locations


@pytest.mark.parametrize(
    ("operations", "cuts"),
    [(OPERATIONS[:2], 0), nightly(OPERATIONS, 0), nightly(OPERATIONS[:1], 400)],
    ids=["kills of two commits", "kills", "failing calls and cuts"],
)
def test_without_a_defect_nothing_is_found_whatever_was_planted_before(
    operations: Sequence[TableOperation], cuts: int
) -> None:
    for fault in NOTICED:
        with planted(fault):
            pass
    assert explored(operations, cuts=cuts).findings == ()


FOR_CRASHES = [fault for fault in NOTICED if fault.name not in NOT_FOR_CRASHES]


def noticed(operations: Sequence[TableOperation], *, cuts: int = 0) -> str:
    """Return the sentence of the first finding of the same exploration, which ends there."""
    with remembered_decoding():
        try:
            judge = Judge(TableTarget(encode=remembered_encoder()), operations, start=None, path="table", expected=None)
        except Violation as violation:
            return violation.reason
        plan = Plan.of(judge, cuts_max=cuts, recovery_kills_max=1)
        exploration = Exploration(judge, "table", plan)
        found = (exploration.run([share]).findings for share in plan.shares(SHARE_SIZE))
        return next((finding.sentence for findings in found for finding in findings.values()), "")


@pytest.mark.parametrize("fault", sampled(5, FOR_CRASHES), ids=named)
def test_the_crash_explorer_notices(fault: FaultFile) -> None:
    # A call that fails is tried after all kills, so one commit has to do where only that shows the defect.
    is_about_failing = fault.row == 27
    with planted(fault):
        assert noticed(OPERATIONS[:1], cuts=400) if is_about_failing else noticed(OPERATIONS)


FOR_THE_MACHINE = [fault for fault in NOTICED if fault.name in NOT_FOR_CRASHES]


# `test_stateful_faults` plants them too, without shrinking the findings.
@pytest.mark.parametrize("fault", [nightly(fault) for fault in FOR_THE_MACHINE], ids=named)
def test_the_state_machine_notices(fault: FaultFile) -> None:
    with planted(fault):
        phase = explore_stateful(None, "table", steps=800, seed=0)
    assert phase.verdict is Verdict.INVALID and phase.findings[0].sentence
