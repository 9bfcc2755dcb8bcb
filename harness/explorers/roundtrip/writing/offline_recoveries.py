"""Whether an offline recovery leaves the files of the committed version, and none of the bytes that nobody refers to.

What a recovery may change, and that it leaves no dead bytes, is said in docs/recover.md. Here a commit is killed, maybe
the next writer restates the version before, and maybe the published size is lost.
"""

from __future__ import annotations

import functools
import itertools
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.patch import Controls, not_noticed, original_of, replaced
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.writing.kills import (
    Rows,
    commit,
    left_by_last_kill,
    reported,
    rows_in,
    spoil,
    table_of_rows,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table

PROPERTY = "an offline recovery leaves the committed version, and nothing else"
PATH = "recovered"
FIRST: Rows = [(FIRST_TIME + number, number) for number in range(5)]
KILLED: Rows = [(FIRST_TIME + 9, 9)]
RESTATED, LEFT = "restated by the next writer", "left as it was"
SIZES: Mapping[str, bytes | None] = {
    "as it is": None,
    "zero": bytes(8),
    "too large": (1 << 40).to_bytes(8, "little"),
    "in the middle": (100).to_bytes(8, "little"),
}
WINDOW = "tornproof.impl.repair.plan:WINDOW_WORDS"
SMALL_WINDOW_WORDS = 16
"""So many words are searched at a time where otherwise only metadata of more than 1 MiB is searched in steps."""
NOTHING, GARBAGE, UNREADABLE = "nothing", "a page of garbage", "a generation of the same rows that nobody can read"
LENGTH_BYTES, TRAILER_BYTES = 4, 8
REQUIRED_FEATURE_BYTE = 36
"""Of a footer; readers reject it if a bit of it is one that they do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineRecovery:
    """What a killed commit left, the published size, and what is behind the metadata."""

    kind: str
    size: str
    behind: str

    @property
    def name(self) -> str:
        """It in words."""
        return (
            f"a killed commit that is {self.kind}, with a published size that is {self.size}, and {self.behind} behind"
        )


@functools.cache
def offline_recoveries() -> tuple[OfflineRecovery, ...]:
    """Return all states, always in the same order."""
    return tuple(
        OfflineRecovery(kind=kind, size=size, behind=behind)
        for kind, size, behind in itertools.product((LEFT, RESTATED), SIZES, (NOTHING, GARBAGE, UNREADABLE))
    )


def problem_of(case: OfflineRecovery) -> str | None:
    """Say what is wrong after the recovery, also by a search in small steps; None if nothing is."""
    for how, window_words in (("", original_of(WINDOW)), ("by a search in small steps ", SMALL_WINDOW_WORDS)):
        with replaced(WINDOW, window_words):
            problem = _problem_after(case)
        if problem is not None:
            return f"{how}{problem}"
    return None


def _problem_after(case: OfflineRecovery) -> str | None:
    storage = MemoryStorage.of(_damaged(case))
    repair_table(storage, PATH)
    if (rows := rows_in(storage, PATH)) != FIRST:
        return f"the rows are {rows} instead of {FIRST}"
    if (problem := reported(storage, PATH)) is not None:
        return problem
    wanted, found = _files(_committed().files), _files(storage.image().files)
    different = [f"{path} of {len(found[path])} bytes" for path in wanted if found[path] != wanted[path]]
    return f"another one is {different[0]}" if different else None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of recoveries that keep what nobody refers to, do nothing, or change what is needed."""
    repair = original_of(f"{__name__}:repair_table")

    def and_append(storage: MemoryStorage, path: str) -> None:
        repair(storage, path)
        for file in _files(storage.image().files):
            with storage.open_for_writing(file) as handle:
                handle.pwrite(b"?", handle.size_bytes())

    def and_spoil(storage: MemoryStorage, path: str) -> None:
        repair(storage, path)
        spoil(storage, path)

    def and_commit(storage: MemoryStorage, path: str) -> None:
        repair(storage, path)
        commit(storage, path, KILLED)

    controls: Controls = (
        ("nothing is recovered", f"{__name__}:repair_table", lambda *_: None),
        ("a byte is left behind", f"{__name__}:repair_table", and_append, "another one is"),
        ("the name is lost", f"{__name__}:repair_table", and_spoil, "verify reports"),
        ("the killed commit is completed", f"{__name__}:repair_table", and_commit, "the rows are"),
    )
    return not_noticed(controls, problem_of, offline_recoveries())


def _files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of the partition, without what a recovery has kept elsewhere."""
    directory = the_only(_partition_paths())
    return {path: files[path] for path in (f"{directory}/{name}" for name in (PM_FILE, DATA_FILE))}


@functools.cache
def _partition_paths() -> tuple[str, ...]:
    table = open_table(MemoryStorage.of(_committed()), PATH)
    return tuple(table.files_of(partition).path for partition in table.transaction().partitions)


def _damaged(case: OfflineRecovery) -> DiskImage:
    image = _left(case.kind)
    directory = the_only(_partition_paths())
    content, size = image.files[f"{directory}/{PM_FILE}"], SIZES[case.size]
    content = (size or content[:8]) + content[8:]
    content += {NOTHING: b"", GARBAGE: b"\xa5" * 4096, UNREADABLE: _unreadable(content)}[case.behind]
    return DiskImage({**image.files, f"{directory}/{PM_FILE}": content}, image.directories)


def _unreadable(content: bytes) -> bytes:
    """Return the footer of the committed version as one behind `content`, but with a feature that must be known."""
    committed = the_only(each for path, each in _committed().files.items() if path.endswith(PM_FILE))
    (length,) = struct.unpack("<I", committed[-LENGTH_BYTES:])
    footer = bytearray(committed[-LENGTH_BYTES - length : -TRAILER_BYTES])
    footer[REQUIRED_FEATURE_BYTE] |= 1 << 1
    return bytes(footer) + struct.pack("<II", zlib.crc32(content[8:] + footer), length)


@functools.cache
def _left(kind: str) -> DiskImage:
    left = left_by_last_kill(_committed(), PATH, KILLED)
    if kind == LEFT:
        return left
    storage = MemoryStorage.of(left)
    open_writer_of_copy(storage, PATH).close()
    return storage.image()


@functools.cache
def _committed() -> DiskImage:
    return table_of_rows(PATH, FIRST)
