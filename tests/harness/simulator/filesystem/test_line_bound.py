"""Functions that loop without a call are ended, whatever calls them; what only takes long is not."""

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import pytest

from tornproof.harness.check import CheckQuestion, PhaseName, bounds_of, check_image, make_table
from tornproof.harness.common.effort import Bounds
from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.kills.explorer import explore_crashes, replay_crash
from tornproof.harness.explorers.model_based.explorer import Stateful, replay_stateful
from tornproof.harness.explorers.model_based.start import StorageKind
from tornproof.harness.explorers.schedules.controls import LETTERS, control_case
from tornproof.harness.explorers.schedules.explorer import explore_schedules
from tornproof.harness.explorers.simulated_phases import simulate
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.replay import replay_finding
from tornproof.harness.simulator.filesystem import line_bound
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.releases import HARDENED_PRESET
from tornproof.harness.systems.scenario import Explorer
from tornproof.harness.systems.simulation import settings_of_table
from tornproof.harness.systems.toy import Toy
from tornproof.impl.storage.interface import OpenMode, Storage

LINES = 30_000
TURNS_MAX = 1_000 * LINES
OPERATIONS = (b"one", b"t")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, and let functions run fewer lines."""
    monkeypatch.setattr(line_bound, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(line_bound, "LOOK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(line_bound, "LINES_MAX", LINES)
    monkeypatch.setattr(line_bound, "LINES_MAX_AGAIN", LINES)
    unended.clear()


unended: list[bool] = []


def turns() -> Iterator[int]:
    """Those of a loop: where nothing ends it, it and all later ones of the test do, which fails instead of hanging."""
    # Taken in C, so that the loop is the innermost function.
    return chain(range(0 if unended else TURNS_MAX), noted())


def noted() -> Iterator[int]:
    unended.append(True)
    yield from ()


def spin() -> int:
    number = 0
    for _ in turns():
        number += 1
    return number


def endless() -> Iterator[int]:
    for _ in turns():
        yield 0


def taken(values: Iterator[int]) -> int:
    # The loop is in C, and the function that does not end is the generator.
    return sum(values)


def calls_others() -> None:
    for _ in islice(turns(), 0, None, 100):
        sorted(range(20), key=lambda number: -number)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("run", "function"),
    [(spin, "spin"), (lambda: taken(endless()), "endless"), (calls_others, "calls_others")],
)
def test_a_loop_without_a_call_is_ended_and_its_end_says_where(run: Callable[[], object], function: str) -> None:
    texts = set()
    for _ in range(2):
        with bounded_computation(), pytest.raises(EndlessError) as ended:
            run()
        texts.add(str(ended.value))
    (text,) = texts
    assert text.startswith(f"it computes without end and without a call in {function}, lines ")
    assert text.endswith(f" of {__name__}")
    assert sys.gettrace() is None


def test_a_function_that_was_ended_is_ended_again_in_the_same_run() -> None:
    with bounded_computation():
        for _ in range(3):
            with pytest.raises(EndlessError):
                spin()


def test_the_timer_looks_again_and_again_until_the_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It went off once, where two looks are needed: what loops without a call was never ended."""
    monkeypatch.setattr(line_bound, "LOOK_AGAIN_SECONDS", 0.02)
    with bounded_computation():
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[1] == pytest.approx(0.01)
        with pytest.raises(EndlessError):
            spin()
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[1] == pytest.approx(0.02)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_what_waits_for_the_block_is_not_under_test() -> None:
    """Lines of all that a worker did were counted, because its own process looked like an operation that lasts."""

    def looked_at_twice() -> Iterator[bool]:
        handler = signal.getsignal(signal.SIGVTALRM)
        assert callable(handler)
        for _ in range(2):
            handler(signal.SIGVTALRM, sys._getframe(depth))
            yield sys.gettrace() is not None

    with bounded_computation():
        depth = 1
        assert [*looked_at_twice()] == [False, False]
        depth = 0
        # What is met once only may be about to end.
        assert [*looked_at_twice()] == [False, True]


def test_an_operation_that_works_in_functions_that_it_calls_is_met_again() -> None:
    def look() -> None:
        handler = signal.getsignal(signal.SIGVTALRM)
        assert callable(handler)
        handler(signal.SIGVTALRM, sys._getframe())

    def works() -> bool:
        look()
        look()
        return sys.gettrace() is not None

    with bounded_computation():
        assert works()


