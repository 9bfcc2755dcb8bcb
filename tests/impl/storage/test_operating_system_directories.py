"""What the operating system's storage does with names and directories."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import descriptor_count

from tornproof.impl.errors import FileMissingError, StorageError
from tornproof.impl.storage.interface import EntryKind, File, OpenMode, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage

pytestmark = pytest.mark.usefixtures("empty_directory")


def test_directories_are_made_and_removed(storage: OperatingSystemStorage) -> None:
    storage.mkdir("directory")
    assert storage.kind("directory") is EntryKind.DIRECTORY
    with pytest.raises(StorageError, match=StorageReason.ALREADY_THERE):
        storage.mkdir("directory")
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.mkdir("nowhere/directory")
    storage.open_for_writing("directory/file", OpenMode.NEW).close()
    with pytest.raises(StorageError, match=StorageReason.NOT_EMPTY):
        storage.rmdir("directory")
    with pytest.raises(StorageError, match=StorageReason.NOT_A_DIRECTORY):
        storage.rmdir("directory/file")
    storage.unlink("directory/file")
    storage.rmdir("directory")
    assert storage.kind("directory") is EntryKind.MISSING
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.rmdir("directory")


def test_rename_moves_and_replaces_while_open_files_stay(storage: OperatingSystemStorage, file: File) -> None:
    with storage.open_for_writing("target", OpenMode.NEW) as target:
        target.pwrite(b"old", 0)
        storage.rename("file", "target")
        assert storage.listdir(".") == ("target",)
        assert target.pread(3, 0) == b"old"
    with storage.open_for_reading("target") as moved:
        assert moved.size_bytes() == 100
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.rename("file", "elsewhere")
    with pytest.raises(FileMissingError, match=r"^target: cannot rename to nowhere/target: it is not there$"):
        storage.rename("target", "nowhere/target")


def test_link_gives_a_second_name_to_one_file_and_never_replaces(storage: OperatingSystemStorage, file: File) -> None:
    storage.link("file", "second")
    file.pwrite(b"both", 0)
    storage.unlink("file")
    with storage.open_for_reading("second") as second:
        assert second.pread(4, 0) == b"both"
    storage.open_for_writing("file", OpenMode.NEW).close()
    with pytest.raises(StorageError, match=StorageReason.ALREADY_THERE):
        storage.link("file", "second")
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.link("third", "fourth")


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
