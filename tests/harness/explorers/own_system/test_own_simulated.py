"""A format that is not ours under every explorer of the simulator, and under damage."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from broken_toys import FOUND, Ends
from depth import sampled
from manifest_log import MISTAKES, Log
from random_runs import reread
from recorded_phases import AsRecorded

from tornproof.harness.common.effort import EFFORTS, Bounds
from tornproof.harness.common.verdict import Finding, Phase, Verdict, calls_at_most
from tornproof.harness.counterexamples.shrink import NotReproducedError
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Cut, Flip, Kind
from tornproof.harness.explorers.own_system.damage import (
    CONTROLS,
    KINDS,
    PROPERTY,
    Outcome,
    Result,
    Run,
    explore_damage,
    failed_controls,
    replay_damage,
)
from tornproof.harness.explorers.own_system.simulated import (
    cases_of,
    explore_simulated,
    replay_simulated,
    simulated_execution,
)
from tornproof.harness.explorers.simulated_phases import NOT_MADE_SMALL, NOT_SHRUNK
from tornproof.harness.simulator.process.case import NotExplorableError, Readers
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.scenario import Explorer
from tornproof.harness.systems.toy import HEADER_BYTES, HeaderFirst, NeverDone, Toy, ToyWriter
from tornproof.testing import PATH, EntryKind, FunctionTarget, OpenMode, Storage, target

OPERATIONS = (b"one", b"twos", b"threes")
SMALL = Bounds.of(EFFORTS["small"])
WORD_BYTES = 8
FOUND_BY = {
    "no directory sync": {Explorer.POWER, Explorer.PRODUCT},
    "no sync of the manifest": {Explorer.POWER, Explorer.PRODUCT},
    "no sync of the log": {Explorer.POWER, Explorer.PRODUCT},
    "manifest before data": {Explorer.POWER, Explorer.PRODUCT, Explorer.SCHEDULES},
    "trusts the file's size": {Explorer.POWER, Explorer.PRODUCT},
}
EXPLORERS = tuple(explorer for explorer in Explorer if explorer is not Explorer.MEMORY)


def explored(explorer: Explorer, of: FunctionTarget, **arguments: Any) -> Phase:
    cases = cases_of(explorer, of, OPERATIONS, [Readers(read_count=2, style=style) for style in of.reader_styles])
    return explore_simulated(explorer, cases, bounds=SMALL, **arguments)


@pytest.mark.parametrize("explorer", sampled(2, EXPLORERS, seed=1))
def test_the_sound_format_is_valid_and_says_what_that_is_worth(explorer: Explorer, as_recorded: AsRecorded) -> None:
    phase = explored(explorer, target(Log()))
    as_recorded(phase)
    assert (phase.verdict, phase.controls, phase.note) == (Verdict.VALID, "passed", "")
    # Of disks that are alike for a recovery only some are cut again.
    assert phase.complete or (explorer is Explorer.POWER and "N-512 complete for one cut" in phase.bound)
    assert phase.explored > 100 and phase.findings == ()


@pytest.mark.nightly
@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("name", sampled(1, list(FOUND_BY)))
def test_each_mistake_is_found_where_it_shows_and_replays_until_it_is_mended(name: str, explorer: Explorer) -> None:
    broken = target(MISTAKES[name])
    phase = explored(explorer, broken)
    assert (phase.verdict is Verdict.INVALID) is (explorer in FOUND_BY[name])
    for finding in phase.findings[:1]:
        assert finding.evidence["target"] == name and simulated_execution(finding)
        again = reread(finding)
        assert {replay_simulated(broken, OPERATIONS, again) for _ in range(10)} == {Verdict.INVALID}
        assert replay_simulated(target(Log()), OPERATIONS, again) in (Verdict.VALID, Verdict.UNKNOWN)


def test_what_a_power_cut_took_is_said_with_the_names_of_the_targets_fields() -> None:
    phase = explored(Explorer.POWER, target(MISTAKES["no sync of the manifest"]), models=("B",))
    text = "\n".join(simulated_execution(phase.findings[0]))
    assert "manifest has lost what was written to bytes 0 to 20 (record count, checksum of the log, " in text
    phase = explored(Explorer.POWER, target(MISTAKES["no directory sync"]), models=("B",))
    assert "manifest is the file of before" in "\n".join(simulated_execution(phase.findings[0]))


@pytest.mark.nightly
def test_the_first_finding_needs_the_mildest_model_that_shows_it() -> None:
    def model_of(name: str) -> str:
        (cut,) = explored(Explorer.POWER, target(MISTAKES[name])).findings[0].evidence["log"]
        return str(cut.get("model", cut["kind"]))

    assert (model_of("manifest before data"), model_of("no directory sync")) == ("kill", "B")
    assert model_of("trusts the file's size") == "C-4096"


def test_what_a_second_recovery_changes_is_said_once_with_its_bytes_wherever_the_power_was_cut() -> None:
    """It came once for each place of the cut, and nothing said what was changed."""
    judged_by_files = target(NeverDone())
    assert isinstance(judged_by_files, FunctionTarget)
    judged_by_files = replace(judged_by_files, only_reads_count=False)
    (finding,) = explored(Explorer.POWER, judged_by_files, models=("B", "C-512")).findings
    assert finding.property == Property.IDEMPOTENT
    assert simulated_execution(finding) == ["A second recovery changes bytes 1 to 2 (b'' → b'.') of openings."]
    assert replay_simulated(judged_by_files, OPERATIONS, reread(finding)) is Verdict.INVALID


class CutsFirst:
    """Cuts its log before what it has made of it is on disk."""

    name = "cuts first"

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        for name in ("state", "log"):
            storage.open_for_writing(f"{path}/{name}", OpenMode.NEW).close()
        storage.sync_directory(path)

    def read(self, storage: Storage, path: str) -> bytes:
        contents = []
        for name in ("log", "state"):
            with storage.open_for_reading(f"{path}/{name}") as file:
                contents.append(file.pread(file.size_bytes(), 0))
        return contents[0] or contents[1]

    def recover(self, storage: Storage, path: str) -> None:
        content = self.read(storage, path)
        with storage.open_for_writing(f"{path}/log") as log:
            log.truncate(0)
            log.fsync()
        with storage.open_for_writing(f"{path}/new", OpenMode.EXISTING_OR_NEW) as new:
            new.truncate(0)
            new.pwrite(content, 0)
            new.fsync()
        storage.rename(f"{path}/new", f"{path}/state")
        storage.sync_directory(path)

    def commit(self, storage: Storage, path: str, letters: bytes) -> None:
        with storage.open_for_writing(f"{path}/log") as log:
            log.pwrite(self.read(storage, path) + letters, 0)
            log.fsync()


class KeepsTail(CutsFirst):
    """Appends behind the beginning of a line that a crash has left."""

    name = "keeps a tail"

    def read(self, storage: Storage, path: str) -> bytes:
        content = super().read(storage, path)
        return content[: content.rfind(b"\n") + 1]

    def recover(self, storage: Storage, path: str) -> None:
        """Nothing is done."""

    def commit(self, storage: Storage, path: str, letters: bytes) -> None:
        with storage.open_for_writing(f"{path}/log") as log:
            log.pwrite(letters, log.size_bytes())
            log.pwrite(b"\n", log.size_bytes())
            log.fsync()


@pytest.mark.parametrize(
    ("broken", "cure"),
    [
        (CutsFirst(), "the step “cut 3 → 0 bytes (log)” comes after: sync directory ."),
        (KeepsTail(), "the next session finds log without what the one before left in it: append bytes 0 to "),
    ],
    ids=["cuts first", "keeps a tail"],
)
def test_what_a_power_cut_kept_is_said_and_that_it_must_come_later_or_be_removed(broken: CutsFirst, cure: str) -> None:
    """Of small changes none prevented it, and the disk had what the model allows."""
    text = "\n".join(simulated_execution(explored(Explorer.POWER, target(broken), models=("B",)).findings[0]))
    assert "the disk has what model B allows: log already has the change of bytes 0 to " in text
    assert f"It does not happen when {cure}" in text


class Record:
    """An operation that no file can hold."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __repr__(self) -> str:
        return f"Record({self.content!r})"


