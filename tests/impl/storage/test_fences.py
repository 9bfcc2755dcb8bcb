"""Fences, syncs and the order of bytes on machines other than the one that runs this."""

import errno
import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tornproof.impl.errors import StorageError
from tornproof.impl.storage import fences, operating_system
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage

Patch = pytest.MonkeyPatch


def use(fence: Callable[[], None] | None, patch: Patch) -> None:
    patch.setattr(operating_system, "fence_of_this_machine", lambda: fence)


def test_x86_needs_no_fence_and_a_machine_that_linux_has_no_barrier_for_has_none(monkeypatch: Patch) -> None:
    assert fences.fence_of("x86_64") is fences.fence_of("AMD64") is fences.nothing_to_order
    assert fences.fence_of("armv7l") is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert fences.fence_of("arm64") is None


@pytest.mark.skipif(sys.platform != "linux", reason="membarrier is a call of Linux")
def test_the_barrier_of_linux_is_there_and_fails_where_the_system_does(monkeypatch: Patch) -> None:
    import ctypes
    import platform

    barrier = fences.membarrier_of(platform.machine())
    assert barrier is not None
    barrier()

    called: list[tuple[int, ...]] = []

    class OldSystem:
        @staticmethod
        def syscall(*arguments: int) -> int:
            called.append(arguments)
            return 1 if len(called) == 1 else -1

    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: OldSystem)
    fails = fences.membarrier_of("aarch64")
    assert fails is not None and called == [(283, 0, 0, 0)]
    with pytest.raises(OSError):
        fails()
    assert called[1] == (283, 1, 0, 0)
    # Asked again, this system says -1: it does not know the call.
    assert fences.membarrier_of("aarch64") is None


def test_each_fence_of_the_storage_is_one_of_the_machine(monkeypatch: Patch) -> None:
    calls: list[str] = []
    use(lambda: calls.append("fence"), monkeypatch)
    storage = OperatingSystemStorage()
    storage.load_fence()
    assert calls == ["fence"]
    storage.store_fence()
    assert calls == ["fence", "fence"]


def test_without_a_fence_nothing_is_opened_for_writing_and_all_can_be_read(tmp_path: Path, monkeypatch: Patch) -> None:
    use(None, monkeypatch)
    storage, path = OperatingSystemStorage(), tmp_path / "file"
    path.write_bytes(b"12")
    with pytest.raises(StorageError, match="nothing that orders them"):
        storage.open_for_writing(str(path))
    with storage.open_for_reading(str(path)) as file:
        storage.load_fence()
        assert file.pread(2, 0) == b"12"


def test_a_big_endian_machine_opens_nothing(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(StorageError, match="big-endian"):
        OperatingSystemStorage().open_for_reading(str(tmp_path / "file"))


@pytest.mark.parametrize("is_there", [True, False])
def test_macos_empties_the_cache_of_the_disk_where_the_file_system_can(
    tmp_path: Path, is_there: bool, monkeypatch: Patch
) -> None:
    calls: list[str] = []

    def control(descriptor: int, command: int) -> None:
        calls.append("full")
        if not is_there:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    with OperatingSystemStorage().open_for_writing(str(tmp_path / "new"), OpenMode.NEW) as file:
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        monkeypatch.setattr(fcntl, "fcntl", control)
        monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
        file.fsync()
        file.fdatasync()
        OperatingSystemStorage().sync_directory(str(tmp_path))
        monkeypatch.undo()
    assert calls == ["full"] * 3 if is_there else calls == ["full", "fsync"] * 3
