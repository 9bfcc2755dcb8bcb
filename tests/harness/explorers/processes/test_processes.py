"""Runs of real processes on real files end as they should; the table after them is checked, and faults are found."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from busy import busy_machine
from depth import nightly, sampled
from msgspec import structs

from tornproof.harness.check import capture_table
from tornproof.harness.common.history import EventKind, History, HistoryWriter, decode_file, read_history
from tornproof.harness.common.verdict import Phase, Verdict, always
from tornproof.harness.explorers.processes import explorer as processes
from tornproof.harness.explorers.processes import workers
from tornproof.harness.explorers.processes import workers as process_workers
from tornproof.harness.explorers.processes.expected import ExpectedVersion, Operation, new_rows
from tornproof.harness.explorers.processes.explorer import HISTORIES, _phase, _what_is_left, explore_processes
from tornproof.harness.explorers.processes.judge import KILLED_IN_COMMIT, READ_AGAIN, READ_DURING_COMMIT
from tornproof.harness.explorers.processes.messages import Failure, Patch, worker
from tornproof.harness.explorers.processes.plan import plan_kills
from tornproof.harness.explorers.processes.reader import Style
from tornproof.harness.explorers.processes.run import Outcome, Run, Settings
from tornproof.harness.explorers.processes.start import NEW_TARGET_COUNT, Start, _form, prepare_table
from tornproof.harness.explorers.processes.stop import COMMIT_POSITIONS, POSITIONS
from tornproof.harness.explorers.processes.workers import Member, Workers
from tornproof.harness.parallel.fork_server import ForkServer
from tornproof.impl.errors import StorageError
from tornproof.impl.layout.txn import PARQUET_FORMAT
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import pin_committed, take_writer_lock
from tornproof.impl.write.table_writer import open_writer

FAULTS = "tornproof.harness.mutation.processes"
OPEN_WRITER = "tornproof.harness.explorers.processes.writer:open_writer_of_copy"
BUSY_PROCESS_COUNT = 4


def explore(directory: Path, **changes: Any) -> Phase:
    """A run on a new table, or with `image` and `path` on another one."""
    settings: dict[str, Any] = {"image": None, "path": "/trades", "seed": 1, "kills": 1, **changes}
    image, path = settings.pop("image"), settings.pop("path")
    directory.mkdir()
    return explore_processes(image, path, directory=directory, **settings)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the whole run is."""
    return tmp_path_factory.mktemp("whole") / "run"