class RecordLog(Log):
    def commit(self, storage: Storage, path: str, record: Any) -> None:
        super().commit(storage, path, record.content)


def test_operations_that_no_file_can_hold_are_those_of_the_test() -> None:
    broken, operations = target(RecordLog("records", syncs_log=False)), list(map(Record, OPERATIONS))
    cases = cases_of(Explorer.POWER, broken, operations, ())
    phase = explore_simulated(Explorer.POWER, cases, bounds=SMALL, models=("C-4096",))
    again = reread(phase.findings[0])
    assert replay_simulated(broken, operations, again) is Verdict.INVALID
    assert replay_simulated(broken, [], again) is Verdict.UNKNOWN


class KeepsReading(Log):
    """Broken: a reader that stays open believes the manifest of its first read."""

    @contextmanager
    def reader(self, storage: Storage, path: str) -> Iterator[Any]:
        first = self.read(storage, path)
        yield lambda: first


def test_a_reader_that_stays_open_is_explored_beside_one_that_does_not() -> None:
    broken = target(KeepsReading("keeps reading"))
    for explorer in (Explorer.SCHEDULES, Explorer.PRODUCT):
        found = {finding.property for finding in explored(explorer, broken).findings}
        assert found and found <= {Property.STALE, Property.BEHAVIOUR}


