"""Schedule × crash: two searches with one result, complete, and broken targets that are detected in few moves."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from depth import nightly, sampled
from explorations import explore_product
from product_search import ProductSearch
from recorded_phases import AsRecorded

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Verdict, calls_at_most
from tornproof.harness.counterexamples.replay import replay_log
from tornproof.harness.explorers.schedules import crash, small_programs
from tornproof.harness.explorers.schedules.crash import COVERAGE_GOALS_OF_KILLS, control_case, explore_under
from tornproof.harness.search.crash_world import Disks, Sessions
from tornproof.harness.search.crashed_schedules import CrashedSchedules
from tornproof.harness.search.product_reduction import (
    IN_COMMIT,
    KEPT,
    LIVED_THROUGH,
    READER_AT_WORK,
    SEEN_EARLY,
    ProductReduction,
)
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import MODELS, model_named
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import load_scenario
from tornproof.harness.systems.simulation import setting_of
from tornproof.harness.systems.toy import HeaderFirst, NeverSyncs, NeverSyncsNames, SwallowsErrors, Toy
from tornproof.harness.systems.toy_locks import Undo, UndoesTogether
from tornproof.harness.systems.toy_losses import SYNCS_RENAMED, CleansUpInPlace, TrustsZeros
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import OpenMode, Storage

EVERY_MODEL = [model.name for model in MODELS]


def disks_of(name: str) -> Disks:
    model = model_named(name)

    def disks(kernel: Kernel) -> Iterator[tuple[Kernel, Any]]:
        legal = legal_disks(kernel, model)
        return ((picked.disk.kernel(), legal.choice(picked)) for picked in legal)

    return disks


def both(case: TestCase, model: str) -> tuple[ProductSearch, ProductReduction]:
    sessions = Sessions.of(case, fails=model == "D")
    searches = (
        ProductSearch(sessions, model, disks_of(model), lambda states: True),
        ProductReduction(sessions, model, disks_of(model)),
    )
    for search in searches:
        assert search.run().is_complete
    sessions.close()
    return searches


@pytest.mark.parametrize(
    ("toy", "model"),
    sampled(9, list(itertools.product([Toy(), HeaderFirst(), CleansUpInPlace()], EVERY_MODEL))),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_reader_reduction_has_the_outcomes_of_a_search_of_all_states(toy: Toy, model: str) -> None:
    one, other = both(control_case(toy), model)
    assert one.counts.outcomes == other.counts.outcomes
    # The search of states ends a run at its first violation, so the reduction may find more.
    violated, all_violated = ({violation.property for violation, _ in search.counts.found} for search in (one, other))
    is_broken = isinstance(toy, HeaderFirst) or (isinstance(toy, CleansUpInPlace) and model == "D")
    assert violated <= all_violated and bool(violated) is bool(all_violated) is is_broken
    assert one.counts.states > len(one.counts.outcomes) > 3


class PublishesBriefly(Toy):
    """Broken where a sync fails: readers see the new letters between two calls of what cleans up."""

    name = "publishes briefly after a failed sync"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        try:
            super().commit(storage, path, operation)
        except StorageError:
            content = self.read(storage, path)
            with storage.open_for_writing(f"{path}/undo", OpenMode.EXISTING_OR_NEW) as file:
                file.pwrite(content, 0)
            for name in ("new", "undo"):
                storage.rename(f"{path}/{name}", f"{path}/state")
            raise


def test_what_a_reader_saw_while_a_failed_sync_was_cleaned_up_must_survive_the_kill() -> None:
    """A reader that tells it only after the recovery saw no version, because the commit under way was dropped."""
    for search in both(control_case(PublishesBriefly()), "D"):
        violated = {violation.property for violation, _ in search.counts.found}
        assert violated == {Property.SEEN_LOST, Property.WRONG_SNAPSHOT, Property.WENT_BACK}


@pytest.mark.nightly
@pytest.mark.parametrize("model", ["A", "D", "B", "C-512", "Cdir"])
def test_the_reader_reduction_has_the_outcomes_of_a_search_of_all_states_of_a_table(model: str) -> None:
    with remembered_decoding():
        setting = setting_of(load_scenario("reader-lives-through-a-kill"), PRESETS["hardened"])
        one, other = both(setting.case, model)
    assert one.counts.outcomes == other.counts.outcomes and not one.counts.found and not other.counts.found


@pytest.mark.parametrize(
    ("toy", "model", "violated"),
    sampled(
        3,
        [
            (HeaderFirst(), "A", Property.REJECTED),
            (NeverSyncs(), "B", Property.LOST),
            (NeverSyncs(), "C-512", Property.LOST),
            (NeverSyncsNames(), "C-512", Property.LOST),
            (SYNCS_RENAMED, "Cdir", Property.LOST),
            (TrustsZeros(), "N-512", Property.WRONG_SNAPSHOT),
            (CleansUpInPlace(), "D", Property.STALE),
        ],
    ),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_broken_toy_is_detected_by_the_model_that_can_see_it(
    toy: Toy, model: str, violated: str, as_recorded: AsRecorded
) -> None:
    phase = explore_product(control_case(toy), [model])
    as_recorded(phase)
    assert phase.verdict is Verdict.INVALID
    found = [finding for finding in phase.findings if finding.property == violated]
    assert found and "log" in found[0].evidence, phase.findings


@pytest.mark.parametrize(
    ("toy", "model"),
    [
        (NeverSyncs(), "A"),
        (NeverSyncsNames(), "A"),
        (SYNCS_RENAMED, "C-512"),
        (SwallowsErrors(), "A"),
        (CleansUpInPlace(), "B"),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_what_only_a_power_cut_or_a_failing_sync_can_show_survives_the_others(
    toy: Toy, model: str, as_recorded: AsRecorded
) -> None:
    phase = explore_product(control_case(toy), [model])
    as_recorded(phase)
    assert phase.findings == () and phase.complete


def test_our_implementation_is_valid_and_the_bound_says_what_was_complete() -> None:
    with remembered_decoding():
        setting = setting_of(load_scenario("reader-lives-through-a-kill"), PRESETS["hardened"])
        phase = explore_product(setting.case)
    assert (phase.verdict, phase.complete, phase.controls) == (Verdict.VALID, True, "passed"), phase.note
    assert phase.explored > 30_000 and phase.counts["crash points"] == 3 * 119
    assert phase.reached[IN_COMMIT] and phase.reached[SEEN_EARLY] and phase.reached[LIVED_THROUGH]
    assert "complete under A, D, N-512" in phase.bound


@pytest.mark.parametrize(
    ("bound", "verdict"),
    # A few crashes reach all coverage goals.
    [
        ({"states_max": 200}, Verdict.VALID),
        ({"has_time": calls_at_most(3)}, Verdict.UNKNOWN),
    ],
    ids=["states", "ceiling"],
)
def test_what_a_limit_cut_off_is_reported_as_a_sample(bound: dict[str, Any], verdict: Verdict) -> None:
    whole = explore_product(control_case(Toy()), ["A"])
    phase = explore_product(control_case(Toy()), ["A"], **bound)
    assert (phase.verdict, phase.complete, phase.findings) == (verdict, False, ())
    assert phase.note.startswith("never reached: ") is (verdict is Verdict.UNKNOWN)
    assert 0 < phase.explored < whole.explored
    assert phase.bound.endswith("complete under no model; a sample of them under A")


@pytest.mark.parametrize("model", ["A", "D", "N-512"])
def test_a_bound_of_states_is_kept_to_the_last_one(model: str) -> None:
    whole = explore_under(control_case(Toy()), model)
    states = whole.counts["schedule x crash states"]
    assert whole.is_complete and states > 100
    for states_max in (1, 2, 3, 10, 50, 100, states // 2, states - 1):
        cut = explore_under(control_case(Toy()), model, states_max)
        assert 0 < cut.counts["schedule x crash states"] <= states_max and not cut.is_complete
        assert cut.found == {} and cut.counts["distinct worlds after a crash"] >= (states_max > 1)
    assert explore_under(control_case(Toy()), model, 2 * states) == whole


@pytest.mark.parametrize("search", [ProductReduction, CrashedSchedules])
def test_a_time_limit_is_asked_before_each_disk_of_a_crash_is_made(
    search: type[ProductReduction | CrashedSchedules],
) -> None:
    """All worlds after a crash were made first, which with values of 300 KB took many times the limit."""
    made_count = 0

    def disks(kernel: Kernel) -> Iterator[tuple[Kernel, Any]]:
        nonlocal made_count
        for left in disks_of("N-512")(kernel):
            made_count += 1
            yield left

    sessions = Sessions.of(control_case(Toy()))
    try:
        counts = search(sessions, "N-512", disks, has_time=lambda: made_count < 3).run()
    finally:
        sessions.close()
    assert made_count == 3 and not counts.is_complete


class ReadsInCalls(Toy):
    """A reader of so many calls, which has ended after the last one."""

    def __init__(self, call_count: int) -> None:
        self._call_count = call_count

    def read(self, storage: Storage, path: str) -> bytes:
        for _ in range(self._call_count):
            storage.kind(f"{path}/state")
        return b""


@pytest.mark.parametrize("call_count", [1, 2])
@pytest.mark.parametrize("search", [ProductReduction, CrashedSchedules])
def test_a_reader_is_at_work_between_its_first_call_and_its_last_one(
    search: type[ProductReduction | CrashedSchedules], call_count: int
) -> None:
    """A reader that had not begun, or had ended, counted as one that lived through a crash."""
    case = replace(control_case(ReadsInCalls(call_count)), readers=(Readers(),))
    sessions = Sessions.of(case)
    reached = search(sessions, "A", disks_of("A")).run().reached
    sessions.close()
    assert reached[IN_COMMIT] > 0
    assert {bool(reached[goal]) for goal in (READER_AT_WORK, LIVED_THROUGH)} == {call_count > 1}


@pytest.mark.parametrize("states_max", [None, 5])
def test_that_a_reader_of_one_call_is_at_work_is_no_goal(states_max: int | None) -> None:
    case = replace(control_case(ReadsInCalls(1)), readers=(Readers(),))
    assert {READER_AT_WORK, LIVED_THROUGH} <= explore_under(case, "A", states_max).impossible
    case = replace(case, target=ReadsInCalls(2))
    assert not {READER_AT_WORK, LIVED_THROUGH} & explore_under(case, "A", states_max).impossible


class EndsWithItsRename(Toy):
    """Sound while processes die: its commit does not sync the name, so that it is acknowledged once it is there."""

    name = "ends with its rename"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        self.write_anew(storage, f"{path}/new", self.read(storage, path) + operation)
        storage.rename(f"{path}/new", f"{path}/state")


@pytest.mark.parametrize(("toy", "impossible"), [(EndsWithItsRename(), KEPT), (Undo(), SEEN_EARLY)])
def test_what_no_crash_of_a_system_can_reach_is_no_goal(toy: Toy, impossible: str) -> None:
    """A reader that waits for the writer's lock, and a commit whose last call is its rename, never had a verdict."""
    case = replace(control_case(toy), first_session=(0,), second_session=(1,), readers=(Readers(),))
    phase = explore_product(case, ["A"], states_max=1_000)
    assert not phase.reached.get(impossible) and (phase.verdict, phase.note) == (Verdict.VALID, "")


