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
    size_bytes: int
    handle: int
    offset_bytes: int


@dataclass(slots=True, kw_only=True)
class Process:
    """A process or thread; `number` counts them from 1."""

    number: int
    directory: Directory
    descriptors: dict[int, OpenFile] = field(default_factory=dict)
    mappings: list[Mapping] = field(default_factory=list)

    def child(self, number: int, flags: set[str]) -> Process:
        """Return a process that this one has made."""
        return Process(
            number=number,
            directory=self.directory if "CLONE_FS" in flags else Directory(self.directory.path),
            descriptors=self.descriptors if "CLONE_FILES" in flags else self.descriptors.copy(),
            mappings=self.mappings if "CLONE_VM" in flags else self.mappings.copy(),
        )
