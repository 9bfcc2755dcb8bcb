"""Whole small tables as targets: damage of some of their files, then everything that reads, judges or recovers one."""

import functools
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath

import fuzz_repair
from fuzz_inputs import Edit, edits_of
from golden_archive import ARCHIVE

from tornproof.cli.inspection.inspector import inspect_path
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.query.time_search import TimeRange
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.symbols import read_table_symbols
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.table_writer import open_writer

TABLES = (
    "tables/9.4.2/chain",
    "tables/9.4.2/rewrite",
    "tables/9.4.2/dedup",
    "tables/2026-07/nanosecond",
    "tables/9.4.2/allnull",
    "tables/9.4.2/oddcols",
    "tables/9.4.2/bloom",
    "tables/2026-07/chain",
    "legacy/9.3.4/chain",
    "legacy/9.3.4/many",
)
READ_SUFFIXES = (".o", ".c", ".pm")
EDITS_MAX = 8
PATH = "t"
NOON_MICROSECONDS = 1_704_110_400_000_000
OPERATIONS = 8
REPAIR_BIT = 0x80


def table(data: bytes) -> None:
    """Verify, read and inspect a damaged table."""
    image = damaged(data)
    opened = open_table(image, PATH)
    with suppress(TornproofError):
        verify_table(opened)
    with suppress(TornproofError):
        read_table_symbols(opened, opened.transaction())
    for name in image.listdir(PATH):
        with suppress(TornproofError):
            inspect_path(image, f"{PATH}/{name}", None)
    snapshot = open_snapshot(opened)
    with suppress(TornproofError):
        for batch in snapshot.batches(times=TimeRange(start=NOON_MICROSECONDS)):
            batch.validate(full=True)
    for batch in snapshot.batches():
        batch.validate(full=True)


def recovery(data: bytes) -> None:
    """Recover a damaged table, twice, and become its writer; what recovery calls sound can be read."""
    storage = MemoryStorage.of(damaged(data))
    repair_table(storage, PATH)
    again = repair_table(storage, PATH)
    assert not again.actions, again
    with open_writer(storage, PATH):
        pass


def migration(data: bytes) -> None:
    """Migrate a damaged table; the second time there is nothing to do."""
    storage = MemoryStorage.of(damaged(data))
    migrate_table(storage, PATH)
    before = storage.image().files
    migrate_table(storage, PATH)
    assert storage.image().files == before


def damaged(data: bytes) -> DiskImage:
    """Return the table that the first byte selects, after the edits in the other bytes."""
    files = dict(_files()[TABLES[data[0] % len(TABLES)] if data else TABLES[0]])
    names = tuple(name for name in files if is_read(name))
    unrepaired = set()
    for edit in edits_of(data[1:])[:EDITS_MAX]:
        name = names[edit.file % len(names)]
        other = files.get(names[len(edit.content) % len(names)], b"")
        edited = _edited(files.get(name, b""), edit, other)
        if edited is None:
            files.pop(name, None)
        else:
            files[name] = edited
        if edit.operation & REPAIR_BIT and PurePosixPath(name).name == PM_FILE:
            unrepaired.add(name)
    for name in unrepaired & files.keys():
        files[name] = fuzz_repair.pm(files[name])
    return DiskImage.of_files({f"{PATH}/{name}": content for name, content in files.items()})


def is_read(name: str) -> bool:
    """Whether a reader opens files of that name; for those of native partitions it only checks that they exist."""
    return PurePosixPath(name).name in ("_txn", "_meta", "_cv", PM_FILE, DATA_FILE) or name.endswith(READ_SUFFIXES)


def files_of(number: int) -> dict[str, bytes]:
    """Return the files that edits of the table with this number can change, by name."""
    return {name: content for name, content in _files()[TABLES[number]].items() if is_read(name)}


def golden_files(prefixes: Iterable[str]) -> dict[str, bytes]:
    """Return the content of the archive's files whose names start with one of the prefixes."""
    wanted = tuple(prefixes)
    with tarfile.open(ARCHIVE) as archive:
        found = {}
        for member in archive:
            if member.isfile() and member.name.startswith(wanted):
                content = archive.extractfile(member)
                assert content is not None, member
                found[member.name] = content.read()
    return found


def _edited(content: bytes, edit: Edit, other: bytes) -> bytes | None:
    """Return the content after one edit; None without the file."""
    position = edit.offset % (len(content) + 1)
    match edit.operation % OPERATIONS:
        case 0 | 1 | 2:
            return content[:position] + edit.content + content[position + len(edit.content) :]
        case 3:
            flipped = bytes(old ^ new for old, new in zip(content[position:], edit.content, strict=False))
            return content[:position] + flipped + content[position + len(flipped) :]
        case 4:
            return content[:position]
        case 5:
            return content[:position] + edit.content + content[position:]
        case 6:
            return content[:position] + content[position + len(edit.content) :]
        case _:
            return other if edit.content else None


@functools.cache
def _files() -> Mapping[str, Mapping[str, bytes]]:
    """Return for each table its files by relative path, sorted."""
    tables: dict[str, dict[str, bytes]] = {name: {} for name in TABLES}
    for path, content in sorted(golden_files(f"{name}/table/" for name in TABLES).items()):
        name = next(name for name in TABLES if path.startswith(f"{name}/table/"))
        tables[name][path.removeprefix(f"{name}/table/")] = content
    return tables
