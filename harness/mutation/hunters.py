"""The explorers as hunters of faults: each plants a fault, explores one scenario, and stops at the first finding.

The cheapest explorer of a fault must find it, and those that it is hidden from must not. What a hunt without a finding
went through is said for each; scenarios are small enough for all of it.
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
from tornproof.harness.explorers.memory.exploration import Ground as MemoryGround
from tornproof.harness.explorers.memory.exploration import MemoryExploration
from tornproof.harness.explorers.memory.trace import mapped_reader, trace_writer
from tornproof.harness.explorers.model_based.machine import Search
from tornproof.harness.explorers.model_based.start import StorageKind, prepare
from tornproof.harness.explorers.power_cuts.course import Courses
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.lives import explore_model
from tornproof.harness.mutation.fault import Explorer, PlantedFault, Planting
from tornproof.harness.mutation.ground import Catch, Ground, ground_of
from tornproof.harness.mutation.sequential import metric, sequential, trace_rule
from tornproof.harness.search.crash_world import READER_PLACE, Lives
from tornproof.harness.search.cuts import Course, Cuts
from tornproof.harness.search.dpor import Run, explore_all
from tornproof.harness.search.product_cuts import ProductCuts
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.memory_model.memory_views import MemoryModel
from tornproof.harness.simulator.persistence.models import C_512, C_4096, CDIR, A, B, D, Model
from tornproof.harness.simulator.process.client import Client
from tornproof.harness.simulator.process.situation import Situation
from tornproof.harness.systems.scenario import Style
from tornproof.harness.systems.table import TableTarget
from tornproof.impl.table.partition import PM_FILE

STATEFUL_STEPS = 1_000
STATEFUL_SEED = 7
DAMAGE_BITS_MAX = 12_000
WATCHED_COMMITS = 2
TORN_CUTS = 100


Hunter = Callable[[Ground, Planting], Catch]


def schedules(ground: Ground, planting: Planting) -> Catch:
    """Run every schedule of the first life and the reader of the scenario."""
    with planting.planted():
        situation = ground.situation(planting.target)
        if all(each.style == Style.FRESH or each.style == Style.FOLLOW for each in situation.readers):
            return _cuts(situation)
        return _orders(situation)


def _cuts(situation: Situation) -> Catch:
    cast = situation.cast()
    course = Course(situation.begin(cast))
    cuts = Cuts(cast.clients[READER_PLACE], READER_PLACE, cast.judge)
    come = cuts.search(course, [cuts.root()])
    cast.close()
    states = (state.progress for state in come)
    violated = next((each.violations for each in (*course.progresses[-1:], *states) if each.violations), ())
    return Catch(cuts.state_count, violated[0].property if violated else "")


def _orders(situation: Situation) -> Catch:
    violated: list[str] = []

    def on_end(run: Run) -> None:
        violated.extend(each.property for each in run.world.progress.violations)

    cast = situation.cast()
    counts = explore_all(situation.begin(cast), on_end, has_time=lambda: not violated)
    cast.close()
    return Catch(counts.complete, violated[0] if violated else "")


def _power(model: Model) -> Hunter:
    """Crash the first life at every step, judge every legal disk, and recover and commit on it."""

    def hunt(ground: Ground, planting: Planting) -> Catch:
        with planting.planted():
            situation = ground.situation(planting.target)
            judge = PowerJudge(situation)
            exploration = explore_model(judge, Courses(situation), model, Settings(stops_at_first=True))
            judge.close()
        violated = [found.verdict.violated for found in exploration.found.values()]
        return Catch(len(exploration.tally.distinct), violated[0] if violated else "")

    return hunt


def product_a(ground: Ground, planting: Planting) -> Catch:
    """Kill the writer at every step beside every schedule of a reader that lives through it."""
    with planting.planted():
        lives = Lives.of(ground.situation(planting.target))
        search = ProductCuts(lives, A.name, _no_disks, lambda _: not search.counts.found)
        counts = search.run()
        lives.close()
    return Catch(counts.states, counts.found[0][0].property if counts.found else "")


def _no_disks(_: Kernel) -> tuple[()]:
    return ()


def _memory(model: MemoryModel) -> Hunter:
    """Visit every execution of one read of the mapped reader beside the first life."""

    def hunt(ground: Ground, planting: Planting) -> Catch:
        sound = ground.sound
        with planting.planted():
            operations = [sound.operations[number] for number in sound.first_life]
            life = trace_writer(planting.target, operations, start=ground.start, path=sound.path)
            trace = life.settled(len(operations) - WATCHED_COMMITS)
            reader = Client("reader", mapped_reader(sound.path, 1))
            search = MemoryExploration(MemoryGround.of(trace, model, system_calls_are_fences=False), reader)
            explored = search.run(has_time=lambda: not search.explored.broken)
            reader.close()
        return Catch(len(explored.executions), next(iter(explored.broken), ""))

    return hunt


def torn_crash(ground: Ground, planting: Planting) -> Catch:
    """Kill the first life at every step and inside every write."""
    sound = ground.sound
    operations = [ground.operation(number) for number in sound.first_life]
    with planting.planted():
        phase = explore_crashes(planting.target, operations, start=ground.start, path=sound.path, cuts_max=TORN_CUTS)
    return Catch(phase.explored, phase.findings[0].property if phase.findings else "")


def damage(ground: Ground, planting: Planting) -> Catch:
    """Flip the bits of every `_pm` that the first life left, until one is read that is refused without the fault."""
    storage = ground.storage()
    with TableTarget().open_writer(storage, ground.sound.path) as writer:
        for number in ground.sound.first_life:
            writer.commit(ground.operation(number))
    judge = DamageJudge(storage.image(), ground.sound.path)
    tried = 0
    for file in judge.regions:
        bits = range(judge.size_bytes(file) * BITS_IN_BYTE if file.endswith(PM_FILE) else 0)
        for flip in (Flip(file, bit) for bit in bits[:DAMAGE_BITS_MAX]):
            tried += 1
            with planting.planted():
                outcome = judge.judge(flip)[0]
            if outcome is not Outcome.REJECTED and judge.judge(flip)[0] is Outcome.REJECTED:
                return Catch(tried, "damage of metadata is refused")
    return Catch(tried)


def stateful(_: Ground, planting: Planting) -> Catch:
    """Take drawn rules, with the model beside, on a small table of its own."""
    search = Search(
        start=prepare(None, "/table"),
        kind=StorageKind.MEMORY,
        scratch="",
        encode=remembered_encoder(),
        steps=STATEFUL_STEPS,
        has_time=lambda: True,
        on_progress=lambda done, total: None,
    )
    with planting.planted():
        search.run(STATEFUL_SEED, shrinks=False)
    return Catch(search.explored, search.failure.violation.broken if search.failure else "")


HUNTERS: Mapping[Explorer, Hunter] = MappingProxyType(
    {
        Explorer.SEQUENTIAL: sequential,
        Explorer.METRIC: metric,
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
class Hunt:
    """What came of one hunt.

    `reached`: the place was come to. `triggered`: somebody did or saw something else than without the fault.
    `detected`: `property` was broken, after `explored_count` states, runs or damages.
    """

    reached: bool
    triggered: bool
    detected: bool
    explored_count: int
    property: str


def hunt(fault: PlantedFault, explorer: Explorer | None = None) -> Hunt:
    """Let an explorer, by default the cheapest that finds it, look for a fault on its scenario."""
    ground, planting = ground_of(fault.scenario), Planting(fault)
    caught = HUNTERS[explorer or fault.explorer](ground, planting)
    return Hunt(
        reached=planting.reached_count > 0,
        triggered=bool(caught.property) or _course(ground, planting) != _course(ground, None),
        detected=bool(caught.property),
        explored_count=caught.explored_count,
        property=caught.property,
    )


def _course(ground: Ground, planting: Planting | None) -> list[object]:
    """Return what writer and reader call and say, one after the other, with a fault or without any."""
    if planting is None:
        return _run(ground, TableTarget())
    with planting.planted():
        return _run(ground, planting.target)


def _run(ground: Ground, target: TableTarget) -> list[object]:
    situation = ground.situation(target)
    cast = situation.cast()
    world = situation.begin(cast)
    done: list[object] = []
    for place in range(min(len(cast.clients), READER_PLACE + 1)):
        while world.nodes[place].call is not None:
            done.append(world.call(place))
            world.step(place)
            done.append(world.nodes[place].marks)
    cast.close()
    return done
