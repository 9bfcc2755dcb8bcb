"""A recorded program: its steps lead to the directory that it left, and what cannot be followed is rejected."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from depth import sampled
from recorded_programs import CLASSES, NEEDS_STRACE, PYTHON, begin, compiled, random_program, recorded, recorded_python

from tornproof.harness.recording import following
from tornproof.harness.recording.following import Follower
from tornproof.harness.recording.open_files import Directory, OpenFile, Process
from tornproof.harness.recording.recorder import counts_of
from tornproof.harness.recording.replaying import Machine, captured, difference, tree_of
from tornproof.harness.recording.stacks import with_lines
from tornproof.harness.recording.steps import End, NotFollowedError, Start, Step, StepKind, Trace, insert
from tornproof.harness.recording.system_calls import Lines
from tornproof.harness.recording.trace_file import read_trace, write_trace
from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES

pytestmark = NEEDS_STRACE


def left(trace: Trace) -> Machine:
    """Return the machine after all steps."""
    machine = Machine(trace.start)
    for index, step in enumerate(trace.steps):
        machine.apply(step, index)
    return machine


@pytest.mark.parametrize("seed", sampled(6, range(200)))
def test_a_trace_of_random_calls_leads_to_what_the_program_left(tmp_path: Path, seed: int) -> None:
    begin(tmp_path)
    trace = recorded_python(tmp_path, random_program(seed, 150))
    write_trace(trace, tmp_path.with_suffix(".trace"))
    assert len(trace.steps) > 20 and read_trace(tmp_path.with_suffix(".trace")) == trace
    assert difference(tree_of(left(trace).kernel), captured(tmp_path)) == ""


@pytest.mark.parametrize("seed", sampled(1, range(20)))
def test_what_a_program_does_in_a_directory_whose_name_begins_alike_is_no_step_and_no_note(
    tmp_path: Path, seed: int
) -> None:
    data, other = tmp_path / "data", tmp_path / "data-old"
    for each in (data, other):
        each.mkdir()
        begin(each)
    trace = recorded_python(data, f"import os; os.chdir('../data-old')\n{random_program(seed, 100)}")
    assert captured(other) != captured(data)
    assert trace.steps == () and trace.end.notes == () and trace.end.calls == 0


def test_a_sync_of_a_range_of_what_is_not_there_is_rejected_in_words() -> None:
    start = Start(format=1, tornproof="0", command=(), directories=(), files={}, links={})
    step = Step(kind=StepKind.MSYNC, call=1, name="msync", path="gone", size=1)
    with pytest.raises(NotFollowedError, match=r"msync of gone: it succeeded, but .* it could not: "):
        Machine(start).apply(step, 0)


def test_after_a_sync_of_a_range_what_can_be_lost_still_has_the_step_that_it_came_from() -> None:
    """A write that was synced was named as lost instead of the one before it."""
    start = Start(format=1, tornproof="0", command=(), directories=(), files={"f": bytes(8192)}, links={})
    machine = Machine(start)
    of_f: dict[str, Any] = {"call": 1, "path": "f", "handle": 1}
    steps = (
        Step(kind=StepKind.OPEN, name="openat", **of_f),
        Step(kind=StepKind.WRITE, name="pwrite64", content=b"1", **of_f),
        Step(kind=StepKind.WRITE, name="pwrite64", content=b"2", offset=4096, **of_f),
        Step(kind=StepKind.FDATASYNC, name="pwrite64", offset=4096, size=1, **of_f),
        Step(kind=StepKind.WRITE, name="pwrite64", content=b"3", offset=1, **of_f),
        Step(kind=StepKind.WRITE, name="pwrite64", content=b"4", offset=4096, **of_f),
        Step(kind=StepKind.FDATASYNC, name="pwrite64", offset=4096, size=1, covers=5, **of_f),
        Step(kind=StepKind.FDATASYNC, name="pwrite64", offset=0, size=1, **of_f),
    )
    origins = []
    for index, step in enumerate(steps):
        machine.apply(step, index)
        origins.append(machine.writes.get(machine.kernel.entry("f"), ()))
    assert origins == [(), (1,), (1, 2), (1,), (1, 4), (1, 4, 5), (1, 4, 5), (4, 5)]


def test_every_effect_that_can_be_lost_has_the_step_that_it_came_from(tmp_path: Path) -> None:
    begin(tmp_path)
    trace = recorded_python(tmp_path, random_program(3, 300))
    machine = Machine(trace.start)
    for index, step in enumerate(trace.steps):
        machine.apply(step, index)
        kernel = machine.kernel
        assert [change for change, _ in machine.changes] == list(kernel.entry_changes)
        for number, state in kernel.files.items():
            origins = machine.writes.get(number, ())
            assert len(origins) == len(state.versions) - 1 and list(origins) == sorted(origins)
            assert all(trace.steps[origin].kind in (StepKind.WRITE, StepKind.TRUNCATE) for origin in origins)


def test_names_of_one_file_that_were_there_before_are_followed_as_one(tmp_path: Path) -> None:
    """What was written by one name was missing at the others, as if another program had written there."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "b").write_bytes(b"old")
    (tmp_path / "a").hardlink_to(tmp_path / "x" / "b")
    (tmp_path / "c").write_bytes(b"old")
    trace = recorded(tmp_path, "sh", "-c", "echo new >> a")
    assert trace.start.hard_links == (("a", "x/b"),)
    assert left(trace).kernel.image().files == {"a": b"oldnew\n", "x/b": b"oldnew\n", "c": b"old"}


