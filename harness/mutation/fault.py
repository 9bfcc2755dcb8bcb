"""A fault that is planted in this process for a while, and whether what it changes is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tornproof.harness.mutation.fault_file import FaultFile


class Mutant:
    """A fault that can be planted repeatedly; `reached_count` counts the uses of what is planted."""

    def __init__(self, fault: FaultFile) -> None:
        """Prepare the fault; raises PatchError if it cannot be planted, which no explorer may take for a defect."""
        with fault.patch.planted(lambda: None):
            self._fault = fault
        self.reached_count = 0

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant the fault while the block runs; targets are made in it, because they take protocols as they are."""
        with self._fault.patch.planted(self._count):
            yield

    def _count(self) -> None:
        self.reached_count += 1
