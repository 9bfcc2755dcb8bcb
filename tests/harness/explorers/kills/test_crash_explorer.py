"""The crash explorer detects what is broken, accepts what is sound, and says what it did not try."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace

import pytest
from broken_toys import FOUND, Ends, RollsBack
from depth import nightly, sampled
from recorded_phases import AsRecorded
from toy_rejections import CountsInMemory, KeepsRejected, WritesBlockAgain

from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import HasTime, Phase, Verdict, always, calls_at_most
from tornproof.harness.explorers.kills import explorer as crash
from tornproof.harness.explorers.kills.exploration import (
    CUT,
    FAILED_CALL,
    FAILED_OPENING,
    FAILING,
    KILLED_RECOVERY,
    NEW_STATE,
    OLD_STATE,
    WHOLE,
    WORKING_RECOVERY,
    Exploration,
    Plan,
    crash_phase,
)
from tornproof.harness.explorers.kills.explorer import CONTROLS, explore_crashes, replay_crash
from tornproof.harness.explorers.kills.judge import Judge, Trace
from tornproof.harness.explorers.kills.plan import (
    WHOLE_BYTES,
    Cuts,
    Kill,
    Origin,
    all_cuts,
    border_cuts,
    failures,
    origin_of,
    sampled_cuts,
)
from tornproof.harness.explorers.kills.sessions import REWORDED
from tornproof.harness.search.failed_sync import LOST_BY_OPENING, LOST_EARLIER
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.toy import HeaderFirst, RecoversInPlace, Toy, ToyWriter
from tornproof.harness.systems.toy_locks import BusyLockFile, DropsUndo, LockFile, Undo, UndoesInVain, is_made
from tornproof.harness.systems.toy_losses import (
    FORBIDS_COMMITS,
    GivesIn,
    GoesOnBehindLoss,
    TakesPartForWhole,
    TakesUnreadForEmpty,
)
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image
from tornproof.impl.errors import BusyError, CorruptError, StorageError
from tornproof.impl.storage.interface import EntryKind, File, LockMode, OpenMode, Storage, StorageReason

OPERATIONS = (b"one", b"t", b"three")


def explored(target: Toy, has_time: HasTime = always) -> Phase:
    return explore_crashes(target, OPERATIONS, path="toy", has_time=has_time)


def violated(target: Toy) -> set[str]:
    phase = explored(target)
    assert phase.verdict is (Verdict.INVALID if phase.findings else Verdict.VALID), phase.note
    return {finding.property for finding in phase.findings}


# Verdicts


def test_a_sound_target_is_valid_and_the_counts_are_those_of_its_steps(as_recorded: AsRecorded) -> None:
    phase = explored(Toy())
    as_recorded(phase)
    assert phase.verdict is Verdict.VALID and phase.findings == () and phase.note == ""
    assert phase.complete and phase.controls == "passed"
    # Once sync directory; then open, truncate, write, sync, rename, sync directory; the writes hold 3, 4 and 9 bytes.
    assert phase.counts["steps"] == 1 + 3 * 6
    assert phase.counts["whole steps"] == 1 + 3 * 6 + 1
    assert phase.counts["cut writes"] == 2 + 3 + 8
    # Each commit opens, asks, reads, and then its six steps; those can also be out of space, and the write partly.
    assert phase.counts["failing calls"] == 3 * (9 + 6) + (2 + 3 + 3)
    assert "violations" not in phase.counts
    assert phase.explored == phase.counts["distinct disks"]
    assert all(phase.reached[point] for point in (OLD_STATE, NEW_STATE, WORKING_RECOVERY, KILLED_RECOVERY))


@pytest.mark.parametrize(("target", "expected"), CONTROLS, ids=lambda each: getattr(each, "name", each))
def test_the_fault_of_a_broken_target_is_detected(target: Toy, expected: str) -> None:
    assert expected in violated(target)


# A writer that goes on, openings that fail, and a recovery before every reader


def test_what_a_writer_acknowledges_after_a_commit_that_it_rejected_must_be_there() -> None:
    """Its session ended with the first rejection, so that nobody saw what it lost of the next commit."""
    assert violated(Toy()) == violated(KeepsRejected()) == set()
    phase = explored(GivesIn())
    assert {finding.property for finding in phase.findings} == {Property.LOST}
    finding = phase.findings[0]
    said = "the writer that rejected the commit, when it is given it again, acknowledges it, and a reader sees commit 0"
    assert said in finding.sentence
    assert replay_crash(GivesIn(), OPERATIONS, finding, path="toy") is Verdict.INVALID
    assert replay_crash(Toy(), OPERATIONS, finding, path="toy") is Verdict.VALID


def test_what_the_failed_sync_of_a_rejected_commit_lost_is_not_built_upon() -> None:
    """The writer went on over bytes that only the cache had."""
    one_letter = (b"o", b"t", b"h")
    assert explore_crashes(WritesBlockAgain(), one_letter, path="toy").findings == ()
    (finding,) = explore_crashes(GoesOnBehindLoss(), one_letter, path="toy").findings
    assert finding.property == Property.LOST and f"{LOST_EARLIER}, a reader sees commit 0" in finding.sentence
    assert replay_crash(GoesOnBehindLoss(), one_letter, finding, path="toy") is Verdict.INVALID
    assert replay_crash(WritesBlockAgain(), one_letter, finding, path="toy") is Verdict.VALID


def test_an_opening_whose_call_fails_loses_nothing() -> None:
    """No call of an opening failed, although one that takes what it cannot read for empty forgets everything."""
    phase = explored(TakesUnreadForEmpty())
    assert Toy().name not in phase.note and phase.reached[FAILED_OPENING] > 0
    assert {finding.property for finding in phase.findings} <= {Property.WRONG_SNAPSHOT, Property.LOST}
    finding = phase.findings[0]
    assert "in the opening after that fails (input/output error)" in finding.sentence
    read_back = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
    assert replay_crash(TakesUnreadForEmpty(), OPERATIONS, read_back, path="toy") is Verdict.INVALID
    assert origin_of(read_back.evidence).evidence() == origin_of(finding.evidence).evidence()


class WaitsForTheSync(UndoesInVain):
    """Sound: it goes on after a failed sync of an opening, and leaves the copy for the next one."""

    def put_back(self, storage: Storage, path: str, letters: bytes) -> None:
        with suppress(StorageError):
            self.write_anew(storage, f"{path}/state", letters)
            self._remove_copy(storage, path)


def test_an_opening_that_goes_on_after_a_failed_sync_loses_nothing_where_that_was_in_vain() -> None:
    """No failed sync of an opening lost what it was to write."""
    assert violated(WaitsForTheSync()) == set()
    phase = explored(UndoesInVain())
    (finding,) = phase.findings
    assert finding.property == Property.LOST and f"{LOST_BY_OPENING}, a reader sees commit 0" in finding.sentence
    read_back = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
    assert replay_crash(UndoesInVain(), OPERATIONS, read_back, path="toy") is Verdict.INVALID
    assert replay_crash(WaitsForTheSync(), OPERATIONS, read_back, path="toy") is Verdict.VALID


class Appends(Toy):
    """Sound: a file of letters that each opening makes if there is none, with its name; one letter is never torn."""

    name = "appends"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        storage.open_for_writing(f"{path}/log", OpenMode.EXISTING_OR_NEW).close()
        self.sync_names(storage, path)
        yield ToyWriter(self, storage, path)

    def read(self, storage: Storage, path: str) -> bytes:
        if storage.kind(f"{path}/log") is EntryKind.MISSING:
            return b""
        with storage.open_for_reading(f"{path}/log") as file:
            return file.pread(file.size_bytes(), 0)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        with storage.open_for_writing(f"{path}/log") as file:
            file.pwrite(operation, file.size_bytes())
            self.sync(file)


class AppendsToWhatIsLost(Appends):
    """Broken where the sync of the name fails: the next commit is in a file that has none after a power cut."""

    def sync_names(self, storage: Storage, path: str) -> None:
        with suppress(StorageError):
            super().sync_names(storage, path)


def test_what_is_committed_after_an_opening_that_went_on_must_be_there() -> None:
    phases = [explore_crashes(each(), (b"a", b"b"), path="toy") for each in (Appends, AppendsToWhatIsLost)]
    assert [phase.verdict for phase in phases] == [Verdict.VALID, Verdict.INVALID]
    (finding,) = phases[1].findings
    assert f"{LOST_BY_OPENING}, a reader sees commit 0, though 1 was acknowledged" in finding.sentence
    assert replay_crash(AppendsToWhatIsLost(), (b"a", b"b"), finding, path="toy") is Verdict.INVALID


class TakesBack(Toy):
    """Broken where the opening after a kill is rejected: it takes back a commit that was there for all to see."""

    name = "takes back"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if storage.kind(f"{path}/before") is EntryKind.FILE:
            try:
                self.sync_names(storage, path)
            except StorageError:
                storage.rename(f"{path}/before", f"{path}/state")
                raise
            storage.unlink(f"{path}/before")
        with super().open_writer(storage, path) as writer:
            yield writer

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        self.write_anew(storage, f"{path}/copy", self.read(storage, path))
        storage.rename(f"{path}/copy", f"{path}/before")
        super().commit(storage, path, operation)
        storage.unlink(f"{path}/before")


def test_what_was_seen_is_there_after_an_opening_that_is_rejected() -> None:
    phase = explored(TakesBack())
    found = [each for each in phase.findings if "in the opening after that fails" in each.sentence]
    assert Property.SEEN_LOST in {each.property for each in found}


def test_a_toy_that_forbids_commits_rejects_them_and_does_not_ignore_them() -> None:
    storage = MemoryStorage()
    FORBIDS_COMMITS.create(storage, "toy")
    storage.open_for_writing("toy/new", OpenMode.NEW).close()
    with FORBIDS_COMMITS.open_writer(storage, "toy") as writer, pytest.raises(CorruptError, match="closed"):
        writer.commit(b"one")


def test_a_recovery_that_comes_before_every_reader_is_judged_too() -> None:
    """A reader came first and put back what the recovery would have lost."""
    assert violated(Undo()) == set()
    assert violated(DropsUndo()) >= {Property.LOST}


def test_commits_whose_calls_cannot_fail_have_a_verdict() -> None:
    """They never reached a failing call, which was a goal."""
    phase = explored(CountsInMemory())
    assert phase.verdict is Verdict.VALID and phase.reached[FAILED_CALL] == 0, phase.note


@pytest.mark.parametrize("end", FOUND)
def test_a_reader_that_exits_after_a_kill_is_a_finding_and_ends_no_exploration(
    end: type[BaseException],
) -> None:
    """It ended the test, and the finding was lost."""
    judge = Judge(Ends(end), OPERATIONS[:1], start=None, path="toy")
    result = Exploration(judge, "ends", Plan.of(judge, None, 0)).run()
    assert {finding.property for finding in result.findings.values()} == {Property.DISORDERLY}
    assert f"reading ended with {end.__name__}: the count is wrong" in str(result.findings)


def test_a_reader_that_is_interrupted_ends_the_exploration_by_kills() -> None:
    judge = Judge(Ends(KeyboardInterrupt), OPERATIONS[:1], start=None, path="toy")
    with pytest.raises(KeyboardInterrupt):
        Exploration(judge, "ends", Plan.of(judge, None, 0)).run()


class Locked(Toy):
    """Holds a lock while it writes."""

    name = "locked"
    gives_back = True

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        file = storage.open_for_writing(f"{path}/lock", OpenMode.EXISTING_OR_NEW)
        if not file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1):
            file.close()
            raise BusyError(f"{path}: another writer is there")
        with super().open_writer(storage, path) as writer:
            if not self.gives_back:
                yield writer
                file.close()
                return
            try:
                yield writer
            finally:
                file.close()


class KeepsLock(Locked):
    gives_back = False


def test_a_lock_that_a_failed_writer_keeps_is_found_because_the_next_writer_cannot_open() -> None:
    assert violated(Locked()) == set()
    assert violated(KeepsLock()) == {Property.RECOVERY}


class RecoversAlone(Toy):
    """Its readers wait for a recovery."""

    name = "recovers alone"

    def recover(self, storage: Storage, path: str) -> None:
        file = storage.open_for_writing(f"{path}/state")
        file.lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)
        super().recover(storage, path)
        self.end(file)

    def end(self, file: File) -> None:
        file.close()

    def read(self, storage: Storage, path: str) -> bytes:
        with storage.open_for_reading(f"{path}/state") as file:
            file.lock(LockMode.SHARED, offset_bytes=0, size_bytes=1)
            return file.pread(file.size_bytes(), 0)


class ShutsReadersOut(RecoversAlone):
    """Keeps the lock after its recovery."""

    name = "shuts readers out"

    def end(self, file: File) -> None:
        pass


class CommitsAlone(RecoversAlone):
    """Its readers wait for a commit, and for ever for one that failed."""

    name = "commits alone"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        file = storage.open_for_writing(f"{path}/state")
        file.lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)
        with storage.open_for_reading(f"{path}/state") as state:
            content = state.pread(state.size_bytes(), 0) + operation
        self.write_anew(storage, f"{path}/new", content)
        storage.rename(f"{path}/new", f"{path}/state")
        self.sync_names(storage, path)
        file.close()

    def recover(self, storage: Storage, path: str) -> None:
        Toy.recover(self, storage, path)


def test_a_lock_that_a_failed_commit_keeps_from_readers_is_found() -> None:
    assert violated(CommitsAlone()) == {Property.ENDS}


def test_a_lock_that_a_recovery_keeps_from_readers_is_found() -> None:
    """They have read a disk with the same files before, which nobody had locked."""
    assert violated(RecoversAlone()) == set()
    assert violated(ShutsReadersOut()) == {Property.ENDS}


class RemovesLockFile(LockFile):
    """Only one writer is alive at a time, so a lock file that is there when one is opened is nobody's.

    One that is there later is its own, which it could not remove, and it rejects all further commits.
    """

    name = "removes its lock file"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if storage.kind(f"{path}/lock") is EntryKind.FILE:
            storage.unlink(f"{path}/lock")
        with Toy.open_writer(self, storage, path) as writer:
            yield writer

    def read(self, storage: Storage, path: str) -> bytes:
        return Toy.read(self, storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        with self.locked(storage, path):
            Toy.commit(self, storage, path, operation)

    def wait(self, storage: Storage) -> None:
        raise BusyError("the lock file could not be removed")


class NeverRemovesLockFile(RemovesLockFile):
    name = "never removes its lock file"

    def wait(self, storage: Storage) -> None:
        LockFile.wait(self, storage)

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        with Toy.open_writer(self, storage, path) as writer:
            yield writer


class SpinsOnLockFile(NeverRemovesLockFile, BusyLockFile):
    name = "spins on its lock file"

    def wait(self, storage: Storage) -> None:
        BusyLockFile.wait(self, storage)


class GivesUp(NeverRemovesLockFile):
    """Waits for half a minute."""

    name = "gives up"

    def wait(self, storage: Storage) -> None:
        start_seconds = storage.monotonic_seconds()
        while storage.monotonic_seconds() < start_seconds + 30:
            storage.sleep_seconds(0.001)
        raise BusyError("another writer is there")


class GrowsForEver(NeverRemovesLockFile):
    """Never makes the same call twice while it waits."""

    name = "grows for ever"

    def wait(self, storage: Storage) -> None:
        with storage.open_for_writing("log", OpenMode.EXISTING_OR_NEW) as file:
            file.pwrite(b".", file.size_bytes())


REPEATS = "livelock: it only repeats: open for writing toy/lock"


@pytest.mark.parametrize(
    ("target", "expected", "said"),
    [
        (RemovesLockFile(), set(), ""),
        *sampled(
            1,
            [
                (NeverRemovesLockFile(), {Property.ENDS}, f"{REPEATS}, sleep"),
                (SpinsOnLockFile(), {Property.ENDS}, REPEATS),
                (GivesUp(), {Property.COMMIT}, "another writer is there"),
            ],
        ),
        nightly(GrowsForEver(), {Property.ENDS}, "it goes on after 100,000 calls, now: "),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_lock_file_that_a_killed_writer_leaves_is_found_and_one_that_the_next_removes_is_not(
    target: Toy, expected: set[str], said: str
) -> None:
    phase = explore_crashes(target, OPERATIONS[:2], path="toy")
    assert {finding.property for finding in phase.findings} == expected
    assert phase.complete and STEP_BOUND in phase.bound
    assert all(said in finding.sentence for finding in phase.findings)
    for finding in phase.findings[:1]:
        read_back = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
        for _ in range(10):
            assert replay_crash(target, OPERATIONS[:2], read_back, path="toy") is Verdict.INVALID
        assert replay_crash(RemovesLockFile(), OPERATIONS[:2], read_back, path="toy") is Verdict.VALID


def test_a_fault_free_run_that_does_not_end_is_a_finding() -> None:
    class Locks(Toy):
        name = "locks"

        def commit(self, storage: Storage, path: str, operation: bytes) -> None:
            while not is_made(storage, f"{path}/lock"):
                storage.sleep_seconds(1.0)

    phase = explore_crashes(Locks(), OPERATIONS, path="toy")
    (finding,) = phase.findings
    assert (finding.property, phase.verdict) == (Property.ENDS, Verdict.INVALID)
    assert finding.sentence.startswith("Without any fault: the fault-free run does not end: livelock: ")
    assert replay_crash(Locks(), OPERATIONS, finding, path="toy") is Verdict.INVALID


class Raises(Toy):
    """Turns an error of the disk into an exception that names nothing."""

    name = "raises"
    raised: type[Exception] = KeyError

    def sync(self, file: File) -> None:
        try:
            super().sync(file)
        except StorageError as error:
            raise self.raised("sync") from error


class DeclaresWhatItRaises(Raises):
    rejections = (KeyError, StorageError)


def test_an_exception_that_the_target_does_not_declare_is_a_finding() -> None:
    assert violated(Raises()) == {Property.DISORDERLY}
    assert violated(DeclaresWhatItRaises()) == set()


class Forgets(Toy):
    """Its recovery goes back to nothing."""

    name = "forgets"

    def recover(self, storage: Storage, path: str) -> None:
        super().recover(storage, path)
        with storage.open_for_writing(f"{path}/state") as file:
            file.truncate(0)


class Flickers(Toy):
    """Its recovery shows the state before once more, and a kill there leaves it at that."""

    name = "flickers"

    def put(self, storage: Storage, path: str, name: str, content: bytes) -> None:
        with storage.open_for_writing(f"{path}/put", OpenMode.EXISTING_OR_NEW) as file:
            file.truncate(0)
            file.pwrite(content, 0)
        storage.rename(f"{path}/put", f"{path}/{name}")

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if storage.kind(f"{path}/old") is EntryKind.FILE:
            with storage.open_for_reading(f"{path}/old") as file:
                old = file.pread(99, 0)
            new = self.read(storage, path)
            if old != new:
                self.put(storage, path, "state", old)
                self.put(storage, path, "state", new)
            storage.unlink(f"{path}/old")
        with super().open_writer(storage, path) as writer:
            yield writer

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        self.put(storage, path, "old", self.read(storage, path))
        super().commit(storage, path, operation)
        storage.unlink(f"{path}/old")


class IgnoresRejections(Toy):
    """Acknowledges a commit whose rename failed."""

    name = "ignores"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        with suppress(StorageError):
            super().commit(storage, path, operation)
        with suppress(StorageError):
            storage.sync_directory(path)


class Stumbles(Toy):
    """After a recovery, the next commit is acknowledged and lost."""

    name = "stumbles"

    def recover(self, storage: Storage, path: str) -> None:
        storage.rename(f"{path}/new", f"{path}/stumbled")

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        if storage.kind(f"{path}/stumbled") is EntryKind.MISSING:
            super().commit(storage, path, operation)


class CutsUnderAMapping(HeaderFirst):
    """Loads from a mapping after it cut the file."""

    name = "cuts"

    def read(self, storage: Storage, path: str) -> bytes:
        with storage.open_for_writing(f"{path}/state") as file, file.map(8) as mapping:
            count = mapping.load_u64(0)
            if file.size_bytes() < 8 + count:
                file.truncate(4)
            mapping.load_u64(0)
            return file.pread(count, 8)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Forgets(), {Property.LOST}),
        (Flickers(), {Property.SEEN_LOST}),
        (IgnoresRejections(), {Property.LOST, Property.SYNCED}),
        (RollsBack(), {Property.SEEN_LOST}),
        (Stumbles(), {Property.COMMIT}),
        (CutsUnderAMapping(), {Property.DISORDERLY}),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_broken_target_violates_exactly_what_it_breaks(target: Toy, expected: set[str]) -> None:
    assert violated(target) == expected


class RedoesTwice(Toy):
    """Its recovery adds the letter of a commit that was killed, and adds it once more."""

    name = "redoes twice"

    def recover(self, storage: Storage, path: str) -> None:
        super().recover(storage, path)
        with storage.open_for_writing(f"{path}/state") as file:
            file.pwrite(b"tt", file.size_bytes())


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (RedoesTwice(), "a reader sees commit 2, though only 1 had started"),
        (Stumbles(), "after the remaining 2 operations a reader sees b'' instead of b'tt'"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_what_a_reader_sees_is_said_with_what_it_should_see(target: Toy, said: str) -> None:
    phase = explore_crashes(target, (b"t", b"t"), path="toy")
    assert any(said in finding.sentence for finding in phase.findings), phase.findings


class TearsWhileAppending(HeaderFirst):
    """Body first, then a header of single bytes: only a kill inside the header's write shows another number."""

    name = "tears"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        count = len(self.read(storage, path))
        with storage.open_for_writing(f"{path}/state") as file:
            file.pwrite(operation, 8 + count)
            file.pwrite((count + len(operation)).to_bytes(8, "little"), 0)


