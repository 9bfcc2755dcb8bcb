"""Planted defects of migration by name: each is a patch of one location."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tornproof.harness.mutation.fault import Wrap, nothing
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.impl.storage.interface import OpenMode, Storage

IN_PLACE = "_pm is written under its name"
FILE_NOT_SYNCED = "the new _pm is not synced"
NAME_NOT_SYNCED = "the partition's directory is not synced"
FOUND_NAME_NOT_SYNCED = "a run that finds a partition migrated does not sync its directory"
KEPT_NOT_CLEARED = "what an interrupted run was still keeping of an old _pm stays in the way"
SOUND_REPLACED = "a sound _pm is made anew, without its history"
END_OF_FILE = "the size of data.parquet is taken for the token"
_TABLE, _PARTITION = "tornproof.impl.migrate.table_migration", "tornproof.impl.migrate.partition_migration"


class Without(InterceptedStorage):
    """A storage in which calls of one kind do nothing."""

    def __init__(self, inner: Storage, left_out: CallKind) -> None:
        """Leave out calls of this kind."""
        super().__init__(inner)
        self._left_out = left_out

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        """Run a call of any other kind."""
        return None if call.kind is self._left_out else run()  # type: ignore[return-value]


def without(left_out: CallKind) -> Callable[[Any], Any]:
    """Leave out a kind of call."""
    return lambda publish: lambda storage, path, content: publish(Without(storage, left_out), path, content)


def in_place(_: object) -> Callable[[Storage, str, bytes], None]:
    """Overwrite the file that has the name."""

    def publish(storage: Storage, path: str, content: bytes) -> None:
        with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
            file.truncate(0)
            file.pwrite(content, 0)
            file.fsync()
        storage.sync_directory(path.rpartition("/")[0])

    return publish


def to_the_end_of_the_file(convert: Callable[..., bytes]) -> Callable[..., bytes]:
    """Take the size of data.parquet for its committed end."""
    return lambda read, *, size_bytes, physical_size_bytes, **rest: convert(
        read, size_bytes=physical_size_bytes, physical_size_bytes=physical_size_bytes, **rest
    )


MIGRATION: Mapping[str, tuple[str, Wrap]] = MappingProxyType(
    {
        IN_PLACE: (f"{_TABLE}:publish_file", in_place),
        FILE_NOT_SYNCED: (f"{_TABLE}:publish_file", without(CallKind.FSYNC)),
        NAME_NOT_SYNCED: (f"{_TABLE}:publish_file", without(CallKind.SYNC_DIRECTORY)),
        FOUND_NAME_NOT_SYNCED: (f"{_TABLE}:sync_name", nothing),
        KEPT_NOT_CLEARED: (f"{_TABLE}:unfinished_files", lambda _: lambda *arguments: []),
        SOUND_REPLACED: (f"{_PARTITION}:problems_of_existing", nothing),
        END_OF_FILE: (f"{_PARTITION}:convert", to_the_end_of_the_file),
    }
)
"""The location of each, and what wraps it."""
