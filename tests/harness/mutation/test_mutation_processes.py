"""What is planted into processes does what it says, so that a run with it has something to find."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.mutation.planted_copy import PlantedCopy
from tornproof.harness.mutation.processes import purge_regardless, version_before
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.txn.pins import WriterLock
from tornproof.impl.write.purge import purge
from tornproof.impl.write.recovery import recover_for_writing


def test_a_recovery_that_goes_back_leaves_the_version_before_on_disk_and_to_the_writer() -> None:
    storage = MemoryStorage()
    table = new_table(storage, "table", {"ts": "TIMESTAMP"})
    with open_writer_of_copy(storage, "table") as writer:
        for time in (1, 2):
            writer.write(pa.table({"ts": [time]}))
            writer.commit()
    before = table.transaction()
    recovered = version_before(recover_for_writing)(storage, table)
    assert recovered.version == table.transaction().version == before.version - 1


class Pinned(WriterLock):
    """The lock of a writer whose every version somebody reads."""

    def __init__(self) -> None:
        """Hold nothing."""

    @contextmanager
    def exclude_pins(self, versions: range) -> Iterator[bool]:
        """Report a reader."""
        yield False


def test_a_purge_that_does_not_ask_for_pins_removes_what_is_read() -> None:
    storage = MemoryStorage()
    table = new_table(storage, "table", {"ts": "TIMESTAMP"})
    with open_writer_of_copy(storage, "table") as writer:
        writer.write(pa.table({"ts": [1]}))
        writer.commit()
        writer.rewrite_partition(0)
        writer.commit()
    now, lock = table.transaction(), Pinned()
    named = [table.directory_of(partition) for partition in now.partitions]
    assert purge(storage, table, now, lock, named) == ()
    assert len(purge_regardless(purge)(storage, table, now, lock, named)) == 1
    assert table.unreferenced_directories(now) == ()


def test_a_process_imports_the_changed_package_whatever_path_it_inherits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "")
    environment = PlantedCopy(tmp_path).environment
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), "/elsewhere"]
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"
