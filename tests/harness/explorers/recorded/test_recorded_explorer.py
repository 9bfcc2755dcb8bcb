"""Exploring a recorded program: what counts as a verdict, what a finding says, and controls that fail when blinded."""

import os
import random
import select
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from recorded_phases import AsRecorded
from recorded_programs import PYTHON

from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.recorded import checker as recorded_checker
from tornproof.harness.explorers.recorded import states as recorded_states
from tornproof.harness.explorers.recorded.checker import OUTPUT_MAX, Answer, Checker, StoppedError
from tornproof.harness.explorers.recorded.effects import site
from tornproof.harness.explorers.recorded.explorer import RecordedQuestion, check_one, explore_recorded
from tornproof.harness.explorers.recorded.states import (
    enumerate_points,
    enumerate_states,
    points_of,
    state_named,
)
from tornproof.harness.parallel.tasks import explore_here
from tornproof.harness.recording.replaying import Machine, tree_of
from tornproof.harness.recording.steps import End, Start, Step, StepKind, Trace
from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES, FileState
from tornproof.harness.simulator.persistence.legal_disks import DEFAULT_LIMITS, Picked, allows_disk, legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits, allows_content, legal_file
from tornproof.harness.simulator.persistence.models import C_512, C_4096, MODELS, N_512, POWER_MODELS, A, B
from tornproof.impl.errors import UsageError
from tornproof.impl.storage.interface import OpenMode

STEPS = (
    Step(kind=StepKind.OPEN, call=1, name="openat", path="tmp", handle=1, mode=OpenMode.NEW),
    Step(kind=StepKind.WRITE, call=2, name="write", path="tmp", handle=1, content=b"new"),
    Step(kind=StepKind.FSYNC, call=3, name="fsync", path="tmp", handle=1),
    Step(kind=StepKind.RENAME, call=4, name="rename", path="tmp", target="cur"),
    Step(kind=StepKind.SYNC_DIRECTORY, call=5, name="fsync", path="."),
    Step(kind=StepKind.ACKNOWLEDGE, call=6, name="write", content=b"done"),
)
RIGHT = 'case "$(cat $0/cur)" in new) ;; old) test ! -s $1 ;; *) false ;; esac'
LOGGED = "while read -r each; do grep -q $each $0/log || exit 1; done < $1"


def trace(*left_out: StepKind) -> Trace:
    start = Start(format=1, tornproof="0", command=("it",), directories=(), files={"cur": b"old"}, links={})
    steps = tuple(step for step in STEPS if step.kind not in left_out)
    return Trace(start=start, steps=steps, end=End(exit_code=0, calls=6, steps=len(steps)))


def question(checker: str, *left_out: StepKind, seconds: float = 60) -> RecordedQuestion:
    command = f"sh -c {shlex.quote(checker)} {{dir}} {{acks}}"
    return RecordedQuestion(
        trace=trace(*left_out),
        checker=Checker(command=command, seconds=seconds),
        models=("A", "B", "Cdir"),
        states_max=99,
    )


def explored(checker: str, *left_out: StepKind, seconds: float = 60) -> Phase:
    asked = question(checker, *left_out, seconds=seconds)
    return explore_here(explore_recorded(asked), asked)


def test_accepts_a_program_that_syncs_and_says_what_was_covered(as_recorded: AsRecorded) -> None:
    phase = explored(RIGHT)
    as_recorded(phase)
    assert (phase.verdict, phase.complete, phase.note) == (Verdict.VALID, True, "")
    assert phase.bound == "every disk under A, B, Cdir at 7 crash points"
    assert phase.explored == phase.counts["different states"] == 6


