"""Small crashes whose outcomes are known: controls of the file system and of what each model leaves of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.models import (
    C_8,
    C_512,
    CDIR,
    MODELS,
    N_512,
    POWER_MODELS,
    W_512,
    A,
    B,
    D,
    Model,
    is_contained,
)
from tornproof.impl.storage.interface import OpenMode

Outcome = tuple[bytes | None, ...]
"""The beginnings of some files; None for one that is not there."""
PAGE_BYTES, SECTOR_BYTES, WORD_BYTES = 4096, 512, 8
POWER, CACHE = frozenset(POWER_MODELS), frozenset({A, D})
MIXED, UNORDERED, TORN = POWER - {B}, frozenset({CDIR, N_512}), frozenset({C_512, C_8, W_512, N_512})


class Litmus(NamedTuple):
    """Calls on a disk with some files, and which models leave each outcome of the files in `looked_at`.

    No other model leaves it.
    """

    title: str
    files: dict[str, bytes]
    calls: Sequence[Call]
    looked_at: tuple[str, ...]
    left_by: dict[Outcome, frozenset[Model]]


def _write(path: str, content: bytes, offset_bytes: int = 0) -> tuple[Call, Call]:
    size_bytes, mode = len(content), OpenMode.EXISTING_OR_NEW
    opened = Call(kind=CallKind.OPEN_FOR_WRITING, path=path, file=1, mode=mode)
    write = CallKind.PWRITE
    return opened, Call(
        kind=write, path=path, file=1, offset_bytes=offset_bytes, size_bytes=size_bytes, content=content
    )


def _map(path: str, size_bytes: int) -> Call:
    return Call(kind=CallKind.MAP, path=path, file=1, mapping=2, size_bytes=size_bytes)


SYNC, SYNC_MAPPED = Call(kind=CallKind.FSYNC, path="", file=1), Call(kind=CallKind.MSYNC, path="", mapping=2)
SYNC_ROOT = Call(kind=CallKind.SYNC_DIRECTORY, path="r")
CASES = (
    Litmus(
        "two files that are not synced are old or new, each by itself",
        {"r/f": b"o", "r/g": b"o"},
        (*_write("r/f", b"n"), *_write("r/g", b"n")),
        ("r/f", "r/g"),
        {(b"n", b"n"): POWER | CACHE, (b"o", b"n"): POWER, (b"n", b"o"): POWER, (b"o", b"o"): POWER},
    ),
    Litmus(
        "a file that is written twice may hold what it held in between",
        {"r/f": b"1"},
        (*_write("r/f", b"2"), *_write("r/f", b"3")),
        ("r/f",),
        {(b"1",): POWER, (b"2",): POWER, (b"3",): POWER | CACHE, (b"4",): frozenset()},
    ),
    Litmus(
        "a file that grows has any of its sizes",
        {"r/f": b"1"},
        (*_write("r/f", b"2", 1), *_write("r/f", b"3", 2)),
        ("r/f",),
        {(b"1",): POWER, (b"12",): POWER, (b"123",): POWER | CACHE},
    ),
    Litmus(
        "two words of a sector are torn by words alone",
        {"r/f": b"old old old old "},
        _write("r/f", b"new new new new "),
        ("r/f",),
        {(b"new new old old ",): frozenset({C_8}), (b"old old new new ",): frozenset({C_8})},
    ),
    Litmus(
        "two sectors of a page are torn where sectors are written",
        {"r/f": b"o".ljust(SECTOR_BYTES, b".") + b"o"},
        _write("r/f", b"n".ljust(SECTOR_BYTES, b".") + b"n"),
        ("r/f",),
        {(b"n".ljust(SECTOR_BYTES, b".") + b"o",): TORN, (b"o".ljust(SECTOR_BYTES, b".") + b"n",): TORN},
    ),
    Litmus(
        "of two new names a journal keeps the first ones",
        {"r/old": b""},
        (*_write("r/f", b""), *_write("r/g", b"")),
        ("r/f", "r/g"),
        {(b"", b""): POWER | CACHE, (b"", None): POWER, (None, None): POWER, (None, b""): UNORDERED},
    ),
    Litmus(
        "a sync of a directory keeps the names in it, and not those in one below it",
        {"r/old": b""},
        (Call(kind=CallKind.MKDIR, path="r/d"), *_write("r/d/f", b""), *_write("r/g", b""), SYNC_ROOT),
        ("r/d/f", "r/g"),
        {(b"", b""): POWER | CACHE, (None, b""): UNORDERED, (b"", None): frozenset(), (None, None): frozenset()},
    ),
    Litmus(
        "a sync of a mapping keeps what is mapped, and nothing behind it",
        {"r/f": b"o".ljust(PAGE_BYTES, b".") + b"o"},
        (*_write("r/f", b"n"), *_write("r/f", b"n", PAGE_BYTES), _map("r/f", PAGE_BYTES), SYNC_MAPPED),
        ("r/f",),
        {
            (b"n".ljust(PAGE_BYTES, b".") + b"n",): POWER | CACHE,
            (b"n".ljust(PAGE_BYTES, b".") + b"o",): POWER,
            (b"o".ljust(PAGE_BYTES, b".") + b"n",): frozenset(),
        },
    ),
    Litmus(
        "a sync keeps everything",
        {"r/f": b"1"},
        (*_write("r/f", b"2"), *_write("r/f", b"3"), SYNC),
        ("r/f",),
        {(b"3",): POWER | CACHE, (b"2",): frozenset(), (b"1",): frozenset()},
    ),
)
CUT_OFF = Limits(file_count=2, names_count=2, disk_count=2)


def failed_controls() -> Iterator[str]:
    """Crash in each case under each model, and describe what is left that must not be, or not left that may be."""
    for case in CASES:
        kernel = _after(case)
        left = {model: _left(kernel, model, case.looked_at) for model in MODELS}
        for outcome, models in case.left_by.items():
            for model in MODELS:
                if (outcome in left[model]) is not (model in models):
                    yield f"{model} {'does not leave' if model in models else 'leaves'} {outcome}: {case.title}"
        for model in MODELS:
            for other in MODELS:
                if is_contained(model, other) and not left[model] <= left[other]:
                    yield f"{model} is said to be contained in {other}, and leaves more: {case.title}"
    if legal_disks(_after(CASES[1]), C_8, CUT_OFF).is_complete:
        yield "a sample of the disks of a crash point is said to be complete"
    failed = FileState(b"o").written(b"n", 0).failed()
    if (failed.content, failed.versions) != (b"n", (b"o",)):
        yield "a failed sync has written what it was to write"


def _after(case: Litmus) -> Kernel:
    kernel = Kernel.of(DiskImage(case.files, frozenset({"r"})))
    for call in case.calls:
        apply(kernel, 0, call)
    return kernel


def _left(kernel: Kernel, model: Model, looked_at: tuple[str, ...]) -> set[Outcome]:
    disks = (picked.disk.files() for picked in legal_disks(kernel, model))
    return {tuple(files.get(path) for path in looked_at) for files in disks}
