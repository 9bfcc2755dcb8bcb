"""The machine detects broken targets, accepts sound ones, and gives the same result every time."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from broken_toys import FOUND, Ends, RollsBack
from depth import nightly, sampled
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from toy_rejections import CountsInMemory, KeepsRejected, Refuses, WritesBlockAgain

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.plain_data import document_of, operation_of
from tornproof.harness.explorers.kills.exploration import (
    FAILED_CALL,
    KILLED_RECOVERY,
    NEW_STATE,
    OLD_STATE,
    WORKING_RECOVERY,
)
from tornproof.harness.explorers.own_system import machine as target_machine
from tornproof.harness.explorers.own_system.damage import Run
from tornproof.harness.explorers.own_system.execution import Execution
from tornproof.harness.explorers.own_system.machine import (
    CONTROLS,
    STEPS,
    explore_executions,
    failed_controls,
    replay_execution,
)
from tornproof.harness.explorers.own_system.replaying import (
    TAKEN,
    replay,
    violation_of,
    without_needless_steps,
)
from tornproof.harness.search.crash_world import after_kill_of
from tornproof.harness.search.failed_sync import LOST_EARLIER
from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.process.observer import Judge, Progress, Property
from tornproof.harness.simulator.process.simulated_process import NotDeterministicError
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.toy import (
    AcknowledgesFirst,
    HeaderFirst,
    NeverDone,
    RecoversInPlace,
    SwallowsErrors,
    Toy,
    ToyWriter,
)
from tornproof.harness.systems.toy_locks import DropsUndo, LockFile, Undo, UndoesInVain
from tornproof.harness.systems.toy_losses import GivesIn, GoesOnBehindLoss, TakesUnreadForEmpty
from tornproof.harness.systems.toy_specified import LosesALetter, Specified
from tornproof.impl.errors import BusyError, StorageError
from tornproof.impl.storage.interface import EntryKind, File, LockMode, OpenMode, Storage, StorageReason

OPERATIONS = (b"one", b"t", b"three")
LETTERS = st.binary(min_size=1, max_size=6)


def explored(
    target: Target, operations: Any = OPERATIONS, *, steps: int = 20, examples: int = 60, seed: int = 1
) -> Phase:
    return explore_executions(target, operations, path="toy", steps=steps, examples=examples, seed=seed)


@pytest.fixture(scope="module")
def detected() -> Finding:
    """The finding of the machine on a target that writes its header first."""
    (finding,) = explored(HeaderFirst()).findings
    return finding


class OverwritesInPlace(Toy):
    """Cuts the state and writes it again."""

    name = "overwrites in place"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        content = self.read(storage, path) + operation
        with storage.open_for_writing(f"{path}/state") as file:
            file.truncate(0)
            file.pwrite(content, 0)
            file.fdatasync()


class ForgetsRecovery(Toy):
    """Cannot commit over what a killed writer left."""

    name = "forgets recovery"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        yield ToyWriter(self, storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        storage.open_for_writing(f"{path}/new", OpenMode.NEW).close()
        super().commit(storage, path, operation)


class KeepsLock(Toy):
    """A rejected commit keeps the writer's lock."""

    name = "keeps its lock"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        file = storage.open_for_writing(f"{path}/lock", OpenMode.EXISTING_OR_NEW)
        if not file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1):
            raise BusyError(f"{path}: another writer is there")
        with super().open_writer(storage, path) as writer:
            yield writer
            file.close()


class Raises(Toy):
    """Turns an error of the disk into an exception that it does not declare."""

    name = "raises"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        try:
            super().commit(storage, path, operation)
        except StorageError as error:
            raise KeyError("commit") from error


BROKEN = [
    (HeaderFirst(), {Property.REJECTED}),
    (AcknowledgesFirst(), {Property.STALE}),
    (SwallowsErrors(), {Property.SYNCED}),
    (RecoversInPlace(), {Property.STALE}),
    (NeverDone(), {Property.IDEMPOTENT}),
    (OverwritesInPlace(), {Property.WRONG_SNAPSHOT, Property.STALE}),
    (ForgetsRecovery(), {Property.COMMIT}),
    (RollsBack(), {Property.SEEN_LOST}),
    (KeepsLock(), {Property.RECOVERY}),
    (Raises(), {Property.DISORDERLY}),
]


