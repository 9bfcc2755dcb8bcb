"""The trace of a program: the directory that it began with, and each step by which it changed that directory."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import OpenMode

FORMAT = 1


class StepKind(enum.StrEnum):
    """What a step does: a call of the kernel in memory by its name, or what that kernel has no call for."""

    OPEN = CallKind.OPEN_FOR_WRITING
    WRITE = CallKind.PWRITE
    TRUNCATE = CallKind.TRUNCATE
    MKDIR = CallKind.MKDIR
    RMDIR = CallKind.RMDIR
    RENAME = CallKind.RENAME
    LINK = CallKind.LINK
    SYMLINK = "link symbolically"
    UNLINK = CallKind.UNLINK
    FSYNC = CallKind.FSYNC
    FDATASYNC = CallKind.FDATASYNC
    MSYNC = CallKind.MSYNC
    SYNC_DIRECTORY = CallKind.SYNC_DIRECTORY
    SYNC_ALL = "sync everything"
    ACKNOWLEDGE = "acknowledge"


SYNCS = frozenset({StepKind.FSYNC, StepKind.FDATASYNC, StepKind.MSYNC, StepKind.SYNC_DIRECTORY, StepKind.SYNC_ALL})

STORE = "store"
"""The name of a step by what was stored through a mapping, which is no system call."""


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One effect of a system call; paths are below the recorded directory, and `handle` is the number of an open file.

    `call` counts the recorded system calls from 1, `name` is that of the system call, `process` counts processes and
    threads, and `stack` has the frames that made the call, the innermost first. A sync without a handle is one of the
    file at `path`; where others went on while it ran, it `covers` only the effects of so many of the first steps.
    """

    kind: StepKind
    call: int
    name: str
    process: int = 1
    path: str = ""
    target: str = ""
    handle: Count = 0
    offset: Count = 0
    size: Count = 0
    content: bytes = b""
    mode: OpenMode = OpenMode.EXISTING
    stack: tuple[str, ...] = ()
    covers: Count | None = None

    def __str__(self) -> str:
        """Describe it as a sentence without a verb."""
        match self.kind:
            case StepKind.WRITE:
                what = f"{self.name} of {len(self.content)} bytes at {self.offset} of {self.path}"
            case StepKind.TRUNCATE:
                what = f"{self.name} of {self.path} to {self.size} bytes"
            case StepKind.RENAME | StepKind.LINK | StepKind.SYMLINK:
                what = f"{self.name} of {self.path} to {self.target}"
            case StepKind.ACKNOWLEDGE:
                what = f"acknowledgement {self.content.decode(errors='backslashreplace')!r}"
            case StepKind.SYNC_ALL:
                what = self.name
            case _:
                what = f"{self.name} of {self.path}"
        return f"call {self.call}, {what}" + (f" ({self.place})" if self.place else "")

    @property
    def place(self) -> str:
        """The innermost frame of the program's own code, if frames were recorded."""
        return next((frame for frame in self.stack if not frame.startswith(LIBRARIES)), "".join(self.stack[:1]))


LIBRARIES = ("lib", "ld-linux")


def insert(steps: list[Step], at: int, step: Step) -> None:
    """Put a step before that of index `at`; later syncs still cover what they covered."""
    steps[at:] = [
        step,
        *(
            later
            if later.covers is None or later.covers <= at
            else msgspec.structs.replace(later, covers=later.covers + 1)
            for later in steps[at:]
        ),
    ]


def parts_of(steps: Sequence[Step], index: int) -> range:
    """Return the indexes of the steps of one write, of which that of an index is one; of any other step its own."""
    first, stop = index, index + 1
    while first and _goes_on(steps[first - 1], steps[first]):
        first -= 1
    while stop < len(steps) and _goes_on(steps[stop - 1], steps[stop]):
        stop += 1
    return range(first, stop)


def whole_of(steps: Sequence[Step], index: int) -> Step:
    """Return a step with all that its system call wrote there."""
    parts = parts_of(steps, index)
    content = b"".join(steps[part].content for part in parts)
    return msgspec.structs.replace(steps[parts.start], content=content)


def _goes_on(step: Step, later: Step) -> bool:
    """Return whether both are parts of one write; stores are not, of which nobody knows the order."""
    is_write = step.kind is later.kind is StepKind.WRITE and step.name != STORE
    return is_write and (later.call, later.offset) == (step.call, step.offset + len(step.content))


NOT_TEXT = "a name that is not UTF-8, which a trace cannot hold"


def as_text(name: str) -> str:
    """Return a name of the system as a trace can hold it: of what is not UTF-8, the bytes are written out."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The first line of a trace: what was run, and the directory before it.

    `links` are the symbolic links, and `hard_links` the names of each file that has several.
    """

    format: int
    tornproof: str
    command: tuple[str, ...]
    directories: tuple[str, ...]
    files: dict[str, bytes]
    links: dict[str, str]
    hard_links: tuple[tuple[str, ...], ...] = ()


class End(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last line of a trace: how the program ended, and how many calls and steps there were."""

    exit_code: int
    calls: int
    steps: int
    notes: tuple[str, ...] = ()


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run."""

    start: Start
    steps: tuple[Step, ...]
    end: End

    def acknowledgements(self, step_count: int) -> Sequence[bytes]:
        """Return what was acknowledged by the first steps."""
        return [step.content for step in self.steps[:step_count] if step.kind is StepKind.ACKNOWLEDGE]


class NotFollowedError(TornproofError):
    """A program did something that a trace cannot hold, so that crashes of it cannot be derived."""