def test_what_a_search_of_a_part_has_missed_is_a_goal() -> None:
    phase = explore_product(control_case(Toy()), ["A"], states_max=2)
    assert phase.verdict is Verdict.UNKNOWN and SEEN_EARLY in phase.note


def test_a_bound_too_small_for_all_crashes_is_divided_over_them() -> None:
    whole = explore_under(control_case(Toy()), "A")
    cut = explore_under(control_case(Toy()), "A", whole.counts["schedule x crash states"] // 3)
    assert cut.counts["distinct worlds after a crash"] == whole.counts["distinct worlds after a crash"]
    assert all(cut.reached[goal] for goal in COVERAGE_GOALS_OF_KILLS)


@pytest.mark.parametrize(
    ("toy", "model"),
    sampled(4, list(itertools.product([Toy(), HeaderFirst(), CleansUpInPlace(), NeverSyncs()], ["A", "D", "C-512"]))),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_single_schedules_show_what_the_reduction_shows(toy: Toy, model: str) -> None:
    sessions = Sessions.of(control_case(toy), fails=model == "D")
    one, other = (search(sessions, model, disks_of(model)) for search in (ProductReduction, CrashedSchedules))
    assert one.run().is_complete
    other.run()
    sessions.close()
    violated, as_violated = ({violation.property for violation, _ in search.counts.found} for search in (one, other))
    # What is stale depends on the order of independent calls, of which one order was run.
    assert violated - {Property.STALE} <= as_violated <= violated | {Property.DISORDERLY}


def test_a_search_that_has_no_bound_left_for_writers_that_stopped_is_not_complete() -> None:
    class HasNothingLeft(CrashedSchedules):
        def _go_on_from(self, crashes: Sequence[Any], states_max: int) -> None:
            super()._go_on_from(crashes, states_max)
            self._states_max = self.counts.states

    sessions = Sessions.of(control_case(Toy()), fails=True)
    whole, cut = (search(sessions, "D", disks_of("D")) for search in (CrashedSchedules, HasNothingLeft))
    assert (whole.run().is_complete, cut.run().is_complete) == (True, False)
    sessions.close()


@pytest.mark.parametrize("model", [nightly("A"), "D", nightly("N-512")])
def test_a_reader_that_locks_is_explored_by_single_schedules(model: str) -> None:
    for toy, violated in ((Undo(), None), (UndoesTogether(), Property.REJECTED)):
        result = explore_under(control_case(toy), model, 4_000)
        assert result.failed == () and {signature.property for signature in result.found} >= {violated} - {None}
        assert bool(result.found) is (violated is not None)
        assert 2_000 < result.counts["schedule x crash states"] < 4_100 and not result.is_complete
        assert result.counts["distinct worlds after a crash"] >= 10


def test_what_a_reader_that_locks_shows_is_small_and_says_what_was_run() -> None:
    phase = explore_product(control_case(UndoesTogether()), ["A"], states_max=4_000)
    assert "a crash at each step of reduced schedules of 1 reader that locks or changes something" in phase.bound
    (finding, *_) = [finding for finding in phase.findings if finding.property == Property.REJECTED]
    assert finding.evidence["shrunk"]["is_smallest"]
    broken, sound = control_case(UndoesTogether()), control_case(Undo())
    again = {replay_log(finding, broken.target, broken.operations).verdict for _ in range(10)}
    assert again == {Verdict.INVALID}
    assert replay_log(finding, sound.target, sound.operations).verdict is not Verdict.INVALID


def test_a_reader_that_pins_is_explored_by_single_schedules() -> None:
    with remembered_decoding():
        setting = setting_of(load_scenario("pinned-reader-and-purge"), PRESETS["hardened"])
        pinned = TestCase(
            target=setting.case.target,
            path=setting.case.path,
            operations=setting.case.operations,
            first_session=(0,),
            second_session=(1,),
            readers=(Readers(style="pinned"),),
            start=setting.case.start,
        )
        result = explore_under(pinned, "A", 2_000)
    assert result.found == {} and result.failed == () and result.counts["distinct worlds after a crash"] > 1


def test_controls_ask_for_every_outcome_under_each_model_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "CONTROLS", ())
    monkeypatch.setattr(small_programs, "has_every_outcome", lambda *_: False)
    assert [failure.rpartition(" ")[2] for failure in crash.failures()] == ["A", "D"]
