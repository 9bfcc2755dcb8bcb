"""The guard of a run: what a command does with the exception of an interrupt, or where it is stuck, changes nothing."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import TIMEOUT_SECONDS, environment
from depth import nightly
from interrupting import left_in_shared_memory, made_temporary, processes_of, wait_until

# The place of the command line takes a function of the test, which says when it is at work.
SCRIPT = """
import ctypes, multiprocessing, os, signal, subprocess, sys, tempfile, time, types
from pathlib import Path
from tornproof.cli import entry, interruption

def at_work():
    print("at work", flush=True)

def main():
    interruption.handle(interruption.raise_once)
    Path(tempfile.mkdtemp(), "file").write_text("left")
    Path(os.environ["TORNPROOF_SHARED_MEMORY"], "file").write_text("left")
{body}

cli = types.ModuleType("tornproof.cli.app")
cli.main = main
sys.modules["tornproof.cli.app"] = cli
{before}
entry.main()
"""
GUARDED_LATE = """
from tornproof.cli import guard
guard_now = guard._guard
guard._guard = lambda *arguments: time.sleep(0.5) or guard_now(*arguments)
"""
SWALLOWED = """
at_work()
while True:
    try:
        time.sleep(100)
    except BaseException:
        pass
"""
STUCK = """
at_work()
sum(range(10 ** 12))
"""
STUCK_OUTSIDE_OF_PYTHON = """
lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(1000)
lock(mutex)
at_work()
lock(mutex)
"""
ASLEEP = """
at_work()
time.sleep(100)
"""
WITH_PROCESSES = """
subprocess.Popen(["sh", "-c", "trap '' TERM INT; sleep 100 & sleep 100 & wait; wait"])
subprocess.Popen(["sleep", "100"], start_new_session=True)
at_work()
time.sleep(100)
"""
WITH_A_PROCESS_OF_ANOTHER_SESSION = """
process = subprocess.Popen(["sleep", "100"], start_new_session=True)
Path("process").write_text(str(process.pid))
at_work()
time.sleep(100)
"""
WITH_OUTPUT = (
    """
interruption.remove_at_end(Path.cwd(), "*.partial")
interruption.say_if_interrupted("half of it is done")
Path("rows.partial").write_text("half")
Path("rows").write_text("whole")
"""
    + STUCK_OUTSIDE_OF_PYTHON
)
WITH_A_RUN_THAT_IS_KILLED = """
begin = "import os, time; from tornproof.cli import guard; guard.begin(); "
say = "print(os.environ['TMPDIR'], os.environ['TORNPROOF_SHARED_MEMORY'], flush=True); time.sleep(100)"
with subprocess.Popen([sys.executable, "-c", begin + say], stdout=subprocess.PIPE, text=True) as run:
    Path("folders").write_text(run.stdout.readline())
    run.kill()
at_work()
time.sleep(100)
"""
SAVING = """
try:
    at_work()
    time.sleep(100)
except KeyboardInterrupt:
    interruption.say_if_interrupted("saved 2 findings")
    time.sleep(0.3)
    Path("saved").write_text("2")
    print("tornproof: " + interruption.sentence(), file=sys.stderr)
    raise SystemExit(130)
"""
ABORTING_AT_EXIT = """
import atexit
atexit.register(os.abort)
try:
    at_work()
    time.sleep(100)
except KeyboardInterrupt:
    print("tornproof: " + interruption.sentence(), file=sys.stderr)
    raise SystemExit(130)
"""


@contextmanager
def running(body: str, folder: Path, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a body as a command, in a session of its own, until it is at work; `before` is run first."""
    temporary = made_temporary(folder)
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=indented, before=before)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment() | {"TMPDIR": str(temporary)},
        text=True,
        start_new_session=True,
        # Whoever runs the tests may do so by nohup.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "at work\n"
            yield process
        finally:
            process.kill()


def end_of(process: subprocess.Popen[str], folder: Path) -> tuple[int, str]:
    """Return exit code and standard error, when nothing is left."""
    _, err = process.communicate(timeout=TIMEOUT_SECONDS)
    wait_until(lambda: not processes_of(process.pid))
    assert processes_of(process.pid) == ()
    assert list((folder / "temporary").iterdir()) == []
    assert left_in_shared_memory(process.pid, folder) == []
    return process.returncode, err


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (SWALLOWED, ""),
        nightly(STUCK, ""),
        (STUCK_OUTSIDE_OF_PYTHON, ""),
        (WITH_PROCESSES, ""),
        (WITH_OUTPUT, ": half of it is done"),
        (SAVING, ": saved 2 findings"),
        (ABORTING_AT_EXIT, ""),
    ],
    ids=["swallowed", "stuck", "stuck outside of Python", "with processes", "with output", "saving", "at exit"],
)
def test_whatever_a_command_does_it_ends_with_130_and_leaves_nothing(tmp_path: Path, body: str, said: str) -> None:
    with running(body, tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)
        assert end_of(process, tmp_path) == (130, f"tornproof: interrupted{said}\n")
    assert (tmp_path / "saved").exists() == (body == SAVING)
    assert (tmp_path / "rows").exists() == (body == WITH_OUTPUT)
    assert not (tmp_path / "rows.partial").exists()


