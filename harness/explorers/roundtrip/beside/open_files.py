"""Which processes have files of a table open, asked of directories like /proc that are made for it."""

from __future__ import annotations

import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.impl.storage.holders import Holder, OpenFiles, holders_of, mappers_of

PROPERTY = "whoever has a file of a table open is seen, and nobody else"
HOLDERS = "tornproof.impl.storage.holders"
TABLE, LINK, VOLUME, MOUNT = "a table\nin lines", "link", "volume", "mount"
TXN, DATA, DEEP = f"{TABLE}/_txn", f"{TABLE}/2024-01-01/data.parquet", f"{TABLE}/2024-01-01/kept/_pm (deleted)"
MOVED, DEEP_MOVED = f"{VOLUME}/day/data.parquet", f"{VOLUME}/day/kept/_pm (deleted)"
LINKED = f"{TABLE}/2024-01-02"
MOUNTED_TXN, MOUNTED_MOVED = f"{MOUNT}/_txn", f"{MOUNT}/data.parquet"
NEIGHBOUR, BESIDE = f"{TABLE}2/_txn", f"{VOLUME}/data.parquet"
GONE, SOCKET = f"{VOLUME}/gone (deleted)", "socket:[1]"
SOCKETS = (SOCKET,) * 10
MEMORY = "7f00-7f01 rw-p 00000000 00:00 0 "
PID, LATER_PID, IDLE_PID = 30, 100, 7
"""The process of a case, and two that are always there, of which the first has the table open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What a process has open and mapped, each a path and, for what is mapped, the file whose identity is said.

    `holds` and `maps` are right: whether it has a file of the table open or mapped, and its `_txn` mapped.
    """

    name: str
    opened: tuple[str, ...] = ()
    mapped: tuple[tuple[str, str | None], ...] = ()
    lines: str = ""
    command: bytes | None = b"java\n"
    unseen: tuple[str, ...] = ()
    is_ours: bool = False
    holds: bool = False
    maps: bool = False

    @property
    def kind(self) -> str:
        """What is right."""
        return f"{self.holds} {self.maps}"


@functools.cache
def processes() -> tuple[Process, ...]:
    """Return all processes, always in the same order."""
    return (
        *(Process(name=f"{path!r} open", opened=(path,), holds=True) for path in (TXN, DATA, DEEP)),
        *(Process(name=f"{path!r} open, behind a link", opened=(path,), holds=True) for path in (MOVED, DEEP_MOVED)),
        *(
            Process(name=f"{path!r} open in another namespace", opened=(path,), holds=True)
            for path in (MOUNTED_TXN, MOUNTED_MOVED)
        ),
        *(Process(name=f"{path!r} open", opened=(path,)) for path in (NEIGHBOUR, BESIDE, GONE, SOCKET)),
        Process(name="a file open among sockets", opened=(*SOCKETS, TXN, *SOCKETS), holds=True),
        Process(name="`_txn` mapped", mapped=((TXN, TXN),), holds=True, maps=True),
        Process(name="`_txn` mapped on a device of another name", mapped=((TXN, None),), holds=True, maps=True),
        Process(name="a mapped file that is removed", mapped=((f"{TXN} (deleted)", None),), holds=True),
        Process(name="`_txn` mapped in another namespace", mapped=((MOUNTED_TXN, TXN),), holds=True, maps=True),
        Process(name="data mapped", mapped=((DATA, DATA),), holds=True),
        Process(name="data mapped behind a link", mapped=((MOVED, MOVED),), holds=True),
        Process(name="data mapped in another namespace", mapped=((MOUNTED_MOVED, MOVED),), holds=True),
        Process(name="the same inode mapped on another device", mapped=((MOUNTED_TXN, None),)),
        Process(name="files of others mapped", mapped=((NEIGHBOUR, NEIGHBOUR), (BESIDE, BESIDE))),
        Process(name="memory of no file", lines=f"{MEMORY}\n{MEMORY}[heap]\n"),
        Process(name="`_txn` mapped after memory", lines=f"{MEMORY}\n", mapped=((TXN, TXN),), holds=True, maps=True),
        Process(name="`_txn` mapped, unseen", mapped=((TXN, TXN),), unseen=("maps",)),
        Process(name="`_txn` open, unseen", opened=(TXN,), unseen=("fd",)),
        Process(name="both, one unseen", opened=(TXN,), mapped=((TXN, TXN),), unseen=("fd",), holds=True, maps=True),
        Process(name="both, the other unseen", opened=(TXN,), mapped=((TXN, TXN),), unseen=("maps",), holds=True),
        Process(name="no name", opened=(TXN,), command=None, holds=True),
        Process(name="a name that is no text", opened=(TXN,), command=b"\xff a\n", holds=True),
        Process(name="ours", opened=(TXN,), mapped=((TXN, TXN),), is_ours=True),
    )


