"""The run behind `tornproof check`: a table is copied, verified, encoded again, and given to every explorer."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.disk.image import DiskImage
from harness.explore.crash import explore_crashes
from harness.explore.damage import Clock, explore_damage
from harness.explore.drawn import explore_drawn
from harness.explore.processes import explore_processes
from harness.explore.roundtrip import reencode_generations
from harness.explore.stateful import explore_stateful
from harness.explore.stateful_memo import remembered_decoding, remembered_encoder
from harness.presets import HARDENED_PRESET, Preset
from harness.scenario import Explorer
from harness.simulated_phases import Budget, simulate
from harness.simulation import Setting, situation_under
from harness.targets.table import TableTarget
from harness.verdict import Finding, Phase, Verdict, nothing_explored
from harness.workload import crash_operations
from impl.column_versions import CV_FILE
from impl.errors import CorruptError, ProblemError, TornproofError
from impl.metadata_file import META_FILE
from impl.partition import DATA_FILE, PM_FILE, read_published
from impl.storage import ReadableStorage
from impl.table import open_table
from impl.transaction import TXN_FILE
from impl.verify import TableReport, verify_table

CAPTURE_LIMIT_BYTES = 96 * 1024 * 1024
FILES_THAT_COUNT = frozenset({TXN_FILE, META_FILE, CV_FILE, PM_FILE, DATA_FILE})
# A symbol column's dictionary; the number stands there when the column was made anew.
_SYMBOL_FILE = re.compile(r".*\.[co](\.\d+)?", re.DOTALL)


class PhaseName(enum.StrEnum):
    """The explorers, in the order in which they run."""

    VERIFY = "verify"
    ROUNDTRIP = "roundtrip"
    DAMAGE = "damage"
    STATEFUL = "stateful"
    SCHEDULES = "schedules"
    PRODUCT = "product"
    POWER = "power"
    MEMORY = "memory"
    DRAWN = "drawn"
    CRASH = "crash"
    PROCESSES = "processes"


# How the time is divided among those that take as much as they are given.
SHARES = {
    PhaseName.DAMAGE: 3,
    PhaseName.STATEFUL: 2,
    PhaseName.SCHEDULES: 3,
    PhaseName.MEMORY: 2,
    PhaseName.POWER: 3,
    PhaseName.PRODUCT: 2,
    PhaseName.DRAWN: 2,
    PhaseName.CRASH: 2,
    PhaseName.PROCESSES: 2,
}
SIMULATED = {
    PhaseName.SCHEDULES: Explorer.SCHEDULES,
    PhaseName.PRODUCT: Explorer.PRODUCT,
    PhaseName.POWER: Explorer.POWER,
    PhaseName.MEMORY: Explorer.MEMORY,
}
"""The simulator's explorers, which alone know other releases, and scenarios."""
# A fifth of what an idle machine does, so that a busy one gets done too.
STATEFUL_STEPS_PER_SECOND = 100
DRAWN_PER_SECOND = 20


OnProgress = Callable[[str, int, int | None], None]
Explore = Callable[..., Phase]
OnShare = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """The bound of a run: time for exploring, processes, size up to which data.parquet is tried whole, seed, phases.

    `situations` are what the simulator explores, under `preset`.
    """

    seconds: float
    workers: int
    complete_bytes: int
    seed: int = 0
    phases: tuple[PhaseName, ...] = tuple(PhaseName)
    situations: tuple[Setting, ...] = ()
    preset: Preset = HARDENED_PRESET

    def seconds_of(self, phase: PhaseName) -> float:
        """Return the part of the time that an explorer is given."""
        return self.seconds * SHARES[phase] / sum(SHARES.get(chosen, 0) for chosen in self.phases)


def capture_table(storage: ReadableStorage, path: str) -> DiskImage:
    """Return an image of what reading a table, and writing to it, needs; `_txn` is copied before the partitions.

    What a writer adds meanwhile lies past the tokens of that version. Raises UnsupportedError above 96 MiB, and what
    opening a table raises.
    """
    with suppress(ProblemError):
        # What is no table is refused here; a damaged `_meta` is for the phase that verifies.
        open_table(storage, path)
    return DiskImage.capture(storage, path, size_bytes_max=CAPTURE_LIMIT_BYTES, is_wanted=_counts)


def _counts(name: str) -> bool:
    return name in FILES_THAT_COUNT or _SYMBOL_FILE.fullmatch(name) is not None


def complaint_of(image: DiskImage, path: str) -> object:
    """Return what is wrong with the metadata of a copied table, or None: a copy of a moving table may be torn."""
    try:
        return verify_table(open_table(image, path), quick=True).all_problems or None
    except ProblemError as error:
        return str(error)


def check_image(
    image: DiskImage, path: str, settings: CheckSettings, *, clock: Clock, on_progress: OnProgress
) -> Iterator[Phase]:
    """Yield the phases of a check of the table at `path` of an image, each as it is done.

    An unsound table is the finding; nothing else is explored from it.
    """
    on_progress(PhaseName.VERIFY, 0, None)
    verified = _verify_phase(image, path, clock)
    if PhaseName.VERIFY in settings.phases or verified.verdict is not Verdict.VALID:
        yield verified
    if verified.verdict is not Verdict.VALID:
        return
    if PhaseName.ROUNDTRIP in settings.phases:
        on_progress(PhaseName.ROUNDTRIP, 0, None)
        yield _or_unknown(PhaseName.ROUNDTRIP, lambda: _roundtrip_phase(image, path, clock))
    explorers: dict[PhaseName, Explore] = {
        PhaseName.DAMAGE: _damage_phase,
        PhaseName.STATEFUL: _stateful_phase,
        PhaseName.DRAWN: _drawn_phase,
        PhaseName.CRASH: _crash_phase,
        PhaseName.PROCESSES: _processes_phase,
        **{name: functools.partial(_simulated_phase, name) for name in SIMULATED},
    }
    for name in PhaseName:
        if name in explorers and name in settings.phases:
            on_progress(name, 0, None)
            tell = functools.partial(on_progress, name)
            yield _or_unknown(name, functools.partial(explorers[name], image, path, settings, clock, tell))


