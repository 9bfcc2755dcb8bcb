"""What calls leave on a disk: kept copies, pins and locks, what is synced, and nothing if they only announce.

Tables are made here, and each answer is written down beside its question.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import gc
import itertools
import os
import struct
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from tornproof.harness.common.new_tables import new_table, new_table_of_rows
from tornproof.harness.common.patch import Controls, not_noticed, replaced
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.corruption import every_type
from tornproof.harness.explorers.roundtrip.asked_tables import made
from tornproof.harness.explorers.roundtrip.metadata.chains import PREVIOUS_AT, generation
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import SORTED_BY_TIMESTAMP, WORD_BYTES
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import PARQUET, data_ending_at
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import Entry, of_entries
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of, problem_of
from tornproof.harness.explorers.roundtrip.worked_out.tables.new_tables import META_COLUMN, META_HEADER
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage, RefusingStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, CHANGES, Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import StorageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.pm.footer import locate_footer
from tornproof.impl.repair.kept import KEPT_DIRECTORY, keep, kept_files, kept_name
from tornproof.impl.repair.plan import committed_file
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import LockMode, OpenMode, Storage, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.pins import pin_committed

__all__ = ["PROPERTY", "failed_controls", "left_files", "problem_of"]

PROPERTY = "calls leave on a disk what they should"
REAL = "tornproof.impl.storage.operating_system"
PATH, PINS = "table", "_pins"
META_FLAGS_BYTES, INDEXED = 4, 1
SOUND = "without damage"
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    SOUND: lambda metadata: metadata,
    "whose metadata are not published": lambda metadata: bytes(WORD_BYTES) + metadata[WORD_BYTES:],
    "with a word behind its metadata": lambda metadata: metadata + bytes(WORD_BYTES),
    "with a generation behind its metadata": lambda metadata: metadata + metadata[-100:],
}
KEPT_FILE = f"2024-01-01/{PM_FILE}"
KEPT_AS = f"{KEPT_DIRECTORY}/{KEPT_FILE}"
NO_SPACE, BROKEN = StorageReason.NO_SPACE, StorageReason.INPUT_OUTPUT
UNKNOWN = {"flags": SORTED_BY_TIMESTAMP | 1 << 9, "header_extra": bytes(8)}
OLDER = ("cut off", "missing")
TIMES = range(FIRST_TIME, FIRST_TIME + 3)
NAMED = {"ts": "TIMESTAMP", "s": "SYMBOL"}


@functools.cache
def left_files() -> tuple[Question, ...]:
    """Return all questions, always in the same order."""
    return (
        *_kept(),
        *_left_copies(),
        *_synced_for_kept(),
        *_pinned(),
        *_dry_runs(),
        *_synced_names(),
        *_moved(),
        *_older(),
    )


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a recovery that takes any bytes for its copy, and of readers without pins."""
    controls: Controls = (
        ("any bytes are a copy", "tornproof.impl.repair.kept:_is_copy", lambda *_: True),
        ("nobody has pins", "tornproof.impl.txn.pins:PINS_FILE", "none"),
    )
    return not_noticed(controls, problem_of, left_files())


def _kept() -> Iterator[Question]:
    """Yield links in the directory of what recoveries keep, which are followed by nobody who forgets it."""
    kept = f"{KEPT_DIRECTORY}/2024-01-01"
    for words, file, links, ours in (
        ("a kept file", f"{kept}/{PM_FILE}", {}, True),
        ("a link to a kept file", f"volume/{PM_FILE}", {f"{kept}/{PM_FILE}": f"../../volume/{PM_FILE}"}, False),
        ("a link to a directory of kept files", f"volume/{PM_FILE}", {kept: "../volume"}, False),
        ("a link to a directory of them all", f"volume/2024-01-01/{PM_FILE}", {KEPT_DIRECTORY: "volume"}, False),
    ):
        found = functools.partial(made, [file], links, _kept_in)
        yield Question("kept", f"what can be forgotten of {words}", found, [f"{kept}/{PM_FILE}"] * ours)

    content = b"ten bytes."
    for words, there, is_same in (
        ("the same bytes", content, True),
        ("bytes that begin in the same way", content[:-1] + b"!", False),
        ("bytes that end in the same way", b"!" + content[1:], False),
        ("fewer bytes", content[:-1], False),
        ("more bytes", content + b"!", False),
        ("nothing", None, True),
    ):
        for start_bytes, name in ((0, PM_FILE), (3, f"{PM_FILE}.from-3")):
            found = functools.partial(_kept_as, content, there, start_bytes, name)
            words_of_all = f"where bytes from byte {start_bytes} on are kept beside {words}"
            yield Question("kept", words_of_all, found, f"{kept}/{name}" if is_same else f"{kept}/{name}.1")

    found = functools.partial(_kept_by_migration, bytes(40))
    yield Question("kept", "what a migration keeps of the metadata that it replaces", found, [bytes(40)])


