"""A recorded program: its steps lead to the directory that it left, and what cannot be followed is rejected."""

import re
import shutil
from pathlib import Path

import pytest
from depth import sampled
from recorded_programs import CLASSES, NEEDS_STRACE, PYTHON, compiled, random_program, recorded, recorded_python

from tornproof.harness.recording import following
from tornproof.harness.recording.recorder import counts_of
from tornproof.harness.recording.replaying import Machine, captured, difference, tree_of
from tornproof.harness.recording.steps import NotFollowedError, StepKind, Trace

pytestmark = NEEDS_STRACE


def left(trace: Trace) -> Machine:
    """Return the machine after all steps."""
    machine = Machine(trace.start)
    for index, step in enumerate(trace.steps):
        machine.apply(step, index)
    return machine


@pytest.mark.parametrize("seed", sampled(6, range(200)))
def test_a_trace_of_random_calls_leads_to_what_the_program_left(tmp_path: Path, seed: int) -> None:
    (tmp_path / "a").write_bytes(b"before")
    (tmp_path / "s").symlink_to("a")
    trace = recorded_python(tmp_path, random_program(seed, 150))
    assert len(trace.steps) > 20
    assert difference(tree_of(left(trace).kernel), captured(tmp_path)) == ""


def test_every_effect_that_can_be_lost_has_the_step_that_it_came_from(tmp_path: Path) -> None:
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


def test_shells_and_their_children_are_followed(tmp_path: Path) -> None:
    program = "mkdir x && cd x && echo one > a && cat a a > b && cp b c && ln -s c l && mv a ../d && (echo two >> l)"
    trace = recorded(tmp_path, "sh", "-c", program)
    assert (tmp_path / "x/c").read_text() == "one\none\ntwo\n"
    assert {step.process for step in trace.steps} > {1}
    assert difference(tree_of(left(trace).kernel), captured(tmp_path)) == ""


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
    program, data = compiled(tmp_path), tmp_path / "data"
    data.mkdir()
    (data / "cur").write_bytes(b"a" * 8192)
    trace = recorded(data, program, "overwrite", "bad", with_stacks=True)
    (write,) = [step for step in trace.steps if step.kind is StepKind.WRITE]
    assert re.match(r"crash_classes: change( at crash_classes.c:\d+)?$", write.place)
    if shutil.which("addr2line"):
        number = int(write.place.rpartition(":")[2])
        assert "pwrite(f, text" in CLASSES.read_text().splitlines()[number - 1]
    assert write.place in str(write)


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