def test_a_mistake_while_a_finding_is_made_small_does_not_lose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **named: Any) -> Finding:
        raise AssertionError("it does not apply")

    broken = target(MISTAKES["no directory sync"])
    for explorer, maker in ((Explorer.POWER, "as_log"), (Explorer.PRODUCT, "finding_or_moves")):
        whole = explored(explorer, broken)
        monkeypatch.setattr(f"tornproof.harness.explorers.simulated_phases.{maker}", fails)
        raw = explored(explorer, broken)
        assert {each.property for each in raw.findings} >= {each.property for each in whole.findings}
        note = f"{NOT_MADE_SMALL}: AssertionError: it does not apply"
        assert {each.evidence["note"] for each in raw.findings} == {note}
        # What the explorer saw replays as it is.
        assert {replay_simulated(broken, OPERATIONS, reread(each)) for each in raw.findings} == {Verdict.INVALID}


@pytest.mark.parametrize("is_shrunk", [True, False])
def test_every_finding_of_a_file_that_is_replaced_without_a_sync_replays(
    is_shrunk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shrinking looked for the torn file by its name before the power cut, and what was then not shrunk had no case."""

    def commit(storage: Storage, path: str, operation: bytes) -> None:
        with storage.open_for_writing(f"{path}/new", OpenMode.EXISTING_OR_NEW) as file:
            file.truncate(0)
            file.pwrite(operation, 0)
        storage.rename(f"{path}/new", f"{path}/state")
        storage.sync_directory(path)

    def fails(*arguments: Any, **named: Any) -> Finding:
        raise NotReproducedError("by any log")

    replaced = target(name="replaced", create=Toy().create, read=Toy().read, commit=commit)
    if not is_shrunk:
        monkeypatch.setattr("tornproof.harness.counterexamples.make.finding_of", fails)
    cases = cases_of(Explorer.PRODUCT, replaced, OPERATIONS[:2], [Readers()])
    findings = explore_simulated(Explorer.PRODUCT, cases, models=("N-512",), bounds=SMALL).findings
    assert {"log" in each.evidence for each in findings if each.evidence.get("note") != NOT_SHRUNK} == {is_shrunk}
    assert {replay_simulated(replaced, OPERATIONS[:2], reread(each)) for each in findings} == {Verdict.INVALID}


def linked() -> FunctionTarget:
    """Return a target that reads by one name what it writes by another one of the same file, letter by letter."""

    def create(storage: Storage, path: str) -> None:
        storage.mkdir(path)
        storage.open_for_writing(f"{path}/log", OpenMode.NEW).close()
        storage.link(f"{path}/log", f"{path}/current")

    def read(storage: Storage, path: str) -> bytes:
        with storage.open_for_reading(f"{path}/current") as file:
            return file.pread(file.size_bytes(), 0)

    def commit(storage: Storage, path: str, operation: bytes) -> None:
        with storage.open_for_writing(f"{path}/log") as file:
            for letter in operation:
                file.pwrite(bytes([letter]), file.size_bytes())

    return target(name="linked", create=create, read=read, commit=commit)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_what_is_written_by_one_name_of_a_file_is_read_by_another_one_from_the_start_on(explorer: Explorer) -> None:
    """Links that a target makes when it is created became separate files, so that its readers saw no commit, whole."""
    operations = (b"ab", b"cd")
    cases = cases_of(explorer, linked(), operations, [Readers()])
    models = () if explorer is Explorer.SCHEDULES else ("A",)
    phase = explore_simulated(explorer, cases, models=models, bounds=SMALL)
    assert phase.verdict is Verdict.INVALID
    assert {replay_simulated(linked(), operations, reread(each)) for each in phase.findings} == {Verdict.INVALID}


@pytest.mark.parametrize("explorer", [Explorer.POWER, Explorer.PRODUCT])
def test_a_commit_that_changes_nothing_a_reader_sees_is_valid(explorer: Explorer) -> None:
    """It was never found as it was before, because that is what it leaves."""
    cases = cases_of(explorer, target(Toy()), [b""], [Readers()])
    phase = explore_simulated(explorer, cases, models=("A",), bounds=SMALL)
    assert (phase.verdict, phase.note) == (Verdict.VALID, "")


@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("end", FOUND)
def test_a_reader_that_exits_is_a_finding_of_every_explorer_of_the_simulator_and_replays(
    explorer: Explorer, end: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the test, and the finding was lost."""
    phase = briefly_explored(explorer, Ends(end), monkeypatch)
    found = [each for each in phase.findings if each.property == Property.DISORDERLY]
    assert f"{end.__name__}: the count is wrong" in found[0].sentence
    assert replay_simulated(target(Ends(end)), OPERATIONS[:1], reread(found[0])) is Verdict.INVALID


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_an_interrupt_ends_every_explorer_of_the_simulator(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        briefly_explored(explorer, Ends(KeyboardInterrupt), monkeypatch)


def briefly_explored(explorer: Explorer, of: Ends, monkeypatch: pytest.MonkeyPatch) -> Phase:
    """Explore one commit under one model, without the controls, which take longest."""
    monkeypatch.setattr("tornproof.harness.explorers.simulated_phases._controls", lambda *_: ())
    cases = cases_of(explorer, target(of), OPERATIONS[:1], [Readers()])
    models = () if explorer is Explorer.SCHEDULES else ("A",)
    return explore_simulated(explorer, cases, models=models, bounds=SMALL)


class RecordsOfWords:
    """A log alone, whose records begin with their size and a checksum; broken if nobody looks at the checksum."""

    def __init__(self, name: str, *, looks_at_checksums: bool) -> None:
        self.name = name
        self._looks_at_checksums = looks_at_checksums

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        storage.open_for_writing(f"{path}/log", OpenMode.NEW).close()
        storage.sync_directory(path)

    def read(self, storage: Storage, path: str) -> tuple[bytes, ...]:
        with storage.open_for_reading(f"{path}/log") as log:
            content = log.pread(log.size_bytes(), 0)
        records: list[bytes] = []
        while len(content) >= WORD_BYTES:
            size_bytes, checksum = struct.unpack("<II", content[:WORD_BYTES])
            record, content = content[WORD_BYTES:][:size_bytes], content[WORD_BYTES + size_bytes :]
            is_whole = 0 < size_bytes == len(record)
            if not is_whole or (self._looks_at_checksums and crc32(record) != checksum):
                break
            records.append(record)
        return tuple(records)

    def recover(self, storage: Storage, path: str) -> None:
        content = b"".join(map(self._stored, self.read(storage, path)))
        with storage.open_for_writing(f"{path}/log") as log:
            log.truncate(len(content))
            # A sync may have failed, after which the next one makes durable only what is written again.
            log.pwrite(content, 0)
            log.fsync()

    def commit(self, storage: Storage, path: str, record: bytes) -> None:
        with storage.open_for_writing(f"{path}/log") as log:
            log.pwrite(self._stored(record), sum(len(self._stored(each)) for each in self.read(storage, path)))
            log.fsync()

    def _stored(self, record: bytes) -> bytes:
        return struct.pack("<II", len(record), crc32(record)) + record


def of_words(word_count: int, **arguments: Any) -> Phase:
    """Cut the power of a log under all models, while two records of so many words are appended."""
    log = target(RecordsOfWords("log", **arguments))
    records = [letter * (WORD_BYTES * word_count - 3) for letter in (b"a", b"b")]
    return explore_simulated(Explorer.POWER, cases_of(Explorer.POWER, log, records, ()), bounds=SMALL)


def test_a_checksum_that_nobody_looks_at_is_found_without_any_choice_of_models() -> None:
    """Of 36 disks that C-8 left, 18 were tried; a record with a size and without its last word was not among them."""
    wrong = of_words(2, looks_at_checksums=False)
    assert wrong.verdict is Verdict.INVALID
    assert all("model C-8 allows" in "\n".join(simulated_execution(finding)) for finding in wrong.findings)
    right = of_words(2, looks_at_checksums=True)
    assert (right.verdict, right.complete) == (Verdict.VALID, True) and "C-8 complete" in right.bound


def test_a_sample_of_the_disks_of_one_model_is_not_complete() -> None:
    phase = of_words(9, looks_at_checksums=True)
    assert (phase.verdict, phase.complete) == (Verdict.VALID, False)
    (sampled_model,) = (part for part in phase.bound.split("; ") if " a sample of " in part)
    assert sampled_model.startswith("C-8 ")


# Damage


def run_of(log: Log, **options: Any) -> Run:
    return Run.of(target(log), OPERATIONS, path=PATH, **options)


def test_every_bit_and_length_of_a_sound_format_is_tried_and_none_is_read_as_another_state() -> None:
    run = run_of(Log())
    phase = explore_damage(run, cases=10_000)
    size_bytes = sum(map(len, run.contents.values()))
    assert (phase.verdict, phase.complete, phase.controls) == (Verdict.VALID, True, "passed")
    assert phase.counts[Kind.FLIP.value] == BITS_IN_BYTE * size_bytes and phase.counts[Kind.CUT.value] == size_bytes
    assert sum(phase.counts[outcome.value] for outcome in Outcome) == phase.explored
    assert phase.counts[Outcome.REJECTED.value] > 250 and phase.counts[Outcome.OLDER.value] > 0
    strict = explore_damage(run_of(Log(), allows_older=False), cases=10_000)
    assert strict.verdict is Verdict.INVALID and "sees the state before the last" in strict.findings[0].sentence


def test_damage_that_is_read_is_found_with_its_field_and_replays() -> None:
    run = run_of(MISTAKES["compares nothing"])
    phase = explore_damage(run, cases=10_000)
    kinds = {finding.evidence["kind"] for finding in phase.findings}
    assert kinds == {"flip", "cut", *(kind.value for kind in KINDS[2:])}
    for finding in phase.findings:
        assert {replay_damage(run, reread(finding)) for _ in range(10)} == {Verdict.INVALID}
    unread = replace(phase.findings[0], evidence={**phase.findings[0].evidence, "bit": 1 << 40})
    assert replay_damage(run, unread) is Verdict.UNKNOWN
    labelled = explore_damage(Run.of(target(Log(), read=unchecked_count), OPERATIONS, path=PATH), cases=10_000)
    assert {finding.evidence["field"] for finding in labelled.findings} == {"record count"}
    assert labelled.findings[0].sentence.startswith("With bit 2 of byte 0 of manifest flipped (record count), ")


@pytest.mark.parametrize("part", ["create", "read", "commit", "recover"])
def test_damage_of_what_waits_for_ever_without_any_is_not_explored(part: str) -> None:
    """What was to be damaged was written and read without a bound on the calls, and the test hung."""

    def waits(storage: Storage, path: str, operation: bytes = b"") -> bytes:
        while storage.kind(f"{path}/never") is not EntryKind.FILE:
            pass
        return b""

    log = Log()
    setattr(log, part, waits)
    with pytest.raises(NotExplorableError, match="the run without damage does not end: livelock"):
        run_of(log)


@pytest.mark.parametrize("end", FOUND)
def test_a_reader_that_exits_at_damage_is_a_finding(end: type[BaseException]) -> None:
    """It ended the test, and the finding was lost."""
    result = Run.of(Ends(end), OPERATIONS, path=PATH).judge(Cut("state", HEADER_BYTES))
    assert (result.outcome, result.violated) == (Outcome.SILENT, Property.DISORDERLY)
    assert result.sentence == f"a reader ended with {end.__name__}: the count is wrong"


def test_an_interrupt_ends_the_exploration_of_damage() -> None:
    run = Run.of(Ends(KeyboardInterrupt), OPERATIONS, path=PATH)
    with pytest.raises(KeyboardInterrupt):
        run.judge(Cut("state", HEADER_BYTES))


class EmptiesWhatItMaps(HeaderFirst):
    """Its recovery empties a file with too few letters, and looks at the header again."""

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        with storage.open_for_writing(f"{path}/state") as file, file.map(HEADER_BYTES) as header:
            if file.size_bytes() < HEADER_BYTES + header.load_u64(0):
                file.truncate(0)
                header.store_u64(0, 0)
        with super().open_writer(storage, path) as writer:
            yield writer


def test_a_mapping_beyond_the_end_of_a_damaged_file_is_a_finding() -> None:
    """The bus error ended the test, because it is no `Exception`."""
    result = Run.of(EmptiesWhatItMaps(), OPERATIONS, path=PATH).judge(Cut("state", HEADER_BYTES))
    assert (result.outcome, result.violated) == (Outcome.SILENT, Property.DISORDERLY)
    assert result.sentence.startswith("a writer that is opened met a bus error: ")


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no")], ids=repr)
def test_damage_of_what_breaks_without_any_is_not_explored(error: BaseException) -> None:
    def breaks(storage: Storage, path: str, operation: bytes) -> None:
        raise error

    broken = target(create=Toy().create, read=Toy().read, commit=breaks)
    with pytest.raises(NotExplorableError, match=f"the run without damage ended with {type(error).__name__}: no"):
        Run.of(broken, OPERATIONS, path=PATH)


def test_damage_by_one_name_of_a_file_is_read_by_another_one() -> None:
    run = Run.of(linked(), OPERATIONS, path=PATH)
    assert [run.judge(Flip(file, 0)).outcome for file in ("log", "current")] == [Outcome.SILENT] * 2


def test_of_two_fields_of_one_file_that_are_read_unchecked_each_is_a_finding() -> None:
    phase = explore_damage(Run.of(target(Log(), read=unchecked_numbers), OPERATIONS, path=PATH), cases=10_000)
    flipped = [finding.evidence["field"] for finding in phase.findings if finding.evidence["kind"] == "flip"]
    assert flipped == ["record count", "checksum of the log"]


def unchecked_numbers(storage: Storage, path: str) -> bytes:
    with storage.open_for_reading(f"{path}/manifest") as file:
        return file.pread(8, 0)


def unchecked_count(storage: Storage, path: str) -> int:
    with storage.open_for_reading(f"{path}/manifest") as file:
        return int.from_bytes(file.pread(4, 0), "little")


def test_of_more_damages_than_cases_a_sample_is_tried_that_meets_each_bit_of_a_byte() -> None:
    run = run_of(Log())
    phase = explore_damage(run, cases=200)
    assert not phase.complete and phase.counts[Kind.FLIP.value] < 60 and "of 264 bits flipped" in phase.bound
    cut = explore_damage(run, cases=200, has_time=calls_at_most(3))
    assert cut.explored == 3 and not cut.complete


@pytest.mark.parametrize(
    "blinded",
    [
        *(f"kind {kind}" for kind in KINDS),
        "reading",
        "reopening",
        "errors",
    ],
)
def test_a_blinded_injector_or_judge_fails_its_control(blinded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    damages = Run.damages
    if blinded.startswith("kind "):
        monkeypatch.setattr(
            Run,
            "damages",
            lambda self, kind, *sizes: iter(()) if f"kind {kind}" == blinded else damages(self, kind, *sizes),
        )
    elif blinded == "reading":
        monkeypatch.setattr(Run, "_read", lambda self, storage, who: Result(Outcome.HARMLESS))
    elif blinded == "reopening":
        monkeypatch.setattr(Run, "_reopened", lambda self, storage: None)
    else:
        judge = Run.judge
        monkeypatch.setattr(Run, "judge", lambda self, damage: blind_to_errors(judge(self, damage)))
    assert failed_controls()


def blind_to_errors(result: Result) -> Result:
    is_error = result.violated in (Property.DISORDERLY, Property.ENDS)
    return Result(Outcome.REJECTED) if is_error else result


def test_each_control_is_shown_by_its_kind_alone_and_the_sound_one_by_none() -> None:
    assert failed_controls() == []
    checks = [(toy, kind) for toy, kind, violated in CONTROLS if violated == PROPERTY][: len(KINDS)]
    assert {kind for _, kind in checks} == set(KINDS)
    for toy, shown_by in checks:
        run = Run.of(toy, [b"one", b"twos", b"threes"], path="toy")
        for kind in KINDS:
            found = {run.judge(damage).outcome for damage in run.damages(kind, (32,))}
            assert (Outcome.SILENT in found) is (kind is shown_by), (toy.name, kind)


def test_a_file_that_is_damaged_elsewhere_leaves_the_others_as_they_are() -> None:
    run = run_of(Log())
    assert run.judge(Flip("log", 0)).outcome is Outcome.REJECTED
    assert run.judge(Cut("log", 0)).outcome is Outcome.REJECTED