def _kept_by_migration(content: bytes) -> list[bytes]:
    storage = MemoryStorage.of(_changed_image(lambda name, each: content if name.endswith(PM_FILE) else each))
    done = migrate_table(storage, every_type.PATH).partitions
    return [storage.image().files[f"{every_type.PATH}/{each.kept_as}"] for each in done if each.kept_as]


def _kept_as(content: bytes, there: bytes | None, start_bytes: int, name: str) -> str:
    content = b"start"[:start_bytes] + content
    files = {f"{PATH}/2024-01-01/{PM_FILE}": content, f"{PATH}/{KEPT_DIRECTORY}/2024-01-01/{name}": there}
    image = DiskImage.of_files({path: each for path, each in files.items() if each is not None})
    with replaced("tornproof.impl.storage.file_pieces:PIECE_BYTES", 4):
        return kept_name(image, PATH, f"2024-01-01/{PM_FILE}", start_bytes)


def _kept_in(top: Path) -> list[str]:
    return kept_files(OperatingSystemStorage(), str(top))[0]


def _left_copies() -> Iterator[Question]:
    """Yield copies of what recoveries keep that end in an error, of which nothing may be left."""
    for kind, reason in itertools.product((CallKind.PWRITE, CallKind.FSYNC), (NO_SPACE, BROKEN)):
        words = f"what is left of a copy when it cannot {kind}: {reason.value}"
        yield ask("kept", words, [], _left_of_copy, kind, reason)


def _synced_for_kept() -> Iterator[Question]:
    """Yield bytes that an earlier run kept or not, and which names are made durable when they are to be kept."""
    directories = [PATH, *(f"{PATH}/{parent}" for parent in PurePosixPath(KEPT_AS).parents if parent.name)]
    for is_there in (False, True):
        words = f"which names are durable of bytes that {'an' if is_there else 'no'} earlier run kept"
        yield ask("kept", words, sorted(directories), _synced_when_kept, is_there)


def _synced_when_kept(is_there: bool) -> list[str]:
    files = {f"{PATH}/{name}": b"what is kept" for name in (KEPT_FILE, KEPT_AS)[: 1 + is_there]}
    storage = FaultyStorage(MemoryStorage.of(DiskImage.of_files(files)))
    keep(storage, PATH, KEPT_FILE, 0, KEPT_AS)
    return sorted({call.path for call in storage.calls if call.kind is CallKind.SYNC_DIRECTORY})


def _left_of_copy(kind: CallKind, reason: StorageReason) -> list[str]:
    file = f"{PATH}/{KEPT_FILE}"
    storage = MemoryStorage.of(DiskImage.of_files({file: b"what is kept"}))
    with suppress(StorageError):
        keep(FaultyStorage(storage, Fault(at=0, reason=reason, among=frozenset({kind}))), PATH, KEPT_FILE, 0, KEPT_AS)
    return [path.removeprefix(f"{PATH}/") for path in storage.image().files if path != file]


def _synced_names() -> Iterator[Question]:
    """Yield what makes files and directories, none of whose names may be lost in a power cut afterwards."""
    calls: tuple[tuple[str, Callable[[Storage], object]], ...] = (
        ("a new table with rows", lambda storage: new_table_of_rows(storage, "new", {"ts": "TIMESTAMP"}, TIMES)),
        ("a new table named with a slash", lambda storage: new_table(storage, "new/", NAMED)),
        ("a new table with symbols", lambda storage: new_table_of_rows(storage, "new", NAMED, TIMES)),
        ("a migration", lambda storage: migrate_table(storage, every_type.PATH)),
        ("a migration to a new directory", lambda storage: migrate_table(storage, every_type.PATH, out="out")),
        ("a migration to one that is there", lambda storage: migrate_table(storage, every_type.PATH, out=".")),
    )
    for words, call in calls:
        yield ask("synced", f"what is not synced after {words}", [], _unsynced, _without_pm(), call)
    for words, change in (
        ("what is behind the committed bytes", lambda name, each: each + b"?" * name.endswith(DATA_FILE)),
        (
            "metadata that are not published",
            lambda name, each: bytes(8 * name.endswith(PM_FILE)) + each[8 * name.endswith(PM_FILE) :],
        ),
    ):
        storage = MemoryStorage.of(_changed_image(change))
        found = functools.partial(_unsynced, storage, lambda storage: repair_table(storage, every_type.PATH))
        yield Question("synced", f"what is not synced after a recovery of {words}", found, [])


def _changed_image(change: Callable[[str, bytes], bytes]) -> DiskImage:
    image = every_type.image_of_every_type()
    return DiskImage({path: change(path, content) for path, content in image.files.items()}, image.directories)


