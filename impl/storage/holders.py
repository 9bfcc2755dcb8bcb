"""Which processes have files open, as Linux shows it in /proc.

Other systems show nothing, and the processes of other users may not be visible.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

PROCESSES = Path("/proc")


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has a file of a table open."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid})"


class _TableFiles(msgspec.Struct, frozen=True, kw_only=True):
    """How the kernel may name a table's files: paths below a real directory, or (device, inode) in other namespaces."""

    prefixes: tuple[str, ...]
    identities: frozenset[tuple[int, int]]

    def has(self, path: str, identity: tuple[int, int]) -> bool:
        return path.startswith(self.prefixes) or identity in self.identities


def mappers_of(file: str, *, processes: Path = PROCESSES) -> tuple[Holder, ...]:
    """Return the other processes that have a file mapped, by process id."""
    real = os.path.realpath(file)
    try:
        status = os.stat(real)  # noqa: PTH116
    except OSError:
        return ()
    own = status.st_dev, status.st_ino
    name = os.fsencode(os.path.basename(real))  # noqa: PTH119
    return tuple(
        Holder(pid=pid, command=_command(processes / str(pid)))
        for pid in _other_pids(processes)
        if any(path == real or identity == own for path, identity in _mapped_files(processes / str(pid), name))
    )


def holders_of(table: str, *, processes: Path = PROCESSES) -> tuple[Holder, ...]:
    """Return the other processes that have a file of the table open or mapped, by process id.

    Empty where there is no /proc; the files of another user's process may not be visible.
    """
    return OpenFiles(processes).holders_of(table)


class OpenFiles:
    """What all other processes have open or mapped at one time, to be asked about many tables."""

    def __init__(self, processes: Path = PROCESSES) -> None:
        """Look at them."""
        self._by_holder = {
            Holder(pid=pid, command=_command(processes / str(pid))): set(_open_files(processes / str(pid)))
            for pid in _other_pids(processes)
        }

    def holders_of(self, table: str) -> tuple[Holder, ...]:
        """Return the processes that have a file of the table open or mapped, by process id."""
        files = _files_of(table)
        return tuple(holder for holder, opened in self._by_holder.items() if any(files.has(*each) for each in opened))


def _other_pids(processes: Path) -> list[int]:
    with suppress(OSError):
        pids = sorted(int(entry.name) for entry in processes.iterdir() if entry.name.isdecimal())
        return [pid for pid in pids if pid != os.getpid()]
    return []


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
    yield from _mapped_files(process)


def _mapped_files(process: Path, name: bytes = b"") -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the same of all files with `name` in their path that the process has mapped."""
    with suppress(OSError):
        for line in (process / "maps").read_bytes().split(b"\n"):
            if name not in line:
                continue
            # Range, permissions, offset, device as major:minor in hex, inode, and a path in which only \n is escaped.
            fields = os.fsdecode(line).split(maxsplit=5)
            if len(fields) == 6:
                major, minor = (int(number, 16) for number in fields[3].split(":"))
                yield fields[5].replace("\\012", "\n"), (os.makedev(major, minor), int(fields[4]))


def _command(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text(errors="backslashreplace").strip()
    return "unknown"
