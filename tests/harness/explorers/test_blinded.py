"""Each injector and each judge of the crash explorers is blinded in turn, and a control must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice, repeat
from itertools import product as product_of
from typing import Any

import pytest
from depth import sampled

from tornproof.harness.common import behaviour
from tornproof.harness.common.model_check import ModelCheck
from tornproof.harness.explorers.kills import exploration as kill_exploration
from tornproof.harness.explorers.kills import explorer as kills
from tornproof.harness.explorers.kills.judge import Judge as KillJudge
from tornproof.harness.explorers.kills.plan import Cuts
from tornproof.harness.explorers.power_cuts import controls as power
from tornproof.harness.explorers.power_cuts import exploration, sessions
from tornproof.harness.explorers.power_cuts.alike import Needs
from tornproof.harness.explorers.power_cuts.exploration import ModelExploration
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import LaterSessions
from tornproof.harness.explorers.random import random_cases as random
from tornproof.harness.explorers.random import random_run
from tornproof.harness.explorers.schedules import controls as schedules
from tornproof.harness.explorers.schedules import crash as product
from tornproof.harness.explorers.schedules import small_programs
from tornproof.harness.search import reader_reduction
from tornproof.harness.search.crash_world import Sessions, fail_call
from tornproof.harness.search.product_reduction import ProductReduction
from tornproof.harness.search.reader_reduction import ReaderReduction, Trace
from tornproof.harness.simulator.persistence import legal_disks as legal_disks_module
from tornproof.harness.simulator.persistence import legal_files, legal_names
from tornproof.harness.simulator.persistence.legal_disks import LegalDisks
from tornproof.harness.simulator.persistence.models import (
    C_8,
    C_512,
    C_4096,
    CDIR,
    MODELS,
    N_512,
    W_512,
    A,
    B,
    D,
    FileChoice,
    Model,
    Names,
)
from tornproof.harness.simulator.process import world as process_world
from tornproof.harness.simulator.process.observer import Progress, Property
from tornproof.harness.systems.toy_control import Control
from tornproof.harness.systems.toy_specified import LosesALetter

Patch = pytest.MonkeyPatch
Blinding = Callable[[Patch], None]
JOURNALLED = (B, C_4096, C_512, C_8, W_512)


def only_the_latest_disk(patch: Patch) -> None:
    every = LegalDisks.__iter__
    patch.setattr(LegalDisks, "__iter__", lambda self: islice(every(self), 1))


def the_latest_disk_as_often_as_there_are_others(patch: Patch) -> None:
    every = LegalDisks.__iter__
    patch.setattr(LegalDisks, "__iter__", lambda self: repeat(next(every(self)), self.tried_count))


def only_the_latest_disk_in_recovery(patch: Patch) -> None:
    visit, every = ModelExploration._visit_nested, LegalDisks.__iter__

    def visit_the_latest(self: ModelExploration, *arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(LegalDisks, "__iter__", lambda disks: islice(every(disks), 1))
            visit(self, *arguments)

    patch.setattr(ModelExploration, "_visit_nested", visit_the_latest)


def no_crash_in_recovery(patch: Patch) -> None:
    patch.setattr(ModelExploration, "_crash_recovery", lambda *arguments: None)


def torn_as_if(model: Model, block_bytes: int) -> Blinding:
    def blind(patch: Patch) -> None:
        tear = legal_files._in_blocks

        def tear_otherwise(versions: tuple[bytes, ...], given: Model, limits: Any) -> Any:
            return tear(versions, replace(given, block_bytes=block_bytes) if given == model else given, limits)

        patch.setattr(legal_files, "_in_blocks", tear_otherwise)

    return blind


def no_mixing_of_blocks(patch: Patch) -> None:
    def unmixed(shape: Any) -> Iterator[tuple[int, ...]]:
        yield tuple(len(options) - 1 for options in shape._options)
        yield (0,) * len(shape._options)

    patch.setattr(legal_files._Shape, "all_picks", unmixed)


def no_old_version(patch: Patch) -> None:
    patch.setattr(
        legal_files,
        "_prefixes",
        lambda versions: legal_files.LegalFile((FileChoice(len(versions) - 1, len(versions) - 1),), versions[-1:], 1),
    )


def no_name_is_lost(patch: Patch) -> None:
    patch.setattr(legal_names, "_all_sets", lambda count: iter([tuple(range(count))]))


def no_unlink_is_lost(patch: Patch) -> None:
    change = legal_names.with_changes

    def with_unlinks(kernel: Any, names: Any, persistence: Any) -> Any:
        unlinks = {
            number for number, entries in enumerate(kernel.entry_changes) if len(entries) == 1 and entries[0][2] is None
        }
        return change(kernel, sorted(unlinks.union(names)), persistence)

    patch.setattr(legal_names, "with_changes", with_unlinks)


def every_name_is_durable_at_once(patch: Patch) -> None:
    patch.setattr(legal_names, "_prefixes", lambda count, kept_min: iter([tuple(range(count))]))


def names_as_if(model: Model, names: Names) -> Blinding:
    """Let a model lose only the names that another kind of file system loses."""

    def blind(patch: Patch) -> None:
        legal = legal_names.legal_names

        def legal_otherwise(kernel: Any, given: Model, limits: Any) -> Any:
            return legal(kernel, replace(given, names=names) if given == model else given, limits)

        for module in (legal_disks_module, exploration):
            patch.setattr(module, "legal_names", legal_otherwise)

    return blind


def no_stale_bytes(patch: Patch) -> None:
    patch.setattr(legal_files, "_with_stale", lambda blocks, *_: blocks)


def no_second_cut(patch: Patch) -> None:
    patch.setattr(LaterSessions, "explore_second_cut", lambda *arguments: None)


def one_disk_of_each_size_is_cut_again(patch: Patch) -> None:
    patch.setattr(sessions, "needs_of", lambda *arguments: Needs((), ()))


def a_failed_sync_writes_nothing(patch: Patch) -> None:
    patch.setattr(sessions, "fail_call", lambda world, written: fail_call(world))


def no_sync_fails(patch: Patch) -> None:
    patch.setattr(LaterSessions, "explore_failed_syncs", lambda self: None)
    patch.setattr(Sessions, "after_failed_sync", lambda self, world: _stepped(world))


def _stepped(world: Any) -> Any:
    stepped = world.fork()
    stepped.step(0)
    return stepped


def no_sync_of_a_recovery_fails(patch: Patch) -> None:
    fail_each = LaterSessions._fail_each
    patch.setattr(
        LaterSessions, "_fail_each", lambda self, world, before: None if before else fail_each(self, world, before)
    )


def no_eviction(patch: Patch) -> None:
    patch.setattr(sessions, "evicted_of", lambda kernel: None)


def no_session_after_a_kill(patch: Patch) -> None:
    patch.setattr(LaterSessions, "explore_kills", lambda self, points: None)


def no_commit_after_recovery(patch: Patch) -> None:
    patch.setattr(PowerJudge, "_judge_commit", lambda self, disk, verdict: verdict)


def nobody_reads_after_a_failed_sync(patch: Patch) -> None:
    search = ReaderReduction.search

    def skip(self: Any, trace: Any, begin: Any, **more: Any) -> Any:
        is_failed = any(mark.kind == "failed" for mark in trace.nodes[-1].marks)
        return {
            state: at for state, at in search(self, trace, begin, **more).items() if not is_failed or at.parent is None
        }

    patch.setattr(ReaderReduction, "search", skip)


def no_reader_lives_through_a_kill(patch: Patch) -> None:
    begin = ProductReduction.__init__

    def dying(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self._readers_survive = False

    patch.setattr(ProductReduction, "__init__", dying)


def no_kill(patch: Patch) -> None:
    kill = Sessions.after_kill

    def kill_at_the_end(self: Sessions, world: Any) -> Any:
        world.run(0)
        return kill(self, world)

    patch.setattr(Sessions, "after_kill", kill_at_the_end)


def nobody_beside_the_writer(patch: Patch) -> None:
    patch.setattr(
        random_run.Trace, "_policy", lambda self, transition_count: lambda processes, transition: processes[0]
    )


def not_judged(violated: str) -> Blinding:
    """Return a blinding of all three explorers for one property."""

    def blind(patch: Patch) -> None:
        find, search, keep = ModelExploration.find, product._search, kill_exploration.Exploration._find

        def searched(*arguments: Any, **keywords: Any) -> Any:
            counts, *rest = search(*arguments, **keywords)
            counts.found = [each for each in counts.found if each[0].property != violated]
            return counts, *rest

        def seen(self: Any, violation: Any, origin: Any) -> None:
            if violation.violated != violated:
                keep(self, violation, origin)

        patch.setattr(
            ModelExploration, "find", lambda self, each: each.verdict.violated == violated or find(self, each)
        )
        patch.setattr(product, "_search", searched)
        patch.setattr(kill_exploration.Exploration, "_find", seen)

    return blind


POWER_BLINDINGS: dict[str, tuple[Blinding, tuple[Model, ...]]] = {
    "only the latest disk": (only_the_latest_disk, tuple(model for model in MODELS if model is not A)),
    "only the latest disk in recovery": (only_the_latest_disk_in_recovery, (B, C_512, C_8, W_512, CDIR)),
    "no crash in recovery": (no_crash_in_recovery, (A, B, C_512)),
    "no old version": (no_old_version, (B,)),
    "C-512 tears blocks of 4096": (torn_as_if(C_512, 4096), (C_512,)),
    "C-8 tears sectors of 512": (torn_as_if(C_8, 512), (C_8,)),
    "W-512 tears blocks of 4096": (torn_as_if(W_512, 4096), (W_512,)),
    "N-512 tears blocks of 4096": (torn_as_if(N_512, 4096), (N_512,)),
    "no mixing of blocks": (no_mixing_of_blocks, (C_512, C_8, W_512, CDIR, N_512)),
    "no name is lost": (no_name_is_lost, (CDIR, N_512)),
    "no unlink is lost": (no_unlink_is_lost, (CDIR,)),
    "every name is durable at once": (every_name_is_durable_at_once, JOURNALLED),
    "names as in a journal in Cdir": (names_as_if(CDIR, Names.JOURNALLED), (CDIR,)),
    "names as in a journal in N-512": (names_as_if(N_512, Names.JOURNALLED), (N_512,)),
    "renames are atomic in N-512": (names_as_if(N_512, Names.EACH_CHANGE), (N_512,)),
    "no stale bytes": (no_stale_bytes, (W_512, N_512)),
    "the power is cut only once": (no_second_cut, (N_512,)),
    "one disk of each size is cut again": (one_disk_of_each_size_is_cut_again, (N_512,)),
    "a failed sync writes nothing": (a_failed_sync_writes_nothing, (D,)),
    "no sync fails": (no_sync_fails, (D,)),
    "no sync of a recovery fails": (no_sync_of_a_recovery_fails, (D,)),
    "no eviction": (no_eviction, (D,)),
    "no session after a kill": (no_session_after_a_kill, (D,)),
    # The session after a kill in D, and that after a power cut in N-512, recovers and commits too.
    "no commit after recovery": (no_commit_after_recovery, tuple(each for each in MODELS if each not in (N_512, D))),
}
PRODUCT_BLINDINGS: dict[str, tuple[Blinding, tuple[Model, ...]]] = {
    "only the latest disk": (only_the_latest_disk, (B, C_512, CDIR, N_512)),
    "no old version": (no_old_version, (B,)),
    "C-512 tears blocks of 4096": (torn_as_if(C_512, 4096), (C_512,)),
    "N-512 tears blocks of 4096": (torn_as_if(N_512, 4096), (N_512,)),
    "no mixing of blocks": (no_mixing_of_blocks, (C_512, CDIR, N_512)),
    "no name is lost": (no_name_is_lost, (CDIR, N_512)),
    "no unlink is lost": (no_unlink_is_lost, (CDIR,)),
    "every name is durable at once": (every_name_is_durable_at_once, (B, C_512, W_512)),
    "names as in a journal in N-512": (names_as_if(N_512, Names.JOURNALLED), (N_512,)),
    "renames are atomic in N-512": (names_as_if(N_512, Names.EACH_CHANGE), (N_512,)),
    "no stale bytes": (no_stale_bytes, (W_512, N_512)),
    "no sync fails": (no_sync_fails, (D,)),
    "nobody reads after a failed sync": (nobody_reads_after_a_failed_sync, (D,)),
    "no reader lives through a kill": (no_reader_lives_through_a_kill, (A,)),
}
RANDOM_BLINDINGS: dict[str, Blinding] = {
    "no kill": no_kill,
    "only the latest disk": the_latest_disk_as_often_as_there_are_others,
    "no old version": no_old_version,
    "C-512 tears blocks of 4096": torn_as_if(C_512, 4096),
    "no name is lost": no_name_is_lost,
    "no unlink is lost": no_unlink_is_lost,
    "no sync fails": no_sync_fails,
    "nobody beside the writer": nobody_beside_the_writer,
}
KILL_BLINDINGS: dict[str, Blinding] = {
    "no failing call": lambda patch: patch.setattr(KillJudge, "failures", lambda self: iter(())),
    "no torn write": lambda patch: patch.setattr(Cuts, "of", lambda self, step: ()),
    "no kill in recovery": lambda patch: patch.setattr(kills, "RECOVERY_KILLS_MAX", 0),
    "no going on": lambda patch: patch.setattr(KillJudge, "_go_on", lambda self, storage, index: None),
    "nothing lost by an opening": lambda patch: patch.setattr(KillJudge, "_lose_opening", lambda *_: None),
    "nothing lost by a rejected commit": lambda patch: patch.setattr(KillJudge, "_lose_rejected", lambda *_: None),
}
JUDGED_AFTER_POWER_CUTS = (
    Property.LOST,
    Property.REJECTED,
    Property.WRONG_SNAPSHOT,
    Property.WENT_BACK,
    Property.UNREADABLE,
    Property.IDEMPOTENT,
    Property.COMMIT,
    Property.RECOVERY,
    Property.DISORDERLY,
    Property.ENDS,
)
JUDGED_BESIDE_CRASHES = (
    Property.LOST,
    Property.REJECTED,
    Property.WRONG_SNAPSHOT,
    Property.SEEN_LOST,
    Property.STALE,
    Property.WENT_BACK,
    Property.COMMIT,
    Property.RECOVERY,
    Property.DISORDERLY,
    Property.ENDS,
    Property.IMMUTABLE,
    Property.BARRIERS,
    Property.CONTENT,
    Property.BEHAVIOUR,
)


JUDGED_IN_RANDOM_RUNS = (
    Property.LOST,
    Property.REJECTED,
    Property.WRONG_SNAPSHOT,
    Property.SEEN_LOST,
    Property.STALE,
    Property.WENT_BACK,
    Property.COMMIT,
    Property.RECOVERY,
    Property.DISORDERLY,
    Property.ENDS,
    Property.IMMUTABLE,
    Property.BARRIERS,
    Property.CONTENT,
    Property.LEASE,
    Property.BEHAVIOUR,
)
JUDGED_AFTER_KILLS = (
    Property.LOST,
    Property.REJECTED,
    Property.WRONG_SNAPSHOT,
    Property.SEEN_LOST,
    Property.IDEMPOTENT,
    Property.COMMIT,
    Property.RECOVERY,
    Property.DISORDERLY,
    Property.SYNCED,
    Property.ENDS,
)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: Patch) -> None:
    """What a blinded injector made must not be remembered, nor be found in memory."""
    monkeypatch.setattr(legal_files, "_known_files", legal_files._Memory())
    monkeypatch.setattr(legal_files, "_known_blocks", legal_files._Memory())


@pytest.fixture(autouse=True)
def as_many_runs_as_detect_every_toy(monkeypatch: Patch) -> None:
    monkeypatch.setattr(random, "TOY_RUNS_MAX", 100)


def only_toys_that_violate(violated: str, patch: Patch) -> None:
    """Leave out the other controls, which a blinding of one property cannot make fail."""
    for module in (power, product):
        patch.setattr(module, "CONTROLS", [each for each in module.CONTROLS if each.violated == violated])
    for module, name in ((kills, "CONTROLS"), (random, "TOYS"), (schedules, "BROKEN")):
        patch.setattr(module, name, [each for each in getattr(module, name) if violated in each])


def blindings(of: dict[str, tuple[Blinding, tuple[Model, ...]]]) -> list[Any]:
    """Return every blinding in each model that must notice it, of which a quarter by day."""
    cases = [
        pytest.param(blind, model, id=f"{name} in {model}") for name, (blind, models) in of.items() for model in models
    ]
    return sampled(len(cases) // 4, cases)


@pytest.mark.nightly
def test_without_blinding_all_controls_pass() -> None:
    assert power.failed_controls(MODELS) == []
    assert product.failed_controls() == []
    assert [*kills.failures()] == []


def test_without_blinding_every_toy_of_random_runs_is_detected() -> None:
    assert [*random.failed_toys()] == []


def everything_is_violated(*_: Any, **__: Any) -> frozenset[str]:
    return frozenset(value for name, value in vars(Property).items() if name.isupper())


def rejected_in(model: Model, controls: Sequence[Control]) -> set[str]:
    """Return what is said of each toy that a model must accept."""
    return {f"the toy {each.target.name!r} was rejected in {model}" for each in controls if model in each.accepting}


@pytest.mark.parametrize("model", MODELS)
def test_an_explorer_of_power_cuts_that_finds_something_in_every_toy_fails_the_control_of_each_sound_one(
    model: Model, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(power, "_explored", lambda *_: nullcontext(everything_is_violated))
    assert {*power.failures([model])} == rejected_in(model, power.CONTROLS) != set()


@pytest.mark.parametrize("model", MODELS)
def test_an_explorer_of_crashes_beside_readers_that_finds_something_in_every_toy_fails_the_control_of_each_sound_one(
    model: Model, monkeypatch: Patch
) -> None:
    """Toys were left out under the models that must accept them, and nothing noticed that."""
    for name in ("violated", "violated_by_locking"):
        monkeypatch.setattr(product, name, everything_is_violated)
    for name in ("has_every_outcome", "reaches_every_state_early"):
        monkeypatch.setattr(small_programs, name, lambda *_: True)
    assert {*product.failures([model.name])} == rejected_in(model, product.CONTROLS) != set()
    locking = product._failures_that_lock.__wrapped__(model.name)
    assert {*locking} == rejected_in(model, product.CONTROLS_THAT_LOCK) != set()


def test_an_explorer_of_kills_that_finds_something_in_every_toy_fails_the_control_of_each_sound_one(
    monkeypatch: Patch,
) -> None:
    everything = everything_is_violated()
    monkeypatch.setattr(kills, "_violated", lambda toy, _: {(toy.name, violated) for violated in everything})
    assert {*kills.failures()} == {f"{toy.name}: {violated}" for toy, violated in product_of(kills.SOUND, everything)}


def test_an_explorer_of_random_runs_that_finds_something_in_every_toy_fails_the_control_of_each_sound_one(
    monkeypatch: Patch,
) -> None:
    """No toy was sound, so false alarms of random runs were never noticed."""
    monkeypatch.setattr(random, "_violated", everything_is_violated)
    assert {*random.failed_toys()} == {
        f"the sound toy {toy.name!r} was rejected: {violated}"
        for (toy, _), violated in product_of(random.SOUND, everything_is_violated())
    }


@pytest.mark.parametrize(("blind", "model"), blindings(POWER_BLINDINGS))
def test_a_blinded_injector_of_power_cuts_is_noticed(blind: Blinding, model: Model, monkeypatch: Patch) -> None:
    blind(monkeypatch)
    assert any("was not detected" in failure for failure in power.failures([model]))


@pytest.mark.parametrize(("blind", "model"), blindings(PRODUCT_BLINDINGS))
def test_a_blinded_injector_of_crashes_beside_readers_is_noticed(
    blind: Blinding, model: Model, monkeypatch: Patch
) -> None:
    blind(monkeypatch)
    assert any("was not detected" in failure for failure in product.failures([model.name]))


def no_commit_under_way_is_kept(patch: Patch) -> None:
    crashes = ProductReduction._crashes

    def dropped(self: ProductReduction) -> list[Any]:
        worlds = ((crash, crash.world.fork()) for crash in crashes(self))
        return [
            crash
            for crash, world in worlds
            if (Trace(world).recovered_count or 0) <= len(crash.world.progress.committed)
        ]

    patch.setattr(ProductReduction, "_crashes", dropped)


def nobody_has_seen_what_is_under_way(patch: Patch) -> None:
    readers = ProductReduction._readers_at

    def late(self: ProductReduction, crash: Any) -> list[Any]:
        return [state for state in readers(self, crash) if state.progress.seen <= len(crash.world.progress.committed)]

    patch.setattr(ProductReduction, "_readers_at", late)


@pytest.mark.parametrize("blind", [no_commit_under_way_is_kept, nobody_has_seen_what_is_under_way])
def test_a_search_that_misses_what_not_every_system_can_reach_fails_a_control(
    blind: Blinding, monkeypatch: Patch
) -> None:
    """Where it is complete and has not met it, that is no goal, so nothing else would say so."""
    blind(monkeypatch)
    assert any(product.failures([A.name]))


@pytest.mark.parametrize("name", KILL_BLINDINGS)
def test_a_blinded_injector_of_kills_is_noticed(name: str, monkeypatch: Patch) -> None:
    KILL_BLINDINGS[name](monkeypatch)
    assert any("was not detected" in failure for failure in kills.failures())


@pytest.mark.parametrize("name", sampled(3, list(RANDOM_BLINDINGS)))
def test_a_blinded_injector_of_random_runs_is_noticed(name: str, monkeypatch: Patch) -> None:
    RANDOM_BLINDINGS[name](monkeypatch)
    assert any(random.failed_toys())


@pytest.mark.parametrize("violated", sampled(6, JUDGED_IN_RANDOM_RUNS))
def test_a_property_that_is_not_judged_in_random_runs_is_noticed(violated: str, monkeypatch: Patch) -> None:
    only_toys_that_violate(violated, monkeypatch)
    broken = Progress.broken
    monkeypatch.setattr(Progress, "broken", lambda self, *of: self if of[0] == violated else broken(self, *of))
    assert any(violated in failure for failure in random.failed_toys())


@pytest.mark.parametrize("violated", sampled(5, JUDGED_AFTER_POWER_CUTS))
def test_a_property_that_is_not_judged_after_power_cuts_is_noticed(violated: str, monkeypatch: Patch) -> None:
    only_toys_that_violate(violated, monkeypatch)
    not_judged(violated)(monkeypatch)
    assert any(violated in failure for failure in power.failures(MODELS))


@pytest.mark.parametrize("violated", sampled(7, JUDGED_BESIDE_CRASHES))
def test_a_property_that_is_not_judged_beside_crashes_is_noticed(violated: str, monkeypatch: Patch) -> None:
    only_toys_that_violate(violated, monkeypatch)
    not_judged(violated)(monkeypatch)
    assert any(violated in failure for failure in product.failures())


@pytest.mark.parametrize("violated", JUDGED_AFTER_KILLS)
def test_a_property_that_is_not_judged_after_kills_is_noticed(violated: str, monkeypatch: Patch) -> None:
    only_toys_that_violate(violated, monkeypatch)
    not_judged(violated)(monkeypatch)
    assert any(violated in failure for failure in kills.failures())


def test_reports_that_are_not_followed_in_the_model_are_noticed_by_every_explorer(monkeypatch: Patch) -> None:
    """Nobody followed them, and all controls passed: what they alone can tell had no toy."""
    only_toys_that_violate(Property.BEHAVIOUR, monkeypatch)
    for module in (process_world, reader_reduction):
        monkeypatch.setattr(module, "followed", lambda known, before, progress, process, node: (known, progress))
    for failed in (
        power.failed_controls([A]),
        product.failed_controls([A.name]),
        [*schedules.failures(0)],
        [*random.failed_toys()],
    ):
        assert failed and all(Property.BEHAVIOUR in failure for failure in failed)


def test_a_model_of_reports_that_allows_everything_is_noticed_after_crashes(monkeypatch: Patch) -> None:
    only_toys_that_violate(Property.BEHAVIOUR, monkeypatch)
    monkeypatch.setattr(behaviour, "follow", lambda known, event: known)
    for failed in (power.failed_controls([A]), [*kills.failures()]):
        assert [failure for failure in failed if failure.startswith("the model took for possible")]


def test_a_model_that_is_not_asked_is_noticed_by_every_explorer(monkeypatch: Patch) -> None:
    only_toys_that_violate(Property.CONTENT, monkeypatch)
    monkeypatch.setattr(ModelCheck, "difference", lambda *_: "")
    # A test case remembers what the model said of it.
    unasked = schedules.control_case(LosesALetter(), schedules.LETTERS)
    monkeypatch.setattr(schedules, "BROKEN", ((unasked, Property.CONTENT),))
    schedules.failed_controls.cache_clear()
    try:
        for failed in (
            power.failed_controls([A]),
            product.failed_controls([A.name]),
            [*kills.failures()],
            schedules.failed_controls(0),
        ):
            assert all(Property.CONTENT in failure for failure in failed) and failed
    finally:
        schedules.failed_controls.cache_clear()
