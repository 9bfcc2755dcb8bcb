"""Programs to record: compiled once, random ones, and what their recording needs."""

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tornproof.harness.recording.recorder import Recording, record
from tornproof.harness.recording.steps import Trace

NEEDS_STRACE = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace, which records programs")
PYTHON = (sys.executable, "-S", "-E")
CLASSES = Path(__file__).with_name("crash_classes.c")


def compiled(folder: Path) -> Path:
    """Compile the program of crash classes, or skip the test and say why."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs cc for a program in C")
    program = folder / "crash_classes"
    subprocess.run([compiler, "-g", "-O0", "-w", CLASSES, "-o", program], check=True)
    return program


def recorded(
    directory: Path,
    *command: object,
    acknowledges: str = "^",
    descriptor: int | None = None,
    with_stacks: bool = False,
) -> Trace:
    """Record a command whose working directory is the recorded one."""
    return record(
        Recording(
            command=("env", "-C", str(directory), *map(str, command)),
            directory=directory,
            acknowledges=re.compile(acknowledges.encode()),
            descriptor=descriptor,
            with_stacks=with_stacks,
        )
    )


def recorded_python(directory: Path, program: str, *arguments: object) -> Trace:
    """Record a program in Python."""
    return recorded(directory, *PYTHON, "-c", program, *arguments)


PREPARED = """import ctypes, mmap, os
libc, top, fds = ctypes.CDLL(None), os.getcwd(), []
x = os.open("x", os.O_RDONLY)
def fd(n): return fds[n % len(fds)]
def copy(call, name, target, count):
    with open(name, "rb") as source:
        if os.path.sameopenfile(source.fileno(), target): return
        for part in range(3): call(source.fileno(), target, part * count, count)
"""
"""Begins a random program: a descriptor of the directory x, and copies of a file in chunks."""


def begin(directory: Path) -> None:
    """Make what random programs begin with: links of both kinds, and a link to one of two directories."""
    for name in ("x", "y"):
        (directory / name).mkdir()
    (directory / "a").write_bytes(b"before" * 2000)
    (directory / "x" / "c").hardlink_to(directory / "a")
    (directory / "s").symlink_to("a")
    (directory / "l").symlink_to("x")


def random_program(seed: int, length: int) -> str:
    """Return a program in Python of so many random calls on a few files, of which some fail."""
    choose = random.Random(seed)
    lines = [PREPARED]
    for _ in range(length):
        lines += [
            "try:",
            f"  {choose.choice((_call_of_a_file, _call_of_a_file, _call_of_names))(choose)}",
            "except (OSError, ArithmeticError, LookupError, ValueError): pass",
        ]
    return "\n".join(lines)


def _call_of_a_file(choose: random.Random) -> str:
    name = _name(choose)
    fd, at = f"fd({choose.randrange(9)})", choose.randrange(20_000)
    content = f"bytes([{choose.randrange(256)}]) * {choose.randrange(9_000)}"
    flag = choose.choice(("0", "os.O_APPEND", "os.O_TRUNC", "os.O_EXCL", "os.O_DSYNC"))
    source = choose.choice((name, "os.__file__"))
    calls = (
        f"fds.append(os.open({name}, os.O_RDWR | os.O_CREAT | {flag}))",
        f"os.write({fd}, {content})",
        f"os.pwrite({fd}, {content}, {at})",
        f"os.writev({fd}, [{content}, b'end'])",
        f"os.ftruncate({fd}, {at})",
        f"os.truncate({name}, {at})",
        f"os.lseek({fd}, {at}, 0)",
        f"os.read({fd}, {at})",
        f"fds.append(os.dup({fd}))",
        f"os.close(fds.pop({at} % len(fds)))",
        f"os.fsync({fd})",
        f"libc.sync_file_range({fd}, 0, 0, 2)",
        f"os.posix_fallocate({fd}, {at}, 5000)",
        f"os.path.sameopenfile(fds[0], fds[1]) or os.sendfile(fds[0], fds[1], 0, {at})",
        f"os.copy_file_range(fds[0], fds[1], {at}, 0)",
        f"copy(lambda s, t, at, count: os.copy_file_range(s, t, count, at, at), {source}, {fd}, {at // 4})",
        f"copy(lambda s, t, at, count: os.copy_file_range(s, t, count), {source}, {fd}, {at // 4})",
        f"copy(lambda s, t, at, count: os.sendfile(t, s, at, count), {source}, {fd}, {at // 4})",
        f"pid = os.fork()\n  if not pid: os.write({fd}, b'child'); os._exit(0)\n  os.waitpid(pid, 0)",
        f"1 // os.fstat({fd}).st_nlink; m = mmap.mmap({fd}, 0); m[{at} % len(m)] = 7; m.flush()",
    )
    return choose.choice((*calls[:5], *calls))


def _call_of_names(choose: random.Random) -> str:
    """Return a call of names in the working directory, or in the directory x by its descriptor."""
    (name, at), (other, other_at) = (
        choose.choice(((_name(choose), "None"), (repr(choose.choice("acds")), "x"))) for _ in range(2)
    )
    both = f"{name}, {other}, src_dir_fd={at}, dst_dir_fd={other_at}"
    calls = (
        f"os.rename({both})",
        f"os.link({both}, follow_symlinks=False)",
        f"os.symlink({name}, {other}, dir_fd={other_at})",
        f"os.unlink({name}, dir_fd={at})",
        f"os.mkdir({name}, dir_fd={at})",
        f"os.rmdir({name}, dir_fd={at})",
        f"os.mknod({name}, dir_fd={at})",
        f"fds.append(os.open({name}, os.O_RDWR | os.O_CREAT, dir_fd={at}))",
    )
    directory = f"'m{choose.randrange(1000)}'"
    places = (
        f"os.mkdir({directory})",
        f"os.mkdir({directory}); os.rmdir({directory})",
        "os.chdir(top + '/l')",
        "os.chdir(top)",
        "os.fchdir(x)",
        "os.getcwd() == top or os.chdir('..')",
        f"os.symlink({choose.choice('xy')!r}, top + '/n'); os.rename(top + '/n', top + '/l')",
        f"os.rename(top + '/y', top + '/' + {directory}); os.mkdir(top + '/y')",
    )
    return choose.choice(choose.choice((calls, places)))


def _name(choose: random.Random) -> str:
    return choose.choice((*map(repr, ("a", "b", "x/c", "x/d", "s", "l/c", "l/e")), "top + '/y/c'"))