def test_rejects_a_program_without_a_sync_and_says_which_would_close_it() -> None:
    phase = explored(RIGHT, StepKind.SYNC_DIRECTORY)
    assert phase.verdict is Verdict.INVALID
    finding, other = phase.findings
    assert "Call 1, openat of tmp is not on disk." in other.evidence["sentences"]
    assert finding.evidence["sentences"] == [
        "The power is cut after call 6, acknowledgement 'done' (model B).",
        "Call 4, rename of tmp to cur is not on disk.",
        "Acknowledged by then: 1, the last 'done'.",
        "The checker: exit code 1.",
        "One sync closes it: fsync of . after call 4, rename of tmp to cur; of 3 states that are left then, none of "
        "this kind is rejected.",
    ]
    assert finding.evidence["state"] == '5:["B",[0],{}]'


def test_a_state_is_checked_again_by_its_name() -> None:
    asked = question(RIGHT, StepKind.SYNC_DIRECTORY)
    assert check_one(asked, '5:["B",[0],{}]').verdict is Verdict.INVALID
    assert check_one(asked, '5:["B",[0,1],{}]').verdict is Verdict.VALID
    blind = check_one(question("sh missing.sh", StepKind.SYNC_DIRECTORY), '5:["B",[0],{}]')
    assert blind.verdict is Verdict.UNKNOWN
    assert blind.doubt.startswith("the checker rejects the end of the run, of which nothing is lost: exit code ")
    for wrong in (
        "",
        "5",
        "9:[]",
        '99:["B",null,{}]',
        '5:["Z",null,{}]',
        '5:["B",[7],{}]',
        '5:["B",null,{"cur":[9,9,[]]}]',
        '5:["B",null,{"gone":[0,0,[]]}]',
        '2:["B",[],{"tmp":[0,0,[]]}]',
        '5:["C-512",null,{"cur":[0,0,[[1,0]]]}]',
        f'5:["C-512",null,{{"cur":[0,0,[[{10**22},0]]]}}]',
    ):
        with pytest.raises(UsageError, match="no state of this trace"):
            check_one(asked, wrong)


def stored(*names: str) -> Trace:
    """Return a trace of a file that is made longer, mapped, stored to and synced, of so many of these steps."""
    grown = Step(kind=StepKind.TRUNCATE, call=2, name="ftruncate", path="cur", handle=1, size=8192)
    steps = {
        "open": Step(kind=StepKind.OPEN, call=1, name="openat", path="cur", handle=1),
        "grow": grown,
        "store": Step(kind=StepKind.WRITE, call=3, name="store", path="cur", handle=1, offset=4096, content=b"new"),
        "sync": Step(kind=StepKind.MSYNC, call=3, name="msync", path="cur", handle=1, offset=4096, size=4096),
        "done": Step(kind=StepKind.ACKNOWLEDGE, call=4, name="write", content=b"done"),
    }
    start = Start(format=1, tornproof="0", command=("it",), directories=(), files={"cur": b"old"}, links={})
    chosen = tuple(steps[name] for name in names)
    return Trace(start=start, steps=chosen, end=End(exit_code=0, calls=4, steps=len(chosen)))


def test_the_size_of_a_file_is_durable_after_msync_as_on_linux() -> None:
    """LMDB with MDB_WRITEMAP was wrongly suspected: its file was cut to what it was before it was made longer."""
    recorded_run = stored("open", "grow", "store", "sync")
    *_, before, last = points_of(recorded_run, C_4096)
    disks = {disk.files()["cur"] for disk, *_ in legal_disks(last.machine.kernel, C_4096)}
    assert disks == {b"old".ljust(4096, b"\0") + b"new".ljust(4096, b"\0")}
    assert min(len(disk.files()["cur"]) for disk, *_ in legal_disks(before.machine.kernel, C_4096)) == len(b"old")


def test_a_killed_program_keeps_stores_that_were_not_seen_yet() -> None:
    """What LMDB had stored through its mapping by an acknowledgement was seen at the end, and taken for lost."""
    unsynced = stored("open", "grow", "done", "store")
    assert [point.step for point in points_of(unsynced, A)] == [4]
    assert [point.step for point in points_of(unsynced, B)] == [0, 2, 3, 4]
    synced = stored("open", "grow", "store", "sync", "done")
    assert [point.step for point in points_of(synced, A)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("checker", "said"),
    [
        ("false", "rejects the end of the run"),
        ("test -s $1", "rejects the start of the run"),
        ("kill -9 $$", "it died of SIGKILL"),
        ("kill -40 $$", "it died of signal 40"),
    ],
)
def test_a_checker_that_rejects_what_nothing_is_lost_of_gives_no_verdict(checker: str, said: str) -> None:
    phase = explored(checker)
    assert phase.verdict is Verdict.UNKNOWN and said in phase.note and not phase.explored


