"""The run behind `tornproof check`: a table is copied and verified, and every explorer is run on the copy."""

from __future__ import annotations

import enum
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from msgspec import structs

from tornproof.harness.common.effort import Bounds
from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Finding, Phase, Verdict, cut_short
from tornproof.harness.explorers.corruption.explorer import damage_exploration
from tornproof.harness.explorers.kills.exploration import Exploration as CrashExploration
from tornproof.harness.explorers.kills.exploration import Plan, Share, ShareResult, crash_phase
from tornproof.harness.explorers.kills.explorer import failures, fault_free_phase
from tornproof.harness.explorers.kills.judge import Judge
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.explorers.model_based.explorer import (
    CONTROLS,
    Failed,
    Part,
    PartResult,
    Stateful,
    first_failures,
    fixed_parts,
    parts,
    stateful_phase,
    unshrunk,
)
from tornproof.harness.explorers.model_based.start import StorageKind
from tornproof.harness.explorers.model_based.world import ORDERLY
from tornproof.harness.explorers.processes.explorer import explore_processes
from tornproof.harness.explorers.random import random_cases
from tornproof.harness.explorers.random.random_cases import (
    BatchResult,
    batches,
    explore_batch,
    random_phase,
)
from tornproof.harness.explorers.roundtrip.explorer import roundtrip
from tornproof.harness.explorers.simulated_phases import goals_of_table, simulated
from tornproof.harness.explorers.storage.explorer import explore_storage
from tornproof.harness.parallel.tasks import Exploration, OnProgress, Outcome, TableQuestion, explore
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.releases import HARDENED_PRESET, PRESETS
from tornproof.harness.systems.scenario import Explorer, ScenarioError, load_scenario
from tornproof.harness.systems.simulation import (
    HARDENED,
    Setting,
    case_under,
    settings_of,
    settings_of_table,
    two_writers_of_table,
)
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import crash_operations, made_image
from tornproof.impl.errors import CorruptError, NotATableError, ProblemError, TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.column_versions import CV_FILE
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import TableReport, verify_table

Made = TypeVar("Made")

CAPTURE_LIMIT_BYTES = 96 * 1024 * 1024
FILES_THAT_COUNT = frozenset({TXN_FILE, META_FILE, CV_FILE, PM_FILE, DATA_FILE})
# A symbol column's dictionary; the number is there if the column was created again.
_SYMBOL_FILE = re.compile(r".*\.[ockv](\.\d+)?", re.DOTALL)


class PhaseName(enum.StrEnum):
    """The explorers, in the order in which they run."""

    VERIFY = "verify"
    STORAGE = "storage"
    ROUNDTRIP = "roundtrip"
    DAMAGE = "damage"
    STATEFUL = "stateful"
    SCHEDULES = "schedules"
    PRODUCT = "product"
    POWER = "power"
    MEMORY = "memory"
    RANDOM = "random"
    CRASH = "crash"
    PROCESSES = "processes"
    SERVER = "server"


