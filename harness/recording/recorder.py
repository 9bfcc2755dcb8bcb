"""Records a program: runs it under strace, follows its calls while it runs, and compares the directory at the end."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tornproof.harness.recording.following import FOLLOWED, NOT_SHOWN, STOPS, Follower
from tornproof.harness.recording.open_files import Directory, OpenFile, Process
from tornproof.harness.recording.replaying import (
    Machine,
    captured,
    difference,
    hard_links,
    link_target,
    not_recorded,
    tree_of,
)
from tornproof.harness.recording.stacks import with_lines
from tornproof.harness.recording.steps import (
    FORMAT,
    NOT_TEXT,
    End,
    NotFollowedError,
    Start,
    StepKind,
    Trace,
    as_text,
)
from tornproof.harness.recording.system_calls import Lines, Stopped
from tornproof.impl.errors import UsageError

STRACE = "strace"
TEXT_BYTES_MAX = 32 << 20
"""Longer writes are cut by strace, and rejected."""
PIPE_BYTES = 1 << 20
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
ANYTHING = re.compile(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """How to record: the directory, and what acknowledges: lines of standard output, or all lines of a descriptor."""

    command: tuple[str, ...]
    directory: Path
    acknowledges: re.Pattern[bytes] | None = None
    descriptor: int | None = None
    with_stacks: bool = False
    prints_as_errors: bool = False
    """Whether what the program prints goes to standard error, because standard output is for something else."""
    version: str = ""
    """The release that records, which is noted in the trace."""


def record(recording: Recording, on_call: Callable[[int], None] = lambda count: None) -> Trace:
    """Run a program to its end and return its trace; raises NotFollowedError, UsageError."""
    if shutil.which(STRACE) is None:
        raise UsageError("recording needs strace on Linux, and there is none on PATH")
    root = recording.directory.resolve()
    if not root.is_dir():
        raise UsageError(f"{recording.directory}: not a directory, and the program's data must be in one")
    start = _start_of(recording, root)
    machine = Machine(start, keeps_versions=False)
    follower = Follower(machine, str(root), _first_process(recording), not_recorded(root))
    lines = Lines()
    with _traced(recording) as (process, output):
        for line in output:
            for event in lines.events(line):
                follower.take(event)
                if isinstance(event, Stopped):
                    with suppress(ProcessLookupError):
                        os.kill(event.process, signal.SIGCONT)
            on_call(follower.call_count)
        for call in lines.rest():
            follower.take(call)
        exit_code = process.wait()
    follower.end()
    differs = difference(tree_of(machine.kernel), captured(root))
    if differs:
        reason = "another program has written to it, or this one by a way that cannot be followed"
        if follower.has_overlapping_appends:
            reason = f"of appends at the same time nobody knows which came first, so record again; or {reason}"
        raise NotFollowedError(
            f"{recording.directory}: what was recorded does not lead to what is there now: {differs}: {reason}"
        )
    end = End(
        exit_code=exit_code, calls=follower.call_count, steps=len(follower.steps), notes=tuple(sorted(follower.notes))
    )
    return Trace(start=start, steps=with_lines(follower.steps), end=end)


def counts_of(trace: Trace) -> dict[str, int]:
    """Return how much a trace holds."""
    steps = trace.steps
    return {
        "calls": trace.end.calls,
        "bytes": sum(len(step.content) for step in steps if step.kind is StepKind.WRITE),
        "syncs": sum("sync" in step.kind for step in steps),
        "acknowledgements": sum(step.kind is StepKind.ACKNOWLEDGE for step in steps),
    }


def _start_of(recording: Recording, root: Path) -> Start:
    tree = captured(root)
    links = {path: target for path, content in tree.items() if content and (target := link_target(content))}
    for name in (*tree, *links.values()):
        if as_text(name) != name:
            raise NotFollowedError(f"{recording.directory}: {as_text(name)}: {NOT_TEXT}")
    return Start(
        format=FORMAT,
        tornproof=recording.version,
        command=tuple(map(as_text, recording.command)),
        directories=tuple(sorted(path for path, content in tree.items() if content is None)),
        files={path: content for path, content in sorted(tree.items()) if content is not None and path not in links},
        links=links,
        hard_links=hard_links(root, tree),
    )


def _first_process(recording: Recording) -> Process:
    streams = {}
    if recording.acknowledges is not None:
        streams[STANDARD_OUTPUT] = OpenFile(acknowledges=recording.acknowledges)
    if recording.descriptor is not None:
        streams[recording.descriptor] = OpenFile(acknowledges=ANYTHING)
    return Process(number=1, directory=Directory(str(Path.cwd())), descriptors=streams)


@contextmanager
def _traced(recording: Recording) -> Iterator[tuple[subprocess.Popen[bytes], Iterator[str]]]:
    """Start the program under strace, and yield both the process and the lines that strace writes."""
    reading, writing = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    command = _command(recording, f"/dev/fd/{writing}")
    if recording.descriptor is not None:
        # Where acknowledgements are written to, there is a descriptor, and nobody reads it.
        command = ["sh", "-c", f'exec "$@" {recording.descriptor}>/dev/null', STRACE, *command]
    output_to = STANDARD_ERROR if recording.prints_as_errors else None
    process = subprocess.Popen(command, pass_fds=[writing], stdout=output_to)
    os.close(writing)
    with os.fdopen(reading, encoding="ascii", errors="backslashreplace", newline="\n") as output:
        try:
            yield process, output
        finally:
            # Before the pipe is closed, because strace complains of each line that nobody reads. It ignores SIGTERM.
            process.kill()
            process.wait()


def _command(recording: Recording, output: str) -> list[str]:
    options: Sequence[str] = (
        *("--follow-forks", "--decode-fds=path", "--strings-in-hex=all", "--quiet=attach"),
        *("--abbrev=none", f"--string-limit={TEXT_BYTES_MAX}", "--signal=stop"),
        *("--trace=" + ",".join(f"?{name}" for name in FOLLOWED), "--raw=" + ",".join(NOT_SHOWN)),
        *(["--stack-traces"] if recording.with_stacks else []),
        *("--inject=" + ",".join(f"?{name}" for name in STOPS) + ":signal=SIGSTOP", f"--output={output}"),
    )
    return [STRACE, *options, "--", *recording.command]
