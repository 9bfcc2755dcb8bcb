"""Steps on a small table that its rules must reject, and some that they must accept: controls of the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.systems.table_rules import TableRules, live_record
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import HEADER_BYTES, TXN_FILE, VERSION_BYTES

TXN_PATH = f"{MADE_PATH}/{TXN_FILE}"
WRONG_BYTES = b"\xa5"


@cache
def failed_controls() -> tuple[str, ...]:
    """Ask the rules about each step, and describe each wrong answer."""
    return tuple(_failures(made_image()))


def _failures(image: DiskImage) -> Iterator[str]:
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
    kernel, rules = Kernel.of(image), TableRules(MADE_PATH)
    for what, call in rejected.items():
        broken = rules.before(kernel, call)
        if broken is None or not broken.is_content:
            yield f"the rules of a table accept {what}"
    for path, size_bytes in behind.items():
        if rules.before(kernel, _write(path, size_bytes)) is not None:
            yield f"the rules of a table reject a write behind {path}"
    yield from _of_barriers(image, (data, pm))


def _of_barriers(image: DiskImage, paths: tuple[str, ...]) -> Iterator[str]:
    """Store the version of a table of which something is not on disk, and acknowledge it."""
    version = image.files[TXN_PATH][:VERSION_BYTES]
    store = Call(kind=CallKind.STORE, path=TXN_PATH, size_bytes=VERSION_BYTES, content=version)
    before = image.with_file(TXN_PATH, bytes(VERSION_BYTES) + image.files[TXN_PATH][VERSION_BYTES:])
    missing: dict[str, Callable[[Kernel], None]] = {
        **{f"{path} is on disk": partial(_unsync, path=path, offset_bytes=VERSION_BYTES) for path in paths},
        **{f"the name {path} is on disk": partial(_unsync_name, path=path) for path in paths},
        f"the header of {TXN_PATH} is on disk": partial(
            _unsync, path=TXN_PATH, offset_bytes=HEADER_BYTES - VERSION_BYTES
        ),
        f"the record of {TXN_PATH} is on disk": partial(_unsync, path=TXN_PATH, offset_bytes=_record_bytes(image)),
    }
    for what, make in {"": lambda kernel: None, **missing}.items():
        kernel, rules = Kernel.of(before), TableRules(MADE_PATH)
        make(kernel)
        broken = rules.before(kernel, store)
        if (broken is None) is bool(what):
            answer = "accept a version before" if what else "reject a version after"
            yield f"the rules of a table {answer} {what or 'all'}"
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
