"""DPOR against every interleaving of toys, closed forms, and state search of the real implementation."""

import functools
import math
from collections.abc import Callable, Iterable
from operator import ge
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import pytest
from depth import nightly, sampled
from state_search import StateCounts, enumerate_schedules, search_states, search_transitions
from table_cases import GROW, table_case
from toy_processes import CELLS, Step, Toys, drawn_toys, process, program, read_only_calls, world_of

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.search.contention import Contention, Depths, _Effect, _Reads
from tornproof.harness.search.dpor import Counts, Run, Transition, explore_all
from tornproof.harness.search.outcome import Outcome, Outcomes
from tornproof.harness.search.transitions import Schedule, State, follow
from tornproof.harness.simulator.filesystem.accesses import SIZE, Access, accesses, are_dependent
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import READ_ONLY_CALLS, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.simulated_process import Node, Say
from tornproof.harness.simulator.process.world import World
from tornproof.impl.storage.interface import OpenMode, Storage

DAY, NIGHT, PART = 100, 24_100, 2_000
SEEN_BY = 200
"""Seeds of which one shows each blindness."""
INVISIBLE = {
    CallKind.LOAD_FENCE,
    CallKind.STORE_FENCE,
    CallKind.CLOCK,
    CallKind.SLEEP,
    CallKind.FSYNC,
    CallKind.FDATASYNC,
    CallKind.MSYNC,
    CallKind.UNMAP,
}
"""The calls whose order with those of other processes no process can see."""
Blind: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def outcome_of(world: World) -> Outcome:
    return Outcomes().of(world)


def reduced(world: World) -> tuple[Counts, list[Outcome]]:
    outcomes: list[Outcome] = []
    counts = explore_all(world, lambda run: outcomes.append(outcome_of(run.world)))
    return counts, outcomes


def every_outcome(world: World) -> tuple[int, set[Outcome]]:
    outcomes: set[Outcome] = set()
    count = enumerate_schedules(world, lambda end: outcomes.add(outcome_of(end)))
    return count, outcomes


def states_outcomes(case: TestCase) -> set[Outcome]:
    process_group = case.process_group()
    outcomes: set[Outcome] = set()
    assert search_states(case.begin(process_group), lambda end: outcomes.add(outcome_of(end))).is_done
    process_group.close()
    return outcomes


def reduced_outcomes(case: TestCase) -> tuple[Counts, set[Outcome]]:
    process_group = case.process_group()
    counts, outcomes = reduced(case.begin(process_group))
    process_group.close()
    return counts, set(outcomes)


def test_independent_processes_have_as_many_interleavings_as_the_closed_form_says_and_one_order() -> None:
    world = world_of([read_only_calls("a", 10), read_only_calls("b", 8)])

    assert enumerate_schedules(world, lambda end: None) == math.comb(18, 8) == 43_758
    assert reduced(world)[0].complete == 1


@pytest.mark.nightly
def test_three_million_interleavings_are_as_many_as_the_closed_form_says() -> None:
    world = world_of([read_only_calls("a", 20), read_only_calls("b", 8)])

    assert enumerate_schedules(world, lambda end: None) == math.comb(28, 8) == 3_108_105
    assert reduced(world)[0].complete == 1


@functools.lru_cache(maxsize=SEEN_BY)
def interleavings(toys: Toys) -> tuple[int, set[Outcome]]:
    world = toys.world()
    found = every_outcome(world)
    world.process_group.close()
    return found


def disagrees(toys: Toys) -> bool:
    """Say whether DPOR misses an outcome of some processes, has an impossible one, or says that it is not done."""
    world = toys.world()
    counts, outcomes = reduced(world)
    world.process_group.close()
    schedule_count, expected = interleavings(toys)
    return not counts.is_done or counts.complete > schedule_count or set(outcomes) != expected


@pytest.mark.parametrize(
    "seeds", [range(DAY), *(nightly(range(begin, begin + PART)) for begin in range(DAY, NIGHT, PART))], ids=str
)
def test_the_outcomes_of_random_processes_are_those_of_all_their_interleavings(seeds: range) -> None:
    assert [toys for toys in map(drawn_toys, seeds) if disagrees(toys)] == []