SIMULATED = {
    PhaseName.SCHEDULES: Explorer.SCHEDULES,
    PhaseName.PRODUCT: Explorer.PRODUCT,
    PhaseName.POWER: Explorer.POWER,
    PhaseName.MEMORY: Explorer.MEMORY,
}
"""The explorers that run in the simulator; only they know other releases, and scenarios."""
FIRST_FINDING_LENGTHS: Mapping[str, float] = {
    PhaseName.STORAGE: 2,
    PhaseName.MEMORY: 2,
    PhaseName.ROUNDTRIP: 2,
    PhaseName.STATEFUL: 2.5,
    PhaseName.PRODUCT: 4,
    PhaseName.CRASH: 4,
    PhaseName.PROCESSES: 5,
    PhaseName.SCHEDULES: 8,
    PhaseName.POWER: 8,
    PhaseName.RANDOM: 10,
    PhaseName.DAMAGE: 30,
}
"""How far a run that ends with the first finding is when each phase is done.

*roundtrip* and *stateful* find most; *schedules*, *product* and *power* take longer than both, and find little that
they do not; *damage* finds least.
"""
MAKING = "making"
"""The key of the evidence that a new table, or a test case, could not be made; beside it is what was asked."""
ASKED = ("has_table", "scenarios", "preset")
"""The fields of the question that such evidence has."""
ENDLESS = "endless"
"""The key of the evidence that verifying the table does not end."""
DIED = "died"
"""The key of the evidence that it ends in an error that nobody expects."""
POINTS_IN_TASK = 48
"""How many crash points are one task of a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckQuestion(TableQuestion):
    """All that the answer of a check depends on, except this release of tornproof.

    With `has_table` the table was given by the user, and the simulator starts from it; otherwise from `scenarios`, by
    default all. `preset` is the release whose protocol is explored, by default each scenario's own. `start_error` says
    why there is no table to start from, where a new one could not be made.
    """

    has_table: bool
    start_error: str = ""
    preset: str | None = None
    scenarios: tuple[str, ...] = ()
    seed: int = 0
    bounds: Bounds

    @property
    def phases(self) -> tuple[PhaseName, ...]:
        """The phases that apply: only the simulator knows other releases and scenarios, and random tables are new."""
        if self.preset is None and not self.scenarios:
            others = {PhaseName.SERVER, *([PhaseName.RANDOM] if self.has_table else [])}
            return tuple(name for name in PhaseName if name not in others)
        named = {explorer for name in self.scenarios for explorer in load_scenario(name).explorers}
        simulated_names = [name for name, explorer in SIMULATED.items() if explorer in named or not self.scenarios]
        is_random = not self.scenarios and not self.has_table
        return (*simulated_names, PhaseName.RANDOM) if is_random else tuple(simulated_names)

    def settings(self) -> tuple[Setting, ...]:
        """Return what the simulator explores: nothing of a damaged table, which other phases report."""
        preset = None if self.preset is None else PRESETS[self.preset]
        if not self.has_table:
            return (*settings_of(self.scenarios, preset), *(() if self.scenarios else self._two_writers(preset)))
        with suppress(TornproofError, EndlessError):
            settings = settings_of_table(self.image, self.path, preset or HARDENED_PRESET)
            settings += self._two_writers(preset)
            # Other releases leave steps out, so that some of these points do not exist.
            if preset is not None:
                return tuple(settings)
            return tuple(replace(setting, coverage_goals=goals_of_table(setting)) for setting in settings)
        return ()

    def _two_writers(self, preset: Preset | None) -> Sequence[Setting]:
        with suppress(TornproofError, EndlessError):
            return two_writers_of_table(self.image, self.path, preset or HARDENED_PRESET)
        return ()


def capture_table(storage: ReadableStorage, path: str) -> DiskImage:
    """Return an image of the files that reading and writing a table need; `_txn` is copied before the partitions.

    What a writer appends meanwhile is past the tokens of that version. Raises UnsupportedError above 96 MiB, and what
    opening a table raises.
    """
    with bounded_computation(CAPTURE_LIMIT_BYTES), _until_verified():
        # A path that is no table is rejected here.
        open_table(storage, path)
    return DiskImage.capture(storage, path, size_bytes_max=CAPTURE_LIMIT_BYTES, is_wanted=_counts)


@contextmanager
def _until_verified() -> Iterator[None]:
    """Leave it to the phase that verifies to report what is wrong with a table, and with what reads it."""
    try:
        yield
    except (ProblemError, EndlessError):
        return
    except TornproofError:
        raise
    except Exception:
        return


def _counts(name: str) -> bool:
    return name in FILES_THAT_COUNT or _SYMBOL_FILE.fullmatch(name) is not None


def make_table() -> tuple[DiskImage, str]:
    """Return a small new table at MADE_PATH, or none and the error that it ended in, which is a finding."""
    image, error = _made(made_image)
    return image or DiskImage({}), error


def start_error_of(question: CheckQuestion) -> str:
    """Return the error in which making the tables that a check starts from ends, or ""; raises ScenarioError."""
    return question.start_error or _made(question.settings)[1]


def _made(make: Callable[[], Made]) -> tuple[Made | None, str]:
    try:
        with bounded_computation():
            return make(), ""
    except ScenarioError:
        raise
    except (Exception, EndlessError) as error:
        return None, f"{type(error).__name__}: {error}"


def complaint_of(image: DiskImage, path: str) -> object:
    """Return what is wrong with the metadata of a copied table, or None; a copy made beside a writer may be torn."""
    with bounded_computation(image.size_bytes), _until_verified():
        try:
            return verify_table(open_table(image, path), quick=True, whole=False).all_problems or None
        except ProblemError as error:
            return str(error)
    return None


def bounds_of(effort: int, image: DiskImage, path: str) -> Bounds:
    """Return the bounds of an effort for a copied table; a damaged one is not explored, so its size does not matter."""
    bounds = Bounds.of(effort)
    with bounded_computation(image.size_bytes), suppress(NotATableError), _until_verified():
        table = open_table(image, path)
        row_group_count = verify_table(table, quick=True, whole=False).counts.row_groups
        return bounds.of_table(row_group_count * len(table.metadata.columns if table.metadata else ()))
    return bounds


def check_image(
    question: CheckQuestion,
    phases: Sequence[PhaseName] = tuple(PhaseName),
    *,
    workers: int,
    seconds: float | None = None,
    fails_fast: bool = False,
    on_progress: OnProgress = lambda progress: None,
) -> Outcome:
    """Explore a table in so many `workers`; `seconds` are a ceiling, which makes the bounds smaller.

    One that `fails_fast` ends with the first finding.
    If the table is unsound, or could not be made, that is the finding, and nothing else is explored.
    """
    if question.start_error:
        return Outcome(phases=[_start_phase(question, question.start_error)])
    with bounded_computation(question.image.size_bytes):
        return _check_image(question, phases, workers, seconds, on_progress, fails_fast=fails_fast)


def _check_image(
    question: CheckQuestion,
    phases: Sequence[PhaseName],
    workers: int,
    seconds: float | None,
    on_progress: OnProgress,
    *,
    fails_fast: bool,
) -> Outcome:
    verified = _verify_phase(question)
    shown = [verified] if PhaseName.VERIFY in phases or verified.verdict is not Verdict.VALID else []
    if verified.verdict is not Verdict.VALID:
        return Outcome(phases=shown)
    settings, error = _made(question.settings)
    if settings is None:
        return Outcome(phases=[_start_phase(question, error)])
    explorations = _explorations(question, settings)
    outcome = explore(
        {name: explorations[name] for name in PhaseName if name in phases and name in explorations},
        question,
        workers=workers,
        seconds=seconds,
        first_finding_lengths=FIRST_FINDING_LENGTHS if fails_fast else None,
        on_progress=on_progress,
    )
    return replace(outcome, phases=[*shown, *outcome.phases])


def _explorations(question: CheckQuestion, settings: tuple[Setting, ...]) -> dict[PhaseName, Exploration]:
    bounds, seed = question.bounds, question.seed
    return {
        PhaseName.STORAGE: _one_task(PhaseName.STORAGE, _storage_phase),
        PhaseName.ROUNDTRIP: roundtrip(bounds.questions),
        PhaseName.DAMAGE: damage_exploration(bounds.damages, bounds.pairs),
        PhaseName.STATEFUL: _stateful(bounds.rules, seed),
        PhaseName.RANDOM: _random(bounds.test_cases, seed),
        PhaseName.CRASH: _crash(bounds.cuts, bounds.failing_calls),
        PhaseName.PROCESSES: _one_task(PhaseName.PROCESSES, _processes_phase),
        **{name: simulated(explorer, settings) for name, explorer in SIMULATED.items()},
    }


def _one_task(name: PhaseName, run: Callable[[Worker], Phase]) -> Exploration:
    (phase,) = yield [Task(run=run)]
    return phase or cut_short(name)


def _stateful(steps: int, seed: int) -> Exploration:
    controls = [Task(run=_detects, arguments=(index, seed), begins_first=True) for index in range(len(CONTROLS))]
    fixed = [Task(run=_run_fixed, arguments=part, cost=2) for part in fixed_parts()]
    programs = [Task(run=_take_rules, arguments=(part,), cost=2) for part in parts(steps, seed)]
    results = yield [*controls, *fixed, *programs]
    detected, results = results[: len(controls)], results[len(controls) :]
    fixed_results, done = (
        [each for each in some if each is not None] for some in (results[: len(fixed)], results[len(fixed) :])
    )
    missed = [control for control, is_detected in zip(CONTROLS, detected, strict=True) if is_detected is False]
    is_tried = missed or None not in detected
    if not fixed_results and not done:
        return cut_short(PhaseName.STATEFUL)
    failures = first_failures([*fixed_results, *done])
    shrunk = yield [Task(run=_shrink_program, arguments=(each,), for_finding=True) for each in failures]
    findings = [
        finding or unshrunk(failed, StorageKind.FILES) for failed, finding in zip(failures, shrunk, strict=True)
    ]
    return stateful_phase("a copy of the table", fixed_results, done, findings, seed, missed if is_tried else None)


def _stateful_of(worker: Worker) -> Stateful:
    return Stateful(worker.question.image, worker.question.path)


def _controlled(worker: Worker) -> Stateful:
    """Return programs on the table, or on a small new one where the controls would take longer than the bound."""
    is_large = worker.question.bounds.case_weight > 1
    return Stateful(None, worker.question.path) if is_large else worker.once(_stateful_of)


def _detects(worker: Worker, index: int, seed: int) -> bool:
    return worker.once(_controlled).detects(CONTROLS[index], seed, str(worker.scratch))


def _run_fixed(worker: Worker, table: str | None, numbers: tuple[int, ...]) -> PartResult:
    return worker.once(_stateful_of).run_fixed(table, str(worker.scratch), numbers)


def _take_rules(worker: Worker, part: Part) -> PartResult:
    return worker.once(_stateful_of).explore(part, str(worker.scratch), worker.has_time, worker.report_progress)


def _shrink_program(worker: Worker, failed: Failed) -> Finding:
    return worker.once(_stateful_of).finding(failed, str(worker.scratch))


def _random(examples: int, seed: int) -> Exploration:
    failed, *results = yield [
        Task(run=_random_controls, arguments=(seed,), begins_first=True),
        *(Task(run=_explore_batch, arguments=batch, cost=batch[1]) for batch in batches(examples, seed)),
    ]
    done = [each for each in results if each is not None]
    return random_phase(done, failed, seed) if done else cut_short(PhaseName.RANDOM)


def _random_controls(worker: Worker, seed: int) -> tuple[str, ...]:
    return random_cases.failed_controls(case_under, seed)


def _explore_batch(worker: Worker, number: int, examples: int) -> BatchResult:
    preset = PRESETS[worker.question.preset or HARDENED]
    return explore_batch(preset, case_under, examples, number, worker.has_time, worker.report_progress)


def _crash(cuts_max: int, failing_calls_max: int) -> Exploration:
    failed, planned = yield [
        Task(run=_crash_controls, begins_first=True),
        Task(run=_plan_crashes, arguments=(cuts_max, failing_calls_max), cost=0),
    ]
    if isinstance(planned, Phase):
        return planned
    if planned is None:
        return cut_short(PhaseName.CRASH)
    plan, shares = planned
    results = yield [Task(run=_visit, arguments=(plan, share)) for share in shares]
    done = [each for each in results if each is not None]
    left: Counter[str] = Counter()
    for share, each in zip(shares, results, strict=True):
        left[share.kind] += share.stop - share.start if each is None else 0
    return crash_phase(plan, done, +left).with_controls(failed) if done else cut_short(PhaseName.CRASH)


def _crash_controls(worker: Worker) -> list[str]:
    return [*failures()]


def _crash_judge(worker: Worker) -> Judge:
    image, path = worker.question.image, worker.question.path
    return Judge(TableTarget(encode=remembered_encoder()), crash_operations(image, path), start=image, path=path)


def _plan_crashes(worker: Worker, cuts_max: int, failing_calls_max: int) -> Phase | tuple[Plan, list[Share]]:
    with remembered_decoding():
        try:
            judge = worker.once(_crash_judge)
        except Violation as violation:
            return fault_free_phase(TableTarget(), violation)
        plan = Plan.of(judge, cuts_max, recovery_kills_max=1, failing_calls_max=failing_calls_max)
        return plan, plan.shares(POINTS_IN_TASK)


def _visit(worker: Worker, plan: Plan, share: Share) -> ShareResult:
    # Many disks hold the same row groups.
    with remembered_decoding():
        judge = worker.once(_crash_judge)
        return CrashExploration(judge, TableTarget().name, plan, worker.has_time, worker.report_progress).run([share])


def _processes_phase(worker: Worker) -> Phase:
    question: CheckQuestion = worker.question
    directory = worker.scratch / "processes"
    directory.mkdir()
    return explore_processes(
        question.image,
        question.path,
        directory=directory,
        seed=question.seed,
        kills=question.bounds.kills,
        has_time=worker.has_time,
        on_progress=worker.report_progress,
    )


def _start_phase(question: CheckQuestion, error: str) -> Phase:
    sentence = f"{'Test cases on the table' if question.has_table else 'A small new table'} cannot be made: {error}."
    evidence = {MAKING: error, **{name: getattr(question, name) for name in ASKED}}
    return _unverified(sentence, ORDERLY, evidence, bound="commits before the first test case")


def _unverified(sentence: str, broken: str, evidence: dict[str, Any], bound: str = "the committed version") -> Phase:
    finding = Finding(property=broken, phase=PhaseName.VERIFY, sentence=sentence, evidence=evidence)
    return Phase(
        name=PhaseName.VERIFY, explored=1, complete=True, bound=bound, verdict=Verdict.INVALID, findings=(finding,)
    )


def _verify_phase(question: CheckQuestion) -> Phase:
    begin, cpu_begin = time.monotonic(), time.process_time()
    try:
        report = verify_table(open_table(question.image, question.path), whole=False)
    except CorruptError as error:
        report = TableReport(table=question.path, version=None, problems=(error.problem,))
    except EndlessError as error:
        return _unverified(f"Verifying the table does not end: {error}.", Property.ENDS, {ENDLESS: str(error)})
    except TornproofError:
        raise
    except Exception as error:
        died = f"{type(error).__name__}: {error}"
        return _unverified(f"Verifying the table ends in {died}.", ORDERLY, {DIED: died})
    counts = structs.asdict(report.counts)
    return Phase(
        name=PhaseName.VERIFY,
        explored=report.counts.chunks,
        complete=True,
        bound="the committed version: all generations, row groups and pages",
        verdict=Verdict.VALID if report.sound else Verdict.INVALID,
        seconds=time.monotonic() - begin,
        cpu_seconds=time.process_time() - cpu_begin,
        counts={**counts, "problems": len(report.all_problems)},
        note="; ".join(report.notes),
        findings=tuple(
            Finding(
                property="a table on disk is sound",
                phase=PhaseName.VERIFY,
                sentence=str(problem),
                evidence=structs.asdict(problem),
            )
            for problem in report.all_problems
        ),
    )


def _storage_phase(worker: Worker) -> Phase:
    question = worker.question
    return explore_storage(question.bounds.sequences, question.seed, str(worker.scratch), worker.report_progress)
