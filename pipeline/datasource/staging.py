"""Where the tasks of a writing job leave rows: a folder, and beside it directories of prepared partitions.

All names begin with that of the folder, which names the process of the driver: what a killed one left is removed by the
next job. Readers, servers and recovery ignore such names.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

STAGING_PREFIX = "_staging-"
OWNER_FILE = "owner.json"
INTENT_FILE = "commit.json"
BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")
DAYS_KEPT = 7
"""Of a driver on another machine nobody here knows whether it lives: its folder is left alone for so long."""
DAY_SECONDS = 86_400


def new_folder(parent: str) -> Path:
    """Return a folder of this driver in a directory that all machines see, not made yet."""
    return Path(parent, STAGING_PREFIX + secrets.token_hex(8))


def make_folder(folder: Path, owner: dict[str, Any]) -> None:
    """Make the folder of a job, with its owner, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / OWNER_FILE
    if not path.exists():
        path.write_text(json.dumps(owner))


def remove_folder(folder: Path) -> None:
    """Remove a job's folder and what is prepared beside it; a task that is still running then fails to write."""
    gone = folder.with_name(f"{folder.name}.gone")
    with suppress(OSError):
        folder.rename(gone)
    for path in folder.parent.glob(f"{folder.name}.*"):
        shutil.rmtree(path, ignore_errors=True)


def sweep(parent: Path, table: str, version: Callable[[], int]) -> None:
    """Remove what killed drivers left in a directory, except rows of a commit of which nobody knows whether it landed.

    `version` returns the committed version of the table at `table`; of others that share the directory, their own next
    job decides.
    """
    for name in {path.name.partition(".")[0] for path in parent.glob(f"{STAGING_PREFIX}*")}:
        folder = parent / name
        if not folder.exists() or (_is_left(folder) and not _may_have_landed(folder, table, version)):
            remove_folder(folder)


def note_intent(folder: Path, table: str, version: int) -> None:
    """Note that a commit of a job begins, and the table's version before it."""
    (folder / INTENT_FILE).write_text(json.dumps({"version": version, "table": _place_of(table, folder)}))


def forget_intent(folder: Path) -> None:
    """Remove the note of a commit that is known not to have come about."""
    (folder / INTENT_FILE).unlink()


def intended_version(folder: Path) -> int | None:
    """Return the version before the commit of a job, or None if no commit was begun."""
    intent = _intent(folder)
    return None if intent is None else int(intent["version"])


def _may_have_landed(folder: Path, table: str, version: Callable[[], int]) -> bool:
    intent = _intent(folder)
    if intent is None:
        return False
    # Earlier releases noted no table: it is known if the folder is in it.
    is_other = intent.get("table", os.curdir) != _place_of(table, folder)
    return bool(is_other or intent["version"] != version())


def _intent(folder: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads((folder / INTENT_FILE).read_text()))
    except (FileNotFoundError, ValueError):
        # Written before the commit's first action, so a truncated file means that there was none.
        return None


def _place_of(table: str, folder: Path) -> str:
    """Return the path from where a job's folder is, so that both can be moved, and seen at another path, together."""
    return os.path.relpath(os.path.realpath(table), os.path.realpath(folder.parent))


def this_driver() -> dict[str, Any]:
    """Return what tells the driver of this helper process from all other processes of this and other machines."""
    process = next((number for number in _ancestors() if _stat(number)[:1] == ["(java)"]), os.getppid())
    return {
        "host": socket.gethostname(),
        "boot": _boot(),
        "namespace": _namespace(),
        "process": process,
        "started": _started(process),
    }


def _is_left(folder: Path) -> bool:
    """Return whether the driver of a folder has ended, or has left it alone for days."""
    try:
        owner = json.loads((folder / OWNER_FILE).read_text())
        if owner["host"] == socket.gethostname() and owner["boot"] is not None:
            if owner["boot"] != _boot():
                return True
            # In another container of this machine a number may mean no process, or another one.
            if owner["namespace"] == _namespace() is not None:
                return bool(owner["started"] != _started(owner["process"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with suppress(OSError):
        newest = max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
        return newest < time.time() - DAYS_KEPT * DAY_SECONDS
    return False


def _ancestors() -> Iterator[int]:
    process = os.getpid()
    while len(fields := _stat(process)) > 2 and int(fields[2]) > 1:
        process = int(fields[2])
        yield process


def _namespace() -> str | None:
    """Return in which namespace numbers of processes are meant, None where that is not known."""
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return None


def _started(process: int) -> str | None:
    """Return when a process began, in ticks since the boot, or None if there is none."""
    fields = _stat(process)
    return fields[20] if len(fields) > 20 else None


def _stat(process: int) -> list[str]:
    """Return the name in parentheses, the state, the parent and the other fields of Linux; else nothing."""
    with suppress(OSError):
        name, _, fields = Path(f"/proc/{process}/stat").read_text().partition("(")[2].rpartition(")")
        return [f"({name})", *fields.split()]
    return []


def _boot() -> str | None:
    with suppress(OSError):
        return BOOT_FILE.read_text().strip()
    return None
