"""Parts of damaged tables: ranges of times and single columns are errors or exactly the right rows."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from damage import ends_in_an_error
from depth import sampled

from tornproof.harness.check import capture_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.judge import Judge, Outcome
from tornproof.harness.explorers.corruption.parts import COLUMNS_MAX, PartReads
from tornproof.harness.explorers.corruption.plan import Again, Cut, Kind, damage_of, evidence_of
from tornproof.harness.replay import replay_finding
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage

TABLES = (
    *(f"tables/2026-07/{name}/table" for name in ("chain", "nanosecond", "rewrite")),
    *(f"tables/9.4.2/{name}/table" for name in ("bloom", "dedup", "types")),
    "tables/9.4.2/history/history/00",
)
FOUND = {Outcome.SILENT, Outcome.NONCONFORMING}


def damages_of(judge: Judge) -> list[Again]:
    damages = [each for file in judge.files(Kind.PART) for each in listed(judge, Kind.PART, file)]
    return [each for each in damages if isinstance(each, Again)]


@pytest.fixture(scope="module")
def made() -> Judge:
    return Judge(made_image(), MADE_PATH)


@pytest.mark.parametrize("name", sampled(2, TABLES, seed=1))
def test_no_part_of_a_damaged_real_table_has_other_rows(name: str, questdb_data: Path) -> None:
    path = str(questdb_data / name)
    judge = Judge(capture_table(OperatingSystemStorage(), path), path)
    found = Counter(judge.judge(damage)[0] for damage in damages_of(judge))
    assert not FOUND & set(found) and found[Outcome.REJECTED] > 20, judge.reason
    assert judge.reached["parts were read of a table that cannot be read as a whole"] > 20


def test_ranges_overlap_the_damaged_partition_and_its_neighbours(made: Judge) -> None:
    first, second = made.partitions
    asked = [list(map(str, PartReads(made.snapshot).questions(each))) for each in (first, second)]
    assert all("column 'ts'" in each and "column 'v'" in each for each in asked)
    ranges = [[each for each in questions if "times" in each] for questions in asked]
    assert [len(each) for each in ranges] == [4, 4] and len(set(ranges[0]) & set(ranges[1])) == 1


def test_columns_that_are_read_alone_are_spread_over_the_table(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/types/table")
    snapshot = Judge(capture_table(OperatingSystemStorage(), path), path).snapshot
    names = [column.name for column in snapshot.columns]
    asked = [names.index(each.column) for each in PartReads(snapshot).questions("") if each.column is not None]
    apart = {after - before for before, after in itertools.pairwise(asked)}
    assert asked[0] == 0 and len(asked) <= COLUMNS_MAX and len(apart) == 1 and len(names) - asked[-1] <= max(apart)


def test_a_range_that_leaves_out_a_damaged_partition_is_found_and_replays(made: Judge, monkeypatch: Any) -> None:
    def begins_before(self: Snapshot, partition: Any, times: Any) -> bool:
        return times.start is None or partition.timestamp > times.start

    monkeypatch.setattr(Snapshot, "_has_times", begins_before)
    damage = next(each for each in damages_of(made) if made.judge(each)[0] is Outcome.SILENT)
    assert "other rows are read if asked for all columns of the times from " in made.reason
    evidence = json.loads(json.dumps(evidence_of(damage, "field")))
    assert damage_of(evidence) == damage
    finding = Finding(property="p", phase="damage", sentence="s", evidence=evidence)
    assert replay_finding(finding, made.image, MADE_PATH) is Verdict.INVALID
    monkeypatch.undo()
    assert replay_finding(finding, made.image, MADE_PATH) is Verdict.VALID


def test_an_error_that_nobody_expects_is_found(made: Judge) -> None:
    (damage, *_) = damages_of(made)
    broken = FunctionType(ends_in_an_error.__code__, {"__name__": "tornproof.impl"})
    with replaced("tornproof.harness.explorers.corruption.parts:rows_of", broken):
        assert made.judge(damage)[0] is Outcome.NONCONFORMING and made.reason == "LookupError: a mistake"


def test_what_no_part_is_read_of_is_unknown(made: Judge) -> None:
    cut = Cut(f"{next(iter(made.partitions))}/{DATA_FILE}", 9)
    evidence = evidence_of(Again(Kind.PART, cut), "field")
    for wrong in ({"damage": {**evidence, "kind": Kind.PART.value}}, {"damage": {"kind": "pair", "bits": []}}):
        finding = Finding(property="p", phase="damage", sentence="s", evidence={**evidence, **wrong})
        assert replay_finding(finding, made.image, MADE_PATH) is Verdict.UNKNOWN
