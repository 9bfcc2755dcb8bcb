"""The processes explorer: writers that are killed one after the other, and readers beside them, on real files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import structs

from tornproof.harness.checkers.snapshot_isolation import Judgement, judge
from tornproof.harness.common.history import EventKind, History, HistoryWriter, read_history, to_arrow
from tornproof.harness.common.verdict import (
    PASSED,
    Finding,
    HasTime,
    OnProgress,
    Phase,
    Verdict,
    always,
    nothing_explored,
)
from tornproof.harness.common.whose_error import is_of_machine
from tornproof.harness.explorers.processes.expected import Content, ExpectedVersion
from tornproof.harness.explorers.processes.judge import (
    COVERAGE_GOALS,
    KILLED_AT,
    KILLED_IN_COMMIT,
    KILLED_IN_PURGE,
    KILLED_IN_RECOVERY,
    NOTHING_TO_FALSIFY,
    PHASE,
    failed_controls,
    findings_of,
    reached_points,
)
from tornproof.harness.explorers.processes.messages import Failure, Patch
from tornproof.harness.explorers.processes.plan import plan_kills
from tornproof.harness.explorers.processes.run import (
    WRITER_KILLS_BETWEEN_READER_KILLS,
    Outcome,
    Run,
    Settings,
)
from tornproof.harness.explorers.processes.start import Start, prepare_table, read_version
from tornproof.harness.explorers.processes.stop import COMMIT_POSITIONS, POSITIONS, PURGE, RECOVERY
from tornproof.harness.explorers.processes.workers import NoAnswerError, OutOfTimeError, Workers
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import TornproofError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.verify.verify import verify_table

HISTORIES = "histories"
PARENT = "parent"
WRITTEN, SOUND = "the last version is what was written", "a table on disk is sound"
PURGED, PINNED = "what nobody reads is purged", "pins go with their process"
COPIED_BYTES_MAX = 1 << 30
NOWHERE, DAMAGED_BYTE = -1, 40
"""The start of a partition that no table has, and a byte of `_pm` that its checksum covers."""


def explore_processes(
    image: DiskImage | None,
    path: str,
    *,
    directory: Path,
    seed: int,
    kills: int = len(POSITIONS),
    readers: int = 4,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
    patches: Sequence[Patch] = (),
) -> Phase:
    """Run a writer and `readers` on a copy of the table at `path` of an image, or on a new table, in `directory`.

    `kills` writers are killed, by default one at each position, and one more ends normally. What all of them commit
    follows from the seed; readers run freely. The history must be one of snapshot isolation, and the table at the end
    must be sound and equal to the last version. No process outlives the call. `directory` must exist; the table and the
    histories stay in it. `patches` plant faults in the processes.
    """
    settings = Settings(seed=seed, reader_count=readers, kills=kills)
    try:
        start = prepare_table(image, path, directory)
    except TornproofError as error:
        return nothing_explored(PHASE, f"the table cannot be written to: {error}")
    histories = directory / HISTORIES
    histories.mkdir()
    note, is_cut = "", False
    with (
        HistoryWriter(histories / f"{PARENT}.history", PARENT) as events,
        Workers(start, histories, patches, has_time) as workers,
    ):
        run = Run(start, workers, events, settings, on_progress)
        try:
            run.run()
        except NoAnswerError as error:
            note = str(error)
        except OutOfTimeError:
            is_cut = True
        failures = workers.failures()
        workers.kill_all()
        is_whole = not (is_cut or note or failures)
        left, failed = _what_is_left(start, run.outcome, events) if is_whole else ([], [])
        files = workers.histories()
    if is_cut and not run.outcome.writer_count and not failures:
        return nothing_explored(PHASE, "the time was over before the first writer was killed")
    return _phase(read_history(files), run.outcome, settings, failures, left, failed, note, is_cut=is_cut)


def _what_is_left(start: Start, outcome: Outcome, events: HistoryWriter) -> tuple[list[Finding], list[str]]:
    """Check the table after all processes have ended; return the findings, and the controls that failed."""
    table = open_table(OperatingSystemStorage(), start.table_path)
    events.record(EventKind.READ_START)
    try:
        snapshot = open_snapshot(table)
        found = read_version(snapshot, start.form)
    except TornproofError as error:
        if is_of_machine(error):
            raise
        events.record(EventKind.READ_FAILED, details=str(error))
        return [_finding("the last version can be read", str(error))], []
    events.record(EventKind.READ_END, version=found.version, digest=found.digest)
    findings = [*_complaints(table, found, outcome.expected, outcome.pins)]
    return findings, [] if findings else [*_failed_controls(table, found)]


def _failed_controls(table: Table, found: ExpectedVersion) -> Iterator[str]:
    """Falsify what is left, or what is expected, in one way after the other, and describe what is not complained of."""
    image = DiskImage.capture(table.storage, table.path, size_bytes_max=COPIED_BYTES_MAX)
    pm = next((path for path in image.files if path.endswith(f"/{PM_FILE}")), None)
    other = dataclasses.replace(found, contents={**found.contents, NOWHERE: Content(digest=b"")})
    cases: dict[str, Callable[[], Iterator[Finding]]] = {
        WRITTEN: lambda: _complaints(table, found, other, ()),
        PINNED: lambda: _complaints(table, found, found, (found.version,)),
    }
    if pm is not None:
        content = image.files[pm]
        damaged = image.with_file(pm, content[:DAMAGED_BYTE] + b"\xa5" + content[DAMAGED_BYTE + 1 :])
        left = image.with_file(f"{pm.rpartition('/')[0].partition('.')[0]}.{found.version + 1}/{PM_FILE}", content)
        cases[SOUND] = lambda: _complaints(open_table(damaged, table.path), found, found, ())
        cases[PURGED] = lambda: _complaints(open_table(left, table.path), found, found, ())
    for violated, complaints in cases.items():
        if all(each.property != violated for each in complaints()):
            yield f"what was falsified at the end was not detected: {violated}"


def _complaints(
    table: Table, found: ExpectedVersion, expected: ExpectedVersion | None, pins: Sequence[int]
) -> Iterator[Finding]:
    if expected is None or (found.version, found.digest) != (expected.version, expected.digest):
        wanted = "no version that is known" if expected is None else f"version {expected.version}"
        yield _finding(WRITTEN, f"version {found.version} is there, expected {wanted}")
    for problem in verify_table(table, whole=False).all_problems:
        yield _finding(SOUND, str(problem), **structs.asdict(problem))
    for name in table.unreferenced_directories(table.transaction()):
        yield _finding(PURGED, f"{name} is still there after the last purge", directory=name)
    for version in pins:
        yield _finding(PINNED, f"version {version} is still pinned by a reader that was killed")


def _phase(
    history: History,
    outcome: Outcome,
    settings: Settings,
    failures: list[Failure],
    left: list[Finding],
    failed_at_end: list[str],
    note: str,
    *,
    is_cut: bool,
) -> Phase:
    events = history.events
    judgement = judge(to_arrow(events))
    reached = reached_points(events, outcome)
    of_history = failed_controls(events, judgement) if judgement.verdict is not Verdict.UNKNOWN else []
    controls = [*of_history, *failed_at_end]
    failed = [control for control in controls if not (is_cut and control == NOTHING_TO_FALSIFY)]
    broken = [
        _finding("a process ends when it is told to", failure.text.rstrip().rpartition("\n")[2], traceback=failure.text)
        for failure in failures
        if failure.is_finding
    ]
    findings = (*findings_of(judgement), *left, *broken)
    notes = [
        note,
        judgement.reason,
        *(failure.text for failure in failures),
        *(["a positive control failed"] if failed else []),
        *([] if note or failures else _shortfalls(outcome, settings, reached, is_cut=is_cut)),
    ]
    notes = [each for each in notes if each]
    counts = _counts(outcome, judgement)
    return Phase(
        name=PHASE,
        explored=counts["writers"] + counts["commits"],
        complete=False,
        bound=_bound(outcome, settings, counts),
        verdict=Verdict.INVALID if findings else Verdict.UNKNOWN if notes else Verdict.VALID,
        counts=counts,
        reached={point: int(count > 0) for point, count in reached.items()},
        controls="; ".join(controls) or PASSED,
        note="; ".join(notes),
        findings=findings,
        varying=_varying(history, outcome, judgement) | reached,
    )


def _bound(outcome: Outcome, settings: Settings, counts: dict[str, int]) -> str:
    writers = str(settings.writer_count)
    if outcome.writer_count < settings.writer_count:
        writers = f"{outcome.writer_count} of {writers}"
    return (
        f"process kill: {writers} writers one after the other, {outcome.writer_kills} of them killed at a chosen call, "
        f"and their {counts['commits']} commits, seed {settings.seed}, on real files; the {settings.reader_count} "
        "readers beside them run freely, so how often they read is no part of the bound"
    )


def _shortfalls(outcome: Outcome, settings: Settings, reached: dict[str, int], *, is_cut: bool) -> Iterator[str]:
    """Yield what a run should have done and did not; one that was cut need not have started all writers."""
    if not is_cut and outcome.writer_count < settings.writer_count:
        yield f"only {outcome.writer_count} of {settings.writer_count} writers reached their end"
    wanted = [*COVERAGE_GOALS]
    if settings.kills:
        wanted.append(KILLED_IN_COMMIT)
    planned = {plan.kill_position for plan in islice(plan_kills(settings.seed), outcome.writer_kills)}
    if outcome.writer_kills >= len(POSITIONS) and (left := [each for each in POSITIONS if each not in planned]):
        yield f"nobody was to be killed at: {', '.join(left)}"
    if settings.reader_count and outcome.writer_kills >= WRITER_KILLS_BETWEEN_READER_KILLS and not outcome.reader_kills:
        yield "no reader was killed"
    wanted += [
        point
        for point, stage in ((KILLED_IN_RECOVERY, RECOVERY), (KILLED_IN_PURGE, PURGE))
        if any(position.startswith(stage) for position in planned)
    ]
    wanted += [point for point, position in zip(KILLED_AT, COMMIT_POSITIONS, strict=True) if position in planned]
    missing = [name for name in wanted if not reached[name]]
    if missing:
        yield f"never reached: {', '.join(missing)}"


def _counts(outcome: Outcome, judgement: Judgement) -> dict[str, int]:
    """Return counts that are the same in every run of a sound table."""
    seen = judgement.denominators
    return {
        "writers": outcome.writer_count,
        "commits": seen.get("commits", 0),
        "acknowledged": seen.get("acknowledged_commits", 0),
        "recoveries": seen.get("recoveries", 0),
        "kills of the writer": outcome.writer_kills,
        "kills of readers": outcome.reader_kills,
        "anomalies": sum(judgement.counts.values()),
    }


def _varying(history: History, outcome: Outcome, judgement: Judgement) -> dict[str, int]:
    """Return counts that depend on the speed of readers."""
    seen = judgement.denominators
    return {
        "reads": seen.get("reads", 0),
        "reads of older snapshots": seen.get("reads_of_older_snapshots", 0),
        "refused reads": seen.get("refused_reads", 0),
        "history events": len(history.events),
        "torn frames": history.torn_frames,
    }


def _finding(violated: str, sentence: str, **evidence: object) -> Finding:
    return Finding(property=violated, phase=PHASE, sentence=f"{sentence}.", evidence=evidence)