def named(value: object) -> str:
    return getattr(value, "name", "")


@pytest.mark.parametrize("operations", [pytest.param(OPERATIONS, id="list"), nightly(LETTERS, id="strategy")])
def test_a_sound_target_is_valid_and_every_coverage_goal_is_reached(operations: Any) -> None:
    phase = explored(Toy(), operations)
    assert phase.verdict is Verdict.VALID and phase.findings == () and phase.controls == "passed"
    assert phase.explored == phase.counts["executions"] >= 60
    for point in (OLD_STATE, NEW_STATE, WORKING_RECOVERY, KILLED_RECOVERY, FAILED_CALL):
        assert phase.reached[point] > 0, point
    assert phase.bound == f"a sample: {phase.explored} executions of up to 20 steps, random from seed 1; {STEP_BOUND}"


@pytest.mark.parametrize(("target", "expected"), sampled(2, BROKEN), ids=named)
def test_a_broken_target_is_detected_by_a_short_execution_that_replays_ten_times(
    target: Toy, expected: set[str]
) -> None:
    phase = explored(target, LETTERS, steps=8, examples=400)
    assert phase.verdict is Verdict.INVALID
    (finding,) = phase.findings
    assert finding.property in expected
    assert 1 <= len(finding.evidence[STEPS]) <= 4
    read_back = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
    assert {replay_execution(target, LETTERS, read_back, path="toy") for _ in range(10)} == {Verdict.INVALID}
    assert replay_execution(Toy(), LETTERS, read_back, path="toy") in (Verdict.VALID, Verdict.UNKNOWN)


def is_broken(target: Toy, violated: str, steps: tuple[dict[str, Any], ...]) -> bool:
    try:
        violation = violation_of(target, "toy", steps)
    except ValueError:
        return False
    return violation is not None and violation.violated is violated


@pytest.mark.parametrize(("target", "violated", "steps"), [CONTROLS[index] for index in (0, 1, 3)], ids=named)
def test_needless_steps_of_an_execution_are_left_out_and_needed_ones_stay(
    target: Toy, violated: str, steps: tuple[dict[str, Any], ...]
) -> None:
    # Hypothesis alone once left nine steps where three are enough.
    reopen = {"do": "reopen", "choices": ()}
    padded = (reopen, reopen, *steps)
    assert is_broken(target, violated, padded)
    kept = without_needless_steps(target, "toy", padded, violated)
    assert len(kept) <= len(steps) and is_broken(target, violated, kept)
    assert not any(is_broken(target, violated, kept[:index] + kept[index + 1 :]) for index in range(len(kept)))


def test_the_machine_finds_and_shrinks_a_wait_for_a_lock_file_that_stays() -> None:
    phase = explored(LockFile(), (b"o",), steps=5, examples=20)
    (finding,) = phase.findings
    assert (finding.property, len(finding.evidence[STEPS])) == (Property.ENDS, 1)
    assert ": livelock: it only repeats: open for writing toy/lock, sleep" in finding.sentence
    read_back = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
    assert {replay_execution(LockFile(), (b"o",), read_back, path="toy") for _ in range(10)} == {Verdict.INVALID}
    assert replay_execution(Toy(), (b"o",), read_back, path="toy") is not Verdict.INVALID


def test_operations_of_a_list_are_stored_by_their_index(detected: Finding) -> None:
    assert all(set(step["operation"]) == {"index"} for step in detected.evidence[STEPS] if "operation" in step)
    assert replay_execution(HeaderFirst(), OPERATIONS, detected, path="toy") is Verdict.INVALID
    assert replay_execution(HeaderFirst(), (), detected, path="toy") is Verdict.UNKNOWN


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_executions_and_another_seed_others() -> None:
    first, again, other = (explored(Toy(), LETTERS, examples=10, seed=seed) for seed in (3, 3, 4))
    assert (first.counts, first.reached) == (again.counts, again.reached)
    assert first.counts != other.counts
    assert explored(HeaderFirst(), seed=3).findings == explored(HeaderFirst(), seed=3).findings


