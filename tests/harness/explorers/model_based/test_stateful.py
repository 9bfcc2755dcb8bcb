"""The stateful explorer on a sound implementation: what it reaches, its budget, its controls, its oracle."""

import errno
import functools
import itertools
import os
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from depth import nightly, sampled
from explorations import explore_stateful
from planted_faults import NOTICED, first_of_each_key, planted
from recorded_phases import AsRecorded

from tornproof.harness.check import capture_table
from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.remembered_codecs import remembered_encoder
from tornproof.harness.common.verdict import Finding, Phase, Verdict, calls_at_most
from tornproof.harness.common.whose_error import NoRoomError
from tornproof.harness.explorers.model_based import commit, readers, sessions
from tornproof.harness.explorers.model_based.commit import FAULT_KINDS
from tornproof.harness.explorers.model_based.explorer import (
    COVERAGE_GOALS,
    FIXED_GOALS,
    STEPS_IN_PART,
    Control,
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
    stateful_phase,
    unshrunk,
)
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.fixed_programs import (
    COMMITS,
    FIXED_PROGRAMS,
    LAST_AND_FIRST,
    STOPS,
    STRETCHED,
)
from tornproof.harness.explorers.model_based.machine import Search, replay
from tornproof.harness.explorers.model_based.refusals import write_protected
from tornproof.harness.explorers.model_based.rows import Point, Rows
from tornproof.harness.explorers.model_based.rules import RULES, WEIGHTED_RULES, Step
from tornproof.harness.explorers.model_based.smaller import Failure
from tornproof.harness.explorers.model_based.start import StorageKind, prepare
from tornproof.harness.explorers.model_based.tables import OTHERS, PLAIN, SPLIT, SYMBOLS, TABLES, TEXTS
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.plain_rows import RowShape
from tornproof.harness.systems.protected import PROTECTIONS
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.pm.encode import AppendPoint
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.model.table import Commit, Operation, Outcome, Pin, Purge, Recover, State, Unpin, step

FILES, MEMORY = StorageKind.FILES, StorageKind.MEMORY


def explored(table: Path | None, kind: StorageKind, steps: int, **settings: Any) -> Phase:
    path = "/table" if table is None else str(table)
    image = None if table is None else capture_table(OperatingSystemStorage(), path)
    return explore_stateful(
        image,
        path,
        **{"steps": steps, "seed": 1, "storage_kind": kind, "fixed_on": (), **settings},
    )


@pytest.mark.parametrize(
    ("name", "steps", "with_controls"),
    [
        # `test_blinded_files` tries a control by day.
        # A file in memory can have no hole.
        nightly("9.4.2/dedup", 4_000, True),
        nightly(None, 4_000, True),
        nightly("9.4.2/chain", 4_000, True),
    ],
)
def test_a_run_is_valid_and_reaches_its_coverage_goals(
    questdb_data: Path, name: str | None, steps: int, with_controls: bool
) -> None:
    table = questdb_data / "tables" / name / "table" if name else None
    phase = explored(table, FILES, steps, with_controls=with_controls, fixed_on=(None, *FIXED_PROGRAMS))
    assert (phase.verdict, phase.note, phase.controls) == (Verdict.VALID, "", "passed")
    assert phase.explored == sum(phase.counts.values()) > steps
    assert all(phase.reached[point] for point in (*COVERAGE_GOALS, *FIXED_GOALS))
    assert phase.counts == {rule: phase.reached[f"rule: {rule}"] for rule in RULES} and all(phase.counts.values())
    # A partition that is not in Parquet must not become the first or last one.
    assert phase.reached["commit refused"]


@pytest.mark.nightly
@pytest.mark.parametrize("fixed_on", sampled(1, [None, *FIXED_PROGRAMS], seed=2))
def test_programs_on_a_new_table_find_nothing(fixed_on: str | None, as_recorded: AsRecorded) -> None:
    phase = explored(None, FILES, 100, fixed_on=(fixed_on,))
    as_recorded(phase)
    assert phase.findings == () and phase.explored == sum(phase.counts.values()) > 100
    assert phase.counts == {rule: phase.reached[f"rule: {rule}"] for rule in RULES}


def test_programs_with_files_of_other_writers_find_nothing_and_do_each_step(tmp_path: Path) -> None:
    result = Stateful(None, "/table").run_fixed(OTHERS.name, str(tmp_path))
    assert result.failed is None
    assert +result.counts == Counter(step["rule"] for program in FIXED_PROGRAMS[OTHERS.name] for step in program)