def test_shells_and_their_children_are_followed(tmp_path: Path) -> None:
    program = "mkdir x && cd x && echo one > a && cat a a > b && cp b c && ln -s c l && mv a ../d && (echo two >> l)"
    trace = recorded(tmp_path, "sh", "-c", program)
    assert (tmp_path / "x/c").read_text() == "one\none\ntwo\n"
    assert {step.process for step in trace.steps} > {1}
    assert difference(tree_of(left(trace).kernel), captured(tmp_path)) == ""


def test_symbolic_links_lead_where_they_were_made_to_lead(tmp_path: Path) -> None:
    """Dots and slashes were left out of what is there at the end, which was then said to be something else."""
    (tmp_path / "old").symlink_to(".//v0/")
    trace = recorded(tmp_path, "sh", "-c", "mkdir v1; ln -s ./v1 a; ln -s v1/ b; ln -s v1//../v1 c; echo x > b/d")
    assert trace.start.links == {"old": ".//v0/"}
    links = {step.path: step.target for step in trace.steps if step.kind is StepKind.SYMLINK}
    assert links == {"a": "./v1", "b": "v1/", "c": "v1//../v1"}


ELSEWHERE = {
    "the link leads elsewhere": "os.unlink(top + '/l'); os.symlink('y', top + '/l')",
    "the link is gone": "os.unlink(top + '/l')",
    "it has another name": "os.rename(top + '/x/w', top + '/v')",
    "it is in a directory with another name": "os.rename(top + '/x', top + '/z')",
    "another one has its name": "os.rename(top + '/x', top + '/z'); os.makedirs(top + '/x/w')",
    "a child gives it another name": "os.fork() or (os.rename('../w', '../v'), os._exit(0)); os.wait()",
}


@pytest.mark.parametrize("change", ELSEWHERE)
def test_relative_paths_lead_to_the_working_directory_whatever_becomes_of_its_name(tmp_path: Path, change: str) -> None:
    """A program that went on in a directory which had been renamed was not followed."""
    program = f"""import os
top = os.getcwd(); os.makedirs("x/w"); os.makedirs("y/w"); os.symlink("x/w", "l"); os.chdir("l")
{ELSEWHERE[change]}
os.mkdir("a"); os.rename("a", "b"); os.symlink("t", "c"); os.mkdir("d"); os.rmdir("d"); os.mknod("e"); os.link("e", "f")
"""
    trace = recorded_python(tmp_path, program)
    assert difference(tree_of(left(trace).kernel), captured(tmp_path)) == ""


def test_what_goes_through_a_fifo_is_not_recorded(tmp_path: Path) -> None:
    """A shell opens it as a file that may be new, which it was taken for."""
    os.mkfifo(tmp_path / "before")
    script = """through() { cat $1 > got & echo hi > $1; wait; }
through before; mkfifo made; through made; ln made other; through other; mkdir x; mv made x/in; mv x y; through y/in
mv other got; rm before y/in; echo file > before; mv got ../away
"""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "before").rename(data / "before")
    trace = recorded(data, "sh", "-c", script)
    assert {step.path for step in trace.steps} == {"got", "x", "before"}
    assert tree_of(left(trace).kernel) == {"y": None, "before": b"file\n"}


def test_a_fifo_in_a_directory_is_not_recorded_and_a_file_of_its_name_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "in").mkdir(parents=True)
    os.mkfifo(data / "in" / "pipe")
    (data / "pipe").write_bytes(b"a file\n")
    trace = recorded(data, "sh", "-c", "cat in/pipe > got & echo hi > in/pipe; wait; echo more >> pipe")
    assert {step.path for step in trace.steps} == {"got", "pipe"}


def test_an_empty_file_may_be_made_by_mknod(tmp_path: Path) -> None:
    trace = recorded_python(tmp_path, "import os; os.mknod('f'); os.mknod('g', dir_fd=os.open('.', 0))")
    assert tree_of(left(trace).kernel) == {"f": b"", "g": b""}


def test_threads_share_descriptors_positions_and_the_working_directory(tmp_path: Path) -> None:
    program = """import os, threading
f = os.open("log", os.O_CREAT | os.O_RDWR)
def work(n):
    os.write(f, bytes([n]) * 10); os.mkdir(f"d{n}"); os.chdir(f"d{n}")
    os.close(os.open("made", os.O_CREAT | os.O_RDWR)); os.chdir("..")
for n in range(5):
    thread = threading.Thread(target=work, args=(n,)); thread.start(); thread.join()
"""
    trace = recorded_python(tmp_path, program)
    assert len({step.process for step in trace.steps}) > 1
    assert [step.offset for step in trace.steps if step.kind is StepKind.WRITE] == [0, 10, 20, 30, 40]


