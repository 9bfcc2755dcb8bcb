"""The operating-system storage, and a file of its own, for the tests of the seam."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tornproof.impl.storage.interface import File, OpenMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage


@pytest.fixture
def storage() -> OperatingSystemStorage:
    return OperatingSystemStorage()


@pytest.fixture
def file(storage: OperatingSystemStorage) -> Iterator[File]:
    with storage.open_for_writing("file", OpenMode.NEW) as opened:
        opened.pwrite(bytes(range(100)), 0)
        yield opened


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
