"""`_txn` read through a mapping, word by word, as the server's readers load it beside a writer.

Only for files that are never truncated: a load behind the end of the file is a bus error, so tables of servers up to
9.4.3 are read by `safe_read`. Each fence and the final check is a function of its own, so that each can be tested by
removing it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from tornproof.impl.errors import BusyError, CorruptError
from tornproof.impl.layout import txn as layout
from tornproof.impl.storage.interface import Mapping, Storage
from tornproof.impl.txn.transaction import (
    AREA_LIMIT_BYTES,
    HEADER_BYTES,
    RECORD_LIMIT_BYTES,
    SPIN_PAUSE_SECONDS,
    SPIN_SECONDS,
    TXN_FILE,
    Area,
    Transaction,
    area_of,
    check_area,
    check_reach,
    decode_transaction,
)

SLOT_WORD_BYTES = 4
SLOT_BYTES = 3 * SLOT_WORD_BYTES
WORD_BYTES = 8
_BASE = layout.BaseHeader.layout


class MappedTransactions(AbstractContextManager["MappedTransactions"]):
    """A `_txn` that stays mapped between reads; leaving its `with` block unmaps it."""

    def __init__(self, storage: Storage, path: str, *, file: str = TXN_FILE) -> None:
        """Open and map the file, called `file` in errors; raises CorruptError, StorageError."""
        self._storage = storage
        self._file = file
        self._handle = storage.open_for_reading(path)
        self._mapping: Mapping | None = None
        try:
            self._mapped_bytes = self._file_bytes()
            if self._mapped_bytes < HEADER_BYTES:
                raise CorruptError(file, _BASE.title, 0, f"{HEADER_BYTES} bytes", f"{self._mapped_bytes} bytes")
            self._mapping = self._handle.map(self._mapped_bytes)
        except BaseException:
            self.close()
            raise

    def read(self) -> Transaction:
        """Return the committed version, whose number must be the same before and after (docs/format.md).

        Retries for at most a second of the storage's clock, then raises BusyError. Raises CorruptError,
        UnsupportedError and StorageError; a record is only decoded after the final check, which ensures that it is not
        torn.
        """
        deadline = self._storage.monotonic_seconds() + SPIN_SECONDS
        while True:
            version = load_version(self._live)
            fence_after_version(self._storage)
            head = load_slot(self._live, version)
            area = area_of(layout.BaseHeader.unpack(head, 0, file=self._file), version)
            words = load_area(self._live, area) if self._reaches(area) else b""
            fence_before_final_look(self._storage)
            if is_committed_still(self._live, version):
                return self._decode(head, area, words, version)
            if self._storage.monotonic_seconds() > deadline:
                raise BusyError(f"{self._file}: the version kept changing for {SPIN_SECONDS:g} s; try again")
            self._storage.sleep_seconds(SPIN_PAUSE_SECONDS)

    def close(self) -> None:
        """Close the mapping and the file; closing twice is harmless."""
        if self._mapping is not None:
            self._mapping.unmap()
            self._mapping = None
        self._handle.close()

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    @property
    def _live(self) -> Mapping:
        assert self._mapping is not None, "it is closed"
        return self._mapping

    def _file_bytes(self) -> int:
        return min(self._handle.size_bytes(), AREA_LIMIT_BYTES)

    def _reaches(self, area: Area) -> bool:
        """Map more if an area of a valid size needs it, and return whether all of it can be loaded."""
        try:
            check_area(area, AREA_LIMIT_BYTES, file=self._file)
        except CorruptError:
            return False
        if area.size_bytes > RECORD_LIMIT_BYTES:
            return False
        end_bytes = area.record_offset + area.size_bytes
        if end_bytes > self._mapped_bytes:
            self._map_again()
        return end_bytes <= self._mapped_bytes

    def _map_again(self) -> None:
        size_bytes = self._file_bytes()
        if size_bytes > self._mapped_bytes:
            grown = self._handle.map(size_bytes)
            self._live.unmap()
            self._mapping, self._mapped_bytes = grown, size_bytes

    def _decode(self, head: bytes, area: Area, words: bytes, version: int) -> Transaction:
        if version < 0:
            return decode_transaction(head, file=self._file, version=version)
        end_bytes = area.record_offset + area.size_bytes
        check_reach(area, self._mapped_bytes, file=self._file)
        check_area(area, self._mapped_bytes, file=self._file)
        content = head.ljust(area.record_offset, b"\0") + words
        return decode_transaction(content.ljust(end_bytes, b"\0"), file=self._file, version=version)


def load_version(mapping: Mapping) -> int:
    """Return VERSION, which is signed."""
    return int.from_bytes(_word(mapping.load_u64(0), WORD_BYTES), "little", signed=True)


def fence_after_version(storage: Storage) -> None:
    """Order the loads of slot and area behind that of the version, because a commit stores them before it."""
    storage.load_fence()


def load_slot(mapping: Mapping, version: int) -> bytes:
    """Return a base header with only the version and the slot that it selects."""
    start = _BASE.offset_of(f"{'ab'[version % 2]}_record_offset")
    slot = b"".join(
        _word(mapping.load_u32(offset_bytes), SLOT_WORD_BYTES)
        for offset_bytes in range(start, start + SLOT_BYTES, SLOT_WORD_BYTES)
    )
    head = version.to_bytes(WORD_BYTES, "little", signed=True).ljust(start, b"\0") + slot
    return head.ljust(HEADER_BYTES, b"\0")


def load_area(mapping: Mapping, area: Area) -> bytes:
    """Return the bytes of an aligned area inside the mapping, loaded in words of 8 bytes."""
    end_bytes = area.record_offset + area.size_bytes
    return b"".join(
        _word(mapping.load_u64(offset_bytes), WORD_BYTES)
        for offset_bytes in range(area.record_offset, end_bytes, WORD_BYTES)
    )


def fence_before_final_look(storage: Storage) -> None:
    """Order the final check behind the loads of the record: it then sees the version of any later commit they saw."""
    storage.load_fence()


def is_committed_still(mapping: Mapping, version: int) -> bool:
    """Load the version again: if it is unchanged, so is its area."""
    return load_version(mapping) == version


def _word(value: int, size_bytes: int) -> bytes:
    return value.to_bytes(size_bytes, "little")