def test_stores_through_a_mapping_are_seen_at_each_sync_and_at_the_end(tmp_path: Path) -> None:
    program = """import mmap, os
f = os.open("m", os.O_CREAT | os.O_RDWR); os.ftruncate(f, 3 * 4096); m = mmap.mmap(f, 0)
m[0] = 1; m[5000] = 2; m.flush(4096, 4096); m[1] = 3; os.fsync(f); m[9000] = 4
"""
    trace = recorded_python(tmp_path, program)
    seen = [(step.kind, step.offset, step.name) for step in trace.steps[2:]]
    write, msync, fsync = StepKind.WRITE, StepKind.MSYNC, StepKind.FSYNC
    assert seen == [
        (write, 0, "store"),
        (write, 4096, "store"),
        (msync, 4096, "msync"),
        (write, 0, "store"),
        (fsync, 0, "fsync"),
        (write, 8192, "store"),
    ]
    machine = Machine(trace.start)
    for index, step in enumerate(trace.steps[:5]):
        machine.apply(step, index)
    (state,) = machine.kernel.files.values()
    # The sync of the second page keeps nothing of the first one; the size it does keep, as Linux does.
    assert {version[:1] for version in state.versions} == {b"\0", b"\1"}
    assert {version[5000:5001] for version in state.versions} == {b"\2"}


def test_a_sync_of_a_mapping_that_begins_later_in_its_file_keeps_the_pages_there(tmp_path: Path) -> None:
    program = """import mmap, os
f = os.open("m", os.O_CREAT | os.O_RDWR); os.ftruncate(f, 3 * 4096); os.pwrite(f, b"\\1", 0)
m = mmap.mmap(f, 2 * 4096, offset=4096); m[8] = 2; m[5000] = 3; m.flush(0, 4096)
"""
    trace = recorded_python(tmp_path, program)
    (state,) = left(trace).kernel.files.values()
    assert [{version[at] for version in state.versions} for at in (0, 4096 + 8, 4096 + 5000)] == [{0, 1}, {2}, {0, 3}]


def test_stores_of_a_program_with_threads_are_seen_before_it_goes_on(tmp_path: Path) -> None:
    """Every thread that stopped let the process go on, so that it had stored more by the time its files were read."""
    program = """import mmap, os, threading
f = os.open("m", os.O_CREAT | os.O_RDWR); os.ftruncate(f, 4096); m = mmap.mmap(f, 0); end = threading.Event()
for _ in range(8): threading.Thread(target=end.wait).start()
for n in range(10): m[n] = 1; m.flush()
end.set()
"""
    trace = recorded_python(tmp_path, program)
    stores = [step for step in trace.steps if step.name in ("store", "msync")]
    assert [step.name for step in stores] == ["store", "msync"] * 10
    assert [step.content.count(1) for step in stores[::2]] == list(range(1, 11))


def test_writes_that_sync_themselves_have_a_sync_of_their_own(tmp_path: Path) -> None:
    program = """import os
f = os.open("a", os.O_CREAT | os.O_WRONLY | os.O_DSYNC); os.write(f, b"1")
g = os.open("b", os.O_CREAT | os.O_WRONLY | os.O_SYNC); os.write(g, b"2")
h = os.open("c", os.O_CREAT | os.O_WRONLY); os.pwritev(h, [b"3"], 0, os.RWF_DSYNC)
d = os.open(".", os.O_RDONLY); os.fsync(d); os.sync()
"""
    kinds = [step.kind for step in recorded_python(tmp_path, program).steps]
    assert [kind for kind in kinds if "sync" in kind] == [
        StepKind.FDATASYNC,
        StepKind.FSYNC,
        StepKind.FDATASYNC,
        StepKind.SYNC_DIRECTORY,
        StepKind.SYNC_ALL,
    ]


def written(trace: Trace) -> list[tuple[int, int]]:
    """Return the offset and the size of each step that writes."""
    return [(step.offset, len(step.content)) for step in trace.steps if step.kind is StepKind.WRITE]


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [
        (4_000, 96, [(4_000, 96)]),
        (0, 8_192, [(0, 4_096), (4_096, 4_096)]),
        (4_000, 5_000, [(4_000, 96), (4_096, 4_096), (8_192, 808)]),
    ],
)
def test_a_write_is_a_step_for_each_page(tmp_path: Path, offset: int, size: int, expected: list[object]) -> None:
    """A write of several pages was one step, as if nothing could come between them."""
    (tmp_path / "f").write_bytes(bytes(9_000))
    program = f"import os; os.pwrite(os.open('f', os.O_WRONLY), b'n' * {size}, {offset})"
    trace = recorded_python(tmp_path, program)
    assert written(trace) == expected and len({step.call for step in trace.steps[1:]}) == 1
    assert trace.end.notes == ()


@pytest.mark.parametrize(("pages", "count"), [(17, 16), (256, 4), (2_000, 1)])
def test_a_write_of_many_pages_is_fewer_steps_and_a_note_says_so(tmp_path: Path, pages: int, count: int) -> None:
    content = f"b'n' * {pages * PAGE_BYTES}"
    trace = recorded_python(tmp_path, f"import os; os.write(os.open('f', os.O_WRONLY | os.O_CREAT), {content})")
    parts = written(trace)
    assert len(parts) == count and sum(size for _, size in parts) == pages * PAGE_BYTES
    assert all(offset % PAGE_BYTES == 0 for offset, _ in parts)
    assert [note.partition(",")[0] for note in trace.end.notes] == ["of some writes of many pages"]


