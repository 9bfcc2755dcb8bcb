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


def random_program(seed: int, length: int) -> str:
    """Return a program in Python of so many random calls on a few files, of which some fail."""
    choose = random.Random(seed)
    lines = ["import os, mmap", "fds = []", "def fd(n): return fds[n % len(fds)]", "os.makedirs('x')"]
    for _ in range(length):
        lines += [
            "try:",
            f"  {_random_call(choose)}",
            "except (OSError, ArithmeticError, LookupError, ValueError): pass",
        ]
    return "\n".join(lines)


def _random_call(choose: random.Random) -> str:
    name, other = (repr(choose.choice(("a", "b", "x/c", "x/d", "s"))) for _ in range(2))
    fd, at = f"fd({choose.randrange(9)})", choose.randrange(20_000)
    content = f"bytes([{choose.randrange(256)}]) * {choose.randrange(9_000)}"
    flag = choose.choice(("0", "os.O_APPEND", "os.O_TRUNC", "os.O_EXCL", "os.O_DSYNC"))
    calls = (
        f"fds.append(os.open({name}, os.O_RDWR | os.O_CREAT | {flag}))",
        f"os.write({fd}, {content})",
        f"os.pwrite({fd}, {content}, {at})",
        f"os.writev({fd}, [{content}, b'end'])",
        f"os.ftruncate({fd}, {at})",
        f"os.truncate({name}, {at})",
        f"os.lseek({fd}, {at}, 0)",
        f"os.read({fd}, {at})",
        f"os.rename({name}, {other})",
        f"os.link({name}, {other})",
        f"os.symlink({name}, {other})",
        f"os.unlink({name})",
        f"fds.append(os.dup({fd}))",
        f"os.close(fds.pop({at} % len(fds)))",
        f"os.fsync({fd})",
        f"os.posix_fallocate({fd}, {at}, 5000)",
        f"os.path.sameopenfile(fds[0], fds[1]) or os.sendfile(fds[0], fds[1], 0, {at})",
        f"os.copy_file_range(fds[0], fds[1], {at}, 0)",
        f"os.mkdir({name})",
        f"pid = os.fork()\n  if not pid: os.write({fd}, b'child'); os._exit(0)\n  os.waitpid(pid, 0)",
        f"1 // os.fstat({fd}).st_nlink; m = mmap.mmap({fd}, 0); m[{at} % len(m)] = 7; m.flush()",
    )
    return choose.choice((*calls[:5], *calls))
