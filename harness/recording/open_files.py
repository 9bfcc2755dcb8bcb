"""What the processes of a program have open: descriptors that lead to open files, shared as the system shares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tornproof.harness.recording.steps import StepKind


@dataclass(slots=True, kw_only=True)
class OpenFile:
    """An open file in the recorded directory by its handle there, or a stream that acknowledgements are written to.

    `position` is unknown where the file was opened by somebody else. A write `syncs` itself where it was so opened.
    """

    handle: int = 0
    position: int | None = 0
    appends: bool = False
    syncs: StepKind | None = None
    acknowledges: re.Pattern[bytes] | None = None
    pending: bytes = b""

    def lines(self, content: bytes) -> Iterator[bytes]:
        """Yield the lines that a write completes, of those that are acknowledgements."""
        assert self.acknowledges is not None
        *lines, self.pending = (self.pending + content).split(b"\n")
        return (line for line in lines if self.acknowledges.search(line))


@dataclass(slots=True)
class Directory:
    """The working directory of processes that share it."""

    path: str


class Mapping(NamedTuple):
    """Addresses at which a file is mapped, from an offset on, so that it can be stored to."""

    address: int
    end: int
    handle: int
    offset_bytes: int

    def part(self, start: int, end: int) -> Iterator[Mapping]:
        """Yield what it has of a range of addresses, if it has any."""
        start, end = max(start, self.address), min(end, self.end)
        if start < end:
            yield Mapping(start, end, self.handle, self.offset_bytes + start - self.address)


@dataclass(slots=True, kw_only=True)
class Process:
    """A process or thread; `number` counts them from 1."""

    number: int
    directory: Directory
    descriptors: dict[int, OpenFile] = field(default_factory=dict)
    closed_by_exec: set[int] = field(default_factory=set)
    mappings: list[Mapping] = field(default_factory=list)

    def lead(self, number: int, opened: OpenFile | None, *, is_closed_by_exec: bool = False) -> None:
        """Let a descriptor lead to an open file, or with None to what is not followed."""
        self.descriptors.pop(number, None)
        if opened is not None:
            self.descriptors[number] = opened
        self.close_by_exec(number, is_closed=is_closed_by_exec)

    def close_by_exec(self, number: int, *, is_closed: bool) -> None:
        """Let the next program that the process executes close a descriptor, or keep it."""
        (self.closed_by_exec.add if is_closed else self.closed_by_exec.discard)(number)

    def unshare_descriptors(self) -> None:
        """Have the same descriptors as until now, but no longer together with other threads."""
        self.descriptors, self.closed_by_exec = self.descriptors.copy(), self.closed_by_exec.copy()

    def execute(self) -> None:
        """Go on as another program, which has no mappings and nothing in common with other threads."""
        kept = {number: opened for number, opened in self.descriptors.items() if number not in self.closed_by_exec}
        self.descriptors, self.closed_by_exec, self.mappings = kept, set(), []

    def unmap(self, start: int, end: int) -> None:
        """Forget what was mapped in a range of addresses."""
        rest = [part for each in self.mappings for part in (*each.part(0, start), *each.part(end, each.end))]
        # Other threads share the list.
        self.mappings[:] = rest

    def child(self, number: int, flags: set[str]) -> Process:
        """Return a process that this one has made."""
        return Process(
            number=number,
            directory=self.directory if "CLONE_FS" in flags else Directory(self.directory.path),
            descriptors=self.descriptors if "CLONE_FILES" in flags else self.descriptors.copy(),
            closed_by_exec=self.closed_by_exec if "CLONE_FILES" in flags else self.closed_by_exec.copy(),
            mappings=self.mappings if "CLONE_VM" in flags else self.mappings.copy(),
        )
