"""A writer that is to die at a place dies there, inside of a write too, and tells where."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NoReturn

import pytest

from harness.disk.locks import Killed
from harness.disk.memory import MemoryStorage
from harness.explore.process_kill import COMMIT, DeadlyStorage, Death, Doom, read_testament
from impl.storage import OpenMode


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals by which the process would have ended itself, each an exception instead."""
    signals: list[int] = []

    def kill(process: int, number: int) -> NoReturn:
        signals.append(number)
        raise Killed

    monkeypatch.setattr(os, "kill", kill)
    return signals


def deadly(tmp_path: Path, place: str, occurrence: int = 1, written_part: float = 0.0) -> DeadlyStorage:
    inner = MemoryStorage()
    inner.mkdir("t")
    doom = Doom(place=place, occurrence=occurrence, written_part=written_part)
    storage = DeadlyStorage(inner, "t", doom, tmp_path / "testament")
    storage.stage = COMMIT
    return storage


@pytest.mark.parametrize(("part", "written"), [(0.0, b""), (0.5, b"ab"), (1.0, b"abcd")])
def test_a_write_at_the_chosen_place_is_cut_off(part: float, written: bytes, deaths: list[int], tmp_path: Path) -> None:
    storage = deadly(tmp_path, "commit: append data", occurrence=2, written_part=part)
    with storage.open_for_writing("t/data.parquet", OpenMode.NEW) as file:
        file.pwrite(b"whole", 0)
        with pytest.raises(Killed):
            file.pwrite(b"abcd", 5)
    with storage.open_for_reading("t/data.parquet") as file:
        assert file.pread(100, 0) == b"whole" + written
    assert deaths == [signal.SIGKILL]
    assert read_testament(tmp_path / "testament") == Death(place="commit: append data", is_published=False)


@pytest.mark.parametrize(
    ("place", "is_published"),
    [("sync record", True), ("store version", True), ("sync version", False)],
)
def test_what_is_published_before_the_version_is_told(
    place: str, is_published: bool, deaths: list[int], tmp_path: Path
) -> None:
    storage = deadly(tmp_path, f"commit: {place}")
    for name in ("_pm", "_txn"):
        with storage.open_for_writing(f"t/{name}", OpenMode.NEW) as file:
            file.truncate(64)
    with storage.open_for_writing("t/_pm") as pm, storage.open_for_writing("t/_txn") as txn:
        header, record = pm.map(8), txn.map(64)
        header.store_u64(0, 5)
        record.store_u64(8, 1)
        with pytest.raises(Killed):
            record.msync()
            record.store_u64(0, 1)
            record.msync()
    assert read_testament(tmp_path / "testament") == Death(place=f"commit: {place}", is_published=is_published)
    assert len(deaths) == 1


def test_without_its_doom_a_life_leaves_no_testament(deaths: list[int], tmp_path: Path) -> None:
    storage = deadly(tmp_path, "purge: remove file")
    storage.mkdir("t/a")
    assert (deaths, read_testament(tmp_path / "testament")) == ([], None)
    assert storage.counts["commit: make directory"] == 1