@pytest.mark.nightly
def test_random_programs_reach_what_the_fixed_ones_do() -> None:
    """By themselves, in the end: the fixed ones are there for small budgets."""
    missing = set(COVERAGE_GOALS)
    for seed in itertools.count():
        missing.difference_update(+Counter(explored(None, MEMORY, 600, seed=seed).reached))
        if not missing:
            break


@pytest.mark.nightly
def test_the_same_seed_does_the_same_twice_and_another_one_does_not(tmp_path: Path) -> None:
    first = explored(None, MEMORY, 120)
    assert explored(None, MEMORY, 120) == first
    on_files = explored(None, FILES, 120, directory=str(tmp_path))
    assert (on_files.counts, on_files.reached) == (first.counts, first.reached)
    assert list(tmp_path.iterdir()) == []
    assert explored(None, MEMORY, 120, seed=2).counts != first.counts


def test_nothing_reaches_the_terminal_or_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Mutant(fault_named("record over the live one")).planted():
        assert explored(None, MEMORY, 300).verdict is Verdict.INVALID
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "stride"), [(None, 3), nightly(None, 1), nightly("9.4.2/dedup", 1)])
def test_a_commit_that_stops_at_any_call_leaves_what_the_model_says(
    questdb_data: Path, name: str | None, stride: int
) -> None:
    path = str(questdb_data / "tables" / name / "table") if name else "/table"
    start = prepare(capture_table(OperatingSystemStorage(), path) if name else None, path)
    search = Search(
        start=start,
        kind=MEMORY,
        scratch="",
        encode=remembered_encoder(),
        steps=0,
    )
    # Twice into the first interval, so that the commit that is stopped grows one partition and makes another.
    before: tuple[Step, ...] = ({"rule": "insert", "rows": [0, 9]}, {"rule": "commit"})
    staged: Step = {"rule": "insert", "rows": [0, 3, 12, 27, 51]}
    for kind, (_, count) in FAULT_KINDS.items():
        for at, written_bytes in itertools.product(range(0, count, stride), (0, 40) if kind == "write" else (0,)):
            stops: list[Step] = [{"rule": "commit that is killed", "kind": kind}]
            if kind != "store":
                stops.append({"rule": "commit that fails", "call": kind})
            for stop in stops:
                stop |= {"at": at, "written_bytes": written_bytes}
                steps = (*before, {"rule": "pin", "reader": 0}, staged, stop)
                assert replay(search, 0, steps) is None, steps