def without_accesses(is_left_out: Callable[[Call, Access], bool]) -> Blind:
    def some_accesses(kernel: Kernel, session: int, call: Call) -> tuple[Access, ...]:
        return tuple(access for access in accesses(kernel, session, call) if not is_left_out(call, access))

    return replacing("tornproof.harness.simulator.process.world.accesses", some_accesses)


def without_accesses_of(kind: CallKind) -> Blind:
    return without_accesses(lambda call, access: call.kind is kind)


def replacing(target: str, by: object) -> Blind:
    return lambda patch: patch.setattr(target, by)


def is_name(access: Access) -> bool:
    return isinstance(access.of, tuple) and not is_lock(access)


def is_list(access: Access) -> bool:
    return isinstance(access.of, tuple) and access.of[1] is None


def is_lock(access: Access) -> bool:
    return isinstance(access.of, tuple) and access.of[0] == "locks"


def forget_names(patch: pytest.MonkeyPatch) -> None:
    def nameless(some: Iterable[Access], others: tuple[Access, ...]) -> bool:
        return are_dependent([access for access in some if not is_name(access)], others)

    for module in ("contention", "transitions"):
        patch.setattr(f"tornproof.harness.search.{module}.are_dependent", nameless)


def keep_refuted(patch: pytest.MonkeyPatch) -> None:
    never = property(lambda contention: False, lambda contention, value: None)
    patch.setattr(Contention, "is_refuted", never, raising=False)


def never_wake(patch: pytest.MonkeyPatch) -> None:
    take = State.take_transition

    def take_alone(state: State, process_index: int, known: Depths | None = None) -> list[int]:
        take(state, process_index, known)
        return []

    patch.setattr(State, "take_transition", take_alone)


class Remembering(Contention):
    """Takes the answers of read-only calls for known when the process had the same answers and open files before."""

    def drop_assumptions(self) -> None:
        super().drop_assumptions()
        self.remembered: dict[object, Any] = {}

    def advance(self, world: World, process_index: int, known: Depths) -> tuple[Access, ...] | None:
        kernel = world.kernel
        while (node := world.nodes[process_index]).call is not None:
            opened = (*kernel.handles.items(), *kernel.mappings.items())
            key = process_index, node.number, *(item for item in opened if item[0][0] == process_index)
            effect, *after = self.remembered.get(key, (None,))
            if effect is not None and all(map(ge, known, effect.needs)):
                world.nodes[process_index], handles, mappings = after
                kernel.handles.update(handles)
                kernel.mappings.update(mappings)
                continue
            accessed = world.accesses(process_index)
            effect = self.learn(process_index, node.depth, accessed)
            if node.begins or not all(map(ge, known, effect.needs)):
                return accessed
            effect.is_assumed = True
            world.step(process_index)
            if node.call.kind in READ_ONLY_CALLS:
                handles, mappings = (
                    {number: open_ for number, open_ in table.items() if number[0] == process_index}
                    for table in (kernel.handles, kernel.mappings)
                )
                self.remembered[key] = effect, world.nodes[process_index], handles, mappings
        return None


BLINDED: dict[str, Blind] = {
    **{f"a call to {kind} accesses nothing": without_accesses_of(kind) for kind in CallKind if kind not in INVISIBLE},
    "names": without_accesses(lambda call, access: is_name(access)),
    "lists of names": without_accesses(lambda call, access: is_list(access)),
    "sizes": without_accesses(lambda call, access: access.start == SIZE),
    "locks": without_accesses(lambda call, access: is_lock(access)),
    "names when calls are compared": forget_names,
    "answers are remembered": replacing("tornproof.harness.search.dpor.Contention", Remembering),
    "reads are repeated": replacing("tornproof.harness.search.contention._Reads.fits", lambda *arguments: True),
    "refuted assumptions are kept": keep_refuted,
    "races are not reversed": replacing("tornproof.harness.search.dpor._Search._reverse", lambda *arguments: None),
    "processes that sleep are never woken": never_wake,
}