def test_our_own_tables_survive_the_machine() -> None:
    phase = explored(TableTarget(), [TableOperation()], examples=5)
    assert phase.findings == ()
    assert phase.counts["commits"] > 0


# The effect of a step


def step(do: str, *choices: int) -> dict[str, Any]:
    operation = {} if do == "reopen" else {"operation": {"bytes": b"one".hex()}}
    return {"do": do, **operation, "choices": choices}


class SwallowsTheSecondSync(Toy):
    """Syncs twice, and ignores the error of the second."""

    name = "swallows the second sync"

    def sync(self, file: File) -> None:
        super().sync(file)
        with suppress(StorageError):
            super().sync(file)


class AlwaysRollsBack(RollsBack):
    """Every opening undoes the last commit."""

    name = "always rolls back"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        storage.link(f"{path}/state", f"{path}/old")
        Toy.commit(self, storage, path, operation)


@pytest.mark.parametrize(
    ("target", "steps", "expected"),
    [
        # A rejection after a kill is not one of a fault-free run, even where the call that was to fail was never made.
        (ForgetsRecovery(), [step("commit killed", 1), step("commit")], Property.COMMIT),
        (ForgetsRecovery(), [step("commit killed", 1), step("commit failing", 13)], Property.COMMIT),
        # The call that fails is the one that was chosen, not another one of its kind.
        (SwallowsTheSecondSync(), [step("commit failing", 11, 1)], None),
        (SwallowsTheSecondSync(), [step("commit failing", 13)], Property.SYNCED),
        # After its last step a commit counts as acknowledged.
        (AlwaysRollsBack(), [step("commit killed", 7), step("reopen")], Property.LOST),
        (AlwaysRollsBack(), [step("commit killed", 6), step("reopen")], Property.SEEN_LOST),
    ],
)
def test_a_step_has_exactly_its_effect(target: Toy, steps: list[dict[str, Any]], expected: str | None) -> None:
    violation = violation_of(target, "toy", steps)
    assert (violation and violation.violated) == expected


@pytest.mark.parametrize("end", FOUND)
def test_an_execution_in_which_a_reader_exits_is_a_violation(end: type[BaseException]) -> None:
    """It ended the test, and the finding was lost."""
    violation = violation_of(Ends(end), "toy", CONTROLS[0][2])
    assert violation is not None and violation.violated is Property.DISORDERLY
    assert f"{end.__name__}: the count is wrong" in violation.reason


