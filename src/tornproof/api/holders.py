"""Who uses a table: processes that have its files open (a server takes no lock, but maps `_txn`), and its owner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tornproof.impl.errors import UsageError
from tornproof.impl.txn.transaction import TXN_FILE

PROCESSES = Path("/proc")
HOLDERS_NAMED = 5
RECOVERED_OFFLINE = "recovery needs exclusive access"
MIGRATED_OFFLINE = "a server knows only the files that were there when it started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that has a file of a table open."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableFiles:
    """How the kernel may name a table's files: paths below a real directory, or (device, inode) in other namespaces."""

    prefixes: tuple[str, ...]
    identities: frozenset[tuple[int, int]]

    def has(self, path: str, identity: tuple[int, int]) -> bool:
        return path.startswith(self.prefixes) or identity in self.identities


def demand_offline(table: str, *, because: str, writes: bool) -> None:
    """Raise UsageError if another process has a table open or, with `writes`, if it belongs to another user.

    A directory without a table passes. `because` is that of `reject_if_held`.
    """
    if (Path(table) / TXN_FILE).is_file():
        reject_if_held(table, because=because)
        if writes:
            demand_owner(table)


def reject_if_held(table: str, *, because: str) -> None:
    """Raise UsageError if another process has a file of the table open, as far as this process can see.

    `because` completes the sentence "stop it first, because ...".
    """
    holders = holders_of(table)
    if holders:
        named = ", ".join(f"{holder.command} (process {holder.pid})" for holder in holders[:HOLDERS_NAMED])
        more = f" and {len(holders) - HOLDERS_NAMED} more" if len(holders) > HOLDERS_NAMED else ""
        raise UsageError(f"{table}: in use by {named}{more}; stop it first, because {because}")


def demand_owner(table: str) -> None:
    """Raise UsageError if the table belongs to another user, who could not write to files made by this process."""
    owner = (Path(table) / TXN_FILE).stat().st_uid
    if owner != os.geteuid():
        raise UsageError(f"{table}: belongs to user {owner}; run this as that user, because it creates files")


def holders_of(table: str, *, processes: Path = PROCESSES) -> tuple[Holder, ...]:
    """Return the other processes that have a file of the table open or mapped, by process id.

    Empty where there is no /proc; the files of another user's process may not be visible.
    """
    files = _files_of(table)
    pids: list[int] = []
    with suppress(OSError):
        pids = sorted(int(entry.name) for entry in processes.iterdir() if entry.name.isdecimal())
    return tuple(
        Holder(pid=pid, command=_command(processes / str(pid)))
        for pid in pids
        if pid != os.getpid() and any(files.has(*each) for each in _open_files(processes / str(pid)))
    )


def _files_of(table: str) -> _TableFiles:
    directories = [Path(os.path.realpath(table))]
    identities = set()
    with suppress(OSError):
        # A partition may be a link to a directory elsewhere.
        directories += [Path(os.path.realpath(entry)) for entry in directories[0].iterdir() if entry.is_dir()]
    for directory in directories:
        with suppress(OSError):
            for entry in directory.iterdir():
                with suppress(OSError):
                    status = entry.stat()
                    identities.add((status.st_dev, status.st_ino))
    return _TableFiles(
        prefixes=tuple(f"{directory}{os.sep}" for directory in directories), identities=frozenset(identities)
    )


def _open_files(process: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield path and (device, inode) of all that the process has open or mapped, as far as visible."""
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                status = descriptor.stat()
                yield str(descriptor.readlink()), (status.st_dev, status.st_ino)
    with suppress(OSError):
        for line in (process / "maps").read_bytes().split(b"\n"):
            # Range, permissions, offset, device as major:minor in hex, inode, and a path in which only \n is escaped.
            fields = os.fsdecode(line).split(maxsplit=5)
            if len(fields) == 6:
                major, minor = (int(number, 16) for number in fields[3].split(":"))
                yield fields[5].replace("\\012", "\n"), (os.makedev(major, minor), int(fields[4]))


def _command(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text(errors="backslashreplace").strip()
    return "unknown"