@pytest.mark.parametrize(
    "stop", [{"rule": "commit"}, {"rule": "commit that fails", "call": "rename", "at": 1, "written_bytes": 0}]
)
def test_a_full_disk_is_no_finding(stop: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sound writer was INVALID, because an error that was not injected counted as its own."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    encode = remembered_encoder()
    search = Search(start=prepare(None, "/table"), kind=FILES, scratch=str(tmp_path), encode=encode, steps=0)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(NoRoomError, match="no space is left"):
        replay(search, 0, ({"rule": "insert", "rows": [0, 9]}, stop))


def test_a_bug_of_the_explorer_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.harness.explorers.model_based.world.World.check_times", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        explored(None, MEMORY, 300)


@pytest.mark.nightly
def test_a_run_that_is_cut_off_reports_how_far_it_came() -> None:
    seen: list[tuple[int, int | None]] = []
    phase = explored(
        None,
        MEMORY,
        5_000,
        has_time=calls_at_most(150),
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert not phase.findings and 100 < phase.explored <= 150
    assert phase.bound.startswith(f"{phase.explored} rules in ")
    assert seen == [(100, STEPS_IN_PART)]
    assert explored(None, MEMORY, 100, has_time=calls_at_most(0)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("missing", [*COVERAGE_GOALS[:2], FIXED_GOALS[-1], "rule: purge", None])
def test_what_is_never_reached_leaves_the_verdict_unknown_and_is_named(missing: str | None) -> None:
    reached = Counter({*COVERAGE_GOALS, *FIXED_GOALS, *(f"rule: {name}" for name in RULES)} - {missing})
    result = PartResult(programs=1, counts=Counter({"commit": 1}), reached=reached, failed=None)
    phase = stateful_phase("the table", [result], [], [], 0, [])
    verdict, note = (Verdict.VALID, "") if missing is None else (Verdict.UNKNOWN, f"never reached: {missing}")
    assert (phase.verdict, phase.note) == (verdict, note)


@pytest.mark.nightly
def test_a_control_that_is_not_detected_leaves_the_verdict_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Control(
        name="a sound one", location="tornproof.impl.table.partition:resolve", broken=lambda resolve: resolve
    )
    monkeypatch.setattr("tornproof.harness.explorers.model_based.explorer.CONTROLS", (sound,))
    monkeypatch.setattr("tornproof.harness.explorers.model_based.explorer.CONTROL_STEPS", 100)
    phase = explored(None, MEMORY, 100, with_controls=True)
    assert (phase.verdict, phase.controls) == (Verdict.UNKNOWN, "a sound one was not detected")


def test_a_table_that_cannot_be_written_to_leaves_the_verdict_unknown(questdb_data: Path) -> None:
    table = questdb_data / "tables/9.4.2/chain/table"
    image = capture_table(OperatingSystemStorage(), str(table))
    bare = DiskImage({path: content for path, content in image.files.items() if not path.endswith("_meta")})
    bare = DiskImage.of_files(bare.files)
    phase = explore_stateful(bare, str(table), steps=10, seed=1)
    assert (phase.verdict, phase.explored) == (Verdict.UNKNOWN, 0)
    assert "_meta" in phase.note


@pytest.mark.parametrize("name", ["control-nothing-lost", nightly("orphan-header-tail-new-data-new-txn-old-kill-9")])
def test_neither_an_orphan_nor_a_native_partition_that_lies_elsewhere_is_a_finding(
    questdb_data: Path, name: str
) -> None:
    table = questdb_data / "power-loss" / "9.4.2" / name / "table"
    assert prepare(capture_table(OperatingSystemStorage(), str(table)), str(table)).absent == {"2024-01-02"}
    phase = explored(table, MEMORY, 100)
    assert (phase.findings, phase.explored) == ((), 100)


def test_intervals_for_new_partitions_are_before_and_after_those_that_nobody_may_change_too(questdb_data: Path) -> None:
    """Its last partition is native."""
    table = questdb_data / "tables" / "9.4.2" / "chain" / "table"
    start = prepare(capture_table(OperatingSystemStorage(), str(table)), str(table))
    open_partition, native = start.transaction.partitions
    used, *empty = start.intervals
    assert open_partition.is_parquet and not native.is_parquet and used.start == open_partition.timestamp
    assert len(empty) == 2 and empty[0].end == used.start < native.timestamp < empty[1].start


def test_a_native_partition_that_was_there_and_is_gone_is_a_finding(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = questdb_data / "tables" / "9.4.2" / "chain" / "table"
    start = prepare(capture_table(OperatingSystemStorage(), str(table)), str(table))
    native = {name.partition("/")[0] for name in start.files if name.endswith(".d")}
    assert native and not start.absent
    monkeypatch.setattr(
        "tornproof.harness.explorers.model_based.files.looks_like_partition", lambda name: name not in native
    )
    phase = explored(table, MEMORY, 100)
    assert phase.verdict is Verdict.INVALID
    assert "there are the directories" in phase.findings[0].sentence


def test_new_rows_come_after_old_ones_of_equal_time() -> None:
    rows = prepare(None, "/table").rows
    _, (first, second) = rows.make([Point(20, 0), Point(10, 0)])
    _, (third, fourth) = rows.make([Point(20, 0), Point(5, 0)])
    assert rows.merged(rows.merged((), (first, second)), (third, fourth)) == (fourth, second, first, third)


def test_with_keys_the_last_row_takes_the_place_of_the_first_one() -> None:
    shape = RowShape(
        schema=pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int64())]),
        types=(TypeTag.TIMESTAMP, TypeTag.INT, TypeTag.LONG),
        timestamp=0,
        keys=(1,),
        has_keys=True,
    )
    rows = Rows(shape)
    _, (a, b) = rows.make([Point(10, 1), Point(10, 2)])
    _, (c, d, e) = rows.make([Point(10, 3), Point(10, 1), Point(11, 1)])
    assert rows.merged((a, b), (c, d, e)) == (d, b, c, e)
    assert rows.key(a) == rows.key(d) != rows.key(e)
    assert rows.merged((a, b, d, e), (c,)) == (a, b, d, c, e)


def test_rows_of_equal_content_have_one_identity_and_a_nan_equals_itself() -> None:
    rows = prepare(None, "/table").rows
    made, identities = rows.make([Point(1, 0), Point(1, 0)])
    assert rows.identify(made) == identities and len(set(identities)) == 2
    floats = pa.table({"ts": pa.array([1, 1, 1], pa.timestamp("us")), "v": [float("nan"), 0.0, -0.0]})
    assert len(set(rows.identify(floats))) == 3
    assert rows.identify(floats) == rows.identify(floats)


@pytest.mark.nightly
def test_a_long_run_finds_nothing() -> None:
    phase = explored(None, FILES, 8_000, fixed_on=(None, *FIXED_PROGRAMS))
    assert (phase.verdict, phase.note) == (Verdict.VALID, "")


def test_no_random_number_is_large_enough_for_hypothesis_to_replace_it_by_a_constant_of_our_sources() -> None:
    assert len(WEIGHTED_RULES) <= 100


def test_a_rule_for_an_open_writer_needs_one_that_lives() -> None:
    writers = [(object(), False), (object(), True), (None, False), (None, True)]
    worlds: list[Any] = [SimpleNamespace(writer=writer, is_dead=is_dead) for writer, is_dead in writers]
    assert [RULES["insert"].is_possible(world) for world in worlds] == [True, False, False, False]


def test_every_operation_of_the_model_is_driven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Purges, and commits that end with an error in a writer that lives on, were not."""
    driven = set()

    def recorded(state: State, operation: Operation) -> tuple[Outcome, ...]:
        is_stopped = isinstance(operation, Commit) and operation.stopped_after is not None
        driven.add((type(operation), is_stopped, getattr(operation, "crash", False)))
        return step(state, operation)

    for module in (commit, readers, sessions):
        monkeypatch.setattr(module, "step", recorded)
    start = prepare(None, "/table")
    search = Search(start=start, kind=MEMORY, scratch="", encode=remembered_encoder(), steps=0)
    for program in (*COMMITS, *(stops[0] for stops in STOPS)):
        assert replay(search, 0, program) is None
    assert driven >= {(each, False, False) for each in (Commit, Recover, Pin, Unpin, Purge)}
    assert driven >= {(Commit, True, False), (Commit, True, True), (Recover, False, True)}


def test_each_batch_of_a_search_has_a_seed_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []

    def run_batch(search: Search, number: int, first: int) -> None:
        numbers.append((number, first))
        search._is_over = len(numbers) == 3

    monkeypatch.setattr(Search, "_run_batch", run_batch)
    start = prepare(None, "/table")
    Search(start=start, kind=MEMORY, scratch="", encode=remembered_encoder(), steps=0).run(7)
    assert len({number for number, _ in numbers}) == len({first for _, first in numbers}) == 3


def test_a_refusal_counts_only_where_the_table_can_have_what_it_is_for() -> None:
    image, reached = made_image(), Counter[str]()
    storage, start = MemoryStorage.of(image), SimpleNamespace(metadata=open_table(image, MADE_PATH).metadata)
    files = SimpleNamespace(path=MADE_PATH, storage=storage, image=storage.image)
    write_protected(SimpleNamespace(files=files, start=start, reached=reached))  # type: ignore[arg-type]
    assert reached == {f"refused: {each.property}": 1 for each in PROTECTIONS if each.of is not TypeTag.SYMBOL}


@pytest.mark.parametrize(
    ("table", "options", "rows"), [("days", 0, [0, 9, 24]), ("weeks in nanoseconds, decimals and arrays", 4, [0, 24])]
)
def test_what_cannot_be_written_to_is_no_finding_of_sound_tables(
    table: str, options: int, rows: list[int], tmp_path: Path
) -> None:
    encode = remembered_encoder()
    search = Search(
        start=start_of(table, encode), kind=StorageKind.MEMORY, scratch=str(tmp_path), encode=encode, steps=0
    )
    program = ({"rule": "insert", "rows": rows}, {"rule": "commit"}, {"rule": "write to unwritable partitions"})
    assert replay(search, options, program) is None


@pytest.mark.parametrize("count", [0, 1, 7, 8, 50, 999])
@pytest.mark.parametrize("first", [0, 13])
def test_consecutive_parts_have_all_rows_and_none_twice(count: int, first: int) -> None:
    rows = list(range(count))
    step = max(1, count // readers.VALUES_MAX)
    parts = [readers.share_of(rows, part) for part in range(first, first + step)]
    assert sorted(itertools.chain(*parts)) == rows


# Planted defects


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


def explored_with_defects(steps: int = STEPS, **settings: Any) -> Phase:
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
        return explored_with_defects().findings


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
        assert explored_with_defects().findings == first


@pytest.mark.nightly
def test_the_same_seed_finds_the_same_longer_program_twice() -> None:
    with planted(fault_named("replaced row group stays")):
        assert explored_with_defects().findings == explored_with_defects().findings


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