def test_executions_of_two_threads_are_those_of_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replaced parts of Hypothesis for the other one, and for the rest of the process."""

    def usual() -> Constants:
        return Constants(bytes={b"used"})

    def reached(examples: int) -> tuple[object, ...]:
        search = target_machine._Search(target=Toy(), operations=LETTERS, path="toy")
        return search.run(steps=4, examples=examples, seed=1), search.counts, search.reached

    monkeypatch.setattr(providers, "_get_local_constants", usual)
    sizes = (2, 12)
    with ThreadPoolExecutor(2) as pool:
        beside = list(pool.map(reached, sizes))
    assert providers._get_local_constants is usual
    assert beside == list(map(reached, sizes))


def test_an_interrupt_ends_the_search_of_the_machine() -> None:
    search = target_machine._Search(target=Ends(KeyboardInterrupt), operations=OPERATIONS, path="toy")
    with pytest.raises(KeyboardInterrupt):
        search.run(steps=5, examples=50, seed=1)


def test_what_the_first_judge_overlooks_is_no_behaviour_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(judge: Judge, progress: Progress, process: str) -> Progress:
        return progress

    (steps,) = (steps for target, _, steps in CONTROLS if isinstance(target, RecoversInPlace))
    monkeypatch.setattr(Judge, "begin_read", forgetful)
    violation = violation_of(RecoversInPlace(), "toy", steps)
    assert violation is not None and violation.violated == Property.BEHAVIOUR
    assert violation_of(Toy(), "toy", target_machine.SOUND) is None


def test_what_all_readers_agree_on_is_compared_with_the_model_of_a_target_that_has_one() -> None:
    for target, expected in ((Specified(), None), (LosesALetter(), Property.CONTENT)):
        violation = violation_of(target, "toy", [step("commit")])
        assert (violation and violation.violated) == expected


def test_a_write_to_several_pages_is_several_steps_and_a_kill_may_come_between_any_two() -> None:
    long = {"operation": {"bytes": (b"x" * (2 * PAGE_BYTES + 1)).hex()}}
    lines = []
    for choices in ((2, 0), (3, 0), (3, PAGE_BYTES - 1), (4,)):
        violation, (*_, line) = replay(Toy(), "toy", [{"do": "commit killed", "choices": choices, **long}], None)
        assert violation is None
        lines.append(line.partition(", killed ")[2])
    assert lines == [
        "after 2 of 8 steps, before: write toy/new",
        "after 3 of 8 steps, before: write toy/new",
        f"after 3 of 8 steps, {PAGE_BYTES - 1} of {PAGE_BYTES} bytes into: write toy/new",
        "after 4 of 8 steps, before: write toy/new",
    ]


def test_a_kill_releases_what_a_session_has_locked_and_its_end_does_not() -> None:
    killed, failed = step("commit killed", 1), step("commit failing", 3, 1)
    for first, expected in ((killed, None), (failed, Property.RECOVERY)):
        violation = violation_of(KeepsLock(), "toy", [first, step("reopen")])
        assert (violation and violation.violated) == expected


def test_a_killed_session_takes_no_further_step_and_others_go_on() -> None:
    execution = Execution(Toy(), "toy")
    execution.commit(b"one", lambda count: 0)
    world = execution._world
    killed = after_kill_of(world, 0)
    assert (world.enabled, killed.enabled) == ([0], []) and not killed.known.is_open
    assert killed.kernel.image().files == world.kernel.image().files
    execution.end()


def test_a_finding_of_an_older_release_gives_no_verdict(detected: Finding) -> None:
    evidence = {name: value for name, value in detected.evidence.items() if name != STEPS}
    older = replace(detected, evidence={**evidence, "steps": detected.evidence[STEPS]})
    assert replay_execution(HeaderFirst(), OPERATIONS, older, path="toy") is Verdict.UNKNOWN


def test_a_kill_before_the_first_step_is_no_kill_inside_a_commit() -> None:
    for step_count, reached in ((0, 0), (1, 1)):
        execution = Execution(Toy(), "toy")
        execution.commit_killed(b"one", lambda count, chosen=step_count: chosen)  # type: ignore[misc]
        assert execution.reached[OLD_STATE] == reached
        execution.end()


@pytest.mark.parametrize(
    ("sound", "broken", "violated"),
    [
        (KeepsRejected(), GivesIn(), Property.STALE),
        (Toy(), TakesUnreadForEmpty(), Property.WRONG_SNAPSHOT),
        (Undo(), DropsUndo(), Property.LOST),
        (Undo(), UndoesInVain(), Property.WRONG_SNAPSHOT),
    ],
    ids=named,
)
def test_a_writer_goes_on_after_a_rejection_openings_fail_and_no_reader_need_come_first(
    sound: Toy, broken: Toy, violated: str
) -> None:
    """A writer's session ended with a rejection, no call of an opening failed, and a reader came first."""
    (steps,) = (steps for target, _, steps in CONTROLS if target.name == broken.name)
    violation = violation_of(broken, "toy", steps)
    assert violation is not None and violation.violated == violated
    with suppress(ValueError):
        assert violation_of(sound, "toy", steps) is None
    assert explored(sound, examples=20).findings == ()