def test_a_run_without_any_change_gives_no_verdict() -> None:
    """Where the program had failed at once, or --dir was another directory, nothing was checked and all was VALID."""
    phase = explored("true", StepKind.OPEN, StepKind.WRITE, StepKind.RENAME)
    assert phase.verdict is Verdict.UNKNOWN and not phase.explored
    assert phase.note == "nothing was recorded: the program changed nothing below the directory"


def test_a_run_that_acknowledges_nothing_is_said_to_promise_nothing() -> None:
    phase = explored("true", StepKind.ACKNOWLEDGE)
    assert phase.verdict is Verdict.VALID and phase.note.startswith("nothing was acknowledged, so the checker")


def test_a_checker_that_does_not_look_at_acknowledgements_is_named() -> None:
    phase = explored("true", StepKind.SYNC_DIRECTORY)
    assert phase.verdict is Verdict.VALID and "it cannot tell what is lost" in phase.note


def test_a_checker_that_hangs_is_a_finding() -> None:
    phase = explored("test ! -e $0/tmp || { echo waiting; sleep 1000; }", seconds=1)
    assert phase.verdict is Verdict.INVALID
    assert "it did not end in time: waiting" in phase.findings[0].sentence


def answer_of(checker: str, scratch: Path) -> Answer:
    """Return what a checker says of an empty disk, which has 5 seconds."""
    command = f"sh -c {shlex.quote(checker)} {{dir}}"
    return Checker(command=command, seconds=5).check(Machine(trace().start).kernel, (), scratch)


@pytest.mark.parametrize("start", ["sleep 10 &", "setsid sleep 10 &"])
def test_what_a_checker_leaves_running_does_not_count_as_the_checker(tmp_path: Path, start: str) -> None:
    """A checker that had ended with 0 was waited for, and then did not end in time, while a process had its output."""
    assert answer_of(f"{start} echo $!; exit 0", tmp_path).code == 0


def test_what_a_checker_leaves_running_is_killed(tmp_path: Path) -> None:
    answer = answer_of("sleep 60 & echo $!; exit 3", tmp_path)
    assert answer.code == 3 and has_ended(int(answer.output))


def test_a_checker_that_runs_when_the_exploration_is_to_stop_is_ended_and_has_no_answer(tmp_path: Path) -> None:
    """It went on after `power --seconds` had ended."""
    file = tmp_path / "process"
    checker = Checker(command=f"sh -c 'echo $$ > {file}; exec sleep 1000' {{dir}}", seconds=600)
    with pytest.raises(StoppedError):
        checker.check(Machine(trace().start).kernel, (), tmp_path, lambda: not (file.exists() and file.read_text()))
    assert has_ended(int(file.read_text()))


def has_ended(process: int) -> bool:
    """Wait until a process has ended, which takes a busy machine a moment after it was killed."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


def test_of_what_a_checker_writes_only_the_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a checker wrote was all held in memory: 4 GB of one that read /dev/zero."""
    read = []

    def noted(*arguments: object) -> bytes:
        read.append(len(output := whole(*arguments)))  # type: ignore[arg-type]
        return output

    whole = recorded_checker._output_until_end
    monkeypatch.setattr(recorded_checker, "_output_until_end", noted)
    answer = answer_of("head -c 3000000 /dev/zero; echo; echo the end; exit 1", tmp_path)
    assert (answer.code, len(answer.output)) == (1, OUTPUT_MAX) and str(answer) == "exit code 1: the end"
    assert max(read) <= OUTPUT_MAX


