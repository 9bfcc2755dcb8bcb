"""When sleeping is a call of a simulated process, and when a process is taken to repeat itself without end."""

from collections.abc import Callable

import pytest
from toy_processes import CELLS, world_of

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import (
    CALLS_MAX,
    IDLE_SECONDS,
    REPEATED_CALLS_MAX,
    CallCount,
    EndlessError,
)
from tornproof.harness.simulator.process.simulated_process import Body, Node, Process, Say
from tornproof.harness.simulator.process.world import World
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage

LOOK, SLEEP, OPEN = CallKind.KIND, CallKind.SLEEP, CallKind.OPEN_FOR_READING


def calls_of(body: Body, answers: Callable[[Node], object] = lambda node: False) -> tuple[list[CallKind], Node]:
    """Return the calls of a process that gets these answers, and its end."""
    process, calls = Process("it", body), []
    node = process.root
    while node.call is not None:
        calls.append(node.call.kind)
        node = process.advance(node, answers(node))  # type: ignore[arg-type]
    process.close()
    return calls, node


def test_a_process_that_exits_because_it_is_ended_does_no_harm() -> None:
    """What it raised then, as in an `except BaseException`, ended the exploration."""

    def run(storage: Storage, say: Say) -> None:
        try:
            storage.kind("lock")
        except BaseException:
            raise SystemExit(1) from None

    Process("it", run).close()


def looks_and_sleeps(count: int, *, says: bool = False) -> Body:
    def run(storage: Storage, say: Say) -> None:
        for _ in range(count):
            storage.kind("lock")
            if says:
                say("got on", None)
            storage.sleep_seconds(1.0)

    return run


def kinds(node: Node) -> object:
    return EntryKind.FILE if node.call is not None and node.call.kind is LOOK else False


@pytest.mark.parametrize(("count", "expected"), [(1, [LOOK]), (2, [LOOK, LOOK, SLEEP]), (9, [LOOK, LOOK, SLEEP])])
def test_sleeping_is_a_call_once_the_same_was_seen_twice_and_then_time_passes_in_one_step(
    count: int, expected: list[CallKind]
) -> None:
    assert calls_of(looks_and_sleeps(count), kinds)[0] == expected


def test_who_saw_something_new_or_has_said_something_does_not_wait() -> None:
    seen = iter([EntryKind.FILE, EntryKind.MISSING] * 9)
    assert calls_of(looks_and_sleeps(5), lambda node: next(seen))[0] == [LOOK] * 5
    assert calls_of(looks_and_sleeps(5, says=True), kinds)[0] == [LOOK] * 5


@pytest.mark.parametrize(("counts", "expected"), [((2, 1), [LOOK] * 3), ((2, 1, 1), [*[LOOK] * 4, SLEEP])])
def test_who_sleeps_earlier_than_in_the_round_before_does_not_repeat_itself(
    counts: tuple[int, ...], expected: list[CallKind]
) -> None:
    def run(storage: Storage, say: Say) -> None:
        for count in counts:
            for number in range(count):
                storage.kind(f"lock {number}")
            storage.sleep_seconds(1.0)

    assert calls_of(run, kinds)[0] == expected


def test_sleeping_without_looking_is_no_wait_for_others() -> None:
    def run(storage: Storage, say: Say) -> None:
        for _ in range(99):
            storage.sleep_seconds(1.0)
        storage.kind("lock")

    assert calls_of(run, kinds)[0] == [LOOK]


def test_who_is_woken_looks_again_and_who_gives_up_makes_the_calls_of_its_last_round() -> None:
    def run(storage: Storage, say: Say) -> None:
        for number in range(9):
            with storage.open_for_reading(CELLS) as file:
                if number == 7:
                    say("read", file.pread(1, 0))
            storage.sleep_seconds(1.0)

    world = world_of([run])
    made = []
    while world.nodes[0].call is not None:
        made.append(world.call(0).kind)
        world.step(0)
    looks = [OPEN, CallKind.CLOSE]
    assert made == [*looks, *looks, SLEEP, OPEN, CallKind.PREAD, CallKind.CLOSE, *looks]
    assert world.nodes[0].outcome == "" and not world.kernel.handles, "what it gave up with was open"


def waiting_beside_changes() -> World:
    def changes(storage: Storage, say: Say) -> None:
        storage.kind("other")
        storage.open_for_writing("other", OpenMode.NEW).close()
        storage.open_for_writing("lock", OpenMode.NEW).close()

    return world_of([looks_and_sleeps(1 << 30), changes])