@pytest.fixture(scope="module")
def whole_run(directory: Path) -> Phase:
    return explore(directory, kills=len(POSITIONS))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process numbers of a run, which are not reused before the parent has waited for the processes."""
    numbers: list[int] = []
    start = ForkServer.start

    def note(server: ForkServer, run: Callable[..., None], *arguments: object) -> tuple[int, Any]:
        process, connection = start(server, run, *arguments)
        numbers.extend((process, server._process.pid))
        return process, connection

    monkeypatch.setattr(ForkServer, "start", note)
    return numbers


def are_gone(processes: list[int]) -> bool:
    for process in processes:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            continue
        return False
    return bool(processes)


def test_no_acknowledged_commit_is_lost_and_no_reader_sees_a_wrong_snapshot(whole_run: Phase) -> None:
    assert (whole_run.verdict, whole_run.note, whole_run.controls) == (Verdict.VALID, "", "passed"), whole_run.findings
    counts = whole_run.counts
    assert (counts["writers"], counts["kills of the writer"], counts["kills of readers"]) == (25, 24, 4)
    assert counts["commits"] > counts["acknowledged"] > 25
    assert counts["anomalies"] == whole_run.varying["refused reads"] == 0
    assert whole_run.explored == 25 + counts["commits"]
    assert whole_run.varying["reads"] >= 4 * 24 and not whole_run.complete
    writers = "25 writers one after the other, 24 of them killed at a chosen call"
    assert f"{writers}, and their {counts['commits']} commits" in whole_run.bound
    assert "the 4 readers beside them run freely" in whole_run.bound


def test_every_position_is_reached_independently_of_timing(whole_run: Phase) -> None:
    assert {f"killed at {position}" for position in COMMIT_POSITIONS} < whole_run.reached.keys()
    assert {point for point, is_reached in whole_run.reached.items() if is_reached != 1} == set()
    assert whole_run.varying["killed inside a recovery"] == 8 and whole_run.varying["killed inside a purge"] == 3


def test_all_readers_read_during_every_commit_that_is_killed(whole_run: Phase, directory: Path) -> None:
    events = read_history((directory / HISTORIES).glob("*.history")).events
    begun: dict[str, int] = {}
    inside: set[str] = set()
    is_pending, seen = False, 0
    for event in events:
        match event.kind:
            case EventKind.COMMIT_START:
                is_pending, begun, inside = True, {}, set()
            case EventKind.COMMIT_ACKNOWLEDGED | EventKind.RECOVERED:
                is_pending = False
            case EventKind.READ_START:
                begun[event.client] = event.sequence
            case EventKind.READ_END if event.client in begun:
                inside.add(event.client)
            case EventKind.KILLED if event.client == "writer" and is_pending:
                assert inside == {f"reader-{number}" for number in range(4)}
                is_pending, seen = False, seen + 1
    assert seen == whole_run.varying[KILLED_IN_COMMIT] == len(COMMIT_POSITIONS)


def fixed_part(phase: Phase) -> tuple[object, ...]:
    assert phase.verdict is Verdict.VALID, phase.note
    return phase.explored, phase.complete, phase.bound, phase.counts, phase.reached, phase.controls, phase.note


@pytest.mark.nightly
def test_a_busy_machine_changes_no_number(tmp_path: Path) -> None:
    alone = explore(tmp_path / "alone", readers=2)
    with busy_machine(BUSY_PROCESS_COUNT):
        beside = explore(tmp_path / "beside", readers=2)
    assert fixed_part(alone) == fixed_part(beside)


def test_no_process_outlives_a_run_that_is_interrupted(tmp_path: Path, started: list[int]) -> None:
    def interrupt(done: int, total: int | None) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(tmp_path / "run", on_progress=interrupt)
    assert len(started) == 2 * 5 and are_gone(started)


def test_without_kills_a_run_is_judged_all_the_same(tmp_path: Path, started: list[int]) -> None:
    phase = explore(tmp_path / "run", kills=0, readers=1)
    assert (phase.verdict, phase.counts["kills of the writer"], phase.counts["writers"]) == (Verdict.VALID, 0, 1)
    assert phase.reached[READ_DURING_COMMIT] == phase.reached[READ_AGAIN] == 1
    assert are_gone(started)


@pytest.mark.nightly
def test_a_planned_position_of_a_commit_without_a_kill_leaves_the_verdict_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phase = explore(tmp_path / "run", kills=2, readers=1)
    assert (phase.verdict, phase.note) == (Verdict.VALID, "")
    reached = {name for name, is_reached in phase.reached.items() if is_reached}
    others = (plan for plan in plan_kills(1) if f"killed at {plan.kill_position}" not in reached)
    monkeypatch.setattr(processes, "plan_kills", lambda seed: others)
    phase = explore(tmp_path / "again", kills=2, readers=1)
    assert (phase.verdict, phase.counts["kills of the writer"]) == (Verdict.UNKNOWN, 2)
    assert phase.note.startswith("never reached: ") and 1 <= phase.note.count("killed at commit: ") <= 2


def test_a_time_limit_is_reported_as_a_smaller_bound(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    phase = explore(
        tmp_path / "run",
        kills=1_000,
        readers=2,
        # On a busy machine, one writer may end before a reader has read twice.
        has_time=lambda: len(seen) < 3,
        on_progress=lambda *progress: seen.append(progress),
    )
    assert seen == [(1, 1_001), (2, 1_001), (3, 1_001)]
    assert (phase.verdict, phase.note) == (Verdict.VALID, "")
    assert "3 of 1001 writers one after the other, 3 of them killed" in phase.bound
    assert phase.explored == 3 + phase.counts["commits"]


def test_without_time_nothing_is_explored(tmp_path: Path) -> None:
    phase = explore(tmp_path / "run", has_time=lambda: False)
    assert (phase.verdict, phase.explored) == (Verdict.UNKNOWN, 0)
    assert "the time was over before" in phase.note


class Hung:
    """A reader that never ends its read; true as soon as it has begun."""

    patches = (
        Patch(location="tornproof.harness.explorers.processes.reader:rows_by_partition", substitute=f"{FAULTS}:sleep"),
    )

    def __init__(self, directory: Path) -> None:
        self._history = directory / HISTORIES / "reader-0.0.history"

    def __bool__(self) -> bool:
        return self._history.exists() and self._history.stat().st_size > 0


def test_a_time_limit_ends_waiting_for_a_process(tmp_path: Path, started: list[int]) -> None:
    hung = Hung(tmp_path / "run")
    phase = explore(tmp_path / "run", readers=1, patches=hung.patches, has_time=lambda: not hung)
    assert (phase.verdict, phase.explored) == (Verdict.UNKNOWN, 0)
    assert are_gone(started)


def test_a_reader_that_never_answers_leaves_the_verdict_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[int]
) -> None:
    receive = process_workers.Workers.receive

    def receive_soon(self: process_workers.Workers, member: process_workers.Member) -> object:
        # Only of a reader, because a busy machine may let a writer wait.
        if member.client.startswith("reader"):
            monkeypatch.setattr(process_workers, "HANG_SECONDS", 0.5)
        return receive(self, member)

    monkeypatch.setattr(process_workers.Workers, "receive", receive_soon)
    phase = explore(tmp_path / "run", readers=1, patches=Hung(tmp_path / "run").patches)
    assert phase.verdict is Verdict.UNKNOWN
    assert "reader-0.0 did not answer within 0.5 s" in phase.note
    assert are_gone(started)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    [
        "tables/9.4.2/dedup",
        nightly("tables/9.4.2/chain"),
        nightly("tables/2026-07/nanosecond"),
    ],
)
def test_a_run_starts_from_a_copy_of_a_real_table(name: str, questdb_data: Path, tmp_path: Path) -> None:
    source = next(path.parent for path in sorted((questdb_data / name).rglob("_txn")))
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    image = capture_table(OperatingSystemStorage(), str(source))
    phase = explore(tmp_path / "run", image=image, path=str(source), kills=2)
    assert (phase.verdict, phase.note) == (Verdict.VALID, ""), phase.findings
    assert phase.counts["acknowledged"] > 2
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_a_table_that_nothing_can_be_added_to_is_no_valid_run(questdb_data: Path, tmp_path: Path) -> None:
    source = questdb_data / "tables/9.4.2/history/history/01"
    image = capture_table(OperatingSystemStorage(), str(source))
    phase = explore(tmp_path / "run", image=image, path=str(source))
    assert (phase.verdict, phase.explored) == (Verdict.UNKNOWN, 0)
    assert "cannot be written to" in phase.note


def test_a_writer_with_a_bug_of_its_own_is_a_finding_with_its_traceback(tmp_path: Path) -> None:
    patches = [Patch(location=OPEN_WRITER, substitute=f"{FAULTS}:bug")]
    phase = explore(tmp_path / "run", patches=patches)
    assert phase.verdict is Verdict.INVALID
    assert [finding.sentence for finding in phase.findings] == ["LookupError: a planted bug."]
    assert "Traceback" in phase.note and "a planted bug" in phase.note


def test_a_reader_with_a_bug_of_its_own_is_a_finding_with_its_traceback(tmp_path: Path) -> None:
    patches = [Patch(location="tornproof.harness.explorers.processes.reader:open_table", substitute=f"{FAULTS}:bug")]
    phase = explore(tmp_path / "run", patches=patches, readers=1)
    assert phase.verdict is Verdict.INVALID
    assert "a planted bug" in phase.note


def test_a_writer_that_rejects_a_table_leaves_the_verdict_unknown(tmp_path: Path) -> None:
    patches = [Patch(location=OPEN_WRITER, substitute=f"{FAULTS}:rejection")]
    phase = explore(tmp_path / "run", patches=patches)
    assert phase.verdict is Verdict.UNKNOWN
    assert "a novelty" in phase.note and phase.findings == ()


@pytest.mark.nightly
def test_hundreds_of_kills_lose_no_acknowledged_commit_and_mislead_no_reader(tmp_path: Path) -> None:
    phase = explore(tmp_path / "run", kills=240)
    assert (phase.verdict, phase.note, phase.controls) == (Verdict.VALID, "", "passed"), phase.findings
    assert phase.counts["kills of the writer"] == 240
    assert {point for point, is_reached in phase.reached.items() if is_reached != 1} == set()


def run_with_pin(tmp_path: Path, version: int) -> Run:
    start = prepare_table(None, "/trades", tmp_path)
    take_writer_lock(OperatingSystemStorage(), start.table_path).release()
    run = Run(start, None, None, Settings(seed=1, reader_count=4, kills=1), lambda done, total: None)  # type: ignore[arg-type]
    run.outcome.pins.append(version)
    return run


def test_a_killed_reader_comes_back_in_its_own_style(tmp_path: Path) -> None:
    """It came back in another one, so after a few kills none might pin."""

    def start_reader(client: str, style: Style) -> Any:
        styles.append((client, style))
        return SimpleNamespace(client=client, was_killed=True, history=tmp_path / "none", kill=lambda: None)

    styles: list[tuple[str, Style]] = []
    workers: Any = SimpleNamespace(start_reader=start_reader, send_to_all=lambda *_: None)
    events: Any = SimpleNamespace(record=lambda *_, **__: None)
    start: Any = SimpleNamespace(expected=None)
    run = Run(start, workers, events, Settings(seed=1, reader_count=5, kills=1), lambda done, total: None)
    run._start_readers()
    begun = styles.copy()
    assert {style for _, style in begun} == {*Style}
    for _ in range(2 * len(begun)):
        run._kill_reader()
    assert styles == begun * 3 and run.outcome.reader_kills == 2 * len(begun)


def test_a_pin_that_is_still_held_is_noticed(tmp_path: Path) -> None:
    run = run_with_pin(tmp_path, 0)
    with pin_committed(OperatingSystemStorage(), str(tmp_path / "trades")) as pin:
        assert (pin.version, pin.is_held) == (0, True)
        run._free_pins(has_readers=False)
        assert (run.outcome.pins, run.outcome.freed_pins) == ([0], 0)
    run._free_pins(has_readers=False)
    assert (run.outcome.pins, run.outcome.freed_pins) == ([], 1)


def test_a_pin_of_the_committed_version_is_left_alone_while_readers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with_pin(tmp_path, 0)
    run._free_pins(has_readers=True)
    assert run.outcome.pins == [0]
    monkeypatch.setattr(run, "_committed_version", lambda: 1)
    run._free_pins(has_readers=True)
    assert run.outcome.pins == []


# The table after a run


ROWS = Operation(attempt=0, rows=((0, 5), (1, 3)))


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return prepare_table(None, "/trades", tmp_path)


@pytest.fixture
def expected(start: Start) -> ExpectedVersion:
    """What the table holds after one commit."""
    with open_writer(OperatingSystemStorage(), start.table_path, allow_parquet_last=True) as writer:
        for rows in new_rows(start.expected, ROWS, start.form).values():
            writer.write(rows)
        writer.commit()
    return start.expected.after(ROWS, start.form)


@pytest.mark.parametrize("native", [None, 0, 1])
def test_new_partitions_are_kept_wherever_a_native_one_is(
    native: int | None, start: Start, expected: ExpectedVersion
) -> None:
    table = open_table(OperatingSystemStorage(), start.table_path)
    snapshot = open_snapshot(table)
    partitions = [
        structs.replace(each, flags=PARQUET_FORMAT.put(each.flags, number != native))
        for number, each in enumerate(snapshot.transaction.partitions)
    ]
    transaction = structs.replace(snapshot.transaction, partitions=tuple(partitions))
    new = [
        target
        for target in _form(table, structs.replace(snapshot, transaction=transaction)).targets
        if target.start > partitions[-1].timestamp
    ]
    assert len(partitions) == 2
    assert [target.is_kept for target in new] == [native is not None] * NEW_TARGET_COUNT


@pytest.fixture
def events(tmp_path: Path) -> Iterator[HistoryWriter]:
    with HistoryWriter(tmp_path / "events", "parent") as writer:
        yield writer


def properties(start: Start, outcome: Outcome, events: HistoryWriter) -> list[str]:
    findings, failed = _what_is_left(start, outcome, events)
    assert failed == []
    return [finding.property for finding in findings]


def test_the_version_that_was_written_is_left(
    start: Start, expected: ExpectedVersion, events: HistoryWriter, tmp_path: Path
) -> None:
    assert properties(start, Outcome(expected=expected), events) == []
    recorded, _ = decode_file((tmp_path / "events").read_bytes(), file="events")
    assert [event.kind for event in recorded] == [EventKind.READ_START, EventKind.READ_END]
    assert (recorded[-1].version, recorded[-1].digest) == (1, expected.digest)


@pytest.mark.parametrize("change", [{"version": 2}, {"contents": {}}])
def test_another_version_or_content_is_noticed(
    change: dict[str, object], start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    changed = replace(expected, **change)  # type: ignore[arg-type]
    assert properties(start, Outcome(expected=changed), events) == ["the last version is what was written"]


def test_a_version_that_no_writer_can_have_left_is_noticed(
    start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    assert properties(start, Outcome(expected=None), events) == ["the last version is what was written"]


def test_a_table_that_cannot_be_read_is_noticed(start: Start, expected: ExpectedVersion, events: HistoryWriter) -> None:
    txn = Path(start.table_path) / "_txn"
    txn.write_bytes(txn.read_bytes()[:20])
    assert properties(start, Outcome(expected=expected), events) == ["the last version can be read"]


def test_a_table_that_reads_well_but_is_not_sound_is_noticed(
    start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    (pm, *_) = sorted(Path(start.table_path).glob("*/_pm"))
    (data,) = pm.parent.glob("data.parquet")
    content = bytearray(data.read_bytes())
    # Our reader uses `_pm`, not the Thrift footer.
    content[-8 - int.from_bytes(content[-8:-4], "little")] ^= 0x40
    data.write_bytes(content)
    assert set(properties(start, Outcome(expected=expected), events)) == {"a table on disk is sound"}


def test_a_directory_that_the_last_purge_left_is_noticed(
    start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    (Path(start.table_path) / "2024-01-01T07.0").mkdir()
    assert properties(start, Outcome(expected=expected), events) == ["what nobody reads is purged"]


def test_a_pin_that_outlived_its_reader_is_noticed(
    start: Start, expected: ExpectedVersion, events: HistoryWriter
) -> None:
    assert properties(start, Outcome(expected=expected, pins=[1]), events) == ["pins go with their process"]


# Planted faults: each must be found, and by its own rule


KILLS, READERS = 3, 2


@pytest.mark.parametrize("seed", [2, nightly(3), nightly(4)])
@pytest.mark.parametrize(
    ("location", "substitute", "client", "properties"),
    sampled(
        2,
        [
            pytest.param(
                "tornproof.impl.table.partition:resolve",
                "newest_footer",
                "reader",
                {"refused_read", "pinned_read_refused"},
                id="readers take the newest footer",
            ),
            pytest.param(
                "tornproof.impl.write.table_writer:purge",
                "purge_regardless",
                "writer",
                {"pinned_read_refused"},
                id="the purge ignores pins",
            ),
            pytest.param(
                "tornproof.impl.write.table_writer:execute",
                "version_first",
                "writer",
                {"refused_read", "pinned_read_refused", "a process ends when it is told to"},
                id="the version is stored before its files",
            ),
            pytest.param(
                "tornproof.impl.write.table_writer:recover_for_writing",
                "version_before",
                "writer",
                # After two kills without a commit between them, the version before the last one has no record.
                {
                    "acknowledged_version_lost",
                    "seen_version_lost",
                    "stale_read",
                    "went_back",
                    "a process ends when it is told to",
                },
                id="recovery goes back by a version",
            ),
            pytest.param(
                "tornproof.impl.write.partition_change:plan_merge",
                "forgotten_row_groups",
                "writer",
                {"torn_content"},
                id="a merge forgets row groups",
            ),
        ],
    ),
)
def test_a_planted_fault_is_found(
    location: str, substitute: str, client: str, properties: set[str], seed: int, tmp_path: Path
) -> None:
    patch = Patch(location=location, substitute=f"tornproof.harness.mutation.processes:{substitute}", client=client)
    phase = explore_processes(
        None, "/trades", directory=tmp_path, seed=seed, readers=READERS, kills=KILLS, patches=[patch]
    )
    assert phase.verdict is Verdict.INVALID, phase
    assert properties.intersection(finding.property for finding in phase.findings), phase.findings


# How the parent of a run takes the ends of its processes


@pytest.mark.parametrize(
    ("ended_by", "failure"),
    [
        (signal.SIGKILL, None),
        (signal.SIGBUS, Failure(text=f"reader-0.0 ended with exit code {-signal.SIGBUS}", is_finding=True)),
    ],
)
def test_a_process_that_dies_of_something_else_just_before_it_is_killed_has_failed(
    ended_by: signal.Signals, failure: Failure | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Pipe()
    # Its end is noticed only now.
    monkeypatch.setattr(os, "kill", lambda process, number: theirs.close())
    server = SimpleNamespace(exit_code=lambda process: -ended_by)
    member = Member("reader-0.0", "reader-0", 1, ours, Path(), server)  # type: ignore[arg-type]  # no more is asked of it
    member.kill()
    assert (member.failure, member.was_killed) == (failure, failure is None)


FAILURE = Failure(text="it failed", is_finding=True)


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda run, member: run.failures(), lambda has_ended: [FAILURE]),
        (lambda run, member: member.has_ended, lambda has_ended: has_ended),
        (lambda run, member: member.was_killed, lambda has_ended: has_ended),
        (lambda run, member: (member.has_message(0.0), member.next_message()), lambda has_ended: (True, "done")),
    ],
    ids=["failures", "has_ended", "was_killed", "has_message"],
)
def test_who_asks_about_a_process_first_receives_all_that_it_has_sent(
    ask: Callable[[Workers, Member], object],
    answer: Callable[[bool], object],
    has_ended: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The failure of a process that nobody waited for was lost where the run ended by its time limit."""
    ours, theirs = Pipe()
    server = SimpleNamespace(
        is_ready=lambda _: True, start=lambda *_: (1, ours), exit_code=lambda process: -signal.SIGKILL
    )
    monkeypatch.setattr(workers, "ForkServer", lambda *_: server)
    run = Workers(SimpleNamespace(), Path(), (), always)  # type: ignore[arg-type]  # the server alone would use it
    member = run.start_reader("reader-0", Style.FOREIGN)
    for message in ("done", FAILURE):
        theirs.send(message)
    if has_ended:
        theirs.close()
    assert (ask(run, member), member.failure) == (answer(has_ended), FAILURE)


@pytest.mark.parametrize(("number", "verdict"), [(errno.ENOSPC, Verdict.UNKNOWN), (errno.EIO, Verdict.INVALID)])
def test_a_process_that_a_full_disk_ends_is_no_finding_and_leaves_no_verdict(number: int, verdict: Verdict) -> None:
    """The sound writer was INVALID where the disk of the temporary files was full."""
    sent: list[Failure] = []
    connection: Any = SimpleNamespace(send=sent.append)
    with worker(connection, (), "writer", ()):
        raise StorageError("_pm", "write", os.strerror(number)) from OSError(number, os.strerror(number))
    settings, outcome = Settings(seed=0, reader_count=0, kills=0), Outcome(expected=None)
    phase = _phase(History(events=(), torn_frames=0), outcome, settings, sent, [], [], "", is_cut=False)
    assert phase.verdict is verdict and "_pm: cannot write" in phase.note
