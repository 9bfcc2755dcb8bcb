"""The schedules explorer: its methods together, its findings, its bound, its controls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from recorded_phases import AsRecorded
from table_cases import ABANDON, GROW, PURGE, table_case
from toy_processes import CELLS, world_of
from waiting import WaitsInVain

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.counterexamples.make import as_log
from tornproof.harness.counterexamples.replay import replay_log
from tornproof.harness.explorers.schedules import controls as schedule_controls
from tornproof.harness.explorers.schedules import crash, small_programs
from tornproof.harness.explorers.schedules import points as schedule_points
from tornproof.harness.explorers.schedules.controls import LETTER, LETTERS, NUMBERS, control_case, failed_controls
from tornproof.harness.explorers.schedules.exploration import Exploration
from tornproof.harness.explorers.schedules.explorer import explore_schedules
from tornproof.harness.explorers.schedules.small_programs import PROGRAMS
from tornproof.harness.search import dpor
from tornproof.harness.search.every_order import every_end
from tornproof.harness.search.outcome import Outcomes, path_to
from tornproof.harness.search.random_schedules import Choose
from tornproof.harness.search.reader_reduction import Arrivals, ReaderReduction
from tornproof.harness.search.transitions import follow
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.persistence.models import A
from tornproof.harness.simulator.process.bodies import SEEN
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.simulated_process import FROM_MEMORY, READ, Say
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.toy import AcknowledgesFirst, HeaderFirst, Toy
from tornproof.harness.systems.toy_readers import Counter, LocksAndReadsEarly, ReadsEarly, ShowsLate
from tornproof.harness.systems.toy_records import InPlace, LooksOnce, Record
from tornproof.impl.storage.interface import File, LockMode, Mapping, Storage
from tornproof.impl.txn.pins import WriterLock


def explored(case: TestCase, schedules_max: int | None = None, seed: int = 0) -> Phase:
    with remembered_decoding():
        return explore_schedules(case, schedules_max=schedules_max, seed=seed)


def test_two_commits_beside_a_reader_are_valid_and_complete_by_both_methods(as_recorded: AsRecorded) -> None:
    phase = explored(table_case([GROW, GROW]))
    as_recorded(phase)

    assert (phase.verdict, phase.complete, phase.controls, phase.note) == (Verdict.VALID, True, "passed", "")
    assert "every order of dependent calls" in phase.bound and "any number of such readers" in phase.bound
    assert "a _txn record is read as one range" in phase.bound
    assert phase.counts["reduced schedules"] > 50 and phase.counts["outcomes"] == 3
    for point in (
        schedule_points.ONE_BACK,
        schedule_points.TWO_BACK,
        schedule_points.MOVED,
        schedule_points.PM_GREW,
        schedule_points.DATA_GREW,
        schedule_points.BEFORE_COMMIT,
        schedule_points.AFTER_COMMIT,
    ):
        assert phase.reached[point], point


def test_a_pinned_reader_and_a_purge_block_each_other_and_nothing_breaks(as_recorded: AsRecorded) -> None:
    phase = explored(table_case([PURGE], readers=2, style="pinned"))
    as_recorded(phase)

    assert (phase.verdict, phase.complete) == (Verdict.VALID, True)
    for point in (
        schedule_points.PURGE_REJECTED,
        schedule_points.PURGED,
        schedule_points.REWRITTEN,
        schedule_points.PIN_LATE,
        schedule_points.DISAGREEMENT,
    ):
        assert phase.reached[point], point


def test_a_purge_that_does_not_ask_for_pins_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def ask_nobody(self: WriterLock, versions: range) -> Iterator[bool]:
        yield True

    monkeypatch.setattr(WriterLock, "exclude_pins", ask_nobody)
    phase = explored(table_case([PURGE], style="pinned"))

    assert phase.verdict is Verdict.INVALID
    assert {finding.property for finding in phase.findings} == {Property.REJECTED}


def test_a_reader_without_a_pin_reads_the_version_that_replaced_vanished_files() -> None:
    phase = explored(table_case([PURGE], style="fresh"))

    assert (phase.verdict, phase.complete) == (Verdict.VALID, True)
    assert phase.reached[schedule_points.VANISHED]


def test_a_follower_meets_the_orphan_whose_token_the_retry_gets() -> None:
    phase = explored(table_case([ABANDON, GROW], style="follow", reads=2))

    assert (phase.verdict, phase.complete) == (Verdict.VALID, True)
    assert phase.reached[schedule_points.DUPLICATE_TOKEN] and phase.reached[schedule_points.TWO_VERSIONS]


@pytest.mark.parametrize(
    ("target", "operations", "violated"),
    [
        (HeaderFirst(), LETTERS, Property.REJECTED),
        (AcknowledgesFirst(), LETTERS, Property.STALE),
        (InPlace(), NUMBERS, Property.WRONG_SNAPSHOT),
        (LooksOnce(), NUMBERS, Property.WRONG_SNAPSHOT),
    ],
)
def test_the_schedule_of_a_finding_violates_the_same_property_again(
    target: Target, operations: tuple[Any, ...], violated: str
) -> None:
    case = control_case(target, operations)
    phase = explored(case)
    process_group = case.process_group()
    world = case.begin(process_group)

    assert phase.verdict is Verdict.INVALID
    assert {finding.property for finding in phase.findings} == {violated}
    for finding in phase.findings:
        schedule = tuple((process_index, count) for process_index, count in finding.evidence["schedule"])
        assert violated in {each.property for each in follow(world, schedule).progress.violations}
    process_group.close()


class FailsAtLast(Toy):
    """Broken: its last commit ends in an error that is not one of its own."""

    name = "fails at last"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        super().commit(storage, path, operation)
        if operation == LETTERS[-1]:
            raise ZeroDivisionError


def test_the_schedule_of_what_a_writer_breaks_by_itself_is_all_of_its_calls() -> None:
    sound = control_case(Toy(), LETTERS)
    for operations in ((), (0,), (0, 1)):
        sound.oracle(operations)
    case = control_case(FailsAtLast(), LETTERS).expecting(sound)
    (finding,) = explore_schedules(case, controls=()).findings
    process_group = case.process_group()
    ((writer, count),) = finding.evidence["schedule"]
    broken = [
        {each.property for each in follow(case.begin(process_group), ((writer, steps),)).progress.violations}
        for steps in (count - 1, count)
    ]
    assert writer == 0 and broken == [set(), {Property.DISORDERLY}]
    process_group.close()


def test_of_too_many_schedules_the_first_ones_and_a_sample_are_run() -> None:
    phase = explored(control_case(Record(), NUMBERS, reader_count=3), schedules_max=200)

    # Readers that only read are still covered by the reader reduction.
    assert (phase.verdict, phase.complete) == (Verdict.VALID, True)
    assert "by reduction to one" in phase.bound
    assert "the first 200 reduced schedules, and " in phase.bound and "every order" not in phase.bound
    assert phase.counts["reduced schedules"] == 200
    assert 0 < phase.counts["distinct sampled schedules"] <= phase.explored


def test_of_too_many_runs_of_a_reader_the_first_ones_are_made_and_the_bound_says_so() -> None:
    whole, cut = (explored(control_case(Record(), NUMBERS), schedules_max) for schedules_max in (None, 5))

    assert whole.counts["reader runs of cuts"] > cut.counts["reader runs of cuts"] == 5
    assert (cut.verdict, cut.complete) == (Verdict.VALID, False)
    assert "the first 5 runs of one such reader beside" in cut.bound and "by reduction" not in cut.bound


def test_each_sampling_method_runs_equally_many_schedules() -> None:
    counts = explored(control_case(Record(), NUMBERS)).counts

    shares = {count for name, count in counts.items() if name.startswith(("uniform", "PCT"))}
    assert len(shares) == 1 and shares != {0}


def test_a_reduction_that_loses_outcomes_is_noticed_by_random_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes of random schedules counted as those of reduced ones, so there was nothing to compare."""
    case = control_case(Record(), NUMBERS)
    whole = explore_schedules(case, controls=())
    monkeypatch.setattr(dpor._Search, "_reverse", lambda *arguments: None)
    phase = explore_schedules(case, controls=())
    assert (whole.verdict, whole.note) == (Verdict.VALID, "")
    assert (phase.verdict, phase.note) == (Verdict.UNKNOWN, "a random schedule had an outcome that no reduced one had")
    assert phase.counts["outcomes"] == whole.counts["outcomes"]


