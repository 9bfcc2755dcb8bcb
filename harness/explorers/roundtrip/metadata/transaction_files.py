"""Whether `_txn` is read as what docs/format.md says of its bytes, and rejected where it breaks one of its rules.

The files are made here with other numbers in every field, in both areas, and share nothing with what reads them.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.layout.txn import PARQUET_GENERATED
from tornproof.impl.txn.transaction import Transaction, decode_transaction, safe_read

PROPERTY = "`_txn` is read as what its bytes say, and rejected where it breaks a rule"
FILE, PATH = "_txn", "table/_txn"
HEADER = struct.Struct("<q3i12x3i20x")
RECORD = struct.Struct("<11q3i2q12si")
RECORD_NAMES = (
    *("txn", "transient_row_count", "fixed_row_count", "min_timestamp", "max_timestamp", "structure_version"),
    *("data_version", "partition_table_version", "column_version", "truncate_version", "seq_txn"),
    *("lag_checksum", "lag_txn_count", "lag_row_count", "lag_min_timestamp", "lag_max_timestamp"),
    *("left_over", "symbol_column_count"),
)
NO_TIMES = {"min_timestamp": (1 << 63) - 1, "max_timestamp": -(1 << 63)}
"""Of a table without rows."""
ENTRY, SYMBOL = struct.Struct("<qQqq"), struct.Struct("<2i")
FIRST_AREA = 64
ROW_BITS, SQUASH_BIT, GENERATED_BIT, PARQUET_BIT = 44, 44, 60, 61
RECORD_BYTES_MAX = 2 << 20
GARBAGE = 0xAB


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A partition as `_txn` has it; of the last one the row count here means nothing."""

    timestamp: int
    row_count: int
    flags: int = 0
    name_txn: int = -1
    token: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFile:
    """A `_txn`, in which each field has a number of its own; with an error and its field if it is wrong."""

    name: str
    version: int = 6
    area_offset: int = FIRST_AREA
    symbols: tuple[tuple[int, int], ...] = ((3, 4), (-1, 1 << 30))
    entries: tuple[Entry, ...] = ()
    transient_row_count: int = 77
    record: dict[str, Any] = field(default_factory=dict)
    header: dict[str, int] = field(default_factory=dict)
    stored_size: int | None = None
    less_bytes: int = 0
    error: type[ProblemError] | None = None
    field: str = ""
    offset_bytes: int | None = None

    @property
    def kind(self) -> str:
        """What is wrong, if anything."""
        return self.field or "sound"

    @property
    def area(self) -> str:
        """The area of the version."""
        return "ab"[self.version % 2]

    @property
    def entries_offset(self) -> int:
        """Where the partitions begin."""
        return self.area_offset + RECORD.size + SYMBOL.size * len(self.symbols) + 4

    def numbers(self) -> dict[str, Any]:
        """Return the fields of the record."""
        usual: dict[str, Any] = {
            name: number * 1_000_003 - (1 << 33) for number, name in enumerate(RECORD_NAMES[:11], 5)
        }
        usual |= {name: number * 7 - 40 for number, name in enumerate(RECORD_NAMES[11:14], 1)}
        usual |= {"lag_min_timestamp": -(1 << 62), "lag_max_timestamp": 1 << 61, "left_over": bytes(range(1, 13))}
        usual |= {"txn": self.version, "transient_row_count": self.transient_row_count}
        usual["fixed_row_count"] = sum(each.row_count for each in self.entries[:-1])
        numbers = {**usual, "symbol_column_count": len(self.symbols), **self.record}
        return numbers if "lag_checksum" in self.record else with_lag_checksum(numbers)

    def content(self) -> bytes:
        """Return the bytes; between header and area there is garbage."""
        symbols_size, entries_size = SYMBOL.size * len(self.symbols), ENTRY.size * len(self.entries)
        slot = {"record_offset": self.area_offset, "symbols_size": symbols_size, "partitions_size": entries_size}
        slot |= self.header
        other = (1 << 30, -5, 7)
        slots = (tuple(slot.values()), other) if self.area == "a" else (other, tuple(slot.values()))
        numbers = self.numbers()
        stored = entries_size if self.stored_size is None else self.stored_size
        area = RECORD.pack(*(numbers[name] for name in RECORD_NAMES))
        area += b"".join(SYMBOL.pack(*each) for each in self.symbols) + struct.pack("<i", stored)
        area += b"".join(
            ENTRY.pack(each.timestamp, each.row_count | each.flags, each.name_txn, each.token) for each in self.entries
        )
        head = HEADER.pack(self.version, *slots[0], *slots[1])
        whole = head + bytes([GARBAGE]) * (self.area_offset - len(head)) + area
        # What is behind belongs to nobody.
        return whole[: len(whole) - self.less_bytes] if self.less_bytes else whole + bytes([GARBAGE]) * 9


