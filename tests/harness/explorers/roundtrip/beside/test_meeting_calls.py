"""Where another process acts before a call that has nothing to do with it, each end is tried."""

from collections.abc import Callable

import pytest
from depth import sampled

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.explorers.roundtrip.beside import changed_meanwhile as module
from tornproof.harness.explorers.roundtrip.beside.changed_meanwhile import (
    ATTEMPTS_MAX,
    PINS,
    Beside,
    Ended,
    migrations_beside,
    operations_beside,
)
from tornproof.harness.explorers.roundtrip.beside.meeting_calls import Meeting, can_notice
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind

CASES = (*migrations_beside(), *operations_beside())


def ends(case: Beside, may_act: Callable[[Call], bool]) -> list[Ended]:
    """Let the other act before each call before which it may, and afterwards."""
    runs = [module._ended(case, first=0, may_act=may_act)]
    while (acted_at := runs[-1].acted_at) is not None:
        runs.append(module._ended(case, first=acted_at + 1, may_act=may_act))
    return runs


def different(runs: list[Ended]) -> set[object]:
    return {(str(run.said), run.has_acted, run.lost, frozenset(run.files.items())) for run in runs}


@pytest.mark.parametrize("case", sampled(6, CASES), ids=lambda case: case.name)
@pytest.mark.parametrize("looks", [True, False], ids=["as it is", "without a second look"])
def test_no_end_is_left_out(case: Beside, looks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not looks:
        monkeypatch.setattr("tornproof.impl.migrate.table_migration.check_unchanged", lambda *_: None)
        monkeypatch.setattr("tornproof.impl.repair.repair._check_unchanged", lambda *_: None)
    with replaced(f"{PINS}:PIN_ATTEMPTS_MAX", ATTEMPTS_MAX), remembered_decoding():
        everywhere = ends(case, lambda _: True)
        calls_of_other = everywhere[0].calls_of_other
        tried = ends(case, Meeting(calls_of_other, asks=case.act.asks))
    assert different(tried) == different(everywhere)
    assert len(tried) <= len(everywhere)


def test_a_read_notices_what_changes_among_its_bytes_and_nothing_else() -> None:
    read, before = Call(kind=CallKind.PREAD, path="f", offset_bytes=4, size_bytes=2), bytes(8)
    changed = [before[:at] + b"\1" + before[at + 1 :] for at in range(8)]
    noticed = [can_notice([read], {"f": before}, {"f": after}) for after in changed]
    assert noticed == [at in (4, 5) for at in range(8)]