def test_what_a_failed_sync_lost_is_missing_after_the_next_commit_too() -> None:
    """It counted in its own commit alone."""
    (steps,) = (steps for target, _, steps in CONTROLS if target.name == GoesOnBehindLoss.name)
    violation = violation_of(GoesOnBehindLoss(), "toy", steps)
    assert violation is not None and violation.reason.startswith(f"{LOST_EARLIER}, reader: commit 1 was seen")
    assert violation_of(WritesBlockAgain(), "toy", steps) is None


def test_a_writer_that_rejects_two_commits_in_a_row_is_not_given_another_one() -> None:
    failing = ("commit failing", b"one", (0, 0))
    assert lines_of(Refuses(), failing, ("commit", b"two", ()), ("commit", b"three", ()))[2:] == [
        "commit b'two': rejected",
        "open the writer",
        "commit b'three'",
    ]
    lines = lines_of(Refuses(), failing, ("commit failing", b"two", ()))
    assert lines[2:] == ["commit b'two', of which no call can fail: rejected"]


def test_commits_whose_calls_cannot_fail_have_a_verdict_of_the_machine() -> None:
    phase = explored(CountsInMemory(), examples=30)
    assert phase.verdict is Verdict.VALID and phase.reached[FAILED_CALL] == 0, phase.note


# The lines of an execution


def lines_of(target: Toy, *steps: tuple[str, bytes | None, tuple[int, ...]]) -> list[str]:
    execution = Execution(target, "toy")
    for do, operation, choices in steps:
        remaining = iter(choices)

        def choose(count: int, remaining: Iterator[int] = remaining) -> int:
            return next(remaining)

        TAKEN[do](execution, *([] if operation is None else [operation]), choose)
    execution.end()
    return execution.lines


def test_lines_describe_each_step_and_where_its_fault_was_injected() -> None:
    lines = lines_of(
        Toy(),
        ("commit", b"one", ()),
        ("commit killed", b"two", (2, 5)),
        ("recovery killed", None, (0,)),
        ("commit killed", b"three", (6,)),
        ("commit failing", b"four", (12, 1)),
        ("commit failing", b"four", (11, 0)),
        ("commit", b"five", ()),
        ("opening failing", None, (0,)),
        ("reopen", None, ()),
        ("reopen", None, ()),
    )
    assert lines == [
        "open the writer",
        "commit b'one'",
        "commit b'two', killed after 2 of 6 steps, 5 of 6 bytes into: write toy/new",
        "open the writer, killed after 0 of 2 steps, before: unlink toy/new",
        "open the writer",
        "commit b'three', killed after 6 of 6 steps",
        "open the writer",
        "commit b'four', while a call fails: sync the data toy/new (input/output error): rejected, "
        "and the writer is left",
        "open the writer",
        "commit b'four', while a call fails: write toy/new after 11 bytes (no space is left): rejected",
        "commit b'five': acknowledged",
        "close the writer, open another, while a call fails: look at toy/new (input/output error): rejected",
        "open the writer",
        "close the writer, open another",
    ]


def test_a_commit_that_a_kill_removed_is_removed_from_the_reference_run_too() -> None:
    """The execution continues with other operations than those that were lost, and finds nothing."""
    steps = (("commit killed", b"lost", (0,)), ("commit", b"kept", ()), ("commit killed", b"there", (4,)))
    assert lines_of(Toy(), *steps, ("commit", b"!", ()))[-1] == "commit b'!'"


# When there is no verdict


