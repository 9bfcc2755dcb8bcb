"""Runs are followed in the model: what the judge's own rules miss, or would miss if one were left out, is noticed."""

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
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
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import (
    ALL_THERE,
    Judge,
    JudgeOfFailedRecovery,
    Operations,
    Progress,
    Property,
    without,
)
from tornproof.harness.simulator.process.simulated_process import Mark, Node
from tornproof.harness.simulator.process.world import NOTHING_HAPPENED, followed
from tornproof.harness.systems.toy import AcknowledgesFirst, NeverSyncs, Toy
from tornproof.impl.storage.interface import Storage
from tornproof.model.trace import Event, Kind, follow

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


class Replaced(Toy):
    """Sound: each commit replaces all letters."""

    name = "replaced"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        self.write_anew(storage, f"{path}/new", operation)
        storage.rename(f"{path}/new", f"{path}/state")
        self.sync_names(storage, path)


@pytest.mark.parametrize("explore", [sampled_properties, reduced_properties, product_properties])
def test_a_sound_system_may_come_back_to_an_earlier_state(explore: Callable[[TestCase], set[str]]) -> None:
    """A read that was opened before two commits was taken for one of the second commit, which leaves the same."""
    case = TestCase(
        target=Replaced(),
        path="toy",
        operations=(b"one", b""),
        first_session=(0, 1, 0),
        second_session=(0,),
        readers=(Readers(read_count=2),),
    )
    assert explore(case) == set()


Report = tuple[str, str, Hashable]
"""The kind of a mark, or "begun" or "killed", the process, and the value."""
LETTERS = "AAB"
"""What each operation leaves, whatever was there before; at the beginning it is the first letter."""


def left_by(operations: Operations) -> Hashable:
    return LETTERS[operations[-1]] if operations else LETTERS[0]


def random_reports(generator: random.Random) -> Iterator[Report]:
    """Yield what a writer that dies now and then and two readers may report, and what they see or recover by lot."""
    is_open, is_committing, reading, number = True, False, set[str](), 0
    for _ in range(generator.randrange(6, 16)):
        reader = generator.choice(("left", "right"))
        if generator.random() < 0.6:
            kind = bodies.SEEN if reader in reading else "begun"
            reading ^= {reader}
            yield kind, reader, generator.choice("AB")
        elif not is_open:
            is_open = True
            yield bodies.RECOVERED, "writer", generator.choice("AB")
        elif generator.random() < 0.2:
            is_open = is_committing = False
            yield "killed", "writer", None
        else:
            is_committing = not is_committing
            number = generator.randrange(len(LETTERS)) if is_committing else number
            yield bodies.COMMIT if is_committing else bodies.ACKNOWLEDGED, "writer", number


def are_accepted(reports: Sequence[Report]) -> bool:
    """Say whether the judge and the model find nothing wrong."""
    judge, progress, known = Judge(left_by), Progress(), NOTHING_HAPPENED
    for kind, process, value in reports:
        if kind == "killed":
            known = follow(known, Event(Kind.STOPPED))
        elif kind == "begun":
            progress = judge.begin_read(progress, process)
            known = follow(known, Event(Kind.BEGUN, reader=process))
        else:
            node, before = Node(0, None, None, None, (Mark(kind, value),)), progress
            known, progress = followed(known, before, judge.observe(before, process, node), process, node)
    return not progress.violations


def are_explained(
    reports: Sequence[Report], begun: Operations = (), stored: int = 0, least: tuple[tuple[str, int], ...] = ()
) -> bool:
    """Say by trying every number of commits for each read and recovery whether some of them explain all reports.

    So many commits are `stored` at least; a read that has begun sees no less than `least`.
    """
    if not reports:
        return True
    (kind, process, value), rest = reports[0], reports[1:]
    if kind == bodies.COMMIT:
        assert isinstance(value, int)
        return are_explained(rest, (*begun, value), stored, least)
    if kind == bodies.ACKNOWLEDGED:
        return are_explained(rest, begun, len(begun), least)
    if kind == "begun":
        return are_explained(rest, begun, stored, tuple({**dict(least), process: stored}.items()))
    if kind == bodies.RECOVERED:
        counts = [count for count in range(stored, len(begun) + 1) if left_by(begun[:count]) == value]
        return any(are_explained(rest, begun[:count], count, least) for count in counts)
    if kind == bodies.SEEN:
        first = dict(least)[process]
        counts = [count for count in range(first, len(begun) + 1) if left_by(begun[:count]) == value]
        return any(are_explained(rest, begun, max(stored, count), least) for count in counts)
    return are_explained(rest, begun, stored, least)


def test_what_is_seen_of_states_that_come_again_is_wrong_where_no_numbers_of_commits_explain_it() -> None:
    """Compared with every way to number the commits in what is read and recovered, in random small runs."""
    generator, verdicts = random.Random(1), list[bool]()
    for _ in range(2_000):
        reports = tuple(random_reports(generator))
        verdicts.append(are_explained(reports))
        assert are_accepted(reports) is verdicts[-1], reports
    assert 500 < sum(verdicts) < 1_500


def test_what_a_recovery_whose_sync_failed_has_found_may_be_lost_and_what_was_acknowledged_may_not() -> None:
    def after(progress: Progress, judge: Judge, *marks: Mark) -> Progress:
        return judge.observe(progress, "writer", Node(0, None, None, None, marks))

    def oracle(operations: Operations) -> Hashable:
        return operations

    judge, begun = JudgeOfFailedRecovery(oracle, fails=True), Progress(committed=(0,), rejected=(1,), pending=2)
    assert after(begun, Judge(oracle), Mark(bodies.RECOVERED, (0, 1, 2))).absences == ALL_THERE
    found = after(begun, judge, Mark(bodies.RECOVERED, (0, 1, 2)))
    assert found.committed == (0, 1, 2) and not found.violations
    assert {*found.absences} == {frozenset(), frozenset({2}), frozenset({1, 2})}
    # The next commit comes behind what may be lost.
    later = after(found, judge, Mark(bodies.COMMIT, 3), Mark(bodies.ACKNOWLEDGED, 3))
    assert {without(later.committed, absent) for absent in later.absences} == {(0, 3), (0, 1, 3), (0, 1, 2, 3)}
    (violation,) = after(begun, judge, Mark(bodies.RECOVERED, ())).violations
    assert violation.property == Property.LOST