def test_a_process_that_waits_goes_on_after_a_change_of_what_it_looked_at_and_not_before() -> None:
    world = waiting_beside_changes()
    while world.can_go_on(0):
        world.step(0)
    assert (world.call(0).kind, world.enabled) == (SLEEP, [1])
    for _ in range(3):
        world.step(1)
        assert world.enabled == [1], "a look and another file are nothing to it"
    world.step(1)
    assert world.enabled == [0, 1]
    other = world.fork()
    world.step(0)
    assert world.nodes[0].answer is True and world.call(0).kind is LOOK
    # Nothing takes back that there was a change.
    other.run(1)
    assert other.can_go_on(0)


def test_when_nobody_can_go_on_the_process_that_time_can_help_comes_first() -> None:
    def gives_up(storage: Storage, say: Say) -> None:
        looks_and_sleeps(100)(storage, say)
        storage.open_for_writing("lock", OpenMode.NEW).close()

    def waits(storage: Storage, say: Say) -> None:
        while storage.kind("lock") is EntryKind.MISSING:
            storage.sleep_seconds(1.0)

    world = world_of([waits, gives_up])
    made, is_late = world.finish()
    assert is_late and not world.progress.violations and world.following(0) is None
    assert made.index(1) < len(made) - 1, "the first one saw the lock file after all"


# The bound


def look(path: str) -> Call:
    return Call(kind=LOOK, path=path)


def read(offset_bytes: int) -> Call:
    return Call(kind=CallKind.PREAD, path="data", offset_bytes=offset_bytes)


def ended(call: Callable[[int], Call]) -> tuple[int, str]:
    """Return how many such calls a process can make, and what is said then."""
    calls = CallCount()
    for number in range(2 * CALLS_MAX):
        try:
            calls.add(call(number))
        except EndlessError as error:
            with pytest.raises(EndlessError):
                calls.add(Call(kind=CallKind.UNLINK, path="lock"))
            return number, str(error)
    raise AssertionError("there is no bound")


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64])
def test_a_process_that_only_repeats_itself_is_ended_and_its_calls_are_named_from_the_same_one_on(length: int) -> None:
    count, said = ended(lambda number: look(f"file{(number + 5) % length:02}"))
    assert REPEATED_CALLS_MAX <= count < 1.1 * REPEATED_CALLS_MAX
    assert said.startswith("livelock: it only repeats: look at file00") and said.count("look at") == length


@pytest.mark.parametrize(
    "call",
    [
        read,
        lambda number: look(f"file{number}"),
        # Every hundredth call is another one.
        lambda number: read(number) if number % 100 == 0 else look("lock"),
        # These were taken for repetitions, because the count knew only what is called, where.
        lambda number: Call(kind=CallKind.PWRITE, path="data", content=b"%d" % number),
        lambda number: Call(kind=CallKind.TRUNCATE, path="data", size_bytes=number),
        lambda number: Call(kind=CallKind.LINK, path="data", target_path=f"file{number}"),
    ],
)
def test_a_process_that_gets_on_may_make_many_calls(call: Callable[[int], Call]) -> None:
    count, said = ended(call)
    assert CALLS_MAX <= count < 1.01 * CALLS_MAX
    assert said.startswith("it goes on after 100,000 calls, now: ")


def test_who_does_something_new_no_longer_repeats_itself_and_its_waits_do_not_add_up() -> None:
    calls = CallCount()
    for _ in range(REPEATED_CALLS_MAX // 1_000):
        for _ in range(2_000):
            calls.add(look("lock"))
        assert calls.is_repeating and calls.lasting_seconds(1.0) == 1.0 + IDLE_SECONDS
        for number in range(1_000):
            calls.add(read(number))
            # It was noticed late, up to 255 calls after the first new one.
            assert not calls.is_repeating and calls.lasting_seconds(1.0) == 1.0


def test_only_a_bounded_storage_is_bounded_and_all_that_is_made_from_it() -> None:
    free = MemoryStorage()
    for _ in range(2 * REPEATED_CALLS_MAX):
        free.kind("x")
    assert free.monotonic_seconds() == free.monotonic_seconds() == 0
    bounded = free.bounded()
    for storage in (bounded, bounded.copy(), bounded.fork_process()):
        with pytest.raises(EndlessError, match=r"^livelock: it only repeats: look at x$"):
            while True:
                storage.kind("x")
    assert free.kind("x") is EntryKind.MISSING


@pytest.mark.parametrize("pause_seconds", [0.0, 0.001, 1.0])
def test_a_wait_for_a_time_ends_in_a_bounded_storage(pause_seconds: float) -> None:
    storage = MemoryStorage().bounded()
    end_seconds = storage.monotonic_seconds() + 1_800
    while storage.monotonic_seconds() < end_seconds:
        if pause_seconds:
            storage.sleep_seconds(pause_seconds)
