"""Decoders with a bug each: what a run over them must find shows that it can find one."""

import mmap
from collections.abc import Callable, Mapping

HOARD_BYTES = 350_000_000


def leaks_index_error(data: bytes) -> None:
    """Read an offset that a short input does not have."""
    if data[:1] == b"I":
        data[len(data)]


def hangs(data: bytes) -> None:
    """Never come back from some inputs."""
    while data[:1] == b"H":
        pass


def hoards_memory(data: bytes) -> None:
    """Allocate and write memory out of proportion to the input."""
    if data[:1] == b"M":
        hoard = bytearray(HOARD_BYTES)
        hoard[:: mmap.PAGESIZE] = b"x" * len(hoard[:: mmap.PAGESIZE])


PLANTED: Mapping[str, Callable[[bytes], None]] = {
    "planted_index_error": leaks_index_error,
    "planted_hang": hangs,
    "planted_hoard": hoards_memory,
}
SEEDS = [b"Iabc", b"Habc", b"Mabc", b"abc"]
