"""Memoised examinations give the facts that stepping gives, on disks of every kind."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from depth import nightly
from hypothesis import given, settings
from hypothesis import strategies as st

from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.explorers.barriers.explorer import protocol_with
from tornproof.harness.explorers.power_cuts.controls import failed_controls, toy_case
from tornproof.harness.explorers.power_cuts.examination import SAW, SESSION, Facts, Stage, commit_body, recovery_body
from tornproof.harness.explorers.power_cuts.judge import PowerJudge, recovered
from tornproof.harness.explorers.power_cuts.known import Known, Read
from tornproof.harness.explorers.power_cuts.memo import Examiner
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Handle
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence.legal_disks import Disk, legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.legal_names import tree_of
from tornproof.harness.simulator.persistence.models import C_512, CDIR, N_512, D
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.simulated_process import Say
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.toy import Toy, ToyWriter
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage


@pytest.mark.parametrize(("every", "disk_count"), [(3, 30), nightly(1, 600)])
def test_memoised_facts_are_those_of_stepping_on_every_disk_of_a_run_without_barriers(
    every: int, disk_count: int
) -> None:
    start = made_image()
    target = TableTarget(encode=remembered_encoder())
    case = TestCase(
        target=dataclasses.replace(target, protocol=protocol_with(())),
        path=MADE_PATH,
        operations=crash_operations(start, MADE_PATH),
        first_session=(0,),
        second_session=(3,),
        start=start,
    )
    disks: dict[Disk, None] = {}
    for model in (C_512, CDIR):
        for point in Traces(case).of(model).points[::every]:
            disks |= {picked.disk: None for picked in legal_disks(point.kernel, model, Limits(disk_count=disk_count))}
    assert len(disks) > 100
    with remembered_decoding():
        recoveries, commits = (
            Examiner(recovery_body(target, MADE_PATH)),
            Examiner(commit_body(target, MADE_PATH, [case.operations[3]])),
        )
        outcomes = set()
        kinds: Counter[tuple[bool, bool]] = Counter()
        for disk in disks:
            facts = recoveries.examine(disk)
            assert facts.answers() == recoveries.step(disk)[0].answers()
            assert recoveries.examine(disk) is facts
            outcomes.add(facts.rejected and facts.rejected[0])
            if facts.rejected is None:
                after = recovered(disk, facts)
                assert after == replayed(disk, facts)
                kinds[bool(facts.recovery), facts.files[0] is disk.tree] += 1
                assert commits.examine(after).answers() == commits.step(after)[0].answers()
        assert {None, Stage.READ} <= outcomes
        assert kinds[True, True] and kinds[False, True]
        recoveries.close()
        commits.close()


def replayed(disk: Disk, facts: Facts) -> Disk:
    """Return the disk after its recovery, made by all its calls."""
    kernel = disk.kernel()
    for call in facts.recovery:
        # A call that failed fails again.
        apply(kernel, SESSION, call)
    tree, numbers = tree_of(kernel.directories)
    return Disk(tree, tuple(kernel.files[number].content for number in numbers))


@pytest.mark.nightly
def test_a_disk_after_its_recovery_is_the_one_that_the_calls_of_the_recovery_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds: Counter[tuple[bool, bool]] = Counter()

    def compared(disk: Disk, facts: Facts) -> Disk:
        after = recovered(disk, facts)
        assert after == replayed(disk, facts)
        kinds[bool(facts.recovery), facts.files[0] is disk.tree] += 1
        return after

    monkeypatch.setattr("tornproof.harness.explorers.power_cuts.judge.recovered", compared)
    assert failed_controls((N_512, D)) == []
    assert min(kinds[True, False], kinds[False, True]) > 1_500 and kinds[True, True] > 100, kinds


def test_a_judge_says_what_it_used_of_a_disk_that_it_knows_too() -> None:
    case = toy_case(Toy())
    judge = PowerJudge(case)
    point = Traces(case).of(C_512).points[-1]
    disk = next(iter(legal_disks(point.kernel, C_512, Limits(disk_count=1)))).disk
    judge.judge(disk, point.bounds)
    used, judge.used = judge.used, set()
    judge.judge(disk, point.bounds)
    judge.close()
    # Of its recovery, and of a commit after it.
    assert len(used) == 2 and judge.used == used


def disk_of(**contents: bytes) -> Disk:
    tree, _ = tree_of({0: {name: number for number, name in enumerate(contents, start=1)}})
    return Disk(tree, tuple(contents.values()))


def examiner(read: object) -> Examiner:
    def body(storage: Storage, say: Say) -> None:
        say(SAW, (Stage.READ, read(storage)))  # type: ignore[operator]

    return Examiner(body)


def seen(examining: Examiner, disk: Disk) -> object:
    return examining.examine(disk).seen[Stage.READ]


def test_disks_that_differ_where_nothing_reads_are_stepped_once() -> None:
    def read(storage: Storage) -> bytes:
        with storage.open_for_reading("f") as file:
            return file.pread(2, 1)

    examining = examiner(read)
    assert seen(examining, disk_of(f=b"abcdef", g=b"")) == b"bc"
    assert seen(examining, disk_of(f=b"xbcxyz!", g=b"other")) == b"bc"
    assert examining.stepped_count == 1
    assert seen(examining, disk_of(f=b"abxdef", g=b"")) == b"bx"
    assert seen(examining, disk_of(f=b"ab", g=b"")) == b"b"
    assert examining.stepped_count == 3
    assert seen(examining, disk_of(f=b"abcdef", h=b"")) == b"bc"
    assert examining.stepped_count == 4


def test_what_a_process_has_written_itself_is_not_read_from_the_disk_but_the_size_is() -> None:
    def read(storage: Storage) -> tuple[bytes, int]:
        with storage.open_for_writing("f") as file:
            file.pwrite(b"new", 2)
            return file.pread(4, 1), file.size_bytes()

    examining = examiner(read)
    assert seen(examining, disk_of(f=b"abcdef")) == (b"bnew", 6)
    assert seen(examining, disk_of(f=b"xbxxxx")) == (b"bnew", 6)
    assert examining.stepped_count == 1
    assert seen(examining, disk_of(f=b"abcdefg")) == (b"bnew", 7)
    assert seen(examining, disk_of(f=b"a")) == (b"\0new", 5)


def test_what_follows_a_truncation_is_not_read_from_the_disk() -> None:
    def read(storage: Storage) -> bytes:
        with storage.open_for_writing("f") as file:
            file.truncate(1)
            file.truncate(3)
            return file.pread(9, 0)

    examining = examiner(read)
    assert seen(examining, disk_of(f=b"abc")) == b"a\0\0"
    assert seen(examining, disk_of(f=b"axx")) == b"a\0\0"
    assert examining.stepped_count == 1
    assert seen(examining, disk_of(f=b"xbc")) == b"x\0\0"


class Recovering(Toy):
    """Does something whenever a writer is opened, and reads nothing; says whether that was done before."""

    name = "recovering"

    def __init__(self, recovery: Callable[[Storage, bool], None]) -> None:
        self._recovery = recovery

    def read(self, storage: Storage, path: str) -> bytes:
        return b""

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        is_second = storage.kind("done") is EntryKind.FILE
        self._recovery(storage, is_second)
        if not is_second:
            storage.open_for_writing("done", OpenMode.NEW).close()
        yield ToyWriter(self, storage, path)


def write_anew(storage: Storage, path: str, content: bytes) -> None:
    with storage.open_for_writing(path, OpenMode.NEW) as file:
        file.pwrite(content, 0)


def rewrite(storage: Storage, is_second: bool) -> None:
    with storage.open_for_reading("f") as file:
        write_anew(storage, "new", file.pread(file.size_bytes(), 0))
    storage.rename("new", "f")


def probe(storage: Storage, is_second: bool) -> None:
    storage.open_for_writing("probe", OpenMode.NEW).close()
    storage.unlink("probe")


def make_anew(storage: Storage, is_second: bool) -> None:
    if is_second:
        storage.rmdir("lock")
    storage.mkdir("lock")


def exchange(storage: Storage, is_second: bool) -> None:
    if is_second:
        for source, target in ("fh", "gf", "hg"):
            storage.rename(source, target)


def replace(storage: Storage, is_second: bool) -> None:
    if is_second:
        write_anew(storage, "new", b"xy")
        storage.rename("new", "f")


def cut_and_write(storage: Storage, is_second: bool) -> None:
    if is_second:
        with storage.open_for_writing("f") as file:
            file.truncate(0)
            file.pwrite(b"xy", 0)


def part(storage: Storage, is_second: bool) -> None:
    if is_second:
        storage.unlink("h")
        write_anew(storage, "h", b"xy")
    else:
        storage.link("f", "h")


@pytest.mark.parametrize("recovery", [rewrite, probe, make_anew])
def test_a_second_recovery_may_leave_the_same_names_and_bytes_in_other_files(
    recovery: Callable[[Storage, bool], None],
) -> None:
    """It was said to change the files again, because files were compared by their numbers."""
    examining = Examiner(recovery_body(Recovering(recovery), ""))
    assert examining.examine(disk_of(f=b"xy", g=b"xy")).is_idempotent


@pytest.mark.parametrize("recovery", [exchange, replace, cut_and_write])
@pytest.mark.parametrize("first", [b"xy", b"zy", b"xyz"])
def test_whether_a_second_recovery_changes_something_depends_on_bytes_that_nobody_reads(
    recovery: Callable[[Storage, bool], None], first: bytes
) -> None:
    examining = Examiner(recovery_body(Recovering(recovery), ""))
    for content in (first, b"xy", b"xz", b"x"):
        assert examining.examine(disk_of(f=content, g=b"xy")).is_idempotent == (content == b"xy")


def test_a_second_recovery_may_not_part_the_names_of_a_file() -> None:
    examining = Examiner(recovery_body(Recovering(part), ""))
    assert not examining.examine(disk_of(f=b"xy")).is_idempotent


def known_of_file(size_bytes: int) -> Known:
    """Return what is known of a disk with a file of zeros, which session 0 has open as its file 1: nothing."""
    disk = disk_of(f=bytes(size_bytes))
    kernel = disk.kernel()
    kernel.handles[0, 1] = Handle(kernel.entry("f"), False)
    return Known(disk.tree.path_indexes(), kernel)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 4), (2, 6)], [(0, 4), (4, 6)]),
        ([(4, 6), (0, 2), (0, 8)], [(4, 6), (0, 2), (2, 4), (6, 8)]),
        ([(0, 8), (2, 3), (0, 8)], [(0, 8)]),
        ([(0, 2), (2, 4), (1, 3), (0, 5)], [(0, 2), (2, 4), (4, 5)]),
        ([(3, 3)], []),
    ],
)
def test_no_byte_is_read_twice(ranges: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    known = known_of_file(8)
    for start, stop in ranges:
        call = Call(kind=CallKind.PREAD, path="f", file=1, offset_bytes=start, size_bytes=stop - start)
        known.read(call, 0)
    assert known.reads == [Read(0, *each) for each in expected]


@pytest.mark.parametrize("is_compared", [True, False])
def test_a_write_that_is_compared_reads_the_old_bytes_once(is_compared: bool) -> None:
    known = known_of_file(8)
    for start in (2, 3):
        call = Call(kind=CallKind.PWRITE, path="f", file=1, offset_bytes=start, content=b"xx")
        assert not known.write(call, 0, is_compared=is_compared)
    size, *old = known.reads
    assert size == Read(0, 0, 0)
    assert old == ([Read(0, 2, 4), Read(0, 4, 5)] if is_compared else [])


@pytest.mark.nightly
@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.integers(0, 12), st.integers(0, 6)), max_size=12))
@settings(max_examples=20 * settings().max_examples)
def test_what_is_read_first_is_what_a_set_of_bytes_says(accesses: list[tuple[bool | None, int, int]]) -> None:
    """A write compares what it overwrites, or does not; None is a read."""
    known = known_of_file(20)
    expected, seen = [], set(range(20, 40))
    for is_compared, start, size in accesses:
        own = range(start, start + size)
        if is_compared is None:
            known.read(Call(kind=CallKind.PREAD, path="f", file=1, offset_bytes=start, size_bytes=size), 0)
        else:
            call = Call(kind=CallKind.PWRITE, path="f", file=1, offset_bytes=start, content=bytes(size))
            known.write(call, 0, is_compared=is_compared)
        if is_compared is not False:
            expected += [byte for byte in own if byte not in seen]
        seen.update(own)
    assert [byte for read in known.reads for byte in range(read.start, read.stop)] == expected
    assert all(read.start < read.stop for read in known.reads if read.stop)
