"""Tables whose creation a power cut ends are not there, or whole; other creations are noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.created_tables import created_tables
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.storage.interface import OpenMode, Storage


def without_truncation(_: Callable[..., None]) -> Callable[..., None]:
    def write(storage: Storage, path: str, content: bytes) -> None:
        with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
            file.pwrite(content, 0)
            file.fsync()

    return write


@pytest.mark.parametrize(("name", "broken"), [("UNNAMED_TXN_FILE", lambda _: "_txn"), ("_write", without_truncation)])
def test_other_creations_are_findings_that_replay(name: str, broken: Callable[..., Any]) -> None:
    first_that_replays("created", wrapped(f"tornproof.impl.table.create:{name}", broken))


def test_a_table_is_created_on_any_storage() -> None:
    for each in created_tables():
        assert each.create(MemoryStorage.of(DiskImage({}, frozenset({"home"})))).metadata