def test_acknowledgements_are_whole_lines_that_match_in_their_place(tmp_path: Path) -> None:
    program = """import os
os.write(1, b"ac"); os.write(1, b"k 1\\nnoise\\nack"); open("f", "w").close(); os.write(1, b" 2\\n")
"""
    trace = recorded(tmp_path, *PYTHON, "-c", program, acknowledges="^ack")
    assert [(step.kind, step.content) for step in trace.steps] == [
        (StepKind.ACKNOWLEDGE, b"ack 1"),
        (StepKind.OPEN, b""),
        (StepKind.ACKNOWLEDGE, b"ack 2"),
    ]
    assert counts_of(trace)["acknowledgements"] == 2


def test_each_line_of_a_descriptor_acknowledges_even_one_without_any_text(tmp_path: Path) -> None:
    program = """import os
os.write(9, b"\\n"); open("f", "w").close(); os.write(9, b"one\\n \\n")
"""
    trace = recorded(tmp_path, *PYTHON, "-c", program, descriptor=9)
    assert [step.content for step in trace.steps if step.kind is StepKind.ACKNOWLEDGE] == [b"", b"one", b" "]


def test_stacks_name_the_function_that_made_a_call_and_its_line_where_that_is_known(tmp_path: Path) -> None:
    folder, data = tmp_path / "of: 1", tmp_path / "data"
    folder.mkdir()
    program = compiled(folder)
    data.mkdir()
    (data / "cur").write_bytes(b"a" * 8192)
    trace = recorded(data, program, "overwrite", "bad", with_stacks=True)
    write, _ = [step for step in trace.steps if step.kind is StepKind.WRITE]
    assert re.match(r"crash_classes: change( at crash_classes.c:\d+)?$", write.place)
    if shutil.which("addr2line"):
        number = int(write.place.rpartition(":")[2])
        assert "pwrite(f, text" in CLASSES.read_text().splitlines()[number - 1]
    assert write.place in str(write)


FRAMES = {
    " > /opt/store(commit+0x20) [0x2]": "store: commit",
    " > /opt/of: 1/a: b(commit+0x20) [0x2]": "a: b: commit",
    " > /opt/of 1/store(+0x20) [0x2]": "store: ",
    " > /opt/store(void put<long>(long, char)+0x2c) [0x2]": "store: void put<long>(long, char)",
    " > /opt/store(operator+(A, int)+0x26) [0x2]": "store: operator+(A, int)",
    " > /opt/store(example.org/a/b.(*T).Commit+0x26) [0x2]": "store: example.org/a/b.(*T).Commit",
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_is_shown_whatever_is_in_the_names_of_its_file_and_its_function(frame: str) -> None:
    """A function with parameters, as C++ has them, ended the recording in a traceback."""
    reader = Lines()
    assert not [*reader.events("1 fsync(3) = 0\n"), *reader.events(frame)]
    (call,) = reader.rest()
    (step,) = with_lines([Step(kind=StepKind.SYNC_ALL, call=1, name=call.name, stack=tuple(call.stack))])
    assert step.stack == (FRAMES[frame],)


OPEN = """
1 openat(AT_FDCWD, "a", O_RDWR) = 3<a>
1 openat(AT_FDCWD, "b", O_RDWR) = 4<b>
"""
THREAD = "1 clone(child_stack=NULL, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD) = 2\n"


def hexadecimal(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.replace("\\n", "\n").encode())


def followed(root: Path, lines: str) -> Trace:
    """Return the trace of lines of strace in which paths and strings are readable, on the files `a` and `b`."""
    start, follower = follower_of(root, lines)
    steps = tuple(follower.steps)
    notes = tuple(sorted(follower.notes))
    return Trace(
        start=start, steps=steps, end=End(exit_code=0, calls=follower.call_count, steps=len(steps), notes=notes)
    )


def follower_of(root: Path, lines: str) -> tuple[Start, Follower]:
    """Return what has followed such lines, and where they start."""
    old = bytes(4 * 4096)
    for name in ("a", "b"):
        if not (root / name).exists():
            (root / name).write_bytes(old)
    start = Start(format=1, tornproof="0", command=("it",), directories=(), files={"a": old, "b": old}, links={})
    streams = {1: OpenFile(acknowledges=re.compile(b""))}
    first = Process(number=1, directory=Directory(str(root)), descriptors=streams)
    follower, reader = Follower(Machine(start, keeps_versions=False), str(root), first), Lines()

    def as_strace(found: re.Match[str]) -> str:
        path, text = found.groups()
        if path is None:
            return f'"{hexadecimal(text)}"'
        return f"<{hexadecimal(path if path[0] == '/' or ':' in path else f'{root}/{path}'.removesuffix('/.'))}>"

    for line in lines.strip().splitlines():
        for event in reader.events(re.sub(r'<([^> ]+)>|"([^"]*)"', as_strace, line) + "\n"):
            follower.take(event)
    for call in reader.rest():
        follower.take(call)
    follower.end()
    return start, follower


def of_kind(trace: Trace, *kinds: StepKind) -> list[Step]:
    return [step for step in trace.steps if step.kind in kinds]


def held(trace: Trace, path: str, at: int, size: int = 1) -> set[bytes]:
    """Return what the disk may hold of a file after all steps."""
    kernel = left(trace).kernel
    return {version[at : at + size] for version in kernel.files[kernel.entry(path)].versions}


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (('1 write(4<b>, "1", 1 <unfinished ...>', '2 write(6<b>, "2", 1) = 1', "1 <... write resumed>) = 1"), True),
        (('1 write(5<a>, "1", 1 <unfinished ...>', '2 write(6<b>, "2", 1) = 1', "1 <... write resumed>) = 1"), False),
        (('1 write(4<b>, "1", 1) = 1', '2 write(6<b>, "2", 1) = 1'), False),
    ],
)
def test_appends_that_overlap_in_a_file_are_noticed(tmp_path: Path, calls: tuple[str, ...], expected: bool) -> None:
    """A recording that their order made wrong blamed another program."""
    lines = f"""{OPEN}{THREAD}
1 openat(AT_FDCWD, "a", O_RDWR|O_APPEND) = 5<a>
1 openat(AT_FDCWD, "b", O_RDWR|O_APPEND) = 6<b>
1 fcntl(4<b>, F_SETFL, O_RDWR|O_APPEND) = 0
"""
    _, follower = follower_of(tmp_path, "\n".join((lines, *calls)))
    assert follower.has_overlapping_appends is expected


