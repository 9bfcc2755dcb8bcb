"""Each injector and each judge of the explorers of schedules and of memory is blinded in turn; a control must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from depth import sampled

from tornproof.harness.explorers.memory import exploration as memory_exploration
from tornproof.harness.explorers.memory import explorer as memory
from tornproof.harness.explorers.memory.exploration import ReaderState
from tornproof.harness.explorers.memory.trace import WriterTrace
from tornproof.harness.explorers.schedules import controls as schedules
from tornproof.harness.explorers.schedules import exploration, writers
from tornproof.harness.explorers.schedules.exploration import Exploration
from tornproof.harness.search import dpor, random_schedules, reader_reduction
from tornproof.harness.search.contention import Contention
from tornproof.harness.search.staleness import StaleReads
from tornproof.harness.simulator.filesystem import accesses as filesystem
from tornproof.harness.simulator.filesystem.accesses import Access
from tornproof.harness.simulator.memory_model.memory_views import MemoryModel, StoreHistory
from tornproof.harness.simulator.process import world as process_world
from tornproof.harness.simulator.process.observer import Judge, Property
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image

Patch = pytest.MonkeyPatch
Blinding = Callable[[Patch], None]

JUDGED_IN_SCHEDULES = (
    Property.WRONG_SNAPSHOT,
    Property.REJECTED,
    Property.STALE,
    Property.WENT_BACK,
    Property.COMMIT,
    Property.RECOVERY,
    Property.DISORDERLY,
    Property.ENDS,
    Property.LEASE,
    Property.IMMUTABLE,
    Property.BARRIERS,
    Property.CONTENT,
    Property.BEHAVIOUR,
)


def no_races_reversed(patch: Patch) -> None:
    patch.setattr(dpor._Search, "_reverse", lambda *arguments: None)


def without_accesses(is_left_out: Callable[[Access], bool]) -> Blinding:
    def blind(patch: Patch) -> None:
        known = filesystem.accesses

        def some(*arguments: Any) -> tuple[Access, ...]:
            return tuple(access for access in known(*arguments) if not is_left_out(access))

        for module in (process_world, reader_reduction):
            patch.setattr(module, "accesses", some)

    return blind


def is_lock(access: Access) -> bool:
    return isinstance(access.of, tuple) and access.of[0] == "locks"


def nobody_is_woken(patch: Patch) -> None:
    patch.setattr(process_world, "are_dependent", lambda some, others: False)


def every_call_is_made_early(patch: Patch) -> None:
    patch.setattr("tornproof.harness.search.contention._covers", lambda known, needs: True)
    patch.setattr(Contention, "is_refuted", property(lambda self: False, lambda self, value: None), raising=False)


def no_stale_read_is_looked_for(patch: Patch) -> None:
    patch.setattr(StaleReads, "of", lambda self, run: iter(()))


def no_least_version(patch: Patch) -> None:
    patch.setattr(Judge, "begin_read", lambda self, progress, process: progress)


def one_state_of_the_writer(patch: Patch) -> None:
    patch.setattr(reader_reduction.Trace, "next_change", lambda self, *arguments, **more: None)


def no_arrivals_at_two_points(patch: Patch) -> None:
    """Each call of a reader is made at the first state of the writer, and at the last one."""
    following = reader_reduction.Trace.next_change

    def last(self: Any, trace_index: int, *arguments: Any, **more: Any) -> int | None:
        changed = following(self, trace_index, *arguments, **more)
        return None if changed is None else len(self) - 1

    patch.setattr(reader_reduction.Trace, "next_change", last)


def always_the_first(patch: Patch) -> None:
    patch.setattr(exploration, "uniform", lambda generator: lambda indexes, transition: indexes[0])


def no_change_of_priority(patch: Patch) -> None:
    draw = random_schedules.pct
    patch.setattr(
        exploration, "pct", lambda generator, processes, transitions, depth: draw(generator, processes, transitions, 1)
    )


def a_wait_is_no_end(patch: Patch) -> None:
    patch.setattr(World, "finish", lambda self: ([], False))


SCHEDULE_BLINDINGS: dict[str, tuple[Blinding, str]] = {
    "no races reversed": (no_races_reversed, "DPOR"),
    "bytes are no accesses": (without_accesses(lambda access: access.of.__class__ is not tuple), "DPOR"),
    "names are no accesses": (
        without_accesses(lambda access: access.of.__class__ is tuple and not is_lock(access)),
        "DPOR",
    ),
    "locks are no accesses": (without_accesses(is_lock), "DPOR"),
    "every call is made early": (every_call_is_made_early, "DPOR"),
    "no stale read is looked for": (no_stale_read_is_looked_for, "DPOR"),
    "a read need not see what is acknowledged": (no_least_version, "reader reduction"),
    "one state of the writer": (one_state_of_the_writer, "reader reduction"),
    "only the first and the last state of the writer": (no_arrivals_at_two_points, "reader reduction"),
    "always the first process": (always_the_first, "uniform random"),
    "no change of priority": (no_change_of_priority, "PCT"),
    "a wait is no end": (a_wait_is_no_end, "DPOR"),
    "who waits is not woken": (nobody_is_woken, "DPOR"),
}


def not_judged_in_schedules(violated: str) -> Blinding:
    def blind(patch: Patch) -> None:
        find = Exploration._find

        def seen(self: Exploration, violation: Any, *more: Any) -> None:
            if violation.property != violated:
                find(self, violation, *more)

        patch.setattr(Exploration, "_find", seen)

    return blind


@pytest.mark.nightly
def test_without_blinding_all_controls_pass() -> None:
    assert [*schedules.failures(0)] == []


def test_methods_that_find_something_in_every_toy_fail_the_control_of_each_sound_one(monkeypatch: Patch) -> None:
    every = {*JUDGED_IN_SCHEDULES}
    monkeypatch.setattr(schedules, "_found", lambda case, seed: dict.fromkeys(("DPOR", "PCT"), every))
    assert {each for each in schedules.failures(0) if "the sound toy" in each} == {
        f"{method} rejected the sound toy {case.target.name!r}: {violated}"
        for case, method, violated in product(schedules.SOUND, ("DPOR", "PCT"), every)
    }


def test_several_writers_in_which_something_is_always_found_fail_the_control_of_each_sound_toy(
    monkeypatch: Patch,
) -> None:
    found = {(violated, process): None for _, violated, process in writers.CONTROLS}
    monkeypatch.setattr(writers, "_found_in", lambda toy: found)
    assert {*writers.failed_controls()} == {
        f"the sound toy {toy.name!r} was said to be broken: {violated}"
        for toy, (violated, _) in product(writers.SOUND, found)
    }


@pytest.mark.parametrize("name", sampled(2, list(SCHEDULE_BLINDINGS)))
def test_a_blinded_search_of_schedules_is_noticed(name: str, monkeypatch: Patch) -> None:
    blind, method = SCHEDULE_BLINDINGS[name]
    blind(monkeypatch)
    assert any(failure.startswith(method) for failure in schedules.failures(0))


@pytest.mark.parametrize("violated", JUDGED_IN_SCHEDULES)
def test_a_property_that_is_not_judged_in_schedules_is_noticed(violated: str, monkeypatch: Patch) -> None:
    # The other toys have nothing to do with it.
    monkeypatch.setattr(schedules, "BROKEN", [each for each in schedules.BROKEN if violated in each])
    not_judged_in_schedules(violated)(monkeypatch)
    assert any(violated in failure for failure in schedules.failures(0))


# Memory


def stores_are_in_order(patch: Patch) -> None:
    patch.setattr(StoreHistory, "_carried", lambda self, model, store: store.number)


def loads_are_in_order(patch: Patch) -> None:
    seen = StoreHistory._seen
    patch.setattr(
        StoreHistory,
        "_seen",
        lambda self, model, *more: (
            seen(self, model, *more).fenced() if model is MemoryModel.WEAK else seen(self, model, *more)
        ),
    )


def system_calls_are_fences(patch: Patch) -> None:
    history = WriterTrace.history
    patch.setattr(WriterTrace, "history", lambda self, **more: history(self, system_calls_are_fences=True))


def system_calls_of_the_reader_are_no_fences(patch: Patch) -> None:
    patch.setattr(memory_exploration, "is_system_call", lambda call: False)


def only_the_latest_store(patch: Patch) -> None:
    loads = StoreHistory.loads
    patch.setattr(StoreHistory, "loads", lambda self, *arguments: loads(self, *arguments)[-1:])


def only_the_oldest_store(patch: Patch) -> None:
    loads = StoreHistory.loads
    patch.setattr(StoreHistory, "loads", lambda self, *arguments: loads(self, *arguments)[:1])


def one_read(patch: Patch) -> None:
    patch.setattr(memory, "READ_COUNT", 1)


MEMORY_BLINDINGS: dict[str, Blinding] = {
    "stores are in order": stores_are_in_order,
    "loads are in order": loads_are_in_order,
    "system calls are fences": system_calls_are_fences,
    "system calls of the reader are no fences": system_calls_of_the_reader_are_no_fences,
    "only the latest store": only_the_latest_store,
    "only the oldest store": only_the_oldest_store,
    "one read": one_read,
}


def failures_of_memory() -> Iterator[str]:
    image = made_image()
    _, _, rewritten, _ = crash_operations(image, MADE_PATH)
    case = memory.MemoryTestCase(
        target=TableTarget(), operations=(rewritten,) * 4, path=MADE_PATH, start=image, settled_count=2
    )
    return memory.failures(case)


@pytest.mark.nightly
def test_without_blinding_all_controls_of_memory_pass() -> None:
    assert [*failures_of_memory()] == []


def test_a_memory_model_that_finds_something_in_every_variant_fails_each_negative_control(monkeypatch: Patch) -> None:
    monkeypatch.setattr(memory, "_is_detected", lambda *_: True)
    failed = [f"{variant.name} was rejected under {case}" for variant, case in memory.NEGATIVE_CONTROLS]
    assert [*failures_of_memory()] == failed != []


@pytest.mark.parametrize("name", sampled(2, list(MEMORY_BLINDINGS)))
def test_a_blinded_memory_model_is_noticed(name: str, monkeypatch: Patch) -> None:
    MEMORY_BLINDINGS[name](monkeypatch)
    assert any(failures_of_memory())


@pytest.mark.parametrize(
    "violated", sampled(2, [Property.WRONG_SNAPSHOT, Property.REJECTED, Property.WENT_BACK, Property.DISORDERLY])
)
def test_a_property_that_is_not_judged_in_memory_is_noticed(violated: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(memory, "CONTROLS", [each for each in memory.CONTROLS if violated in each])
    broken = ReaderState.broken
    monkeypatch.setattr(ReaderState, "broken", lambda self, *of: self if of[0] == violated else broken(self, *of))
    assert any(violated in failure for failure in failures_of_memory())
