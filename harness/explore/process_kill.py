"""A storage that ends its own process by SIGKILL at a chosen place of the writer's work, also inside of a write."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.disk.intercept import STEPS, Answer, Call, CallKind, InterceptedStorage
from impl.partition import DATA_FILE, PM_FILE
from impl.storage import File, Storage
from impl.transaction import TXN_FILE

COMMIT, RECOVERY, PURGE = "commit", "recovery", "purge"
APPEND_DATA, APPEND_PM, PATCH_HEADER = "append data", "append pm", "patch header"
STORE_VERSION, REMOVE_DIRECTORY = "store version", "remove directory"
_COMMIT_PLACES = (
    "make directory",
    APPEND_DATA,
    "sync data",
    APPEND_PM,
    "sync pm",
    PATCH_HEADER,
    "sync header",
    "sync partition directory",
    "sync table directory",
    "store record",
    "sync record",
    STORE_VERSION,
    "sync version",
)
PLACES = (
    *(f"{COMMIT}: {place}" for place in _COMMIT_PLACES),
    *(f"{RECOVERY}: {place}" for place in (PATCH_HEADER, "sync header", STORE_VERSION, "sync version")),
    *(f"{RECOVERY}: {place}" for place in (APPEND_PM, "sync pm", "remove file", REMOVE_DIRECTORY)),
    *(f"{PURGE}: {place}" for place in ("remove file", REMOVE_DIRECTORY, "sync table directory")),
)
"""Where a writer can be killed; the first ones are the actions of a commit."""
COMMIT_PLACES = PLACES[: len(_COMMIT_PLACES)]
_BY_FILE = {
    (CallKind.PWRITE, DATA_FILE): APPEND_DATA,
    (CallKind.FDATASYNC, DATA_FILE): "sync data",
    (CallKind.PWRITE, PM_FILE): APPEND_PM,
    (CallKind.FDATASYNC, PM_FILE): "sync pm",
    (CallKind.STORE, PM_FILE): PATCH_HEADER,
    (CallKind.MSYNC, PM_FILE): "sync header",
}
_BY_KIND = {
    CallKind.MKDIR: "make directory",
    CallKind.UNLINK: "remove file",
    CallKind.RMDIR: REMOVE_DIRECTORY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Doom:
    """The end of a life: before the `occurrence`-th (from 1) step at a place; a write there still does a part."""

    place: str
    occurrence: int
    written_part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Where a life ended by its doom, and whether a commit had published a generation that no version named yet."""

    place: str
    is_published: bool


class DeadlyStorage(InterceptedStorage):
    """Counts the steps at each place; `stage` is what the writer is at, and part of the place's name."""

    def __init__(self, inner: Storage, table_path: str, doom: Doom | None, testament: Path) -> None:
        """Say in the file `testament` where the doom came."""
        super().__init__(inner)
        self.stage = RECOVERY
        self.counts: Counter[str] = Counter()
        self._table_path = table_path
        self._doom = doom
        self._testament = testament
        self._is_published = False
        self._is_version_stored = False

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Let the call happen, or die before it."""
        self._pass(call, lambda doom: None)
        return run()

    def intercept_write(self, file: File, call: Call, run: Callable[[], None]) -> None:
        """Let the write happen, or die after a part of it."""

        def write_part(doom: Doom) -> None:
            part = call.content[: int(len(call.content) * doom.written_part)]
            if part:
                file.pwrite(part, call.offset_bytes)

        self._pass(call, write_part)
        run()

    def _pass(self, call: Call, last_deed: Callable[[Doom], None]) -> None:
        """Die at a call if it is the doom's, else count it."""
        step = self._step(call) if call.kind in STEPS else ""
        if not step:
            return
        place = f"{self.stage}: {step}"
        self.counts[place] += 1
        doom = self._doom
        if doom is not None and place == doom.place and self.counts[place] == doom.occurrence:
            last_deed(doom)
            self._testament.write_text(json.dumps([place, self._is_published]))
            os.kill(os.getpid(), signal.SIGKILL)
        if step in ("store record", STORE_VERSION):
            self._is_version_stored = step == STORE_VERSION
        if place in (f"{COMMIT}: {PATCH_HEADER}", f"{COMMIT}: {STORE_VERSION}"):
            self._is_published = step == PATCH_HEADER

    def _step(self, call: Call) -> str:
        directory, _, name = call.path.rpartition("/")
        if call.kind is CallKind.SYNC_DIRECTORY:
            return "sync table directory" if call.path == self._table_path else "sync partition directory"
        if name == TXN_FILE and directory == self._table_path:
            if call.kind is CallKind.STORE:
                return "store record" if call.offset_bytes else STORE_VERSION
            if call.kind is CallKind.MSYNC:
                return "sync version" if self._is_version_stored else "sync record"
        return _BY_FILE.get((call.kind, name)) or _BY_KIND.get(call.kind, "")


def read_testament(path: Path) -> Death | None:
    """Return where a life ended by its doom, or None where it ended otherwise."""
    if not path.exists():
        return None
    place, is_published = json.loads(path.read_text())
    return Death(place=place, is_published=is_published)