SYNCS = {
    "fsync(4<b>": ("b", "fsync"),
    "fdatasync(4<b>": ("b", "fdatasync"),
    "sync(": ("b", "sync"),
    "syncfs(4<b>": ("b", "syncfs"),
}


@pytest.mark.parametrize("call", SYNCS)
def test_a_sync_covers_only_what_had_returned_when_it_began(tmp_path: Path, call: str) -> None:
    """A write that another thread made while a sync ran counted as synced when that returned."""
    path, name = SYNCS[call]
    lines = f"""{OPEN}{THREAD}
1 pwrite64(4<b>, "1", 1, 1) = 1
2 pwrite64(4<b>, "2", 1, 2 <unfinished ...>
1 {call} <unfinished ...>
2 <... pwrite64 resumed>) = 1
2 pwrite64(4<b>, "3", 1, 3) = 1
1 <... {name} resumed>) = 0
1 pwrite64(4<b>, "4", 1, 4) = 1
"""
    trace = followed(tmp_path, lines)
    assert [held(trace, path, at) for at in (1, 2, 3, 4)] == [{b"1"}, {b"\0", b"2"}, {b"\0", b"3"}, {b"\0", b"4"}]
    assert held(followed(tmp_path, f"{lines}1 fsync(4<b>) = 0"), path, 1, 4) == {b"1234"}


def test_an_early_sync_of_a_child_covers_only_what_had_returned_when_it_began(tmp_path: Path) -> None:
    lines = f"""{OPEN}{THREAD}
1 clone(child_stack=NULL, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD <unfinished ...>
3 fsync(4<b> <unfinished ...>
2 pwrite64(4<b>, "1", 1, 1) = 1
3 <... fsync resumed>) = 0
3 fsync(3<a> <unfinished ...>
1 <... clone resumed>) = 3
3 <... fsync resumed>) = 0
"""
    assert held(followed(tmp_path, lines), "b", 1) == {b"\0", b"1"}


def test_a_sync_of_a_directory_covers_only_the_names_that_had_changed_when_it_began(tmp_path: Path) -> None:
    lines = f"""{OPEN}{THREAD}
1 openat(AT_FDCWD, ".", O_RDONLY) = 5<.>
1 link("a", "c") = 0
1 fsync(5<.> <unfinished ...>
2 rename("b", "d") = 0
1 <... fsync resumed>) = 0
"""
    machine = left(followed(tmp_path, lines))
    assert sorted(machine.kernel.durable_directories[0]) == ["", "a", "b", "c"]
    assert [index for _, index in machine.changes] == [3]


def test_an_acknowledgement_has_its_place_where_it_began_although_a_sync_returned_since(tmp_path: Path) -> None:
    lines = f"""{OPEN}{THREAD}
1 pwrite64(3<a>, "1", 1, 1) = 1
1 fsync(3<a> <unfinished ...>
2 pwrite64(3<a>, "2", 1, 2) = 1
2 write(1<pipe:[1]>, "one\\ntwo\\n", 8 <unfinished ...>
1 <... fsync resumed>) = 0
1 fsync(3<a> <unfinished ...>
2 <... write resumed>) = 8
1 <... fsync resumed>) = 0
"""
    trace = followed(tmp_path, lines)
    kinds = (StepKind.WRITE, StepKind.ACKNOWLEDGE, StepKind.FSYNC)
    assert [step.content or step.kind for step in of_kind(trace, *kinds)] == [
        *(b"1", b"2", b"one", b"two"),
        *(StepKind.FSYNC, StepKind.FSYNC),
    ]
    first, second = of_kind(trace, StepKind.FSYNC)
    assert first.covers == 3 and (second.covers or len(trace.steps)) > 4
    assert [held(trace, "a", at) for at in (1, 2)] == [{b"1"}, {b"2"}]