def test_what_a_checker_changes_is_not_there_for_the_next() -> None:
    assert explored("test ! -e $0/mark && touch $0/mark").verdict is Verdict.VALID


def test_a_blinded_injector_fails_its_control(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blinded:
        def __init__(self, *arguments: object) -> None:
            self._disks = legal_disks(*arguments)  # type: ignore[arg-type]

        def __getattr__(self, name: str) -> object:
            return getattr(self._disks, name)

        def __iter__(self) -> Iterator[Picked]:
            return islice(self._disks, 1)

    monkeypatch.setattr(recorded_states, "legal_disks", Blinded)
    phase = explored(RIGHT, StepKind.SYNC_DIRECTORY)
    assert phase.verdict is Verdict.UNKNOWN
    assert "B: nothing is ever lost, though at 5 crash points something was not synced" in phase.controls


@pytest.mark.parametrize("command", ["true", "no-such-command {dir}", "sh -c 'unclosed {dir}"])
def test_rejects_a_command_that_can_be_no_checker(command: str) -> None:
    with pytest.raises(UsageError, match="--check"):
        Checker(command=command, seconds=1)


def test_a_checker_gets_links_directories_and_acknowledgements(tmp_path: Path) -> None:
    start = Start(
        format=1, tornproof="0", command=(), directories=("x",), files={"x/a": b"1"}, links={"l": "x/a", "gone": "no"}
    )
    machine = Machine(start)
    step = Step(kind=StepKind.LINK, call=1, name="link", path="x/a", target="b")
    machine.apply(step, 0)
    program = """import os, sys
d, acks = sys.argv[1:]
assert os.readlink(d + "/l") == "x/a" and os.readlink(d + "/gone") == "no" and os.path.samefile(d + "/b", d + "/x/a")
assert open(acks).read() == "one\\ntwo\\n" and os.environ["TORNPROOF_ACKS"] == acks
"""
    command = shlex.join([*PYTHON, "-c", program, "{dir}", "{acks}"])
    answer = Checker(command=command, seconds=60).check(machine.kernel, [b"one", b"two"], tmp_path)
    assert answer.accepts, answer


def test_states_are_those_of_a_kernel_that_makes_the_same_calls() -> None:
    for model in POWER_MODELS:
        found = enumerate_states(trace(StepKind.FSYNC), model, DEFAULT_LIMITS, 10_000)
        by_hand = {
            (point.machine.acknowledged, tuple(sorted(tree_of(picked.disk.kernel()).items())))
            for point in points_of(trace(StepKind.FSYNC), model)
            for picked in legal_disks(point.machine.kernel, model, DEFAULT_LIMITS)
        }
        assert len(found.keys) == len(found.states) == len(by_hand)
        assert [state_named(trace(StepKind.FSYNC), each.name)[1].key for each in found.states] == [
            each.key for each in found.states
        ]


def test_a_content_is_allowed_where_it_is_among_all_contents() -> None:
    choose = random.Random(7)
    limits, seen = Limits(file_count=100_000), 0
    for _ in range(3_000):
        model = choose.choice((*MODELS, C_512, C_4096, N_512))
        state = FileState(bytes(choose.choices(b"\0a", k=choose.randrange(3))) * 512)
        for _ in range(choose.randrange(4)):
            size = choose.choice((512, 1024, 700))
            content = choose.choice((b"\0", b"a", b"b", b"\xa5")) * size
            state = choose.choice((state.written(content, choose.randrange(3) * 512), state.resized(size), state))
        # Contents under blocks of 8 bytes are too many to be all there.
        if model.block_bytes == 8:
            continue
        allowed = set(legal_file(state, model, limits).contents)
        size = choose.choice((0, 512, 700, 1024, 1536, 1724))
        made = b"".join(choose.choice((b"\0", b"a", b"b", b"\xa5")) * 512 for _ in range(4))[:size]
        for content in (*islice(sorted(allowed), 4), made):
            assert allows_content(state, model, content) is (content in allowed)
            seen += content in allowed
    assert seen > 3_000


def test_a_disk_is_allowed_where_it_is_among_all_disks() -> None:
    points = list(points_of(trace(StepKind.FSYNC), B))
    disks = [(point, {picked.disk for picked in legal_disks(point.machine.kernel, B)}) for point in points]
    compared = 0
    for point, allowed in disks:
        for _, others in disks:
            for disk in others:
                compared += 1
                assert allows_disk(point.machine.kernel, B, disk) is (disk in allowed)
    assert compared > 50


def test_a_sync_of_a_range_keeps_that_range_of_every_version() -> None:
    choose = random.Random(5)
    for _ in range(2_000):
        state = FileState(bytes(choose.randrange(1, 40)))
        for _ in range(choose.randrange(1, 4)):
            state = state.written(bytes([choose.randrange(1, 9)]) * choose.randrange(1, 9), choose.randrange(40))
        start, end = sorted((choose.randrange(50), choose.randrange(50)))
        latest = state.versions[-1]
        synced = state.synced_between(start, end)
        by_hand = [
            bytes(latest[at] if start <= at < end else byte for at, byte in enumerate(version))
            for version in state.versions
        ]
        expected = [version for at, version in enumerate(by_hand) if not at or version != by_hand[at - 1]]
        assert list(synced.versions) == expected or synced.versions == (latest,)
        assert synced.content == state.content
        assert state.synced_between(0, end) == state.synced_until(end)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("objects/a1/tmp_obj_6TFXTW", "objects/e3/tmp_obj_hrOCon", True),
        ("000012.log", "000013.log", True),
        ("000012.log", "000012.sst", False),
        ("data", "index", False),
    ],
)
def test_names_that_were_made_up_are_of_one_site(one: str, other: str, is_same: bool) -> None:
    steps = [Step(kind=StepKind.UNLINK, call=1, name="unlink", path=path) for path in (one, other)]
    assert (site(steps[0]) == site(steps[1])) is is_same