def _simulated_phase(
    name: PhaseName, image: DiskImage, path: str, settings: CheckSettings, clock: Clock, on_progress: OnShare
) -> Phase:
    """Run one of the simulator's explorers on the situations of a check, which may have tables of their own."""
    budget = Budget(clock=clock, seconds=settings.seconds_of(name), seed=settings.seed, on_progress=on_progress)
    return simulate(SIMULATED[name], settings.situations, budget)


def _damage_phase(image: DiskImage, path: str, settings: CheckSettings, clock: Clock, on_progress: OnShare) -> Phase:
    return explore_damage(
        image,
        path,
        clock=clock,
        seconds=settings.seconds_of(PhaseName.DAMAGE),
        workers=settings.workers,
        complete_bytes=settings.complete_bytes,
        on_progress=on_progress,
    )


def _stateful_phase(image: DiskImage, path: str, settings: CheckSettings, clock: Clock, on_progress: OnShare) -> Phase:
    seconds = settings.seconds_of(PhaseName.STATEFUL)
    steps = max(1, int(seconds * STATEFUL_STEPS_PER_SECOND))
    return explore_stateful(
        image, path, clock=clock, seconds=seconds, steps=steps, seed=settings.seed, on_progress=on_progress
    )


def _crash_phase(image: DiskImage, path: str, settings: CheckSettings, clock: Clock, on_progress: OnShare) -> Phase:
    # Thousands of disks hold the same row groups.
    with remembered_decoding():
        return explore_crashes(
            TableTarget(encode=remembered_encoder()),
            crash_operations(image, path),
            start=image,
            path=path,
            clock=clock,
            seconds=settings.seconds_of(PhaseName.CRASH),
            on_progress=on_progress,
            recovery_kills_max=1,
        )


def _drawn_phase(image: DiskImage, path: str, settings: CheckSettings, clock: Clock, on_progress: OnShare) -> Phase:
    seconds = settings.seconds_of(PhaseName.DRAWN)
    return explore_drawn(
        settings.preset,
        situation_under,
        clock=clock,
        seconds=seconds,
        examples=max(1, int(seconds * DRAWN_PER_SECOND)),
        seed=settings.seed,
        on_progress=on_progress,
    )


def _processes_phase(image: DiskImage, path: str, settings: CheckSettings, clock: Clock, on_progress: OnShare) -> Phase:
    with tempfile.TemporaryDirectory(prefix="tornproof-") as directory:
        return explore_processes(
            image,
            path,
            directory=Path(directory),
            seed=settings.seed,
            on_progress=on_progress,
        )


def _or_unknown(name: PhaseName, run: Callable[[], Phase]) -> Phase:
    """Run a phase; what it cannot explore, such as a table without `_pm`, leaves its verdict UNKNOWN."""
    try:
        return run()
    except TornproofError as error:
        return nothing_explored(name, str(error))


def _verify_phase(image: DiskImage, path: str, clock: Clock) -> Phase:
    start = clock()
    try:
        report = verify_table(open_table(image, path))
    except CorruptError as error:
        report = TableReport(table=path, version=None, problems=(error.problem,))
    counts = dataclasses.asdict(report.counts)
    return Phase(
        name=PhaseName.VERIFY,
        explored=report.counts.chunks,
        complete=True,
        bound="the committed version: all generations, row groups and pages",
        verdict=Verdict.VALID if report.sound else Verdict.INVALID,
        seconds=clock() - start,
        counts={**counts, "problems": len(report.all_problems)},
        note="; ".join(report.notes),
        findings=tuple(
            Finding(
                property="a table on disk is sound",
                phase=PhaseName.VERIFY,
                sentence=str(problem),
                evidence=dataclasses.asdict(problem),
            )
            for problem in report.all_problems
        ),
    )


def _roundtrip_phase(image: DiskImage, path: str, clock: Clock) -> Phase:
    start = clock()
    table = open_table(image, path)
    generations, files, findings = 0, 0, []
    for partition in table.transaction().partitions:
        where = table.files_of(partition)
        if not partition.is_parquet or not where.has_pm():
            continue
        result = reencode_generations(read_published(where).content, file=where.pm_label)
        files += 1
        generations += result.generation_count
        findings += [
            Finding(
                property="decoding and encoding a generation gives the same bytes",
                phase=PhaseName.ROUNDTRIP,
                sentence=f"{where.pm_label}: the generation that ends at byte {mismatch.generation_end_bytes} is "
                f"encoded differently from byte {mismatch.offset_bytes} on.",
                evidence={"file": where.pm_label, **dataclasses.asdict(mismatch)},
            )
            for mismatch in result.mismatches
        ]
    verdict = Verdict.INVALID if findings else Verdict.VALID if generations else Verdict.UNKNOWN
    return Phase(
        name=PhaseName.ROUNDTRIP,
        explored=generations,
        complete=True,
        bound=f"every generation in the chains of {files} _pm files",
        verdict=verdict,
        seconds=clock() - start,
        counts={"files": files, "generations": generations, "different": len(findings)},
        note="" if generations else "the table has no _pm, so there was nothing to encode",
        findings=tuple(findings),
    )