def test_what_makes_calls_is_not_ended_however_many_lines_it_runs() -> None:
    storage = MemoryStorage()
    with bounded_computation(), storage.open_for_writing("file", OpenMode.NEW) as file:
        for number in range(40 * LINES):
            if number % (LINES // 10) == 0:
                file.pwrite(b"x", 0)


def test_what_runs_fewer_lines_than_the_bound_is_not_ended_however_often_it_is_looked_at() -> None:
    def lasts() -> int:
        return sum(len(sorted(range(50_000, 0, -1))) for _ in islice(iter(int, 1), LINES // 400))

    with bounded_computation():
        lasts()


def test_a_larger_table_may_take_more_lines() -> None:
    def counts(to: int) -> None:
        number = 0
        while number < to:
            number += 1

    with bounded_computation(size_bytes=400 * LINES):
        counts(40 * LINES)
    with bounded_computation(size_bytes=40 * LINES), pytest.raises(EndlessError):
        counts(400 * LINES)


def spinning(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_, **__: spin()


PLANTED = {
    "commit": "tornproof.impl.write.partition_change:next_in_place",
    "read": "tornproof.impl.read.reader:kept_ordinals",
    "verify": "tornproof.impl.verify.verify:verify_resolved",
}


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["commit", "read"])
def test_a_loop_planted_in_a_commit_or_a_read_is_a_finding_of_stateful(place: str) -> None:
    stateful = Stateful(None, "", StorageKind.MEMORY)
    with bounded_computation():
        assert stateful.run_fixed(None, "", range(3)).failed is None
        with wrapped(PLANTED[place], spinning):
            failed = stateful.run_fixed(None, "", stops_at_first=True).failed
            assert failed is not None
            finding = stateful.finding(failed, "")
            assert finding.property == Property.ENDS
            assert "computes without end and without a call in spin" in finding.sentence
            assert len(finding.evidence["steps"]) <= 4
            assert {replay_stateful(None, "", finding, storage_kind=StorageKind.MEMORY) for _ in range(3)} == {
                Verdict.INVALID
            }
        assert replay_stateful(None, "", finding, storage_kind=StorageKind.MEMORY) is Verdict.VALID


class Spins(Toy):
    """Broken: a reader never ends when it meets what it does not expect."""

    name = "spins"

    def read(self, storage: Storage, path: str) -> bytes:
        letters = super().read(storage, path)
        if letters == b"one":
            for _ in turns():
                pass
        return letters


class SpinsInCommit(Toy):
    """Broken: a commit never ends after another one."""

    name = "spins in a commit"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        if self.read(storage, path):
            spin()
        super().commit(storage, path, operation)


def test_a_reader_that_loops_beside_a_writer_is_a_finding_of_schedules() -> None:
    sound = control_case(Toy(), LETTERS)
    for operations in ((), (0,), (0, 1)):
        sound.oracle(operations)
    case = control_case(Spins(), LETTERS).expecting(sound)
    with bounded_computation():
        phase = explore_schedules(case, controls=())
        assert {found.property for found in phase.findings} == {Property.ENDS}
        assert all("computes without end and without a call in Spins.read" in each.sentence for each in phase.findings)


def test_a_commit_that_loops_is_a_finding_of_crash() -> None:
    with bounded_computation():
        phase = explore_crashes(SpinsInCommit(), OPERATIONS, path="toy")
        (finding,) = phase.findings
        assert finding.property == Property.ENDS and "in spin" in finding.sentence
        assert replay_crash(SpinsInCommit(), OPERATIONS, finding, path="toy") is Verdict.INVALID
        assert replay_crash(Toy(), OPERATIONS, finding, path="toy") is not Verdict.INVALID


def test_a_loop_in_verifying_a_table_is_a_finding() -> None:
    image, _ = make_table()
    question = CheckQuestion(image=image, path="made", has_table=True, bounds=bounds_of(1, image, "made"))
    with wrapped(PLANTED["verify"], spinning):
        outcome = check_image(question, (PhaseName.VERIFY,), workers=1)
        (finding,) = outcome.findings
        assert finding.property == Property.ENDS and outcome.verdict is Verdict.INVALID
        assert {replay_finding(finding, image, "made") for _ in range(3)} == {Verdict.INVALID}
    assert replay_finding(finding, image, "made") is Verdict.VALID


def test_a_new_table_whose_making_loops_is_a_finding_that_replays() -> None:
    with wrapped(PLANTED["commit"], spinning):
        image, error = make_table()
        assert "EndlessError" in error
        question = CheckQuestion(
            image=image, path="made", has_table=False, start_error=error, bounds=bounds_of(1, image, "made")
        )
        (finding,) = check_image(question, (PhaseName.VERIFY,), workers=1).findings
        assert replay_finding(finding, image, "made") is Verdict.INVALID


@pytest.mark.nightly
def test_a_loop_of_a_tables_reader_beside_a_writer_is_a_finding_of_schedules_that_replays() -> None:
    image, _ = make_table()
    settings = [each for each in settings_of_table(image, "made", HARDENED_PRESET) if "two commits" in each.name]

    def spins_beside_orphans(resolve: Callable[..., Any]) -> Callable[..., Any]:
        def resolved(*arguments: Any, **more: Any) -> Any:
            found = resolve(*arguments, **more)
            if found.orphan_count:
                spin()
            return found

        return resolved

    with wrapped("tornproof.impl.table.partition:resolve", spins_beside_orphans):
        phase = simulate(Explorer.SCHEDULES, settings, bounds=replace(Bounds.of(1), schedules=20))
        finding = next(found for found in phase.findings if found.property == Property.ENDS)
        assert "computes without end and without a call in spin" in finding.sentence
        assert {replay_planted(finding).verdict} == {Verdict.INVALID}
    assert replay_planted(finding).verdict is Verdict.VALID
