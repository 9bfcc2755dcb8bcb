"""Traces as files of JSON lines: the start, each step, the end (docs/trace.md)."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from tornproof.harness.recording.steps import FORMAT, End, Start, Step, StepKind, Trace
from tornproof.harness.simulator.filesystem.image import NAME_BYTES_MAX, is_usable
from tornproof.harness.simulator.filesystem.kernel import NO_NAMES
from tornproof.impl.errors import UsageError

Line = TypeVar("Line")
BELOW = "a path below the recorded directory"


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace."""
    lines = (trace.start, *trace.steps, trace.end)
    path.write_bytes(msgspec.json.Encoder().encode_lines(lines))


def read_trace(path: Path) -> Trace:
    """Return the trace in a file; raises UsageError, which names the file, the line and the field."""
    return trace_of(read_content(path), path)


def read_content(path: Path) -> bytes:
    """Return what is in a file; raises UsageError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror or error}") from error


def trace_of(content: bytes, path: Path) -> Trace:
    """Return the trace that was read from a file; raises UsageError as `read_trace` does."""
    lines = content.splitlines()
    if len(lines) < 2:
        raise UsageError(f"{path}: not a trace: expected a start and an end, found {len(lines)} lines")
    start = _decoded(path, 1, lines[0], Start)
    if start.format != FORMAT:
        raise UsageError(f"{path}: line 1: format: expected {FORMAT}, found {start.format}")
    for mistake in _mistakes_of_start(start):
        raise UsageError(f"{path}: line 1: {mistake}")
    decoder = msgspec.json.Decoder(Step)
    steps = tuple(_decoded(path, number, line, Step, decoder) for number, line in enumerate(lines[1:-1], start=2))
    for number, mistake in _mistakes_of_steps(steps):
        raise UsageError(f"{path}: line {number}: {mistake}")
    end = _decoded(path, len(lines), lines[-1], End)
    if end.steps != len(steps):
        raise UsageError(f"{path}: line {len(lines)}: steps: expected {len(steps)}, as there are, found {end.steps}")
    return Trace(start=start, steps=steps, end=end)


def digest_of(content: bytes) -> str:
    """Return a digest of what is in the file of a trace, which a finding keeps."""
    return hashlib.sha256(content).hexdigest()


# The paths of a file that somebody else has made must not lead out of the directory that they are written into.


def _mistakes_of_start(start: Start) -> Iterator[str]:
    """Yield what is wrong with the directory at the start, each with its field."""
    groups = {"directories": start.directories, "files": start.files, "links": start.links}
    counts = Counter(path for paths in groups.values() for path in paths)
    directories = {"", *start.directories}
    for field, paths in groups.items():
        for path in paths:
            if not _is_below(path):
                yield f"{field}: expected {BELOW}, found {path!r}"
            elif counts[path] > 1:
                yield f"{field}: expected paths that differ, found {path!r} twice"
            elif posixpath.dirname(path) not in directories:
                yield f"{field}: expected a path in a directory that there is, found {path!r}"
    for path, target in start.links.items():
        if not _is_target(target):
            yield f"links: expected where {path!r} leads, found {target!r}"
    contents = {**start.files, **start.links}
    names = Counter(name for group in start.hard_links for name in group)
    for group in start.hard_links:
        of_group = {contents.get(name) for name in group}
        if len(of_group) != 1 or None in of_group or any(names[name] > 1 for name in group):
            yield f"hard_links: expected names of one file, found {', '.join(map(repr, group))}"


def _mistakes_of_steps(steps: Iterable[Step]) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with steps, each with its line and field."""
    opened = {0}
    for number, step in enumerate(steps, start=2):
        is_link = step.kind is StepKind.SYMLINK
        for field, path in (("path", step.path), ("target", "" if is_link else step.target)):
            if path not in ("", ".") and not _is_below(path):
                yield number, f"{field}: expected {BELOW}, found {path!r}"
        if is_link and not _is_target(step.target):
            yield number, f"target: expected where the link leads, found {step.target!r}"
        if step.kind is StepKind.OPEN:
            opened.add(step.handle)
        elif step.handle not in opened:
            yield number, f"handle: expected one that an earlier step opened, found {step.handle}"


def _is_below(path: str) -> bool:
    names = path.split("/")
    return (
        is_usable(path)
        and NO_NAMES.isdisjoint(names)
        and all(len(os.fsencode(name)) <= NAME_BYTES_MAX for name in names)
    )


def _is_target(path: str) -> bool:
    return path != "" and is_usable(path)


def _decoded(
    path: Path, number: int, line: bytes, of: type[Line], decoder: msgspec.json.Decoder[Line] | None = None
) -> Line:
    try:
        return (decoder or msgspec.json.Decoder(of)).decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # The error ends with the place in the line, as `$.offset`.
        raise UsageError(f"{path}: line {number}: {error}") from error