def test_writes_of_two_functions_to_one_file_are_two_causes_each_with_the_sync_that_it_needs() -> None:
    def write(call: int, offset: int, function: str) -> Step:
        return Step(
            kind=StepKind.WRITE,
            call=call,
            name="pwrite64",
            path="log",
            handle=1,
            offset=offset,
            content=function.encode(),
            stack=(f"it: {function} at it.c:{call}",),
        )

    steps = (
        Step(kind=StepKind.OPEN, call=1, name="openat", path="log", handle=1),
        write(2, 0, "commit"),
        Step(kind=StepKind.ACKNOWLEDGE, call=3, name="write", content=b"commit"),
        write(4, 6, "compact"),
        Step(kind=StepKind.ACKNOWLEDGE, call=5, name="write", content=b"compact"),
    )
    start = Start(format=1, tornproof="0", command=("it",), directories=(), files={"log": b""}, links={})
    asked = RecordedQuestion(
        trace=Trace(start=start, steps=steps, end=End(exit_code=0, calls=5, steps=len(steps))),
        checker=Checker(command=shlex.join(["sh", "-c", LOGGED, "{dir}", "{acks}"]), seconds=60),
        models=("B",),
        states_max=99,
    )
    phase = explore_here(explore_recorded(asked), asked)
    assert [finding.evidence["closed_by"]["after"] for finding in phase.findings] == [1, 3]