class Nondeterministic(Toy):
    """Breaks in every fifth execution, whatever its steps."""

    name = "nondeterministic"
    execution_count = 0

    def create(self, storage: Storage, path: str) -> None:
        self.execution_count += 1
        super().create(storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        if self.execution_count % 5 == 0:
            raise KeyError("chance")
        super().commit(storage, path, operation)


def test_a_nondeterministic_target_gets_no_verdict() -> None:
    phase = explored(Nondeterministic())
    assert phase.verdict is Verdict.UNKNOWN and phase.findings == ()
    assert phase.note.startswith("the same execution did not end the same way twice")


class Random(HeaderFirst):
    """Appends something else each time."""

    name = "random"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        super().commit(storage, path, operation + os.urandom(8))


@pytest.mark.parametrize("operations", [OPERATIONS, st.just(bytearray(b"x"))])
def test_a_violation_of_commits_that_are_read_as_something_else_each_time_is_none(operations: Any) -> None:
    """It was a finding, and it happened again."""
    with pytest.raises(NotDeterministicError, match=r"after 1 commit a reader sees b['\"].*['\"], and then b['\"]"):
        explored(Random(), operations, examples=5)


def test_a_finding_does_not_happen_again_where_commits_are_read_as_something_else(detected: Finding) -> None:
    with pytest.raises(NotDeterministicError, match=r"after 1 commit a reader sees b['\"].*['\"], and then b['\"]"):
        replay_execution(Random(), OPERATIONS, detected, path="toy")


def test_too_few_executions_to_reach_a_kill_inside_a_commit_give_no_verdict() -> None:
    phase = explore_executions(Toy(), OPERATIONS, path="toy", steps=1, examples=1, seed=0)
    assert phase.verdict is Verdict.UNKNOWN and phase.note.startswith("never reached: ")


def test_a_control_that_is_not_detected_leaves_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failed_controls() == []
    monkeypatch.setattr(target_machine, "CONTROLS", ((Toy(), Property.SYNCED, CONTROLS[2][2]),))
    phase = explored(Toy(), examples=30)
    assert phase.verdict is Verdict.UNKNOWN and phase.note == "a positive control failed"
    assert phase.controls == f"the toy that 'toy' was not detected: {Property.SYNCED}"


@pytest.mark.parametrize(
    ("blinded", "missed"),
    [
        ((Execution, "_lose"), {"SyncsAgain", "GoesOnBehindLoss", "UndoesInVain"}),
        ((Kernel, "write_back"), {"UndoesInVain"}),
    ],
    ids=["nothing is lost", "nothing is written back"],
)
def test_a_machine_that_loses_nothing_for_good_convicts_too_few(
    blinded: tuple[type, str], missed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*blinded, lambda *_: None)
    found = [violation_of(target, "toy", steps) for target, _, steps in CONTROLS]
    assert {type(each[0]).__name__ for each, violation in zip(CONTROLS, found, strict=True) if not violation} == missed


def test_a_sound_toy_that_is_said_to_be_broken_is_a_failed_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_machine, "Toy", HeaderFirst)
    assert failed_controls()[-1].startswith("the sound toy was said to be broken: ")


@pytest.mark.parametrize(
    "steps",
    [
        None,
        [{}],
        [{"do": "dance", "choices": []}],
        [{"do": "commit", "choices": []}],
        [{"do": "commit", "operation": {"index": 9}, "choices": []}],
        [{"do": "commit", "operation": {"unwritable": "Foo is no plain data"}, "choices": []}],
        [{"do": "commit", "operation": {"bytes": "zz"}, "choices": []}],
        [{"do": "commit killed", "operation": {"bytes": "00"}, "choices": [99]}],
        [{"do": "commit killed", "operation": {"bytes": "00"}, "choices": [-1]}],
        [{"do": "commit killed", "operation": {"bytes": "00"}, "choices": []}],
    ],
)
def test_steps_that_the_target_does_not_take_give_no_verdict(detected: Finding, steps: Any) -> None:
    finding = replace(detected, evidence={**detected.evidence, STEPS: steps})
    assert replay_execution(HeaderFirst(), OPERATIONS, finding, path="toy") is Verdict.UNKNOWN


def test_another_violation_than_the_finding_gives_no_verdict(detected: Finding) -> None:
    finding = replace(detected, property=Property.RECOVERY)
    assert replay_execution(HeaderFirst(), OPERATIONS, finding, path="toy") is Verdict.UNKNOWN