def with_lag_checksum(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the polynomial of the lag's, whose halves are folded."""
    names = ("lag_min_timestamp", "lag_max_timestamp", "txn", "seq_txn", "lag_row_count", "lag_txn_count")
    of_lag = sum(fields[name] * 31**power for power, name in enumerate(reversed(names))) & (1 << 64) - 1
    (folded,) = struct.unpack("<i", struct.pack("<I", of_lag >> 32 ^ of_lag & 0xFFFFFFFF))
    return {**fields, "lag_checksum": folded}


def of_entries(entries: Sequence[Entry], **record: int) -> TransactionFile:
    """Return a version without symbols that has these partitions, and says the same of the last one's rows."""
    last = entries[-1].row_count if entries else 0
    if not entries:
        record = {**NO_TIMES, **record}
    return TransactionFile(name="", entries=tuple(entries), transient_row_count=last, symbols=(), record=record)


@functools.cache
def transaction_files() -> tuple[TransactionFile, ...]:
    """Return all files, always in the same order."""
    return (*_sound(), *_wrong())


def problem_of(file: TransactionFile) -> str | None:
    """Say what is wrong with how a file is read, from bytes and beside a writer; None if nothing is."""
    content = file.content()
    readers: tuple[tuple[str, Callable[[], Transaction]], ...] = (
        ("from its bytes", lambda: decode_transaction(content, file=FILE)),
        ("beside a writer", lambda: safe_read(DiskImage.of_files({PATH: content}), PATH, file=FILE)),
    )
    for how, reader in readers:
        try:
            found = _facts(reader())
        except ProblemError as error:
            problem = error.problem
            if type(error) is not file.error or (problem.field, problem.offset_bytes) != (
                file.field,
                file.offset_bytes,
            ):
                return f"read {how}, it is rejected: {error}"
            continue
        if file.error is not None:
            return f"read {how}, it is taken for {found}"
        expected = _expected(file)
        if wrong := next((name for name, value in expected.items() if found.get(name) != value), None):
            return f"read {how}, {wrong} is {found.get(wrong)}, and should be {expected[wrong]}"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that look at no area and at no record, and of a flag in another bit."""
    controls: Controls = (
        (
            "every area is taken",
            "tornproof.impl.txn.transaction:check_area",
            lambda *_, **__: None,
            "read from its bytes, it is rejected: ",
        ),
        ("every record is taken", "tornproof.impl.txn.transaction:_check_record", lambda *_: None, "it is taken for"),
        (
            "another flag says what is in Parquet",
            "tornproof.impl.layout.txn:PARQUET_FORMAT",
            PARQUET_GENERATED,
            "partition 1 is",
        ),
        ("nothing is read beside writers", f"{__name__}:safe_read", _reject, "read beside a writer, it is rejected: "),
    )
    return not_noticed(controls, problem_of, transaction_files())


def _reject(*_: object, file: str) -> NoReturn:
    raise CorruptError(file, "area", 0, "another one", "this one")


def _facts(transaction: Transaction) -> dict[str, Any]:
    found: dict[str, Any] = {"version": transaction.version}
    found |= {name: getattr(transaction.record, name) for name in RECORD_NAMES}
    found["symbols"] = [(each.count, each.transient_count) for each in transaction.symbol_counts]
    for number, each in enumerate(transaction.partitions):
        found[f"partition {number}"] = (
            *(each.timestamp, each.row_count, each.flags, each.name_txn, each.token, each.next_timestamp),
            *(each.is_parquet, each.parquet_was_generated),
            *(each.entry_offset_bytes, each.row_count_offset_bytes, each.flags_offset_bytes, each.token_offset_bytes),
        )
    return found | {"partitions": len(transaction.partitions)}


def _expected(file: TransactionFile) -> dict[str, Any]:
    found: dict[str, Any] = {"version": file.version, **file.numbers(), "symbols": list(file.symbols)}
    for number, each in enumerate(file.entries):
        at, is_last = file.entries_offset + ENTRY.size * number, number == len(file.entries) - 1
        found[f"partition {number}"] = (
            *(each.timestamp, file.transient_row_count if is_last else each.row_count, each.flags),
            *(each.name_txn, each.token, None if is_last else file.entries[number + 1].timestamp),
            *(bool(each.flags >> PARQUET_BIT & 1), bool(each.flags >> GENERATED_BIT & 1)),
            *(at, file.area_offset + 8 if is_last else at + 8, at + 8, at + 24),
        )
    return found | {"partitions": len(file.entries)}


def _entries(count: int, version: int = 6) -> tuple[Entry, ...]:
    flags = (0, 1 << PARQUET_BIT, 1 << GENERATED_BIT, 3 << GENERATED_BIT, 5 << SQUASH_BIT, 1 << 62, 1 << 63)
    rows = (1, 0, (1 << ROW_BITS) - 1, 1 << 33)
    return tuple(
        Entry(
            timestamp=(number - 2) * 86_400_000_000 + number,
            row_count=rows[number % len(rows)],
            flags=flags[number % len(flags)],
            name_txn=min(number * 3, version) - 1,
            token=(number << 32) - 1,
        )
        for number in range(count)
    )


def _sound() -> Iterator[TransactionFile]:
    for version in (0, 1, 6, 7, (1 << 62) + 1):
        for count in (0, 1, 2, 3, 9):
            entries = _entries(count, version)
            yield TransactionFile(name=f"version {version}, {count} partitions", version=version, entries=entries)
    for offset in (FIRST_AREA + 4, FIRST_AREA + 8, 4096, (1 << 16) + 64):
        for version in (6, 7):
            yield TransactionFile(
                name=f"version {version} at byte {offset}", version=version, area_offset=offset, entries=_entries(2)
            )
    for symbols in ((), ((0, 0),), ((1, 2),) * 20):
        yield TransactionFile(name=f"{len(symbols)} columns of symbols", symbols=symbols, entries=_entries(3))
    for transient in (0, 1, (1 << ROW_BITS) + 5):
        yield TransactionFile(
            name=f"{transient} rows in the last one", transient_row_count=transient, entries=_entries(2)
        )


def _wrong() -> Iterator[TransactionFile]:
    """Yield files that break one rule each, in both areas."""
    for version in (6, 7):
        sound = TransactionFile(name="", version=version, entries=_entries(3))
        slot, area = 8 + 24 * (version % 2), sound.area.upper()
        for name, changes in (
            ("record_offset", (0, FIRST_AREA - 8, FIRST_AREA + 2, -8, -(1 << 31), 1 << 20)),
            ("symbols_size", (-(1 << 31), -8, 4, 12)),
            ("partitions_size", (-(1 << 31), -32, 16, 33)),
        ):
            at = slot + 4 * ("record_offset", "symbols_size", "partitions_size").index(name)
            for value in changes:
                yield _broken(sound, f"{area}_{name.upper()}", at, f"{value} as its {name}", header={name: value})
        for more in (1, 4):
            yield _broken(sound, f"{area}_RECORD_OFFSET", slot, f"{more} bytes too few", less_bytes=more)
        record = sound.area_offset
        yield _broken(sound, "TXN", record, "the record of another version", record={"txn": version - 2})
        yield _broken(sound, "TRANSIENT_ROW_COUNT", record + 8, "fewer rows than none", transient_row_count=-1)
        for more in (-1, 1):
            count = len(sound.symbols) + more
            at = record + RECORD.size - 4
            yield _broken(
                sound, "SYMBOL_COLUMN_COUNT", at, f"{more} columns more", record={"symbol_column_count": count}
            )
            fixed = sound.numbers()["fixed_row_count"] + more
            yield _broken(sound, "FIXED_ROW_COUNT", record + 16, f"{more} rows more", record={"fixed_row_count": fixed})
            size = ENTRY.size * (len(sound.entries) + more)
            yield _broken(sound, "PARTITIONS_SIZE", sound.entries_offset - 4, f"{more} entries more", stored_size=size)
        for step in (0, -1):
            entries = (*sound.entries[:2], replace(sound.entries[2], timestamp=sound.entries[1].timestamp + step))
            at = sound.entries_offset + 2 * ENTRY.size
            yield _broken(sound, "TIMESTAMP of a partition", at, f"a partition that is {step} later", entries=entries)
        for more in (0, 1):
            entries = (*sound.entries[:2], replace(sound.entries[2], name_txn=version + more))
            at = sound.entries_offset + 2 * ENTRY.size + 16
            yield _broken(sound, "NAME_TXN", at, f"a directory of {more} versions later", entries=entries)
        too_many = (RECORD_BYTES_MAX - RECORD.size - 16 - 4) // ENTRY.size + 1
        many = _entries(1) * too_many
        yield replace(
            _broken(sound, f"{area}_PARTITIONS_SIZE", slot, "more than a record may have", entries=many),
            error=UnsupportedError,
        )
    yield _broken(TransactionFile(name="", version=-2), "VERSION", 0, "a version before the first one")


def _broken(sound: TransactionFile, name: str, offset_bytes: int, words: str, **changes: Any) -> TransactionFile:
    words = f"{words}, in version {sound.version}"
    return replace(sound, name=words, error=CorruptError, field=name, offset_bytes=offset_bytes, **changes)
