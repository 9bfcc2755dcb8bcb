"""The stateful explorer detects defects that are planted into the implementation one at a time."""

import functools
import itertools
import pickle
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from depth import sampled
from explorations import explore_stateful
from planted_faults import NOTICED, planted

from tornproof.harness.check import capture_table
from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.remembered_codecs import remembered_encoder
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.explorers.model_based.explorer import (
    STEPS_IN_PART,
    Failed,
    Part,
    PartResult,
    Stateful,
    first_failures,
    fixed_parts,
    parts,
    programs_on,
    replay_stateful,
    start_of,
    unshrunk,
)
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.fixed_programs import FIXED_PROGRAMS, LAST_AND_FIRST, STRETCHED
from tornproof.harness.explorers.model_based.machine import Search, replay
from tornproof.harness.explorers.model_based.smaller import Failure
from tornproof.harness.explorers.model_based.start import StorageKind
from tornproof.harness.explorers.model_based.tables import OTHERS, PLAIN, SPLIT, SYMBOLS, TABLES, TEXTS
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.pm.encode import AppendPoint
from tornproof.impl.storage.operating_system import OperatingSystemStorage

STEPS, SEED = 2_500, 7
AT_ONE_CALL = "header before the body"
"""Random programs hardly ever stop a commit just there."""
DEFECT = fault_named("prev is always 0")