class Failing(Toy):
    """Fails to create its first state."""

    name = "failing"

    def create(self, storage: Storage, path: str) -> None:
        raise StorageError(file=path, operation="create", reason="it is Sunday")


def test_a_target_that_cannot_be_created_is_invalid_and_says_why() -> None:
    (finding,) = explored(Failing()).findings
    assert finding.property == Property.FAULT_FREE
    assert finding.sentence.endswith("a fault-free process ends with: StorageError: toy: cannot create: it is Sunday.")
    violation = violation_of(Failing(), "toy", ())
    assert violation is not None and violation.violated is Property.FAULT_FREE


class OpensOnce(Toy):
    """Rejects a second session, which commits of one session do not need and a fault-free run of them does."""

    name = "opens once"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if self.read(storage, path):
            self.reject(path)
        with super().open_writer(storage, path) as writer:
            yield writer

    def reject(self, path: str) -> None:
        raise StorageError(file=path, operation="open", reason="it is Monday")


class EndsAtOpening(OpensOnce):
    """Ends with an exception that it does not declare instead."""

    name = "ends at its second opening"

    def reject(self, path: str) -> None:
        raise KeyError("Monday")


class UnreadableOnceReopened(OpensOnce):
    """Accepts it, and lets no reader read from then on."""

    name = "unreadable once reopened"

    def read(self, storage: Storage, path: str) -> bytes:
        if storage.kind(f"{path}/reopened") is EntryKind.FILE:
            raise StorageError(file=path, operation="read", reason="it is Tuesday")
        return super().read(storage, path)

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if self.read(storage, path):
            storage.rename(f"{path}/state", f"{path}/reopened")
        with Toy.open_writer(self, storage, path):
            yield _BlindWriter(self, storage, path)


class _BlindWriter(ToyWriter):
    def commit(self, operation: bytes) -> None:
        if self._at[0].kind(f"{self._at[1]}/reopened") is not EntryKind.FILE:
            super().commit(operation)


@pytest.mark.parametrize("target", [OpensOnce(), EndsAtOpening(), UnreadableOnceReopened()], ids=named)
def test_a_fault_free_run_that_fails_while_a_judge_asks_for_it_is_a_violation(target: Toy) -> None:
    """What commits leave that all went through is compared with a run that has each in a session of its own."""
    violation = violation_of(target, "toy", (step("commit"), step("commit")))
    assert violation is not None and violation.violated is Property.FAULT_FREE
    (finding,) = explored(target, steps=4).findings
    assert finding.property == Property.FAULT_FREE


class NeedsTheOneBefore(KeepsRejected):
    """A commit of some letters is rejected unless others are there, be it because of a commit that was rejected."""

    name = "needs the one before"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        with super().open_writer(storage, path) as writer:
            letters = self.read(storage, path)
            yield _NeedingWriter(self, storage, path, letters, writer)


class _NeedingWriter(ToyWriter):
    def __init__(self, target: Toy, storage: Storage, path: str, letters: bytes, writer: ToyWriter) -> None:
        super().__init__(target, storage, path)
        self._letters, self._writer = letters, writer

    def commit(self, operation: bytes) -> None:
        if operation == b"two" and not self._letters.endswith(b"one"):
            raise StorageError(file="state", operation="commit", reason="there is no one before")
        self._letters += operation
        self._writer.commit(operation)


def test_a_commit_that_needs_one_that_was_rejected_and_is_there_violates_nothing() -> None:
    """A run without the rejected one, which nobody saw, was said to fail without a disturbance."""
    for call in range(14):
        failing = {"do": "commit failing", "operation": {"bytes": b"one".hex()}, "choices": (call, 0)}
        following = {"do": "commit", "operation": {"bytes": b"two".hex()}, "choices": ()}
        assert violation_of(NeedsTheOneBefore(), "toy", (failing, following)) is None


# Operations in files

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.binary() | st.integers(), inner)
    ),
    max_leaves=8,
)


