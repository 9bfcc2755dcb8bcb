"""Planted defects of migration: each a patch of one place, as those of `planted`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tornproof.harness.mutation.planted import Planted, patch
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.impl.storage.interface import OpenMode, Storage

_PUBLISH = "tornproof.impl.migrate.table_migration:publish_file"


class _Without(InterceptedStorage):
    """A storage on which calls of one kind do nothing."""

    def __init__(self, inner: Storage, left_out: CallKind) -> None:
        super().__init__(inner)
        self._left_out = left_out

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        return None if call.kind is self._left_out else run()  # type: ignore[return-value]


def without(left_out: CallKind) -> Callable[[Any], Any]:
    """Leave a kind of call out."""
    return lambda publish: lambda storage, path, content: publish(_Without(storage, left_out), path, content)


def in_place(_: object) -> Callable[[Storage, str, bytes], None]:
    """Write over whatever has the name."""

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


IN_PLACE = Planted(number=None, part="migration", text="_pm is written under its name", plant=patch(_PUBLISH, in_place))
FILE_NOT_SYNCED = Planted(
    number=None, part="migration", text="the new _pm is not synced", plant=patch(_PUBLISH, without(CallKind.FSYNC))
)
NAME_NOT_SYNCED = Planted(
    number=None,
    part="migration",
    text="the partition's directory is not synced",
    plant=patch(_PUBLISH, without(CallKind.SYNC_DIRECTORY)),
)
FOUND_NAME_NOT_SYNCED = Planted(
    number=None,
    part="migration",
    text="a run that finds a partition migrated does not sync its directory",
    plant=patch("tornproof.impl.migrate.table_migration:sync_name", lambda _: lambda storage, path: None),
)
KEPT_NOT_CLEARED = Planted(
    number=None,
    part="migration",
    text="what an interrupted run was still keeping of an old _pm stays in the way",
    plant=patch("tornproof.impl.migrate.table_migration:unfinished_files", lambda _: lambda *arguments: []),
)
SOUND_REPLACED = Planted(
    number=77,
    part="migration",
    text="a sound _pm is made anew, without its history",
    plant=patch("tornproof.impl.migrate.partition_migration:problems_of_existing", lambda _: lambda *arguments: None),
)
END_OF_FILE = Planted(
    number=78,
    part="migration",
    text="the size of data.parquet is taken for the token",
    plant=patch("tornproof.impl.migrate.partition_migration:convert", to_the_end_of_the_file),
)
MIGRATION = (
    IN_PLACE,
    FILE_NOT_SYNCED,
    NAME_NOT_SYNCED,
    FOUND_NAME_NOT_SYNCED,
    KEPT_NOT_CLEARED,
    SOUND_REPLACED,
    END_OF_FILE,
)