def instead(substitute: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda original: substitute


def nothing(*_: object, **__: object) -> tuple[()]:
    return ()


def over_the_orphan(append_point: Callable[..., AppendPoint]) -> Callable[..., AppendPoint]:
    """The restated generation is written where the committed one ends."""
    return lambda data, anchor, *, base_bytes: append_point(
        data[: anchor.end_bytes], anchor, base_bytes=anchor.end_bytes
    )


def newest_rows_first(in_time_order: Callable[[pa.Table, str], pa.Table]) -> Callable[[pa.Table, str], pa.Table]:
    return lambda rows, name: in_time_order(rows.take(list(range(rows.num_rows))[::-1]), name)


def first_of_each_key(without_duplicates: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
    def backwards(rows: pa.Table, keys: Mapping[str, int], **_: int) -> pa.Table:
        kept = without_duplicates(rows.take(list(range(rows.num_rows))[::-1]), keys)
        return kept.take(list(range(kept.num_rows))[::-1])

    return backwards


OWN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "pins lock nothing": (
        "tornproof.impl.txn.pins:_lock_committed",
        lambda _: lambda storage, file, path, transaction: transaction,
    ),
    "a restated generation overwrites the orphan": ("tornproof.impl.write.recovery:append_point", over_the_orphan),
    "dropped row groups are not counted as unused": (
        "tornproof.impl.write.partition_writer:unused_bytes_of",
        lambda _: lambda *__: 0,
    ),
    "changes are not announced": ("tornproof.impl.txn.write:_without_last_row_count", instead(nothing)),
    "old rows come after new ones": ("tornproof.impl.write.partition_change:in_time_order", newest_rows_first),
}


def explored(steps: int = STEPS, **settings: Any) -> Phase:
    return explore_stateful(
        None,
        "/table",
        steps=steps,
        seed=SEED,
        fixed_on=(),
        **{"storage_kind": StorageKind.MEMORY, **settings},
    )


@functools.cache
def findings_of_a_short_program() -> tuple[Finding, ...]:
    with planted(DEFECT):
        return explored().findings


def noticed(image: DiskImage | None = None, path: str = "/table") -> Failed | None:
    """Return the first failure of fixed programs on two tables and of random programs, and run none after it."""
    stateful = Stateful(image, path, StorageKind.MEMORY)
    tables = (None,) if image is not None else (None, TABLES[0].name)
    fixed = (stateful.run_fixed(name, scratch="", stops_at_first=True).failed for name in tables)
    found = (stateful.explore(part, scratch="").failed for part in parts(STEPS, SEED))
    return next(filter(None, itertools.chain(fixed, found)), None)


@pytest.mark.nightly
def test_a_defect_that_one_call_shows_when_it_fails_is_noticed_by_the_fixed_programs() -> None:
    with planted(AT_ONE_CALL):
        assert (
            Stateful(None, "/table", StorageKind.MEMORY)
            .run_fixed(TABLES[0].name, scratch="", stops_at_first=True)
            .failed
            is not None
        )


@pytest.mark.nightly
@pytest.mark.parametrize(
    "fault", sampled(1, [fault for fault in NOTICED if fault.name != AT_ONE_CALL]), ids=lambda fault: fault.name
)
def test_it_notices_a_planted_defect(fault: FaultFile) -> None:
    with planted(fault):
        assert noticed() is not None


@pytest.mark.nightly
@pytest.mark.parametrize("name", OWN)
def test_it_notices_a_defect_in_one_function(name: str) -> None:
    with wrapped(*OWN[name]):
        assert noticed() is not None


def test_it_notices_that_the_first_row_of_a_key_wins(questdb_data: Path) -> None:
    path = str(questdb_data / "tables/9.4.2/dedup/table")
    image = capture_table(OperatingSystemStorage(), path)
    with wrapped("tornproof.impl.write.partition_change:without_duplicates", first_of_each_key):
        failed = noticed(image, path)
    assert failed is not None and failed.failure.violation.broken == "a version has exactly its rows"


def test_a_finding_is_a_short_program_that_is_seen_again_only_while_the_defect_is_there() -> None:
    (finding,) = findings_of_a_short_program()
    with planted(DEFECT):
        assert replay_stateful(None, "/table", finding, storage_kind=StorageKind.MEMORY) is Verdict.INVALID
        assert replay_stateful(None, "/table", finding) is Verdict.INVALID
    assert replay_stateful(None, "/table", finding, storage_kind=StorageKind.MEMORY) is Verdict.VALID
    for spoilt in ({}, {"steps": [{"rule": "dance"}]}, {"steps": [{"rule": "append", "place": 0}]}, {"options": 9}):
        other = replace(finding, evidence={**finding.evidence, **spoilt} if spoilt else {})
        assert replay_stateful(None, "/table", other, storage_kind=StorageKind.MEMORY) is Verdict.UNKNOWN
    steps = finding.evidence["steps"]
    assert [step["rule"] for step in steps].count("commit") <= 2 and len(steps) <= 6
    assert finding.evidence["is_seen_again"] is True
    assert finding.sentence.startswith(f"After {steps[0]['rule']}") and finding.sentence.endswith(".")


def test_the_same_seed_finds_the_same_program_twice() -> None:
    first = findings_of_a_short_program()
    with planted(DEFECT):
        assert explored().findings == first


@pytest.mark.nightly
def test_the_same_seed_finds_the_same_longer_program_twice() -> None:
    with planted(fault_named("replaced row group stays")):
        assert explored().findings == explored().findings


@pytest.mark.parametrize("fault", ["token in 32 bits", "chunk offsets in 32 bits"])
def test_defects_of_large_files_are_noticed_by_the_fixed_programs(fault: str, tmp_path: Path) -> None:
    encode = remembered_encoder()
    start = start_of(PLAIN.name, encode)
    search = Search(start=start, kind=StorageKind.FILES, scratch=str(tmp_path), encode=encode, steps=0)
    assert [replay(search, 0, program) for program in STRETCHED] == [None, None]
    with planted(fault):
        found = [replay(search, 0, program) for program in STRETCHED]
    assert found[-1] is not None


@pytest.mark.parametrize(
    ("table", "fault", "text"),
    sampled(
        3,
        [
            (SYMBOLS.name, "symbols not synced (F1)", "not synced is byte"),
            (SYMBOLS.name, "keys of a hash index not synced (F1)", "took the place of another file is tag.k"),
            (SYMBOLS.name, "a block does not know the one before", "previous block"),
            (SYMBOLS.name, "nulls of a symbol are not noted", "says that no row has one"),
            (None, "new _pm not synced before its name", "not synced is byte 0 of _pm"),
            (TABLES[-1].name, "_pm is written under its name", "after a stopped migrate"),
            (
                TABLES[-1].name,
                "a run that finds a partition migrated does not sync its directory",
                "the name of _pm in its directory",
            ),
            (
                TABLES[-1].name,
                "what an interrupted run was still keeping of an old _pm stays in the way",
                "it is already there",
            ),
            (OTHERS.name, "nanoseconds taken for microseconds", "which pyarrow wrote, is not migrated"),
            (OTHERS.name, "last time is that of the last but one", "expected a bound of"),
            (OTHERS.name, "unknown count of nulls is none", "IS NULL"),
            (None, "less than a fraction", ".5 "),
            (TABLES[1].name, "decimals hashed in as few bytes as they need", '"price" = '),
            (None, "several times end with the first", " IN ("),
            (None, "prepared partitions are not checked", "whose data.parquet has no end"),
            (SYMBOLS.name, "a rewrite forgets the filters", "has filters of []"),
            (PLAIN.name, "links followed by a purge", "on another volume was removed"),
            (PLAIN.name, "limits of readers not asked", "expected at most"),
            (SYMBOLS.name, "columns of the last part are kept", "not all the same length"),
            (TABLES[1].name, "columns by their position", "TYPE of column"),
            (OTHERS.name, "days taken for milliseconds", '"day" = '),
            (None, "prepared partition checked by name only", "has grown since rows were merged with it was committed"),
            (None, "copy is known by its size alone", "did not keep what it cut off"),
            (TABLES[1].name, "week gets the year of its monday", "2025-W01.0 is named 2024-W01.0"),
            (PLAIN.name, "txn synced before it grows", "not synced is byte 4096 of _txn"),
            (OTHERS.name, "list of fifteen elements has no count", "is not readable by pyarrow"),
            (TABLES[-1].name, "added column forgotten in place", "missing are"),
            (SYMBOLS.name, "surrogate pairs counted once", "length of symbol"),
            (SPLIT.name, "rows behind a split stay in the first part", "the number of rows 15, and should have 14"),
            (PLAIN.name, "size of _txn is not made durable", "not synced is byte 4096 of _txn"),
            (SYMBOLS.name, "streamed paths outlive their commit", "there are the directories"),
            (SYMBOLS.name, "part without match keeps the mask position", '"ts" = '),
            (SYMBOLS.name, "position behind the last symbol is looked up", "verify:"),
            (TEXTS.name, "generation at the very end of the file is not searched", "PARQUET_META_FILE_SIZE"),
            (TABLES[-1].name, "leftover of this version kept", "there are the directories"),
        ],
    ),
)
def test_mistakes_that_little_else_shows_are_noticed_by_the_fixed_programs(
    table: str | None, fault: str, text: str, tmp_path: Path
) -> None:
    with planted(fault):
        failed = Stateful(None, "/table").run_fixed(table, str(tmp_path), stops_at_first=True).failed
    assert failed is not None and text in failed.failure.violation.text


def test_each_fixed_program_is_in_one_part_and_what_has_new_rules_comes_first() -> None:
    tables = (None, *FIXED_PROGRAMS)
    taken = [(table, number) for table, numbers in fixed_parts() for number in numbers]
    assert len(taken) == len({*taken}) == sum(len(programs_on(table)) for table in tables)
    assert {*taken} == {(table, number) for table in tables for number in range(len(programs_on(table)))}
    rules = [
        {step["rule"] for number in numbers for step in programs_on(table)[number]} for table, numbers in fixed_parts()
    ]
    assert len(set[str]().union(*rules)) == len(set[str]().union(*rules[: len(rules) // 3]))


def test_one_finding_is_made_of_each_property_and_the_first_failure_counts() -> None:
    violations = [ViolationError(broken, text) for broken, text in (("a", "1"), ("b", "2"), ("a", "3"))]
    results = [
        PartResult(programs=1, counts=Counter(), reached=Counter(), failed=failed)
        for violation in violations
        for failed in (None, Failed(Part(None, 0, 1), Failure(steps=(), options=0, violation=violation)))
    ]
    assert [each.failure.violation.text for each in first_failures(results)] == ["1", "2"]
    again = pickle.loads(pickle.dumps(first_failures(results)))
    assert [(each.failure.violation.broken, str(each.failure.violation)) for each in again] == [
        ("a", "a: 1"),
        ("b", "b: 2"),
    ]


def test_a_failure_whose_program_was_not_made_smaller_is_a_finding_that_replays(tmp_path: Path) -> None:
    with planted(DEFECT):
        failed = noticed()
        assert failed is not None
        finding = unshrunk(failed, StorageKind.MEMORY)
        assert len(finding.evidence["steps"]) == len(failed.failure.steps)
        assert replay_stateful(None, "/table", finding, storage_kind=StorageKind.MEMORY) is Verdict.INVALID


def test_a_violation_keeps_no_frame_alive_whose_views_of_files_a_collection_would_stumble_on(tmp_path: Path) -> None:
    encode = remembered_encoder()
    start = start_of(PLAIN.name, encode)
    search = Search(start=start, kind=StorageKind.FILES, scratch=str(tmp_path), encode=encode, steps=0)
    with planted("blocks are not aligned"):
        violation = replay(search, 0, LAST_AND_FIRST)
    assert violation is not None and not (violation.__traceback__ or violation.__context__ or violation.__cause__)


def test_random_programs_begin_on_every_table_of_ours_and_on_the_given_one() -> None:
    for seed in (0, 1, 7):
        tables = [part.table for part in parts(2 * len(TABLES) * STEPS_IN_PART, seed)]
        assert {*tables} == {None, *(each.name for each in TABLES)} and tables.count(None) == len(TABLES)