def test_a_control_that_nothing_detects_makes_the_verdict_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failed_controls(0) == ()
    monkeypatch.setattr(schedule_controls, "BROKEN", ((control_case(Record(), NUMBERS), Property.WRONG_SNAPSHOT),))
    failed_controls.cache_clear()
    phase = explored(control_case(Record(), NUMBERS))
    failed_controls.cache_clear()

    assert phase.verdict is Verdict.UNKNOWN
    for method in ("DPOR", "reader reduction", "uniform random", "PCT"):
        assert f"{method} did not detect" in phase.controls


def test_a_sound_toy_that_is_rejected_fails_the_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_controls, "SOUND", (control_case(InPlace(), NUMBERS),))
    failed_controls.cache_clear()

    failures = failed_controls(0)
    failed_controls.cache_clear()
    assert len(failures) == 4 and all("rejected the sound toy" in failure for failure in failures)


class ReachesOneEnd(ReaderReduction):
    """Broken: leaves out all ends of a reader but one."""

    def search(self, *arguments: Any, **more: Any) -> Arrivals:
        arrivals = super().search(*arguments, **more)
        _, *others = (state for state in arrivals if state.is_at_end)
        return {state: arrival for state, arrival in arrivals.items() if state not in others}


def explores_one(world: World, on_run: Callable[[dpor.Run], None]) -> None:
    runs: list[dpor.Run] = []
    dpor.explore_all(world, runs.append)
    on_run(runs[0])


