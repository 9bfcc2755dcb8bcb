"""Steps on small tables that their rules must reject, and some that they must accept: controls of the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import TypeAlias

from tornproof.harness.common.new_tables import TIME, new_table_of_rows
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.table_rules import TableRules, live_record
from tornproof.harness.systems.workload import FIRST_TIME, MADE_PATH, made_image
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.symbols import DICTIONARY_FILES
from tornproof.impl.table.symbols import HEADER_BYTES as HEADER_BYTES_OF_OFFSETS
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import HEADER_BYTES, TXN_FILE, VERSION_BYTES

TXN_PATH = f"{MADE_PATH}/{TXN_FILE}"
SYMBOL_COLUMN = "symbol"
WRONG_BYTES = b"\xa5"
Changes: TypeAlias = Mapping[str, Callable[[Kernel], None]]
"""What is made of a disk that lacks something, by what it lacks."""


@cache
def failed_controls() -> tuple[str, ...]:
    """Ask the rules about each step, and describe each wrong answer."""
    return (*_of_partition(made_image()), *_of_symbols(_image_with_symbols()))


def _of_partition(image: DiskImage) -> Iterator[str]:
    table = open_table(image, MADE_PATH)
    partition = table.transaction().partitions[0]
    directory = f"{MADE_PATH}/{table.directory_of(partition)}"
    data, pm = f"{directory}/{DATA_FILE}", f"{directory}/{PM_FILE}"
    behind = {path: len(image.files[path]) for path in (data, pm)}
    rejected = {
        **{f"a write into {path}": _write(path, 4 * VERSION_BYTES) for path in (data, pm)},
        f"a store into {pm}": _write(pm, 4 * VERSION_BYTES, CallKind.STORE),
        # The live record of `_txn` is not at its beginning.
        f"a store into {TXN_PATH}": _write(TXN_PATH, _record_bytes(image), CallKind.STORE),
        **{
            f"a cut of {path}": Call(kind=CallKind.TRUNCATE, path=path, size_bytes=VERSION_BYTES) for path in (data, pm)
        },
        **{f"the removal of {path}": Call(kind=CallKind.UNLINK, path=path) for path in (data, pm)},
        "the removal of a partition": Call(kind=CallKind.RMDIR, path=directory),
        "a rename over a partition": Call(kind=CallKind.RENAME, path="other", target_path=directory),
    }
    yield from _of_steps(image, rejected, (_write(path, size_bytes) for path, size_bytes in behind.items()))
    missing: Changes = {
        **_missing(dict.fromkeys(behind, VERSION_BYTES)),
        f"the header of {TXN_PATH} is on disk": partial(
            _unsync, path=TXN_PATH, offset_bytes=HEADER_BYTES - VERSION_BYTES
        ),
        f"the record of {TXN_PATH} is on disk": partial(_unsync, path=TXN_PATH, offset_bytes=_record_bytes(image)),
    }
    yield from _of_barriers(image, missing)
    yield from _of_acknowledgement(image)


def _of_symbols(image: DiskImage) -> Iterator[str]:
    """Change and lose what a version refers to of a dictionary; its indexes are not committed, but must be durable."""
    offsets, texts, *others = (f"{MADE_PATH}/{SYMBOL_COLUMN}.{kind}" for kind in DICTIONARY_FILES)
    committed, indexes = {offsets: HEADER_BYTES_OF_OFFSETS, texts: 0}, dict.fromkeys(others, 0)
    rejected = {f"a write into {path}": _write(path, offset_bytes) for path, offset_bytes in committed.items()}
    behind = indexes | {path: len(image.files[path]) for path in committed}
    accepted = (_write(path, offset_bytes) for path, offset_bytes in behind.items())
    yield from _of_steps(image, rejected, accepted)
    yield from _of_barriers(image, _missing(committed | indexes))


def _image_with_symbols() -> DiskImage:
    storage = MemoryStorage()
    times = [FIRST_TIME, FIRST_TIME + 1]
    new_table_of_rows(storage, MADE_PATH, {TIME: "TIMESTAMP", SYMBOL_COLUMN: "SYMBOL"}, times, seed=1)
    return storage.image()


def _of_steps(image: DiskImage, rejected: Mapping[str, Call], accepted: Iterable[Call]) -> Iterator[str]:
    """Ask the rules about steps that change what is committed, and about writes that change nothing of it."""
    kernel, rules = Kernel.of(image), TableRules(MADE_PATH)
    for what, call in rejected.items():
        broken = rules.before(kernel, call)
        if broken is None or not broken.is_content:
            yield f"the rules of a table accept {what}"
    for call in accepted:
        if rules.before(kernel, call) is not None:
            yield f"the rules of a table reject a write to what is not committed of {call.path}"


def _missing(offsets: Mapping[str, int]) -> Changes:
    """Return the ways in which files are not there or not on disk, each with an offset of bytes that are needed."""
    return {
        **{f"{path} is on disk": partial(_unsync, path=path, offset_bytes=offset) for path, offset in offsets.items()},
        **{f"the name {path} is on disk": partial(_unsync_name, path=path) for path in offsets},
        **{f"{path} is there": partial(_remove, path=path) for path in offsets},
    }


def _of_barriers(image: DiskImage, missing: Changes) -> Iterator[str]:
    """Store the version of a table of which something is not on disk."""
    version = image.files[TXN_PATH][:VERSION_BYTES]
    store = Call(kind=CallKind.STORE, path=TXN_PATH, size_bytes=VERSION_BYTES, content=version)
    before = image.with_file(TXN_PATH, bytes(VERSION_BYTES) + image.files[TXN_PATH][VERSION_BYTES:])
    for what, make in {"": lambda kernel: None, **missing}.items():
        kernel, rules = Kernel.of(before), TableRules(MADE_PATH)
        make(kernel)
        broken = rules.before(kernel, store)
        if (broken is None) is bool(what):
            answer = "accept a version before" if what else "reject a version after"
            yield f"the rules of a table {answer} {what or 'all'}"


def _of_acknowledgement(image: DiskImage) -> Iterator[str]:
    """Acknowledge a version that is on disk, and one that is not."""
    for is_durable in (True, False):
        kernel = Kernel.of(image)
        if not is_durable:
            _unsync(kernel, TXN_PATH, 0)
        if (TableRules(MADE_PATH).acknowledged(kernel) is None) is not is_durable:
            taken = "lost" if is_durable else "durable"
            yield f"the rules of a table take a version for {taken} when it is acknowledged"


def _write(path: str, offset_bytes: int, kind: CallKind = CallKind.PWRITE) -> Call:
    content = WRONG_BYTES * VERSION_BYTES
    return Call(kind=kind, path=path, offset_bytes=offset_bytes, size_bytes=len(content), content=content)


def _record_bytes(image: DiskImage) -> int:
    """Return where the live record begins."""
    _, (start, _) = live_record(image.files[TXN_PATH])
    return start


def _unsync(kernel: Kernel, path: str, offset_bytes: int) -> None:
    """Let the disk hold other bytes at an offset of a file, or those that it should."""
    number = kernel.entry(path)
    content = kernel.files[number].content
    other = content[:offset_bytes] + WRONG_BYTES * VERSION_BYTES + content[offset_bytes + VERSION_BYTES :]
    kernel.files[number] = FileState(content, (other, content))


def _unsync_name(kernel: Kernel, path: str) -> None:
    """Let the disk not have a name."""
    directory, name = kernel.way(path)
    kernel.durable_directories = kernel.durable_directories | {
        directory: {key: each for key, each in kernel.directories[directory].items() if key != name}
    }


def _remove(kernel: Kernel, path: str) -> None:
    """Let a file not be there."""
    apply(kernel, 0, Call(kind=CallKind.UNLINK, path=path))
