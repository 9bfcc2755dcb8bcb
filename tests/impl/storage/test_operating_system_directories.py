"""What the operating system's storage does with names and directories."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import descriptor_count

from tornproof.impl.errors import FileMissingError, StorageError
from tornproof.impl.storage.interface import EntryKind, File, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage

pytestmark = pytest.mark.usefixtures("empty_directory")


def test_link_and_unlink_change_a_symbolic_link_and_not_its_target(storage: OperatingSystemStorage, file: File) -> None:
    Path("symbolic").symlink_to("file")
    storage.link("symbolic", "copy")
    assert Path("copy").is_symlink()
    storage.unlink("symbolic")
    assert storage.listdir(".") == ("copy", "file")


def test_unlink_removes_a_name_and_rejects_what_has_none(storage: OperatingSystemStorage, file: File) -> None:
    storage.unlink("file")
    assert file.pread(1, 99) == b"c"
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.unlink("file")
    storage.mkdir("directory")
    with pytest.raises(StorageError):
        storage.unlink("directory")
    assert storage.kind("directory") is EntryKind.DIRECTORY


def test_sync_directory_syncs_that_directory_and_rejects_files(
    storage: OperatingSystemStorage, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.mkdir("directory")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    before_count = descriptor_count()
    storage.sync_directory("directory")
    assert synced == [Path("directory").stat().st_ino]
    with pytest.raises(StorageError, match=StorageReason.NOT_A_DIRECTORY):
        storage.sync_directory("file")
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.sync_directory("nowhere")
    assert descriptor_count() == before_count


@pytest.mark.parametrize("path", ["null\0byte", "surrogate\ud800"])
def test_unusable_names_are_rejected_by_every_call(storage: OperatingSystemStorage, file: File, path: str) -> None:
    calls: tuple[Callable[[str], object], ...] = (
        storage.open_for_writing,
        storage.mkdir,
        storage.rmdir,
        storage.unlink,
        storage.sync_directory,
        lambda unusable: storage.rename("file", unusable),
        lambda unusable: storage.link(unusable, "file"),
    )
    for call in calls:
        with pytest.raises(StorageError, match=StorageReason.NAME_UNUSABLE):
            call(path)