@given(operation=PLAIN)
def test_plain_data_comes_back_from_a_file_as_it_was(operation: object) -> None:
    again = operation_of(json.loads(json.dumps(document_of(operation))), None)
    assert again == operation and repr(again) == repr(operation)


@pytest.mark.parametrize("operation", [{1, 2}, object(), bytearray(b"x"), (Toy(),), {"key": StorageReason.MISSING}])
def test_anything_else_is_not_written(operation: object) -> None:
    with pytest.raises(TypeError, match="is no plain data"):
        document_of(operation)


def test_an_operation_that_is_not_written_is_named_in_the_finding() -> None:
    (finding,) = explored(HeaderFirst(), st.just(_Letters(b"x"))).findings
    assert finding.evidence[STEPS][0]["operation"] == {"unwritable": "_Letters is no plain data"}


class _Letters(bytes):
    """Bytes of a kind of their own."""


def test_nothing_of_a_target_outlives_a_kill() -> None:
    """A kill is not an exception: neither `except BaseException` nor `finally` has an effect after it."""

    class Repairs(HeaderFirst):
        def commit(self, storage: Storage, path: str, operation: bytes) -> None:
            with suppress(BaseException):
                super().commit(storage, path, operation)

    steps = CONTROLS[0][2]
    violation = violation_of(Repairs(), "toy", steps)
    assert violation is not None and violation.violated is Property.REJECTED


class MakesDirectories(Toy):
    """Makes one more directory whenever a writer is opened."""

    name = "makes directories"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        storage.mkdir(f"{path}/{len(storage.listdir(path))}")
        with super().open_writer(storage, path) as writer:
            yield writer


def test_a_second_opening_may_not_make_a_directory_either() -> None:
    (finding,) = explored(MakesDirectories()).findings
    assert finding.property == Property.IDEMPOTENT


class Probes(Toy):
    """Makes and removes a file whenever a writer is opened, to see whether it can write."""

    name = "probes"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if storage.kind(f"{path}/probe") is EntryKind.FILE:
            storage.unlink(f"{path}/probe")
        storage.open_for_writing(f"{path}/probe", OpenMode.NEW).close()
        storage.unlink(f"{path}/probe")
        with super().open_writer(storage, path) as writer:
            yield writer


@pytest.mark.parametrize("step_count", range(4))
def test_an_opening_may_remove_what_a_killed_one_left_after_a_complete_recovery(step_count: int) -> None:
    """An opening that did so was called a second recovery that changes the files again."""
    opening: dict[str, Any] = {"do": "reopen", "choices": ()}
    killed = {"do": "recovery killed", "choices": (step_count,)}
    assert violation_of(Probes(), "toy", [opening, killed, opening]) is None


class BreaksLinks(Toy):
    """Gives the second name of its state a file of its own whenever a writer is opened, or makes it a name again."""

    name = "breaks links"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if storage.kind(f"{path}/copy") is EntryKind.FILE:
            storage.unlink(f"{path}/copy")
            self.write_anew(storage, f"{path}/copy", self.read(storage, path))
        else:
            storage.link(f"{path}/state", f"{path}/copy")
        with super().open_writer(storage, path) as writer:
            yield writer


def test_a_second_opening_may_not_part_the_names_of_a_file_either() -> None:
    violation = violation_of(BreaksLinks(), "toy", [step("reopen"), step("reopen")])
    assert violation is not None and violation.violated is Property.IDEMPOTENT


def test_what_a_writer_leaves_at_its_end_is_damaged_too() -> None:
    class WritesAtItsEnd(Toy):
        name = "writes at its end"

        @contextmanager
        def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
            with super().open_writer(storage, path) as writer:
                yield writer
            with storage.open_for_writing(f"{path}/end", OpenMode.EXISTING_OR_NEW) as file:
                file.pwrite(b"end", 0)

    run = Run.of(WritesAtItsEnd(), [b"one", b"two"], path="toy")
    assert run.contents["end"] == b"end" and len(run.images) == len(run.states) == 3