def test_a_kill_inside_a_write_is_tried_at_every_length() -> None:
    """Counts below 256 change one byte of the header, so every cut is a sound state; above, one cut is not."""
    short = explore_crashes(TearsWhileAppending(), [b"x" * 100], path="t")
    assert short.verdict is Verdict.VALID
    long = explore_crashes(TearsWhileAppending(), [b"x" * 200, b"y" * 200], path="t")
    assert {finding.property for finding in long.findings} & {Property.REJECTED, Property.WRONG_SNAPSHOT}
    assert all(finding.evidence["kills"][0][1] == 1 for finding in long.findings if "failure" not in finding.evidence)


class KeepsLog(Toy):
    """Every recovery leaves another disk than all before it."""

    name = "keeps a log"

    def recover(self, storage: Storage, path: str) -> None:
        with storage.open_for_writing(f"{path}/log", OpenMode.EXISTING_OR_NEW) as file:
            file.pwrite(b".", file.size_bytes())
        super().recover(storage, path)


def test_recoveries_that_always_leave_another_disk_are_killed_up_to_the_limit() -> None:
    phase = explored(KeepsLog())
    assert phase.verdict is Verdict.VALID
    assert phase.counts["recoveries killed no further"] > 0
    assert "kills in up to 2 recoveries" in phase.bound