def test_what_is_stored_before_a_sync_is_covered_although_others_write_while_it_runs(tmp_path: Path) -> None:
    stored = bytearray(4 * 4096)
    stored[9], stored[4096], stored[8192], stored[8200] = b"sxxs"
    (tmp_path / "a").write_bytes(stored)
    lines = f"""{OPEN}{THREAD}
1 mmap(NULL, 16384, PROT_READ|PROT_WRITE, MAP_SHARED, 3<a>, 0) = 0x10000
1 msync(0x10000, 16384, MS_SYNC <unfinished ...>
2 pwrite64(3<a>, "x", 1, 4096) = 1
2 pwrite64(3<a>, "x", 1, 8192) = 1
1 <... msync resumed>) = 0
"""
    trace = followed(tmp_path, lines)
    assert [held(trace, "a", at) for at in (9, 4096, 8200)] == [{b"s"}, {b"\0", b"x"}, {b"\0", b"s"}]


def test_a_step_that_is_put_between_leaves_to_syncs_what_they_cover() -> None:
    def sync(covers: int | None) -> Step:
        return Step(kind=StepKind.SYNC_ALL, call=1, name="sync", covers=covers)

    steps = [sync(None), sync(0), sync(1), sync(2), sync(3)]
    insert(steps, 1, Step(kind=StepKind.ACKNOWLEDGE, call=2, name="write"))
    assert [step.covers for step in steps] == [None, None, 0, 1, 3, 4]


def test_a_sync_of_another_file_system_covers_nothing(tmp_path: Path) -> None:
    lines = OPEN + '1 write(3<a>, "1", 1) = 1\n'
    assert of_kind(followed(tmp_path, f"{lines}1 syncfs(5<{tmp_path.parent}>) = 0"), StepKind.SYNC_ALL)
    for other in ("</proc/version>", "</is/gone>", ""):
        trace = followed(tmp_path, f"{lines}1 syncfs(5{other}) = 0")
        assert held(trace, "a", 0) == {b"\0", b"1"} and not of_kind(trace, StepKind.SYNC_ALL)


MAPPED = "1 mmap(NULL, 12288, PROT_READ|PROT_WRITE, MAP_SHARED, 3<a>, 0x1000) = 0x10000\n"
FLUSH = "1 msync(0x10000, 12288, MS_SYNC) = 0\n"
MAPPINGS = {
    MAPPED + FLUSH: [(4096, 12288)],
    MAPPED + "1 msync(0x11000, 3, MS_SYNC) = 0": [(8192, 4096)],
    MAPPED + "1 munmap(0x10000, 12288) = 0\n" + FLUSH: [],
    MAPPED + "1 munmap(0x11000, 5) = 0\n" + FLUSH: [(4096, 4096), (12288, 4096)],
    MAPPED + "1 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x10000\n" + FLUSH: [(8192, 8192)],
    MAPPED + "1 mmap(0x11000, 8192, PROT_READ, MAP_SHARED, 7</outside>, 0) = 0x11000\n" + FLUSH: [(4096, 4096)],
    MAPPED + '1 execve("/it", ["it"], []) = 0\n' + FLUSH: [],
    MAPPED + "1 mremap(0x10000, 12288, 20480, MREMAP_MAYMOVE) = 0x50000\n" + FLUSH: [],
    MAPPED
    + "1 mremap(0x11000, 8192, 20480, MREMAP_MAYMOVE) = 0x50000\n1 msync(0x50000, 20480, MS_SYNC) = 0\n"
    + FLUSH: [(8192, 20480), (4096, 4096)],
    MAPPED + "1 mremap(0x11000, 0, 4096, MREMAP_MAYMOVE) = 0x50000\n1 msync(0x50000, 4096, MS_SYNC) = 0\n" + FLUSH: [
        (8192, 4096),
        (4096, 12288),
    ],
    MAPPED + "1 mremap(0x10000, 12288, 4096, 0) = 0x10000\n" + FLUSH: [(4096, 4096)],
    MAPPED + "1 fork() = 2\n1 munmap(0x10000, 12288) = 0\n2 msync(0x10000, 12288, MS_SYNC) = 0": [(4096, 12288)],
    MAPPED + THREAD + "2 munmap(0x10000, 12288) = 0\n" + FLUSH: [],
    MAPPED + '1 vfork() = 2\n2 execve("/it", ["it"], []) = 0\n' + FLUSH: [(4096, 12288)],
}


@pytest.mark.parametrize("lines", MAPPINGS)
def test_msync_covers_what_is_mapped_there_by_then(tmp_path: Path, lines: str) -> None:
    """It covered a file that had been mapped there before, and nothing of one that had been moved by mremap."""
    trace = followed(tmp_path, OPEN + lines)
    assert [(step.offset, step.size) for step in of_kind(trace, StepKind.MSYNC)] == MAPPINGS[lines]


