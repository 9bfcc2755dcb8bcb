"""Runs are followed in the model: what the judge's own rules miss, or would miss if one were left out, is noticed."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import pytest

from tornproof.harness.common import behaviour
from tornproof.harness.common.behaviour import impossible_after
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.counterexamples.make import as_log
from tornproof.harness.counterexamples.replay import replay_log
from tornproof.harness.explorers.kills import explorer as kills
from tornproof.harness.explorers.power_cuts import controls as power
from tornproof.harness.explorers.schedules.crash import explore_under
from tornproof.harness.explorers.schedules.exploration import Exploration
from tornproof.harness.explorers.schedules.explorer import explore_schedules
from tornproof.harness.search.crash_world import WRITER_INDEX, Sessions
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import A, B
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Judge, Progress, Property
from tornproof.harness.systems.toy import AcknowledgesFirst, NeverSyncs, Toy
from tornproof.impl.storage.interface import Storage
from tornproof.model.trace import Kind

STYLES = ("left", "right")


class TwoCopies(Toy):
    """Broken between readers: replaces one copy of the letters after the other, and each style reads its own."""

    name = "two copies"

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        for style in STYLES:
            super().create(storage, f"{path}/{style}")

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        for style in STYLES:
            super().commit(storage, f"{path}/{style}", operation)

    def read(self, storage: Storage, path: str) -> bytes:
        # The writer reads the letters of a copy, everybody else those of the table.
        return super().read(storage, path if path.endswith(STYLES) else f"{path}/{STYLES[0]}")

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], bytes]]:
        yield lambda: self.read(storage, f"{path}/{style}" if style in STYLES else path)


def case_of(target: Toy, *styles: str) -> TestCase:
    return TestCase(
        target=target,
        path="toy",
        operations=(b"one", b"t"),
        first_session=(0,),
        second_session=(1,),
        readers=tuple(Readers(style=style) for style in styles),
    )


def sampled_properties(case: TestCase) -> set[str]:
    exploration = Exploration(case, lambda done, total: None)
    try:
        exploration.sample(seed=0, rounds=60)
        return {finding.property for finding in exploration.findings.values()}
    finally:
        exploration.close()


def reduced_properties(case: TestCase) -> set[str]:
    exploration = Exploration(case, lambda done, total: None)
    try:
        exploration.reduce_readers(case.first_session)
        return {finding.property for finding in exploration.findings.values()}
    finally:
        exploration.close()


def product_properties(case: TestCase) -> set[str]:
    return {signature.property for signature in explore_under(case, A.name).found}


def test_a_reader_that_begins_after_another_has_ended_sees_no_less_than_it() -> None:
    """No rule for one reader is broken: nothing was acknowledged, and neither reader went back."""
    assert sampled_properties(case_of(TwoCopies(), "left", "right")) == {Property.BEHAVIOUR}
    assert sampled_properties(case_of(TwoCopies(), "left", "left")) == set()


def test_the_finding_between_readers_is_small_and_replayed() -> None:
    case = case_of(TwoCopies(), "left", "right")
    phase = explore_schedules(case, controls=())
    (finding,) = phase.findings
    log = as_log(case, finding)
    assert log.property == Property.BEHAVIOUR and "a read ends with commit 0: expected commit 1" in log.sentence
    assert replay_log(log, case.target).verdict is Verdict.INVALID
    assert log.evidence["explanation"]


def test_a_stale_read_is_none_of_the_model_either(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(AcknowledgesFirst(), "fresh")
    assert sampled_properties(case) == {Property.STALE}
    monkeypatch.setattr(Judge, "begin_read", lambda judge, progress, process: progress)
    assert sampled_properties(case) == {Property.BEHAVIOUR}


@pytest.mark.parametrize("explore", [reduced_properties, product_properties])
def test_so_it_is_where_one_reader_is_explored_beside_the_trace_of_a_writer(
    explore: Callable[[TestCase], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(AcknowledgesFirst(), "fresh")
    assert Property.STALE in explore(case) and explore(case_of(Toy(), "fresh")) == set()
    monkeypatch.setattr(Judge, "begin_read", lambda judge, progress, process: progress)
    assert Property.BEHAVIOUR in explore(case) and explore(case_of(Toy(), "fresh")) == set()


def test_an_acknowledged_commit_that_a_power_cut_loses_is_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    assert after_power_cuts(NeverSyncs()) == {Property.LOST}
    assert after_power_cuts(Toy()) == set()

    def forgiving(judge: Judge, progress: Progress, process: str, value: Hashable) -> Progress:
        return progress._replace(committed=progress.committed[: judge.version_of(progress, value)], pending=None)

    monkeypatch.setattr(Judge, "_recovered", forgiving)
    assert after_power_cuts(NeverSyncs()) == {Property.BEHAVIOUR}
    assert after_power_cuts(Toy()) == set()


def after_power_cuts(target: Toy) -> set[str]:
    """Return what is broken when the power is cut after an acknowledged commit, and a second session recovers."""
    sessions = Sessions.of(case_of(target))
    try:
        world = sessions.case.begin(sessions.first)
        world.run(WRITER_INDEX)
        found = set()
        for picked in legal_disks(world.kernel, B):
            after = sessions.after_power_cut(world, picked.disk.kernel())
            after.run(WRITER_INDEX)
            found |= {violation.property for violation in after.progress.violations}
        return found
    finally:
        sessions.close()


@pytest.mark.parametrize(
    ("crash", "reads", "recovered", "impossible"),
    [
        (Kind.POWER_CUT, (2,), 2, ""),
        (Kind.POWER_CUT, (3,), 3, ""),
        (Kind.POWER_CUT, (3, 2), 2, ""),
        (Kind.STOPPED, (3, 3), 3, ""),
        (Kind.STOPPED, (3, 2), 2, "a read ends with commit 2: expected commit 3"),
        (Kind.POWER_CUT, (1,), 1, "a read ends with commit 1: expected commit 2 to 3"),
        (Kind.POWER_CUT, (4,), 4, "a read ends with commit 4: expected commit 2 to 3"),
        (Kind.POWER_CUT, (3,), 2, "a writer has recovered with commit 2: expected commit 3"),
    ],
)
def test_what_is_read_and_recovered_after_crashes_is_a_behaviour_of_the_model(
    crash: Kind, reads: tuple[int, ...], recovered: int, impossible: str
) -> None:
    found = impossible_after(crash, acknowledged=2, begun=3, reads=reads, recovered=recovered)
    assert found == impossible


def test_the_explorers_of_power_cuts_and_of_kills_ask_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert power.violated(A, Toy()) == set()
    monkeypatch.setattr(behaviour, "impossible_after", lambda *_, **__: "nothing is allowed")
    assert power.violated(A, Toy()) == {Property.BEHAVIOUR}
    assert kills._violated(Toy(), kills.CONTROL_OPERATIONS) == {(Toy.name, Property.BEHAVIOUR)}