class Unsteady(Toy):
    """Makes another call in every second commit."""

    name = "unsteady"

    def __init__(self) -> None:
        self.commit_count = 0

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        super().commit(storage, path, operation)
        self.commit_count += 1
        if self.commit_count % 2:
            storage.listdir(path)


def test_a_fault_that_never_fires_leaves_no_verdict() -> None:
    phase = explored(Unsteady())
    assert phase.verdict is Verdict.UNKNOWN and "failing calls were never made" in phase.note


class Failing(Toy):
    name = "failing"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        raise StorageError(file=path, operation="commit", reason=StorageReason.READ_ONLY)


def test_a_target_that_fails_without_a_fault_is_invalid_and_says_why() -> None:
    phase = explored(Failing())
    assert phase.verdict is Verdict.INVALID and not phase.complete
    assert [finding.property for finding in phase.findings] == [Property.FAULT_FREE]
    assert "the file system is read-only" in phase.findings[0].sentence


def test_expected_observations_are_compared_with_what_readers_see() -> None:
    right = (b"", b"one", b"onet", b"onetthree")
    for expected, verdict in ((right, Verdict.VALID), ((*right[:2], b"other", right[3]), Verdict.INVALID)):
        phase = explore_crashes(Toy(), OPERATIONS, path="toy", expected=expected)
        assert phase.verdict is verdict
    assert "after 2 commits a reader sees b'onet' instead of b'other'" in phase.findings[0].sentence