def _without_pm() -> MemoryStorage:
    image = every_type.image_of_every_type()
    files = {path: content for path, content in image.files.items() if not path.endswith(PM_FILE)}
    return MemoryStorage.of(DiskImage(files, image.directories))


def _unsynced(start: MemoryStorage, call: Callable[[Storage], object]) -> list[str]:
    """Return the directories and the files that a call has changed and not synced."""
    storage = FaultyStorage(MemoryStorage.of(start.image()))
    call(storage)
    changed = set[str]()
    for each in storage.calls:
        if each.kind in (CallKind.PWRITE, CallKind.TRUNCATE, CallKind.STORE):
            changed.add(each.path)
        elif each.kind in (CallKind.MKDIR, CallKind.RENAME):
            changed.add(str(PurePosixPath(each.target_path or each.path).parent))
        elif each.kind in BARRIERS:
            changed.discard(each.path)
    return sorted(changed)


def _dry_runs() -> Iterator[Question]:
    """Yield recoveries of tables with and without an index, and dry runs of them, which promise what is then done."""
    for has_index, dry_run, damage in itertools.product((False, True), (False, True), DAMAGES):
        words = f"{'a dry run of ' * dry_run}a recovery of a table {damage}"
        is_damaged = damage != SOUND
        expected = "IndexedColumnError" if has_index and is_damaged else ["publish_committed"] * is_damaged
        found = functools.partial(_recovered, has_index=has_index, damage=damage, dry_run=dry_run)
        yield Question("dry runs", f"{words} with{'' if has_index else 'out'} an index", found, expected)

    for out in (None, "out", "."):
        words = f"what a dry run of a migration to {out or 'the table'} changes"
        yield ask("dry runs", words, [], _changed_by_dry_run, out)


def _recovered(*, has_index: bool, damage: str, dry_run: bool) -> Any:
    storage = MemoryStorage()
    new_table_of_rows(storage, PATH, {"ts": "TIMESTAMP", "s": "SYMBOL"}, TIMES)
    files = dict(storage.image().files)
    if has_index:
        # Of the second column; there is no encoder of tables with an index.
        at = META_HEADER.size + META_COLUMN.size + META_FLAGS_BYTES
        content = bytearray(files[f"{PATH}/{META_FILE}"])
        content[at] |= INDEXED
        files[f"{PATH}/{META_FILE}"] = bytes(content)
    file = the_only(each for each in files if each.endswith(PM_FILE))
    files[file] = DAMAGES[damage](files[file])
    storage = MemoryStorage.of(DiskImage(files, storage.image().directories))
    report = functools.partial(repair_table, storage, PATH, dry_run=dry_run)
    return outcome_of(lambda: [str(action.kind) for action in report().actions])


def _changed_by_dry_run(out: str | None) -> list[str]:
    storage = FaultyStorage(_without_pm())
    needed(migrate_table(storage, every_type.PATH, out=out, dry_run=True).partitions, "there is nothing to migrate")
    return [f"{call.kind} {call.path}" for call in storage.calls if call.kind in CHANGES]


def _pinned() -> Iterator[Question]:
    """Yield readers who may not open the file of pins: they read without one if that is because of its permissions."""
    for reason in StorageReason:
        expected = False if reason.name in ("MISSING", "NOT_PERMITTED") else "StorageError"
        yield ask("pins", f"whether a reader has a pin where {reason.value}", expected, _is_pinned, reason)
        # Where there are no locks, as on other systems, nobody has a pin.
        expected = False if reason is StorageReason.NO_LOCKS else "StorageError"
        words = f"whether a reader has a pin that cannot be locked: {reason.value}"
        yield ask("pins", words, expected, _is_pinned, reason, at_lock=True)
    for words, location, substitute in (
        ("another system", "sys:platform", "darwin"),
        ("a machine without fences", f"{REAL}:fence_of_this_machine", lambda: None),
    ):
        found = functools.partial(_is_locked_where, location, substitute)
        yield Question("pins", f"whether a lock is granted on {words}", found, "StorageError")
    for code in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO):
        words = f"whether a lock is granted where the call for it fails by {errno.errorcode[code]}"
        yield ask("pins", words, "StorageError", _is_locked_after, code)
    yield Question("pins", "whether a lock ends with a file that was forgotten", _is_free_again, [False, True])
    words = "whether a lock ends with its file, which was refused another one and is still mapped"
    yield Question("pins", words, _is_free_beside_a_mapping, [True, False, True])