def test_a_process_that_alone_is_left_in_another_session_is_ended(tmp_path: Path) -> None:
    """The checker of an interrupted `power` went on, because nothing else was left."""
    with running(WITH_A_PROCESS_OF_ANOTHER_SESSION, tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)
        assert end_of(process, tmp_path) == (130, "tornproof: interrupted\n")
    left = int((tmp_path / "process").read_text())
    wait_until(lambda: not processes_of(left))
    assert processes_of(left) == ()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_that_end_a_run_have_codes_of_their_own(tmp_path: Path, number: signal.Signals) -> None:
    with running(ASLEEP, tmp_path) as process:
        process.send_signal(number)
        assert end_of(process, tmp_path) == (128 + number, "tornproof: interrupted\n")


def test_a_second_ctrl_c_does_not_disturb_what_is_being_saved(tmp_path: Path) -> None:
    with running(SAVING, tmp_path) as process:
        for _ in range(5):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.02)
        assert end_of(process, tmp_path) == (130, "tornproof: interrupted: saved 2 findings\n")
    assert (tmp_path / "saved").read_text() == "2"


def test_an_end_by_the_system_is_told_and_leaves_no_folder(tmp_path: Path) -> None:
    with running("at_work(); os.kill(os.getpid(), signal.SIGKILL)", tmp_path) as process:
        code, err = end_of(process, tmp_path)
    assert code == 128 + signal.SIGKILL
    assert err == "tornproof: ended by SIGKILL, which is also what the system does when it is out of memory\n"


def test_an_end_by_a_signal_without_a_name_is_told_by_its_number(tmp_path: Path) -> None:
    with running("at_work(); os.kill(os.getpid(), 40)", tmp_path) as process:
        assert end_of(process, tmp_path) == (128 + 40, "tornproof: ended by signal 40\n")


def test_who_kills_the_guard_ends_the_command(tmp_path: Path) -> None:
    with running(SWALLOWED, tmp_path) as process:
        process.kill()
        process.wait(TIMEOUT_SECONDS)
        wait_until(lambda: not processes_of(process.pid))
        assert processes_of(process.pid) == ()
    for left in left_in_shared_memory(process.pid, tmp_path):
        # Nobody was there to remove it.
        shutil.rmtree(left)


def test_a_run_within_another_one_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """Its folder in shared memory stayed for good, as after an interrupted trial of faults."""
    with running(WITH_A_RUN_THAT_IS_KILLED, tmp_path) as process:
        process.send_signal(signal.SIGINT)
        assert end_of(process, tmp_path) == (130, "tornproof: interrupted\n")
    folders = (tmp_path / "folders").read_text().split()
    assert len(folders) == 2 and not any(Path(folder).exists() for folder in folders)


def test_exit_codes_and_output_are_those_of_the_command(tmp_path: Path) -> None:
    with running('at_work(); print("done"); sys.exit(3)', tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        # What was read together with the line before stays with this end of the pipe.
        out, err = process.stdout.read(), process.stderr.read()
        assert (process.wait(TIMEOUT_SECONDS), out, err) == (3, "done\n", "")


@pytest.mark.parametrize("before", ["", GUARDED_LATE], ids=["", "guarded late"])
@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGINT])
def test_ctrl_z_stops_the_command_until_it_is_continued(tmp_path: Path, number: signal.Signals, before: str) -> None:
    body = """
at_work()
with open("beats", "w") as beats:
    while True:
        beats.write(".")
        beats.flush()
        time.sleep(0.01)
"""
    beats = tmp_path / "beats"
    with running(body, tmp_path, before) as process:
        wait_until(lambda: beats.exists() and beats.stat().st_size > 0)
        os.killpg(process.pid, signal.SIGTSTP)
        wait_until(lambda: states_of(process.pid) == {"T"})
        assert states_of(process.pid) == {"T"}
        size_bytes = beats.stat().st_size
        if number == signal.SIGINT:
            os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGCONT)
        if number == signal.SIGTSTP:
            wait_until(lambda: beats.stat().st_size > size_bytes)
            assert beats.stat().st_size > size_bytes
            os.killpg(process.pid, signal.SIGINT)
        assert end_of(process, tmp_path) == (130, "tornproof: interrupted\n")


def states_of(session: int) -> set[str]:
    return {each.state for each in processes_of(session)}
