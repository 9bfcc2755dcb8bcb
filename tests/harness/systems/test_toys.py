"""Toys of which explorers take for granted what they do."""

import pytest

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.toy import HidesAtItsEnd
from tornproof.harness.systems.toy_losses import FORBIDS_COMMITS
from tornproof.harness.systems.toy_specified import Letters, Specified
from tornproof.impl.errors import CorruptError
from tornproof.impl.storage.interface import OpenMode


def test_zeros_are_letters_too() -> None:
    storage, toy = MemoryStorage(), Specified()
    toy.create(storage, "toy")
    expected = Letters().content(storage, "toy")
    with toy.open_writer(storage, "toy") as writer:
        for operation in (b"a", b"\0\0", b"b\0"):
            writer.commit(operation)
            expected = Letters().after(expected, operation)
            assert Letters().content(storage, "toy") == expected
    assert len(expected.partitions[0][1]) == 5


def test_a_commit_that_is_forbidden_leaves_nothing_behind() -> None:
    """Only that it is rejected is wrong with it."""
    storage, toy = MemoryStorage(), FORBIDS_COMMITS
    toy.create(storage, "toy")
    with toy.open_writer(storage, "toy") as writer:
        writer.commit(b"a")
        before = toy.read(storage, "toy")
        storage.open_for_writing("toy/closed", OpenMode.NEW).close()
        with pytest.raises(CorruptError, match="closed"):
            writer.commit(b"b")
    assert toy.read(storage, "toy") == before == b"a"


def test_a_toy_that_hides_its_letters_does_so_after_each_session_without_a_commit() -> None:
    storage, toy = MemoryStorage(), HidesAtItsEnd()
    toy.create(storage, "toy")
    with toy.open_writer(storage, "toy") as writer:
        writer.commit(b"a")
    assert toy.read(storage, "toy") == b"a"
    for _ in range(3):
        with toy.open_writer(storage, "toy"):
            assert toy.read(storage, "toy") == b"a"
        assert toy.read(storage, "toy") == b""