@pytest.mark.parametrize("blind", sampled(3, list(BLINDED.values()), seed=1), ids=BLINDED)
def test_random_processes_show_that_a_search_is_blind(blind: Blind, monkeypatch: pytest.MonkeyPatch) -> None:
    blind(monkeypatch)

    assert any(disagrees(drawn_toys(seed)) for seed in range(SEEN_BY))


class Comparing(Contention):
    """Makes all calls that reads are repeated for once more, one by one, and collects what differs."""

    def __init__(self, process_count: int) -> None:
        super().__init__(process_count)
        self.repeats = True
        self.repeated_count = 0
        self.differing: list[object] = []

    def advance(self, world: World, process_index: int, known: Depths) -> tuple[Access, ...] | None:
        by_call = world.fork()
        accessed = super().advance(world, process_index, known)
        self.repeats = False
        expected = super().advance(by_call, process_index, known)
        self.repeats = True
        if (accessed, world.nodes, world.kernel.identity(), world.progress, world.known) != (
            expected,
            by_call.nodes,
            by_call.kernel.identity(),
            by_call.progress,
            by_call.known,
        ):
            self.differing.append(world.nodes[process_index])
        return accessed

    def _again(self, world: World, node: Node, known: Depths) -> Any:
        found = super()._again(world, node, known) if self.repeats else None
        self.repeated_count += found is not None
        return found


