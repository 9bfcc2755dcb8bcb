"""Histories of concurrent runs: the schema of events, and files of events that survive a SIGKILL of their writer.

Every process appends to a file of its own. A frame is u32 payload length, u32 CRC-32C of the payload (both
little-endian), payload: the fields as a compact JSON array (docs/history.md).
"""

from __future__ import annotations

import enum
import json
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crc32c
import pyarrow as pa

from tornproof.impl.errors import CorruptError

FRAME_HEADER = struct.Struct("<II")
PAYLOAD_BYTES_MAX = 1 << 16

SCHEMA = pa.schema(
    [
        pa.field("process", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("version", pa.int64()),
        pa.field("digest", pa.string()),
        pa.field("details", pa.string(), nullable=False),
    ]
)
"""Events as a table: `version` and `digest` are null if an event has none."""


class EventKind(enum.StrEnum):
    """What can happen to a client; a start is recorded before the call, an end after it.

    commit_start has the version and the content digest that the commit will have, recovered those that a writer found
    when it opened the table, read_end those that were read. A snapshot is pinned between read_start and read_end.
    Another process records that a client was killed, after its death.
    """

    COMMIT_START = "commit_start"
    COMMIT_ACKNOWLEDGED = "commit_acknowledged"
    COMMIT_FAILED = "commit_failed"
    READ_START = "read_start"
    READ_END = "read_end"
    READ_FAILED = "read_failed"
    PIN = "pin"
    UNPIN = "unpin"
    KILLED = "killed"
    RECOVERED = "recovered"


KINDS = {kind.value: kind for kind in EventKind}
COLUMNS = tuple((each.name, str if pa.types.is_string(each.type) else int, each.nullable) for each in SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: `process` recorded it as its `sequence`-th (from 0), and it happened to `client`.

    `time_ns` is CLOCK_MONOTONIC, which all processes of a machine share. `details` holds why a call failed.
    """

    process: str
    sequence: int
    client: str
    kind: EventKind
    time_ns: int
    version: int | None = None
    digest: str | None = None
    details: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Events of all processes, ordered by time, process, sequence, and the number of torn last frames, now dropped."""

    events: tuple[Event, ...]
    torn_frames: int


class HistoryWriter:
    """Appends the events of one process to a new file; each is in the page cache when the call returns."""

    def __init__(self, path: Path, process: str, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """Create the file; raises FileExistsError if there is one, because a file has the history of one process."""
        self.process = process
        self._clock = clock
        self._sequence = 0
        self._file = path.open("xb", buffering=0)

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def record(
        self,
        kind: EventKind,
        *,
        client: str | None = None,
        version: int | None = None,
        digest: str | None = None,
        details: str = "",
    ) -> Event:
        """Append an event that happens now, to the client named like this process unless given, and return it."""
        event = Event(
            process=self.process,
            sequence=self._sequence,
            client=client or self.process,
            kind=kind,
            time_ns=self._clock(),
            version=version,
            digest=digest,
            details=details,
        )
        self.append(event)
        return event

    def append(self, event: Event) -> None:
        """Append an event of this process; raises ValueError if it is not the next one or its text is too long."""
        if (event.process, event.sequence) != (self.process, self._sequence):
            raise ValueError(f"the next event is {self.process} {self._sequence}, not {event.process} {event.sequence}")
        frame = memoryview(encode_frame(event))
        while frame:
            frame = frame[self._file.write(frame) :]
        self._sequence += 1


def encode_frame(event: Event) -> bytes:
    """Return the frame of an event; raises ValueError above 64 KiB."""
    payload = json.dumps([getattr(event, name) for name in SCHEMA.names], separators=(",", ":")).encode()
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise ValueError(f"an event takes {len(payload)} bytes, more than {PAYLOAD_BYTES_MAX}")
    return FRAME_HEADER.pack(len(payload), crc32c.crc32c(payload)) + payload


def read_history(paths: Iterable[Path]) -> History:
    """Return the merged events of the files of some processes, one file each.

    A torn last frame is dropped and counted. Raises CorruptError if a frame before the last one is damaged, a file does
    not have one process's events from 0 on, or two files have the same process.
    """
    events: list[Event] = []
    torn_frames = 0
    processes: dict[str, Path] = {}
    for path in sorted(paths):
        own, is_torn = decode_file(path.read_bytes(), file=str(path))
        if own and processes.setdefault(own[0].process, path) != path:
            raise _damaged(str(path), 0, "a process of its own", f"that of {processes[own[0].process]}")
        events += own
        torn_frames += is_torn
    events.sort(key=lambda event: (event.time_ns, event.process, event.sequence))
    return History(events=tuple(events), torn_frames=torn_frames)


def decode_file(content: bytes, *, file: str) -> tuple[list[Event], bool]:
    """Return the events of one process's file and whether a torn last frame was dropped; raises as `read_history`."""
    events: list[Event] = []
    end = 0
    for payload, offset in _frames(content):
        event = _event(payload, file, offset)
        expected = (events[0].process if events else event.process), len(events)
        if (event.process, event.sequence) != expected:
            raise _damaged(file, offset, f"event {expected}", f"event {(event.process, event.sequence)}")
        events.append(event)
        end = offset + FRAME_HEADER.size + len(payload)
    if end < len(content):
        _check_is_last(content, end, file)
    return events, end < len(content)


def to_arrow(events: Iterable[Event]) -> pa.Table:
    """Return events as a table of `SCHEMA`, in their order."""
    rows = list(events)
    return pa.table(
        {each.name: pa.array([getattr(event, each.name) for event in rows], each.type) for each in SCHEMA}, SCHEMA
    )


def _frames(content: bytes, offset: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield payloads with the offsets of their frames, up to the first frame that is incomplete or damaged."""
    while offset + FRAME_HEADER.size <= len(content):
        length, checksum = FRAME_HEADER.unpack_from(content, offset)
        start = offset + FRAME_HEADER.size
        if length > min(PAYLOAD_BYTES_MAX, len(content) - start):
            return
        payload = content[start : start + length]
        if crc32c.crc32c(payload) != checksum:
            return
        yield payload, offset
        offset = start + length


def _check_is_last(content: bytes, end: int, file: str) -> None:
    """Raise CorruptError unless what follows `end` may be a frame that a killed process did not finish.

    A damaged length can make a frame in the middle look unfinished: then whole events follow it.
    """
    longest = FRAME_HEADER.size + PAYLOAD_BYTES_MAX
    rest = content[end:]
    length = FRAME_HEADER.unpack_from(rest)[0] if len(rest) >= FRAME_HEADER.size else PAYLOAD_BYTES_MAX
    is_cut = len(rest) < FRAME_HEADER.size + length <= longest
    if not is_cut or any(payload for start in range(1, len(rest)) for payload, _ in _frames(rest, start)):
        raise _damaged(file, end, "a whole frame, or the unfinished last one", "a damaged frame")


def _event(payload: bytes, file: str, offset: int) -> Event:
    try:
        values = json.loads(payload)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != len(SCHEMA):
        raise _damaged(file, offset, f"a JSON array of {len(SCHEMA)} values", repr(payload[:80]))
    for (name, of, nullable), value in zip(COLUMNS, values, strict=True):
        is_right = type(value) is of or (nullable and value is None)
        if not is_right or (of is int and value is not None and not -(1 << 63) <= value < 1 << 63):
            raise _damaged(file, offset, f"a value that fits {name}", repr(payload[:80]))
    row: dict[str, Any] = dict(zip(SCHEMA.names, values, strict=True))
    kind = KINDS.get(row["kind"])
    if kind is None:
        raise _damaged(file, offset, "a kind of event", repr(row["kind"]))
    return Event(**{**row, "kind": kind})


def _damaged(file: str, offset: int, expected: str, actual: str) -> CorruptError:
    return CorruptError(file=file, field="frame", offset_bytes=offset, expected=expected, actual=actual)