OPENED = {
    "openat(AT_FDCWD, 'a', O_RDWR|O_CLOEXEC) = 5<a>": True,
    "openat(AT_FDCWD, 'a', O_RDWR) = 5<a>": False,
    "fcntl(3<a>, F_DUPFD_CLOEXEC, 0) = 5<a>": True,
    "dup(3<a>) = 5<a>": False,
    "dup3(3<a>, 5, O_CLOEXEC) = 5<a>": True,
}
CHANGED = {
    "ioctl(5<a>, FIOCLEX) = 0": True,
    "ioctl(5<a>, FIONCLEX) = 0": False,
    "fcntl(5<a>, F_SETFD, FD_CLOEXEC) = 0": True,
    "fcntl(5<a>, F_SETFD, 0) = 0": False,
    "close_range(4, 6, 0) = 0": True,
    "close_range(4, 4294967295, CLOSE_RANGE_UNSHARE|CLOSE_RANGE_CLOEXEC) = 0": True,
    "close_range(6, 6, 0) = 0": None,
    "close(5<a>) = 0": True,
}
DESCRIPTORS = {
    **OPENED,
    **{f"{opened}\n{changed}": now for opened in OPENED for changed, now in CHANGED.items() if now is not None},
    **{f"{opened}\nclose_range(6, 6, 0) = 0": now for opened, now in OPENED.items()},
    "dup3(3<a>, 5, O_CLOEXEC) = 5<a>\nclose(5<a>) = 0\ndup(3<a>) = 5<a>": False,
}


@pytest.mark.parametrize("calls", DESCRIPTORS)
def test_a_descriptor_that_exec_closes_leads_to_no_file_any_more(tmp_path: Path, calls: str) -> None:
    """What a child read from a pipe, or wrote to it, was taken for a file that had had the pipe's number."""
    opened, *changed = calls.replace("'", '"').splitlines()
    lines = [f"1 {opened}", "1 fcntl(5<a>, F_DUPFD, 20) = 20<a>", "1 fork() = 2", *(f"2 {each}" for each in changed)]
    after = """
2 execve("/it", ["it"], []) = 0
2 read(0x5, 0x1000, 0x7) = 0x7
1 write(20<a>, "x", 1) = 1
"""
    (write,) = of_kind(followed(tmp_path, "\n".join([OPEN, *lines, after])), StepKind.WRITE)
    assert write.offset == (0 if DESCRIPTORS[calls] else 7)


STREAM_IS_KEPT = {
    "close(1</dev/null>) = 0": False,
    "close(1<pipe:[3]>) = 0": False,
    "close(1<a>) = 0": False,
    "close_range(0, 9, 0) = 0": False,
    "dup2(7<pipe:[7]>, 1</dev/null>) = 1<pipe:[7]>": False,
    "openat(AT_FDCWD, '/out', O_WRONLY) = 1</out>": False,
    "fcntl(1</dev/null>, F_SETFD, FD_CLOEXEC) = 0\nexecve('/it', ['it'], []) = 0": False,
    "fork() = 2\n2 close(1</dev/null>) = 0": True,
    "fork() = 2\n2 execve('/it', ['it'], []) = 0": True,
    "dup(1</dev/null>) = 5</dev/null>\nclose(1</dev/null>) = 0\ndup2(5</dev/null>, 1) = 1</dev/null>": True,
}


@pytest.mark.parametrize("calls", STREAM_IS_KEPT)
def test_what_is_written_to_another_stream_with_the_number_of_one_that_was_closed_acknowledges_nothing(
    tmp_path: Path, calls: str
) -> None:
    lines = "\n".join(each if each[0].isdigit() else f"1 {each}" for each in calls.replace("'", '"').splitlines())
    trace = followed(
        tmp_path, f'1 write(1</dev/null>, "one\\n", 4) = 4\n{lines}\n1 write(1<pipe:[7]>, "two\\n", 4) = 4'
    )
    expected = [b"one", b"two"] if STREAM_IS_KEPT[calls] else [b"one"]
    assert [step.content for step in of_kind(trace, StepKind.ACKNOWLEDGE)] == expected


def test_a_descriptor_that_is_seen_to_lead_elsewhere_leads_to_no_file(tmp_path: Path) -> None:
    lines = OPEN + '1 write(3<pipe:[7]>, "no", 2) = 2\n1 dup(3<pipe:[7]>) = 5<pipe:[7]>\n1 write(3<a>, "x", 1) = 1'
    assert [(step.offset, step.content) for step in of_kind(followed(tmp_path, lines), StepKind.WRITE)] == [(0, b"x")]


def test_appends_and_positions_are_those_of_each_call(tmp_path: Path) -> None:
    one = '[{iov_base="1", iov_len=1}]'
    lines = f"""{OPEN}
1 pwritev2(3<a>, {one}, 1, 5, RWF_APPEND) = 1
1 pwritev2(3<a>, {one}, 1, 5, 0) = 1
1 pwritev2(3<a>, {one}, 1, -1, 0) = 1
1 preadv2(0x3, 0x1000, 0x1, 0xffffffffffffffff, 0, 0) = 0x9
1 preadv2(0x3, 0x1000, 0x1, 0x100, 0, 0) = 0x20
1 write(3<a>, "1", 1) = 1
1 pwritev2(3<a>, {one}, 1, -1, RWF_APPEND) = 1
1 write(3<a>, "1", 1) = 1
"""
    writes = of_kind(followed(tmp_path, lines), StepKind.WRITE)
    assert [step.offset for step in writes] == [16384, 5, 0, 10, 16385, 16386]