def compared(world: World, schedules_max: int) -> Comparing:
    comparing = Comparing(len(world.nodes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tornproof.harness.search.dpor.Contention", lambda process_count: comparing)
        explore_all(world, lambda run: None, schedules_max=schedules_max)
    world.process_group.close()
    return comparing


@pytest.mark.parametrize("seeds", [range(DAY), nightly(range(DAY, 6_200))], ids=str)
def test_reads_that_are_repeated_are_those_that_would_be_made(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    comparisons = [compared(drawn_toys(seed).world(), 200) for seed in seeds]

    assert not [each.differing for each in comparisons if each.differing]
    assert sum(each.repeated_count for each in comparisons) > len(seeds) / 2
    monkeypatch.setattr("tornproof.harness.search.contention._Reads.fits", lambda *arguments: True)
    assert any(compared(drawn_toys(seed).world(), 200).differing for seed in seeds)


def test_reads_are_not_repeated_where_a_file_has_another_size() -> None:
    kernel = Kernel.of(DiskImage.of_files({"a": b"x"}))
    opened = Call(kind=CallKind.OPEN_FOR_READING, path="a", file=1)
    apply(kernel, 0, opened)
    node = cast(Node, SimpleNamespace(call=Call(kind=CallKind.SIZE, path="a", file=1)))
    reads = _Reads(kernel, node, 1)
    reads.add(kernel, 0, kernel.handles[0, 1], _Effect((), 1), node)
    assert reads.fits(kernel, (0,))
    longer = kernel.fork()
    apply(longer, 1, Call(kind=CallKind.OPEN_FOR_WRITING, path="a", file=1, mode=OpenMode.EXISTING))
    apply(longer, 1, Call(kind=CallKind.PWRITE, path="a", file=1, offset_bytes=1, content=b"y"))
    assert longer.directories is kernel.directories and not reads.fits(longer, (0,))


@pytest.mark.parametrize("schedules_max", [150, nightly(20_000)])
def test_reads_of_the_real_implementation_that_are_repeated_are_those_that_would_be_made(schedules_max: int) -> None:
    with remembered_decoding():
        case = table_case([GROW, GROW], readers=2)
        comparing = compared(case.begin(case.process_group()), schedules_max)

    assert not comparing.differing
    assert comparing.repeated_count > schedules_max


@pytest.mark.parametrize("search", [search_states, search_transitions])
def test_searches_of_states_have_the_outcomes_of_all_interleavings_too(
    search: Callable[[World, Callable[[World], None]], StateCounts],
) -> None:
    def outcomes_of(toys: Toys) -> set[Outcome]:
        outcomes: set[Outcome] = set()
        search(toys.world(), lambda end: outcomes.add(outcome_of(end)))
        return outcomes

    assert [toys for toys in map(drawn_toys, range(60)) if outcomes_of(toys) != interleavings(toys)[1]] == []


def test_no_order_of_dependent_calls_is_run_twice() -> None:
    def orders_of(toys: Toys) -> tuple[int, list[object]]:
        orders: list[object] = []
        counts = explore_all(toys.world(), lambda run: orders.append(order_of(run)))
        # A search that starts again after a refuted assumption passes some of them again.
        return counts.complete, orders[-counts.complete :]

    for count, orders in map(orders_of, map(drawn_toys, range(120))):
        assert len(set(orders)) == len(orders) == count


def order_of(run: Run) -> object:
    return tuple(tuple((transition.depth, transition.clock) for transition in own) for own in run.transitions)


def test_two_writers_of_one_cell_come_in_both_orders() -> None:
    world = world_of([process([Step("write", 0, value)]) for value in (1, 2)])

    counts, outcomes = reduced(world)

    assert (counts.complete, len({outcome.files for outcome in outcomes})) == (2, 2)


def test_a_write_that_changes_nothing_may_change_something_after_other_writes() -> None:
    """The search took the accesses of a call for known, which depend on the order of the calls before it."""
    one = process([Step("write", 0, 0), Step("write", 1, 1), Step("write", 0, 1)])
    other = process([Step("write", 0, 1), Step("write", 1, 0)])
    world = world_of([one, other, process([Step("read", 1), Step("read", 0)])])

    counts, outcomes = reduced(world)

    assert counts.is_done
    assert set(outcomes) == every_outcome(world)[1]
    assert len(set(outcomes)) == 8


def test_writing_what_is_there_is_independent_of_reading_it() -> None:
    world = world_of([process([Step("write", 0, 0)]), process([Step("read", 0)])])

    assert reduced(world)[0].complete == 1


def test_a_file_that_was_open_before_another_got_its_name_stays_what_it_was() -> None:
    def reader(storage: Storage, say: Say) -> None:
        with storage.open_for_reading("state") as file:
            say("answered", file.pread(3, 0))

    def writer(storage: Storage, say: Say) -> None:
        with storage.open_for_writing("new", OpenMode.NEW) as file:
            file.pwrite(b"new", 0)
        storage.rename("new", "state")

    world = world_of([writer, reader], {"state": b"old"})

    assert set(reduced(world)[1]) == every_outcome(world)[1]
    assert len(set(reduced(world)[1])) == 2


def test_refused_calls_in_another_order_may_answer_a_later_call_in_another_way() -> None:
    """The search took answers for known whose earlier calls are dependent, in whatever order those had come."""
    opening = [Step("open"), Step("open or make", path="d/file"), Step("open")]
    changing = [Step("unlink", path="d/file"), Step("rename", path="missing"), Step("kind", path="d/file")]
    world = world_of([program(opening), program(changing)], {CELLS: b"", "d/file": b""})

    counts, outcomes = reduced(world)

    assert counts.is_done
    assert set(outcomes) == every_outcome(world)[1]
    assert len(set(outcomes)) == 3


def test_a_write_of_what_is_there_under_a_lease_breaks_it_in_no_order() -> None:
    """The search takes it for independent of the view, so it broke the lease in only one of two equivalent orders."""
    viewing = process([Step("map"), Step("view"), Step("end view")])
    world = world_of([viewing, process([Step("write", 0, 0)])])

    assert set(reduced(world)[1]) == every_outcome(world)[1]
    assert not [violation for outcome in every_outcome(world)[1] for violation in outcome.violations]


def test_a_write_under_a_lease_is_found_although_it_may_come_after_the_view_has_begun() -> None:
    def reader(storage: Storage, say: Say) -> None:
        with storage.open_for_reading(CELLS) as file, file.map(3) as mapping, mapping.view(1, 0):
            pass

    world = world_of([process([Step("write", 0, 1)]), reader])
    violated: set[str] = set()
    explore_all(world, lambda run: violated.update(each.property for each in run.world.progress.violations))

    assert violated == {Property.LEASE}


def test_a_schedule_that_was_run_leads_to_the_same_end_again() -> None:
    world = world_of([process([Step("read", 0), Step("add", 1, 1)]), process([Step("add", 0, 1), Step("read", 1)])])
    ends = []

    def on_end(run: Run) -> None:
        again = follow(world, run.schedule(None))
        assert again.nodes == run.world.nodes and not again.enabled
        ends.append(again)

    assert explore_all(world, on_end).complete <= len(ends)


def begun_in(schedule: Schedule, transitions: Iterable[Transition], world: World) -> list[Transition]:
    """Return transitions in the order in which a schedule begins with them."""
    depths, calls = [node.depth for node in world.nodes], list[tuple[int, int]]()
    for process_index in (process_index for process_index, count in schedule for _ in range(count)):
        calls.append((process_index, depths[process_index]))
        depths[process_index] += 1
    return sorted(transitions, key=lambda each: calls.index((each.process_index, each.depth)))


def test_a_late_transition_comes_after_all_that_need_not_follow_it_and_the_end_is_the_same() -> None:
    def check(run: Run, world: World) -> None:
        transitions = [transition for own in run.transitions for transition in own]
        for late in transitions:
            schedule = run.schedule(late)
            order = begun_in(schedule, transitions, world)
            follow_it = [each.is_after(late) for each in order]
            assert follow_it == sorted(follow_it) and order[follow_it.index(True)] is late
            assert outcome_of(follow(world, schedule)) == outcome_of(run.world)

    for world in (drawn_toys(seed).world() for seed in range(12)):
        explore_all(world, functools.partial(check, world=world))
        world.process_group.close()


def test_without_time_the_search_says_that_it_is_not_done() -> None:
    world = world_of([process([Step("write", 0, value), Step("read", 0)]) for value in (1, 2, 3)])
    left = iter([True] * 7)

    assert not explore_all(world, lambda run: None, has_time=lambda: next(left, False)).is_done
    assert explore_all(world, lambda run: None).is_done


@pytest.mark.parametrize("commit_count", [1, nightly(2)])
def test_beside_a_reader_the_real_implementation_has_the_outcomes_that_all_its_states_have(commit_count: int) -> None:
    with remembered_decoding():
        case = table_case([GROW] * commit_count)
        counts, outcomes = reduced_outcomes(case)

        assert outcomes == states_outcomes(case)
    assert counts.is_done and len(outcomes) == commit_count + 1


def test_two_readers_of_the_real_implementation_have_the_products_of_outcomes_of_one() -> None:
    with remembered_decoding():
        one, one_outcomes = reduced_outcomes(table_case([GROW]))
        two, two_outcomes = reduced_outcomes(table_case([GROW], readers=2))

    # What readers do is independent of other readers, so the orders multiply too.
    assert two.complete == one.complete**2
    assert {outcome.said[1:] for outcome in two_outcomes} == {
        (*first.said[1:], *second.said[1:]) for first in one_outcomes for second in one_outcomes
    }


@pytest.mark.nightly
def test_beside_two_readers_one_commit_has_the_outcomes_that_all_its_states_have() -> None:
    with remembered_decoding():
        case = table_case([GROW], readers=2)

        assert reduced_outcomes(case)[1] == states_outcomes(case)


@pytest.mark.nightly
def test_two_commits_beside_two_readers_have_the_outcomes_that_all_states_between_transitions_have() -> None:
    with remembered_decoding():
        case = table_case([GROW, GROW], readers=2)
        counts, outcomes = reduced_outcomes(case)
        process_group = case.process_group()
        by_states: set[Outcome] = set()
        assert search_transitions(case.begin(process_group), lambda end: by_states.add(outcome_of(end))).is_done
        process_group.close()

    assert counts.is_done and outcomes == by_states and len(outcomes) == 9


@pytest.mark.nightly
@pytest.mark.parametrize(("commit_count", "reader_count"), [(2, 3), (3, 2)])
def test_the_larger_bounds_are_complete_too(commit_count: int, reader_count: int) -> None:
    with remembered_decoding():
        case = table_case([GROW] * commit_count, readers=reader_count)
        process_group = case.process_group()
        violations: set[object] = set()
        said: set[object] = set()

        def on_end(run: Run) -> None:
            violations.update(run.world.progress.violations)
            said.add(tuple(node.number for node in run.world.nodes[1:]))

        assert explore_all(case.begin(process_group), on_end).is_done
        process_group.close()

    assert not violations and len(said) > 100_000