def never_preempts(*_: object) -> Choose:
    return lambda process_indexes, transition: process_indexes[0]


@pytest.mark.parametrize(
    ("method", "name", "broken"),
    [
        ("DPOR", "explore_all", explores_one),
        ("uniform random", "uniform", never_preempts),
        ("PCT", "pct", never_preempts),
        ("reader reduction", "ReaderReduction", ReachesOneEnd),
    ],
)
def test_a_method_that_lacks_outcomes_of_small_programs_fails_their_controls(
    method: str, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random schedules passed that found one outcome of many."""
    monkeypatch.setattr(small_programs, name, broken)
    programs = [each for each in PROGRAMS if each.has_reader or method != "reader reduction"]
    assert [*small_programs.failed_controls(0)] == [
        f"{method} did not have the outcomes of every order: {program.title}" for program in programs
    ]


def test_a_method_with_outcomes_that_no_order_has_fails_the_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_programs, "every_end", lambda world: [next(every_end(world))])
    failures = [failure.partition(" did not ")[0] for failure in small_programs.failed_controls(0)]
    readers = sum(each.has_reader for each in PROGRAMS)
    sampled = dict.fromkeys(("DPOR", "uniform random", "PCT"), len(PROGRAMS))
    assert {each: failures.count(each) for each in failures} == {**sampled, "reader reduction": readers}


class Remembers(Counter):
    """Broken: its reader looks once, and then says the same for ever."""

    name = "remembers"

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], bytes]]:
        yield cache(lambda: self.read(storage, path))


@pytest.mark.parametrize("toy", [Remembers(), ReadsEarly(), LocksAndReadsEarly()])
def test_a_reader_that_does_not_look_when_it_is_asked_is_stale_by_every_method(toy: Counter) -> None:
    """A read without a call came together with the last call before it, so that no commit was ever between them."""
    case = control_case(toy, LETTERS, read_count=2)
    assert set(map(frozenset, schedule_controls._found(case, 0).values())) == {frozenset({Property.STALE})}
    assert crash.violated(A, toy) == {Property.STALE}


def test_a_stale_answer_from_memory_replays() -> None:
    case = control_case(Remembers(), LETTERS, read_count=2)
    (finding,) = explore_schedules(case, controls=()).findings
    log = as_log(case, finding)
    assert {replay_log(log, case.target).verdict for _ in range(10)} == {Verdict.INVALID}
    assert replay_log(log, Counter()).verdict is not Verdict.INVALID


@pytest.mark.parametrize("toy", [Remembers(), ReadsEarly(), LocksAndReadsEarly()])
def test_an_answer_from_memory_that_is_still_right_is_no_finding(toy: Counter) -> None:
    """What was read when the reader was opened was a finding without a commit that changed anything, too."""
    case = control_case(toy, (b"",), read_count=2)
    assert set(map(frozenset, schedule_controls._found(case, 0).values())) == {frozenset()}


@pytest.mark.parametrize("toy", [Remembers(), ReadsEarly(), Counter()])
def test_answers_from_memory_are_judged_as_in_every_order_of_all_calls(toy: Counter) -> None:
    case = control_case(toy, LETTERS, read_count=2)
    group = case.process_group()
    exploration = Exploration(case, lambda done, total: None)
    try:
        ends = [*every_end(case.begin(group))]
        assert exploration.reduce().is_done
        broken = {violation.property for end in ends for violation in end.progress.violations}
        assert {finding.property for finding in exploration.findings.values()} == broken
        assert exploration.reduced == {Outcomes().of(end) for end in ends}
    finally:
        exploration.close()
        group.close()


class Waits(WaitsInVain, Counter): ...


def test_a_commit_that_is_acknowledged_when_only_time_can_help_makes_no_earlier_read_stale() -> None:
    """Such an acknowledgement was taken to come with the last call before the wait, and the sound toy was rejected."""
    found = schedule_controls._found(control_case(Waits(), LETTERS, read_count=2), 0)
    assert set(map(frozenset, found.values())) == {frozenset()}


class LocksWhatItReads(Counter):
    """Sound: its readers lock what nobody else does, so that single schedules are run, and then read."""

    def count_in(self, file: File) -> int:
        file.lock(LockMode.SHARED, offset_bytes=0, size_bytes=1)
        return super().count_in(file)


class LocksAndShowsLate(LocksWhatItReads, ShowsLate):
    """Broken: its writer announces letters that readers see only when it is closed."""


def test_stale_reads_of_equivalent_schedules_are_found_beside_crashes_too() -> None:
    """Only those of schedules that were run were found, where the reader locks or changes something."""
    assert Property.STALE in crash.violated_by_locking(A, LocksAndShowsLate())
    assert crash.violated_by_locking(A, LocksWhatItReads()) == set()


LOOKS: dict[CallKind, Callable[[File, Mapping], object]] = {
    CallKind.PREAD: lambda file, mapping: file.pread(1, 0),
    CallKind.SIZE: lambda file, mapping: file.size_bytes(),
    CallKind.MAP: lambda file, mapping: file.map(8),
    CallKind.LOAD: lambda file, mapping: mapping.load_u64(0),
    CallKind.READ_MAPPED: lambda file, mapping: mapping.read(8, 0),
    CallKind.VIEW: lambda file, mapping: mapping.view(8, 0).__enter__(),
}
OTHERS: dict[CallKind, Callable[[File, Mapping], object]] = {
    CallKind.LOCK: lambda file, mapping: file.try_lock(LockMode.SHARED, offset_bytes=0, size_bytes=1),
    CallKind.UNLOCK: lambda file, mapping: file.unlock(offset_bytes=0, size_bytes=1),
    CallKind.CLOSE: lambda file, mapping: file.close(),
    CallKind.UNMAP: lambda file, mapping: mapping.unmap(),
    CallKind.FDATASYNC: lambda file, mapping: file.fdatasync(),
    CallKind.PWRITE: lambda file, mapping: file.pwrite(b"x", 0),
}


@pytest.mark.parametrize("kind", [*LOOKS, *OTHERS])
def test_a_read_begins_with_the_first_call_that_looks_at_a_file(kind: CallKind) -> None:
    def reads(storage: Storage, say: Say) -> None:
        file = storage.open_for_writing(CELLS)
        mapping = file.map(8)
        say(READ, None)
        (LOOKS | OTHERS)[kind](file, mapping)
        say(SEEN, b"")

    world = world_of([reads], {CELLS: bytes(8)})
    world.run(0)
    begins = [node.call.kind for node in path_to(world.nodes[0]) if node.begins and node.call is not None]
    world.process_group.close()
    assert begins == [kind if kind in LOOKS else FROM_MEMORY.kind]


@pytest.mark.parametrize(("toy", "counts"), [(Counter(), [0, 0]), (Remembers(), [0, 1]), (ReadsEarly(), [1, 1])])
def test_only_a_read_without_an_access_has_a_step_of_its_own(toy: Counter, counts: list[int]) -> None:
    group = control_case(toy, LETTER, read_count=2).process_group()
    try:
        world = control_case(toy, LETTER, read_count=2).begin(group)
        world.run(1)
        steps = [node for node in path_to(world.nodes[1]) if node.call == FROM_MEMORY or node.marks]
        seen = [number for number, node in enumerate(steps) if any(mark.kind == SEEN for mark in node.marks)]
        assert [steps[number - 1].call == FROM_MEMORY for number in seen] == counts
    finally:
        group.close()
