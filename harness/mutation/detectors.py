"""The explorers as detectors: each explores one scenario with a fault planted, and stops at the first finding.

The cheapest explorer of a fault must find it, and those that it is hidden from must not. Without a finding, each
explores its scenario exhaustively, as its docstring says; the scenarios are small enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tornproof.harness.common.remembered_codecs import remembered_encoder
from tornproof.harness.explorers.corruption.judge import Judge as DamageJudge
from tornproof.harness.explorers.corruption.judge import Outcome
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Flip
from tornproof.harness.explorers.kills.explorer import explore_crashes
from tornproof.harness.explorers.memory.exploration import Baseline as MemoryBaseline
from tornproof.harness.explorers.memory.exploration import MemoryExploration
from tornproof.harness.explorers.memory.trace import trace_writer, transaction_reader
from tornproof.harness.explorers.model_based.machine import Search
from tornproof.harness.explorers.model_based.start import StorageKind, prepare
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import explore_model
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.mutation.baseline import Baseline, Catch, baseline_of
from tornproof.harness.mutation.explorer import Explorer
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.mutation.sequential import metric, protected, sequential, small_limits, soft_links, trace_rule
from tornproof.harness.search.crash_world import READER_INDEX, Sessions
from tornproof.harness.search.dpor import Run, explore_all
from tornproof.harness.search.product_reduction import ProductReduction
from tornproof.harness.search.reader_reduction import ReaderReduction, Trace
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.memory_model.memory_views import MemoryModel
from tornproof.harness.simulator.persistence.models import C_512, C_4096, CDIR, A, B, D, Model
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.simulated_process import Process
from tornproof.harness.systems.scenario import Style
from tornproof.harness.systems.table import TableTarget
from tornproof.impl.table.partition import PM_FILE

STATEFUL_STEPS = 1_000
STATEFUL_SEED = 7
DAMAGE_BITS_MAX = 12_000
WATCHED_COMMITS = 2
TORN_CUTS = 100


Detector = Callable[[Baseline, Mutant], Catch]


def schedules(baseline: Baseline, mutant: Mutant) -> Catch:
    """Run every schedule of the first session and the reader of the scenario."""
    with mutant.planted():
        case = baseline.case(TableTarget())
        if all(each.style == Style.FRESH or each.style == Style.FOLLOW for each in case.readers):
            return _by_reduction(case)
        return _by_dpor(case)


def _by_reduction(case: TestCase) -> Catch:
    process_group = case.process_group()
    schedule_trace = Trace(case.begin(process_group))
    reduction = ReaderReduction(process_group.processes[READER_INDEX], READER_INDEX, process_group.judge)
    ends = reduction.search(schedule_trace, [reduction.root()])
    process_group.close()
    progresses = (*schedule_trace.progresses[-1:], *(end.progress for end in ends))
    violations = next((each.violations for each in progresses if each.violations), ())
    return Catch(reduction.state_count, violations[0].property if violations else "")


def _by_dpor(case: TestCase) -> Catch:
    violated: list[str] = []

    def on_end(run: Run) -> None:
        violated.extend(each.property for each in run.world.progress.violations)

    process_group = case.process_group()
    counts = explore_all(case.begin(process_group), on_end, has_time=lambda: not violated)
    process_group.close()
    return Catch(counts.complete, violated[0] if violated else "")


def _power(model: Model) -> Detector:
    """Crash the first session at every step, judge every legal disk, and recover and commit on it."""

    def detect(baseline: Baseline, mutant: Mutant) -> Catch:
        with mutant.planted():
            case = baseline.case(TableTarget())
            judge = PowerJudge(case)
            exploration = explore_model(judge, Traces(case), model, Settings(stops_at_first=True))
            judge.close()
        violated = [found.verdict.violated for found in exploration.found.values()]
        return Catch(len(exploration.tally.distinct), violated[0] if violated else "")

    return detect


def product_a(baseline: Baseline, mutant: Mutant) -> Catch:
    """Kill the writer at every step beside every schedule of a reader that survives the kill."""
    with mutant.planted():
        sessions = Sessions.of(baseline.case(TableTarget()))
        search = ProductReduction(sessions, A.name, _no_disks, has_time=lambda: not search.counts.found)
        counts = search.run()
        sessions.close()
    return Catch(counts.states, counts.found[0][0].property if counts.found else "")


def _no_disks(_: Kernel) -> tuple[()]:
    return ()


def _memory(model: MemoryModel) -> Detector:
    """Visit every execution of one read of `_txn` beside the first session."""

    def detect(baseline: Baseline, mutant: Mutant) -> Catch:
        sound = baseline.sound
        with mutant.planted():
            operations = [sound.operations[number] for number in sound.first_session]
            session = trace_writer(TableTarget(), operations, start=baseline.start, path=sound.path)
            trace = session.settled(len(operations) - WATCHED_COMMITS)
            reader = Process("reader", transaction_reader(sound.path, 1))
            search = MemoryExploration(MemoryBaseline.of(trace, model, system_calls_are_fences=False), reader)
            explored = search.run(has_time=lambda: not search.explored.broken)
            reader.close()
        return Catch(len(explored.executions), next(iter(explored.broken), ""))

    return detect


def torn_crash(baseline: Baseline, mutant: Mutant) -> Catch:
    """Kill the first session at every step and inside every write."""
    sound = baseline.sound
    operations = [baseline.operation(number) for number in sound.first_session]
    with mutant.planted():
        phase = explore_crashes(TableTarget(), operations, start=baseline.start, path=sound.path, cuts_max=TORN_CUTS)
    return Catch(phase.explored, phase.findings[0].property if phase.findings else "")


def damage(baseline: Baseline, mutant: Mutant) -> Catch:
    """Flip bits of every `_pm` of the first session, until a flip is accepted that is rejected without the fault."""
    storage = baseline.storage()
    with TableTarget().open_writer(storage, baseline.sound.path) as writer:
        for number in baseline.sound.first_session:
            writer.commit(baseline.operation(number))
    judge = DamageJudge(storage.image(), baseline.sound.path)
    tried = 0
    for file in judge.regions:
        bits = range(judge.size_bytes(file) * BITS_IN_BYTE if file.endswith(PM_FILE) else 0)
        for flip in (Flip(file, bit) for bit in bits[:DAMAGE_BITS_MAX]):
            tried += 1
            with mutant.planted():
                outcome = judge.judge(flip)[0]
            if outcome is not Outcome.REJECTED and judge.judge(flip)[0] is Outcome.REJECTED:
                return Catch(tried, "damage of metadata is rejected")
    return Catch(tried)


def stateful(_: Baseline, mutant: Mutant) -> Catch:
    """Take random rules on a small table of its own, and compare it with the model."""
    search = Search(
        start=prepare(None, "/table"),
        kind=StorageKind.MEMORY,
        scratch="",
        encode=remembered_encoder(),
        steps=STATEFUL_STEPS,
        has_time=lambda: True,
        on_progress=lambda done, total: None,
    )
    with mutant.planted():
        search.run(STATEFUL_SEED)
    return Catch(search.explored, search.failure.violation.broken if search.failure else "")


DETECTORS: Mapping[Explorer, Detector] = MappingProxyType(
    {
        Explorer.SEQUENTIAL: sequential,
        Explorer.METRIC: metric,
        Explorer.SOFT_LINKS: soft_links,
        Explorer.SMALL_LIMITS: small_limits,
        Explorer.PROTECTED: protected,
        Explorer.TRACE_RULE: trace_rule,
        Explorer.SCHEDULES: schedules,
        Explorer.CRASH: _power(A),
        Explorer.TORN_CRASH: torn_crash,
        Explorer.POWER_B: _power(B),
        Explorer.POWER_C_4096: _power(C_4096),
        Explorer.POWER_C_512: _power(C_512),
        Explorer.POWER_CDIR: _power(CDIR),
        Explorer.FAILED_SYNC: _power(D),
        Explorer.PRODUCT_A: product_a,
        Explorer.MEMORY_SEQUENTIAL: _memory(MemoryModel.SEQUENTIAL),
        Explorer.MEMORY_TOTAL_STORE_ORDER: _memory(MemoryModel.TOTAL_STORE_ORDER),
        Explorer.MEMORY_WEAK: _memory(MemoryModel.WEAK),
        Explorer.DAMAGE: damage,
        Explorer.STATEFUL: stateful,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationRun:
    """The outcome of one mutation run.

    `reached`: the planted code was used. `triggered`: a process did or saw something else than without the fault.
    `detected`: `property` was broken, after `explored_count` states, runs or damages.
    """

    reached: bool
    triggered: bool
    detected: bool
    explored_count: int
    property: str


def mutation_run(fault: FaultFile, explorer: Explorer | None = None) -> MutationRun:
    """Search for a fault on its scenario with an explorer, by default the cheapest that finds it."""
    baseline, mutant = baseline_of(fault.scenario), Mutant(fault)
    asked = explorer or fault.explorer
    assert asked is not None, "nobody is said to find it"
    catch = DETECTORS[asked](baseline, mutant)
    return MutationRun(
        reached=mutant.reached_count > 0,
        triggered=bool(catch.property) or _trace(baseline, mutant) != _trace(baseline, None),
        detected=bool(catch.property),
        explored_count=catch.explored_count,
        property=catch.property,
    )


def _trace(baseline: Baseline, mutant: Mutant | None) -> list[object]:
    """Return the calls and marks of the writer and then the reader, with a fault or without any."""
    if mutant is None:
        return _run(baseline)
    with mutant.planted():
        return _run(baseline)


def _run(baseline: Baseline) -> list[object]:
    case = baseline.case(TableTarget())
    process_group = case.process_group()
    world = case.begin(process_group)
    done: list[object] = []
    for index in range(min(len(process_group.processes), READER_INDEX + 1)):
        while world.nodes[index].call is not None:
            done.append(world.call(index))
            world.step(index)
            done.append(world.nodes[index].marks)
    process_group.close()
    return done
