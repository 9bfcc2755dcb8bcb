"""The user's checker: a command that is given a directory and the acknowledgements, and accepts it with exit code 0."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from tornproof.harness.common.signals import signal_name
from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.recording.replaying import write_tree
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.impl.errors import TornproofError, UsageError

DIRECTORY, ACKNOWLEDGEMENTS = "{dir}", "{acks}"
VARIABLE = "TORNPROOF_ACKS"
"""Holds the file of acknowledgements in the environment of the checker."""
OUTPUT_MAX = 2_000
PIPE_BYTES = 1 << 16
LOOK_SECONDS = 0.05
"""How often it is asked whether a checker has ended, whose output may not end with it, and whether there is time."""


class StoppedError(TornproofError):
    """The exploration was stopped while a checker ran, which has given no answer."""


class Answer(NamedTuple):
    """The exit code of a checker, None after its time limit, and the end of what it wrote."""

    code: int | None
    output: str = ""

    @property
    def accepts(self) -> bool:
        """Whether the checker found nothing wrong."""
        return self.code == 0

    def __str__(self) -> str:
        """Describe it."""
        how = "it did not end in time" if self.code is None else f"exit code {self.code}"
        if self.code is not None and self.code < 0:
            how = f"it died of {signal_name(-self.code)}"
        last = self.output.strip().splitlines()[-1:]
        return f"{how}: {last[0]}" if last else how


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """A command with `{dir}` and, where wanted, `{acks}` in it, and how long it may take."""

    command: str
    seconds: float

    def __post_init__(self) -> None:
        """Raise UsageError for a command that cannot be one."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise UsageError(f"--check {self.command!r}: {error}") from error
        if not any(DIRECTORY in word for word in words):
            raise UsageError(f"--check {self.command!r}: it must name the directory that it is to check as {DIRECTORY}")
        if shutil.which(words[0]) is None:
            raise UsageError(f"--check: there is no command {words[0]!r}")

    def check(self, disk: Kernel, acknowledged: Sequence[bytes], scratch: Path, has_time: HasTime = always) -> Answer:
        """Write a disk into a fresh directory and run the command on it; what it changes there is removed.

        Raises StoppedError when there is no time left: who is stopped for good a moment later could not end it.
        """
        directory, file = scratch / "disk", scratch / "acknowledged"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        write_tree(disk, directory)
        file.write_bytes(b"".join(line + b"\n" for line in acknowledged))
        places = {DIRECTORY: str(directory), ACKNOWLEDGEMENTS: str(file)}
        words = shlex.split(self.command)
        for name, place in places.items():
            words = [word.replace(name, place) for word in words]
        answer = self._run(words, {**os.environ, VARIABLE: str(file)}, has_time)
        shutil.rmtree(directory, ignore_errors=True)
        return answer._replace(output=answer.output.replace(str(scratch), "."))

    def _run(self, words: list[str], environment: dict[str, str], has_time: HasTime) -> Answer:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        assert process.stdout is not None
        with process.stdout as pipe:
            os.set_blocking(pipe.fileno(), False)
            output, code = b"", None
            try:
                output = _output_until_end(process, pipe, self.seconds, has_time)
                code = process.poll()
                if code is None and not has_time():
                    raise StoppedError("a checker was stopped, because the run was to end")
            finally:
                # Also what it started and left running, because its directory is removed.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output += pipe.read(PIPE_BYTES) or b""
        return Answer(code, output[-OUTPUT_MAX:].decode(errors="backslashreplace"))


def _output_until_end(process: subprocess.Popen[bytes], pipe: IO[bytes], seconds: float, has_time: HasTime) -> bytes:
    """Return the end of what a process writes until it ends, or its time does, or that of the exploration.

    The pipe may stay open for longer, because processes that it started have it too, and may get more than fits in
    memory.
    """
    readable = select.poll()
    readable.register(pipe, select.POLLIN)
    output, deadline = b"", time.monotonic() + seconds
    while process.poll() is None and (left := deadline - time.monotonic()) > 0 and has_time():
        if not readable.poll(1_000 * min(left, LOOK_SECONDS)):
            continue
        # Nothing is read where another process was faster, and no bytes at the end of the pipe.
        read = pipe.read(PIPE_BYTES)
        output = (output + (read or b""))[-OUTPUT_MAX:]
        if read == b"":
            with suppress(subprocess.TimeoutExpired):
                process.wait(left)
    return output
