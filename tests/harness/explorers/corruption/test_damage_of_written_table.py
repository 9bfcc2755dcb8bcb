"""A table that our own writer grew in place: no damage of it is silent, and page checksums leave none undetectable."""

from dataclasses import replace
from pathlib import Path

import pytest
from explorations import explore_damage
from writer_run import start_run
from written_tables import DAY, PATH, new_table, write

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.corruption.explorer import judge_task, plan
from tornproof.harness.explorers.corruption.judge import Judge, Outcome
from tornproof.harness.explorers.corruption.plan import Kind
from tornproof.harness.explorers.corruption.tally import Tally
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.create import NewColumn
from tornproof.impl.types.questdb import TypeTag

SAMPLED = 161
"""One of so many damages is tried by default; odd, so that all bits of a byte are tried."""


def grown_table() -> DiskImage:
    types = {"i": TypeTag.INT, "b": TypeTag.BOOLEAN, "d": TypeTag.DOUBLE, "u": TypeTag.UUID}
    storage, table = new_table(*(NewColumn(name=name, type=tag) for name, tag in types.items()))
    write(storage, *(rows_for(table, [DAY + 7 * row + step for row in range(5)], seed=10 * step) for step in range(3)))
    return storage.image()


@pytest.mark.nightly
def test_sampled_damage_of_a_written_table_is_noticed_or_harmless() -> None:
    judge = Judge(grown_table(), PATH)
    tally = Tally()
    tasks = plan(judge)
    assert [task.kind in (Kind.FLIP, Kind.CUT) for task in tasks].count(True) == 6
    for task in tasks:
        tally.add(judge_task(judge, replace(task, step=SAMPLED)))
    outcomes = {outcome for _, _, outcome in tally.outcomes}
    assert outcomes <= {Outcome.REJECTED, Outcome.HARMLESS, Outcome.LEGAL_STATE, Outcome.ROLLBACK}
    assert tally.disagreements == [] and tally.tried > 750
    assert sum(count for (file, _, _), count in tally.outcomes.items() if file.endswith(DATA_FILE)) > 250


@pytest.mark.nightly
def test_no_damage_of_a_written_table_is_silent_or_undetectable() -> None:
    check(grown_table(), PATH)


@pytest.mark.nightly
def test_no_damage_of_a_real_table_that_was_written_anew_is_silent_or_undetectable(
    questdb_data: Path, tmp_path: Path
) -> None:
    run = start_run(tmp_path, questdb_data / "tables/9.4.2/oddcols/table")
    with run.writer as writer:
        for start in run.rows:
            writer.rewrite_partition(start)
        writer.commit()
        times = run.times()
        for step in range(2):
            writer.write(rows_for(writer.table, [times[0] + step, times[len(times) // 2]], seed=step))
            writer.commit()
    check(run.storage.image(), run.path)


def check(image: DiskImage, path: str) -> None:
    phase = explore_damage(image, path)
    assert phase.verdict is Verdict.VALID and "not tried" not in phase.bound
    # A whole older `_txn`: no checksum ties it to the files, which are newer. Nor does any cover names in `_meta`.
    assert phase.exposures.keys() <= {"_txn VERSION (rollback)", "_meta content"}
    assert phase.counts["exposure"] == phase.exposures.get("_meta content", 0)
    assert phase.counts["silent"] == phase.counts["forged"] == 0 < phase.counts["rejected"]
