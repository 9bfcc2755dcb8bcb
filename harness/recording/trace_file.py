"""Traces as files of JSON lines: the start, each step, the end (docs/trace.md)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

import msgspec

from tornproof.harness.recording.steps import FORMAT, End, Start, Step, Trace
from tornproof.impl.errors import UsageError

Line = TypeVar("Line")


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace."""
    lines = (trace.start, *trace.steps, trace.end)
    path.write_bytes(msgspec.json.Encoder().encode_lines(lines))


def read_trace(path: Path) -> Trace:
    """Return the trace in a file; raises UsageError, which names the file, the line and the field."""
    lines = _content(path).splitlines()
    if len(lines) < 2:
        raise UsageError(f"{path}: not a trace: expected a start and an end, found {len(lines)} lines")
    start = _decoded(path, 1, lines[0], Start)
    if start.format != FORMAT:
        raise UsageError(f"{path}: line 1: format: expected {FORMAT}, found {start.format}")
    decoder = msgspec.json.Decoder(Step)
    steps = tuple(_decoded(path, number, line, Step, decoder) for number, line in enumerate(lines[1:-1], start=2))
    end = _decoded(path, len(lines), lines[-1], End)
    if end.steps != len(steps):
        raise UsageError(f"{path}: line {len(lines)}: steps: expected {len(steps)}, as there are, found {end.steps}")
    return Trace(start=start, steps=steps, end=end)


def digest_of(path: Path) -> str:
    """Return a digest of the trace in a file, which a finding keeps; raises UsageError."""
    return hashlib.sha256(_content(path)).hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot read: {error.strerror or error}") from error


def _decoded(
    path: Path, number: int, line: bytes, of: type[Line], decoder: msgspec.json.Decoder[Line] | None = None
) -> Line:
    try:
        return (decoder or msgspec.json.Decoder(of)).decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # The error ends with the place in the line, as `$.offset`.
        raise UsageError(f"{path}: line {number}: {error}") from error