def test_an_exploration_starts_from_a_given_state() -> None:
    storage = MemoryStorage()
    Toy().create(storage, "given")
    with Toy().open_writer(storage, "given") as writer:
        writer.commit(b"before")
    phase = explore_crashes(
        Toy(),
        [b"after"],
        start=storage.image(),
        path="given",
        expected=(b"before", b"beforeafter"),
    )
    assert phase.verdict is Verdict.VALID
    assert phase.counts["cut writes"] == len("beforeafter") - 1


def test_a_commit_that_changes_nothing_a_reader_sees_is_valid() -> None:
    """It was never found as it was before, because that is what it leaves."""
    phase = explore_crashes(Toy(), [b""], path="toy")
    assert (phase.verdict, phase.note) == (Verdict.VALID, "")


def test_without_operations_there_is_no_verdict() -> None:
    phase = explore_crashes(Toy(), [], path="toy")
    assert phase.verdict is Verdict.UNKNOWN and "never reached" in phase.note


# Bounds


def test_what_a_time_limit_left_out_is_said_in_the_bound() -> None:
    phase, whole = explored(Toy(), calls_at_most(10)), explored(Toy())
    assert (phase.verdict, phase.complete, whole.complete) == (Verdict.UNKNOWN, False, True)
    assert phase.note == "never reached: a call of a commit failed"
    tried = {name: phase.counts.get(name, 0) for name in (WHOLE, FAILING, CUT)}
    for name, count in tried.items():
        assert f"{whole.counts[name] - count} {name} were not tried" in phase.bound
        assert f"{name} were not tried" not in whole.bound
    assert 0 < phase.explored < whole.explored