@pytest.mark.parametrize("flag", ["RWF_DSYNC", "RWF_SYNC"])
def test_a_write_that_syncs_itself_covers_no_other_write(tmp_path: Path, flag: str) -> None:
    lines = f"""{OPEN}
1 pwrite64(3<a>, "1", 1, 5000) = 1
1 pwritev2(3<a>, [{{iov_base="2", iov_len=1}}], 1, 9, {flag}) = 1
"""
    trace = followed(tmp_path, lines)
    assert [held(trace, "a", at) for at in (9, 5000)] == [{b"2"}, {b"\0", b"1"}]


REJECTED = {
    "os.rename('../outside', 'in')": "moves something into the recorded directory",
    "os.link('../outside', 'in')": "links something into the recorded directory",
    "os.open('.', os.O_TMPFILE | os.O_RDWR)": "O_TMPFILE",
    "import ctypes; ctypes.CDLL(None).renameat2(-100, b'a', -100, b'b', 2)": "two names are exchanged",
    "import ctypes; f = os.open('a', 2); ctypes.CDLL(None).fallocate(f, 8, ctypes.c_long(0), ctypes.c_long(4096))": (
        "a range is taken out of a file"
    ),
}


@pytest.mark.parametrize("program", REJECTED)
def test_rejects_what_cannot_be_followed(tmp_path: Path, program: str) -> None:
    (tmp_path / "outside").write_bytes(b"outside")
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").write_bytes(bytes(8192))
    (data / "b").write_bytes(b"b")
    before = captured(data)
    try:
        recorded_python(data, f"import os\n{program}")
    except NotFollowedError as error:
        assert REJECTED[program] in str(error)
    else:
        assert captured(data) == before, "it was accepted, and changed something"
        pytest.skip("this file system does not allow the call")


BYTES = os.fsdecode(b"\xff")


@pytest.mark.parametrize(("path", "target"), [(BYTES, None), ("link", BYTES)])
def test_rejects_a_name_that_is_not_utf_8_before_anything_runs(tmp_path: Path, path: str, target: str | None) -> None:
    if target is None:
        (tmp_path / path).mkdir()
    else:
        (tmp_path / path).symlink_to(target)
    with pytest.raises(NotFollowedError, match=r": \\xff: a name that is not UTF-8"):
        recorded(tmp_path, "touch", "ran")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("call", ["open(name, 66)", "mkdir(name)", "symlink(name, b'l')", "rename(b'f', name)"])
def test_rejects_a_program_that_makes_a_name_that_is_not_utf_8(tmp_path: Path, call: str) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(NotFollowedError, match="a name that is not UTF-8"):
        recorded_python(tmp_path, f"import os; name = b'\\xff'; os.{call}")


def test_an_argument_that_is_not_utf_8_is_written_out(tmp_path: Path) -> None:
    trace = recorded(tmp_path, "true", BYTES)
    write_trace(trace, tmp_path / "trace")
    assert read_trace(tmp_path / "trace").start.command[-2:] == ("true", "\\xff")


def test_nothing_is_said_of_lines_that_nobody_reads(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """strace complained of each call that the program made after one that cannot be followed."""
    program = "import os; f = os.open('f', 66); os.rename('../outside', 'in')\nfor _ in range(3000): os.write(f, b'x')"
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "outside").write_bytes(b"")
    with pytest.raises(NotFollowedError):
        recorded_python(data, program)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["pwrite64", "ftruncate", "rename", "symlink", "lseek"])
def test_rejects_a_run_of_which_a_call_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    program = """import os
f = os.open("f", os.O_CREAT | os.O_RDWR); os.ftruncate(f, 9)
os.lseek(f, 3, 0); os.write(f, b"x"); os.pwrite(f, b"y", 1)
os.rename("f", "g"); os.symlink("g", "h")
"""
    monkeypatch.delitem(following._HANDLERS, name)
    with pytest.raises(NotFollowedError, match=r"does not lead to what is there now|could not"):
        recorded_python(tmp_path, program)


def test_rejects_a_run_of_which_a_call_is_not_followed_also_if_the_program_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os; os.pwrite(os.open('f', os.O_CREAT | os.O_RDWR), b'x', 0); raise SystemExit(3)"
    assert recorded_python(tmp_path, program).end.exit_code == 3
    monkeypatch.delitem(following._HANDLERS, "pwrite64")
    (tmp_path / "f").unlink()
    with pytest.raises(NotFollowedError, match="does not lead to what is there now"):
        recorded_python(tmp_path, program)


def test_differences_are_named_where_they_are() -> None:
    assert difference({"a": b"xy"}, {"a": b"xz"}) == "a differs at byte 1 of 2, and 2 were recorded"
    assert difference({"a": b"x"}, {}) == "a is not there"
    assert difference({}, {"a": b"x"}) == "a is there, and no step made it"
    assert difference({"a": None}, {"a": b"x"}) == "a is a file"
    assert difference({"a": b"x", "b": None}, {"b": None, "a": b"x"}) == ""
