"""Another process acts once, before the first call at which it may."""

from __future__ import annotations

from tornproof.harness.simulator.filesystem.beside import BesideStorage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.storage.interface import OpenMode


def test_another_process_acts_before_the_first_call_at_which_it_may() -> None:
    disk, asked = MemoryStorage(), list[int]()

    def act() -> bool:
        asked.append(len(storage.calls))
        return len(asked) == 2

    storage = BesideStorage(disk, act, first=1, may_act=lambda call: call.kind is CallKind.PWRITE)
    with storage.open_for_writing("file", OpenMode.NEW) as file:
        for number in range(4):
            file.pwrite(b"x", number)
    assert (asked, storage.acted_at) == ([2, 3], 2)
    assert disk.image().files["file"] == b"xxxx"