def _is_pinned(reason: StorageReason, *, at_lock: bool = False) -> Any:
    def reason_of(call: Call) -> StorageReason | None:
        return reason if call.path.endswith(PINS) and (call.kind is CallKind.LOCK or not at_lock) else None

    def found() -> bool:
        with pin_committed(RefusingStorage(storage, reason_of), PATH) as pin:
            return pin.is_held

    storage = MemoryStorage()
    new_table_of_rows(storage, PATH, {"ts": "TIMESTAMP"}, TIMES)
    return outcome_of(found)


def _is_locked_after(code: int) -> Any:
    def fails(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return _is_locked_where(f"{REAL}_file:fcntl", SimpleNamespace(**{**vars(fcntl), "fcntl": fails}))


def _is_locked_where(location: str, substitute: object) -> Any:
    """Return whether a lock of a file that is there is granted by a real storage, elsewhere than here."""

    def granted() -> bool:
        with replaced(location, substitute), OperatingSystemStorage().open_for_writing(path) as file:
            return file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)

    with tempfile.TemporaryDirectory() as name:
        path = f"{name}/{PINS}"
        Path(path).touch()
        return outcome_of(granted)


def _is_free_again() -> list[bool]:
    """Return whether another file gets a lock before and after the one that holds it is forgotten."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(action="ignore", category=ResourceWarning):
        storage, path = OperatingSystemStorage(), f"{name}/{PINS}"
        forgotten = [storage.open_for_writing(path, OpenMode.NEW)]
        granted = list[bool]()
        with storage.open_for_writing(path) as other:
            forgotten[0].try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)
            for _ in range(2):
                granted.append(other.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1))
                forgotten.clear()
                gc.collect()
        return granted


def _is_free_beside_a_mapping() -> list[bool]:
    """Return whether two locks of a file are granted, the second of which another one has, and the first afterwards."""
    with tempfile.TemporaryDirectory() as name:
        storage, path = OperatingSystemStorage(), f"{name}/{PINS}"
        Path(path).write_bytes(bytes(WORD_BYTES))
        with storage.open_for_writing(path) as other, ExitStack() as held:
            other.try_lock(LockMode.EXCLUSIVE, offset_bytes=1, size_bytes=1)
            with storage.open_for_writing(path) as file:
                held.enter_context(file.map(WORD_BYTES))
                granted = [file.try_lock(LockMode.EXCLUSIVE, offset_bytes=at, size_bytes=1) for at in range(2)]
            return [*granted, other.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)]


def _moved() -> Iterator[Question]:
    """Yield chains that skip an orphan, and whether they are encoded anew: what is not known here stays where it is."""
    for words, values, is_moved in (
        ("nothing more", {}, True),
        ("a transaction", {"footer_flags": 1, "sections": bytes(8)}, True),
        ("a note", {"footer_flags": 2, "sections": struct.pack("<III", 1, 9, 4) + b"note"}, True),
        ("an unknown section", {"footer_flags": 4, "sections": b"sections"}, False),
        ("an unknown section and a transaction", {"footer_flags": 5, "sections": bytes(16)}, False),
        ("an unknown feature of the header", UNKNOWN, False),
        ("an unknown feature of the header, and no rows,", {**UNKNOWN, "groups": [], "place": []}, False),
    ):
        name = f"whether metadata with {words} are encoded anew, without the orphan that they skip"
        yield ask("moved", name, (is_moved, not is_moved), _is_moved, values)


def _is_moved(values: dict[str, Any]) -> tuple[bool, bool]:
    shared = {name: value for name, value in values.items() if name not in ("footer_flags", "sections")}
    first = generation(0, **shared)
    orphan = generation(1, first, **shared)
    skips = ("footer", PREVIOUS_AT, "<Q", len(first.encoded()))
    content = generation(2, orphan, patches=[skips], **values).encoded()
    found = committed_file(content, locate_footer(content, len(content), file=PM_FILE), file=PM_FILE)
    return found.is_rewritten, found.keeps_dead_bytes


def _older() -> Iterator[Question]:
    """Yield partitions of releases without metadata, whole and not, and whether a recovery reports something."""
    for words, size_bytes in (("whole", 100), ("longer", 101), ("cut off", 99), ("missing", None)):
        found = functools.partial(_is_reported, size_bytes)
        yield Question(
            "older", f"whether data of an older release that are {words} are reported", found, words in OLDER
        )


def _is_reported(size_bytes: int | None) -> bool:
    entry = Entry(timestamp=0, row_count=1, token=100, flags=PARQUET)
    files = {f"{PATH}/_txn": of_entries([entry]).content(), f"{PATH}/1970-01-01/.keep": b""}
    if size_bytes is not None:
        files[f"{PATH}/1970-01-01/{DATA_FILE}"] = (data_ending_at(100) + b"?")[:size_bytes]
    return bool(repair_table(MemoryStorage.of(DiskImage.of_files(files)), PATH, dry_run=True).problems)