def problem_of(process: Process) -> str | None:
    """Say which processes are taken for holders instead; None if they are right."""
    with tempfile.TemporaryDirectory(prefix="tornproof-") as scratch:
        root = Path(os.path.realpath(scratch))
        _make_files(root)
        _make_process(root, LATER_PID, Process(name="", opened=(TXN,), mapped=((TXN, TXN),), command=b"later\n"))
        _make_process(root, IDLE_PID, Process(name=""))
        _make_process(root, os.getpid() if process.is_ours else PID, process)
        (root / "proc/self").symlink_to(str(LATER_PID))
        name = "unknown" if process.command is None else process.command.decode(errors="backslashreplace").strip()
        later = Holder(pid=LATER_PID, command="later")
        one = Holder(pid=PID, command=name)
        holders = functools.partial(holders_of, processes=root / "proc")
        asked: tuple[Callable[[str], tuple[Holder, ...]], ...] = (OpenFiles(root / "proc").holders_of, holders)
        for table, ask in itertools.product((TABLE, f"{TABLE}/", LINK), asked):
            found = ask(f"{root}/{table}")
            if found != ((one, later) if process.holds else (later,)):
                return f"{table!r} is held by {', '.join(map(str, found)) or 'nobody'}"
        for file in (TXN, f"{LINK}/_txn"):
            found = mappers_of(f"{root}/{file}", processes=root / "proc")
            if found != ((one, later) if process.maps else (later,)):
                return f"{file!r} is mapped by {', '.join(map(str, found)) or 'nobody'}"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of looks that see nothing, or everything."""
    controls: Controls = (
        ("nothing mapped is seen", f"{HOLDERS}:_mapped_files", lambda *_: iter(())),
        ("nothing open is seen", f"{HOLDERS}:_open_files", lambda *_: iter(())),
        ("no process is ours", f"{HOLDERS}:_other_pids", lambda _: [PID, LATER_PID, os.getpid()]),
    )
    return not_noticed(controls, problem_of, processes())


def _make_files(root: Path) -> None:
    for path in (TXN, DATA, DEEP, MOVED, DEEP_MOVED, NEIGHBOUR, BESIDE):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / MOUNT).mkdir()
    (root / MOUNTED_TXN).hardlink_to(root / TXN)
    (root / MOUNTED_MOVED).hardlink_to(root / MOVED)
    (root / LINK).symlink_to(root / TABLE)
    (root / LINKED).symlink_to(root / VOLUME / "day")
    (root / TABLE / "2024-01-03").symlink_to(root / VOLUME / "nowhere")


def _make_process(root: Path, pid: int, process: Process) -> None:
    """Make the directory of a process, as the kernel shows it."""
    directory = root / "proc" / str(pid)
    (directory / "fd").mkdir(parents=True)
    if "fd" not in process.unseen:
        for number, path in enumerate(process.opened):
            (directory / "fd" / str(number)).symlink_to(path if path == SOCKET else root / path)
    if "maps" not in process.unseen:
        (directory / "maps").write_text(process.lines + "".join(_mapped(root, *each) for each in process.mapped))
    if process.command is not None:
        (directory / "comm").write_bytes(process.command)


def _mapped(root: Path, path: str, identity_of: str | None) -> str:
    """Return the line of a mapped file; without a file to identify it by, the inode is that of `_txn`, elsewhere."""
    status = (root / (identity_of or TXN)).stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}" if identity_of else "ff:ff"
    escaped = f"{root}/{path}".replace("\n", "\\012")
    return f"7f00-7f01 r--s 00000000 {device} {status.st_ino}          {escaped}\n"
