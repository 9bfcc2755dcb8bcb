"""Toys of which explorers take for granted what they do."""

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.toy_specified import Letters, Specified


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
