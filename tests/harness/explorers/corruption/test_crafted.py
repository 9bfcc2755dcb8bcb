"""Files as another writer could have made them: what breaks a rule is rejected, and what is allowed is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from depth import sampled
from planted_faults import planted

from tornproof.harness.check import capture_table
from tornproof.harness.common.patch import replaced
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.explorers.corruption.catalogue import listed
from tornproof.harness.explorers.corruption.judge import EXPECTED, FOUND, Judge, Outcome
from tornproof.harness.explorers.corruption.plan import Crafted, Edit, Kind, Overwrite, damage_of, evidence_of
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.txn.transaction import TXN_FILE

TABLES = (
    *(f"tables/2026-07/{name}/table" for name in ("chain", "nanosecond", "rewrite")),
    *(f"tables/9.4.2/{name}/table" for name in ("bloom", "chain", "dedup", "fastpath", "nonwal", "oddcols", "types")),
    *(f"crashes/{name}/table" for name in ("2026-07/sync-2-17", "9.4.2/sync-1-06", "9.4.3/sync-4-15")),
    "indexed/2026-07/indexed_wal/table",
    "tables/9.4.3/many/table",
)
CHAIN = "tables/9.4.2/chain/table"
FAULTS = (
    "a token may stand for two generations",
    "scratchpad is not carried on",
    "a chain may lead forward",
    "end of data.parquet is not looked at",
    "more rows than the version has",
    "size of the partition table is not compared",
    "unknown optional features are rejected",
    "unknown required features are ignored",
)
"""What nothing else in a check finds: files with other mistakes are also wrong in another way."""


def judge_of(table: Path) -> Judge:
    return Judge(capture_table(OperatingSystemStorage(), str(table)), str(table))


def crafted(judge: Judge) -> Iterator[Crafted]:
    for kind in EXPECTED:
        for file in judge.files(kind):
            for damage in listed(judge, kind, file):
                assert isinstance(damage, Crafted)
                yield damage


@pytest.mark.parametrize("name", sampled(1, TABLES, seed=1))
def test_in_real_tables_what_breaks_a_rule_is_rejected_and_what_is_allowed_is_read(
    name: str, questdb_data: Path
) -> None:
    judge, outcomes = judge_of(questdb_data / name), Counter[object]()
    with remembered_decoding():
        for damage in crafted(judge):
            outcome, _ = judge.judge(damage)
            outcomes[outcome] += 1
            assert outcome is EXPECTED[damage.kind], (damage, judge.reason)
    assert (
        set(outcomes) == set(EXPECTED.values()) and outcomes.total() == len({str(each) for each in crafted(judge)}) > 90
    )


@pytest.mark.parametrize("name", sampled(3, list(FAULTS)))
def test_a_reader_that_leaves_a_rule_out_is_found_and_the_finding_replays(name: str, questdb_data: Path) -> None:
    path = questdb_data / CHAIN
    image = capture_table(OperatingSystemStorage(), str(path))
    with planted(name), bounded_computation(image.size_bytes):
        judge = Judge(image, str(path))
        damage, reason = next((each, judge.reason) for each in crafted(judge) if judge.judge(each)[0] in FOUND)
    assert reason
    finding = Finding(property="p", phase="damage", sentence=reason, evidence=evidence_of(damage, "field"))
    assert damage_of(finding.evidence) == damage
    assert replay_finding(finding, image, str(path)) is Verdict.VALID
    with planted(name):
        assert replay_finding(finding, image, str(path)) is Verdict.INVALID


def belongs_to_no_newer(record: Any, *_: object) -> None:
    """Reject no record that is older than the version, and none that contradicts itself."""


def test_a_version_with_the_record_of_an_older_one_is_rejected_and_never_a_legal_state(questdb_data: Path) -> None:
    """The reader under test does not say what a crash may leave: here it takes any record for that of the version."""
    path = questdb_data / CHAIN
    judge = judge_of(path)
    following = Edit(TXN_FILE, 0, bytes([judge.snapshot.transaction.version + 1]))
    wrong = [each for each in crafted(judge) if ": version " in str(each) or "slot" in str(each)]
    broken = [each for each in wrong if each.kind is Kind.BROKEN]
    assert len(broken) >= 7 and {judge.judge(each)[0] for each in broken} == {EXPECTED[Kind.BROKEN]}
    with replaced("tornproof.impl.txn.transaction:_check_record", belongs_to_no_newer):
        judge = judge_of(path)
        assert sum(judge.judge(each)[0] in FOUND for each in broken) >= 5
        assert judge.judge(Overwrite(Kind.FIELD, (following,), ""))[0] is Outcome.SILENT


def ends_in_an_error(*_: object) -> None:
    """Raise what nobody expects."""
    raise LookupError("a mistake")


@pytest.mark.parametrize("broken", ["repair_table", "committed"])
def test_an_error_of_a_recovery_or_a_writer_is_found_and_one_of_ours_is_not(broken: str, questdb_data: Path) -> None:
    judge = judge_of(questdb_data / CHAIN)
    damage = next(each for each in crafted(judge) if each.kind is Kind.ALLOWED and each.file.endswith("_pm"))
    assert judge.takes_commits and judge.judge(damage)[0] is EXPECTED[Kind.ALLOWED]
    location = f"{Judge.__module__}:{broken}"
    with replaced(location, FunctionType(ends_in_an_error.__code__, {"__name__": "tornproof.impl"})):
        assert judge.judge(damage)[0] in FOUND and judge.reason == "LookupError: a mistake"
    ours = FunctionType(ends_in_an_error.__code__, {"__name__": Judge.__module__})
    with replaced(location, ours), pytest.raises(LookupError):
        judge.judge(damage)


def test_a_file_of_evidence_that_is_longer_than_the_table_s_is_unknown(questdb_data: Path) -> None:
    path = questdb_data / CHAIN
    judge = judge_of(path)
    evidence = evidence_of(next(crafted(judge)), "field")
    for wrong in ({"offset_bytes": 1 << 40}, {"offset_bytes": -1}, {"removed_bytes": 1 << 40}, {"removed_bytes": -5}):
        finding = Finding(property="p", phase="damage", sentence="s", evidence={**evidence, **wrong})
        assert replay_finding(finding, judge.image, str(path)) is Verdict.UNKNOWN