def written_in_parts(model: str, checker: str) -> Phase:
    """Explore a program that overwrites three pages at once, truncates another file, syncs and acknowledges."""
    size = 3 * PAGE_BYTES
    parts = [
        Step(kind=StepKind.WRITE, call=2, name="pwrite64", path="f", handle=1, offset=offset, content=b"n" * PAGE_BYTES)
        for offset in range(0, size, PAGE_BYTES)
    ]
    steps = (
        Step(kind=StepKind.OPEN, call=1, name="openat", path="f", handle=1),
        *parts,
        Step(kind=StepKind.TRUNCATE, call=3, name="truncate", path="g", size=1),
        Step(kind=StepKind.FSYNC, call=4, name="fsync", path="f", handle=1),
        Step(kind=StepKind.ACKNOWLEDGE, call=5, name="write", content=b"saved"),
    )
    files = {"f": b"o" * size, "g": b""}
    start = Start(format=1, tornproof="0", command=("it",), directories=(), files=files, links={})
    asked = RecordedQuestion(
        trace=Trace(start=start, steps=steps, end=End(exit_code=0, calls=5, steps=len(steps))),
        checker=Checker(command=shlex.join(["sh", "-c", checker, "{dir}", "{acks}"]), seconds=60),
        models=(model,),
        states_max=99,
    )
    return explore_here(explore_recorded(asked), asked)


TORN = "case $(head -c 4096 $0/f | tail -c 1)$(tail -c 1 $0/f) in oo) test ! -s $1 ;; nn) ;; *) false ;; esac"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("A", "The program is killed after the first 4096 bytes of call 2, pwrite64 of 12288 bytes at 0 of f."),
        ("B", "The power is cut after the first 4096 bytes of call 2, pwrite64 of 12288 bytes at 0 of f (model B)."),
    ],
)
def test_a_crash_between_two_pages_of_a_write_is_a_finding_that_names_the_whole_call(model: str, said: str) -> None:
    phase = written_in_parts(model, TORN)
    assert phase.verdict is Verdict.INVALID and said in phase.findings[0].sentence


def test_no_sync_is_looked_for_inside_of_a_write() -> None:
    """What is lost of it is one effect, and a sync can only come after all of it."""
    phase = written_in_parts("B", "test ! -s $0/g || case $(tail -c 1 $0/f) in n) ;; *) false ;; esac")
    (finding,) = phase.findings
    assert "Call 2, pwrite64 of 12288 bytes at 0 of f is on disk in part." in finding.evidence["sentences"]
    assert finding.evidence["closed_by"]["after"] == 3
    assert [effect["step"] for effect in finding.evidence["lost"]] == [1]


def test_the_search_for_a_sync_goes_on_where_a_path_leads_to_nothing_any_more() -> None:
    """A sync by the old path of a file that had been renamed ended the search, and the finding was not explained."""
    steps = (
        Step(kind=StepKind.TRUNCATE, call=1, name="truncate", path="f", size=1),
        Step(kind=StepKind.OPEN, call=2, name="openat", path="f", handle=1),
        Step(kind=StepKind.WRITE, call=3, name="write", path="f", handle=1, content=b"abc"),
        Step(kind=StepKind.RENAME, call=4, name="rename", path="f", target="g"),
        Step(kind=StepKind.TRUNCATE, call=5, name="truncate", path="g"),
        Step(kind=StepKind.ACKNOWLEDGE, call=6, name="write", content=b"saved"),
    )
    start = Start(format=1, tornproof="0", command=("it",), directories=(), files={"f": b"abc"}, links={})
    checker = "test ! -s $1 || test ! -s $0/g"
    asked = RecordedQuestion(
        trace=Trace(start=start, steps=steps, end=End(exit_code=0, calls=6, steps=len(steps))),
        checker=Checker(command=shlex.join(["sh", "-c", checker, "{dir}", "{acks}"]), seconds=60),
        models=("B",),
        states_max=99,
    )
    (finding,) = explore_here(explore_recorded(asked), asked).findings
    assert "closed_by" in finding.evidence


def test_what_is_a_sample_at_one_point_is_not_complete_although_it_is_at_another_one() -> None:
    few = Limits(file_count=1, names_count=1, disk_count=1)
    points = [*points_of(trace(StepKind.FSYNC), B)]
    whole = {legal_disks(point.machine.kernel, B, few).is_complete: point for point in points}
    assert enumerate_points([whole[True]], B, few, 10_000).is_complete
    for order in ((False,), (False, True), (True, False)):
        assert not enumerate_points([whole[each] for each in order], B, few, 10_000).is_complete
