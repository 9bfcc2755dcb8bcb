"""The rule of a stateful run about tables that must not be written to, because a server would lose by it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.world import World, orderly
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.protected import FOREIGN, PROTECTIONS, files_but_pins
from tornproof.impl.errors import BusyError, TornproofError
from tornproof.impl.storage.interface import Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.write.table_writer import open_writer

MAP = """
import mmap, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0):
    print(flush=True)
    sys.stdin.read()
"""


def write_protected(world: World) -> None:
    """Write to copies that a server has open, with an index, or without a log: each is refused, and stays as it is."""
    path, metadata = world.files.path, world.start.metadata
    image = world.files.image()
    for protection in PROTECTIONS:
        if protection.is_possible(metadata):
            storage = MemoryStorage.of(image)
            protection.protect(storage, path)
            before = files_but_pins(storage)
            with orderly("writing to a table of a server", TornproofError), suppress(TornproofError):
                _commit(storage, path)
            if files_but_pins(storage) != before:
                raise ViolationError(protection.property, "a writer changed files of a table that it must not write to")
            world.reached[f"refused: {protection.property}"] += 1
    if isinstance(world.files.storage, OperatingSystemStorage):
        with _mapped(f"{path}/{TXN_FILE}"), orderly("opening a writer", BusyError), suppress(BusyError):
            open_writer(world.files.storage, path, ignore_indexes=True).close()
            raise ViolationError(FOREIGN, "a writer was opened while another process has _txn mapped")


def _commit(storage: Storage, path: str) -> None:
    with open_writer(storage, path) as writer:
        last = writer.transaction.partitions[-1]
        writer.write(rows_for(writer.table, [last.timestamp], seed=1))
        writer.commit()


@contextmanager
def _mapped(path: str) -> Iterator[None]:
    """Have another process map a file, as a server does, while the block runs."""
    command = [sys.executable, "-I", "-S", "-c", MAP, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield
        finally:
            process.stdin.close()