def test_a_finding_counts_even_with_a_low_time_limit() -> None:
    assert explored(HeaderFirst(), calls_at_most(10)).verdict is Verdict.INVALID


@pytest.mark.parametrize("cuts_max", [None, 400, 50, 0])
def test_of_many_cuts_about_as_many_as_asked_for_are_tried_and_the_bound_says_which(cuts_max: int | None) -> None:
    phase = explore_crashes(Toy(), [b"x" * 700], path="toy", cuts_max=cuts_max)
    assert (phase.verdict, phase.complete) == (Verdict.VALID, True)
    steps = Judge(Toy(), [b"x" * 700], start=None, path="toy").trace.steps
    lengths = [len(all_cuts(step)) for step in steps if all_cuts(step)]
    nth = 1 if cuts_max is None else max(1, -(-sum(lengths) // max(1, cuts_max)))
    few = 3 * len(lengths)
    assert sum(lengths) // nth <= phase.counts[CUT] <= sum(lengths) // nth + len(lengths) + few
    assert ("at every length up to" if nth == 1 else f"at every {nth}th length") in phase.bound


@pytest.mark.parametrize("calls_max", [None, 20, 5, 0])
def test_of_many_failing_calls_every_nth_alike_is_tried_and_the_bound_says_which(calls_max: int | None) -> None:
    judge = Judge(KeepsLog(), OPERATIONS, start=None, path="toy")
    failures = list(judge.failures())
    plan = Plan.of(judge, 0, 1, failing_calls_max=calls_max)
    phase = crash_phase(plan, [Exploration(judge, "log", plan).run()])
    nth = 1 if calls_max is None else max(1, -(-len(failures) // max(1, calls_max)))
    alike = Counter(
        (each.operation, each.call.kind, each.call.path, each.fault.reason, each.fault.written_bytes > 0)
        for each in failures
    )
    assert phase.counts[FAILING] == sum(-(-count // nth) for count in alike.values())
    assert ("every call of a commit" if nth == 1 else f"every {nth}th failing once") in phase.bound


@pytest.mark.parametrize("size", [1, 7, 40])
def test_shares_of_the_points_find_what_one_process_finds(size: int) -> None:
    judge = Judge(KeepsLog(), OPERATIONS, start=None, path="toy")
    plan = Plan.of(judge, 30, 1)
    whole = crash_phase(plan, [Exploration(judge, "log", plan).run()])
    parts = [Exploration(judge, "log", plan).run([share]) for share in plan.shares(size)]
    phase = crash_phase(plan, parts)
    assert (phase.explored, phase.complete, phase.bound) == (whole.explored, whole.complete, whole.bound)
    assert {name: phase.counts[name] for name in (WHOLE, FAILING, CUT)} == {
        name: whole.counts[name] for name in (WHOLE, FAILING, CUT)
    }
    assert {each.property for each in phase.findings} == {each.property for each in whole.findings}


def test_recoveries_are_killed_after_whole_steps_but_not_after_torn_writes() -> None:
    phase = explored(Toy())
    whole = explore_crashes(Toy(), [b"x" * 20], path="toy")
    longer = explore_crashes(Toy(), [b"x" * 60], path="toy")
    assert phase.reached["a kill inside a recovery"] > 0
    assert longer.reached["a kill inside a recovery"] == whole.reached["a kill inside a recovery"]
    assert longer.counts["cut writes"] > whole.counts["cut writes"]


def test_progress_counts_the_disks_that_were_seen() -> None:
    seen: list[int] = []
    phase = explore_crashes(Toy(), OPERATIONS, path="toy", on_progress=lambda done, total: seen.append(done))
    assert seen == sorted(seen) and seen[0] == 0 < seen[-1] <= phase.explored


# Controls


@pytest.fixture
def controls_anew() -> Iterator[None]:
    crash.controls_of_run.cache_clear()
    yield
    crash.controls_of_run.cache_clear()


@pytest.mark.usefixtures("controls_anew")
def test_the_controls_pass_and_a_blind_explorer_fails_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*crash.failures()] == []
    monkeypatch.setattr("tornproof.harness.explorers.kills.judge.Judge._observe", lambda *_: 0)
    failed = [*crash.failures()]
    assert any("header first" in each for each in failed)
    phase = explored(Toy())
    assert phase.verdict is not Verdict.VALID and phase.controls == "; ".join(failed)
    assert "a positive control failed" in phase.note


def test_an_explorer_that_takes_an_end_for_a_rejection_fails_the_control_of_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class RejectionError(StorageError):
        def __init__(self, said: str) -> None:
            super().__init__("lock", "wait", said)

    monkeypatch.setattr("tornproof.harness.simulator.filesystem.step_bound.EndlessError", RejectionError)
    assert [*crash.failures()] == [f"the broken toy {LockFile.name!r} was not detected: {Property.ENDS}"]


@pytest.mark.usefixtures("controls_anew")
def test_a_control_that_is_not_detected_makes_the_verdict_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "CONTROLS", ((Toy(), Property.LOST),))
    phase = explored(Toy())
    assert phase.verdict is Verdict.UNKNOWN
    assert phase.controls == f"the broken toy 'toy' was not detected: {Property.LOST}"


# Findings


@pytest.mark.parametrize(
    "target", [*(target for target, _ in CONTROLS), Flickers(), KeepsLock()], ids=lambda target: target.name
)
def test_every_finding_is_replayed_from_its_evidence_as_json_and_not_on_a_sound_target(target: Toy) -> None:
    phase = explored(target)
    assert phase.findings
    for finding in phase.findings:
        read_back = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
        assert finding.evidence["target"] == target.name
        assert replay_crash(target, OPERATIONS, read_back, path="toy") is Verdict.INVALID
        assert replay_crash(Toy(), OPERATIONS, read_back, path="toy") in (Verdict.VALID, Verdict.UNKNOWN)


@pytest.mark.parametrize("words", REWORDED)
def test_a_finding_with_the_words_of_an_older_release_is_replayed(words: str) -> None:
    target = next(target for target, violated in CONTROLS if violated == REWORDED[words])
    finding = next(each for each in explored(target).findings if each.property == REWORDED[words])
    for property_, verdict in {words: Verdict.INVALID, "a reader can write": Verdict.UNKNOWN}.items():
        assert replay_crash(target, OPERATIONS, replace(finding, property=property_), path="toy") is verdict


def test_findings_are_the_same_in_every_run() -> None:
    assert explored(RecoversInPlace()).findings == explored(RecoversInPlace()).findings


def test_a_finding_names_the_step_and_the_nested_kill_that_it_needs() -> None:
    phase = explored(RecoversInPlace())
    finding = next(each for each in phase.findings if each.property == Property.LOST)
    assert finding.evidence["kills"] == [[8, 0], [2, 0, "write", "toy/state"]]
    assert (finding.evidence["acknowledged"], finding.evidence["started"]) == (1, 2)
    assert finding.evidence["step_kind"] == "truncate" and finding.evidence["path"] == "toy/new"
    assert finding.sentence.endswith(
        ". Killed after 8 steps, before the call to truncate toy/new, with 1 kill in recovery."
    )


@pytest.mark.parametrize(
    ("kill", "verdict"),
    [
        ([1, 0, "write", "toy/state"], Verdict.INVALID),
        ([9, 0, "write", "elsewhere/toy/state"], Verdict.INVALID),
        ([1, 0, "write", "toy/other"], Verdict.UNKNOWN),
        ([1, 0, "unlink", "toy/state"], Verdict.UNKNOWN),
        ([1, 0, None, None], Verdict.VALID),
        ([2, 0], Verdict.INVALID),
        ([1, 0], Verdict.VALID),
        ([9, 0], Verdict.UNKNOWN),
        ([1, 0, "write"], Verdict.UNKNOWN),
    ],
)
def test_a_recovery_is_killed_before_the_same_call_wherever_that_is_now(kill: list[object], verdict: Verdict) -> None:
    """It did not happen any more once a recovery made a few harmless calls before it, although nothing was mended."""
    finding = next(each for each in explored(RecoversInPlace()).findings if each.property == Property.LOST)
    kills = [finding.evidence["kills"][0], kill]
    changed = replace(finding, evidence={**finding.evidence, "kills": kills})
    assert replay_crash(RecoversInPlace(), OPERATIONS, changed, path="toy") is verdict


class LosesInCommitsAndInRecoveries(RecoversInPlace):
    """Empties the state before it writes the new one."""

    def write_anew(self, storage: Storage, path: str, content: bytes) -> None:
        with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
            file.truncate(0)
            with storage.open_for_writing(path.replace("new", "state")) as state:
                state.truncate(0)
            file.pwrite(content, 0)


def test_what_a_commit_loses_and_what_a_recovery_loses_are_two_findings_even_at_the_same_file() -> None:
    findings = [each for each in explored(LosesInCommitsAndInRecoveries()).findings if each.property == Property.LOST]
    kill_counts = {len(each.evidence["kills"]) for each in findings if each.evidence.get("path") == "toy/new"}
    assert kill_counts == {1, 2}


@pytest.mark.parametrize(
    "evidence",
    [
        {},
        {"kills": []},
        {"kills": [[99, 0]]},
        {"kills": [[0, 5]]},
        {"kills": [["x", 0]]},
        {"kills": 5},
        {"kills": [], "failure": {"operation": 0}},
        {
            "kills": [],
            "failure": {
                "operation": 9,
                "call": 0,
                "call_kind": "write",
                "path": "",
                "reason": "it is closed",
                "written_bytes": 0,
            },
        },
    ],
)
def test_evidence_that_does_not_fit_the_run_gives_no_verdict(evidence: dict[str, object]) -> None:
    finding = replace(explored(HeaderFirst()).findings[0], evidence=evidence)
    assert replay_crash(HeaderFirst(), OPERATIONS, finding, path="toy") is Verdict.UNKNOWN


def test_an_origin_comes_back_from_its_evidence() -> None:
    call = Call(kind=CallKind.PWRITE, path="table/_pm", content=b"12345678")
    failure = next(each for each in failures(3, [call]) if each.fault.written_bytes == 4)
    for origin in (Origin((Kill(3, 5),)), Origin((Kill(3, 5), Kill(1, 0))), Origin((Kill(2, 0),), failure)):
        again = origin_of(json.loads(json.dumps(origin.evidence())))
        assert again.kills == origin.kills
        assert again.recovery_kill_count == origin.recovery_kill_count
        if origin.failure is not None:
            assert again.failure is not None
            assert (again.failure.operation, again.failure.fault) == (3, origin.failure.fault)


# The plan


def write(size_bytes: int, offset_bytes: int = 0) -> Call:
    return Call(kind=CallKind.PWRITE, path="file", offset_bytes=offset_bytes, content=bytes(size_bytes))


@pytest.mark.parametrize("size_bytes", [0, 1, 2, 100, WHOLE_BYTES])
def test_a_short_write_is_cut_at_every_length(size_bytes: int) -> None:
    assert list(border_cuts(write(size_bytes))) == list(range(1, size_bytes))
    assert list(sampled_cuts(write(size_bytes))) == []


@pytest.mark.parametrize("offset_bytes", [0, 1, 511, 512, 5000])
@pytest.mark.parametrize("size_bytes", [WHOLE_BYTES + 1, 5000, 100_000])
def test_a_long_write_is_cut_at_its_ends_around_borders_of_the_file_and_between(
    size_bytes: int, offset_bytes: int
) -> None:
    step = write(size_bytes, offset_bytes)
    cuts, sample = border_cuts(step), sampled_cuts(step)
    assert list(cuts) == sorted(set(cuts)) and min(cuts) == 1 and max(cuts) == size_bytes - 1
    assert {*range(1, 65), *range(size_bytes - 64, size_bytes)} < set(cuts)
    for border in range(0, offset_bytes + size_bytes, 512 if size_bytes <= 5000 else 4096):
        for cut in (border - offset_bytes - 1, border - offset_bytes, border - offset_bytes + 1):
            assert cut in cuts or not 0 < cut < size_bytes
    assert not set(cuts) & set(sample) and 0 < len(sample) <= 64 and max(sample) < size_bytes
    assert [*Cuts().of(step)] == sorted({*cuts, *sample, size_bytes // 2})


@pytest.mark.parametrize("cuts_max", [10_000, 300, 100, 20])
def test_of_the_lengths_of_a_long_write_every_nth_is_cut_those_between_borders_too(cuts_max: int) -> None:
    """Those between were no longer cut, though the bound still promised them."""
    step = write(100_000, 5)
    promised = sorted({*border_cuts(step), *sampled_cuts(step)})
    nth = max(1, -(-len(promised) // cuts_max))
    assert [*Cuts.at_most(cuts_max, [step]).of(step)] == sorted({*promised[::nth], 1, 50_000, 99_999})


def test_each_call_fails_in_the_ways_in_which_it_can() -> None:
    kinds = (CallKind.PREAD, CallKind.LOAD, CallKind.PWRITE, CallKind.UNLINK, CallKind.FSYNC)
    calls = [Call(kind=kind, path="file", content=bytes(8)) for kind in kinds]
    planned = [(each.fault.at, each.fault.reason, each.fault.written_bytes) for each in failures(0, calls)]
    error, full = StorageReason.INPUT_OUTPUT, StorageReason.NO_SPACE
    assert planned == [
        (0, error, 0),
        (2, error, 0),
        (2, full, 0),
        (2, full, 1),
        (2, full, 4),
        (2, full, 7),
        (3, error, 0),
        (4, error, 0),
        (4, full, 0),
    ]


def test_bounds_count_what_was_acknowledged_and_what_had_started() -> None:
    trace = Trace(start=MemoryStorage(), steps=(), started=(2, 5, 9), acknowledged=(5, 8, 9), observations=(0, 1, 2, 3))
    bounds = {point: trace.bounds(*point) for point in ((0, 0), (2, 0), (2, 1), (3, 0), (5, 0), (5, 2), (8, 0), (9, 0))}
    assert bounds == {
        (0, 0): (0, 0),
        (2, 0): (0, 0),
        (2, 1): (0, 1),
        (3, 0): (0, 1),
        (5, 0): (1, 1),
        (5, 2): (1, 2),
        (8, 0): (2, 2),
        (9, 0): (3, 3),
    }


@pytest.mark.nightly
def test_what_a_reader_saw_on_a_disk_is_what_it_sees_on_every_disk_with_the_same_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: Counter[bool] = Counter()
    remembered = Judge._seen_on

    def both(judge: Judge, storage: MemoryStorage) -> object:
        is_known = storage.digest() in judge._seen
        seen = remembered(judge, storage)
        assert seen == judge._read(storage.fork_process())
        compared[is_known] += 1
        return seen

    monkeypatch.setattr(Judge, "_seen_on", both)
    assert [*crash.failures()] == []
    start = made_image()
    operations = crash_operations(start, MADE_PATH)[:2]
    judge = Judge(TableTarget(encode=remembered_encoder()), operations, start=start, path=MADE_PATH)
    with remembered_decoding():
        Exploration(judge, "table", Plan.of(judge, 40, 1)).run()
    assert min(compared.values()) > 500, compared


@pytest.mark.parametrize(("written_bytes", "is_taken"), [(0, False), (1, True)])
def test_the_toy_that_takes_a_part_for_the_whole_takes_nothing_for_nothing(written_bytes: int, is_taken: bool) -> None:
    """Otherwise it would be broken without a write that fails after a part of it."""
    inner = MemoryStorage()
    inner.mkdir("toy")
    fault = Fault(at=0, reason=StorageReason.NO_SPACE, among=frozenset({CallKind.PWRITE}), written_bytes=written_bytes)
    storage = FaultyStorage(inner, fault)
    with nullcontext() if is_taken else pytest.raises(StorageError):
        TakesPartForWhole().write_anew(storage, "toy/state", b"letters")
    assert storage.fired[fault] == 1
